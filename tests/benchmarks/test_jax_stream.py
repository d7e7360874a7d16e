"""The benchmark of JAX programs over streams of shapes, small, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.process import ROOT


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "jax_stream", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = bench("--layers", "1", "--shapes", "3", "--repeats", "1", "--markdown", "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "## jax_stream: JAX programs over streams of shapes\n\n**encoder**\n\n|  | dyn | jax |\n"
    )
    for peers in json.loads(out.read_text())["programs"].values():
        ours, theirs = peers
        assert (ours["name"], theirs["name"]) == ("dyn", "jax")
        assert sum(run["compiles"] for run in ours["runs"]) == 1
        assert sum(run["compiles"] for run in theirs["runs"]) == 3
        assert all(run["difference"] < 1e-4 for run in theirs["runs"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--programs", "resnet"],
            "error: there is no program 'resnet'; there are encoder, mlp, decoding, lstm, recommender.\n",
        ),
        (["--repeats", "0"], "error: --repeats and --shapes must be at least 1.\n"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str) -> None:
    done = bench(*arguments)
    assert (done.returncode, done.stderr) == (1, said)
