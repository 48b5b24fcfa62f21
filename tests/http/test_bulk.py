# SPDX-License-Identifier: Apache-2.0
"""_bulk: framing, metadata, order, results, refusals."""
import random
import re

import pytest
import stow
from stow import action, bulk_body, ndjson

DOCUMENT_ERRORS = ("document_parsing_exception", "mapper_parsing_exception")


def test_answer_is_compact_and_in_order(client, index):
    r = client.bulk(bulk_body(index, [("a", b'{"v":1}'), (None, b'{"v":2}')], "create"))
    assert re.match(rb'\{"took":\d+,"errors":false,"items":\[\{"create":\{"_index":"', r.body), r
    assert r.header("content-type").startswith("application/json")
    first, second = r.items
    assert first == {"op": "create", "_index": index, "_id": "a", "_version": 1, "result": "created",
                     "_shards": {"total": 1, "successful": 1, "failed": 0},
                     "_seq_no": 0, "_primary_term": 1, "status": 201}
    assert second["_seq_no"] == 1 and re.fullmatch(r"[A-Za-z0-9_-]{20}", second["_id"])


@pytest.mark.parametrize("body, type_, text", [
    (b"", "parse_exception", "request body is required"),
    (b"\n", "action_request_validation_exception", "no requests added"),
    (b'{"index":{"_index":"IDX","_id":"1"}}\n{"v":1}', "illegal_argument_exception",
     "must be terminated by a newline"),
    (b'{"index":{"_index":"IDX","_id":"1"}}\n{"v":1}\n{"index":{"_index":"IDX"}}\n{"v":2}',
     "illegal_argument_exception", "must be terminated by a newline"),
    (b'{"explode":{"_index":"IDX"}}\n', "illegal_argument_exception",
     "Malformed action/metadata line [1]"),
    (b'["index"]\n{"v":1}\n', "illegal_argument_exception", "Malformed action/metadata line [1]"),
    (b'{"index":{"_index":"IDX","_id":"1"}}\n{"v":1}\n{"index":"x"}\n{"v":2}\n',
     "illegal_argument_exception", "Malformed action/metadata line [3]"),
    (b'{"index":{"_id":"1"}}\n{"v":1}\n', "action_request_validation_exception", "index is missing"),
    (b'{"index":{"_index":"IDX","_id":"1"}}\n{"v":1}\n{"delete":{"_id":"1"}}\n',
     "action_request_validation_exception", "index is missing"),
    (b'{"index":{"_index":"IDX","_id":"1"}}\n', None, "no requests added"),
    (b'\xef\xbb\xbf{"index":{"_index":"IDX","_id":"1"}}\n{"v":1}\n', None, ""),
    (b'{"index":{"_index":"IDX","_id":"1"}}\n{"v":1}\nrubbish\n{"v":2}\n', None, ""),
    (b'{"index":{"_index":"IDX","_id":"1\x01"}}\n{"v":1}\n', None, ""),
    (b'{"index":{"_index":"IDX"}}{"v":1}\n', None, ""),
])
def test_broken_framing_refuses_the_whole_request(client, index, body, type_, text):
    r = client.bulk(body.replace(b"IDX", index.encode()))
    assert r.status == 400, r
    assert text in r.error["reason"]
    assert type_ is None or r.error["type"] == type_
    assert client.head(f"/{index}").status == 404, "a refused request has left something"


def test_bad_document_costs_its_item_only(client, index):
    r = client.bulk(bulk_body(index, [("1", b'{"v":1}'), ("2", b'{"v":'), ("3", b"[]"), ("4", b'{"v":4}')]))
    assert r.json["errors"] is True
    assert [i["status"] for i in r.items] == [201, 400, 400, 201]
    assert r.items[1]["error"]["type"] in DOCUMENT_ERRORS and r.items[1]["error"]["reason"]
    assert client.sources(index, ["1", "2", "3", "4"]) == {
        "1": b'{"v":1}', "2": None, "3": None, "4": b'{"v":4}'}


