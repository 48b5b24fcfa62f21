# SPDX-License-Identifier: Apache-2.0
"""stowctl: a catalog that is lost or damaged is made again from segments, log and metadata.json, and
serves everything; meanwhile the daemon never serves a wrong document."""
import os
import random
import re
import shutil
import subprocess

import pytest
from stow import SLOW, STOWD, Client, action, bulk_body, log_documents, ndjson, wait_until

STOWCTL = os.environ.get("STOWCTL") or os.path.join(os.path.dirname(STOWD), "stowctl")
pytestmark = pytest.mark.skipif(not os.access(STOWCTL, os.X_OK), reason=f"{STOWCTL} is not built")


def stowctl(*arguments):
    """(exit code, output) of stowctl."""
    done = subprocess.run([STOWCTL, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120 * SLOW)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def listing(data):
    return sorted(os.path.relpath(os.path.join(folder, f), data)
                  for folder, _, files in os.walk(data) for f in files)


def lose_catalog(data):
    shutil.rmtree(os.path.join(data, "catalog"))


@pytest.fixture
def busy(make_daemon):
    """A daemon with two indices that have seen every kind of write, in segments and in the log; it
    is not stopped yet. -> daemon, {(index, id): bytes or None when deleted}."""
    rng = random.Random(4)
    d = make_daemon("storage.checkpoint.interval=1h", "storage.segment.size=1mb", "storage.wal.size=8mb")
    c = d.client()
    assert c.put("/_index_template/t1", {"index_patterns": ["tpl-*"], "template": {
        "settings": {"index.codec": "lz4"}}}).status == 200
    known = {}
    for index, settings in (("alpha", {"index.codec": "zstd"}), ("beta", {"index.codec": "best_speed"})):
        assert c.put(f"/{index}", {"settings": settings, "mappings": {"properties": {"n": {"type": "long"}}},
                                   "aliases": {f"{index}-alias": {}}}).status == 200
        docs = log_documents(1500, seed=len(index))
        for id, doc in ((f"c{n}", x) for n, x in enumerate(docs[:700])):
            known[index, id] = doc
        c.load(index, [(id, x) for (i, id), x in known.items() if i == index])
        made = c.load(index, [(None, x) for x in docs[700:]])
        known.update({(index, item["_id"]): x for item, x in zip(made, docs[700:])})
    assert c.post("/_flush").status == 200
    for round in range(3):
        for index in ("alpha", "beta"):
            mine = [key for key in known if key[0] == index]
            lines = []
            for key in rng.sample(mine, 150):
                known[key] = rng.choice([None, b'{"changed":%d}' % rng.randrange(10 ** 9)])
                lines += ([action("delete", *key)] if known[key] is None
                          else [action("index", *key), known[key]])
            assert c.bulk(ndjson(*lines)).status == 200
        if round == 0:
            assert c.post("/_forcemerge").status == 200
        if round < 2:
            assert c.post("/_flush").status == 200
    yield d, known


def check_all(client, known):
    for index in {i for i, _ in known}:
        mine = {id: doc for (i, id), doc in known.items() if i == index}
        assert client.sources(index, mine) == mine
        count = sum(doc is not None for doc in mine.values())
        assert client.get(f"/{index}/_stats").json["_all"]["primaries"]["docs"]["count"] == count


def works(d, known):
    """Everything is served, and writing goes on, over a restart, too."""
    c = d.client()
    check_all(c, known)
    assert c.head("/_index_template/t1").status == 200
    assert c.get("/alpha-alias/_source/none").status == 404
    assert c.get("/alpha/_settings").json["alpha"]["settings"]["index"]["codec"] == "zstd"
    assert c.get("/beta/_mapping").json["beta"]["mappings"] == {"properties": {"n": {"type": "long"}}}
    key = next(k for k, doc in known.items() if doc is not None)
    r = c.put_doc(*key, b'{"after":1}')
    assert r.status == 200 and r.json["_version"] >= 2, r
    assert c.put_doc("alpha", "brand new", b'{"new":1}').status == 201
    made = c.post("/alpha/_doc", b'{"made":1}').json["_id"]
    assert c.put("/gamma").status == 200 and c.put_doc("gamma", "1", b"{}").status == 201
    known = {**known, key: b'{"after":1}', ("alpha", "brand new"): b'{"new":1}',
             ("alpha", made): b'{"made":1}', ("gamma", "1"): b"{}"}
    d.crash()
    check_all(d.client(), known)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_rebuild_without_a_catalog(busy, how):
    d, known = busy
    if how == "stopped":
        assert d.stop() == 0
        code, text = stowctl("check", d.data)
        assert code == 0, text
    else:
        wait_until(lambda: False, 1.5)  # metadata.json follows within a second
        d.kill()
    lose_catalog(d.data)
    assert d.spawn().wait(10) == 65 and "stowctl rebuild" in d.log()
    code, text = stowctl("rebuild", d.data)
    assert code == 0, text
    assert re.search(r"index \[alpha\]: \d+ documents", text), text
    code, text = stowctl("check", d.data)
    assert code == 0, text
    d.start()
    works(d, known)


def test_rebuild_is_repeatable_and_keeps_the_old_catalog(busy):
    d, known = busy
    d.kill()
    for n in (1, 2):
        assert stowctl("rebuild", d.data)[0] == 0
        assert os.path.exists(os.path.join(d.data, f"catalog.damaged-{n}", "data.mdb"))
    d.start()
    works(d, known)


def test_rebuild_without_metadata_json(busy):
    """Segments name their index; only templates are gone."""
    d, known = busy
    assert d.stop() == 0
    lose_catalog(d.data)
    os.unlink(os.path.join(d.data, "metadata.json"))
    code, text = stowctl("rebuild", d.data)
    assert code == 0 and "metadata.json" in text, text
    d.start()
    check_all(d.client(), known)
    assert d.client().get("/alpha/_settings").json["alpha"]["settings"]["index"]["codec"] == "zstd"
    assert d.client().get("/_index_template/t1").status == 404


def test_an_index_that_only_the_log_has(make_daemon):
    d = make_daemon("storage.checkpoint.interval=1h")
    c = d.client()
    c.put("/young", {"settings": {"index.codec": "lz4"}})
    assert wait_until(lambda: "young" in open(os.path.join(d.data, "metadata.json")).read())
    assert c.put_doc("young", "1", b'{"a": 1}').status == 201
    d.kill()
    lose_catalog(d.data)
    code, text = stowctl("rebuild", d.data)
    assert code == 0, text
    assert d.start().client().source("young", "1") == b'{"a": 1}'
    assert d.client().get("/young/_settings").json["young"]["settings"]["index"]["codec"] == "lz4"


def test_nothing_describes_an_index(make_daemon):
    """Made a moment before everything was lost: its rows come back under a name of their own."""
    d = make_daemon("storage.checkpoint.interval=1h")
    c = d.client()
    c.put("/young")
    assert c.put_doc("young", "1", b'{"a": 1}').status == 201
    d.kill()
    lose_catalog(d.data)
    os.path.exists(path := os.path.join(d.data, "metadata.json")) and os.unlink(path)
    code, text = stowctl("rebuild", d.data)
    assert code == 1, text
    name = re.search(r"\[(recovered-[0-9a-f]{8})\]", text).group(1)
    assert d.start().client().source(name, "1") == b'{"a": 1}'


def test_a_name_that_two_directories_claim(make_daemon, tmp_path):
    d = make_daemon("storage.checkpoint.interval=1h")
    c = d.client()
    c.put("/twice")
    c.load("twice", [("old", b'{"v":1}')])
    assert c.post("/_flush").status == 200
    uuid = os.listdir(os.path.join(d.data, "indices"))[0]
    shutil.copytree(os.path.join(d.data, "indices", uuid), tmp_path / uuid)
    assert c.delete("/twice").status == 200
    c.put("/twice")
    c.load("twice", [("new", b'{"v":2}')])
    assert d.stop() == 0
    shutil.copytree(tmp_path / uuid, os.path.join(d.data, "indices", uuid), dirs_exist_ok=True)
    code, text = stowctl("rebuild", d.data)
    assert code == 0 and "twice-recovered-1" in text and "not in metadata.json" in text, text
    c = d.start().client()
    assert c.source("twice", "new") == b'{"v":2}' and c.source("twice", "old") is None
    assert c.source("twice-recovered-1", "old") == b'{"v":1}'


@pytest.mark.parametrize("log", [True, False])
def test_a_damaged_block_costs_what_it_holds(busy, log):
    """Nothing while the log still has its rows."""
    d, known = busy
    assert d.stop() == 0
    if not log:
        for f in os.listdir(os.path.join(d.data, "wal")):
            os.unlink(os.path.join(d.data, "wal", f))
    path = max((os.path.join(d.data, f) for f in listing(d.data) if f.endswith(".seg")), key=os.path.getsize)
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        f.write(b"\xff" * 64)
    code, text = stowctl("check", d.data)
    assert code == 1 and "damage" in text, text
    code, text = stowctl("rebuild", d.data)
    assert code == 1, text
    c = d.start().client()
    lost = 0
    for index in ("alpha", "beta"):
        mine = {id: doc for (i, id), doc in known.items() if i == index}
        for id, source in c.sources(index, mine).items():
            lost += source is None and mine[id] is not None
            # A lost row may show the one before it, if that was not rewritten yet.
            assert source in (None, mine[id]) or b"changed" in (mine[id] or b"changed"), id
    assert lost == 0 if log else 0 < lost < len(known) // 2, text


def test_arguments_and_locking(busy, tmp_path):
    d, _ = busy
    assert stowctl("check", d.data)[0] == 75
    assert stowctl("rebuild", d.data)[0] == 75
    assert stowctl("--version")[1].startswith("stowctl ")
    assert "rebuild" in stowctl("--help")[1]
    for arguments in ([], ["check"], ["mend", d.data], ["check", "--rows", d.data], ["--wrong"]):
        assert stowctl(*arguments)[0] == 64, arguments
    assert stowctl("check", tmp_path / "none")[0] == 73
    d.kill()
    assert stowctl("check", d.data)[0] == 0
    code, text = stowctl("dump", "--rows", d.data)
    assert code == 0 and re.search(r"segment \d+ of index", text), text[:2000]
    assert "batch" in text and '{"changed":' in text


# ---------------------------------------------------------------- flips in the catalog

POSITIONS = int(os.environ.get("STOWD_FLIPS", "60"))


def serve(d, known, sample):
    """Start on a damaged catalog; False when it does not start, which must name the remedy."""
    d.spawn()
    if not d.wait_up():
        code = d.wait(5)
        assert code != 0 and (code < 0 or "stowctl rebuild" in d.log()), (code, d.log())
        return
    c = Client(d.port, timeout=5)
    for key in sample:
        try:
            r = c.get(f"/{key[0]}/_source/{key[1]}")
        except OSError:
            break  # LMDB ended the process
        if r.status == 200:
            assert r.body == known[key], f"{key}: a wrong document"
        else:
            assert r.status == 404 or "reason" in r.error, r
    d.kill()


@pytest.mark.slow
def test_flips_in_the_catalog(busy, tmp_path):
    """One byte anywhere in LMDB's pages: right documents, errors or no start; never a wrong document,
    and nothing that rebuilding cannot make good."""
    d, known = busy
    assert d.stop() == 0
    saved = tmp_path / "saved"
    shutil.copytree(d.data, saved)
    size = os.path.getsize(os.path.join(d.data, "catalog", "data.mdb"))
    rng = random.Random(9)
    sample = rng.sample(sorted(known), 60)
    places = [at + rng.randrange(64) for at in rng.sample(range(0, size - 63, 64), min(POSITIONS, size // 64))]
    for n, place in enumerate(places):
        shutil.rmtree(d.data)
        shutil.copytree(saved, d.data)
        with open(os.path.join(d.data, "catalog", "data.mdb"), "r+b") as f:
            f.seek(place)
            byte = f.read(1)[0]
            f.seek(place)
            f.write(bytes([byte ^ (1 << n % 8)]))
        serve(d, known, sample)
        code, text = stowctl("rebuild", d.data)
        assert code == 0, (place, text)
        d.start()
        check_all(d.client(), known)
        d.kill()
