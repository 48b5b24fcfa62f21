# SPDX-License-Identifier: Apache-2.0
"""Processes of the benchmark: a daemon in a fresh folder, what it uses, and the programs in C."""
import collections
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    pass


def run(*argv):
    """Output of a program."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(f"{argv[0]} {argv[1]}: exit {done.returncode}")
    return done.stdout


def task_cpu(pid):
    """CPU seconds of each thread that lives: {tid: (name, seconds)}, in nanoseconds' precision."""
    out = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        at = f"/proc/{pid}/task/{tid}/"
        try:
            with open(at + "comm") as f:
                name = f.read().strip()
            try:
                with open(at + "schedstat") as f:
                    seconds = int(f.read().split()[0]) / 1e9
            except OSError:  # a kernel without them: ticks of 10 ms
                with open(at + "stat") as f:
                    fields = f.read().rpartition(")")[2].split()
                seconds = (int(fields[11]) + int(fields[12])) / TICK
            out[tid] = (name, seconds)
        except FileNotFoundError:
            pass
    return out


def cpu(pid):
    return sum(seconds for _, seconds in task_cpu(pid).values())


def folder_bytes(path, but=()):
    """Disk space of the files below a folder."""
    total = 0
    for where, folders, files in os.walk(path):
        folders[:] = [f for f in folders if f not in but]
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


class Constant:
    """libmicrohttpd with a constant answer."""

    def __init__(self, build, threads):
        self.process = subprocess.Popen([f"{build}/tools/bench/constant", str(threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Daemon:
    """stowd on a free port over an empty folder, which goes when it ends."""

    def __init__(self, build, path, **settings):
        self.build = build
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        argv = [f"{build}/stowd", "-E", f"path.data={path}/data", "-E", "http.port=0"]
        for name, value in settings.items():
            argv += ["-E", f"{name.replace('__', '.')}={value}"]
        self.log = open(f"{path}/log", "w")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=self.log)
        self.pid = self.process.pid
        self.port = self._await_port()

    def _await_port(self):
        for _ in range(600):
            with open(f"{self.path}/log") as f:
                text = f.read()
            found = re.search(r" serves .* on \S+:(\d+)", text)
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise Failure(f"stowd does not start: {text}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def request(self, method, target, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, target, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise Failure(f"{method} {target}: {answer.status} {text[:300]}")
            return json.loads(text)
        finally:
            connection.close()

    def create(self, name, codec="zstd", **settings):
        values = {"index.codec": codec}
        values.update({k.replace("__", "."): v for k, v in settings.items()})
        self.request("PUT", f"/{name}", {"settings": values})

    def load(self, kind, *argv):
        """Run the load generator: its figures, and what the daemon used meanwhile as "cpu"."""
        before = cpu(self.pid)
        result = json.loads(run(f"{self.build}/tools/bench/load", kind, self.port, *argv))
        result["cpu"] = cpu(self.pid) - before
        if result["failed"]:
            raise Failure(f"load {kind}: {result['failed']} of {result['requests']} failed")
        return result

    def stow(self, name):
        return self.request("GET", f"/{name}/_stats/docs,stow")["indices"][name]["stow"]

    def settle(self, limit_s=180):
        """Wait until the background has nothing to do. Seconds that took."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            before = cpu(self.pid)
            time.sleep(0.5)
            if cpu(self.pid) - before < 0.005:
                break
        return time.monotonic() - began

    def compact(self, name):
        """All rows of an index in full blocks of segments."""
        self.request("POST", f"/{name}/_flush")
        self.request("POST", f"/{name}/_forcemerge")
        self.settle()

    def rss_anon(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+) kB", f.read()).group(1)) * 1024

    def catalog_bytes(self):
        return os.stat(f"{self.path}/data/catalog/data.mdb").st_size


class Threads:
    """CPU of a daemon by name of thread, over a with block."""

    def __init__(self, daemon):
        self.pid = daemon.pid
        self.seconds = collections.Counter()

    def __enter__(self):
        self.before = task_cpu(self.pid)
        return self

    def __exit__(self, *_):
        for tid, (name, seconds) in task_cpu(self.pid).items():
            self.seconds[name] += seconds - self.before.get(tid, (name, 0))[1]


class PeakMemory:
    """The most RssAnon over a with block, looked at every 10 ms."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.bytes = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self.stop.wait(0.01):
            self.bytes = max(self.bytes, self.daemon.rss_anon())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
