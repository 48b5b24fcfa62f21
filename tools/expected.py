#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare a run of a foreign test suite with the list of what is expected to pass so far.

    expected.py LIST RESULTS.json [--update]

RESULTS.json holds {"results": [...]}, each with either id, result and message or file, test, status
and reason, as the two runners write them. LIST has one name a line, a '#' in front makes it a comment; it only grows.
A listed test that did not pass is a failure; a pass that is not listed is named, and entered by
--update. A listed test that was skipped (no root, say) is skipped here, too. The last line is
"N passed, N failed, N skipped" over the listed tests.
"""
import argparse
import json
import sys

SEPARATOR = " \u203a "


def name_of(result):
    return result["id"] if "id" in result else SEPARATOR.join((result["file"], result["test"]))


def kind_of(result):
    word = str(result.get("result", result.get("status"))).lower()
    return word[:4] if word[:4] in ("pass", "skip") else "fail"


def why_of(result):
    return str(result.get("message") or result.get("reason") or "")[:400]


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("list")
    ap.add_argument("results")
    ap.add_argument("--update", action="store_true", help="enter the new passes")
    o = ap.parse_args()

    with open(o.list, encoding="utf-8") as f:
        lines = f.read().splitlines()
    expected = [x for x in map(str.strip, lines) if x and not x.startswith("#")]
    with open(o.results, encoding="utf-8") as f:
        data = json.load(f)
    results = data["results"] if isinstance(data, dict) else data
    got = {name_of(r): r for r in results}

    tally = {"pass": 0, "fail": 0, "skip": 0}
    for name in expected:
        kind = kind_of(got[name]) if name in got else "fail"
        tally[kind] += 1
        if kind == "fail":
            print(f"FAIL {name}: {why_of(got[name]) if name in got else 'was not run'}")
    new = [n for n, r in got.items() if kind_of(r) == "pass" and n not in set(expected)]
    for name in new:
        print(f"new pass: {name}")
    if o.update and new:
        with open(o.list, "a", encoding="utf-8") as f:
            f.writelines(n + "\n" for n in new)
    others = sum(1 for r in got.values() if kind_of(r) == "fail") - tally["fail"]
    print(f"{len(new)} new, {max(0, others)} not passing yet")
    print(f"{tally['pass']} passed, {tally['fail']} failed, {tally['skip']} skipped")
    return 1 if tally["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
