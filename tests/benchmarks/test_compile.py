"""The compile benchmark: its choices, its arithmetic, and a small run from the command line."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.compiling import gpt_step
from benchmarks.process import ROOT, WorkerError
from benchmarks.suites.compile import WAYS, by_stage, environment, python, ratios_table, run, table


def test_passes_are_one_row_and_the_rest_is_what_no_stage_took() -> None:
    rows = by_stage({"seconds": 2.0, "stages": {"trace": 0.5, "simplify": 0.25, "own_results": 0.25, "load": 0.5}})
    assert rows == {
        "trace": 0.5, "find": 0, "passes": 0.5, "stitch": 0, "lower": 0, "render": 0, "compile": 0, "load": 0.5,
        "the rest": 0.5,
    }  # fmt: skip


def test_a_table_shows_the_quickest_runs() -> None:
    def one(seconds: float) -> dict[str, object]:
        return {"seconds": seconds, "cpu_seconds": 2 * seconds, "stages": {"trace": seconds / 2}, "kernels": 3}

    shown = table("toy", {way: [one(0.004), one(0.002), one(0.003)] for way in WAYS})
    assert shown.title == "toy, 3 kernels: milliseconds"
    rows = {row[0]: row[1:] for row in shown.rows}
    assert rows["trace"] == ("1.0", "1.0", "1.0")
    assert rows["all"] == ("2.0", "2.0", "2.0")
    assert rows["CPU"] == ("4.0", "4.0", "4.0")


def test_a_step_is_compared_with_its_forward_pass() -> None:
    def one(seconds: float) -> dict[str, object]:
        return {"seconds": seconds, "cpu_seconds": seconds / 2}

    forward, step = {way: [one(2.0), one(1.0)] for way in WAYS}, {way: [one(2.5), one(4.0)] for way in WAYS}
    assert ratios_table(forward, step).rows == (("all", *("2.50×",) * 3), ("CPU", *("2.50×",) * 3))


def test_a_step_of_training_is_a_program_of_its_own() -> None:
    model, arguments = gpt_step(layers=1)
    traced = model.trace(*arguments)
    assert len(arguments) == 3
    assert traced.lower().as_text().count("dot_general(") > 12


def test_what_it_cannot_do() -> None:
    with pytest.raises(ValueError) as unknown:
        run(argparse.Namespace(programs="bert, gpt2", repeats=1))
    assert str(unknown.value) == (
        "there is no program 'gpt2'; there are bert, mlp, softmax, gpt, gpt_step, concatenation, slices, constant, "
        "elementwise, mixed, reductions, parameters, results, levels."
    )
    with pytest.raises(ValueError) as nothing:
        run(argparse.Namespace(programs="bert", repeats=0))
    assert str(nothing.value) == "--programs must name a program, and --repeats be at least 1."


def test_a_process_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(WorkerError) as failed:
        python(["-c", "raise SystemExit('no')"], environment(tmp_path, tmp_path))
    assert str(failed.value) == "-c raise SystemExit('no') ended with 1. Its last words:\nno\n"


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "compile", "--programs", "softmax", "--repeats", "1"]
    command += ["--markdown", "--json", str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "## compile: softmax\n\n**softmax, 2 kernels: milliseconds**\n\n|  | cold | from disk | from memory |\n"
    )
    found = json.loads((tmp_path / "out.json").read_text())
    runs = found["programs"]["softmax"]
    assert [list(runs[way][0]["origins"]) for way in WAYS] == [["compiled"], ["from disk"], ["from memory"]]
    assert [runs[way][0]["llvm"] for way in ("cold", "from disk")] == [True, False]
    assert set(found["imports"]) == {"numpy", "dyn"}
