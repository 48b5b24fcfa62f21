#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the data directories that tests/http/test_formats.py opens, with the stowd of a release:

    STOWD=<stowd of that release> tests/golden/make_data.py OUT.tar.xz

The archive holds data/ (as a SIGKILL left it: part of it in segments, part in the log) and
expected.json: {index: {id: {"doc": text, null: deleted, "version": n, "routing": text}}}.
Made once for each release and never again; a later one must read it as it is."""
import io
import json
import os
import random
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import stow  # noqa: E402

CODECS = [("default", {}), ("zstd", {"index.codec.compression_level": 6}), ("zstd_no_dict", {}),
          ("jd_zstd_6", {}), ("best_compression", {}), ("best_speed", {}),
          ("zlib", {"index.codec.compression_level": 9}), ("none", {})]
ODD = [b'{}', b'{ "a" : [1, 2.50, -0.0, 1e3, null, true, {"b":[]}] }', b'{"u":"\\u00e9\xc3\xa9","e":""}',
       b'{"t":"2026-11-30T23:59:59.123456789Z","ip":"10.0.0.255","id":"0b56f2c8-6d6a-4f3e-9f0a-7d1c1f0a9b3c"}']


def make(value, version=1, routing=None):
    return {"doc": None if value is None else value.decode(), "version": version, "routing": routing}


def fill(client, index, settings, known, rng):
    """Every kind of write into one index, some of it in segments, the last of it in the log alone."""
    assert client.put(f"/{index}", {"settings": settings, "aliases": {f"{index}-alias": {}},
                                    "mappings": {"properties": {"n": {"type": "long"}}}}).status == 200
    mine = known[index] = {}
    for part, count in enumerate((16, 8)):
        docs = stow.log_documents(count, seed=rng.randrange(1 << 30)) + ODD
        for item, doc in zip(client.load(index, [(None, d) for d in docs[::2]]), docs[::2]):
            mine[item["_id"]] = make(doc)
        ids = [f"{part}-{n}/é" for n in range(len(docs[1::2]))]
        client.load(index, list(zip(ids, docs[1::2])))
        mine |= {id: make(doc) for id, doc in zip(ids, docs[1::2])}
        for id in rng.sample(sorted(mine), 6):
            if mine[id]["doc"] is None or mine[id]["routing"]:
                continue
            doc = b'{"again":%d,"text":"changed"}' % rng.randrange(1000)
            assert client.put_doc(index, id, doc).status == 200
            mine[id] = make(doc, mine[id]["version"] + 1)
        for id in rng.sample(sorted(mine), 4):
            if mine[id]["doc"] is None or mine[id]["routing"]:
                continue
            assert client.delete(f"/{index}/_doc/{stow.quote(id)}").status == 200
            mine[id] = make(None, mine[id]["version"] + 1)
        assert client.put_doc(index, f"routed-{part}", b'{"r":1}', "?routing=a%20b").status == 201
        mine[f"routed-{part}"] = make(b'{"r":1}', routing="a b")
        assert client.put_doc(index, f"external-{part}", b'{"v":1}',
                              "?version=77&version_type=external").status == 201
        mine[f"external-{part}"] = make(b'{"v":1}', 77)
        if part == 0:
            assert client.post(f"/{index}/_flush").status == 200


def fill_dictionary(daemon, known, rng):
    """Few strings that recur in every block: a dictionary pays, and the files stay small."""
    client = daemon.client()
    assert client.put("/dictionary", {"settings": {"index.codec": "zstd",
                                                   "index.block.layout": "plain"}}).status == 200
    words = ["%0160x" % rng.getrandbits(640) for _ in range(120)]
    docs = [b'{"n":%d,"s":"%s"}' % (n, words[n % len(words)].encode()) for n in range(7000)]
    items = client.load("dictionary", [(None, d) for d in docs])
    assert client.post("/_flush").status == 200
    assert client.post("/dictionary/_forcemerge").status == 200
    number = client.get("/dictionary/_stats").json["indices"]["dictionary"]["stow"]["dictionary"]
    assert number == 1, "no dictionary was made"
    assert daemon.stop() == 0
    for name in os.listdir(os.path.join(daemon.data, "wal")):
        os.unlink(os.path.join(daemon.data, "wal", name))  # nothing in it is needed, but it is large
    client = daemon.start().client()
    more = docs[:400]
    items += client.load("dictionary", [(None, d) for d in more])
    known["dictionary"] = {i["_id"]: make(d) for i, d in zip(items, docs + more)}


def main():
    rng = random.Random(20261201)
    known = {}
    with tempfile.TemporaryDirectory() as folder:
        daemon = stow.Daemon(folder, ["storage.checkpoint.interval=1h", "storage.wal.size=4mb"]).start()
        c = daemon.client()
        assert c.put("/_template/t1", {"index_patterns": ["tpl-*"], "settings": {
            "index.codec": "best_speed"}}).status == 200
        if c.get("/_stats").json.get("_all", {}).get("stow", {}).get("dictionary") is not None:
            fill_dictionary(daemon, known, rng)
            c = daemon.client()
        for codec, more in CODECS:
            fill(c, codec.replace("_", "-"), {"index.codec": codec, **more}, known, rng)
        assert c.post("/best-compression/_forcemerge").status == 200
        daemon.kill()
        os.unlink(os.path.join(daemon.data, "lock"))
        text = json.dumps(known, ensure_ascii=False).encode()
        with tarfile.open(sys.argv[1], "w:xz") as tar:
            tar.add(daemon.data, "data")
            info = tarfile.TarInfo("expected.json")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))


if __name__ == "__main__":
    main()
