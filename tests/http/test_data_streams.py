# SPDX-License-Identifier: Apache-2.0
"""Data streams: made from a template, appended to, rolled over, shown and deleted."""
import re
from functools import partial

import pytest
from stow import bulk_body, in_threads

DOC = b'{"@timestamp":"2026-11-30T00:00:00Z","m":"x"}'


@pytest.fixture
def stream(client, index):
    """A name that the first write makes a data stream."""
    r = client.put(f"/_index_template/{index}", {
        "index_patterns": [f"{index}*"], "data_stream": {}, "priority": 500,
        "template": {"settings": {"index.codec": "lz4"}, "mappings": {"_meta": {"v": 1}}}})
    assert r.status == 200, r
    yield index
    client.delete(f"/_data_stream/{index}*")
    client.delete(f"/_index_template/{index}")


def about(client, name):
    r = client.get(f"/_data_stream/{name}")
    assert r.status == 200, r
    return r.json["data_streams"][0]


def test_the_first_write_makes_it(client, stream):
    r = client.bulk(b'{"create":{}}\n' + DOC + b"\n", f"/{stream}/_bulk")
    item = r.items[0]
    assert item["status"] == 201, r
    assert re.fullmatch(rf"\.ds-{stream}-\d{{4}}\.\d\d\.\d\d-000001", item["_index"])
    data = about(client, stream)
    assert data["name"] == stream and data["generation"] == 1 and data["template"] == stream
    assert data["timestamp_field"] == {"name": "@timestamp"} and data["status"] == "GREEN"
    assert [i["index_name"] for i in data["indices"]] == [item["_index"]]
    index = client.get(f"/{item['_index']}").json[item["_index"]]
    assert index["data_stream"] == stream and index["mappings"] == {"_meta": {"v": 1}}
    assert index["settings"]["index"]["codec"] == "lz4"
    assert index["settings"]["index"]["hidden"] == "true"
    assert client.get(f"/{stream}/_count").json["count"] == 1
    assert client.get(f"/{stream}/_doc/{item['_id']}").json["_source"]["m"] == "x"


def test_put_get_delete(client, stream):
    assert client.put(f"/_data_stream/{stream}").json == {"acknowledged": True}
    r = client.put(f"/_data_stream/{stream}")
    assert r.status == 400 and r.error["type"] == "resource_already_exists_exception"
    backing = about(client, stream)["indices"][0]["index_name"]
    names = [d["name"] for d in client.get("/_data_stream").json["data_streams"]]
    assert stream in names and names == sorted(names)
    assert client.get(f"/_data_stream/{stream[:-1]}*").json["data_streams"]
    assert client.head(f"/_data_stream/{stream}").status == 200
    assert client.head(f"/{stream}").status == 200
    assert client.delete(f"/_data_stream/{stream}").json == {"acknowledged": True}
    assert client.head(f"/{backing}").status == 404
    for r in (client.get(f"/_data_stream/{stream}"), client.delete(f"/_data_stream/{stream}")):
        assert r.status == 404 and r.error["type"] == "index_not_found_exception"
    assert client.get("/_data_stream/none-*").json == {"data_streams": []}


@pytest.mark.parametrize("name", ["Upper", ".ds-x", "a%20b"])
def test_names_that_are_refused(client, name):
    r = client.put(f"/_data_stream/{name}")
    assert r.status == 400 and r.error["type"] == "illegal_argument_exception", r


def test_a_stream_needs_a_template(client, index):
    r = client.put(f"/_data_stream/{index}")
    assert r.status == 400 and "no matching index template found" in r.error["reason"]


def test_only_create_goes_through_the_name(client, stream):
    assert client.put(f"/{stream}/_create/1", DOC).status == 201
    only = "only write ops with an op_type of create are allowed in data streams"
    for r in (client.put(f"/{stream}/_doc/1", DOC), client.delete(f"/{stream}/_doc/1"),
              client.post(f"/{stream}/_update/1", {"doc": {"a": 1}}),
              client.post(f"/{stream}/_doc?op_type=index", DOC)):
        assert r.status == 400 and r.error["type"] == "illegal_argument_exception", r
        assert r.error["reason"] == only
    r = client.bulk(bulk_body(stream, [("2", DOC)], "index") + bulk_body(stream, [("3", DOC)], "create"))
    assert [i["status"] for i in r.items] == [400, 201] and r.json["errors"] is True
    assert r.items[0]["error"]["reason"] == only
    # Without an id a document can only be new.
    assert client.post(f"/{stream}/_doc", DOC).status == 201
    assert client.post(f"/{stream}-other/_doc", DOC).status == 201
    # An index op makes no stream either.
    r = client.put(f"/{stream}-third/_doc/1", DOC)
    assert r.status == 400 and client.get(f"/_data_stream/{stream}-third").status == 404


