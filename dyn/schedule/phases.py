"""Phases of a kernel in the making: the code of a nest's stages, each under loops of its own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dyn.schedule.axes import Axis, axis, fold_nest
from dyn.schedule.expressions import Rewriter, stmt_dims
from dyn.schedule.kernel import Carry, Fold, Loop, Role, Stmt
from dyn.schedule.kernel_walks import expr_dims
from dyn.schedule.launch import FoldOrder
from dyn.schedule.nest import Scan
from dyn.schedule.order import Order
from dyn.schedule.products import Product
from dyn.shapes import Dim, Symbol, as_dim, substitute
from dyn.shapes import symbol as new_symbol

_NONE = axis("none", 1).var


@dataclass(eq=False, slots=True)
class Phase:
    """A stage's code under its own loops, outermost first: the innermost has the role ``inner``, the outermost of
    several ``outer`` (in teams of ``width`` lanes), the others none."""

    axes: list[Axis]
    body: tuple[Stmt, ...]
    folds: tuple[Fold, ...] = ()
    carries: tuple[Carry, ...] = ()
    inner: Role = Role.SERIAL
    outer: Role = Role.SERIAL
    width: int = 0
    #: What the carry is, where it is one of a running reduction; and the code that a step has made of that, with the
    #: sizes of the pieces that it goes in.
    scan: Scan | None = None
    chunks: tuple[Stmt, ...] = ()
    pieces: tuple[int, ...] = ()
    #: Of a phase whose first fold is a contraction.
    product: Product | None = None
    #: The order in which lanes fold floats; and whether each lane folds those of its own in it too.
    order: Order | None = None
    chained: bool = False

    def has_lanes(self) -> bool:
        return bool(self.chunks) or Role.LANE in (self.inner, self.outer)

    def statements(self) -> tuple[Stmt, ...]:
        """The loops around the code."""
        if self.chunks:
            return self.chunks
        axes, roles = self.axes, (self.outer, self.width)
        return fold_nest(axes, self.inner, self.body, self.folds, self.carries, *roles, self.order, self.chained)

    def code(self) -> Loop:
        """The code as one loop, in place of its own."""
        return Loop(Role.SERIAL, _NONE, 1, self.body, self.folds, self.carries)

    def folds_floats(self) -> bool:
        """Whether the order counts in which its folds combine."""
        return any(init.dtype.is_float for fold in self.folds for init in fold.monoid.init)

    def fold_order(self, places: Mapping[Symbol, Dim], team: int) -> FoldOrder:
        """The order in which its folds combine, for comparisons; ``places`` stand for the loops around, which are
        dealt to teams of ``team`` lanes, if any."""
        serial = self.inner is self.outer is Role.SERIAL and not self.chained
        # Where lanes have no order of their own, it follows from all of the code: that is like itself alone.
        lanes = None if serial else object() if self.order is None else self.order
        own = {a.var: loop_place(-1 - number) for number, a in enumerate(self.axes)}
        extents = tuple([substitute(a.extent, {**places, **own}) for a in self.axes])
        states = tuple([tuple([init.dtype for init in fold.monoid.init]) for fold in self.folds])
        return FoldOrder(extents, (self.inner, self.outer, self.width or team), lanes, states)

    def dims(self) -> list[Dim]:
        """Every index expression of the code."""
        if self.chunks:
            return stmt_dims(self.chunks)
        return stmt_dims((self.code(),))

    def dims_of_extents(self) -> list[Dim]:
        """Every index expression of what the axes' extents are computed from."""
        return [d for a in self.axes for d in expr_dims(tuple(value for _, value in a.bound))]

    def substitute(self, change: Mapping[Symbol, Dim]) -> None:
        """Write the code over other variables."""
        if change:
            rewriter = Rewriter(lambda dim: substitute(dim, change))
            for number, a in enumerate(self.axes):
                extent = substitute(a.extent, change)
                same = not a.bound and (extent is a.extent or extent == a.extent)
                self.axes[number] = a if same else replace(a, extent=extent, bound=rewriter.bound(a.bound))
            self.rewrite(rewriter)

    def rewrite(self, rewriter: Rewriter) -> None:
        self.body = rewriter.block(self.body)
        self.folds, self.carries = rewriter.folds(self.folds), rewriter.carries(self.carries)
        self.product = None if self.product is None else self.product.rewritten(rewriter)


@functools.cache
def loop_place(number: int) -> Dim:
    """Stands for the variable of the loop with a number, in comparisons of loops."""
    return as_dim(new_symbol(f"place{number}", "a loop"))
