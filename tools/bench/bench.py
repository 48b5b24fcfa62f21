#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark: loads corpora over HTTP into a daemon of its own and prints every figure beside a
reference that was measured in the same run, because machines differ and are noisy.

    bench.py [--build DIR] [--corpus NAME...] [--rounds N] [--mb N] [--docs N] [--part NAME...]
             [--quick] [--json FILE] [--data DIR] [--shared DIR]

MB are 10^6 bytes of raw JSON; CPU is all threads of the daemon, user and system. A figure is the
median of the rounds; least and most are printed beside it. "wanted" is what a figure is to reach,
first and later; nothing fails when it does not.
"""
import argparse
import collections
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import corpus as corpora_of  # noqa: E402
from daemon import (Constant, Daemon, Failure, PeakMemory, Threads, cpu,  # noqa: E402
                    folder_bytes, run)
from report import Report  # noqa: E402

Corpus = collections.namedtuple("Corpus", "name path docs raw")

ALL = "apache apache_real nginx nginx_real kubernetes products taxis".split()
WANT_INGEST = {"apache": ">= 0.35, then 0.50", "nginx": ">= 0.45", "kubernetes": ">= 0.40",
               "taxis": ">= 0.45", "products": ">= 0.60"}
WANT_SIZE = {"apache": 0.28, "apache_real": 0.39, "nginx": 0.41, "nginx_real": 0.58,
             "kubernetes": 0.63, "products": 0.84, "taxis": 0.38}
WANT_BEST = {"apache": 0.21, "kubernetes": 0.55, "products": 0.72}
WANT_GET = {"nginx": 9, "products": 10}


class Bench:
    def __init__(self, o):
        self.o = o
        self.rounds, self.mb = o.rounds, o.mb
        self.report = Report(vars(o))
        self.corpora = []
        os.makedirs(f"{o.data}/corpora", exist_ok=True)
        for name in o.corpus:
            path, source = corpora_of.provide(name, o.shared, f"{o.data}/corpora")
            if path is None:
                self.report.note(f"skip: corpus {name}: {source}")
                continue
            with open(path, "rb") as f:
                data = f.read()
            docs = data.count(b"\n")
            self.corpora.append(Corpus(name, path, docs, len(data) - docs))
            self.report.note(f"corpus {name}: {docs} documents, {len(data) / 1e6:.1f} MB, "
                             f"{source}")

    def daemon(self, **settings):
        return Daemon(self.o.build, f"{self.o.data}/node", **settings)

    def refs(self, *argv):
        return [json.loads(line)
                for line in run(f"{self.o.build}/tools/bench/refs", *argv).splitlines()]

    def zstd(self, corpus, piece_kb):
        """libzstd level 3 alone on the same bytes, one thread."""
        return self.refs("zstd", corpus.path, 3, piece_kb)[0]

    def passes(self, corpus, mb=None):
        return max(1, math.ceil((mb or self.mb) * 1e6 / corpus.raw))

    @property
    def ids(self):
        return f"{self.o.data}/ids"

    def fill(self, daemon, corpus, index="held", codec="zstd"):
        """One pass of the corpus, in full blocks; its ids in self.ids."""
        daemon.create(index, codec)
        result = daemon.load("bulk", index, corpus.path, "--save-ids", self.ids)
        daemon.compact(index)
        return result


# ---------------------------------------------------------------- parts

def measure_ingest(b, corpus, daemon, tag, codec):
    """One round: the corpus into fresh indices until there are enough bytes."""
    passes = b.passes(corpus)
    names = [f"{tag}-{n}" for n in range(passes)]
    for name in names:
        daemon.create(name, codec)
    reference = b.zstd(corpus, 256)["mb_per_s"]
    with Threads(daemon) as threads:
        result = daemon.load("bulk", f"{tag}-", corpus.path, "--connections", 2, "--passes", passes)
        daemon.request("POST", "/_flush")
    seconds = sum(threads.seconds.values())
    for name in names:
        daemon.request("DELETE", f"/{name}")
    daemon.settle()
    mb = result["raw_bytes"] / 1e6
    return {"cpu": mb / seconds, "wall": mb / result["seconds"], "ratio": mb / seconds / reference,
            "docs": result["docs"] / result["seconds"] / 1e3, "reference": reference,
            "client": result["client_cpu_seconds"] / result["seconds"],
            "threads": {name: s / mb * 1e3 for name, s in threads.seconds.items()}}


def part_ingest(b):
    b.report.begin("ingest", "_bulk of 5 MB from 2 connections, ids by the daemon, durable; CPU "
                             "includes a _flush at the end")
    for corpus in b.corpora:
        for codec in ["zstd"] + ["best_compression"] * (corpus.name == "apache"):
            with b.daemon() as daemon:
                rounds = [measure_ingest(b, corpus, daemon, f"round{n}", codec)
                          for n in range(b.rounds + 1)][1:]
            column = {key: [r[key] for r in rounds] for key in rounds[0]}
            want = WANT_INGEST.get(corpus.name, "") if codec == "zstd" else ">= 0.25"
            b.report.row(corpus.name, f"{codec}: daemon CPU", column["cpu"], "MB/s",
                         column["ratio"], "libzstd 3, 256 KB", want)
            b.report.row(corpus.name, f"{codec}: wall", column["wall"], "MB/s")
            b.report.row(corpus.name, f"{codec}: wall", column["docs"], "kdoc/s")
            b.report.row(corpus.name, "libzstd 3 alone", column["reference"], "MB/s")
            b.report.row(corpus.name, "client's share of a core", column["client"], "")
            for name in sorted(rounds[0]["threads"]):
                b.report.row(corpus.name, f"{codec}: threads {name}",
                             [r["threads"].get(name, 0) for r in rounds], "ms/MB")


def part_workers(b):
    b.report.begin("workers", "the same with one worker thread and with two")
    for corpus in b.corpora[:1]:
        wall = {}
        for workers in (1, 2):
            with b.daemon(storage__workers=workers) as daemon:
                rounds = [measure_ingest(b, corpus, daemon, f"round{n}", "zstd")
                          for n in range(b.rounds + 1)][1:]
            wall[workers] = [r["wall"] for r in rounds]
        b.report.row(corpus.name, "one worker: wall", wall[1], "MB/s")
        b.report.row(corpus.name, "two workers: wall", wall[2], "MB/s",
                     statistics.median(wall[2]) / statistics.median(wall[1]), "one worker",
                     ">= 1.1")


def part_size(b):
    b.report.begin("size", "bytes a document after _flush and _forcemerge: segments and live "
                           "catalog entries")
    with b.daemon() as daemon:
        data = f"{daemon.path}/data"
        b.report.row("", "empty node: log", folder_bytes(f"{data}/wal") / 1e6, "MB")
        b.report.row("", "empty node: the rest", folder_bytes(data, but=("wal",)) / 1e6, "MB",
                     want="<= 1 MB")
    for corpus in b.corpora:
        plain = b.zstd(corpus, 64)["bytes_per_doc"]
        peers = {peer["name"]: peer for peer in b.refs("peers", corpus.path)}
        opensearch = peers["OpenSearch zstd 3"]["bytes_per_doc"]
        for codec, reference, to, want in (
                ("zstd", plain, "plain zstd 3, 64 KB", "<= 1.05"),
                ("default", opensearch, "OpenSearch zstd 3", WANT_SIZE.get(corpus.name)),
                ("best_compression", opensearch, "OpenSearch zstd 3", WANT_BEST.get(corpus.name)),
                ("lz4", peers["Lucene LZ4"]["bytes_per_doc"], "Lucene LZ4", None)):
            with b.daemon() as daemon:
                b.fill(daemon, corpus, "size", codec)
                stow = daemon.stow("size")
            size = (stow["disk_bytes"] + stow["catalog_bytes"]) / corpus.docs
            b.report.row(corpus.name, f"stowd {codec}", size, "B/doc", size / reference, to,
                         f"<= {want}" if isinstance(want, float) else want or "")
        b.report.row(corpus.name, "plain zstd 3, 64 KB", plain, "B/doc", plain / opensearch,
                     "OpenSearch zstd 3")
        for name, peer in peers.items():
            b.report.row(corpus.name, f"{name} (model)", peer["bytes_per_doc"], "B/doc",
                         peer["bytes_per_doc"] / opensearch, "OpenSearch zstd 3")
        for name, peer in peers.items():
            b.report.row(corpus.name, f"{name}: encode, codec only", peer["mb_per_s"], "MB/s")
            b.report.row(corpus.name, f"{name}: get, codec only", peer["get_us"], "µs")


def constant_cost(b, constant, connections, requests):
    """CPU of a constant answer, µs."""
    before = cpu(constant.pid)
    run(f"{b.o.build}/tools/bench/load", "url", constant.port, "/", "--connections", connections,
        "--requests", requests)
    return (cpu(constant.pid) - before) / requests * 1e6


def measure_gets(b, daemon, constant, connections, requests):
    """Rounds of random gets, each between two of the constant answer."""
    rows = []
    for n in range(b.rounds):
        before = constant_cost(b, constant, connections, requests)
        row = daemon.load("get", b.ids, "--connections", connections, "--requests", requests,
                          "--seed", n + 1)
        after = constant_cost(b, constant, connections, requests)
        rows.append(dict(row, reference=(before + after) / 2))
    return rows


def report_gets(b, corpus, what, rows, requests, want=""):
    cost = [r["cpu"] / requests * 1e6 for r in rows]
    b.report.row(corpus.name, f"{what}: CPU", cost, "µs",
                 [c / r["reference"] for c, r in zip(cost, rows)], "constant 1 KB", want)
    b.report.row(corpus.name, f"{what}: p50", [r["p50_us"] for r in rows], "µs")
    b.report.row(corpus.name, f"{what}: p99", [r["p99_us"] for r in rows], "µs")


def drop_page_cache():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


def measure_cold(b, corpus, daemon):
    """A few gets after each emptying of the page cache: read-ahead soon has the whole file."""
    rows = []
    for n in range(10):
        try:
            drop_page_cache()
        except OSError as e:
            b.report.note(f"skip: cold gets: {e}")
            return
        rows.append(daemon.load("get", b.ids, "--requests", 10, "--seed", 100 + n))
    b.report.row(corpus.name, "cold, 1 connection: p50", [r["p50_us"] for r in rows], "µs")
    b.report.row(corpus.name, "cold, 1 connection: slowest of 10", [r["max_us"] for r in rows],
                 "µs")


def part_get(b):
    requests = 10000 if b.o.quick else 30000
    b.report.begin("get", f"{requests} random documents a round on keep-alive connections; "
                          "constant 1 KB: the same libmicrohttpd")
    for corpus in b.corpora:
        want = WANT_GET.get(corpus.name, 7)
        with Constant(b.o.build, 2) as constant:
            with b.daemon(storage__cache__size="0") as daemon:
                b.fill(daemon, corpus)
                daemon.load("get", b.ids, "--requests", 2000)
                for connections in (16, 1):
                    rows = measure_gets(b, daemon, constant, connections, requests)
                    report_gets(b, corpus, f"in page cache, {connections} conn.", rows, requests,
                                f"<= 8, then {want}")
                    b.report.row(corpus.name, f"constant, {connections} conn.: CPU",
                                 [r["reference"] for r in rows], "µs")
                measure_cold(b, corpus, daemon)
            with b.daemon(storage__cache__size="1gb") as daemon:
                b.fill(daemon, corpus)
                daemon.load("get", b.ids, "--requests", 20000)
                for connections in (16, 1):
                    rows = measure_gets(b, daemon, constant, connections, requests)
                    report_gets(b, corpus, f"block cached, {connections} conn.", rows, requests,
                                "then <= 2.6")


def part_mget(b):
    b.report.begin("mget", "random documents, default settings, 1 connection")
    for corpus in b.corpora[:1] if b.o.quick else b.corpora:
        with b.daemon() as daemon:
            b.fill(daemon, corpus)
            for docs in (10, 100, 1000):
                requests = (5000 if b.o.quick else 50000) // docs
                rows = [daemon.load("mget", b.ids, "--docs", docs, "--requests", requests, "--seed",
                                    n + 1) for n in range(b.rounds)]
                b.report.row(corpus.name, f"mget of {docs}: CPU a document",
                             [r["cpu"] / requests / docs * 1e6 for r in rows], "µs")
                for key in ("p50", "p99"):
                    b.report.row(corpus.name, f"mget of {docs}: {key}",
                                 [r[f"{key}_us"] for r in rows], "µs")


def part_latency(b):
    seconds = 5 if b.o.quick else 20
    b.report.begin("latency", "200 random gets a second, due times fixed, alone and while 2 "
                              "connections load all they can")
    for corpus in b.corpora[:1]:
        with b.daemon() as daemon:
            b.fill(daemon, corpus)
            daemon.create("flow")
            gets = ("get", b.ids, "--rate", 200, "--connections", 16, "--seconds", seconds)
            idle, loaded, rates = [], [], []
            for n in range(b.rounds):
                daemon.settle()
                idle.append(daemon.load(*gets, "--seed", n + 1))
                flow = subprocess.Popen(
                    [f"{b.o.build}/tools/bench/load", "bulk", str(daemon.port), "flow", corpus.path,
                     "--connections", "2", "--seconds", str(seconds + 1)],
                    stdout=subprocess.PIPE, text=True)
                loaded.append(daemon.load(*gets, "--seed", n + 1))
                result = json.loads(flow.communicate()[0])
                rates.append(result["raw_bytes"] / result["seconds"] / 1e6)
        for what, rows, want in (("idle", idle, ""), ("full ingest", loaded, "<= 20 ms, then 5")):
            for key in ("p50", "p99", "max"):
                b.report.row(corpus.name, f"{what}: {key}", [r[f"{key}_us"] / 1e3 for r in rows],
                             "ms", want=want if key == "p99" else "")
        b.report.row(corpus.name, "ingest meanwhile", rates, "MB/s")


def part_put(b):
    b.report.begin("put", "durable single documents, PUT /index/_doc/id")
    for corpus in b.corpora[:1]:
        with b.daemon() as daemon:
            daemon.create("one")
            rate, sync = {1: [], 16: []}, []
            for n in range(b.rounds):
                sync.append(b.refs("sync", daemon.path)[0]["p50_us"])
                for connections, requests in ((1, 2000), (16, 16000)):
                    result = daemon.load("put", "one", corpus.path, "--connections", connections,
                                         "--requests", requests, "--seed", 1 + n * 2 + connections)
                    rate[connections].append(result["requests"] / result["seconds"])
        b.report.row("", "fdatasync of 4 KB", sync, "µs")
        b.report.row(corpus.name, "1 connection", rate[1], "PUT/s")
        b.report.row(corpus.name, "16 connections", rate[16], "PUT/s",
                     [y / x for x, y in zip(rate[1], rate[16])], "1 connection",
                     ">= 4 where fdatasync takes >= 100 µs")


def part_memory(b):
    b.report.begin("memory", "most RssAnon while 16 connections load 1 GB, default settings")
    for corpus in b.corpora[:1]:
        peaks, rates = [], []
        for _ in range(b.rounds):
            with b.daemon() as daemon:
                idle = daemon.rss_anon()
                daemon.create("load")
                with PeakMemory(daemon) as peak:
                    result = daemon.load("bulk", "load", corpus.path, "--connections", 16,
                                         "--passes", b.passes(corpus, 1000))
                peaks.append(peak.bytes / 1e6)
                rates.append(result["raw_bytes"] / result["seconds"] / 1e6)
        b.report.row("", "after start", idle / 1e6, "MB")
        b.report.row(corpus.name, "peak", peaks, "MB", want="<= 300 MB")
        b.report.row(corpus.name, "wall", rates, "MB/s")


def measure_ids(b, corpus, kind):
    with b.daemon() as daemon:
        daemon.create("ids")
        start = daemon.catalog_bytes()
        with Threads(daemon) as threads:
            result = daemon.load("bulk", "ids", corpus.path, "--connections", 2, "--docs", b.o.docs,
                                 "--ids", kind, "--save-ids", b.ids)
            daemon.request("POST", "/_flush")
        daemon.settle()
        docs = result["docs"]
        grown = (daemon.catalog_bytes() - start) / docs
        daemon.compact("ids")
        stow = daemon.stow("ids")
        gets = daemon.load("get", b.ids, "--connections", 16, "--requests", 10000)
        return {"cpu": result["raw_bytes"] / sum(threads.seconds.values()) / 1e6,
                "wall": result["raw_bytes"] / result["seconds"] / 1e6, "grown": grown,
                "live": stow["catalog_bytes"] / docs, "disk": stow["disk_bytes"] / docs,
                "get": gets["cpu"] / gets["requests"] * 1e6}


def part_ids(b):
    b.report.begin("ids", f"{b.o.docs} documents with ids of three kinds")
    for corpus in b.corpora[:1]:
        made = None
        for kind in ("made", "uuid", "ascending"):
            r = measure_ids(b, corpus, kind)
            made = made or r
            other = kind != "made"
            b.report.row(corpus.name, f"{kind}: bulk, daemon CPU", r["cpu"], "MB/s",
                         r["cpu"] / made["cpu"], "made", ">= 0.6" * other)
            b.report.row(corpus.name, f"{kind}: bulk, wall", r["wall"], "MB/s",
                         r["wall"] / made["wall"], "made")
            b.report.row(corpus.name, f"{kind}: catalog file grew", r["grown"], "B/doc",
                         want="<= 8")
            b.report.row(corpus.name, f"{kind}: live catalog entries", r["live"], "B/doc")
            b.report.row(corpus.name, f"{kind}: id in the block", r["disk"] - made["disk"], "B/doc",
                         want="<= 17" * (kind == "uuid"))
            b.report.row(corpus.name, f"{kind}: get, CPU", r["get"], "µs", r["get"] / made["get"],
                         "made", "<= 1.3" * other)


def part_overwrite(b):
    pool = max(1, b.o.docs // 10)
    b.report.begin("overwrite", f"{b.o.docs} documents over {pool} ids")
    for corpus in b.corpora[:1]:
        with b.daemon() as daemon:
            daemon.create("fresh")
            inserts = daemon.load("bulk", "fresh", corpus.path, "--connections", 2, "--docs",
                                  b.o.docs, "--ids", "ascending")
            daemon.request("DELETE", "/fresh")
            daemon.settle()
            daemon.create("over")
            indices = f"{daemon.path}/data/indices"
            updates = daemon.load("bulk", "over", corpus.path, "--connections", 2, "--docs",
                                  b.o.docs, "--ids", f"pool:{pool}")
            daemon.request("POST", "/_flush")
            settled_s = daemon.settle()
            disk = folder_bytes(indices)
            daemon.compact("over")
            live = daemon.stow("over")["disk_bytes"]
        rate = [r["docs"] / r["seconds"] / 1e3 for r in (inserts, updates)]
        b.report.row(corpus.name, "inserts: wall", rate[0], "kdoc/s")
        b.report.row(corpus.name, "overwrites: wall", rate[1], "kdoc/s", rate[1] / rate[0],
                     "inserts", ">= 0.3")
        b.report.row(corpus.name, "overwrites: daemon CPU", updates["cpu"] / updates["docs"] * 1e6,
                     "µs/doc", updates["cpu"] / inserts["cpu"], "inserts")
        b.report.row(corpus.name, "segments, background settled", disk / 1e6, "MB", disk / live,
                     "after _forcemerge", "<= 2")
        b.report.row(corpus.name, "settled after", settled_s, "s")


def part_growth(b):
    b.report.begin("growth", "one index, a million documents at a time")
    for corpus in b.corpora[:1]:
        with b.daemon() as daemon:
            daemon.create("grow")
            for million in range(1, b.o.millions + 1):
                with PeakMemory(daemon) as peak:
                    r = daemon.load("bulk", "grow", corpus.path, "--connections", 2, "--docs",
                                    1000000, "--save-ids", b.ids)
                gets = daemon.load("get", b.ids, "--requests", 3000)
                what = f"million {million}: "
                b.report.row(corpus.name, what + "daemon CPU", r["raw_bytes"] / r["cpu"] / 1e6,
                             "MB/s")
                b.report.row(corpus.name, what + "most RssAnon", peak.bytes / 1e6, "MB")
                b.report.row(corpus.name, what + "get, CPU", gets["cpu"] / 3000 * 1e6, "µs")
            daemon.compact("grow")
            stow = daemon.stow("grow")
            docs = b.o.millions * 1e6
            b.report.row(corpus.name, "segments", stow["disk_bytes"] / docs, "B/doc")
            b.report.row(corpus.name, "catalog file", daemon.catalog_bytes() / docs, "B/doc")


def part_bulk(b):
    seconds = 1 if b.o.quick else 5
    b.report.begin("bulk", "sizes of a request, 2 connections, durable")
    for corpus in b.corpora[:1]:
        with b.daemon() as daemon:
            for what, size in (("1 document", 1), ("10 KB", 10000), ("100 KB", 100000),
                               ("1 MB", 1000000), ("5 MB", 5000000), ("10 MB", 10000000)):
                daemon.create(f"bulk{size}")
                rows = [daemon.load("bulk", f"bulk{size}", corpus.path, "--connections", 2,
                                    "--bytes", size, "--seconds", seconds)
                        for _ in range(b.rounds)]
                b.report.row(corpus.name, f"{what}: wall",
                             [r["docs"] / r["seconds"] / 1e3 for r in rows], "kdoc/s")
                b.report.row(corpus.name, f"{what}: daemon CPU",
                             [r["raw_bytes"] / r["cpu"] / 1e6 for r in rows], "MB/s")
                b.report.row(corpus.name, f"{what}: p99", [r["p99_us"] / 1e3 for r in rows], "ms")


PARTS = {"ingest": part_ingest, "size": part_size, "get": part_get, "mget": part_mget,
         "latency": part_latency, "put": part_put, "memory": part_memory, "ids": part_ids,
         "overwrite": part_overwrite, "growth": part_growth, "bulk": part_bulk,
         "workers": part_workers}
QUICK = "ingest size get mget latency put memory".split()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where stowd and tools/bench were built")
    parser.add_argument("--corpus", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--mb", type=int, help="raw MB of a round of ingest")
    parser.add_argument("--docs", type=int, help="documents of the parts ids and overwrite")
    parser.add_argument("--millions", type=int, default=5, help="of documents in the part growth")
    parser.add_argument("--part", nargs="+", choices=PARTS, metavar="NAME",
                        help="of: " + " ".join(PARTS))
    parser.add_argument("--quick", action="store_true",
                        help="one round of 200 MB and fewer parts: some three minutes")
    parser.add_argument("--json", help="default: bench.json in the build folder")
    parser.add_argument("--data", help="folder for data; default: bench-data in the build folder")
    parser.add_argument("--shared", default=os.environ.get("STOWD_SHARED", "../shared") + "/data",
                        help="where corpora lie as NAME.ndjson.zst")
    o = parser.parse_args()
    o.corpus = o.corpus or ("apache nginx products".split() if o.quick else ALL)
    o.rounds = o.rounds or (1 if o.quick else 5)
    o.mb = o.mb or (200 if o.quick else 1024)
    o.docs = o.docs or (200000 if o.quick else 1000000)
    o.part = o.part or (QUICK if o.quick else list(PARTS))
    o.json = o.json or f"{o.build}/bench.json"
    o.data = o.data or f"{o.build}/bench-data"
    return o


def main():
    o = arguments()
    bench = Bench(o)
    try:
        for part in o.part:
            PARTS[part](bench)
    except Failure as e:
        sys.exit(f"bench: {e}")
    finally:
        bench.report.write(o.json)
        shutil.rmtree(f"{o.data}/node", ignore_errors=True)
    print(f"\nalso in {o.json}")


if __name__ == "__main__":
    main()
