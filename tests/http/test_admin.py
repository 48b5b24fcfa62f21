# SPDX-License-Identifier: Apache-2.0
"""What people, dashboards and collectors of figures ask: nodes, tables, names, and clear refusals."""
import os
import re

import pytest
import stow


# ---------------------------------------------------------------- refusals

@pytest.mark.parametrize("method, target, word", [
    ("POST", "/_analyze", "no query engine"), ("GET", "/{i}/_field_caps", "no query engine"),
    ("POST", "/_msearch", "[ids]"), ("POST", "/_sql", "no query engine"), ("GET", "/{i}/_validate/query", "no query engine"),
    ("POST", "/{i}/_async_search", "no query engine"), ("PUT", "/_scripts/x", "scripts"),
    ("PUT", "/_snapshot/r", "stowctl backup"), ("PUT", "/_snapshot/r/s", "stowctl backup"), ("GET", "/_slm/policy", "stowctl backup"),
    ("POST", "/_ingest/pipeline/_simulate", "shipper"), ("GET", "/_ingest/pipeline/_simulate", "shipper"),
    ("POST", "/_ingest/pipeline/p/_simulate", "shipper"),
    ("PUT", "/{i}/_shrink/x", "_reindex"), ("POST", "/{i}/_clone/x", "_reindex"), ("POST", "/{i}/_freeze", "_close"),
    ("POST", "/_ilm/stop", "lifecycle.poll_interval"), ("POST", "/{i}/_ilm/remove", "index.lifecycle.name"),
    ("POST", "/_ilm/move/{i}", "index.lifecycle.name"), ("PUT", "/_plugins/_ism/policies/p", "_ilm/policy"),
    ("PUT", "/_security/user/x", "stowctl user"), ("POST", "/_security/role/x", "stowctl user"),
    ("GET", "/_cluster/allocation/explain", "one node"), ("POST", "/_monitoring/bulk", "/_metrics"),
    ("GET", "/_nodes/hot_threads", "JVM"), ("GET", "/_nodes/_local/hot_threads", "JVM"), ("GET", "/_nodes/usage", "/_metrics"),
    ("POST", "/_nodes/reload_secure_settings", "SIGHUP"), ("GET", "/_health_report", "_cluster/health"),
    ("GET", "/_ml/info", "not there"), ("POST", "/_data_stream/_modify", "_rollover"),
    ("POST", "/{i}/_update_by_query", "_reindex"),
])
def test_what_is_not_there_says_what_to_do(client, method, target, word):
    r = client.request(method, target.replace("{i}", "some-index"))
    assert r.status == 400 and word in r.error["reason"] and "not supported" in r.error["reason"], r


def test_types_in_the_path(client):
    for method, target in (("PUT", "/logs/event/1"), ("POST", "/logs/event"), ("GET", "/logs/event/_search")):
        r = client.request(method, target, {} if method != "GET" else None)
        assert r.status == 400 and "there are no types, use /{index}/_doc/{id}" in r.error["reason"], r
    assert "types" not in client.get("/logs/_nothing/1").error["reason"]


@pytest.mark.parametrize("target, text", [
    ("/_cluster/health?leve=x", "unrecognized parameter: [leve] -> did you mean [level]?"),
    ("/_cat/indices?hh=index&sortt=x", "unrecognized parameters: [hh], [sortt]"),
    ("/i/_search?sizes=1", "[sizes] -> did you mean [size]?"), ("/i/_doc/1?sourcee=1", "[sourcee] -> did you mean [source]?"),
    ("/_stats/dcos", "unrecognized metric: [dcos]"), ("/_stats/indexin", "-> did you mean [indexing]?"),
    ("/_nodes/stats/jvn", "unrecognized metric: [jvn] -> did you mean [jvm]?"), ("/_count?zzzzzzzz", "[zzzzzzzz]")])
