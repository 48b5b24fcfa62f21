#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark: loads corpora over HTTP into a daemon of its own and prints every figure beside a
reference that was measured in the same run, because machines differ and are noisy.

    bench.py [--build DIR] [--corpus NAME...] [--rounds N] [--mb N] [--docs N] [--part NAME...]
             [--quick] [--json FILE] [--data DIR] [--shared DIR]

MB are 10^6 bytes of raw JSON; CPU is all threads of the daemon, user and system. A figure is the
median of the rounds; least and most are printed beside it. The table at the end has the figures
with a target. A part that fails says so and the others go on; the exit status is 1 then. A target
that is missed is no failure. docs/benchmark.md says how each figure is measured.
"""
import argparse
import collections
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import corpus as corpora_of  # noqa: E402
import parts_read  # noqa: E402
import parts_small  # noqa: E402
import parts_write  # noqa: E402
import stages  # noqa: E402
from daemon import Daemon, Failure, folder_bytes, run  # noqa: E402
from report import Report  # noqa: E402

Corpus = collections.namedtuple("Corpus", "name path docs raw")

ALL = "apache apache_real nginx nginx_real kubernetes products taxis".split()
PARTS = {**parts_write.PARTS, **parts_read.PARTS, **parts_small.PARTS, **stages.PARTS}
# In the order in which they run.
FULL = ("ingest size peers get mget latency workers put memory bulk ids overwrite growth indices "
        "codecs stages").split()
QUICK = "ingest size get mget latency put memory".split()
DISK_GB = {"full": 5, "quick": 2, "tiny": 1}
UNITS = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


class Bench:
    def __init__(self, o):
        self.o = o
        self.rounds, self.mb = o.rounds, o.mb
        self.report = Report(vars(o))
        self.corpora = []
        self.nodes = 0
        os.makedirs(f"{o.data}/corpora", exist_ok=True)
        for name in o.corpus:
            try:
                path, source = corpora_of.provide(name, o.shared, f"{o.data}/corpora")
            except (OSError, subprocess.SubprocessError) as e:
                path, source = None, str(e)
            if path is None:
                self.report.skip(f"corpus {name}: {source}")
                continue
            corpus = self.corpus(name, path)
            self.corpora.append(corpus)
            self.report.note(f"corpus {name}: {corpus.docs} documents, {corpus.raw / 1e6:.1f} MB, "
                             f"{source}")
        if not self.corpora:
            raise Failure("no corpus")

    def corpus(self, name, path):
        with open(path, "rb") as f:
            data = f.read()
        docs = data.count(b"\n")
        return Corpus(name, path, docs, len(data) - docs)

    def drift(self):
        """A corpus whose documents change shape halfway; none in a quick run."""
        by_name = {c.name: c for c in self.corpora}
        pair = [by_name[n] for n in ("nginx", "kubernetes") if n in by_name]
        pair = pair if len(pair) == 2 else self.corpora[:2]
        if self.o.quick or len(pair) < 2:
            return []
        path = f"{self.o.data}/corpora/drift.ndjson"
        corpora_of.join(path, [c.path for c in pair])
        return [self.corpus("drift", path)]

    def daemon(self, **settings):
        self.nodes += 1
        return Daemon(self.o.build, f"{self.o.data}/node-{self.nodes}", **settings)

    def refs(self, *argv):
        return [json.loads(line)
                for line in run(f"{self.o.build}/tools/bench/refs", *argv).splitlines()]

    def zstd(self, corpus, piece_kb):
        """libzstd level 3 alone on the same bytes, one thread."""
        return self.refs("plain", corpus.path, "zstd", 3, piece_kb)[0]

    def passes(self, corpus, mb=None):
        return max(1, math.ceil((mb or self.mb) * 1e6 / corpus.raw))

    def scaled(self, count):
        return max(1, count // 20) if self.o.tiny else count

    def folder(self, path, but=()):
        return folder_bytes(path, but) / 1e6

    def default_mb(self, name):
        """Default of a setting that is a size, in MB; None: there is no such setting."""
        found = re.search(rf"^\s*{re.escape(name)} = (\d+)(kb|mb|gb)$",
                          run(f"{self.o.build}/stowd", "--help"), re.M)
        return int(found.group(1)) * UNITS[found.group(2)] / 1e6 if found else None

    @property
    def ids(self):
        return f"{self.o.data}/ids"

    def fill(self, daemon, corpus, index="held", codec="default", **settings):
        """One pass of the corpus, in full blocks; its ids in self.ids."""
        daemon.create(index, codec, **settings)
        result = daemon.load("bulk", index, corpus.path, "--save-ids", self.ids)
        daemon.compact(index)
        return result


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where stowd and tools/bench were built")
    parser.add_argument("--corpus", nargs="+", metavar="NAME", help="of: " + " ".join(ALL))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--mb", type=int, help="raw MB of a round of ingest")
    parser.add_argument("--docs", type=int, help="documents of the part ids")
    parser.add_argument("--overwrites", type=int, help="documents of the part overwrite, over a "
                                                       "tenth as many ids")
    parser.add_argument("--millions", type=int, help="steps of a million documents in growth")
    parser.add_argument("--part", nargs="+", choices=PARTS, metavar="NAME",
                        help="of: " + " ".join(FULL))
    parser.add_argument("--quick", action="store_true",
                        help="one round of 200 MB and fewer parts: some three minutes")
    parser.add_argument("--tiny", action="store_true",
                        help="all parts at sizes that show that they work; figures mean nothing")
    parser.add_argument("--json", help="default: bench.json in the build folder")
    parser.add_argument("--data", help="folder for data, which goes; default: bench-data in the "
                                       "build folder")
    parser.add_argument("--shared", default=os.environ.get("STOWD_SHARED", "../shared") + "/data",
                        help="where corpora lie as NAME.ndjson.zst")
    o = parser.parse_args()
    small = o.quick or o.tiny
    o.corpus = o.corpus or ("apache nginx products".split() if o.quick else
                            "apache_real nginx_real".split() if o.tiny else ALL)
    o.rounds = o.rounds or (1 if small else 5)
    o.mb = o.mb or (2 if o.tiny else 200 if o.quick else 1024)
    o.docs = o.docs or (20000 if o.tiny else 200000 if o.quick else 5000000)
    o.overwrites = o.overwrites or (20000 if o.tiny else 200000 if o.quick else 1000000)
    o.millions = o.millions or (4 if small else 20)
    o.step = 10000 if o.tiny else 1000000
    o.part = o.part or (QUICK if o.quick else FULL)
    o.json = o.json or f"{o.build}/bench.json"
    o.data = os.path.abspath(o.data or f"{o.build}/bench-data")
    return o


def prepare(folder, need_gb):
    """A folder of this run's own below folder, with space for what a run needs. What runs that were
    killed left there goes."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        pid = name.removeprefix("run-")
        if name != pid and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    free = shutil.disk_usage(folder).free / 1e9
    if free < need_gb:
        raise Failure(f"{folder}: {free:.1f} GB are free, {need_gb} are needed (--data)")
    own = os.path.join(folder, f"run-{os.getpid()}")
    shutil.rmtree(own, ignore_errors=True)
    os.makedirs(own)
    return own


def run_parts(bench, names, parts, json_path):
    """One after the other; what fails is noted and the next one runs."""
    for name in names:
        began = time.monotonic()
        try:
            parts[name](bench)
        except Failure as e:
            bench.report.fail(name, str(e))
        except Exception as e:  # a fault of the benchmark must not cost the other parts
            traceback.print_exc()
            bench.report.fail(name, f"{type(e).__name__}: {e}")
        bench.report.seconds[name] = round(time.monotonic() - began, 1)
        bench.report.note(f"-- {name}: {bench.report.seconds[name]:.0f} s")
        bench.report.write(json_path)


def main():
    o = arguments()
    own = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        o.data = prepare(o.data, DISK_GB["tiny" if o.tiny else "quick" if o.quick else "full"])
        own = o.data
        bench = Bench(o)
        run_parts(bench, o.part, PARTS, o.json)
        good = bench.report.finish()
        print(f"also in {o.json}")
        return 0 if good else 1
    except (Failure, OSError) as e:
        return f"bench: {e}"
    except KeyboardInterrupt:
        return 130
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
