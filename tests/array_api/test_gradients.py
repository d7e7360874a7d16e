"""Derivatives of elementwise functions, by differences: at negative numbers and zeros, where parts of formulas join."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

_LINE = (-3.0, -0.7, -0.0, 0.0, 1e-12, 0.3, 1.0, 2.6, 20.0)
_INSIDE = (-0.9, -0.3, -0.0, 0.0, 0.4, 0.8)
_ABOVE = (1e-300, 1e-12, 0.3, 0.70710678, 1.0, 2.0, 3.7, 1e200)

#: Where a function of one number is tested, and its derivative.
UNARY: dict[str, tuple[tuple[float, ...], Callable[[float], float]]] = {
    "acos": (_INSIDE, lambda x: -1 / math.sqrt(1 - x * x)),
    "acosh": ((1.2, 2.5, 1e9, 1e12), lambda x: 1 / math.sqrt((x - 1) * (x + 1))),
    "asin": (_INSIDE, lambda x: 1 / math.sqrt(1 - x * x)),
    "asinh": ((*_LINE, 1e12, -1e12), lambda x: 1 / math.hypot(1, x)),
    "atan": (_LINE, lambda x: 1 / (1 + x * x)),
    "atanh": (_INSIDE, lambda x: 1 / (1 - x * x)),
    "cos": (_LINE, lambda x: -math.sin(x)),
    "cosh": ((*_LINE, -709.0, 709.0), math.sinh),
    "exp": (_LINE, math.exp),
    "expm1": (_LINE, math.exp),
    "log": (_ABOVE, lambda x: 1 / x),
    "log1p": ((-0.5, -0.0, 0.0, 0.4, 7.0), lambda x: 1 / (1 + x)),
    "log2": (_ABOVE, lambda x: 1 / x / math.log(2)),
    "log10": (_ABOVE, lambda x: 1 / x / math.log(10)),
    "negative": (_LINE, lambda x: -1.0),
    "reciprocal": ((-3.0, 0.5, 2.0), lambda x: -1 / (x * x)),
    "sin": (_LINE, math.cos),
    "sinh": ((*_LINE, -709.0, 709.0), math.cosh),
    "sqrt": (_ABOVE, lambda x: 0.5 / math.sqrt(x)),
    "square": (_LINE, lambda x: 2 * x),
    "tan": ((-1.2, -0.0, 0.0, 0.7), lambda x: 1 + math.tan(x) ** 2),
    "tanh": (_LINE, lambda x: 1 - math.tanh(x) ** 2),
}

#: The derivatives by both operands.
BINARY: dict[str, tuple[tuple[tuple[float, float], ...], Callable[[float, float], tuple[float, float]]]] = {
    "atan2": (
        ((1.0, 2.0), (-1.0, 2.0), (0.5, -2.0), (-2.0, -0.5)),
        lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
    ),
    "copysign": (
        ((2.0, 1.0), (2.0, -1.0), (-2.0, 1.0), (-2.0, -1.0), (2.0, -0.0)),
        lambda x, s: (math.copysign(1, x) * math.copysign(1, s), 0.0),
    ),
    "hypot": (
        ((3.0, 4.0), (-3.0, 4.0), (1e200, 1e-5), (2.0, 2.0), (0.0, 1.0)),
        lambda x, y: (x / math.hypot(x, y), y / math.hypot(x, y)),
    ),
    "logaddexp": (
        ((1.0, 2.0), (2.0, 1.0), (1.5, 1.5), (-800.0, 3.0)),
        lambda x, y: (1 / (1 + math.exp(min(y - x, 700))), 1 / (1 + math.exp(min(x - y, 700)))),
    ),
    "divide": (((1.0, 2.0), (-3.0, 0.5)), lambda x, y: (1 / y, -x / (y * y))),
    "pow": (((2.0, 3.0), (0.5, -1.5)), lambda x, y: (y * x ** (y - 1), x**y * math.log(x))),
}


@pytest.mark.parametrize("name", UNARY)
def test_of_one_number(name: str) -> None:
    points, derivative = UNARY[name]

    def total(x: Any) -> Any:
        return dnp.sum(getattr(dnp, name)(x))

    x = np.array(points)
    np.testing.assert_allclose(dyn.jit(dyn.grad(total))(x), [derivative(v) for v in points], rtol=1e-11, atol=1e-13)
    _, tangent = dyn.jvp(total, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(tangent, sum(derivative(v) for v in points), rtol=1e-11)


@pytest.mark.parametrize("name", BINARY)
def test_of_two_numbers(name: str) -> None:
    points, derivatives = BINARY[name]
    x, y = (np.array(part) for part in zip(*points, strict=True))
    found = dyn.jit(dyn.grad(lambda x, y: dnp.sum(getattr(dnp, name)(x, y)), argnums=(0, 1)))(x, y)
    for own, wanted in zip(found, zip(*[derivatives(*p) for p in points], strict=True), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-11, atol=1e-13)
