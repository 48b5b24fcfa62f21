# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the black-box tests. Most tests share one daemon and use indices of their own name;
tests that stop, kill or configure one take a daemon for themselves."""
import itertools
import os
import re

import pytest
import stow


def pytest_sessionstart(session):
    if not os.access(stow.STOWD, os.X_OK):
        pytest.exit(f"{stow.STOWD}: not built (make all)", returncode=2)


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory):
    daemon = stow.Daemon(tmp_path_factory.mktemp("shared"))
    yield daemon
    if daemon.alive():
        assert daemon.stop() == 0, daemon.log()


@pytest.fixture
def node(shared_daemon):
    """The shared daemon; a test that kills it fails, the next one gets it started again."""
    if not shared_daemon.alive():
        shared_daemon.start()
    yield shared_daemon
    assert shared_daemon.alive(), f"the daemon died\n{shared_daemon.log()}"


@pytest.fixture
def client(node):
    c = node.client()
    yield c
    c.close()


_numbers = itertools.count(1)


@pytest.fixture
def index(request):
    """A name that no other test uses."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60] + f"-{next(_numbers)}"


@pytest.fixture
def make_daemon(tmp_path):
    """make_daemon(*settings, env=, arguments=, data=, start=True): a daemon of the test's own."""
    made = []

    def make(*settings, env=None, arguments=(), data=None, start=True):
        d = stow.Daemon(tmp_path / f"daemon{len(made)}", settings, env, arguments, data)
        made.append(d)
        return d.start() if start else d
    yield make
    for d in made:
        d.kill()
