"""Two contractions in one kernel, by hand: attention, whose sums of weighted values are carried over blocks of keys.

What schedules will make: scores of a block, the running maximum and sum of their exponentials, and the second product's
accumulators, which are scaled where the maximum grows. The squares of scores are in no memory but a block's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.schedule.gpu.contractions import blockings
from dyn.schedule.gpu.slices import SliceLayout
from dyn.schedule.kernel import (
    Algorithm,
    Buffer,
    Clear,
    Expr,
    Interval,
    Kernel,
    Load,
    Loop,
    Multiply,
    Operand,
    Pack,
    Ref,
    Role,
    Space,
    Spill,
    StagedSlices,
    Stmt,
    Store,
    Tile,
    scalar_fold,
)
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, floordiv, mod
from tests.lower.gpu_kernels import call, grid, lane, number, serial, var
from tests.lower.x86_run import compile_kernels, runnable
from tests.shim.run import ShimModule

Array = np.ndarray[Any, Any]
F32, BOOL = dtypes.float32, dtypes.bool_
#: Queries, keys and features: one, around the tiles, and several blocks of keys.
SIZES = [(1, 1, 1), (3, 5, 16), (4, 32, 7), (9, 33, 16), (33, 130, 16), (70, 64, 5)]
#: Features at most, and queries of a block.
FEATURES, ROWS = 16, 4


def scratch(name: str, size: int) -> Buffer:
    return Buffer(name, F32, Space.SCRATCH, size)


def below(index: Dim, extent: Dim, *body: Stmt) -> Stmt:
    """What is done where an index is below an extent."""
    return serial(var("if"), dim_min(1, dim_max(0, extent - index)), *body)


class Attention:
    """Buffers, sizes and statistics of a block of ``rows`` queries and ``keys`` keys."""

    def __init__(self, rows: int, keys: int, stride: int) -> None:
        self.s, self.t, self.d, self.g, self.n = map(var, ("s", "t", "d", "g", "n"))
        self.q, self.k, self.v, self.out = (Buffer(name, F32) for name in ("q", "k", "v", "out"))
        self.rows, self.keys, self.stride = rows, keys, stride
        self.weights, self.top = scratch("weights", rows * keys), scratch("top", rows)
        self.total, self.scale = scratch("total", rows), scratch("scale", rows)
        #: Queries and keys of this block.
        self.height = dim_min(rows, self.s - rows * self.g)
        self.width = dim_min(keys, self.t - keys * self.n)

    def query(self, i: Dim, c: Dim) -> Load:
        return Load(self.q, (self.g * self.rows + i) * self.d + c)

    def key(self, of: Buffer, j: Dim, c: Dim) -> Load:
        return Load(of, j * self.d + c)

    def start(self, sums: Buffer, size: int) -> tuple[Stmt, ...]:
        i, c = var("i"), var("c")
        begin = lane(i, self.rows, Store(self.top, i, number(-math.inf)), Store(self.total, i, number(0.0)))
        return begin, lane(c, size, Store(sums, c, number(0.0)))

    def grow(self, i: Dim, top: Ref) -> tuple[Stmt, ...]:
        """The new maximum of a row, and by how much what was summed counts less."""
        old = Load(self.top, i)
        new = call(Scalar.MAX, old, top)
        shrinks = call(Scalar.EXP, call(Scalar.SUB, old, new))
        return Store(self.scale, i, shrinks), Store(self.top, i, new)

    def kernel(self, name: str, extra: tuple[Buffer, ...], *body: Stmt) -> Kernel:
        symbols = tuple(named(dim) for dim in (self.s, self.t, self.d))
        blocks = floordiv(self.s + self.rows - 1, self.rows)
        own = (self.weights, self.top, self.total, self.scale, *extra)
        return Kernel(name, (self.q, self.k, self.v, self.out), symbols, own, (grid(self.g, blocks, *body),))


def named(dim: Dim) -> Symbol:
    assert not isinstance(dim, int)
    found = dim.is_symbol
    assert found is not None
    return found


def on_x86(target: Target) -> Kernel:
    """Scores and sums in scratch; both right operands are packed."""
    lanes = target.lanes(4)
    width = -(-FEATURES // lanes) * lanes
    it = Attention(ROWS, 2 * lanes, width)
    sums, panel = scratch("sums", ROWS * width), scratch("panel", max(FEATURES * it.keys, it.keys * width) + lanes)
    i, j, c, r, e, f, u, o, a, b = map(var, "ijcrefuoab")
    first = it.keys * it.n

    def multiply(acc: Buffer, stride: int, cols: Interval, red: Interval, lhs: Load, begins: int) -> Multiply:
        at = (as_dim(red.var) - red.start) * stride + as_dim(cols.var) - cols.start
        tile = Tile(ROWS, stride, (Operand.RHS,))
        rows = Interval(named(i), 0, it.height)
        return Multiply(acc, 0, stride, rows, cols, red, lhs, Load(panel, at), tile, Algorithm.TILE, first=begins)

    keys, features = Interval(named(j), first, it.width), Interval(named(c), 0, it.d)
    top, total = Ref("top", F32), Ref("total", F32)
    score, weight = Load(it.weights, r * it.keys + e), Load(it.weights, r * it.keys + f)
    exp = call(Scalar.EXP, call(Scalar.SUB, weight, Load(it.top, r)))
    block = (
        Pack(panel, 0, it.keys, features, keys, it.key(it.k, j, c), it.keys),
        multiply(it.weights, it.keys, keys, features, it.query(i, c), 1),
        serial(
            r, it.height,
            lane(e, it.width, folds=(scalar_fold(top, Scalar.MAX, number(-math.inf), score),)),
            *it.grow(r, top),
            lane(f, it.width, Store(it.weights, r * it.keys + f, exp)),
            lane(o, it.width, folds=(
                scalar_fold(total, Scalar.ADD, number(0.0), Load(it.weights, r * it.keys + o)),)),
            Store(it.total, r, call(Scalar.ADD, call(Scalar.MUL, Load(it.total, r), Load(it.scale, r)), total)),
            lane(u, it.d, Store(sums, r * width + u, call(
                Scalar.MUL, Load(sums, r * width + u), Load(it.scale, r)))),
        ),
        Pack(panel, 0, width, keys, features, it.key(it.v, j, c), width),
        multiply(sums, width, features, keys, Load(it.weights, i * it.keys + j - first), 0),
    )  # fmt: skip
    quotient = call(Scalar.DIV, Load(sums, a * width + b), Load(it.total, a))
    result = serial(a, it.height, lane(b, it.d, Store(it.out, (it.g * ROWS + a) * it.d + b, quotient)))
    loop = serial(it.n, floordiv(it.t + it.keys - 1, it.keys), *block)
    return it.kernel("attention", (sums, panel), *it.start(sums, ROWS * width), loop, result)


def on_gpus(target: Target) -> Kernel:
    """Scores and weighted values in registers, each of a block of keys; their sums in scratch."""
    of = next(of for of in blockings(F32, target.warp) if (of.rows, of.columns) == (32, 64))
    rows, columns, depth = of.rows, of.columns, of.depth
    it = Attention(rows, columns, columns)
    size = rows * columns
    left, right = SliceLayout(rows, depth, 4, 4), SliceLayout(columns, depth, 4, 4)
    slices = scratch("slices", max(2 * (left.size + right.size), size))
    scores, values = (Buffer(name, F32, Space.REGISTERS, size) for name in ("scores", "values"))
    sums = scratch("sums", size)
    i, j, c, r, e, f, x, y, z, a = map(var, "ijcrefxyza")
    h, p = var("h"), var("p")
    first = columns * it.n

    def staging(over: Dim, extent: Dim, *body: Stmt) -> Stmt:
        return Loop(Role.SERIAL, named(over), extent, body, step=depth)

    def staged(layout: SliceLayout, place: int, own: Interval, red: Interval, value: Expr) -> Pack:
        own_slices = StagedSlices(depth, layout.most, 2, layout.size)
        return Pack(slices, place, layout.stride, red, own, value, staged=own_slices)

    def slice_of(layout: SliceLayout, place: int, own: Interval, red: Interval) -> Load:
        return Load(slices, place + layout.place(as_dim(own.var) - own.start, as_dim(red.var) - red.start))

    def multiply(acc: Buffer, cols: Interval, red: Interval, lhs: Load) -> Multiply:
        queries = Interval(named(i), 0, it.height)
        rhs = slice_of(right, 2 * left.size, cols, red)
        return Multiply(acc, 0, columns, queries, cols, red, lhs, rhs, of.tile, Algorithm.CORES, first=0)

    queries, keys = Interval(named(i), 0, it.height), Interval(named(j), first, it.width)
    of_slice = Interval(named(c), h, dim_min(depth, it.d - h))
    features = Interval(named(c), 0, it.d)
    of_keys = Interval(named(j), first + p, dim_min(depth, it.width - p))
    score, top, total = Load(it.weights, r * columns + e), Ref("top", F32), Ref("total", F32)
    row, column = floordiv(x, columns), mod(x, columns)
    exp = call(Scalar.EXP, call(Scalar.SUB, Load(it.weights, x), Load(it.top, row)))
    added = scalar_fold(total, Scalar.ADD, number(0.0), Load(it.weights, y * columns + f))
    place = floordiv(z, columns)
    shrunk = call(Scalar.MUL, Load(sums, z), Load(it.scale, place))
    block = (
        Clear(scores),
        staging(
            h, it.d,
            staged(left, 0, queries, of_slice, it.query(i, c)),
            staged(right, 2 * left.size, keys, of_slice, it.key(it.k, j, c)),
            multiply(scores, keys, of_slice, slice_of(left, 0, queries, of_slice)),
        ),
        Spill(it.weights, 0, scores, 0, rows, columns),
        lane(
            r, it.height,
            serial(e, it.width, folds=(scalar_fold(top, Scalar.MAX, number(-math.inf), score),)),
            *it.grow(r, top),
        ),
        # Beyond the edges weights are 0.
        lane(
            x, size,
            below(row, it.height, below(column, it.width, Store(it.weights, x, exp))),
            below(it.width, column + 1, Store(it.weights, x, number(0.0))),
        ),
        lane(y, it.height, serial(f, it.width, folds=(added,)), Store(it.total, y, call(
            Scalar.ADD, call(Scalar.MUL, Load(it.total, y), Load(it.scale, y)), total))),
        Clear(values),
        staging(
            p, it.width,
            staged(right, 2 * left.size, features, of_keys, it.key(it.v, j, c)),
            multiply(values, features, of_keys, Load(it.weights, i * columns + j - first)),
        ),
        Spill(slices, 0, values, 0, rows, columns),
        lane(z, size, below(place, it.height, Store(sums, z, call(Scalar.ADD, shrunk, Load(slices, z))))),
    )  # fmt: skip
    at = floordiv(a, columns)
    quotient = call(Scalar.DIV, Load(sums, a), Load(it.total, at))
    store = Store(it.out, (it.g * rows + at) * it.d + mod(a, columns), quotient)
    result = lane(a, size, below(at, it.height, below(mod(a, columns), it.d, store)))
    loop = serial(it.n, floordiv(it.t + columns - 1, columns), *block)
    return it.kernel("attention", (slices, scores, values, sums), *it.start(sums, size), loop, result)


def inputs(s: int, t: int, d: int) -> tuple[list[Array], Array]:
    rng = np.random.default_rng(s + t)
    q, k, v = (rng.standard_normal((n, d)).astype(np.float32) for n in (s, t, t))
    scores = q.astype(np.float64) @ k.T.astype(np.float64)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return [q, k, v], weights / weights.sum(axis=1, keepdims=True) @ v


@pytest.mark.parametrize("target", runnable(), ids=str)
def test_attention_on_x86(target: Target) -> None:
    (compiled,) = compile_kernels([on_x86(target)], target)
    for s, t, d in SIZES:
        given, expected = inputs(s, t, d)
        out = np.zeros((s, d), np.float32)
        compiled((s, t, d), [*given, out])
        np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("arch", ["sm_90a", "gfx1030", "gfx90a"])
def test_attention_on_gpus(arch: str, require_tool: Callable[..., str]) -> None:
    """Threads in order and in random orders, one block and several."""
    require_tool("g++")
    target = gpu_target("cuda" if arch.startswith("sm") else "rocm", arch)
    kernel = on_gpus(target)
    check(kernel)
    text = emit_kernel(kernel, target, block=128)
    assert isinstance(text.scratch_bytes, int)
    module = ShimModule([text], dialect_of(target), target.warp)
    for s, t, d in SIZES:
        given, expected = inputs(s, t, d)
        for grid_size, seed in ((1, 0), (3, 1), (2, 2)):
            out = np.zeros((s, d), np.float32)
            module.run(text.symbol, [*given, out], [s, t, d], grid_size, text.threads, text.scratch_bytes, seed)
            np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)


def test_no_thread_reads_what_another_one_writes(require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    target = gpu_target("cuda", "sm_90a")
    text = emit_kernel(on_gpus(target), target, block=128)
    assert isinstance(text.scratch_bytes, int)
    module = ShimModule([text], dialect_of(target), target.warp, races=True)
    given, _ = inputs(33, 130, 16)
    out = np.zeros((33, 16), np.float32)
    module.run(text.symbol, [*given, out], [33, 130, 16], 1, text.threads, text.scratch_bytes, 1)


def test_text(golden: Callable[[str, str], None]) -> None:
    golden("two_contractions.txt", kernel_text(on_gpus(gpu_target("cuda", "sm_90a"))))


def test_packs_of_x86_are_not_generated_for_gpus_yet() -> None:
    cuda = gpu_target("cuda", "sm_90a")
    with pytest.raises(NotYetError) as caught:
        emit_kernel(on_x86(runnable()[0]), cuda)
    assert str(caught.value) == (
        "kernel attention: a Pack outside of a loop that stages what it reads, or with sums in scratch, is not "
        "generated for GPUs yet."
    )
