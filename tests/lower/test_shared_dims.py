"""Dims and expressions that share their parts a thousand deep: what is written of them grows with their parts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from dyn import dtypes
from dyn.backends.x86 import target_for
from dyn.lower.gpu.dialect import gpu_target
from dyn.lower.gpu.emit import emit_kernel as emit_gpu
from dyn.lower.host_llvm.sizes import SizeEmitter
from dyn.lower.host_llvm.text import HostText
from dyn.lower.x86.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder, Parameters
from dyn.schedule.kernel import Buffer, Expr, Index, Kernel, Load, Loop, Role, Store
from dyn.schedule.kernel_text import kernel_hash, kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.kernel_walks import walk_exprs
from dyn.shapes import Atom, Dim, Opaque, as_dim, dim_max, dim_min, expr, floordiv, symbol, walk

I64 = dtypes.int64
N, M, LANE = (symbol(name) for name in "nmi")
X, Y = Buffer("x", I64), Buffer("y", I64)


def deep(start: Dim, levels: int) -> Dim:
    """Each level has the one before twice: written out it has 2^levels parts."""
    for _ in range(levels):
        start = dim_max(floordiv(start, 2), as_dim(M)) + dim_min(floordiv(start, 3), as_dim(M))
    return start


def _kernel(value: Expr) -> Kernel:
    kernel = Kernel("deep", (X, Y), (N, M), (), (Loop(Role.LANE, LANE, as_dim(N), (Store(Y, as_dim(LANE), value),)),))
    check(kernel)
    return kernel


def _sizes(levels: int) -> int:
    sizes = SizeEmitter(HostText())
    sizes.know(N, "%n")
    sizes.know(M, "%m")
    sizes.compute(deep(as_dim(N), levels))
    return len(sizes.text.lines)


def test_host_programs() -> None:
    few, many = _sizes(100), _sizes(1000)
    assert many < 11 * few


def test_walks_leave_out_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level is walked once, whoever asks of the levels one after the other."""
    walked: list[int] = []

    def all_atoms(dim: Dim, known: Callable[[Opaque], bool] | None = None) -> dict[Atom, None]:
        found = expr.all_atoms(dim, known)
        walked.append(len(found))
        return found

    monkeypatch.setattr(walk, "all_atoms", all_atoms)
    _sizes(500)
    assert sum(walked) < 10 * 500
    walked.clear()
    emit_kernel(_kernel(Index(I64, deep(as_dim(LANE), 500))), target_for("x86-64-v3"))
    assert sum(walked) < 30 * 500


def test_blocks_of_host_programs_are_short() -> None:
    """LLVM takes time that grows with the square of a block's length."""
    text = HostText()
    for _ in range(3000):
        text.value("add i64 %a, %b")
    assert text.lines.count("  br label %on512") == 1
    labels = [number for number, line in enumerate(text.lines) if line.endswith(":")]
    assert len(labels) == 5
    assert max(b - a for a, b in pairwise(labels)) < 520


def test_kernels_of_sizes() -> None:
    lengths: list[list[int]] = []
    for levels in (15, 150):
        kernel = _kernel(Index(I64, deep(as_dim(N), levels)))
        texts = (emit_gpu(kernel, gpu_target("cuda", "sm_90a")), emit_kernel(kernel, target_for("x86-64-v3")))
        lengths.append([len(text.text) for text in texts])
    for few, many in zip(*lengths, strict=True):
        assert many < 12 * few


def test_lanes() -> None:
    """Places that differ between lanes, of functions of functions, a thousand deep."""
    lengths: list[list[int]] = []
    for levels in (100, 1000):
        index = deep(as_dim(LANE), levels)
        kernels = _kernel(Index(I64, index)), _kernel(Load(X, index))
        texts = [emit_kernel(kernel, target_for("x86-64-v3")).text for kernel in kernels]
        texts += [emit_gpu(kernel, gpu_target("cuda", "sm_90a")).text for kernel in kernels]
        lengths.append([len(text) for text in texts])
    for few, many in zip(*lengths, strict=True):
        assert many < 12 * few


def test_lanes_of_what_a_load_binds() -> None:
    """The same of numbers that are read: a value that many functions share is computed once, and not kept after it."""
    lengths: list[int] = []
    for levels in (100, 1000):
        row = symbol("row")
        value = Load(X, as_dim(LANE))
        load = Load(X, deep(as_dim(row), levels), ((row, value),))
        lengths.append(len(emit_kernel(_kernel(load), target_for("x86-64-v3")).text))
    assert lengths[1] < 12 * lengths[0]


def test_computed_indices() -> None:
    counts: list[int] = []
    for levels in (15, 150):
        k = ExprBuilder()
        value = k.bind(k.load(X, as_dim(LANE)))
        counts.append(len(list(walk_exprs((k.index(I64, deep(value, levels)),)))))
    assert counts[1] < 11 * counts[0]


def test_parameters() -> None:
    parameters = Parameters(frozenset({LANE}))
    found = parameters.rewrite(deep(as_dim(LANE), 1000))
    assert [str(dim) for dim in parameters.symbols] == ["m"]
    assert found is parameters.rewrite(deep(as_dim(LANE), 1000))


@pytest.mark.parametrize("levels", [1000])
def test_expressions(levels: int) -> None:
    k = ExprBuilder()
    value: Expr = k.load(X, as_dim(LANE))
    for _ in range(levels):
        value = k.apply(Scalar.ADD, [value, k.apply(Scalar.MUL, [value, value], I64)], I64)
    kernel = _kernel(value)
    assert len(kernel_text(kernel).splitlines()) < 3 * levels
    assert kernel_hash(kernel) == kernel_hash(kernel)
    for text in (emit_gpu(kernel, gpu_target("cuda", "sm_90a")), emit_kernel(kernel, target_for("x86-64-v3"))):
        assert text.text.count("\n") < 12 * levels
