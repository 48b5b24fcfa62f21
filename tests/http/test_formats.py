# SPDX-License-Identifier: Apache-2.0
"""Data directories of earlier releases, kept under tests/golden: read byte for byte, written to,
restarted, merged, checked and rebuilt.

  data_5108446.tar.xz  the first with today's id index: index records and states of format 1, neither
                       columnar blocks nor dictionaries
  data_d3f49c9.tar.xz  columnar blocks, a dictionary; states of format 1 with dictionaries

Each was made once by tests/golden/make_data.py (documented there) with the stowd built from that
commit, and left by SIGKILL, so that a part of it is in the log alone. It must never be made again with
a later stowd: a new format gets an archive of its own."""
import json
import os
import subprocess
import tarfile

import pytest
import stow

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden")
STOWCTL = os.environ.get("STOWCTL") or os.path.join(os.path.dirname(stow.STOWD), "stowctl")
ARCHIVES = sorted(f for f in os.listdir(GOLDEN) if f.startswith("data_"))


@pytest.fixture(params=ARCHIVES)
def old(request, tmp_path):
    """(data directory, what it holds)"""
    with tarfile.open(os.path.join(GOLDEN, request.param)) as tar:
        tar.extractall(tmp_path)
    known = json.loads((tmp_path / "expected.json").read_text())
    assert sum(map(len, known.values())) > 200
    return tmp_path / "data", known


def check_all(client, known):
    for index, docs in known.items():
        r = client.post("/_mget", {"docs": [
            {"_index": index, "_id": id, **({"routing": want["routing"]} if want["routing"] else {})}
            for id, want in docs.items()]})
        assert r.status == 200, r
        for got in r.json["docs"]:
            want = docs[got["_id"]]
            assert got["found"] == (want["doc"] is not None), got
            assert not got["found"] or got["_version"] == want["version"], got
        live = {id: want["doc"].encode() for id, want in docs.items()
                if want["doc"] is not None and not want["routing"]}
        assert client.sources(index, live) == live
        for id, want in docs.items():
            if want["routing"]:
                query = "?routing=" + stow.quote(want["routing"])
                assert client.source(index, id, query) == want["doc"].encode()
        count = sum(want["doc"] is not None for want in docs.values())
        assert client.get(f"/{index}/_count").json["count"] == count


def write_more(client, known):
    for index, docs in known.items():
        id = next(id for id, want in docs.items() if want["doc"] is not None and not want["routing"]
                  and want["version"] == 1)
        assert client.put_doc(index, id, b'{"after":1}').json["_version"] == 2
        docs[id] = {"doc": '{"after":1}', "version": 2, "routing": None}
        gone = next((id for id, want in docs.items() if want["doc"] is None), None)
        if gone is not None:
            assert client.put_doc(index, gone, b'{"back":1}').status in (200, 201)
            docs[gone] = {"doc": '{"back":1}', "version": docs[gone]["version"] + 1, "routing": None}
        more = stow.log_documents(20, seed=5)
        docs |= {item["_id"]: {"doc": doc.decode(), "version": 1, "routing": None}
                 for item, doc in zip(client.load(index, [(None, d) for d in more]), more)}


def stowctl(*arguments):
    done = subprocess.run([STOWCTL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_read_and_go_on(make_daemon, old):
    data, known = old
    d = make_daemon(data=data)
    c = d.client(timeout=60)
    check_all(c, known)
    write_more(c, known)
    check_all(c, known)
    d.restart()
    check_all(d.client(timeout=60), known)
    d.crash()
    c = d.client(timeout=60)
    assert c.post("/_forcemerge").status == 200
    check_all(c, known)
    assert c.head("/_template/t1").status == 200
    assert c.get("/zlib-alias/_count").json["count"] == c.get("/zlib/_count").json["count"]
    assert c.get("/zlib/_settings").json["zlib"]["settings"]["index"]["codec"] == "zlib"
    assert d.stop() == 0
    stowctl("check", data)
    d.start()
    check_all(d.client(timeout=60), known)


def test_check_and_rebuild(make_daemon, old):
    """By today's stowctl, before any daemon of today has seen it."""
    data, known = old
    stowctl("check", data)
    stowctl("rebuild", data)
    check_all(make_daemon(data=data).client(timeout=60), known)
