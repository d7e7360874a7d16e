"""Streaming stores: results beyond the caches are what they are within them, to the bit, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.x86 import streaming
from dyn.lower.x86.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Buffer, Kernel, Role, Space, Stmt, Store, Update
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.target import Target
from dyn.shapes import as_dim, dim_min, evaluate, floordiv, symbol
from tests.lower.x86_run import F32, ap, compile_kernels, const, grid, lane, load, runnable, serial

#: Columns around lines, vectors, and the steps of loops.
_COLUMNS = (0, 1, 15, 16, 17, 63, 64, 65, 80, 200)
#: Bytes behind a line's beginning at which a result begins.
_OFFSETS = (0, 4, 16, 32, 60)


def _rows(dtype: DType, fn: Scalar = Scalar.MUL) -> Kernel:
    """``y[r, i] = fn(x[r, i], x[r, i])``."""
    m, n, r, i = (symbol(c) for c in "mnri")
    x, y = Buffer("x", dtype), Buffer("y", dtype)
    index = as_dim(r) * as_dim(n) + as_dim(i)
    value = ap(fn, load(x, index), load(x, index))
    body = grid(r, as_dim(m), lane(i, as_dim(n), Store(y, index, value)))
    return Kernel(f"rows_{dtype.short}", (x, y), (m, n), (), (body,))


def _copied(dtype: DType) -> Kernel:
    m, n, r, i = (symbol(c) for c in "mnri")
    x, y = Buffer("x", dtype), Buffer("y", dtype)
    index = as_dim(r) * as_dim(n) + as_dim(i)
    body = grid(r, as_dim(m), lane(i, as_dim(n), Store(y, index, load(x, index))))
    return Kernel(f"copied_{dtype.short}", (x, y), (m, n), (), (body,))


def _blocks() -> Kernel:
    """``y[i] = x[i] + x[i]``, in blocks of 48, of which a loop in each has 3 lines of 16."""
    n, g, j, i = (symbol(c) for c in "ngji")
    x, y = Buffer("x", F32), Buffer("y", F32)
    index = 48 * as_dim(g) + 16 * as_dim(j) + as_dim(i)
    left = dim_min(16, as_dim(n) - 48 * as_dim(g) - 16 * as_dim(j))
    store = Store(y, index, ap(Scalar.ADD, load(x, index), load(x, index)))
    rows = dim_min(3, floordiv(as_dim(n) - 48 * as_dim(g) + 15, 16))
    body = grid(g, floordiv(as_dim(n) + 47, 48), serial(j, rows, lane(i, left, store)))
    return Kernel("blocks", (x, y), (n,), (), (body,))


def _ways(kernel: Kernel, target: Target) -> str:
    """Whether a kernel streams: ``never``, ``chosen`` by its sizes, or ``always`` where rows begin with lines."""
    text = emit_kernel(kernel, target).text
    assert text.count("call void @llvm.x86.sse.sfence()") == ("!nontemporal" in text)
    if "!nontemporal" not in text:
        return "never"
    return "chosen" if f", {streaming.BEYOND_CACHES}" in text else "always"


def _at(offset: int, array: np.ndarray) -> np.ndarray:
    """A copy that begins so many bytes behind a line's beginning, with a line of ones' bits on each side of it."""
    room = np.full(array.nbytes + 256, 0xFF, np.uint8)
    start = -room.ctypes.data % 64 + 64 + offset
    view = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


@pytest.mark.parametrize("target", runnable(), ids=lambda t: f"{t.vector_bytes} bytes")
def test_where_results_lie_and_end(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    monkeypatch.setattr(streaming, "BEYOND_CACHES", 0)
    kernels = [_rows(F32), _rows(dtypes.float64), _rows(dtypes.int32, Scalar.ADD), _rows(dtypes.int64, Scalar.ADD)]
    kernels += [_copied(d) for d in (dtypes.bool_, dtypes.int8, dtypes.bfloat16, dtypes.int16)]
    rng = np.random.default_rng(0)
    for run, kernel in zip(compile_kernels(kernels, target), kernels, strict=True):
        dtype = kernel.buffers[0].dtype
        for columns in _COLUMNS:
            x = rng.integers(0, 2, (3, columns)).astype(dtype.np)
            if not dtype.is_integer and dtype is not dtypes.bool_ and not dtype.is_narrow:
                x = rng.standard_normal((3, columns)).astype(dtype.np)
            want = x if kernel.name.startswith("copied") else x + x if dtype.is_integer else x * x
            for offset in _OFFSETS:
                if offset % dtype.itemsize:
                    continue
                y = _at(offset, np.zeros_like(x))
                around = y.base
                assert isinstance(around, np.ndarray)
                run((3, columns), [x, y])
                assert y.tobytes() == want.tobytes(), (kernel.name, columns, offset)
                room = np.asarray(around).view(np.uint8).reshape(-1)
                assert (room == 0xFF).sum() >= 256, "bytes around the result were written"


@pytest.mark.parametrize("target", runnable(), ids=lambda t: f"{t.vector_bytes} bytes")
def test_blocks_and_parts_of_the_grid(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    monkeypatch.setattr(streaming, "BEYOND_CACHES", 0)
    kernel = _blocks()
    (run,) = compile_kernels([kernel], target)
    for n in (0, 1, 16, 47, 48, 49, 1000):
        x, y = np.arange(n, dtype="f4"), _at(0, np.zeros(n, "f4"))
        blocks = evaluate(kernel.grid()[0][0].extent, {kernel.dims[0]: n})
        run((n,), [x, y], (0, blocks // 2))
        run((n,), [x, y], (blocks // 2, blocks))
        assert y.tobytes() == (x + x).tobytes()


@pytest.mark.parametrize("target", runnable(), ids=lambda t: f"{t.vector_bytes} bytes")
def test_which_stores_stream(target: Target) -> None:
    assert _ways(_rows(F32), target) == "chosen"
    assert _ways(_rows(dtypes.float64), target) == "chosen"
    assert _ways(_blocks(), target) == "chosen"
    # Bytes alone go as wide as a vector has lanes.
    assert _ways(_copied(dtypes.int8), target) == "chosen"


def _written(rows: Any, columns: Any, *, step: int = 1, before: tuple[Stmt, ...] = ()) -> Kernel:
    m, n, r, i = (symbol(c) for c in "mnri")
    rows, columns = (as_dim(m) if rows is None else rows), (as_dim(n) if columns is None else columns)
    y = Buffer("y", F32)
    store = Store(y, as_dim(r) * columns * step + step * as_dim(i), const(1.0))
    return Kernel("written", (y,), (m, n), (), (grid(r, rows, *before, lane(i, columns, store)),))


def test_sizes_that_are_numbers_choose_at_once() -> None:
    target = runnable()[0]
    assert _ways(_written(None, None), target) == "chosen"
    assert _ways(_written(64, 768), target) == "never"
    assert _ways(_written(4096, 1024), target) == "always"
    assert _ways(_written(None, None, step=2), target) == "never"


def test_what_is_read_again_does_not_stream() -> None:
    target = runnable()[0]
    m, n, r, i, k = (symbol(c) for c in "mnrik")
    x, y = Buffer("x", F32), Buffer("y", F32)
    index = as_dim(r) * as_dim(n) + as_dim(i)
    # A result that the kernel updates.
    fill = lane(i, as_dim(n), Store(y, index, const(0.0)))
    add = lane(k, as_dim(n), Update(y, as_dim(r) * as_dim(n) + as_dim(k), (), Scalar.ADD, load(x, k)))
    assert _ways(Kernel("updated", (x, y), (m, n), (), (grid(r, as_dim(m), fill, add),)), target) == "never"
    # A place that a loop writes again and again.
    again = serial(k, as_dim(n), lane(i, as_dim(n), Store(y, index, load(x, k))))
    assert _ways(Kernel("again", (x, y), (m, n), (), (grid(r, as_dim(m), again),)), target) == "never"
    # Scratch.
    s = Buffer("s", F32, Space.SCRATCH, as_dim(n))
    keep = lane(i, as_dim(n), Store(s, as_dim(i), load(x, index)))
    back = lane(k, as_dim(n), Store(y, as_dim(r) * as_dim(n) + as_dim(k), load(s, as_dim(n) - 1 - as_dim(k))))
    kernel = Kernel("kept", (x, y), (m, n), (s,), (grid(r, as_dim(m), keep, back),))
    stores = [stmt for stmt in walk_stmts(kernel.body) if isinstance(stmt, Store)]
    assert [id(stmt) in streaming.streamed_stores(kernel) for stmt in stores] == [False, True]
    assert all(loop.role is not Role.LANE for loop in kernel.grid()[0])


# --- whole programs ---------------------------------------------------------------------------------------------------


def _norm(x: Any) -> Any:
    d = x - dnp.mean(x, axis=-1, keepdims=True)
    return d / dnp.sqrt(dnp.mean(d * d, axis=-1, keepdims=True) + 1e-5)


def _several(x: Any) -> Any:
    return x + 1, dnp.exp(x), x > 0


@pytest.mark.parametrize(
    "f", [_norm, _several, lambda x: dyn.nn.softmax(x, axis=-1), lambda x: dnp.roll(x, 5, axis=-1)]
)
@pytest.mark.parametrize(("dtype", "columns"), [("f4", 1024), ("f4", 1001), ("f8", 512), ("f2", 4096)])
def test_rows_in_cache_and_beyond_it(f: Callable[[Any], Any], dtype: str, columns: int) -> None:
    """Some rows of many are what they are alone."""
    rows = (17 << 20) // (columns * np.dtype(dtype).itemsize) + 1
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(dtype)
    compiled = dyn.jit(f)
    whole = compiled(x)
    for few in (slice(0, 3), slice(rows - 5, rows)):
        for part, all_of_it in zip(
            *(r if isinstance(r, tuple) else (r,) for r in (compiled(x[few]), whole)), strict=True
        ):
            assert part.tobytes() == all_of_it[few].tobytes()


def test_a_chain_that_reads_what_it_has_written() -> None:
    """Threads read what others have written in the launch before."""

    @dyn.jit
    def f(x: Any) -> Any:
        y = dnp.cumsum(x * 2, axis=0)
        return dnp.sum(y, axis=-1), y[::-1] + 1

    x = np.random.default_rng(0).integers(0, 9, (4200, 1024)).astype("f4")
    y = np.cumsum(x * 2, axis=0)
    for _ in range(3):
        sums, back = f(x)
        assert (sums == y.sum(-1)).all()
        assert (back == y[::-1] + 1).all()


def test_a_donated_argument() -> None:
    f = dyn.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = dnp.asarray(np.arange(5 << 20, dtype="f4"))
    want = np.arange(5 << 20, dtype="f4") * 2 + 1
    assert (np.asarray(f(x)) == want).all()


def test_a_part_of_a_result_goes_the_way_of_the_whole() -> None:
    """A launch that writes little of a large result streams, and one that writes two rows of a small one does not."""
    n, whole, i = (symbol(c) for c in "nwi")
    x, y = Buffer("x", F32), Buffer("y", F32, size=as_dim(whole))
    stores = [Store(y, place, load(x, as_dim(i))) for place in (as_dim(i), as_dim(n) + as_dim(i))]
    kernel = Kernel("part", (x, y), (n, whole), (), (lane(i, as_dim(n), *stores),))
    sizes = streaming.streamed_stores(kernel)
    assert [sizes[id(store)] for store in stores] == [4 * as_dim(whole), 0]
    assert _ways(kernel, Target("x86", "x86-64-v3", vector_bytes=32, registers=16)) == "chosen"


@pytest.mark.parametrize("axis", [0, 1])
def test_many_pieces_of_one_result(axis: int) -> None:
    """Results of less and of more than 16 MiB, whose pieces are copied, computed, empty, and begin within lines."""
    join = dyn.jit(lambda *xs: dnp.concatenate((*xs, xs[0] + xs[1]), axis))
    rng = np.random.default_rng(0)
    for rows, columns in ((7, 100), (700, 1024), (700, 1031)):
        xs = [rng.standard_normal((rows, columns)).astype("f4") for _ in range(7)]
        xs[3] = xs[3][:0] if axis == 0 else xs[3][:, :0]
        wanted = np.concatenate((*xs, xs[0] + xs[1]), axis)
        assert wanted.nbytes < streaming.BEYOND_CACHES or rows == 700
        np.testing.assert_array_equal(join(*xs), wanted, strict=True)
    assert join.cache_info().compiles == 1
