"""JOIN groups as kernels: a loop for each of many arrays that are concatenated.

The result is ``outer`` rows, each the rows of all pieces one after the other. A kernel copies the rows of one piece to
where they belong: rows of ``length`` elements, ``stride`` apart, from ``offset`` on. These three are parameters of the
kernel and no expressions over what it knows, which have a term for each piece before it. So pieces that lie in memory
have one kernel, and a result of n pieces takes time and text in proportion to n.
"""

from __future__ import annotations

from dataclasses import replace

from dyn.ir.core import Value
from dyn.ops.complex_parts import part_dtype
from dyn.schedule.axes import Axis, axis, collapse, index_of, linearize, nest, split
from dyn.schedule.elements import Elements
from dyn.schedule.expressions import stmt_dims
from dyn.schedule.families import loop_schedule
from dyn.schedule.kernel import Buffer, Role, Stmt
from dyn.schedule.launch import Launch, Variant, bind_kernel
from dyn.schedule.loops import substituted
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, as_dim, product, substitute
from dyn.shapes import symbol as new_symbol
from dyn.stitch.groups import Group, Plan


def lower_join(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a group: one for each piece that has elements."""
    return _Join(plan, group, target).launches()


class _Join:
    def __init__(self, plan: Plan, group: Group, target: Target) -> None:
        self.plan, self.group, self.target = plan, group, target
        (self.op,) = group.ops
        self.axis: int = self.op.attrs["dimension"]
        #: What a piece's place and size are called in kernels.
        self.outer, self.length, self.stride, self.offset = (
            new_symbol(name, "of a piece") for name in ("outer", "length", "stride", "offset")
        )
        #: The kernel of pieces that are copied from where they lie: with one row, and with more.
        self.copies: dict[bool, Variant] = {}

    def launches(self) -> tuple[Launch, ...]:
        made: list[Launch] = []
        shape, place = self.op.result.shape, self.axis
        outer, inner = product(shape[:place]), product(shape[place + 1 :])
        stride = shape[place] * inner
        start: Dim = 0
        for piece in self.op.operands:
            end = start + piece.shape[place]
            length = piece.shape[place] * inner
            if length != 0:
                sizes = {self.outer: outer, self.length: length, self.stride: stride, self.offset: start * inner}
                made.append(self.launch(piece, sizes))
            start = end
        return tuple(made)

    def launch(self, piece: Value, sizes: dict[Symbol, Dim]) -> Launch:
        elements = Elements(self.plan, self.group)
        stored = elements.storage(piece)
        one_row = sizes[self.outer] == 1
        if stored is None:
            variant = self.variant(elements, piece, one_row=one_row)
            inputs = tuple(elements.inputs)
        else:
            inputs = (stored,)
            known = self.copies.get(one_row)
            variant = self.copies[one_row] = known or self.variant(elements, piece, one_row=one_row)
        dims = tuple([substitute(dim, sizes) for dim in variant.dims])
        bound = replace(variant, dims=dims, grid=substitute(variant.grid, sizes), cost=substitute(variant.cost, sizes))
        return Launch(self.group, (*inputs, self.op.result), (bound,))

    def variant(self, elements: Elements, piece: Value, *, one_row: bool) -> Variant:
        """The kernel of a piece, over the symbols of this class in place of its sizes."""
        out = Buffer("out", part_dtype(piece.dtype))
        if elements.storage(piece) is None:
            axes: list[Axis | None] = [None if d == 1 else axis(f"i{n}", d) for n, d in enumerate(piece.shape)]
            index = index_of(axes)
            row = linearize(index[: self.axis], piece.shape[: self.axis])
            column = linearize(index[self.axis :], piece.shape[self.axis :])
            stores = elements.stores(out, self.place(row, column), piece, index)
            loops = [a for a in axes if a is not None]
        else:
            rows, columns = axis("o", as_dim(self.outer)), axis("i", as_dim(self.length))
            row, column = 0 if one_row else as_dim(rows.var), as_dim(columns.var)
            stores = elements.copies(out, self.place(row, column), piece, row * as_dim(self.length) + column)
            loops = [columns] if one_row else [rows, columns]
        loops, change = collapse(loops, stmt_dims(stores))
        body: tuple[Stmt, ...] = substituted(stores, change)
        if loops:
            outer, inner, cut = split(loops[-1], loop_schedule(self.target).elements)
            body = nest([*loops[:-1], outer, inner], [Role.GRID] * len(loops) + [Role.LANE], substituted(body, cut))
        note = f"{self.group.kind.value} {self.group.name}"
        buffers = (*elements.inputs.values(), out)
        return bind_kernel(body, buffers, (), name=self.group.name, note=note)

    def place(self, row: Dim, column: Dim) -> Dim:
        """Place in the result of an element of a row of a piece."""
        return row * as_dim(self.stride) + as_dim(self.offset) + column
