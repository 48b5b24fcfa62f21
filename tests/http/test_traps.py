# SPDX-License-Identifier: Apache-2.0
"""The thirty traps: what breaks real shippers and clients, one test each. The names say which; what
the client does is in the text of the test."""
import gzip
import os
import re
import time
import zlib

import pytest
from stow import Raw, bulk_body, chunked, ndjson, quote, request_bytes

FLUENT_BIT = {"User-Agent": "Fluent-Bit"}


def test_trap_01_exact_bytes(client, index):
    """Fluent Bit 2.2 looks for these bytes, Vector for "errors":true, Rally stops behind took."""
    r = client.bulk(bulk_body(index, [("1", b"{}")]))
    assert re.match(rb'\{"took":\d+,"errors":false,"items":\[\{"index":\{"_index":', r.body), r
    r = client.bulk(bulk_body(index, [("1", b"{}")], "create"))
    assert re.match(rb'\{"took":\d+,"errors":true,"items":\[', r.body), r
    assert b'"errors" : false' in client.bulk(bulk_body(index, [("1", b"{}")]), "/_bulk?pretty").body


def test_trap_02_types_of_numbers(client, index):
    """Go reads took and _version as integers, others compare errors with true."""
    big = 9007199254740993
    r = client.bulk(b'{"index":{"_index":"%s","_id":"1","version":%d,"version_type":"external"}}\n{}\n'
                    % (index.encode(), big))
    assert r.json["errors"] is False and type(r.json["took"]) is int
    assert r.items[0]["status"] == 201 and b'"_version":%d,' % big in r.body


def test_trap_03_one_key_per_item_in_order(client, index):
    """Logstash and Fluentd fail when counts differ; Beats maps by position."""
    lines = [b'{"index":{"_index":"%s","_id":"1"}}' % index.encode(), b"{}",
             b'{"delete":{"_index":"%s","_id":"none"}}' % index.encode(),
             b'{"create":{"_index":"%s","_id":"1"}}' % index.encode(), b"{}",
             b'{"update":{"_index":"%s","_id":"1"}}' % index.encode(), b'{"doc":{"a":1}}',
             b'{"index":{"_index":"%s","_id":"2"}}' % index.encode(), b"{not json}"]
    r = client.bulk(b"\n".join(lines) + b"\n")
    assert [list(i) for i in r.json["items"]] == [["index"], ["delete"], ["create"], ["update"], ["index"]]
    assert [i["status"] for i in r.items] == [201, 404, 409, 200, 400]
    assert "error" not in r.items[1] and r.items[1]["result"] == "not_found"


@pytest.mark.parametrize("op, ids", [("create", True), ("create", False), ("index", True)])
def test_trap_04_fluent_bit_reads_512000_bytes(client, index, op, ids):
    """An answer over 512,000 bytes, headers included, is unreadable: the chunk would come again."""
    docs = [(str(n) if ids else None, b'{"n":%d}' % n) for n in range(20_000)]
    r = client.bulk(bulk_body(index, docs, op), headers=FLUENT_BIT)
    head = sum(len(k) + len(v) + 4 for k, v in r.headers)
    assert r.status == 200 and len(r.body) + head + 40 < 512_000, len(r.body)
    assert re.match(rb'\{"took":\d+,"errors":false,"items":\[', r.body)
    items = r.json["items"]
    assert len(items) == 20_000 and all(list(i) == [op] for i in items)
    assert items[0][op]["status"] == 201
    assert client.get(f"/{index}/_count").json["count"] == 20_000
    if op == "create" and ids:  # again: all are there, and that can be seen
        r = client.bulk(bulk_body(index, docs, op), headers=FLUENT_BIT)
        assert len(r.body) < 511_000 and r.json["errors"] is True and len(r.json["items"]) == 20_000
        assert r.json["items"][0][op]["status"] == 409
    # Others get all of it.
    r = client.bulk(bulk_body(index, docs[:5000], "index"))
    assert all("_seq_no" in i for i in r.items)


def test_trap_04_a_chunk_of_the_smallest_records(client, index):
    r = client.bulk(bulk_body(index, [(None, b"{}")] * 60_000, "create"), headers=FLUENT_BIT)
    assert r.status == 200 and len(r.body) < 511_000 and len(r.json["items"]) == 60_000


