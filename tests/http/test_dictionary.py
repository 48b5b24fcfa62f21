# SPDX-License-Identifier: Apache-2.0
"""Trained dictionaries: made where they pay, kept over SIGKILL, merge and rebuild, never needed by an
index that has none."""
import os
import random
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


# ---------------------------------------------------------------- predecessors

def few_words(count, seed=1):
    """Documents of which a dictionary learns much from little: words that recur in every block."""
    words = ["%0160x" % random.Random(n).getrandbits(640) for n in range(120)]
    rng = random.Random(seed)
    return [b'{"n":%d,"w":"%s"}' % (n, rng.choice(words).encode()) for n in range(count)]


PLAIN = {"index.codec": "zstd", "index.block.layout": "plain"}


def stow_of(client, index):
    return next(iter(client.get(f"/{index}/_stats").json["indices"].values()))["stow"]


def with_dictionary(client, index, settings=PLAIN):
    """An index that has trained one."""
    if settings is not None:
        assert client.put(f"/{index}", {"settings": settings}).status == 200
    client.load(index, [(None, d) for d in few_words(6000)], per_request=3000, op="create")
    assert client.post(f"/{index}/_forcemerge").status == 200
    assert stow_of(client, index)["dictionary_state"] == "active"
    assert stow_of(client, index)["dictionary_origin"] == "trained"


def follows(client, index):
    """The same documents again: -> what is stored, once the index has its predecessor's dictionary."""
    lines = few_words(6000, seed=2)
    docs = {}
    for at in range(0, len(lines), 1500):
        items = client.load(index, [(None, d) for d in lines[at:at + 1500]], op="create")
        docs |= {i["_id"]: d for i, d in zip(items, lines[at:])}
    assert wait_until(lambda: stow_of(client, index)["dictionary"] == 1, timeout=10)
    assert stow_of(client, index)["dictionary_origin"] == "predecessor"
    return docs


