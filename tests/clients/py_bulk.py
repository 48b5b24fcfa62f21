# SPDX-License-Identifier: Apache-2.0
"""Runs in the venv that has the elasticsearch package: loads the lines of a file with
helpers.streaming_bulk, reads them back with mget, prints the ids in order as JSON.
    py_bulk.py URL INDEX FILE"""
import json
import sys

import elasticsearch
from elasticsearch import Elasticsearch, helpers

url, index, path = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    lines = f.read().splitlines()

es = Elasticsearch(url, request_timeout=60, http_compress=True)
assert es.info()["tagline"] == "You Know, for Search"
ids = []
for ok, item in helpers.streaming_bulk(es, lines, index=index, chunk_size=700):
    assert ok, item
    ids.append(item["index"]["_id"])
assert len(set(ids)) == len(lines)
for at in range(0, len(ids), 500):
    docs = es.mget(index=index, ids=ids[at:at + 500])["docs"]
    for id, doc, line in zip(ids[at:], docs, lines[at:]):
        assert doc["found"] and doc["_id"] == id and doc["_source"] == json.loads(line), doc

es.index(index=index, id="one", document={"v": 1})
try:
    es.create(index=index, id="one", document={})
    raise AssertionError("created twice")
except elasticsearch.ConflictError:
    pass
es.update(index=index, id="one", doc={"w": 2})
assert es.get(index=index, id="one")["_source"] == {"v": 1, "w": 2}
assert es.delete(index=index, id="one")["result"] == "deleted"
try:
    es.get(index=index, id="one")
    raise AssertionError("still there")
except elasticsearch.NotFoundError:
    pass
print(json.dumps(ids))
