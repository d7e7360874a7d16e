"""The benchmark of programs on a GPU: its models, its choices, and a small run on the software GPU."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
from benchmarks.gpu.families import DECODING, FAMILIES, Config, _layer, weights
from benchmarks.gpu.launches import eager_operations, inductor_kernels
from benchmarks.gpu.measured_programs import sizes_of
from benchmarks.gpu.namespaces import DynOps, TorchOps
from benchmarks.process import ROOT
from benchmarks.suites.gpu_model import PROGRAMS
from dyn import tree
from tests.gpu import compilers
from tests.gpu.software import environment

CONFIG = Config(layers=1, width=16, heads=2, longest=9, largest_batch=3)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_one_for_dyn_and_pytorch(name: str, require_module: Callable[[str], ModuleType]) -> None:
    """Written once, and compiled once for all shapes."""
    torch: Any = require_module("torch")
    family, rng = FAMILIES[name], np.random.default_rng(1)
    params = weights(family, CONFIG, 0)
    ours = dyn.jit(functools.partial(family.run, DynOps(), CONFIG, tree.map(dyn.asarray, params)))
    theirs = functools.partial(family.run, TorchOps(torch), CONFIG, tree.map(torch.from_numpy, params))
    for _ in range(4):
        inputs = family.draw(rng, CONFIG)
        wanted = theirs(*map(torch.from_numpy, inputs)).numpy()
        np.testing.assert_allclose(np.asarray(ours(*inputs)), wanted, rtol=1e-3, atol=1e-4)
    assert ours.cache_info().compiles == 1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx1100"])
def test_kernels_of_a_model_are_compiled(
    target: str, require_module: Callable[[str], ModuleType], require_tool: Callable[..., str]
) -> None:
    """No memory-bound kernel of a layer of a model spills, and all are within the limits of launches."""
    require_module("cuda.bindings.nvrtc")
    require_tool("hipcc")
    done = run("gpu_kernels", "--models", "BERT-base", "--layers", "1", "--targets", target, "--markdown")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| BERT-base, 1 layers")]
    _, _, arch, kernels, _, bound, *_, within, _ = map(str.strip, line.split("|"))
    assert (arch, int(kernels) > 20, within) == (target.partition(":")[2], True, "all")
    assert re.fullmatch(r"0 of \d+", bound)


def test_unknown_models_and_targets() -> None:
    assert run("gpu_kernels", "--models", "DLRM").stderr == (
        "error: there is no 'DLRM'; there are BERT-base; GPT, training; CNN.\n"
    )
    assert run("gpu_kernels", "--targets", "cuda:gfx90a").stderr.startswith("error: 'cuda:gfx90a' is no target.")


def test_sizes_follow_the_arguments() -> None:
    assert sizes_of(PROGRAMS["add"], [7, 10**6], []) == [{"n": 7}, {"n": 10**6}]
    assert sizes_of(PROGRAMS["softmax"], [7, 10**6], []) == [{"n": 1, "m": 7}, {"n": 976, "m": 1024}]
    assert sizes_of(PROGRAMS["product, float32"], [], [33]) == [{"m": 33, "k": 33, "n": 33}]
    assert sizes_of(PROGRAMS["histogram"], [7, 10**6], []) == [{"v": 1, "n": 7}, {"v": 10**4, "n": 10**6}]
    assert sizes_of(PROGRAMS["embedding gradient"], [64 * 9], []) == [{"v": 3, "m": 64, "n": 9}]
    assert sizes_of(PROGRAMS["one row"], [], [33]) == [{"m": 1, "k": 33, "n": 33}]


def test_without_a_device_it_says_so() -> None:
    done = run("--device", "cuda:99")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is nothing to measure on cuda:99: ")
    assert "help: " in done.stderr
    done = run("gpu", "--device=cpu")
    assert done.stderr == (
        "error: there is nothing to measure on cpu: it is no GPU: "
        "the other benchmarks measure this machine's processor.\n"
    )
    assert run("gpu", "--families", "DLRM").stderr == (
        "error: there is no family 'DLRM'; there are ASR, seq2seq, TTS, BERT, ad ranking, Transformer.\n"
    )


@pytest.mark.slow
def test_command_line(require_tool: Callable[..., str], tmp_path: Path) -> None:
    """To its end, on the software GPU: launches are counted, and results are those of the processor."""
    require_tool("g++")
    require_tool("hipcc")
    compilers.install_hipcc(tmp_path)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment("rocm", devices=1)}
    small = "--elements 2000 --squares 33 --layers 1 --hidden 16 --heads 2 --longest 9 --batch 3 --shapes 2 --repeats 1"
    done = run(
        "--device", "rocm", *small.split(), "--calls", "2", "--families", "BERT,ad ranking", "--markdown",
        "--json", str(tmp_path / "out.json"), **variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("## gpu: programs on rocm\n\n**Memory-bound programs, by the driver's events**\n")
    assert "Nobody runs beside dyn: PyTorch here was not built for rocm." in done.stdout
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["programs"].keys() == PROGRAMS.keys()
    for name, measured in data["programs"].items():
        (one,) = measured
        assert one["launches"] >= 1, name
        assert one["difference"] < (1e-2 if "bfloat16" in name else 1e-5), name
    for name in ("BERT", "ad ranking"):
        own = data["streams"][name]["dyn"]
        assert (len(own["steady"]), own["compiles"]) == (2, 1)
        assert own["launches"] > 1
        assert own["difference"] < 1e-4


def test_launches_are_counted() -> None:
    done = run("gpu_launches", "--no-peers", "--layers", "1", "--models", "decoding;Transformer", "--markdown")
    assert done.returncode == 0, done.stderr
    found = {line.split("|")[1].strip(): line.split("|")[2:4] for line in done.stdout.splitlines() if "|" in line}
    for name in ("decoding", "Transformer"):
        dyn_launches, eager = map(str.strip, found[name])
        assert (5 < int(dyn_launches) < 25, eager) == (True, "–")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_what_pytorch_launches_is_counted(require_module: Callable[[str], ModuleType]) -> None:
    """Views are no kernels, and Inductor makes one of neighbouring elementwise operations."""
    torch: Any = require_module("torch")
    x = torch.ones(4, 3)

    def call(x: Any) -> Any:
        return (x.reshape(3, 4).T + 1).relu().sum()

    assert eager_operations(lambda: call(x)) == 3
    assert inductor_kernels(lambda: torch.compile(call, dynamic=True)(x)) == 1


def test_a_step_of_decoding_sees_all_that_was_before() -> None:
    """Token by token, each with what those before it left: the same as a decoder that sees all of them."""
    config, rng = Config(layers=2, width=16, heads=2, longest=9, largest_batch=3), np.random.default_rng(0)
    ops: Any = DynOps()
    params = tree.map(dyn.asarray, weights(DECODING, config, 0))
    step = dyn.jit(functools.partial(DECODING.run, ops, config, params))
    ids = rng.integers(0, 1000, (2, 4)).astype(np.int32)
    source = rng.integers(0, 1000, (2, 5)).astype(np.int32)
    memory = np.asarray(params["table"])[source]
    for layer in params["encoder"]:
        memory = np.asarray(_layer(ops, config, layer, dyn.asarray(memory)))
    kept: list[Any] = []
    for layer in params["decoder"]:
        kept += [np.zeros((2, 0, 16), "f4")] * 2
        kept += [np.asarray(memory @ np.asarray(layer[name])) for name in ("xk", "xv")]
    scores: list[Any] = []
    for token in range(4):
        found, *grown = step(ids[:, token : token + 1], *kept)
        scores.append(np.asarray(found)[:, 0])
        for number in range(config.layers):
            kept[4 * number : 4 * number + 2] = grown[2 * number : 2 * number + 2]
    wanted = FAMILIES["seq2seq"].run(ops, config, params, dyn.asarray(source), dyn.asarray(ids))
    np.testing.assert_allclose(np.stack(scores, axis=1), np.asarray(wanted), rtol=1e-3, atol=1e-4)
    assert step.cache_info().compiles == 1
