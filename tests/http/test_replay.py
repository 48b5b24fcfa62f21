# SPDX-License-Identifier: Apache-2.0
"""What shippers say on the wire, request for request, with their own headers and nothing added: start-up,
templates, ILM, bulks, and what they do after each answer. A shipper is a row of SHIPPERS and a function
that judges an answer as that program does; the tests are its conversations."""
import gzip
import json
import re
import time

import pytest
from stow import Raw, request_bytes

BEATS_FILTER = "filter_path=errors%2Citems.%2A.error%2Citems.%2A.status"
OTEL_FILTER = ("filter_path=items.%2A._index%2Citems.%2A.status%2Citems.%2A.error.type"
               "%2Citems.%2A.error.reason")

# name: headers of a request without a body, further ones of a bulk
SHIPPERS = {
    "logstash": ({"User-Agent": "Elastic/8.19.2 (Linux 6.1; amd64; JVM 21) logstash/8.19.2-logstash-output-elasticsearch/11.22.13",
                  "x-elastic-product-origin": "logstash-output-elasticsearch", "Connection": "Keep-Alive",
                  "Accept-Encoding": "gzip,deflate"}, {"Content-Type": "application/json"}),
    "fluent-bit": ({"User-Agent": "Fluent-Bit"}, {"Content-Type": "application/x-ndjson"}),
    "fluentd": ({"User-Agent": "elasticsearch-ruby/8.19.0", "Accept": "*/*"},
                {"Content-Type": "application/vnd.elasticsearch+x-ndjson; compatible-with=9",
                 "Accept": "application/vnd.elasticsearch+x-ndjson; compatible-with=9"}),
    "filebeat": ({"User-Agent": "Elastic-filebeat/8.19.2 (linux; amd64)", "Accept": "application/json",
                  "Accept-Encoding": "identity"}, {"Content-Type": "application/json; charset=UTF-8"}),
    "vector": ({"User-Agent": "Vector/0.50.0", "Accept-Encoding": "identity", "Accept": "*/*"},
               {"Content-Type": "application/x-ndjson"}),
    "otel": ({"User-Agent": "otelcol/0.137.0 (linux/amd64)"},
             {"Content-Type": "application/vnd.elasticsearch+x-ndjson;compatible-with=8",
              "Accept": "application/vnd.elasticsearch+json;compatible-with=8"}),
    "telegraf": ({"User-Agent": "elastic/7.0.32 (linux-amd64)", "Accept": "application/json"},
                 {"Content-Type": "application/x-ndjson"}),
    "rsyslog": ({"Content-Type": "application/json; charset=utf-8", "Accept": "*/*"}, {}),
    "curator": ({"User-Agent": "elasticsearch-py/7.17.12 (Python 3.11.2)", "Accept-Encoding": "identity",
                 "Content-Type": "application/json", "Accept": "application/json"}, {}),
}


