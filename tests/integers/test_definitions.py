"""The definitions themselves: laws that they keep, and Python's and NumPy's own results where these are defined."""

from __future__ import annotations

import numpy as np
import pytest

from dyn import integers
from dyn.dtypes import DType
from dyn.integers import INT64, IntegerType, converted, divide, remainder, sized
from dyn.shapes import OpaqueKind
from dyn.shapes.joins import broadcast_sizes
from tests.integers.edges import INTEGERS, SCALARS, assert_equal, edges, integer_type, pairs, wanted


def test_every_op_has_a_scalar_function() -> None:
    assert set(SCALARS.values()) == integers.BINARY.keys() | integers.UNARY.keys()
    assert {kind.value for kind in OpaqueKind} < integers.SIZES.keys()
    assert integers.INDICES.keys() == integers.SIZES.keys()


@pytest.mark.parametrize("bits", [3, 8])
@pytest.mark.parametrize("signed", [True, False])
def test_quotient_and_remainder(bits: int, signed: bool) -> None:
    """Of all pairs: ``q*y + r`` is ``x`` again, ``r`` is less than ``y`` and has the sign of ``x``."""
    t = IntegerType(bits, signed)
    for x in range(t.least, t.most + 1):
        for y in range(t.least, t.most + 1):
            q, r = divide(t, x, y), remainder(t, x, y)
            assert t.least <= q <= t.most
            assert t.least <= r <= t.most
            assert t.wrap(q * y + r) == x
            if y:
                assert abs(r) < abs(y)
                assert r == 0 or (r < 0) == (x < 0)
                assert q == int(x / y) or (x, y) == (t.least, -1)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numpy_agrees_where_c_defines_it(dtype: DType) -> None:
    a, b = pairs(dtype)
    t = integer_type(dtype)
    plain = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
             "minimum": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
    with np.errstate(all="ignore"):
        for name, function in plain.items():
            assert_equal(function(a, b), wanted(name, dtype, a, b), a, b)
        nothing = b == 0
        by = np.where(nothing, 1, b).astype(dtype.np)
        for name, function in (("floor_divide", np.floor_divide), ("remainder", np.remainder), ("fmod", np.fmod)):
            expected = [integers.NUMPY[name](t, x, y) for x, y in zip(a.tolist(), by.tolist(), strict=True)]
            assert_equal(function(a, by), np.array(expected, dtype.np), a, by)
            expected = [integers.NUMPY[name](t, x, 0) for x in a.tolist()]
            assert_equal(function(a, np.zeros_like(a)), np.array(expected, dtype.np), a)


def test_conversions() -> None:
    byte = IntegerType(8, True)
    floats = (1.9, -1.9, 127.5, 128.0, -128.9, -129.0, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
    assert [converted(byte, v) for v in floats] == [1, -1, 127, 127, -128, -128, 127, -128, 127, -128, 0]
    assert [converted(byte, v) for v in (127, 128, 255, 256, -129)] == [127, -128, -1, 0, 127]


def test_sizes() -> None:
    assert [sized(v) for v in (-(2**63), 0, 2**63 - 1)] == [-(2**63), 0, 2**63 - 1]
    for value in (2**63, -(2**63) - 1, INT64.least // -1):
        with pytest.raises(OverflowError, match=f"{value} passes 64 bits"):
            sized(value)
    for name in ("floordiv", "mod"):
        with pytest.raises(ZeroDivisionError):
            integers.SIZES[name](3, 0)
    for a, b in ((1, 5), (5, 1), (1, 0), (0, 1), (3, 3), (0, 0)):
        assert integers.SIZES["broadcast"](a, b) == broadcast_sizes(a, b)


def test_edges_are_of_the_type() -> None:
    for dtype in INTEGERS:
        info = np.iinfo(dtype.np)
        assert {int(info.min), int(info.min) + 1, 0, 1, int(info.max)} <= set(edges(dtype))
