# SPDX-License-Identifier: Apache-2.0
"""Users, API keys, roles: who comes in, and what they may."""
import base64
import json
import os
import socket
import subprocess
import time
from functools import partial

import pytest
import stow
from stow import Client, Raw, bulk_body, in_threads, request_bytes, wait_until

STOWCTL = os.path.join(os.path.dirname(stow.STOWD), "stowctl")
ADMIN = ("admin", "correct horse")


def basic(name, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def bearer(key):
    return {"Authorization": "ApiKey " + key["encoded"]}


class As(Client):
    """A client whose requests carry credentials."""

    def __init__(self, port, credentials):
        super().__init__(port)
        self.credentials = credentials

    def request(self, method, target, body=None, headers=None):
        return super().request(method, target, body, {**self.credentials, **(headers or {})})


def user(path, *words, password=None):
    r = subprocess.run([STOWCTL, "user", words[0], str(path), *words[1:]], input=(password or "") + "\n",
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 0, r
    return r.stdout


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A daemon with an administrator and three users; most tests share it."""
    d = stow.Daemon(tmp_path_factory.mktemp("guarded"), [f"security.users.{ADMIN[0]}={ADMIN[1]}"])
    os.makedirs(d.data, exist_ok=True)
    user(d.data, "add", "reader", "read@logs-*", password="reader's own")
    user(d.data, "add", "writer", "write@logs-*", password="writer's own")
    user(d.data, "add", "keeper", "manage@logs-*", password="keeper's own")
    d.spawn()
    assert wait_until(lambda: answers(d), 20), d.log()
    yield d
    d.kill()


def answers(daemon):
    try:
        return Client(daemon.port, timeout=5).get("/").status in (200, 401)
    except OSError:
        return False


@pytest.fixture
def admin(guarded):
    return As(guarded.port, basic(*ADMIN))


@pytest.fixture
def people(guarded):
    return {n: As(guarded.port, basic(n, n + "'s own")) for n in ("reader", "writer", "keeper")}


def refused(r, status=401):
    assert r.status == status, r
    error = r.error
    assert error["type"] == error["root_cause"][0]["type"] == "security_exception"
    if status == 401:
        both = ['Basic realm="security", charset="UTF-8"', "ApiKey"]
        assert [v for k, v in r.headers if k.lower() == "www-authenticate"] == both
        assert error["header"]["WWW-Authenticate"] == both == error["root_cause"][0]["header"]["WWW-Authenticate"]
    return error["reason"]


# ---------------------------------------------------------------- who

def test_missing_and_wrong_credentials(guarded, admin, index):
    port = guarded.port
    for method, target in (("GET", "/"), ("PUT", f"/{index}"), ("GET", f"/{index}/_doc/1"), ("GET", "/_metrics"),
                           ("GET", "/_no_such_thing"), ("GET", "/_security/_authenticate"), ("DELETE", "/*")):
        assert target in refused(Client(port).request(method, target))
    for header in (basic("admin", "wrong"), basic("nobody", ADMIN[1]), basic("", ""), basic("admin", ""),
                   {"Authorization": "Basic"}, {"Authorization": "Basic !!!"}, {"Authorization": "Bearer x"},
                   {"Authorization": "Basic " + base64.b64encode(b"admin").decode()},
                   {"Authorization": "Basic " + base64.b64encode(b"admin:correct horse\0x").decode()},
                   {"Authorization": "ApiKey " + base64.b64encode(b"x:y").decode()}):
        refused(Client(port).get("/", headers=header))
    assert admin.get("/").status == 200
    r = Client(port).head("/", headers=basic("admin", "wrong"))
    assert r.status == 401 and r.body == b""
    assert Client(port).get("/", headers={"Authorization": basic(*ADMIN)["Authorization"].replace("Basic", "basic")}).status == 200


def test_dialect_of_7_has_no_comma(make_daemon):
    d = make_daemon("identity.version=7.17.0", "security.users.admin=correct horse", start=False)
    d.spawn()
    assert wait_until(lambda: answers(d))
    r = Client(d.port).get("/")
    assert r.header("www-authenticate") == 'Basic realm="security" charset="UTF-8"'


def test_a_refused_body_is_not_parsed(guarded, admin, index):
    body = b"this is not NDJSON" * 1000
    refused(Client(guarded.port).bulk(body))
    refused(Client(guarded.port).bulk(body, headers=basic("admin", "wrong")))
    with Raw(guarded.port) as raw:  # the connection goes on behind it
        raw.send(request_bytes("POST", "/_bulk", bulk_body(index, [("1", b"{}")])))
        assert raw.receive().status == 401
        raw.send(request_bytes("POST", "/_bulk", bulk_body(index, [("2", b"{}")]), basic(*ADMIN)))
        assert raw.receive().status == 200
        raw.send(request_bytes("POST", "/_bulk", b"", {"Content-Length": "1000", "Content-Type": "application/x-ndjson",
                                                       "Expect": "100-continue"}))
        assert raw.receive().status == 401  # at once, and no 100
    assert admin.source(index, "1") is None and admin.source(index, "2") == b"{}"


def test_uncached_password_with_body_and_expect(guarded, admin, index):
    """The connection waits for the verification before it reads the body."""
    user(guarded.data, "add", "fresh", "write", password="as yet unseen")
    header = basic("fresh", "as yet unseen")
    guarded.process.send_signal(1)
    assert wait_until(lambda: Client(guarded.port).get("/", headers=header).status == 200, 15, 1)
    user(guarded.data, "passwd", "fresh", password="something else")
    guarded.process.send_signal(1)
    header = basic("fresh", "something else")
    body = bulk_body(index, [(str(n), b'{"x":"%s"}' % (b"y" * 500)) for n in range(1000)])
    deadline = time.monotonic() + 15
    while True:
        with Raw(guarded.port) as raw:
            raw.send(request_bytes("POST", "/_bulk", b"", {**header, "Content-Length": str(len(body)),
                                                           "Content-Type": "application/x-ndjson", "Expect": "100-continue"}))
            first = raw.receive()
            if first.status == 100:
                raw.send(body)
                assert raw.receive().json["errors"] is False
                break
            assert first.status == 401 and time.monotonic() < deadline, first
        time.sleep(1)
    assert admin.get(f"/{index}/_count").json["count"] == 1000


def test_verified_passwords_are_remembered(guarded, admin):
    assert admin.get("/").status == 200
    began = time.monotonic()
    for _ in range(200):
        assert admin.get("/").status == 200
    assert time.monotonic() - began < 2 * stow.SLOW  # a verification takes some 20 ms


@pytest.mark.slow
def test_users_file_is_read_again(guarded):
    user(guarded.data, "add", "guest", "read", password="for a while")
    c = As(guarded.port, basic("guest", "for a while"))
    assert wait_until(lambda: c.get("/").status == 200, 12, 0.5)
    guarded.process.send_signal(1)
    user(guarded.data, "remove", "guest")
    guarded.process.send_signal(1)  # at once
    assert wait_until(lambda: c.get("/").status == 401, 3, 0.1)
    with open(os.path.join(guarded.data, "users"), "a", encoding="ascii") as f:
        f.write("rubbish\n")
    try:
        guarded.process.send_signal(1)
        assert wait_until(lambda: "users stay as they were" in guarded.log(), 5)
        assert As(guarded.port, basic(*ADMIN)).get("/").status == 200
    finally:
        user_lines = open(os.path.join(guarded.data, "users"), encoding="ascii").read().replace("rubbish\n", "")
        with open(os.path.join(guarded.data, "users"), "w", encoding="ascii") as f:
            f.write(user_lines)
        guarded.process.send_signal(1)


@pytest.mark.slow
def test_guessing_is_slowed_down(make_daemon):
    d = make_daemon("security.users.admin=correct horse", "security.users.other=battery staple", start=False)
    d.spawn()
    assert wait_until(lambda: answers(d))
    known = As(d.port, basic(*ADMIN))
    assert known.get("/").status == 200
    began = time.monotonic()
    for n in range(9):
        refused(Client(d.port).get("/", headers=basic("admin", f"guess {n}")))
    slow = time.monotonic() - began
    assert slow > 1.4, slow  # 0, …, 0.1, 0.2, 0.4, 0.8 s

    def guess(n):
        r = Client(d.port).get("/", headers=basic("other", f"guess {n}"))
        assert r.status in (401, 429), r
        return r.status
    began = time.monotonic()
    statuses = in_threads([lambda n=n: guess(n) for n in range(24)], 60)
    passed = time.monotonic() - began
    assert statuses.count(401) <= passed + 2 and 429 in statuses, (statuses, passed)
    began = time.monotonic()
    assert known.get("/").status == 200  # who is known is not held up
    assert time.monotonic() - began < 0.5 * stow.SLOW
    assert d.stop() == 0


def test_many_connections_with_one_password(make_daemon):
    """A shipper that opens all its connections at once is no guesser: one verification serves them."""
    d = make_daemon("security.users.admin=correct horse", start=False).spawn()
    assert wait_until(lambda: answers(d))
    raws = [Raw(d.port) for _ in range(60)]
    began = time.monotonic()
    for raw in raws:
        raw.send(request_bytes("GET", "/", headers=basic(*ADMIN)))
    assert [raw.receive().status for raw in raws] == [200] * 60
    assert time.monotonic() - began < 1.5 * stow.SLOW
    for raw in raws:
        raw.close()
    assert d.stop() == 0


def test_stop_while_somebody_waits_at_the_door(make_daemon):
    d = make_daemon("security.users.admin=correct horse", start=False)
    d.spawn()
    assert wait_until(lambda: answers(d))
    raws = [Raw(d.port) for _ in range(14)]
    for raw in raws:
        raw.send(request_bytes("GET", "/", headers=basic("admin", "wrong")))
    time.sleep(0.5)
    began = time.monotonic()
    assert d.stop() == 0
    assert time.monotonic() - began < 5 * stow.SLOW
    for raw in raws:
        raw.close()


def test_disconnect_at_the_door(guarded, admin):
    for _ in range(3):
        with Raw(guarded.port) as raw:
            raw.send(request_bytes("GET", "/", headers=basic("writer", "wrong")))
    assert admin.get("/").status == 200


def test_secrets_are_not_logged(make_daemon):
    d = make_daemon("security.users.admin=correct horse", "log.level=debug", start=False)
    d.spawn()
    assert wait_until(lambda: answers(d))
    c = As(d.port, basic(*ADMIN))
    key = c.post("/_security/api_key", {"name": "k"}).json
    assert As(d.port, bearer(key)).get("/").status == 200
    Client(d.port).get("/", headers=basic("admin", "my wrong guess"))
    with open(f"/proc/{d.process.pid}/cmdline", "rb") as f:
        assert b"correct horse" not in f.read()
    listing = c.get("/_security/api_key").body + c.get("/_security/user").body
    assert d.stop() == 0
    stored = b"".join(open(os.path.join(p, n), "rb").read() for p, _, names in os.walk(d.data) for n in names)
    for secret in ("correct horse", "my wrong guess", key["api_key"], key["encoded"],
                   basic(*ADMIN)["Authorization"][6:]):
        assert secret not in d.log() and secret.encode() not in stored + listing


# ---------------------------------------------------------------- where it must be on

@pytest.mark.parametrize("settings, code, text", [
    (["network.host=0.0.0.0"], 78, "security.enabled: false"),
    (["network.host=::"], 78, "security.enabled: false"),
    (["security.enabled=true"], 78, "there is no user"),
    (["security.users.a b=x"], 78, "bad user name"),
    (["security.users.admin="], 78, "1 to 511 bytes"),
    (["security.users.admin=@/no/such/file"], 78, "no password in file"),
    (["http.tls.certificate=/x"], 78, "together"),
])
def test_wrong_settings_are_one_line(make_daemon, settings, code, text):
    d = make_daemon(*settings, start=False).spawn()
    assert d.wait() == code
    assert text in d.log() and len(d.log().splitlines()) == 1, d.log()
    assert not os.path.exists(d.data)


def test_listening_elsewhere_when_said_explicitly(make_daemon):
    d = make_daemon("network.host=0.0.0.0", "security.enabled=false")
    assert Client(d.port).get("/").status == 200
    assert Client(d.port).get("/_security/_authenticate").status == 400
    assert d.stop() == 0
    d = make_daemon("network.host=0.0.0.0", "security.users.admin=correct horse", start=False).spawn()
    assert wait_until(lambda: answers(d))
    refused(Client(d.port).get("/"))
    assert "unencrypted" in d.log()


def test_password_from_environment_and_file(make_daemon, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("from a file\nsecond line\n")
    d = make_daemon(f"security.users.ops=@{secret}", env={"STOWD_SECURITY_USERS_APP": "from the environment"}, start=False)
    d.spawn()
    assert wait_until(lambda: answers(d))
    assert As(d.port, basic("ops", "from a file")).get("/").status == 200
    assert As(d.port, basic("app", "from the environment")).get("/").status == 200


# ---------------------------------------------------------------- what

def test_authenticate(guarded, admin, people):
    me = admin.get("/_security/_authenticate").json
    assert me["username"] == "admin" and me["roles"] == ["superuser"] and me["enabled"] is True
    assert me["authentication_type"] == "realm" and me["authentication_realm"] == {"name": "file", "type": "file"}
    me = people["reader"].get("/_security/_authenticate").json
    assert me["username"] == "reader" and me["roles"] == ["read@logs-*"]
    assert set(admin.get("/_security/user").json) >= {"admin", "reader", "writer"}
    assert list(admin.get("/_security/user/reader").json) == ["reader"]
    assert admin.get("/_security/user/nobody").status == 404
    refused(people["reader"].get("/_security/user"), 403)


def test_roles_by_index(admin, people):
    reader, writer, keeper = (people[n] for n in ("reader", "writer", "keeper"))
    assert admin.put_doc("logs-a", "1", b'{"v":1}').status == 201
    assert admin.put_doc("other", "1", b'{"v":1}').status == 201
    # read
    assert reader.source("logs-a", "1") == b'{"v":1}'
    assert reader.head("/logs-a/_doc/1").status == 200
    for r in (reader.get("/other/_doc/1"), reader.get("/other/_source/1"), reader.put_doc("logs-a", "1", b"{}"),
              reader.delete("/logs-a/_doc/1"), reader.delete("/logs-a"), reader.put("/logs-new"),
              reader.post("/logs-a/_update/1", {"doc": {}}), reader.get("/_count"), reader.get("/logs-a,other/_count"),
              reader.put("/_template/t", {"index_patterns": ["x"]}), reader.put("/logs-a/_settings", {}),
              reader.post("/_aliases", {"actions": []}), reader.bulk(bulk_body("logs-a", [("9", b"{}")]))):
        if r.status != 200:
            assert "unauthorized for user [reader] with effective roles [read@logs-*]" in refused(r, 403)
        else:  # all indices: what one may see of them
            assert r.json["count"] == 1, r
    # write
    assert writer.put_doc("logs-b", "1", b'{"v":2}').status == 201  # makes the index
    assert writer.post("/logs-b/_update/1", {"doc": {"w": 1}}).status == 200
    assert writer.post("/logs-b/_refresh").status == 200
    for r in (writer.get("/logs-b/_doc/1"), writer.delete("/logs-b"), writer.put_doc("other", "1", b"{}"),
              writer.put("/logs-c"), writer.post("/logs-b/_mget", {"ids": ["1"]})):
        refused(r, 403)
    # manage
    assert keeper.put("/logs-c").status == 200
    assert keeper.put("/logs-c/_alias/logs-alias").status == 200
    for r in (keeper.get("/logs-c/_doc/1"), keeper.put_doc("logs-c", "1", b"{}"), keeper.put("/other2"),
              keeper.put("/logs-c/_alias/elsewhere"), keeper.put("/other/_alias/logs-x"), keeper.delete("/other")):
        refused(r, 403)
    assert keeper.delete("/logs-c").status == 200
    assert keeper.delete("/logs-*").status == 200 and admin.head("/other").status == 200


def test_wildcards_show_what_one_may_see(admin, people):
    for name in ("logs-w1", "logs-w2", "hidden-w"):
        assert admin.put(f"/{name}", {"aliases": {"logs-seen" if name == "hidden-w" else "w-alias": {}}}).status == 200
    reader = people["reader"]
    names = {line.split()[2] for line in reader.get("/_cat/indices").body.decode().splitlines()}
    assert {"logs-w1", "logs-w2"} <= names and not {n for n in names if not n.startswith("logs-") and n != "hidden-w"}
    assert set(reader.get("/*/_settings").json) >= {"logs-w1", "logs-w2"}
    assert "hidden-w" not in reader.get("/hidden-*/_settings").json
    assert set(reader.get("/_stats").json["indices"]) >= {"logs-w1"}
    refused(reader.get("/hidden-w/_settings"), 403)
    refused(reader.get("/hidden-w"), 403)
    refused(reader.get("/logs-w1,hidden-w/_count"), 403)
    assert admin.put_doc("hidden-w", "1", b'{"a":1}').status == 201
    assert reader.source("logs-seen", "1") == b'{"a":1}'  # the alias is granted, its index is not
    refused(reader.get("/hidden-w/_doc/1"), 403)
    refused(reader.get("/w-alias/_doc/1"), 403)
    assert admin.delete("/logs-w1,logs-w2,hidden-w").status == 200


def test_items_are_judged_one_by_one(admin, people):
    writer, reader = people["writer"], people["reader"]
    body = (b'{"index":{"_index":"logs-i","_id":"1"}}\n{"v":1}\n{"index":{"_index":"secret-i","_id":"1"}}\n{"v":1}\n'
            b'{"delete":{"_index":"secret-i","_id":"1"}}\n{"create":{"_index":"<logs-{now/d}>","_id":"1"}}\n{}\n'
            b'{"update":{"_index":"secret-i","_id":"1"}}\n{"doc":{}}\n')
    items = writer.bulk(body).items
    assert [i["status"] for i in items] == [201, 403, 403, 201, 403]
    assert items[1]["error"]["type"] == "security_exception" and "secret-i" in items[1]["error"]["reason"]
    assert admin.head("/secret-i").status == 404
    refused(writer.bulk(bulk_body("x", [("1", b"{}")]), target="/secret-i/_bulk"), 403)
    assert admin.put_doc("secret-i", "1", b'{"s":1}').status == 201
    docs = reader.post("/_mget", {"docs": [{"_index": "logs-i", "_id": "1"}, {"_index": "secret-i", "_id": "1"}]}).json["docs"]
    assert docs[0]["_source"] == {"v": 1}
    assert docs[1]["error"]["type"] == "security_exception" and "_source" not in docs[1]
    refused(reader.post("/secret-i/_mget", {"ids": ["1"]}), 403)
    assert admin.delete("/secret-i,logs-i").status == 200


def test_what_concerns_the_whole_node(admin, people):
    for c in people.values():
        for method, target, body in (("PUT", "/_cluster/settings", {}), ("GET", "/_metrics", None),
                                     ("PUT", "/_ilm/policy/p", {"policy": {}}), ("GET", "/_data_stream", None),
                                     ("POST", "/_aliases", {"actions": []}), ("PUT", "/_index_template/t", {})):
            refused(c.request(method, target, body), 403)
        for target in ("/", "/_license", "/_cluster/health", "/_nodes/http", "/_cat/health", "/_template", "/_xpack"):
            assert c.get(target).status == 200, target
    refused(people["keeper"].put("/logs-hijack", {"aliases": {"payroll": {}}}), 403)
    assert admin.head("/logs-hijack").status == 404


def test_reindex_needs_both_ends(admin, people, index):
    if admin.post("/_reindex", {}).status == 405:
        pytest.skip("no _reindex")
    assert admin.put_doc(index, "1", b"{}").status == 201
    assert admin.put_doc("logs-from", "1", b"{}").status == 201
    for name in ("reader", "writer", "keeper"):
        for source, dest in ((index, "logs-to"), ("logs-from", index)):
            refused(people[name].post("/_reindex", {"source": {"index": source}, "dest": {"index": dest}}), 403)
    refused(people["reader"].post("/_reindex", {"source": {"index": "logs-from"}, "dest": {"index": "logs-to"}}), 403)
    assert admin.head("/logs-to").status == 404


def tasks_of(c):
    return {t for node in c.get("/_tasks?actions=*reindex,*forcemerge").json["nodes"].values() for t in node["tasks"]}


@pytest.mark.slow
def test_tasks_are_seen_by_who_began_them(guarded, admin):
    user(guarded.data, "add", "copier", "read@copy-*", "write@copy-*", "manage@copy-*", password="copier's own")
    user(guarded.data, "add", "other", "all@copy-*", password="other's own")
    copier, other = (As(guarded.port, basic(n, n + "'s own")) for n in ("copier", "other"))
    assert wait_until(lambda: copier.get("/").status == other.get("/").status == 200, 15)
    key = copier.post("/_security/api_key", {"name": "k"}).json
    keyed = As(guarded.port, bearer(key))
    items = [(str(i), b"{}") for i in range(20000)]
    for at in range(0, len(items), 5000):
        assert admin.bulk(bulk_body("copy-from", items[at:at + 5000])).json["errors"] is False
    task = copier.post("/_reindex?wait_for_completion=false", {"source": {"index": "copy-from", "size": 1},
                                                               "dest": {"index": "copy-to"}}).json["task"]
    assert tasks_of(copier) == tasks_of(admin) == {task} and tasks_of(other) == tasks_of(keyed) == set()
    assert task in copier.get("/_cat/tasks").body.decode() and task not in other.get("/_cat/tasks").body.decode()
    for c in (other, keyed):
        assert c.get(f"/_tasks/{task}").status == c.post(f"/_tasks/{task}/_cancel").status == 404
        assert c.post(f"/_reindex/{task}/_rethrottle?requests_per_second=-1").json["nodes"].popitem()[1]["tasks"] == {}
        assert c.post("/_tasks/_cancel?actions=*reindex").json["nodes"].popitem()[1]["tasks"] == {}
    assert copier.get(f"/_tasks/{task}").json["task"]["cancelled"] is False
    assert copier.post(f"/_tasks/{task}/_cancel").status == 200
    assert wait_until(lambda: copier.get(f"/_tasks/{task}").json["completed"], 15)
    # Results as well; what a key began is seen by its user, too.
    assert admin.get(f"/_tasks/{task}").status == 200 and other.get(f"/_tasks/{task}").status == 404
    task = keyed.post("/copy-from/_forcemerge?wait_for_completion=false").json["task"]
    assert keyed.get(f"/_tasks/{task}").status == copier.get(f"/_tasks/{task}").status == 200
    assert other.get(f"/_tasks/{task}").status == 404


def test_has_privileges(guarded, admin, people):
    def ask(c, **body):
        return c.post("/_security/user/_has_privileges", body)
    r = ask(people["writer"], cluster=["monitor", "manage_ilm"], index=[
        {"names": ["logs-a", "other"], "privileges": ["create_doc", "read"]}])
    assert r.json == {"username": "writer", "has_all_requested": False, "cluster": {"monitor": True, "manage_ilm": False},
                      "index": {"logs-a": {"create_doc": True, "read": False}, "other": {"create_doc": False, "read": False}},
                      "application": {}}
    r = ask(people["writer"], index=[{"names": "logs-*", "privileges": "write"}])
    assert r.json["has_all_requested"] is True and r.json["index"] == {"logs-*": {"write": True}}
    assert ask(people["writer"], index=[{"names": ["*"], "privileges": ["write"]}]).json["has_all_requested"] is False
    assert ask(admin, cluster=["all"], index=[{"names": ["*"], "privileges": ["all"]}]).json["has_all_requested"] is True
    assert ask(people["keeper"], index=[{"names": ["logs-a"], "privileges": ["all"]}]).json["has_all_requested"] is False
    assert ask(admin, index=[{"names": ["a"], "privileges": ["fly"]}]).status == 400
    assert ask(admin, index=[{"names": ["a"]}]).status == 400
    refused(ask(Client(guarded.port), cluster=["monitor"]))


def test_resolve_shows_what_one_may_see(admin, people):
    assert admin.put_doc("logs-r", "1", b"{}").status == 201 and admin.put_doc("secret-r", "1", b"{}").status == 201
    names = [i["name"] for i in people["reader"].get("/_resolve/index/*").json["indices"]]
    assert "logs-r" in names and "secret-r" not in names
    assert people["reader"].get("/_resolve/index/secret-r").status == 404
    assert "secret-r" in [i["name"] for i in admin.get("/_resolve/index/*").json["indices"]]


def test_searches_see_what_one_may_see(admin, people):
    assert admin.put_doc("logs-s", "1", b'{"v":1}').status == 201
    assert admin.put_doc("secret-s", "1", b'{"v":2}').status == 201
    reader = people["reader"]
    r = reader.post("/_search", {"size": 1000})
    if r.status in (400, 405):
        pytest.skip("no _search")
    assert all(h["_index"].startswith("logs-") for h in r.json["hits"]["hits"]) and r.json["hits"]["hits"]
    assert reader.get("/secret-*/_search").json["hits"]["hits"] == []
    refused(reader.get("/secret-s/_search"), 403)
    refused(people["writer"].get("/logs-s/_search"), 403)
    refused(reader.post("/secret-s/_pit?keep_alive=1m"), 403)
    assert admin.delete("/logs-s,secret-s").status == 200


# ---------------------------------------------------------------- API keys

def test_api_keys(guarded, admin, people, index):
    made = admin.post("/_security/api_key", {"name": "shipper", "expiration": "7d", "metadata": {"team": "a"},
                                             "role_descriptors": {"w": {"cluster": ["monitor"], "indices": [
                                                 {"names": [f"{index}*"], "privileges": ["create_doc", "auto_configure"]}]}}})
    assert made.status == 200
    key = made.json
    assert base64.b64decode(key["encoded"]).decode() == f"{key['id']}:{key['api_key']}"
    assert key["name"] == "shipper" and key["expiration"] > time.time() * 1000 + 6 * 86400_000
    c = As(guarded.port, bearer(key))
    me = c.get("/_security/_authenticate").json
    assert me["username"] == "admin" and me["authentication_type"] == "api_key"
    assert me["api_key"] == {"id": key["id"], "name": "shipper"}
    assert [i["status"] for i in c.bulk(bulk_body(index, [("1", b"{}")], "create")).items] == [201]
    assert [i["status"] for i in c.bulk(bulk_body(index, [("1", b"{}")], "index")).items] == [403]
    assert c.put(f"/{index}/_doc/2?op_type=create", b"{}").status == 201
    for r in (c.put_doc(index, "3", b"{}"), c.delete(f"/{index}/_doc/1"), c.get(f"/{index}/_doc/1"),
              c.put("/other-index/_create/1", b"{}"), c.delete(f"/{index}")):
        assert f"API key id [{key['id']}]" in refused(r, 403)
    # listing
    listed = admin.get(f"/_security/api_key?id={key['id']}").json["api_keys"]
    assert len(listed) == 1 and listed[0]["name"] == "shipper" and listed[0]["metadata"] == {"team": "a"}
    assert listed[0]["invalidated"] is False and listed[0]["username"] == "admin" and "api_key" not in listed[0]
    assert [k["id"] for k in c.get("/_security/api_key?owner=true").json["api_keys"]] == [key["id"]]
    assert people["reader"].get("/_security/api_key").json["api_keys"] == []
    refused(people["reader"].get("/_security/api_key?username=admin"), 403)
    assert people["reader"].delete("/_security/api_key", body={"ids": [key["id"]]}).json["invalidated_api_keys"] == []
    # the end
    assert admin.delete("/_security/api_key", body={"ids": [key["id"]]}).json == {
        "invalidated_api_keys": [key["id"]], "previously_invalidated_api_keys": [], "error_count": 0}
    refused(c.get("/"))
    assert admin.delete("/_security/api_key", body={"ids": [key["id"]]}).json["previously_invalidated_api_keys"] == [key["id"]]


def test_keys_never_allow_more_than_their_owner(guarded, people):
    writer = people["writer"]
    wide = {"name": "wide", "role_descriptors": {"all": {"cluster": ["all"], "indices": [{"names": ["*"], "privileges": ["all"]}]}}}
    key = writer.post("/_security/api_key", wide).json
    c = As(guarded.port, bearer(key))
    assert c.put_doc("logs-k", "1", b"{}").status == 201
    refused(c.get("/logs-k/_doc/1"), 403)
    refused(c.put_doc("elsewhere", "1", b"{}"), 403)
    refused(c.put("/_index_template/t", {"index_patterns": ["x"]}), 403)
    assert c.post("/_security/api_key", {"name": "derived"}).status == 400
    plain = As(guarded.port, bearer(writer.post("/_security/api_key", {"name": "plain"}).json))
    assert plain.put_doc("logs-k", "2", b"{}").status == 201
    assert writer.delete("/_security/api_key", body={"owner": True}).status == 200
    refused(plain.get("/"))


@pytest.mark.parametrize("body, status", [
    ({}, 400), ({"name": ""}, 400), ({"name": "_x"}, 400), ({"name": "x", "expiration": "soon"}, 400),
    ({"name": "x", "expiration": 5}, 400), ({"name": "x", "role_descriptors": []}, 400), ({"name": "x", "metadata": 1}, 400),
    ({"name": "x", "role_descriptors": {"r": {"indices": [{"names": ["a"], "privileges": ["fly"]}]}}}, 400),
    ({"name": "x", "role_descriptors": {"r": {"indices": [{"names": ["a"]}]}}}, 400),
    ({"name": "x", "role_descriptors": {"r": {"indices": [{"names": ["a"], "privileges": ["read"], "query": "{}"}]}}}, 400)])
def test_wrong_api_keys_are_refused(admin, body, status):
    r = admin.post("/_security/api_key", body)
    assert r.status == status and r.error["reason"], r
    assert admin.delete("/_security/api_key", body={}).status == 400


def test_keys_outlive_a_restart_and_expire(make_daemon):
    d = make_daemon("security.users.admin=correct horse", start=False).spawn()
    assert wait_until(lambda: answers(d))
    admin = As(d.port, basic(*ADMIN))
    key = admin.post("/_security/api_key", {"name": "kept"}).json
    gone = admin.put("/_security/api_key", {"name": "gone"}).json
    short = admin.post("/_security/api_key", {"name": "short", "expiration": "1s"}).json
    assert As(d.port, bearer(short)).get("/").status == 200
    assert admin.delete("/_security/api_key", body={"name": "gone"}).status == 200
    d.kill()
    d.spawn()
    assert wait_until(lambda: answers(d))
    time.sleep(1)
    assert As(d.port, bearer(key)).get("/").status == 200
    refused(As(d.port, bearer(gone)).get("/"))
    refused(As(d.port, bearer(short)).get("/"))
    swapped = base64.b64encode(f"{key['id']}:{gone['api_key']}".encode()).decode()
    refused(As(d.port, {"Authorization": "ApiKey " + swapped}).get("/"))


def test_load_through_security(guarded, admin, index):
    def load(n):
        c = As(guarded.port, basic(*ADMIN))
        for k in range(10):
            r = c.bulk(bulk_body(index, [(f"{n}-{k}-{i}", json.dumps({"n": n, "i": i}).encode()) for i in range(50)]))
            assert r.status == 200 and r.json["errors"] is False
    in_threads([lambda n=n: load(n) for n in range(8)])
    assert admin.get(f"/{index}/_count").json["count"] == 4000


def test_half_closed_clients_at_the_door(tmp_path):
    """Clients that say nothing more while their passwords are verified."""
    d = stow.Daemon(tmp_path, [f"security.users.{ADMIN[0]}={ADMIN[1]}"])
    d.spawn()

    def put(n):
        with Raw(d.port) as raw:
            credentials = basic(ADMIN[0], ADMIN[1] if n % 2 else f"not {n}")
            raw.send(request_bytes("PUT", f"/i/_doc/{n}", b'{"n":%d}' % n, credentials))
            raw.socket.shutdown(socket.SHUT_WR)
            return raw.receive().status
    try:
        assert wait_until(lambda: answers(d), 20), d.log()
        assert in_threads([partial(put, n) for n in range(8)]) == [401, 201] * 4
    finally:
        d.kill()
