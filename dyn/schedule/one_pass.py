"""Rewrites of two passes over the same elements as one, which change numerics: never a schedule's choice.

=====================  ===============================================================================================
rewrite                what it does
=====================  ===============================================================================================
one_pass_variance      a sum, and the sum of squared distances from its mean, become a sum and pooled moments
=====================  ===============================================================================================

A pass over memory beyond the caches costs more than the arithmetic that it takes to do without it. That holds of
moments, whose states are joined by a division and a few products. It does not of sums of exponentials
(``monoids.sum_of_exponentials``): two of these functions an element cost more than reading it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dyn import dtypes
from dyn.ir.core import Value
from dyn.ops.scalar import Scalar
from dyn.schedule.elements import ElementReader, constantly
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Apply, Const, Expr, Index, Load, Ref
from dyn.schedule.kernel_walks import walk_exprs
from dyn.schedule.monoids import moments, sums
from dyn.schedule.nest import Reduction, Stage
from dyn.shapes import Dim, product, substitute
from dyn.stitch.groups import Group, Plan


def one_pass_variance(
    plan: Plan, group: Group, first: Stage, then: Stage, earlier: Iterable[Value] = ()
) -> Stage | None:
    """Two stages over the same axes as one, where all that the second does is fold squared distances from means.
    ``earlier`` are the results of stages before both, which either may read.

    These are means of what the first stage adds up, over the elements that it goes through. In place of the squares it
    folds ``monoids.moments`` of distances from the first element: neither changes the sum of squared distances from the
    mean. With k the root of 1 + (mean - first)² / variance the relative error is of order (n / lanes) * k * u, where
    that of two passes is of order (n / lanes) * u + (n / lanes * K * u)², with K of the mean itself (Chan, Golub and
    LeVeque, "Algorithms for computing the sample variance", 1983). None where something else is done.
    """
    if then.axes != first.axes or then.writes or then.ordered or then.scans or not then.reductions:
        return None
    probe = ElementReader(plan, group)
    probe.folded = lambda op, index: Ref("folded", op.result.dtype)  # what it folds is not asked for
    probe.known |= {value: constantly(Ref("earlier", value.dtype)) for value in earlier}
    sums: list[tuple[Expr, Reduction]] = []
    for reduction in first.reductions:
        refs = tuple(Ref("folded", init.dtype) for init in reduction.monoid.init)
        finished = reduction.finish(probe, refs)
        probe.known.update((v, constantly(expr)) for v, expr in zip(reduction.results, finished, strict=True))
        if reduction.scalar is Scalar.ADD:
            sums.append((finished[0], reduction))
    size = product(axis.extent for axis in first.axes)
    pooled: list[Reduction] = []
    for reduction in then.reductions:
        added = _squares_from_mean(plan, probe, sums, reduction, size)
        if added is None:
            return None
        made = _shifted if added.monoid.scalar is Scalar.ADD else _pooled
        pooled.append(made(first, added, reduction, size))
    return replace(first, reductions=(*first.reductions, *pooled))


def _squares_from_mean(
    plan: Plan, probe: ElementReader, sums: list[tuple[Expr, Reduction]], reduction: Reduction, size: Dim
) -> Reduction | None:
    """The sum of the elements whose squared distances from their mean a reduction adds up."""
    if reduction.scalar is not Scalar.ADD or not reduction.monoid.init[0].dtype.is_float:
        return None
    (square,) = reduction.states(probe)
    match square:
        case Apply(Scalar.MUL, (Apply(Scalar.SUB, (element, Apply(Scalar.DIV, (total, count)))) as a, b)):
            added = next((own for result, own in sums if result is total), None)
            if a is not b or added is None or not _is_count(plan, count, size):
                return None
            computed = any(isinstance(e, Load) and e.bound for e in walk_exprs((element,)))
            return added if added.states(probe)[0] is element and not computed else None
        case _:
            return None


def _is_count(plan: Plan, count: Expr, size: Dim) -> bool:
    """Whether a number is known to be a size."""
    while isinstance(count, Apply) and count.fn is Scalar.CAST:
        (count,) = count.args
    known = count.expr if isinstance(count, Index) else count.value if isinstance(count, Const) else None
    if isinstance(known, float):
        known = int(known) if known.is_integer() else None
    return known is not None and plan.function.facts.eq(known, size).proved


def _shifted(stage: Stage, added: Reduction, squares: Reduction, size: Dim) -> Reduction:
    """The sum of squared distances from the mean by the sums of distances from the first element, and of their squares:
    of floats that are narrower than the sums."""
    wide = squares.monoid.init[0].dtype

    def states(elements: ElementReader) -> tuple[Expr, ...]:
        k, (element,) = elements.k, added.states(elements)
        apart = k.apply(Scalar.SUB, [k.cast(element, wide), k.cast(_first(stage, element), wide)], wide)
        return apart, k.apply(Scalar.MUL, [apart, apart], wide)

    def finish(elements: ElementReader, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
        k, (total, squared) = elements.k, state
        count = k.apply(Scalar.MAX, [k.cast(k.index(dtypes.int64, size), wide), k.const(wide, 1)], wide)
        shift = k.apply(Scalar.DIV, [k.apply(Scalar.MUL, [total, total], wide), count], wide)
        left = k.apply(Scalar.MAX, [k.apply(Scalar.SUB, [squared, shift], wide), k.const(wide, 0)], wide)
        return (k.cast(left, squares.results[0].dtype),)

    return Reduction(squares.results, sums(wide, 2), states, finish)


def _pooled(stage: Stage, added: Reduction, squares: Reduction, size: Dim) -> Reduction:
    """The sum of squared distances from the mean by the moments of distances from the first element."""
    dtype = squares.monoid.init[0].dtype

    def states(elements: ElementReader) -> tuple[Expr, ...]:
        k, (element,) = elements.k, added.states(elements)
        apart = k.apply(Scalar.SUB, [element, _first(stage, element)], dtype)
        return k.const(dtype, 1), apart, k.const(dtype, 0)

    def finish(elements: ElementReader, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (elements.k.cast(state[2], squares.results[0].dtype),)

    return Reduction(squares.results, moments(dtype), states, finish)


def _first(stage: Stage, element: Expr) -> Expr:
    """The first element of those that a stage goes through."""
    start = dict.fromkeys((axis.var for axis in stage.axes), 0)
    return Rewriter(lambda dim: substitute(dim, start)).expr(element)
