"""Options that NumPy refuses, which are known while a function is traced: they are InvalidValueErrors at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, DynError, InvalidValueError, ShapeError
from tests.numpy.differential import rendered

X = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.0])
M = np.arange(12.0).reshape(3, 4)
HALVES: Any = 1.5

#: ``(xp, x, m)``, and what dyn says.
VALUES: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "quantile": (lambda xp, x, m: xp.quantile(x, 2.0), "quantile: q is 2.\nhelp: use numbers from 0 to 1."),
    "quantiles": (lambda xp, x, m: xp.quantile(x, [0.5, -1]), "quantile: q is -1.\nhelp: use numbers from 0 to 1."),
    "nanquantile": (
        lambda xp, x, m: xp.nanquantile(x, float("nan")), "nanquantile: q is nan.\nhelp: use numbers from 0 to 1."
    ),
    "percentile": (lambda xp, x, m: xp.percentile(x, 101), "percentile: q is 101.\nhelp: use numbers from 0 to 100."),
    "nanpercentile": (
        lambda xp, x, m: xp.nanpercentile(x, (50, 100.5)),
        "nanpercentile: q is 100.5.\nhelp: use numbers from 0 to 100.",
    ),
    "falling bins": (
        lambda xp, x, m: xp.histogram(x, [1, 3, 2]),
        "histogram: bins is [1, 3, 2], which does not rise.\nhelp: sort it.",
    ),
    "falling edges": (
        lambda xp, x, m: xp.histogram_bin_edges(x, (3, 2)),
        "histogram_bin_edges: bins is (3, 2), which does not rise.\nhelp: sort it.",
    ),
    "falling bins of two": (
        lambda xp, x, m: xp.histogram2d(x, x, [[2, 1], [1, 2]]),
        "histogramdd: bins is [2, 1], which does not rise.\nhelp: sort it.",
    ),
    "no bins": (lambda xp, x, m: xp.histogram(x, -1), "histogram: the number of bins is -1.\nhelp: use 1 or more."),
    "no rule": (
        lambda xp, x, m: xp.histogram(x, "best"),
        "histogram: 'best' is no rule for bins.\n"
        "help: use 'auto', 'doane', 'fd', 'rice', 'scott', 'sqrt', 'stone' or 'sturges'.",
    ),
    "range": (
        lambda xp, x, m: xp.histogram(x, range=(2, 1)),
        "histogram: range is (2, 1).\nhelp: give two finite numbers, the lower one first.",
    ),
    "infinite range": (
        lambda xp, x, m: xp.histogram(x, range=(0, float("inf"))),
        "histogram: range is (0, inf).\nhelp: give two finite numbers, the lower one first.",
    ),
    "half a range": (
        lambda xp, x, m: xp.histogram(x, range=(0,)),
        "histogram: range is (0,).\nhelp: give two finite numbers, the lower one first.",
    ),
    "digitize": (
        lambda xp, x, m: xp.digitize(x, [1, 2, 2, 1]),
        "digitize: bins is [1, 2, 2, 1], which is in no order.\nhelp: sort it.",
    ),
    "geomspace": (lambda xp, x, m: xp.geomspace(1, 0, 5), "geomspace: stop is 0.\nhelp: use numbers other than 0."),
    "arange": (
        lambda xp, x, m: xp.arange(0.0, float("inf")),
        "arange has no end: it is from 0.0 to inf by 1.\nhelp: use numbers that are finite.",
    ),
    "diff": (lambda xp, x, m: xp.diff(x, -1), "diff: n is -1.\nhelp: use 0 or more."),
    "polyint": (lambda xp, x, m: xp.polyint([1, 2], -1), "polyint: the order is -1.\nhelp: use 0 or more."),
    "edge order": (
        lambda xp, x, m: xp.gradient(x, edge_order=3), "gradient: the edge order is 3.\nhelp: use 1 or 2."
    ),
    "side": (
        lambda xp, x, m: xp.searchsorted(x, x, "middle"),
        "searchsorted: 'middle' is no side.\nhelp: use 'left' or 'right'.",
    ),
    "indexing": (
        lambda xp, x, m: xp.meshgrid(x, indexing="yx"), "meshgrid: 'yx' is no indexing.\nhelp: use 'xy' or 'ij'."
    ),
    "pad": (
        lambda xp, x, m: xp.pad(x, 1, "ring"),
        "pad: 'ring' is no mode.\nhelp: use 'constant', 'edge', 'reflect', 'symmetric' or 'wrap'.",
    ),
    "pad with": (
        lambda xp, x, m: xp.pad(x, 1, "edge", constant_values=1),
        "pad with mode='edge' has no constant_values.\nhelp: leave them out.",
    ),
    "order": (
        lambda xp, x, m: xp.ravel_multi_index((1, 0), (3, 4), order="Q"),
        "ravel_multi_index: 'Q' is no order.\nhelp: use 'C' or 'F'.",
    ),
    "an index": (
        lambda xp, x, m: xp.ravel_multi_index((1, 4), (3, 4)),
        "ravel_multi_index: an index is 4.\nhelp: use one from 0 to 3.",
    ),
    "a number": (
        lambda xp, x, m: xp.unravel_index(12, (3, 4)), "unravel_index: the index is 12.\nhelp: use one from -12 to 11."
    ),
    "choices": (
        lambda xp, x, m: xp.select([], []),
        "select: there are 0 conditions and 0 choices.\n"
        "help: give one choice for each condition, and one condition at least.",
    ),
    "shifts": (
        lambda xp, x, m: xp.roll(m, (1, 2, 3), (0, 1)),
        "roll: there are 3 shifts and 2 axes.\nhelp: give one shift for each axis, or one for all.",
    ),
    "planes": (lambda xp, x, m: xp.rot90(m, axes=(0,)), "rot90: axes are (0,).\nhelp: name the two of a plane."),
    "finfo": (lambda xp, x, m: xp.finfo("int32"), "finfo: int32 is no float dtype.\nhelp: use dyn.numpy.iinfo."),
    "norm": (
        lambda xp, x, m: xp.linalg.norm(x, "fro"),
        "norm: a vector has no norm of order 'fro'.\nhelp: use a number, inf or -inf.",
    ),
    "UPLO": (lambda xp, x, m: xp.linalg.eigh(m @ m.T, "X"), "eigh: UPLO is 'L' or 'U', not 'X'.\nhelp: use 'L'."),
    "rank": (
        lambda xp, x, m: xp.linalg.matrix_rank(m, tol=1.0, rtol=1.0),
        "matrix_rank: both tol and rtol are given.\nhelp: give one of them.",
    ),
    "where": (
        lambda xp, x, m: xp.where(x > 0, x), "where takes both values or none.\nhelp: write where(condition, x, y)."
    ),
}  # fmt: skip


def text(error: DynError) -> str:
    return re.sub(r"\n  at <the line>\n  ", "\n", rendered(error))


@pytest.mark.parametrize("name", VALUES)
def test_values_that_numpy_refuses(name: str) -> None:
    call, wanted = VALUES[name]
    with pytest.raises((ValueError, ZeroDivisionError)):
        call(np, X, M)
    for run in (lambda: call(dnp, X, M), lambda: dyn.jit(lambda x, m: call(dnp, x, m)).trace(X, M)):
        with pytest.raises(InvalidValueError) as caught:
            run()
        assert text(caught.value) == wanted


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: dnp.round(x, HALVES), "round: decimals is an int, not the float 1.5."),
        (lambda x: dnp.histogram(x, 2.5), "histogram: the number of bins is an int, not the float 2.5."),
        (lambda x: dnp.eye(3, k=0.5), "eye: the diagonal is an int, not the float 0.5."),
        (lambda x: dnp.tril(x, 0.5), "tril: the diagonal is an int, not the float 0.5."),
        (lambda x: dnp.diff(x, HALVES), "diff: n is an int, not the float 1.5."),
        (lambda x: dnp.cov(x, ddof=0.5), "cov: ddof is an int, not the float 0.5."),
        (lambda x: dnp.cov(x, fweights=x), "cov: fweights are float64, not integers."),
        (lambda x: dnp.select([x], [x]), "select: condition 0 is float64, not bool."),
    ],
)
def test_values_of_another_type(call: Any, wanted: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(X)
    assert caught.value.problem == wanted


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ShapeError) as caught:
        dnp.broadcast_shapes((2,), (3,))
    assert caught.value.problem.startswith("broadcast_shapes: (2,), (3,) do not broadcast: shape mismatch: ")


def test_what_arrays_have_in_them_is_no_error() -> None:
    """It is known when the program runs, and what it gives is as JAX has it."""
    q = np.array([0.5, 2.0])
    np.testing.assert_array_equal(dnp.quantile(X, q), [2.5, 5.0])
    np.testing.assert_array_equal(dyn.jit(dnp.quantile)(X, q), [2.5, 5.0])
    assert dyn.jit(lambda x, b: dnp.histogram(x, b)[0])(X, np.array([3.0, 2.0, 1.0])).shape == (2,)
    np.testing.assert_array_equal(dnp.unravel_index(np.array([12, 3]), (3, 4)), ([2, 0], [3, 3]))
    # Numbers that are in range, and those at the ends of it.
    for share in (0, 1, True, 0.0, 1.0, [0, 1], np.float64(0.25)):
        np.testing.assert_allclose(dnp.quantile(X, share), np.quantile(X, share))
    np.testing.assert_array_equal(dnp.roll(M, (1, 2), 0), np.roll(M, (1, 2), 0))
    np.testing.assert_array_equal(dnp.roll(M, 1, (0, 1)), np.roll(M, 1, (0, 1)))
    np.testing.assert_array_equal(
        dnp.histogram(X, [-np.inf, 2, 2, np.inf])[0], np.histogram(X, [-np.inf, 2, 2, np.inf])[0]
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_elements_that_no_integer_is(value: float) -> None:
    def assigned(x: Any) -> Any:
        x[0] = float(value)
        return x

    for call in (dyn.jit(assigned), dyn.jit(lambda x: x.at[0].set(float(value)))):
        with pytest.raises(ValueError, match="cannot be an element of an array of int64"):
            call(np.arange(3))
