# SPDX-License-Identifier: Apache-2.0
"""Codec, level and block size: spellings, refusals, final after creation, kept for ever."""
import pytest
from stow import log_documents

NAMES = ["default", "zstd", "zstd_no_dict", "jd_zstd", "jd_zstd_6", "best_compression", "best_speed", "lz4",
         "zlib", "deflate", "none", "ZSTD", "Best_Compression"]


def flat(client, index, query=""):
    r = client.get(f"/{index}/_settings?flat_settings=true{query}")
    assert r.status == 200, r
    return r.json[index]


@pytest.mark.parametrize("name", NAMES)
def test_every_codec_keeps_documents(client, index, name):
    docs = log_documents(400)
    assert client.put(f"/{index}", {"settings": {"index": {"codec": name}}}).status == 200
    client.load(index, [(str(n), d) for n, d in enumerate(docs)])
    client.post(f"/{index}/_flush")
    assert flat(client, index)["settings"]["index.codec"].lower() == name.lower()
    assert client.sources(index, map(str, range(400))) == {str(n): d for n, d in enumerate(docs)}


@pytest.mark.parametrize("settings", [
    {"index.codec": "zstd", "index.codec.compression_level": 6},
    {"codec": "zstd", "codec.compression_level": "6"},
    {"index": {"codec": "zstd", "codec.compression_level": 6}},
    {"index": {"codec": "zstd"}, "index.codec.compression_level": "6"},
    {"index.codec": "ZSTD", "index": {"codec": {"compression_level": 6}}},
])
def test_spellings(client, index, settings):
    r = client.put(f"/{index}", {"settings": settings})
    assert r.status == 200, r
    got = flat(client, index)["settings"]
    assert got["index.codec"].lower() == "zstd" and got["index.codec.compression_level"] == "6"
    nested = client.get(f"/{index}/_settings").json[index]["settings"]["index"]
    assert isinstance(nested["creation_date"], str) and nested["number_of_shards"] == "1"


@pytest.mark.parametrize("settings, texts", [
    ({"index.codec": "zstdd"}, ["zstdd", "best_compression", "zstd_no_dict", "lz4", "default"]),
    ({"index.codec": "default", "index.codec.compression_level": 3}, ["compression_level"]),
    ({"index.codec": "best_compression", "index.codec.compression_level": 3}, ["compression_level"]),
    ({"index.codec": "lz4", "index.codec.compression_level": 3}, ["compression_level"]),
    ({"index.codec.compression_level": 3}, ["compression_level"]),
    ({"index.codec": "zstd", "index.codec.compression_level": 0}, ["compression_level"]),
    ({"index.codec": "zstd", "index.codec.compression_level": -1}, ["compression_level"]),
    ({"index.codec": "zstd", "index.codec.compression_level": 99}, ["compression_level"]),
    ({"index.codec": "zstd", "index.codec.compression_level": "3x"}, ["compression_level"]),
    ({"index.codec": "zstd", "index.codec.compression_level": 3.5}, ["compression_level"]),
    ({"index.codec": "zlib", "index.codec.compression_level": 10}, ["compression_level"]),
    ({"index.block.size": "1kb"}, ["index.block.size"]),
    ({"index.block.size": "1gb"}, ["index.block.size"]),
    ({"index.block.size": "many"}, ["index.block.size"]),
    ({"index.codek": "zstd"}, ["index.codek"]),
    ({"index.codec.levle": 3}, ["index.codec.levle"]),
    ({"bogus": 1}, ["bogus"]),
])
def test_refusals_name_the_setting(client, index, settings, texts):
    r = client.put(f"/{index}", {"settings": settings})
    assert r.status == 400 and r.error["type"] == "illegal_argument_exception", r
    for text in texts:
        assert text in r.error["reason"], r
    assert client.head(f"/{index}").status == 404


@pytest.mark.parametrize("change", [
    {"index.codec": "lz4"}, {"index": {"codec": "zstd_no_dict"}}, {"index.codec.compression_level": 5},
    {"index.block.size": "8kb"}, {"index.compression.zstd.level": 4}, {"bogus": 1}])
def test_final_after_creation(client, index, change):
    client.put(f"/{index}", {"settings": {"index.codec": "zstd", "index.codec.compression_level": 3}})
    before = flat(client, index)
    r = client.put(f"/{index}/_settings", change)
    assert r.status == 400 and r.error["type"] == "illegal_argument_exception", r
    assert flat(client, index) == before


def test_known_settings_are_kept(client, index):
    r = client.put(f"/{index}", {"settings": {
        "number_of_shards": 5, "number_of_replicas": 1, "refresh_interval": "5s",
        "index": {"mapping": {"total_fields": {"limit": 10000}}, "lifecycle": {"name": "policy"}}}})
    assert r.status == 200, r
    got = flat(client, index)["settings"]
    assert got["index.refresh_interval"] == "5s" and got["index.mapping.total_fields.limit"] == "10000"
    assert client.put(f"/{index}/_settings", {"index": {"refresh_interval": "1s"}}).json == {"acknowledged": True}
    assert flat(client, index)["settings"]["index.refresh_interval"] == "1s"


def test_easysearch_spelling_and_defaults(client, index):
    r = client.put(f"/{index}", {"settings": {"index.codec": "zstd", "index.compression.zstd.level": 7,
                                              "index.compression.zstd.jni": True}})
    assert r.status == 200, r
    assert flat(client, index)["settings"]["index.compression.zstd.level"] == "7"
    client.put(f"/{index}-b")
    with_defaults = flat(client, index + "-b", "&include_defaults=true")
    assert "index.codec" not in with_defaults["settings"], "what was not asked for is not echoed"
    assert with_defaults["defaults"]["index.codec"] == "zstd", "what default means, now and for this index"
    assert with_defaults["defaults"]["index.codec.compression_level"] == "3"


def test_block_sizes(client, index):
    docs = log_documents(1500)
    for size in ("4kb", "64kb", "4mb"):
        name = f"{index}-{size}"
        assert client.put(f"/{name}", {"settings": {"index.codec": "zstd", "index.block.size": size}}).status == 200
        client.load(name, [(str(n), d) for n, d in enumerate(docs)])
        client.post(f"/{name}/_forcemerge")
        assert client.sources(name, ["0", "777", "1499"]) == {
            "0": docs[0], "777": docs[777], "1499": docs[1499]}


def test_settings_survive_restart(make_daemon):
    d = make_daemon()
    c = d.client()
    docs = log_documents(300)
    for n, name in enumerate(NAMES):
        c.put(f"/i{n}", {"settings": {"index.codec": name}})
        c.load(f"i{n}", [(str(k), x) for k, x in enumerate(docs)])
    before = c.get("/_all/_settings").json
    d.restart()
    c = d.client()
    assert c.get("/_all/_settings").json == before
    for n in range(len(NAMES)):
        assert c.sources(f"i{n}", ["0", "299"]) == {"0": docs[0], "299": docs[299]}
