# SPDX-License-Identifier: Apache-2.0
"""Damaged files: what is hit is named, everything else is served, nothing wrong is ever served.
The layouts are those of docs/format.md."""
import os
import shutil
import struct

import pytest
from stow import flip, log_documents

ALIGN = 64


def padded(length, to=ALIGN):
    return (length + to - 1) // to * to


def segment_files(data):
    return sorted(os.path.join(folder, f) for folder, _, files in os.walk(os.path.join(data, "indices"))
                  for f in files if f.endswith(".seg"))


def records(path):
    """(kind, offset, length, meta length, data length) of a segment's records."""
    with open(path, "rb") as f:
        data = f.read()
    out, at = [], 0
    while at + 64 <= len(data):
        magic = data[at:at + 4]
        if magic == b"SSEG":
            length = 64 + struct.unpack_from("<I", data, at + 40)[0]
            out.append(("header", at, length, 0, 0))
        elif magic == b"SBLK":
            meta, data_len, extra = (struct.unpack_from("<I", data, at + o)[0] for o in (28, 36, 44))
            length = 64 + meta + data_len + extra
            out.append(("block", at, length, meta, data_len))
        else:  # the footer's entries; the footer itself is the last record
            break
        at += padded(length)
    if data[-64:-60] == b"SFTR":
        out.append(("footer", len(data) - 64, 64, 0, 0))
    return out


@pytest.fixture
def stopped(make_daemon):
    """A data directory with three indices, all of it in segments, and its documents. The one
    without compression has filled a segment, which is sealed by a footer."""
    d = make_daemon("storage.segment.size=1mb")
    c = d.client()
    docs = {f"{n:05d}": x for n, x in enumerate(log_documents(4000))}
    for index, codec in (("hit", "zstd"), ("other", "zstd"), ("raw", "none")):
        c.put(f"/{index}", {"settings": {"index.codec": codec}})
        c.load(index, docs.items())
    assert c.post("/_flush").status == 200
    c.put_doc("raw", "more", b"{}")  # begins the next segment
    assert c.post("/_flush").status == 200
    assert d.stop() == 0, d.log()
    return d, docs


def damage_of(client, index, docs):
    """Ids of documents that are refused as damaged; every other one must be right."""
    damaged = []
    for id, doc in docs.items():
        r = client.get(f"/{index}/_source/{id}")
        if r.status == 200:
            assert r.body == doc, f"{id}: a wrong document"
        else:
            assert r.status >= 500, f"{id}: damage must not look like absence: {r}"
            assert r.error["reason"]
            damaged.append(id)
    return damaged


def hit_segment(d, uuid_of):
    """A segment of that index with at least three blocks, and its blocks."""
    for path in segment_files(d.data):
        blocks = [r for r in records(path) if r[0] == "block"]
        with open(path, "rb") as f:
            description = f.read(65536)
        if len(blocks) >= 3 and f'"{uuid_of}"'.encode() in description:
            return path, blocks
    raise AssertionError("no segment with three blocks: is the layout that of docs/format.md?")


@pytest.mark.parametrize("part", ["magic", "version", "codec", "rows", "checksum", "meta", "data", "last byte"])
def test_a_flipped_byte_in_a_block(stopped, part):
    d, docs = stopped
    path, blocks = hit_segment(d, "hit")
    _, at, length, meta, data = blocks[1]
    offset = {"magic": 0, "version": 4, "codec": 6, "rows": 24, "checksum": 60, "meta": 64 + meta // 2,
              "data": 64 + meta + data // 2, "last byte": length - 1}[part]
    flip(path, at + offset)
    d.start()
    c = d.client()
    damaged = damage_of(c, "hit", docs)
    assert 0 < len(damaged) < len(docs) // 2, (part, len(damaged))
    r = c.get(f"/hit/_source/{damaged[0]}")
    assert any(word in r.error["reason"] for word in ("checksum", "damage", "magic", "version", "segment")), r
    some = [damaged[0]] + [i for i in docs if i not in set(damaged)][:3]
    found = c.post("/hit/_mget", {"ids": some}).json["docs"]
    assert "error" in found[0] and [x["found"] for x in found[1:]] == [True] * 3
    assert damage_of(c, "other", docs) == []
    assert c.put_doc("hit", "new", b"{}").status == 201
    assert c.put_doc("hit", damaged[0], b"{}").status in (200, 201, 500, 503)
    assert d.stop() == 0, d.log()


@pytest.mark.parametrize("part", ["header", "footer", "padding"])
def test_a_flipped_byte_outside_blocks_costs_no_document(stopped, part):
    d, docs = stopped
    index = "raw" if part == "footer" else "hit"
    path, blocks = hit_segment(d, index)
    if part == "padding":
        offset = next((at + length for _, at, length, *_ in blocks if length % ALIGN), None)
        if offset is None:
            pytest.skip("no block has padding")
    else:
        spans = {kind: at for kind, at, *_ in records(path)}
        if part not in spans:
            pytest.skip(f"no {part} in this segment")
        offset = spans[part] + 20
    flip(path, offset)
    d.start()
    assert damage_of(d.client(), index, docs) == []
    assert damage_of(d.client(), "other", docs) == []


def test_a_segment_cut_short(stopped):
    d, docs = stopped
    path, blocks = hit_segment(d, "hit")
    os.truncate(path, blocks[-1][1] + 100)
    d.spawn()
    if d.wait_up():
        damaged = damage_of(d.client(), "hit", docs)
        assert 0 < len(damaged) < len(docs)
        assert damage_of(d.client(), "other", docs) == []
    else:
        assert d.wait(5) > 0 and "seg" in d.log()


def test_bytes_behind_the_catalog_mean_nothing(stopped):
    d, docs = stopped
    for path in segment_files(d.data):
        with open(path, "ab") as f:
            f.write(os.urandom(5000))
    d.start()
    assert damage_of(d.client(), "hit", docs) == []
    assert d.client().put_doc("hit", "new", b"{}").status == 201
    d.crash()
    assert d.client().source("hit", "new") == b"{}"


# ---------------------------------------------------------------- the log

def batches(data):
    """(run, number, file, offset, payload length) of every batch header in the log, in order."""
    out = []
    folder = os.path.join(data, "wal")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, "rb") as f:
            raw = f.read()
        for at in range(0, len(raw) - 63, 4096):
            if raw[at:at + 8] == b"STOWWAL1":
                run, number = struct.unpack_from("<QQ", raw, at + 8)
                out.append((run, number, path, at, struct.unpack_from("<Q", raw, at + 40)[0]))
    last_run = max(b[0] for b in out)
    return sorted(b for b in out if b[0] == last_run)


