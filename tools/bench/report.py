# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: printed one line each as they come, kept for the JSON file, and at the end
those that have a target in one table."""
import json
import os
import platform
import statistics
import subprocess
import time


def short(value):
    """Three or four digits that matter."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f}"


def machine():
    model = ""
    try:
        with open("/proc/cpuinfo") as f:
            model = next((line.split(":", 1)[1].strip() for line in f
                          if line.startswith(("model name", "CPU part"))), "")
    except OSError:
        pass
    try:
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    except OSError:
        commit = ""
    return {"processor": model, "processors": os.cpu_count(), "kernel": platform.release(),
            "architecture": platform.machine(), "commit": commit,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def judge(measured, want):
    """("<= 0.28" or ">= 1.1") -> reached?, and in words how far it is."""
    op, number = want.split()
    target = float(number)
    reached = measured <= target if op == "<=" else measured >= target
    if reached or target == 0 or measured == 0:
        return reached, "reached" if reached else "missed"
    far = measured / target - 1 if op == "<=" else 1 - measured / target
    return False, f"missed by {far * 100:.1f} %"


class Report:
    def __init__(self, options):
        self.options = options
        self.machine = machine()
        self.rows, self.tables, self.failures, self.skipped, self.seconds = [], [], [], [], {}
        self.part = None
        self.began = time.monotonic()

    def begin(self, part, text):
        self.part = part
        print(f"\n== {part}: {text}")
        print(f"{'corpus':12} {'what':44} {'median':>8} {'unit':8} {'least..most':>15} "
              f"{'ratio':>6}  to (target)", flush=True)

    def row(self, corpus, what, values, unit, ratio=None, to="", want=""):
        """values and ratio: one number, or one for each round. want, like "<= 2.5", is the target
        of the ratio, where there is one, else of the value."""
        values = [float(v) for v in (values if isinstance(values, list) else [values])]
        ratios = [] if ratio is None else ratio if isinstance(ratio, list) else [ratio]
        median = statistics.median(values)
        middle = statistics.median(ratios) if ratios else None
        spread = f"{short(min(values))}..{short(max(values))}" if len(values) > 1 else ""
        print(f"{corpus:12} {what:44} {short(median):>8} {unit:8} {spread:>15} "
              f"{'' if middle is None else format(middle, '.3f'):>6}  "
              f"{to}{f' ({want})' if want else ''}".rstrip(), flush=True)
        self.rows.append({"part": self.part, "corpus": corpus, "what": what, "unit": unit,
                          "median": median, "values": values, "ratio": middle, "ratios": ratios,
                          "to": to, "target": want})

    def table(self, title, head, lines):
        """A table for documents: Markdown, cells are strings."""
        print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for line in lines:
            print("| " + " | ".join(line) + " |")
        print(flush=True)
        self.tables.append({"part": self.part, "title": title, "head": head, "lines": lines})

    def note(self, text):
        print(text, flush=True)

    def skip(self, text):
        self.note(f"skip: {text}")
        self.skipped.append({"part": self.part, "text": text})

    def fail(self, part, text):
        self.note(f"FAILED: part {part}: {text}")
        self.failures.append({"part": part, "text": text})

    def targets(self):
        """The rows with a target, judged."""
        out = []
        for row in self.rows:
            if not row["target"]:
                continue
            measured = row["median"] if row["ratio"] is None else row["ratio"]
            spread = row["values"] if row["ratio"] is None else row["ratios"]
            reached, words = judge(measured, row["target"])
            figure = row["what"]
            if row["ratio"] is not None:
                figure += f" / {row['to']}"
            out.append({"part": row["part"], "corpus": row["corpus"], "figure": figure,
                        "unit": row["unit"] if row["ratio"] is None else "ratio",
                        "measured": measured, "least": min(spread), "most": max(spread),
                        "rounds": len(spread), "target": row["target"], "reached": reached,
                        "words": words})
        return out

    def finish(self):
        """Print the table of targets and what went wrong; true: no part failed."""
        targets = self.targets()
        if targets:
            print(f"\n== targets: median of the rounds\n{'part':10} {'corpus':12} {'figure':56} "
                  f"{'measured':>9} {'least..most':>13} {'unit':7} {'target':>9}  reached?")
        for t in targets:
            form = (lambda v: f"{v:.3f}") if t["unit"] == "ratio" else short
            spread = f"{form(t['least'])}..{form(t['most'])}" if t["rounds"] > 1 else ""
            print(f"{t['part']:10} {t['corpus']:12} {t['figure']:56} {form(t['measured']):>9} "
                  f"{spread:>13} {t['unit']:7} {t['target']:>9}  {t['words']}")
        if targets:
            print(f"{sum(t['reached'] for t in targets)} of {len(targets)} targets reached")
        for s in self.skipped:
            print(f"skipped: {s['part'] or 'start'}: {s['text']}")
        for f in self.failures:
            print(f"FAILED: part {f['part']}: {f['text']}")
        print(f"{time.monotonic() - self.began:.0f} s in all", flush=True)
        return not self.failures

    def write(self, path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path + ".tmp", "w") as f:
            json.dump({"machine": self.machine, "options": self.options, "rows": self.rows,
                       "targets": self.targets(), "tables": self.tables, "skipped": self.skipped,
                       "failures": self.failures, "part_seconds": self.seconds}, f, indent=1)
            f.write("\n")
        os.replace(path + ".tmp", path)
