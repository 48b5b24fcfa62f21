# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged is there after SIGKILL; what was refused or cut off is not."""
import http.client
import os
import random
import subprocess
import threading
import time

import pytest
from stow import STOWD, Client, action, bulk_body, log_documents, ndjson, wait_until

ROUNDS = int(os.environ.get("STOWD_CRASH_ROUNDS", "3"))
IO_ERRORS = (OSError, EOFError, http.client.HTTPException)


class Writer(threading.Thread):
    """Writes to ids of its own until the daemon dies, and notes what was acknowledged.

    known    (index, id) -> (bytes or None when deleted, version, seq_no)
    pending  the same keys -> bytes or None, of the one request without an answer"""

    def __init__(self, number, port, indices, known, seed):
        super().__init__(daemon=True)
        self.number, self.port, self.indices, self.known = number, port, indices, known
        self.rng = random.Random(seed)
        self.pending, self.acknowledged, self.wrong = {}, 0, None

    def run(self):
        client = Client(self.port, timeout=20)
        try:
            while True:
                self.rng.choice((self.single, self.single, self.bulk))(client)
        except IO_ERRORS:
            pass
        except BaseException as e:
            self.wrong = e

    def key(self):
        return self.rng.choice(self.indices), f"{self.number}-{self.rng.randrange(40)}"

    def document(self):
        return b'{"w":%d,"n":%d, "pad":"%s"}' % (self.number, self.rng.randrange(10 ** 9),
                                                b"p" * self.rng.randrange(1500))

    def note(self, key, document, answer, status):
        assert status in (200, 201) or (document is None and status == 404), (key, answer)
        old = self.known.get(key, (None, 0, -1))
        if status != 404:
            assert answer["_seq_no"] > old[2], (key, old, answer)
            assert answer["_version"] > old[1], (key, old, answer)
            assert old[0] is None or answer["_version"] == old[1] + 1, (key, old, answer)
            self.known[key] = (document, answer["_version"], answer["_seq_no"])
        elif old[0] is not None:
            raise AssertionError(f"{key} was there and a delete says it is not")
        self.acknowledged += 1

    def single(self, client):
        key = self.key()
        document = self.document() if self.rng.random() < 0.8 else None
        self.pending = {key: document}
        if document is None:
            r = client.delete(f"/{key[0]}/_doc/{key[1]}")
        else:
            r = client.put(f"/{key[0]}/_doc/{key[1]}", document)
        self.note(key, document, r.json, r.status)
        self.pending = {}

    def bulk(self, client):
        batch = {self.key(): self.document() if self.rng.random() < 0.8 else None for _ in range(25)}
        self.pending = batch
        lines = []
        for (index, id), document in batch.items():
            lines += [action("delete", index, id)] if document is None else [action("index", index, id), document]
        r = client.bulk(ndjson(*lines))
        for (key, document), item in zip(batch.items(), r.items):
            self.note(key, document, item, item["status"])
        self.pending = {}


def check(client, writer):
    """Every acknowledged write reads back; the request without an answer is there wholly or not at
    all. Takes up in writer.known what that one turned out to have done."""
    known, applied = writer.known, set()
    for key, document in writer.pending.items():
        old = known.pop(key, (None, 0, -1))
        r = client.get_doc(*key)
        now = r.body.partition(b'"_source":')[2][:-1] if r.status == 200 else None
        assert now in (old[0], document), f"{key}: neither the old nor the new value: {r}"
        if old[0] != document:
            applied.add(now == document)
        if now is not None:
            known[key] = (now, r.json["_version"], r.json["_seq_no"])
    assert len(applied) <= 1, f"an unanswered request of {len(writer.pending)} items was applied in part"
    for key, (document, version, seq_no) in known.items():
        r = client.get_doc(*key)
        if document is None:
            assert r.status == 404, f"{key} was deleted and is back: {r}"
            continue
        assert r.status == 200, f"{key} is lost: {r}"
        assert r.body.endswith(b'"_source":' + document + b"}"), f"{key} is another: {r}"
        assert (r.json["_version"], r.json["_seq_no"]) == (version, seq_no), (key, version, seq_no, r)


