# SPDX-License-Identifier: Apache-2.0
"""Templates decide what an index gets that a first write makes; also include_type_name, pipelines,
policies and cluster settings, which are kept beside them."""
import pytest


def settings_of(client, index):
    return client.get(f"/{index}/_settings").json[index]["settings"]["index"]


@pytest.fixture
def put(client):
    made = []

    def put_template(path, body, expect=200):
        r = client.put(path, body)
        assert r.status == expect, r
        made.append(path)
        return r
    yield put_template
    for path in reversed(made):
        client.delete(path)


@pytest.mark.parametrize("settings", [
    {"index": {"codec": "lz4", "number_of_shards": 3}}, {"index.codec": "lz4", "index.number_of_shards": "3"},
    {"codec": "lz4", "number_of_shards": 3}, {"index": {"codec": "lz4"}, "index.number_of_shards": 3},
])
@pytest.mark.parametrize("kind", ["_template", "_index_template"])
@pytest.mark.parametrize("as_list", [True, False])
def test_codec_of_a_first_write(client, index, put, settings, kind, as_list):
    patterns = [f"{index}-*"] if as_list else f"{index}-*"
    body = {"index_patterns": patterns}
    body.update({"template": {"settings": settings}} if kind == "_index_template" else {"settings": settings})
    put(f"/{kind}/{index}", body)
    assert client.put_doc(f"{index}-2026.11.30", "1", b"{}").status == 201
    got = settings_of(client, f"{index}-2026.11.30")
    assert got["codec"] == "lz4" and got["number_of_shards"] == "3"


def test_legacy_order_and_composable_priority(client, index, put):
    put(f"/_template/{index}-a", {"index_patterns": f"{index}*", "order": 1,
                                  "settings": {"codec": "lz4", "refresh_interval": "5s"}})
    put(f"/_template/{index}-b", {"index_patterns": f"{index}-*", "order": 2, "settings": {"codec": "none"}})
    client.put_doc(f"{index}-1", "1", b"{}")
    got = settings_of(client, f"{index}-1")
    assert got["codec"] == "none" and got["refresh_interval"] == "5s"
    put(f"/_index_template/{index}-c", {"index_patterns": f"{index}-*", "priority": 301,
                                        "template": {"settings": {"codec": "zlib"}}})
    put(f"/_index_template/{index}-d", {"index_patterns": f"{index}-2*", "priority": 302})
    client.put_doc(f"{index}-11", "1", b"{}")
    got = settings_of(client, f"{index}-11")
    assert got["codec"] == "zlib" and "refresh_interval" not in got, "legacy templates count too"
    client.put_doc(f"{index}-2", "1", b"{}")
    assert "codec" not in settings_of(client, f"{index}-2")


def test_components_in_order(client, index, put):
    put(f"/_component_template/{index}-a", {"template": {"settings": {"codec": "zstd", "refresh_interval": "1s"},
                                                         "aliases": {f"al-{index}": {}}}})
    put(f"/_component_template/{index}-b", {"template": {"settings": {"codec.compression_level": 7},
                                                         "mappings": {"_meta": {"b": 1}}}})
    put(f"/_index_template/{index}", {"index_patterns": [f"{index}-*"], "priority": 303,
                                      "composed_of": [f"{index}-a", f"{index}-b"],
                                      "template": {"settings": {"refresh_interval": "9s"}}})
    client.put_doc(f"{index}-1", "1", b"{}")
    got = settings_of(client, f"{index}-1")
    assert (got["codec"], got["refresh_interval"]) == (
        {"compression_level": "7"} if isinstance(got["codec"], dict) else "zstd", "9s")
    flat = client.get(f"/{index}-1/_settings?flat_settings=true").json[f"{index}-1"]["settings"]
    assert flat["index.codec"] == "zstd" and flat["index.codec.compression_level"] == "7"
    assert client.get(f"/{index}-1").json[f"{index}-1"]["mappings"] == {"_meta": {"b": 1}}
    assert client.head(f"/_alias/al-{index}").status == 200
    r = client.delete(f"/_component_template/{index}-a")
    assert r.status == 400 and "still in use by index templates" in r.error["reason"], r
    r = client.put(f"/_index_template/{index}-x", {"index_patterns": ["x"], "composed_of": ["none"]})
    assert r.status == 400 and "do not exist" in r.error["reason"]
    r = client.post(f"/_index_template/_simulate_index/{index}-7")
    assert r.json["template"]["settings"]["index"]["refresh_interval"] == "9s"