class Shipper:
    """One keep-alive connection of a program."""

    def __init__(self, name, port):
        self.plain, self.more = SHIPPERS[name]
        self.raw = Raw(port, timeout=30)
        self.port = port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()

    def ask(self, request, body=None, gzipped=False, **headers):
        """request: "METHOD target"; body: object, or lines of a bulk as bytes. The answer."""
        method, target = request.split(" ", 1)
        send = {**self.plain, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if isinstance(body, dict):
            body = json.dumps(body, separators=(",", ":")).encode()
            send["Content-Type"] = "application/json"
        elif body is not None:
            send.update(self.more)
        if gzipped:
            body = gzip.compress(body, 1)
            send["Content-Encoding"] = "gzip"
        if body is not None:
            send["Content-Length"] = str(len(body))
        self.raw.send(request_bytes(method, target, b"", {"Host": f"127.0.0.1:{self.port}", **send}) + (body or b""))
        answer = self.raw.receive(head=method == "HEAD")
        if answer.header("content-encoding") == "gzip":
            assert "gzip" in send.get("Accept-Encoding", ""), "packed without being asked for"
            answer.body = gzip.decompress(answer.body)
        return answer

    def talk(self, *script):
        """Steps (request, body or None, status); the answers."""
        answers = []
        for request, body, status in script:
            answers.append(self.ask(request, body))
            assert answers[-1].status == status, (request, answers[-1])
        return answers


def lines(*them):
    """Lines of a bulk exactly as given; objects as compact JSON."""
    return b"".join((x.encode() if isinstance(x, str) else json.dumps(x, separators=(",", ":")).encode()) + b"\n"
                    for x in them)


def count(client, index):
    return client.get(f"/{index}/_count").json["count"]


def busy(daemon):
    """A connection that holds the memory for bodies, so that others get 429 until it is closed."""
    slow = Raw(daemon.port)
    slow.send(request_bytes("POST", "/_bulk", headers={"Content-Length": "3000000",
                                                       "Content-Type": "application/x-ndjson"}) + b"x" * 2_000_000)
    return slow


# ---------------------------------------------------------------- Logstash

def logstash_alive(about, license):
    """What the pool asks of a host before it is used (versions 11 and 12)."""
    version = about.json["version"]
    number = tuple(int(n) for n in re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version["number"]).groups())
    assert number >= (7, 0, 0) and version.get("build_flavor") != "serverless"
    if number >= (7, 14, 0):
        assert about.header("x-elastic-product") == "Elasticsearch"
    else:
        assert version["build_flavor"] == "default" and about.json["tagline"] == "You Know, for Search"
    assert license.status == 200 and license.json["license"]["status"] == "active"
    assert about.json["cluster_uuid"]
    return number[0]


def logstash_judges(answer, actions):
    """What becomes of each action: "ok", "drop", "dlq" or "retry"; of all together when refused."""
    if not 200 <= answer.status <= 299:
        return ["retry"] * actions
    if answer.json["errors"] is False:
        return ["ok"] * actions
    items = answer.json["items"]
    assert len(items) == actions
    fate = []
    for item in items:
        ((op, result),) = item.items()
        status = result["status"]
        fate.append("ok" if status in (200, 201) else "drop" if status == 409 else "dlq" if status in (400, 404)
                    else "retry")
        if fate[-1] == "dlq" and op != "delete":
            assert result["error"]["type"] and result["error"]["reason"]
    return fate


def logstash_meta(op, **meta):
    return {op: {"_id": None, "_index": "logstash", "routing": None, **meta}}


@pytest.mark.parametrize("identity, endpoint", [("7.10.2", "_template"), ("7.17.29", "_template"),
                                                ("8.19.2", "_index_template"), ("9.1.0", "_index_template")])
