# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmark that write: rates, CPU, memory, growth."""
import statistics

from daemon import Failure, PeakMemory, Threads, folder_bytes

WANT_INGEST = {"apache": ">= 0.50", "nginx": ">= 0.45", "kubernetes": ">= 0.40",
               "taxis": ">= 0.45", "products": ">= 0.60"}
MEMORY_BESIDE_BUDGETS_MB = 100
BUDGETS = "http.max_in_flight storage.cache.size storage.ids.memory".split()


def ingest_round(b, corpus, daemon, tag, codec, mb=None, **settings):
    """One round: the corpus into a fresh index, again and again until there are enough bytes."""
    daemon.create(tag, codec, **settings)
    with Threads(daemon) as threads:
        result = daemon.load("bulk", tag, corpus.path, "--connections", 2, "--passes",
                             b.passes(corpus, mb))
        daemon.request("POST", "/_flush")
        daemon.settle()
    seconds = sum(threads.seconds.values())
    daemon.request("DELETE", f"/{tag}")
    daemon.settle()
    mb = result["raw_bytes"] / 1e6
    return {"cpu": mb / seconds, "wall": mb / result["seconds"],
            "docs": result["docs"] / result["seconds"] / 1e3,
            "client": result["client_cpu_seconds"] / result["seconds"],
            "threads": {name: s / mb * 1e3 for name, s in threads.seconds.items()}}


def measured_ingest(b, corpus, daemon, tag, codec):
    """The same between two rounds of libzstd alone."""
    before = b.zstd(corpus, 256)["mb_per_s"]
    out = ingest_round(b, corpus, daemon, tag, codec)
    out["reference"] = (before + b.zstd(corpus, 256)["mb_per_s"]) / 2
    out["ratio"] = out["cpu"] / out["reference"]
    return out


def part_ingest(b):
    b.report.begin("ingest", "_bulk of 5 MB from 2 connections, ids by the daemon, durable; CPU "
                             "until the background is quiet after a _flush")
    for corpus in b.corpora:
        codecs = ["default"] + ["best_compression"] * (corpus.name == "apache")
        with b.daemon() as daemon:
            rounds = {codec: [] for codec in codecs}
            for n in range(b.rounds + 1):  # one unmeasured
                for codec in codecs:
                    row = measured_ingest(b, corpus, daemon, f"r{n}-{codec}", codec)
                    if n > 0:
                        rounds[codec].append(row)
        for codec in codecs:
            report_ingest(b, corpus, codec, rounds[codec])


def report_ingest(b, corpus, codec, rounds):
    column = {key: [r[key] for r in rounds] for key in rounds[0]}
    want = WANT_INGEST.get(corpus.name, "") if codec == "default" else ">= 0.25"
    b.report.row(corpus.name, f"{codec}: daemon CPU", column["cpu"], "MB/s", column["ratio"],
                 "libzstd 3, 256 KB", want)
    b.report.row(corpus.name, f"{codec}: wall", column["wall"], "MB/s")
    b.report.row(corpus.name, f"{codec}: wall", column["docs"], "kdoc/s")
    b.report.row(corpus.name, "libzstd 3 alone", column["reference"], "MB/s")
    b.report.row(corpus.name, "client's share of a core", column["client"], "")
    for name in sorted(set().union(*column["threads"])):
        costs = [t.get(name, 0) for t in column["threads"]]
        b.report.row(corpus.name, f"{codec}: threads {name}", costs, "ms/MB",
                     [c / sum(t.values()) for c, t in zip(costs, column["threads"])], "all threads")


def part_workers(b):
    b.report.begin("workers", "the same with one worker thread and with two, client on the same "
                              "cores")
    for corpus in b.corpora[:1]:
        wall = {1: [], 2: []}
        with b.daemon(storage__workers=1) as one, b.daemon(storage__workers=2) as two:
            for n in range(b.rounds + 1):
                for workers, daemon in ((1, one), (2, two)):
                    row = ingest_round(b, corpus, daemon, f"r{n}", "default")
                    if n > 0:
                        wall[workers].append(row["wall"])
        b.report.row(corpus.name, "one worker: wall", wall[1], "MB/s")
        b.report.row(corpus.name, "two workers: wall", wall[2], "MB/s",
                     [y / x for x, y in zip(wall[1], wall[2])], "one worker", ">= 1.1")


