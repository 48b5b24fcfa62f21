# SPDX-License-Identifier: Apache-2.0
"""Programs that nobody here wrote load real lines; count and bytes are compared before and after
SIGKILL of the daemon."""
import hashlib
import json
import os
import subprocess

import pytest
from stow import wait_until


def write_lines(path, lines):
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


def compare(daemon, docs):
    """docs: id -> bytes, all that index logs may hold."""
    for _ in range(2):
        c = daemon.client(timeout=60)
        assert c.get("/logs/_count").json["count"] == len(docs)
        found = c.sources("logs", docs)
        wrong = [i for i in docs if found[i] != docs[i]]
        assert not wrong, (len(wrong), wrong[0], found[wrong[0]], docs[wrong[0]])
        daemon.crash()


def url(daemon):
    return f"http://127.0.0.1:{daemon.port}"


def test_javascript(daemon, node_client, lines, tmp_path):
    path = write_lines(tmp_path / "lines", lines)
    done = subprocess.run(["node", "bulk.mjs", url(daemon), "logs", path], cwd=node_client, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"loaded {len(lines)}, read {len(lines)}" in done.stdout
    compare(daemon, {f"line-{n}": x for n, x in enumerate(lines)})


def test_javascript_while_the_daemon_restarts(daemon, node_client, lines, tmp_path):
    path = write_lines(tmp_path / "lines", lines)
    p = subprocess.Popen(["node", "bulk.mjs", url(daemon), "logs", path, "pause"], cwd=node_client, text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert p.stdout.readline() == "half\n"
        daemon.crash()
        out, err = p.communicate("go on\n", timeout=300)
    finally:
        p.kill()
    assert p.returncode == 0, err[-3000:]
    assert f"loaded {len(lines)}, read {len(lines)}" in out
    compare(daemon, {f"line-{n}": x for n, x in enumerate(lines)})


def test_python(daemon, python_client, lines, tmp_path):
    path = write_lines(tmp_path / "lines", lines)
    script = os.path.join(os.path.dirname(__file__), "py_bulk.py")
    done = subprocess.run([python_client, script, url(daemon), "logs", path], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    compare(daemon, dict(zip(json.loads(done.stdout), lines)))


def loaded(daemon, count):
    """A condition: the daemon has that many documents."""
    def condition():
        try:
            r = daemon.client().get("/logs/_count")
            return r.status == 200 and r.json["count"] >= count
        except OSError:
            return False
    return condition


@pytest.mark.parametrize("interrupted", [False, True])
def test_rsyslog(daemon, rsyslog, background, lines, tmp_path, interrupted):
    """omelasticsearch with its defaults but for bulk mode; the id is the line's offset in the file."""
    path = write_lines(tmp_path / "lines", lines)
    modules = rsyslog.folder("imfile.so")
    config = tmp_path / "rsyslog.conf"
    config.write_text(f"""
global(workDirectory="{tmp_path}" maxMessageSize="1m")
module(load="imfile")
module(load="omelasticsearch")
template(name="line" type="string" string="%msg%")
template(name="offset" type="string" string="%$!metadata!fileoffset%")
input(type="imfile" File="{path}" Tag="lines" ruleset="out" addMetadata="on" reopenOnTruncate="off")
ruleset(name="out" queue.type="linkedList" queue.size="50000" queue.dequeueBatchSize="400") {{
    action(type="omelasticsearch" server="127.0.0.1" serverport="{daemon.port}" template="line" searchIndex="logs"
           bulkmode="on" bulkid="offset" dynbulkid="on" errorfile="{tmp_path}/errors"
           action.resumeRetryCount="-1" action.resumeInterval="1")
}}
""")
    with open(tmp_path / "output", "w", encoding="utf-8") as output:
        background([rsyslog.program, "-n", "-f", str(config), "-i", str(tmp_path / "pid"), "-M", modules],
                   env=rsyslog.env, stdout=output, stderr=output)
        if interrupted:
            assert wait_until(loaded(daemon, 400), 30)
            daemon.crash()
        done = wait_until(loaded(daemon, len(lines)), 60)
    errors = tmp_path / "errors"
    assert done, (tmp_path / "output").read_text()[-3000:] + (errors.read_text()[-3000:] if errors.exists() else "")
    docs, at = {}, 0
    for line in lines:
        docs[str(at)] = line
        at += len(line) + 1
    compare(daemon, docs)


@pytest.mark.parametrize("interrupted", [False, True])
def test_syslog_ng(daemon, syslog_ng, background, lines, tmp_path, interrupted):
    """http() as its manual shows it for Elasticsearch's bulk; the id is the line's SHA-1."""
    path = write_lines(tmp_path / "lines", lines)
    modules = syslog_ng.folder("libhttp.so")
    config = tmp_path / "syslog-ng.conf"
    config.write_text(f"""@version: 3.38
options {{ log-msg-size(1048576); stats-freq(0); time-reopen(1); }};
source s_lines {{ file("{path}" follow-freq(0.2) flags(no-parse)
                       log-fetch-limit(1000) log-iw-size(4000)); }};
destination d_stowd {{
    http(url("{url(daemon)}/_bulk") method("POST") headers("Content-Type: application/x-ndjson")
         batch-lines(400) batch-bytes(512Kb) batch-timeout(500) workers(2) persist-name("stowd") retries(10)
         delimiter("\\n") body-suffix("\\n")
         body("{{\\"index\\":{{\\"_index\\":\\"logs\\",\\"_id\\":\\"$(sha1 $MSG)\\"}}}}\\n$MSG"));
}};
log {{ source(s_lines); destination(d_stowd); flags(flow-control); }};
""")
    docs = {hashlib.sha1(x).hexdigest(): x for x in lines}
    with open(tmp_path / "output", "w", encoding="utf-8") as output:
        background([syslog_ng.program, "-F", "--no-caps", "-f", str(config), f"--module-path={modules}",
                    "-R", str(tmp_path / "persist"), "-p", str(tmp_path / "pid"), "-c", str(tmp_path / "control")],
                   env=syslog_ng.env, stdout=output, stderr=output)
        if interrupted:
            assert wait_until(loaded(daemon, 400), 30)
            daemon.crash()
        done = wait_until(loaded(daemon, len(docs)), 60)
    assert done, (tmp_path / "output").read_text()[-3000:]
    compare(daemon, docs)
