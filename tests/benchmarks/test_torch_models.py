"""The benchmarks of PyTorch's models: peers that agree, what is told apart, what is refused."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import peer_class, peer_names
from benchmarks.process import ROOT
from benchmarks.stream import Measured, PeerRun
from benchmarks.suites import torch_models, torch_train


def test_names() -> None:
    assert peer_names("hfbert") == ["dyn", "dynfrozen", "torch", "torchcompile"]


def test_the_peers_agree(require_module: Callable[[str], ModuleType]) -> None:
    for name in ("torch", "transformers"):
        require_module(name)
    config = {**torch_models.model_config(1, 64), "vocab_size": 50}
    peers: list[Any] = [peer_class(name, "hfbert")(config, {}, 1) for name in ("dyn", "torch")]
    ours, theirs = peers
    for shape in [(2, 5), (3, 9)]:
        ids, mask = np.arange(shape[0] * shape[1]).reshape(shape) % 50, np.ones(shape, np.int64)
        np.testing.assert_allclose(np.asarray(ours(ids, mask)), np.asarray(theirs(ids, mask)), rtol=1e-4, atol=1e-5)
    compiles, seconds = ours.compiled()
    assert compiles == 1
    assert 0 < ours.captured() < seconds
    assert (theirs.compiled(), theirs.captured()) == ((0, 0.0), 0.0)


def peer(name: str, first: float, capture: float, steady: float) -> PeerRun:
    run = Measured(first, first / 2, 1, 0.5 * first, 0.0, [steady], [steady / 2])
    return PeerRun(name, [(2, 16)], capture_seconds=capture, measured={(2, 16): run})


def test_first_touch_is_taken_apart() -> None:
    peers = [peer("dyn", 2.0, 0.25, 0.5), peer("torchcompile", 8.0, 1.0, 1.0)]
    table = torch_models.touch_table(peers, [(2, 16)])
    assert table.rows == (
        ("dyn", "2.00", "0.25", "0.75", "1.00", "1.00", "1.00×", "1.00×"),
        ("torchcompile", "8.00", "1.00", "3.00", "4.00", "4.00", "0.25×", "0.25×"),
    )
    (note,) = torch_models.ratios(peers)
    assert note == (
        "From 32 rows on dyn is 2.00× as quick as torchcompile (geometric mean of the medians; least 2.00×), by the "
        "least CPU time 2.00× (least 2.00×)."
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "error: --repeats and --shapes must be at least 1.\n"),
        (["--bursts", "-1"], "error: --bursts must be at least 0.\n"),
        (["--hidden", "100"], "error: --hidden is a multiple of 64, the width of a head.\n"),
        (
            ["--peers", "tvm"],
            "error: there is no peer 'tvm' for hfbert; there are dyn, dynfrozen, torch, torchcompile.\n",
        ),
    ],
)
def test_bad_arguments(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "benchmarks", "torch_models", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, said)


def test_training_of_nobody_is_refused() -> None:
    arguments = argparse.Namespace(shapes="2x8", peers="jax", repeats=1, layers=1, hidden=64)
    with pytest.raises(ValueError, match=r"^--peers are among torch, inductor, and --repeats is at least 1\.$"):
        torch_train.run(arguments)
