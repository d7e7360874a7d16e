"""JAX functions that dyn compiles: one trace and one compile for a stream of shapes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dyn.errors import ArgumentError

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402
from tests.interop.counting import counts  # noqa: E402


def mlp(params: Any, x: Any) -> Any:
    for layer in params:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return {"out": x, "mean": x.mean()}


def params_of(*sizes: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(sizes)
    return [{"w": jnp.asarray(rng.standard_normal((a, b), np.float32)), "b": jnp.zeros(b)} for a, b in pairs]


def test_a_stream_of_shapes() -> None:
    params, run = params_of(8, 16, 4), djax.jit(mlp, shapes="..., n 8")
    for n in (1, 2, 7, 64, 1000):
        x = jnp.asarray(np.random.default_rng(n).standard_normal((n, 8), np.float32))
        actual, wanted = run(params, x), mlp(params, x)
        assert actual.keys() == wanted.keys()
        for name in wanted:
            assert isinstance(actual[name], jax.Array)
            np.testing.assert_allclose(actual[name], wanted[name], 2e-5, 1e-5)
    assert counts(run) == (1, 1)
    assert run(params, jnp.zeros((0, 8)))["out"].shape == (0, 4)
    assert counts(run) == (2, 2)


def test_gradients_inside() -> None:
    run = djax.jit(jax.value_and_grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), shapes="k 3, n k")
    w = jnp.ones((4, 3)) / 7
    for n in (1, 5, 33):
        x = jnp.asarray(np.random.default_rng(n).standard_normal((n, 4), np.float32))
        value, grad = run(w, x)
        wanted = jax.value_and_grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2))(w, x)
        np.testing.assert_allclose(value, wanted[0], 1e-5)
        np.testing.assert_allclose(grad, wanted[1], 1e-4, 1e-5)
    assert counts(run) == (1, 1)


def test_static_arguments() -> None:
    run = djax.jit(lambda x, k: x * k if k > 1 else x, static_argnums=1)
    x = jnp.arange(3.0)
    assert run(x, 1).tolist() == [0, 1, 2]
    assert run(x, 3).tolist() == [0, 3, 6]
    assert run.cache_info().traces == 2


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError) as error:
        djax.jit(lambda x: x, shapes="a b")(jnp.ones(3))
    assert str(error.value) == (
        "<lambda>(): x has 1 axis, and shapes= declares 'a b'.\n"
        "  help: pass an array of that rank, or change the declaration."
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("size", [(8, 8), (200, 200), (1000, 1000)])
def test_arrays_that_a_function_closes_over(size: tuple[int, int], dtype: str) -> None:
    """JAX makes constants of them, of any size: they are read, and are no code."""
    table = jnp.asarray(np.random.default_rng(0).integers(0, 2, size)).astype(dtype)
    ones = jnp.ones(size, dtype)

    def read(x: Any, i: Any) -> Any:
        summed = jax.lax.fori_loop(0, 2, lambda k, v: v + table[k, 0].astype("int32"), i)
        return jnp.where(table == ones, x, 0), table[i], summed

    run = djax.jit(read)
    for i in (0, 7):
        x, place = jnp.arange(float(size[1])), jnp.int32(i)
        for got, want in zip(run(x, place), read(x, place), strict=True):
            np.testing.assert_array_equal(got, want)
    assert run.cache_info().compiles == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean"])
def test_reductions_of_no_elements_that_leave_nans_out(name: str, shape: tuple[int, ...]) -> None:
    fn, x = getattr(jnp, name), jnp.ones(shape)
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            reduce = lambda x, a=axis, k=keepdims: fn(x, axis=a, keepdims=k)  # noqa: E731
            np.testing.assert_array_equal(djax.jit(reduce)(x), reduce(x))


def test_prepare() -> None:
    run = djax.jit(lambda x, y: jnp.tanh(x) @ y)
    x, y = jax.ShapeDtypeStruct((3, 4), np.float32), jax.ShapeDtypeStruct((4, 5), np.float32)
    run.prepare([(x, y), {"x": jnp.ones((7, 4)), "y": y}])
    before = counts(run)
    assert before[1] > 0
    np.testing.assert_allclose(
        run(jnp.ones((9, 4)), jnp.ones((4, 5))), np.tanh(np.ones((9, 4))) @ np.ones((4, 5)), 1e-6
    )
    assert counts(run) == before
