# SPDX-License-Identifier: Apache-2.0
"""Aliases: write indices, rollover, require_alias, date math; closed and blocked indices."""
import re
import threading
import time
from functools import partial
from http.client import HTTPException

import pytest
from stow import bulk_body, in_threads


def add(index, alias, **properties):
    return {"add": {"index": index, "alias": alias, **properties}}


def change(client, *actions):
    return client.post("/_aliases", {"actions": list(actions)})


def test_put_show_remove(client, index):
    client.put(f"/{index}")
    a = f"a-{index}"
    assert client.put(f"/{index}/_alias/{a}", {"filter": {"term": {"x": 1}}, "routing": "r"}).status == 200
    want = {"filter": {"term": {"x": 1}}, "index_routing": "r", "search_routing": "r"}
    assert client.get(f"/_alias/{a}").json == {index: {"aliases": {a: want}}}
    assert client.get(f"/{index}/_alias/a-*").json[index]["aliases"] == {a: want}
    assert client.head(f"/_alias/{a}").status == 200
    assert client.head(f"/{index}/_alias/none").status == 404
    assert client.delete(f"/{index}/_alias/{a}").json == {"acknowledged": True}
    r = client.get(f"/_alias/{a}")
    assert r.status == 404 and r.json["error"] == f"alias [{a}] missing"
    r = client.delete(f"/{index}/_alias/{a}")
    assert r.status == 404 and r.error["type"] == "aliases_not_found_exception"


def test_write_index(client, index):
    one, two, a = f"{index}-1", f"{index}-2", f"a-{index}"
    client.put(f"/{one}", {"aliases": {a: {}}})
    assert client.put_doc(a, "1", b'{"v":1}').json["_index"] == one
    client.put(f"/{two}", {"aliases": {a: {}}})
    r = client.put_doc(a, "2", b"{}")
    assert r.status == 400 and "no write index is defined for alias" in r.error["reason"]
    r = client.bulk(bulk_body(a, [("2", b"{}")]))
    assert r.items[0]["status"] == 400 and r.items[0]["error"]["type"] == "illegal_argument_exception"
    assert change(client, add(two, a, is_write_index=True)).status == 200
    assert client.put_doc(a, "2", b"{}").json["_index"] == two
    r = client.get_doc(a, "1")
    assert r.status == 400 and "more than one index associated" in r.error["reason"]


def test_two_write_indices_are_refused(client, index):
    one, two, a = f"{index}-1", f"{index}-2", f"a-{index}"
    client.put(f"/{one}", {"aliases": {a: {"is_write_index": True}}})
    client.put(f"/{two}")
    more = "more than one write index"
    r = change(client, add(two, a, is_write_index=True))
    assert r.status == 400 and more in r.error["reason"]
    r = client.put(f"/{two}/_alias/{a}", {"is_write_index": True})
    assert r.status == 400 and more in r.error["reason"]
    r = client.put(f"/{index}-3", {"aliases": {a: {"is_write_index": True}}})
    assert r.status == 400 and more in r.error["reason"]
    assert client.head(f"/{index}-3").status == 404
    assert list(client.get(f"/_alias/{a}").json) == [one], "a refused request has changed something"
    # In one request, whatever the order, the mark may move.
    assert change(client, add(two, a, is_write_index=True), add(one, a, is_write_index=False)).status == 200
    assert client.put_doc(a, "1", b"{}").json["_index"] == two
    assert change(client, {"remove": {"index": two, "alias": a}}, add(one, a, is_write_index=True)).status == 200
    assert client.put_doc(a, "2", b"{}").json["_index"] == one


def test_a_refused_request_changes_nothing(client, index):
    client.put(f"/{index}-1")
    a = f"a-{index}"
    for bad in ({"remove": {"index": f"{index}-1", "alias": "none"}}, add(f"{index}-9", a),
                add(f"{index}-1", f"{index}-1"), add(f"{index}-1", "b*d")):
        r = change(client, add(f"{index}-1", a), bad)
        assert r.status in (400, 404) and r.error["type"], r
        assert client.head(f"/_alias/{a}").status == 404, bad


