#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run tests of every kind and add them up: the last line is "N passed, N failed", with
", N skipped" when there are any. Exit 0 only when nothing failed and something passed or was skipped.

    runtests.py [--build DIR] [--check CMD...] [--unit BIN...] [--replay BIN...]
                [--pytest DIR... [-m MARKS] [-k NAMES] [--jobs N]] [--beside]

check    a command that passes with exit code 0: one test
unit     a cmocka program: its tests are counted; dying early is one more failure
replay   build/tests/fuzz/replay_<thing>, run over tests/fuzz/corpus/<thing>: one test
pytest   black-box tests; $STOWD is the daemon they start

With --jobs the black-box tests that are not marked slow run N at a time, where pytest-xdist is
there, as most of their time is waiting; with --beside the programs run while they do.
"""
import argparse
import concurrent.futures
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TIMEOUT_S = 600  # of one program
NO_TESTS = 5  # pytest's exit code when none was chosen

counts = {"passed": 0, "failed": 0, "skipped": 0}


def run(argv, env=None):
    """(exit code, output) of a program; 124 when it took too long."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S,
                              env=dict(os.environ, **(env or {})))
        return done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as e:
        return 124, (e.stdout or b"").decode("utf-8", "replace") + "\ntook too long\n"
    except OSError as e:
        return 127, f"{e}\n"


def report(name, passed, failed, skipped, output):
    counts["passed"] += passed
    counts["failed"] += failed
    counts["skipped"] += skipped
    line = f"{'FAIL' if failed else 'ok  '} {name}: {passed} passed"
    line += f", {failed} failed" if failed else ""
    line += f", {skipped} skipped" if skipped else ""
    print(line, flush=True)
    if failed:
        print("    " + output[-20000:].rstrip().replace("\n", "\n    "), flush=True)


def run_check(command):
    """As all of these: name, passed, failed, skipped, output."""
    code, output = run([command])
    return os.path.basename(command), int(code == 0), int(code != 0), 0, output


def run_unit(binary):
    code, output = run([binary], {"CMOCKA_MESSAGE_OUTPUT": "TAP"})
    results = re.findall(r"^(ok|not ok) \d+( # SKIP)?", output, re.M)
    skipped = sum(1 for _, skip in results if skip)
    passed = sum(1 for word, skip in results if word == "ok" and not skip)
    failed = len(results) - passed - skipped
    planned = sum(int(n) for n in re.findall(r"^1\.\.(\d+)$", output, re.M))
    if failed == 0 and (code != 0 or len(results) < planned or not results):
        failed = 1  # died, or leaked after the last test, or ran nothing
        output += f"\nexit code {code}, {len(results)} of {planned} tests ended"
    return os.path.basename(binary), passed, failed, skipped, output


def run_replay(binary):
    thing = os.path.basename(binary)[len("replay_"):]
    corpus = os.path.join("tests", "fuzz", "corpus", thing)
    code, output = run([binary] + ([corpus] if os.path.isdir(corpus) else []))
    return f"fuzz {thing}", int(code == 0), int(code != 0), 0, output + f"exit code {code}"


def run_pytest(build, dirs, marks, names, jobs):
    """All tests of dirs; those that may run beside each other first."""
    if jobs > 1 and importlib.util.find_spec("xdist") is None:
        print("no pytest-xdist: one test after the other")
        jobs = 1
    if jobs > 1 and not marks:
        pytest(build, dirs, "not slow", names, jobs)
        pytest(build, dirs, "slow", names, 1)
    else:
        pytest(build, dirs, marks, names, jobs)


def pytest(build, dirs, marks, names, jobs):
    with tempfile.TemporaryDirectory() as tmp:
        junit = os.path.join(tmp, "junit.xml")
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", "--tb=short",
                "--durations=8", f"--junit-xml={junit}"]
        argv += ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        argv += (["-m", marks] if marks else []) + (["-k", names] if names else []) + dirs
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        env.setdefault("STOWD", os.path.abspath(os.path.join(build, "stowd")))
        code = subprocess.run(argv, stdin=subprocess.DEVNULL, env=env).returncode
        try:
            suites = list(xml.etree.ElementTree.parse(junit).getroot().iter("testsuite"))
        except (OSError, xml.etree.ElementTree.ParseError) as e:
            suites = []
            print(f"pytest left no report: {e}")
    total, failed, skipped = (sum(int(s.get(k, 0)) for s in suites)
                              for k in ("tests", "failures", "skipped"))
    failed += sum(int(s.get("errors", 0)) for s in suites)
    if code not in (0, NO_TESTS) and failed == 0:
        failed += 1
        total += 1
    counts["passed"] += max(0, total - failed - skipped)
    counts["failed"] += failed
    counts["skipped"] += skipped


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default="build")
    ap.add_argument("--check", nargs="*", default=[])
    ap.add_argument("--unit", nargs="*", default=[])
    ap.add_argument("--replay", nargs="*", default=[])
    ap.add_argument("--pytest", nargs="*", default=[])
    ap.add_argument("-m", dest="marks", help="pytest marks, e.g. 'not slow'")
    ap.add_argument("-k", dest="names", help="pytest names")
    ap.add_argument("--jobs", type=int, default=1, help="black-box tests at a time")
    ap.add_argument("--beside", action="store_true", help="programs while black-box tests run")
    o = ap.parse_args()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        programs = [pool.submit(run_as, one) for run_as, some in ((run_check, o.check),
                                                                  (run_unit, o.unit),
                                                                  (run_replay, o.replay))
                    for one in some]
        if o.pytest and o.beside:
            run_pytest(o.build, o.pytest, o.marks, o.names, o.jobs)
        for program in programs:
            report(*program.result())
        if o.pytest and not o.beside:
            run_pytest(o.build, o.pytest, o.marks, o.names, o.jobs)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] + counts["skipped"] else 0


if __name__ == "__main__":
    sys.exit(main())
