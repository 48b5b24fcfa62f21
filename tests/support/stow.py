# SPDX-License-Identifier: Apache-2.0
"""What the black-box tests share: a daemon of one's own, HTTP clients, and builders of bodies."""
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

STOWD = os.environ.get("STOWD") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "build", "stowd"))
# Sanitizer builds are slower and larger: time limits are multiplied by this, memory is not checked.
SLOW = float(os.environ.get("STOWD_TEST_SLOW", "1"))
TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


# ---------------------------------------------------------------- bodies

def quote(text):
    """One path segment: everything but unreserved bytes is percent-encoded."""
    return urllib.parse.quote(text, safe="")


def action(op, index=None, id=None, **more):
    meta = {k: v for k, v in (("_index", index), ("_id", id)) if v is not None}
    meta.update(more)
    return json.dumps({op: meta}, ensure_ascii=False, separators=(",", ":")).encode()


def ndjson(*lines):
    """Lines (bytes, text or objects) each ended by a newline."""
    out = []
    for line in lines:
        if isinstance(line, (dict, list)):
            line = json.dumps(line, separators=(",", ":"))
        out.append(line.encode() if isinstance(line, str) else line)
    return b"\n".join(out) + b"\n"


def bulk_body(index, docs, op="index"):
    """docs: pairs of id (None: made by the daemon) and bytes."""
    return ndjson(*(line for id, doc in docs for line in (action(op, index, id), doc)))


def log_document(n, rng):
    """A record in the style of a parsed access log line, some 450 bytes."""
    ip = f"203.0.{rng.randrange(4)}.{rng.randrange(256)}"
    path = rng.choice(["/", "/blog/tags/puppet", "/images/web/2009/banner.png", "/favicon.ico",
                       f"/articles/{rng.randrange(3000)}", "/projects/xdotool/?flav=rss20"])
    agent = rng.choice(["Mozilla/5.0 (X11; Linux x86_64; rv:27.0) Gecko/20100101 Firefox/27.0",
                        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
                        'Tiny Tiny RSS/1.11 (http://tt-rss.org/) \\"é\\"', "curl/7.88.1"])
    status, size = rng.choice([200, 200, 200, 304, 404]), rng.randrange(200000)
    stamp = f"{1 + n % 28:02d}/Nov/2026:{n % 24:02d}:{n % 60:02d}:{n * 7 % 60:02d} +0000"
    message = f'{ip} - - [{stamp}] \\"GET {path} HTTP/1.1\\" {status} {size} \\"-\\" \\"{agent}\\"'
    return (f'{{"message":"{message}","@timestamp":"2026-11-{1 + n % 28:02d}T{n % 24:02d}:{n % 60:02d}'
            f':{n * 7 % 60:02d}.000Z","clientip":"{ip}","ident":"-","verb":"GET","request":"{path}",'
            f'"httpversion":"1.1","response":{status},"bytes":{size},"score":{rng.random():.6f},'
            f'"agent":"{agent}","n": {n}}}').encode()


def log_documents(count, seed=1):
    rng = random.Random(seed)
    return [log_document(n, rng) for n in range(count)]


# ---------------------------------------------------------------- clients

class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # pairs
        self.body = body

    def header(self, name):
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def items(self):
        """Items of a bulk answer as one dictionary each, the operation under "op"."""
        assert self.status == 200, self
        return [dict(value, op=op) for item in self.json["items"] for op, value in item.items()]

    @property
    def error(self):
        """The error object of a refusal, its form checked."""
        answer = self.json
        assert self.status >= 400 and answer["status"] == self.status, self
        error = answer["error"]
        assert error["type"] and error["reason"] and isinstance(error["root_cause"], list), self
        return error

    def __repr__(self):
        return f"<{self.status} {self.body[:500]!r}>"