def test_remove_index_and_take_its_name(client, index):
    old, new = index, f"{index}-new"
    client.put(f"/{old}")
    client.put(f"/{new}")
    assert change(client, {"remove_index": {"index": old}}, add(new, old)).status == 200
    assert client.put_doc(old, "1", b"{}").json["_index"] == new


def test_require_alias(client, index):
    r = client.put_doc(index, "1", b"{}", "?require_alias=true")
    assert r.status == 404 and "is not an alias" in r.error["reason"]
    assert client.head(f"/{index}").status == 404
    client.put(f"/{index}-1", {"aliases": {index: {}}})
    assert client.put_doc(index, "1", b"{}", "?require_alias=true").status == 201
    r = client.bulk(bulk_body(f"{index}-1", [("2", b"{}")]), "/_bulk?require_alias=true")
    assert r.items[0]["status"] == 404


# ---------------------------------------------------------------- rollover

def test_rollover_without_a_mark(client, index):
    one, a = f"{index}-1", f"a-{index}"
    client.put(f"/{one}", {"aliases": {a: {"routing": "r"}}})
    client.put_doc(one, "1", b'{"v":1}')
    r = client.post(f"/{a}/_rollover", {"conditions": {"max_docs": 1, "max_age": "7d"}})
    two = f"{index}-000002"
    assert r.json == {"acknowledged": True, "shards_acknowledged": True, "old_index": one,
                      "new_index": two, "rolled_over": True, "dry_run": False,
                      "conditions": {"[max_docs: 1]": True, "[max_age: 7d]": False}}
    properties = {"index_routing": "r", "search_routing": "r"}
    assert client.get(f"/_alias/{a}").json == {two: {"aliases": {a: properties}}}
    assert client.put_doc(a, "1", b"{}").json["_index"] == two


def test_rollover_with_a_mark(client, index):
    one, a = f"{index}-000009", f"a-{index}"
    client.put(f"/{one}", {"aliases": {a: {"is_write_index": True}}})
    assert client.post(f"/{a}/_rollover").json["new_index"] == f"{index}-000010"
    got = client.get(f"/_alias/{a}").json
    assert got[one]["aliases"][a] == {"is_write_index": False}
    assert got[f"{index}-000010"]["aliases"][a] == {"is_write_index": True}
    r = client.post(f"/{a}/_rollover/{index}-mine", {"settings": {"codec": "lz4"},
                                                     "mappings": {"_meta": {"x": 1}},
                                                     "aliases": {f"b-{index}": {}}})
    assert r.json["new_index"] == f"{index}-mine"
    about = client.get(f"/{index}-mine").json[f"{index}-mine"]
    assert about["settings"]["index"]["codec"] == "lz4" and about["mappings"] == {"_meta": {"x": 1}}
    assert set(about["aliases"]) == {a, f"b-{index}"}
    r = client.post(f"/{a}/_rollover")
    assert r.status == 400 and "does not match pattern" in r.error["reason"]


def test_rollover_gets_the_codec_of_the_template(client, index):
    a = f"a-{index}"
    client.put(f"/_index_template/{index}", {"index_patterns": [f"{index}-*"], "priority": 400,
                                             "template": {"settings": {"codec": "none"}}})
    client.put(f"/{index}-1", {"aliases": {a: {}}, "settings": {"codec": "lz4"}})
    client.post(f"/{a}/_rollover")
    settings = client.get(f"/{index}-000002/_settings").json[f"{index}-000002"]["settings"]["index"]
    assert settings["codec"] == "none"
    client.delete(f"/_index_template/{index}")


@pytest.mark.parametrize("conditions, met", [
    ({"max_docs": 2}, False), ({"max_docs": 1}, True), ({"max_docs": "1"}, True),
    ({"max_size": "1gb"}, False), ({"max_size": "5b"}, True), ({"max_age": "0ms"}, True),
    ({"max_age": "1h"}, False), ({"max_primary_shard_size": "5b"}, True),
    ({"max_docs": 1, "min_docs": 2}, False), ({"max_docs": 1, "min_docs": 1}, True), ({"min_docs": 1}, False),
])
def test_rollover_conditions(client, index, conditions, met):
    client.put(f"/{index}-1", {"aliases": {index: {}}})
    client.put_doc(index, "1", b'{"v":"some text"}')
    r = client.post(f"/{index}/_rollover", {"conditions": conditions})
    assert r.json["rolled_over"] is met and r.json["acknowledged"] is met, r
    assert client.head(f"/{index}-000002").status == (200 if met else 404)