def test_logstash_with_ilm(make_daemon, identity, endpoint):
    """Start-up, template and ILM as 11 and 12 do them, then gzipped bulks to the alias."""
    d = make_daemon(f"identity.version={identity}")
    with Shipper("logstash", d.port) as s:
        _, about, license = s.talk(("HEAD /", None, 200), ("GET /", None, 200), ("GET /_license", None, 200))
        assert logstash_alive(about, license) == int(identity[0])
        body = {"settings": {"index.refresh_interval": "5s", "index.lifecycle.name": "logstash-policy",
                             "index.lifecycle.rollover_alias": "logstash", "number_of_shards": 1, "index.codec": "zstd"},
                "mappings": {"dynamic_templates": [{"message_field": {"path_match": "message", "match_mapping_type": "string",
                                                                      "mapping": {"type": "text", "norms": False}}}],
                             "properties": {"@timestamp": {"type": "date"}, "@version": {"type": "keyword"}}}}
        template = ({"index_patterns": ["logstash-*"], "version": 60001, **body} if endpoint == "_template" else
                    {"index_patterns": "logstash-*", "version": 80001, "template": body, "priority": 200})
        s.talk(("GET /", None, 200), (f"HEAD /{endpoint}/logstash", None, 404),
               (f"PUT /{endpoint}/logstash", template, 200), (f"HEAD /{endpoint}/logstash", None, 200))
        make = {"aliases": {"logstash": {"is_write_index": True}}}
        policy = {"policy": {"phases": {"hot": {"actions": {"rollover": {"max_size": "50gb", "max_age": "30d"}}}}}}
        s.talk(("HEAD /logstash", None, 404), ("PUT /%3Clogstash-%7Bnow%2Fd%7D-000001%3E", make, 200),
               ("GET /_ilm/policy/logstash-policy", None, 404), ("PUT /_ilm/policy/logstash-policy", policy, 200),
               ("HEAD /logstash", None, 200), ("GET /_ilm/policy/logstash-policy", None, 200))
        # A second instance that saw neither: the 400 is taken for "there already".
        again = s.ask("PUT /%3Clogstash-%7Bnow%2Fd%7D-000001%3E", make)
        assert again.status == 400 and again.error["type"] == "resource_already_exists_exception"

        events = [{"@timestamp": f"2026-11-30T10:00:{n:02d}.000Z", "message": f"é {n}", "@version": "1"} for n in range(50)]
        body = lines(*(x for e in events for x in (logstash_meta("index"), e)))
        r = s.ask("POST /_bulk?filter_path=errors,items.*.error,items.*.status", body, gzipped=True,
                  X_Elastic_Event_Count="50", X_Elastic_Uncompressed_Request_Length=str(len(body)))
        assert logstash_judges(r, 50) == ["ok"] * 50
    c = d.client()
    (index,) = c.get("/_alias/logstash").json
    assert re.fullmatch(r"logstash-\d{4}\.\d\d\.\d\d-000001", index) and count(c, index) == 50
    assert c.get(f"/{index}/_settings").json[index]["settings"]["index"]["codec"] == "zstd"


def test_logstash_10_with_types(make_daemon):
    """Logstash 7 with 10.8: no license that counts, _xpack for ILM, _type in each action."""
    d = make_daemon("identity.version=7.17.29")
    with Shipper("logstash", d.port) as s:
        answers = s.talk(("HEAD /", None, 200), ("GET /", None, 200), ("GET /_license", None, 200), ("GET /_xpack", None, 200),
                         ("HEAD /_template/logstash", None, 404),
                         ("PUT /_template/logstash", {"index_patterns": "logstash-*", "settings": {"index.refresh_interval": "5s"}},
                          200))
        assert answers[3].json["features"]["ilm"]["enabled"] is False, "ILM would be used, which is off here"
        r = s.ask("POST /_bulk", lines({"index": {"_id": None, "_index": "logstash-2026.11.30", "_type": "_doc", "routing": None}},
                                       {"message": "x"}))
        assert logstash_judges(r, 1) == ["ok"] and r.json["items"][0]["index"]["status"] == 201


def test_logstash_data_stream_by_default(make_daemon):
    """Version 8 and 9 without index: create into logs-generic-default, no template of its own."""
    d = make_daemon()
    with Shipper("logstash", d.port) as s:
        s.talk(("HEAD /", None, 200), ("GET /", None, 200), ("GET /_license", None, 200))
        event = {"@timestamp": "2026-11-30T10:00:00.000Z", "data_stream": {"type": "logs", "dataset": "generic",
                                                                        "namespace": "default"}}
        r = s.ask("POST /_bulk?filter_path=errors,items.*.error,items.*.status",
                  lines(logstash_meta("create", _index="logs-generic-default"), event), gzipped=True)
        assert logstash_judges(r, 1) == ["ok"]
    assert count(d.client(), "logs-generic-default") == 1


