"""``dyn.lax.reduce_window`` against JAX's and plain loops, at every size, from one program."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import DynError, ShapeError, UnsupportedOpError

Array = np.ndarray[Any, Any]
Require = Callable[[str], Any]
INF = float("inf")
#: Windows, strides, padding, dilations of the array and of the window.
GEOMETRIES: tuple[tuple[Any, ...], ...] = (
    ((3, 2), (1, 1), "VALID", None, None),
    ((2, 3), (2, 1), "SAME", None, None),
    ((3, 3), (1, 2), ((1, 2), (0, 3)), None, (1, 2)),
    ((2, 2), (3, 1), ((2, -1), (1, 1)), (2, 1), None),
)
SHAPES = ((0, 4), (1, 1), (2, 7), (7, 3), (33, 20))


def drawn(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).permutation(int(np.prod(shape))).reshape(shape).astype("f4")


def smallest(where: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The least element of a window, and its number."""

    def body(a: Any, b: Any) -> Any:
        less = b["x"] < a["x"]
        return {"x": where(less, b["x"], a["x"]), "i": where(less, b["i"], a["i"])}

    return body


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_as_jax(geometry: tuple[Any, ...], require_module: Require) -> None:
    jax = require_module("jax")
    start = {"x": np.float32(INF), "i": np.int32(-1)}
    f = dyn.jit(lambda x, i: lax.reduce_window({"x": x, "i": i}, start, smallest(dnp.where), *geometry))
    for shape in SHAPES:
        x = drawn(shape)
        i = np.arange(x.size, dtype="i4").reshape(shape)
        found = f(x, i)
        wanted = jax.lax.reduce_window({"x": x, "i": i}, start, smallest(jax.numpy.where), *geometry)
        for name in ("x", "i"):
            np.testing.assert_array_equal(found[name], np.asarray(wanted[name]))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("monoid", ["add", "maximum"])
def test_monoids_are_the_op_that_there_is(monoid: str, require_module: Require) -> None:
    jax = require_module("jax")
    init, theirs = (0.0, jax.lax.add) if monoid == "add" else (-INF, jax.lax.max)
    f = dyn.jit(lambda x: lax.reduce_window(x, init, getattr(dnp, monoid), (2, 3), (2, 1), "SAME"))
    for shape in SHAPES:
        x = drawn(shape)
        wanted = jax.lax.reduce_window(x, np.float32(init), theirs, (2, 3), (2, 1), "SAME")
        np.testing.assert_array_equal(f(x), np.asarray(wanted))
    text = f.trace(drawn((3, 3))).lower().as_text("dhlo")
    assert " reduce_window(" in text
    assert "variadic" not in text


def test_taps_are_folded_in_order_and_holes_hold_the_initial_value() -> None:
    f = dyn.jit(lambda x: lax.reduce_window(x, 7, lambda a, b: b - 2 * a, (2, 2), (1, 2), ((1, 0), (0, 1))))
    for shape in SHAPES:
        x = drawn(shape).astype("i4") % 10
        padded = np.pad(x, ((1, 0), (0, 1)), constant_values=7)
        rows, columns = max(padded.shape[0] - 1, 0), max((padded.shape[1] - 2) // 2 + 1, 0)
        wanted = np.full((rows, columns), 7, "i4")
        for i, j in itertools.product(range(2), range(2)):
            wanted = padded[i : i + rows, j : j + 2 * columns - 1 : 2] - 2 * wanted
        np.testing.assert_array_equal(f(x), wanted)
    assert f.cache_info().compiles == 1


def test_windows_may_be_dims_and_have_an_epilogue() -> None:
    def program(x: Any, w: Any) -> Any:
        folded = lax.reduce_window(x, 1.0, lambda a, b: a * 0.5 + b, w.shape, (1,), "VALID")
        return dnp.sqrt(folded) + 1

    f = dyn.jit(program)
    for n, w in ((0, 1), (1, 1), (7, 3), (64, 5), (2, 3)):
        x = drawn((n,))
        wanted = np.ones(max(n - w + 1, 0), "f4")
        for tap in range(w):
            wanted = wanted * np.float32(0.5) + x[tap : tap + len(wanted)]
        np.testing.assert_allclose(f(x, np.ones(w, "f4")), np.sqrt(wanted) + 1, rtol=1e-6)
    assert f.cache_info().compiles == 1


def test_outside_of_a_trace() -> None:
    x = drawn((9,))
    found = lax.reduce_window(x, 0.0, lambda a, b: a * 0 + b, (2,), (1,), "VALID")
    np.testing.assert_array_equal(found, x[1:])


def problem(error: type[DynError], call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(error) as caught:
        dyn.jit(call)(*args)
    assert type(caught.value) is error
    return re.sub(r"\.py:\d+.*", ".py:N", str(caught.value))


def test_errors() -> None:
    x = np.ones((2, 3), "f4")

    def body(a: Any, b: Any) -> Any:
        return a - b

    assert problem(ShapeError, lambda x: lax.reduce_window(x, 0.0, body, (2,), (1, 1), "VALID"), x) == (
        "reduce_window: an array with 2 axes has 1 window dimensions, 2 strides, and dilations of 2 and 2 axes.\n"
        "  at test_reduce_window.py:N\n"
        "  help: give one number for each axis."
    )
    assert problem(ShapeError, lambda x: lax.reduce_window(x, 0.0, body, (2, 2), (1, 1), "NONE"), x) == (
        "reduce_window: padding is 'NONE', and 2 pairs are needed.\n"
        "  at test_reduce_window.py:N\n"
        '  help: give (low, high) for each axis, or "SAME", "SAME_LOWER" or "VALID".'
    )
    assert problem(UnsupportedOpError, lambda x: lax.reduce_window(x, 0.0, body, (2, 1.5), (1, 1), "SAME"), x) == (
        "reduce_window does not take the float 1.5 for a size.\n"
        "  at test_reduce_window.py:N\n"
        "  help: use an int, or a dimension such as x.shape[0]."
    )
    assert problem(ShapeError, lambda x: lax.reduce_window(x, 0.0, body, (0, 1), (1, 1), "VALID"), x).startswith(
        "variadic_reduce_window: axis 0 has a window of 0 elements"
    )