@pytest.mark.parametrize("path", ["errors,items.*.error,items.*.status", "errors%2Citems.%2A.error%2Citems.%2A.status",
                                  "items.*._index,items.*.status,items.*.error.type,items.*.error.reason",
                                  "errors,items.index.status,items.create.status,items.index.error"])
def test_trap_05_filter_path(client, index, path):
    """Logstash, Beats and OpenTelemetry filter: status must stay, and the count."""
    body = bulk_body(index, [("1", b"{}"), ("2", b"{}"), ("3", b"[]")])
    r = client.bulk(body, f"/_bulk?filter_path={path}")
    items = r.json["items"]
    assert [i["index"]["status"] for i in items] == [201, 201, 400]
    assert items[2]["index"]["error"] and "_seq_no" not in items[0]["index"] and "took" not in r.json


def test_trap_06_the_raw_path_is_split_first(client, index):
    """%2F in ids and in <logstash-{now/d}-000001>; a plus in a path is a plus."""
    for id in ("a/b", "a+b", "a%2Fb", "a b", "ü", "!*()'~,", "a?b#c"):
        assert client.put(f"/{index}/_doc/{quote(id)}", b"{}").json["_id"] == id
        assert client.get(f"/{index}/_doc/{quote(id)}").json["found"] is True
    assert client.put(f"/{index}/_doc/p+q", b"{}").json["_id"] == "p+q"
    r = client.put(f"/%3C{index}-%7Bnow%2Fd%7D-000001%3E",
                   {"aliases": {f"w-{index}": {"is_write_index": True}}})
    assert re.fullmatch(rf"{index}-\d{{4}}\.\d\d\.\d\d-000001", r.json["index"]), r
    assert client.put_doc(f"w-{index}", "1", b"{}").json["_index"] == r.json["index"]


def test_trap_07_methods_and_slashes(client, index):
    """PUT _bulk (Python 8, JavaScript of OpenSearch), trailing slashes (Fluent Bit, elasticdump)."""
    one = bulk_body(index, [("1", b"{}")])
    for method, target in (("POST", "/_bulk"), ("PUT", "/_bulk"), ("POST", "/_bulk/?pipeline="),
                           ("PUT", f"/{index}/_bulk"), ("POST", f"/{index}/_bulk/")):
        r = client.request(method, target, one)
        assert r.status == 200 and r.json["errors"] is False, r
    for method in ("PUT", "POST"):
        assert client.request(method, f"/{index}/_doc/{method}", b"{}").status == 201
        assert client.request(method, f"/{index}/_create/c{method}", b"{}").status == 201
    for method in ("GET", "POST"):
        for call, body in (("_refresh", None), ("_count", None), ("_mget", {"ids": ["1"]})):
            assert client.request(method, f"/{index}/{call}", body).status == 200, (method, call)
    assert client.get(f"/{index}/").status == 200
    assert client.put(f"/{index}-empty", b"").status == 200


def test_trap_08_bodies_on_get_and_content_types_without(client, index):
    client.put_doc(index, "1", b"{}")
    r = client.request("GET", f"/{index}/_mget", b'{"ids":["1"]}')
    assert r.json["docs"][0]["found"] is True
    r = client.request("DELETE", f"/{index}/_doc/1", b'{"ignored":true}')
    assert r.status == 200
    for headers in ({"Content-Type": "application/json"},
                    {"Content-Type": "application/vnd.elasticsearch+json; compatible-with=9"}):
        assert client.get("/", headers=headers).status == 200
        assert client.head(f"/{index}", headers=headers).status == 200
        assert client.post(f"/{index}/_refresh", b"", headers=headers).status == 200


@pytest.mark.parametrize("kind", [
    "application/json", "application/json; charset=UTF-8", "application/json; charset=utf-8", "application/x-ndjson",
    "application/vnd.elasticsearch+x-ndjson; compatible-with=7", "application/vnd.elasticsearch+x-ndjson;compatible-with=8",
    "application/vnd.elasticsearch+x-ndjson; compatible-with=9", "text/json; charset=utf-8"])
def test_trap_09_content_types_and_accept(client, index, kind):
    for accept in (None, "application/vnd.elasticsearch+json; compatible-with=8,text/plain",
                   "application/vnd.elasticsearch+x-ndjson; compatible-with=9", "*/*", "application/json"):
        r = client.bulk(bulk_body(index, [("1", b"{}")]), headers={"Content-Type": kind, "Accept": accept})
        assert r.status == 200, r
        assert "json" in r.header("content-type") and "x-ndjson" not in r.header("content-type")


