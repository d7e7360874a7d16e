"""What computes operands of a contraction joins it: each element is computed where it is packed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax, nn
from dyn.backends.x86 import host_target
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import gpu_target
from dyn.pipeline import optimize
from dyn.schedule.target import Target

X86 = Target("x86", "x86-64-v4", vector_bytes=64, registers=32)
CUDA = gpu_target("cuda", "sm_90a")
WEIGHT = "float32 m k, int8 k n, float32 n"


def groups(function: Callable[..., Any], arguments: str, target: Target = X86) -> list[list[str]]:
    """The ops of a function's groups, by name; ``arguments`` are dtypes with named dims."""
    structs = [dyn.ShapeDtypeStruct(tuple(dims), dtype) for dtype, *dims in map(str.split, arguments.split(", "))]
    plan = optimize(dyn.jit(function).trace(*structs).traced, target, CompilationRecord()).plan
    return [sorted(op.opdef.name for op in group.ops) for group in plan.groups]


def dequantised(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype("float32") * s)


def by_groups(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype("float32") * dnp.repeat(s.astype("float32"), 32, axis=0))


def int8(a: Any, b: Any) -> Any:
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=np.int32)


@pytest.mark.parametrize("target", [X86, CUDA], ids=str)
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (dequantised, WEIGHT),
        (lambda x, q, s: x @ ((q.astype("float32") - 3) * s + 1), WEIGHT),
        (lambda x, w: x @ dnp.maximum(w, 0), "float32 m k, float32 k n"),
        (lambda x, w, g: x @ (w * g).T.T, "float32 m k, float32 k n, float32 k n"),
        (lambda x, w: x.T @ dnp.maximum(w, 0), "float32 k m, float32 k n"),
        (lambda x, w: x @ w.astype("float32").T, "float32 m k, bfloat16 n k"),
        (lambda x, w: dnp.tanh(x.astype("float32") @ w) + 1, "float16 m k, float32 k n"),
        (int8, "int8 m k, int8 k n"),
        # Scales by groups, in two layouts; what converts scales; beside a left operand that is reshaped.
        (by_groups, "float32 m 32*j, int8 32*j n, float32 j n"),
        (by_groups, "float32 m 32*j, int8 32*j n, bfloat16 j n"),
        (
            lambda x, q, s: x @ (q.astype("float32") * dnp.repeat(s, 32, axis=1)).T,
            "float32 m 32*j, int8 n 32*j, float32 n j",
        ),
        (lambda x, q, s: dequantised(x, q, s.astype("float32")), "float32 m k, int8 k n, float16 n"),
        (lambda x, q, s: dequantised(x.reshape((-1, q.shape[0])), q, s), "float32 a b 12, int8 12 n, float32 n"),
    ],
)
def test_one_group(function: Callable[..., Any], arguments: str, target: Target) -> None:
    (ops,) = groups(function, arguments, target)
    assert "dot_general" in ops


def test_explain_says_which() -> None:
    f = dyn.jit(lambda x, q, s, b: dnp.maximum(x @ (q.astype("float32") * s) + b, 0))
    f(np.ones((9, 4), "f4"), np.ones((4, 5), "i1"), np.ones(5, "f4"), np.ones(5, "f4"))
    report = f.explain()
    assert "prologue, computed as operands are read: convert, multiply" in str(report)
    assert report.as_dict()["ways"][0]["programs"][0]["groups"][0]["prologue"] == ["convert", "multiply"]


