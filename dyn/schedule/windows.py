"""WINDOW groups as kernels, and convolutions whose groups are too narrow for tiles: a serial fold for each element.

Lanes lie along the last axis of the result, each folding its own window; a tap that reaches a hole is masked, not
branched around. With the channels last the taps of a vector are vectors; with a spatial axis last they are so where
the stride is 1.
"""

from __future__ import annotations

from typing import Any

from dyn.ir.core import Op
from dyn.ir.opdef import OpKind, OrderedWindows, WindowFold
from dyn.ops.complex_parts import part_dtype
from dyn.schedule.axes import Axis, axis, collapse, fold_nest, index_of, nest, split
from dyn.schedule.elements import Elements, Index
from dyn.schedule.expressions import Rewriter, stmt_dims
from dyn.schedule.families import loop_schedule
from dyn.schedule.kernel import Buffer, Expr, Fold, Ref, Role, Stmt
from dyn.schedule.launch import Launch, bind_kernel
from dyn.schedule.loops import constantly, permuted_stores
from dyn.schedule.regions import ordered_carries
from dyn.schedule.target import Target
from dyn.shapes import substitute
from dyn.stitch.groups import Group, Plan


def lower_windows(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a group around one op that folds windows."""
    (op,) = (op for op in group.ops if op.opdef.kind is OpKind.WINDOW)
    loops = op.opdef.loops
    assert isinstance(loops, WindowFold | OrderedWindows)
    return lower_folds(plan, group, target, op, loops)


def lower_folds(plan: Plan, group: Group, target: Target, op: Op, windows: WindowFold | OrderedWindows) -> Launch:
    """A loop over the elements of a group, in which those of ``op`` are folded as ``windows`` says."""
    elements = Elements(plan, group)
    outputs = {v: Buffer("out", part_dtype(v.dtype)) for v in group.outputs}
    axes = [None if d == 1 else axis(f"i{a}", d) for a, d in enumerate(group.space)]
    index = index_of(axes)
    if isinstance(windows, WindowFold):
        fold, folded = _window(elements, op, windows, index)
    else:
        fold, folded = _in_order(elements, op, windows, index)
    for value, known in zip(op.results, folded, strict=True):
        elements.known[value] = constantly(known)
    stores = tuple(s for v in group.outputs for s in permuted_stores(elements, outputs[v], v, index))
    body: tuple[Stmt, ...] = (*fold, *stores)
    loops, change = collapse([a for a in axes if a is not None] or [axis("i", 1)], stmt_dims(body))
    if len(loops) == 1:
        outer, inner, cut = split(loops[0], loop_schedule(target).elements)
        loops, change = [outer, inner], {s: substitute(d, cut) for s, d in change.items()} | cut
    body = Rewriter(lambda dim: substitute(dim, change)).block(body)
    body = nest(loops, [Role.GRID] * (len(loops) - 1) + [Role.LANE], body)
    buffers = (*elements.inputs.values(), *outputs.values())
    kernel = bind_kernel(body, buffers, (), name=group.name, note=f"{group.kind.value} {group.name}, folded")
    return Launch(group, (*elements.inputs, *outputs), (kernel,))


def _window(elements: Elements, op: Op, windows: WindowFold, index: Index) -> tuple[tuple[Stmt, ...], tuple[Expr]]:
    """The loops over the taps of the window at ``index``, and the folded element."""
    k, dtype = elements.k, op.result.dtype
    wide = dtype.wide
    taps = _taps(windows, op)

    def get(i: int, at: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        return elements.at(op.operands[i], at, mask, other)

    value: Any = windows.at(k, op, index, index_of(taps), get, wide)
    init = k.const(wide, windows.identity(op.attrs, wide))
    fold = Fold(Ref("acc", wide), windows.combine(op.attrs), init, value)
    done, (last,) = fold_nest([t for t in taps if t is not None] or [axis("t", 1)], Role.SERIAL, (), (fold,))
    return done, (k.cast(last.ref, dtype),)


def _in_order(
    elements: Elements, op: Op, windows: OrderedWindows, index: Index
) -> tuple[tuple[Stmt, ...], tuple[Expr, ...]]:
    """Fold windows with the op's region, which each tap goes through in turn."""
    count, (body,) = len(op.results), op.regions
    taps = _taps(windows, op)
    inits = [elements.at(v, ()) for v in op.operands[count:]]

    def get(i: int, at: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        return elements.at(op.operands[i], at, mask, other)

    found = [windows.at(elements.k, op, i, index, index_of(taps), get, init) for i, init in enumerate(inits)]
    carries = ordered_carries(elements.k, body, inits, found)
    done, _ = fold_nest([t for t in taps if t is not None] or [axis("t", 1)], Role.SERIAL, (), (), carries)
    return done, tuple(carry.ref for carry in carries)


def _taps(windows: WindowFold | OrderedWindows, op: Op) -> list[Axis | None]:
    return [None if d == 1 else axis(f"t{a}", d) for a, d in enumerate(windows.extents(op))]
