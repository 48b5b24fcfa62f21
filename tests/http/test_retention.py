# SPDX-License-Identifier: Apache-2.0
"""Retention: old indices go by themselves, reached by a setting, a data stream's lifecycle or a
policy's delete phase. The daemon of these tests looks every 100 ms."""
import os
import time

import pytest
from stow import indices_bytes, wait_until

DOC = b'{"@timestamp":"2026-11-30T00:00:00Z"}'


@pytest.fixture
def daemon(make_daemon):
    return make_daemon("lifecycle.poll_interval=100ms")


def gone(client, index):
    return wait_until(lambda: client.head(f"/{index}").status == 404, 15)


def stays(client, index, seconds=1.0):
    time.sleep(seconds)
    return client.head(f"/{index}").status == 200


def test_setting_of_an_index(daemon):
    c = daemon.client()
    c.put("/old", {"settings": {"index.lifecycle.data_retention": "1s"}})
    c.put("/kept", {"settings": {"index.lifecycle.data_retention": "1d"}})
    c.put("/plain")
    assert c.head("/old").status == 200
    assert gone(c, "old")
    assert c.head("/kept").status == 200 and c.head("/plain").status == 200
    assert wait_until(lambda: "retention: index [old] deleted" in daemon.log(), 15)  # the line follows the deed
    assert c.put("/plain/_settings", {"index.lifecycle.data_retention": "10ms"}).status == 200
    assert gone(c, "plain")


def test_setting_of_a_template_gives_the_space_back(daemon):
    c = daemon.client()
    c.put("/_index_template/t", {"index_patterns": "logs-*",
                                 "template": {"settings": {"index.lifecycle.data_retention": "3s"}}})
    blob = os.urandom(40000).hex().encode()
    for n in range(30):
        c.put_doc("logs-2026.11.30", str(n), b'{"b":"' + blob + b'"}')
    c.post("/_flush")

    before = indices_bytes(daemon)
    assert gone(c, "logs-2026.11.30")
    assert wait_until(lambda: indices_bytes(daemon) < before - 500_000, 15), (before, indices_bytes(daemon))
    # A new index of the name begins a new life.
    c.put_doc("logs-2026.11.30", "1", b"{}")
    assert stays(c, "logs-2026.11.30", 0.5)


def test_deleting_gives_the_space_back(daemon):
    """An index, and a backing index that is not written to: at once, not when something passes by."""
    c = daemon.client()
    c.put("/_index_template/t", {"index_patterns": "s-*", "data_stream": {}})

    for name in ("plain", "s-1"):
        for n in range(30):
            body = b'{"@timestamp":1,"b":"' + os.urandom(20000).hex().encode() + b'"}'
            assert c.put(f"/{name}/_create/{n}", body).status == 201
    assert c.post("/s-1/_rollover").json["rolled_over"] is True
    c.post("/_flush")
    old = c.get("/_data_stream/s-1").json["data_streams"][0]["indices"][0]["index_name"]
    full = indices_bytes(daemon)
    assert full > 1_000_000
    assert c.delete("/plain").status == 200
    assert wait_until(lambda: indices_bytes(daemon) < full - 500_000, 5), (full, indices_bytes(daemon))
    assert c.delete(f"/{old}").status == 200
    assert wait_until(lambda: indices_bytes(daemon) < full - 1_000_000, 5), (full, indices_bytes(daemon))


def test_lifecycle_of_a_data_stream(daemon):
    c = daemon.client()
    c.put("/_index_template/t", {"index_patterns": "s*", "data_stream": {}})
    c.put("/s1/_create/1", DOC)
    c.post("/s1/_rollover")
    c.put("/s1/_create/2", DOC)
    assert c.get("/_data_stream/s1/_lifecycle").json == {"data_streams": [{"name": "s1"}]}
    first, second = (i["index_name"] for i in c.get("/_data_stream/s1").json["data_streams"][0]["indices"])
    assert stays(c, first, 0.5)
    assert c.put("/_data_stream/s1/_lifecycle", {"data_retention": "1s"}).json == {"acknowledged": True}
    got = c.get("/_data_stream/s1/_lifecycle").json["data_streams"][0]["lifecycle"]
    assert got["enabled"] is True and got["data_retention"] == "1s"
    assert gone(c, first)
    # What is written to is rolled over, so that it can go, too; the stream stays.
    assert gone(c, second)
    data = c.get("/_data_stream/s1").json["data_streams"][0]
    assert data["generation"] >= 3 and data["lifecycle"]["data_retention"] == "1s"
    assert c.put("/s1/_create/3", DOC).status == 201
    assert c.delete("/_data_stream/s1/_lifecycle").json == {"acknowledged": True}
    assert "lifecycle" not in c.get("/_data_stream/s1").json["data_streams"][0]
    for bad in ({"data_retention": "soon"}, {"enabled": 1}, {"downsampling": []}):
        assert c.put("/_data_stream/s1/_lifecycle", bad).status == 400, bad
    assert c.put("/_data_stream/none/_lifecycle", {}).status == 404


