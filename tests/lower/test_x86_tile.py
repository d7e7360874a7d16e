"""Contractions on x86: layouts, epilogues, tails, blocking, dtypes and targets, against NumPy in float64.

Sizes are parameters of a kernel, so one compiled kernel runs all of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.base import Source
from dyn.backends.x86 import X86Backend, host_target, target_for
from dyn.dtypes import DType
from dyn.errors import IRError
from dyn.lower.x86 import tile as tile_leaves
from dyn.lower.x86.emit import emit_kernel, link
from dyn.lower.x86.tile_stream import steps_together
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import (
    Apply,
    Buffer,
    Const,
    Expr,
    Index,
    Kernel,
    Load,
    Loop,
    Operand,
    Ref,
    Role,
    Stmt,
    Store,
    Tile,
    TileContract,
    known_factor,
)
from dyn.schedule.kernel_verifier import check
from dyn.schedule.sizes import Reach
from dyn.schedule.target import Target
from dyn.schedule.x86 import blocked as tile_loops
from dyn.schedule.x86.blocking import STREAMED_BYTES, CacheBlocking
from dyn.schedule.x86.blocking import blocking as blocking_of
from dyn.schedule.x86.contractions import contract_schedules
from dyn.shapes import Dim, Symbol, as_dim, dim_min, symbol
from tests.guard_pages import GuardedMemory
from tests.lower.contractions import LHS, PLACE, PLACE_I8, RHS, Axes, chunked, contraction, joined, store_bias
from tests.lower.x86_run import Compiled, compile_kernels

F32, F64, I32, I64 = dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64
SIZES = (0, 1, 2, 3, 7, 8, 9, 47, 48, 49, 64, 100)
#: (rows, columns, reduced): more than one block of each.
BLOCKED = ((9, 50, 3000), (300, 49, 2100), (17, 100, 1025), (3, 500, 1100))


def tiled(rows: int, vectors: int, *, packed: bool = True, dtype: DType = F32) -> Tile:
    """A tile some vectors of this machine wide."""
    lanes = host_target().lanes(dtype.itemsize)
    return Tile(rows, vectors * lanes, (Operand.RHS,) if packed else ())


PACKED = tiled(8, 3)
DIRECT = tiled(4, 6, packed=False)
#: Panels that take turns at each tile of rows, and short blocks of the reduced dimension.
SHARED = CacheBlocking(low_tiles=False, unroll=2, panels=2, depth=64, ahead=8)


@contextmanager
def blocked(blocking: CacheBlocking) -> Iterator[None]:
    """Code for caches for which contractions are blocked like this."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (tile_leaves, tile_loops):
            patch.setattr(module, "blocking", lambda target: blocking)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        yield


def lying(dtype: DType, *, columns: bool = True, reduced: bool = False, left: bool = True) -> Reach:
    """Operands of one dtype in memory."""
    return Reach(dtype, dtype, lhs_reduced=left, rhs_columns=columns, rhs_reduced=reduced)


Values = np.ndarray


def sample(count: int, seed: int = 0) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    return [tuple(int(x) for x in rng.choice(SIZES, 3)) for _ in range(count)]  # pyright: ignore[reportReturnType]


def values(shape: Sequence[int], dtype: DType, seed: int) -> Values:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.np)
    return rng.integers(-50, 50, shape).astype(dtype.np)


def close(got: Values, a: Values, b: Values, extra: Values | float = 0.0) -> None:
    """Equal to a·b + extra, to half a rounding for each step of the reduced dimension, as a rule."""
    assert got.shape == (a.shape[0], b.shape[1])
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, a @ b + np.asarray(extra, got.dtype))
        return
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = np.abs(wide_a) @ np.abs(wide_b) * np.finfo(got.dtype).eps * max(a.shape[1], 2) * 0.5
    error = np.abs(got - (wide_a @ wide_b + extra))
    bound = bound + np.finfo(got.dtype).eps * (np.abs(extra) + np.abs(got))
    assert (error <= bound).all(), (a.shape, b.shape, np.argwhere(error > bound)[:5], error.max())


def run(kernel: Compiled, a: Values, b: Values, *more: Values, lhs: str = "mk", rhs: str = "kn") -> Values:
    """The result for a of (m, k) and b of (k, n), laid out as the kernel wants them."""
    m, k = a.shape
    n = b.shape[1]
    c = np.full((m, n), 77, kernel.kernel.buffers[2].dtype.np)
    left = np.ascontiguousarray(a.T if lhs == "km" else a)
    right = np.ascontiguousarray(b.T if rhs == "nk" else b)
    kernel((m, n, k), [left, right, c, *more])
    return c


def check_all(kernel: Compiled, dtype: DType, sizes: Sequence[tuple[int, int, int]], lhs: str, rhs: str) -> None:
    for m, n, k in sizes:
        a, b, bias = values((m, k), dtype, 1), values((k, n), dtype, 2), values((n,), dtype, 3)
        close(run(kernel, a, b, bias, lhs=lhs, rhs=rhs), a, b, bias)


LAYOUTS = [(left, right) for left in LHS for right in RHS]


