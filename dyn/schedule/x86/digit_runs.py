"""Multiplications by what is computed in digits of the contracted axis, such as scales for groups of steps: a loop over
groups, in each of which the digits but for the last one are the same."""

from __future__ import annotations

from dataclasses import replace

from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Algorithm, Digits, Interval, Multiply
from dyn.schedule.statements import Stmts, ceil_div, for_each, let
from dyn.schedule.strided import own_digits
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, floordiv, mod, substitute, symbol

#: Steps of a run, at least: as many as are computed at a time.
_LEAST_RUN = 8


def in_runs(stmt: Multiply, digits: tuple[Digits, ...]) -> Stmts:
    """A multiplication by what is computed in digits of the contracted axis, in runs of the last one: the others
    are divided once for a run. Digits that make shorter runs are divided in each step. Anything else is as it is.
    """
    own = own_digits(stmt.rhs, stmt.red.var, digits)
    if stmt.algorithm is not Algorithm.COMPUTED or own is None:
        return (stmt,)
    parts, tail, length = own.parts, 1, own.parts[-1][1]
    while isinstance(length, int) and length < _LEAST_RUN and tail < len(parts):
        tail += 1
        length = length * parts[-tail][1]
    red, outer, inner = stmt.red, parts[:-tail], parts[-tail:]
    if not outer:
        change = _divided(own.value, inner)
        return (replace(stmt, rhs=Rewriter(lambda dim: substitute(dim, change)).expr(stmt.rhs)),)
    step = inner[0][0] if tail == 1 else symbol("step", "a step of a run")
    lets, start = let(substitute(own.value, {red.var: red.start}), "start")
    before = floordiv(start, length)

    def run(n: Dim) -> Stmts:
        made, number = let(before + n, "run")
        more, begin = let(dim_max(start - number * length, 0), "begin")
        made, change = [*made, *more], {} if tail == 1 else _divided(as_dim(step), inner)
        for part, place in _divided(number, outer).items():
            more, change[part] = let(place, part.name)
            made += more
        size = dim_min(start + red.extent - number * length, length) - begin
        change[red.var] = as_dim(step) + number * length - start + red.start
        lhs, rhs = [Rewriter(lambda dim: substitute(dim, change)).expr(one) for one in (stmt.lhs, stmt.rhs)]
        begins = stmt.first * (1 - dim_min(n, 1))
        return (*made, replace(stmt, red=Interval(step, begin, size), lhs=lhs, rhs=rhs, first=begins))

    # A group of no steps has no runs; and where there are no steps at all the sums are still to be begun.
    count = dim_max(ceil_div(start + red.extent, dim_max(length, 1)) - before, 1)
    return (*lets, *for_each(count, run, "run"))


def _divided(number: Dim, parts: tuple[tuple[Symbol, Dim], ...]) -> dict[Symbol, Dim]:
    """The digits of a number, by their symbols."""
    found: dict[Symbol, Dim] = {}
    for part, extent in reversed(parts[1:]):
        found[part] = mod(number, extent)
        number = floordiv(number, extent)
    return found | {parts[0][0]: number}