def test_unknown_words_have_a_hint(client, target, text):
    r = client.get(target)
    assert r.status == 400 and text in r.error["reason"], r
    if "zz" in target:
        assert "did you mean" not in r.error["reason"]


@pytest.mark.parametrize("target", ["/", "/_cat/indices", "/_nodes/stats", "/_search"])
def test_formats_that_are_not_there(client, target):
    for format in ("yaml", "cbor", "smile"):
        r = client.get(f"{target}?format={format}")
        assert r.status == 406 and f"[{format}]" in r.error["reason"], r
    assert client.get(f"{target}?format=json").status == 200
    assert isinstance(client.get(f"{target}?format=json").json, (dict, list))


def test_head_goes_where_get_goes(client, index):
    client.put(f"/{index}", {"aliases": {f"{index}-a": {}}})
    for target in ("/_cat/indices", "/_cluster/health", "/_nodes/stats", f"/{index}/_settings", f"/{index}/_stats",
                   "/_cat/nodes?v", "/_tasks", "/_metrics", f"/{index}/_mapping", f"/{index}/_alias"):
        r = client.head(target)
        assert (r.status, r.body) == (200, b""), (target, r)
        assert int(r.header("content-length") or 0) > 0 or r.header("transfer-encoding"), (target, r.headers)
    assert client.head(f"/{index}-none/_settings").status == 404
    # Not where something is done or a body is read.
    assert client.head(f"/{index}/_flush").status == client.head("/_search").status == 405
    # Rows of their own come first.
    assert client.head(f"/{index}").status == client.head(f"/_alias/{index}-a").status == 200
    assert client.head(f"/{index}-none").status == client.head(f"/_alias/{index}-none").status == 404


def test_filter_path_with_dots_in_names(client, index):
    name = f"{index}-2026.11.30"
    client.put(f"/{name}", {"settings": {"codec": "lz4"}})
    r = client.get(f"/{index}*/_settings?filter_path=*.settings.index.codec")
    assert r.json == {name: {"settings": {"index": {"codec": "lz4"}}}}
    r = client.get(f"/{index}*/_settings?filter_path=-*.settings.index.uuid,-*.settings.index.version")
    assert set(r.json[name]["settings"]["index"]) >= {"codec", "provided_name"} and "uuid" not in str(r.json)


# ---------------------------------------------------------------- the node

def test_sections_of_nodes_stats(client, index):
    client.put_doc(index, "1", b'{"a":1}')
    r = client.get("/_nodes/stats").json
    assert r["_nodes"] == {"total": 1, "successful": 1, "failed": 0}
    node, = r["nodes"].values()
    assert set(node) >= {"name", "roles", "indices", "os", "process", "jvm", "thread_pool", "fs", "transport", "http",
                         "breakers", "indexing_pressure", "discovery", "ingest", "stow", "timestamp"}
    assert node["indices"]["docs"]["count"] >= 1 and node["indices"]["indexing"]["index_total"] >= 1
    assert 0 < node["process"]["open_file_descriptors"] < node["process"]["max_file_descriptors"]
    assert node["process"]["mem"]["resident_in_bytes"] > 1 << 20
    assert node["os"]["mem"]["total_in_bytes"] >= node["os"]["mem"]["used_in_bytes"] > 0
    assert node["jvm"]["threads"]["count"] > 1 and node["jvm"]["uptime_in_millis"] > 0
    assert node["jvm"]["mem"]["heap_used_in_bytes"] == 0
    assert node["fs"]["total"]["total_in_bytes"] >= node["fs"]["data"][0]["available_in_bytes"] > 0
    assert os.path.isdir(node["fs"]["data"][0]["path"])
    assert node["http"]["current_open"] >= 1
    assert node["indexing_pressure"]["memory"]["limit_in_bytes"] > 0


