"""Scratch of teams: where several share a GRID iteration, each has its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyn.schedule.axes import Axis
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Buffer, Expr, Load, Stmt, Store, most_iterations
from dyn.shapes import as_dim


def scratch_for_each_team(
    team: Axis, body: tuple[Stmt, ...], scratch: Sequence[Buffer]
) -> tuple[tuple[Stmt, ...], list[Buffer]]:
    """Code in which each iteration of a TEAM loop has scratch of its own, and that scratch."""
    count = most_iterations(team.extent) or 1
    larger = {id(b): replace(b, size=b.size * count) for b in scratch}
    offsets = {id(b): as_dim(team.var) * b.size for b in scratch}

    class OfTeam(Rewriter):
        def stmt(self, stmt: Stmt) -> Stmt:
            new = super().stmt(stmt)
            if isinstance(new, Store) and (own := larger.get(id(new.buffer))) is not None:
                return Store(own, new.index + offsets[id(new.buffer)], new.value)
            return new

        def node(self, expr: Expr) -> Expr:
            new = super().node(expr)
            if isinstance(new, Load) and (own := larger.get(id(new.buffer))) is not None:
                return replace(new, buffer=own, index=new.index + offsets[id(new.buffer)])
            return new

    return OfTeam(lambda dim: dim).block(body), list(larger.values())
