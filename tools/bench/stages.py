# SPDX-License-Identifier: Apache-2.0
"""Where the CPU of a bulk load goes: a part of the benchmark that samples the daemon with perf,
where that is there, and adds samples up by source file of the function."""
import collections
import glob
import os
import re
import select
import shutil
import signal
import subprocess

from daemon import Failure, end, run

FREQUENCY = 999
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Stage by source file, first match; by library for what is not ours.
STAGES = (
    ("HTTP", r"server/"),
    ("JSON scan", r"storage/json"),
    ("bulk, answers", r"api/"),
    ("columnar packing", r"storage/(shape|value|derive|column|columnar)"),
    ("blocks, rows", r"storage/(block|rows|codec|dict)"),
    ("ids, decisions", r"storage/(decide|write|id|made_id|index)"),
    ("log", r"storage/wal"),
    ("segments, checkpoint, catalog", r"storage/(segment|checkpoint|catalog|compact|io)"),
    ("other of storage", r"storage/|config/"),  # must match what is left
)
LIBRARIES = (("other of stowd", "stowd"), ("zstd", "libzstd"), ("LZ4", "liblz4"), ("checksums, hashes", "libxxhash"),
             ("segments, checkpoint, catalog", "liblmdb"), ("HTTP", "libmicrohttpd"),
             ("kernel: sockets, files", "[kernel"),
             ("libc: copying, comparing, allocating", "libc."))


def functions():
    """{function: source file}, of the source beside this file: the compiler has inlined away what a
    table of symbols would say. A static name that two files have counts for the first stage that
    either belongs to."""
    out = {}
    for room in ("server", "api", "storage", "config"):
        for path in sorted(glob.glob(f"{ROOT}/{room}/*.c")):
            with open(path) as f:
                text = f.read()
            for found in re.finditer(r"^[a-z][\w \t*]*?\b(\w+)\([^;{]*?\)\n\{", text, re.M):
                out.setdefault(found.group(1), os.path.relpath(path, ROOT))
    return out


def stage_of(library, symbol, sources):
    name = symbol.split(".")[0]
    if library == "stowd" and name in sources:
        return next(stage for stage, pattern in STAGES if re.match(pattern, sources[name]))
    if library == "stowd" and name.startswith("XXH"):
        library = "libxxhash"
    elif "@plt" in symbol:
        library = "libc."
    return next((name for name, start in LIBRARIES if library.startswith(start)), library)


def samples(path):
    """[(share, library, symbol)] of what perf recorded."""
    text = run("perf", "report", "-i", path, "--no-children", "-g", "none", "--stdio", "--sort",
               "dso,symbol", "--percent-limit", "0", "-t", "|")
    out = []
    for line in text.splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) >= 3 and cells[0].endswith("%"):
            symbol = re.sub(r"^\[.\] ", "", cells[2])
            out.append((float(cells[0][:-1]), cells[1], symbol))
    if not out:
        raise Failure(f"perf report: no samples, or in a form that is not known: {text[:2000]!r}")
    return out


def record(daemon, path, work):
    """Sample the daemon while work() runs: perf is told to begin and says that it has."""
    control, ack = os.pipe(), os.pipe()
    perf = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-p",
                             str(daemon.pid), "-o", path, "--delay", "-1", "--control",
                             f"fd:{control[0]},{ack[1]}"], pass_fds=(control[0], ack[1]),
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    os.close(control[0])
    os.close(ack[1])
    try:
        began = False
        try:
            os.write(control[1], b"enable\n")
            began = bool(select.select([ack[0]], [], [], 60)[0]) and os.read(ack[0], 16) != b""
        except BrokenPipeError:
            pass
        if began:
            work()
    finally:
        if perf.poll() is None:
            perf.send_signal(signal.SIGINT)  # it writes what was recorded, and ends
        end(perf)
        said = perf.stderr.read()
        perf.stderr.close()
        os.close(control[1])
        os.close(ack[0])
    if not began or not os.path.exists(path):
        raise Failure(f"perf does not begin: {said.strip()[-200:]}")


def part_stages(b):
    b.report.begin("stages", "where daemon CPU goes during _bulk, by sampling; libc is of whoever "
                             "called it")
    if shutil.which("perf") is None:
        b.report.skip("perf (linux-perf) is not installed; the part ingest splits CPU by thread")
        return
    sources = functions()
    shares = {}
    path = f"{b.o.data}/perf.data"
    for corpus in b.corpora:
        with b.daemon() as daemon:
            passes = b.passes(corpus, max(30, min(b.mb, 500)))

            def load():
                daemon.load("bulk", "stages", corpus.path, "--connections", 2, "--passes", passes)
                daemon.request("POST", "/_flush")

            daemon.create("stages", "default")
            try:
                record(daemon, path, load)
                found = samples(path)
            except Failure as e:
                if "perf" not in str(e):
                    raise
                b.report.skip(str(e))
                return
            finally:
                if os.path.exists(path):
                    os.unlink(path)
        stages = collections.Counter()
        for share, library, symbol in found:
            stages[stage_of(library, symbol, sources)] += share
        shares[corpus.name] = stages
        for stage, share in stages.most_common():
            if share >= 0.5:
                b.report.row(corpus.name, stage, share, "%")
    order = sum((collections.Counter(s) for s in shares.values()), collections.Counter())
    b.report.table("Daemon CPU of _bulk by stage, %", ["stage"] + list(shares),
                   [[stage] + [f"{s[stage]:.1f}" for s in shares.values()]
                    for stage, total in order.most_common() if total >= 0.5 * len(shares)])


PARTS = {"stages": part_stages}