def test_series_without_templates(make_daemon):
    """logs-2026.12.01 -> logs-2026.12.02; the first one may go, and the files alone are enough."""
    daemon = make_daemon("storage.checkpoint.interval=1h")
    c = daemon.client(timeout=60)
    with_dictionary(c, "logs-2026.12.01")
    assert c.put("/logs-2026.12.02", {"settings": PLAIN}).status == 200
    assert c.put("/other-2026.12.02", {"settings": PLAIN}).status == 200
    docs = follows(c, "logs-2026.12.02")
    c.load("other-2026.12.02", [(None, d) for d in few_words(6000)], per_request=1500)
    assert stow_of(c, "other-2026.12.02")["dictionary_state"] == "learning"
    assert c.delete("/logs-2026.12.01").status == 200
    more = few_words(1500, seed=3)
    docs |= {i["_id"]: d for i, d in zip(c.load("logs-2026.12.02", [(None, d) for d in more]), more)}
    daemon.crash()
    c = daemon.client(timeout=60)
    assert c.sources("logs-2026.12.02", docs) == docs
    assert stow_of(c, "logs-2026.12.02")["dictionary_origin"] == "predecessor"
    assert c.post("/_forcemerge").status == 200
    assert c.sources("logs-2026.12.02", docs) == docs
    assert daemon.stop() == 0
    for command in ("check", "rebuild", "check"):
        done = subprocess.run([STOWCTL, command, str(daemon.data)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    c = daemon.start().client(timeout=60)
    assert c.sources("logs-2026.12.02", docs) == docs
    assert stow_of(c, "logs-2026.12.02")["dictionary_state"] == "active"


def test_rollover_of_an_alias(client, index):
    assert client.put(f"/{index}-000001", {"settings": PLAIN, "aliases": {f"w-{index}": {
        "is_write_index": True}}}).status == 200
    with_dictionary(client, f"{index}-000001", None)
    r = client.post(f"/w-{index}/_rollover/{index}-another-name-x", {"settings": PLAIN})
    assert r.json["rolled_over"] is True
    follows(client, f"{index}-another-name-x")


def test_rollover_of_a_data_stream(client, index):
    assert client.put(f"/_index_template/{index}", {
        "index_patterns": [f"{index}*"], "data_stream": {}, "priority": 500,
        "template": {"settings": PLAIN}}).status == 200
    assert client.put(f"/_data_stream/{index}").status == 200

    def backing():
        return client.get(f"/_data_stream/{index}").json["data_streams"][0]["indices"][-1]["index_name"]
    lines = [b'{"@timestamp":"2026-12-01T00:00:00Z",' + d[1:] for d in few_words(6000)]
    client.load(index, [(None, d) for d in lines], per_request=3000, op="create")
    first = backing()
    assert client.post(f"/{first}/_forcemerge").status == 200
    assert stow_of(client, first)["dictionary_state"] == "active"
    assert client.post(f"/{index}/_rollover").json["rolled_over"] is True
    assert backing() != first
    for at in range(0, 6000, 1500):
        client.load(index, [(None, d) for d in lines[at:at + 1500]], op="create")
    assert wait_until(lambda: stow_of(client, backing())["dictionary"] == 1, timeout=10)
    assert stow_of(client, backing())["dictionary_origin"] == "predecessor"
    assert client.delete(f"/_data_stream/{index}").status == 200
    assert client.delete(f"/_index_template/{index}").status == 200


@pytest.mark.parametrize("kind", ["_index_template", "_template"])
def test_of_the_same_template(client, index, kind):
    body = {"index_patterns": [f"{index}-*"]}
    body |= ({"template": {"settings": PLAIN}, "priority": 500} if kind == "_index_template"
             else {"settings": PLAIN})
    assert client.put(f"/{kind}/{index}", body).status == 200
    with_dictionary(client, f"{index}-paris", None)
    follows(client, f"{index}-london")
    assert client.delete(f"/{kind}/{index}").status == 200


def test_never_where_none_is_wanted(client, index):
    with_dictionary(client, f"{index}-1")
    for n, settings in enumerate(({"index.codec": "zstd_no_dict", "index.block.layout": "plain"},
                                  {"index.codec": "lz4", "index.block.layout": "plain"},
                                  {"index.codec": "zlib"}, {"index.codec": "none"})):
        name = f"{index}-{n + 2}"
        assert client.put(f"/{name}", {"settings": settings}).status == 200
        client.load(name, [(None, d) for d in few_words(6000)], per_request=1500)
        assert client.post(f"/{name}/_flush").status == 200
        stow = stow_of(client, name)
        assert stow["dictionary"] == 0 and stow["dictionary_state"] == "none", stow


def test_small_ones_do_not_get_larger(client, index):
    """Days of few documents: no file is larger for the dictionary of a big day before them."""
    few = [(None, d) for d in few_words(150)]
    assert client.put(f"/alone-{index}-x", {"settings": PLAIN}).status == 200
    client.load(f"alone-{index}-x", few)
    assert client.post(f"/alone-{index}-x/_flush").status == 200
    alone = stow_of(client, f"alone-{index}-x")["disk_bytes"]
    with_dictionary(client, f"{index}-1")
    for n in range(2, 8):
        assert client.put(f"/{index}-{n}", {"settings": PLAIN}).status == 200
        client.load(f"{index}-{n}", few)
        assert client.post(f"/{index}-{n}/_flush").status == 200
        stow = stow_of(client, f"{index}-{n}")
        assert stow["dictionary"] == 0 and stow["dictionary_state"] == "learning", stow
        assert stow["disk_bytes"] <= alone + 64, (stow, alone)
    follows(client, f"{index}-7")  # through days that have none themselves


@pytest.mark.slow
def test_failures_are_shown_and_kept(make_daemon):
    """Random and equal samples, and few of them; a restart tries again no sooner."""
    daemon = make_daemon()
    c = daemon.client(timeout=60)
    noise = [b'{"p":"%s"}' % os.urandom(100).hex().encode() for _ in range(5000)]
    equal = [b'{"equal":1}'] * 20000
    for index, lines in (("noise", noise), ("equal", equal), ("few", few_words(20))):
        assert c.put(f"/{index}", {"settings": PLAIN}).status == 200
        assert stow_of(c, index)["dictionary_state"] == "learning"
        c.load(index, [(None, d) for d in lines], per_request=5000)
        assert c.post(f"/{index}/_forcemerge").status == 200
    assert stow_of(c, "few")["dictionary_reason"] == "too few samples"
    for index in ("noise", "equal"):
        stow = stow_of(c, index)
        assert stow["dictionary"] == 0 and stow["dictionary_state"] == "failed", stow
        assert stow["dictionary_reason"], stow
    daemon.restart()
    c = daemon.client(timeout=60)
    for index in ("noise", "equal", "few"):
        assert stow_of(c, index)["dictionary_state"] == "failed"
    c.load("noise", [(None, d) for d in few_words(4000)], per_request=2000)
    assert c.post("/noise/_forcemerge").status == 200
    assert stow_of(c, "noise")["dictionary_state"] == "failed"
    c.load("noise", [(None, d) for d in few_words(9000)], per_request=3000)
    assert c.post("/noise/_forcemerge").status == 200
    assert stow_of(c, "noise")["dictionary_state"] == "active"
