"""Special values of the array API standard (2024.12), function by function: operands, then the result.

A result is a number, up to rounding where it is not a whole one, with the sign of a zero; ``ANY_ZERO`` and ``ANY_INF``
leave the sign open, as the standard does, in a part of a complex number. Where it speaks of "a finite number" there are
several.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan, pi

ANY_ZERO = "a zero"
ANY_INF = "an infinity"

_SAME = [(x, x) for x in (nan, inf, -inf, 0.0, -0.0)]
_WHOLE = [*_SAME, (3.0, 3.0), (-7.0, -7.0), (2.0**40, 2.0**40)]


#: Of one real number.
UNARY: dict[str, list[tuple[float, float]]] = {
    "abs": [(nan, nan), (0.0, 0.0), (-0.0, 0.0), (-inf, inf), (inf, inf), (-2.5, 2.5)],
    "acos": [(nan, nan), (1.5, nan), (inf, nan), (-1.5, nan), (-inf, nan), (1.0, 0.0)],
    "acosh": [(nan, nan), (0.5, nan), (-1.0, nan), (-inf, nan), (1.0, 0.0), (inf, inf)],
    "asin": [(nan, nan), (1.5, nan), (inf, nan), (-1.5, nan), (-inf, nan), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "atan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, pi / 2), (-inf, -pi / 2)],
    "atanh": [(nan, nan), (-1.5, nan), (1.5, nan), (-inf, nan), (inf, nan), (-1.0, -inf), (1.0, inf), (0.0, 0.0),
              (-0.0, -0.0)],
    "ceil": [*_WHOLE, (-0.5, -0.0), (0.5, 1.0), (-1.5, -1.0)],
    "cos": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)],
    "expm1": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0)],
    "floor": [*_WHOLE, (-0.5, -1.0), (0.5, 0.0), (-1.5, -2.0)],
    "isfinite": [(nan, False), (inf, False), (-inf, False), (1.0, True), (-0.0, True)],
    "isinf": [(nan, False), (inf, True), (-inf, True), (1.0, False), (-0.0, False)],
    "isnan": [(nan, True), (inf, False), (-inf, False), (1.0, False), (-0.0, False)],
    "log": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log1p": [(nan, nan), (-2.0, nan), (-inf, nan), (-1.0, -inf), (-0.0, -0.0), (0.0, 0.0), (inf, inf)],
    "log2": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf), (8.0, 3.0)],
    "log10": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "negative": [(nan, nan), (0.0, -0.0), (-0.0, 0.0), (inf, -inf), (-inf, inf)],
    "positive": _SAME,
    "reciprocal": [(nan, nan), (inf, 0.0), (-inf, -0.0), (0.0, inf), (-0.0, -inf)],
    "round": [*_WHOLE, (0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-1.5, -2.0),
              (-0.25, -0.0)],
    "sign": [(nan, nan), (-2.5, -1.0), (-inf, -1.0), (0.0, 0.0), (-0.0, 0.0), (2.5, 1.0), (inf, 1.0)],
    "signbit": [(0.0, False), (-0.0, True), (inf, False), (-inf, True), (1.0, False), (-1.0, True), (nan, False)],
    "sin": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "sinh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "sqrt": [(nan, nan), (-1.0, nan), (-inf, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf)],
    "square": [(nan, nan), (0.0, 0.0), (-0.0, 0.0), (inf, inf), (-inf, inf)],
    "tan": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)],
    "tanh": [(nan, nan), (0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "trunc": [*_WHOLE, (-0.5, -0.0), (0.5, 0.0), (-1.5, -1.0)],
}  # fmt: skip

_FINITE = (2.5, 1.0, 1e-30, 1e30)
_NANS = [(nan, 1.0, nan), (1.0, nan, nan), (nan, nan, nan), (nan, inf, nan), (-inf, nan, nan), (nan, 0.0, nan)]
_Cases = list[tuple[float, float, float]]


def _quotients() -> _Cases:
    cases: _Cases = [*_NANS, *((a, b, nan) for a in (inf, -inf) for b in (inf, -inf))]
    cases += [(a, b, nan) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    for y in (2.5, inf):
        cases += [(0.0, y, 0.0), (-0.0, y, -0.0), (0.0, -y, -0.0), (-0.0, -y, 0.0)]
    for x in _FINITE:
        cases += [(x, 0.0, inf), (x, -0.0, -inf), (-x, 0.0, -inf), (-x, -0.0, inf)]
    return cases


def _divide() -> _Cases:
    cases = _quotients()
    for x in _FINITE:
        cases += [(inf, x, inf), (inf, -x, -inf), (-inf, x, -inf), (-inf, -x, inf)]
        cases += [(x, inf, 0.0), (x, -inf, -0.0), (-x, inf, -0.0), (-x, -inf, 0.0)]
    return cases


def _multiply() -> _Cases:
    cases: _Cases = [*_NANS, *((a, b, nan) for a in (inf, -inf) for b in (0.0, -0.0))]
    cases += [(b, a, nan) for a in (inf, -inf) for b in (0.0, -0.0)]
    for a in (inf, 0.0):
        for x in (2.5, a):
            cases += [(a, x, a), (a, -x, -a), (-a, x, -a), (-a, -x, a), (x, a, a), (-x, a, -a), (x, -a, -a)]
    return cases


def _add() -> _Cases:
    cases: _Cases = [*_NANS, (inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, -inf, -inf)]
    for x in _FINITE:
        cases += [(inf, x, inf), (-inf, x, -inf), (x, inf, inf), (x, -inf, -inf)]
        cases += [(0.0, x, x), (-0.0, x, x), (x, 0.0, x), (x, -0.0, x), (x, -x, 0.0)]
    return [*cases, (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (0.0, 0.0, 0.0)]


def _atan2() -> _Cases:
    cases: _Cases = [*_NANS]
    for x in (1e-30, 2.5):
        cases += [(x, 0.0, pi / 2), (x, -0.0, pi / 2), (-x, 0.0, -pi / 2), (-x, -0.0, -pi / 2)]
        cases += [(0.0, x, 0.0), (-0.0, x, -0.0), (0.0, -x, pi), (-0.0, -x, -pi)]
        cases += [(x, inf, 0.0), (-x, inf, -0.0), (x, -inf, pi), (-x, -inf, -pi)]
        cases += [(inf, x, pi / 2), (inf, -x, pi / 2), (-inf, x, -pi / 2), (-inf, -x, -pi / 2)]
    cases += [(0.0, 0.0, 0.0), (0.0, -0.0, pi), (-0.0, 0.0, -0.0), (-0.0, -0.0, -pi)]
    return [*cases, (inf, inf, pi / 4), (inf, -inf, 3 * pi / 4), (-inf, inf, -pi / 4), (-inf, -inf, -3 * pi / 4)]


def _pow() -> _Cases:
    cases: _Cases = [(1.0, y, 1.0) for y in (nan, inf, -inf, 0.0, 2.5)]
    cases += [(x, y, 1.0) for x in (nan, inf, -inf, 0.0, -0.0, 2.5) for y in (0.0, -0.0)]
    cases += [(nan, 2.5, nan), (nan, inf, nan), (2.5, nan, nan), (0.0, nan, nan), (-1.0, inf, 1.0), (-1.0, -inf, 1.0)]
    for x in (2.5, -2.5, inf, -inf):
        cases += [(x, inf, inf), (x, -inf, 0.0)]
    for x in (0.5, -0.5, 0.0, -0.0):
        cases += [(x, inf, 0.0), (x, -inf, inf)]
    cases += [(inf, 2.5, inf), (inf, 1e-3, inf), (inf, -2.5, 0.0)]
    cases += [(-inf, 3.0, -inf), (-inf, 2.0, inf), (-inf, 2.5, inf), (-inf, -3.0, -0.0), (-inf, -2.0, 0.0)]
    cases += [(-inf, -2.5, 0.0), (0.0, 3.0, 0.0), (0.0, 2.5, 0.0), (0.0, -3.0, inf), (0.0, -2.5, inf)]
    cases += [(-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 2.5, 0.0), (-0.0, -3.0, -inf), (-0.0, -2.0, inf)]
    return [*cases, (-0.0, -2.5, inf), (-2.5, 1.5, nan), (-2.5, -0.25, nan)]


def _remainder() -> _Cases:
    cases: _Cases = [*_NANS, *((a, b, nan) for a in (inf, -inf) for b in (inf, -inf, 2.5, -2.5, 0.0, -0.0))]
    cases += [(a, b, nan) for a in (0.0, -0.0, 2.5, -2.5) for b in (0.0, -0.0)]
    for y in (2.5, 1e30):
        cases += [(0.0, y, 0.0), (-0.0, y, 0.0), (0.0, -y, -0.0), (-0.0, -y, -0.0)]
    return [*cases, (2.5, inf, 2.5), (2.5, -inf, -inf), (-2.5, inf, inf), (-2.5, -inf, -2.5)]


def _hypot() -> _Cases:
    cases: _Cases = [(a, b, inf) for a in (inf, -inf) for b in (nan, 0.0, 2.5, -inf)]
    cases += [(b, a, inf) for a in (inf, -inf) for b in (nan, -0.0, 2.5)]
    cases += [(nan, 2.5, nan), (2.5, nan, nan), (nan, nan, nan)]
    return [*cases, *((x, z, abs(x)) for x in (2.5, -2.5, 0.0) for z in (0.0, -0.0)), (-0.0, 2.5, 2.5)]


def _extremes(sign: int) -> _Cases:
    cases: _Cases = [*_NANS]
    for a, b in ((2.5, -2.5), (inf, 1.0), (1.0, -inf), (inf, -inf)):
        high, low = max(a, b), min(a, b)
        cases += [(high, low, high if sign > 0 else low), (low, high, high if sign > 0 else low)]
    return cases


#: Of two real numbers.
#:
#: Quotients that are rounded down where one operand is infinite are not here: the standard leaves libraries the choice
#: between the floor of the quotient and ``//`` that goes with ``%``, and dyn has NumPy's and Python's, the second.
BINARY: dict[str, Sequence[tuple[float, float, float]]] = {
    "add": _add(),
    "subtract": [(a, -b, y) for a, b, y in _add()],
    "multiply": _multiply(),
    "divide": _divide(),
    "floor_divide": [(a, b, y) for a, b, y in _quotients() if inf not in (abs(a), abs(b)) or y != y],
    "remainder": _remainder(),
    "pow": _pow(),
    "atan2": _atan2(),
    "hypot": _hypot(),
    "maximum": _extremes(1),
    "minimum": _extremes(-1),
    "logaddexp": [(nan, 1.0, nan), (1.0, nan, nan), (nan, nan, nan), (inf, 1.0, inf), (1.0, inf, inf), (inf, inf, inf)],
    "copysign": [(x, s, v if s > 0 or str(s) == "0.0" else -v) for x, v in ((2.5, 2.5), (-2.5, 2.5), (inf, inf),
                 (0.0, 0.0), (-0.0, 0.0)) for s in (1.0, -1.0, 0.0, -0.0, inf, -inf)] + [(nan, 1.0, nan)],
    "nextafter": [(nan, 1.0, nan), (1.0, nan, nan), (-0.0, 0.0, 0.0), (0.0, -0.0, -0.0), (inf, inf, inf)],
    "equal": [(a, b, False) for a, b, _ in _NANS] + [(0.0, -0.0, True), (-0.0, 0.0, True), (inf, inf, True),
              (-inf, -inf, True), (inf, -inf, False)],
    "not_equal": [(a, b, True) for a, b, _ in _NANS] + [(0.0, -0.0, False), (inf, inf, False), (inf, -inf, True)],
    "less": [(a, b, False) for a, b, _ in _NANS] + [(-0.0, 0.0, False), (-inf, inf, True), (inf, inf, False)],
    "less_equal": [(a, b, False) for a, b, _ in _NANS] + [(0.0, -0.0, True), (-inf, inf, True), (inf, inf, True)],
    "greater": [(a, b, False) for a, b, _ in _NANS] + [(0.0, -0.0, False), (inf, -inf, True), (inf, inf, False)],
    "greater_equal": [(a, b, False) for a, b, _ in _NANS] + [(-0.0, 0.0, True), (inf, -inf, True), (-inf, -inf, True)],
    "logical_and": [(nan, 1.0, True), (-0.0, 1.0, False), (inf, nan, True)],
    "logical_or": [(nan, 0.0, True), (-0.0, 0.0, False), (0.0, -inf, True)],
    "logical_xor": [(nan, 0.0, True), (-0.0, 0.0, False), (nan, inf, False)],
}  # fmt: skip

_Part = float | str
_Complex = list[tuple[_Part, _Part, _Part, _Part]]
#: What stands for "a positive finite number" in the tables of complex functions: small ones too, and such that an
#: exponential of them overflows.
MAGNITUDES = (2.5, 1.0, 1e-30, 11.0, 30.0, 1e3, 1e30)
F, NEGATIVE_F = "a positive finite number", "a negative finite number"


def opposite(part: _Part) -> _Part:
    """The part of the opposite number."""
    if isinstance(part, str):
        return {F: NEGATIVE_F, NEGATIVE_F: F}.get(part, part)
    return -part


def _log(zero: float) -> _Complex:
    cases: _Complex = [(zero, 0.0, -inf, 0.0), (inf, inf, inf, pi / 4), (-inf, inf, inf, 3 * pi / 4)]
    cases += [(a, inf, inf, pi / 2) for a in (0.0, -0.0)] + [(a, nan, nan, nan) for a in (0.0, -0.0)]
    cases += [(nan, 0.0, nan, nan)]
    cases += [(F, inf, inf, pi / 2), (NEGATIVE_F, inf, inf, pi / 2), (F, nan, nan, nan), (NEGATIVE_F, nan, nan, nan)]
    cases += [(-inf, F, inf, pi), (inf, F, inf, 0.0), (nan, F, nan, nan)]
    return [*cases, (inf, nan, inf, nan), (-inf, nan, inf, nan), (nan, inf, inf, nan), (nan, nan, nan, nan)]


#: Of one complex number: its parts, and those of the result. Each holds for the conjugates too, and where the function
#: is odd or even for the opposite number.
COMPLEX: dict[str, _Complex] = {
    "acos": [
        (0.0, 0.0, pi / 2, -0.0), (-0.0, 0.0, pi / 2, -0.0), (0.0, nan, pi / 2, nan), (-0.0, nan, pi / 2, nan),
        (F, inf, pi / 2, -inf), (NEGATIVE_F, inf, pi / 2, -inf), (F, nan, nan, nan), (-inf, F, pi, -inf),
        (inf, F, 0.0, -inf), (-inf, inf, 3 * pi / 4, -inf), (inf, inf, pi / 4, -inf), (inf, nan, nan, ANY_INF),
        (-inf, nan, nan, ANY_INF), (nan, F, nan, nan), (nan, inf, nan, -inf), (nan, nan, nan, nan),
        (0.0, inf, pi / 2, -inf), (-0.0, inf, pi / 2, -inf), (NEGATIVE_F, nan, nan, nan), (nan, 0.0, nan, nan),
    ],
    "acosh": [
        (0.0, 0.0, 0.0, pi / 2), (-0.0, 0.0, 0.0, pi / 2), (F, inf, inf, pi / 2), (NEGATIVE_F, inf, inf, pi / 2),
        (0.0, nan, nan, pi / 2), (F, nan, nan, nan), (-inf, F, inf, pi), (inf, F, inf, 0.0),
        (-inf, inf, inf, 3 * pi / 4), (inf, inf, inf, pi / 4), (inf, nan, inf, nan), (-inf, nan, inf, nan),
        (nan, F, nan, nan), (nan, inf, inf, nan), (nan, nan, nan, nan),
        (0.0, inf, inf, pi / 2), (NEGATIVE_F, nan, nan, nan), (nan, 0.0, nan, nan),
    ],
    "asinh": [
        (0.0, 0.0, 0.0, 0.0), (F, inf, inf, pi / 2), (F, nan, nan, nan), (inf, F, inf, 0.0),
        (inf, inf, inf, pi / 4), (inf, nan, inf, nan), (nan, 0.0, nan, 0.0), (nan, F, nan, nan),
        (nan, inf, ANY_INF, nan), (nan, nan, nan, nan),
        (0.0, inf, inf, pi / 2), (0.0, nan, nan, nan),
    ],
    "atanh": [
        (0.0, 0.0, 0.0, 0.0), (0.0, nan, 0.0, nan), (1.0, 0.0, inf, 0.0), (F, inf, 0.0, pi / 2),
        (F, nan, nan, nan), (inf, F, 0.0, pi / 2), (inf, inf, 0.0, pi / 2), (inf, nan, 0.0, nan),
        (nan, F, nan, nan), (nan, inf, ANY_ZERO, pi / 2), (nan, nan, nan, nan),
        (0.0, inf, 0.0, pi / 2), (nan, 0.0, nan, nan),
    ],
    "cosh": [
        (0.0, 0.0, 1.0, 0.0), (0.0, inf, nan, ANY_ZERO), (0.0, nan, nan, ANY_ZERO), (F, inf, nan, nan),
        (F, nan, nan, nan), (inf, 0.0, inf, 0.0), (inf, 2.5, -inf, inf), (inf, 1.0, inf, inf),
        (inf, inf, ANY_INF, nan), (inf, nan, inf, nan), (nan, 0.0, nan, ANY_ZERO), (nan, F, nan, nan),
        (nan, inf, nan, nan), (nan, nan, nan, nan),
    ],
    "sinh": [
        (0.0, 0.0, 0.0, 0.0), (0.0, inf, ANY_ZERO, nan), (0.0, nan, ANY_ZERO, nan), (F, inf, nan, nan),
        (F, nan, nan, nan), (inf, 0.0, inf, 0.0), (inf, 2.5, -inf, inf), (inf, 1.0, inf, inf),
        (inf, inf, ANY_INF, nan), (inf, nan, ANY_INF, nan), (nan, 0.0, nan, 0.0), (nan, F, nan, nan),
        (nan, inf, nan, nan), (nan, nan, nan, nan),
    ],
    "tanh": [
        (0.0, 0.0, 0.0, 0.0), (F, inf, nan, nan), (0.0, inf, 0.0, nan), (F, nan, nan, nan), (0.0, nan, 0.0, nan),
        (inf, F, 1.0, ANY_ZERO), (inf, inf, 1.0, ANY_ZERO), (inf, nan, 1.0, ANY_ZERO), (nan, 0.0, nan, 0.0),
        (nan, F, nan, nan), (nan, inf, nan, nan), (nan, nan, nan, nan),
    ],
    "exp": [
        (0.0, 0.0, 1.0, 0.0), (-0.0, 0.0, 1.0, 0.0), (F, inf, nan, nan), (F, nan, nan, nan), (inf, 0.0, inf, 0.0),
        (-inf, 2.5, -0.0, 0.0), (-inf, 1.0, 0.0, 0.0), (inf, 2.5, -inf, inf), (-inf, inf, ANY_ZERO, ANY_ZERO),
        (inf, inf, ANY_INF, nan), (-inf, nan, ANY_ZERO, ANY_ZERO), (inf, nan, ANY_INF, nan), (nan, 0.0, nan, 0.0),
        (nan, F, nan, nan), (nan, nan, nan, nan),
        (0.0, inf, nan, nan), (-0.0, inf, nan, nan), (NEGATIVE_F, inf, nan, nan), (0.0, nan, nan, nan),
        (NEGATIVE_F, nan, nan, nan), (-inf, 0.0, 0.0, 0.0), (nan, inf, nan, nan),
    ],
    "expm1": [
        (0.0, 0.0, 0.0, 0.0), (-0.0, 0.0, ANY_ZERO, 0.0), (F, inf, nan, nan), (F, nan, nan, nan),
        (inf, 0.0, inf, 0.0), (-inf, 2.5, -1.0, 0.0), (inf, 2.5, -inf, inf), (-inf, inf, -1.0, ANY_ZERO),
        (inf, inf, ANY_INF, nan), (-inf, nan, -1.0, ANY_ZERO), (inf, nan, ANY_INF, nan), (nan, 0.0, nan, 0.0),
        (nan, F, nan, nan), (nan, nan, nan, nan),
        (0.0, inf, nan, nan), (-0.0, inf, nan, nan), (NEGATIVE_F, inf, nan, nan), (0.0, nan, nan, nan),
        (NEGATIVE_F, nan, nan, nan), (-inf, 0.0, -1.0, 0.0), (nan, inf, nan, nan),
    ],
    "log": [(-0.0, 0.0, -inf, pi), *_log(0.0)],
    "sign": [
        (0.0, 0.0, 0.0, 0.0), (-0.0, 0.0, 0.0, 0.0), (nan, 0.0, nan, nan), (0.0, nan, nan, nan), (nan, F, nan, nan),
        (F, nan, nan, nan), (nan, nan, nan, nan),  # of an infinite part and NaN: NumPy's, the direction of the infinity
    ],
    "round": [
        (0.0, 0.0, 0.0, 0.0), (-0.0, 0.0, -0.0, 0.0), (inf, nan, inf, nan), (nan, inf, nan, inf),
        (-inf, 0.5, -inf, 0.0),
        (1.5, 2.5, 2.0, 2.0), (-0.5, 7.0, -0.0, 7.0), (nan, nan, nan, nan),
    ],
    "log1p": _log(-1.0),
    "sqrt": [
        (0.0, 0.0, 0.0, 0.0), (-0.0, 0.0, 0.0, 0.0), (F, inf, inf, inf), (nan, inf, inf, inf), (inf, inf, inf, inf),
        (-inf, inf, inf, inf), (F, nan, nan, nan), (-inf, F, 0.0, inf), (inf, F, inf, 0.0),
        (-inf, nan, nan, ANY_INF), (inf, nan, inf, nan), (nan, F, nan, nan), (nan, nan, nan, nan),
        (0.0, inf, inf, inf), (NEGATIVE_F, inf, inf, inf), (0.0, nan, nan, nan), (NEGATIVE_F, nan, nan, nan),
        (nan, 0.0, nan, nan),
    ],
}  # fmt: skip

#: Functions that are another one of a number that is turned: ``sin(z)`` is ``-i * sinh(i * z)``, ``cos(z)`` is
#: ``cosh(i * z)``; and whether the result is turned back.
_TURNED = {
    "sin": ("sinh", True), "cos": ("cosh", False), "tan": ("tanh", True), "asin": ("asinh", True),
    "atan": ("atanh", True),
}  # fmt: skip

#: Functions of the conjugate, of which all are the conjugate, and of the opposite number.
ODD, EVEN = ("asinh", "atanh", "sinh", "tanh"), ("cosh",)


def _symmetric(name: str) -> _Complex:
    """A function's cases, with those of conjugates and of opposite numbers."""
    cases = list(COMPLEX[name])
    if name in ODD:
        cases += [(opposite(a), b, opposite(u), v) for a, b, u, v in cases]
    elif name in EVEN:
        cases += [(opposite(a), b, u, opposite(v)) for a, b, u, v in cases]
    conjugate = [(a, opposite(b), u, v if name == "sign" else opposite(v)) for a, b, u, v in cases]
    return cases + conjugate


