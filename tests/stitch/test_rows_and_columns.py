"""Reductions of rows and of columns in one pass over an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Array = np.ndarray[Any, Any]


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    d = x - dnp.mean(x, axis=-1, keepdims=True)
    return d / dnp.sqrt(dnp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * scale + shift


def norm_gradients(x: Any, scale: Any, shift: Any, t: Any) -> Any:
    return dyn.vjp(_layer_norm, x, scale, shift)[1](t)


def softmax_gradients(x: Any, scale: Any, shift: Any, t: Any) -> Any:
    def softmax(x: Any, shift: Any) -> Any:
        e = dnp.exp(x + shift)
        return e / dnp.sum(e, axis=-1, keepdims=True)

    return dyn.vjp(softmax, x, shift)[1](t * scale)


def sums(x: Any, scale: Any, shift: Any, t: Any) -> Any:
    """Rows and columns of one array; and what is computed of the columns' sums, and of the rows'."""
    columns, rows = dnp.sum(x, axis=0), dnp.sum(x * t, axis=1)
    return dnp.subtract(scale, columns / 2), rows * 2, dnp.tanh(columns + shift), x - rows[:, None]


def extremes(x: Any, scale: Any, shift: Any, t: Any) -> Any:
    """Other monoids than sums, with the reduced axes kept."""
    rows = dnp.max(x, axis=1, keepdims=True)
    return rows, dnp.min(x - rows, axis=0, keepdims=True) + scale, dnp.prod(1 + (x - dnp.floor(x)) / 1024, axis=0)


def narrow_results(x: Any, scale: Any, shift: Any, t: Any) -> Any:
    """Nothing of the whole space is stored."""
    centred = x - dnp.mean(x, axis=1, keepdims=True)
    return dnp.sum(centred * scale / (1 + dnp.max(abs(centred), axis=1, keepdims=True)), axis=0)


PROGRAMS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (norm_gradients, softmax_gradients, sums, extremes, narrow_results)
}


def _arrays(rows: tuple[int, ...], width: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(width)
    shapes = [(*rows, width), (width,), (width,), (*rows, width)]
    return [dnp.astype(rng.standard_normal(shape), dtype) for shape in shapes]


def _leaves(made: Any) -> list[Array]:
    return [np.asarray(v) for v in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_op_by_op(name: str, dtype: str) -> None:
    """Nothing declared, or all: few rows, many, runs that are not whole, rows of one element, and no rows."""
    program = PROGRAMS[name]
    shapes = [(5, 7), (1, 1), (40, 33), (33, 1), (1, 70), (700, 20), (3, 3)]
    # An extreme of nothing is an error, and so is what divides by the number of none.
    shapes += [] if name == "extremes" else [(0, 3)]
    undeclared, declared = dyn.jit(program), dyn.jit(program, shapes="n d, d, d, n d")
    for n, d in shapes:
        arrays = _arrays((n,), d, dtype)
        for run in (undeclared, declared):
            for a, b in zip(_leaves(run(*arrays)), _leaves(program(*arrays)), strict=True):
                assert a.dtype == b.dtype
                a, b = a.astype("f8"), b.astype("f8")
                near = {"float16": 2e-2, "bfloat16": 1.5e-1, "float64": 1e-11}.get(dtype, 5e-5)
                np.testing.assert_allclose(a, b, rtol=near, atol=near * max(1.0, np.sqrt(n)))
    assert undeclared.cache_info().compiles == 1


def _launches(f: Any, arrays: list[Any]) -> list[Any]:
    f(*arrays)
    with dyn.profile() as profile:
        f(*arrays)
    return list(profile.events().launches)


#: The arrays of the whole space that each program reads and writes, and its reductions of columns.
MOVED = {
    "norm_gradients": (3, 2),
    "softmax_gradients": (3, 1),
    "sums": (3, 1),
    "extremes": (1, 2),
    "narrow_results": (1, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_pass(name: str) -> None:
    """One launch over the array, and one over what runs of rows come to; whether sizes are declared or found out."""
    arrays = _arrays((4096,), 96, "float32")
    full, folded = MOVED[name]
    for shapes in ("n d, d, d, n d", None):
        rows, columns = _launches(dyn.jit(PROGRAMS[name], shapes=shapes), arrays)
        runs = folded * 4096 // 128 * 96 * 8
        few = 3 * 4096 * 4 + 4 * 96 * 4
        assert full * 4096 * 96 * 4 <= rows.nbytes <= full * 4096 * 96 * 4 + runs + few
        assert columns.nbytes <= runs + few


def test_rows_of_several_axes() -> None:
    """Batches, and rows of two axes; what reduces some of the axes across rows is no column."""

    def program(x: Any, t: Any) -> Any:
        rows = dnp.sum(x * t, axis=(2, 3), keepdims=True)
        return x * rows, dnp.sum(x - rows, axis=(0, 1)), dnp.sum(x, axis=0)

    x, t = (np.random.default_rng(n).standard_normal((6, 5, 4, 7)).astype("f4") for n in (0, 1))
    f = dyn.jit(program, shapes="a b c d, a b c d")
    for a, b in zip(f(x, t), program(x, t), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)
    text = f.trace(x, t).lower().as_text("stitch")
    assert text.count("of columns") == 1
    assert text.count("reduced [2, 3]") == 1


def test_bits_are_the_same_for_threads_strides_and_declarations() -> None:
    arrays = [np.asarray(a) for a in _arrays((1500,), 130, "float32")]
    x, scale, shift, t = arrays
    f = dyn.jit(norm_gradients)
    with dyn.config.override(num_threads=1):
        alone = _leaves(f(*arrays))
    strided = np.zeros((1500, 260), "f4")
    strided[:, ::2] = x
    for threads, given in ((3, x), (2, np.asfortranarray(x)), (1, strided[:, ::2])):
        with dyn.config.override(num_threads=threads):
            for a, b in zip(_leaves(f(given, scale, shift, t)), alone, strict=True):
                np.testing.assert_array_equal(a, b)
    for a, b in zip(_leaves(dyn.jit(norm_gradients, shapes="n d, d, d, n d")(*arrays)), alone, strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_columns_are_exact() -> None:
    """A sum of 10⁵ equal numbers beside rows, of which eight are added up before they are widened."""
    x = np.full((100_000, 3), 0.1, "f4")
    columns, _ = dyn.jit(lambda x: (dnp.sum(x, axis=0), dnp.max(x, axis=1)))(x)
    np.testing.assert_allclose(np.asarray(columns), np.sum(x, axis=0, dtype="f8"), rtol=1.2e-7)


def test_what_does_not_go_together() -> None:
    """Rows computed of columns; columns of pairs and of ordered folds; one row."""

    def batch_norm(x: Any) -> Any:
        d = x - dnp.mean(x, axis=0)
        return dnp.sum(d / (1 + dnp.max(d, axis=1, keepdims=True)), axis=0)

    def places(x: Any) -> Any:
        return dnp.argmax(x, axis=0), dnp.sum(x, axis=1)

    x = np.random.default_rng(0).standard_normal((50, 20)).astype("f4")
    for program in (batch_norm, places):
        f = dyn.jit(program, shapes="n d")
        for a, b in zip(_leaves(f(x)), _leaves(program(x)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
        assert f.trace(x).lower().as_text("stitch").count("reduced") >= 2
    one = dyn.jit(lambda x: (dnp.sum(x, axis=0), dnp.sum(x, axis=1)), shapes="1 d")
    np.testing.assert_array_equal(np.asarray(one(x[:1])[0]), x[0])


def test_square_arrays() -> None:
    """Where rows and columns have one size, what is computed of each knows which it is of."""

    def program(x: Any) -> Any:
        columns, rows = dnp.sum(x, axis=0), dnp.sum(x * 2, axis=1)
        return columns * 2, rows * 3, columns + rows, dnp.sum(x + rows[:, None], axis=0)

    x = np.random.default_rng(0).standard_normal((40, 40)).astype("f4")
    for a, b in zip(dyn.jit(program, shapes="n n")(x), program(x), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


def test_inside_of_loops_and_maps() -> None:
    def step(weights: Any, x: Any) -> Any:
        rows = dnp.sum(x * weights, axis=1, keepdims=True)
        return weights - 0.1 * dnp.sum(x * rows, axis=0), dnp.max(x - rows, axis=1)

    def program(weights: Any, x: Any) -> Any:
        return dyn.lax.scan(step, weights, x)

    x = np.random.default_rng(0).standard_normal((3, 50, 6)).astype("f4") / 20
    weights = np.ones(6, "f4")
    for a, b in zip(dyn.jit(program)(weights, x), program(weights, x), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)
    mapped = dyn.vmap(step, in_axes=(None, 0))
    for a, b in zip(dyn.jit(mapped)(weights, x), mapped(weights, x), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


def _view_of_rows(x: Any, w: Any, c: Any) -> Any:
    y = x[:, 0] * 2
    return dnp.sum(y, axis=0), dnp.max(y, axis=1), y.T


def _view_of_computed_rows(x: Any, w: Any, c: Any) -> Any:
    rows = dnp.sum(x[:, 0], axis=1, keepdims=True)
    return dnp.sum(x[:, 0] * rows, axis=0), (x[:, 0] * rows).T, rows


def _view_of_row_values(x: Any, w: Any, c: Any) -> Any:
    v = dnp.tanh(w)
    z = x + v[:, :, None]
    return v.T, dnp.max(z, axis=(0, 1)), dnp.min(z, axis=-1)


def _view_of_row_values_with_their_axis(x: Any, w: Any, c: Any) -> Any:
    v = dnp.tanh(w[:, :, None])
    z = x + v
    return dnp.transpose(v, (1, 0, 2)), dnp.max(z, axis=(0, 1)), dnp.min(z, axis=-1)


def _slice_of_row_values(x: Any, w: Any, c: Any) -> Any:
    v = dnp.tanh(w[:, :1])
    z = x[:, 0] + v
    return v[:, 0], dnp.max(z, axis=0), dnp.min(z, axis=-1)


def _view_of_columns(x: Any, w: Any, c: Any) -> Any:
    rows = dnp.sum(x, axis=(1, 2), keepdims=True)
    columns = dnp.sum(x * rows, axis=0)
    return dnp.tanh(columns * c).T, columns


def _columns_of_columns(x: Any, w: Any, c: Any) -> Any:
    t = x[:, 0]
    v = dnp.tanh(dnp.max(t, axis=0))
    return v / 2, dnp.sum(dnp.broadcast_to(v, t.shape), axis=0), dnp.max(t, axis=-1)


@pytest.mark.parametrize(
    "program",
    [
        _view_of_rows, _view_of_computed_rows, _view_of_row_values, _view_of_row_values_with_their_axis,
        _slice_of_row_values, _view_of_columns, _columns_of_columns,
    ],
)  # fmt: skip
@pytest.mark.parametrize("shapes", [None, "n 4 d, n 4, 4 d", "n m d, n m, m d"])
def test_beside_views_that_are_stored(program: Callable[..., Any], shapes: str | None) -> None:
    """Views of rows, of row values and of columns are none of these; nor is a column of a column."""
    x = np.random.default_rng(0).standard_normal((30, 4, 5)).astype("f4")
    arrays = x, x[:, :, 0].copy(), x[0].copy()
    for a, b in zip(dyn.jit(program, shapes=shapes)(*arrays), program(*arrays), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["norm_gradients", "softmax_gradients", "sums"])
def test_no_rows_have_no_runs(name: str) -> None:
    """A run of none would begin in memory that there is none of: where the number of rows is known to be 0, too."""
    f, arrays = dyn.jit(PROGRAMS[name], shapes="0 8, 8, 8, 0 8"), _arrays((0,), 8, "float32")
    for a, b in zip(_leaves(f(*arrays)), _leaves(PROGRAMS[name](*arrays)), strict=True):
        np.testing.assert_array_equal(a, b)
    _, rows = f.lower(*arrays).as_text("kernel").split(", rows\n")
    assert "grid g0 < 0 {" in rows.split("\n\n")[0]


def test_arrays_that_nothing_is_computed_of_are_folded_apart() -> None:
    """Rows of an element, and few long rows, have forms of their own."""
    f = dyn.jit(lambda x: (dnp.sum(x, axis=0), dnp.sum(x, axis=1)), shapes="n d")
    assert f.lower(np.ones((3, 4), "f4")).as_text("stitch").count("of columns") == 0
