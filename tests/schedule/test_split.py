"""Reductions in parts: the same numbers, whatever the cut, and as precise as a pairwise sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given

import dyn
import dyn.numpy as dnp
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.sizes import LoopSchedule
from dyn.schedule.x86 import tables
from tests.numpy.differential import compare
from tests.stitch.models import Model, optimized
from tests.stitch.programs import Program, programs
from tests.stitch.test_random_programs import CHECKS, run_drawn

Array = np.ndarray[Any, Any]
SMALL = LoopSchedule(
    elements=8192, columns=256, scattered=2048, part=3, part_rows=2, many_rows=3, few_columns=60, few_long_rows=4,
    few_long_columns=512, long=4, part_steps=3, few_results=150, accumulators=4,
)  # fmt: skip


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few elements, so that small arrays have several."""
    monkeypatch.setattr(tables, "SIZES", SMALL)


@hypothesis.settings(max_examples=60, suppress_health_check=[*CHECKS, hypothesis.HealthCheck.function_scoped_fixture])
@given(programs())
@pytest.mark.usefixtures("small_parts")
def test_random_programs_in_parts(program: Program) -> None:
    run_drawn(program)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint64", "bool"])
def test_every_reduction_in_parts(dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        logical = xp.any(x), xp.all(x), xp.any(x, axis=0), xp.all(x, axis=(0, 2))
        if dtype == "bool":
            return logical
        folds = xp.sum(x, dtype=dtype), xp.sum(x, axis=0, dtype=dtype), xp.sum(x, axis=(1, 2), dtype=dtype)
        return (*logical, *folds, xp.max(x, initial=0), xp.min(x, axis=1, initial=0), xp.count_nonzero(x))

    def oracle(xp: Any, x: Array) -> Any:
        wide = x.astype(np.float64) if dtype in ("float16", "bfloat16", "float32") else x
        return tuple(
            np.asarray(r).astype(x.dtype) if r.dtype.kind == "f" or r.dtype == x.dtype else r for r in program_of(wide)
        )

    def program_of(x: Array) -> Any:
        results = program(np, x) if x.dtype.kind != "f" or dtype == "bool" else wide_program(x)
        return tuple(np.asarray(r) for r in results)

    def wide_program(x: Array) -> Any:
        return (
            np.any(x), np.all(x), np.any(x, axis=0), np.all(x, axis=(0, 2)), np.sum(x), np.sum(x, axis=0),
            np.sum(x, axis=(1, 2)), np.max(x, initial=0), np.min(x, axis=1, initial=0), np.count_nonzero(x),
        )  # fmt: skip

    rtol = {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 1e-5)
    compare(program, f"{dtype} n m 3", sizes=(0, 1, 2, 7), oracle=oracle, rtol=rtol)


@pytest.mark.usefixtures("small_parts")
def test_groups_with_several_sweeps() -> None:
    """Mean, variance and what is stored in between, of a whole array: a launch or two a sweep."""

    def program(xp: Any, x: Any, w: Any) -> Any:
        centred = x - xp.mean(x)
        spread = xp.sqrt(xp.mean(centred * centred) + 1)
        return centred / spread * w, spread * 2, xp.max(x, initial=0)

    compare(program, "float64 n m", "float64 m", sizes=(1, 2, 7), rtol=1e-12)


def _softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True, initial=-9))
    return e / (1 + xp.sum(e, axis=-1, keepdims=True))


def _layer_norm(xp: Any, x: Any, g: Any, b: Any, axis: int = -1) -> Any:
    """``g`` and ``b`` may stretch the axis, for all that is known."""
    count = xp.maximum(xp.sum(xp.ones_like(x), axis=axis, keepdims=True), 1)
    d = x - xp.sum(x, axis=axis, keepdims=True) / count
    return d / xp.sqrt(xp.sum(d * d, axis=axis, keepdims=True) / count + 1) * g + b


@pytest.mark.usefixtures("small_parts")
def test_few_rows_and_columns_of_several_sweeps() -> None:
    """Rows up to a part and beyond it, and up to as many as are cut and more."""

    def columns(xp: Any, x: Any) -> Any:
        d = x - xp.sum(x, axis=0) / 4
        return d * xp.sum(d * d, axis=0), xp.sum(x, axis=0)

    for program, shapes in ((_softmax, ("n m",)), (_layer_norm, ("n m", "k", "m")), (columns, ("n m",))):
        compare(program, *[f"float64 {s}" for s in shapes], sizes=(0, 1, 2, 4, 5, 7), rtol=1e-10)


