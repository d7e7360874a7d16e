"""Every peer computes the same BERT."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import peer_class, peer_names
from benchmarks.tree import map_leaves
from examples.bert import BERT_SMALL, draw_batch, init_params
from tests.benchmarks.numpy_bert import numpy_bert


@pytest.fixture(scope="module")
def params() -> dict[str, Any]:
    """Parameters that are nowhere 0 or 1, and large enough that attention attends."""
    random = np.random.default_rng(7)
    return map_leaves(
        lambda _, array: (array * 5 + random.normal(0, 0.1, array.shape)).astype(np.float32), init_params(BERT_SMALL, 0)
    )


def test_names():
    assert peer_names("bert") == ["dyn", "dynfrozen", "jax", "onnxruntime", "torch", "torchcompile"]
    assert peer_names("nothing") == []


#: Those that take long to install, or to compile.
SLOW = [pytest.param(name, marks=pytest.mark.bench) for name in ("torchcompile", "onnxruntime")]
#: The modules of peers that are named otherwise.
MODULES = {"torchcompile": "torch", "dynfrozen": "dyn"}
#: How many compiles there may be. torch.compile takes sizes of 1 apart.
COMPILES = {"dyn": [1], "dynfrozen": [1], "jax": [3], "torch": [0], "torchcompile": [2, 3], "onnxruntime": [0]}


@pytest.mark.parametrize("framework", ["dyn", "dynfrozen", "jax", "torch", *SLOW])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # PyTorch's own exporter and Inductor use it
def test_agrees_with_float64(framework: str, params: dict[str, Any], require_module: Callable[[str], ModuleType]):
    require_module(MODULES.get(framework, framework))
    if framework == "torchcompile" and shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    peer = peer_class(framework, "bert")(dataclasses.asdict(BERT_SMALL), params, 1)
    for shape in [(1, 1), (3, 17), (2, 64)]:
        ids, mask = draw_batch(shape, 1, BERT_SMALL)
        wanted = numpy_bert(params, ids, mask, heads=BERT_SMALL.heads, epsilon=BERT_SMALL.epsilon)
        # The values are up to 8: what another framework rounds differently on another CPU is not an error of the peer.
        rtol = 1e-7 if framework.startswith("dyn") else 2e-5
        np.testing.assert_allclose(np.asarray(peer(ids, mask))[mask == 1], wanted[mask == 1], rtol=rtol, atol=1e-4)
    compiles, seconds = peer.compiled()
    assert compiles in COMPILES[framework]
    assert (seconds > 0) == (compiles > 0)
    assert peer.versions().replace(".", "").startswith(MODULES.get(framework, framework))
