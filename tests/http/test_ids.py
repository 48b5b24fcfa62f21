# SPDX-License-Identifier: Apache-2.0
"""Ids: any bytes up to 512, made ids and writes to them, collisions of hashes."""
import base64
import re

import pytest
from stow import action, ndjson, quote

ODD = ["..", ".", "../x", "/", "//", "_doc/1", "_bulk", "?x=1", "#f", "a b", " ", "a&b=c", ";", "%", "%zz", "%2F",
       "*", "a,b", '"', "\\", "<a>", "'", ":", "@", "=", "!*()'~", "\t", "\n", "a+b", "é", "e\u0301", "😀",
       "x" * 512, "é" * 256, "A" * 300 + "/" + "B" * 200]


def test_any_text_is_an_id(client, index):
    docs = [(i, b'{"n":%d}' % n) for n, i in enumerate(ODD)]
    items = client.load(index, docs)
    assert [i["_id"] for i in items] == ODD
    client.post(f"/{index}/_flush")
    for id, doc in docs:
        assert client.source(index, id) == doc, id
        assert client.get_doc(index, id).json["_id"] == id
    for id in ODD:
        assert client.delete(f"/{index}/_doc/{quote(id)}").status == 200
        assert client.get_doc(index, id).status == 404


def test_plus_and_percent_in_paths(client, index):
    client.put(f"/{index}/_doc/a+b", b'{"v":"plus"}')
    assert client.get(f"/{index}/_doc/a%2Bb").json["_source"] == {"v": "plus"}
    assert client.get(f"/{index}/_doc/a%20b").status == 404
    client.put(f"/{index}/_doc/a%252Fb", b'{"v":"once"}')
    assert client.get(f"/{index}/_doc/a%252Fb").json["_id"] == "a%2Fb"


@pytest.mark.parametrize("bad", ["a%00b", "%zz", "%", "%e9", "%c0%af"])
def test_bad_escapes_are_400(client, index, bad):
    r = client.put(f"/{index}/_doc/{bad}", b"{}")
    assert r.status == 400 and r.error["reason"], r
    assert client.get_doc(index, "a").status == 404


def test_too_long(client, index):
    r = client.put(f"/{index}/_doc/{'x' * 513}", b"{}")
    assert r.status == 400 and "512" in r.error["reason"]


def test_ids_that_differ_little(client, index):
    ids = ["p" * 508 + f"{n:04d}" for n in range(300)] + ["p" * n for n in range(1, 508, 13)]
    ids += [f"{n:x}" for n in range(3000)] + ["Case", "case", "case ", "case.", "case\u0000" * 1 + "0"]
    ids = list(dict.fromkeys(ids))
    client.load(index, [(i, b'{"n":%d}' % n) for n, i in enumerate(ids)], per_request=5000)
    got = client.sources(index, ids)
    assert got == {i: b'{"n":%d}' % n for n, i in enumerate(ids)}


def made(client, index, count=3):
    r = client.bulk(b"".join(b'{"index":{}}\n{"n":%d}\n' % n for n in range(count)), f"/{index}/_bulk")
    return [i["_id"] for i in r.items]


def test_made_ids(client, index):
    ids = made(client, index, 2000)
    assert len(set(ids)) == 2000 and all(re.fullmatch(r"[A-Za-z0-9_-]{20}", i) for i in ids)
    assert client.sources(index, ids) == {i: b'{"n":%d}' % n for n, i in enumerate(ids)}
    client.post(f"/{index}/_flush")
    assert client.source(index, ids[1999]) == b'{"n":1999}'
    r = client.post(f"/{index}/_doc", b'{"v":1}')
    assert r.status == 201 and client.source(index, r.json["_id"]) == b'{"v":1}'


def test_writes_to_made_ids(client, index):
    ids = made(client, index)
    r = client.put(f"/{index}/_create/{ids[0]}", b"{}")
    assert r.status == 409, "create on a made id"
    r = client.put_doc(index, ids[0], b'{"v":"new"}')
    assert r.status == 200 and r.json["_version"] == 2 and r.json["result"] == "updated"
    assert client.source(index, ids[0]) == b'{"v":"new"}'
    r = client.delete(f"/{index}/_doc/{ids[1]}")
    assert r.status == 200 and r.json["_version"] == 2
    assert client.source(index, ids[1]) is None
    assert client.put_doc(index, ids[1], b'{"v":"again"}').status == 201
    r = client.post(f"/{index}/_update/{ids[2]}", b'{"doc":{"m":1}}')
    assert r.status == 200 and client.source(index, ids[2]) == b'{"n":2,"m":1}'
    assert client.get(f"/{index}/_count").json["count"] == 3
    r = client.bulk(ndjson(action("delete", index, ids[2]), action("delete", index, ids[2])))
    assert [i["status"] for i in r.items] == [200, 404]


def test_made_id_not_given_out_is_400(client, index):
    raw = base64.urlsafe_b64decode(made(client, index)[0])
    future = base64.urlsafe_b64encode(raw[:7] + (10 ** 9).to_bytes(8, "big")).decode()
    r = client.put_doc(index, future, b"{}")
    assert r.status == 400 and r.error["reason"]
    assert client.source(index, future) is None


def test_made_ids_of_others_are_client_ids(client, index):
    foreign = made(client, index + "-other")
    client.load(index, [(i, b'{"f":%d}' % n) for n, i in enumerate(foreign)])
    own = made(client, index)
    assert set(own).isdisjoint(foreign)
    assert client.sources(index, foreign) == {i: b'{"f":%d}' % n for n, i in enumerate(foreign)}
    elastic = "AVx0k2sB4yVfVj3s1ZqZ"
    client.put_doc(index, elastic, b'{"e":1}')
    assert client.source(index, elastic) == b'{"e":1}'


def test_writes_to_made_ids_survive(make_daemon):
    d = make_daemon()
    c = d.client()
    ids = made(c, "i", 50)
    c.put_doc("i", ids[0], b'{"v":"new"}')
    c.delete(f"/i/_doc/{ids[1]}")
    for again in (d.crash, d.restart):
        again()
        c = d.client()
        assert c.source("i", ids[0]) == b'{"v":"new"}' and c.source("i", ids[1]) is None
        assert c.source("i", ids[49]) == b'{"n":49}'
        more = made(c, "i", 5)
        assert set(more).isdisjoint(ids)
        ids += more
    assert c.get("/i/_count").json["count"] == 59


@pytest.mark.parametrize("bits", [8, 1])
def test_colliding_hashes_never_give_another_document(make_daemon, bits):
    d = make_daemon(env={"STOWD_TEST_HASH_BITS": str(bits)})
    c = d.client()
    count = 600 if bits == 8 else 40
    docs = {f"id{n}": b'{"n":%d}' % n for n in range(count)}
    c.load("i", docs.items())
    for again in (None, d.crash, d.restart):
        if again:
            again()
            c = d.client()
        assert c.sources("i", docs) == docs
        assert set(c.sources("i", [f"no{n}" for n in range(300)]).values()) == {None}
        for n in range(0, count, 7):
            if again is None:
                assert c.delete(f"/i/_doc/id{n}").status == 200
                docs[f"id{n}"] = None
            elif docs[f"id{n}"] is not None:
                docs[f"id{n}"] = b'{"again":%d}' % n
                assert c.put_doc("i", f"id{n}", docs[f"id{n}"]).status == 200
        for n in range(1, count, 11):
            assert c.put(f"/i/_create/id{n}", b"{}").status == (409 if docs[f"id{n}"] else 201)
            docs[f"id{n}"] = docs[f"id{n}"] or b"{}"
    assert c.sources("i", docs) == docs
