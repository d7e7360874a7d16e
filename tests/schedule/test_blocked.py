"""Contractions as loops around packs and multiplications: run by an interpreter of kernel IR, for any target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn import dtypes
from dyn.errors import IRError
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import (
    Algorithm,
    Apply,
    Const,
    Digits,
    Expr,
    Interval,
    Kernel,
    Let,
    Load,
    Loop,
    Multiply,
    Operand,
    Pack,
    Role,
    Stmt,
    Store,
    Tile,
    TileContract,
)
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.target import Target
from dyn.schedule.x86 import blocked as blocks
from dyn.schedule.x86.blocking import CacheBlocking, blocking
from dyn.shapes import Dim, Symbol, as_dim, floordiv, symbol
from tests.lower.contractions import LHS, PLACE, RHS, Axes, chunked, contraction, joined
from tests.schedule.kernel_interpreter import Run, run_product

F32, I8, I32 = dtypes.float32, dtypes.int8, dtypes.int32
AVX512 = Target("x86", "znver4", "+avx512vnni,+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx2,+fma,+f16c", 64, 32)
INTEL = replace(AVX512, arch="cascadelake")
AMX = replace(INTEL, arch="sapphirerapids", features=f"+amx-tile,+amx-int8,{AVX512.features}")
AVX2 = Target("x86", "x86-64-v3", vector_bytes=32, registers=16)
SSE = Target("x86", "x86-64", vector_bytes=16, registers=16)
#: Short blocks of the reduced dimension, and panels that take turns.
SHORT = CacheBlocking(depth=64, left_depth=64, left_bytes=16 * 64 * 4)
TURNS = replace(SHORT, low_tiles=False, panels=2)


@contextmanager
def caches(own: CacheBlocking) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "blocking", lambda _: own)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        yield


def execute(kernel: Kernel, target: Target, m: int, n: int, k: int, lhs: str = "mk", rhs: str = "kn") -> Run:
    """Run the blocked form of a kernel of three sizes, and check what it computes."""
    return run_product(blocks.blocked(kernel, target), (m, n, k), lhs, rhs)


def tile(target: Target, rows: int = 4, vectors: int = 1, *, packed: bool = True, itemsize: int = 4) -> Tile:
    return Tile(rows, vectors * target.lanes(itemsize), (Operand.RHS,) if packed else ())


small = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 9, 13])
columns = st.sampled_from([0, 1, 3, 4, 15, 16, 17, 33, 50])
steps = st.sampled_from([0, 1, 2, 5, 63, 64, 65, 130])


@given(
    small, columns, steps, st.sampled_from([AVX512, AVX2, SSE]), st.sampled_from(sorted(LHS)),
    st.sampled_from(sorted(RHS)), st.sampled_from([SHORT, TURNS]), st.integers(1, 3), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_sizes_layouts_and_tiles(
    m: int, n: int, k: int, target: Target, lhs: str, rhs: str, own: CacheBlocking, vectors: int, packed: bool,
    static: bool,
) -> None:  # fmt: skip
    """Every product is there once, whatever an operand's layout, the tile, the blocks, and which sizes are known."""
    extents = (m, n, k) if static else (None, None, None)
    with caches(own):
        kernel = contraction("g", lhs, rhs, tile(target, 4, vectors, packed=packed), extents=extents)
        run = execute(kernel, target, m, n, k, lhs, rhs)
    assert run.products == m * n * k