class Client:
    """One keep-alive connection, opened when needed; for one thread."""

    def __init__(self, port, timeout=30):
        self.port = port
        self.timeout = timeout * SLOW
        self.connection = None

    def request(self, method, target, body=None, headers=None):
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        send = {}
        if body is not None:
            send["Content-Type"] = "application/x-ndjson" if "_bulk" in target else "application/json"
        send.update(headers or {})
        send = {k: v for k, v in send.items() if v is not None}
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        try:
            self.connection.request(method, target, body, send)
            answer = self.connection.getresponse()
            response = Response(answer.status, answer.getheaders(), answer.read())
        except BaseException:
            self.close()
            raise
        if answer.will_close:
            self.close()
        return response

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    # -- the calls that most tests make
    def get(self, target, **kw):
        return self.request("GET", target, **kw)

    def put(self, target, body=None, **kw):
        return self.request("PUT", target, body, **kw)

    def post(self, target, body=None, **kw):
        return self.request("POST", target, body, **kw)

    def delete(self, target, **kw):
        return self.request("DELETE", target, **kw)

    def head(self, target, **kw):
        return self.request("HEAD", target, **kw)

    def bulk(self, body, target="/_bulk", **kw):
        return self.request("POST", target, body, **kw)

    def put_doc(self, index, id, doc, query=""):
        return self.put(f"/{index}/_doc/{quote(id)}{query}", doc)

    def get_doc(self, index, id, query=""):
        return self.get(f"/{index}/_doc/{quote(id)}{query}")

    def source(self, index, id, query=""):
        """Bytes of _source, None when the document is not there."""
        r = self.get(f"/{index}/_source/{quote(id)}{query}")
        assert r.status in (200, 404), r
        return r.body if r.status == 200 else None

    def load(self, index, docs, per_request=1000, op="index"):
        """Store pairs of id and bytes; every item must be stored. Returns the items."""
        items = []
        docs = list(docs)
        for at in range(0, len(docs), per_request):
            r = self.bulk(bulk_body(index, docs[at:at + per_request], op))
            assert r.status == 200 and r.json["errors"] is False, r
            items += r.items
        return items

    def sources(self, index, ids, per_request=1000):
        """id -> bytes of _source as _mget gives them, None for what is missing."""
        found = {}
        ids = list(ids)
        for at in range(0, len(ids), per_request):
            some = ids[at:at + per_request]
            r = self.post(f"/{index}/_mget", {"ids": some})
            assert r.status == 200, r
            raw = mget_sources(r.body)
            assert len(raw) == len(some), (len(raw), len(some))
            for id, doc, source in zip(some, r.json["docs"], raw):
                assert doc["_id"] == id and "error" not in doc, doc
                found[id] = source
        return found


def mget_sources(body):
    """Bytes of each document's _source in an _mget answer, None without one, in order."""
    text = body.decode("utf-8", "surrogateescape")
    decode = json.JSONDecoder(strict=False).raw_decode
    at = text.index('"docs":[') + len('"docs":[')
    out = []
    while text[at] != "]":
        _, end = decode(text, at)
        mark = text.find(',"_source":', at, end)
        source = None
        if mark >= 0:
            start = mark + len(',"_source":')
            _, stop = decode(text, start)
            source = text[start:stop].encode("utf-8", "surrogateescape")
        out.append(source)
        at = end + (text[end] == ",")
    return out


class Raw:
    """A bare connection: send any bytes, read answers one by one."""

    def __init__(self, port, timeout=15):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout * SLOW)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, head=False):
        """One answer (1xx included). ConnectionError when the server closed."""
        line = self.file.readline()
        if not line:
            raise ConnectionError("closed by the server")
        status = int(line.split()[1])
        headers = []
        while (line := self.file.readline()) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name.strip(), value.strip()))
        response = Response(status, headers, b"")
        if head or status < 200 or status in (204, 304):
            return response
        if (response.header("transfer-encoding") or "").lower() == "chunked":
            while (size := int(self.file.readline().split(b";")[0], 16)) != 0:
                response.body += self.file.read(size)
                self.file.readline()
            self.file.readline()
        else:
            length = int(response.header("content-length"))
            response.body = self.file.read(length)
            if len(response.body) != length:
                raise ConnectionError("closed in the middle of a body")
        return response