def test_rollover_that_is_refused(client, index):
    client.put(f"/{index}-1", {"aliases": {index: {}}})
    client.put(f"/{index}-000002")
    for query in ("", "?dry_run=true"):
        r = client.post(f"/{index}/_rollover{query}")
        assert r.status == 400 and r.error["type"] == "resource_already_exists_exception", r
    for target, reason in ((f"{index}-1", "concrete index"), ("none", "does not exist")):
        r = client.post(f"/{target}/_rollover")
        assert r.status == 400 and reason in r.error["reason"], r
    r = client.post(f"/{index}/_rollover/Bad%20name")
    assert r.error["type"] == "invalid_index_name_exception"
    for body in ({"conditions": {"max_fun": 1}}, {"conditions": {"max_age": "soon"}}, {"bogus": {}}, "[]"):
        assert client.post(f"/{index}/_rollover", body).status == 400


def test_date_math_names_roll_over(client, index):
    client.put(f"/%3C{index}-%7Bnow%2Fd%7D-000001%3E", {"aliases": {index: {"is_write_index": True}}})
    r = client.post(f"/{index}/_rollover")
    assert re.fullmatch(rf"{index}-\d{{4}}\.\d\d\.\d\d-000002", r.json["new_index"]), r
    settings = client.get(f"/{r.json['new_index']}/_settings").json[r.json["new_index"]]["settings"]
    assert settings["index"]["provided_name"] == f"<{index}-{{now/d}}-000002>"


def test_writes_go_on_while_an_alias_rolls(client, node, index):
    client.put(f"/{index}-1", {"aliases": {index: {"is_write_index": True}}})
    stop = threading.Event()

    def write(k):
        c, n = node.client(), 0
        while not stop.is_set():
            r = c.bulk(bulk_body(index, [(f"{k}-{n}-{m}", b"{}") for m in range(5)]))
            assert r.json["errors"] is False, r
            n += 5
        c.close()
        return n

    def roll():
        c = node.client()
        for _ in range(15):
            assert c.post(f"/{index}/_rollover").json["rolled_over"] is True
        stop.set()
        c.close()
        return 0
    total = sum(in_threads([partial(write, k) for k in range(4)] + [roll]))
    assert client.get(f"/{index}-*/_count").json["count"] == total
    marked = [n for n, a in client.get(f"/_alias/{index}").json.items() if a["aliases"][index]["is_write_index"]]
    assert marked == [f"{index}-000016"]


# ---------------------------------------------------------------- closed and blocked

def test_closed(client, index):
    client.put_doc(index, "1", b"{}")
    assert client.post(f"/{index}/_close").json["indices"] == {index: {"closed": True}}
    for r in (client.get_doc(index, "1"), client.put_doc(index, "2", b"{}"), client.get(f"/{index}/_count"),
              client.post(f"/{index}/_refresh"), client.post(f"/{index}/_flush"),
              client.get(f"/{index}/_stats"), client.get(f"/{index}/_segments")):
        assert r.status == 400 and r.error["type"] == "index_closed_exception", r
    r = client.bulk(bulk_body(index, [("2", b"{}")]))
    assert r.items[0]["status"] == 400 and r.items[0]["error"]["type"] == "index_closed_exception"
    r = client.post(f"/{index}/_mget", {"ids": ["1"]})
    assert r.status == 200 and r.json["docs"][0]["error"]["type"] == "index_closed_exception"
    assert client.get(f"/{index}*/_count").json["count"] == 0
    r = client.put(f"/{index}/_settings", {"index.codec": "lz4"})
    assert r.status == 400 and "final" in r.error["reason"]
    assert client.get(f"/_cat/indices/{index}?h=status").body == b"close\n"
    assert client.post(f"/{index}/_open").json["acknowledged"] is True
    assert client.get_doc(index, "1").status == 200
    client.post(f"/{index}/_close")
    assert client.delete(f"/{index}").status == 200


