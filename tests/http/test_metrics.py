# SPDX-License-Identifier: Apache-2.0
"""GET /_metrics in Prometheus' text format, and log lines as JSON."""
import json
import re

import pytest
from stow import Client, bulk_body

SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z_]+="[^"\\]*"(?:,[a-z_]+="[^"\\]*")*)\})? (-?[0-9.e+-]+|\+Inf|NaN)$')


def read(text):
    """{(name, labels): value}, the format checked."""
    samples, types, family, seen = {}, {}, None, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in seen, f"{family} comes twice"
            seen.add(family)
            assert len(line.split(" ", 3)) == 4
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == family and kind in ("counter", "gauge", "histogram")
            types[name] = kind
        else:
            m = SAMPLE.match(line)
            assert m, line
            name, labels, value = m.groups()
            base = re.sub(r"_(bucket|sum|count)$", "", name) if types.get(family) == "histogram" else name
            assert base == family, line
            if types[family] == "counter":
                assert name.endswith("_total"), name
            assert (name, labels) not in samples, line
            samples[name, labels] = float(value)
    return samples


def metrics(client):
    r = client.get("/_metrics")
    assert r.status == 200 and r.header("content-type").startswith("text/plain; version=0.0.4"), r
    return read(r.body.decode())


def test_counters_move(client, index):
    docs = [(str(n), b'{"message":"a line like many others","n":%d}' % n) for n in range(500)]
    before = metrics(client)
    client.load(index, docs, 100)
    for n in range(10):
        assert client.get_doc(index, str(n)).status == 200
    assert client.get_doc(index, "missing").status == 404
    client.sources(index, ["1", "2"])
    assert client.put_doc(index, "x", b"{}").status == 201
    assert client.delete(f"/{index}/_doc/x").status == 200
    assert client.bulk(b"rubbish").status == 400
    assert client.request("PUT", "/_bulk", b"x", headers={"Content-Type": "image/png"}).status in (406, 415)
    after = metrics(client)

    def moved(name, labels=None):
        return after[name, labels] - before.get((name, labels), 0)
    assert moved("stowd_http_requests_total", 'class="bulk",status="2xx"') == 5
    assert moved("stowd_http_requests_total", 'class="get",status="2xx"') == 10
    assert moved("stowd_http_requests_total", 'class="get",status="4xx"') == 1
    assert moved("stowd_http_requests_total", 'class="mget",status="2xx"') == 1
    assert moved("stowd_http_requests_total", 'class="write",status="2xx"') == 2
    assert moved("stowd_http_refused_total", 'status="400"') >= 1
    assert moved("stowd_http_request_duration_seconds_count", 'class="bulk"') >= 5
    assert moved("stowd_http_request_duration_seconds_sum", 'class="bulk"') > 0
    assert moved("stowd_http_received_bytes_total") > sum(len(d) for _, d in docs)
    assert moved("stowd_wal_commits_total") >= 7 and moved("stowd_wal_written_bytes_total") > 0
    of_index = {name: v for (name, labels), v in after.items() if labels == f'index="{index}"'}
    assert of_index["stowd_index_documents"] == 500
    assert of_index["stowd_index_raw_bytes"] >= sum(len(d) for _, d in docs)
    assert of_index["stowd_index_written_total"] == 501 and of_index["stowd_index_deletes_total"] == 1
    assert after["stowd_http_connections", None] >= 1
    assert after["stowd_http_in_flight_max_bytes", None] > 0
    assert after["process_resident_memory_bytes", None] > 1 << 20


def test_histograms_are_cumulative(client, index):
    client.put_doc(index, "1", b"{}")
    samples = metrics(client)
    for kind in ("bulk", "write", "get", "mget", "search", "other"):
        buckets = [(labels, v) for (name, labels), v in samples.items()
                   if name == "stowd_http_request_duration_seconds_bucket" and f'class="{kind}"' in labels]
        values = [v for _, v in buckets]
        assert values == sorted(values) and 'le="+Inf"' in buckets[-1][0]
        assert values[-1] == samples["stowd_http_request_duration_seconds_count", f'class="{kind}"']


def test_compressed_bytes_after_flush(client, index):
    client.load(index, [(str(n), b'{"message":"the same line again and again","n":%d}' % n) for n in range(5000)])
    assert client.post(f"/{index}/_flush").status == 200
    samples = metrics(client)
    raw = samples["stowd_index_packed_raw_bytes", f'index="{index}"']
    packed = samples["stowd_index_compressed_bytes", f'index="{index}"']
    assert 0 < packed < raw / 2
    assert samples["stowd_index_blocks", f'index="{index}"'] > 0


@pytest.mark.slow
def test_many_indices_are_streamed(make_daemon):
    d = make_daemon()
    c = Client(d.port)
    name = "i" * 200
    for at in range(0, 500, 100):
        body = b"".join(bulk_body(f"{name}{n}", [("1", b"{}")]) for n in range(at, at + 100))
        assert c.bulk(body).json["errors"] is False
    r = c.get("/_metrics")
    assert r.header("transfer-encoding") == "chunked" and len(r.body) > 1 << 20
    assert sum(v for (n, _), v in read(r.body.decode()).items() if n == "stowd_index_documents") == 500
    assert d.stop() == 0


def test_log_lines_as_json(make_daemon):
    d = make_daemon("log.format=json", "log.level=debug", 'node.name=a "quoted" name')
    Client(d.port).get("/")
    d.process.send_signal(1)
    assert d.stop() == 0
    lines = [json.loads(line) for line in d.log().splitlines()]
    assert len(lines) >= 3 and all(set(line) == {"@timestamp", "log.level", "service.name", "message"} for line in lines)
    assert {line["log.level"] for line in lines} >= {"info"} and lines[-1]["message"] == "stopped"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["@timestamp"]) for line in lines)
    d = make_daemon("log.format=json", f'path.data={d.data}/no"such\\folder\x01\xff', "http.port=99999", start=False).spawn()
    assert d.wait() == 78  # settings are wrong: a plain line, the format is not known yet
    d = make_daemon("log.format=json", "storage.wal.size=4mb", 'path.data=/proc/no"such\\folder', start=False).spawn()
    assert d.wait() == 73 and 'no"such\\folder' in json.loads(d.log())["message"]