def test_backing_indices_are_changed_not_appended_to(client, stream):
    client.put(f"/{stream}/_create/1", DOC)
    backing = about(client, stream)["indices"][0]["index_name"]
    r = client.put(f"/{backing}/_create/2", DOC)
    assert r.status == 400 and "target corresponding data stream" in r.error["reason"]
    r = client.put(f"/{backing}/_doc/1", DOC)
    assert r.status == 400 and "no if_primary_term and if_seq_no" in r.error["reason"]
    old = client.get(f"/{backing}/_doc/1").json
    r = client.put(f"/{backing}/_doc/1?if_seq_no={old['_seq_no']}&if_primary_term={old['_primary_term']}",
                   b'{"m":2}')
    assert r.status == 200, r
    assert client.post(f"/{backing}/_update/1", {"doc": {"n": 3}}).status == 200
    assert client.delete(f"/{backing}/_doc/1").status == 200


def test_an_index_cannot_take_its_place(client, stream):
    r = client.put(f"/{stream}")
    assert r.status == 400 and "creates data streams only" in r.error["reason"]
    client.put(f"/_data_stream/{stream}")
    backing = about(client, stream)["indices"][0]["index_name"]
    r = client.delete(f"/{stream}")
    assert r.status == 400 and "matches a data stream" in r.error["reason"]
    for r in (client.delete(f"/{backing}"), client.post(f"/{backing}/_close"),
              client.post("/_aliases", {"actions": [{"remove_index": {"index": backing}}]})):
        assert r.status == 400 and "is the write index for data stream" in r.error["reason"], r
    r = client.delete(f"/_index_template/{stream}")
    assert r.status == 400 and "in use by a data stream" in r.error["reason"]
    r = client.post("/_aliases", {"actions": [{"add": {"index": backing, "alias": stream}}]})
    assert r.status == 400


def test_rollover(client, stream):
    client.put(f"/{stream}/_create/1", DOC)
    first = about(client, stream)["indices"][0]["index_name"]
    r = client.post(f"/{stream}/_rollover", {"conditions": {"max_docs": 2}})
    assert r.json["rolled_over"] is False and r.json["conditions"] == {"[max_docs: 2]": False}
    r = client.post(f"/{stream}/_rollover?dry_run=true")
    second = r.json["new_index"]
    assert r.json["dry_run"] is True and r.json["rolled_over"] is False and second.endswith("-000002")
    assert client.head(f"/{second}").status == 404
    r = client.post(f"/{stream}/_rollover")
    assert r.json["rolled_over"] is True and r.json["old_index"] == first and r.json["new_index"] == second
    assert r.json["acknowledged"] is True and r.json["conditions"] == {}
    r = client.put(f"/{stream}/_create/1", DOC)
    assert r.status == 201 and r.json["_index"] == second
    data = about(client, stream)
    assert data["generation"] == 2 and [i["index_name"] for i in data["indices"]] == [first, second]
    assert client.get(f"/{stream}/_count").json["count"] == 2
    assert client.delete(f"/{first}").status == 200
    assert [i["index_name"] for i in about(client, stream)["indices"]] == [second]
    for body in ({"aliases": {"x": {}}}, {"settings": {"index.codec": "none"}}):
        assert client.post(f"/{stream}/_rollover", body).status == 400
    assert client.post(f"/{stream}/_rollover/name-1").status == 400


