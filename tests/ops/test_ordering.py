"""Stable sorting from NumPy's sort, which is not: against Python's, with few and many elements, equal and odd ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dyn.ops.sorting.stable_sort import sort_into, stable_order
from tests.orderings import DTYPES, KINDS, bits, numbers, ordered, without_payloads

SIZES = (0, 1, 2, 7, 64, 700)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_one_lane(dtype: str, descending: bool) -> None:
    for kind in KINDS:
        for size in SIZES:
            x = numbers(dtype, size, kind)
            before, wanted = x.tobytes(), ordered([x], descending)
            out = np.empty_like(x)
            sort_into(out, x, 0, descending)
            assert bits(without_payloads(out)) == bits(without_payloads(x[wanted])), (kind, size)
            assert stable_order([x], 0, descending).tolist() == wanted, (kind, size)
            assert x.tobytes() == before


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 5), (4, 33), (300, 3)])
def test_lanes_of_either_axis(dtype: str, shape: tuple[int, int]) -> None:
    x = numbers(dtype, math.prod(shape), "few").reshape(shape)
    for axis in (0, 1):
        for descending in (False, True):
            out = np.empty_like(x)
            sort_into(out, x, axis, descending)
            order = stable_order([x], axis, descending)
            for lane in range(shape[1 - axis]):
                whole, sorted_, places = (np.take(a, lane, 1 - axis) for a in (x, out, order))
                wanted = ordered([whole], descending)
                assert places.tolist() == wanted
                assert bits(without_payloads(sorted_)) == bits(without_payloads(whole[wanted]))


@pytest.mark.parametrize("descending", [False, True])
def test_several_keys(descending: bool) -> None:
    for size in SIZES:
        keys = [numbers("uint8", size, "few") % 3, numbers("float64", size, "few"), numbers("int64", size, "few")]
        assert stable_order(keys, 0, descending).tolist() == ordered(keys, descending), size


def test_in_its_own_place() -> None:
    x = numbers("float32", 700, "few")
    wanted = x[ordered([x], True)]
    sort_into(x, x, 0, True)
    assert bits(without_payloads(x)) == bits(without_payloads(wanted))


def test_numbers_of_64_bits_that_differ_in_either_half() -> None:
    rng = np.random.default_rng(0)
    halves = rng.choice(np.array([-(1 << 31), -1, 0, 1, (1 << 31) - 1], np.int64), (2, 2000))
    x = (halves[0] << 32) + halves[1]
    for values in (x, x.view(np.uint64), x.view(np.float64)):
        for descending in (False, True):
            assert stable_order([values], 0, descending).tolist() == ordered([values], descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1,), (300,), (1, 100), (3, 300), (2, 3000)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_zeros_keep_their_signs_on_every_processor(dtype: str, shape: tuple[int, ...], descending: bool) -> None:
    """NumPy's vectorised sort loses some where there is AVX2 and no AVX-512."""
    for seed in range(10):
        x = np.random.default_rng(seed).choice(np.array([0.0, -0.0, 1.0, -1.0, np.inf], dtype), shape)
        made = np.empty_like(x)
        sort_into(made, x, -1, descending)
        wanted = np.take_along_axis(x, stable_order([x], x.ndim - 1, descending), -1)
        assert made.tobytes() == wanted.tobytes()
