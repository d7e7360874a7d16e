"""Words that every account of a compilation uses."""

from __future__ import annotations

#: What is added to the axes that a kernel reduces where it reduces the others as well.
COLUMNS = ", columns beside"


def pluralized(count: int, what: str) -> str:
    """``1 compile``, ``2 compiles``"""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def amount(number: int, unit: str = "") -> str:
    """``3.1 MB`` of 3_141_592 and ``"B"``: a number by powers of 1000."""
    for prefix, factor in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= factor:
            return f"{_digits(number / factor)} {prefix}{unit}"
    return f"{number} {unit}".rstrip()


def duration(seconds: float) -> str:
    """``41 µs``: a time that nobody knows exactly."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            return f"{_digits(seconds / factor)} {unit}"
    return f"{_digits(1e9 * seconds)} ns"


def _digits(number: float) -> str:
    """A number from 1 on, with two digits or more."""
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}"