@pytest.fixture
def crashed(make_daemon):
    """Killed with 30 documents that only the log has, one batch each."""
    d = make_daemon("storage.checkpoint.interval=1h", "storage.wal.size=4mb")
    docs = {f"{n:02d}": b'{"n":%d,"p":"%s"}' % (n, b"x" * 300) for n in range(30)}
    c = d.client()
    c.put("/i")
    for id, doc in docs.items():
        assert c.put_doc("i", id, doc).status == 201
    d.kill()
    return d, docs


def right_so_far(client, docs):
    """Ids found; what is found must be right."""
    found = client.sources("i", docs)
    for id, source in found.items():
        assert source in (None, docs[id]), id
    return [id for id, source in found.items() if source is not None]


@pytest.mark.parametrize("part", ["header", "payload"])
def test_damage_inside_the_log_is_not_taken_for_its_end(crashed, part):
    d, docs = crashed
    all_batches = batches(d.data)
    assert len(all_batches) >= 10
    _, _, path, at, length = all_batches[-5]
    flip(path, at + (20 if part == "header" else 64 + length // 2))
    for _ in range(2):
        assert d.spawn().wait(10) == 65, d.log()
        assert "--accept-loss" in d.log()
    d.arguments.append("--accept-loss")
    d.start()
    found = right_so_far(d.client(), docs)
    assert "00" in found and len(found) < 30
    assert d.client().put_doc("i", "new", b"{}").status == 201
    d.arguments.clear()
    d.crash()
    assert right_so_far(d.client(), docs) == found and d.client().source("i", "new") == b"{}"


@pytest.mark.parametrize("how", ["flipped byte", "cut to zeros", "half a batch", "garbage"])
def test_a_torn_tail_is_the_end(crashed, how):
    d, docs = crashed
    _, _, path, at, length = batches(d.data)[-1]
    if how == "flipped byte":
        flip(path, at + 64 + length // 2)
    else:
        start = at + {"cut to zeros": 0, "half a batch": 64 + length // 2, "garbage": 0}[how]
        with open(path, "r+b") as f:
            f.seek(start)
            size = padded(64 + length, 4096) - (start - at)
            f.write(os.urandom(size) if how == "garbage" else bytes(size))
    d.start()
    found = right_so_far(d.client(), docs)
    assert found == sorted(docs)[:29], "everything before the torn batch"
    assert d.client().put_doc("i", "29", docs["29"]).status == 201
    d.crash()
    assert len(right_so_far(d.client(), docs)) == 30


def test_garbage_behind_the_log_is_ignored(crashed):
    d, docs = crashed
    _, _, path, at, length = batches(d.data)[-1]
    end = padded(at + 64 + length, 4096)
    size = os.path.getsize(path)
    if end + 8192 > size:
        pytest.skip("the last batch ends its file")
    with open(path, "r+b") as f:
        f.seek(end)
        f.write(os.urandom(8192))
    d.start()
    assert right_so_far(d.client(), docs) == sorted(docs)


def test_a_log_file_that_is_gone(crashed):
    d, docs = crashed
    os.unlink(batches(d.data)[0][2])
    if d.spawn().wait_up():
        right_so_far(d.client(), docs)
    else:
        assert d.wait(5) > 0 and "wal" in d.log()


# ---------------------------------------------------------------- the catalog

def test_flips_in_the_catalog_never_give_a_wrong_document(stopped, tmp_path):
    d, docs = stopped
    saved = tmp_path / "saved"
    shutil.copytree(d.data, saved)
    path = os.path.join(d.data, "catalog", "data.mdb")
    size = os.path.getsize(path)
    sample = {i: docs[i] for i in list(docs)[::97]}
    for n in range(12):
        shutil.rmtree(d.data)
        shutil.copytree(saved, d.data)
        flip(path, (n * 2654435761 + 99) % size)
        d.spawn()
        if not d.wait_up():
            code = d.wait(5)
            assert code != 0 and (code < 0 or "stowctl rebuild" in d.log()), (code, d.log())
            continue
        for index in ("hit", "other"):
            for id, doc in sample.items():
                try:
                    r = d.client().get(f"/{index}/_source/{id}")
                except OSError:
                    break
                assert r.status != 200 or r.body == doc, "a wrong document"
        d.kill()
