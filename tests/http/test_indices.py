# SPDX-License-Identifier: Apache-2.0
"""Indices and what is told about them: create, list, delete, stats, cat, health."""
import pytest
from stow import in_threads, log_documents


def test_life_of_an_index(client, index):
    r = client.put(f"/{index}")
    assert r.status == 200
    assert r.json == {"acknowledged": True, "shards_acknowledged": True, "index": index}
    assert client.head(f"/{index}").status == 200
    r = client.put(f"/{index}")
    assert r.status == 400 and r.error["type"] == "resource_already_exists_exception"
    client.put_doc(index, "1", b'{"v":1}')
    about = client.get(f"/{index}").json[index]
    assert set(about) >= {"aliases", "mappings", "settings"}
    assert about["settings"]["index"]["provided_name"] == index
    assert client.delete(f"/{index}").json == {"acknowledged": True}
    assert client.head(f"/{index}").status == 404
    r = client.delete(f"/{index}")
    assert r.status == 404 and r.error["type"] == "index_not_found_exception"
    client.put(f"/{index}")
    assert client.get_doc(index, "1").status == 404, "a document of the old index shows"
    assert client.put_doc(index, "1", b"{}").json["_version"] == 1


@pytest.mark.parametrize("name", ["Upper", "_lead", "-lead", "+lead", "a%2Fb", "a%20b", "a%2Cb%2C", "a*b", "a%23b",
                                  "a%22b", "a%3Cb", "a%7Cb", "a%5Cb", "a%3Fb", "a%3Ab", "%C3%A9" * 128])
def test_names_that_are_refused(client, name):
    r = client.put(f"/{name}")
    assert r.status == 400 and r.error["type"] == "invalid_index_name_exception", r


@pytest.mark.parametrize("body", [b'{"settings":[]}', b'{"settings":"x"}', b"[]", b"{", b'{"setting":{}}',
                                  b'{"number_of_shards":1}'])
def test_bodies_that_are_refused(client, index, body):
    r = client.put(f"/{index}", body)
    assert r.status == 400 and r.error["reason"], r
    assert client.head(f"/{index}").status == 404


def test_lists_wildcards_and_options(client, index):
    for n in "abc":
        client.put(f"/{index}-{n}")
    assert sorted(client.get(f"/{index}-*").json) == [f"{index}-{n}" for n in "abc"]
    assert sorted(client.get(f"/{index}-a,{index}-c").json) == [f"{index}-a", f"{index}-c"]
    assert client.get(f"/{index}-a,{index}-none").status == 404
    assert list(client.get(f"/{index}-a,{index}-none?ignore_unavailable=true").json) == [f"{index}-a"]
    assert client.get(f"/{index}-none-*").json == {}
    assert client.get(f"/{index}-none-*?allow_no_indices=false").status == 404
    assert client.delete(f"/{index}-a,{index}-b").status == 200
    assert sorted(client.get(f"/{index}-*").json) == [f"{index}-c"]


def test_aliases_and_mappings_are_kept(client, index):
    mapping = {"properties": {"m": {"type": "text", "norms": False}}}
    r = client.put(f"/{index}", {"aliases": {f"{index}-alias": {}}, "mappings": mapping})
    assert r.status == 200, r
    client.put_doc(index, "1", b'{"v":1}')
    assert client.get(f"/{index}-alias/_doc/1").json["_source"] == {"v": 1}
    assert client.get(f"/{index}/_mapping").json[index]["mappings"] == mapping
    r = client.put(f"/{index}/_mapping", {"properties": {"n": {"type": "long"}}})
    assert r.json == {"acknowledged": True}
    assert set(client.get(f"/{index}/_mapping").json[index]["mappings"]["properties"]) == {"m", "n"}


def test_counts_refresh_flush_forcemerge(client, index):
    client.load(index, [(str(n), d) for n, d in enumerate(log_documents(300))])
    client.delete(f"/{index}/_doc/7")
    assert client.get(f"/{index}/_count").json["count"] == 299
    for call in ("_refresh", "_flush", "_forcemerge?max_num_segments=1"):
        r = client.post(f"/{index}/{call}")
        assert r.status == 200 and r.json["_shards"]["failed"] == 0, r
    assert client.get(f"/{index}/_count").json["count"] == 299
    assert client.source(index, "8") == log_documents(300)[8]
    assert client.post(f"/{index}-none/_refresh").status == 404