@pytest.mark.parametrize("dtype", [F32, F64, I32, I64], ids=str)
def test_layouts_and_dtypes(dtype: DType) -> None:
    """Every layout of both operands, packed and direct (dot products for a transposed right operand)."""
    packed, wide = tiled(8, 3, dtype=dtype), tiled(4, 6 if dtype is F32 else 3, packed=False, dtype=dtype)
    tiles = (packed,) if dtype is I64 else (packed, wide, replace(wide, rows=8, in_order=True))
    cases = [(left, right, s) for s in tiles for left, right in LAYOUTS]
    kernels = compile_kernels(
        [contraction("g", left, right, s, dtype=dtype, epilogue=store_bias(dtype)) for left, right, s in cases]
    )
    for (left, right, _), kernel in zip(cases, kernels, strict=True):
        check_all(kernel, dtype, [*sample(40), *BLOCKED], left, right)


def test_narrow_integers() -> None:
    """Bytes wrap around."""
    (tile,) = [v.tile for v in contract_schedules(host_target(), dtypes.int8, lying(dtypes.int8))]
    kernels = compile_kernels([contraction("g", "mk", rhs, tile, dtype=dtypes.int8) for rhs in RHS])
    for kernel, rhs in zip(kernels, RHS, strict=True):
        for m, n, k in sample(20):
            a, b = values((m, k), dtypes.int8, 1), values((k, n), dtypes.int8, 2)
            np.testing.assert_array_equal(run(kernel, a, b, rhs=rhs), a @ b)


@pytest.mark.parametrize(("rows", "vectors", "unroll"), [(6, 4, 4), (12, 2, 4), (1, 1, 4), (5, 2, 3)])
def test_tile_shapes(rows: int, vectors: int, unroll: int) -> None:
    both = [tiled(rows, vectors, packed=packed) for packed in (True, False)]
    with blocked(CacheBlocking(unroll=unroll)):
        kernels = compile_kernels([contraction("g", "mk", "kn", t, epilogue=store_bias(F32)) for t in both])
    for kernel in kernels:
        check_all(kernel, F32, [*sample(40), *BLOCKED[:2]], "mk", "kn")


def test_columns_between_vectors() -> None:
    """A tile of some family's that is no whole number of vectors wide has the next one's accumulators."""
    (kernel,) = compile_kernels([contraction("g", "mk", "kn", Tile(3, 20), epilogue=store_bias(F32))])
    check_all(kernel, F32, sample(40), "mk", "kn")


SHARING = (
    (PACKED, SHARED),
    (tiled(6, 4), replace(SHARED, panels=3)),
    (tiled(1, 2), replace(SHARED, panels=4, depth=0)),
    (tiled(6, 4), replace(SHARED, depth=128, left_depth=64, left_bytes=24 * 64 * 4, left_panels=4)),
)


@pytest.mark.parametrize(("tile", "blocking"), SHARING)
def test_panels_that_share_rows(tile: Tile, blocking: CacheBlocking) -> None:
    """Every layout; as many columns as come, so that some panels are narrow."""
    with blocked(blocking):
        kernels = compile_kernels([contraction("g", x, y, tile, epilogue=store_bias(F32)) for x, y in LAYOUTS])
    for (left, right), kernel in zip(LAYOUTS, kernels, strict=True):
        check_all(kernel, F32, [*sample(40), *BLOCKED], left, right)


@pytest.mark.parametrize(("tile", "blocking"), SHARING)
def test_one_kernel_packs_panels_that_are_all_whole(tile: Tile, blocking: CacheBlocking) -> None:
    """Its tile has as few rows as there are panels; there may be fewer rows or panels than that, or none."""
    statics = [(None, 96, 64), (None, 384, None), (None, 192, 40), (3, 240, None), (None, 100, 130), (None, 48, 7)]
    with blocked(blocking):
        shared = compile_kernels(
            [contraction("g", "mk", "kn", tile, extents=x, epilogue=store_bias(F32)) for x in statics]
        )
    plain = [contraction("g", "mk", "kn", PACKED, extents=x, epilogue=store_bias(F32)) for x in statics]
    pairs = zip(shared, compile_kernels(plain), strict=True)
    for (kernel, other), (rows, n, depth) in zip(pairs, statics, strict=True):
        for m in SIZES if rows is None else (rows,):
            for k in (0, 1, 63, 64, 65, 200) if depth is None else (depth,):
                a, b, bias = values((m, k), F32, 1), values((k, n), F32, 2), values((n,), F32, 3)
                got = run(kernel, a, b, bias)
                close(got, a, b, bias)
                np.testing.assert_array_equal(got, run(other, a, b, bias))


def test_static_extents() -> None:
    """Literals instead of dims: fewer micro-kernels, the same results."""
    statics = [
        (None, 96, 64),
        (None, 64, 0),
        (1, 100, None),
        (3, None, 70),
        (16, 100, None),
        (7, 31, 5),
        (0, 48, 3),
        (8, 0, 4),
        (None, 16, 1500),
    ]
    cases = [(s, extents) for extents in statics for s in (PACKED, DIRECT)]
    kernels = compile_kernels([contraction("g", "mk", "kn", s, extents=extents) for s, extents in cases])
    for kernel, (_, extents) in zip(kernels, cases, strict=True):
        for free in (0, 1, 5, 8, 21):
            m, n, k = [free if e is None else e for e in extents]
            a, b = values((m, k), F32, 1), values((k, n), F32, 2)
            close(run(kernel, a, b), a, b)


# --- epilogues ------------------------------------------------------------------------------------------------------


