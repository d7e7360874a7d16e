"""Convolutions and windows as kernels: how they lie, what they are packed by, and what they take along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn
from dyn.compilation_record import CompilationRecord
from dyn.ir.core import Value
from dyn.lower.gpu.dialect import gpu_target
from dyn.ops.windows.convolution import NCHW, NHWC
from dyn.pipeline import Optimized, optimize
from dyn.schedule.kernel import TileContract
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_walks import walk_stmts
from dyn.stitch.groups import GroupKind
from tests.stitch.models import Model, optimized


def convolve(m: Model, x: Value, w: Value, specs: Any, **given: Any) -> Value:
    attrs: dict[str, Any] = {
        "strides": (1, 1), "padding": ((1, 1), (1, 1)), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1),
        "reversal": (False, False), "lhs_spec": specs[0], "rhs_spec": specs[1], "out_spec": specs[2],
        "feature_group_count": 1, "batch_group_count": 1,
    }  # fmt: skip
    return m.op("convolution", x, w, **{**attrs, **given})


def block(specs: Any) -> Optimized:
    """relu(conv(x) + bias + y): one kernel."""
    m = Model("block")
    last = specs is NHWC
    x = m.param("x", "n", "h", "w", 64) if last else m.param("x", "n", 64, "h", "w")
    w = m.param("w", 3, 3, 64, 64) if last else m.param("w", 64, 64, 3, 3)
    bias = m.param("bias", 64) if last else m.param("bias", 64, 1, 1)
    y = m.add(m.add(convolve(m, x, w, specs), bias), x)
    return optimized(m.function(m.each("maximum", y, 0.0)))


def text(done: Optimized) -> str:
    return "\n".join(kernel_text(v.kernel) for launch in done.launches for v in launch.variants)


def test_kernels(golden: Callable[[str, str], None]) -> None:
    for name, specs in (("nhwc", NHWC), ("nchw", NCHW)):
        done = block(specs)
        assert len(done.launches) == 1
        golden(f"convolution_{name}.txt", text(done))


def test_a_window_of_one_is_a_plain_contraction() -> None:
    for specs, shape in ((NHWC, (1, 1, 64, 32)), (NCHW, (32, 64, 1, 1))):
        m = Model("pointwise")
        x = m.param("x", "n", "h", "w", 64) if specs is NHWC else m.param("x", "n", 64, "h", "w")
        y = convolve(m, x, m.param("w", *shape), specs, padding=((0, 0), (0, 0)))
        done = optimized(m.function(y))
        tiles = [s for v in done.launches[0].variants for s in walk_stmts(v.kernel.body) if isinstance(s, TileContract)]
        assert tiles
        assert all(tile.digits == () for tile in tiles)
        assert "where" not in text(done)


def test_one_channel_a_group_is_a_fold(golden: Callable[[str, str], None]) -> None:
    m = Model("depthwise")
    x, w = m.param("x", "n", "h", "w", 32), m.param("w", 3, 3, 1, 32)
    y = convolve(m, x, w, NHWC, feature_group_count=32)
    golden("convolution_depthwise.txt", text(optimized(m.function(m.each("maximum", y, 0.0)))))


def test_windows_take_an_epilogue(golden: Callable[[str, str], None]) -> None:
    m = Model("pool")
    x = m.param("x", "n", "h", "w", 32)
    pairs = ((0, 0), (1, 1), (1, 1), (0, 0))
    pooled = m.op(
        "reduce_window", m.op("negate", x), window=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding=pairs,
        base_dilations=(1, 1, 1, 1), window_dilations=(1, 1, 1, 1), combine="maximum",
    )  # fmt: skip
    done = optimized(m.function(m.add(m.op("tanh", pooled), 1.0)))
    golden("windows_plan.txt", done.plan.text())
    golden("windows_pool.txt", text(done))


def test_one_channel_a_group_where_that_is_undecided(golden: Callable[[str, str], None]) -> None:
    m = Model("depthwise")
    x, w = m.param("x", "n", "h", "w", "c"), m.param("w", 3, 3, "i", "o")
    done = optimized(m.function(convolve(m, x, w, NHWC, feature_group_count=32)))
    launch, *parts = done.launches
    assert len(parts) == 2
    assert all(one.when is not None for one in parts)
    assert [(v.note, v.when()) for v in launch.variants] == [
        ("a channel a group", "max(-i + 1, i - 1, -o + 32, o - 32) <= 0"), ("packed 8x48", "")
    ]  # fmt: skip
    golden("convolution_depthwise_undecided.txt", text(done))


def test_few_groups_have_one_kernel() -> None:
    m = Model("grouped")
    x, w = m.param("x", "n", "h", "w", "c"), m.param("w", 3, 3, "i", "o")
    whole, *parts = optimized(m.function(convolve(m, x, w, NHWC, feature_group_count=2))).launches
    assert len(whole.variants) == 1
    assert [one.when for one in parts] == [*whole.unless] * 2


def test_weight_gradients_are_cut_into_parts() -> None:
    """Few results of many products: the images are the outermost axis of those, and a part is some of them."""
    x, g = (dyn.ShapeDtypeStruct(("n", "h", "w", c), "float32") for c in (16, 8))
    w = dyn.ShapeDtypeStruct((3, 3, 16, 8), "float32")

    def loss(w: Any, x: Any, g: Any) -> Any:
        return dnp.sum(nn.conv(x, w, 1, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) * g)

    traced = dyn.jit(dyn.grad(loss)).trace(w, x, g).traced
    for target in (gpu_target("cuda", "sm_90a"), gpu_target("rocm", "gfx90a")):
        made = optimize(traced, target, CompilationRecord()).launches
        assert [one.when is not None for one in made if one.group.kind is GroupKind.CONTRACT][-2:] == [True, True]


@pytest.mark.parametrize(("n", "size"), [(1, 3), (2, 64), (3, 40), (40, 9)])
def test_weight_gradients_in_parts_are_right(n: int, size: int) -> None:
    rng = np.random.default_rng(n)
    x, g = (rng.standard_normal((n, size, size, c)).astype("f8") for c in (3, 2))
    w = rng.standard_normal((3, 3, 3, 2))

    def loss(w: Any, x: Any, g: Any) -> Any:
        return dnp.sum(nn.conv(x, w, 1, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) * g)

    found = np.asarray(dyn.jit(dyn.grad(loss))(w, x, g))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for i, j in np.ndindex(3, 3):
        wanted = np.einsum("nhwi,nhwo->io", padded[:, i : i + size, j : j + size], g)
        np.testing.assert_allclose(found[i, j], wanted, rtol=1e-10, atol=1e-10)