def complex_cases(name: str) -> list[tuple[float, float, _Part, _Part]]:
    """All cases of a function of complex numbers, with numbers for operands."""
    source, back = _TURNED.get(name, (name, False))
    cases = _symmetric(source)
    if name in _TURNED:
        cases = [(b, opposite(a), *((v, opposite(u)) if back else (u, v))) for a, b, u, v in cases]
    found: list[tuple[float, float, _Part, _Part]] = []
    for a, b, u, v in cases:
        for size in MAGNITUDES if isinstance(a, str) or isinstance(b, str) else (1.0,):
            x, y = (part if not isinstance(part, str) else size if part == F else -size for part in (a, b))
            found.append((x, y, u, v))
    return found


#: The functions of complex numbers.
COMPLEX_NAMES = (*COMPLEX, *_TURNED)

#: Real functions of one complex number.
OF_PARTS: dict[str, list[tuple[float, float, float]]] = {
    "abs": [
        *[(a, b, inf) for a in (inf, -inf) for b in (nan, 0.0, 2.5, -inf)],
        *[(a, b, inf) for b in (inf, -inf) for a in (nan, -0.0, -2.5)],
        *[(z, b, abs(b)) for z in (0.0, -0.0) for b in (2.5, -1e30, 0.0)],
        *[(a, z, abs(a)) for z in (0.0, -0.0) for a in (2.5, -1e30, -0.0)],
        (nan, 2.5, nan), (nan, 0.0, nan), (2.5, nan, nan), (-0.0, nan, nan), (nan, nan, nan),
    ],
    "isnan": [(nan, 0.0, True), (0.0, nan, True), (nan, inf, True), (inf, nan, True), (nan, nan, True),
              (inf, -inf, False), (0.0, 2.5, False)],
    "isinf": [(inf, nan, True), (nan, -inf, True), (inf, 0.0, True), (2.5, -inf, True), (nan, 2.5, False),
              (nan, nan, False), (2.5, -0.0, False)],
    "isfinite": [(2.5, -0.0, True), (nan, 0.0, False), (0.0, inf, False), (inf, nan, False), (nan, nan, False)],
}  # fmt: skip