def test_stats(client, index):
    client.put(f"/{index}", {"settings": {"index.codec": "zstd", "index.codec.compression_level": 5}})
    docs = log_documents(2000)
    client.load(index, [(None, d) for d in docs])
    client.post(f"/{index}/_flush")
    stats = client.get(f"/{index}/_stats").json["indices"][index]
    total, stow, raw = stats["total"], stats["stow"], sum(map(len, docs))
    assert total["docs"]["count"] == 2000 and total["docs"]["deleted"] == 0
    assert 0 < total["store"]["size_in_bytes"] < raw
    assert (stow["codec"], stow["level"], stow["raw_bytes"], stow["packed_raw_bytes"]) == ("zstd", 5, raw, raw)
    assert 0 < stow["compressed_bytes"] <= stow["disk_bytes"]
    assert stow["ratio"] == pytest.approx(raw / stow["compressed_bytes"], abs=0.001)


def test_cat(client, index):
    client.load(index, [(str(n), b"{}") for n in range(5)])
    r = client.get(f"/_cat/indices/{index}?h=index,docs.count")
    assert r.header("content-type").startswith("text/plain") and r.body.split() == [index.encode(), b"5"]
    client.load(f"{index}-more", [(str(n), b"{}") for n in range(10)])
    for s, counts in (("docs.count", [b"5", b"10"]), ("docs.count:desc", [b"10", b"5"]), ("index", [b"5", b"10"])):
        assert client.get(f"/_cat/indices/{index}*?h=docs.count&s={s}").body.split() == counts
    r = client.get(f"/_cat/indices/{index}?v&s=index")
    assert r.body.splitlines()[0].startswith(b"health status index")
    row = client.get(f"/_cat/indices/{index}?format=json").json[0]
    assert row["index"] == index and row["docs.count"] == "5"
    assert client.get(f"/_cat/count/{index}?h=count").body.strip() == b"5"
    assert b"green" in client.get("/_cat/health").body


def test_health_root_license(client, index):
    r = client.get("/_cluster/health?wait_for_status=yellow&timeout=5s").json
    assert (r["status"], r["timed_out"], r["number_of_nodes"]) == ("green", False, 1)
    r = client.get("/")
    assert r.json["version"]["number"].startswith("8.") and r.json["tagline"] == "You Know, for Search"
    assert r.header("x-elastic-product") == "Elasticsearch"
    assert client.get("/_license?human=false").json["license"]["status"] == "active"


def test_twelve_bulks_create_one_index(node, index):
    def work(k):
        body = b"".join(b'{"index":{"_id":"%d-%d"}}\n{"k":%d}\n' % (k, n, k) for n in range(20))
        assert node.client().bulk(body, f"/{index}/_bulk").json["errors"] is False
    in_threads([lambda k=k: work(k) for k in range(12)])
    ids = [f"{k}-{n}" for k in range(12) for n in range(20)]
    docs = node.client().post(f"/{index}/_mget", {"ids": ids}).json["docs"]
    assert sorted(d["_seq_no"] for d in docs) == list(range(240))


def test_metadata_survives_a_crash(make_daemon):
    d = make_daemon()
    c = d.client()
    uuid = c.get("/").json["cluster_uuid"]
    for n in range(5):
        c.put(f"/i{n}", {"settings": {"index.codec": "zstd", "index.codec.compression_level": n + 1},
                         "aliases": {f"a{n}": {}}})
        if n:
            assert c.delete(f"/i{n - 1}").status == 200
        d.crash()
        c = d.client()
        assert list(c.get("/_all").json) == [f"i{n}"]
        settings = c.get(f"/i{n}/_settings?flat_settings=true").json[f"i{n}"]["settings"]
        assert settings["index.codec.compression_level"] == str(n + 1)
        assert c.put(f"/a{n}/_doc/1", b"{}").json["_index"] == f"i{n}"
    assert c.get("/").json["cluster_uuid"] == uuid
