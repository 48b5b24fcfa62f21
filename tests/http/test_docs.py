# SPDX-License-Identifier: Apache-2.0
"""Single documents: write, read, delete; _source and its filtering."""
import pytest

EXACT = (b'{ "ns":1491926160718000001,"u":18446744073709551616, "f":0.30000000000000004,"z":1.0,"e":1E5,'
         b'"n":-0.0,"big":1e400, "esc":"\\u00e9\\/\\u0000\\ud800","k":[ ], "k":{ } ,"":null}')


def test_write_read_delete(client, index):
    r = client.put(f"/{index}/_doc/1", b'{"v":1}')
    assert r.status == 201 and r.json == {
        "_index": index, "_id": "1", "_version": 1, "result": "created",
        "_shards": {"total": 1, "successful": 1, "failed": 0}, "_seq_no": 0, "_primary_term": 1}
    assert r.header("location") in (None, f"/{index}/_doc/1")
    r = client.post(f"/{index}/_doc/1", b'{"v": 2}')
    assert r.status == 200 and r.json["result"] == "updated" and r.json["_version"] == 2
    r = client.get(f"/{index}/_doc/1")
    assert r.body == (b'{"_index":"%s","_id":"1","_version":2,"_seq_no":1,"_primary_term":1,'
                      b'"found":true,"_source":{"v": 2}}' % index.encode())
    r = client.delete(f"/{index}/_doc/1")
    assert r.status == 200 and r.json["result"] == "deleted" and r.json["_version"] == 3
    r = client.delete(f"/{index}/_doc/1")
    assert r.status == 404 and r.json["result"] == "not_found" and "error" not in r.json
    r = client.get(f"/{index}/_doc/1")
    assert r.status == 404 and r.json == {"_index": index, "_id": "1", "found": False}


def test_create(client, index):
    assert client.put(f"/{index}/_create/1", b'{"v":1}').status == 201
    for method, target in (("PUT", "_create/1"), ("POST", "_create/1"), ("PUT", "_doc/1?op_type=create")):
        r = client.request(method, f"/{index}/{target}", b'{"v":2}')
        assert r.status == 409 and r.error["type"] == "version_conflict_engine_exception"
        assert r.error["reason"].startswith("[1]: version conflict, document already exists")
    assert client.source(index, "1") == b'{"v":1}'


def test_source_and_head(client, index):
    client.put_doc(index, "1", EXACT)
    assert client.source(index, "1") == EXACT
    assert client.get(f"/{index}/_doc/1").body.endswith(b'"_source":' + EXACT + b"}")
    for target, status in (("_doc/1", 200), ("_source/1", 200), ("_doc/2", 404), ("_source/2", 404)):
        assert client.head(f"/{index}/{target}").status == status
    r = client.get(f"/{index}/_source/2")
    assert r.status == 404 and r.error["type"] == "resource_not_found_exception"


def test_missing_index(client, index):
    for method, target in (("GET", "_doc/1"), ("GET", "_source/1"), ("DELETE", "_doc/1")):
        r = client.request(method, f"/{index}/{target}")
        assert r.status == 404
        if method == "GET":
            assert r.error["type"] == "index_not_found_exception" and r.error["index"] == index
    assert client.get("/_cat/indices?h=index").status == 200


@pytest.mark.parametrize("query, expected", [
    ("_source=a.b,c*", b'{ "a":{"b":1},"cc":[3] }'),
    ("_source_includes=a", b'{ "a":{"b":1, "x":2} }'),
    ("_source_excludes=a.x,d", b'{ "a":{"b":1},"cc":[3] }'),
    ("_source_includes=*.b", b'{ "a":{"b":1} }'),
    ("_source=none", b"{}"),
])
def test_source_filtering(client, index, query, expected):
    client.put_doc(index, "1", b'{ "a":{"b":1, "x":2},"cc":[3] ,"d":4.0 }')
    squeeze = bytes.maketrans(b"", b"")
    got = client.get(f"/{index}/_source/1?{query}").body
    assert got.translate(squeeze, b" ") == expected.translate(squeeze, b" ")
    got = client.get(f"/{index}/_doc/1?{query}").json
    assert got["found"] and got["_id"] == "1"


def test_source_false(client, index):
    client.put_doc(index, "1", b'{"a":1}')
    r = client.get(f"/{index}/_doc/1?_source=false")
    assert r.status == 200 and "_source" not in r.json and r.json["found"] is True


def test_identity_seven_adds_type(make_daemon):
    c = make_daemon("identity.version=7.17.9").client()
    assert c.get("/").json["version"]["number"] == "7.17.9"
    assert c.put("/i/_doc/1", b"{}").json["_type"] == "_doc"
    assert c.get("/i/_doc/1").json["_type"] == "_doc"
    assert c.bulk(b'{"index":{"_index":"i","_id":"2"}}\n{}\n').items[0]["_type"] == "_doc"


def test_twenty_megabytes(client, index):
    doc = b'{"m":"' + b"x" * 20_000_000 + b'"}'
    assert client.put_doc(index, "1", doc).status == 201
    assert client.source(index, "1") == doc


def test_empty_body_and_bad_json(client, index):
    assert client.put(f"/{index}/_doc/1", b"").status == 400
    for bad in (b"{", b"[1]", b'"x"', b'{"a":1}x', b'{"a":\xff}'):
        r = client.put(f"/{index}/_doc/1", bad)
        assert r.status == 400 and r.error["type"], bad
    assert client.get_doc(index, "1").status == 404
