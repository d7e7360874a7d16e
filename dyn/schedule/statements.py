"""Makers of serial loops, conditions and names in kernel IR, and what puts loops in the place of contractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dyn.schedule.kernel import (
    Buffer,
    Kernel,
    Let,
    Loop,
    Role,
    Stmt,
    TileContract,
    known_factor,
    most_iterations,
)
from dyn.schedule.kernel_walks import walk_stmts
from dyn.shapes import Dim, Opaque, OpaqueKind, as_dim, dim_min, floordiv, symbol

Stmts = tuple[Stmt, ...]


def replace_contractions(kernel: Kernel, make: Callable[[TileContract], tuple[Stmts, tuple[Buffer, ...]]]) -> Kernel:
    """The kernel with the statements that ``make`` gives for each contraction, and the scratch that they need."""
    if not any(isinstance(stmt, TileContract) for stmt in walk_stmts(kernel.body)):
        return kernel
    scratch = list(kernel.scratch)

    def expanded(body: Stmts) -> Stmts:
        made: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, TileContract):
                loops, buffers = make(stmt)
                made += loops
                scratch.extend(buffers)
            else:
                made.append(replace(stmt, body=expanded(stmt.body)) if isinstance(stmt, Loop) else stmt)
        return tuple(made)

    body = expanded(kernel.body)
    return replace(kernel, body=body, scratch=tuple(scratch))


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


def condition(loop: Loop) -> Dim | None:
    """The number that is above 0 where a loop of at most one iteration has it, as ``when`` makes them; else None."""
    extent = loop.extent
    atom = None if isinstance(extent, int) else extent.is_atom
    if loop.folds or loop.carries or loop.bound or loop.start != 0:
        return None
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MIN:
        return None
    if 1 not in atom.args or len(atom.args) != 2:
        return None
    (number,) = [arg for arg in atom.args if arg != 1]
    inner = None if isinstance(number, int) else number.is_atom
    if isinstance(inner, Opaque) and inner.kind is OpaqueKind.MAX and 0 in inner.args and len(inner.args) == 2:
        (number,) = [arg for arg in inner.args if arg != 0]
    return number
