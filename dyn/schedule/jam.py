"""Unroll and jam: several iterations of an outer loop go together through the loops inside of it.

What does not depend on the outer loop is then read once for all of them, and their states are in registers side by
side. What one iteration reads where its neighbour reads in the next step of an inner loop (the windows of a
convolution) stays in registers from step to step: scalar replacement. The order in which each iteration folds stays
what it was. (Carr and Kennedy, *Improving the Ratio of Memory Operations to Floating-Point Operations in Loops*, 1994.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dyn.errors import IRError
from dyn.schedule.axes import Axis, axis, nest
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Carry, Expr, Fold, Loop, Ref, Role, Stmt, Store
from dyn.schedule.kernel_walks import children, expr_dims, stmt_exprs, symbols_of_extent, walk_exprs
from dyn.shapes import Dim, Symbol, as_dim, floordiv, free_symbols, mod, substitute

#: Whether an extent is known to be one or more.
Positive = Callable[[Dim], bool]


def unroll_and_jam(
    outer: Axis, count: int, inner: Sequence[Axis], roles: Sequence[Role], body: tuple[Stmt, ...], positive: Positive
) -> tuple[Stmt, ...]:
    """Loops over ``outer``, in each of its iterations ones over ``inner`` with their roles: one that goes ``count``
    iterations at a time, and one for those that are left."""
    whole, rest = axis(f"{outer.name}b", floordiv(outer.extent, count)), axis(outer.name, mod(outer.extent, count))
    first, left = as_dim(whole.var) * count, as_dim(whole.extent) * count
    loops: list[Stmt] = []
    for a, places in (whole, [first + n for n in range(count)]), (rest, [left + as_dim(rest.var)]):
        if a.extent != 0:
            loops += nest([a], [Role.SERIAL], nest(inner, roles, jam(body, outer.var, places, positive)))
    return tuple(loops)


def jam(body: tuple[Stmt, ...], var: Symbol, places: Sequence[Dim], positive: Positive) -> tuple[Stmt, ...]:
    """Statements for values of a variable that follow one another, their loops shared: serial ones, whose extents do
    not depend on it.

    Stores come in the order of the values, after what they store.
    """
    copies = [_Iteration(var, place) for place in places]
    return tuple([made for stmt in body for made in _jammed(stmt, var, copies, positive)])


class _Iteration(Rewriter):
    """The code for one value of a variable, with references of its own for what is folded and carried."""

    def __init__(self, var: Symbol, place: Dim) -> None:
        super().__init__(lambda dim: substitute(dim, {var: place}))

    def stands_for(self, expr: Expr, made: Expr) -> None:
        """Let an expression be another one in this copy."""
        self._sources.append(expr)
        self.exprs[id(expr)] = made

    def own(self, ref: Ref) -> Ref:
        """The reference that stands for this copy's state."""
        if id(ref) not in self.exprs:
            self.stands_for(ref, Ref(ref.name, ref.dtype))
        made = self.exprs[id(ref)]
        assert isinstance(made, Ref)
        return made

    def fold(self, fold: Fold) -> Fold:
        return Fold(tuple(map(self.own, fold.refs)), fold.monoid, tuple(map(self.expr, fold.values)), fold.block)

    def carry(self, carry: Carry) -> Carry:
        return Carry(self.own(carry.ref), self.own(carry.state), self.expr(carry.init), self.expr(carry.value))


def _jammed(stmt: Stmt, var: Symbol, copies: Sequence[_Iteration], positive: Positive) -> list[Stmt]:
    if isinstance(stmt, Store):
        return [copy.stmt(stmt) for copy in copies]
    refused = f"several iterations of {var.name} do not go together through what is inside"
    if not isinstance(stmt, Loop) or stmt.role is not Role.SERIAL:
        raise IRError(refused)
    if var in symbols_of_extent(stmt.extent, stmt.bound):
        raise IRError(refused)
    for copy in copies:
        for carry in stmt.carries:
            copy.own(carry.state)
    body = tuple([made for inner in stmt.body for made in _jammed(inner, var, copies, positive)])
    kept = _kept(stmt, var, copies) if not stmt.body and stmt.order is None and positive(stmt.extent) else []
    folds = tuple([copy.fold(fold) for copy in copies for fold in stmt.folds])
    carries = tuple([copy.carry(carry) for copy in copies for carry in stmt.carries])
    return [replace(stmt, body=body, folds=folds, carries=(*carries, *kept))]


def _kept(loop: Loop, var: Symbol, copies: Sequence[_Iteration]) -> list[Carry]:
    """Carries of what a copy computes and the copy before it in the next iteration of a loop: but for the last copy's,
    they are computed before the loop, and so the loop has to have an iteration."""
    *before, last = copies
    made: list[Carry] = []
    for expr in _sliding(stmt_exprs(loop), var, loop.var) if before else ():
        states = [Ref("kept", expr.dtype) for _ in before]
        start = Rewriter(lambda dim: substitute(dim, {loop.var: 0}))
        following = [*states[1:], last.expr(expr)]
        for copy, state, value in zip(before, states, following, strict=True):
            made.append(Carry(Ref("kept", expr.dtype), state, start.expr(copy.expr(expr)), value))
        for copy, state in zip(before, states, strict=True):
            copy.stands_for(expr, state)
    return made


def _sliding(roots: Sequence[Expr], outer: Symbol, inner: Symbol) -> Iterator[Expr]:
    """The largest expressions that are of the sum of two variables alone: a step of the one is a step of the other."""
    stack, seen = list(roots), set[int]()
    while stack:
        expr = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        dims = [dim for dim in expr_dims((expr,)) if not {outer, inner}.isdisjoint(free_symbols(dim))]
        slides = all(_step(dim, outer) == _step(dim, inner) for dim in dims)
        if dims and slides and not any(isinstance(e, Ref) for e in walk_exprs((expr,))):
            yield expr
        else:
            stack.extend(children(expr))


def _step(dim: Dim, var: Symbol) -> Dim:
    return substitute(dim, {var: as_dim(var) + 1})
