# SPDX-License-Identifier: Apache-2.0
"""A full disk refuses whole writes, keeps reads and deletes going, and heals by itself."""
import os
import random
import subprocess
import time

import pytest
from stow import bulk_body, wait_until


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 48 MB, mounted for the test."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(mount)], capture_output=True,
                          text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting a tmpfs is not allowed here: {done.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=False)


def fill(client, rng, docs, most=800):
    """Bulks of incompressible documents until one is refused: its answer, and its documents."""
    for n in range(most):
        batch = {f"{len(docs)}-{k}": b'{"p":"%s"}' % rng.randbytes(4000).hex().encode() for k in range(25)}
        r = client.bulk(bulk_body("i", batch.items()))
        if r.status != 200:
            return r, batch
        assert r.json["errors"] is False, "a full disk must not fail single items"
        docs.update(batch)
    raise AssertionError("never refused")


@pytest.mark.slow
def test_full_disk(small_disk, make_daemon):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\1" * (16 << 20))
    d = make_daemon("storage.wal.size=8mb", "storage.segment.size=2mb", "storage.reserve=2mb",
                    "storage.checkpoint.interval=200ms", data=small_disk / "data")
    c, rng, docs = d.client(timeout=60), random.Random(1), {}
    assert c.put_doc("spare", "1", b'{"p":"%s"}' % (b"s" * 100000)).status == 201
    r, refused = fill(c, rng, docs)
    assert r.status == 429 and r.error["type"] and r.error["reason"], r
    assert len(docs) > 50
    lines = len(d.log().splitlines())
    for n in range(30):
        r = c.put_doc("i", "one", b'{"p":"%s"}' % rng.randbytes(50000).hex().encode())
        assert r.status in (200, 201, 429), r
    assert len(d.log().splitlines()) - lines < 15, "the log is flooded"
    assert c.sources("i", docs) == docs
    assert set(c.sources("i", refused).values()) == {None}
    d.crash()
    c = d.client(timeout=60)
    assert c.sources("i", docs) == docs
    assert c.delete("/spare").status == 200, "DELETE of an index works on a full disk"
    ballast.unlink()
    assert wait_until(lambda: c.put_doc("i", "after", b"{}").status in (200, 201), 20), "does not heal"
    more = {f"more{n}": b'{"p":"%s"}' % rng.randbytes(4000).hex().encode() for n in range(300)}
    c.load("i", more.items(), per_request=25)
    docs.update(more)
    d.restart()
    assert d.client().sources("i", docs) == docs


@pytest.mark.slow
def test_deleting_an_index_makes_room(small_disk, make_daemon):
    d = make_daemon("storage.wal.size=8mb", "storage.segment.size=2mb", "storage.reserve=1mb",
                    "storage.checkpoint.interval=200ms", data=small_disk / "data")
    c, rng = d.client(timeout=60), random.Random(2)
    fill(c, rng, {})
    assert c.delete("/i").json == {"acknowledged": True}
    assert wait_until(lambda: c.put_doc("j", "1", b"{}").status in (200, 201), 20)
    time.sleep(0.5)
    docs = {}
    for n in range(40):
        batch = {f"{n}-{k}": b'{"p":"%s"}' % rng.randbytes(4000).hex().encode() for k in range(25)}
        if c.bulk(bulk_body("j", batch.items())).status != 200:
            break
        docs.update(batch)
    assert len(docs) > 500
    assert c.sources("j", docs) == docs
