#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep the list of endpoints in docs/api.md equal to the table in api/routes.c.

    apidoc.py            write the list anew between its two marks
    apidoc.py --check    fail, naming the rows, when it is not what the table says
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN, END = "<!-- routes: made by tools/apidoc.py -->", "<!-- end of routes -->"
ROW = re.compile(r'\{((?:[A-Z]+(?:\s*\|\s*)?)+),\s*"([^"]+)",\s*(\w+),(.*?)\}(?=,\s*(?:\{|\}|/\*|$))', re.S)
STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"')


def rows():
    with open(os.path.join(ROOT, "api/routes.c"), encoding="utf-8") as f:
        text = f.read()
    table = text[text.index("table[] = {"):]
    table = table[table.index("\n") + 1:table.index("\n};")]
    found = []
    for methods, pattern, _, rest in ROW.findall(table):
        # The text is the run of string literals behind the last comma outside of them.
        parts = re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', rest)
        text = "".join(STRINGS.findall(parts[-1]))
        found.append((" ".join(m.strip() for m in methods.split("|")), pattern, text))
    return found


def lines():
    out = ["| methods | path | what |", "|---|---|---|"]
    out += [f"| {m} | `{p}` | {t} |" for m, p, t in rows()]
    return out


def main():
    path = os.path.join(ROOT, "docs/api.md")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    new = "\n" + "\n".join(lines()) + "\n"
    if "--check" not in sys.argv:
        with open(path, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + new + END + after)
        return 0
    for line in sorted(set(new.splitlines()) ^ set(old.splitlines())):
        print(("missing: " if line in new else "gone: ") + line)
    if new != old:
        print("docs/api.md is behind api/routes.c: run tools/apidoc.py")
    return new != old


if __name__ == "__main__":
    sys.exit(main())
