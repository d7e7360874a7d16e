"""Arithmetic of integer intervals ``(lo, hi)``, inclusive, where None is infinity."""

from __future__ import annotations

import math

Interval = tuple[int | None, int | None]
ANY: Interval = (None, None)


def plus(a: Interval, b: Interval) -> Interval:
    lo = None if a[0] is None or b[0] is None else a[0] + b[0]
    hi = None if a[1] is None or b[1] is None else a[1] + b[1]
    return lo, hi


def scale(a: Interval, k: int) -> Interval:
    """``a`` times a number that is not 0."""
    lo = None if a[0] is None else a[0] * k
    hi = None if a[1] is None else a[1] * k
    return (lo, hi) if k > 0 else (hi, lo)


def times(a: Interval, b: Interval) -> Interval:
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:  # sizes
        if a[1] == 0 or b[1] == 0:
            return 0, 0
        return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]
    corners = [_corner(x, y) for x in _ends(a) for y in _ends(b)]
    lo, hi = min(corners), max(corners)
    return lo if isinstance(lo, int) else None, hi if isinstance(hi, int) else None


def power(a: Interval, n: int) -> Interval:
    """``a**n`` for ``n >= 1``."""
    result = a
    for _ in range(n - 1):
        result = times(result, a)
    return meet(result, (0, None)) if n % 2 == 0 else result


def meet(a: Interval, b: Interval) -> Interval:
    """Intersection of two intervals."""
    return highest(a[0], b[0]), lowest(a[1], b[1])


def hull(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both."""
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lo, hi


def highest(*los: int | None) -> int | None:
    """The best of some lower bounds."""
    known = [lo for lo in los if lo is not None]
    return max(known) if known else None


def lowest(*his: int | None) -> int | None:
    """The best of some upper bounds."""
    known = [hi for hi in his if hi is not None]
    return min(known) if known else None


def quotient(a: Interval, b: Interval) -> Interval:
    """Interval of ``floordiv(a, b)``. Where ``b >= 0`` it is taken as at least 1: the quotient has no value for 0."""
    if b[0] is None or b[0] < 0:
        return ANY
    small, large = max(b[0], 1), b[1]
    lo, hi = a
    if lo is not None:
        lo = lo // small if lo < 0 else (lo // large if large else 0)
    if hi is not None:
        hi = hi // small if hi >= 0 else (hi // large if large else -1)
    return lo, hi


def remainder(a: Interval, b: Interval) -> Interval:
    """Interval of ``mod(a, b)``, with ``b`` as in :func:`quotient`."""
    if b[0] is None or b[0] < 0:
        return ANY
    hi = None if b[1] is None else max(b[1], 1) - 1
    return 0, lowest(hi, a[1]) if a[0] is not None and a[0] >= 0 else hi


def _ends(a: Interval) -> tuple[int | float, int | float]:
    return -math.inf if a[0] is None else a[0], math.inf if a[1] is None else a[1]


def _corner(x: int | float, y: int | float) -> int | float:
    if x == 0 or y == 0:
        return 0
    if isinstance(x, float) or isinstance(y, float):  # integers may be too large for a float: only signs are looked at
        return math.inf if (x > 0) == (y > 0) else -math.inf
    return x * y
