"""Walks over kernel IR: the expressions and statements in others, each once."""

from __future__ import annotations

from collections.abc import Iterator

from dyn.schedule.kernel import (
    Apply,
    Bindings,
    Clear,
    Expr,
    Index,
    Let,
    Load,
    Loop,
    Pack,
    Spill,
    Stmt,
    Store,
    TileContract,
    Update,
)
from dyn.shapes import Dim, Symbol, free_symbols


def children(expr: Expr) -> tuple[Expr, ...]:
    """The values an expression is computed from."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Load):
        extra = tuple(e for e in (expr.mask, expr.other) if e is not None)
        return tuple(value for _, value in expr.bound) + extra
    return ()


def walk_exprs(roots: tuple[Expr, ...]) -> Iterator[Expr]:
    """Every expression reachable from ``roots``, once, children first."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            yield expr
            continue
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        stack.append((expr, True))
        stack.extend((child, False) for child in reversed(children(expr)) if id(child) not in seen)


def expr_dims(roots: tuple[Expr, ...]) -> list[Dim]:
    """The index expressions in some values."""
    return [
        expr.index if isinstance(expr, Load) else expr.expr
        for expr in walk_exprs(roots)
        if isinstance(expr, Load | Index)
    ]


def symbols_of_extent(extent: Dim, bound: Bindings) -> frozenset[Symbol]:
    """The symbols that an extent depends on, through computed values too."""
    return frozenset().union(*map(free_symbols, (extent, *expr_dims(tuple(value for _, value in bound)))))


def stmt_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself, nested statements left out."""
    if isinstance(stmt, Let | Clear | Spill):
        return ()
    if isinstance(stmt, Store | Pack):
        return (stmt.value,)
    if isinstance(stmt, Loop):
        folded = [value for fold in stmt.folds for value in fold.values]
        carried = [*[c.init for c in stmt.carries], *[c.value for c in stmt.carries]]
        return (*folded, *carried, *[value for _, value in stmt.bound])
    if isinstance(stmt, Update):
        masks = () if stmt.mask is None else (stmt.mask,)
        return (stmt.value, *[value for _, value in stmt.bound], *masks)
    return (stmt.lhs, stmt.rhs)


def staged_packs(loop: Loop) -> tuple[Pack, ...]:
    """The staged packs of a loop, which head it."""
    return tuple([stmt for stmt in loop.body if isinstance(stmt, Pack) and stmt.staged is not None])


def stmt_body(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements nested in a statement."""
    if isinstance(stmt, Loop):
        return stmt.body
    return stmt.epilogue if isinstance(stmt, TileContract) else ()


def walk_stmts(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner, in program order."""
    for stmt in body:
        yield stmt
        yield from walk_stmts(stmt_body(stmt))
