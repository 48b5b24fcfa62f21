# SPDX-License-Identifier: Apache-2.0
"""Real clients against a real daemon. A client that cannot be had here is a skipped test.

Node and Python packages are installed below build/clients. Debian's log daemons are unpacked there,
not installed: two of them exclude each other, and none should become this machine's."""
import glob
import os
import re
import shutil
import subprocess

import pytest
import stow

HOME = os.path.join(stow.TOP, "build", "clients")


def pytest_sessionstart(session):
    if not os.access(stow.STOWD, os.X_OK):
        pytest.exit(f"{stow.STOWD}: not built (make all)", returncode=2)


@pytest.fixture(scope="session")
def lines():
    """Real log lines where there are some, else made up ones."""
    return stow.corpus("apache_real") or stow.log_documents(9999)


@pytest.fixture
def daemon(tmp_path):
    d = stow.Daemon(tmp_path / "daemon").start()
    r = d.client().put("/logs", {"settings": {"index.codec": "zstd", "index.codec.compression_level": 3}})
    assert r.status == 200, r
    yield d
    d.kill()


def run(command, timeout=300, **kw):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout, **kw)


@pytest.fixture(scope="session")
def node_client():
    """Folder with bulk.mjs and @elastic/elasticsearch beside it."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node or npm is not installed")
    home = os.path.join(HOME, "js")
    os.makedirs(home, exist_ok=True)
    for name in ("package.json", "bulk.mjs"):
        shutil.copy(os.path.join(os.path.dirname(__file__), "js", name), home)
    if not os.path.isdir(os.path.join(home, "node_modules", "@elastic", "elasticsearch")):
        try:
            done = run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=home)
        except subprocess.TimeoutExpired:
            pytest.skip("npm install took too long: is the registry reachable?")
        if done.returncode != 0:
            pytest.skip(f"npm install: {done.stdout.strip()[-300:]}")
    return home


@pytest.fixture(scope="session")
def python_client():
    """An interpreter that has the elasticsearch package."""
    home = os.path.join(HOME, "python")
    python = os.path.join(home, "bin", "python")
    if not os.path.exists(python):
        done = run([os.environ.get("PYTHON", "python3"), "-m", "venv", home])
        if done.returncode != 0:
            shutil.rmtree(home, ignore_errors=True)
            pytest.skip(f"python -m venv: {done.stdout.strip()[-300:]}")
    if run([python, "-c", "import elasticsearch"]).returncode != 0:
        try:
            done = run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "elasticsearch==8.19.2"])
        except subprocess.TimeoutExpired:
            pytest.skip("pip install took too long: is the registry reachable?")
        if done.returncode != 0:
            pytest.skip(f"pip install: {done.stdout.strip()[-300:]}")
    return python


class Unpacked:
    """A program from Debian packages: where it lies and the environment it runs in."""

    def __init__(self, root, program):
        self.root = root
        self.program = os.path.join(root, "usr", "sbin", program)
        folders = {os.path.dirname(p) for p in glob.glob(f"{root}/**/*.so*", recursive=True)}
        self.env = {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(folders)), "LC_ALL": "C.UTF-8"}

    def folder(self, pattern):
        """The folder of a file in the packages."""
        found = glob.glob(os.path.join(self.root, "usr", "lib", "**", pattern), recursive=True)
        return os.path.dirname(found[0])


def unpack(name, program, packages):
    if not shutil.which("apt-get"):
        pytest.skip("not a Debian system")
    root = os.path.join(HOME, name)
    unpacked = os.path.join(root, "usr", "sbin", program)
    if not os.path.exists(unpacked):
        debs = os.path.join(root, "debs")
        os.makedirs(debs, exist_ok=True)
        plan = run(["apt-get", "install", "-s", "--no-install-recommends", "--reinstall", *packages])
        wanted = re.findall(r"^Inst (\S+)", plan.stdout, re.M)
        done = run(["apt-get", "download", *wanted], cwd=debs) if wanted else plan
        if not wanted or done.returncode != 0:
            pytest.skip(f"{' '.join(packages)} cannot be had: {done.stdout.strip()[-300:]}")
        for deb in glob.glob(os.path.join(debs, "*.deb")):
            done = run(["dpkg", "-x", deb, root])
            assert done.returncode == 0, done.stdout
    return Unpacked(root, program)


@pytest.fixture(scope="session")
def rsyslog():
    return unpack("rsyslog", "rsyslogd", ["rsyslog", "rsyslog-elasticsearch"])


@pytest.fixture(scope="session")
def syslog_ng():
    return unpack("syslog-ng", "syslog-ng", ["syslog-ng-core", "syslog-ng-mod-http"])


@pytest.fixture
def background():
    """background(command, **popen): a process that is ended with the test."""
    running = []

    def start(command, **kw):
        running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, **kw))
        return running[-1]
    yield start
    for p in running:
        p.terminate()
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
