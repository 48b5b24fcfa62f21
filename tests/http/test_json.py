# SPDX-License-Identifier: Apache-2.0
"""What is JSON and what is not: RFC 8259 strictly, and every accepted byte kept."""
import random

import pytest
from stow import bulk_body

GOOD = [
    b"{}", b'{ }', b'{"a":1e00001,"b":-0,"c":1E+2,"d":1e-400}', b'{"e":123456789012345678901234567890.00}',
    b'{"a":' + b"9" * 400 + b"}", b'{"a":"\\ud800","b":"\\udc00\\ud800"}', b'{"a\\u0000":"\\u0000","a":1,"a":2}',
    '{"é€😀":"é€😀\u2028\x7f"}'.encode(), b'{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t"}', b'{"":{"":[[],{},null,true,false]}}',
    b'{"a":' + b"[" * 498 + b"]" * 498 + b"}", b'{"a":' * 499 + b"1" + b"}" * 499,
    b'\t{"x.y":1,"x":{"z":2} }\t', b'{"t":["b","a","a",null,[],{}]}',
]
BAD = [
    b"42", b'"x"', b"null", b"true", b'[{"a":1}]', b"{", b"}", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{,}", b'{"a" 1}',
    b'{"a":01}', b'{"a":1.}', b'{"a":.5}', b'{"a":+1}', b'{"a":-}', b'{"a":1e}', b'{"a":1e+}', b'{"a":0x1}',
    b'{"a":NaN}', b'{"a":Infinity}', b'{"a":tru}', b'{"a":True}', b'{"a":nulll}', b"{'a':1}", b"{a:1}",
    b'{"a":"x\x01y"}', b'{"a":"x\ty"}', b'{"a":"x\x00y"}', b'{"a\x00":1}', b'{"a":1}\x00', b'{"a":1\x00}',
    b'{"a":"\xff"}', b'{"a":"\xc0\xaf"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xf4\x90\x80\x80"}', b'{"a":"\xe2\x82"}',
    b'{"a":"\\x"}', b'{"a":"\\u12"}', b'{"a":"\\u12G4"}', b'{"a":"x', b'{"a":1}}', b'{"a":1}{"b":2}', b'{"a":1}x',
    b'{"a":1]', b'{"a":[1}', b'{"a":[1,]}', b'{"a":[,1]}', b"\xef\xbb\xbf{}", b'{"a":1}//', b"/**/{}",
    b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}",
]


def test_good_documents_come_back_byte_for_byte(client, index):
    docs = [(str(n), d) for n, d in enumerate(GOOD)]
    client.load(index, docs)
    for id, doc in docs:
        assert client.source(index, id) in (doc, doc.strip()), doc[:80]
        assert client.put_doc(index, "put", doc).status in (200, 201)
        assert client.source(index, "put") in (doc, doc.strip())


def test_bad_documents_are_refused_each(client, index):
    r = client.bulk(bulk_body(index, [(str(n), d) for n, d in enumerate(BAD)] + [("good", b'{"g":1}')]))
    wrong = [(BAD[n][:60], i["status"]) for n, i in enumerate(r.items[:-1]) if i["status"] != 400]
    assert not wrong
    assert all(i["error"]["type"] and i["error"]["reason"] for i in r.items[:-1])
    assert client.source(index, "good") == b'{"g":1}'
    found = {i: s for i, s in client.sources(index, map(str, range(len(BAD)))).items() if s is not None}
    assert not found


@pytest.mark.parametrize("bad", BAD[:12] + [b'{"a":"\xff"}', b'{"a":"x\x01y"}', b"\xef\xbb\xbf{}"])
def test_bad_documents_by_put(client, index, bad):
    r = client.put_doc(index, "1", bad)
    assert r.status == 400 and r.error["type"] in ("document_parsing_exception", "mapper_parsing_exception",
                                                    "parse_exception", "illegal_argument_exception"), r


def random_value(rng, depth):
    kind = rng.randrange(9 if depth < 5 else 6)
    if kind < 3:
        return rng.choice(["true", "false", "null", "0", "-1", "1.50", "1e9", "-2.5E-3", str(rng.getrandbits(70))])
    if kind < 6:
        return '"' + "".join(rng.choice(["a", "Z", " ", "\\n", "\\u0000", '\\"', "é", "😀", "/", "\\/", "\\u20AC"])
                             for _ in range(rng.randrange(40))) + '"'
    space = rng.choice(["", " ", "  ", "\t"])
    if kind == 6:
        return "[" + space + ("," + space).join(random_value(rng, depth + 1) for _ in range(rng.randrange(5))) + "]"
    return random_object(rng, depth + 1, space)


def random_object(rng, depth=0, space=""):
    members = (f'"k{rng.randrange(1000)}{n}"{space}:{random_value(rng, depth)}' for n in range(rng.randrange(6)))
    return "{" + space + (space + ",").join(members) + space + "}"


def test_random_documents(client, index):
    rng = random.Random(15)
    docs = {f"d{n}": random_object(rng).encode() for n in range(1000)}
    client.load(index, docs.items())
    assert client.sources(index, docs) == docs
    client.post(f"/{index}/_forcemerge")
    assert client.sources(index, docs) == docs
