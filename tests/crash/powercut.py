#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Power cuts: the data directory lies on an ext4 of its own (a loop device), which is shut down
under load with the FS_IOC_SHUTDOWN ioctl: what was not synced is gone. After mounting it again
everything that was acknowledged must be there. The same with a daemon whose syncs do nothing must
be caught: else the test would prove nothing. Needs root and a loop device; skips without.

    powercut.py [ROUNDS]      $STOWD is the daemon
"""
import fcntl
import http.client
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import stow  # noqa: E402

FS_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32)
NO_LOG_FLUSH = (2).to_bytes(4, sys.byteorder)
LOST = (OSError, EOFError, http.client.HTTPException)
SETTINGS = ("storage.wal.size=8mb", "storage.segment.size=1mb", "storage.checkpoint.interval=300ms",
            "storage.reserve=1mb")


class Skip(Exception):
    pass


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Skip(f"{' '.join(command)}: {done.stdout.decode('utf-8', 'replace').strip()}")


class Disk:
    """A small ext4 in a file."""

    def __init__(self, folder):
        self.image, self.at = os.path.join(folder, "image"), os.path.join(folder, "mnt")
        os.mkdir(self.at)
        with open(self.image, "wb") as f:
            f.truncate(256 << 20)
        run("mkfs.ext4", "-q", "-F", self.image)

    def mount(self):
        run("mount", "-o", "loop", self.image, self.at)

    def cut(self):
        fd = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, NO_LOG_FLUSH)
        except OSError as e:
            raise Skip(f"FS_IOC_SHUTDOWN: {e}") from None
        finally:
            os.close(fd)

    def unmount(self):
        for _ in range(50):
            if subprocess.run(["umount", self.at], stderr=subprocess.DEVNULL).returncode == 0:
                return
            if not os.path.ismount(self.at):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.at} stays busy")


class Writer(threading.Thread):
    """Writes to ids of its own. known: what was acknowledged; pending: the request that was not."""

    def __init__(self, number, port, known, seed):
        super().__init__(daemon=True)
        self.number, self.port, self.known, self.pending = number, port, known, {}
        self.rng = random.Random(seed)
        self.acknowledged = 0

    def run(self):
        client = stow.Client(self.port, timeout=10)
        try:
            while self.step(client):
                self.known.update(self.pending)
                self.acknowledged += len(self.pending)
                self.pending = {}
        except LOST:
            pass

    def step(self, client):
        """False when it was not acknowledged, which is for the cut to explain."""
        rng = self.rng
        some = rng.sample(range(200), rng.choice((1, 1, 1, 30)))
        self.pending = {
            (f"i{rng.randrange(3)}", f"{self.number}-{n}"):
                None if rng.random() < 0.15 else
                b'{"n":%d,"pad":"%s"}' % (rng.randrange(10 ** 9), b"p" * rng.randrange(1000))
            for n in some}
        lines = []
        for (index, id), doc in self.pending.items():
            lines += ([stow.action("delete", index, id)] if doc is None
                      else [stow.action("index", index, id), doc])
        r = client.bulk(stow.ndjson(*lines))
        return r.status == 200 and all(item["status"] in (200, 201, 404) for item in r.items)


def read(client, key):
    """What is there; of a document that can't be read a text that no document is equal to."""
    r = client.get(f"/{key[0]}/_source/{key[1]}")
    return r.body if r.status == 200 else None if r.status == 404 else f"status {r.status}"


def mistakes(client, writers):
    """Acknowledged writes that are not there, and unanswered requests that are there in part."""
    wrong = []
    for w in writers:
        applied = set()
        for key, doc in w.pending.items():
            old, now = w.known.get(key), read(client, key)
            if now not in (old, doc):
                wrong.append(f"{key}: neither old nor new")
            if old != doc:
                applied.add(now == doc)
            w.known[key] = now
        if len(applied) > 1:
            wrong.append(f"a request of {len(w.pending)} items was applied in part")
        for key, doc in w.known.items():
            if read(client, key) != doc:
                wrong.append(f"{key}: lost")
    return wrong


def load(daemon, known, seconds, seed):
    writers = [Writer(n, daemon.port, known[n], seed * 10 + n) for n in range(len(known))]
    for w in writers:
        w.start()
    time.sleep(seconds)
    return writers


def one_cut(disk, folder, known, seed, env):
    """What is wrong after a cut under load, and how many writes were acknowledged before it."""
    disk.mount()
    daemon = stow.Daemon(os.path.join(folder, "daemon"), SETTINGS, env, data=os.path.join(disk.at, "data"))
    try:
        if env:  # a sound directory to begin with
            daemon.env = {}
            daemon.start().stop()
            daemon.env = env
        daemon.start()
        writers = load(daemon, known, random.Random(seed).uniform(0.3, 2), seed)
        disk.cut()
        for w in writers:
            w.join(30)
        daemon.kill()
        disk.unmount()
        disk.mount()
        daemon.env = {}
        daemon.spawn()
        if not daemon.wait_up():
            return [f"does not start: {daemon.log()[-300:]}"], sum(w.acknowledged for w in writers)
        wrong = mistakes(daemon.client(), writers)
        daemon.stop()
        return wrong, sum(w.acknowledged for w in writers)
    finally:
        daemon.kill()
        disk.unmount()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    passed = failed = 0
    folder = tempfile.mkdtemp(prefix="stowd-powercut-")
    try:
        if os.geteuid() != 0:
            raise Skip("not root")
        disk = Disk(folder)
        known = [{} for _ in range(3)]
        for n in range(rounds):
            wrong, acknowledged = one_cut(disk, folder, known, n, {})
            good = not wrong and acknowledged > 0
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} cut {n}: {acknowledged} writes acknowledged, "
                  f"{len(wrong)} wrong {wrong[:3] if wrong else ''}", flush=True)
        os.unlink(disk.image)
        os.rmdir(disk.at)
        disk = Disk(folder)
        for n in range(5):
            wrong, acknowledged = one_cut(disk, folder, [{} for _ in range(3)], 100 + n,
                                          {"STOWD_IO_FAULT": "skipsync:0"})
            if wrong:
                break
            disk = Disk(tempfile.mkdtemp(dir=folder))
        passed, failed = passed + bool(wrong), failed + (not wrong)
        print(f"{'ok  ' if wrong else 'FAIL'} without syncs: {acknowledged} writes acknowledged, "
              f"{len(wrong)} wrong {wrong[:1]}: a missing sync {'shows' if wrong else 'is not noticed'}",
              flush=True)
    except Skip as why:
        print(f"skip: {why}")
        print(f"{passed} passed, {failed} failed, 1 skipped")
        return 1 if failed else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
