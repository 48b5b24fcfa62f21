# SPDX-License-Identifier: Apache-2.0
"""_reindex, _delete_by_query and _tasks: copies with the speed of a bulk, exact to the byte."""
import base64
import http.server
import json
import re
import shutil
import ssl
import subprocess
import threading
import time

import pytest
import stow


@pytest.fixture
def index(client, request):
    name = "r-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    client.delete(f"/{name}*")
    return name


def reindex(client, source, dest, query="", **more):
    source = source if isinstance(source, dict) else {"index": source}
    dest = dest if isinstance(dest, dict) else {"index": dest}
    return client.post(f"/_reindex{query}", {"source": source, "dest": dest, **more})


def count(client, index):
    return client.get(f"/{index}/_count").json["count"]


def wait_task(client, task):
    r = client.get(f"/_tasks/{task}?wait_for_completion=true")
    assert r.status == 200 and r.json["completed"] is True, r
    return r.json


# ---------------------------------------------------------------- local copies

def test_answer_and_bytes(client, index):
    docs = [(str(i) if i % 2 else None, b'{"n" : %d,"x":1.0, "e":"\\u00e9"}' % i)
            for i in range(2500)]
    items = client.load(f"{index}-a", docs)
    r = reindex(client, f"{index}-a", f"{index}-b")
    took = r.json.pop("took")
    assert r.status == 200 and took >= 0
    assert {k: v for k, v in r.json.items() if k != "took"} == {
        "timed_out": False, "total": 2500, "updated": 0, "created": 2500, "deleted": 0,
        "batches": 3, "version_conflicts": 0, "noops": 0, "retries": {"bulk": 0, "search": 0},
        "throttled_millis": 0, "requests_per_second": -1.0, "throttled_until_millis": 0,
        "failures": []}
    ids = [item["_id"] for item in items]
    assert client.sources(f"{index}-b", ids) == {i: doc for i, (_, doc) in zip(ids, docs)}
    r = reindex(client, f"{index}-a", f"{index}-b")
    assert (r.json["created"], r.json["updated"]) == (0, 2500)


def test_a_copy_changes_the_codec(client, index):
    docs = stow.log_documents(4000)
    client.put(f"/{index}-a", {"settings": {"codec": "none"}})
    client.put(f"/{index}-b", {"settings": {"codec": "zstd", "codec.compression_level": 9}})
    client.load(f"{index}-a", [(str(i), d) for i, d in enumerate(docs)])
    assert reindex(client, f"{index}-a", f"{index}-b").json["created"] == 4000
    client.post(f"/{index}-*/_flush")
    stats = client.get(f"/{index}-*/_stats").json["indices"]
    a, b = (stats[f"{index}-{k}"]["stow"] for k in "ab")
    assert (a["codec"], b["codec"], b["level"]) == ("none", "zstd", 9)
    assert b["compressed_bytes"] < a["compressed_bytes"] / 3
    assert client.sources(f"{index}-b", map(str, range(4000))) == {
        str(i): d for i, d in enumerate(docs)}


def test_versions_and_routing(client, index):
    for n in range(3):
        client.put(f"/{index}-a/_doc/1?routing=here", b'{"n":%d}' % n)
    client.put(f"/{index}-a/_doc/2", b"{}")
    assert reindex(client, f"{index}-a", {"index": f"{index}-b", "version_type": "external"}).status == 200
    doc = client.get(f"/{index}-b/_doc/1?routing=here").json
    assert (doc["_version"], doc["_routing"], doc["_source"]) == (3, "here", {"n": 2})
    r = reindex(client, f"{index}-a", {"index": f"{index}-b", "version_type": "external"})
    assert r.status == 409 and r.json["version_conflicts"] == 2
    reindex(client, f"{index}-a", {"index": f"{index}-c", "routing": "discard"})
    assert "_routing" not in client.get(f"/{index}-c/_doc/1").json
    reindex(client, f"{index}-a", {"index": f"{index}-d", "routing": "=there"})
    assert client.get(f"/{index}-d/_doc/2?routing=there").json["_routing"] == "there"


