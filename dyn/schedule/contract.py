"""The nest of a dot_general: sums of products over the contracted axes, and what is done with each of them."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.ir.core import Op, Value
from dyn.ops.contract import free_axes
from dyn.schedule.axes import Axis, AxisKind, axis, index_of
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.kernel import Expr
from dyn.schedule.nest import Contraction, Nest, Stage
from dyn.schedule.nests import loop, present, write_at
from dyn.stitch.groups import Group, Plan


def dot_nest(plan: Plan, group: Group, op: Op) -> Nest:
    """A stage that contracts, for each batch, row and column, and one that stores what comes of it."""
    left, right = op.operands
    lb, lc = op.attrs["lhs_batch"], op.attrs["lhs_contracting"]
    rb, rc = op.attrs["rhs_batch"], op.attrs["rhs_contracting"]
    lf, rf = free_axes(len(left.shape), lb, lc), free_axes(len(right.shape), rb, rc)
    batch, rows = _loops("b", left, lb), _loops("m", left, lf)
    columns, reduced = _loops("n", right, rf), _loops("k", left, lc, AxisKind.CONTRACTED)

    def operands(elements: ElementReader) -> tuple[Expr, Expr]:
        k, wide = elements.k, op.result.dtype.wide
        lhs = elements.at(left, _placed(left, (lb, batch), (lf, rows), (lc, reduced)))
        rhs = elements.at(right, _placed(right, (rb, batch), (rf, columns), (rc, reduced)))
        return k.cast(lhs, wide), k.cast(rhs, wide)

    axes = [*batch, *rows, *columns]
    return contraction_nest(
        plan, group, present(axes), present(reduced), index_of(axes),
        Contraction(op.result, present(rows), present(columns), operands),
    )  # fmt: skip


def contraction_nest(
    plan: Plan, group: Group, shared: Sequence[Axis], reduced: Sequence[Axis], index: Index, contraction: Contraction
) -> Nest:
    """A contraction over some axes for each iteration of others, and every output at its index."""
    own = tuple(reduced) or (axis("k", 1, AxisKind.CONTRACTED),)
    store = Stage(index=index, writes=tuple(write_at(v, index) for v in group.outputs))
    return Nest(plan, group, tuple(shared), (Stage(own, index, contraction=contraction), store))


def _loops(name: str, value: Value, which: Sequence[int], kind: AxisKind = AxisKind.PARALLEL) -> list[Axis | None]:
    return [loop(f"{name}{a}", value.shape[a], kind) for a in which]


def _placed(value: Value, *parts: tuple[Sequence[int], list[Axis | None]]) -> Index:
    """An index of a value, from which loops go to which axes."""
    loops: list[Axis | None] = [None] * len(value.shape)
    for which, axes in parts:
        for position, a in zip(which, axes, strict=True):
            loops[position] = a
    return index_of(loops)
