# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer: encodings, framing, limits, refusals, connections."""
import gzip
import socket
import time

import pytest
from stow import Client, Raw, bulk_body, chunked, log_documents, request_bytes


def gzipped(client, target, body, **headers):
    return client.post(target, body, headers={"Content-Encoding": "gzip", **headers})


def test_gzip_bodies(client, index):
    body = bulk_body(index, [(str(n), d) for n, d in enumerate(log_documents(500))])
    for level in (1, 9):
        assert gzipped(client, "/_bulk", gzip.compress(body, level)).json["errors"] is False
    members = b"".join(gzip.compress(body[at:at + 700]) for at in range(0, len(body), 700)) + gzip.compress(b"")
    assert gzipped(client, "/_bulk", members).json["errors"] is False
    assert gzipped(client, "/_bulk", gzip.compress(body), **{"Content-Encoding": "GZIP"}).json["errors"] is False
    assert client.source(index, "499") == log_documents(500)[499]


@pytest.mark.parametrize("spoil", [
    lambda z: z[:-1], lambda z: z[:20], lambda z: z + b"rubbish", lambda z: b"not gzip", lambda z: b"",
    lambda z: z[:30] + bytes([z[30] ^ 255]) + z[31:]])
def test_broken_gzip_leaves_nothing(client, index, spoil):
    body = bulk_body(index, [(str(n), d) for n, d in enumerate(log_documents(50))])
    r = gzipped(client, "/_bulk", spoil(gzip.compress(body)))
    assert r.status == 400 and r.error["reason"], r
    assert client.head(f"/{index}").status == 404


def test_unknown_encodings_and_types(client, index):
    body = bulk_body(index, [("1", b"{}")])
    r = client.post("/_bulk", body, headers={"Content-Encoding": "br"})
    assert r.status == 415 and r.error["reason"]
    for type_ in ("text/plain", "application/x-www-form-urlencoded", "image/png"):
        r = client.post("/_bulk", body, headers={"Content-Type": type_})
        assert r.status in (406, 415) and r.error["reason"], r
    for type_ in ("application/x-ndjson", "application/json", "application/json; charset=UTF-8",
                  "application/vnd.elasticsearch+x-ndjson; compatible-with=8", "text/json; charset=utf-8",
                  "application/vnd.elasticsearch+x-ndjson;compatible-with=8"):
        r = client.post("/_bulk", body, headers={"Content-Type": type_})
        assert r.status == 200, (type_, r)
    assert client.get("/", headers={"Content-Type": "application/json"}).status == 200


def test_accept(client, index):
    for accept in ("*/*", "application/json", "application/vnd.elasticsearch+json; compatible-with=8,text/plain",
                   "application/vnd.elasticsearch+x-ndjson; compatible-with=8"):
        r = client.get("/", headers={"Accept": accept})
        assert r.status == 200 and "json" in r.header("content-type"), accept


def test_gzip_answers_only_when_asked(client, index):
    client.load(index, [(str(n), d) for n, d in enumerate(log_documents(200))])
    body = {"ids": [str(n) for n in range(200)]}
    plain = client.post(f"/{index}/_mget", body)
    assert plain.header("content-encoding") is None
    assert client.post(f"/{index}/_mget", body, headers={"Accept-Encoding": "identity"}).body == plain.body
    packed = client.post(f"/{index}/_mget", body, headers={"Accept-Encoding": "gzip, deflate"})
    assert packed.header("content-encoding") == "gzip" and gzip.decompress(packed.body) == plain.body
    r = client.head(f"/{index}/_doc/1", headers={"Accept-Encoding": "gzip"})
    assert r.status == 200 and r.header("content-encoding") is None


def test_chunked_bodies(node, index):
    body = bulk_body(index, [("1", b'{"v":"\xc3\xa9"}'), ("2", b"{}")])
    head = request_bytes("POST", "/_bulk", b"", {"Transfer-Encoding": "chunked",
                                                 "Content-Type": "application/x-ndjson"})
    for size in (1, 7, 1000):
        with Raw(node.port) as raw:
            raw.send(head + chunked(*(body[at:at + size] for at in range(0, len(body), size))))
            assert raw.receive().json["errors"] is False
    assert node.client().source(index, "1") == b'{"v":"\xc3\xa9"}'


def test_one_byte_at_a_time(node, index):
    with Raw(node.port) as raw:
        for byte in request_bytes("PUT", f"/{index}/_doc/1", b'{"v":1}'):
            raw.send(bytes([byte]))
        assert raw.receive().status == 201


