# SPDX-License-Identifier: Apache-2.0
"""Trained dictionaries: made where they pay, kept over SIGKILL, merge and rebuild, never needed by an
index that has none."""
import os
import subprocess

import pytest
import stow
from stow import log_documents, wait_until

STOWCTL = os.path.join(os.path.dirname(stow.STOWD), "stowctl")


def dictionary(client, index):
    return client.get(f"/{index}/_stats").json["indices"][index]["stow"]["dictionary"]


def filled(daemon, index, codec, lines):
    c = daemon.client(timeout=60)
    assert c.put(f"/{index}", {"settings": {"index.codec": codec}}).status == 200
    items = c.load(index, [(None, x) for x in lines], per_request=4000)
    assert c.post(f"/{index}/_flush").status == 200
    return {i["_id"]: x for i, x in zip(items, lines)}


@pytest.mark.slow
def test_trained_used_and_kept(make_daemon):
    daemon, lines = make_daemon(), log_documents(24000)
    assert sum(map(len, lines)) > 8.5e6
    docs = filled(daemon, "logs", "zstd", lines)
    c = daemon.client(timeout=60)
    wait_until(lambda: dictionary(c, "logs") == 1, timeout=30)
    # What is written now uses it, first from the log alone.
    more = log_documents(3000, seed=2)
    docs |= {i["_id"]: x for i, x in zip(c.load("logs", [(None, x) for x in more]), more)}
    daemon.crash()
    c = daemon.client(timeout=60)
    assert dictionary(c, "logs") == 1
    assert c.sources("logs", docs) == docs
    before = c.get("/logs/_stats").json["indices"]["logs"]["total"]["store"]["size_in_bytes"]
    assert c.post("/logs/_forcemerge").status == 200
    assert c.sources("logs", docs) == docs
    assert c.get("/logs/_stats").json["indices"]["logs"]["total"]["store"]["size_in_bytes"] < before
    daemon.crash()
    assert daemon.client(timeout=60).sources("logs", docs) == docs
    assert daemon.stop() == 0
    check = subprocess.run([STOWCTL, "check", str(daemon.data)], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
    rebuild = subprocess.run([STOWCTL, "rebuild", str(daemon.data)], capture_output=True, text=True)
    assert rebuild.returncode == 0, rebuild.stdout + rebuild.stderr
    daemon.start()
    assert daemon.client(timeout=60).sources("logs", docs) == docs


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["zstd_no_dict", "lz4", "zlib", "none"])
def test_none_where_none_is_wanted(make_daemon, codec):
    daemon = make_daemon()
    docs = filled(daemon, "plain", codec, log_documents(24000))
    c = daemon.client(timeout=60)
    assert c.post("/plain/_forcemerge").status == 200
    assert dictionary(c, "plain") == 0
    assert c.sources("plain", docs) == docs


@pytest.mark.slow
def test_none_where_nothing_is_to_be_learnt(make_daemon):
    daemon = make_daemon()
    lines = [b'{"p":"%s"}' % os.urandom(200).hex().encode() for _ in range(23000)]
    docs = filled(daemon, "noise", "zstd", lines)
    c = daemon.client(timeout=60)
    assert c.post("/noise/_forcemerge").status == 200
    assert dictionary(c, "noise") == 0
    assert c.sources("noise", docs) == docs
