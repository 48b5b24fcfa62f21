# SPDX-License-Identifier: Apache-2.0
"""_version, _seq_no, _primary_term and writes with a condition."""
import pytest
from stow import action, in_threads, ndjson


def conflict(r):
    return r.status == 409 and r.error["type"] == "version_conflict_engine_exception"


def test_versions_rise(client, index):
    for n in range(1, 6):
        r = client.put_doc(index, "1", b"{}").json
        assert (r["_version"], r["_seq_no"], r["_primary_term"]) == (n, n - 1, 1)
    assert client.put_doc(index, "2", b"{}").json["_seq_no"] == 5
    assert client.delete(f"/{index}/_doc/1").json["_version"] == 6
    r = client.put_doc(index, "1", b"{}")
    assert r.json["_version"] == 7 and r.json["result"] == "created"


def test_if_seq_no(client, index):
    client.put_doc(index, "1", b'{"v":1}')
    assert conflict(client.put_doc(index, "1", b"{}", "?if_seq_no=5&if_primary_term=1"))
    assert conflict(client.put_doc(index, "1", b"{}", "?if_seq_no=0&if_primary_term=2"))
    assert conflict(client.put_doc(index, "none", b"{}", "?if_seq_no=0&if_primary_term=1"))
    assert client.put_doc(index, "1", b'{"v":2}', "?if_seq_no=0&if_primary_term=1").status == 200
    assert conflict(client.delete(f"/{index}/_doc/1?if_seq_no=0&if_primary_term=1"))
    assert client.source(index, "1") == b'{"v":2}'
    assert client.delete(f"/{index}/_doc/1?if_seq_no=1&if_primary_term=1").status == 200


@pytest.mark.parametrize("query", ["if_seq_no=0", "if_primary_term=1", "if_seq_no=x&if_primary_term=1", "version=1",
                                   "version=1&version_type=internal", "version=-5&version_type=external",
                                   "version_type=sideways"])
def test_conditions_that_are_refused(client, index, query):
    r = client.put_doc(index, "1", b"{}", "?" + query)
    assert r.status == 400 and r.error["reason"], r


def test_external_versions(client, index):
    def put(version, kind="external"):
        return client.put_doc(index, "1", b"{}", f"?version={version}&version_type={kind}")
    assert put(10).json["_version"] == 10
    assert conflict(put(10)) and conflict(put(9))
    assert put(10, "external_gte").status == 200
    assert put(2 ** 62).json["_version"] == 2 ** 62
    assert conflict(client.delete(f"/{index}/_doc/1?version=5&version_type=external"))
    r = client.delete(f"/{index}/_doc/1?version={2 ** 62 + 1}&version_type=external")
    assert r.status == 200 and r.json["_version"] == 2 ** 62 + 1
    assert conflict(put(11)), "a tombstone keeps its version"


def test_conditions_in_bulk(client, index):
    client.put_doc(index, "1", b"{}")
    r = client.bulk(ndjson(
        action("index", index, "1", if_seq_no=0, if_primary_term=1), "{}",
        action("index", index, "1", if_seq_no=0, if_primary_term=1), "{}",
        action("index", index, "2", version="7", version_type="external"), "{}",
        action("index", index, "2", version=7, version_type="external"), "{}",
        action("delete", index, "2", version=8, version_type="external_gte")))
    assert [i["status"] for i in r.items] == [200, 409, 201, 409, 200], r
    assert r.items[2]["_version"] == 7 and r.json["errors"] is True


def test_one_of_many_creates_wins(node, index):
    def work(k):
        c = node.client()
        return [c.put(f"/{index}/_create/{n}", b'{"k":%d}' % k).status for n in range(40)]
    results = in_threads([lambda k=k: work(k) for k in range(8)])
    for n in range(40):
        assert sorted(r[n] for r in results) == [201] + [409] * 7
        winner = [r[n] for r in results].index(201)
        assert node.client().source(index, str(n)) == b'{"k":%d}' % winner


def test_version_conditions_on_get(client, index):
    client.put_doc(index, "1", b"{}")
    assert client.get(f"/{index}/_doc/1?version=1").status == 200
    assert conflict(client.get(f"/{index}/_doc/1?version=2"))