def test_gelu_residual_and_transposed_store() -> None:
    """An epilogue that computes, loads another buffer at (row, col), and stores two results, one transposed."""
    c, t, residual = Buffer("c", F32), Buffer("t", F32), Buffer("residual", F32)

    def ap(fn: Scalar, *args: Expr) -> Expr:
        return Apply(fn, args, F32)

    def gelu(x: Expr) -> Expr:
        half = ap(Scalar.MUL, x, Const(F32, 0.5))
        inner = ap(Scalar.ERF, ap(Scalar.MUL, x, Const(F32, 0.5**0.5)))
        return ap(Scalar.MUL, half, ap(Scalar.ADD, inner, Const(F32, 1.0)))

    def make(x: Axes, acc: Expr) -> tuple[tuple[Buffer, ...], Stmt]:
        del x
        return (c, residual, t), Store(c, 0, acc)  # replaced below

    base = contraction("gelu", "mk", "kn", PACKED, epilogue=make)
    (tile,) = base.body
    assert isinstance(tile, TileContract)
    i, j, n, m = as_dim(tile.row), as_dim(tile.col), tile.col_extent, tile.row_extent
    total = ap(Scalar.ADD, gelu(tile.acc), Load(residual, i * n + j))
    scaled = ap(Scalar.MUL, total, Apply(Scalar.CAST, (Index(I64, i + 1),), F32))
    tile = replace(tile, epilogue=(Store(c, i * n + j, total), Store(t, j * m + i, scaled)))
    (kernel,) = compile_kernels([replace(base, body=(tile,))])
    from scipy.special import erf

    for m_, n_, k_ in [*sample(40), (20, 50, 1100)]:
        a, b = values((m_, k_), F32, 1) * np.float32(0.2), values((k_, n_), F32, 2)
        r = values((m_, n_), F32, 3)
        t_ = np.full((n_, m_), 7, np.float32)
        got = run(kernel, a, b, r, t_)
        x = a.astype(np.float64) @ b
        want = x * 0.5 * (1 + erf(x * 0.5**0.5)) + r
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * max(k_, 1) ** 0.5)
        np.testing.assert_allclose(t_, (got * np.arange(1, m_ + 1)[:, None].astype(np.float32)).T, rtol=1e-6)


# --- operands that are computed -------------------------------------------------------------------------------------


def to_f32(place: Callable[[Axes], Dim]) -> Callable[[Axes], Expr]:
    return lambda x: Apply(Scalar.CAST, (Load(PLACE, place(x)),), F32)


def test_bfloat16_operands() -> None:
    """A cast in front of either operand, in each layout: computed while it is packed."""
    cases = [(left, right, PACKED) for left, right in LAYOUTS] + [("mk", "kn", DIRECT)]
    bf16 = dtypes.bfloat16
    kernels = compile_kernels(
        [contraction("g", to_f32(LHS[x]), to_f32(RHS[y]), s, operands=(bf16, bf16)) for x, y, s in cases]
    )
    for (left, right, _), kernel in zip(cases, kernels, strict=True):
        for m, n, k in [*sample(40), *BLOCKED]:
            a = values((m, k), F32, 1).astype(ml_dtypes.bfloat16)
            b = values((k, n), F32, 2).astype(ml_dtypes.bfloat16)
            close(run(kernel, a, b, lhs=left, rhs=right), a.astype(np.float32), b.astype(np.float32))


@pytest.mark.parametrize("n", [3, 16, 35])
def test_computed_columns_end_with_the_operand(n: int) -> None:
    """Known columns that fill no vector: nothing is read behind the last one."""
    tile = Tile(8, 3 * host_target().lanes(4), ())
    bf16 = dtypes.bfloat16
    made = contraction("g", "mk", to_f32(RHS["kn"]), tile, operands=(F32, bf16), extents=(None, n, None))
    (kernel,) = compile_kernels([made])
    for m, k in [(1, 1), (2, 7), (8, 9), (3, 16)]:
        a, b = values((m, k), F32, 1), values((k, n), F32, 2).astype(ml_dtypes.bfloat16)
        memory = GuardedMemory(b.nbytes, 2)
        guarded = memory.array(b.shape, b.dtype)
        guarded[...] = b
        close(run(kernel, a, guarded), a, b.astype(np.float32))
        memory.free()


BF16, F16, I8, U8, I16 = dtypes.bfloat16, dtypes.float16, dtypes.int8, dtypes.uint8, dtypes.int16


@pytest.mark.parametrize(
    ("left", "right", "acc"),
    [(BF16, BF16, F32), (F16, F16, F32), (F32, BF16, F32), (F32, I8, F32), (I8, F16, F32), (I8, I8, I32),
     (U8, I8, I32), (I16, U8, I64), (F32, F32, F64), (BF16, F32, F64), (dtypes.uint16, dtypes.uint8, dtypes.uint32)],
    ids=str,
)  # fmt: skip
def test_operands_in_dtypes_of_their_own(left: DType, right: DType, acc: DType) -> None:
    """Each is read as it lies, where that is quickest, and multiplied as the accumulators' dtype."""
    lanes = host_target().lanes(acc.itemsize)
    tiles = Tile(8, 2 * lanes), Tile(8, 4 * lanes, ())
    cases = [(x, y, tile) for tile in tiles for x, y in LAYOUTS]
    made = [contraction("g", x, y, tile, dtype=acc, operands=(left, right)) for x, y, tile in cases]
    for (x, y, _), kernel in zip(cases, compile_kernels(made), strict=True):
        for m, n, k in [*sample(25), (9, 50, 1100), (3, 130, 1025)]:
            a, b = values((m, k), left, 1), values((k, n), right, 2)
            close(run(kernel, a, b, lhs=x, rhs=y), a.astype(acc.np), b.astype(acc.np))
    if host_target().avx512:
        texts = [emit_kernel(kernel, host_target()).text for kernel in made]
        narrow = [text for (x, _, tile), text in zip(cases, texts, strict=True) if x == "mk" and not tile.staged]
        own = [dtype.short if dtype is not acc else "own" for dtype in (left, right)]
        assert all(f".{own[0]}.{own[1]}(" in text and "pack" not in text for text in narrow)


