# SPDX-License-Identifier: Apache-2.0
"""Log lines as shippers send them, through _bulk into a zstd index and back by _mget, byte for byte,
before and after SIGKILL."""
import pytest
from stow import corpus, log_documents


def through(daemon, index, lines, with_ids):
    c = daemon.client(timeout=60)
    r = c.put(f"/{index}", {"settings": {"index.codec": "zstd", "index.codec.compression_level": 3}})
    assert r.status == 200, r
    items = c.load(index, [(f"{n:06d}" if with_ids else None, x) for n, x in enumerate(lines)])
    docs = {i["_id"]: x for i, x in zip(items, lines)}
    assert len(docs) == len(lines)
    assert c.sources(index, docs) == docs
    daemon.crash()
    c = daemon.client(timeout=60)
    assert c.sources(index, docs) == docs
    assert c.post(f"/{index}/_forcemerge").status == 200
    assert c.sources(index, docs) == docs
    total = c.get(f"/{index}/_stats").json["indices"][index]["total"]
    assert total["docs"]["count"] == len(lines)
    assert total["store"]["size_in_bytes"] < sum(map(len, lines)) / 2


@pytest.mark.parametrize("with_ids", [False, True])
def test_made_up_log_lines(make_daemon, with_ids):
    through(make_daemon(), "logs", log_documents(4000), with_ids)


@pytest.mark.parametrize("name", ["apache_real", "nginx_real"])
def test_real_log_lines(make_daemon, name):
    lines = corpus(name)
    if lines is None:
        pytest.skip(f"no corpus {name} here")
    daemon = make_daemon()
    through(daemon, f"{name}-made", lines, with_ids=False)
    through(daemon, f"{name}-own", lines, with_ids=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kubernetes", "products", "taxis"])
def test_other_corpora(make_daemon, name):
    lines = corpus(name, limit=5000)
    if lines is None:
        pytest.skip(f"no corpus {name} here")
    through(make_daemon(), name, lines, with_ids=True)
