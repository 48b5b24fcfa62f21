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


def run(*argv, limit_s=3600):
    """Output of a program; it is ended when it takes longer than the limit."""
    name = " ".join(str(a) for a in argv[:2])
    try:
        done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Failure(f"{name}: not done after {limit_s} s") from None
    except OSError as e:
        raise Failure(f"{name}: {e.strerror}") from None
    if done.returncode != 0:
        raise Failure(f"{name}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
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


def process_cpu(pid):
    """CPU seconds of a process with the threads that ended, in ticks of 10 ms."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def end(process, limit_s=120):
    """Wait for a process that was told to end; kill it when it does not."""
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def folder_bytes(path, but=(), apparent=False):
    """Disk space, or length, of the files below a folder."""
    total = 0
    for where, folders, files in os.walk(path):
        folders[:] = [f for f in folders if f not in but]
        for name in files:
            try:
                st = os.lstat(os.path.join(where, name))
                total += st.st_size if apparent else st.st_blocks * 512
            except FileNotFoundError:
                pass
    return total


class Constant:
    """libmicrohttpd with a constant answer."""

    def __init__(self, build, threads):
        path = f"{build}/tools/bench/constant"
        try:
            self.process = subprocess.Popen([path, str(threads)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True)
        except OSError as e:
            raise Failure(f"{path}: {e.strerror}") from None
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            end(self.process)
            raise Failure(f"{path} does not start")
        self.port = int(line)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        end(self.process)
        self.process.stdout.close()


def drop_page_cache(folder):
    """Nothing of the files below a folder is in the page cache any more: emptied as a whole where
    root may, else file by file (mapped pages, the catalog's, then stay). The way it was done."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
        return "drop_caches"
    except OSError:
        pass
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                fd = os.open(os.path.join(where, name), os.O_RDONLY)
            except OSError:
                continue
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
    return "posix_fadvise"


class Http:
    """Requests to a server on 127.0.0.1 at self.port, and the load generator."""

    def request(self, method, target, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
            connection.request(method, target, text, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise Failure(f"{method} {target}: {answer.status} {text[:300]}")
            return json.loads(text)
        except (OSError, http.client.HTTPException) as e:
            raise Failure(f"{method} {target}: {type(e).__name__} {e}") from None
        finally:
            connection.close()

    def cpu(self):
        return cpu(self.pid)

    def load(self, kind, *argv):
        """Run the load generator: its figures, and what the server used meanwhile as "cpu"."""
        before = self.cpu()
        result = json.loads(run(f"{self.build}/tools/bench/load", kind, self.port, *argv))
        result["cpu"] = self.cpu() - before
        if result["failed"]:
            raise Failure(f"load {kind}: {result['failed']} of {result['requests']} failed")
        return result

    def settle(self, limit_s=180):
        """Wait until the background has nothing to do. Seconds that took."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            before = self.cpu()
            time.sleep(0.5)
            if self.cpu() - before < 0.005:
                break
        return time.monotonic() - began


class Daemon(Http):
    """stowd on a free port over an empty folder, which goes when it ends."""

    def __init__(self, build, path, **settings):
        self.build = build
        self.path = path
        self.settings = settings
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        self._start()

    def _start(self):
        argv = [f"{self.build}/stowd", "-E", f"path.data={self.path}/data", "-E", "http.port=0"]
        for name, value in self.settings.items():
            argv += ["-E", f"{name.replace('__', '.')}={value}"]
        began = time.monotonic()
        with open(f"{self.path}/log", "w") as log:
            try:
                self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
            except OSError as e:
                raise Failure(f"{argv[0]}: {e.strerror}") from None
        self.pid = self.process.pid
        self.port = self._await_port()
        self.start_s = time.monotonic() - began

    def _await_port(self):
        until = time.monotonic() + 300
        while time.monotonic() < until:
            with open(f"{self.path}/log") as f:
                text = f.read()
            found = re.search(r" serves .* on \S+:(\d+)", text)
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        self.close()
        raise Failure(f"stowd does not start: {text.strip()[-300:]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        end(self.process)

    def restart(self):
        """Stop and start on the same data. Seconds until it serves."""
        self.stop()
        self._start()
        return self.start_s

    def close(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if kind is not None and issubclass(kind, Failure) and self.process.poll() is not None:
            error.args = (f"{error}; stowd had ended with {self.process.returncode}",)
        self.close()

    def create(self, name, codec="zstd", **settings):
        values = {"index.codec": codec}
        values.update({k.replace("__", "."): v for k, v in settings.items()})
        self.request("PUT", f"/{name}", {"settings": values})

    def stow(self, name):
        return self.request("GET", f"/{name}/_stats/docs,stow")["indices"][name]["stow"]

    def compact(self, name):
        """All rows of an index in full blocks of segments."""
        self.request("POST", f"/{name}/_flush")
        self.request("POST", f"/{name}/_forcemerge")
        self.settle()

    def rss_anon(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+) kB", f.read()).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

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
        try:
            while not self.stop.wait(0.01):
                self.bytes = max(self.bytes, self.daemon.rss_anon())
        except (OSError, AttributeError):
            pass  # the daemon has ended: whoever uses it says so

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