def test_trap_10_head(client, node, index):
    """HEAD: status and headers without a body, and without Content-Encoding."""
    client.put_doc(index, "1", b'{"a":"' + b"x" * 5000 + b'"}')
    with Raw(node.port) as raw:
        for target, status in (("/", 200), (f"/{index}", 200), (f"/{index}/_doc/1", 200),
                               (f"/{index}/_source/1", 200), (f"/{index}/_doc/2", 404), ("/none", 404),
                               ("/_template/none", 404), ("/_index_template/none", 404), ("/_alias/none", 404)):
            raw.send(request_bytes("HEAD", target, headers={"Accept-Encoding": "gzip,deflate"}))
            r = raw.receive(head=True)
            assert r.status == status and r.header("content-encoding") is None, (target, r)
        raw.send(request_bytes("GET", "/"))
        assert raw.receive().status == 200, "something followed the headers of a HEAD"


def test_trap_11_gzip(client, index):
    """Bodies: one member, several, chunked by level; a bomb, another encoding. Answers: when asked."""
    body = bulk_body(index, [("1", b"{}"), ("2", b"{}")])
    half = body.index(b"\n", len(body) // 2) + 1
    for packed in (gzip.compress(body, 1), gzip.compress(body[:half]) + gzip.compress(body[half:])):
        r = client.bulk(packed, headers={"Content-Encoding": "gzip"})
        assert r.status == 200 and r.json["errors"] is False
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(bomb.compress(b" " * (1 << 20)) for _ in range(200)) + bomb.flush()
    assert client.bulk(packed, headers={"Content-Encoding": "gzip"}).status == 413
    for encoding in ("zstd", "snappy", "deflate"):
        assert client.bulk(body, headers={"Content-Encoding": encoding}).status == 415
    client.put_doc(index, "3", b'{"a":"' + b"x" * 50_000 + b'"}')
    r = client.get(f"/{index}/_doc/3", headers={"Accept-Encoding": "gzip"})
    assert r.header("content-encoding") == "gzip" and b"xxx" in gzip.decompress(r.body)
    for accept in (None, "identity", "deflate"):
        r = client.get(f"/{index}/_doc/3", headers={"Accept-Encoding": accept})
        assert r.header("content-encoding") is None and b"xxx" in r.body


def test_trap_12_chunked_and_expect(node, index):
    """curl and rsyslog ask 100-continue above 1 MiB; an unasked 100 makes Fluent Bit send again."""
    body = bulk_body(index, [("1", b"{}")])
    with Raw(node.port) as raw:
        headers = {"Transfer-Encoding": "chunked", "Content-Type": "application/x-ndjson"}
        raw.send(request_bytes("POST", "/_bulk", headers=headers) + chunked(body[:7], body[7:]))
        r = raw.receive()
        assert r.status == 200, "100 was not asked for"
        raw.send(request_bytes("POST", "/_bulk", headers={
            "Expect": "100-continue", "Content-Length": str(len(body)), "Content-Type": "application/x-ndjson"}))
        assert raw.receive().status == 100
        raw.send(body)
        assert raw.receive().status == 200
    with Raw(node.port) as raw:
        raw.send(request_bytes("POST", "/_bulk", headers={"Expect": "100-continue",
                                                          "Content-Length": str(1 << 31)}))
        assert raw.receive().status == 413


def test_trap_13_framing(node, index):
    """Content-Length with its blank, or chunked; never until the end of the connection."""
    for target, body in (("/", b""), ("/_bulk", bulk_body(index, [(str(n), b"{}") for n in range(3000)])),
                         ("/_cat/indices", b""), ("/none/_doc/1", b"")):
        with Raw(node.port) as raw:
            raw.send(request_bytes("POST" if body else "GET", target, body))
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += raw.file.read(1)
            assert re.search(rb"\r\nContent-Length: \d+\r\n", head) or \
                re.search(rb"\r\nTransfer-Encoding: chunked\r\n", head, re.I), head


@pytest.mark.slow
def test_trap_14_idle_connections_stay(node):
    """Logstash looks again after 10 s, Fluent Bit keeps 30 s."""
    with Raw(node.port, timeout=60) as raw:
        raw.send(request_bytes("GET", "/"))
        assert raw.receive().status == 200
        time.sleep(32)
        raw.send(request_bytes("GET", "/"))
        assert raw.receive().status == 200


def test_trap_15_line_ends(client, index):
    one = bulk_body(index, [("1", b"{}")])
    r = client.bulk(one[:-1])
    assert r.status == 400 and "terminated by a newline" in r.error["reason"]
    assert client.get(f"/{index}/_doc/1").status == 404
    for body in (one + b"\n", b"\n" + one, one + b"\n" + one, one.replace(b"\n", b"\r\n")):
        assert client.bulk(body).json["errors"] is False
    r = client.bulk(b"")
    assert r.status == 400 and r.error["reason"] == "request body is required"
    assert r.error["type"] == "parse_exception"


@pytest.mark.parametrize("meta", [
    '{"_id":null,"_index":"%s","routing":null}', '{"_index":"%s","_type":"_doc"}', '{"_index":"%s","_type":"events","_id":"x"}',
    '{"_index":"%s","parent":"p","_parent":"p","_routing":"r"}', '{"_index":"%s","version":"3","version_type":"external","_id":"v"}',
    '{"_index":"%s","_id":"w","version":4,"version_type":"external_gte"}', '{"_index":"%s","retry_on_conflict":1,"_id":"y"}',
    '{ "_index" : "%s" , "_id" : "z" }', '{"_id":17,"_index":"%s"}', '{"_index":"%s","dynamic_templates":{"a":"b"}}',
    '{"_index":"%s","require_alias":false,"require_data_stream":false}', '{"_index":"%s","pipeline":null}', '{}'])
def test_trap_16_action_metadata(client, index, meta):
    """Nulls (Logstash), types (Fluent Bit, rsyslog), strings as versions, {} with the index above."""
    line = '{"index":' + (meta % index if "%s" in meta else meta) + "}\n{}\n"
    r = client.bulk(line, f"/{index}/_bulk")
    assert r.status == 200 and r.json["errors"] is False, r
    if "17" in meta:
        assert r.items[0]["_id"] == "17"


def test_trap_17_bad_action_and_bad_source(client, index):
    good = bulk_body(index, [("1", b"{}")])
    r = client.bulk(good + b'{"index":{"_index":"%s","_id":"a"b"}}\n{}\n' % index.encode())
    assert r.status == 400 and r.error["type"], r
    assert client.get(f"/{index}/_doc/1").status == 404, "a refused request has left something"
    r = client.bulk(good + bulk_body(index, [("2", b'{"a":')]) + bulk_body(index, [("3", b"{}")]))
    assert [i["status"] for i in r.items] == [201, 400, 201]
    assert r.items[1]["error"]["type"] in ("mapper_parsing_exception", "document_parsing_exception")


def test_trap_18_overload_refuses_whole_requests(make_daemon):
    """What cannot be stored for want of room is refused before anything of it is applied."""
    d = make_daemon("storage.wal.size=4mb")
    c = d.client()
    docs = [(str(n), b'{"b":"' + os.urandom(20_000).hex().encode() + b'"}') for n in range(120)]
    r = c.bulk(bulk_body("i", docs))
    assert r.status in (413, 429), r.status
    assert c.get("/i/_count").json.get("count", 0) == 0
    assert c.put_doc("i", "1", b"{}").status == 201


def test_trap_19_backpressure_is_429(make_daemon):
    """429 es_rejected_execution_exception is retried by nearly all."""
    d = make_daemon("http.max_in_flight=1mb", "http.admission_wait=200ms")
    with Raw(d.port) as slow:
        big = bulk_body("i", [("1", b'{"a":"' + b"x" * 3_000_000 + b'"}')])
        slow.send(request_bytes("POST", "/_bulk", big)[:2_000_000])
        time.sleep(0.3)
        c = d.client()
        r = c.bulk(bulk_body("i", [("2", b'{"a":"' + b"y" * 900_000 + b'"}')]))
        assert r.status == 429 and r.error["type"] == "es_rejected_execution_exception", r
        assert c.get("/").status == 200


def test_trap_20_at_least_100_mib(client, index):
    """The default limit takes what Logstash, Python and Beats send."""
    doc = b'{"a":"' + b"x" * (1 << 20) + b'"}'
    body = bulk_body(index, [(str(n), doc) for n in range(70)])
    assert client.bulk(body).json["errors"] is False
    with Raw(client.port) as raw:
        raw.send(request_bytes("POST", "/_bulk", headers={"Content-Length": str(101 << 20),
                                                          "Expect": "100-continue"}))
        r = raw.receive()
        assert r.status == 413 and r.json["error"]["type"]


def test_trap_21_create_on_an_existing_id_is_409(client, index):
    client.put_doc(index, "1", b"{}")
    r = client.put(f"/{index}/_create/1", b"{}")
    assert r.status == 409 and r.error["type"] == "version_conflict_engine_exception"
    r = client.bulk(bulk_body(index, [("1", b"{}"), ("2", b"{}")], "create"))
    assert [i["status"] for i in r.items] == [409, 201]
    assert r.items[0]["error"]["type"] == "version_conflict_engine_exception"


@pytest.mark.parametrize("version, product", [("8.19.2", "elasticsearch"), ("7.10.2", "elasticsearch"),
                                              ("9.1.0", "elasticsearch"), ("2.11.0", "opensearch")])
def test_trap_22_identity(make_daemon, version, product):
    """Plain X.Y.Z; the product header on every answer; flavour and tagline; a distribution for
    OpenSearch."""
    d = make_daemon(f"identity.version={version}", f"identity.product={product}")
    c = d.client()
    about = c.get("/").json
    assert about["version"]["number"] == version and re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert about["cluster_uuid"] and about["name"] and about["cluster_name"]
    if product == "elasticsearch":
        assert about["tagline"] == "You Know, for Search" and about["version"]["build_flavor"] == "default"
        for r in (c.get("/"), c.get("/none/_doc/1"), c.put_doc("i", "1", b"{}"), c.head("/i")):
            assert r.header("x-elastic-product") == "Elasticsearch", r
    else:
        assert about["version"]["distribution"] == "opensearch"


def test_trap_23_license(client):
    """Without it Logstash has no live host, Beats no output."""
    for query in ("", "?human=false"):
        r = client.get(f"/_license{query}")
        assert r.status == 200 and r.json["license"]["status"] == "active"
        assert r.json["license"]["uid"] and r.json["license"]["type"]
    features = client.get("/_xpack").json["features"]
    assert features["ilm"] == {"available": False, "enabled": False}


def test_trap_24_publish_address(client, node, make_daemon):
    """Fluentd goes where _nodes/http says: what the client used itself, or what is configured."""
    for target in ("/_nodes/http", "/_nodes/_all/http", "/_nodes"):
        (about,) = client.get(target).json["nodes"].values()
        assert about["http"]["publish_address"] == f"127.0.0.1:{node.port}"
        assert set(about["roles"]) > {"master"} and about["version"]
    r = client.get("/_nodes/http", headers={"Host": "logs.example:9201"})
    (about,) = r.json["nodes"].values()
    assert about["http"]["publish_address"] == "logs.example:9201"
    d = make_daemon("http.publish_address=10.1.2.3:9999")
    (about,) = d.client().get("/_nodes/http").json["nodes"].values()
    assert about["http"]["publish_address"] == "10.1.2.3:9999"


@pytest.mark.parametrize("settings", [
    {"settings": {"index": {"codec": "best_compression"}}}, {"settings": {"index.codec": "best_compression"}},
    {"settings": {"codec": "best_compression"}}])
def test_trap_25_templates_take_effect_on_first_write(client, index, settings):
    """Telegraf's and Logstash's templates: any spelling, a string of patterns, settings we ignore."""
    settings["settings"].update({"index.refresh_interval": "5s", "number_of_shards": 1, "auto_expand_replicas": False,
                                 "index.lifecycle.name": "p", "index.mapping.total_fields.limit": 10000,
                                 "analysis": {"analyzer": {"a": {"type": "pattern"}}}})
    r = client.put(f"/_template/{index}", {"index_patterns": f"{index}-*", **settings,
                                           "mappings": {"dynamic_templates": []}, "aliases": {}})
    assert r.json == {"acknowledged": True}
    client.bulk(bulk_body(f"{index}-2026.11.30", [(None, b"{}")]))
    got = client.get(f"/{index}-2026.11.30/_settings").json[f"{index}-2026.11.30"]["settings"]["index"]
    assert got["codec"] == "best_compression" and got["refresh_interval"] == "5s"
    client.delete(f"/_template/{index}")
    r = client.put(f"/_template/{index}", {"template": f"old-{index}-*", **settings})
    assert r.status == 200
    client.put_doc(f"old-{index}-1", "1", b"{}")
    got = client.get(f"/old-{index}-1/_settings").json[f"old-{index}-1"]["settings"]["index"]
    assert got["codec"] == "best_compression"
    client.delete(f"/_template/{index}")


def test_trap_26_indices_are_made_by_writing(client, index):
    r = client.bulk(bulk_body(f"{index}-2026.11.30", [(None, b"{}")]) + bulk_body(f"{index}-2026.12.01", [("1", b"{}")]))
    assert r.json["errors"] is False
    client.put(f"/{index}-000001", {"aliases": {index: {"is_write_index": True}}})
    r = client.bulk(bulk_body(index, [(None, b"{}")]))
    assert r.items[0]["_index"] == f"{index}-000001"


def test_trap_27_query_parameters(client, index):
    ask = ("refresh=wait_for&timeout=60s&wait_for_active_shards=1&require_alias=false&require_data_stream=false"
           "&include_source_on_error=true&pipeline=_none&routing=r&human=true&pretty&_source=false&error_trace=true")
    assert client.bulk(bulk_body(index, [("1", b"{}")]), f"/_bulk?{ask}").json["errors"] is False
    for target in (f"/{index}/_doc/1?routing=r&preference=_local&realtime=true&_source_includes=a&_source_excludes=b",
                   f"/{index}?master_timeout=30s&flat_settings=true&expand_wildcards=all&ignore_unavailable=true",
                   "/_cluster/health?wait_for_status=yellow&timeout=1s&level=indices&master_timeout=1s",
                   f"/_cat/indices/{index}?v&h=index&format=json&bytes=b", f"/{index}/_count?allow_no_indices=true"):
        assert client.get(target).status == 200, target
    r = client.post(f"/{index}/_forcemerge?max_num_segments=1&wait_for_completion=true")
    assert r.status == 200, r
    assert client.put(f"/{index}/_doc/2?op_type=create&refresh", b"{}").status == 201
    r = client.get(f"/{index}/_doc/1?bogus=1")
    assert r.status == 400 and "unrecognized parameter" in r.error["reason"]


def test_trap_28_status_at_the_top_of_errors_only(client, index):
    """rsyslog takes any answer with a top-level status for a failure."""
    client.put_doc(index, "1", b"{}")
    for r in (client.put_doc(index, "1", b"{}"), client.get(f"/{index}/_doc/1"), client.delete(f"/{index}/_doc/1"),
              client.bulk(bulk_body(index, [("1", b"{}")])), client.put(f"/{index}-x")):
        assert r.status < 300 and "status" not in r.json, r
    for r in (client.put(f"/{index}"), client.get("/none/_doc/1"), client.bulk(b"{}\n"), client.get("/_nosuch")):
        assert r.json["status"] == r.status >= 400 and isinstance(r.error["type"], str), r


def test_trap_29_ids_are_decoded_once(client, index):
    """JavaScript leaves !*()'~ as they are, Python ,~*; both escape the slash."""
    assert client.put(f"/{index}/_doc/%25", b"{}").json["_id"] == "%"
    assert client.put(f"/{index}/_doc/%2525", b"{}").json["_id"] == "%25"
    assert client.put(f"/{index}/_doc/a!*()'~,b", b"{}").json["_id"] == "a!*()'~,b"
    assert client.put(f"/{index}/_doc/a%21%2A%28%29%27%7E%2Cb", b"{}").json["_version"] == 2
    assert client.put(f"/{index}/_doc/{'x' * 512}", b"{}").status == 201
    r = client.put(f"/{index}/_doc/{'x' * 513}", b"{}")
    assert r.status == 400 and "is too long" in r.error["reason"]


def test_trap_30_documents_come_back_byte_for_byte(client, index):
    docs = {"1": b'{"z":1,"a":2, "z2" : 1.50,"big":12345678901234567890,"e":1E+5,"u":"\\u00e9\xc3\xa9","n":null}',
            "2": b'{ "a" : [ 1 , 2.0 ] }', "3": b'{"a":-0.0,"b":"\\/"}'}
    client.bulk(ndjson(*(line for id, doc in docs.items()
                         for line in (b'{"index":{"_index":"%s","_id":"%s"}}' % (index.encode(), id.encode()), doc))))
    for id, doc in docs.items():
        assert client.source(index, id) == doc
        assert doc in client.get(f"/{index}/_doc/{id}").body
    assert client.sources(index, docs) == docs
    client.post(f"/{index}/_flush")
    assert client.sources(index, docs) == docs
