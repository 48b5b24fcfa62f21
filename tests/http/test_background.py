# SPDX-License-Identifier: Apache-2.0
"""What the node does by itself: joining, rewriting, forgetting; its figures for ids; a full catalog."""
import os
import random
import re

import pytest
from stow import action, bulk_body, indices_bytes, ndjson, wait_until

FAST = ("storage.wal.size=8mb", "storage.segment.size=2mb", "storage.checkpoint.interval=100ms")


def stow_stats(client, index):
    return client.get(f"/{index}/_stats").json["indices"][index]["stow"]


def metric(client, name):
    text = client.get("/_metrics").body.decode()
    return sum(float(v) for v in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M))


def noise(rng, n):
    return rng.randbytes(n // 2).hex()


def nice_of(daemon, name):
    folder = f"/proc/{daemon.process.pid}/task"
    found = []
    for task in os.listdir(folder):
        with open(f"{folder}/{task}/stat", encoding="ascii") as f:
            comm, fields = f.read().split("(", 1)[1].rsplit(")", 1)
        if comm == name:
            found.append(int(fields.split()[16]))
    return found


def test_who_takes_requests_comes_first(make_daemon):
    d = make_daemon()
    assert wait_until(lambda: nice_of(d, "scrub") == [19])
    base = nice_of(d, "MHD-worker")[0]
    assert wait_until(lambda: nice_of(d, "compaction") == [min(19, base + 5)])
    assert set(nice_of(d, "worker")) == {min(19, base + 5)}
    assert nice_of(d, "committer") == [base]


def test_short_blocks_are_joined(make_daemon):
    """Nobody asks for a merge: blocks that were sealed short become few."""
    d = make_daemon(*FAST)
    c, docs = d.client(), {}
    for n in range(60):
        docs[f"{n}"] = b'{"n":%d}' % n
        assert c.put_doc("i", f"{n}", docs[f"{n}"]).status == 201
        assert c.post("/i/_flush").status == 200
    assert wait_until(lambda: stow_stats(c, "i")["blocks"] <= 30, 20), stow_stats(c, "i")
    assert c.sources("i", docs) == docs
    d.restart()
    assert d.client().sources("i", docs) == docs


@pytest.mark.slow
def test_overwriting_stays_within_twice_the_live_data(make_daemon):
    """20,000 writes over 2,000 ids: once it is quiet, the disk has at most twice what a fresh index
    with the same documents takes."""
    d = make_daemon(*FAST, "index.gc_deletes=1s")
    c, rng, docs = d.client(timeout=60), random.Random(4), {}
    for _ in range(10):
        batch = {f"id{n}": b'{"p":"%s"}' % noise(rng, 600).encode() for n in range(2000)}
        c.load("i", batch.items())
        docs.update(batch)
    c.load("fresh", docs.items())
    assert c.post("/_flush").status == 200
    live = stow_stats(c, "fresh")["compressed_bytes"]
    assert wait_until(lambda: indices_bytes(d) <= 2 * live + live, 60), (indices_bytes(d), live)
    assert wait_until(lambda: stow_stats(c, "i")["disk_bytes"] <= 2 * live, 60), stow_stats(c, "i")
    assert c.sources("i", docs) == docs
    assert c.get("/i/_count").json["count"] == 2000
    d.crash()
    assert d.client(timeout=60).sources("i", docs) == docs


@pytest.mark.slow
def test_deleting_everything_gives_the_disk_back(make_daemon):
    """Also what an open scroll held back, once it is cleared."""
    d = make_daemon(*FAST, "index.gc_deletes=1s")
    c, rng = d.client(timeout=60), random.Random(5)
    docs = {f"id{n}": b'{"p":"%s"}' % noise(rng, 1000).encode() for n in range(3000)}
    c.load("i", docs.items())
    assert c.post("/i/_flush").status == 200
    full = indices_bytes(d)
    scroll = c.post("/i/_search?scroll=5m", {"size": 10}).json
    c.bulk(ndjson(*(action("delete", "i", id) for id in docs)))
    assert c.post("/i/_flush").status == 200
    seen = len(scroll["hits"]["hits"])
    while scroll["hits"]["hits"]:
        scroll = c.post("/_search/scroll", {"scroll": "5m", "scroll_id": scroll["_scroll_id"]}).json
        seen += len(scroll["hits"]["hits"])
    assert seen == 3000, "a scroll sees its moment"
    assert indices_bytes(d) > full / 2
    assert c.delete("/_search/scroll", body={"scroll_id": scroll["_scroll_id"]}).status == 200
    assert wait_until(lambda: indices_bytes(d) < full / 5, 30), (indices_bytes(d), full)
    assert wait_until(lambda: stow_stats(c, "i")["raw_bytes"] == 0 or indices_bytes(d) < full / 20, 90), indices_bytes(d)
    assert c.get("/i/_count").json["count"] == 0


def test_figures_of_the_id_index(make_daemon):
    d = make_daemon(*FAST)
    c = d.client()
    assert metric(c, "stowd_ids_memory_max_bytes") == 64 << 20
    for n in range(20):
        c.load("i", [(f"{n}-{k}", b"{}") for k in range(100)])
        assert c.post("/i/_flush").status == 200
    assert metric(c, "stowd_ids_memory_bytes") == 0
    ids = stow_stats(c, "i")["ids"]
    assert ids["entries"] >= 2000
    # An entry takes 5 to 6 bytes, in small runs a little more.
    assert 2000 * 4 < ids["flushed_bytes"] < 2000 * 12
    assert wait_until(lambda: stow_stats(c, "i")["ids"]["merged_bytes"] > 0, 10)
    assert c.post("/i/_forcemerge").status == 200
    ids = stow_stats(c, "i")["ids"]
    assert ids["entries"] == 2000 and ids["runs"] == 1
    assert ids["write_amplification"] == pytest.approx(1 + ids["merged_bytes"] / ids["flushed_bytes"], abs=0.001)
    assert metric(c, "stowd_index_ids_merged_bytes_total") == ids["merged_bytes"]


@pytest.mark.slow
def test_full_catalog_loses_nothing(make_daemon):
    """A map of 1 MB: what does not fit is refused with a reason, reads and deletes go on. It starts
    again only with a larger one, which takes everything."""
    small = (*FAST, "storage.wal.size=4mb")
    d = make_daemon(*small, "storage.catalog.map_size=1mb")
    c, docs, refused, n = d.client(timeout=60), {}, None, 0
    assert c.put_doc("spare", "1", b"{}").status == 201
    large = {"mappings": {"_meta": {"x": "y" * 400000}}}
    assert c.put("/ballast", large).status == 200
    while refused is None and n < 400:
        batch = {f"{n}-{k:x}-{'y' * 20}": b'{"n":%d}' % k for k in range(2000)}
        r = c.bulk(bulk_body("i", batch.items()))
        if r.status == 200:
            docs.update(batch)
        else:
            refused = r
        n += 1
    assert refused is not None, "never full"
    assert refused.status == 429 and refused.error["reason"], refused
    assert "storage.catalog.map_size" in d.log(), d.log()
    r = c.put("/another", large)
    assert r.status == 429 and "map_size" in r.error["reason"], r
    sample = dict(random.Random(1).sample(sorted(docs.items()), 3000))
    assert c.sources("i", sample) == sample
    assert c.delete("/spare").status == 200, "deleting an index works on a full catalog"
    d.kill()
    assert not d.spawn().wait_up(), "the rows in the log do not fit, either"
    assert d.wait() == 73 and "storage.catalog.map_size" in d.log().splitlines()[-1], d.log()
    d.settings = [*small, "storage.catalog.map_size=64mb"]
    c = d.start().client(timeout=60)
    assert c.sources("i", docs) == docs
    assert wait_until(lambda: c.put_doc("i", "after", b"{}").status in (200, 201), 20)
