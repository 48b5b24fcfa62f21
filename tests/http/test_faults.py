# SPDX-License-Identifier: Apache-2.0
"""The disk breaks at the Nth operation, for every N of a small scenario: nothing that was
acknowledged is lost, nothing wrong is served. STOWD_IO_FAULT=kind:N is the seam in storage/io.c."""
import http.client

import pytest
from stow import Client, bulk_body

DISK = ("storage.wal.size=4mb", "storage.segment.size=1mb", "storage.checkpoint.interval=100ms")
LOST = (OSError, http.client.HTTPException)


class Scenario:
    """A few writes of every kind.

    certain  id -> bytes (None: deleted), as acknowledged last
    open     id -> values that requests without a good answer may have left"""

    def __init__(self, port):
        self.client = Client(port, timeout=20)
        self.certain, self.open, self.answers = {}, {}, []
        self.complete = False

    def step(self, docs, good, call):
        """call() writes docs (id -> bytes, None: deleted)."""
        status = None
        try:
            r = call()
            status = r.status
            if status == 200 and b'"items":' in r.body:
                assert r.json["errors"] is False, "single items of a bulk fail"
        finally:
            self.answers.append(status)
            for id, doc in docs.items():
                if status in good:
                    self.certain[id] = doc
                elif status is None or status >= 500:  # 4xx: refused, has left nothing
                    self.open.setdefault(id, []).append(doc)
        return status in good

    def run(self):
        c, written = self.client, (200, 201)
        first = {f"b{n}": b'{"n":%d,"p":"%s"}' % (n, b"y" * 500) for n in range(60)}
        try:
            ok = c.put("/i", {"settings": {"index.codec": "zstd"}}).status == 200
            ok &= self.step({"1": b'{"v":1}'}, written, lambda: c.put_doc("i", "1", b'{"v":1}'))
            ok &= self.step(first, written, lambda: c.bulk(bulk_body("i", first.items())))
            ok &= c.post("/i/_flush").status == 200
            ok &= self.step({"b0": None}, (200,), lambda: c.delete("/i/_doc/b0"))
            ok &= self.step({"2": b'{"v":2}'}, written, lambda: c.put_doc("i", "2", b'{"v":2}'))
            ok &= c.put("/j").status == 200
            ok &= c.delete("/j").status == 200
            ok &= c.post("/_flush").status == 200
            self.complete = ok
        except LOST:
            pass

    def check(self, client, kind):
        for id in self.certain.keys() | self.open.keys():
            r = client.get(f"/i/_source/{id}")
            if kind == "garble" and r.status >= 500:
                continue  # damaged, and says so
            assert r.status in (200, 404), r
            got = r.body if r.status == 200 else None
            assert got in [self.certain.get(id), *self.open.get(id, [])], (id, self.answers, r)


def one(make_daemon, kind, nth):
    """The scenario with that fault. True when neither start, answers nor stop show anything of it."""
    d = make_daemon(*DISK, env={"STOWD_IO_FAULT": f"{kind}:{nth}"}, start=False)
    scenario, code = None, None
    if d.spawn().wait_up():
        scenario = Scenario(d.port)
        scenario.run()
        # Orderly, so that the last checkpoint is broken, too; it may have ended with 74 before that.
        code = d.stop() if d.alive() else d.wait(5)
        assert code in (0, 74), (code, d.log())
    else:
        code = d.wait(5)
        assert code > 0 and d.log().strip(), (code, d.log())
    d.env = {}
    d.spawn()
    if not d.wait_up():
        assert kind == "garble" and d.wait(5) > 0 and d.log().strip(), f"{kind}:{nth}\n{d.log()}"
    elif scenario is not None:
        scenario.check(d.client(), kind)
        assert d.client().put_doc("again", "1", b"{}").status == 201
    d.kill()
    return scenario is not None and scenario.complete and code == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fail", "short", "full", "failsync", "garble"])
def test_every_operation_fails_once(make_daemon, kind):
    """Ends when 10 in a row show nothing: the scenario has fewer operations than that N."""
    quiet, nth = 0, 0
    while quiet < 10 and nth < 120:
        nth += 1
        quiet = quiet + 1 if one(make_daemon, kind, nth) else 0
    assert nth > 10, "no fault was ever seen: is the seam there?"