AVX2 = Target("x86", "x86-64-v3", vector_bytes=32, registers=16)
#: A machine with AVX-VNNI, and one that has the same instruction of AVX-512 for 256 bits.
AVX_VNNI = replace(AVX2, features="+avx2,+fma,+f16c,+avxvnni")
VNNI_256 = replace(AVX2, features="+avx2,+fma,+f16c,+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx512vnni")
#: This machine without tile registers, which have a file of their own.
VECTORS = replace(host_target(), features=host_target().features.replace("+amx", "-amx"))
#: Who runs what is compiled for AVX-VNNI.
OF_AVX_VNNI = ("avxvnni", AVX_VNNI, None) if host_target().has("avxvnni") else ("avx512vnni", AVX_VNNI, VNNI_256)
#: Targets with bytes by fours, with pairs alone, and with neither: what this machine has to have, the target, what is
#: compiled for, and the unit of bytes and that of others.
UNITS = [
    ("avx512vnni", VECTORS, VECTORS, "vpdpbusd", "vpmaddwd"),
    ("avx512bw", Target("x86", "x86-64-v4", vector_bytes=64, registers=32), None, "vpmaddwd", "vpmaddwd"),
    (*OF_AVX_VNNI, "vpdpbusd", "vpmaddwd"),
    ("avx2", AVX2, None, "vpmaddwd", "vpmaddwd"),
    ("sse2", Target("x86", "x86-64", vector_bytes=16, registers=16), None, "", ""),
]
UNIT_NAMES = ["avx512vnni", "avx512bw", "avxvnni", "avx2", "sse2"]
#: Around a vector, a word and a tile of each of them.
WORD_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65)


@pytest.mark.parametrize(("feature", "target", "machine", "of_bytes", "of_others"), UNITS, ids=UNIT_NAMES)
@pytest.mark.parametrize(
    ("left", "right"), [(I8, I8), (U8, I8), (I8, U8), (U8, U8), (I16, I16), (I8, I16)], ids=str
)  # fmt: skip
def test_products_in_words(
    left: DType, right: DType, feature: str, target: Target, machine: Target | None, of_bytes: str, of_others: str
) -> None:
    """All numbers of narrow integers, the least and the greatest among them; what wraps, wraps."""
    if not host_target().has(feature):
        pytest.skip(f"this machine has no {feature}")  # it is never chosen here
    (*_, variant) = contract_schedules(target, I32, Reach(left, right, rhs_columns=True))
    small = max(left.itemsize, right.itemsize) == 1 and (left, right) != (U8, U8)
    assert variant.tile.unit == (of_bytes if small else of_others)
    assert variant.note.endswith(variant.tile.unit)
    has_unit = bool(variant.tile.unit)
    tiles = [variant.tile, *[replace(variant.tile, rows=12, columns=2 * target.lanes(4)) for _ in range(has_unit)]]
    cases = [(x, y, tile) for tile in tiles for x, y in LAYOUTS]
    made = [
        contraction("g", x, y, tile, dtype=I32, operands=(left, right), epilogue=store_bias(I32))
        for x, y, tile in cases
    ]
    rng = np.random.default_rng(7)
    around = [tuple(int(x) for x in rng.choice(WORD_SIZES, 3)) for _ in range(25)]
    for (x, y, tile), kernel in zip(cases, compile_kernels(made, target, machine), strict=True):
        assert f".{tile.unit}" in kernel.text.text if tile.unit else "words" not in kernel.text.text
        for m, n, k in [*sample(12), *around, (9, 50, 1101), (300, 49, 67), (2, 130, 5)]:
            bias = np.arange(n, dtype=np.int32)
            a, b = [
                rng.choice([np.iinfo(d.np).min, np.iinfo(d.np).max, -1 if d is not U8 else 255, 0, 1, 77], shape)
                for d, shape in ((left, (m, k)), (right, (k, n)))
            ]
            want = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32) + bias
            got = run(kernel, a.astype(left.np), b.astype(right.np), bias, lhs=x, rhs=y)
            np.testing.assert_array_equal(got, want)


def test_the_least_numbers_wrap_by_pairs() -> None:
    """Two products of -32768 are 2**31, which no sum of a word holds: it wraps as the sum does."""
    (*_, variant) = contract_schedules(AVX2, I32, Reach(I16, I16, rhs_columns=True))
    (kernel,) = compile_kernels([contraction("g", "mk", "kn", variant.tile, dtype=I32, operands=(I16, I16))], AVX2)
    a, b = np.full((7, 6), -32768, np.int16), np.full((6, 17), -32768, np.int16)
    np.testing.assert_array_equal(run(kernel, a, b), np.full((7, 17), -(2**31), np.int32))


