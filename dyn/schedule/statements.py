"""Makers of serial loops, conditions and names in kernel IR."""

from __future__ import annotations

from collections.abc import Callable

from dyn.schedule.kernel import Let, Loop, Role, Stmt, known_factor, most_iterations
from dyn.shapes import Dim, as_dim, dim_min, floordiv, symbol

Stmts = tuple[Stmt, ...]


def ceil_div(extent: Dim, size: Dim) -> Dim:
    return floordiv(extent + (size - 1), size)


def for_each(count: Dim, make: Callable[[Dim], Stmts], name: str) -> Stmts:
    """Statements for each number below ``count``."""
    if count == 1:
        return make(0)
    var = symbol(name, "a loop of a schedule")
    return (Loop(Role.SERIAL, var, count, make(as_dim(var))),)


def let(dim: Dim, name: str) -> tuple[Stmts, Dim]:
    """A name for an index expression that is more than one already."""
    if isinstance(dim, int) or dim.is_symbol is not None:
        return (), dim
    var = symbol(name, "a number of a schedule")
    return (Let(var, dim),), as_dim(var)


def name_extent(dim: Dim, name: str) -> tuple[Stmts, Dim]:
    """A name for an extent, unless that would hide what code is chosen by: a factor of it."""
    return ((), dim) if known_factor(dim) != 1 else let(dim, name)


def for_chunks(extent: Dim, step: Dim | None, make: Callable[[Dim, Dim], Stmts], name: str) -> Stmts:
    """Statements for each piece of an extent, by where it begins and its size: ``step``, or what is left; with None
    one piece."""
    most = most_iterations(extent)
    if step is None or (isinstance(step, int) and most is not None and most <= step):
        return make(0, extent)

    def piece(n: Dim) -> Stmts:
        lets, size = name_extent(dim_min(step, extent - step * n), name)
        return (*lets, *make(step * n, size))

    return for_each(ceil_div(extent, step), piece, name)


def when(condition: Dim, body: Stmts) -> Stmts:
    """Statements that run where a condition is 1, and not where it is 0."""
    if condition == 0:
        return ()
    return for_each(condition, lambda _: body, "if")
