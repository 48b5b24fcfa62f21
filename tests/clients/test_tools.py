# SPDX-License-Identifier: Apache-2.0
"""Tools that administrators run: elasticdump moves an index to another daemon, curator looks after
indices of real lines."""
import datetime
import json
import os
import subprocess
import sys

import pytest


def run(command, env=None):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=240, env={**os.environ, **(env or {})})
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


# ---------------------------------------------------------------- elasticdump

def again(line):
    """The line as a program prints it that parses JSON and writes it anew, as elasticdump does."""
    return json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.client("elasticdump")
def test_elasticdump(home, make_daemon, make_wire, compare, lines, tmp_path):
    """Everything of an index goes into files and from there into another daemon, which is taken away
    meanwhile. elasticdump gives up only after retryAttempts."""
    def dump(kind, source, target, *more):
        return run(["node", os.path.join(home, "node_modules", "elasticdump", "bin", "elasticdump"),
                    f"--input={source}", f"--output={target}", f"--type={kind}", *more])

    old, new = make_daemon(), make_daemon()
    c = old.client()
    assert c.put("/_index_template/t", {"index_patterns": ["none-*"], "template": {"settings": {
        "index.codec": "best_compression"}}}).status == 200
    assert c.put("/logs", {"settings": {"index.codec": "zstd", "index.codec.compression_level": 6},
                           "mappings": {"properties": {"bytes": {"type": "long"}}},
                           "aliases": {"all-logs": {}}}).status == 200
    docs = {f"id-{n}": again(x) for n, x in enumerate(lines)}
    c.load("logs", docs.items())

    files = {kind: tmp_path / f"{kind}.json" for kind in ("settings", "mapping", "alias", "index_template", "data")}
    source = f"http://127.0.0.1:{old.port}"
    for kind, file in files.items():
        dump(kind, source if kind == "index_template" else f"{source}/logs", file, "--limit=700")
    dumped = [json.loads(x) for x in files["data"].read_text(encoding="utf-8").splitlines()]
    assert [x["_id"] for x in dumped] == list(docs)

    # A codec is decided when the index is made: settings come first, as without stowd.
    target = f"http://127.0.0.1:{new.port}"
    for kind in ("settings", "mapping", "alias", "index_template"):
        dump(kind, files[kind], target if kind in ("index_template", "alias") else f"{target}/logs")
    wire = make_wire(new, ((2, "kill"), (4, "answer")))
    dump("data", files["data"], f"{wire.url}/logs", "--limit=500", "--retryAttempts=20", "--retryDelay=200")
    wire.check()
    about = new.client().get("/logs").json["logs"]
    index = about["settings"]["index"]
    assert (index["codec"], index["codec.compression_level"]) == ("zstd", "6"), about
    assert about["mappings"]["properties"]["bytes"] == {"type": "long"} and "all-logs" in about["aliases"]
    assert new.client().get("/_index_template/t").status == 200
    compare(new, "logs", docs)


# ---------------------------------------------------------------- curator

def action(name, options=None, kind="pattern", value=None, **more):
    filters = [{"filtertype": "pattern", "kind": "prefix", "value": value}] if value else []
    if kind == "age":
        filters.append({"filtertype": "age", "source": "name", "direction": "older", "timestring": "%Y.%m.%d",
                        "unit": "days", "unit_count": 30})
    return {"action": name, "options": {"ignore_empty_list": False, **(options or {})},
            **({"filters": filters} if value else {}), **more}


@pytest.mark.parametrize("version, settings", [
    pytest.param(5, "identity.version=7.17.29", marks=pytest.mark.client("curator5")),
    pytest.param(8, "identity.version=8.19.2", marks=pytest.mark.client("curator8"))])
def test_curator(home, make_daemon, compare, lines, tmp_path, version, settings):
    """A night's run: roll over, alias, merge, close and open, delete what is old; the rest stays to the
    byte, also after SIGKILL between the actions."""
    daemon = make_daemon(settings)
    c = daemon.client()
    today = datetime.datetime.now(datetime.timezone.utc).date()
    half = len(lines) // 2
    old = {f"a{n}": x for n, x in enumerate(lines[:half])}
    new = {f"b{n}": x for n, x in enumerate(lines[half:])}
    days = {back: f"app-{today - datetime.timedelta(days=back):%Y.%m.%d}" for back in (100, 40, 1)}
    for back, index in days.items():
        c.load(index, (old if back > 30 else new).items())
    assert c.put("/roll-000001", {"aliases": {"roll": {"is_write_index": True}}}).status == 200
    c.load("roll", new.items())

    def curator(**actions):
        config, file = tmp_path / "config.yml", tmp_path / "actions.yml"  # JSON is YAML
        client = ({"client": {"hosts": ["127.0.0.1"], "port": daemon.port}} if version == 5 else
                  {"elasticsearch": {"client": {"hosts": f"http://127.0.0.1:{daemon.port}"}}})
        config.write_text(json.dumps({**client, "logging": {"loglevel": "INFO"}}))
        file.write_text(json.dumps({"actions": {n: x for n, x in enumerate(actions.values(), 1)}}))
        packages = os.path.join(home, "packages")
        return run([os.environ.get("PYTHON", sys.executable), os.path.join(packages, "bin", "curator"),
                    "--config", str(config), str(file)], {"PYTHONPATH": packages, "LC_ALL": "C.UTF-8"})

    curator(create=action("create_index", {"name": "made-by-curator"}),
            roll=action("rollover", {"name": "roll", "conditions": {"max_docs": 10}}),
            alias=action("alias", {"name": "recent"}, add={"filters": [
                {"filtertype": "pattern", "kind": "prefix", "value": "app-"},
                {"filtertype": "age", "source": "name", "direction": "younger", "timestring": "%Y.%m.%d",
                 "unit": "days", "unit_count": 30}]}),
            # stowd shows one segment an index, so that curator finds nothing to merge.
            merge=action("forcemerge", {"max_num_segments": 1, "ignore_empty_list": True}, value="app-"),
            close=action("close", value="app-", kind="age"))
    assert c.get("/made-by-curator").status == 200
    assert list(c.get("/_alias/recent").json) == [days[1]]
    assert c.put_doc("roll", "x", b"{}").json["_index"] == "roll-000002"
    r = c.get(f"/{days[40]}/_doc/a0")
    assert r.status == 400 and r.error["type"] == "index_closed_exception", r
    daemon.crash()
    curator(open=action("open", value=days[40]))
    daemon.crash()
    compare(daemon, days[40], old)
    curator(delete=action("delete_indices", value="app-", kind="age"))
    assert list(daemon.client().get("/app-*").json) == [days[1]]
    compare(daemon, days[1], new)
    compare(daemon, "roll-000001", new)
