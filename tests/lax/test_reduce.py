"""``dyn.lax.reduce`` against JAX's and NumPy's, at every size, from one program."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.errors import ArgumentError, DynError, ShapeError, TraceError, UnsupportedOpError
from dyn.specialize.shared_code import Codes

Array = np.ndarray[Any, Any]
Require = Callable[[str], Any]
SHAPES = ((0, 3), (3, 0), (1, 1), (2, 7), (7, 2), (64, 3), (5, 1000), (1000, 33))
NAN, INF = float("nan"), float("inf")


def first_greatest(a: Any, b: Any) -> Any:
    """The greatest element and where it stands first; NaN is greater than any."""
    (best, at), (x, i) = a, b
    wins = (x > best) | ((x != x) & (best == best))
    return dnp.where(wins, x, best), dnp.where(wins, i, at)


def log_sum(a: Any, b: Any) -> Any:
    (top, total), (x, y) = a, b
    high = dnp.maximum(top, x)
    return high, total * dnp.exp(top - high) + y * dnp.exp(x - high)


def moments(a: Any, b: Any) -> Any:
    """Welford's: an element at a time."""
    count = a["n"] + b["n"]
    off = b["mean"] - a["mean"]
    mean = a["mean"] + off * (b["n"] / count)
    return {"n": count, "mean": mean, "m2": a["m2"] + b["m2"] + off * (b["mean"] - mean)}


def places(x: Any, axis: int) -> Any:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return dnp.broadcast_to(dnp.reshape(dnp.arange(x.shape[axis]), shape), x.shape)


def drawn(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Floats with equal ones among them."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype("f4")


# --- what it computes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
def test_argmax_and_max(axis: int) -> None:
    f = dyn.jit(lambda x: lax.reduce((x, places(x, axis)), (-INF, -1), first_greatest, (axis,)))
    for shape in SHAPES:
        x = drawn(shape)
        value, place = f(x)
        if shape[axis]:
            np.testing.assert_array_equal(value, x.max(axis))
            np.testing.assert_array_equal(place, x.argmax(axis))
        else:
            assert (value == -INF).all()
            assert (place == -1).all()
        if x.size:
            x[-1, -1] = NAN
            np.testing.assert_array_equal(f(x)[1], x.argmax(axis))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_log_sum_exp(axes: tuple[int, ...]) -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        top, total = lax.reduce((x * 10, dnp.ones_like(x)), (-3e38, 0.0), log_sum, axes)
        return top + dnp.log(total)

    for shape in SHAPES:
        x = drawn(shape)
        if all(shape[a] for a in axes):
            wide = x.astype("f8") * 10
            top = wide.max(axes, keepdims=True)
            wanted = np.log(np.exp(wide - top).sum(axes)) + top.squeeze(axes)
            np.testing.assert_allclose(f(x), wanted, rtol=2e-6, atol=1e-5)
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_moments_in_a_tree(axis: int) -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        one = dnp.ones_like(x)
        start = {"n": 0.0, "mean": 0.0, "m2": 0.0}
        return lax.reduce({"n": one, "mean": x, "m2": one * 0}, start, moments, (axis,))

    for shape in SHAPES:
        x = drawn(shape) + 100
        found = f(x)
        assert sorted(found) == ["m2", "mean", "n"]
        if shape[axis]:
            np.testing.assert_allclose(found["mean"], x.mean(axis, dtype="f8"), rtol=1e-5)
            np.testing.assert_allclose(found["m2"] / shape[axis], x.var(axis, dtype="f8"), rtol=1e-3, atol=1e-3)
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "bfloat16", "float64"])
def test_a_body_that_is_no_monoid_goes_in_order(dtype: str) -> None:
    kind = dtypes.dtype(dtype).np
    f = dyn.jit(lambda x: lax.reduce(x, 1, lambda a, b: a * 3 - b, (1,)))
    for shape in ((3, 0), (1, 1), (2, 7), (20, 3)):
        x = (drawn(shape) % 5).astype(kind)
        wanted = np.ones(shape[0], kind)
        for k in range(shape[1]):
            wanted = wanted * np.array(3, kind) - x[:, k]
        found = f(x)
        assert found.dtype == kind
        np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))
    assert f.cache_info().compiles == 1


