# SPDX-License-Identifier: Apache-2.0
"""Slow and hostile peers: deadlines, limits, half-closed sockets, disconnects in the middle."""
import os
import random
import re
import socket
import threading
import time
from functools import partial

import pytest
import stow
from stow import Client, Raw, bulk_body, chunked, in_threads, request_bytes, wait_until


@pytest.fixture
def hasty(make_daemon):
    """A daemon with the shortest deadlines there are."""
    return make_daemon("http.header_timeout=1s", "http.body_timeout=1s", "http.idle_timeout=1s")


def closed_after(raw, began):
    """Seconds until the server has closed."""
    raw.socket.settimeout(20 * stow.SLOW)
    try:
        while raw.socket.recv(65536):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - began


def trickle(raw, data, every, most):
    """One byte at a time until the server closes; seconds it took."""
    began = time.monotonic()
    raw.socket.settimeout(0.01)
    for byte in data:
        if time.monotonic() - began > most:
            break
        try:
            raw.socket.sendall(bytes([byte]))
            if raw.socket.recv(1000) == b"":
                break
        except socket.timeout:
            pass
        except OSError:
            break
        time.sleep(every)
    return time.monotonic() - began


# ---------------------------------------------------------------- Host

def test_host_is_wanted_once(node):
    for headers, status in (({"Host": None}, 400), ({}, 200), ({"Host": ""}, 200)):
        with Raw(node.port) as raw:
            raw.send(request_bytes("GET", "/", headers=headers))
            r = raw.receive()
            assert r.status == status, (headers, r)
            if status == 400:
                assert "Host" in r.error["reason"]
    with Raw(node.port) as raw:
        raw.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert raw.receive().status == 400
        raw.send(request_bytes("GET", "/"))  # framing is clear: the connection goes on
        assert raw.receive().status == 200
    with Raw(node.port) as raw:
        raw.send(b"GET / HTTP/1.0\r\n\r\n")
        assert raw.receive().status == 200


def test_request_without_host_stores_nothing(node, client, index):
    with Raw(node.port) as raw:
        raw.send(request_bytes("PUT", f"/{index}/_doc/1", b"{}", {"Host": None}))
        assert raw.receive().status == 400
    assert client.head(f"/{index}").status == 404


# ---------------------------------------------------------------- deadlines

def test_slow_headers_are_cut(hasty):
    with Raw(hasty.port) as raw:
        assert trickle(raw, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 100, 0.1, 15) < 8 * stow.SLOW


def test_slow_request_line_is_cut(hasty):
    with Raw(hasty.port) as raw:
        assert trickle(raw, b"GET /" + b"a" * 1000, 0.1, 15) < 8 * stow.SLOW


def test_slow_body_is_cut_and_stores_nothing(hasty, index):
    body = b'{"v":"' + b"x" * 2000 + b'"}'
    with Raw(hasty.port) as raw:
        raw.send(request_bytes("PUT", f"/{index}/_doc/1", b"", {"Content-Length": str(len(body)),
                                                                "Content-Type": "application/json"}))
        assert trickle(raw, body, 0.1, 15) < 8 * stow.SLOW
    assert Client(hasty.port).head(f"/{index}").status == 404


def test_slow_chunks_are_cut(hasty, index):
    with Raw(hasty.port) as raw:
        raw.send(request_bytes("POST", "/_bulk", b"", {"Transfer-Encoding": "chunked",
                                                       "Content-Type": "application/x-ndjson"}))
        assert trickle(raw, b"1\r\nx\r\n" * 300, 0.05, 15) < 8 * stow.SLOW


def test_idle_connection_is_closed(hasty):
    for send in (b"", request_bytes("GET", "/")):
        with Raw(hasty.port) as raw:
            raw.send(send)
            if send:
                raw.receive()
            assert closed_after(raw, time.monotonic()) < 6 * stow.SLOW


def test_answer_that_is_not_read_is_cut(make_daemon, index):
    d = make_daemon("http.body_timeout=1s", "http.max_in_flight=8mb")
    c = d.client()
    big = b'{"v":"%s"}' % (b"x" * 200_000)
    c.load(index, [(str(n), big) for n in range(60)], 10)
    body = b'{"ids":[%s]}' % b",".join(b'"%d"' % n for n in range(60))
    raws = []
    for _ in range(4):
        raw = Raw(d.port)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.send(request_bytes("POST", f"/{index}/_mget", body))
        raws.append(raw)
    # Their memory and connections come back, and others are served meanwhile.
    assert c.get("/").status == 200
    assert wait_until(lambda: gauge(c, "http_requests_open") <= 1, 40), d.log()
    for raw in raws:
        raw.close()
    assert gauge(c, "http_connections_cut_total") >= 1


