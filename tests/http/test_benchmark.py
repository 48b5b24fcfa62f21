# SPDX-License-Identifier: Apache-2.0
"""The benchmark's own reckoning, without a daemon: what a target means, and that a part which fails
costs no other part."""
import json
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/bench"))
import bench  # noqa: E402
import corpus  # noqa: E402
import stages  # noqa: E402
from daemon import Failure, run  # noqa: E402
from report import Report, judge  # noqa: E402


@pytest.mark.parametrize("measured, want, reached, words", [
    (0.28, "<= 0.28", True, "reached"),
    (0.35, "<= 0.28", False, "missed by 25.0 %"),
    (0.5, ">= 0.50", True, "reached"),
    (0.4, ">= 0.50", False, "missed by 20.0 %"),
])
def test_a_target(measured, want, reached, words):
    assert judge(measured, want) == (reached, words)


def test_the_median_of_the_ratios_is_judged_where_there_is_one():
    report = Report({})
    report.begin("part", "text")
    report.row("apache", "rate", [100, 300, 200], "MB/s", [0.4, 0.6, 0.5], "reference", ">= 0.5")
    report.row("apache", "memory", [100, 300, 200], "MB", want="<= 150")
    report.row("apache", "no target", 1, "MB")
    ratio, value = report.targets()
    assert (ratio["measured"], ratio["least"], ratio["most"], ratio["reached"]) == (0.5, 0.4, 0.6,
                                                                                   True)
    assert (value["measured"], value["reached"], value["words"]) == (200, False, "missed by 33.3 %")


class Run:
    def __init__(self):
        self.report = Report({})


def test_a_part_that_fails_costs_no_other(tmp_path, capsys):
    def fails(b):
        b.report.begin("fails", "")
        raise Failure("no such thing")

    def broken(_):
        raise ZeroDivisionError("a fault of the benchmark")

    def works(b):
        b.report.begin("works", "")
        b.report.row("", "figure", 1, "MB", want="<= 2")

    b, path = Run(), str(tmp_path / "out.json")
    bench.run_parts(b, ["fails", "broken", "works"],
                    {"fails": fails, "broken": broken, "works": works}, path)
    assert b.report.finish() is False
    assert "1 of 1 targets reached" in capsys.readouterr().out
    with open(path) as f:
        written = json.load(f)
    assert [x["part"] for x in written["failures"]] == ["fails", "broken"]
    assert [x["what"] for x in written["rows"]] == ["figure"]


def test_every_part_runs_in_a_full_run():
    assert sorted(bench.FULL) == sorted(bench.PARTS)
    assert set(bench.QUICK) <= set(bench.PARTS)


def test_what_killed_runs_left_goes_and_running_ones_stay(tmp_path):
    (tmp_path / "run-999999999").mkdir()
    (tmp_path / f"run-{os.getppid()}").mkdir()
    own = bench.prepare(str(tmp_path), 0)
    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(own), f"run-{os.getppid()}"])
    with pytest.raises(Failure, match="GB are free"):
        bench.prepare(str(tmp_path), 1e9)


def test_a_program_has_a_time_limit_and_its_words_are_kept():
    with pytest.raises(Failure, match="not done after 0.1 s"):
        run("sleep", "5", limit_s=0.1)
    with pytest.raises(Failure, match="exit 3: it broke"):
        run("sh", "-c", "echo it broke >&2; exit 3")


def test_made_corpora_are_lines_of_json(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MADE_BYTES", 20000)
    for name in corpus.MADE:
        path, source = corpus.provide(name, str(tmp_path), str(tmp_path))
        assert source == "made"
        with open(path) as f:
            assert all(isinstance(json.loads(line), dict) for line in f)
    joined = str(tmp_path / "joined")
    corpus.join(joined, [path, path], each_bytes=1000)
    with open(joined, "rb") as f:
        data = f.read()
    assert data.endswith(b"\n") and all(json.loads(line) for line in data.splitlines())


def test_functions_are_found_and_belong_to_a_stage():
    sources = stages.functions()
    assert sources["main"] == "server/main.c"
    for symbol in ("json_check", "store_write.constprop.0", "column_put", "wal_open"):
        assert stages.stage_of("stowd", symbol, sources) in [name for name, _ in stages.STAGES]
    for source in sources.values():  # StopIteration, where no stage takes a file
        stages.stage_of("stowd", "f", {"f": source})
