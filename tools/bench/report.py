# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: printed one line each as they come, kept for the JSON file."""
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


class Report:
    def __init__(self, options):
        self.options = options
        self.machine = machine()
        self.rows = []
        self.part = None

    def begin(self, part, text):
        self.part = part
        print(f"\n== {part}: {text}")
        print(f"{'corpus':12} {'what':44} {'median':>8} {'unit':8} {'least..most':>15} "
              f"{'ratio':>6}  to (wanted)")

    def row(self, corpus, what, values, unit, ratio=None, to="", want=""):
        """values and ratio: one number, or one for each round."""
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
                          "to": to, "wanted": want})

    def note(self, text):
        print(text, flush=True)

    def write(self, path):
        with open(path + ".tmp", "w") as f:
            json.dump({"machine": self.machine, "options": self.options, "rows": self.rows}, f,
                      indent=1)
            f.write("\n")
        os.rename(path + ".tmp", path)
