# SPDX-License-Identifier: Apache-2.0
"""_mget: all forms, order, misses, filtering, many ids."""
import random

import pytest
from stow import log_documents


def test_order_repeats_and_misses(client, index):
    docs = log_documents(600)
    client.load(index, [(f"{n:04d}", d) for n, d in enumerate(docs)])
    client.post(f"/{index}/_flush")
    ids = [f"{n:04d}" for n in range(600)]
    random.Random(1).shuffle(ids)
    ids += ["0007", "none", "0007"]
    r = client.post(f"/{index}/_mget", {"ids": ids})
    assert [d["_id"] for d in r.json["docs"]] == ids
    assert [d["found"] for d in r.json["docs"]].count(False) == 1
    got = client.sources(index, ids)
    assert all(got[f"{n:04d}"] == d for n, d in enumerate(docs))


def test_documents_of_several_indices(client, index):
    client.put_doc(index, "1", b'{"v": 1}')
    client.put_doc(index + "-b", "1", b'{"v": 2}')
    asked = {"docs": [{"_index": index, "_id": "1"}, {"_index": index + "-b", "_id": "1"},
                      {"_index": index, "_id": "none"}, {"_index": index + "-none", "_id": "1"}]}
    for method in ("POST", "GET"):
        docs = client.request(method, "/_mget", asked).json["docs"]
        assert [d.get("_source") for d in docs] == [{"v": 1}, {"v": 2}, None, None]
        assert docs[2] == {"_index": index, "_id": "none", "found": False}
        assert docs[3]["error"]["type"] == "index_not_found_exception"
    assert client.post(f"/{index}/_mget", {"docs": [{"_id": "1"}]}).json["docs"][0]["found"] is True


@pytest.mark.parametrize("target, body, text", [
    ("/_mget", '{"docs":[]}', "no documents to get"),
    ("/IDX/_mget", '{"ids":[]}', "no documents to get"),
    ("/_mget", '{"docs":[{"_index":"x"}]}', "id is missing"),
    ("/_mget", '{"ids":["1"]}', "index is missing"),
])
def test_nothing_to_get(client, index, target, body, text):
    r = client.post(target.replace("IDX", index), body)
    assert r.status == 400 and text in r.error["reason"]
    assert r.error["type"] == "action_request_validation_exception"


@pytest.mark.parametrize("body", ["", "{", "[]", '{"ids":5}', '{"docs":[5]}', '{"bogus":[]}'])
def test_malformed_bodies(client, index, body):
    client.put_doc(index, "1", b"{}")
    r = client.post(f"/{index}/_mget", body)
    assert r.status == 400 and r.error["reason"]


def test_source_filtering(client, index):
    client.put_doc(index, "1", b'{"a":{"b":1,"c":2},"cc":3}')
    docs = client.post(f"/{index}/_mget?_source=false", {"ids": ["1"]}).json["docs"]
    assert "_source" not in docs[0] and docs[0]["found"]
    docs = client.post(f"/{index}/_mget", {"docs": [
        {"_id": "1", "_source": ["a.b", "c*"]}, {"_id": "1", "_source": False},
        {"_id": "1", "_source": {"excludes": ["a"]}}, {"_id": "1", "_source": "cc"}, {"_id": "1"}]}).json["docs"]
    assert [d.get("_source") for d in docs] == [
        {"a": {"b": 1}, "cc": 3}, None, {"cc": 3}, {"cc": 3}, {"a": {"b": 1, "c": 2}, "cc": 3}]
    assert client.post(f"/{index}/_mget?_source_includes=a.c", {"ids": ["1"]}).json["docs"][0]["_source"] == {
        "a": {"c": 2}}


def test_numbers_escapes_and_odd_ids(client, index):
    ids = ["a/b", 'quote"', "back\\slash", "é", "\u0001", "7"]
    client.load(index, [(i, b'{"n":%d}' % n) for n, i in enumerate(ids)])
    r = client.post(f"/{index}/_mget", {"ids": ids[:-1] + [7]})
    assert [d["_id"] for d in r.json["docs"]] == ids
    assert [d["_source"]["n"] for d in r.json["docs"]] == list(range(len(ids)))


def test_fifty_thousand_ids(client, index):
    client.put_doc(index, "x", b"{}")
    ids = [f"m{n}" for n in range(25000)] + ["x"] + [f"m{n}" for n in range(25000)]
    r = client.post(f"/{index}/_mget", {"ids": ids})
    docs = r.json["docs"]
    assert r.status == 200 and len(docs) == 50001
    assert docs[25000]["found"] and not docs[0]["found"] and docs[-1]["_id"] == "m24999"


def test_long_answers_are_whole(client, index):
    docs = [(str(n), b'{"n":%d,"p":"%s"}' % (n, bytes([97 + n % 26]) * 40000)) for n in range(500)]
    client.load(index, docs, per_request=50)
    got = client.sources(index, [i for i, _ in docs], per_request=500)
    assert got == dict(docs)
