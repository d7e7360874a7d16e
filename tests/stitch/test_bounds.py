"""Groups stay small where a large one would take more than its share to compile."""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp


def test_chains_of_reductions_are_cut() -> None:
    """Each sweep computes in part again what those before it had: n of them would be n² statements."""

    def centred(count: int) -> Any:
        def f(x: Any) -> Any:
            for _ in range(count):
                x = x - dnp.sum(x, axis=-1, keepdims=True) / 7
            return x

        return dyn.jit(f)

    x = np.random.default_rng(0).random((3, 5))
    lengths: list[int] = []
    for count in (40, 80):
        jitted, wanted = centred(count), x
        for _ in range(count):
            wanted = wanted - wanted.sum(axis=-1, keepdims=True) / 7
        np.testing.assert_allclose(jitted(x), wanted)
        lowered = jitted.trace(x).lower()
        assert "together they have more than 16 reductions, which would take too long to compile" in lowered.as_text(
            "stitch"
        )
        lengths.append(len(lowered.as_text("kernel")))
    assert lengths[1] < 2.3 * lengths[0]


def test_chains_of_ops_are_cut() -> None:
    """LLVM takes memory with the square of a function's length."""

    def f(x: Any) -> Any:
        for i in range(1200):
            x = x * 0.5 + i
        return x

    jitted, x = dyn.jit(f), np.linspace(0, 1, 7)
    np.testing.assert_array_equal(jitted(x), f(x))
    plan = jitted.trace(x).lower().as_text("stitch")
    assert plan.count("\nloop ") + plan.startswith("loop ") == 5
    assert "together they have more than 512 ops, which would take too long to compile" in plan


def test_huge_sizes_are_priced() -> None:
    """Costs that no number holds, of arrays that are only ever empty."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        z = dnp.exp(x) + y
        return dnp.sum(z * 2, axis=0), z

    struct = dyn.ShapeDtypeStruct(("n", *[2**40] * 30), "float32")
    plan = f.trace(struct, struct).lower().as_text("stitch")
    assert plan.count("stitch reduce") == 1
