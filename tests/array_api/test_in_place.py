"""``x[i] = v`` and ``x += y`` on traced arrays: what sees the change, and what does not."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, DynError, ShapeError, UnsupportedOpError

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)


def both(function: Callable[..., Any], *shapes: tuple[Any, ...], sizes: tuple[int, ...] = SIZES) -> None:
    """Run a Python function under dyn and under NumPy (on copies), at every size, from one compile."""
    ours = dyn.jit(function)
    for n in sizes:
        rng = np.random.default_rng(n)
        args = [rng.normal(0, 2, [n if d == "n" else d for d in shape]) for shape in shapes]
        mine, theirs = ours(*args), function(*[a.copy() for a in args])
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    assert ours.cache_info().compiles == 1


def test_whoever_holds_the_array_sees_it() -> None:
    def function(x: Array) -> Any:
        y, z = x, x * 1
        x[::2] = 5.0
        x += 1
        z[...] = z + y
        return x, y, z

    both(function, ("n",))


def test_what_was_made_of_it_before_does_not() -> None:
    """Unlike NumPy's views."""

    def function(x: Array) -> Any:
        parts = [x[:], x[1:], x.T, x.reshape(-1), dnp.squeeze(x), dnp.astype(x, x.dtype), x.copy(), x[...], +x,
                 dnp.broadcast_arrays(x, 0.0)[0], x.real]  # fmt: skip
        x[...] = 9.0
        x *= 2
        return x, parts

    x = np.arange(4.0)
    changed, parts = dyn.jit(function)(x)
    assert changed.tolist() == [18.0] * 4
    assert [p.tolist() for p in parts] == [x.tolist(), x[1:].tolist(), *[x.tolist()] * 9]
    assert x.tolist() == [0, 1, 2, 3]


def test_index_forms() -> None:
    def function(x: Array, y: Array, v: Array) -> Any:
        x[0] = v
        x[-1, 1:] = 3
        x[np.array([1, 1, 0]), np.array([0, 0, 2])] = 7.5
        x[..., 2] += x[..., 0]
        y[y > 0] = 0
        y[::-2, 1] = x[0, 0]
        y[:, None, 0] = 4
        return x, y

    both(function, ("n", 3), ("n", 3), (3,), sizes=(2, 7, 64, 1000))


OPERATORS = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
    operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift, operator.imatmul,
]  # fmt: skip


@pytest.mark.parametrize("change", OPERATORS, ids=lambda f: f.__name__)
def test_operators(change: Callable[[Any, Any], Any]) -> None:
    whole = change.__name__ in ("iand", "ior", "ixor", "ilshift", "irshift")

    def function(x: Array, y: Array) -> Any:
        held = x
        x = change(x, y)
        assert held is x or isinstance(x, np.ndarray | dyn.Array)
        return held, x

    ours = dyn.jit(function)
    for n in (0, 1, 2, 7):
        rng = np.random.default_rng(n)
        square = (n, n) if change is operator.imatmul else (n,)
        x, y = (rng.integers(1, 6, square) for _ in range(2))
        if not whole:
            x, y = x.astype("f8"), y.astype("f8")
        wanted = change(x.copy(), y)
        for found in ours(x, y):
            np.testing.assert_allclose(found, wanted)
        mine = dyn.asarray(x)
        assert change(mine, dyn.asarray(y)) is mine
        np.testing.assert_allclose(np.asarray(mine), wanted)
        assert mine.dtype == x.dtype
    assert ours.cache_info().compiles == 1


def test_gradients_and_batches() -> None:
    def function(x: Array) -> Array:
        y = x * 2.0
        y[1:] = y[:-1] * x[1:]
        y += x
        y[y > 1] = 0.5
        return dnp.sum(y * y)

    def functional(x: Array) -> Array:
        y = x * 2.0
        y = dnp.concat([y[:1], y[:-1] * x[1:]])
        y = y + x
        y = dnp.where(y > 1, 0.5, y)
        return dnp.sum(y * y)

    rows = np.random.default_rng(0).normal(0, 1, (5, 7))
    for made in (dyn.grad, lambda f: dyn.jit(dyn.grad(f))):
        np.testing.assert_allclose(made(function)(rows[0]), made(functional)(rows[0]), rtol=1e-12)
    batched = dyn.jit(dyn.vmap(dyn.grad(function)))(rows)
    np.testing.assert_allclose(batched, dyn.jit(dyn.vmap(dyn.grad(functional)))(rows), rtol=1e-12)