@pytest.mark.parametrize("path, keys", [
    ("/_nodes/stats/os,jvm", {"os", "jvm"}), ("/_nodes/_local/stats/http", {"http"}), ("/_nodes/_all/stats/indices/docs", {"indices"}),
    ("/_nodes/stats/breaker", {"breakers"}), ("/_nodes/_local/http", {"http"}), ("/_nodes/os,process", {"os", "process"}),
    ("/_nodes/_master/jvm", {"jvm"}), ("/_nodes/_local/name", set())])
def test_parts_of_nodes(client, path, keys):
    node, = client.get(path).json["nodes"].values()
    basic = {"name", "transport_address", "host", "ip", "version", "build_flavor", "build_type", "roles", "attributes", "timestamp"}
    assert set(node) - basic == keys
    if path.endswith("/docs"):
        assert set(node["indices"]) == {"docs"}


def test_nodes_by_name_and_index_metrics(client, index):
    client.put(f"/{index}")
    assert client.get("/_nodes/nobody").json["nodes"] == {}
    assert client.get("/_nodes/nobody/stats").json["_nodes"]["total"] == 0
    id, node = client.get("/_nodes").json["nodes"].popitem()
    assert list(client.get(f"/_nodes/{id}/stats").json["nodes"]) == [id]
    assert node["jvm"]["start_time_in_millis"] > 0 and node["os"]["available_processors"] >= 1
    assert node["http"]["publish_address"] and node["plugins"] == []
    r = client.get("/_nodes/stats/os/docs")
    assert r.status == 400 and "indices stats not requested" in r.error["reason"]
    assert client.get("/_nodes/stats?level=galaxy").status == 400
    node, = client.get("/_nodes/stats/indices/docs?level=indices").json["nodes"].values()
    assert node["indices"]["indices"][index] == {"docs": {"count": 0, "deleted": 0}}


def test_cluster_stats_has_figures_of_the_process(client):
    nodes = client.get("/_cluster/stats").json["nodes"]
    assert nodes["process"]["open_file_descriptors"]["avg"] > 0 and nodes["jvm"]["threads"] > 1


# ---------------------------------------------------------------- cluster settings that act

def test_auto_create_index(make_daemon):
    daemon = make_daemon()
    client = daemon.client()

    def rule(value, level="persistent"):
        assert client.put("/_cluster/settings", {level: {"action.auto_create_index": value}}).status == 200

    def written(name):
        one = client.put_doc(name, "1", b"{}")
        item, = client.bulk(stow.bulk_body(name, [("2", b"{}")])).items
        again, = client.post("/_reindex", {"source": {"index": "src"}, "dest": {"index": name}}),
        assert (one.status, item["status"]) in ((201, 201), (404, 404)), (one, item)
        assert (again.status == 200) == (one.status == 201), again
        return "" if one.status == 201 else one.error["reason"]
    client.put_doc("src", "1", b"{}")
    rule("false")
    assert written("a") == "no such index [a] and [action.auto_create_index] is [false]"
    assert client.head("/a").status == 404
    assert client.put("/a").status == 200 and written("a") == ""  # by hand it is made
    rule("+logs-*,-*")
    assert written("logs-1") == "" and "contains [-*] which forbids" in written("b")
    rule("logs-*", "transient")
    assert "([logs-*]) doesn't match" in written("c")
    daemon.restart()
    client = daemon.client()
    assert written("c") != ""
    for level in ("transient", "persistent"):
        rule(None, level)
    assert written("c") == ""


def test_destructive_requires_name(make_daemon):
    client = make_daemon().client()
    for name in ("i-1", "i-2", "i-3"):
        client.put(f"/{name}")
    assert client.put("/_cluster/settings", {"persistent": {"action.destructive_requires_name": "maybe"}}).status == 400
    assert client.put("/_cluster/settings", {"persistent": {"action.destructive_requires_name": True}}).status == 200
    for target in ("/i-*", "/_all", "/*", "/i-1,i-*"):
        r = client.delete(target)
        assert r.status == 400 and "Wildcard expressions" in r.error["reason"]
        assert client.post(f"{target}/_close").status == 400
    assert client.get("/_cat/indices?h=index&s=index").body == b"i-1\ni-2\ni-3\n"
    assert client.delete("/i-1,i-2").status == 200
    client.put("/_cluster/settings", {"persistent": {"action.destructive_requires_name": None}})
    assert client.delete("/i-*").status == 200 and client.get("/_cat/indices").body.strip() == b""