@pytest.mark.parametrize(("feature", "target", "machine"), [row[:3] for row in UNITS], ids=UNIT_NAMES)
def test_words_end_with_the_operands(feature: str, target: Target, machine: Target | None) -> None:
    """Nothing is read behind the last element of either operand."""
    if not host_target().has(feature):
        pytest.skip(f"this machine has no {feature}")
    (*_, variant) = contract_schedules(target, I32, Reach(I8, I8, rhs_columns=True))
    made = [contraction("g", x, y, variant.tile, dtype=I32, operands=(I8, I8)) for x, y in LAYOUTS]
    for (x, y), kernel in zip(LAYOUTS, compile_kernels(made, target, machine), strict=True):
        for m, n, k in [(1, 1, 1), (3, 5, 7), (8, 16, 16), (9, 17, 33), (2, 31, 3), (7, 8, 65), (5, 9, 2)]:
            memory: list[GuardedMemory] = []
            guarded: list[np.ndarray] = []
            for value, turned in ((values((m, k), I8, 1), x == "km"), (values((k, n), I8, 2), y == "nk")):
                memory.append(GuardedMemory(value.nbytes, 1))
                guarded.append(memory[-1].array(value.T.shape if turned else value.shape, value.dtype))
                guarded[-1][...] = value.T if turned else value
            c = np.full((m, n), 77, np.int32)
            kernel((m, n, k), [*guarded, c])
            a, b = [g.T if turned else g for g, turned in zip(guarded, (x == "km", y == "nk"), strict=True)]
            np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
            del guarded, a, b
            for one in memory:
                one.free()


def test_avx_vnni_is_encoded_by_vex() -> None:
    """Machines with AVX-VNNI and no AVX-512 know no other encoding."""
    (*_, variant) = contract_schedules(AVX_VNNI, I32, Reach(I8, I8, rhs_columns=True))
    text = emit_kernel(contraction("g", "mk", "kn", variant.tile, dtype=I32, operands=(I8, I8)), AVX_VNNI)
    lines = X86Backend(AVX_VNNI).assembly(Source(link([text]), (text.symbol,))).splitlines()
    products = [line for line in lines if "\tvpdpbusd\t" in line]
    assert products
    assert all("{vex}" in line for line in products)
    assert not [line for line in lines if "zmm" in line or "%k" in line]


def by_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What ``vdpbf16ps`` is defined to compute, but for subnormal numbers: of two neighbours the second product is
    added first, and each is rounded as it is added."""
    rows, reduced = a.shape
    if reduced % 2:
        a, b = np.pad(a, ((0, 0), (0, 1))), np.pad(b, ((0, 1), (0, 0)))
    wide, right = a.astype("f8"), b.astype("f8")
    acc = np.zeros((rows, b.shape[1]), "f4")
    for k in range(a.shape[1]):
        # Products of bfloat16 are exact in float64; sums with float32 are but for what a second rounding can see.
        acc = (acc + wide[:, k ^ 1, None] * right[k ^ 1]).astype("f4")
    return acc


@pytest.mark.parametrize("tile", [Tile(8, 48, (Operand.LHS, Operand.RHS), unit="vdpbf16ps"), Tile(8, 48, ())], ids=str)
def test_pairs_of_bfloat16(tile: Tile) -> None:
    """By the unit, and of few rows by multiply-adds in the unit's order: the same bits."""
    if not host_target().has("avx512bf16"):
        pytest.skip("this machine has no avx512bf16")  # it is never chosen here
    layouts = LAYOUTS if tile.unit else [("mk", "kn")]
    made = [contraction("g", x, y, tile, operands=(BF16, BF16)) for x, y in layouts]
    rng = np.random.default_rng(3)
    for (x, y), kernel in zip(layouts, compile_kernels(made), strict=True):
        assert ".vdpbf16ps" in kernel.text.text if tile.unit else ".pairs" in kernel.text.text
        for m, n, k in [*sample(12), (9, 50, 1101), (5, 130, 5), (8, 49, 66)]:
            if not tile.unit and m > 8:
                continue
            a, b = [rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n))]
            np.testing.assert_array_equal(run(kernel, a, b, lhs=x, rhs=y), by_pairs(a, b))


def test_words_of_what_is_computed() -> None:
    """A mask on one operand, the negative of the other one: words are put together of computed elements."""
    if not host_target().has("avx512vnni"):
        pytest.skip("this machine has no avx512vnni")

    def lower(x: Axes) -> Expr:
        inside = Apply(Scalar.LE, (Index(I64, x.r), Index(I64, x.i)), dtypes.bool_)
        return Apply(Scalar.SELECT, (inside, Load(PLACE_I8, x.i * x.k + x.r), Const(I8, 3)), I8)

    def negative(x: Axes) -> Expr:
        return Apply(Scalar.NEG, (Load(PLACE_I8, x.r * x.n + x.j),), I8)

    tile = Tile(8, 3 * host_target().lanes(4), (Operand.LHS, Operand.RHS), unit="vpdpbusd")
    (kernel,) = compile_kernels([contraction("g", lower, negative, tile, dtype=I32, operands=(I8, I8))])
    for m, n, k in sample(25):
        a, b = values((m, k), I8, 1), values((k, n), I8, 2)
        masked = np.where(np.arange(k) <= np.arange(m)[:, None], a, np.int8(3)).astype(np.int32)
        np.testing.assert_array_equal(run(kernel, a, b), masked @ -b.astype(np.int32))


def test_a_unit_that_there_is_not() -> None:
    tile = Tile(8, 48, (Operand.LHS, Operand.RHS), unit="vpdpbusd")
    with pytest.raises(ValueError, match="has no unit vpdpbusd for i16 and i16"):
        emit_kernel(contraction("g", "mk", "kn", tile, dtype=I32, operands=(I16, I16)), host_target())


def test_operands_that_accumulators_do_not_hold() -> None:
    with pytest.raises(IRError, match="a contraction multiplies i32 in f32, which rounds it"):
        check(contraction("g", "mk", "kn", PACKED, operands=(F32, I32)))