def test_index_in_the_path_is_a_default(client, index):
    r = client.bulk(b'{"index":{"_id":"1"}}\n{"v":1}\n{"create":{"_index":null,"_id":"2"}}\n{"v":2}\n'
                    b'{"index":{"_index":"' + index.encode() + b'-b","_id":"3"}}\n{"v":3}\n'
                    b'{"delete":{"_id":"1"}}\n', f"/{index}/_bulk")
    assert [(i["_index"], i["status"]) for i in r.items] == [
        (index, 201), (index, 201), (index + "-b", 201), (index, 200)]


@pytest.mark.parametrize("line", [
    b'{"index":{"_id":null,"_index":"IDX","_type":"logs","_routing":null,"routing":null}}',
    b' { "create" : { "pipeline" : null , "_index": "IDX", "version":null } } ',
    b'{"index":{"_index":"IDX","require_alias":null,"if_seq_no":null,"version_type":null}}',
    b'{"create":{"_index":"IDX","dynamic_templates":{"a":"b"},"require_data_stream":false}}',
    b'{"index":{"_index":"IDX","_type":"_doc","parent":"p","retry_on_conflict":1}}',
])
def test_null_and_foreign_metadata_is_tolerated(client, index, line):
    r = client.bulk(line.replace(b"IDX", index.encode()) + b'\n{"v":1}\n')
    assert r.items[0]["status"] == 201, r
    assert client.source(index, r.items[0]["_id"]) == b'{"v":1}'


def test_line_ends_blank_lines_and_trailing_slash(client, index):
    i = index.encode()
    r = client.bulk(b'\n{"index":{"_index":"' + i + b'","_id":"1"}}\r\n{"v":1}\r\n\n'
                    b'{"index":{"_index":"' + i + b'","_id":"2"}}\n{"v":2} \n', "/_bulk/?pipeline=")
    assert [x["status"] for x in r.items] == [201, 201], r
    assert client.source(index, "1") == b'{"v":1}'
    assert client.source(index, "2").strip() == b'{"v":2}'


def test_items_of_one_id_apply_in_order(client, index):
    r = client.bulk(ndjson(action("index", index, "1"), '{"v":1}', action("index", index, "1"), '{"v":2}',
                           action("delete", index, "1"), action("delete", index, "1"),
                           action("create", index, "1"), '{"v":3}', action("create", index, "1"), '{"v":4}'))
    got = [(i["status"], i.get("result"), i.get("_version")) for i in r.items]
    assert got[:3] == [(201, "created", 1), (200, "updated", 2), (200, "deleted", 3)]
    assert got[3][:2] == (404, "not_found") and "error" not in r.items[3]
    assert got[4][:2] == (201, "created") and got[5][0] == 409
    error = r.items[5]["error"]
    assert error["type"] == "version_conflict_engine_exception"
    assert error["reason"].startswith("[1]: version conflict, document already exists (current version [")
    assert client.source(index, "1") == b'{"v":3}'


def test_delete_of_nothing_is_no_error(client, index):
    client.put_doc(index, "1", b"{}")
    r = client.bulk(ndjson(action("delete", index, "1"), action("delete", index, "none")))
    assert r.json["errors"] is False
    assert [(i["status"], i["result"]) for i in r.items] == [(200, "deleted"), (404, "not_found")]


def test_many_operations_against_a_model(client, index):
    rng, model, expected, lines = random.Random(5), {}, [], []
    for n in range(3000):
        id, op = str(rng.randrange(60)), rng.choice(("index", "index", "create", "delete"))
        lines.append(action(op, index, id))
        if op == "delete":
            expected.append(200 if model.pop(id, None) is not None else 404)
            continue
        doc = b'{"n":%d,"pad":"%s"}' % (n, b"x" * rng.randrange(300))
        lines.append(doc)
        if op == "create" and id in model:
            expected.append(409)
        else:
            expected.append(200 if id in model else 201)
            model[id] = doc
    r = client.bulk(ndjson(*lines))
    assert [i["status"] for i in r.items] == expected
    last = {}
    for item in r.items:
        if item["status"] < 300:
            assert item["_version"] > last.get(item["_id"], 0)
            last[item["_id"]] = item["_version"]
    ids = [str(i) for i in range(60)]
    assert client.sources(index, ids) == {i: model.get(i) for i in ids}


