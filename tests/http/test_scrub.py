# SPDX-License-Identifier: Apache-2.0
"""The background scrub: it reads everything, finds what is damaged, says it once a pass, and takes
nothing for damage that compaction has moved."""
import os
import re
import resource
import threading
import time

import pytest
from stow import action, flip, in_threads, log_documents, ndjson, wait_until
from test_damage import records, segment_files

FAST = ("storage.scrub.rate=1gb", "storage.scrub.interval=1s")


def scrub(client, index):
    return client.get(f"/{index}/_stats").json["indices"][index]["stow"]["scrub"]


def passes(client, index, more=1, timeout=20):
    """Wait for so many whole passes that begin from now on (the one that runs may have begun)."""
    want = scrub(client, index)["passes"] + more + 1
    assert wait_until(lambda: scrub(client, index)["passes"] >= want, timeout=timeout)
    return scrub(client, index)


def lines(daemon):
    return [line for line in daemon.log().splitlines() if "scrub:" in line]


@pytest.fixture
def filled(make_daemon):
    d = make_daemon("storage.segment.size=1mb", *FAST)
    c = d.client()
    docs = {f"{n:05d}": x for n, x in enumerate(log_documents(3000))}
    for index, codec in (("hit", "none"), ("other", "zstd")):
        assert c.put(f"/{index}", {"settings": {"index.codec": codec}}).status == 200
        c.load(index, docs.items())
    assert c.post("/_flush").status == 200
    return d, docs


def threads(daemon):
    folder = f"/proc/{daemon.process.pid}/task"
    names = set()
    for task in os.listdir(folder):
        with open(f"{folder}/{task}/comm", encoding="ascii") as f:
            names.add(f.read().strip())
    return names


@pytest.mark.slow
def test_sound_data_is_read_as_a_whole(filled):
    d, _ = filled
    c = d.client()
    begun = int(time.time())
    for index in ("hit", "other"):
        before = scrub(c, index)["verified_bytes"]
        now = passes(c, index)
        size = c.get(f"/{index}/_stats").json["indices"][index]["stow"]["compressed_bytes"]
        assert now["verified_bytes"] - before >= size > 0
        assert now["damaged_blocks"] == 0
        assert now["last_pass_in_millis"] >= begun * 1000
    assert c.get("/_stats").json["_all"]["stow"]["scrub"]["verified_bytes"] > 0
    text = c.get("/_metrics").body.decode()
    assert int(re.search(r'^stowd_index_scrubbed_bytes_total{index="hit"} (\d+)', text, re.M).group(1)) > 0
    assert int(re.search(r'^stowd_index_scrub_pass_timestamp_seconds{index="hit"} (\d+)', text, re.M).group(1)) >= begun
    assert re.search(r'^stowd_index_damaged_blocks{index="hit"} 0$', text, re.M)
    assert lines(d) == [] and "scrub" in threads(d)


