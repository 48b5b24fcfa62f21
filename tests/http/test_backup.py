# SPDX-License-Identifier: Apache-2.0
"""stowctl backup and restore: of a daemon under load, of one that is stopped, incremental, broken off,
damaged. What is restored is compared byte for byte with what was acknowledged."""
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from test_damage import segment_files
from test_dictionary import few_words
from stow import SLOW, STOWD, Daemon, action, flip, in_threads, log_documents, ndjson, wait_until

STOWCTL = os.environ.get("STOWCTL") or os.path.join(os.path.dirname(STOWD), "stowctl")
pytestmark = pytest.mark.skipif(not os.access(STOWCTL, os.X_OK), reason=f"{STOWCTL} is not built")


def stowctl(*arguments, env=None):
    """(exit code, what it said)."""
    done = subprocess.run([STOWCTL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=120 * SLOW, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout.decode("utf-8", "replace")


def backup(data, to, *more, code=0, env=None):
    got, text = stowctl("backup", "--path.data", data, *more, to, env=env)
    assert got == code, text
    return text


def restore(backup_dir, to, code=0, env=None):
    got, text = stowctl("restore", backup_dir, to, env=env)
    assert got == code, text
    return text


def tree(folder):
    """path -> content of every file but LMDB's table of readers."""
    out = {}
    for here, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(here, name)
            if name == "lock.mdb":
                continue
            with open(path, "rb") as f:
                out[os.path.relpath(path, folder)] = f.read()
    return out


def named(backup_dir):
    """path in the data directory -> (path in the backup, bytes)."""
    with open(os.path.join(backup_dir, "manifest"), encoding="utf-8") as f:
        lines = [line.split() for line in f if line.startswith("file ")]
    return {line[3]: (line[4], int(line[2])) for line in lines}


def largest_segment(daemon, backup_dir):
    return max((p for p in named(backup_dir) if p.endswith(".seg")),
               key=lambda p: os.path.getsize(os.path.join(daemon.data, p)))


@pytest.fixture
def loaded(make_daemon):
    """A daemon with two indices, sealed segments, an open one and rows that only the log has."""
    d = make_daemon("storage.segment.size=1mb", "storage.wal.size=8mb", "storage.checkpoint.interval=1h")
    c = d.client()
    docs = {f"{n:05d}": x for n, x in enumerate(log_documents(2400))}
    for index, codec in (("a", "zstd"), ("b", "none")):
        assert c.put(f"/{index}", {"settings": {"index.codec": codec}}).status == 200
        c.load(index, docs.items())
    assert c.post("/_flush").status == 200
    assert c.put("/_index_template/t", {"index_patterns": ["t-*"],
                                        "template": {"settings": {"index.codec": "lz4"}}}).status == 200
    c.load("a", [("late", b'{"late":1}')])
    docs_a = dict(docs, late=b'{"late":1}')
    return d, {"a": docs_a, "b": docs}


def serves(daemon, known):
    for index, docs in known.items():
        c = daemon.client()
        assert c.sources(index, docs) == docs
        assert c.get(f"/{index}/_count").json["count"] == sum(x is not None for x in docs.values())


def start_on(make_daemon, data, known):
    code, text = stowctl("check", data)
    assert code == 0, text
    d = make_daemon(data=data)
    serves(d, known)
    return d


# ---------------------------------------------------------------- whole and incremental

@pytest.mark.parametrize("how", ["running", "stopped", "killed"])
def test_backup_and_restore(loaded, make_daemon, tmp_path, how):
    d, known = loaded
    if how == "stopped":
        assert d.stop() == 0
    elif how == "killed":
        d.kill()
    before = tree(d.data) if how != "running" else None
    text = backup(d.data, tmp_path / "backup")
    assert "2 indices" in text and "0 damaged" in text
    if before is not None:
        assert tree(d.data) == before, "a backup changes nothing in the data directory"
    restore(tmp_path / "backup", tmp_path / "restored")
    e = start_on(make_daemon, tmp_path / "restored", known)
    assert e.client().get("/_index_template/t").status == 200
    assert e.client().get("/a/_settings").json["a"]["settings"]["index"]["codec"] == "zstd"
    # The restored node goes on: a new run, so a term that the old one has not used.
    r = e.client().put_doc("a", "new", b'{"new":1}')
    assert r.status == 201 and r.json["_primary_term"] > 1
    e.crash()
    serves(e, {"a": dict(known["a"], new=b'{"new":1}'), "b": known["b"]})
    if how == "running":
        serves(d, known)


def test_the_users_file_is_part_of_it(loaded, tmp_path):
    d, _ = loaded
    with open(os.path.join(d.data, "users"), "w", encoding="ascii") as f:
        f.write("admin:$y$x:all\n")
    backup(d.data, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    path = tmp_path / "restored" / "users"
    assert path.read_text() == "admin:$y$x:all\n" and path.stat().st_mode & 0o777 == 0o600


def test_a_second_backup_copies_what_is_new(loaded, make_daemon, tmp_path):
    d, known = loaded
    to = tmp_path / "backup"
    backup(d.data, to)
    first = {path: os.stat(to / stored).st_ino for path, (stored, _) in named(to).items()}
    more = {f"m{n}": x for n, x in enumerate(log_documents(500, seed=7))}
    d.client().load("a", more.items())
    known["a"].update(more)
    assert d.client().post("/_flush").status == 200
    text = backup(d.data, to)
    kept = int(re.search(r"of which (\d+) were there", text).group(1))
    same = [p for p, (stored, _) in named(to).items() if first.get(p) == os.stat(to / stored).st_ino]
    assert kept >= 1 and len([p for p in same if p.endswith(".seg")]) == kept
    files = {os.path.relpath(os.path.join(here, f), to) for here, _, names in os.walk(to) for f in names}
    assert files == {stored for stored, _ in named(to).values()} | {"manifest"}, "nothing is left over"
    restore(to, tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)
    text = backup(d.data, to, "--quick")
    found = re.search(r"(\d+) segments of which (\d+) were there", text)
    assert found.group(1) == found.group(2), text


def test_what_is_rewritten_leaves_the_backup(loaded, make_daemon, tmp_path):
    d, known = loaded
    to = tmp_path / "backup"
    backup(d.data, to)
    c = d.client()
    gone = {id for id in known["b"] if int(id) % 10 != 0}
    assert c.bulk(ndjson(*(action("delete", "b", id) for id in gone))).status == 200
    known["b"] = {id: None if id in gone else x for id, x in known["b"].items()}
    assert c.delete("/a").status == 200
    del known["a"]
    assert c.post("/_forcemerge").status == 200
    backup(d.data, to)
    restore(to, tmp_path / "restored")
    e = start_on(make_daemon, tmp_path / "restored", known)
    assert e.client().get("/a").status == 404
    assert sum(n for _, n in named(to).values()) < 3 * 2 ** 20


def test_a_damaged_segment_of_the_backup_is_copied_again(loaded, make_daemon, tmp_path):
    d, known = loaded
    to = tmp_path / "backup"
    backup(d.data, to)
    stored, size = max((x for p, x in named(to).items() if p.endswith(".seg")), key=lambda x: x[1])
    flip(to / stored, size // 2)
    assert "copied again" in backup(d.data, to)
    restore(to, tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)


def test_what_was_damaged_stays_damaged(loaded, tmp_path):
    """--quick does not read it again; the manifest must not forget it."""
    d, _ = loaded
    assert d.stop() == 0
    backup(d.data, tmp_path / "good")
    segment = largest_segment(d, tmp_path / "good")
    flip(os.path.join(d.data, segment), os.path.getsize(os.path.join(d.data, segment)) // 2)
    to = tmp_path / "backup"
    for more in ([], ["--quick"], ["--quick"], []):
        text = backup(d.data, to, *more, code=1)
        assert segment in text and "1 damaged" in text, more
    assert "1 places were damaged" in restore(to, tmp_path / "restored", code=1)


def test_few_descriptors(make_daemon, tmp_path):
    """More segments than may be open: those that are left are opened in their turn."""
    d = make_daemon()
    c = d.client()
    known = {f"i{n}": {"1": b'{"n":%d}' % n} for n in range(70)}
    for index, docs in known.items():
        c.load(index, docs.items())
    assert c.post("/_flush").status == 200
    for more in ([], ["--quick"]):
        done = subprocess.run(["prlimit", "--nofile=72:72", STOWCTL, "backup", "--path.data", d.data, *more,
                               str(tmp_path / "backup")], capture_output=True, text=True, timeout=60 * SLOW)
        assert done.returncode == 0 and "0 damaged" in done.stdout, done.stdout + done.stderr
    assert "again" not in done.stderr
    restore(tmp_path / "backup", tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)


def test_what_is_not_ours_stays(loaded, tmp_path):
    d, _ = loaded
    to = tmp_path / "backup"
    backup(d.data, to)
    for name in ("2024", "20240101", "01"):
        (to / name).mkdir()
        (to / name / "report").write_text("mine")
    (to / "0").write_text("mine")
    (to / "1" / "catalog" / "mine").write_text("what lies in a backup of ours goes with it")
    (to / "2").mkdir()
    (to / "2" / "notes").write_text("mine")
    backup(d.data, to)
    assert (to / "2024" / "report").exists() and (to / "20240101" / "report").exists()
    assert (to / "01" / "report").exists() and (to / "0").exists() and (to / "2" / "notes").exists()
    assert not (to / "1").exists()


def test_a_target_at_which_another_restore_works(loaded, tmp_path):
    d, _ = loaded
    backup(d.data, tmp_path / "backup")
    (tmp_path / "restored").mkdir()
    fd = os.open(tmp_path / "restored", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert "at work" in restore(tmp_path / "backup", tmp_path / "restored", code=75)
    os.close(fd)
    restore(tmp_path / "backup", tmp_path / "restored")


# ---------------------------------------------------------------- what is refused

def test_places_that_are_refused(loaded, make_daemon, tmp_path):
    d, _ = loaded
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    assert "neither empty nor a backup" in backup(d.data, full, code=73)
    assert "neither empty nor a backup" in backup(d.data, d.data, code=73)
    assert "no catalog" in backup(full, tmp_path / "backup", code=73)
    assert os.listdir(full) == ["mine"]
    backup(d.data, tmp_path / "backup")
    other = make_daemon()
    assert "another node" in backup(other.data, tmp_path / "backup", code=73)
    assert "not empty" in restore(tmp_path / "backup", full, code=73)
    assert "no backup" in restore(full, tmp_path / "restored", code=73)
    assert not (tmp_path / "restored").exists()
    for arguments in (["backup"], ["backup", "--rate", "x", "d"], ["backup", "-E", "http.port=1", "d"],
                      ["restore", "one"], ["restore", "--quick", "a", "b"], ["backup", "--nonsense", "d"]):
        code, text = stowctl(*arguments)
        assert code == 64 and f"stowctl {arguments[0]} --help" in text, arguments


def test_a_damaged_backup_is_refused(loaded, tmp_path):
    d, _ = loaded
    backup(d.data, tmp_path / "backup")
    for path, (stored, size) in named(tmp_path / "backup").items():
        for how in ("flipped", "cut", "missing"):
            copy = tmp_path / "copy"
            shutil.copytree(tmp_path / "backup", copy)
            if how == "flipped":
                flip(copy / stored, size // 3)
            elif how == "cut":
                os.truncate(copy / stored, size - 1)
            else:
                os.unlink(copy / stored)
            text = restore(copy, tmp_path / "restored", code=65)
            assert "damaged" in text and stored in text, (path, how, text)
            assert not (tmp_path / "restored").exists(), "nothing is left of it"
            shutil.rmtree(copy)
    size = os.path.getsize(tmp_path / "backup" / "manifest")
    for at in range(0, size, size // 40):
        flip(tmp_path / "backup" / "manifest", at)
        assert "manifest" in restore(tmp_path / "backup", tmp_path / "restored", code=65)
        flip(tmp_path / "backup" / "manifest", at)
    restore(tmp_path / "backup", tmp_path / "restored")


def test_damage_in_the_data_directory_is_told(loaded, make_daemon, tmp_path):
    d, known = loaded
    assert d.stop() == 0
    backup(d.data, tmp_path / "good")
    segment = largest_segment(d, tmp_path / "good")
    flip(os.path.join(d.data, segment), os.path.getsize(os.path.join(d.data, segment)) // 2)
    text = backup(d.data, tmp_path / "bad", code=1)
    assert f"damage: index [b]: {segment}" in text and "1 damaged" in text
    assert "1 places were damaged" in restore(tmp_path / "bad", tmp_path / "restored", code=1)
    # The segment that the earlier backup has is the good one, and is kept.
    backup(d.data, tmp_path / "good")
    restore(tmp_path / "good", tmp_path / "restored-good")
    start_on(make_daemon, tmp_path / "restored-good", known)


# ---------------------------------------------------------------- broken off

@pytest.mark.slow
def test_a_full_or_failing_disk_leaves_the_earlier_backup(loaded, make_daemon, tmp_path):
    d, known = loaded
    to = tmp_path / "backup"
    backup(d.data, to)
    restore(to, tmp_path / "restored")
    was = tree(tmp_path / "restored")
    to.rename(tmp_path / "saved")
    more = {f"m{n}": x for n, x in enumerate(log_documents(1500, seed=7))}
    d.client().load("b", more.items())
    assert d.client().post("/_flush").status == 200
    known["b"].update(more)
    failed = started = 0
    for kind in ("full", "fail", "short", "garble", "failsync"):
        for n in (2, 5, 9, 14, 20):
            shutil.rmtree(to, ignore_errors=True)
            shutil.rmtree(tmp_path / "restored")
            shutil.copytree(tmp_path / "saved", to)
            code, text = stowctl("backup", "--path.data", d.data, to, env={"STOWD_IO_FAULT": f"{kind}:{n}"})
            failed += code != 0
            assert code in (0, 65, 74), text
            assert kind != "full" or code == 0 or "No space left" in text
            restore(to, tmp_path / "restored")
            now = tree(tmp_path / "restored")
            assert code != 0 or now != was
            if now != was and started < 6:  # the new one is in its place, and whole
                started += 1
                e = start_on(make_daemon, tmp_path / "restored", known)
                assert e.stop() == 0
    assert failed > 12
    # What a failed one has copied is not copied again.
    shutil.rmtree(to)
    shutil.copytree(tmp_path / "saved", to)
    assert stowctl("backup", "--path.data", d.data, to, env={"STOWD_IO_FAULT": "failsync:16"})[0] == 74
    text = backup(d.data, to)
    found = re.search(r"(\d+) segments of which (\d+) were there", text)
    assert found.group(1) == found.group(2), text


def test_no_write_that_went_wrong_is_in_a_backup(make_daemon, tmp_path):
    """Each write in turn leaves a wrong byte and reports success: a backup that counts holds everything."""
    d = make_daemon("storage.checkpoint.interval=1h")
    known = {"a": {}}
    for n in range(3):  # each a batch of the log
        docs = {f"{n}-{i}": b'{"n":%d}' % i for i in range(50)}
        d.client().load("a", docs.items())
        known["a"].update(docs)
    with open(os.path.join(d.data, "users"), "w", encoding="ascii") as f:
        f.write("admin:$y$x:all\n")
    found = whole = 0
    for n in range(1, 40):
        to = tmp_path / f"backup-{n}"
        code, text = stowctl("backup", "--path.data", d.data, to, env={"STOWD_IO_FAULT": f"garble:{n}"})
        assert code in (0, 65), text
        found += code == 65
        whole = whole + 1 if code == 0 else 0
        if code == 0:
            restore(to, tmp_path / f"restored-{n}")
            users = tmp_path / f"restored-{n}" / "users"
            assert users.read_text() == "admin:$y$x:all\n"
            users.unlink()
            e = start_on(make_daemon, tmp_path / f"restored-{n}", known)
            assert e.stop() == 0
        if whole == 2 and found != 0:
            break  # there are no more writes
    assert found >= 10 and whole == 2, found


@pytest.mark.slow
def test_killing_it_leaves_the_earlier_backup(loaded, make_daemon, tmp_path):
    d, known = loaded
    to = tmp_path / "backup"
    backup(d.data, to)
    more = {f"m{n}": x for n, x in enumerate(log_documents(3000, seed=7))}
    d.client().load("b", more.items())
    assert d.client().post("/_flush").status == 200
    p = subprocess.Popen([STOWCTL, "backup", "--path.data", d.data, "--rate", "300kb", str(to)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # In the middle: a segment is being copied that the manifest does not name.
    complete = {stored for stored, _ in named(to).values()}
    assert wait_until(lambda: any(os.path.relpath(os.path.join(here, f), to) not in complete
                                  for here, _, files in os.walk(to / "indices") for f in files))
    p.send_signal(signal.SIGKILL)
    p.wait()
    restore(to, tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)
    known["b"].update(more)
    backup(d.data, to)
    restore(to, tmp_path / "restored2")
    start_on(make_daemon, tmp_path / "restored2", known)
    serves(d, known)


def test_two_at_once_are_refused(loaded, tmp_path):
    d, _ = loaded
    to = tmp_path / "backup"
    p = subprocess.Popen([STOWCTL, "backup", "--path.data", d.data, "--rate", "200kb", str(to)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: (to / "manifest.partial").exists())
        assert "another backup" in backup(d.data, to, code=75)
        assert "being made" in restore(to, tmp_path / "restored", code=75)
    finally:
        p.kill()
        p.wait()
    assert "never finished" in restore(to, tmp_path / "restored", code=73)


@pytest.mark.slow
def test_a_restore_that_was_killed_is_no_empty_node(loaded, tmp_path):
    d, _ = loaded
    backup(d.data, tmp_path / "backup")
    p = subprocess.Popen([STOWCTL, "restore", "--rate", "300kb", str(tmp_path / "backup"), str(tmp_path / "r")],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: any(f.endswith(".seg") for _, _, files in os.walk(tmp_path / "r") for f in files))
    p.kill()
    p.wait()
    e = Daemon(tmp_path / "e", data=tmp_path / "r").spawn()
    assert e.wait(10) == 65 and "catalog" in e.log()
    assert "not empty" in restore(tmp_path / "backup", tmp_path / "r", code=73)
    # When the catalog is there, everything is.
    p = subprocess.Popen([STOWCTL, "restore", "--rate", "3mb", str(tmp_path / "backup"), str(tmp_path / "r2")])
    assert wait_until(lambda: (tmp_path / "r2" / "catalog" / "data.mdb").exists(), step=0.001, timeout=30)
    sizes = {path: os.path.getsize(tmp_path / "r2" / path) for path in named(tmp_path / "backup")}
    assert p.wait(20) == 0 and sizes == {path: n for path, (_, n) in named(tmp_path / "backup").items()}


@pytest.mark.slow
def test_a_daemon_that_starts_during_a_backup(loaded, make_daemon, tmp_path):
    """Its catalog has many free pages, which it would drop at a start when nobody reads it."""
    d, known = loaded
    c = d.client()
    for n in range(120):
        assert c.put(f"/tmp-{n}", {"mappings": {"_meta": {"x": "x" * 20000}}}).status == 200
    assert c.delete("/tmp-*").status == 200
    assert d.stop() == 0
    size = os.path.getsize(os.path.join(d.data, "catalog", "data.mdb"))
    assert size > 2 ** 20
    p = subprocess.Popen([STOWCTL, "backup", "--path.data", d.data, "--rate", "2mb", str(tmp_path / "backup")],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert wait_until(lambda: (tmp_path / "backup" / "1" / "catalog").exists())
    d.start()
    inode = os.stat(os.path.join(d.data, "catalog", "data.mdb")).st_ino
    more = {f"m{n}": x for n, x in enumerate(log_documents(500, seed=7))}
    d.client().load("a", more.items())
    out, _ = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 0, out
    assert os.stat(os.path.join(d.data, "catalog", "data.mdb")).st_ino == inode
    restore(tmp_path / "backup", tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)
    d.restart()
    serves(d, {"a": dict(known["a"], **more), "b": known["b"]})


# ---------------------------------------------------------------- what changes under it

def held_backup(d, tmp_path, meanwhile):
    """A backup that is held up once the catalog is copied, until meanwhile() has returned. -> what it said."""
    hold = tmp_path / "hold"
    hold.touch()
    p = subprocess.Popen([STOWCTL, "backup", "--path.data", d.data, str(tmp_path / "backup")],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "STOWD_TEST_BACKUP_HOLD": str(hold)})
    catalog = tmp_path / "backup" / "1" / "catalog" / "data.mdb"
    assert wait_until(lambda: catalog.exists() and catalog.stat().st_size > 0)
    meanwhile()
    hold.unlink()
    out, _ = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 0, out
    return out.decode()


@pytest.mark.slow
def test_a_log_that_was_written_over(make_daemon, tmp_path):
    d = make_daemon("storage.wal.size=4mb", "storage.checkpoint.interval=1h")
    c = d.client()
    assert c.put("/early", {"settings": {"index.codec": "none"}}).status == 200
    early = {f"{n}": b'{"early":%d}' % n for n in range(50)}
    c.load("early", early.items())  # only the log has them

    def lap():
        for n in range(40):
            while c.bulk(ndjson(*(x for i in range(50) for x in (
                    action("index", "early", f"x{n}-{i}"), b'{"x":"%s"}' % os.urandom(2500).hex().encode())))
                    ).status == 429:
                time.sleep(0.05)
            assert c.post("/_flush").status == 200
    text = held_backup(d, tmp_path, lap)
    assert "again" in text
    restore(tmp_path / "backup", tmp_path / "restored")
    e = make_daemon(data=tmp_path / "restored")
    assert e.client().sources("early", early) == early


def test_a_log_that_goes_on_is_copied_to_its_end(loaded, make_daemon, tmp_path):
    d, known = loaded
    more = {f"m{n}": x for n, x in enumerate(log_documents(300, seed=7))}
    text = held_backup(d, tmp_path, lambda: d.client().load("a", more.items()))
    assert "again" not in text
    known["a"].update(more)  # not promised; the log has them
    restore(tmp_path / "backup", tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)


def test_segments_that_go_away(loaded, make_daemon, tmp_path):
    d, known = loaded
    c = d.client()

    def rewrite():
        lines = [x for id in list(known["b"])[::2] for x in (action("index", "b", id), b'{"new":"%s"}' % id.encode())]
        assert c.bulk(ndjson(*lines)).status == 200
        known["b"].update((id, b'{"new":"%s"}' % id.encode()) for id in list(known["b"])[::2])
        assert c.post("/_forcemerge").status == 200
        assert c.delete("/a").status == 200
    text = held_backup(d, tmp_path, rewrite)
    assert "again" in text and "0 damaged" in text
    del known["a"]
    restore(tmp_path / "backup", tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", known)


def test_a_dictionary_that_comes_after_the_moment(make_daemon, tmp_path):
    """The log has blocks of it, the copied catalog does not know it: such a pair does not start."""
    d = make_daemon("storage.checkpoint.interval=1h")
    c = d.client(timeout=60)
    assert c.put("/x", {"settings": {"index.codec": "zstd", "index.block.layout": "plain"}}).status == 200
    docs = {str(n): x for n, x in enumerate(few_words(6000))}
    more = {f"m{n}": x for n, x in enumerate(few_words(6000, seed=2))}

    def train():
        c.load("x", docs.items(), per_request=3000)
        assert c.post("/x/_forcemerge").status == 200
        assert c.get("/x/_stats").json["indices"]["x"]["stow"]["dictionary"] == 1
        c.load("x", more.items(), per_request=6000)
        docs.update(more)
    held_backup(d, tmp_path, train)
    restore(tmp_path / "backup", tmp_path / "restored")
    start_on(make_daemon, tmp_path / "restored", {"x": docs})


def dictionary_records(data):
    """(path in the data directory, offset) of each."""
    out = []
    for path in segment_files(data):
        with open(path, "rb") as f:
            content = f.read()
        out += [(path, at) for at in range(0, len(content), 64) if content[at:at + 4] == b"SDIC"]
    return out


def test_a_damaged_dictionary_is_told(make_daemon, tmp_path):
    d = make_daemon()
    c = d.client(timeout=60)
    assert c.put("/x", {"settings": {"index.codec": "zstd", "index.block.layout": "plain"}}).status == 200
    c.load("x", [(str(n), x) for n, x in enumerate(few_words(6000))], per_request=3000)
    assert c.post("/x/_forcemerge").status == 200
    assert d.stop() == 0
    found = dictionary_records(d.data)
    assert found
    assert "0 damaged" in backup(d.data, tmp_path / "good")
    for path, at in found:
        flip(path, at + 100)
    text = backup(d.data, tmp_path / "bad", code=1)
    assert "dictionary 1: checksum" in text and "no copy of dictionary 1 is left" in text
    assert f"{len(found) + 1} damaged" in text


def test_a_catalog_that_is_replaced_meanwhile(loaded, tmp_path):
    d, _ = loaded
    d.stop()
    hold = tmp_path / "hold"
    hold.touch()
    p = subprocess.Popen([STOWCTL, "backup", "--path.data", d.data, str(tmp_path / "backup")],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "STOWD_TEST_BACKUP_HOLD": str(hold)})
    catalog = tmp_path / "backup" / "1" / "catalog" / "data.mdb"
    assert wait_until(lambda: catalog.exists() and catalog.stat().st_size > 0)
    assert stowctl("rebuild", d.data)[0] == 0
    hold.unlink()
    out, _ = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 75 and b"replaced" in out, out


def test_a_segment_that_is_missing(loaded, tmp_path):
    """Not rewritten: lost. The backup is made, says so, and ends with 1."""
    d, _ = loaded
    assert d.stop() == 0
    backup(d.data, tmp_path / "backup")
    segment = largest_segment(d, tmp_path / "backup")
    os.unlink(os.path.join(d.data, segment))
    text = backup(d.data, tmp_path / "second", code=1)
    assert f"{segment} is missing" in text and "1 damaged" in text


@pytest.mark.slow
def test_a_restart_in_between(loaded, make_daemon, tmp_path):
    d, known = loaded
    more = {f"m{n}": x for n, x in enumerate(log_documents(300, seed=7))}

    def restart():
        d.crash()
        d.client().load("a", more.items())
        d.restart()
    held_backup(d, tmp_path, restart)
    restore(tmp_path / "backup", tmp_path / "restored")
    code, text = stowctl("check", tmp_path / "restored")
    assert code == 0, text
    e = make_daemon(data=tmp_path / "restored")
    for index, docs in known.items():
        assert e.client().sources(index, docs) == docs


# ---------------------------------------------------------------- under load

class Writer:
    """Writes to ids of its own, in order; knows what was sent, when, and when it was acknowledged."""

    def __init__(self, daemon, number, stop):
        self.client = daemon.client()
        self.rng = random.Random(number)
        self.number = number
        self.stop = stop
        self.history = {}  # (index, id) -> [[sent, acknowledged or None, bytes or None]]
        self.made = {}     # bytes -> [sent, acknowledged or None, id]

    def run(self):
        round = 0
        while not self.stop.is_set():
            round += 1
            lines, told, made = [], [], []
            now = time.monotonic()
            for _ in range(self.rng.randrange(1, 120)):
                key = self.rng.choice(("k1", "k2")), f"{self.number}-{self.rng.randrange(400)}"
                if any(key == k for k, _ in told):
                    continue
                doc = None if self.rng.random() < 0.2 else (
                    b'{"w":%d,"r":%d,"x":"%s"}' % (self.number, round, b"%x" % self.rng.getrandbits(12000)))
                lines += [action("delete", *key)] if doc is None else [action("index", *key), doc]
                told.append((key, [now, None, doc]))
            for n in range(self.rng.randrange(0, 20)):
                doc = b'{"made":"%d-%d-%d","x":"%x"}' % (self.number, round, n, self.rng.getrandbits(8000))
                lines += [action("index", "made"), doc]
                made.append((doc, [now, None, None]))
            for key, write in told:
                self.history.setdefault(key, []).append(write)
            self.made.update(made)
            r = self.client.bulk(ndjson(*lines))
            if r.status == 429:
                for key, _ in told:
                    self.history[key].pop()
                for doc, _ in made:
                    del self.made[doc]
                time.sleep(0.02)
                continue
            items, now = r.items, time.monotonic()
            assert all(i["status"] < 300 or i["status"] == 404 for i in items), r
            for _, write in told:
                write[1] = now
            for (_, write), item in zip(made, items[len(told):]):
                write[1:] = [now, item["_id"]]


def compare(daemon, writers, begun, ended):
    """What was restored from a backup that was made between two moments."""
    c = daemon.client()
    sure = 0
    for w in writers:
        for index in ("k1", "k2"):
            mine = {id: h for (i, id), h in w.history.items() if i == index}
            found = c.sources(index, mine)
            for id, history in mine.items():
                known = [i for i, (_, acknowledged, _) in enumerate(history)
                         if acknowledged is not None and acknowledged < begun]
                allowed = [history[known[-1]][2]] if known else [None]
                allowed += [doc for sent, _, doc in history[len(known):] if sent < ended]
                assert found[id] in allowed, (index, id, found[id], allowed)
                sure += len(allowed) == 1
        must = {id: doc for doc, (_, acknowledged, id) in w.made.items()
                if acknowledged is not None and acknowledged < begun}
        assert c.sources("made", must) == must
    sent = {doc: write for w in writers for doc, write in w.made.items()}
    scroll = c.post("/made/_search?scroll=1m&size=2000", {"query": {"match_all": {}}}).json
    while scroll["hits"]["hits"]:
        for hit in scroll["hits"]["hits"]:
            doc = b'{"made":"%s","x":"%s"}' % (hit["_source"]["made"].encode(), hit["_source"]["x"].encode())
            assert doc in sent and sent[doc][0] < ended
        scroll = c.post("/_search/scroll", {"scroll": "1m", "scroll_id": scroll["_scroll_id"]}).json
    return sure


@pytest.mark.slow
def test_backups_under_full_load(make_daemon, tmp_path):
    d = make_daemon("storage.wal.size=4mb", "storage.segment.size=1mb", "storage.checkpoint.interval=100ms",
                    "index.gc_deletes=0s", "storage.scrub.rate=1gb", "storage.scrub.interval=1s")
    c = d.client()
    for index in ("k1", "k2", "made"):
        assert c.put(f"/{index}", {"settings": {"index.codec": "best_speed"}}).status == 200
    stop = threading.Event()
    writers = [Writer(d, n, stop) for n in range(4)]
    moments = []

    def disturb():
        mine, n = d.client(timeout=60), 0
        while not stop.is_set():
            n += 1
            mine.load(f"passing-{n}", [(str(i), b'{"i":%d}' % i) for i in range(200)])
            assert mine.post("/_flush").status in (200, 429)
            assert mine.post("/_forcemerge").status in (200, 429)
            assert mine.delete(f"/passing-{n}").status == 200

    def logged():
        metrics = c.get("/_metrics").body.decode()
        return int(re.search(r"^stowd_wal_written_bytes_total (\d+)", metrics, re.M).group(1))

    def make_backups():
        try:
            assert wait_until(lambda: len(writers[0].made) > 50, timeout=30)
            for n in range(4):
                if n == 3:  # the ring has turned over
                    assert wait_until(lambda: logged() > 4 * 4 * 2 ** 20, timeout=90)
                begun = time.monotonic()
                text = backup(d.data, tmp_path / "backup")
                moments.append((begun, time.monotonic(), text))
                restore(tmp_path / "backup", tmp_path / f"r{n}")
        finally:
            stop.set()

    in_threads([w.run for w in writers] + [disturb, make_backups], timeout=180)
    for n, (begun, ended, text) in enumerate(moments):
        assert "0 damaged" in text
        code, said = stowctl("check", tmp_path / f"r{n}")
        assert code == 0, said
        e = make_daemon(data=tmp_path / f"r{n}")
        assert compare(e, writers, begun, ended) > 0
        assert e.stop() == 0
    assert "scrub:" not in d.log(), d.log()
    assert d.stop() == 0
