# SPDX-License-Identifier: Apache-2.0
"""docs/api.md names every endpoint of the table in api/routes.c, README.md every setting of the daemon."""
import os
import re
import subprocess
import sys

from stow import STOWD

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_every_endpoint_is_named():
    tool = os.path.join(ROOT, "tools/apidoc.py")
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_setting_is_named():
    text = subprocess.run([STOWD, "--help"], capture_output=True, text=True, check=True).stdout
    settings = dict(re.findall(r"^  ([a-z_.]+) = (.*)$", text, re.M))
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        table = f.read().split("## Settings of the daemon")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*)`? \|", table, re.M))
    assert {name: value.strip() for name, value in rows.items()} == {
        name: "" if value == '""' else value for name, value in settings.items()}
