"""Compactions: no element of a mask has an integer in memory, at any size, on all families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.families import parse_target
from dyn.compilation_record import CompilationRecord
from dyn.pipeline import optimize
from dyn.schedule.launch import walk_launches
from dyn.shapes import evaluate, free_symbols

Array = np.ndarray[Any, Any]
TARGETS = ("x86:x86-64-v3", "cuda:sm_80", "rocm:gfx90a")

#: Functions of an array of bytes, and the bytes of memory beside it and their results that they may take for each
#: element, and for each that is found.
SELECTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "nonzero": (dnp.nonzero, 1, 0),
    "flatnonzero": (dnp.flatnonzero, 1, 0),
    "argwhere": (dnp.argwhere, 1, 0),
    "mask": (lambda x: x[x > 0], 1, 8),
    "compress": (lambda x: dnp.compress(x > 0, x), 1, 8),
    "extract": (lambda x: dnp.extract(x > 0, x), 1, 8),
    "where": (dnp.where, 1, 0),
    "places_by_axis": (lambda x: dnp.nonzero(dnp.reshape(x, (-1, 1))), 1, 8),
    "mask_of_two_axes": (lambda x: (r := dnp.reshape(x, (-1, 1)))[r > 0], 1, 8),
    "a_size_of_ones_own": (lambda x: dnp.nonzero(x, size=5), 1, 0),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SELECTIONS)
def test_memory_is_that_of_a_mask_and_the_result(name: str, target: str) -> None:
    """The arena of 2**31 bytes, beyond what an int32 counts, with all and with few of them found."""
    function, each, found = SELECTIONS[name]
    traced = dyn.jit(function).trace(dyn.ShapeDtypeStruct(("n",), "int8")).traced
    host = optimize(traced, parse_target(target), CompilationRecord(name)).host
    n = 2**31
    for count in (0, 1000, n):
        sizes = {symbol: n if symbol.name == "n" else count for symbol in free_symbols(host.arena)}
        assert evaluate(host.arena, sizes) <= each * n + found * count + n // 512 + 4096


@pytest.mark.parametrize(
    ("function", "each"),
    [(dnp.unique, 3), (dnp.unique_counts, 3), (lambda x: dnp.union1d(x, x), 6)],
)
def test_distinct_bytes_take_no_place_each(function: Callable[..., Any], each: int) -> None:
    traced = dyn.jit(function).trace(dyn.ShapeDtypeStruct(("n",), "int8")).traced
    host = optimize(traced, parse_target(TARGETS[0]), CompilationRecord("unique")).host
    n = 2**31
    sizes = {symbol: n if symbol.name == "n" else 256 for symbol in free_symbols(host.arena)}
    assert evaluate(host.arena, sizes) <= each * n + n // 512 + 65536


MASKS = {"all": 1.0, "none": 0.0, "few": 0.01, "half": 0.5}


@pytest.mark.parametrize("mask", MASKS)
def test_places_are_numpys(mask: str) -> None:
    """In one part, in several, in all of them at once; with fewer and more places than there are."""
    rng = np.random.default_rng(len(mask))
    found, elements = dyn.jit(dnp.flatnonzero), dyn.jit(lambda x, m: x[m])
    sized = [(k, dyn.jit(lambda m, k=k: dnp.flatnonzero(m, size=k))) for k in (0, 3, 70_000)]
    for n in (0, 1, 2, 31, 1000, 32_768, 32_769, 100_000, 3_000_000):
        m = rng.random(n) < MASKS[mask]
        x = rng.normal(size=n).astype("f4")
        wanted = np.flatnonzero(m)
        np.testing.assert_array_equal(found(m), wanted)
        np.testing.assert_array_equal(elements(x, m), x[m])
        for k, of_size in sized:
            own = np.zeros(k, np.int64)
            own[: min(k, wanted.size)] = wanted[:k]
            np.testing.assert_array_equal(of_size(m), own)
    assert [f.cache_info().compiles for f in (found, elements, *[f for _, f in sized])] == [1] * 5


def test_rows_of_many_are_compacted_side_by_side() -> None:
    f = dyn.jit(dyn.vmap(lambda row: dnp.nonzero(row, size=4, fill_value=-1)[0]))
    for shape in ((0, 3), (3, 0), (1, 1), (5, 7), (100, 33), (2, 40_000)):
        x = (np.random.default_rng(shape[0]).random(shape) < 0.5).astype("i1")
        wanted = np.full((shape[0], 4), -1)
        for number, row in enumerate(x):
            places = np.flatnonzero(row)[:4]
            wanted[number, : places.size] = places
        np.testing.assert_array_equal(f(x), wanted)
    assert f.cache_info().compiles == 1


def test_derivatives_of_selections() -> None:
    x = np.array([1.0, -2.0, 3.0, 0.5])
    cubes = dyn.jit(dyn.grad(lambda x: dnp.sum(x[x > 0] ** 3)))
    np.testing.assert_array_equal(cubes(x), np.where(x > 0, 3 * x**2, 0))
    second = dyn.jit(dyn.hessian(lambda x: dnp.sum(dnp.unique(x, size=3) ** 3)))
    np.testing.assert_array_equal(second(x), np.diag([6.0, -12.0, 0.0, 3.0]))
    _, tangent = dyn.jvp(lambda x: dnp.unique(x, size=3), (x,), (x * 10,))
    np.testing.assert_array_equal(tangent, [-20.0, 5.0, 10.0])


def test_one_kernel_compacts() -> None:
    """The count, and the places: nothing else is launched for few elements."""
    host = optimize(
        dyn.jit(dnp.flatnonzero).trace(dyn.ShapeDtypeStruct(("n",), "bool")).traced,
        parse_target(TARGETS[0]),
        CompilationRecord("flatnonzero"),
    ).host
    always = [v.kernel.note for launch in walk_launches(host.launches) if not launch.when for v in launch.variants[-1:]]
    assert always == ["stitch reduce_convert", "running compact"]