# ---------------------------------------------------------------- names

def test_resolve_index(client, index):
    client.put(f"/{index}-a", {"aliases": {f"{index}-one": {}, f"{index}-two": {}}})
    client.put(f"/{index}-b", {"aliases": {f"{index}-one": {}}})
    client.post(f"/{index}-b/_close")
    client.put(f"/_index_template/{index}", {"index_patterns": [f"{index}-s*"], "data_stream": {}, "priority": 900})
    client.put(f"/_data_stream/{index}-s")
    r = client.get(f"/_resolve/index/{index}*").json
    assert r["indices"] == [{"name": f"{index}-a", "aliases": [f"{index}-one", f"{index}-two"], "attributes": ["open"]}]
    assert r["aliases"] == [{"name": f"{index}-one", "indices": [f"{index}-a", f"{index}-b"]},
                            {"name": f"{index}-two", "indices": [f"{index}-a"]}]
    stream, = r["data_streams"]
    assert stream["name"] == f"{index}-s" and stream["timestamp_field"] == "@timestamp"
    backing, = stream["backing_indices"]
    r = client.get(f"/_resolve/index/{index}*,{backing}?expand_wildcards=all").json
    assert [(i["name"], i["attributes"]) for i in r["indices"]] == [
        (backing, ["hidden", "open"]), (f"{index}-a", ["open"]), (f"{index}-b", ["closed"])]
    assert r["indices"][0]["data_stream"] == f"{index}-s"
    assert client.get(f"/_resolve/index/{index}-b").json["indices"][0]["attributes"] == ["closed"]
    r = client.get(f"/_resolve/index/{index}-a,{index}-none")
    assert r.status == 404 and r.error["type"] == "index_not_found_exception"
    assert client.get(f"/_resolve/index/{index}-none?ignore_unavailable=true").json == {
        "indices": [], "aliases": [], "data_streams": []}
    # A backing index names its stream, in full and in the state.
    assert client.get(f"/{backing}").json[backing]["data_stream"] == f"{index}-s"
    client.delete(f"/_data_stream/{index}-s")


def test_mapping_of_fields(client, index):
    text = {"type": "text", "fields": {"raw": {"type": "keyword"}}}
    client.put(f"/{index}", {"mappings": {"properties": {"t": text, "o": {"properties": {"x": {"type": "long"}}}}}})

    def fields(names, query=""):
        return client.get(f"/{index}/_mapping/field/{names}{query}").json[index]["mappings"]
    assert fields("t") == {"t": {"full_name": "t", "mapping": {"t": text}}}
    assert fields("o.x,none") == {"o.x": {"full_name": "o.x", "mapping": {"x": {"type": "long"}}}}
    assert set(fields("*")) == {"t", "t.raw", "o.x"} and set(fields("t*")) == {"t", "t.raw"}
    assert fields("none") == {} and set(fields("t", "?include_type_name=true")) == {"_doc"}
    assert index in client.get("/_mapping/field/t").json
    assert client.get(f"/{index}-none/_mapping/field/t").status == 404


def test_all_aliases(client, index):
    client.put(f"/{index}", {"aliases": {f"{index}-a": {}}})
    assert client.get("/_aliases").json[index] == {"aliases": {f"{index}-a": {}}}


# ---------------------------------------------------------------- tables

