# SPDX-License-Identifier: Apache-2.0
"""Real clients against a real daemon. A test names its client with @pytest.mark.client(NAME), a key
of installs.RECIPES; one that cannot be had here is a skipped test with the reason."""
import os
import subprocess

import installs
import pytest
import stow
from wire import PLAN, Wire

COUNT = 3000  # lines of a load
STATE = pytest.StashKey()


def pytest_configure(config):
    config.addinivalue_line("markers", "client(name): the client that a test needs")


def pytest_sessionstart(session):
    if not os.access(stow.STOWD, os.X_OK):
        pytest.exit(f"{stow.STOWD}: not built (make all)", returncode=2)


def pytest_collection_finish(session):
    if session.config.option.collectonly:
        return
    names = [m.args[0] for item in session.items for m in item.iter_markers("client")]
    session.config.stash[STATE] = installs.Installs(dict.fromkeys(names))


def pytest_sessionfinish(session):
    if STATE in session.config.stash:
        session.config.stash[STATE].close()


@pytest.fixture
def home(request):
    """Folder of the test's client."""
    try:
        return request.config.stash[STATE].home(request.node.get_closest_marker("client").args[0])
    except installs.Missing as e:
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def lines():
    """Real log lines where there are some, else made up ones."""
    return stow.corpus("apache_real", COUNT) or stow.log_documents(COUNT)


@pytest.fixture
def file(lines, tmp_path):
    path = tmp_path / "lines.ndjson"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


@pytest.fixture
def make_daemon(tmp_path):
    made = []

    def make(*settings):
        made.append(stow.Daemon(tmp_path / f"daemon{len(made)}", settings).start())
        return made[-1]
    yield make
    for d in made:
        d.kill()


@pytest.fixture
def make_wire():
    made = []

    def make(daemon, plan=PLAN):
        made.append(Wire(daemon, plan))
        return made[-1]
    yield make
    for w in made:
        w.close()


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


@pytest.fixture
def compare():
    """compare(daemon, index, docs): the index holds docs (id -> bytes) and nothing else, to the byte,
    before and after SIGKILL."""
    def compare_all(daemon, index, docs):
        for _ in range(2):
            c = daemon.client(timeout=60)
            assert c.get(f"/{index}/_count").json["count"] == len(docs)
            found = c.sources(index, docs)
            wrong = [i for i in docs if found[i] != docs[i]]
            assert not wrong, (len(wrong), wrong[0], found[wrong[0]], docs[wrong[0]])
            daemon.crash()
    return compare_all
