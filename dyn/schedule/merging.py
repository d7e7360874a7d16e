"""Merges of sorted runs as kernel code, in which every element of the result is found by itself.

Of the first ``d`` elements of a merge some come from the left run. How many is found by bisection: an element of the
left run belongs to them unless the element of the right run that would take its place goes before it. The lanes of a
block so find what follows their own number of elements, without waiting for one another (O. Green, R. McColl and D. A.
Bader, "GPU merge path", 2012). What goes before neither way is taken from the left first: a sort by such merges is
stable, whatever the comparison is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.kernel import Buffer, Carry, Expr, Loop, Ref, Role
from dyn.shapes import Dim
from dyn.shapes import symbol as new_symbol

#: Whether an element, given by all of its values, goes before another one.
Before = Callable[[ExprBuilder, Sequence[Expr], Sequence[Expr]], Expr]


@record(eq=False)
class Integers:
    """Arithmetic of one integer dtype."""

    k: ExprBuilder
    dtype: DType

    def of(self, value: Expr | Dim) -> Expr:
        """A number, a dim or a value of another dtype as a value."""
        if isinstance(value, Dim):
            return self.k.index(self.dtype, value)
        return self.k.cast(value, self.dtype)

    def __call__(self, fn: Scalar, *args: Expr | Dim) -> Expr:
        return self.k.apply(fn, [self.of(arg) for arg in args], self.dtype)

    def less(self, a: Expr | Dim, b: Expr | Dim) -> Expr:
        return self.k.apply(Scalar.LT, [self.of(a), self.of(b)], dtypes.bool_)

    def select(self, predicate: Expr, a: Expr | Dim, b: Expr | Dim) -> Expr:
        return self.k.apply(Scalar.SELECT, [predicate, self.of(a), self.of(b)], self.dtype)


@record(eq=False)
class Elements:
    """Elements of several values each, side by side in as many buffers from ``offset`` on."""

    buffers: tuple[Buffer, ...]
    offset: Dim

    def at(self, k: ExprBuilder, place: Expr, mask: Expr | None = None) -> list[Expr]:
        """All values of the element at a place; zeros where ``mask`` is false."""
        index = self.offset + k.bind(k.cast(place, dtypes.int64))
        return [k.load(b, index, mask, None if mask is None else k.const(b.dtype, 0)) for b in self.buffers]


@record(eq=False)
class Merge:
    """Two runs of ``elements`` about to be merged: where they begin, and their lengths, in integers ``i``. The first
    ``keys`` values of each are compared."""

    i: Integers
    before: Before
    keys: int
    elements: Elements
    left: Expr
    right: Expr
    left_length: Expr
    right_length: Expr

    def search(self, counts: Sequence[Expr], steps: Dim) -> tuple[Loop, tuple[Ref, ...]]:
        """A loop that finds how many elements of the left run are among the first ones of the merge, for several
        ``counts`` of those at once. With so many ``steps`` a run has less than 2**steps elements."""
        i = self.i
        carries: list[Carry] = []
        found: list[Ref] = []
        for count in counts:
            low, high = Ref("low", i.dtype), Ref("high", i.dtype)
            least = i(Scalar.MAX, i(Scalar.SUB, count, self.right_length), 0)
            some, taken, others = self._halved(count, low, high)
            carries.append(Carry(Ref("taken", i.dtype), low, least, i.select(taken, i(Scalar.ADD, some, 1), low)))
            most = i(Scalar.MIN, count, self.left_length)
            carries.append(Carry(Ref("most", i.dtype), high, most, i.select(others, some, high)))
            found.append(carries[-2].ref)
        loop = Loop(Role.SERIAL, new_symbol("b", "a loop variable"), steps, carries=tuple(carries))
        return loop, tuple(found)

    def _halved(self, count: Expr, low: Expr, high: Expr) -> tuple[Expr, Expr, Expr]:
        """A number between two; whether the element of the left run with that number is taken, and whether not."""
        i, k = self.i, self.i.k
        open_ = i.less(low, high)
        middle = i(Scalar.SHRL, i(Scalar.ADD, low, high), 1)
        opposite = i(Scalar.SUB, i(Scalar.SUB, count, middle), 1)
        after = self._is_after(i(Scalar.ADD, self.left, middle), i(Scalar.ADD, self.right, opposite), open_)
        return middle, k.both(open_, k.apply(Scalar.NOT, [after], dtypes.bool_)), k.both(open_, after)

    def source(self, count: Expr, taken: Expr) -> tuple[Loop, Ref]:
        """The place of the element that follows the first ``count`` ones, of which ``taken`` are of the left run: known
        after a loop of one iteration, whatever is stored then."""
        i, k = self.i, self.i.k
        others = i(Scalar.SUB, count, taken)
        on_left, on_right = i.less(taken, self.left_length), i.less(others, self.right_length)
        both = k.both(on_left, on_right)
        left, right = i(Scalar.ADD, self.left, taken), i(Scalar.ADD, self.right, others)
        after = self._is_after(left, right, both)
        first = k.both(on_left, k.apply(Scalar.NOT, [k.both(both, after)], dtypes.bool_))
        ref, state = Ref("source", i.dtype), Ref("state", i.dtype)
        carry = Carry(ref, state, k.const(i.dtype, 0), i.select(first, left, right))
        return Loop(Role.SERIAL, new_symbol("o", "a loop variable"), 1, carries=(carry,)), ref

    def _is_after(self, left: Expr, right: Expr, mask: Expr) -> Expr:
        """Whether the element at a place of the left run comes after one of the right run, where ``mask`` is true."""
        a, b = (self.elements.at(self.i.k, place, mask)[: self.keys] for place in (left, right))
        return self.before(self.i.k, b, a)