def test_logstash_partial_failures(client, node, index):
    """409 is dropped, 400 and 404 go to the dead letter queue, the rest is stored once."""
    actions = [
        (logstash_meta("create", _index=index, _id="1"), {"n": 1}, "ok"),
        (logstash_meta("create", _index=index, _id="1"), {"n": 2}, "drop"),
        (logstash_meta("index", _index=index, _id="2", version="7", version_type="external"), {"n": 3}, "ok"),
        (logstash_meta("index", _index=index, _id="2", version="6", version_type="external"), {"n": 4}, "drop"),
        (logstash_meta("index", _index=index, _id="3", routing="r"), '{"n":', "dlq"),
        (logstash_meta("update", _index=index, _id="none", retry_on_conflict=1), {"doc": {"n": 5}}, "dlq"),
        (logstash_meta("update", _index=index, _id="4", retry_on_conflict=1), {"doc": {"n": 6}, "doc_as_upsert": True}, "ok"),
        (logstash_meta("update", _index=index, _id="5", retry_on_conflict=1), {"doc": {"n": 7}, "upsert": {"n": 8}}, "ok"),
        (logstash_meta("delete", _index=index, _id="none"), None, "dlq"),
        (logstash_meta("delete", _index=index, _id="4"), None, "ok"),
    ]
    body = lines(*(x for meta, source, _ in actions for x in (meta, source) if x is not None))
    with Shipper("logstash", node.port) as s:
        r = s.ask("POST /_bulk", body, gzipped=True)
    assert logstash_judges(r, len(actions)) == [fate for _, _, fate in actions]
    items = [next(iter(i.values())) for i in r.json["items"]]
    assert [i["status"] for i in items] == [201, 409, 201, 409, 400, 404, 201, 201, 404, 200]
    assert client.sources(index, "12345") == {"1": b'{"n":1}', "2": b'{"n":3}', "3": None, "4": None, "5": b'{"n":8}'}


@pytest.mark.parametrize("name", ["logstash", "fluent-bit", "filebeat", "vector", "otel", "telegraf", "fluentd"])
def test_429_and_the_same_request_again(make_daemon, name):
    """Overload refuses the whole request; all of these send it again as it was, and it is there once."""
    d = make_daemon("http.max_in_flight=1mb", "http.admission_wait=100ms")
    c = d.client()
    body = lines(*(x for n in range(800) for x in ({"create": {"_index": "i"}}, {"n": n, "pad": "x" * 500})))
    slow = busy(d)
    with Shipper(name, d.port) as s:
        end = time.monotonic() + 10
        while (r := s.ask("POST /_bulk", body)).status == 200:
            c.delete("/i")
            assert time.monotonic() < end, "never refused"
        assert r.status == 429 and r.error["type"] == "es_rejected_execution_exception", r
        assert c.get("/i/_count").status == 404, "a refused request has left something"
        slow.close()
    with Shipper(name, d.port) as s:
        while (r := s.ask("POST /_bulk", body)).status == 429:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert r.status == 200 and r.json["errors"] is False
    assert count(c, "i") == 800


# ---------------------------------------------------------------- Fluent Bit

def fluent_bit_judges(answer, plugin="es"):
    """out_es and out_opensearch of 5.1.1, as measured: is the chunk acknowledged, or sent again? An
    acknowledged chunk of which items failed is a loss, which out_es does not see."""
    head = sum(len(k) + len(v) + 4 for k, v in answer.headers) + 40
    if answer.status not in (200, 201) or len(answer.body) + head > 512_000:
        return "retry"
    text = answer.body
    if not re.match(rb'\{"took":\d+,"errors":(true|false),"items":\[', text):
        return "retry"
    if b'"errors":false,"items":[' in text[:64]:
        return "ok"
    statuses = [next(iter(i.values()))["status"] for i in answer.json["items"]]
    if plugin == "es":
        return "retry" if all(x == 409 for x in statuses) else "ok"
    return "ok" if all(x == 409 for x in statuses) else "retry"


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("suppress", [False, True])
@pytest.mark.parametrize("target", ["/_bulk", "/_bulk/?pipeline="])
@pytest.mark.parametrize("op, ids", [("create", None), ("create", "generate"), ("index", None), ("index", "generate"),
                                     ("index", "key"), ("update", "key"), ("upsert", "generate"), ("upsert", "key")])
