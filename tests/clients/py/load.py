# SPDX-License-Identifier: Apache-2.0
"""Loads lines with a bulk helper of the Elastic or OpenSearch client on PYTHONPATH, exports them with
helpers.scan, copies them with helpers.reindex.
    load.py URL FILE INDEX HELPER        bulk, streaming_bulk or parallel_bulk
prints {"loaded": N, "read": N, "copied": N}; ids are line-0, line-1 …"""
import json
import sys
import time

try:
    from elasticsearch import Elasticsearch as Client
    from elasticsearch import exceptions, helpers
    BODY = "document"
except ImportError:
    from opensearchpy import OpenSearch as Client
    from opensearchpy import exceptions, helpers
    BODY = "body"

url, path, index, helper = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    documents = {f"line-{n}": line for n, line in enumerate(f.read().splitlines())}
FAILED = (exceptions.TransportError, getattr(exceptions, "ApiError", exceptions.TransportError))

es = Client([url], http_compress=helper == "parallel_bulk", max_retries=3, retry_on_timeout=True)


def load(pending):
    """Send what is pending; what is acknowledged leaves it, so that its loss would be seen."""
    actions = [{"_index": index, "_id": id, "_source": line} for id, line in pending.items()]
    if helper == "bulk":  # tells only at its end what was stored
        for at in range(0, len(actions), 500):
            done, errors = helpers.bulk(es, actions[at:at + 500], raise_on_error=False)
            assert not errors and done == len(actions[at:at + 500]), errors[:3]
            for one in actions[at:at + 500]:
                del pending[one["_id"]]
        return
    more = {"thread_count": 2} if helper == "parallel_bulk" else {"max_retries": 5, "initial_backoff": 0.1}
    for ok, item in getattr(helpers, helper)(es, actions, chunk_size=500, **more):
        assert ok, item
        del pending[item["index"]["_id"]]


# The helpers give up when a node is away: go on with what they have not reported as stored.
pending = dict(documents)
deadline = time.monotonic() + 120
while pending:
    try:
        load(pending)
    except FAILED as e:
        if getattr(e, "status_code", "N/A") not in ("N/A", 429, 502, 503, 504) or time.monotonic() > deadline:
            raise
        time.sleep(0.1)


def export(name):
    """Every document of an index is there once and is what was sent."""
    seen = set()
    for hit in helpers.scan(es, index=name, size=700):
        assert hit["_source"] == json.loads(documents[hit["_id"]]), hit
        seen.add(hit["_id"])
    assert seen == set(documents), len(seen)
    return len(seen)


read = export(index)
copied, _ = helpers.reindex(es, index, index + "-copy")
assert export(index + "-copy") == copied

# The rest of a day's work.
es.index(index="other", id="a/b c+d%é", **{BODY: {"v": 1}})
assert es.exists(index="other", id="a/b c+d%é") and not es.exists(index="other", id="none")
assert es.get(index="other", id="a/b c+d%é")["_source"] == {"v": 1}
assert es.delete(index="other", id="a/b c+d%é")["result"] == "deleted"
try:
    es.get(index="other", id="a/b c+d%é")
    raise AssertionError("still there")
except exceptions.NotFoundError:
    pass
print(json.dumps({"loaded": len(documents), "read": read, "copied": copied}))
