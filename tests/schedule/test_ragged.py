"""Rows of different lengths: nests with an axis whose extent is read from an array, under random schedules, on x86 and
on both dialects of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.errors import IRError
from dyn.ir.core import Value
from dyn.lower.gpu.dialect import dialect_of
from dyn.lower.gpu.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, AxisKind, axis
from dyn.schedule.elements import ElementReader
from dyn.schedule.kernel import Carry, Const, Kernel, Loop, Ref, Role, Store, scalar_monoid
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.launch import Variant
from dyn.schedule.loops import Loops, ScheduleError
from dyn.schedule.nest import Nest, OrderedReduction, Reduction, Stage, casts
from dyn.schedule.nests import write_at
from dyn.schedule.order import Order
from dyn.schedule.phases import Phase
from dyn.shapes import Dim, as_dim, dim_max, evaluate
from tests.lower.gpu_programs import TARGETS
from tests.lower.x86_run import compile_kernels
from tests.shim.run import ShimModule
from tests.stitch.models import Model, optimized

Array = np.ndarray[Any, Any]
F32 = dtypes.float32


class Segments:
    """``y[i, :] = reduce over e in [offsets[i], offsets[i + 1]) of x[e, :]``, and of pairs of such where it is nested:
    the inner axis is as long as ``counts[e]``."""

    def __init__(self, *, ordered: bool = False, nested: bool = False) -> None:
        m = Model("segments")
        self.offsets = m.param("offsets", "p", dtype=dtypes.int64)
        self.counts = m.param("counts", "t", dtype=dtypes.int64)
        self.x = m.param("x", "t", "n")
        self.y = m.op("negate", m.param("z", "m", "n"))
        self.plan = optimized(m.function(self.y)).plan
        (group,) = self.plan.groups
        (self.y,) = group.outputs
        self.x, self.offsets, self.counts = (self._param(name) for name in ("x", "offsets", "counts"))
        self.row, self.column = axis("i0", group.space[0]), axis("i1", group.space[1])
        kind = AxisKind.FOLD if ordered else AxisKind.REDUCE
        self.own = [axis("r0", 0, kind), *([axis("r1", 0, kind)] if nested else [])]
        lengths = dict(zip([a.var for a in self.own], (self.length, self.count), strict=False))
        index = (as_dim(self.row.var), as_dim(self.column.var))
        reduction = Reduction((self.y,), scalar_monoid(Scalar.ADD, Const(F32, 0.0)), self.states, casts((self.y,)))
        carried = OrderedReduction((self.y,), self.carries)
        fold = Stage(
            tuple(self.own), index, reductions=() if ordered else (reduction,), ordered=(carried,) if ordered else (),
            lengths=lengths,
        )  # fmt: skip
        last = Stage(index=index, writes=(write_at(self.y, index),))
        self.nest = Nest(self.plan, group, (self.row, self.column), (fold, last), Order(0, 32, 2))
        self.ordered = ordered

    def _param(self, name: str) -> Value:
        return next(value for value in self.plan.function.params if value.name == name)

    def offset(self, elements: ElementReader, at: Dim) -> Dim:
        return elements.k.bind(elements.at(self.offsets, (as_dim(self.row.var) + at,)))

    def length(self, elements: ElementReader) -> Dim:
        return dim_max(0, self.offset(elements, 1) - self.offset(elements, 0))

    def place(self, elements: ElementReader) -> Dim:
        return self.offset(elements, 0) + as_dim(self.own[0].var)

    def count(self, elements: ElementReader) -> Dim:
        return dim_max(0, elements.k.bind(elements.at(self.counts, (self.place(elements),))))

    def states(self, elements: ElementReader) -> tuple[Any, ...]:
        return (elements.at(self.x, (self.place(elements), as_dim(self.column.var))),)

    def carries(self, elements: ElementReader) -> tuple[Carry, ...]:
        """What comes later counts twice as much."""
        (element,), k, state = self.states(elements), elements.k, Ref("state", F32)
        doubled = k.apply(Scalar.MUL, [state, k.const(F32, 2)], F32)
        return (Carry(Ref("acc", F32), state, k.const(F32, 0), k.apply(Scalar.ADD, [doubled, element], F32)),)

    def expected(self, offsets: Array, counts: Array, x: Array) -> Array:
        rows: list[Array] = []
        for begin, end in pairwise(offsets):
            total = np.zeros(x.shape[1], np.float32)
            for e in range(begin, end):
                for _ in range(counts[e] if len(self.own) > 1 else 1):
                    total = (total * 2 if self.ordered else total) + x[e]
            rows.append(total)
        return np.array(rows, np.float32).reshape(len(offsets) - 1, x.shape[1])


def _draw(loops: Loops, rng: Random, *, gpu: bool) -> None:
    """A schedule: axes cut and put into another order, lanes along columns, along the rows' elements, or nowhere."""
    phase = loops.phases[0]
    lanes = rng.choice(["columns", "elements", "nowhere"])
    if phase.axes[-1].kind is AxisKind.REDUCE and rng.random() < 0.5:
        loops.split(rng.choice(phase.axes), rng.choice([1, 2, 5, 64]), phase)
    if lanes == "elements" and phase.axes[-1].kind is AxisKind.REDUCE:
        loops.bind_lanes(phase)
    elif lanes == "columns":
        if rng.random() < 0.5:
            loops.split(loops.shared[-1], rng.choice([3, 16]))
        loops.bind_lane(loops.shared[-1])
        if rng.random() < 0.3 and len(loops.shared) > 1 and not gpu:
            with pytest.raises(ScheduleError, match="loops of different lengths"):
                loops.jam(loops.shared[-2], 2)
    else:
        loops.fuse(loops.shared)  # what the extents are read from keeps them apart