def test_conflicts(client, index):
    client.load(f"{index}-a", [(str(i), b'{"from":"a"}') for i in range(10)])
    client.load(f"{index}-b", [("3", b'{"from":"b"}')])
    create = {"index": f"{index}-b", "op_type": "create"}
    r = reindex(client, f"{index}-a", create)
    assert r.status == 409
    assert (r.json["created"], r.json["version_conflicts"]) == (9, 1)
    failure, = r.json["failures"]
    assert (failure["index"], failure["id"], failure["status"]) == (f"{index}-b", "3", 409)
    assert failure["cause"]["type"] == "version_conflict_engine_exception"
    assert client.source(f"{index}-b", "3") == b'{"from":"b"}'
    r = reindex(client, f"{index}-a", create, conflicts="proceed")
    assert r.status == 200 and r.json["version_conflicts"] == 10 and r.json["failures"] == []


def test_lists_wildcards_ids_and_limits(client, index):
    for k in "ab":
        client.load(f"{index}-{k}", [(f"{k}{i}", b'{"a":1,"b":2}') for i in range(30)])
    dest = f"{index}.dest"
    assert reindex(client, [f"{index}-a", f"{index}-b"], dest).json["created"] == 60
    client.delete(f"/{dest}")
    assert reindex(client, f"{index}-*", dest, max_docs=45).json["total"] == 45
    assert count(client, dest) == 45
    client.delete(f"/{dest}")
    r = reindex(client, {"index": f"{index}-*", "query": {"ids": {"values": ["a1", "b2", "x"]}}}, dest)
    assert (r.json["total"], r.json["created"]) == (2, 2)
    client.delete(f"/{dest}")
    r = reindex(client, {"index": f"{index}-a", "_source": ["b"], "size": 10}, dest)
    assert r.json["batches"] == 3 and client.source(dest, "a1") == b'{"b":2}'
    assert reindex(client, f"{index}-none*", dest).json["total"] == 0
    assert reindex(client, f"{index}-none", dest).status == 404


@pytest.mark.parametrize("body, text", [
    ({"junk": {}}, "unknown field [junk]"),
    ({"source": {"junk": {}}}, "Unknown key for a START_OBJECT in [junk]."),
    ({"source": {"from": 1}}, "from is not supported in this context"),
    ({"source": {"size": "cat"}}, 'For input string: "cat"'),
    ({"source": {"_source": False}}, "_source:false is not supported"),
    ({"source": {"index": "x", "query": {"match": {"a": 1}}}, "dest": {"index": "y"}}, "no query engine"),
    ({"source": {"index": "x"}, "dest": {}}, "index must be specified"),
    ({"source": {}, "dest": {"index": "y"}}, "use _all if you really want"),
    ({"dest": {"version": 1}}, "[dest] unknown field [version]"),
    ({"dest": {"op_type": "update"}}, "opType"),
    ({"dest": {"pipeline": "p"}}, "pipeline with id [p] does not exist"),
    ({"conflicts": "cat"}, 'may only be "proceed" or "abort" but was [cat]'),
    ({"script": {"source": "1"}}, "[script] is not supported"),
    ({"max_docs": -4}, "[max_docs] parameter cannot be negative, found [-4]"),
    ({"max_docs": 4, "size": 5}, "two different values [4] and [5]"),
    ({"source": {"index": "x", "remote": {"host": "http://x", "junk": 1}}, "dest": {"index": "y"}},
     "Unsupported fields in [remote]. [junk]"),
    ({"source": {"index": "x", "remote": {"host": "http://x:9200", "weird": 1, "badkey": 2}}, "dest": {"index": "y"}},
     "Unsupported fields in [remote]. [weird,badkey]"),
    ({"source": {"index": "x", "remote": {"host": "x", "weird": 1}}, "dest": {"index": "y"}}, "[host] must be"),
    ({"source": {"index": "x", "remote": {"host": "ftp://x"}}, "dest": {"index": "y"}}, "[host] must be"),
])
def test_bad_requests(client, body, text):
    r = client.post("/_reindex", body)
    assert r.status == 400 and text in r.error["reason"], r


def test_an_index_is_not_copied_into_itself(client, index):
    client.put(f"/{index}/_doc/1", b"{}")
    for source in (index, f"{index}*"):
        r = reindex(client, source, index)
        assert r.status == 400 and "reindex cannot write into an index its reading from" in r.error["reason"]
    assert client.post(f"/{index}/_update_by_query", {}).status == 400