def test_require_data_stream(client, stream, index):
    plain = f"plain-{index}"
    r = client.post(f"/{plain}/_doc?require_data_stream=true", DOC)
    assert r.status == 404 and "is not a data stream" in r.error["reason"], r
    assert client.head(f"/{plain}").status == 404
    r = client.bulk(bulk_body(plain, [("1", DOC)], "create") + bulk_body(stream, [("1", DOC)], "create"),
                    "/_bulk?require_data_stream=true")
    assert [i["status"] for i in r.items] == [404, 201], r
    line = b'{"create":{"_index":"%s","_id":"2","require_data_stream":true}}\n' % stream.encode()
    assert client.bulk(line + DOC + b"\n").items[0]["status"] == 201
    r = client.post(f"/{stream}/_doc?require_alias=true", DOC)
    assert r.status == 404 and "is not an alias" in r.error["reason"]


def test_aliases_of_a_stream_go_on(client, stream, index):
    client.put(f"/{stream}/_create/1", DOC)
    alias = f"alias-{index}"
    assert client.put(f"/{stream}/_alias/{alias}").status == 200
    assert client.put(f"/{alias}/_create/2", DOC).status == 201
    client.post(f"/{stream}/_rollover")
    r = client.put(f"/{alias}/_create/3", DOC)
    assert r.status == 201 and r.json["_index"].endswith("-000002")
    assert client.get(f"/{alias}/_count").json["count"] == 3


def test_it_lives_through_a_restart(make_daemon):
    d = make_daemon()
    c = d.client()
    c.put("/_index_template/t", {"index_patterns": "s*", "data_stream": {"hidden": True}})
    c.put("/s1/_create/1", DOC)
    c.post("/s1/_rollover")
    c.put("/s1/_create/2", DOC)
    c.put("/_data_stream/s1/_lifecycle", {"data_retention": "7d"})
    before = c.get("/_data_stream/s1").json
    assert before["data_streams"][0]["hidden"] is True
    assert c.get("/_data_stream").json["data_streams"] == []
    assert c.get("/_data_stream?expand_wildcards=all").json == before
    d.stop()
    d.start()
    c = d.client()
    assert c.get("/_data_stream/s1").json == before
    assert c.get("/s1/_count").json["count"] == 2


def test_stats(client, stream):
    client.put(f"/{stream}/_create/1", DOC)
    client.post(f"/{stream}/_rollover")
    r = client.get(f"/_data_stream/{stream}/_stats").json
    assert r["data_stream_count"] == 1 and r["backing_indices"] == 2
    assert r["data_streams"][0]["data_stream"] == stream
    assert r["data_streams"][0]["backing_indices"] == 2


def test_wildcards_find_streams_not_hidden_indices(client, stream):
    client.put(f"/{stream}/_create/1", DOC)
    assert client.get(f"/{stream}*/_count").json["count"] == 1
    assert list(client.get(f"/{stream}*").json)[0].startswith(".ds-")
    assert client.delete(f"/{stream}*").status == 200
    assert client.get(f"/{stream}/_count").json["count"] == 1, "a wildcard has deleted a data stream"


@pytest.mark.parametrize("times", range(3))
def test_made_by_parallel_writes_once(client, node, stream, times):
    name = f"{stream}-p{times}"

    def write(k):
        c = node.client()
        r = c.bulk(bulk_body(name, [(f"{k}-{n}", DOC) for n in range(20)], "create"))
        c.close()
        return [i["status"] for i in r.items]
    results = in_threads([partial(write, k) for k in range(8)])
    assert all(s == 201 for r in results for s in r), results
    assert len(about(client, name)["indices"]) == 1
    assert client.get(f"/{name}/_count").json["count"] == 160


def test_parallel_rollovers_and_writes_lose_nothing(client, node, stream):
    def work(k):
        c = node.client()
        done = 0
        for n in range(10):
            r = c.bulk(bulk_body(stream, [(f"{k}-{n}-{m}", DOC) for m in range(10)], "create"))
            done += sum(i["status"] == 201 for i in r.items)
            if n % 3 == 0:
                assert c.post(f"/{stream}/_rollover", {"conditions": {"max_docs": 1}}).status == 200
        c.close()
        return done
    total = sum(in_threads([partial(work, k) for k in range(6)]))
    assert total == 600 and client.get(f"/{stream}/_count").json["count"] == 600
    data = about(client, stream)
    assert len(data["indices"]) == data["generation"]