def test_steady_slow_body_is_fine(make_daemon, index):
    """64 KiB in each body_timeout is fast enough, however long it takes."""
    d = make_daemon("http.body_timeout=1s")
    body = bulk_body(index, [(str(n), b'{"v":"%s"}' % (b"x" * 20_000)) for n in range(20)])
    with Raw(d.port, 30) as raw:
        raw.send(request_bytes("POST", "/_bulk", b"", {"Content-Length": str(len(body)),
                                                       "Content-Type": "application/x-ndjson"}))
        for at in range(0, len(body), 66_000):
            raw.send(body[at:at + 66_000])
            time.sleep(0.5)
        assert raw.receive().json["errors"] is False


# ---------------------------------------------------------------- limits

def gauge(client, name):
    text = client.get("/_metrics").body.decode()
    return float(re.search(rf"^stowd_{name} (\S+)$", text, re.M).group(1))


def test_connection_limit(make_daemon):
    d = make_daemon("http.max_connections=20", "http.threads=1")
    c = d.client()
    assert c.get("/").status == 200
    raws = [Raw(d.port) for _ in range(60)]
    try:
        assert c.get("/").status == 200  # who is in is served
        assert gauge(c, "http_connections_max") == 20
        assert gauge(c, "http_connections") <= 20
    finally:
        for raw in raws:
            raw.close()
    assert wait_until(lambda: one_answers(d.port), 10)
    assert d.stop() == 0


def one_answers(port):
    try:
        return Client(port, timeout=3).get("/").status == 200
    except (OSError, AssertionError):
        return False


def test_slowloris_leaves_room_for_others(make_daemon):
    d = make_daemon("http.header_timeout=1s", "http.idle_timeout=1s", "http.max_connections=100")
    raws = [Raw(d.port) for _ in range(99)]
    for raw in raws:
        raw.send(b"GET / HTTP/1.1\r\nX-")
    assert wait_until(lambda: one_answers(d.port), 10)
    for raw in raws:
        raw.close()


def test_memory_of_unfinished_bodies_comes_back(make_daemon, index):
    d = make_daemon("http.body_timeout=1s", "http.max_in_flight=16mb")
    c = d.client()
    raws = []
    for _ in range(12):
        raw = Raw(d.port)
        raw.send(request_bytes("POST", "/_bulk", b"", {"Content-Length": "8000000", "Content-Type": "application/x-ndjson"}))
        raw.socket.setblocking(False)
        try:
            for _ in range(40):
                raw.socket.send(b"x" * 65536)
        except BlockingIOError:
            pass
        raws.append(raw)
    time.sleep(0.3)
    assert gauge(c, "http_in_flight_bytes") > 1 << 20
    assert gauge(c, "http_in_flight_bytes") <= (16 << 20) + 9_000_000
    for raw in raws:
        raw.close()
    assert wait_until(lambda: gauge(c, "http_in_flight_bytes") < 1 << 20, 20)
    assert c.put_doc(index, "1", b"{}").status == 201


# ---------------------------------------------------------------- ends