def test_a_deleted_source_or_destination_ends_the_copy(client, index):
    for gone in "ab":
        client.delete(f"/{index}-*")
        client.load(f"{index}-a", [(str(i), b"{}") for i in range(6000)], 3000)
        client.put(f"/{index}-b")
        task = reindex(client, {"index": f"{index}-a", "size": 1}, f"{index}-b",
                       "?wait_for_completion=false").json["task"]
        assert client.delete(f"/{index}-{gone}").status == 200
        answer = wait_task(client, task)
        assert answer.get("error") or answer["response"]["failures"], answer


# ---------------------------------------------------------------- tasks

def test_task_in_the_background(client, index):
    client.load(f"{index}-a", [(str(i), b"{}") for i in range(3000)])
    r = client.request("POST", "/_reindex?wait_for_completion=false",
                       {"source": {"index": f"{index}-a"}, "dest": {"index": f"{index}-b"}},
                       headers={"X-Opaque-Id": "me"})
    assert list(r.json) == ["task"] and re.fullmatch(r"[\w-]{22}:\d+", r.json["task"])
    answer = wait_task(client, r.json["task"])
    task = answer["task"]
    assert task["action"] == "indices:data/write/reindex"
    assert task["description"] == f"reindex from [{index}-a] to [{index}-b]"
    assert task["headers"] == {"X-Opaque-Id": "me"}
    assert task["status"]["total"] == task["status"]["created"] == 3000
    assert answer["response"]["created"] == 3000 and answer["response"]["failures"] == []
    assert client.get(f"/_tasks/{r.json['task']}").json == answer


def test_cancel(client, index):
    client.load(f"{index}-a", [(str(i), b"{}") for i in range(30000)], 5000)
    task = reindex(client, {"index": f"{index}-a", "size": 1}, f"{index}-b",
                   "?wait_for_completion=false").json["task"]
    running = client.get("/_tasks?detailed=true&actions=*reindex&group_by=parents").json["tasks"]
    assert task in running and running[task]["cancellable"] is True
    assert stow.wait_until(
        lambda: client.get(f"/_tasks/{task}").json["task"]["status"]["created"] > 0)
    assert client.get(f"/_tasks/{task}").json["completed"] is False
    r = client.post(f"/_reindex/{task}/_rethrottle?requests_per_second=-1")
    assert r.status == 200 and list(r.json) == ["nodes"]
    r = client.post(f"/_tasks/{task}/_cancel")
    node, = r.json["nodes"].values()
    assert node["tasks"][task]["cancelled"] is True
    answer = wait_task(client, task)
    assert answer["response"]["canceled"] == "by user request"
    done = answer["response"]["created"]
    assert 0 < done < 30000 and count(client, f"{index}-b") == done
    assert client.post(f"/_tasks/{task}/_cancel").status == 404


def test_forcemerge_is_a_task(client, index):
    client.load(f"{index}-a", [(str(i), b"{}") for i in range(100)])
    r = client.post(f"/{index}-a/_forcemerge?wait_for_completion=false&max_num_segments=1")
    assert r.status == 200 and list(r.json) == ["task"]
    answer = wait_task(client, r.json["task"])
    assert answer["task"]["action"] == "indices:admin/forcemerge" and f"[{index}-a]" in answer["task"]["description"]
    assert answer["task"]["status"] == {"total": 1, "completed": 1}
    assert answer["response"] == {"_shards": {"total": 1, "successful": 1, "failed": 0}}
    assert client.post(f"/{index}-a/_forcemerge").json == answer["response"]
    assert client.post(f"/{index}-none/_forcemerge?wait_for_completion=false").status == 404
    assert client.post(f"/{index}-a/_forcemerge?wait_for_completion=perhaps").status == 400


def test_list_of_tasks(client):
    r = client.request("GET", "/_tasks?group_by=none", headers={"X-Opaque-Id": "That is me"})
    assert any(t["action"] == "cluster:monitor/tasks/lists" and
               t["headers"].get("X-Opaque-Id") == "That is me" for t in r.json["tasks"])
    node, = client.get("/_tasks").json["nodes"].values()
    assert node["roles"] and node["tasks"]
    r = client.get("/_tasks/foo:1")
    assert r.status == 404 and "isn't part of the cluster" in r.error["reason"]
    id = client.get("/_nodes").json["nodes"].popitem()[0]
    r = client.get(f"/_tasks/{id}:99999999")
    assert r.status == 404 and "hasn't stored its results" in r.error["reason"]
    assert client.get("/_tasks/x").status == 400
    for nobody in ("nodes=nobody", "parent_task_id=x:1", "actions=none*"):
        assert client.get(f"/_tasks?group_by=none&{nobody}").json == {"tasks": []}