@pytest.mark.slow
def test_a_flipped_byte_is_found(filled):
    d, docs = filled
    c = d.client()
    path = max(segment_files(d.data), key=os.path.getsize)
    blocks = [r for r in records(path) if r[0] == "block"]
    _, at, length, *_ = blocks[1]
    flip(path, at + length // 2)
    assert wait_until(lambda: scrub(c, "hit")["damaged_blocks"] == 1, timeout=20)
    line = lines(d)[0]
    assert "index hit" in line and os.path.basename(path)[:8] in line and str(at) in line and "checksum" in line
    assert "ERROR" in line.upper()
    passes(c, "hit")
    assert scrub(c, "hit")["damaged_blocks"] == 1, "the same block counts once"
    assert passes(c, "other")["damaged_blocks"] == 0
    assert re.search(r'^stowd_index_damaged_blocks{index="hit"} 1$', c.get("/_metrics").body.decode(), re.M)
    assert all("index hit" in x and str(at) in x for x in lines(d))
    # Once it is whole again, the next pass says so.
    flip(path, at + length // 2)
    assert wait_until(lambda: scrub(c, "hit")["damaged_blocks"] == 0, timeout=20)
    assert c.sources("hit", docs) == docs


def test_a_segment_that_is_gone_is_found(filled):
    d, _ = filled
    c = d.client()
    path = max(segment_files(d.data), key=os.path.getsize)
    count = len([r for r in records(path) if r[0] == "block"])
    os.rename(path, path + ".away")
    assert wait_until(lambda: scrub(c, "hit")["damaged_blocks"] == count, timeout=20)
    assert "missing" in lines(d)[0]
    os.rename(path + ".away", path)
    assert wait_until(lambda: scrub(c, "hit")["damaged_blocks"] == 0, timeout=20)


@pytest.mark.slow
def test_a_damaged_dictionary_is_found(make_daemon):
    d = make_daemon("storage.cache.size=0", *FAST)
    c = d.client()
    assert c.put("/dict", {"settings": {"index.codec": "zstd", "index.block.size": "16kb"}}).status == 200
    c.load("dict", ((None, x) for x in log_documents(20000)))
    assert c.post("/_flush").status == 200 and c.post("/dict/_forcemerge").status == 200
    found = []
    for path in segment_files(d.data):
        with open(path, "rb") as f:
            data = f.read()
        found += [(path, at) for at in range(0, len(data), 64) if data[at:at + 4] == b"SDIC"]
    if not found:
        pytest.skip("no dictionary was worth keeping")
    flip(found[0][0], found[0][1] + 100)
    assert wait_until(lambda: scrub(c, "dict")["damaged_blocks"] >= 1, timeout=20)
    assert "dictionary" in lines(d)[0]


@pytest.mark.slow
def test_without_descriptors_nothing_is_damaged(filled):
    d, docs = filled
    c = d.client()
    passes(c, "hit")
    pid = d.process.pid
    was = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, was[1]))  # what is open stays open
    try:
        assert passes(c, "hit", 2)["damaged_blocks"] == 0
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, was)
    assert lines(d) == []
    assert c.sources("hit", docs) == docs


def test_a_new_index_is_due_after_the_interval_one_that_was_found_at_once(make_daemon):
    d = make_daemon("storage.scrub.rate=1gb", "storage.scrub.interval=1h")
    c = d.client()
    c.load("new", ((None, x) for x in log_documents(100)))
    assert c.post("/_flush").status == 200
    time.sleep(2.5)  # it looks once a second
    assert scrub(c, "new")["passes"] == 0 and scrub(c, "new")["verified_bytes"] == 0
    assert d.stop() == 0
    d.start()
    c = d.client()
    assert wait_until(lambda: scrub(c, "new")["passes"] == 1, timeout=20)


def test_a_rate_of_nothing_turns_it_off(make_daemon):
    d = make_daemon("storage.scrub.rate=0")
    assert wait_until(lambda: "compaction" in threads(d) and "checkpoint" in threads(d))  # they name themselves
    assert "scrub" not in threads(d)


@pytest.mark.slow
def test_what_is_rewritten_meanwhile_is_no_damage(make_daemon):
    d = make_daemon("storage.segment.size=1mb", "index.gc_deletes=0s",
                    "storage.scrub.rate=2mb", "storage.scrub.interval=1s")  # slow: blocks move between list and read
    stop = threading.Event()
    docs = log_documents(1500)

    def rewrite(index):
        c = d.client(timeout=60)
        assert c.put(f"/{index}", {"settings": {"index.codec": "none"}}).status == 200
        while not stop.is_set():
            assert c.bulk(ndjson(*(x for n, doc in enumerate(docs) for x in (action("index", index, str(n)), doc)))
                          ).status in (200, 429)
            assert c.post(f"/{index}/_forcemerge").status == 200
            c.load(f"{index}-gone", [("1", docs[0])])
            assert c.post(f"/{index}-gone/_flush").status == 200
            assert c.delete(f"/{index}-gone").status == 200

    def watch():
        try:
            c = d.client()
            assert wait_until(lambda: c.get("/a").status == 200 == c.get("/b").status)
            for index in ("a", "b"):
                assert passes(c, index, 3, timeout=40)["damaged_blocks"] == 0
        finally:
            stop.set()
    in_threads([lambda: rewrite("a"), lambda: rewrite("b"), watch], timeout=100)
    assert lines(d) == []
    assert d.stop() == 0
