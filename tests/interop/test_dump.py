"""Programs of dyn as StableHLO: text, bytecode, versions, and what cannot be written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, ArtifactError, BackendUnavailableError
from dyn.interop.stablehlo import dump, load, mlir

pytest.importorskip("jaxlib")
X, W = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)


@dyn.jit(shapes="b s, s n")
def layer(x: Any, w: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True) @ w, x[: x.shape[0] // 2]


def test_text(golden: Callable[[str, str], None]) -> None:
    text = mlir.text_of(mlir.write(module(layer.trace(X, W))))
    golden("layer.mlir", text)


def module(stage: Any) -> Any:
    from dyn.interop.stablehlo.dump import module_of

    return module_of(stage)


def test_every_stage_says_the_same() -> None:
    traced = layer.trace(X, W)
    lowered = traced.lower()
    text = dump(traced)
    assert text == dump(lowered) == dump(lowered.compile()) == lowered.as_text("stablehlo")
    assert "test_dump.py" in str(text)  # with the user's lines


def test_formats() -> None:
    traced = layer.trace(X, W)
    plain, old = dump(traced, format="bytecode"), dump(traced, version="1.0.0")
    assert isinstance(plain, bytes)
    assert isinstance(old, bytes)
    assert old[5:21] == b"StableHLO_v1.0.0"
    for source in (plain, old, dump(traced, version=4)):
        for actual, wanted in zip(load(source)(X, W), layer(X, W), strict=True):
            np.testing.assert_allclose(actual, wanted, 1e-6)


def test_chlo_is_written_out_for_versions() -> None:
    from dyn.nn import gelu

    @dyn.jit
    def f(x: Any) -> Any:
        return gelu(x, approximate=False)

    traced = f.trace(X)
    assert "chlo.erf" in str(dump(traced))
    again = load(dump(traced, version="1.0.0"))
    np.testing.assert_allclose(again(X), f(X), 1e-5)


def test_captured_arrays_are_constants() -> None:
    table = np.arange(6.0, dtype=np.float32).reshape(2, 3)

    @dyn.jit
    def f(x: Any) -> Any:
        return x @ table

    text = str(dump(f.trace(np.ones((4, 2), np.float32))))
    assert "dense<[[0.000000e+00, 1.000000e+00, 2.000000e+00]" in text
    np.testing.assert_array_equal(load(text)(np.ones((4, 2), np.float32)), np.ones((4, 2)) @ table)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: dump(layer), ArgumentError, "dump() takes a traced, lowered or compiled program, not a Jitted."),  # pyright: ignore[reportArgumentType]
        (
            lambda: dump(layer.trace(X, W), format="pdf"),  # pyright: ignore[reportArgumentType]
            ArgumentError,
            "format='pdf' is neither 'text' nor 'bytecode'.",
        ),  # pyright: ignore[reportArgumentType]
        (lambda: dump(layer.trace(X, W), version="1.0.0", format="text"), ArgumentError, "a version is a matter of"),
        (lambda: dump(layer.trace(X, W), version="0.1.0"), ArtifactError, "cannot be written for StableHLO 0.1.0"),
        (lambda: dump(layer.trace(X, W), version=-1), ArtifactError, "version=-1 is a negative number of weeks."),
    ],
)
def test_what_cannot_be_asked_for(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert said in str(raised.value)


def test_without_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib.mlir", None)
    mlir.bindings.cache_clear()
    with pytest.raises(BackendUnavailableError) as error:
        dump(layer.trace(X, W))
    assert str(error.value).endswith("help: install them with: pip install 'jax>=0.9.2,<0.11'")
    assert "StableHLO is read and written with the MLIR bindings of jaxlib" in str(error.value)
    mlir.bindings.cache_clear()


@pytest.mark.parametrize("size", [0, 1, 2, 8, 9, 64])
def test_constants_that_are_bools(size: int) -> None:
    """As many as a byte has bits, fewer and more: each is its own."""
    mask = np.arange(size) % 3 == 0
    f = dyn.jit(lambda x: dnp.where(dnp.asarray(mask), x, -x), shapes=str(size))
    traced = f.trace(np.ones(size, np.float32))
    x = np.arange(1.0, size + 1, dtype=np.float32)
    np.testing.assert_array_equal(load(dump(traced))(x), np.where(mask, x, -x))