def test_put_works_and_get_is_405(client, index):
    assert client.put(f"/{index}/_bulk", b'{"index":{}}\n{"v":1}\n').items[0]["status"] == 201
    r = client.get("/_bulk")
    assert r.status == 405 and "POST" in r.header("allow")


def test_filter_path(client, index):
    body = bulk_body(index, [("1", b'{"v":1}'), ("2", b'{"v":')])
    for path in ("errors,items.*.error,items.*.status", "errors%2Citems.%2A.error%2Citems.%2A.status"):
        r = client.bulk(body, f"/_bulk?filter_path={path}")
        assert list(r.json) == ["errors", "items"], r
        assert [i["index"]["status"] for i in r.json["items"]] in ([201, 400], [200, 400])
        assert set(r.json["items"][1]["index"]) == {"error", "status"}
    assert client.bulk(bulk_body(index, [("1", b"{}")]), "/_bulk?filter_path=errors").body == b'{"errors":false}'


def test_parameters_of_shippers(client, index):
    for n, query in enumerate(("timeout=60s", "refresh=wait_for&require_alias=false", "pretty", "refresh",
                               "wait_for_active_shards=1", "include_source_on_error=false", "error_trace=true")):
        r = client.bulk(bulk_body(index, [(str(n), b"{}")]), f"/_bulk?{query}")
        assert r.items[0]["status"] == 201, (query, r)


def test_answer_to_twenty_thousand(client, index):
    r = client.bulk(bulk_body(index, [(None, b'{"n":%d}' % n) for n in range(20000)]))
    ids = [i["_id"] for i in r.items]
    assert len(set(ids)) == 20000
    got = client.sources(index, ids[::401])
    assert list(got.values()) == [b'{"n":%d}' % n for n in range(0, 20000, 401)]


def test_answers_differ_where_items_do(client, index):
    """Each answer is written out of the one before: seqs over many digits, kinds of ids, versions, results."""
    rng = random.Random(11)
    pairs, n, versions = [], 0, {}
    while n < 9000:
        for id in rng.choice([[None] * rng.randrange(700), ["x"], ["y", None, "y"], ["new-%d" % n]]):
            pairs.append((id, b'{"n":%d}' % n))
            n += 1
    r = client.bulk(bulk_body(index, pairs))
    ids = [i["_id"] for i in r.items]
    parts = []
    for seq, (id, _) in enumerate(pairs):
        version = versions.get(id, 0) + 1
        if id:
            versions[id] = version
            assert ids[seq] == id
        parts.append(f'{{"index":{{"_index":"{index}","_id":"{ids[seq]}","_version":{version},"result":'
                     f'"{"created" if version == 1 else "updated"}",'
                     f'"_shards":{{"total":1,"successful":1,"failed":0}},"_seq_no":{seq},"_primary_term":1,'
                     f'"status":{201 if version == 1 else 200}}}}}')
    assert r.body.endswith(b'"items":[' + ",".join(parts).encode() + b"]}")
    made = [n for n, (id, _) in enumerate(pairs) if id is None]
    assert client.sources(index, [ids[n] for n in made]) == {ids[n]: b'{"n":%d}' % n for n in made}


def test_one_wrong_item_among_neighbours(client, index):
    """Action lines that are alike, or say the same, with one wrong item among them."""
    docs = ['{"n":1}', '{"n":', '{"n":3}', "[]", '{"n":5}']
    same = [client.bulk(ndjson(*(x for d in docs for x in (action(op, index), d)))) for op in ("index", "create")]
    alike = client.bulk(ndjson(*(x for n, d in enumerate(docs) for x in (action("index", index, str(n)), d))))
    for r in same + [alike]:
        assert [i["status"] for i in r.items] == [201, 400, 201, 400, 201], r
    r = client.bulk(ndjson(action("index", index, "a"), "{}", action("index", "UPPER", "b"), "{}",
                           action("index", "UPPER", "c"), "{}", action("index", index, "d"), "{}",
                           action("delete", index, "a"), action("delete", index, "zzz"),
                           action("update", index, "d"), '{"doc":{"v":2}}',
                           action("update", index, "e"), '{"doc":{"v":3},"upsert":{"v":4}}'))
    assert [i["status"] for i in r.items] == [201, 400, 400, 201, 200, 404, 200, 201], r
    assert [i["_id"] for i in r.items] == ["a", "b", "c", "d", "a", "zzz", "d", "e"]
    assert [i.get("error", {}).get("type") for i in r.items[1:3]] == ["invalid_index_name_exception"] * 2