def part_bulk(b):
    seconds = 1 if b.o.quick else 5
    b.report.begin("bulk", "sizes of a request, 2 connections, durable")
    for corpus in b.corpora[:1]:
        sizes = (("1 document", 1), ("10 KB", 10000), ("100 KB", 100000), ("1 MB", 1000000),
                 ("5 MB", 5000000), ("10 MB", 10000000))
        rows = {size: [] for _, size in sizes}
        with b.daemon() as daemon:
            for n in range(b.rounds):
                for _, size in sizes:
                    daemon.create(f"bulk{size}-{n}")
                    rows[size].append(daemon.load("bulk", f"bulk{size}-{n}", corpus.path,
                                                  "--connections", 2, "--bytes", size, "--seconds",
                                                  seconds))
                    daemon.request("DELETE", f"/bulk{size}-{n}")
                    daemon.settle()
        for what, size in sizes:
            b.report.row(corpus.name, f"{what}: wall",
                         [r["docs"] / r["seconds"] / 1e3 for r in rows[size]], "kdoc/s")
            b.report.row(corpus.name, f"{what}: daemon CPU",
                         [r["raw_bytes"] / r["cpu"] / 1e6 for r in rows[size]], "MB/s")
            b.report.row(corpus.name, f"{what}: p50", [r["p50_us"] / 1e3 for r in rows[size]], "ms")
            b.report.row(corpus.name, f"{what}: p99", [r["p99_us"] / 1e3 for r in rows[size]], "ms")


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
        # Where a sync costs next to nothing there is nothing to share.
        b.report.row(corpus.name, "16 connections", rate[16], "PUT/s",
                     [y / x for x, y in zip(rate[1], rate[16])], "1 connection",
                     ">= 4" * (statistics.median(sync) >= 100))


def memory_limit_mb(b):
    """The budgets of the settings, at their defaults, and 100 MB."""
    budgets = [b.default_mb(name) for name in BUDGETS]
    return sum(m for m in budgets if m is not None) + MEMORY_BESIDE_BUDGETS_MB


def part_memory(b):
    limit = memory_limit_mb(b)
    b.report.begin("memory", "most RssAnon while 16 connections load 1 GB, default settings; "
                             f"target: {', '.join(BUDGETS)} + {MEMORY_BESIDE_BUDGETS_MB} MB")
    for corpus in b.corpora[:1]:
        peaks, rates, idle = [], [], []
        for _ in range(b.rounds):
            with b.daemon() as daemon:
                idle.append(daemon.rss_anon() / 1e6)
                daemon.create("load")
                with PeakMemory(daemon) as peak:
                    result = daemon.load("bulk", "load", corpus.path, "--connections", 16,
                                         "--passes", b.passes(corpus, min(1000, b.mb * 5)))
                peaks.append(peak.bytes / 1e6)
                rates.append(result["raw_bytes"] / result["seconds"] / 1e6)
        b.report.row("", "after start", idle, "MB")
        b.report.row(corpus.name, "peak", peaks, "MB", want=f"<= {limit:.0f}")
        b.report.row(corpus.name, "wall", rates, "MB/s")


def overwrite_round(b, corpus, pool):
    with b.daemon() as daemon:
        daemon.create("fresh")
        inserts = daemon.load("bulk", "fresh", corpus.path, "--connections", 2, "--docs",
                              b.o.overwrites, "--ids", "ascending")
        daemon.request("DELETE", "/fresh")
        daemon.settle()
        daemon.create("over")
        updates = daemon.load("bulk", "over", corpus.path, "--connections", 2, "--docs",
                              b.o.overwrites, "--ids", f"pool:{pool}")
        daemon.request("POST", "/_flush")
        settled_s = daemon.settle()
        disk = folder_bytes(f"{daemon.path}/data/indices")
        daemon.compact("over")
        live = daemon.stow("over")["disk_bytes"]
    rate = [r["docs"] / r["seconds"] / 1e3 for r in (inserts, updates)]
    return {"inserts": rate[0], "updates": rate[1], "cpu": updates["cpu"] / updates["docs"] * 1e6,
            "cpu_ratio": updates["cpu"] / updates["docs"] / (inserts["cpu"] / inserts["docs"]),
            "disk": disk / 1e6, "disk_ratio": disk / live, "settled": settled_s}