def test_fluent_bit_write_operations(client, node, index, op, ids, target, suppress, gzipped):
    """Action lines of all write operations, with and without types and ids. Sending a chunk again with
    ids changes nothing."""
    name = f"{index}-2026.11.30"  # Logstash_Format
    meta, docs, chunk = {}, {}, []
    for n in range(40):
        doc = {"@timestamp": "2026-11-30T10:00:00.000Z", "log": f"line {n}"}
        text = json.dumps({**doc, "e": "é"}, separators=(",", ":"))  # non-ASCII goes as \u00e9
        meta = {"_index": name, **({} if suppress else {"_type": "_doc"})}
        id = {"generate": f"00c0ffee-0000-4000-8000-{n:012x}", "key": f"key {n}", None: None}[ids]
        if id:
            meta["_id"] = id
            docs[id] = text.encode()
        wrap = {"update": f'{{"doc":{text}}}', "upsert": f'{{"doc_as_upsert":true,"doc":{text}}}'}
        chunk += [{"update" if op == "upsert" else op: meta}, wrap.get(op, text)]
    if op == "update":  # only of what is there
        client.load(name, [(id, b"{}") for id in docs])
    with Shipper("fluent-bit", node.port) as s:
        first = s.ask(f"POST {target}", lines(*chunk), gzipped=gzipped)
        assert fluent_bit_judges(first) == fluent_bit_judges(first, "opensearch") == "ok"
        assert count(client, name) == 40
        again = s.ask(f"POST {target}", lines(*chunk), gzipped=gzipped)
    if ids:
        assert count(client, name) == 40 and client.sources(name, docs) == docs
        statuses = {next(iter(i.values()))["status"] for i in again.json["items"]}
        assert statuses == ({409} if op == "create" else {200})
        assert fluent_bit_judges(again, "opensearch") == "ok"  # out_es goes on until Retry_Limit
    else:
        assert count(client, name) == 80, "without ids sending again makes duplicates"


def test_fluent_bit_update_of_nothing(client, node, index):
    """Write_Operation update does not make documents: 404s, which out_es takes for done."""
    chunk = lines({"update": {"_index": index, "_type": "_doc", "_id": "1"}}, '{"doc":{"a":1}}')
    with Shipper("fluent-bit", node.port) as s:
        r = s.ask("POST /_bulk", chunk)
    assert r.json["errors"] is True and r.json["items"][0]["update"]["status"] == 404
    assert fluent_bit_judges(r) == "ok" and fluent_bit_judges(r, "opensearch") == "retry"


@pytest.mark.parametrize("records", [2_000, 3_000, pytest.param(25_000, marks=pytest.mark.slow)])
def test_fluent_bit_buffer(client, node, index, records):
    """The answer to a chunk can be read with the default Buffer_Size, however many records it has."""
    chunk = lines(*(x for n in range(records) for x in ({"create": {"_index": index, "_type": "_doc"}}, {"n": n})))
    with Shipper("fluent-bit", node.port) as s:
        r = s.ask("POST /_bulk", chunk, gzipped=True)
    assert fluent_bit_judges(r) == "ok" and len(r.json["items"]) == records
    assert count(client, index) == records


def test_fluent_bit_old_ids_with_quotes(client, node, index):
    """Before 5.1.0 an id is pasted into the line as it is: the chunk is refused and nothing of it stored."""
    chunk = (f'{{"create":{{"_index":"{index}","_type":"_doc","_id":"good"}}}}\n{{"a":1}}\n'
             f'{{"create":{{"_index":"{index}","_type":"_doc","_id":"a"b"}}}}\n{{"a":2}}\n').encode()
    with Shipper("fluent-bit", node.port) as s:
        r = s.ask("POST /_bulk", chunk)
    assert r.status == 400 and fluent_bit_judges(r) == "retry"
    assert client.get(f"/{index}/_count").status == 404


# ---------------------------------------------------------------- Beats

def beats_judges(answer, actions):
    """libbeat: only exactly 200 is read; items by position, one key each, an int status."""
    if answer.status == 413:
        return ["split"] * actions
    if answer.status != 200:
        return ["retry"] * actions
    items = answer.json["items"]
    assert isinstance(items, list) and len(items) == actions
    fate = []
    for item in items:
        ((op, result),) = item.items()
        status = result["status"]
        assert op == "create" and type(status) is int
        fate.append("ok" if status < 300 or status == 409 else "retry" if status == 429 or status >= 500 else "drop")
    return fate


