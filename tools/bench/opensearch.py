#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stowd beside a real OpenSearch node: the same bytes through _bulk and get, side by side.

    opensearch.py [--build DIR] [--corpus NAME...] [--rounds N] [--mb N] [--tiny] [--json FILE]

The node is made of its published artifacts, which Maven fetches into the build folder. Where
Maven, a JDK or the artifacts are not to be had, the comparison is skipped with a message. Rounds of
the two alternate; both processes are up all the time, one of them has work. docs/benchmark.md says
what is counted.
"""
import argparse
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import ALL, Bench, prepare, run_parts  # noqa: E402
from daemon import Failure, Http, end, folder_bytes, process_cpu, run  # noqa: E402
from report import short  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
HEAP = "2g"
STORED = ("fdt", "fdx", "fdm")  # Lucene's stored fields
# Index settings of OpenSearch, beside the codec of stowd that is for the same use.
PAIRS = (("default (LZ4)", {"index.codec": "default"}, "lz4"),
         ("best_compression (DEFLATE)", {"index.codec": "best_compression"}, "best_compression"),
         ("zstd 3", {"index.codec": "zstd", "index.codec.compression_level": 3}, "default"),
         ("zstd 6", {"index.codec": "zstd", "index.codec.compression_level": 6}, "jd_zstd_6"),
         ("zstd_no_dict 3", {"index.codec": "zstd_no_dict", "index.codec.compression_level": 3},
          "zstd_no_dict"))
NO_REFRESH = {"index.number_of_shards": 1, "index.number_of_replicas": 0,
              "index.refresh_interval": "-1"}


class Skip(Exception):
    pass


def artifacts(build):
    """Folder with the node's jars."""
    lib = f"{build}/opensearch/lib"
    pom = f"{HERE}/opensearch/pom.xml"
    done = f"{build}/opensearch/fetched"
    if os.path.exists(done) and os.path.getmtime(done) >= os.path.getmtime(pom):
        return lib
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed (Debian: maven, default-jdk-headless)")
    shutil.rmtree(lib, ignore_errors=True)
    try:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
            f"-DoutputDirectory={os.path.abspath(lib)}", limit_s=900)
    except Failure as e:
        raise Skip(f"the artifacts are not to be had: {e}") from None
    with open(done, "w"):
        pass
    return lib


