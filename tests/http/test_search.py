# SPDX-License-Identifier: Apache-2.0
"""_search, scrolls and points in time: reading an index out, exact and as of one moment."""
import json
import random
import re
import threading

import pytest
import stow


@pytest.fixture
def index(client, request):
    name = "s-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    client.delete(f"/{name}*")
    return name


def hits(response):
    assert response.status == 200, response
    return response.json["hits"]["hits"]


def raw_sources(body):
    """Bytes of each hit's _source, in order."""
    text = body.decode("utf-8", "surrogateescape")
    decode = json.JSONDecoder(strict=False).raw_decode
    at, out = text.index('"hits":[') + len('"hits":['), []
    while text[at] != "]":
        _, end = decode(text, at)
        start = text.index(',"_source":', at) + len(',"_source":')
        _, stop = decode(text, start)
        out.append(text[start:stop].encode("utf-8", "surrogateescape"))
        at = end + (text[end] == ",")
    return out


def scroll_all(client, target, body):
    """Pages of a scroll until an empty one; the scroll is cleared."""
    r = client.post(target, body)
    pages = []
    while hits(r):
        pages.append(r)
        r = client.post("/_search/scroll", {"scroll_id": r.json["_scroll_id"], "scroll": "1m"})
    cleared = client.delete("/_search/scroll", body={"scroll_id": [r.json["_scroll_id"]]})
    assert cleared.json == {"succeeded": True, "num_freed": 1}
    return pages