def crash_round(daemon, writers, seconds):
    """Let them write, kill the daemon while they do; the number of acknowledged writes."""
    for w in writers:
        w.start()
    time.sleep(seconds)
    daemon.kill()
    for w in writers:
        w.join(30)
        if w.wrong:
            raise w.wrong
    return sum(w.acknowledged for w in writers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(max(1, ROUNDS // 3)))
def test_sigkill_under_load(make_daemon, seed):
    d = make_daemon("storage.wal.size=8mb", "storage.segment.size=1mb", "storage.checkpoint.interval=200ms",
                    "index.gc_deletes=1h")
    rng, known, total = random.Random(seed), [{} for _ in range(4)], 0
    for round_ in range(3):
        writers = [Writer(k, d.port, ["a", "b", "c"], known[k], seed * 100 + round_ * 10 + k) for k in range(4)]
        total += crash_round(d, writers, rng.uniform(0.3, 1.2))
        d.start()
        if round_ == 1:
            d.crash()  # again, before anything new was written
        for w in writers:
            check(d.client(), w)
    assert total > 100
    assert d.stop() == 0, d.log()


def test_versions_never_go_back(make_daemon):
    d, last = make_daemon(), (0, -1, 0)
    for _ in range(4):
        c = d.client()
        for n in range(40):
            r = c.put_doc("i", "1", b'{"n":%d}' % n).json
            assert r["_version"] == last[0] + 1 and r["_seq_no"] > last[1] and r["_primary_term"] >= last[2]
            last = r["_version"], r["_seq_no"], r["_primary_term"]
        d.crash()


def test_every_kind_of_write_survives_at_once(make_daemon):
    """Each acknowledged write, then SIGKILL in the next instant."""
    d = make_daemon()
    docs = log_documents(400)

    def put():
        assert d.client().put_doc("i", "1", b'{"v":1}').status == 201

    def bulk():
        assert d.client().bulk(bulk_body("i", [(f"b{n}", x) for n, x in enumerate(docs)])).json["errors"] is False

    def update():
        assert d.client().post("/i/_update/1", b'{"doc":{"w":2}}').status == 200

    def delete():
        assert d.client().delete("/i/_doc/b0").status == 200

    def flush():
        assert d.client().post("/i/_flush").status == 200
    for step in (put, bulk, update, delete, flush):
        step()
        d.crash()
    c = d.client()
    assert c.source("i", "1") == b'{"v":1,"w":2}' and c.source("i", "b0") is None
    got = c.sources("i", [f"b{n}" for n in range(1, 400)])
    assert got == {f"b{n}": docs[n] for n in range(1, 400)}
    assert c.get("/i/_count").json["count"] == 400


def test_orderly_stop(make_daemon):
    d = make_daemon()
    docs = {str(n): x for n, x in enumerate(log_documents(500))}
    d.client().load("i", docs.items())
    for signal_ in (1, 15):  # SIGHUP is harmless, SIGTERM ends it
        d.process.send_signal(signal_)
        if signal_ == 1:
            time.sleep(0.2)
            assert d.client().get("/").status == 200
    assert d.wait(10) == 0, d.log()
    d.start()
    assert d.client().sources("i", docs) == docs


def test_stop_under_load_loses_nothing(make_daemon):
    d, acknowledged, stop = make_daemon(), [], threading.Event()

    def work(k):
        c, n = d.client(), 0
        try:
            while not stop.is_set():
                n += 1
                r = c.bulk(bulk_body("i", [(f"{k}-{n}-{j}", b'{"k":%d}' % k) for j in range(20)]))
                if r.status == 200:
                    assert r.json["errors"] is False
                    acknowledged.append((k, n))
        except IO_ERRORS:
            pass
    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(4)]
    for t in threads:
        t.start()
    time.sleep(0.7)
    assert d.stop() == 0, d.log()
    stop.set()
    for t in threads:
        t.join(15)
    d.start()
    assert len(acknowledged) > 3
    found = d.client().sources("i", [f"{k}-{n}-{j}" for k, n in acknowledged for j in (0, 19)])
    assert None not in found.values()


def test_small_log_wraps_many_times(make_daemon):
    d = make_daemon("storage.wal.size=4mb", "storage.segment.size=1mb", "storage.checkpoint.interval=200ms")
    c, rng, docs = d.client(timeout=60), random.Random(3), {}
    for n in range(60):
        batch = {f"{n}-{k}": b'{"p":"%s"}' % rng.randbytes(2000).hex().encode() for k in range(100)}
        for _ in range(50):
            r = c.bulk(bulk_body("i", batch.items()))
            if r.status != 429:
                break
            time.sleep(0.1)
        assert r.status == 200 and r.json["errors"] is False, r
        docs.update(batch)
    assert c.sources("i", docs) == docs
    d.crash()
    assert d.client().sources("i", docs) == docs


def test_a_quiet_block_is_closed_short(make_daemon):
    """One that got nothing for storage.idle_seal goes to its segment, without a flush or another write."""
    d = make_daemon("storage.idle_seal=1s", "storage.checkpoint.interval=100ms")
    c = d.client()
    assert c.put_doc("i", "1", b'{"v":1}').status == 201

    def stow():
        return c.get("/i/_stats").json["indices"]["i"]["stow"]
    assert stow()["blocks"] == 0
    assert wait_until(lambda: stow()["blocks"] == 1 and stow()["disk_bytes"] > 0), stow()
    d.crash()
    assert d.client().source("i", "1") == b'{"v":1}'


def test_a_quiet_index_does_not_pin_the_log(make_daemon):
    """Its open block is closed when much of a small log has been written since; then that space is used again."""
    d = make_daemon("storage.wal.size=4mb", "storage.checkpoint.interval=200ms")
    c, rng = d.client(timeout=60), random.Random(5)
    assert c.put_doc("quiet", "1", b'{"v":1}').status == 201
    for n in range(100):
        batch = [(f"{n}-{k}", b'{"p":"%s"}' % rng.randbytes(2000).hex().encode()) for k in range(50)]
        assert wait_until(lambda: c.bulk(bulk_body("busy", batch)).status == 200), n
    assert c.get("/quiet/_stats").json["indices"]["quiet"]["stow"]["blocks"] == 1
    d.crash()
    assert d.client().source("quiet", "1") == b'{"v":1}'
    assert d.client().get("/busy/_count").json["count"] == 5000


def test_a_second_daemon_is_refused(make_daemon):
    d = make_daemon()
    d.client().put_doc("i", "1", b"{}")
    second = make_daemon(data=d.data, start=False).spawn()
    assert second.wait(10) == 75, second.log()
    assert d.data in second.log() and len(second.log().splitlines()) <= 5
    assert d.client().source("i", "1") == b"{}"
    assert d.restart().client().source("i", "1") == b"{}"


@pytest.mark.parametrize("code, arguments", [
    (78, ["-E", "bogus.setting=1"]), (78, ["-E", "http.port=many"]), (78, ["-E", "storage.wal.size=1"]),
    (78, ["--config", "/nonexistent/stowd.yml"]), (64, ["--bogus"]), (64, ["-E"])])
def test_wrong_configuration_is_78_and_wrong_usage_64(tmp_path, code, arguments):
    p = subprocess.run([STOWD, "-E", f"path.data={tmp_path}/data", *arguments], capture_output=True, text=True,
                       timeout=10)
    assert p.returncode == code, p
    assert 1 <= len(p.stderr.splitlines()) <= 3, p.stderr


def test_wrong_line_in_the_file_is_named(tmp_path):
    path = tmp_path / "stowd.yml"
    path.write_text("http:\n  port: 0\nbogus.setting: 1\n")
    p = subprocess.run([STOWD, "--config", str(path)], capture_output=True, text=True, timeout=10)
    assert p.returncode == 78 and "bogus.setting" in p.stderr and "3" in p.stderr, p.stderr


def test_order_of_sources(make_daemon, tmp_path):
    path = tmp_path / "stowd.yml"
    path.write_text("cluster:\n  name: from-file\nnode.name: from-file\n")
    d = make_daemon("cluster.name=from-flag",
                    env={"STOWD_CLUSTER_NAME": "from-env", "STOWD_IDENTITY_VERSION": "8.11.1"},
                    arguments=["--config", str(path)])
    r = d.client().get("/").json
    assert (r["cluster_name"], r["name"], r["version"]["number"]) == ("from-flag", "from-file", "8.11.1")


def test_help_and_version():
    p = subprocess.run([STOWD, "--help"], capture_output=True, text=True, timeout=10)
    assert p.returncode == 0 and "path.data" in p.stdout
    p = subprocess.run([STOWD, "--version"], capture_output=True, text=True, timeout=10)
    assert p.returncode == 0 and "stowd" in p.stdout


def test_start_that_cannot_work(make_daemon, tmp_path):
    first = make_daemon()
    busy = make_daemon(start=False)
    busy.port = first.port
    (tmp_path / "file").write_text("in the way\n")
    blocked = make_daemon(data=tmp_path / "file" / "data", start=False)
    for d, code in ((busy, 69), (blocked, 73)):
        assert d.spawn().wait(10) == code, d.log()
        assert d.log().strip()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fail", "failsync"])
def test_a_log_that_fails_ends_the_process_with_74(make_daemon, kind):
    """One of the first 60 writes or syncs is the log's: exit 74, and no write acknowledged is lost."""
    seen = set()
    for nth in range(1, 61):
        d = make_daemon("storage.wal.size=4mb", "storage.checkpoint.interval=1h",
                        env={"STOWD_IO_FAULT": f"{kind}:{nth}"}, start=False)
        if not d.spawn().wait_up():
            continue  # hit while starting
        acknowledged, c = {}, d.client()
        try:
            for n in range(30):
                r = c.put_doc("i", str(n), b'{"n":%d}' % n)
                if r.status == 201:
                    acknowledged[str(n)] = b'{"n":%d}' % n
                else:
                    assert r.status in (500, 503), r
        except IO_ERRORS:
            pass
        if d.process.poll() is None and len(acknowledged) == 30:
            d.kill()
            continue
        try:
            seen.add(d.wait(10))
        except AssertionError:
            pass  # a fault outside the log: refused and alive
        d.env = {}
        d.start()
        assert d.client().sources("i", acknowledged or ["0"]).items() >= acknowledged.items()
        if 74 in seen:
            break
    assert 74 in seen, seen
