# SPDX-License-Identifier: Apache-2.0
"""_update: splicing, noop, upsert, refusals."""
import pytest
from stow import in_threads


@pytest.mark.parametrize("old, doc, new", [
    (b'{ "a" : 1.0, "b":[1, 2] }', b'{"a":2}', b'{ "a" : 2, "b":[1, 2] }'),
    (b'{"a":{"x": 1, "y":2e0},"b":0}', b'{"a":{"y":3}}', b'{"a":{"x": 1, "y":3},"b":0}'),
    (b'{"a":1}', b'{"b":{"c": [ ]}}', b'{"a":1,"b":{"c": [ ]}}'),
    (b"{}", b'{"b":1.50}', b'{"b":1.50}'),
    (b'{"a":[1,2,3]}', b'{"a":[9]}', b'{"a":[9]}'),
    (b'{"a":{"b":1}}', b'{"a":null}', b'{"a":null}'),
    (b'{"\\u0061":1}', b'{"a":2}', b'{"\\u0061":2}'),
    (b'{"big":12345678901234567890123}', b'{"x":1}', b'{"big":12345678901234567890123,"x":1}'),
])
def test_merge_keeps_the_bytes_of_the_rest(client, index, old, doc, new):
    client.put_doc(index, "1", old)
    r = client.post(f"/{index}/_update/1", b'{"doc":' + doc + b"}")
    assert r.status == 200 and r.json["result"] == "updated" and r.json["_version"] == 2, r
    assert client.source(index, "1") == new


def test_noop(client, index):
    client.put_doc(index, "1", b'{"a":1,"b":{"c":2}}')
    r = client.post(f"/{index}/_update/1", b'{"doc":{"b":{"c":2}}}')
    assert r.status == 200 and r.json["result"] == "noop" and r.json["_version"] == 1
    r = client.post(f"/{index}/_update/1", b'{"doc":{"b":{"c":2}},"detect_noop":false}')
    assert r.json["result"] == "updated" and r.json["_version"] == 2


def test_upsert(client, index):
    r = client.post(f"/{index}/_update/1", b'{"doc":{"v":1}}')
    assert r.status == 404
    client.put(f"/{index}")
    r = client.post(f"/{index}/_update/1", b'{"doc":{"v":1}}')
    assert r.status == 404 and r.error["type"] == "document_missing_exception"
    assert r.error["reason"] == "[1]: document missing"
    r = client.post(f"/{index}/_update/1", b'{"doc":{"v":1},"upsert":{"first": true}}')
    assert r.status == 201 and r.json["result"] == "created"
    assert client.source(index, "1") == b'{"first": true}'
    r = client.post(f"/{index}/_update/2", b'{"doc":{"v": 1.0},"doc_as_upsert":true}')
    assert r.status == 201 and client.source(index, "2") == b'{"v": 1.0}'


@pytest.mark.parametrize("body", [b'{"script":{"source":"ctx.op=\'none\'"}}', b"{}", b'{"doc":5}', b"[1]", b"{",
                                  b'{"dok":{"a":1}}', b""])
def test_refusals(client, index, body):
    client.put_doc(index, "1", b'{"a":1}')
    r = client.post(f"/{index}/_update/1", body)
    assert r.status == 400 and r.error["type"], r
    if b"script" in body:
        assert "script" in r.error["reason"]
    assert client.source(index, "1") == b'{"a":1}'


def test_conditions_and_source_in_the_answer(client, index):
    client.put_doc(index, "1", b'{"a":1}')
    r = client.post(f"/{index}/_update/1?if_seq_no=9&if_primary_term=1", b'{"doc":{"a":2}}')
    assert r.status == 409 and r.error["type"] == "version_conflict_engine_exception"
    r = client.post(f"/{index}/_update/1?if_seq_no=0&if_primary_term=1&_source=true", b'{"doc":{"a":2}}')
    assert r.status == 200 and r.json["get"]["_source"] == {"a": 2} and r.json["get"]["found"] is True


def test_parallel_updates_lose_nothing(client, node, index):
    client.put_doc(index, "1", b"{}")

    def work(k):
        c = node.client()
        for n in range(15):
            r = c.post(f"/{index}/_update/1?retry_on_conflict=100", {"doc": {f"k{k}_{n}": n}})
            assert r.status == 200, r
    in_threads([lambda k=k: work(k) for k in range(6)])
    r = client.get_doc(index, "1").json
    assert len(r["_source"]) == 90 and r["_version"] == 91