def test_lifecycle_of_a_template(daemon):
    c = daemon.client()
    r = c.put("/_component_template/c", {"template": {"lifecycle": {"data_retention": "1s"}}})
    assert r.status == 200, r
    c.put("/_index_template/t", {"index_patterns": "s*", "data_stream": {}, "composed_of": ["c"]})
    c.put("/s1/_create/1", DOC)
    data = c.get("/_data_stream/s1").json["data_streams"][0]
    assert data["lifecycle"]["data_retention"] == "1s"
    assert gone(c, data["indices"][0]["index_name"])
    assert c.put("/_data_stream/s1/_lifecycle", {"data_retention": "1s", "enabled": False}).status == 200
    c.put("/s1/_create/2", DOC)
    newest = c.get("/_data_stream/s1").json["data_streams"][0]["indices"][-1]["index_name"]
    c.post("/s1/_rollover")
    assert stays(c, newest, 1.5)
    assert c.put("/_index_template/t", {"index_patterns": "s*", "data_stream": {},
                                        "template": {"lifecycle": {"data_retention": 5}}}).status == 400


def test_delete_phase_of_a_policy(daemon):
    c = daemon.client()
    c.put("/_ilm/policy/p", {"policy": {"phases": {
        "hot": {"actions": {"set_priority": {"priority": 100}}}, "warm": {"min_age": "0ms", "actions": {}},
        "delete": {"min_age": "1s", "actions": {"delete": {}}}}}})
    c.put("/_ilm/policy/q", {"policy": {"phases": {"delete": {"min_age": "0ms", "actions": {}}}}})
    for name in ("p", "q", "none"):
        c.put(f"/i-{name}", {"settings": {"index.lifecycle.name": name}})
    assert gone(c, "i-p")
    assert c.head("/i-q").status == 200 and c.head("/i-none").status == 200
    assert daemon.log().count("phases [hot, warm] have no effect here") == 1
    # A policy that is changed counts for the indices that are there.
    c.put("/_ilm/policy/q", {"policy": {"phases": {"delete": {"min_age": "0ms", "actions": {"delete": {}}}}}})
    assert gone(c, "i-q")


def test_what_an_alias_writes_to_stays(daemon):
    c = daemon.client()
    settings = {"index.lifecycle.data_retention": "500ms"}
    c.put("/a-1", {"aliases": {"a": {"is_write_index": True}}, "settings": settings})
    assert stays(c, "a-1", 1.5)
    c.post("/a/_rollover", {"settings": settings})
    rolled = time.monotonic()
    assert gone(c, "a-1") and time.monotonic() - rolled >= 0.4, "age counts from the rollover"
    assert stays(c, "a-000002", 1.2)


def test_the_most_specific_retention_counts(daemon):
    c = daemon.client()
    c.put("/_index_template/t", {"index_patterns": "s*", "data_stream": {}, "template": {
        "settings": {"index.lifecycle.data_retention": "1d"}, "lifecycle": {"data_retention": "100ms"}}})
    c.put("/s1/_create/1", DOC)
    first = c.get("/_data_stream/s1").json["data_streams"][0]["indices"][0]["index_name"]
    c.post("/s1/_rollover")
    assert stays(c, first, 1.2)


def test_a_block_keeps_an_index(daemon):
    c = daemon.client()
    c.put("/i", {"settings": {"index.lifecycle.data_retention": "100ms", "index.blocks.read_only": True}})
    assert stays(c, "i", 1.0)
    c.put("/i/_settings", {"index.blocks.read_only": False})
    assert gone(c, "i")


def test_no_passes_when_switched_off(make_daemon):
    d = make_daemon("lifecycle.poll_interval=0")
    c = d.client()
    c.put("/i", {"settings": {"index.lifecycle.data_retention": "1ms"}})
    assert stays(c, "i", 1.0)
    d.stop()
    d.settings.append("lifecycle.poll_interval=100ms")
    d.start()
    assert gone(d.client(), "i"), "age is kept over a restart"