@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_disconnect_in_the_middle_stores_nothing(node, client, index, how, framing):
    body = bulk_body(index, [(str(n), b'{"v":%d}' % n) for n in range(2000)])
    for part in (1, len(body) // 2, len(body) - 1):
        raw = Raw(node.port)
        headers = {"Content-Type": "application/x-ndjson"}
        if framing == "length":
            raw.send(request_bytes("POST", "/_bulk", b"", {**headers, "Content-Length": str(len(body))}) + body[:part])
        else:
            raw.send(request_bytes("POST", "/_bulk", b"", {**headers, "Transfer-Encoding": "chunked"}) +
                     chunked(body[:part])[:-5])
        if how == "half":
            raw.socket.shutdown(socket.SHUT_WR)
            assert closed_after(raw, time.monotonic()) < 10 * stow.SLOW
        elif how == "reset":
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.close()
    time.sleep(0.2)
    assert client.head(f"/{index}").status == 404


def half_closed(port, method, path, body=b"", headers=None):
    """The answer to a client that has nothing more to say; then the server closes, too."""
    with Raw(port) as raw:
        raw.send(request_bytes(method, path, body, headers))
        raw.socket.shutdown(socket.SHUT_WR)
        answer = raw.receive()
        assert closed_after(raw, time.monotonic()) < 5 * stow.SLOW
        return answer


def test_half_closed_clients_get_their_answers(node, index):
    """Many at a time: answered by a worker, at once, in several windows."""
    def put(n):
        return half_closed(node.port, "PUT", f"/{index}/_doc/{n}", b'{"n":%d}' % n).status

    def get(n):
        return half_closed(node.port, "GET", f"/{index}/_source/{n}").body

    def bulk(n):
        body = bulk_body(index, [(f"{n}-{k}", b"{}") for k in range(12000)])
        return len(half_closed(node.port, "POST", "/_bulk", body).items)
    assert in_threads([partial(put, n) for n in range(100)]) == [201] * 100
    assert in_threads([partial(get, n) for n in range(48)]) == [b'{"n":%d}' % n for n in range(48)]
    assert in_threads([partial(bulk, n) for n in range(8)]) == [12000] * 8


def test_pipelining_keeps_order(node, client, index):
    client.load(index, [(str(n), b'{"n":%d}' % n) for n in range(100)])
    rng = random.Random(5)
    want, sent = [], b""
    for n in range(300):
        kind = rng.randrange(4)
        if kind == 0:
            sent += request_bytes("PUT", f"/{index}/_doc/new{n}", b'{"n":%d}' % n)
            want.append((201, None))
        elif kind == 1:
            sent += request_bytes("GET", f"/{index}/_source/none{n}")
            want.append((404, None))
        elif kind == 2:
            sent += request_bytes("POST", "/_bulk", b"x" * rng.randrange(1, 3000))
            want.append((400, None))
        else:
            sent += request_bytes("GET", f"/{index}/_source/{n % 100}")
            want.append((200, b'{"n":%d}' % (n % 100)))
    for step in (len(sent), 1000):
        with Raw(node.port, 60) as raw:
            raw.socket.setblocking(True)
            t = threading.Thread(target=lambda: [raw.send(sent[at:at + step]) for at in range(0, len(sent), step)])
            t.start()
            for status, body in want:
                r = raw.receive()
                assert r.status in ((status, 200) if status == 201 else (status,)), r
                assert body is None or r.body == body
            t.join()


def test_pipeline_that_is_never_read(make_daemon, index):
    """Requests are not taken faster than their answers go."""
    d = make_daemon("http.body_timeout=1s")
    c = d.client()
    c.put_doc(index, "1", b'{"v":"%s"}' % (b"x" * 50_000))
    raw = Raw(d.port)
    raw.socket.setblocking(False)
    before = d.rss()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            raw.socket.send(request_bytes("GET", f"/{index}/_source/1") * 50)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            break
    assert stow.SLOW > 1 or d.rss() - before < 30 << 20
    assert c.get("/").status == 200
    raw.close()


@pytest.mark.parametrize("data", [
    b"POST /_bulk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /_bulk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"e" * 100_000 + b"\r\n",
    b"POST /_bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /_bulk HTTP/1.1\r\nHost: x\r\nContent-Length: 1 1\r\n\r\nx",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    b"\0" * 5000,
    b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n" * 50_000,
], ids=range(10))
def test_wrong_framing_does_no_harm(node, client, data):
    with Raw(node.port, 5) as raw:
        try:
            raw.send(data)
            raw.socket.shutdown(socket.SHUT_WR)
            assert raw.receive().status >= 400 or b"Host" in data
        except (OSError, ValueError, IndexError):
            pass
    assert client.get("/").status == 200


def test_random_bytes_do_no_harm(node, client, index):
    rng = random.Random(7)
    base = request_bytes("PUT", f"/{index}/_doc/1?refresh=true", b'{"v":"some text"}')
    for _ in range(150):
        data = bytearray(base)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with Raw(node.port, 5) as raw:
            try:
                raw.send(bytes(data[:rng.randrange(1, len(data) + 1)]))
            except OSError:
                pass
    assert client.get("/").status == 200


def test_descriptors_come_back(make_daemon, index):
    d = make_daemon()
    c = d.client()
    c.put_doc(index, "1", b"{}")
    count = lambda: len(os.listdir(f"/proc/{d.process.pid}/fd"))  # noqa: E731
    before = count()
    for n in range(300):
        with Raw(d.port) as raw:
            raw.send([b"", b"GE", request_bytes("GET", "/"), request_bytes("GET", "/")[:-2]][n % 4])
    assert wait_until(lambda: count() <= before + 2, 10), (before, count())