@pytest.mark.parametrize(("rows", "wide", "lhs"), [(8, 752, "km"), (5, 700, "km"), (8, 1280, "km"), (8, 752, "mk")])
def test_tiles_that_are_cut_into_several_pieces(rows: int, wide: int, lhs: str) -> None:
    """Eight rows have sums for fewer columns than a tile of bytes has: those that wait have places for all pieces."""
    shape = Tile(8, -(-wide // 16) * 16, ())
    kernel = contraction("g", lhs, "kn", shape, operands=(F32, I8), extents=(rows, wide, None))
    with caches(SHORT):
        execute(kernel, AVX512, rows, wide, 65, lhs)


@given(small, columns, steps, st.sampled_from([AVX512, INTEL, AVX2, AMX]), st.sampled_from([SHORT, TURNS]))
def test_words(m: int, n: int, k: int, target: Target, own: CacheBlocking) -> None:
    """Bytes by fours, and by pairs with AVX2."""
    name, group = {AVX2: ("vpmaddwd", 2), AMX: ("tdpbssd", 4)}.get(target, ("vpdpbusd", 4))
    shape = Tile(32 if target is AMX else 4, 2 * target.lanes(4), (Operand.LHS, Operand.RHS), unit=name)
    with caches(own):
        run = execute(contraction("g", "mk", "kn", shape, dtype=I32, operands=(I8, I8)), target, m, n, k)
    assert run.products == m * n * -(-k // group)


@pytest.mark.parametrize("own", [SHORT, TURNS], ids=["alone", "turns"])
@pytest.mark.parametrize("static", [96, None])
def test_rows_and_columns_in_chunks(own: CacheBlocking, static: int | None) -> None:
    """A GRID iteration's rows and columns are cut further; one multiplication packs columns that fill panels."""
    with caches(own):
        run = execute(chunked(tile(AVX512, 8, 2), 16, 64, static=static), AVX512, 21, 96, 70)
    assert run.products == 21 * 96 * 70
    assert set(run.packed.values()) == {2}, "once for each chunk of rows"


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 11])
def test_columns_that_neighbouring_iterations_share(m: int, far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows have few accumulators, and long pieces of the right operand's rows: longer where it is large."""
    if far:
        monkeypatch.setattr(blocks, "FAR_BYTES", 4096)
    form = blocks.blocked(joined(tile(AVX512, 8, 2, packed=False), 32), AVX512)
    check(form)
    n, k = 1700, 3
    a, b = np.arange(m * k) % 7, np.arange(k * n) % 5
    c = np.zeros(m * n, np.int64)
    run = Run(form, [a, b, c], dict(zip(form.dims, (1, m, n, k), strict=True)))
    np.testing.assert_array_equal(c.reshape(m, n), a.reshape(m, k) @ b.reshape(k, n))
    whole = 1700 - 18 * 32  # the larger part of the columns
    expected = {1: whole, 2: whole, 3: 1024, 5: 256, 8: 256, 11: 256} if far else {1: 1024, 2: 1024}
    assert max(run.widths) == expected.get(m, 256)


def test_each_element_is_computed_once_a_packed_panel() -> None:
    """A prologue: the elements of either operand are computed as often as its block is packed."""

    def negative(layout: Callable[[Axes], Any]) -> Callable[[Axes], Expr]:
        return lambda x: Apply(Scalar.NEG, (Load(PLACE, layout(x)),), F32)

    kernel = contraction("g", negative(LHS["mk"]), negative(RHS["kn"]), tile(AVX512, 4, 2))
    with caches(SHORT):
        run = execute(kernel, AVX512, 13, 50, 130)
    left = {place: count for (name, place), count in run.packed.items() if name == "a"}
    right = {place: count for (name, place), count in run.packed.items() if name == "b"}
    assert len(left) == 13 * 130
    assert set(left.values()) == {1}, "columns are one block"
    assert len(right) == 130 * 50
    assert set(right.values()) == {1}, "rows are one block"


def grouped(group: int, *, narrow: bool = False) -> Kernel:
    """``b[k, n]`` times a scale for each column and ``group`` rows, which lies behind ``b``: in digits of the rows, of
    three with ``narrow``."""
    g, h, r = symbol("g"), symbol("h"), symbol("r")
    kernel = contraction("g", "mk", "kn", tile(AVX512, 4, 2, packed=False), extents=(None, None, None))
    (stmt,) = kernel.body
    assert isinstance(stmt, TileContract)
    assert isinstance(stmt.rhs, Load)
    _, n, k = map(as_dim, kernel.dims)
    groups = floordiv(k, group)
    parts: tuple[tuple[Symbol, Dim], ...] = (
        ((g, groups), (h, group // 2), (r, 2)) if narrow else ((g, groups), (r, group))
    )
    place = as_dim(g) * group + (as_dim(h) * 2 if narrow else 0) + as_dim(r)
    scale = Load(stmt.rhs.buffer, (k + as_dim(g)) * n + as_dim(stmt.col))
    rhs = Apply(Scalar.ADD, (Load(stmt.rhs.buffer, place * n + as_dim(stmt.col)), scale), F32)
    return replace(kernel, body=(replace(stmt, rhs=rhs, digits=(Digits(as_dim(stmt.red), parts),)),))


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("group", "groups"), [(2, 40), (24, 3), (6, 1), (130, 1), (66, 2), (8, 0)])
@pytest.mark.parametrize("packed", [False, True])
def test_groups_of_steps_are_runs(group: int, groups: int, *, packed: bool, narrow: bool) -> None:
    """A right operand in digits of its rows: every product is there once, whether it is computed for few rows, group
    after group, or packed, and then each element is computed once."""
    kernel = grouped(group, narrow=narrow)
    (stmt,) = kernel.body
    assert isinstance(stmt, TileContract)
    shape = tile(AVX512, 4, 2, packed=packed)
    kernel = replace(kernel, body=(replace(stmt, tile=shape),))
    rng = np.random.default_rng(0)
    for m, n in [(0, 5), (1, 1), (3, 50), (9, 33)]:
        k = group * groups
        a, q, s = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n)), rng.integers(-9, 9, (groups, n))
        c = np.full(m * n, 55)
        with caches(SHORT):
            form = blocks.blocked(kernel, AVX512)
            check(form)
            run = Run(form, [a.ravel(), np.vstack([q, s]).ravel(), c], dict(zip(form.dims, (m, n, k), strict=True)))
        np.testing.assert_array_equal(c.reshape(m, n), a @ (q + np.repeat(s, group, 0)))
        assert run.products == m * n * k
        if packed and m:
            weights = {count for (_, place), count in run.packed.items() if place < k * n}
            assert weights <= {1}, "rows are one block"


def test_texts(golden: Callable[[str, str], None]) -> None:
    """Panels that the first tile of rows packs, both operands packed, few rows, and words."""
    words = Tile(8, 48, (Operand.LHS, Operand.RHS), unit="vpdpbusd")
    kernels = {
        "packed by the first tile": contraction("g", "mk", "kn", tile(AVX512, 8, 3)),
        "both packed": contraction("g", "km", "nk", tile(AVX512, 8, 3), extents=(None, 768, 768)),
        "streamed": contraction("g", "mk", "kn", tile(AVX512, 8, 16, packed=False)),
        "dots": contraction("g", "mk", "nk", tile(AVX512, 4, 3, packed=False)),
        "words": contraction("g", "mk", "kn", words, dtype=I32, operands=(I8, I8), extents=(None, 768, 768)),
    }
    kernels["computed in runs"] = grouped(128)
    texts = [f"// {name}\n{kernel_text(blocks.blocked(kernel, AVX512))}" for name, kernel in kernels.items()]
    turns = blocks.blocked(chunked(tile(INTEL, 8, 3), 528, 96, static=192), INTEL)
    golden("blocked.txt", "\n".join([*texts, f"// panels take turns\n{kernel_text(turns)}"]))


def test_kernels_without_contractions_stay() -> None:
    kernel = Kernel("nothing", (), (), (), ())
    assert blocks.blocked(kernel, AVX512) is kernel


def changed(kernel: Kernel, kind: type[Stmt], of: Stmt | None = None, **changes: Any) -> Kernel:
    """A kernel with some fields of a statement changed: of the first one of a kind, or of the one that is given."""
    first = of if of is not None else next(stmt for stmt in walk_stmts(kernel.body) if isinstance(stmt, kind))

    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made = [replace(s, **changes) if s is first else s for s in stmts]  # pyright: ignore[reportArgumentType]
        return tuple([replace(s, body=body(s.body)) if isinstance(s, Loop) else s for s in made])

    return replace(kernel, body=body(kernel.body))


def test_faults_are_found() -> None:
    """Each rule of a contraction's leaves."""
    form = blocks.blocked(contraction("g", "km", "kn", tile(AVX512, 8, 3)), AVX512)
    other = symbol("other")
    out = next(stmt.buffer for stmt in walk_stmts(form.body) if isinstance(stmt, Store))
    interval, half = Interval(other, 0, as_dim(symbol("unknown"))), Const(dtypes.float16, 1.0)
    faults: list[tuple[type[Stmt], dict[str, Any], str]] = [
        (Pack, {"buffer": out}, "c, which a contraction stores to, is no scratch"),
        (Pack, {"value": half}, "a f16 is packed to rows, a f32"),
        (Pack, {"outer": interval}, "the extent of other mentions unknown, which is not in scope"),
        (Multiply, {"acc": out}, "c, which a contraction stores to, is no scratch"),
        (Multiply, {"lhs": half}, "acc are sums of products of what does not lie in memory"),
        (Multiply, {"first": as_dim(other)}, "whether sums begin mentions other, which is not in scope"),
        (Multiply, {"stride": as_dim(other)}, "the stride of sums mentions other, which is not in scope"),
        (Multiply, {"algorithm": Algorithm.DOTS}, "acc are dot products, which are not added to others"),
        (Let, {"value": as_dim(other)}, "the value of blocks mentions other, which is not in scope"),
        (Loop, {"role": Role.GRID, "start": 3}, "a grid loop, begins at 3"),
        (Loop, {"count": other}, "takes iterations together, and is no innermost grid loop"),
    ]
    for of, changes, message in faults:
        with pytest.raises(IRError, match=message):
            check(changed(form, of, **changes))


def test_blocks_follow_the_processor() -> None:
    """The same contraction is cut as its caches want it."""
    kernel = contraction("g", "km", "kn", tile(AVX512, 8, 3))
    sizes = {t.arch: [b.size for b in blocks.blocked(kernel, t).scratch] for t in (AVX512, INTEL)}
    assert sizes["znver4"] != sizes["cascadelake"]
    assert blocking(AVX512) != blocking(INTEL)