def test_same_priority_same_names(client, index, put):
    put(f"/_index_template/{index}-a", {"index_patterns": [f"{index}-*"], "priority": 5})
    r = client.put(f"/_index_template/{index}-b", {"index_patterns": [f"{index}-b*"], "priority": 5})
    assert r.status == 400 and "that have the same priority [5]" in r.error["reason"], r
    put(f"/_index_template/{index}-b", {"index_patterns": [f"{index}-b*"], "priority": 6})
    put(f"/_index_template/{index}-c", {"index_patterns": [f"other-{index}*"], "priority": 5})
    put(f"/_index_template/{index}-a", {"index_patterns": [f"{index}-*"], "priority": 5, "version": 2})


@pytest.mark.parametrize("settings, text", [
    ({"codec": "zstdd"}, "unknown value for [index.codec]"), ({"bogus": 1}, "unknown setting [index.bogus]"),
    ({"index.lifecycle.data_retention": "soon"}, "as a time value"),
    ({"codec": "zstd", "codec.compression_level": 99}, "compression_level"),
])
@pytest.mark.parametrize("kind", ["_template", "_index_template", "_component_template"])
def test_faults_appear_when_the_template_is_put(client, index, settings, text, kind):
    body = {"settings": settings} if kind == "_template" else {"template": {"settings": settings}}
    if kind != "_component_template":
        body["index_patterns"] = f"{index}*"
    r = client.put(f"/{kind}/{index}", body)
    assert r.status == 400 and text in r.error["reason"], r
    assert client.head(f"/{kind}/{index}").status == 404


def test_create_only(client, index, put):
    put(f"/_index_template/{index}", {"index_patterns": [f"{index}*"], "priority": 7})
    r = client.put(f"/_index_template/{index}?create=true", {"index_patterns": [f"{index}*"], "priority": 7})
    assert r.status == 400 and "already exists" in r.error["reason"]


def test_include_type_name(client, index):
    typed = {"_doc": {"properties": {"a": {"type": "long"}}}}
    assert client.put(f"/{index}", {"mappings": typed}).status == 400
    assert client.put(f"/{index}?include_type_name=true", {"mappings": typed}).status == 200
    assert client.get(f"/{index}/_mapping").json[index]["mappings"] == typed["_doc"]
    assert client.get(f"/{index}/_mapping?include_type_name=true").json[index]["mappings"] == typed
    assert client.get(f"/{index}?include_type_name=true").json[index]["mappings"] == typed
    more = {"_doc": {"properties": {"b": {"type": "long"}}}}
    assert client.put(f"/{index}/_mapping", more).status == 400
    assert client.put(f"/{index}/_mapping?include_type_name=true", more).status == 200
    assert set(client.get(f"/{index}/_mapping").json[index]["mappings"]["properties"]) == {"a", "b"}
    body = {"index_patterns": f"x-{index}", "mappings": typed}
    assert client.put(f"/_template/{index}?include_type_name=true", body).status == 200
    assert client.get(f"/_template/{index}").json[index]["mappings"] == typed["_doc"]
    assert client.get(f"/_template/{index}?include_type_name=true").json[index]["mappings"] == typed
    client.delete(f"/_template/{index}")


# ---------------------------------------------------------------- pipelines, policies, cluster settings

def test_pipelines(client, index):
    path = f"/_ingest/pipeline/{index}"
    r = client.get(path)
    assert r.status == 404 and r.json == {}
    body = {"description": "none", "processors": [], "version": 3}
    assert client.put(path, body).json == {"acknowledged": True}
    assert client.get(path).json == {index: body}
    assert index in client.get("/_ingest/pipeline").json
    for bad in ({"processors": [{"set": {"field": "a", "value": 1}}]}, {},
                {"processors": [], "on_failure": [{"drop": {}}]}):
        r = client.put(path, bad)
        assert r.status == 400 and r.error["reason"], r
    assert client.get(path).json == {index: body}
    assert client.put_doc(index, "1", b"{}", f"?pipeline={index}").status == 201
    assert client.put_doc(index, "2", b"{}", "?pipeline=_none").status == 201
    r = client.put_doc(index, "3", b"{}", "?pipeline=none")
    assert r.status == 400 and r.error["reason"] == "pipeline with id [none] does not exist"
    line = b'{"index":{"_index":"%s","pipeline":"%s"}}\n{}\n' % (index.encode(), index.encode())
    r = client.bulk(line + line.replace(b'"pipeline":"', b'"pipeline":"x'))
    assert [i["status"] for i in r.items] == [201, 400]
    assert client.delete(path).status == 200
    r = client.delete(path)
    assert r.status == 404 and r.error["type"] == "resource_not_found_exception"


