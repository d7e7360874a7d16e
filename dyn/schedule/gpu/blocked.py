"""Contractions of GPU kernels as loops around packs and multiplications.

::

    clear accumulators                                  # in registers, a smaller tile for each thread
    for a slice of the contracted axis
        pack the left operand's slice                   # to shared memory, while slices before it are multiplied
        pack the right operand's slice
        multiply: accumulators += left * right
    for a part of the rows at a time
        spill accumulators                              # to shared memory
        the epilogue, lanes along the columns

The epilogue is one loop, with one copy of its code however heavy it is, and stores whole lines of memory. It costs an
access of shared memory for each result, where multiplying takes a quarter of one for each product.

Slices and what is spilled are in one array: the second takes the place of the first, and a barrier stands between them
as between any two accesses of it.

A result is the sum of its products in the order of the contracted axis, each added in one rounding; with parts it is
the sum of as many of these, in their order.
"""

from __future__ import annotations

import re

from dyn.frozen import record
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import Rewriter
from dyn.schedule.gpu.contractions import ThreadBlocking, tile_blocking
from dyn.schedule.gpu.operands import can_be_copied, lies_along_steps, sum_dtype
from dyn.schedule.gpu.slices import SliceLayout
from dyn.schedule.kernel import (
    Algorithm,
    Apply,
    Buffer,
    Clear,
    Digits,
    Expr,
    Interval,
    Kernel,
    Let,
    Load,
    Loop,
    Multiply,
    Pack,
    Role,
    Space,
    Spill,
    StagedSlices,
    TileContract,
)
from dyn.schedule.statements import Stmts, for_each, replace_contractions, when
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, floordiv, mod, symbol

#: NVIDIA's architectures from this number on copy to shared memory by themselves (PTX ISA, "cp.async").
_COPIES_SINCE = 80


def copies_by_itself(target: Target) -> bool:
    """Return True if the devices of a target copy to shared memory while their threads do something else."""
    number = re.search(r"\d+", target.arch)
    return target.family == "cuda" and number is not None and int(number[0]) >= _COPIES_SINCE


