"""Searches: the first place where a condition holds, at every place of many sizes, on this machine and older ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.x86.search import search_of
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Buffer, Const, Expr, Fold, Index, Kernel, Load, Loop, Ref, Store, scalar_fold
from dyn.schedule.target import Target
from dyn.shapes import Dim, as_dim, symbol
from tests.lower.x86_run import SIZES, ap, compile_kernels, const, grid, lane, load, runnable

I64 = dtypes.int64
NOWHERE = np.iinfo(np.int64).max
TARGETS = [pytest.param(t, id=str(t.vector_bytes)) for t in runnable()]


def place_of(condition: Expr, place: Dim, none: int = NOWHERE) -> Fold:
    """The least place where a condition holds."""
    at = ap(Scalar.SELECT, condition, Index(I64, place), const(none, I64))
    return scalar_fold(Ref("at", I64), Scalar.MIN, const(NOWHERE, I64), at)


def truth(fn: Scalar, *args: Expr) -> Expr:
    return ap(fn, *args, dtype=dtypes.bool_)


def places(dtype: DType, *, step: int = 1, offset: bool = False, flipped: bool = False) -> Kernel:
    """Of rows, where each has an element that equals its key, or a NaN."""
    m, n, k, r, i = (symbol(c) for c in "mnkri")
    x, key, at = Buffer("x", dtype), Buffer("key", dtype), Buffer("at", I64)
    along = as_dim(n) - 1 - as_dim(i) if flipped else as_dim(i)
    element = load(x, as_dim(r) * as_dim(n) + along)
    found = truth(Scalar.EQ, element, load(key, r))
    if dtype.is_float:
        found = truth(Scalar.OR, found, truth(Scalar.NE, element, element))
    fold = place_of(found, step * as_dim(i) + (as_dim(k) * as_dim(r) - 5 if offset else 0))
    loop = lane(i, as_dim(n), folds=[fold])
    assert search_of(loop) is not None
    body = (grid(r, as_dim(m), loop, Store(at, as_dim(r), fold.refs[0])),)
    return Kernel(f"places_{dtype.short}", (x, key, at), (m, n, k), (), body)


def rows(n: int, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Rows with their key at each place, with it twice, with NaNs before it and behind it, and without it."""
    x = np.full((2 * n + 3, n), 1, dtype.np)
    for place in range(n):
        x[place, place] = 2
        x[n + place, place:] = 2
    key = np.full(len(x), 2, dtype.np)
    if dtype.is_float and n:
        x[2 * n, n // 2], x[2 * n, n // 3] = np.nan, 2
        x[2 * n + 1, n - 1], key[2 * n + 1] = np.nan, np.nan
    return x, key


def first(x: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The first place in each row, or -1."""
    with np.errstate(invalid="ignore"):
        found = (x == key[:, None]) | (x != x)
    return np.where(found.any(1), found.argmax(1) if x.shape[1] else 0, -1)


@pytest.mark.parametrize("target", TARGETS)
def test_first_places(target: Target) -> None:
    kinds = dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int64, dtypes.uint16
    compiled = compile_kernels([places(dtype) for dtype in kinds], target)
    for dtype, run in zip(kinds, compiled, strict=True):
        for n in (*SIZES[:-1], 129, 300):
            x, key = rows(n, dtype)
            at = np.full(len(x), -7, np.int64)
            run((len(x), n, 0), [x, key, at])
            expected = first(x, key)
            np.testing.assert_array_equal(at, np.where(expected < 0, NOWHERE, expected), f"{dtype} {n}")


@pytest.mark.parametrize("target", TARGETS)
def test_places_of_other_numbers(target: Target) -> None:
    """Steps of three from an offset of each row, and elements that are read backwards."""
    kernels = [places(dtypes.float32, step=3, offset=True), places(dtypes.int8, flipped=True)]
    stepped, flipped = compile_kernels(kernels, target)
    for n in SIZES[:-1]:
        x, key = rows(n, dtypes.float32)
        at = np.zeros(len(x), np.int64)
        stepped((len(x), n, 100), [x, key, at])
        expected = first(x, key)
        numbers = 3 * expected + 100 * np.arange(len(x)) - 5
        np.testing.assert_array_equal(at, np.where(expected < 0, NOWHERE, numbers))
        x, key = rows(n, dtypes.int8)
        flipped((len(x), n, 0), [x, key, at])
        expected = first(x[:, ::-1], key)
        np.testing.assert_array_equal(at, np.where(expected < 0, NOWHERE, expected))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", [1, 5, 16, 64, 67, 128, 150])
def test_extents_that_are_numbers(target: Target, extent: int) -> None:
    """The condition is of a bool, under a mask of its own."""
    i = symbol("i")
    x, at = Buffer("x", dtypes.bool_), Buffer("at", I64)
    inside = truth(Scalar.LT, Index(I64, as_dim(i)), const(extent - 1, I64))
    element = Load(x, as_dim(i), mask=inside, other=Const(dtypes.bool_, False))
    fold = place_of(element, as_dim(i))
    kernel = Kernel("numbers", (x, at), (), (), (lane(i, extent, folds=[fold]), Store(at, 0, fold.refs[0])))
    (run,) = compile_kernels([kernel], target)
    for place in range(extent):
        found, result = np.arange(extent) == place, np.zeros(1, np.int64)
        run((), [found, result])
        assert result[0] == (place if place < extent - 1 else NOWHERE)


def test_what_is_no_search() -> None:
    """Two folds, a state that begins below the largest place, places that decrease, and places of few bits."""
    n, i = symbol("n"), symbol("i")
    x = Buffer("x", dtypes.float32)
    found = truth(Scalar.GT, load(x, i), const(0.0))
    other = scalar_fold(Ref("sum", dtypes.float32), Scalar.ADD, const(0.0), load(x, i))

    def looped(*folds: Fold) -> Loop:
        return lane(i, as_dim(n), folds=folds)

    assert search_of(looped(place_of(found, as_dim(i)))) is not None
    narrow = ap(Scalar.SELECT, found, Index(dtypes.int32, as_dim(i)), const(9, dtypes.int32))
    refused: list[Callable[[], Loop]] = [
        lambda: looped(place_of(found, as_dim(i)), other),
        lambda: looped(place_of(found, as_dim(i), none=9)),
        lambda: looped(place_of(found, as_dim(n) - as_dim(i))),
        lambda: looped(place_of(found, as_dim(i) * as_dim(i))),
        lambda: looped(place_of(found, as_dim(n))),
        lambda: looped(scalar_fold(Ref("at", dtypes.int32), Scalar.MIN, const(9, dtypes.int32), narrow)),
    ]
    assert [search_of(make()) for make in refused] == [None] * len(refused)
