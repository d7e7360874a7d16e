"""The stream benchmark: its choices, its processes, and a small run from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks.machine import choose_cpus
from benchmarks.process import ROOT, Worker, WorkerError
from benchmarks.report import Report, Table
from benchmarks.stream import choose_evenly, choose_peers, tokens
from benchmarks.suites import suites
from benchmarks.tree import flatten, unflatten


def test_trees_travel_flat():
    tree = {"a": np.zeros(2), "layers": [{"b": np.ones(i)} for i in range(11)], "c": {"d": np.zeros(3)}}
    flat = flatten(tree)
    assert "layers/10/b" in flat
    back = unflatten(dict(sorted(flat.items())))
    assert flatten(back).keys() == flat.keys()
    assert [layer["b"].size for layer in back["layers"]] == list(range(11))


def test_peers_are_chosen_by_name():
    assert choose_peers("bert", "torch, jax,torch", skip_dyn=False) == ["dyn", "torch", "jax"]
    assert choose_peers("bert", "torch", skip_dyn=True) == ["torch"]
    with pytest.raises(ValueError) as unknown:
        choose_peers("bert", "theano", skip_dyn=False)
    assert (
        str(unknown.value)
        == "there is no peer 'theano' for bert; there are dyn, dynfrozen, jax, onnxruntime, torch, torchcompile."
    )
    with pytest.raises(ValueError) as nobody:
        choose_peers("bert", "", skip_dyn=True)
    assert str(nobody.value) == "--skip-dyn leaves nobody to run; name some --peers."


def test_shapes_are_chosen_from_all_sizes():
    shapes = [(8, n) for n in range(100, 0, -1)]
    assert choose_evenly(shapes, None) == shapes
    chosen = choose_evenly(shapes, 4)
    assert [tokens(shape) for shape in chosen] == [8 * 88, 8 * 63, 8 * 38, 8 * 13]


def test_suites_have_help():
    assert "shape_stream" in suites()
    assert all((suite.__doc__ or "").strip() for suite in suites().values())


def test_report_as_markdown():
    report = Report("A title", (Table("Totals", ("", "dyn", "b"), (("a|b", "1", "2"),)),), ("a note",), {"x": 1})
    assert report.markdown() == (
        "## A title\n\n**Totals**\n\n|  | dyn | b |\n|---|---:|---:|\n| a\\|b | 1 | 2 |\n\n- a note\n"
    )
    assert json.loads(report.json()) == {"title": "A title", "notes": ["a note"], "x": 1}


def test_a_worker_says_what_went_wrong():
    with Worker("theano", choose_cpus(1)) as worker:
        with pytest.raises(WorkerError) as failed:
            worker.ask("load", framework="theano", program="bert", config={}, params="", threads=1)
        text = str(failed.value)
        assert text.startswith(
            "theano failed in 'load': ModuleNotFoundError: No module named 'benchmarks.peers.theano_bert'\n"
        )


def test_a_worker_that_ends_is_noticed():
    with Worker("jax", choose_cpus(1)) as worker:
        worker._process.kill()  # pyright: ignore[reportPrivateUsage]  # as the system does when memory is short
        worker._process.wait()  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(WorkerError) as ended:
            worker.ask("memory")
    assert str(ended.value) == "jax's process ended with -9. Its last words:\n"


@pytest.mark.slow
def test_command_line(tmp_path: Path, require_module: Callable[[str], ModuleType]):
    require_module("jax")
    command = [sys.executable, "-m", "benchmarks", "shape_stream", "--peers", "jax", "--layers", "1", "--shapes", "3"]
    command += ["--peer-shapes", "2", "--repeats", "1", "--markdown", "--json", str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("## shape_stream: 1-layer BERT over 3 shapes\n\n**In all**\n\n|  | dyn | jax |\n")
    peers = {peer["name"]: peer for peer in json.loads((tmp_path / "out.json").read_text())["peers"]}
    assert [len(peers[name]["runs"]) for name in ("dyn", "jax")] == [3, 2]
    assert sum(run["compiles"] for run in peers["dyn"]["runs"]) == 1
    assert sum(run["compiles"] for run in peers["jax"]["runs"]) == 2
    assert all(run["difference"] < 1e-4 for run in peers["jax"]["runs"])
    assert all(peer["peak_memory"] > 2**20 for peer in peers.values())