def test_expect_continue(node, index):
    body = bulk_body(index, [("1", b'{"m":"' + b"x" * 2_000_000 + b'"}')])
    with Raw(node.port) as raw:
        began = time.monotonic()
        raw.send(request_bytes("POST", "/_bulk", b"", {"Content-Length": str(len(body)), "Expect": "100-continue",
                                                      "Content-Type": "application/x-ndjson"}))
        assert raw.receive().status == 100 and time.monotonic() - began < 0.5
        raw.send(body)
        assert raw.receive().json["errors"] is False
        raw.send(request_bytes("GET", "/"))
        assert raw.receive().status == 200, "an unasked 100, or the connection is spoilt"


def test_length_limit(make_daemon):
    d = make_daemon("http.max_content_length=1mb")
    c = d.client()
    head = b'{"index":{"_index":"i","_id":"1"}}\n{"m":"'
    fits = head + b"x" * (1048576 - len(head) - 3) + b'"}\n'
    assert len(fits) == 1048576 and c.bulk(fits).json["errors"] is False
    big = fits.replace(b'"_id":"1"', b'"_id":"22"')
    r = c.bulk(big)
    assert r.status == 413 and ("1048576" in r.error["reason"] or "1mb" in r.error["reason"])
    r = gzipped(d.client(), "/_bulk", gzip.compress(big))
    assert r.status == 413 and r.error["reason"]
    r = gzipped(d.client(), "/_bulk", gzip.compress(b"\0" * 500_000_000, 1)[:1_000_000])
    assert r.status in (400, 413)
    with Raw(d.port) as raw:  # asked first, told at once
        raw.send(request_bytes("POST", "/_bulk", b"", {"Content-Length": "1048577", "Expect": "100-continue"}))
        assert raw.receive().status == 413
    with Raw(d.port) as raw:
        raw.send(request_bytes("POST", "/_bulk", b"", {"Transfer-Encoding": "chunked"})
                 + chunked(*(big[at:at + 50000] for at in range(0, len(big), 50000))))
        assert raw.receive().status == 413
    assert d.client().source("i", "22") is None
    assert d.rss() < 300_000_000


def test_control_bodies_have_a_limit_of_their_own(node, index):
    """16 MiB, as received and inflated; documents and lists of ids are not bound by it."""
    body = b'{"settings":{}' + b" " * (16 << 20) + b"}"
    for r in (node.client(timeout=60).put(f"/{index}", body), gzipped(node.client(timeout=60), "/_aliases",
                                                                      gzip.compress(body, 1))):
        assert r.status == 413 and "16777216" in r.error["reason"], r
    assert node.client().head(f"/{index}").status == 404
    assert node.client(timeout=60).put_doc(index, "1", b"{" + b" " * (16 << 20) + b"}").status == 201
    r = node.client(timeout=60).post(f"/{index}/_mget", b'{"ids":["2"]' + b" " * (16 << 20) + b"}")
    assert r.status == 200 and r.json["docs"][0]["found"] is False


def test_a_lone_request_is_admitted(make_daemon):
    """One that needs more than all the memory there is for requests goes through when nothing else is there."""
    d = make_daemon("http.max_in_flight=64kb", "http.admission_wait=1s")
    doc = b'{"m":"' + b"x" * 3_000_000 + b'"}'
    assert d.client().bulk(bulk_body("i", [("1", doc), ("2", doc)])).json["errors"] is False
    assert d.client().sources("i", ["1", "2"]) == {"1": doc, "2": doc}


def test_two_lengths_are_refused(node, index):
    body = b'{"v":1}'
    for headers in ("Content-Length: 7\r\nTransfer-Encoding: chunked", "Content-Length: 7\r\nContent-Length: 70"):
        with Raw(node.port, timeout=5) as raw:
            raw.send(f"PUT /{index}/_doc/1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}\r\n\r\n"
                     .encode() + body)
            raw.socket.shutdown(socket.SHUT_WR)
            try:
                assert raw.receive().status >= 400
            except OSError:
                pass
    assert node.client().head(f"/{index}").status == 404


def test_incomplete_bodies_leave_nothing(node, index):
    body = bulk_body(index, [("1", b"{}")])
    whole = request_bytes("POST", "/_bulk", body, {"Content-Length": str(len(body) + 10)})
    half = request_bytes("POST", "/_bulk", b"", {"Transfer-Encoding": "chunked",
                                                 "Content-Type": "application/x-ndjson"})
    for data in (whole, half + b"%x\r\n%s\r\n" % (len(body), body)):
        with Raw(node.port) as raw:
            raw.send(data)
            time.sleep(0.1)
    time.sleep(0.3)
    assert node.client().head(f"/{index}").status == 404


def test_head(node, index):
    node.client().put_doc(index, "1", b"{}")
    with Raw(node.port) as raw:
        for target, status in (("/", 200), (f"/{index}", 200), (f"/{index}-none", 404), (f"/{index}/_doc/1", 200),
                               (f"/{index}/_doc/2", 404)):
            raw.send(request_bytes("HEAD", target))
            assert raw.receive(head=True).status == status
            raw.send(request_bytes("GET", "/"))
            assert raw.receive().status == 200