@cache
def _variants(count: int, *, gpu: bool) -> tuple[tuple[Segments, Loops, Variant], ...]:
    rng = Random(count + gpu)
    made: list[tuple[Segments, Loops, Variant]] = []
    for number in range(count):
        segments = Segments(ordered=rng.random() < 0.4, nested=rng.random() < 0.4)
        loops = Loops(segments.nest)
        _draw(loops, rng, gpu=gpu)
        variant = loops.variant(f"ragged {number}")
        check(variant.kernel)
        made.append((segments, loops, variant))
    return tuple(made)


def _compare(
    run: Callable[[int, list[Array], list[int]], None], variants: Sequence[tuple[Segments, Loops, Variant]]
) -> None:
    rng = np.random.default_rng(0)
    for lengths, n in (([], 3), ([0], 2), ([1], 1), ([3, 0, 40, 1, 17, 0, 2], 5), ([2, 9], 33), ([5], 0)):
        offsets = np.cumsum([0, *lengths])
        total = int(offsets[-1])
        counts, x = rng.integers(-1, 3, total), rng.integers(-3, 4, (total, n)).astype(np.float32)
        env = {"m": len(lengths), "n": n, "t": total, "p": len(offsets)}
        for number, (segments, loops, variant) in enumerate(variants):
            expected = segments.expected(offsets, counts, x)
            y = np.full_like(expected, np.nan)
            arrays = {segments.offsets: offsets, segments.counts: counts, segments.x: x, segments.y: y}
            symbols = {s: env[s.name] for dim in variant.dims for s in _symbols(dim)}
            dims = [evaluate(dim, symbols) for dim in variant.dims]
            run(number, [arrays[value] for value in loops.code.buffers()], dims)
            np.testing.assert_array_equal(y, expected, err_msg=kernel_text(variant.kernel))


def _symbols(dim: Dim) -> list[Any]:
    return [] if isinstance(dim, int) else list(dim.symbols)


def test_random_schedules_on_x86() -> None:
    variants = _variants(60, gpu=False)
    compiled = compile_kernels([variant.kernel for *_, variant in variants])
    _compare(lambda number, arrays, dims: compiled[number](dims, arrays), variants)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_random_schedules_on_gpus(target: Any, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    variants = _variants(25, gpu=True)
    texts = [
        emit_kernel(Kernel(f"k{n}", k.buffers, k.dims, k.scratch, k.body), target)
        for n, k in enumerate(variant.kernel for *_, variant in variants)
    ]
    module = ShimModule(texts, dialect_of(target), target.warp)

    def run(number: int, arrays: list[Array], dims: list[int]) -> None:
        text, kernel = texts[number], variants[number][2].kernel
        shared = evaluate(text.scratch_bytes, dict(zip(kernel.dims, dims, strict=True)))
        for seed, grid in ((0, 3), (1, 1)):
            module.run(text.symbol, arrays, dims, grid, text.threads, shared, seed)

    _compare(run, variants)


def test_text() -> None:
    segments = Segments()
    loops = Loops(segments.nest)
    loops.bind_lane(loops.shared[-1])
    text = kernel_text(loops.variant("bags").kernel)
    assert "serial j0 < max(0, -v0 + v1) with v0 = %0 with v1 = b0[g0 + 1] {" in text


# --- what is refused --------------------------------------------------------------------------------------------------


def test_such_an_axis_is_not_fused_and_not_divided() -> None:
    segments = Segments(nested=True)
    loops = Loops(segments.nest)
    phase: Phase = loops.phases[0]
    before: list[Axis] = list(phase.axes)
    assert loops.fuse(phase.axes, phase) == before
    with pytest.raises(ScheduleError, match=r"^the extents of r0, r1 are values that the kernel computes$"):
        loops.flatten(phase.axes, phase)
    with pytest.raises(ScheduleError, match=r"^the extent of r0 is a value that the kernel computes$"):
        loops.hoist(phase.axes[0], phase) if loops.phases.pop() else None


def test_extents_of_other_loops_are_no_computed_values() -> None:
    segments = Segments()
    kernel = Loops(segments.nest).variant("bags").kernel
    (ragged,) = [s for s in walk_stmts(kernel.body) if isinstance(s, Loop) and s.bound]
    store = Store(kernel.buffers[-1], 0, Const(kernel.buffers[-1].dtype, 0.0))
    loop = Loop(Role.TEAM, ragged.var, ragged.extent, (store,), width=8, bound=ragged.bound)
    grid = tuple(Loop(a.role, a.var, a.extent, (loop,)) for a in kernel.grid()[0][:1])
    with pytest.raises(IRError, match="a team loop, mentions computed values"):
        check(Kernel("k", kernel.buffers, kernel.dims, (), grid))
