"""Sort keys of a comparator, where they can be read off it.

The comparators that programs have in practice compare one expression of an element with the same one of another, and
of equal ones the next. Such a comparator is a sequence of keys: arrays that a library sorts by at once. What is found
here follows from the comparator's ops; any other comparator is called for each comparison.
"""

from __future__ import annotations

from dyn.frozen import record
from dyn.ir.core import Op, Region, Value, attrs_key


@record()
class Key:
    """Elements are ordered by ``value``, which the comparator makes of the elements on its left alone."""

    value: Value
    descending: bool


def keys_of(comparator: Region) -> tuple[Key, ...] | None:
    """The keys that a comparator orders by, the most significant one first; None where that is not plain.

    Its parameters are those of StableHLO's sort: the elements of the first operand on the left and on the right, then
    those of the second one. Its comparisons are taken for orders: what it says of NaN, which is none, does not matter.
    """
    return _ComparatorReader(comparator).keys(comparator.results[0])


class _ComparatorReader:
    def __init__(self, region: Region) -> None:
        self.makers: dict[Value, Op] = {result: op for op in region.ops for result in op.results}
        #: Which operand a parameter is an element of, and whether that is the element on the left.
        self.sides: dict[Value, tuple[int, bool]] = {p: (i // 2, i % 2 == 0) for i, p in enumerate(region.params)}
        self._left: dict[Value, bool] = {}
        self._alike: dict[tuple[Value, Value, bool], bool] = {}

    def keys(self, value: Value) -> tuple[Key, ...] | None:
        """Keys that ``value`` orders by: a comparison, or a key and, of what is equal in it, the rest."""
        op = self.makers.get(value)
        if op is None:
            return None
        if op.opdef.name == "compare" and op.attrs["direction"] in ("LT", "GT"):
            turned, left = self.pair(op)
            return None if left is None else (Key(left, (op.attrs["direction"] == "GT") is not turned),)
        if op.opdef.name == "or":
            first, other = op.operands
            return self.first_or_both(first, other) or self.first_or_both(other, first)
        return self.chosen(op) if op.opdef.name == "select" else None

    def first_or_both(self, first: Value, both: Value) -> tuple[Key, ...] | None:
        """``first(l, r) | (l == r & rest(l, r))``, where what is equal is the key of ``first``."""
        op = self.makers.get(both)
        if op is None or op.opdef.name != "and":
            return None
        a, b = op.operands
        return self.joined(first, a, "EQ", b) or self.joined(first, b, "EQ", a)

    def chosen(self, op: Op) -> tuple[Key, ...] | None:
        """``l == r ? rest : first``, and ``l != r ? first : rest``."""
        test, on_true, on_false = op.operands
        return self.joined(on_false, test, "EQ", on_true) or self.joined(on_true, test, "NE", on_false)

    def joined(self, first: Value, test: Value, direction: str, rest: Value) -> tuple[Key, ...] | None:
        op, before = self.makers.get(test), self.keys(first)
        if op is None or op.opdef.name != "compare" or op.attrs["direction"] != direction:
            return None
        if before is None or len(before) != 1:
            return None
        _, left = self.pair(op)
        after = self.keys(rest)
        if left is None or after is None or not self.alike(left, before[0].value, same_side=True):
            return None
        return (*before, *after)

    def pair(self, compare: Op) -> tuple[bool, Value | None]:
        """Of a comparison of one expression of both elements: whether the right one comes first, and the left one's."""
        a, b = compare.operands
        if self.of_left(a) and self.alike(a, b, same_side=False):
            return False, a
        if self.of_left(b) and self.alike(b, a, same_side=False):
            return True, b
        return False, None

    def of_left(self, value: Value) -> bool:
        """Whether a value depends on elements on the left, and on none on the right."""
        if value in self.sides:
            return self.sides[value][1]
        if value not in self._left:
            self._left[value] = all(self.of_left(v) for v in self.makers[value].operands)
        return self._left[value]

    def alike(self, a: Value, b: Value, *, same_side: bool) -> bool:
        """Whether two values are the same expression: of the same elements, or each of those on its side."""
        key = (a, b, same_side)
        if key not in self._alike:
            self._alike[key] = self._same(a, b, same_side)
        return self._alike[key]

    def _same(self, a: Value, b: Value, same_side: bool) -> bool:
        if a in self.sides or b in self.sides:
            one, other = self.sides.get(a), self.sides.get(b)
            return one is not None and other is not None and (one == other if same_side else _mirrored(one, other))
        p, q = self.makers[a], self.makers[b]
        return (
            p.opdef is q.opdef
            and attrs_key(p.attrs) == attrs_key(q.attrs)
            and len(p.operands) == len(q.operands)
            and all(self.alike(x, y, same_side=same_side) for x, y in zip(p.operands, q.operands, strict=True))
        )


def _mirrored(one: tuple[int, bool], other: tuple[int, bool]) -> bool:
    """Whether two parameters are the elements of one operand on both sides."""
    return one[0] == other[0] and one[1] is not other[1]
