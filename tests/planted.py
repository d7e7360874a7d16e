"""Kernels that read or write beside their arrays, made of right ones: what tests of memory have to find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dyn.pipeline import Optimized
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Buffer, Expr, Kernel, Load, Stmt, Store
from dyn.shapes import Dim

#: How far beside its place a buffer is touched, in elements; None where it is touched as it should be.
Shift = Callable[[Buffer], Dim | None]


class _Planter(Rewriter):
    """Moves what is loaded and stored."""

    def __init__(self, loads: Shift, stores: Shift) -> None:
        super().__init__(lambda dim: dim)
        self._loads, self._stores = loads, stores

    def stmt(self, stmt: Stmt) -> Stmt:
        made = super().stmt(stmt)
        by = self._stores(made.buffer) if isinstance(made, Store) else None
        return made if by is None or not isinstance(made, Store) else replace(made, index=made.index + by)

    def node(self, expr: Expr) -> Expr:
        made = super().node(expr)
        by = self._loads(made.buffer) if isinstance(made, Load) else None
        return made if by is None or not isinstance(made, Load) else replace(made, index=made.index + by)


def nowhere(buffer: Buffer) -> None:
    """Nothing is moved."""


def planted(program: Optimized, launch: int, *, loads: Shift = nowhere, stores: Shift = nowhere) -> Optimized:
    """A program of which a launch, by number, touches what it should not."""

    def change(kernel: Kernel) -> Kernel:
        planter = _Planter(loads, stores)
        body = planter.block(kernel.body)
        return Kernel(kernel.name, kernel.buffers, kernel.dims, kernel.scratch, body, kernel.note, kernel.in_place)

    launches = list(program.launches)
    variants = tuple(replace(variant, kernel=change(variant.kernel)) for variant in launches[launch].variants)
    launches[launch] = replace(launches[launch], variants=variants)
    made = tuple(launches)
    return replace(program, launches=made, host=replace(program.host, launches=made))