def blocked(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with loops around packs and multiplications in place of its contractions."""

    def made(tile: TileContract) -> tuple[Stmts, tuple[Buffer, ...]]:
        form = _StagedContraction(tile, target)
        return form.loops(), (form.slices, form.acc)

    return replace_contractions(kernel, made)


class _StagedContraction:
    """One contraction of a block of threads."""

    def __init__(self, tile: TileContract, target: Target) -> None:
        self.tile = tile
        self.of = of = tile_blocking(tile, target.warp)
        self.dtype = sum_dtype(tile.acc.dtype)
        self.height = of.rows_at_once(self.dtype.itemsize)
        copies = copies_by_itself(target)
        lhs, rhs = [_in_words(expr) for expr in tile.factors()]
        self.left = _StagedOperand.of(lhs, tile, tile.row, of, 0, copies=copies)
        self.right = _StagedOperand.of(rhs, tile, tile.col, of, self.left.size, copies=copies)
        spilled = of.parts * self.height * of.columns
        size = max(self.left.size + self.right.size, spilled)
        self.slices = Buffer("slices", self.dtype, Space.SCRATCH, size)
        self.acc = Buffer("acc", self.dtype, Space.REGISTERS, of.parts * of.rows * of.columns)

    def loops(self) -> Stmts:
        tile, of = self.tile, self.of
        first = symbol("slice", "a loop of a schedule")
        loop = Loop(Role.SERIAL, first, tile.red_extent, self._slice(as_dim(first)), step=of.depth)
        return (Clear(self.acc), loop, *for_each(of.rows // self.height, self._epilogue, "rows"))

    def _slice(self, first: Dim) -> Stmts:
        """The packs and the multiplication of a slice, by its first step."""
        tile, of = self.tile, self.of
        rows, cols = Interval(tile.row, 0, tile.row_extent), Interval(tile.col, 0, tile.col_extent)
        red = Interval(tile.red, first, dim_min(of.depth, tile.red_extent - first))
        packs = (self.left.pack(self.slices, rows, red), self.right.pack(self.slices, cols, red))
        lhs, rhs = self.left.load(self.slices, rows, red), self.right.load(self.slices, cols, red)
        multiply = Multiply(
            self.acc, 0, of.columns, rows, cols, red, lhs, rhs, tile.tile, Algorithm.CORES, first=0, parts=of.parts
        )
        return (*packs, multiply)

    def _epilogue(self, group: Dim) -> Stmts:
        """The epilogue of a part of the rows, and the spill in front of it."""
        tile, of, height = self.tile, self.of, self.height
        start, results = group * height, height * of.columns
        spill = Spill(self.slices, 0, self.acc, start, height, of.columns, of.parts)
        result = symbol("result", "a loop of a schedule")
        own = as_dim(result)
        total: Expr = Load(self.slices, own)
        for part in range(1, of.parts):
            total = Apply(Scalar.ADD, (total, Load(self.slices, own + part * results)), self.dtype)
        if self.dtype is not tile.acc.dtype:
            total = Apply(Scalar.CAST, (total,), tile.acc.dtype)
        rewriter = Rewriter(lambda dim: dim)
        rewriter.exprs[id(tile.acc)] = total
        places = Let(tile.row, start + floordiv(own, of.columns)), Let(tile.col, mod(own, of.columns))
        inner = when(_is_below(tile.col, tile.col_extent), rewriter.block(tile.epilogue))
        body = (*places, *when(_is_below(tile.row, tile.row_extent), inner))
        return (spill, Loop(Role.LANE, result, results, body))


@record(eq=False)
class _StagedOperand:
    """An operand on its way through shared memory, in slices that begin at a ``place``: ``own`` is the axis that it
    does not share with the other one."""

    value: Expr
    digits: tuple[Digits, ...]
    layout: SliceLayout
    slots: int
    place: int
    copied: bool

    @staticmethod
    def of(
        value: Expr, tile: TileContract, own: Symbol, of: ThreadBlocking, place: int, *, copies: bool
    ) -> _StagedOperand:
        """An operand of a contraction, of a device that ``copies`` by itself or not."""
        word = value.dtype.itemsize
        left = own is tile.row
        most, side_by_side = (of.rows, of.rows_together(word)) if left else (of.columns, of.columns_together(word))
        copied = copies and can_be_copied(value, own, tile.red, tile.digits)
        along_steps = copied and lies_along_steps(value, own, tile.red, tile.digits)
        layout = SliceLayout(most, of.depth, word, side_by_side, along_steps)
        return _StagedOperand(value, tile.digits, layout, of.stages if copied else 2, place, copied)

    @property
    def size(self) -> int:
        """Words of all slots."""
        return self.slots * self.layout.size

    def pack(self, to: Buffer, own: Interval, red: Interval) -> Pack:
        layout = self.layout
        outer, inner, full = red, own, (layout.depth, layout.most)
        if layout.along_steps:
            outer, inner, full = own, red, (layout.most, layout.depth)
        staged = StagedSlices(*full, self.slots, layout.size, layout.side_by_side, layout.pad, self.copied)
        return Pack(to, self.place, layout.stride, outer, inner, self.value, digits=self.digits, staged=staged)

    def load(self, buffer: Buffer, own: Interval, red: Interval) -> Load:
        """An element of the iteration's slice."""
        place = self.layout.place(as_dim(own.var) - own.start, as_dim(red.var) - red.start)
        return Load(buffer, self.place + place)


def _in_words(expr: Expr) -> Expr:
    word = sum_dtype(expr.dtype)
    return expr if expr.dtype is word else Apply(Scalar.CAST, (expr,), word)


def _is_below(var: Symbol, extent: Dim) -> Dim:
    return dim_min(dim_max(extent - as_dim(var), 0), 1)