BLOCKS = {  # block: status of write, read, settings shown, mapping changed, delete
    "write": (403, 200, 200, 200, 200), "read_only": (403, 200, 200, 403, 403),
    "read_only_allow_delete": (429, 200, 200, 429, 200), "read": (201, 403, 200, 200, 200),
    "metadata": (201, 200, 403, 403, 403),
}


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks(client, index, block):
    client.put_doc(index, "1", b"{}")
    r = client.put(f"/{index}/_settings", {f"index.blocks.{block}": True})
    assert r.status == 200, r
    answers = [client.put_doc(index, "2", b"{}"), client.get_doc(index, "1"), client.get(f"/{index}/_settings"),
               client.put(f"/{index}/_mapping", {"properties": {"a": {"type": "long"}}})]
    bulk = client.bulk(bulk_body(index, [("2", b"{}")])).items[0]
    if BLOCKS[block][4] != 200:
        answers.append(client.delete(f"/{index}"))
        assert client.put(f"/{index}/_settings", {f"index.blocks.{block}": None}).status == 200
        assert client.put_doc(index, "3", b"{}").status == 201
        answers += [client.delete(f"/{index}")][1:]
    else:
        answers.append(client.delete(f"/{index}"))
    assert tuple(a.status for a in answers) == BLOCKS[block], answers
    for a in answers:
        if a.status in (403, 429):
            assert a.error["type"] == "cluster_block_exception", a
            assert f"index [{index}] blocked by: [" in a.error["reason"]
    assert bulk["status"] == (200 if BLOCKS[block][0] == 201 else BLOCKS[block][0])


def test_add_block(client, index):
    client.put(f"/{index}")
    r = client.put(f"/{index}/_block/write")
    assert r.json == {"acknowledged": True, "shards_acknowledged": True,
                      "indices": [{"name": index, "blocked": True}]}
    assert client.put_doc(index, "1", b"{}").status == 403
    assert client.put(f"/{index}/_block/nonsense").status == 400
    assert client.put(f"/{index}/_block/read_only_allow_delete").status == 400
    assert client.put(f"/none-{index}/_block/write").status == 404
    state = client.get(f"/_cluster/state/blocks/{index}").json["blocks"]["indices"][index]
    assert list(state) == ["8"]
    assert client.delete(f"/{index}/_block/write").json["indices"] == [{"name": index, "unblocked": True}]
    assert client.put_doc(index, "1", b"{}").status == 201


def test_a_killed_rollover_leaves_a_write_index(make_daemon):
    """SIGKILL in the middle of rollovers: alias and data stream can be written to and rolled on."""
    d = make_daemon()
    c = d.client()
    c.put("/_index_template/s", {"index_patterns": ["s*"], "data_stream": {}})
    c.put("/m-1", {"aliases": {"marked": {"is_write_index": True}}})
    c.put("/u-1", {"aliases": {"plain": {}}})
    assert c.put("/s1/_create/0", b"{}").status == 201
    for n in range(5):
        done = []

        def roll(target):
            k = d.client()
            try:
                while True:
                    done.append(k.post(f"/{target}/_rollover").json["rolled_over"])
            except (OSError, ValueError, HTTPException):
                pass
        threads = [threading.Thread(target=roll, args=(t,), daemon=True) for t in ("marked", "plain", "s1")]
        for t in threads:
            t.start()
        time.sleep(0.05 + 0.03 * n)
        d.kill()
        for t in threads:
            t.join(20)
        assert all(done)
        d.start()
        c = d.client()
        for target in ("marked", "plain", "s1"):
            r = c.put(f"/{target}/_create/{n + 1}", b"{}")
            assert r.status == 201, (target, r)
            assert r.json["_index"] == c.post(f"/{target}/_rollover?dry_run=true").json["old_index"]
            assert c.post(f"/{target}/_rollover").json["rolled_over"] is True
        stream = c.get("/_data_stream/s1").json["data_streams"][0]
        assert len(stream["indices"]) == stream["generation"]