def test_pipelines_of_an_index(client, index):
    client.put(f"/{index}", {"settings": {"index.default_pipeline": index}})
    missing = f"pipeline with id [{index}] does not exist"
    r = client.put_doc(index, "1", b"{}")
    assert r.status == 400 and r.error == {**r.error, "type": "illegal_argument_exception", "reason": missing}
    one = b'{"index":{"_index":"%s"}}\n{}\n' % index.encode()
    item = client.bulk(one).items[0]
    assert item["status"] == 400 and item["error"]["reason"] == missing
    assert client.bulk(one, "/_bulk?pipeline=_none").items[0]["status"] == 201
    assert client.put_doc(index, "1", b"{}", "?pipeline=_none").status == 201
    assert client.delete(f"/{index}/_doc/1").status == 200
    client.put(f"/_ingest/pipeline/{index}", {"processors": []})
    assert client.put_doc(index, "1", b"{}").status == 201 and client.bulk(one).items[0]["status"] == 201
    client.put(f"/{index}/_settings", {"index.default_pipeline": "_none", "index.final_pipeline": "none"})
    assert client.put_doc(index, "1", b"{}", "?pipeline=_none").status == 400
    client.delete(f"/_ingest/pipeline/{index}")


def test_policies(client, index):
    path = f"/_ilm/policy/{index}"
    assert client.get(path).status == 404 and client.delete(path).status == 404
    policy = {"phases": {"hot": {"actions": {"rollover": {"max_age": "30d"}}},
                         "delete": {"min_age": "90d", "actions": {"delete": {}}}}}
    for version in (1, 2):
        assert client.put(path, {"policy": policy}).json == {"acknowledged": True}
        got = client.get(path).json[index]
        assert got["policy"] == policy and got["version"] == version and got["modified_date"]
    for bad in ({}, {"policy": {}}, {"policy": {"phases": {"delete": {"min_age": "soon"}}}}):
        assert client.put(path, bad).status == 400
    client.put(f"/{index}", {"settings": {"index.lifecycle.name": index}})
    r = client.delete(path)
    assert r.status == 400 and "in use by one or more indices" in r.error["reason"]
    explained = client.get(f"/{index}/_ilm/explain").json["indices"][index]
    assert explained["managed"] is True and explained["policy"] == index and explained["phase"] == "hot"
    assert client.get("/_ilm/status").json == {"operation_mode": "RUNNING"}
    client.delete(f"/{index}")
    assert client.delete(path).status == 200


def test_cluster_settings(client):
    body = {"persistent": {"action.auto_create_index": True},
            "transient": {"cluster": {"routing": {"allocation": {"enable": "all"}}}}}
    r = client.put("/_cluster/settings", body)
    assert r.json["persistent"] == {"action": {"auto_create_index": "true"}} and r.json["acknowledged"] is True
    got = client.get("/_cluster/settings?flat_settings=true").json
    assert got == {"persistent": {"action.auto_create_index": "true"},
                   "transient": {"cluster.routing.allocation.enable": "all"}}
    r = client.put("/_cluster/settings", {"persistent": {"action.*": None}, "transient": {
        "cluster.routing.allocation.enable": None}})
    assert r.status == 200, r
    assert client.get("/_cluster/settings").json == {"persistent": {}, "transient": {}}
    for bad in ({}, {"persistent": {"bogus.setting": 1}}, {"persistent": []}):
        assert client.put("/_cluster/settings", bad).status == 400


@pytest.mark.parametrize("path", ["aliases", "templates", "nodes", "shards", "segments", "master", "allocation"])
def test_cat_tables(client, index, path):
    client.put_doc(index, "1", b"{}")
    rows = client.get(f"/_cat/{path}?format=json")
    assert rows.status == 200 and isinstance(rows.json, list), rows
    text = client.get(f"/_cat/{path}?v")
    assert text.header("content-type").startswith("text/plain") and text.body.count(b"\n") == len(rows.json) + 1
    assert client.get(f"/_cat/{path}?help").body.count(b"\n") > 2
    assert b"/_cat/" + path.encode() in client.get("/_cat").body


def test_cluster_state_and_stats(client, index):
    client.put(f"/{index}", {"aliases": {f"a-{index}": {}}, "mappings": {"_meta": {"x": 1}}})
    state = client.get(f"/_cluster/state/metadata/{index}").json
    assert set(state) == {"cluster_name", "cluster_uuid", "metadata"}
    about = state["metadata"]["indices"][index]
    assert about["state"] == "open" and about["aliases"] == [f"a-{index}"]
    assert about["settings"]["index"]["uuid"] and about["mappings"] == {"_doc": {"_meta": {"x": 1}}}
    node = client.get("/_cluster/state").json["master_node"]
    assert node in client.get("/_nodes/_all/http").json["nodes"] and node in client.get("/_nodes/stats").json["nodes"]
    assert client.get("/_cluster/state/bogus").status == 400
    stats = client.get("/_cluster/stats").json
    assert stats["indices"]["count"] >= 1 and stats["nodes"]["count"]["total"] == 1
    assert client.get(f"/{index}/_segments").json["indices"][index]["shards"]["0"]