def test_match_all_answers_as_elasticsearch(client, index):
    client.load(index, [("1", b'{"n":1}'), (None, b'{"n":2}'), ("3", b'{"n":3}')])
    for r in (client.get(f"/{index}/_search"), client.get(f"/{index}/_search?q=*"),
              client.post(f"/{index}/_search", {"query": {"match_all": {}}}),
              client.post(f"/{index}/_search", {"query": {"bool": {"filter": []}}})):
        body = r.json
        assert list(body) == ["took", "timed_out", "_shards", "hits"]
        assert body["timed_out"] is False
        assert body["_shards"] == {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        assert body["hits"]["total"] == {"value": 3, "relation": "eq"}
        assert body["hits"]["max_score"] == 1.0
        assert [h["_source"]["n"] for h in hits(r)] == [1, 2, 3]
        assert hits(r)[0] == {"_index": index, "_id": "1", "_score": 1.0, "_source": {"n": 1}}
        made = hits(r)[1]["_id"]
        assert client.source(index, made) == b'{"n":2}'


def test_bytes_of_documents_are_untouched(client, index):
    docs = [(str(i), doc) for i, doc in enumerate([
        b'{"a" : 1.0,"b":1e400, "a":12345678901234567890123,"\\u00e9":"\\/\\ud800"}',
        '{"é":"\U0001f600"}'.encode(), b'{ "z" :[ 1 , 2.50 ] }', b"{}"])]
    client.load(index, docs)
    r = client.get(f"/{index}/_search")
    assert raw_sources(r.body) == [doc for _, doc in docs]
    r = client.post(f"/{index}/_search", {"query": {"ids": {"values": ["2", "0"]}}})
    assert raw_sources(r.body) == [docs[0][1], docs[2][1]]


def test_ids_and_terms(client, index):
    client.load(index, [(str(i), b'{"n":%d}' % i) for i in range(50)])
    client.delete(f"/{index}/_doc/7")

    def ids(query, **more):
        r = client.post(f"/{index}/_search", {"query": query, **more})
        return [h["_id"] for h in hits(r)], r.json["hits"]["total"]["value"]
    assert ids({"ids": {"values": ["3", "1", "3", "7", "no"]}}) == (["1", "3"], 2)
    assert ids({"ids": {"values": "4"}}) == (["4"], 1)
    assert ids({"term": {"_id": "9"}}) == (["9"], 1)
    assert ids({"term": {"_id": {"value": 9}}}) == (["9"], 1)
    assert ids({"terms": {"_id": ["9", 8], "boost": 2}}) == (["8", "9"], 2)
    assert ids({"constant_score": {"filter": {"term": {"_id": "5"}}}}) == (["5"], 1)
    assert ids({"bool": {"must": {"match_all": {}}, "filter": [{"terms": {"_id": ["5", "6"]}},
                                                               {"ids": {"values": ["6"]}}]}}) == (["6"], 1)
    assert ids({"match_none": {}}) == ([], 0)
    many = [str(i) for i in range(50)]
    assert ids({"ids": {"values": many}}, size=5, **{"from": 10}) == (
        ["11", "12", "13", "14", "15"], 49)  # 7 is gone
    assert ids({"ids": {"values": many}}, size=2, sort=[{"_seq_no": "desc"}]) == (["49", "48"], 49)
    for target, body in ((f"/{index}/_count", {"query": {"ids": {"values": ["1", "x"]}}}),
                         (f"/{index}/_count", {"query": {"term": {"_id": "1"}}})):
        assert client.post(target, body).json["count"] == 1
    assert client.get(f"/{index}/_count?q=*").json["count"] == 49


@pytest.mark.parametrize("body, word", [
    ({"query": {"match": {"a": 1}}}, "[match]"),
    ({"query": {"term": {"user": "x"}}}, "[user]"),
    ({"query": {"bool": {"must_not": {"match_all": {}}}}}, "[bool.must_not]"),
    ({"aggs": {"a": {"terms": {"field": "a"}}}}, "[aggs]"),
    ({"sort": [{"@timestamp": "desc"}]}, "[@timestamp]"),
    ({"slice": {"id": 0, "max": 2}}, "[slice]"),
])
def test_what_needs_an_engine_is_refused(client, index, body, word):
    client.put(f"/{index}")
    r = client.post(f"/{index}/_search", body)
    assert r.status == 400
    assert "no query engine" in r.error["reason"] and word in r.error["reason"]


@pytest.mark.parametrize("body, text", [
    ({"from": 9999, "size": 2}, "Result window is too large"),
    ({"search_after": [1]}, "Sort must contain at least one field"),
    ({"search_after": [1, 2], "sort": ["_doc"]}, "search_after has 2 value(s) but sort has 1"),
    ({"search_after": [1], "sort": ["_doc"], "from": 1}, "`from` parameter must be set to 0"),
    ({"search_after": ["x"], "sort": ["_doc"]}, "search_after takes the numbers"),
    ({"sort": ["_shard_doc"]}, "without [point in time]"),
    ({"size": "x"}, "[size]"),
    ({"from": -2}, "[from] parameter cannot be negative"),
    ({"indices_boost": {"a": 2}}, "[indices_boost]"),
    ({"min_score": 2}, "[min_score]"),
    ({"query": {}}, "query malformed"),
    ({"query": {"match_all": {}, "ids": {}}}, "malformed query"),
    ({"query": {"ids": {}}}, "requires providing"),
    ({"query": {"ids": {"values": [{}]}}}, "an id must be"),
])
def test_bad_requests(client, index, body, text):
    client.put(f"/{index}")
    r = client.post(f"/{index}/_search", body)
    assert r.status == 400 and text in r.error["reason"], r


def test_from_size_sort_and_search_after(client, index):
    client.load(index, [(str(i), b'{"n":%d}' % i) for i in range(300)])
    for i in range(0, 300, 3):
        client.delete(f"/{index}/_doc/{i}")
    live = [str(i) for i in range(300) if i % 3]

    def ids(**body):
        return [h["_id"] for h in hits(client.post(f"/{index}/_search", body))]
    assert ids() == live[:10]
    assert ids(**{"from": 95}, size=200) == live[95:]
    assert ids(size=0) == []
    assert ids(**{"from": 1000}) == []
    down = {"sort": [{"_seq_no": {"order": "desc"}}]}
    assert ids(size=200, **down) == live[::-1]
    assert ids(size=5, **{"from": 3}, **down) == live[::-1][3:8]
    for sort, order in (("_doc", live), ([{"_seq_no": "asc"}], live),
                        ([{"_score": "desc"}, "_doc"], live), ([{"_seq_no": "desc"}], live[::-1])):
        seen, after = [], None
        while True:
            body = {"size": 17, "sort": sort}
            if after is not None:
                body["search_after"] = after
            page = hits(client.post(f"/{index}/_search", body))
            if not page:
                break
            seen += [h["_id"] for h in page]
            after = page[-1]["sort"]
        assert seen == order


def test_source_filters_and_metadata(client, index):
    client.put(f"/{index}/_doc/1?routing=r", b'{"a":{"b":1.0,"c":2},"d":3}')

    def one(query="", **body):
        return hits(client.post(f"/{index}/_search{query}", body))[0]
    assert one()["_routing"] == "r"
    assert one(_source="a.b")["_source"] == {"a": {"b": 1.0}}
    assert one(_source=["d", "x"])["_source"] == {"d": 3}
    assert one(_source={"excludes": ["a"]})["_source"] == {"d": 3}
    assert "_source" not in one(_source=False)
    assert "_source" not in one("?_source=false")
    assert one("?_source_includes=a.c")["_source"] == {"a": {"c": 2}}
    assert one("?version=true&seq_no_primary_term=true")["_version"] == 1
    h = one(version=True, seq_no_primary_term=True)
    assert (h["_version"], h["_seq_no"], h["_primary_term"]) == (1, 0, 1)
    h = one(stored_fields="_none_")
    assert "_id" not in h and "_source" not in h
    assert one(stored_fields=["*"], _source=True)["_source"]["d"] == 3  # elasticdump
    assert "_source" not in one(stored_fields=[])


def test_totals(client, index):
    client.load(index, [(str(i), b"{}") for i in range(5)])

    def total(query="", **body):
        return client.post(f"/{index}/_search{query}", body).json["hits"].get("total")
    assert total(track_total_hits=3) == {"value": 3, "relation": "gte"}
    assert total(track_total_hits=True) == {"value": 5, "relation": "eq"}
    assert total(track_total_hits=False) is None
    assert total("?rest_total_hits_as_int=true") == 5
    assert client.post(f"/{index}/_search?rest_total_hits_as_int=true",
                       {"track_total_hits": 3}).status == 400


def test_filter_path(client, index):
    client.load(index, [(str(i), b'{"n":1,"m":2}') for i in range(3)])
    get = client.get
    assert get(f"/{index}/_search?filter_path=hits.hits._id").json == {
        "hits": {"hits": [{"_id": "0"}, {"_id": "1"}, {"_id": "2"}]}}
    assert get(f"/{index}/_search?filter_path=hits.total.value").json == {
        "hits": {"total": {"value": 3}}}
    assert list(get(f"/{index}/_search?filter_path=took").json) == ["took"]
    assert get(f"/{index}/_search?filter_path=none").json == {}
    assert get(f"/{index}/_search?size=1&filter_path=-took,-hits.hits").json == {
        "timed_out": False, "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {"total": {"value": 3, "relation": "eq"}, "max_score": 1.0}}


def test_several_indices_wildcards_and_aliases(client, index):
    for k in "abc":
        client.load(f"{index}-{k}", [(f"{k}{i}", b"{}") for i in range(4)])
    client.post("/_aliases", {"actions": [{"add": {"index": f"{index}-b", "alias": f"{index}-al"}}]})

    def ids(target):
        return [h["_id"] for h in hits(client.get(f"/{target}/_search?size=50"))]
    a, b, c = ([f"{k}{i}" for i in range(4)] for k in "abc")
    assert ids(f"{index}-*") == a + b + c
    assert ids(f"{index}-c,{index}-a") == a + c
    assert ids(f"{index}-al") == b
    assert ids(f"{index}-none*") == []
    assert client.get(f"/{index}-none/_search").status == 404
    r = client.post(f"/{index}-*/_search", {"query": {"ids": {"values": ["c1", "a1"]}}})
    assert [h["_id"] for h in hits(r)] == ["a1", "c1"]
    assert client.post(f"/{index}-*/_search", {"sort": ["_seq_no"]}).status == 400
    assert client.post(f"/{index}-*/_search", {"sort": ["_doc"], "search_after": [1]}).status == 400
    client.post(f"/{index}-b/_close")
    r = client.get(f"/{index}-b/_search")
    assert r.status == 400 and r.error["type"] == "index_closed_exception"
    assert ids(f"{index}-*") == a + c


def test_answers_of_version_7_have_types(tmp_path):
    daemon = stow.Daemon(tmp_path, ["identity.version=7.10.2"]).start()
    client = daemon.client()
    client.put("/i/_doc/1", b"{}")
    assert hits(client.get("/i/_search"))[0]["_type"] == "_doc"
    assert daemon.stop() == 0


# ---------------------------------------------------------------- scrolls

def test_scroll_has_one_point_in_time(client, index):
    docs = [(str(i) if i % 2 else None, b'{"n":%d}' % i) for i in range(2500)]
    client.load(index, docs)
    r = client.post(f"/{index}/_search?scroll=1m&size=700", {"sort": ["_doc"]})
    client.load(index, [(str(i), b'{"new":1}') for i in range(1, 2500, 4)])
    client.load(index, [(None, b'{"more":1}')] * 100)
    for i in range(3, 600, 4):
        client.delete(f"/{index}/_doc/{i}")
    client.post(f"/{index}/_forcemerge")
    seen = []
    while hits(r):
        seen += raw_sources(r.body)
        id = r.json["_scroll_id"]
        assert r.json["hits"]["total"]["value"] == 2500
        r = client.get("/_search/scroll", body={"scroll_id": id, "scroll": "1m"})
        assert r.json["_scroll_id"] == id
    assert seen == [doc for _, doc in docs]
    assert client.delete("/_search/scroll", body={"scroll_id": id}).json == {
        "succeeded": True, "num_freed": 1}


def test_scroll_in_every_dialect(client, index):
    client.load(index, [(str(i), b"{}") for i in range(6)])
    id = client.get(f"/{index}/_search?scroll=1m&size=1").json["_scroll_id"]
    follow = [lambda: client.post("/_search/scroll", {"scroll_id": id, "scroll": "1m"}),
              lambda: client.post("/_search/scroll?scroll=1m", {"scroll_id": id}),
              lambda: client.get("/_search/scroll", body={"scroll_id": id}),
              lambda: client.get(f"/_search/scroll?scroll=1m&scroll_id={id}"),
              lambda: client.post(f"/_search/scroll/{id}?rest_total_hits_as_int=true")]
    for n, call in enumerate(follow):
        assert [h["_id"] for h in hits(call())] == [str(n + 1)]

    def gone(body=None, query=""):
        client.post(f"/{index}/_search?scroll=1m")
        return client.delete(f"/_search/scroll{query}", body=body)
    assert gone({"scroll_id": id}).json["num_freed"] == 1
    assert gone({"scroll_id": id}).status == 404
    a, b = (client.get(f"/{index}/_search?scroll=1m").json["_scroll_id"] for _ in "ab")
    assert gone(None, f"?scroll_id={a},{b}").json["num_freed"] == 2
    assert gone({"scroll_id": ["_all"]}).json["num_freed"] >= 3
    client.get(f"/{index}/_search?scroll=1m")
    assert gone(None, "/_all").json["num_freed"] == 2
    assert gone(None).status == 400
    r = client.post("/_search/scroll", {"scroll_id": a})
    assert r.status == 404 and r.error["type"] == "search_context_missing_exception"


@pytest.mark.parametrize("query, body, text", [
    ("scroll=1m&size=0", {}, "[size] cannot be [0] in a scroll context"),
    ("scroll=1m&from=1", {}, "using [from] is not allowed"),
    ("scroll=1m&request_cache=true", {}, "[request_cache] cannot be used in a scroll context"),
    ("scroll=2d", {}, "is too large"),
    ("scroll=1x", {}, "as a time value"),
    ("scroll=0", {}, "greater than zero"),
    ("scroll=1m&size=10001", {}, "Batch size is too large"),
    ("scroll=1m", {"search_after": [1], "sort": "_doc"}, "`search_after` cannot be used"),
    ("scroll=1m", {"sort": [{"_doc": "desc"}]}, "[desc] is not possible"),
])
def test_bad_scrolls(client, index, query, body, text):
    client.put(f"/{index}")
    r = client.post(f"/{index}/_search?{query}", body)
    assert r.status == 400 and text in r.error["reason"], r


def test_scroll_of_ids_sees_one_point_in_time(client, index):
    client.load(index, [(str(i), b'{"n":%d}' % i) for i in range(20)])
    r = client.post(f"/{index}/_search?scroll=1m&size=3",
                    {"query": {"ids": {"values": [str(i) for i in range(10)] + ["no"]}}})
    client.load(index, [(str(i), b'{"new":1}') for i in range(20)])
    seen = []
    while hits(r):
        seen += [h["_source"]["n"] for h in hits(r)]
        r = client.post("/_search/scroll", {"scroll_id": r.json["_scroll_id"]})
    assert seen == list(range(10))


def test_scrolls_are_limited(tmp_path):
    daemon = stow.Daemon(tmp_path).start()
    client = daemon.client()
    client.put("/i/_doc/1", b"{}")
    for _ in range(500):
        assert client.get("/i/_search?scroll=1m").status == 200
    r = client.get("/i/_search?scroll=1m")
    assert r.status == 429 and "too many scroll contexts" in r.error["reason"]
    assert client.delete("/_search/scroll/_all").json["num_freed"] == 500
    assert client.get("/i/_search?scroll=1m").status == 200
    assert daemon.stop() == 0


def test_scrolls_expire(tmp_path):
    daemon = stow.Daemon(tmp_path).start()
    client = daemon.client()
    client.load("i", [(str(i), b"{}") for i in range(3)])
    id = client.get("/i/_search?scroll=300ms&size=1").json["_scroll_id"]
    kept = client.get("/i/_search?scroll=1m&size=1").json["_scroll_id"]
    assert stow.wait_until(
        lambda: client.post("/_search/scroll", {"scroll_id": kept}).status == 200 and
        client.delete("/_search/scroll", body={"scroll_id": id}).status == 404, step=0.5)
    assert client.post("/_search/scroll", {"scroll_id": id}).status == 404
    pit = client.post("/i/_pit?keep_alive=200ms").json["id"]
    assert stow.wait_until(lambda: client.delete("/_pit", body={"id": pit}).status == 404, step=0.5)
    assert daemon.stop() == 0


def test_a_deleted_index_ends_its_scroll_with_an_error(client, index):
    """Never with an empty page, which would look like the end of the export."""
    client.load(index, [(str(i), doc) for i, doc in enumerate(stow.log_documents(3000))])
    client.post(f"/{index}/_flush")
    r = client.get(f"/{index}/_search?scroll=1m&size=1000&sort=_doc")
    pit = client.post(f"/{index}/_pit?keep_alive=1m").json["id"]
    assert client.delete(f"/{index}").status == 200
    client.put(f"/{index}/_doc/other", b"{}")
    gone = client.post("/_search/scroll", {"scroll_id": r.json["_scroll_id"]})
    assert gone.status == 404 and "was deleted" in gone.error["reason"]
    assert client.post("/_search", {"pit": {"id": pit}}).status == 404
    client.delete("/_search/scroll", body={"scroll_id": r.json["_scroll_id"]})


# ---------------------------------------------------------------- points in time

def test_point_in_time(client, index):
    for k in "ab":
        client.load(f"{index}-{k}", [(f"{k}{i}", b'{"n":%d}' % i) for i in range(50)])
    r = client.post(f"/{index}-*/_pit?keep_alive=1m")
    assert r.status == 200
    pit = r.json["id"]
    client.load(f"{index}-a", [(f"a{i}", b'{"new":1}') for i in range(50)])
    client.delete(f"/{index}-b/_doc/b0")
    for sort in (None, ["_shard_doc"], [{"_shard_doc": "asc"}], ["_doc"]):
        seen, after = [], None
        while True:
            body = {"size": 7, "pit": {"id": pit, "keep_alive": "1m"}, "track_total_hits": False}
            if sort:
                body["sort"] = sort
            if after is not None:
                body["search_after"] = after
            r = client.post("/_search", body)
            if not hits(r):
                break
            assert r.json["pit_id"] == pit
            seen += [(h["_id"], h["_source"]["n"]) for h in hits(r)]
            after = hits(r)[-1]["sort"]
        assert seen == [(f"{k}{i}", i) for k in "ab" for i in range(50)]
    assert client.post(f"/{index}-a/_search", {"pit": {"id": pit}}).status == 400
    assert client.post("/_search", {"pit": {"id": pit}, "query": {"ids": {"values": []}}}).status == 400
    assert client.delete("/_pit", body={"id": pit}).json == {"succeeded": True, "num_freed": 1}
    assert client.delete("/_pit", body={"id": pit}).status == 404
    assert client.post("/_search", {"pit": {"id": pit}}).status == 404
    assert client.post(f"/{index}-a/_pit").status == 400


def test_point_in_time_of_opensearch(client, index):
    client.put(f"/{index}/_doc/1", b"{}")
    client.delete("/_search/point_in_time/_all")
    r = client.post(f"/{index}/_search/point_in_time?keep_alive=23h&allow_partial_pit_creation=true")
    pit = r.json["pit_id"]
    assert r.json["_shards"]["failed"] == 0 and r.json["creation_time"] > 1700000000000
    r = client.post("/_search", {"pit": {"id": pit, "keep_alive": "10m"}, "sort": [{"_doc": "asc"}]})
    assert [h["_id"] for h in hits(r)] == ["1"]
    open_ones = client.get("/_search/point_in_time/_all").json["pits"]
    assert [(p["pit_id"], p["keep_alive"]) for p in open_ones] == [(pit, 600000)]
    r = client.delete("/_search/point_in_time", body={"pit_id": [pit]})
    assert r.json == {"pits": [{"successful": True, "pit_id": pit}]}
    client.post(f"/{index}/_search/point_in_time?keep_alive=1m")
    assert len(client.delete("/_search/point_in_time/_all").json["pits"]) == 1
    assert client.delete("/_search/point_in_time/_all").json == {"pits": []}


# ---------------------------------------------------------------- clients' flows

def test_scan_of_the_python_clients(client, index):
    """elasticsearch-py helpers.scan: every page must have all shards."""
    client.load(index, [(str(i), b"{}") for i in range(2100)])
    pages = scroll_all(client, f"/{index}/_search?scroll=5m", {"size": 1000, "sort": "_doc"})
    for page in pages:
        shards = page.json["_shards"]
        assert shards["successful"] + shards["skipped"] == shards["total"]
    assert [h["_id"] for p in pages for h in hits(p)] == [str(i) for i in range(2100)]


def test_dump_of_elasticdump(client, index):
    docs = [(str(i), b'{"n": %d}' % i) for i in range(250)]
    client.load(index, docs)
    body = {"query": {"match_all": {}}, "stored_fields": ["*"], "_source": True}
    r = client.request("GET", f"/{index}/_search?scroll=10m&size=100&from=0", body)
    seen = []
    while hits(r):
        assert r.json["hits"]["total"]["value"] == 250
        seen += raw_sources(r.body)
        r = client.request("POST", "/_search/scroll",
                           {"scroll": "10m", "scroll_id": r.json["_scroll_id"]})
    assert seen == [doc for _, doc in docs]


# ---------------------------------------------------------------- large

def test_large_pages_are_whole(client, index):
    rng = random.Random(3)
    docs = [(str(i), json.dumps({"i": i, "x": "%x" % rng.getrandbits(4 * 20000)}).encode())
            for i in range(400)]
    client.load(index, docs, per_request=50)
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        r = client.get(f"/{index}/_search?size=1000", headers=headers)
        body = r.body
        if headers:
            import gzip
            body = gzip.decompress(body)
        assert raw_sources(body) == [doc for _, doc in docs]
    r = client.post(f"/{index}/_search?size=1000", {"sort": [{"_seq_no": "desc"}]})
    assert raw_sources(r.body) == [doc for _, doc in docs][::-1]


@pytest.mark.slow
def test_export_under_load_sees_one_point_in_time(tmp_path):
    """200,000 documents are exported while writes, deletes and merges go on; memory is bounded."""
    daemon = stow.Daemon(tmp_path, ["storage.wal.size=64mb", "storage.cache.size=8mb"]).start()
    client = daemon.client()
    docs = stow.log_documents(20000)
    count = 200000
    for at in range(0, count, 5000):
        client.load("x", [(f"d{i}" if i % 3 else None, docs[i % len(docs)])
                          for i in range(at, at + 5000)], 5000)
    client.post("/x/_flush")
    before = daemon.rss()
    first = client.get("/x/_search?scroll=5m&size=1000&sort=_doc")
    stop, peak = threading.Event(), [0]

    def write():
        own, n = daemon.client(), 0
        rng = random.Random(5)
        while not stop.is_set():
            some = [f"d{rng.randrange(count)}" for _ in range(300)]
            body = b"".join(stow.bulk_body("x", [(id, b'{"rewritten":%d}' % n)]) for id in some[:150])
            body += stow.ndjson(*(stow.action("delete", "x", id) for id in some[150:]))
            assert own.bulk(body).status == 200
            n += 1

    def merge():
        own = daemon.client(timeout=120)
        while not stop.is_set():
            assert own.post("/x/_forcemerge").status == 200
            stop.wait(0.3)
    threads = [threading.Thread(target=f, daemon=True) for f in (write, write, merge)]
    for t in threads:
        t.start()
    r, at = first, 0
    try:
        while hits(r):
            for source in raw_sources(r.body):
                assert source == docs[at % len(docs)], at
                at += 1
            peak[0] = max(peak[0], daemon.rss())
            r = client.post("/_search/scroll", {"scroll_id": r.json["_scroll_id"], "scroll": "5m"})
    finally:
        stop.set()
        for t in threads:
            t.join(120)
    assert at == count
    if stow.SLOW == 1:
        assert peak[0] < before + 200 * 1024 * 1024, (before, peak)
    assert daemon.stop() == 0