def test_arguments_of_inner_functions_are_their_own() -> None:
    def change(x: Array, y: Array) -> Array:
        y[...] = 0.0
        x += 1
        return dnp.sum(x)

    def outer(x: Array, y: Array) -> Any:
        inner = dyn.jit(change)(x, y), dyn.grad(change)(x, y), dyn.vmap(change)(x[None], y[None])
        return inner, x, y

    _, x, y = dyn.jit(outer)(np.ones(3), np.ones(3))
    assert x.tolist() == y.tolist() == [1, 1, 1]


def test_in_the_body_of_a_loop() -> None:
    def body(carry: Array, row: Array) -> Any:
        carry[0] += row[0]
        carry *= 2
        row[1:] = 0
        return carry, row

    def plain(carry: Array, rows: Array) -> Any:
        found = []
        for row in rows:
            carry, row = body(carry, row)
            found.append(row)
        return carry, np.array(found).reshape(rows.shape)

    ours = dyn.jit(lambda carry, rows: dyn.lax.scan(body, carry, rows))
    for n in (0, 1, 2, 7):
        carry, rows = np.arange(3.0), np.random.default_rng(n).normal(0, 1, (n, 3))
        for a, b in zip(ours(carry, rows), plain(carry.copy(), rows.copy()), strict=True):
            np.testing.assert_allclose(a, b)
    assert ours.cache_info().compiles == 1


def test_a_number_is_not_changed() -> None:
    """Weak values are Python numbers: ``x += y`` gives the name another value."""

    def function(x: Array) -> Any:
        scale = x.shape[0] ** -0.5
        held = scale
        scale *= x
        return scale, held

    scaled, held = dyn.jit(function)(np.ones(4))
    assert scaled.tolist() == [0.5] * 4
    assert held == 0.5


# ---- what is refused -------------------------------------------------------------------------------------------------

X, Y = np.zeros((2, 3), "i4"), np.zeros(3, "f4")
ERRORS: dict[str, tuple[type[DynError], Callable[[Any, Any], Any], str]] = {
    "dtype": (
        UnsupportedOpError, lambda x, y: operator.iadd(x, 1.5),
        "x += y: the result is float32, and x (x_0, x_1) stays int32.\n  at <the line>\n"
        "  help: write x = x + y, or convert y with .astype.",
    ),
    "quotient": (
        UnsupportedOpError, lambda x, y: operator.itruediv(x, 2),
        "x /= y: the result is float32, and x (x_0, x_1) stays int32.\n  at <the line>\n"
        "  help: write x = x / y, or convert y with .astype.",
    ),
    "axes": (
        ShapeError, lambda x, y: operator.iadd(y, x),
        "y += y: y (y_0,) keeps its shape, and y has 2 axes.\n  at <the line>\n"
        "  help: write x = x + y, which may have another shape.",
    ),
    "matmul": (
        ShapeError, lambda x, y: operator.imatmul(y, y),
        "y @= y: y (y_0,) keeps its shape, and the product is ().\n  at <the line>\n"
        "  help: write x = x @ y, which may have another shape.",
    ),
}  # fmt: skip


def _placed(error: BaseException) -> str:
    return re.sub(r"at test_in_place.py:\d+  .*", "at <the line>", str(error))


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    error, function, text = ERRORS[name]
    with pytest.raises(error) as caught:
        dyn.jit(function)(X, Y)
    assert _placed(caught.value) == text


def test_errors_of_arrays() -> None:
    x = dyn.asarray(X)
    with pytest.raises(ArgumentError) as caught:
        x += 1.5
    assert _placed(caught.value) == (
        "x += y: the result is float32[2, 3], and x stays int32[2, 3].\n  at <the line>\n  help: write x = x + y."
    )
    row = dyn.asarray(X[0])
    with pytest.raises(ArgumentError) as caught:
        row *= x
    assert _placed(caught.value) == (
        "x *= y: the result is int32[2, 3], and x stays int32[3].\n  at <the line>\n  help: write x = x * y."
    )
    with pytest.raises(TypeError, match="unsupported operand"):
        x += [1, 2, 3]