def test_results_of_ended_tasks_are_bounded(client, index):
    client.put(f"/{index}-a/_doc/1", b"{}")
    tasks = [reindex(client, f"{index}-a", f"{index}-b", "?wait_for_completion=false")
             for _ in range(130)]
    tasks = [t.json["task"] for t in tasks if t.status == 200]  # 429: too many at once
    for task in tasks[-5:]:
        wait_task(client, task)
    kept = sum(client.get(f"/_tasks/{t}").status == 200 for t in tasks)
    assert 5 <= kept <= 100


def test_stop_with_a_running_task(tmp_path):
    daemon = stow.Daemon(tmp_path).start()
    client = daemon.client()
    client.load("a", [(str(i), b"{}") for i in range(20000)], 5000)
    for _ in range(3):
        reindex(client, {"index": "a", "size": 1}, "b", "?wait_for_completion=false")
    waiting = threading.Thread(target=lambda: reindex(daemon.client(), {"index": "a", "size": 1}, "c"),
                               daemon=True)
    waiting.start()
    time.sleep(0.3)
    assert daemon.restart()
    client = daemon.client()
    assert count(client, "a") == 20000
    assert daemon.stop() == 0


# ---------------------------------------------------------------- delete by query

def test_delete_by_query(client, index):
    client.load(index, [(str(i) if i % 2 else None, b"{}") for i in range(2500)])
    ids = {"query": {"ids": {"values": ["1", "3", "none"]}}}
    r = client.post(f"/{index}/_delete_by_query", ids)
    assert r.status == 200 and r.json["deleted"] == r.json["total"] == 2
    assert "created" not in r.json and "updated" not in r.json
    assert client.source(index, "1") is None and client.source(index, "5") == b"{}"
    r = client.post(f"/{index}/_delete_by_query?max_docs=100&scroll_size=10", {"query": {"match_all": {}}})
    assert r.json["deleted"] == 100 and r.json["batches"] == 10
    r = client.post(f"/{index}/_delete_by_query?q=*")
    assert r.json["deleted"] == 2398 and r.json["version_conflicts"] == 0
    assert count(client, index) == 0


@pytest.mark.parametrize("query, body, text", [
    ("", {}, "query is missing"),
    ("", {"query": {"match": {"a": 1}}}, "no query engine"),
    ("", {"stored_fields": ["_id"]}, "stored_fields is not supported in this context"),
    ("conflicts=cat", {"query": {"match_all": {}}}, "but was [cat]"),
    ("scroll_size=asdf", {"query": {"match_all": {}}}, "parameter [scroll_size] with value [asdf]"),
    ("max_docs=-4", {"query": {"match_all": {}}}, "cannot be negative, found [-4]"),
    ("size=4&max_docs=5", {"query": {"match_all": {}}}, "two different values [4] and [5]"),
    ("max_docs=1&slices=2", {"query": {"match_all": {}}}, "[max_docs] should be >= [slices]"),
    ("slices=0", {"query": {"match_all": {}}}, "[slices] must be a positive integer"),
    ("requests_per_second=0", {"query": {"match_all": {}}}, "[requests_per_second] must be a float"),
])
def test_bad_delete_by_query(client, index, query, body, text):
    client.put(f"/{index}/_doc/1", b"{}")
    r = client.post(f"/{index}/_delete_by_query?{query}", body)
    assert r.status == 400 and text in r.error["reason"], r
    assert count(client, index) == 1


def test_delete_by_query_leaves_what_was_written_since(client, index):
    """It deletes what its scan saw; documents that changed meanwhile are conflicts."""
    client.load(index, [(str(i), b"{}") for i in range(5000)], 5000)
    stop = threading.Event()
    node_client = type(client)(client.port)

    def write():
        while not stop.is_set():
            node_client.load(index, [(str(i), b'{"new":1}') for i in range(4000, 5000)])
    t = threading.Thread(target=write, daemon=True)
    t.start()
    r = client.post(f"/{index}/_delete_by_query?conflicts=proceed&scroll_size=50",
                    {"query": {"match_all": {}}})
    stop.set()
    t.join(30)
    assert r.json["failures"] == []
    assert r.json["deleted"] + r.json["version_conflicts"] == r.json["total"]
    node_client.load(index, [("4999", b'{"last":1}')])
    assert client.source(index, "1") is None


