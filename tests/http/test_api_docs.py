# SPDX-License-Identifier: Apache-2.0
"""docs/api.md names every endpoint of the table in api/routes.c."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_every_endpoint_is_named():
    tool = os.path.join(ROOT, "tools/apidoc.py")
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
