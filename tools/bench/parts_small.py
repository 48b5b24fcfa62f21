# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmark about small: sizes beside those of peers, what each codec costs and gives,
the id index, many indices."""
import statistics

from daemon import Failure, Threads
from parts_write import ingest_round
from report import short

WANT_SIZE = {"apache": "<= 0.28", "apache_real": "<= 0.39", "nginx": "<= 0.41",
             "nginx_real": "<= 0.58", "kubernetes": "<= 0.63", "products": "<= 0.84",
             "taxis": "<= 0.38"}
WANT_BEST = {"apache": "<= 0.21", "kubernetes": "<= 0.55", "products": "<= 0.72"}

# What is measured for the table of codecs: name there, index.codec, level.
CODECS = (("default", "default", None), ("best_speed", "best_speed", None), ("lz4", "lz4", None),
          ("zstd 1", "zstd", 1), ("zstd 3", "zstd", 3), ("zstd_no_dict 3", "zstd_no_dict", 3),
          ("jd_zstd_6", "jd_zstd_6", None), ("zstd 9", "zstd", 9), ("zstd 15", "zstd", 15),
          ("best_compression", "best_compression", None), ("deflate 6", "deflate", 6),
          ("none", "none", None))
# Library that an index's codec packs with, by the start of its resolved name in _stats.
PLAIN = (("zstd", "zstd"), ("jd_zstd", "zstd"), ("lz4", "lz4"), ("deflate", "deflate"),
         ("zlib", "deflate"))


def codec_settings(codec, level):
    out = {"codec": codec}
    if level is not None:
        out["index__codec__compression_level"] = level
    return out


def report_against_plain(b, corpus, what, stow, size):
    """The index beside its library alone, at the same level over pieces as long as its blocks."""
    library = next((lib for name, lib in PLAIN if stow["codec"].startswith(name)), None)
    if library is None or not stow["blocks"]:
        return
    piece_kb = max(4, round(stow["packed_raw_bytes"] / stow["blocks"] / 1024))
    level = stow["level"] or 1
    plain = b.refs("plain", corpus.path, library, level, piece_kb)[0]["bytes_per_doc"]
    b.report.row(corpus.name, f"stowd {what}", size, "B/doc", size / plain,
                 f"plain {library} {level}, {piece_kb} KB", "<= 1.0")


def part_size(b):
    b.report.begin("size", "bytes a document after _flush and _forcemerge: segments, dictionaries "
                           "and live catalog entries; ids by the daemon")
    with b.daemon() as daemon:
        data = f"{daemon.path}/data"
        b.report.row("", "empty node: log", b.folder(f"{data}/wal"), "MB")
        b.report.row("", "empty node: the rest", b.folder(data, but=("wal",)), "MB", want="<= 1")
    for corpus in b.corpora + b.drift():
        opensearch = next(p for p in b.refs("peers", corpus.path)
                          if p["name"] == "OpenSearch zstd 3")["bytes_per_doc"]
        b.report.row(corpus.name, "OpenSearch zstd 3 (model)", opensearch, "B/doc")
        for codec, want in (("default", WANT_SIZE.get(corpus.name, "")),
                            ("best_compression", WANT_BEST.get(corpus.name, ""))):
            with b.daemon() as daemon:
                b.fill(daemon, corpus, "size", codec)
                stow = daemon.stow("size")
            size = (stow["disk_bytes"] + stow["catalog_bytes"]) / corpus.docs
            b.report.row(corpus.name, f"stowd {codec}", size, "B/doc", size / opensearch,
                         "OpenSearch zstd 3", want)
            report_against_plain(b, corpus, codec, stow, size)
            if codec == "default":
                b.report.row(corpus.name, "its dictionary", stow["dictionary_bytes"] / corpus.docs,
                             "B/doc")


def part_peers(b):
    b.report.begin("peers", "chunk layouts of other stores, codec alone, one thread, no HTTP and "
                            "no index: tools/bench/peers.h")
    lines = []
    for corpus in b.corpora:
        rounds = [{p["name"]: p for p in b.refs("peers", corpus.path)} for _ in range(b.rounds)]
        base = rounds[0]["OpenSearch zstd 3"]["bytes_per_doc"]
        for name in rounds[0]:
            size = rounds[0][name]["bytes_per_doc"]
            encode = [r[name]["mb_per_s"] for r in rounds]
            get = [r[name]["get_us"] for r in rounds]
            b.report.row(corpus.name, f"{name}: size", size, "B/doc", size / base,
                         "OpenSearch zstd 3")
            b.report.row(corpus.name, f"{name}: encode", encode, "MB/s")
            b.report.row(corpus.name, f"{name}: get", get, "µs")
            lines.append([corpus.name, name, short(size), short(statistics.median(encode)),
                          short(statistics.median(get))])
    b.report.table("Peers' layouts, codec alone",
                   ["corpus", "layout", "B/doc", "encode, MB/s CPU", "get, µs CPU"], lines)


def codec_round(b, corpus, daemon, tag, codec, level):
    """Size, ingest CPU and get CPU of one codec."""
    settings = codec_settings(codec, level)
    b.fill(daemon, corpus, f"{tag}-held", **settings)
    stow = daemon.stow(f"{tag}-held")
    gets = daemon.load("get", b.ids, "--connections", 16, "--requests",
                       b.scaled(5000 if b.o.quick else 10000))
    daemon.request("DELETE", f"/{tag}-held")
    ingest = ingest_round(b, corpus, daemon, f"{tag}-in", mb=min(b.mb, 100), **settings)
    return {"size": (stow["disk_bytes"] + stow["catalog_bytes"]) / corpus.docs,
            "cpu": ingest["cpu"], "get": gets["cpu"] / gets["requests"] * 1e6, "stow": stow}


def part_codecs(b):
    b.report.begin("codecs", "what each setting costs and gives: bytes a document after "
                             "_forcemerge, daemon CPU of _bulk, CPU of a get whose block is in the "
                             "page cache")
    table = {name: {} for name, _, _ in CODECS}
    for corpus in b.corpora:
        rounds = {name: [] for name in table}
        with b.daemon(storage__cache__size="0") as daemon:
            for n in range(min(b.rounds, 3)):
                for i, (name, codec, level) in enumerate(CODECS):
                    rounds[name].append(codec_round(b, corpus, daemon, f"c{i}-{n}", codec, level))
        for name, rows in rounds.items():
            for key, unit in (("size", "B/doc"), ("cpu", "MB/s"), ("get", "µs")):
                b.report.row(corpus.name, f"{name}: {key}", [r[key] for r in rows], unit)
            report_against_plain(b, corpus, name, rows[0]["stow"], rows[0]["size"])
            table[name][corpus.name] = [short(statistics.median(r[key] for r in rows))
                                        for key in ("size", "cpu", "get")]
    names = [c.name for c in b.corpora]
    b.report.table("What each codec costs and gives: bytes a document · _bulk, MB/s of daemon CPU "
                   "· get, µs of daemon CPU", ["codec"] + names,
                   [[name] + [" · ".join(table[name][c]) for c in names] for name in table])


def ids_round(b, corpus, kind):
    with b.daemon() as daemon:
        daemon.create("ids", "default")
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
        gets = daemon.load("get", b.ids, "--connections", 16, "--requests", b.scaled(20000))
    return {"cpu": result["raw_bytes"] / sum(threads.seconds.values()) / 1e6,
            "wall": result["raw_bytes"] / result["seconds"] / 1e6, "grown": grown,
            "live": stow["catalog_bytes"] / docs, "disk": stow["disk_bytes"] / docs,
            "written": stow["ids"]["write_amplification"],
            "get": gets["cpu"] / gets["requests"] * 1e6}


def part_ids(b):
    b.report.begin("ids", f"{b.o.docs} documents with ids of three kinds; CPU includes a _flush")
    kinds = ("made", "uuid", "ascending")
    for corpus in b.corpora[:1]:
        rounds = {kind: [] for kind in kinds}
        for _ in range(b.rounds):
            for kind in kinds:
                rounds[kind].append(ids_round(b, corpus, kind))
        for kind in kinds:
            column = {key: [r[key] for r in rounds[kind]] for key in rounds[kind][0]}
            made = {key: [r[key] for r in rounds["made"]] for key in rounds["made"][0]}
            other, uuid = kind != "made", kind == "uuid"
            ratio = {key: [x / y for x, y in zip(column[key], made[key])] if other else None
                     for key in ("cpu", "wall", "get")}
            b.report.row(corpus.name, f"{kind}: bulk, daemon CPU", column["cpu"], "MB/s",
                         ratio["cpu"], "made", ">= 0.6" * uuid)
            b.report.row(corpus.name, f"{kind}: bulk, wall", column["wall"], "MB/s", ratio["wall"],
                         "made", ">= 0.6" * uuid)
            b.report.row(corpus.name, f"{kind}: catalog file grew", column["grown"], "B/doc",
                         want="<= 8" * uuid)
            b.report.row(corpus.name, f"{kind}: live catalog entries", column["live"], "B/doc")
            if other:
                b.report.row(corpus.name, f"{kind}: id index, bytes written", column["written"],
                             "times")
                b.report.row(corpus.name, f"{kind}: id in the block",
                             [x - y for x, y in zip(column["disk"], made["disk"])], "B/doc",
                             want="<= 17" * uuid)
            b.report.row(corpus.name, f"{kind}: get, CPU", column["get"], "µs", ratio["get"],
                         "made", "<= 1.3" * uuid)


def many_indices(b, count):
    """So many indices with a document each, flushed; then a start on them."""
    with b.daemon() as daemon:
        daemon.restart()
        empty = daemon.rss_anon()
        for first in range(0, count, 500):
            body = "".join(f'{{"index":{{"_index":"many-{n}"}}}}\n{{"message":"one of many",'
                           f'"number":{n}}}\n' for n in range(first, min(first + 500, count)))
            if daemon.request("POST", "/_bulk", body)["errors"]:
                raise Failure("a document of many indices was refused")
        daemon.request("POST", "/_flush")
        daemon.settle()
        start_s = daemon.restart()
        daemon.settle()
        return {"start": start_s, "descriptors": daemon.descriptors(),
                "memory": (daemon.rss_anon() - empty) / count / 1024}


def part_indices(b):
    counts = [b.scaled(1000)] + ([] if b.o.quick or b.o.tiny else [10000])
    b.report.begin("indices", "many indices with one document each: start on them, descriptors, "
                              "memory of an idle one")
    for count in counts:
        rounds = [many_indices(b, count) for _ in range(min(b.rounds, 3))]
        column = {key: [r[key] for r in rounds] for key in rounds[0]}
        first = count == counts[0]  # what is more than that has no targets
        b.report.row("", f"{count} indices: start", column["start"], "s", want="<= 2" * first)
        b.report.row("", f"{count} indices: descriptors", column["descriptors"], "",
                     want="<= 500" * first)
        b.report.row("", f"{count} indices: memory of each", column["memory"], "KB",
                     want="<= 8" * first)


PARTS = {"size": part_size, "peers": part_peers, "codecs": part_codecs, "ids": part_ids,
         "indices": part_indices}