def part_overwrite(b):
    pool = max(1, b.o.overwrites // 10)
    b.report.begin("overwrite", f"{b.o.overwrites} documents over {pool} ids")
    for corpus in b.corpora[:1]:
        rounds = [overwrite_round(b, corpus, pool) for _ in range(b.rounds)]
        column = {key: [r[key] for r in rounds] for key in rounds[0]}
        b.report.row(corpus.name, "inserts: wall", column["inserts"], "kdoc/s")
        b.report.row(corpus.name, "overwrites: wall", column["updates"], "kdoc/s",
                     [y / x for x, y in zip(column["inserts"], column["updates"])], "inserts",
                     ">= 0.3")
        b.report.row(corpus.name, "overwrites: daemon CPU", column["cpu"], "µs/doc",
                     column["cpu_ratio"], "inserts")
        b.report.row(corpus.name, "segments, background settled", column["disk"], "MB",
                     column["disk_ratio"], "after _forcemerge", "<= 2")
        b.report.row(corpus.name, "settled after", column["settled"], "s")


def grow(b, corpus, kind, step):
    """One index, a step of documents at a time: the figures of each step."""
    steps, lines, loaded = [], [], 0
    with b.daemon() as daemon:
        daemon.create("grow", "default")
        for n in range(1, b.o.millions + 1):
            with PeakMemory(daemon) as peak:
                r = daemon.load("bulk", "grow", corpus.path, "--connections", 2, "--docs", step,
                                "--ids", kind, "--seed", n, "--save-ids", b.ids)
            loaded += r["docs"]
            gets = daemon.load("get", b.ids, "--connections", 16, "--requests", 3000)
            figures = {"cpu": r["raw_bytes"] / r["cpu"] / 1e6, "peak": peak.bytes / 1e6,
                       "get": gets["cpu"] / gets["requests"] * 1e6}
            steps.append(figures)
            lines.append([str(n), f"{figures['cpu']:.0f}", f"{figures['peak']:.0f}",
                          f"{figures['get']:.1f}"])
            b.report.note(f"{corpus.name:12} ids {kind}, step {n}: {figures['cpu']:.0f} MB/s, "
                          f"most RssAnon {figures['peak']:.0f} MB, get {figures['get']:.1f} µs")
        daemon.compact("grow")
        docs = daemon.request("GET", "/grow/_count")["count"]
        if docs != loaded:
            raise Failure(f"{docs} documents are there, {loaded} were loaded")
        disk = daemon.stow("grow")["disk_bytes"] / docs
        catalog = daemon.catalog_bytes() / docs
    b.report.table(f"Growth of one index, ids {kind}, steps of {step} documents ({corpus.name})",
                   ["step", "daemon CPU, MB/s", "most RssAnon, MB", "get, CPU, µs"], lines)
    return steps, disk, catalog


def part_growth(b):
    step = b.o.step
    limit = memory_limit_mb(b)
    b.report.begin("growth", f"one index, {b.o.millions} steps of {step} documents, most RssAnon "
                             "looked at every 10 ms")
    quarter = max(1, b.o.millions // 4)
    for corpus in b.corpora[:1]:
        for kind in ("made", "uuid"):
            steps, disk, catalog = grow(b, corpus, kind, step)
            first, last = steps[:quarter], steps[-quarter:]
            peak = [max(s["peak"] for s in part) for part in (first, last)]
            b.report.row(corpus.name, f"{kind}: most RssAnon", max(s["peak"] for s in steps), "MB",
                         want=f"<= {limit:.0f}")
            b.report.row(corpus.name, f"{kind}: most RssAnon, last quarter", peak[1], "MB",
                         peak[1] / peak[0], "first quarter", "<= 1.1")
            for key, unit in (("cpu", "MB/s"), ("get", "µs")):
                halves = [statistics.median(s[key] for s in part) for part in (first, last)]
                b.report.row(corpus.name, f"{kind}: {key}, last quarter", halves[1], unit,
                             halves[1] / halves[0], "first quarter")
            b.report.row(corpus.name, f"{kind}: segments", disk, "B/doc")
            b.report.row(corpus.name, f"{kind}: catalog file", catalog, "B/doc")


PARTS = {"ingest": part_ingest, "workers": part_workers, "bulk": part_bulk, "put": part_put,
         "memory": part_memory, "overwrite": part_overwrite, "growth": part_growth}
