"""Linear programming in exact integers: which combination of inequalities gives the best lower bound.

By duality (Farkas), what linear inequalities say of a linear form is said by some non-negative combination of them.
The simplex method finds it, on the dual, with fraction-free pivots (Edmonds, *Systems of distinct representatives and
linear algebra*, 1967) and Bland's rule, which does not cycle. Whoever asks adds the combination up again in arithmetic
of his own: what is found here is a hint, and an error in it could lose a proof and never make a false one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dyn.frozen import record
from dyn.shapes.interval import Interval


class Row(NamedTuple):
    """``sum(coefficients[j] * x[j]) + constant >= 0``"""

    coefficients: dict[int, int]
    constant: int


@record()
class Combination:
    """Row ``i`` times ``multipliers[i] / scale``; ``impossible`` where the rows and ranges contradict one another."""

    scale: int
    multipliers: dict[int, int]
    impossible: bool = False


def best_combination(
    objective: Sequence[int], rows: Sequence[Row], ranges: Sequence[Interval], pivots: int
) -> tuple[Combination | None, int]:
    """The multipliers that bound ``sum(objective[j] * x[j])`` from below the best, and how many pivots that took.

    None where nothing bounds it, or where no bound was found within ``pivots``. Where they run out later, or where the
    rows contradict one another, what has been reached is a combination all the same.
    """
    return _Simplex(objective, rows, ranges, pivots).solve()


class _Simplex:
    """Columns: the rows' multipliers, then those of ``x[j] >= lo``, then those of ``x[j] <= hi``, then the right side.

    ``table[j]`` says that the multipliers cancel all of ``x[j]``. All entries have the denominator ``scale``. A basic
    variable of -1 is artificial: what is still lacking, which the first phase brings to 0.
    """

    def __init__(self, objective: Sequence[int], rows: Sequence[Row], ranges: Sequence[Interval], pivots: int) -> None:
        self.count = len(rows)
        self.left = self.pivots = pivots
        self.scale = 1
        self.basis: list[int] = []
        weights = [-row.constant for row in rows]
        low = {j: self.count + i for i, j in enumerate([j for j, r in enumerate(ranges) if r[0] is not None])}
        weights += [lo for lo, _ in ranges if lo is not None]
        high = {j: len(weights) + i for i, j in enumerate([j for j, r in enumerate(ranges) if r[1] is not None])}
        weights += [-hi for _, hi in ranges if hi is not None]
        self.width = len(weights)
        self.table: list[list[int]] = []
        self.gain = [*weights, 0]
        self.lack = [0] * (self.width + 1)
        for j, target in enumerate(objective):
            line = [row.coefficients.get(j, 0) for row in rows] + [0] * (self.width - self.count) + [target]
            if j in low:
                line[low[j]] = 1
            if j in high:
                line[high[j]] = -1
            basic = low.get(j, -1) if target >= 0 else high.get(j, -1)
            if target == 0 and basic < 0:
                basic = high.get(j, -1)
            if target < 0 or (basic >= 0 and line[basic] < 0):
                line = [-entry for entry in line]
            if basic >= 0:
                weight = weights[basic]
                self.gain = [g - weight * entry for g, entry in zip(self.gain, line, strict=True)]
            else:
                self.lack = [a + entry for a, entry in zip(self.lack, line, strict=True)]
            self.basis.append(basic)
            self.table.append(line)

    def solve(self) -> tuple[Combination | None, int]:
        while self.lack[-1] > 0:
            column = self._positive(self.lack)
            if column is None or not self._enter(column):
                return None, self.pivots - self.left
        self._drive_out()
        impossible = False
        while (column := self._positive(self.gain)) is not None:
            if self._leaving(column) is None:
                impossible = True
                break
            if not self._enter(column):
                break
        found = {i: line[-1] for i, line in zip(self.basis, self.table, strict=True) if 0 <= i < self.count}
        used = {i: value for i, value in sorted(found.items()) if value > 0}
        return Combination(self.scale, used, impossible), self.pivots - self.left

    def _positive(self, costs: list[int]) -> int | None:
        for column in range(self.width):
            if costs[column] > 0:
                return column
        return None

    def _drive_out(self) -> None:
        """Artificial variables that are 0 leave, so that they stay 0."""
        for i, basic in enumerate(self.basis):
            if basic < 0:
                line = self.table[i]
                column = next((c for c in range(self.width) if line[c]), None)
                if column is not None:
                    if line[column] < 0:
                        self.table[i] = [-entry for entry in line]
                    self._pivot(i, column)

    def _leaving(self, column: int) -> int | None:
        best: int | None = None
        for i, line in enumerate(self.table):
            if line[column] <= 0:
                continue
            if best is None:
                best = i
                continue
            other = self.table[best]
            difference = line[-1] * other[column] - other[-1] * line[column]
            if difference < 0 or (difference == 0 and self.basis[i] < self.basis[best]):
                best = i
        return best

    def _enter(self, column: int) -> bool:
        self.left -= 1
        row = self._leaving(column)
        if row is None or self.left < 0:
            return False
        self._pivot(row, column)
        return True

    def _pivot(self, row: int, column: int) -> None:
        line = self.table[row]
        p, scale = line[column], self.scale
        for i, other in enumerate(self.table):
            if i != row:
                self.table[i] = _eliminate(other, line, p, other[column], scale)
        self.gain = _eliminate(self.gain, line, p, self.gain[column], scale)
        self.lack = _eliminate(self.lack, line, p, self.lack[column], scale)
        self.scale = p
        self.basis[row] = column


def _eliminate(line: list[int], pivot: list[int], p: int, q: int, scale: int) -> list[int]:
    if q == 0:
        return line if p == scale else [entry * p // scale for entry in line]
    return [(entry * p - q * other) // scale for entry, other in zip(line, pivot, strict=True)]