@pytest.mark.parametrize(
    ("function", "arguments", "count"),
    [
        # A left operand, one along the contracted axis, of as many bytes; a result; read by two contractions; by what
        # is behind the contraction; costly; through a reshape that divides places; gathered; scales that are computed
        # with more than a conversion.
        (lambda x, w: dnp.abs(x) @ w, "float32 m k, float32 k n", 2),
        (lambda x, w: x @ dnp.abs(w).T, "float32 m k, float32 n k", 2),
        (lambda x: dnp.abs(x) @ dnp.abs(x).T, "float32 m k", 2),
        (lambda x, w: dnp.abs(x) @ w, "float32 m k, float32 k", 2),
        (lambda x, w: (w, x @ dnp.abs(w), dnp.abs(w)), "float32 m k, float32 k n", 2),
        (lambda w, x, y: (x @ dnp.abs(w), y @ dnp.abs(w)), "float32 k n, float32 m k, float32 l k", 3),
        (lambda x, w: x @ dnp.abs(w) + dnp.abs(w), "float32 m m, float32 m m", 2),
        (lambda x, w: x @ dnp.exp(w), "float32 m k, float32 k n", 2),
        (lambda x, w: dnp.abs(x).reshape((-1, w.shape[0])) @ w, "float32 a b 12, float32 12 n", 2),
        (lambda x, w: dnp.abs(x).reshape(-1) @ w, "float32 a b, float32 k", 2),
        (lambda x, i, w: x[:, i] @ w, "float32 m l, int64 k, float32 k n", 2),
        (lambda x, q, s: dequantised(x, q, s * 2), "float32 m k, int8 k n, float32 n", 2),
    ],
)
def test_what_stays_a_group(function: Callable[..., Any], arguments: str, count: int) -> None:
    assert len(groups(function, arguments)) == count


def test_convolutions_take_conversions_alone() -> None:
    def conv(x: Any, w: Any) -> Any:
        return nn.conv(x, w, padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    arguments = "bfloat16 b h w 8, bfloat16 3 3 8 16"
    assert len(groups(lambda x, w: conv(x.astype("float32"), w.astype("float32")), arguments)) == 1
    assert len(groups(lambda x, w: conv(dnp.maximum(x, 0), w), "float32 b h w 8, float32 3 3 8 16")) == 2


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8, 9, 70])
def test_dequantised_weights(rows: int) -> None:
    """By columns, by groups of rows, transposed; few rows, many, none."""
    rng = np.random.default_rng(rows)
    by_columns = dyn.jit(dequantised)
    by_groups = dyn.jit(
        lambda x, q, s: x @ (q.astype("float32").reshape((s.shape[0], -1, q.shape[1])) * s[:, None]).reshape(q.shape)
    )
    transposed = dyn.jit(lambda x, q, s: x @ (q.astype("float32") * s[:, None]).T)
    for k, n in [(64, 48), (128, 100), (256, 513), (1024, 17)]:
        x = rng.standard_normal((rows, k)).astype(np.float32)
        q = rng.integers(-128, 128, (k, n)).astype(np.int8)
        s, scales = rng.random(n).astype(np.float32), rng.random((k // 32, n)).astype(np.float32)
        weight = q.astype(np.float64)
        bound = 1e-6 * np.abs(x) @ np.abs(weight) + 1e-6
        assert (np.abs(by_columns(x, q, s) - x @ (weight * s)) <= bound).all()
        assert (np.abs(by_groups(x, q, scales) - x @ (weight * np.repeat(scales, 32, 0))) <= bound).all()
        assert (np.abs(transposed(x, np.ascontiguousarray(q.T), s) - x @ (weight * s)) <= bound).all()


def test_a_row_alone_has_the_bits_of_a_row_among_others() -> None:
    """Whether the right operand is streamed or packed, as it lies or computed."""
    rng = np.random.default_rng(0)
    x, q, s = rng.standard_normal((40, 700)), rng.integers(-128, 128, (700, 530)), rng.random(530)
    x, q, s = x.astype(np.float32), q.astype(np.int8), s.astype(np.float32)
    weight = q.astype(np.float32) * s
    with dyn.config.override(variants="all"):
        for f, weights in [(dyn.jit(dequantised), (q, s)), (dyn.jit(lambda x, w: x @ w), (weight,))]:
            whole = np.asarray(f(x, *weights))
            for rows in (1, 2, 3, 5, 8, 9, 20):
                np.testing.assert_array_equal(f(x[:rows], *weights), whole[:rows])
            assert ("streamed" in str(f.explain())) is (host_target().vector_bytes >= 32)
