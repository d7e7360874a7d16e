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
    plan: Plan, group: Group, copied: Schedule, computed: Schedule, forms: Forms = lambda loops, schedule: ()
) -> tuple[Launch, ...]:
    """The launches of a group: one for each piece that has elements. ``forms`` are those of computed pieces."""
    return _Join(plan, group, copied, computed, forms).launches()


class _Join:
    def __init__(self, plan: Plan, group: Group, copied: Schedule, computed: Schedule, forms: Forms) -> None:
        self.plan, self.group, self.schedule = plan, group, copied
        self.of_computed, self.forms, self.members = computed, forms, group.members()
        (self.op,) = (op for op in group.ops if isinstance(op.opdef.loops, Pieces))
        self.axis: int = self.op.attrs["dimension"]
        #: What a piece's place and size are called in kernels.
        self.outer, self.length, self.stride, self.offset, self.whole = (
            new_symbol(name, "of a piece") for name in ("outer", "length", "stride", "offset", "whole")
        )
        #: The kernel of pieces that are copied from where they lie: with one row, and with more.
        self.copies: dict[bool, Variant] = {}

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
        return tuple(made)

    def launch(self, piece: Value, sizes: dict[Symbol, Dim]) -> Launch:
        one_row = sizes[self.outer] == 1
        stored = ElementReader(self.plan, self.group).storage(piece)
        if piece in self.members:
            loops = self.computed(piece)
            made = launch_nest(loops, self.of_computed, self.forms(loops, self.of_computed), self.note)
            buffers, variants = made.buffers, made.variants
        elif stored is None:
            loops = self.computed(piece)
            buffers, variants = (*loops.code.elements.inputs, self.op.result), (self.variant(loops),)
        else:
            known = self.copies.get(one_row)
            variant = self.copies[one_row] = known or self.variant(self.copied(piece, one_row=one_row))
            buffers, variants = (stored, self.op.result), (variant,)
        return Launch(self.group, buffers, tuple([_bound(variant, sizes) for variant in variants]))

    @property
    def note(self) -> str:
        return f"{self.group.kind.value} {self.group.name}"

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

    def variant(self, loops: Loops) -> Variant:
        """The kernel of a piece."""
        self.schedule(loops)
        return loops.variant(self.note)

    def place(self, row: Dim, column: Dim) -> Dim:
        """Place in the result of an element of a row of a piece."""
        return row * as_dim(self.stride) + as_dim(self.offset) + column


def _bound(variant: Variant, sizes: dict[Symbol, Dim]) -> Variant:
    """A variant whose place and sizes of a piece are these."""
    dims = tuple([substitute(dim, sizes) for dim in variant.dims])
    return replace(variant, dims=dims, grid=substitute(variant.grid, sizes), cost=substitute(variant.cost, sizes))