# ---------------------------------------------------------------- from another node

class Fake(http.server.BaseHTTPRequestHandler):
    """Two pages of a scroll, with what other nodes may do: passwords, 429, delays."""
    protocol_version = "HTTP/1.1"
    docs, log, busy, wait, auth = [], [], 0, 0.0, None

    def answer(self, status, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        cls = type(self)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = json.loads(body or b"{}")
        cls.log.append((self.command, self.path, request))
        if cls.auth and self.headers.get("Authorization") != cls.auth:
            return self.answer(401, {"error": {"type": "security_exception", "reason": "who?"}})
        if cls.busy > 0:
            cls.busy -= 1
            return self.answer(429, {"error": {"type": "es_rejected", "reason": "busy"}})
        if self.command == "DELETE":
            return self.answer(200, {"succeeded": True})
        time.sleep(cls.wait)
        size = len(cls.docs) // 2 + 1
        at = 0 if "scroll_id" not in request else int(request["scroll_id"])
        hits = b",".join(b'{"_index":"o","_type":"_doc","_id":"%s","_version":7,"_score":null,'
                         b'"_source":%s,"sort":[1]}' % (id, doc) for id, doc in cls.docs[at:at + size])
        return self.answer(200, b'{"_scroll_id":"%d","took":1,"timed_out":false,"_shards":{"total":1,'
                                b'"successful":1,"failed":0},"hits":{"total":%d,"hits":[%s]}}'
                           % (at + size, len(cls.docs), hits))

    do_GET = do_POST = do_DELETE = handle_any

    def log_message(self, *_):
        pass


@pytest.fixture
def other():
    fake = type("OneFake", (Fake,), {"docs": [], "log": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), fake)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    fake.port = server.server_port
    fake.server = server
    yield fake
    server.shutdown()
    server.server_close()


def remote(other, **more):
    scheme = more.pop("scheme", "http")
    return {"index": "old-*", "remote": {"host": f"{scheme}://127.0.0.1:{other.port}/es", **more}}


def test_remote_pages_bytes_and_password(client, index, other):
    other.docs = [(b"%d" % i, b'{ "n" : %d.0, "s":"\\u00e9"}' % i) for i in range(30)]
    other.auth = "Basic " + base64.b64encode(b"elastic:p:w").decode()
    source = remote(other, username="elastic", password="p:w")
    source.update(size=20, query={"match": {"user": "x"}})
    r = reindex(client, source, {"index": index, "version_type": "external"})
    assert r.status == 200, r
    assert (r.json["total"], r.json["created"], r.json["batches"]) == (30, 30, 2)
    assert client.sources(index, [str(i) for i in range(30)]) == {
        id.decode(): doc for id, doc in other.docs}
    assert client.get(f"/{index}/_doc/1").json["_version"] == 7
    first, *_, last = other.log
    assert first[:2] == ("POST", "/es/old-*/_search?scroll=5m")
    assert first[2]["query"] == {"match": {"user": "x"}} and first[2]["size"] == 20
    assert last[0] == "DELETE" and last[1] == "/es/_search/scroll"


def test_remote_errors(client, index, other):
    other.auth = "Basic nobody"
    r = reindex(client, remote(other), index)
    assert r.status == 400 and "401" in r.error["reason"] and "who?" in r.error["reason"]
    other.auth, other.busy, other.docs = None, 2, [(b"1", b"{}")]
    r = reindex(client, remote(other), index)
    assert r.status == 200 and r.json["retries"]["search"] == 2
    port = stow.free_port()
    r = reindex(client, {"index": "x", "remote": {"host": f"http://127.0.0.1:{port}"}}, index)
    assert r.status == 503 and "connect" in r.error["reason"].lower()
    r = reindex(client, remote(other, headers={"X": "a\nb"}), index)
    assert r.status == 400


def test_remote_cancel(client, index, other):
    other.docs, other.wait = [(b"1", b"{}")], 20.0
    task = reindex(client, remote(other), index, "?wait_for_completion=false").json["task"]
    assert stow.wait_until(lambda: other.log)
    begun = time.monotonic()
    assert client.post(f"/_tasks/{task}/_cancel").status == 200
    assert wait_task(client, task)["response"]["canceled"] == "by user request"
    assert time.monotonic() - begun < 8 * stow.SLOW


def test_stop_while_another_node_keeps_us_waiting(tmp_path, other):
    other.docs, other.wait = [(b"1", b"{}")], 60.0
    daemon = stow.Daemon(tmp_path).start()
    reindex(daemon.client(), remote(other), "i", "?wait_for_completion=false")
    assert stow.wait_until(lambda: other.log)
    assert daemon.stop() == 0


def test_remote_stowd(client, index, tmp_path):
    docs = [(str(i) if i % 2 else None, d) for i, d in enumerate(stow.log_documents(5000))]
    there = stow.Daemon(tmp_path).start()
    items = there.client().load("logs", docs)
    r = reindex(client, {"index": "logs", "remote": {"host": f"http://127.0.0.1:{there.port}"}}, index)
    assert r.json["created"] == 5000
    ids = [item["_id"] for item in items]
    assert client.sources(index, ids) == {i: d for i, (_, d) in zip(ids, docs)}
    assert there.client().delete("/_search/scroll/_all").status == 404  # it was given up
    assert there.stop() == 0


def test_remote_https_and_whitelist(tmp_path, other):
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                    "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
                    "-out", str(cert)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    other.server.socket = context.wrap_socket(other.server.socket, server_side=True)
    other.docs = [(b"1", b"{}")]
    good = stow.Daemon(tmp_path / "good", [f"reindex.ssl.certificate_authorities={cert}",
                                           "reindex.remote.whitelist=localhost:*, 127.0.0.1:*"]).start()
    r = reindex(good.client(), remote(other, scheme="https"), "i")
    assert r.status == 200 and r.json["created"] == 1, r
    r = reindex(good.client(), {"index": "x", "remote": {"host": "http://10.0.0.1:9200"}}, "i")
    assert r.status == 400 and "[10.0.0.1:9200] not whitelisted" in r.error["reason"]
    assert good.stop() == 0
    bad = stow.Daemon(tmp_path / "bad").start()
    r = reindex(bad.client(), remote(other, scheme="https"), "i")
    assert r.status == 503 and bad.client().get("/i/_count").json.get("count", 0) == 0
    assert bad.stop() == 0


@pytest.mark.parametrize("settings, allowed", [
    ([], True), (["reindex.remote.whitelist="], False), (["reindex.remote.whitelist=127.0.0.1:*"], True),
    (["network.host=0.0.0.0", "security.enabled=false"], False),
    (["network.host=0.0.0.0", "security.enabled=false", "reindex.remote.whitelist=127.0.0.1:*"], True)])
def test_remote_is_off_where_others_can_reach_the_daemon(make_daemon, other, settings, allowed):
    other.docs = [(b"1", b"{}")]
    r = reindex(make_daemon(*settings).client(), remote(other), "i")
    assert r.status == (200 if allowed else 400), r
    assert allowed or ("reindex.remote.whitelist" in r.error["reason"] and not other.log)


# ---------------------------------------------------------------- size

@pytest.mark.slow
def test_large_copy_is_fast_and_small(tmp_path):
    """More than the log holds, so it must wait for checkpoints; memory is one batch."""
    daemon = stow.Daemon(tmp_path, ["storage.wal.size=16mb", "storage.cache.size=8mb"]).start()
    client = daemon.client()
    docs = stow.log_documents(20000)
    for at in range(0, 200000, 5000):
        client.load("a", [(f"d{i}", docs[i % len(docs)]) for i in range(at, at + 5000)], 5000)
    client.post("/a/_flush")
    client.put("/b", {"settings": {"codec": "best_compression"}})
    before, began = daemon.rss(), time.monotonic()
    task = reindex(client, "a", "b", "?wait_for_completion=false").json["task"]
    peak = 0
    while not client.get(f"/_tasks/{task}").json["completed"]:
        peak = max(peak, daemon.rss())
        time.sleep(0.05)
    seconds = time.monotonic() - began
    response = client.get(f"/_tasks/{task}").json["response"]
    assert response["created"] == response["total"] == 200000 and response["failures"] == []
    if stow.SLOW == 1:
        assert peak < before + 150 * 1024 * 1024, (before, peak)
        assert seconds < 60
    ids = [f"d{i}" for i in range(0, 200000, 37)]
    assert client.sources("b", ids) == {i: docs[int(i[1:]) % len(docs)] for i in ids}
    assert count(client, "b") == 200000
    assert daemon.stop() == 0