def test_neighbours_with_conditions_of_their_own(client, index):
    lines = []
    for id, routing, version in (("1", "r", 5), ("2", "r", 5), ("3", "s", 5), ("4", "s", 7), ("5", None, 7)):
        meta = {"_index": index, "_id": id, "version": version, "version_type": "external"}
        lines += [{"index": meta | ({"routing": routing} if routing else {})}, {"v": id}]
    r = client.bulk(ndjson(*lines))
    assert [(i["status"], i["_version"]) for i in r.items] == [(201, 5), (201, 5), (201, 5), (201, 7), (201, 7)], r
    got = [client.get(f"/{index}/_doc/{n}" + (f"?routing={q}" if q else "")).json
           for n, q in (("1", "r"), ("2", "r"), ("3", "s"), ("4", "s"), ("5", ""))]
    assert [g.get("_routing") for g in got] == ["r", "r", "s", "s", None]
    assert client.get(f"/{index}/_doc/3?routing=r").status == 404


def test_bad_ids_and_indices_are_item_errors(client, index):
    r = client.bulk(ndjson(action("index", index, ""), "{}", action("index", index, "x" * 513), "{}",
                           action("index", "UPPER", "1"), "{}", action("index", index, "ok"), "{}"))
    assert [i["status"] for i in r.items] == [400, 400, 400, 201], r
    assert r.items[2]["error"]["type"] == "invalid_index_name_exception"


def test_bulk_updates(client, index):
    client.put_doc(index, "1", b'{"a": 1.0, "b":{"c":2}}')
    r = client.bulk(ndjson(
        action("update", index, "1"), '{"doc":{"b":{"d":3}}}',
        action("update", index, "1"), '{"doc":{"b":{"d":3}}}',
        action("update", index, "none"), '{"doc":{"x":1}}',
        action("update", index, "2"), '{"doc":{"x":1},"doc_as_upsert":true}',
        action("update", index, "3"), '{"doc":{"x":1},"upsert":{"first": true}}',
        action("update", index, "1"), '{"script":{"source":"ctx._source.a=2"}}'))
    assert [(i["status"], i.get("result")) for i in r.items[:5]] == [
        (200, "updated"), (200, "noop"), (404, None), (201, "created"), (201, "created")], r
    assert r.items[2]["error"]["type"] == "document_missing_exception"
    assert r.items[5]["status"] == 400 and "script" in r.items[5]["error"]["reason"]
    assert client.source(index, "1") == b'{"a": 1.0, "b":{"c":2,"d":3}}'
    assert client.source(index, "2") == b'{"x":1}'
    assert client.source(index, "3") == b'{"first": true}'


def test_a_small_first_item_reserves_no_gigabytes(make_daemon):
    d = make_daemon()

    def peak():
        with open(f"/proc/{d.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmPeak:\s+(\d+) kB", f.read()).group(1)) << 10
    c = d.client()
    body = b'{"delete":{"_index":"i","_id":"1"}}\n' + \
        b"".join(b'{"index":{"_index":"i"}}\n{"v":"%s"}\n' % (b"x" * 1000000) for _ in range(40))
    before = peak()
    assert len(c.bulk(body).items) == 41
    assert stow.SLOW > 1 or peak() - before < 5 * len(body)


def test_each_item_is_judged_though_its_line_is_the_same(client, index):
    line = ndjson({"create": {"_index": index, "_id": "1", "version": 3, "version_type": "external"}}, {"v": 1})
    r = client.bulk(line * 3)
    assert r.status == 400
    reason = r.json["error"]["reason"]
    assert reason.count("create operations only") == 3