def test_products_of_complex_numbers() -> None:
    f = dyn.jit(lambda x: lax.reduce(x, 1.0, lambda a, b: a * b, (1,)))
    for shape in ((2, 0), (1, 1), (3, 7), (7, 3)):
        x = (drawn(shape) + 1j * drawn(shape, 1)).astype("c16") / 9
        np.testing.assert_allclose(f(x), x.prod(1), rtol=1e-12, atol=1e-12)
    assert f.cache_info().compiles == 1


def test_monoids_start_from_the_initial_value() -> None:
    f = dyn.jit(
        lambda x, init: lax.reduce((x, x), (init, INF), lambda a, b: (a[0] + b[0], dnp.minimum(a[1], b[1])), (0,))
    )
    for shape in SHAPES:
        x = drawn(shape)
        total, least = f(x, np.float32(5))
        np.testing.assert_array_equal(total, x.sum(0) + 5)
        np.testing.assert_array_equal(least, x.min(0, initial=INF))
    assert f.cache_info().compiles == 1
    assert "variadic_reduce" not in f.trace(drawn((2, 3)), np.float32(5)).lower().as_text("dhlo")


def test_initial_values_that_are_computed() -> None:
    f = dyn.jit(lambda x, y: lax.reduce(x, dnp.sum(y), lambda a, b: a * 0.5 + b, (0,)) + dnp.max(y))
    for n in (0, 1, 7, 64):
        x, y = drawn((n,)), np.arange(3, dtype="f4")
        wanted = 3.0
        for value in x:
            wanted = wanted * 0.5 + value
        np.testing.assert_allclose(f(x, y), wanted + 2, rtol=1e-6)


def test_no_dimensions_and_no_axes() -> None:
    f = dyn.jit(
        lambda x, y: (lax.reduce(x, 2.0, lambda a, b: a * 10 - b, ()), lax.reduce(y, 2.0, lambda a, b: a - b, ()))
    )
    for shape in SHAPES:
        first, second = f(drawn(shape), np.float32(5))
        np.testing.assert_array_equal(first, 20 - drawn(shape))
        assert second == -3


def test_the_shape_of_the_whole_may_be_undecided() -> None:
    """Operands that are broadcast against one another, with sizes that only a call knows."""
    f = dyn.jit(lambda x, y: lax.reduce(x + y, 1.0, lambda a, b: a * 0.5 + b, (1,)))
    for one, other in (((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 1), (3, 4)), ((3, 4), (3, 1)), ((9, 4), (1, 1))):
        x, y = drawn(one), drawn(other, 1)
        wanted = np.ones(max(one[0], other[0]), "f4")
        for k in range(4):
            wanted = wanted * np.float32(0.5) + (x + y)[:, k]
        np.testing.assert_array_equal(f(x, y), wanted)
    assert f.cache_info().compiles == 1


def test_dims_may_be_used_in_the_body() -> None:
    f = dyn.jit(lambda x: lax.reduce(x, 0.0, lambda a, b: a + b / x.shape[0], (0,)))
    for n in (1, 2, 8):
        np.testing.assert_allclose(f(np.ones(n, "f4")), 1.0)


def test_outside_of_a_trace() -> None:
    x = drawn((5, 7))
    np.testing.assert_array_equal(
        lax.reduce(x, 0.0, lambda a, b: dnp.maximum(a, b * 2), (0,)), np.maximum(x.max(0) * 2, 0)
    )
    total, product = lax.reduce((x, x), (np.float32(0), 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 1))
    assert (total, product) == (x.sum(), x.prod())


def test_many_threads() -> None:
    f = dyn.jit(lambda x: lax.reduce((x, places(x, 1)), (-INF, -1), first_greatest, (1,)))
    arrays = [drawn((n, 50 + n), n) for n in range(1, 40)]
    with ThreadPoolExecutor(8) as pool:
        for x, (value, place) in zip(arrays, pool.map(f, arrays), strict=True):
            np.testing.assert_array_equal(value, x.max(1))
            np.testing.assert_array_equal(place, x.argmax(1))
    assert f.cache_info().compiles == 1


