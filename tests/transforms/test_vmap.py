"""vmap: against a Python loop and against JAX, over symbolic axes, nested in other transformations."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, ShapeError

Array = Any


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def test_one_program_for_all_counts(jax: ModuleType) -> None:
    def f(np_: Any, p: Any, x: Array, y: Array) -> Any:
        z = np_.tanh(p["w"] @ x) + p["b"]
        return {"z": z, "score": np_.sum(z * y) / (1 + np_.max(np_.abs(z)))}, np_.where(y > 0, y, z)

    mine = dyn.jit(dyn.vmap(lambda *a: f(dnp, *a), in_axes=({"w": None, "b": 0}, 1, 0), out_axes=(0, -1)))
    theirs = jax.vmap(lambda *a: f(jax.numpy, *a), in_axes=({"w": None, "b": 0}, 1, 0), out_axes=(0, -1))
    for count in (1, 2, 7, 64):
        args = {"w": floats(4, 3), "b": floats(count, 4)}, floats(3, count, seed=1), floats(count, 4, seed=2)
        (a, b), (c, d) = mine(*args), theirs(*args)
        np.testing.assert_allclose(a["z"], c["z"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(a["score"], c["score"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(b, d, rtol=1e-5, atol=1e-5)
    empty = mine({"w": floats(4, 3), "b": floats(0, 4)}, floats(3, 0), floats(0, 4))
    assert (empty[0]["z"].shape, empty[0]["score"].shape, empty[1].shape) == ((0, 4), (0,), (4, 0))
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (1, 1), (0, 2), (2, 0)])
@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->j", "ij,kj->jki", "ji,kl->"])
def test_contractions(axes: tuple[int | None, int | None], equation: str) -> None:
    def f(a: Array, b: Array) -> Array:
        return dnp.einsum(equation, a, b)

    a, b = floats(3, 3), floats(3, 3, seed=1)
    many = [
        np.stack([v, v * 2, v - 1, v + 1], axis=axis) if axis is not None else v
        for v, axis in zip((a, b), axes, strict=True)
    ]
    found = dyn.vmap(f, in_axes=axes)(*many)
    for i in range(4):
        one = [v if axis is None else np.take(v, i, axis) for v, axis in zip(many, axes, strict=True)]
        np.testing.assert_allclose(found[i], np.einsum(equation, *one), rtol=1e-4, atol=1e-4)


def test_nested_and_in_gradients(jax: ModuleType) -> None:
    def f(np_: Any, w: Array, x: Array) -> Array:
        return np_.sum(np_.sin(w * x) ** 2)

    def of(np_: Any, lib: Any) -> Any:
        per_example = lib.vmap(lib.grad(lambda w, x: f(np_, w, x)), in_axes=(None, 0))
        pairs = lib.vmap(lib.vmap(lambda a, b: np_.sum(a * b), in_axes=(None, 0)), in_axes=(0, None))

        def whole(w: Array, x: Array) -> Array:
            kernel = pairs(x, x)
            return np_.sum(per_example(w, x) ** 2) + np_.sum(np_.exp(-kernel))

        return lib.jit(lib.value_and_grad(whole, argnums=(0, 1)))

    mine, theirs = of(dnp, dyn), of(jax.numpy, jax)
    for count in (1, 2, 7):
        args = floats(3), floats(count, 3, seed=1)
        for a, b in zip(*(dyn_tree(fn(*args)) for fn in (mine, theirs)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert mine.cache_info().compiles == 1


def dyn_tree(found: Any) -> list[Array]:
    value, gradients = found
    return [value, *gradients]


def test_numbers_keywords_and_axis_size() -> None:
    x = floats(4, 3)
    np.testing.assert_allclose(dyn.vmap(lambda v, k: v * k, in_axes=(0, None))(x, 2.0), x * 2)
    np.testing.assert_allclose(dyn.vmap(lambda v, *, w: v + w)(x, w=x), x + x)
    np.testing.assert_allclose(dyn.vmap(lambda: dnp.ones(2), axis_size=3)(), np.ones((3, 2)))
    same = dyn.vmap(lambda v, w: (v, w), in_axes=(0, None), out_axes=(0, None))(x, x)
    np.testing.assert_array_equal(same[1], x)

    @dyn.jit
    def each(x: Array, y: Array) -> Array:
        return dyn.vmap(lambda: dnp.sum(y), axis_size=x.shape[0])()

    assert each(floats(5), floats(2)).shape == (5,)


def refused(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value).splitlines()[0]


def test_what_is_refused() -> None:
    def f(x: Array, y: Array) -> Array:
        return x + y

    x = floats(4, 3)
    assert refused(ArgumentError, lambda: dyn.vmap(f, in_axes=(0, 2))(x, x)) == (
        "dyn.vmap(f): in_axes=2, and args[1] is f32[args_1_0, args_1_1], which has no such axis."
    )
    assert refused(ArgumentError, lambda: dyn.vmap(f, in_axes=None)(x, x)) == (
        "dyn.vmap(f): no argument has an axis that is mapped."
    )
    assert refused(ArgumentError, lambda: dyn.vmap(f, in_axes=(0,))(x, x)) == (
        "dyn.vmap(f): in_axes has 1 entries, and the function was called with 2 arguments."
    )
    assert refused(ArgumentError, lambda: dyn.vmap(f, out_axes=None)(x, x)) == (
        "dyn.vmap(f): the result differs from example to example, and out_axes is None for it."
    )
    assert refused(ArgumentError, lambda: dyn.vmap(lambda p: p["w"], in_axes=({"v": 0},))({"w": x})) == (
        "dyn.vmap(<lambda>): in_axes has {'v': 0} where the arrays are {'w': *}."
    )
    text = refused(ShapeError, lambda: dyn.vmap(f)(x, floats(5, 3)))
    assert "dyn.vmap(f) maps args[1].shape[0] together with args[0].shape[0]" in text