def test_masked_and_scaled_operands() -> None:
    """A lower triangle of the left operand by a mask; a right operand that is scaled, with columns reversed."""

    def lower(x: Axes) -> Expr:
        inside = Apply(Scalar.LE, (Index(I64, x.r), Index(I64, x.i)), dtypes.bool_)
        return Load(PLACE, x.i * x.k + x.r, mask=inside, other=Const(F32, 0.0))

    def scaled(x: Axes) -> Expr:
        factor = Apply(Scalar.CAST, (Index(I64, x.r + 1),), F32)
        return Apply(Scalar.MUL, (Load(PLACE, x.r * x.n + x.n - 1 - x.j), factor), F32)

    for kernel in compile_kernels([contraction("g", lower, scaled, s) for s in (PACKED, DIRECT)]):
        for m, n, k in [*sample(30), (20, 50, 1100)]:
            a, b = values((m, k), F32, 1), values((k, n), F32, 2)
            want = b[:, ::-1] * np.arange(1, k + 1, dtype=np.float32)[:, None]
            close(run(kernel, a, b), np.tril(a), want)


def test_gathered_rows() -> None:
    """The left operand's rows are looked up in a table."""
    ids = Buffer("ids", I64)
    v = symbol("v")

    def looked_up(x: Axes) -> Expr:
        return Load(PLACE, as_dim(v) * x.k + x.r, bound=((v, Load(ids, x.i)),))

    def make(x: Axes, acc: Expr) -> tuple[tuple[Buffer, ...], Stmt]:
        c = Buffer("c", F32)
        return (c, ids), Store(c, x.i * x.n + x.j, acc)

    (kernel,) = compile_kernels([contraction("g", looked_up, "kn", PACKED, epilogue=make)])
    for m, n, k in [(0, 4, 5), (1, 1, 1), (40, 50, 70), (130, 49, 1200)]:
        table, b = values((10, k), F32, 1), values((k, n), F32, 2)
        which = np.random.default_rng(3).integers(0, 10, m)
        c = np.full((m, n), 7, np.float32)
        kernel((m, n, k), [table, b, c, which])
        close(c, table[which], b)


# --- strides, batches, chunks ---------------------------------------------------------------------------------------


def strided_batch() -> tuple[Kernel, tuple[Symbol, ...]]:
    """``c[g, i, j] = a[…] · b[…]`` with every stride a dim, zero included."""
    names = ("g", "m", "n", "k", "ag", "ai", "ar", "bg", "br", "bj")
    dims = tuple(symbol(s) for s in names)
    g_, m, n, k, ag, ai, ar, bg, br, bj = [as_dim(d) for d in dims]
    g, i, j, r = [symbol(s) for s in "gijr"]
    a, b, c = Buffer("a", F32), Buffer("b", F32), Buffer("c", F32)
    acc = Ref("acc", F32)
    lhs = Load(a, as_dim(g) * ag + as_dim(i) * ai + as_dim(r) * ar)
    rhs = Load(b, as_dim(g) * bg + as_dim(r) * br + as_dim(j) * bj)
    store = Store(c, (as_dim(g) * m + as_dim(i)) * n + as_dim(j), acc)
    tile = TileContract(i, j, r, m, n, k, lhs, rhs, acc, (store,), PACKED)
    return Kernel("strided", (a, b, c), dims, (), (Loop(Role.GRID, g, g_, (tile,)),)), dims


def test_strides_and_broadcast_batches() -> None:
    (kernel,) = compile_kernels([strided_batch()[0]])
    for g, m, n, k in [(3, 9, 50, 33), (2, 1, 1, 1), (2, 100, 49, 7), (1, 5, 20, 1300), (0, 3, 3, 3), (2, 0, 4, 4)]:
        a, b = values((g, m, k, 2), F32, 1), values((g, k, n, 3), F32, 2)
        c = np.full((g, m, n), 7, np.float32)
        kernel((g, m, n, k, m * k * 2, k * 2, 2, k * n * 3, n * 3, 3), [a, b, c])
        for index in range(g):
            close(c[index], a[index, :, :, 0], b[index, :, :, 0])
        # one right operand for the whole batch, one row and one column over and over
        kernel((g, m, n, k, m * k * 2, 0, 2, 0, n * 3, 0), [a, b, c])
        for index in range(g if m and n and k else 0):
            left = np.broadcast_to(a[index, :1, :, 0], (m, k))
            close(c[index], left, np.broadcast_to(b[0, :, :1, 0], (k, n)))


