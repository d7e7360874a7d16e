"""Derivatives and batching of scatters, by how updates are combined with what is there.

Each update's place is read back by a gather (``Points``); updates that lie outside move nothing.
"""

from __future__ import annotations

import dataclasses

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import Points, scatter_numbers
from dyn.ops.indexing.slice_rules import spread_all, with_examples
from dyn.ops.regions import monoid_of
from dyn.ops.transform_rules import again, linear
from dyn.shapes import Dim, product

Flags = tuple[bool, ...]


class _Shares:
    """Partial derivatives of a scatter's result by what was there (``kept``) and by each update (``moved``)."""

    def __init__(self, b: Builder, op: Op) -> None:
        combine = op.attrs["combine"]
        if combine not in ("maximum", "minimum", "multiply"):
            raise UnsupportedOpError(
                f"scatter: updates that are combined with {combine} have no derivative here; those with add, replace, "
                "multiply, maximum and minimum have.",
                loc=op.loc,
                remedy="write the update as one of those, or give the function a derivative of its own.",
            )
        self.b, self.op, self.a = b, op, Arithmetic(b)
        self.x, *_, self.updates = op.operands
        self.points = Points.of(b, op)
        self.kept, self.moved = (self._product if combine == "multiply" else self._extreme)()

    def put(self, x: Value, updates: Value, combine: str) -> Value:
        """A scatter to the same places."""
        starts = self.op.operands[1:-1]
        return again(self.b, self.op, (x, *starts, updates), combine=combine)[0]

    def take(self, x: Value) -> Value:
        return self.points.take(self.b, x)

    def _extreme(self) -> tuple[Value, Value]:
        """Equal extremes share, as in JAX's scatter_max."""
        a, y = self.a, self.op.result
        kept = a.where(a.cmp(self.x, "EQ", y), a.fill(self.x, 1), 0)
        chosen = a.where(a.cmp(self.updates, "EQ", self.take(y)), a.fill(self.updates, 1), 0)
        count = self.put(kept, self.points.where_inside(self.b, chosen), "add")
        count = a.f("maximum", count, a.fill(count, 1))
        moved = a.div(chosen, a.f("maximum", self.take(count), a.fill(chosen, 1)))
        return a.div(kept, count), self.points.where_inside(self.b, moved)

    def _product(self) -> tuple[Value, Value]:
        """The product of the others in the same place: that of all but zeros, if there are no zeros, or is one own.

        With one update in a place the other factor is what was there, and nothing is divided.
        """
        a, x, u = self.a, self.x, self.updates
        none, ones = a.fill(x, 0), a.fill(u, 1)
        zero = a.cmp(u, "EQ", 0)
        others = a.where(zero, ones, u)
        count = self.take(self.put(none, ones, "add"))
        zeros_there = self.take(self.put(none, a.where(zero, ones, 0), "add"))
        whole = self.take(self.put(x, others, "multiply"))
        own = a.where(zero, ones, a.fill(u, 0))
        several = a.where(a.cmp(zeros_there, "EQ", own), a.div(whole, others), 0)
        moved = a.where(a.cmp(count, "EQ", 1), self.take(x), several)
        return self.put(a.fill(x, 1), u, "multiply"), self.points.where_inside(self.b, moved)


def _named(op: Op) -> Op:
    """A scatter without its body, where that is a known way to combine, or takes the update; else itself."""
    if op.attrs["combine"] != "body":
        return op
    (body,) = op.regions
    known = ("replace",) if body.results[0] is body.params[1] else monoid_of(body)
    return op if known is None else dataclasses.replace(op, attrs={**op.attrs, "combine": known[0]}, regions=())


def scatter_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value | None, ...]:
    """Cotangents of a scatter: of sums all have it; of replacements those that are in the result; else in shares."""
    op = _named(op)
    (ct,), (_, *starts, updates) = cts, op.operands
    nothing = (None,) * len(starts)
    if op.attrs["combine"] == "add":
        return ct, *nothing, Points.of(b, op).take(b, ct)
    if op.attrs["combine"] == "replace":
        (around,) = again(b, op, (ct, *starts, zeros(b, updates.type)))
        return around, *nothing, _won(b, op, ct)
    shares, a = _Shares(b, op), Arithmetic(b)
    return a.mul(ct, shares.kept), *nothing, a.mul(shares.take(ct), shares.moved)


def _won(b: Builder, op: Op, ct: Value) -> Value:
    """The cotangents of updates, for those that are the last in their place: numbers are scattered, and read back."""
    x, *starts, updates = op.operands
    a, points, shape = Arithmetic(b), Points.of(b, op), updates.shape
    flat = b.op("iota", shape=(product(shape),), dimension=0, dtype=dtypes.int64)
    numbers = b.op("reshape", flat, shape=shape)
    nobody = a.fill(zeros(b, TensorType(dtypes.int64, x.shape)), -1)
    (last,) = again(b, op, (nobody, *starts, numbers))
    return a.where(a.cmp(points.take(b, last), "EQ", numbers), points.take(b, ct), 0)


def scatter_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """Sums and replacements do the same to tangents; else shares of them are added up."""
    op = _named(op)
    if op.attrs["combine"] in ("add", "replace"):
        return tuple(linear(0, len(op.operands) - 1)(b, op, tangents))
    x, *_, updates = op.operands
    tx, tu = tangents[0], tangents[-1]
    if tx is None and tu is None:
        return (None,)
    shares, a = _Shares(b, op), Arithmetic(b)
    kept = a.fill(x, 0) if tx is None else a.mul(tx, shares.kept)
    moved = a.fill(updates, 0) if tu is None else a.mul(tu, shares.moved)
    return (shares.put(kept, moved, "add"),)


def scatter_batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: Flags, size: Dim) -> tuple[Value, ...]:
    """Examples are one more window axis; one more batching axis where they have places of their own."""
    x, *starts, updates = operands
    own = any(batched[1:-1])
    windows = with_examples(Windows.of_scatter(op.attrs, len(op.operands[0].shape)), array=True, starts=own)
    x, updates = (v if flag else spread(b, v, size) for v, flag in ((x, batched[0]), (updates, batched[-1])))
    if own:
        starts = spread_all(b, operands[1:-1], batched[1:-1], size)
    return again(b, op, (x, *starts, updates), **scatter_numbers(windows, op.attrs["combine"]))
