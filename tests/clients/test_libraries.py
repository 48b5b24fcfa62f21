# SPDX-License-Identifier: Apache-2.0
"""Client libraries from their registries. One driver for each language loads real lines through the
library's own helper while the daemon is stopped, killed and killed again; then the driver reads all
of it back and the bytes are compared.

A driver gets URL FILE INDEX and prints what it counted as JSON; ids are line-0, line-1 … It sends
again what was not acknowledged, as that library is told to."""
import json
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ELASTIC7, ELASTIC8, ELASTIC9 = ((f"identity.version={v}",) for v in ("7.17.29", "8.19.2", "9.2.1"))
OPENSEARCH = ("identity.version=2.19.1", "identity.product=opensearch")


def node(home, arguments, more):
    return (["node", os.path.join(HERE, "js", "load.mjs"), *arguments, *more],
            {"NODE_PATH": os.path.join(home, "node_modules")})


def python(home, arguments, more):
    return ([os.environ.get("PYTHON", sys.executable), os.path.join(HERE, "py", "load.py"), *arguments, *more],
            {"PYTHONPATH": os.path.join(home, "packages")})


def java(home, arguments, more):
    return ["java", "-cp", os.path.join(home, "jars", "*"), os.path.join(HERE, "java", "Load.java"), *arguments], {}


def go(home, arguments, more):
    return [os.path.join(home, os.path.basename(home)), *arguments], {}


def row(client, driver, settings, *more):
    name = "-".join((driver.__name__, client, *more)) if driver in (node, python) else f"{driver.__name__}-{client}"
    return pytest.param(driver, settings, more, id=name, marks=pytest.mark.client("js" if driver is node else client))


HELPERS = ("bulk", "streaming_bulk", "parallel_bulk")
TABLE = [
    *(row("elastic7", python, ELASTIC7, helper) for helper in HELPERS),
    *(row("elastic8", python, ELASTIC8, helper) for helper in HELPERS),
    *(row("elastic9", python, ELASTIC9, helper) for helper in HELPERS),
    *(row("opensearchpy", python, OPENSEARCH, helper) for helper in HELPERS),
    row("js", node, ELASTIC7, "elastic7"),
    row("js", node, ELASTIC8, "elastic8"),
    row("js", node, ELASTIC9, "elastic9", "gzip"),
    row("js", node, OPENSEARCH, "opensearch"),
    row("java", java, ELASTIC9),
    row("opensearch", go, OPENSEARCH),
]


@pytest.mark.parametrize("driver, settings, more", TABLE)
def test_library(home, make_daemon, make_wire, compare, lines, file, driver, settings, more):
    daemon = make_daemon(*settings)
    wire = make_wire(daemon)
    command, env = driver(home, (wire.url, file, "logs"), more)
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=240,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-3000:]
    wire.check()
    counts = json.loads(done.stdout.splitlines()[-1])
    assert set(counts.values()) == {len(lines)}, counts
    compare(daemon, "logs", {f"line-{n}": x for n, x in enumerate(lines)})
