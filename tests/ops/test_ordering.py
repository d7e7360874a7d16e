"""Stable sorting from NumPy's sort, which is not: against Python's, with few and many elements, equal and odd ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.ops.ordering import sort_into, stable_order

Array = np.ndarray[Any, Any]
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
          "float32", "float64")  # fmt: skip
SIZES = (0, 1, 2, 7, 64, 700)
KINDS = ("few", "many", "in order", "backwards", "equal")


def numbers(dtype: str, size: int, kind: str) -> Array:
    """A vector: of few different numbers or many, zeros of both signs, NaN of both, inf and the ends of integers."""
    element = dtypes.dtype(dtype)
    rng = np.random.default_rng([size, KINDS.index(kind)])
    if element.kind.name == "BOOL":
        made = rng.random(size) < 0.5
    elif element.is_integer:
        info = np.iinfo(element.np)
        made = rng.integers(info.min, info.max, size, element.np, endpoint=True)
        if kind == "few":
            made = rng.choice(np.array([info.min, info.max, 3, 1, 0], element.np), size)
    else:
        made = rng.normal(0, 3, size)
        odd = rng.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-6], size)
        made = np.where(rng.random(size) < (0.8 if kind == "few" else 0.1), odd, made).astype(element.np)
    if kind == "in order":
        made = made[ordered([made], False)]
    elif kind == "backwards":
        made = made[ordered([made], True)]
    elif kind == "equal" and size:
        made[:] = made[0]
    return np.ascontiguousarray(made)


def ordered(keys: list[Array], descending: bool) -> list[int]:
    """Python's order of vectors: NaN is more than inf, and all are alike."""
    sign = -1 if descending else 1

    def key(place: int) -> list[Any]:
        found = [k[place].item() for k in keys]
        return [(sign * math.isnan(x), 0.0 if math.isnan(x) else sign * x) for x in found]

    return sorted(range(len(keys[0])), key=key)


def bits(x: Array) -> bytes:
    """The elements to the sign of a zero; of NaN it says that it is one."""
    return x.astype(np.float64).tobytes() if x.dtype.kind not in "biu" else x.tobytes()


def without_payloads(x: Array) -> Array:
    return np.where(np.isnan(x), np.full_like(x, np.nan), x) if x.dtype.kind not in "biu" else x


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
