"""Quotients of sizes before anything is rounded: what other libraries hold as floats, and what divisions leave."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dyn.shapes import Dim, floordiv, mod


@dataclass(frozen=True, slots=True)
class Ratio:
    """``dividend / divisor``, exactly. The divisor is at least 1, in every call."""

    dividend: Dim
    divisor: Dim = 1

    @staticmethod
    def of(number: float | Fraction) -> Ratio | None:
        """A number; None for an infinity or NaN."""
        if isinstance(number, float) and not math.isfinite(number):
            return None
        fraction = Fraction(number)
        return Ratio(fraction.numerator, fraction.denominator)

    def __add__(self, other: Ratio) -> Ratio:
        return Ratio(self.dividend * other.divisor + other.dividend * self.divisor, self.divisor * other.divisor)

    def __neg__(self) -> Ratio:
        return Ratio(-self.dividend, self.divisor)

    def __sub__(self, other: Ratio) -> Ratio:
        return self + -other

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.dividend * other.dividend, self.divisor * other.divisor)

    def over(self, other: Ratio) -> Ratio | None:
        """The quotient by a positive number; None by anything else."""
        if not isinstance(other.dividend, int) or other.dividend <= 0:
            return None
        return self * Ratio(other.divisor, other.dividend)

    def across(self, other: Ratio) -> tuple[Dim, Dim]:
        """Two dims that compare as these do."""
        return self.dividend * other.divisor, other.dividend * self.divisor

    def floor(self) -> Dim:
        """Rounded down."""
        return floordiv(self.dividend, self.divisor)

    def ceil(self) -> Dim:
        """Rounded up."""
        return -floordiv(-self.dividend, self.divisor)

    def rest(self) -> Dim:
        """The rest of the division, by the quotient that is rounded down."""
        return mod(self.dividend, self.divisor)
