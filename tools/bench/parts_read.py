# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmark that read: gets cold, out of the page cache and cached; mget; latency
while others write."""
import json
import subprocess

from daemon import Constant, Failure, cpu, drop_page_cache, end, run

# CPU of a get whose block is in the page cache, against the constant answer.
WANT_GET = {"apache": "<= 7", "apache_real": "<= 7", "kubernetes": "<= 7", "taxis": "<= 7",
            "nginx": "<= 9", "products": "<= 10"}
WANT_CACHED = "<= 2.6"
COLD_ROUNDS, COLD_GETS = 10, 10


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


def report_gets(b, corpus, what, rows, want=""):
    cost = [r["cpu"] / r["requests"] * 1e6 for r in rows]
    b.report.row(corpus.name, f"{what}: CPU", cost, "µs",
                 [c / r["reference"] for c, r in zip(cost, rows)], "constant 1 KB", want)
    b.report.row(corpus.name, f"{what}: wall", [r["seconds"] / r["requests"] * 1e6 for r in rows],
                 "µs")
    b.report.row(corpus.name, f"{what}: p50", [r["p50_us"] for r in rows], "µs")
    b.report.row(corpus.name, f"{what}: p99", [r["p99_us"] for r in rows], "µs")


def measure_cold(b, corpus, daemon):
    """A few gets after each emptying of the page cache: read-ahead soon has the whole file."""
    rows = []
    for n in range(COLD_ROUNDS):
        how = drop_page_cache(daemon.path)
        rows.append(daemon.load("get", b.ids, "--requests", COLD_GETS, "--seed", 100 + n))
    if how != "drop_caches":
        b.report.skip("gets with the catalog cold, too: /proc/sys/vm/drop_caches may not be "
                      "written; the other files were dropped one by one")
    b.report.row(corpus.name, "cold, 1 conn.: p50", [r["p50_us"] for r in rows], "µs")
    b.report.row(corpus.name, f"cold, 1 conn.: slowest of {COLD_GETS}",
                 [r["max_us"] for r in rows], "µs")


def part_get(b):
    requests = b.scaled(10000 if b.o.quick else 30000)
    b.report.begin("get", f"{requests} random documents a round on keep-alive connections; "
                          "constant 1 KB: the same libmicrohttpd")
    for corpus in b.corpora:
        with Constant(b.o.build, 2) as constant:
            with b.daemon(storage__cache__size="0") as daemon:
                b.fill(daemon, corpus)
                daemon.load("get", b.ids, "--requests", 2000)
                for connections, want in ((16, WANT_GET.get(corpus.name, "")), (1, "")):
                    rows = measure_gets(b, daemon, constant, connections, requests)
                    report_gets(b, corpus, f"in page cache, {connections} conn.", rows, want)
                    b.report.row(corpus.name, f"constant, {connections} conn.: CPU",
                                 [r["reference"] for r in rows], "µs")
                measure_cold(b, corpus, daemon)
            with b.daemon(storage__cache__size="1gb") as daemon:
                b.fill(daemon, corpus)
                daemon.load("get", b.ids, "--requests", 20000)
                for connections, want in ((16, WANT_CACHED), (1, "")):
                    rows = measure_gets(b, daemon, constant, connections, requests)
                    report_gets(b, corpus, f"block cached, {connections} conn.", rows, want)


def part_mget(b):
    b.report.begin("mget", "random documents, default settings, 1 connection")
    for corpus in b.corpora[:1] if b.o.quick else b.corpora:
        rows = {10: [], 100: [], 1000: []}
        with b.daemon() as daemon:
            b.fill(daemon, corpus)
            for n in range(b.rounds):
                for docs, out in rows.items():
                    requests = max(1, b.scaled(5000 if b.o.quick else 50000) // docs)
                    out.append(daemon.load("mget", b.ids, "--docs", docs, "--requests", requests,
                                           "--seed", n + 1))
        for docs, of in rows.items():
            b.report.row(corpus.name, f"mget of {docs}: CPU a document",
                         [r["cpu"] / r["requests"] / docs * 1e6 for r in of], "µs")
            for key in ("p50", "p99"):
                b.report.row(corpus.name, f"mget of {docs}: {key}", [r[f"{key}_us"] for r in of],
                             "µs")


def gets_while_loading(b, daemon, corpus, gets, seconds):
    """Gets while 2 connections load all they can: the gets, and MB/s of the load."""
    flow = subprocess.Popen(
        [f"{b.o.build}/tools/bench/load", "bulk", str(daemon.port), "flow", corpus.path,
         "--connections", "2", "--seconds", str(seconds + 1)], stdout=subprocess.PIPE, text=True)
    try:
        row = daemon.load(*gets)
        result = json.loads(flow.communicate(timeout=seconds + 120)[0] or "{}")
    except subprocess.TimeoutExpired:
        raise Failure("the load beside the gets does not end") from None
    finally:
        if flow.poll() is None:
            flow.terminate()
            end(flow)
    if flow.returncode != 0 or result.get("failed", 1):
        raise Failure("the load beside the gets failed")
    return row, result["raw_bytes"] / result["seconds"] / 1e6


def part_latency(b):
    seconds = b.scaled(5 if b.o.quick else 20)
    b.report.begin("latency", "200 random gets a second, due times fixed, alone and while 2 "
                              "connections load all they can")
    for corpus in b.corpora[:1]:
        with b.daemon() as daemon:
            b.fill(daemon, corpus)
            daemon.create("flow", "default")
            gets = ("get", b.ids, "--rate", 200, "--connections", 16, "--seconds", seconds)
            idle, loaded, rates = [], [], []
            for n in range(b.rounds):
                daemon.settle()
                idle.append(daemon.load(*gets, "--seed", n + 1))
                row, rate = gets_while_loading(b, daemon, corpus, gets + ("--seed", n + 1), seconds)
                loaded.append(row)
                rates.append(rate)
        for what, rows, want in (("idle", idle, ""), ("full ingest", loaded, "<= 5")):
            for key in ("p50", "p99", "p999", "max"):
                b.report.row(corpus.name, f"{what}: {key}", [r[f"{key}_us"] / 1e3 for r in rows],
                             "ms", want=want if key == "p99" else "")
        b.report.row(corpus.name, "ingest meanwhile", rates, "MB/s")


PARTS = {"get": part_get, "mget": part_mget, "latency": part_latency}