def test_filebeat(make_daemon):
    """Version, license, ILM policy, template, data stream, bulks of create, a batch that is too large."""
    d = make_daemon("http.max_content_length=1mb")
    c = d.client()
    with Shipper("filebeat", d.port) as s:
        about, license = s.talk(("GET /", None, 200), ("GET /_license?human=false", None, 200))
        assert re.fullmatch(r"\d+\.\d+\.\d+", about.json["version"]["number"])
        assert license.json["license"]["uid"] and license.json["license"]["status"] == "active"
        policy = {"policy": {"phases": {"hot": {"actions": {"rollover": {"max_age": "30d", "max_primary_shard_size": "50gb"}}}}}}
        template = {"index_patterns": ["filebeat-8.19.2"], "priority": 150, "data_stream": {},
                    "template": {"settings": {"index": {"lifecycle": {"name": "filebeat"}, "codec": "best_compression",
                                                        "mapping": {"total_fields": {"limit": 12500}}, "refresh_interval": "5s",
                                                        "number_of_shards": 1, "query": {"default_field": ["message"]}}},
                                 "mappings": {"date_detection": False, "dynamic_templates": []}}}
        name = "filebeat-8.19.2"
        s.talk(("GET /_ilm/policy/filebeat", None, 404), ("PUT /_ilm/policy/filebeat", policy, 200),
               (f"HEAD /_index_template/{name}", None, 404), (f"PUT /_index_template/{name}", template, 200),
               (f"GET /_data_stream/{name}", None, 404), (f"PUT /_data_stream/{name}", None, 200),
               (f"GET /_data_stream/{name}", None, 200))
        event = {"@timestamp": "2026-11-30T10:00:00.000Z", "message": "x"}
        body = lines({"create": {"_index": name}}, event, {"create": {"_index": name, "_id": "a"}}, event,
                     {"create": {"_index": name, "_id": "a"}}, event, {"create": {"_index": name, "_id": "b"}}, '{"a":')
        r = s.ask(f"POST /_bulk?{BEATS_FILTER}", body, gzipped=True, X_Elastic_Uncompressed_Request_Length=str(len(body)))
        assert beats_judges(r, 4) == ["ok", "ok", "ok", "drop"] and "took" not in r.json
        assert count(c, name) == 2
        (backing,) = c.get(f"/{name}/_settings").json.values()
        assert backing["settings"]["index"]["codec"] == "best_compression"
        big = lines(*(x for n in range(20) for x in ({"create": {"_index": name}}, {**event, "message": "y" * 100_000})))
        assert beats_judges(s.ask(f"POST /_bulk?{BEATS_FILTER}", big, gzipped=True), 20) == ["split"] * 20
    with Shipper("filebeat", d.port) as s:
        half = big[:big.index(b'{"create"', len(big) // 4)]
        r = s.ask(f"POST /_bulk?{BEATS_FILTER}", half, gzipped=True)
        assert set(beats_judges(r, half.count(b'{"create"'))) == {"ok"}


# ---------------------------------------------------------------- the others

def test_fluentd(make_daemon):
    """Version, template, ILM and rollover, data stream plugin; sniffing after 10,000 requests."""
    d = make_daemon("identity.version=9.1.0")
    c = d.client()
    with Shipper("fluentd", d.port) as s:
        (about,) = s.talk(("GET /", None, 200))
        assert about.header("x-elastic-product") == "Elasticsearch"
        template = {"index_patterns": ["fd-*"], "template": {"settings": {"index.codec": "zstd"}}}
        s.talk(("GET /_index_template/fd", None, 404), ("PUT /_index_template/fd", template, 200),
               ("GET /_xpack", None, 200), ("GET /_ilm/policy/fd", None, 404),
               ("PUT /_ilm/policy/fd", {"policy": {"phases": {"hot": {"actions": {}}}}}, 200),
               ("HEAD /_alias/fd", None, 404), ("PUT /%3Cfd-default-%7Bnow%2Fd%7D-000001%3E", None, 200),
               ("PUT /%3Cfd-default-%7Bnow%2Fd%7D-000001%3E/_alias/fd", {"aliases": {"fd": {"is_write_index": True}}}, 200),
               ("HEAD /_alias/fd", None, 200))
        (about,) = c.get("/_alias/fd").json.values()
        assert about["aliases"]["fd"] == {"is_write_index": True}
        r = s.ask("POST /_bulk", lines({"index": {"_index": "fd", "_id": "1"}}, {"a": 1}, {"create": {"_index": "fd", "_id": "1"}},
                                       {"a": 2}, {"index": {"_index": "fd"}}, "[1]"))
        assert "json" in r.header("content-type")
        items = [next(iter(i.values())) for i in r.json["items"]]
        assert [i["status"] for i in items] == [201, 409, 400] and isinstance(items[2]["error"]["type"], str)
        stream = {"index_patterns": ["ds-fd"], "data_stream": {}, "template": {}}
        s.talk(("GET /_data_stream/ds-fd", None, 404), ("PUT /_index_template/ds-fd", stream, 200),
               ("PUT /_data_stream/ds-fd", None, 200))
        r = s.ask("POST /ds-fd/_bulk", lines({"create": {}}, {"@timestamp": "2026-11-30T10:00:00Z", "a": 1}))
        assert r.json["errors"] is False and count(c, "ds-fd") == 1
        (found,) = s.ask("GET /_nodes/http").json["nodes"].values()
        assert found["http"]["publish_address"] == f"127.0.0.1:{d.port}" and found["roles"] != ["master"]


@pytest.mark.parametrize("mode", ["bulk", "data_stream"])
def test_vector(client, node, index, mode):
    """Health must be 200; failures are looked for as the bytes "errors":true."""
    op, name = ("index", index) if mode == "bulk" else ("create", f"logs-{index}-default")
    if mode == "data_stream":
        r = client.put(f"/_index_template/{index}", {"index_patterns": [f"logs-{index}-*"], "data_stream": {}, "priority": 600})
        assert r.status == 200, r
    with Shipper("vector", node.port) as s:
        about, _ = s.talk(("GET /", None, 200), ("GET /_cluster/health", None, 200))
        assert int(about.json["version"]["number"].split(".")[0]) >= 7  # no _type then
        body = lines(*(x for n in range(30) for x in ({op: {"_index": name}}, {"@timestamp": "2026-11-30T10:00:00Z", "n": n})))
        r = s.ask("POST /_bulk?timeout=60s", body, gzipped=True)
        assert r.status == 200 and b'"errors":true' not in r.body and count(client, name) == 30
        r = s.ask("POST /_bulk?timeout=60s", lines({op: {"_index": name, "_id": "1"}}, '{"a":'))
        assert r.status == 200 and b'"errors":true' in r.body
        assert s.ask("POST /_bulk?timeout=60s", body, Content_Encoding="zstd").status == 415
    if mode == "data_stream":
        assert client.get(f"/_data_stream/{name}").json["data_streams"][0]["name"] == name
        client.delete(f"/_data_stream/{name}")
        client.delete(f"/_index_template/{index}")


def test_opentelemetry(client, node, index):
    """No start-up; items are read up to their end: status above 201 or an error's type is a failure."""
    name = f"logs-{index}.otel-default"
    assert client.put(f"/_index_template/{index}", {"index_patterns": [f"logs-{index}*"], "data_stream": {},
                                                    "priority": 600}).status == 200
    meta = {"create": {"_index": name, "dynamic_templates": {"metrics.a": "gauge_long"}}}
    body = lines(meta, {"@timestamp": "2026-11-30T10:00:00Z", "n": 1}, {"create": {"_index": name, "_id": "a"}},
                 {"@timestamp": "2026-11-30T10:00:00Z", "n": 2}, {"create": {"_index": name, "_id": "a"}},
                 {"@timestamp": "2026-11-30T10:00:00Z", "n": 3})
    with Shipper("otel", node.port) as s:
        r = s.ask(f"POST /_bulk?{OTEL_FILTER}&require_data_stream=true&include_source_on_error=false", body, gzipped=True)
        assert r.status == 200 and list(r.json) == ["items"]
        items = [i["create"] for i in r.json["items"]]
        assert [i["status"] for i in items] == [201, 201, 409] and all(i["_index"].startswith(".ds-" + name) for i in items[:2])
        assert items[2]["error"]["type"] == "version_conflict_engine_exception" and items[2]["error"]["reason"]
        r = s.ask(f"POST /_bulk?{OTEL_FILTER}&require_data_stream=true", lines({"create": {"_index": f"{index}-plain"}}, {"a": 1}))
        assert r.status == 200 and r.json["items"][0]["create"]["status"] >= 400, r
    assert client.head(f"/{index}-plain").status == 404 and count(client, name) == 2
    client.delete(f"/_data_stream/{name}")
    client.delete(f"/_index_template/{index}")


def test_telegraf(client, node, index):
    """Health by HEAD, a template that asks for best_compression, bulks of index."""
    template = {"index_patterns": [f"{index}-*"], "order": 1, "aliases": {f"all-{index}": {}},
                "settings": {"index": {"refresh_interval": "10s", "mapping.total_fields.limit": 5000, "auto_expand_replicas": "0-1",
                                       "codec": "best_compression"}},
                "mappings": {"properties": {"@timestamp": {"type": "date"}}, "dynamic_templates": []}}
    name = f"{index}-2026.11.30"
    with Shipper("telegraf", node.port) as s:
        *_, put = s.talk(("HEAD /", None, 200), ("GET /", None, 200), (f"HEAD /_template/{index}", None, 404),
                         (f"PUT /_template/{index}", template, 200))
        assert put.json == {"acknowledged": True}
        body = lines(*(x for n in range(30) for x in ({"index": {"_index": name}}, {"@timestamp": "2026-11-30T10:00:00Z",
                                                                                    "measurement_name": "cpu", "n": n})))
        r = s.ask("POST /_bulk", body, gzipped=True)
        assert r.json["errors"] is False and all(200 <= i["index"]["status"] <= 299 for i in r.json["items"])
        s.talk(("HEAD /", None, 200))
    about = client.get(f"/{name}").json[name]
    assert about["settings"]["index"]["codec"] == "best_compression" and f"all-{index}" in about["aliases"]
    client.delete(f"/_template/{index}")


def test_rsyslog(client, node, index):
    """The version after 8.2302: who is there, its action lines with blanks, health before it goes on."""
    with Shipper("rsyslog", node.port) as s:
        (about,) = s.talk(("GET /", None, 200))
        assert about.json["version"]["number"] and about.json["tagline"]
        meta = '{"index":{"_index": "%s","_type":"events", "_id":"%s"}}'
        r = s.ask("POST /_bulk", lines(meta % (index, 1), {"msg": "a"}, meta % (index, 2), {"msg": "b"}))
        assert [i["index"]["status"] for i in r.json["items"]] == [201, 201]
        assert s.ask("GET /_cat/health").status == 200
    assert client.sources(index, "12") == {"1": b'{"msg":"a"}', "2": b'{"msg":"b"}'}


def test_curator_closes(client, node, index):
    """Curator 5.8 looks at all settings, makes a synced flush and closes; 8 leaves the flush out."""
    both = f"{index}-a,{index}-b"
    for name in both.split(","):
        client.put_doc(name, "1", b"{}")
    with Shipper("curator", node.port) as s:
        every = s.ask("GET /_all/_settings?expand_wildcards=open%2Cclosed").json[f"{index}-a"]["settings"]["index"]
        assert int(every["creation_date"]) > 0 and every["number_of_shards"]
        s.talk((f"GET /_cluster/state/metadata/{both}", None, 200), (f"POST /{both}/_flush/synced?ignore_unavailable=true", b"", 200),
               (f"POST /{both}/_close?ignore_unavailable=true", b"", 200))
    assert client.get(f"/{index}-a/_doc/1").status == 400
    client.delete(f"/{index}-*")