class OpenSearch(Http):
    """The node in an empty folder, which goes when it ends."""

    def __init__(self, build, path):
        self.build, self.path = build, path
        lib = artifacts(build)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(f"{path}/tmp")
        with open(f"{path}/log", "w") as log:
            self.process = subprocess.Popen(
                ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseG1GC",
                 f"-Djava.io.tmpdir={path}/tmp", "-Dlog4j2.disable.jmx=true", "-cp", f"{lib}/*",
                 f"{HERE}/opensearch/OpenSearchNode.java", path],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.pid = self.process.pid
        try:
            self.port = self._await_port(300)
        except BaseException:
            self.close()
            raise

    def _await_port(self, limit_s):
        seen, until = b"", time.monotonic() + limit_s
        while time.monotonic() < until and self.process.poll() is None:
            if not select.select([self.process.stdout], [], [], 1)[0]:
                continue
            piece = os.read(self.process.stdout.fileno(), 4096)
            seen += piece
            for line in seen.splitlines():
                if line.startswith(b"port ") and seen.endswith(b"\n"):
                    return int(line.split()[1])
            if not piece:
                break
        with open(f"{self.path}/log") as f:
            raise Failure(f"OpenSearch does not start: {f.read()[:500]}")

    def cpu(self):
        return process_cpu(self.pid)

    def settle(self, limit_s=120):
        """A virtual machine is never quite idle: less than a tenth of a core for a second."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            before = self.cpu()
            time.sleep(1)
            if self.cpu() - before < 0.1:
                break
        return time.monotonic() - began

    def close(self):
        if self.process.stdin:
            self.process.stdin.close()
        end(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def make(self, name, settings, dynamic):
        self.request("PUT", f"/{name}", {"settings": {**NO_REFRESH, **settings},
                                         "mappings": {"dynamic": dynamic}})

    def compact(self, name):
        self.request("POST", f"/{name}/_forcemerge?max_num_segments=1")
        self.request("POST", f"/{name}/_refresh")
        self.settle()

    def sizes(self, name):
        """Bytes of stored fields, and of the index."""
        uuid = self.request("GET", f"/{name}/_settings")[name]["settings"]["index"]["uuid"]
        stats = self.request("GET", f"/{name}/_stats/segments?include_segment_file_sizes=true")
        files = stats["indices"][name]["primaries"]["segments"]["file_sizes"]
        stored = sum(size["size_in_bytes"] for kind, size in files.items() if kind in STORED)
        total = folder_bytes(f"{self.path}/data/nodes/0/indices/{uuid}/0/index", apparent=True)
        if not 0 < stored <= total:
            raise Failure(f"OpenSearch counts {stored} bytes of stored fields in {total}")
        return stored, total


def load_round(b, server, corpus, name, save=False):
    """The corpus into an index: CPU until the background is quiet, and wall time until the last
    answer."""
    before = server.cpu()
    more = ["--save-ids", b.ids] if save else []
    result = server.load("bulk", name, corpus.path, "--connections", 2, "--passes",
                         b.passes(corpus), *more)
    server.request("POST", f"/{name}/_flush")
    server.settle()
    mb = result["raw_bytes"] / 1e6
    return {"cpu": mb / (server.cpu() - before), "wall": mb / result["seconds"],
            "docs": result["docs"], "kdoc": result["docs"] / result["seconds"] / 1e3}


def get_rounds(b, server):
    """Random gets of what load_round saved, after as many unmeasured ones."""
    requests = b.scaled(20000)
    rows = [server.load("get", b.ids, "--connections", 16, "--requests", requests, "--seed", n + 1)
            for n in range(b.rounds + 1)][1:]
    return {"get": [r["cpu"] / requests * 1e6 for r in rows], "p50": [r["p50_us"] for r in rows],
            "p99": [r["p99_us"] for r in rows]}


def measure_pair(b, node, daemon, corpus, settings, codec, dynamic=False):
    """Rounds of both, one unmeasured; what is left of the last one is looked at."""
    sides = {"OpenSearch": node, "stowd": daemon}
    rows = {side: [] for side in sides}
    out = {}
    for n in range(b.rounds + 1):
        last = n == b.rounds
        for side, server in sides.items():
            if side == "OpenSearch":
                server.make("pair", settings, dynamic)
            else:
                server.create("pair", codec)
            row = load_round(b, server, corpus, "pair", save=last)
            if n > 0:
                rows[side].append(row)
            if last:
                server.compact("pair")
                out[side] = dict(get_rounds(b, server), docs=row["docs"])
                out[side]["sizes"] = sizes(server)
            server.request("DELETE", "/pair")
    for side in sides:
        for key in ("cpu", "wall", "kdoc"):
            out[side][key] = [r[key] for r in rows[side]]
    return out


def sizes(server):
    if isinstance(server, OpenSearch):
        return server.sizes("pair")
    stow = server.stow("pair")
    return stow["disk_bytes"], stow["disk_bytes"] + stow["catalog_bytes"]


def report_pair(b, corpus, name, codec, pair, model):
    theirs, ours = pair["OpenSearch"], pair["stowd"]
    stored, total = (size / theirs["docs"] for size in theirs["sizes"])
    own = ours["sizes"][1] / ours["docs"]
    us = f"stowd {codec}"
    b.report.row(corpus.name, f"OpenSearch {name}: stored fields", stored, "B/doc",
                 None if model is None else stored / model, "" if model is None else "its model")
    b.report.row(corpus.name, f"OpenSearch {name}: index", total, "B/doc")
    b.report.row(corpus.name, f"{us}: all of it", own, "B/doc", own / total, "OpenSearch's index")
    b.report.row(corpus.name, f"{us}: all of it", own, "B/doc", own / stored, "its stored fields")
    for key, what, unit, ratio in (("cpu", "_bulk, CPU", "MB/s", True),
                                   ("wall", "_bulk, wall", "MB/s", True),
                                   ("kdoc", "_bulk, wall", "kdoc/s", False),
                                   ("get", "get, CPU", "µs", True),
                                   ("p50", "get, p50", "µs", False),
                                   ("p99", "get, p99", "µs", False)):
        b.report.row(corpus.name, f"OpenSearch {name}: {what}", theirs[key], unit)
        b.report.row(corpus.name, f"{us}: {what}", ours[key], unit,
                     [x / y for x, y in zip(ours[key], theirs[key])] if ratio else None,
                     "OpenSearch" if ratio else "")
    return [corpus.name, name, short(stored), short(total), us, short(own)] + [
        f"{short(statistics.median(theirs[key]))} · {short(statistics.median(ours[key]))}"
        for key in ("cpu", "wall", "get")]


def compare(b):
    version = None
    lines = []
    models = {"default (LZ4)": "Lucene LZ4", "best_compression (DEFLATE)": "Lucene DEFLATE",
              "zstd 3": "OpenSearch zstd 3", "zstd 6": "OpenSearch zstd 6",
              "zstd_no_dict 3": "OpenSearch zstd_no_dict 3"}
    with OpenSearch(b.o.build, f"{b.o.data}/opensearch") as node, b.daemon() as daemon:
        version = node.request("GET", "/")["version"]["number"]
        b.report.begin("opensearch", f"OpenSearch {version}, one node, heap {HEAP}, one shard, "
                                     "translog synced before each answer; mapping dynamic: false")
        for corpus in b.corpora:
            model = {p["name"]: p["bytes_per_doc"] for p in b.refs("peers", corpus.path)}
            for name, settings, codec in PAIRS:
                pair = measure_pair(b, node, daemon, corpus, settings, codec)
                lines.append(report_pair(b, corpus, name, codec, pair, model[models[name]]))
            pair = measure_pair(b, node, daemon, corpus, PAIRS[2][1], PAIRS[2][2], dynamic=True)
            lines.append(report_pair(b, corpus, "zstd 3, dynamic mapping", PAIRS[2][2], pair, None))
    b.report.table(f"OpenSearch {version} and stowd, side by side (OpenSearch · stowd)",
                   ["corpus", "OpenSearch", "stored fields, B/doc", "index, B/doc", "stowd",
                    "all, B/doc", "_bulk, MB/s CPU", "_bulk, MB/s wall", "get, µs CPU"], lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--corpus", nargs="+", metavar="NAME", help="of: " + " ".join(ALL))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mb", type=int, help="raw MB of a round; default 200")
    parser.add_argument("--tiny", action="store_true", help="sizes that show that it works")
    parser.add_argument("--json", help="default: bench-opensearch.json in the build folder")
    parser.add_argument("--data", help="folder for data, which goes")
    parser.add_argument("--shared", default=os.environ.get("STOWD_SHARED", "../shared") + "/data")
    o = parser.parse_args()
    o.quick = False
    o.corpus = o.corpus or (["nginx_real"] if o.tiny else ALL)
    o.rounds = 1 if o.tiny else o.rounds
    o.mb = o.mb or (2 if o.tiny else 200)
    o.json = o.json or f"{o.build}/bench-opensearch.json"
    o.data = os.path.abspath(o.data or f"{o.build}/bench-data")
    return o


def main():
    o = arguments()
    own = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        artifacts(o.build)
        own = o.data = prepare(o.data, 4)
        bench = Bench(o)
        run_parts(bench, ["opensearch"], {"opensearch": compare}, o.json)
        good = bench.report.finish()
        print(f"also in {o.json}")
        return 0 if good else 1
    except Skip as e:
        print(f"skip: bench-opensearch: {e}")
        return 0
    except (Failure, OSError) as e:
        return f"bench-opensearch: {e}"
    except KeyboardInterrupt:
        return 130
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