def test_pipelined_requests(node, index):
    with Raw(node.port) as raw:
        raw.send(request_bytes("PUT", f"/{index}/_doc/1", b'{"v":1}') + request_bytes("GET", f"/{index}/_doc/1")
                 + request_bytes("DELETE", f"/{index}/_doc/1") + request_bytes("GET", f"/{index}/_doc/1"))
        assert [raw.receive().status for _ in range(4)] == [201, 200, 200, 404]


@pytest.mark.parametrize("method, target, status", [
    ("GET", "/_bulk", 405), ("DELETE", "/_bulk", 405), ("PUT", "/_mget", 405), ("POST", "/_cluster/health", 405),
    ("GET", "/_nosuch", 400), ("GET", "/a/b/c/d", 400), ("PATCH", "/x", 405), ("GET", "/x/_nosuch/1", 400)])
def test_unknown_routes_and_methods(client, method, target, status):
    r = client.request(method, target)
    assert r.status in (status, 404 if status == 400 else status), r
    assert r.json["error"]
    if r.status == 405:
        assert r.header("allow")


def test_unknown_parameters_are_named(client):
    r = client.get("/_cluster/health?bogus=1")
    assert r.status == 400 and "bogus" in r.error["reason"]
    r = client.get("/?pretty")
    assert b"\n" in r.body.strip()


def test_long_urls_and_headers(client, node):
    assert client.get("/x/_doc/" + "y" * 60000).status in (400, 414, 431)
    assert node.client().get("/", headers={f"X-H{n}": "v" * 290 for n in range(50)}).status in (200, 431)
    assert node.client().get("/").status == 200


@pytest.mark.parametrize("raw_bytes", [
    b"GARBAGE\r\n\r\n", b"\r\n\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"A" * 100000,
    b"POST /_bulk HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /_bulk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"])
def test_not_http(node, raw_bytes):
    with Raw(node.port, timeout=3) as raw:
        try:
            raw.send(raw_bytes)
            raw.socket.shutdown(socket.SHUT_WR)
            assert raw.receive().status not in (200, 500)
        except (OSError, ValueError, IndexError):
            pass
    assert node.client().get("/").status == 200


def test_close_is_honoured(node):
    with Raw(node.port) as raw:
        raw.send(request_bytes("GET", "/", b"", {"Connection": "close"}))
        assert raw.receive().status == 200 and raw.file.read(1) == b""


def test_keep_alive_is_prompt(node, index):
    c = node.client()
    c.put_doc(index, "1", b"{}")
    began = time.monotonic()
    for _ in range(100):
        assert c.get_doc(index, "1").status == 200
    assert time.monotonic() - began < 2, "40 ms a request: Nagle"


def test_error_answer_before_the_body_is_read(client, index):
    for method, target in (("POST", "/_nosuch"), ("PUT", "/BADNAME"), ("DELETE", "/_bulk")):
        r = client.request(method, target, b'{"x":"' + b"y" * 1_000_000 + b'"}')
        assert r.status >= 400 and r.body, target
        assert client.get("/").status == 200


def test_many_idle_and_slow_connections(node, index):
    idle = [Raw(node.port) for _ in range(300)]
    try:
        for n, raw in enumerate(idle):
            raw.send(b"GET / HT" if n % 2 else request_bytes("POST", "/_bulk", b"", {"Content-Length": "100"}) + b"{")
        began = time.monotonic()
        assert node.client().put_doc(index, "1", b"{}").status == 201
        assert time.monotonic() - began < 2
    finally:
        for raw in idle:
            raw.close()


@pytest.mark.slow
def test_bytes_in_flight_are_bounded(make_daemon):
    """Sixteen clients send 20 MB each at once where 32 MB may be in flight: all are served, none in part."""
    import stow
    d = make_daemon("http.max_in_flight=32mb", "storage.wal.size=256mb", "http.admission_wait=60s")
    doc = b'{"m":"' + b"x" * 200_000 + b'"}'

    def work(k):
        return Client(d.port, timeout=120).bulk(bulk_body("i", [(f"{k}-{n}", doc) for n in range(100)]))
    answers = stow.in_threads([lambda k=k: work(k) for k in range(16)], timeout=180)
    for k, r in enumerate(answers):
        assert r.status in (200, 429), r
        found = d.client().sources("i", [f"{k}-{n}" for n in range(100)], per_request=20)
        assert set(found.values()) == ({doc} if r.status == 200 else {None})
    assert [r.status for r in answers].count(200) >= 8
    assert d.rss() < 400_000_000
