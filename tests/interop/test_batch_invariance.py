"""``batch_invariant`` as an option of each front end: a row has the bits in a batch that it has alone."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.backends.families import host_target
from dyn.errors import ArgumentError

pytestmark = pytest.mark.skipif(host_target().vector_bytes < 32, reason="this processor has no squares to turn")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((70, 700)).astype(np.float32)
W = RNG.standard_normal((130, 700)).astype(np.float32)
#: Sizes of batches that hold the first row.
ROWS = (1, 2, 5, 33, 70)


def by_dyn(**options: Any) -> Any:
    return dyn.jit(lambda x, w: x @ w.T, **options)


def by_jax(**options: Any) -> Any:
    pytest.importorskip("jax")
    return importlib.import_module("dyn.interop.jax").jit(lambda x, w: x @ w.T, **options)


def by_torch(**options: Any) -> Any:
    torch = pytest.importorskip("torch")
    run = importlib.import_module("dyn.interop.torch").jit(lambda x, w: x @ w.T, **options)
    return lambda x, w: run(torch.from_numpy(x), torch.from_numpy(w)).numpy() if x is not None else run


def by_tensorflow(**options: Any) -> Any:
    tf = pytest.importorskip("tensorflow")
    run = importlib.import_module("dyn.interop.tf").jit(lambda x, w: tf.matmul(x, w, transpose_b=True), **options)
    return lambda x, w: run(tf.constant(x), tf.constant(w)) if x is not None else run


def by_stablehlo(**options: Any) -> Any:
    pytest.importorskip("jaxlib")
    front = importlib.import_module("dyn.interop.stablehlo")
    text = front.dump(dyn.jit(lambda x, w: x @ w.T).trace(X, W))
    return front.load(text, trusted=True, **options)


def by_onnx(**options: Any) -> Any:
    onnx = pytest.importorskip("onnx")
    text = "product (float[n, k] x, float[m, k] w) => (float[n, m] y) { y = Gemm <transB = 1> (x, w) }"
    proto = importlib.import_module("onnx.parser").parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')
    assert onnx is not None
    return importlib.import_module("dyn.interop.onnx").load(proto, **options)


WAYS: dict[str, Callable[..., Any]] = {
    "dyn.jit": by_dyn, "dyn.interop.jax.jit": by_jax, "dyn.interop.torch.jit": by_torch,
    "dyn.interop.tf.jit": by_tensorflow, "dyn.interop.stablehlo.load": by_stablehlo,
    "dyn.interop.onnx.load": by_onnx,
}  # fmt: skip


def explained(run: Any) -> str:
    """What ``explain`` says of a compiled function, which some of the above hide behind one of arrays."""
    return str((run if hasattr(run, "explain") else run(None, None)).explain())


@pytest.mark.parametrize("way", WAYS)
def test_a_row_has_its_bits_in_each_batch(way: str) -> None:
    f = WAYS[way](batch_invariant=True)
    assert len({np.asarray(f(X[:rows], W))[:1].tobytes() for rows in ROWS}) == 1
    assert "turned" in explained(f)  # squares of the right operand, in place of dot products by lanes


@pytest.mark.parametrize("way", WAYS)
def test_without_the_option_few_rows_are_dot_products(way: str) -> None:
    f = WAYS[way]()
    for rows in (0, 2):
        np.testing.assert_allclose(np.asarray(f(X[:rows], W)), X[:rows] @ W.T, rtol=1e-3, atol=1e-3)
    assert "turned" not in explained(f)


@pytest.mark.parametrize("way", WAYS)
def test_one_program_has_all_batches(way: str) -> None:
    f = WAYS[way](batch_invariant=True)
    for rows in (3, 1, 40):
        f(X[:rows], W)
    owner = f if hasattr(f, "cache_info") else f(None, None)
    assert owner.cache_info().compiles == 1


@pytest.mark.parametrize("value", ["yes", None, 1])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_a_bool_and_each_way_says_so_alike(way: str, value: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        WAYS[way](batch_invariant=value)
    assert f"the option batch_invariant of {way} is {value!r}." in str(caught.value)
    assert "help: pass a bool." in str(caught.value)


def test_decorators_hand_it_on() -> None:
    pytest.importorskip("jax")
    f = importlib.import_module("dyn.interop.jax").jit(batch_invariant=True)(lambda x, w: x @ w.T)
    f(X[:3], W)
    assert "turned" in str(f.explain())
    tf = pytest.importorskip("tensorflow")
    f = importlib.import_module("dyn.interop.tf").jit(batch_invariant=True)(lambda x, w: x @ tf.transpose(w))
    f(tf.constant(X[:3]), tf.constant(W))
    assert "turned" in str(f.explain())


def test_the_setting_does_for_each_what_the_option_does() -> None:
    f = by_jax()
    with dyn.config.override(batch_invariant=True):
        f(X[:3], W)
    assert "turned" in str(f.explain())


class TestDynFunctionsInJax:
    """``dyn.interop.jax.call`` of a function that ``dyn.jit`` has made so, and what it is transformed to."""

    @staticmethod
    def invariant() -> Any:
        pytest.importorskip("jax")
        return importlib.import_module("dyn.interop.jax").call(by_dyn(batch_invariant=True))

    @pytest.mark.parametrize("transform", ["plain", "jit", "vmap"])
    def test_rows(self, transform: str) -> None:
        jax = pytest.importorskip("jax")
        f = self.invariant()
        run: Any = {"plain": f, "jit": jax.jit(f), "vmap": jax.jit(jax.vmap(f, (0, None)))}[transform]
        x = X[:, None] if transform == "vmap" else X
        assert len({np.asarray(run(x[:rows], W))[:1].tobytes() for rows in ROWS}) == 1

    def test_gradients_come(self) -> None:
        jax = pytest.importorskip("jax")
        f = self.invariant()
        found = jax.grad(lambda w: f(X[:3], w).sum())(jax.numpy.asarray(W))
        np.testing.assert_allclose(found, np.broadcast_to(X[:3].sum(0), W.shape), rtol=1e-4, atol=1e-4)


KERAS = """
import numpy as np
import keras
from dyn.errors import ArgumentError
from dyn.interop import keras as dyn_keras

model = keras.Sequential([keras.Input((9000,)), keras.layers.Dense(5)])
model.compile(optimizer="sgd", loss="mse")
dyn_keras.compile(model, batch_invariant=True)
x = np.random.default_rng(0).standard_normal((70, 9000)).astype("f4")
rows = {np.asarray(model.predict_on_batch(x[:n]))[:1].tobytes() for n in (1, 2, 5, 33, 70)}
assert len(rows) == 1
for name in ("freeze", "batch_invariant"):
    try:
        dyn_keras.compile(model, **{name: "yes"})
    except ArgumentError as error:
        assert f"the option {name} of dyn.interop.keras.compile is 'yes'." in str(error), error
    else:
        raise AssertionError(name)
print("the same on", keras.backend.backend())
"""


@pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is missing")
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_models_of_keras(backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is missing")
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    made = subprocess.run([sys.executable, "-c", KERAS], env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    assert f"the same on {backend}" in made.stdout
