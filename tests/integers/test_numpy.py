"""``dyn.numpy`` and ``dyn.lax`` on integers at all edges: of arguments, of arrays that are closed over, eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import integers, lax
from dyn.dtypes import DType
from tests.integers.edges import INTEGERS, Array, assert_equal, integer_type, pairs, wanted

_NAMES = ("floor_divide", "remainder", "fmod")
_LAX: dict[str, Callable[..., Any]] = {
    "divide": lax.div, "remainder": lax.rem, "shift_left": lax.shift_left, "negate": lax.neg, "abs": lax.abs,
    "shift_right_logical": lax.shift_right_logical, "shift_right_arithmetic": lax.shift_right_arithmetic,
}  # fmt: skip


def _expected(name: str, dtype: DType, a: Array, b: Array) -> Array:
    t = integer_type(dtype)
    return np.array([integers.NUMPY[name](t, x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], dtype.np)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numpy(dtype: DType) -> None:
    a, b = pairs(dtype)

    def of_all(x: Any, y: Any) -> list[Any]:
        return [getattr(dnp, name)(x, y) for name in _NAMES]

    expected = [_expected(name, dtype, a, b) for name in _NAMES]
    with np.errstate(all="ignore"):
        for name, want in zip(_NAMES, expected, strict=True):
            assert_equal(getattr(np, name)(a, b), want, a, b)
    closed, flipped = dyn.jit(lambda x: of_all(x, b)), dyn.jit(lambda y: of_all(a, y))
    for got in (dyn.jit(of_all)(a, b), of_all(a, b), closed(a), flipped(b)):
        for one, want in zip(got, expected, strict=True):
            assert_equal(np.asarray(one), want, a, b)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_numbers(dtype: DType) -> None:
    """Divisors that are known while tracing: 0 too."""
    a, _ = pairs(dtype)
    t = integer_type(dtype)
    numbers = [n for n in (0, 1, 2, 3, 7, -1, -3, t.most, t.least) if t.least <= n <= t.most]
    got = dyn.jit(lambda x: [(x // n, x % n) for n in numbers])(a)
    for n, (quotient, rest) in zip(numbers, got, strict=True):
        b = np.full_like(a, n)
        assert_equal(quotient, _expected("floor_divide", dtype, a, b), a, b)
        assert_equal(rest, _expected("remainder", dtype, a, b), a, b)


def test_a_constant_divisor_asks_nothing() -> None:
    text = dyn.jit(lambda x: x // 2).lower(np.arange(3)).as_text()
    assert "select" not in text


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_lax(dtype: DType) -> None:
    a, b = pairs(dtype)
    names = [name for name in _LAX if name != "abs" or integer_type(dtype).signed]
    operands = [(a, b) if name in integers.BINARY else (a,) for name in names]
    got = dyn.jit(lambda x, y: [_LAX[name](*(x, y)[: len(o)]) for name, o in zip(names, operands, strict=True)])(a, b)
    for name, values, one in zip(names, operands, got, strict=True):
        assert_equal(one, wanted(name, dtype, *values), *values)
        assert_equal(np.asarray(_LAX[name](*values)), wanted(name, dtype, *values), *values)