def request_bytes(method, target, body=b"", headers=None):
    """A whole HTTP/1.1 request; a header of None is left out."""
    all_headers = {"Host": "127.0.0.1"}
    if body:
        all_headers["Content-Type"] = ("application/x-ndjson" if "_bulk" in target
                                       else "application/json")
        all_headers["Content-Length"] = str(len(body))
    all_headers.update(headers or {})
    head = f"{method} {target} HTTP/1.1\r\n"
    head += "".join(f"{k}: {v}\r\n" for k, v in all_headers.items() if v is not None)
    return head.encode("latin-1") + b"\r\n" + body


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p) + b"0\r\n\r\n"


# ---------------------------------------------------------------- the daemon

def free_port():
    """Below the range of ephemeral ports, so that no client's own port can take it."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Daemon:
    """stowd on a data directory. start, stop, kill and restart as often as wanted."""

    def __init__(self, directory, settings=(), env=None, arguments=(), data=None):
        self.directory = str(directory)
        self.data = str(data) if data else os.path.join(self.directory, "data")
        self.log_path = os.path.join(self.directory, "log")
        self.settings = list(settings)
        self.arguments = list(arguments)
        self.env = dict(env or {})
        self.port = free_port()
        self.process = None
        os.makedirs(self.directory, exist_ok=True)

    def command(self):
        command = [STOWD]
        for setting in (f"path.data={self.data}", f"http.port={self.port}", *self.settings):
            command += ["-E", setting]
        return command + self.arguments

    def spawn(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env={**os.environ, **self.env})
        return self

    def start(self, timeout=20):
        """Spawn and wait until GET / answers."""
        self.spawn()
        assert self.wait_up(timeout), f"not up within {timeout} s\n{self.log()}"
        return self

    def wait_up(self, timeout=20):
        """True once GET / answers; False when the process has ended instead."""
        end = time.monotonic() + timeout * SLOW
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return False
            try:
                if Client(self.port, timeout=5).get("/").status == 200:
                    return True
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
        return False

    def client(self, **kw):
        return Client(self.port, **kw)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def wait(self, timeout=15):
        """Exit code of a process that ends by itself."""
        try:
            return self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s\n{self.log()}") from None

    def stop(self):
        """SIGTERM; the exit code, which must come within 10 s."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(10)

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()

    def restart(self):
        code = self.stop()
        assert code == 0, f"exit code {code}\n{self.log()}"
        return self.start()

    def crash(self):
        self.kill()
        return self.start()

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                return f.read()[-8000:]
        except OSError:
            return ""

    def rss(self):
        """Anonymous resident bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"RssAnon:\s+(\d+) kB", f.read()).group(1)) * 1024


# ---------------------------------------------------------------- odds and ends

def flip(path, at):
    """Turn one bit of a file over."""
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x40]))


def indices_bytes(daemon):
    """Allocated bytes under indices/, whose files come and go meanwhile."""
    total = 0
    for folder, _, names in os.walk(os.path.join(daemon.data, "indices")):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def in_threads(functions, timeout=60):
    """Run them at once; results in order; the first exception is raised."""
    results, errors = [None] * len(functions), []

    def run(i):
        try:
            results[i] = functions[i]()
        except BaseException as e:  # handed to the caller
            errors.append(e)
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for t in threads:
        t.start()
    end = time.monotonic() + timeout * SLOW
    for t in threads:
        t.join(max(0.1, end - time.monotonic()))
        assert not t.is_alive(), f"threads busy after {timeout} s"
    if errors:
        raise errors[0]
    return results


def wait_until(condition, timeout=10, step=0.05):
    end = time.monotonic() + timeout * SLOW
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def corpus(name, limit=None):
    """Lines of a shared corpus beside the checkout, or None where there is none."""
    for root in (os.environ.get("STOWD_SHARED"), os.path.join(TOP, "..", "shared")):
        path = os.path.join(root, "data", f"{name}.ndjson.zst") if root else ""
        if os.path.exists(path):
            raw = subprocess.run(["zstd", "-dcq", "--long=27", path], check=True,
                                 stdout=subprocess.PIPE).stdout
            return raw.splitlines()[:limit]
    return None