def test_as_jax(require_module: Require) -> None:
    jax = require_module("jax")

    def argmin(a: Any, b: Any, where: Callable[..., Any]) -> Any:
        less = b[0] < a[0]
        return where(less, b[0], a[0]), where(less, b[1], a[1])

    for shape in ((3, 0), (1, 1), (7, 5), (64, 7)):
        x = np.random.default_rng(0).permutation(shape[0] * shape[1]).reshape(shape).astype("f4")
        i = np.broadcast_to(np.arange(shape[1], dtype="i4"), shape)
        for axes in ((0,), (1,), (0, 1)):
            ours = lax.reduce((x, i), (INF, np.int32(-1)), lambda a, b: argmin(a, b, dnp.where), axes)
            start = np.float32(INF), np.int32(-1)
            theirs = jax.lax.reduce((x, i), start, lambda a, b: argmin(a, b, jax.numpy.where), axes)
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, np.asarray(other))
            total = lax.reduce(x, 0.0, dnp.add, axes)
            np.testing.assert_allclose(total, np.asarray(jax.lax.reduce(x, np.float32(0), jax.lax.add, axes)))


# --- what it refuses ----------------------------------------------------------------------------------------------


def problem(error: type[DynError], call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(error) as caught:
        dyn.jit(call)(*args)
    assert type(caught.value) is error
    return re.sub(r"\.py:\d+.*", ".py:N", str(caught.value))


def test_errors() -> None:
    x = np.ones((2, 3), "f4")

    def add(a: Any, b: Any) -> Any:
        return a + b

    assert problem(ArgumentError, lambda x: lax.reduce((x, x), 0.0, add, (0,)), x) == (
        "reduce: the operands are (*, *) and the initial values *.\n"
        "  at test_reduce.py:N\n"
        "  help: give one initial value for each operand, in the same tree."
    )
    assert problem(ShapeError, lambda x: lax.reduce(x, 0.0, add, (2,)), x) == (
        "reduce: the dimensions (2,) are not different axes of an array with 2 axes.\n"
        "  at test_reduce.py:N\n"
        "  help: name each axis once."
    )
    assert problem(ShapeError, lambda x: lax.reduce(x, np.float64(0), add, (0,)), x) == (
        "reduce: the initial value init_values is f64[], and its operand f32[x_0, x_1].\n"
        "  at test_reduce.py:N\n"
        "  help: give a scalar of dtype float32."
    )
    assert problem(ShapeError, lambda x: lax.reduce(x, x[0], add, (0,)), x).startswith(
        "reduce: the initial value init_values is f32[x_1], and its operand f32[x_0, x_1].\n"
    )
    assert problem(TraceError, lambda x: lax.reduce(x, 0.0, lambda a, b: a > b, (0,)), x) == (
        "the body of reduce gives i1[] (result), where its arguments are f32[].\n"
        "  at test_reduce.py:N\n"
        "  help: convert it with .astype, or start from other values."
    )
    assert problem(UnsupportedOpError, lambda x: lax.reduce(x, 0.0, lambda a, b: a * b + x[0, 0], (0,)), x) == (
        "the body of reduce reads an array (f32[x_0, x_1]) from outside.\n"
        "  it was made at test_reduce.py:N\n"
        "  at test_reduce.py:N\n"
        "  help: make it one more operand: there are its arguments, Python numbers and dimensions alone."
    )
    assert problem(
        UnsupportedOpError, lambda x: lax.reduce(x, 0.0, lambda a, b: a * dnp.sum(dnp.full((3,), b)), (0,)), x
    ).startswith("variadic_reduce: its body computes with scalars, and broadcast_in_dim at test_reduce.py:N")
    assert problem(UnsupportedOpError, lambda x: lax.reduce("text", 0.0, add, (0,)), x).startswith(
        "reduce does not take a str (operands) for an array.\n"
    )


def test_shapes_that_differ_are_found_when_called() -> None:
    f = dyn.jit(lambda x, y: lax.reduce((x, y), (0.0, 0.0), lambda a, b: (a[0] - b[0], a[1] - b[1] * b[0]), (0,)))
    assert f(np.ones(3, "f4"), np.ones(3, "f4")) == (-3, -3)
    with pytest.raises(ShapeError, match="arrays that are reduced together agree on axis 0"):
        f(np.ones(3, "f4"), np.ones(4, "f4"))


def test_eager_calls_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = Codes()
    monkeypatch.setattr("dyn.specialize.program.CODES", codes)

    def last(a: Any, b: Any) -> Any:
        return b

    for size in (1, 2, 7):
        assert lax.reduce(np.arange(size, dtype=np.float32), np.float32(0), last, (0,)) == size - 1
    lax.reduce(np.ones((2, 3), np.float32), np.float32(0), last, (1,))
    assert (codes.info().programs, codes.info().hits) == (2, 2)