def test_results_depend_on_no_cutting() -> None:
    """Chunks, spans of the grid, tiles, packing, and the rows beside it: a row's bits are the same."""
    whole, direct, low, chunks, transposed = compile_kernels(
        [
            contraction("g", "mk", "kn", PACKED),
            contraction("g", "mk", "kn", tiled(8, 3, packed=False)),
            contraction("g", "mk", "kn", DIRECT),
            chunked(PACKED, 16, 96),
            chunked(PACKED, 16, 96, "km"),
        ]
    )
    with blocked(SHARED):
        shared, first = compile_kernels([chunked(PACKED, 16, 96), chunked(PACKED, 16, 96, static=192)])
    for static in (first, *compile_kernels([chunked(PACKED, 16, 96, static=192)])):
        a, b = values((37, 100), F32, 1), values((100, 192), F32, 2)
        np.testing.assert_array_equal(run(static, a, b), run(whole, a, b))
    for m, n, k in [(100, 200, 64), (37, 49, 100), (300, 50, 2100), (1, 100, 1030)]:
        a, b = values((m, k), F32, 1), values((k, n), F32, 2)
        want = run(whole, a, b)
        close(want, a, b)
        for kernel in (direct, low, chunks, shared):
            np.testing.assert_array_equal(run(kernel, a, b), want)
        np.testing.assert_array_equal(run(transposed, a, b, lhs="km"), want)
        for rows in (1, 3, 5):
            np.testing.assert_array_equal(run(whole, a[:rows], b), want[:rows])
        parts = np.full((m, n), 7, np.float32)
        total = -(-m // 16) * -(-n // 96)
        for begin in range(0, total, 3):
            chunks((m, n, k), [a, b, parts], (begin, min(begin + 3, total)))
        np.testing.assert_array_equal(parts, want)


@pytest.mark.parametrize("tile", [tiled(8, 2, packed=False), tiled(4, 2, packed=False), tiled(8, 2)], ids=str)
def test_neighbouring_iterations_are_one(tile: Tile) -> None:
    """However the range is cut, in the middle of a batch too; a cut is one iteration, and its rows long pieces."""
    (kernel,) = compile_kernels([joined(tile, 32)])
    for g, m, n, k in [(1, 1, 2000, 33), (3, 2, 100, 7), (2, 3, 1100, 9), (2, 8, 700, 20), (1, 5, 31, 3), (0, 1, 9, 9)]:
        a, b = values((g, m, k), F32, 1), values((g, k, n), F32, 2)
        whole = np.full((g, m, n), 7, np.float32)
        kernel((g, m, n, k), [a, b, whole])
        for index in range(g):
            close(whole[index], a[index], b[index])
        total = g * -(-n // 32)
        for step in (1, 3, 7):
            parts = np.full((g, m, n), 7, np.float32)
            for begin in range(0, total, step):
                kernel((g, m, n, k), [a, b, parts], (begin, min(begin + step, total)))
            np.testing.assert_array_equal(parts, whole)


def test_wide_tiles_of_bytes() -> None:
    """Right operands of bytes are streamed by tiles that are wider than what there are accumulators for."""
    lanes = host_target().lanes(4)
    cases = [(8, 752), (5, 700), (8, 1280), (3, 600)]
    made = [
        contraction("g", "km", "kn", Tile(8, -(-n // lanes) * lanes, ()), operands=(F32, I8), extents=(m, n, None))
        for m, n in cases
    ]
    for (m, n), kernel in zip(cases, compile_kernels(made), strict=True):
        for k in (1, 70, 3000):
            a, b = values((m, k), F32, 1), values((k, n), I8, 2)
            close(run(kernel, a, b, lhs="km"), a, b.astype(np.float32))


def test_scratch_is_bounded() -> None:
    """Whatever the sizes: a constant that fits into a second-level cache."""
    target = host_target()
    intel = blocking_of(Target("x86", "cascadelake", vector_bytes=64, registers=32))
    for lhs, rhs, blocking in [
        (x, y, b) for x, y in LAYOUTS for b in (CacheBlocking(), replace(SHARED, depth=768), intel)
    ]:
        with blocked(blocking):
            size = emit_kernel(contraction("g", lhs, rhs, PACKED), target).scratch_bytes
        assert isinstance(size, int)
        assert size < 1 << 20
    assert emit_kernel(contraction("g", "mk", "kn", DIRECT), target).scratch_bytes == STREAMED_BYTES


# --- targets and schedules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64"])
def test_other_targets(cpu: str) -> None:
    """Sixteen registers, with and without masked loads and fused multiply-adds."""
    target = target_for(cpu)
    if target.vector_bytes > host_target().vector_bytes:
        pytest.skip(f"this machine does not run {cpu} code")
    cases = [("mk", "kn"), ("mk", "nk"), ("km", "kn")]
    tiles = [
        (lhs, rhs, v.tile)
        for lhs, rhs in cases
        for v in contract_schedules(target, F32, lying(F32, columns=rhs == "kn", reduced=rhs == "nk"))
    ]
    kernels = compile_kernels(
        [contraction("g", lhs, rhs, s, epilogue=store_bias(F32)) for lhs, rhs, s in tiles], target
    )
    for (lhs, rhs, _), kernel in zip(tiles, kernels, strict=True):
        check_all(kernel, F32, [*sample(30), BLOCKED[0], BLOCKED[1]], lhs, rhs)


TARGETS = (
    Target("x86", "znver5", vector_bytes=64, registers=32),
    Target("x86", "cascadelake", vector_bytes=64, registers=32),
    Target("x86", "x86-64-v3", vector_bytes=32, registers=16),
    Target("x86", "x86-64", vector_bytes=16, registers=16),
)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_schedules_cover_all_rows_and_fit_the_registers(target: Target) -> None:
    target = replace(target, batch_invariant=target.arch == "x86-64-v3")
    for dtype in (F32, F64, I32, I64, dtypes.int8):
        for col, red, left in [(c, r, x) for c in (True, False) for r in (True, False) for x in (True, False)]:
            for cols in (None, 64, 768, 100):
                variants = contract_schedules(
                    target, dtype, lying(dtype, columns=col, reduced=red, left=left), cols=cols
                )
                following = 0
                for v in variants:
                    assert v.min_rows == following
                    following = v.max_rows + 1 if v.max_rows is not None else -1
                    lanes = target.lanes(dtype.itemsize)
                    assert v.row_chunk % v.tile.rows == 0
                    assert v.col_panel % v.tile.columns == 0
                    vectors, rest = divmod(v.tile.columns, lanes)
                    assert rest == 0
                    if v.tile.in_order:  # accumulators, and a square
                        assert v.tile.rows + lanes < target.registers
                        continue
                    if v.note.startswith("streamed"):  # accumulators are in the first-level cache
                        assert v.tile.rows * v.tile.columns * dtype.itemsize <= 16 << 10
                        assert v.tile.rows * (steps_together(v.tile.rows, target.registers) + 1) < target.registers
                        continue
                    assert v.tile.rows * vectors + vectors + 1 <= target.registers
                assert following == -1
                assert len(variants) <= 3


def test_known_factors() -> None:
    n, q = as_dim(symbol("n")), as_dim(symbol("q"))
    extents = [0, 96, n, 48 * n, dim_min(48, 768 - 48 * q), dim_min(48, 64 - 48 * q), dim_min(48, n - 48 * q)]
    assert [known_factor(d) for d in extents] == [0, 96, 1, 48, 48, 16, 1]


def test_schedules_divide_the_columns() -> None:
    target = TARGETS[0]
    tiles = {
        n: (v.tile.rows, v.tile.columns)
        for n in (768, 48, 64, 128, 32, 50, 100)
        for v in contract_schedules(target, F32, lying(F32, columns=False), cols=n)
    }
    high, wide = (8, 48), (6, 64)
    assert tiles == {768: high, 48: high, 64: wide, 128: wide, 32: (12, 32), 50: high, 100: high}
    variants = contract_schedules(target, F32, lying(F32), cols=768)
    assert [v.tile for v in variants] == [Tile(8, 128, ()), Tile(4, 96)]
    assert [(v.min_rows, v.max_rows) for v in variants] == [(0, 8), (9, None)]
    assert contract_schedules(target, F32, lying(F32), cols=100)[1].tile.rows == 8


def test_schedules_of_intels_caches() -> None:
    """High tiles, whatever the columns, in panels that share them; other processors keep what they have."""
    first, unknown, intel = [
        contract_schedules(Target("x86", name, vector_bytes=64, registers=32), F32, lying(F32), cols=768)
        for name in ("znver5", "x86-64-v4", "cascadelake")
    ]
    assert (first[1].tile, first[1].row_chunk, first[1].col_panel) == (Tile(4, 96), 256, 96)
    assert unknown == first
    assert intel[1].tile == Tile(8, 48)
    assert (intel[1].row_chunk, intel[1].col_panel) == (528, 96)
    assert intel[0] == first[0]


def test_streams_are_pieces_of_rows() -> None:
    """Of known columns an even number of pieces; of narrow elements more to a piece, as accumulators have room."""
    f32, bf16, i8 = F32, dtypes.bfloat16, dtypes.int8
    cases = [(f32, None, 128), (f32, 64, 64), (f32, 768, 128), (f32, 1000, 128), (f32, 4096, 128), (bf16, 4096, 256)]
    for rhs, cols, columns in [*cases, (bf16, None, 256), (i8, 4096, 512), (i8, 100, 112)]:
        (low, *_) = contract_schedules(TARGETS[0], F32, Reach(F32, rhs, rhs_columns=True), cols=cols)
        assert low.tile == Tile(8, columns, ()), (rhs, cols)
        assert low.merges_chunks


def test_both_operands_packed_on_intel() -> None:
    """High blocks of rows, unless sizes are known of which there are then few."""
    cases = [(256, 1024), (1024, 256), (None, 256), (256, None), (256, 256), (64, 64)]

    def of(name: str) -> list[tuple[int, int]]:
        target = Target("x86", name, vector_bytes=64, registers=32)
        found = [contract_schedules(target, F32, lying(F32, left=False), cols=n, result_rows=m)[-1] for m, n in cases]
        return [(v.row_chunk, v.col_panel) for v in found]

    assert of("sapphirerapids") == [(264, 256), (264, 256), (264, 256), (264, 192), (96, 256), (96, 256)]
    assert set(of("znver5")) == {(96, 192)}


@pytest.mark.parametrize(
    ("feature", "target"), [("avx512vnni", host_target()), ("avx512bw", host_target()), ("avx2", AVX2)],
    ids=["vpdpbusd", "vpmaddwd", "avx2"],
)  # fmt: skip
def test_words_in_panels_that_share_rows(feature: str, target: Target) -> None:
    """Panels side by side, blocks of the reduced dimension, and two steps an iteration: Intel's blocking."""
    if not host_target().has(feature):
        pytest.skip(f"this machine has no {feature}")
    dtype, name = (I8, "vpdpbusd") if feature == "avx512vnni" else (I16, "vpmaddwd")
    tile = Tile(8, 3 * target.lanes(4), (Operand.LHS, Operand.RHS), unit=name)
    intel = blocking_of(Target("x86", "cascadelake", vector_bytes=64, registers=32))
    for blocking in (SHARED, intel):
        with blocked(blocking):
            kernels = compile_kernels(
                [contraction("g", x, y, tile, dtype=I32, operands=(dtype, dtype)) for x, y in LAYOUTS], target
            )
        for (x, y), kernel in zip(LAYOUTS, kernels, strict=True):
            for m, n, k in [*sample(10), (9, 150, 4001), (300, 97, 67), (2, 530, 1030)]:
                a, b = values((m, k), dtype, 1), values((k, n), dtype, 2)
                got = run(kernel, a, b, lhs=x, rhs=y)
                np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))
