# SPDX-License-Identifier: Apache-2.0
"""Routing is stored and echoed; another routing on a get is a miss."""
from stow import action, ndjson


def test_routing(client, index):
    r = client.put_doc(index, "1", b'{"v":1}', "?routing=r%201")
    assert r.status == 201
    client.bulk(ndjson(action("index", index, "2", routing="x"), "{}", action("index", index, "3", _routing="y"), "{}"))
    for id, routing, query in (("1", "r 1", "r%201"), ("2", "x", "x"), ("3", "y", "y")):
        r = client.get_doc(index, id, f"?routing={query}")
        assert r.status == 200 and r.json["_routing"] == routing, r
        assert client.get_doc(index, id, "?routing=other").status == 404
        assert client.get(f"/{index}/_source/{id}?routing=other").status == 404
    client.post(f"/{index}/_flush")
    assert client.get_doc(index, "1", "?routing=r%201").json["_routing"] == "r 1"


def test_documents_without_routing(client, index):
    client.put_doc(index, "1", b"{}")
    assert "_routing" not in client.get_doc(index, "1").json


def test_mget_routing(client, index):
    client.put_doc(index, "1", b"{}", "?routing=r")
    docs = client.post(f"/{index}/_mget", {"docs": [
        {"_id": "1", "routing": "r"}, {"_id": "1", "routing": "q"}]}).json["docs"]
    assert [d["found"] for d in docs] == [True, False] and docs[0]["_routing"] == "r"


def test_a_write_replaces_the_routing(client, index):
    client.put_doc(index, "1", b'{"v":1}', "?routing=a")
    client.put_doc(index, "1", b'{"v":2}', "?routing=a")
    r = client.get_doc(index, "1", "?routing=a")
    assert r.json["_routing"] == "a" and r.json["_version"] == 2