def test_one_long_row_and_few_long_columns() -> None:
    """The same bits for any number of threads, and what one kernel gives for as many rows as are not cut."""
    rng = np.random.default_rng(0)
    softmax, norm = (dyn.jit(lambda *x, program=program: program(dnp, *x)) for program in (_softmax, _layer_norm))
    columns = dyn.jit(lambda x: _layer_norm(dnp, x, 2, 1, axis=0))
    g, b = rng.standard_normal((2, 100_003)).astype(np.float32)
    for shape in ((1, 32768), (1, 32769), (1, 100_003), (7, 65536), (8, 65536)):
        x = rng.standard_normal(shape).astype(np.float32)
        scale, shift = g[: shape[1]], b[: shape[1]]
        tall = np.ascontiguousarray(x.T)
        made: list[list[bytes]] = []
        for threads in (1, 2, 3):
            with dyn.config.override(num_threads=threads):
                results = softmax(x), norm(x, scale, shift), columns(tall)
            made.append([r.tobytes() for r in results])
        assert made[0] == made[1] == made[2]
        wide = x.astype(np.float64)
        exact = _softmax(np, wide), _layer_norm(np, wide, scale, shift), _layer_norm(np, wide.T, 2, 1, axis=0)
        for found, wanted in zip(results, exact, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_as_many_rows_as_keep_cores_busy_are_not_cut() -> None:
    """Heads of attention, rows of a square, those of a batch of sequences: there are no kernels for their parts."""

    def launches(*shape: int | str) -> int:
        m = Model("f")
        return len(optimized(m.function(m.softmax(m.param("x", *shape)))).launches)

    assert launches("n", "m") == launches(3, "m") == 6
    shapes: list[tuple[int | str, ...]] = [("n", 768), (12, "n", "m"), ("n", "n"), ("k", "n", 50257)]
    assert [launches(*shape) for shape in shapes] == [1, 1, 1, 1]


def _kernels(size: int | str) -> list[str]:
    m = Model("f")
    x = m.param("x", size, 5)
    done = optimized(m.function(m.reduce(m.mul(x, x), (0, 1), keep=False)))
    return list(dict.fromkeys(kernel_text(v.kernel) for launch in done.launches for v in launch.variants))


def test_what_is_known_to_be_small_is_not_cut_and_what_is_large_always() -> None:
    assert [len(_kernels(size)) for size in (6553, 6554, "n")] == [1, 2, 4]


def test_kernels_of_parts(golden: Callable[[str, str], None]) -> None:
    golden("split_all.txt", "\n".join(_kernels("n")))
    m = Model("f")
    x = m.param("x", "n", "m")
    done = optimized(m.function(m.reduce(x, 0, keep=False)))
    golden(
        "split_columns.txt",
        "\n".join(dict.fromkeys(kernel_text(v.kernel) for la in done.launches for v in la.variants)),
    )
    golden("split_host.txt", done.host.text())


# ---- how precise -----------------------------------------------------------------------------------------------------


def test_sums_of_ten_million() -> None:
    """Within 1e-6 of the sum of the absolute values: a part has 32768 elements in 64 lanes, and there are 306."""
    total = dyn.jit(dnp.sum)
    assert total(np.ones(10**7, np.float32)) == 1e7
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = (rng.random(10**7) if seed else rng.standard_normal(10**7)).astype(np.float32)
        exact = x.sum(dtype=np.float64)
        assert abs(total(x) - exact) <= 1e-6 * np.abs(x).sum(dtype=np.float64)
    assert total.cache_info().compiles == 1


def test_sums_of_long_columns() -> None:
    """Within 1e-6 too: parts of 512 rows, one after the other, and the parts in lanes."""
    total = dyn.jit(lambda x: dnp.sum(x, 0))
    for width in (1, 3, 20):
        x = np.random.default_rng(width).random((10**6, width)).astype(np.float32)
        exact = x.sum(0, dtype=np.float64)
        assert (abs(total(x) - exact) <= 1e-6 * exact).all()
    assert total.cache_info().compiles == 1


def test_a_sum_does_not_depend_on_where_the_array_lies() -> None:
    total = dyn.jit(dnp.sum)
    x = np.random.default_rng(0).standard_normal(100_001).astype(np.float32)
    results = {total(np.concatenate([np.zeros(k, np.float32), x])[k:]).tobytes() for k in range(5)}
    assert len(results) == 1
