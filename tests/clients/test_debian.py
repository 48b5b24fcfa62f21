# SPDX-License-Identifier: Apache-2.0
"""Clients that Debian has, part of `make test`: the log daemons with the very configurations that
docs/shippers.md shows, and the Elastic Python client 7.17. Each loads real lines while the daemon is
taken away; count and bytes are compared afterwards."""
import hashlib
import json
import os
import re
import subprocess

import pytest
import stow
from installs import HERE
from stow import wait_until

pytestmark = pytest.mark.slow


def shown(title):
    """The first block under the heading that begins so."""
    with open(os.path.join(stow.TOP, "docs", "shippers.md"), encoding="utf-8") as f:
        section = re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", f.read(), re.M | re.S).group(0)
    return re.search(r"^```\n(.*?)^```$", section, re.M | re.S).group(1)


def adapt(text, **where):
    """The configuration with this test's places in it."""
    for old, new in where.values():
        assert old in text, (old, text)
        text = text.replace(old, str(new))
    return text


def unpacked_env(home):
    folders = {d for d, _, files in os.walk(home) for f in files if ".so" in f}
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(folders)), "LC_ALL": "C.UTF-8"}


def folder(home, file):
    return next(d for d, _, files in os.walk(os.path.join(home, "usr", "lib")) if file in files)


def wait_for(wire, count, tmp_path):
    """Until the daemon has that many documents and every interruption is over."""
    def there():
        if wire.error or wire.todo:
            return bool(wire.error)
        try:
            return wire.daemon.client().get("/logs/_count").json["count"] >= count
        except (OSError, KeyError, ValueError):
            return False
    done = wait_until(there, 90)
    said = "\n".join(f"{p.name}:\n{p.read_text(errors='replace')[-2000:]}" for p in sorted(tmp_path.iterdir())
                     if p.name in ("output", "rsyslog-stowd.errors"))
    wire.check()
    assert done, said


@pytest.mark.client("rsyslog")
def test_rsyslog(home, make_daemon, make_wire, compare, background, lines, file, tmp_path):
    """omelasticsearch. No "stop" in the plan: 8.2302 puts what got a 503 into its error file."""
    daemon = make_daemon()
    wire = make_wire(daemon, ((2, "kill"), (4, "answer")))
    config = tmp_path / "rsyslog.conf"
    config.write_text(adapt(shown("rsyslog"), port=('serverport="9200"', f'serverport="{wire.port}"'),
                            work=("/var/spool/rsyslog", tmp_path), input=("/var/log/app.ndjson", file),
                            errors=("/var/log/rsyslog-stowd.errors", tmp_path / "rsyslog-stowd.errors")))
    with open(tmp_path / "output", "w", encoding="utf-8") as output:
        background([os.path.join(home, "usr/sbin/rsyslogd"), "-n", "-f", str(config), "-i", str(tmp_path / "pid"),
                    "-M", folder(home, "imfile.so")], env=unpacked_env(home), stdout=output, stderr=output)
        wait_for(wire, len(lines), tmp_path)
    docs, at = {}, 0
    for line in lines:
        docs[str(at)] = line  # the configuration takes the offset for id
        at += len(line) + 1
    compare(daemon, "logs", docs)


@pytest.mark.client("syslog-ng")
@pytest.mark.parametrize("title", ["syslog-ng http()", "syslog-ng elasticsearch-http()"])
def test_syslog_ng(home, make_daemon, make_wire, compare, background, lines, file, tmp_path, title):
    daemon = make_daemon()
    wire = make_wire(daemon)
    config = tmp_path / "syslog-ng.conf"
    include = ({"scl": ('"scl.conf"', f'"{home}/usr/share/syslog-ng/include/scl/elasticsearch/elastic-http.conf"')}
               if "scl.conf" in shown(title) else {})
    config.write_text(adapt(shown(title), url=("http://127.0.0.1:9200", wire.url), input=("/var/log/app.ndjson", file),
                            **include))
    with open(tmp_path / "output", "w", encoding="utf-8") as output:
        background([os.path.join(home, "usr/sbin/syslog-ng"), "-F", "--no-caps", "-f", str(config),
                    f"--module-path={folder(home, 'libhttp.so')}", "-R", str(tmp_path / "persist"),
                    "-p", str(tmp_path / "pid"), "-c", str(tmp_path / "control")],
                   env=unpacked_env(home), stdout=output, stderr=output)
        docs = {hashlib.sha1(x).hexdigest(): x for x in lines}
        wait_for(wire, len(docs), tmp_path)
    compare(daemon, "logs", docs)


@pytest.mark.client("python3-elasticsearch")
def test_python3_elasticsearch(home, make_daemon, make_wire, compare, lines, file):
    daemon = make_daemon("identity.version=7.17.29")
    wire = make_wire(daemon)
    done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "py", "load.py"), wire.url, file, "logs",
                           "streaming_bulk"], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "PYTHONPATH": os.path.join(home, "usr/lib/python3/dist-packages")})
    assert done.returncode == 0, done.stderr[-3000:]
    wire.check()
    assert set(json.loads(done.stdout).values()) == {len(lines)}
    compare(daemon, "logs", {f"line-{n}": x for n, x in enumerate(lines)})