@pytest.mark.parametrize("name, columns", [
    ("pending_tasks", "insertOrder timeInQueue priority source"), ("plugins", "name component version"),
    ("nodeattrs", "node host ip attr value"), ("fielddata", "id host ip node field size"), ("repositories", "id type"),
    ("recovery", "index shard time type stage"), ("thread_pool", "node_name name active queue rejected"),
    ("tasks", "action task_id parent_task_id type start_time timestamp running_time ip node"),
    ("component_templates", "name version alias_count mapping_count settings_count metadata_count included_in")])
def test_tables(client, name, columns):
    assert client.get(f"/_cat/{name}?v").body.decode().splitlines()[0].split()[:len(columns.split())] == columns.split()
    assert isinstance(client.get(f"/_cat/{name}?format=json").json, list)
    assert f"/_cat/{name}\n" in client.get("/_cat").body.decode()


def test_tables_with_rows(client, index):
    client.put(f"/_component_template/{index}", {"version": 7, "_meta": {"x": 1}, "template": {
        "settings": {"codec": "lz4"}, "mappings": {"properties": {"a": {"type": "long"}, "b": {"type": "long"}}}}})
    client.put(f"/_index_template/{index}", {"index_patterns": [f"{index}-*"], "composed_of": [index], "priority": 901})
    row, = client.get(f"/_cat/component_templates/{index}?format=json").json
    assert row == {"name": index, "version": "7", "alias_count": "0", "mapping_count": "2", "settings_count": "1",
                   "metadata_count": "1", "included_in": f"[{index}]"}
    rows = client.get("/_cat/thread_pool?format=json&h=name,queue").json
    assert [r["name"] for r in rows] == ["get", "management", "write"] and all(r["queue"].isdigit() for r in rows)
    r = client.request("GET", "/_cat/tasks?h=action,x_opaque_id,task_id", headers={"X-Opaque-Id": "mine"})
    assert re.fullmatch(r"cluster:monitor/tasks/lists mine [\w-]{22}:\d+\n", r.body.decode()), r


def test_recovery(client, index):
    client.put(f"/{index}")
    shard, = client.get(f"/{index}/_recovery?human=true&detailed=true").json[index]["shards"]
    assert (shard["type"], shard["stage"], shard["primary"]) == ("EMPTY_STORE", "DONE", True)
    assert shard["index"]["size"]["total_in_bytes"] == 0 and shard["index"]["files"]["details"] == []
    assert re.match(r"20\d\d-.*Z", shard["start_time"]) and shard["start_time_in_millis"] > 0
    client.post(f"/{index}/_close")
    assert client.get(f"/{index}/_recovery").json[index]["shards"][0]["type"] == "EXISTING_STORE"
    assert client.get(f"/{index}/_recovery?active_only=true").json == {}
    row, = client.get(f"/_cat/recovery/{index}?format=json&h=index,type,stage").json
    assert row == {"index": index, "type": "existing_store", "stage": "done"}
    assert client.get(f"/_cat/recovery/{index}?active_only=true").body.strip() == b""


def test_what_collectors_and_tools_can_do_without(client, index):
    client.put(f"/{index}")
    assert client.get("/_snapshot").json == client.get("/_snapshot/_all").json == client.get("/_remote/info").json == {}
    assert client.post(f"/{index}/_cache/clear?query=true").json == {"_shards": {"total": 1, "successful": 1, "failed": 0}}
    assert client.post("/_cache/clear").status == 200 and client.post(f"/{index}-none/_cache/clear").status == 404
    assert client.post("/_ilm/start").json == {"acknowledged": True}
    assert client.get("/_ilm/status").json == {"operation_mode": "RUNNING"}


def test_lifecycle_that_is_switched_off(make_daemon):
    client = make_daemon("lifecycle.poll_interval=0").client()
    assert client.get("/_ilm/status").json == {"operation_mode": "STOPPED"}
    r = client.post("/_ilm/start")
    assert r.status == 400 and "lifecycle.poll_interval" in r.error["reason"]
