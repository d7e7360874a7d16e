"""Concatenations as kernels: a loop for each piece, which is copied to where it belongs, or computed there.

The result is ``outer`` rows, each the rows of all pieces one after the other. A kernel copies the rows of one piece to
where they belong: rows of ``length`` elements, ``stride`` apart, from ``offset`` on. These three, and the size of
the result, are parameters of the kernel and no expressions over what it knows, which have a term for each piece before
it. So pieces that lie in memory have one kernel, and a result of n pieces takes time and text in proportion to n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dyn.ir.core import Value
from dyn.ir.opdef import Pieces
from dyn.schedule.axes import Axis, axis, index_of, linearize
from dyn.schedule.elements import ElementReader
from dyn.schedule.kernel import Buffer, Stmt
from dyn.schedule.launch import Launch, Variant
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Stage, Write
from dyn.schedule.nests import loop, present
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel, launch_nest
from dyn.shapes import Dim, Symbol, as_dim, product, substitute
from dyn.shapes import symbol as new_symbol
from dyn.stitch.groups import Group, Plan

#: Forms of a nest beside the general one, given its loops and their schedule.
Forms = Callable[[Loops, Schedule], Sequence[SpecializedKernel]]


def join_launches(
    plan: Plan, group: Group, copied: Schedule, computed: Schedule, forms: Forms, copied_forms: Forms
) -> tuple[Launch, ...]:
    """The launches of a group: one for each piece that has elements, and at least one.

    ``forms`` are those of computed pieces.
    """
    return _Join(plan, group, copied, computed, forms, copied_forms).launches()


class _Join:
    def __init__(
        self, plan: Plan, group: Group, copied: Schedule, computed: Schedule, forms: Forms, copied_forms: Forms
    ) -> None:
        self.plan, self.group, self.members = plan, group, group.members()
        self.of_copied, self.of_computed = (copied, copied_forms), (computed, forms)
        (self.op,) = (op for op in group.ops if isinstance(op.opdef.loops, Pieces))
        self.axis: int = self.op.attrs["dimension"]
        #: What a piece's place and size are called in kernels.
        self.outer, self.length, self.stride, self.offset, self.whole = (
            new_symbol(name, "of a piece") for name in ("outer", "length", "stride", "offset", "whole")
        )
        #: The kernels of pieces that are copied from where they lie: with one row, and with more.
        self.copies: dict[bool, tuple[Variant, ...]] = {}

    def launches(self) -> tuple[Launch, ...]:
        made: list[Launch] = []
        shape, place = self.op.result.shape, self.axis
        outer, inner = product(shape[:place]), product(shape[place + 1 :])
        stride = shape[place] * inner
        same = {self.outer: outer, self.stride: stride, self.whole: outer * stride}
        offset: Dim = 0
        for piece in self.op.operands:
            length = piece.shape[place] * inner
            if length != 0:
                made.append(self.launch(piece, {**same, self.length: length, self.offset: offset}))
            offset = offset + length
        if not made:  # a result without elements is made somewhere all the same
            made.append(self.launch(self.op.operands[-1], {**same, self.length: 0, self.offset: offset}))
        return tuple(made)

    def launch(self, piece: Value, sizes: dict[Symbol, Dim]) -> Launch:
        one_row = sizes[self.outer] == 1
        stored = ElementReader(self.plan, self.group).storage(piece)
        if piece in self.members:
            made = self.nest(self.computed(piece), self.of_computed)
            buffers, variants = made.buffers, made.variants
        elif stored is None:
            made = self.nest(self.computed(piece), self.of_copied)
            buffers, variants = made.buffers, made.variants
        else:
            known = self.copies.get(one_row)
            if known is None:
                known = self.copies[one_row] = self.nest(self.copied(piece, one_row=one_row), self.of_copied).variants
            buffers, variants = (stored, self.op.result), known
        return Launch(self.group, buffers, self.chosen([_bound(variant, sizes) for variant in variants]))

    def nest(self, loops: Loops, scheduled: tuple[Schedule, Forms]) -> Launch:
        """The launch of a piece."""
        schedule, forms = scheduled
        return launch_nest(loops, schedule, forms(loops, schedule), f"{self.group.kind.value} {self.group.name}")

    def chosen(self, variants: Sequence[Variant]) -> tuple[Variant, ...]:
        """The variants that a piece of some size may want, of which the last one is for all that are left."""
        found: list[Variant] = []
        for variant in variants:
            decided = True if variant.condition is None else variant.condition.decided(self.plan.function.facts)
            if decided:
                return (*found, replace(variant, condition=None, deferred=False))
            if decided is None:
                found.append(variant)
        return tuple(found)

    def computed(self, piece: Value) -> Loops:
        """The loops of a piece that is computed where it is needed."""
        axes = [loop(f"i{n}", d) for n, d in enumerate(piece.shape)]
        index = index_of(axes)
        row = linearize(index[: self.axis], piece.shape[: self.axis])
        place = self.place(row, linearize(index[self.axis :], piece.shape[self.axis :]))

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return elements.stores(buffer, place, piece, index)

        return self.loops(present(axes), statements)

    def copied(self, piece: Value, *, one_row: bool) -> Loops:
        """The loops of a piece that lies in memory, over the symbols of this class in place of its sizes."""
        rows, columns = axis("o", as_dim(self.outer)), axis("i", as_dim(self.length))
        row, column = 0 if one_row else as_dim(rows.var), as_dim(columns.var)
        offset = row * as_dim(self.length) + column

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return elements.copies(buffer, self.place(row, column), piece, offset)

        return self.loops((columns,) if one_row else (rows, columns), statements)

    def loops(self, axes: tuple[Axis, ...], statements: Callable[[ElementReader, Buffer], tuple[Stmt, ...]]) -> Loops:
        stage = Stage(writes=(Write(self.op.result, statements, as_dim(self.whole)),))
        return Loops(Nest(self.plan, self.group, axes, (stage,)))

    def place(self, row: Dim, column: Dim) -> Dim:
        """Place in the result of an element of a row of a piece."""
        return row * as_dim(self.stride) + as_dim(self.offset) + column


def _bound(variant: Variant, sizes: dict[Symbol, Dim]) -> Variant:
    """A variant whose place and sizes of a piece are these."""
    dims = tuple([substitute(dim, sizes) for dim in variant.dims])
    condition = variant.condition
    if condition is not None:
        condition = replace(condition, dim=substitute(condition.dim, sizes))
    grid, cost = (substitute(dim, sizes) for dim in (variant.grid, variant.cost))
    return replace(variant, dims=dims, grid=grid, cost=cost, condition=condition)
