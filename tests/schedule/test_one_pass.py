"""Rewrites that change numerics: the second pass of a variance saved, and how far the results are from exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.pipeline import CompilationRecord, optimize
from dyn.schedule import plan, reduction_parts
from dyn.schedule.launch_cache import KnownGroups
from dyn.schedule.target import Target
from dyn.schedule.x86 import tables
from dyn.trace.function import LeafSpec, trace_function
from tests.canary import compile_traced, run_compiled
from tests.numpy.differential import compare
from tests.schedule.test_split import SMALL

Array = np.ndarray[Any, Any]
Program = Callable[[Any], Any]


def variance(axis: int | None) -> Program:
    return lambda x: dnp.var(x, axis=axis)


def compiled(program: Program, dtype: str, *, rewritten: bool) -> Program:
    """The program with the rewrite, or without it; no cache is asked."""
    leaf = LeafSpec("x", dtypes.dtype(dtype), ("m", "n"))
    with pytest.MonkeyPatch.context() as patch:
        if not rewritten:
            patch.setattr(reduction_parts, "one_pass_variance", lambda *stages: None)
            patch.setattr(plan, "KNOWN", KnownGroups())
        made = compile_traced(trace_function(lambda xs: program(*xs), "program", [leaf]), [])
    return lambda x: run_compiled(made, (x,))[0]


def draw(kind: str, shape: tuple[int, ...], dtype: str) -> Array:
    x = np.random.default_rng(0).standard_normal(shape)
    if kind == "far":
        x += 1e8 if dtype == "float64" else 1e4
    elif kind == "first far":  # what distances are taken from is nowhere near the mean
        x[:1], x[:, :1] = 1e4, 1e4
    elif kind == "trend":
        x += np.linspace(0, 1e3, x.size).reshape(shape)
    elif kind == "equal":
        x[...] = 1 / 3 + 1e4
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["noise", "far", "first far", "trend", "equal"])
def test_how_far_a_variance_is_from_exact(kind: str, dtype: str) -> None:
    """Within the bound, and about as near as two passes are; far better than a difference of squares."""
    unit = np.finfo(dtype).eps / 2
    for axis, shape in ((None, (300, 400)), (1, (3, 50_000))):
        x = draw(kind, shape, dtype)
        wide = x.astype(np.longdouble)
        first = wide[0, 0] if axis is None else wide.take([0], axis=axis)
        exact, apart = (wide - first).var(axis=axis), (wide - first).mean(axis=axis) ** 2
        found, other = (compiled(variance(axis), dtype, rewritten=way)(x) for way in (True, False))
        # 512 steps in each lane; distances from the first element are rounded, too.
        bound = 1000 * unit * np.sqrt(exact * (exact + apart)) + 1000 * unit**2 * apart
        assert (np.abs(found - exact) <= bound).all(), (axis, found, exact)
        if kind != "first far":
            # A mean is rounded to some units of its last place, by either way.
            slack = 64 * unit * exact + (64 * unit * np.abs(wide).max()) ** 2
            assert (np.abs(found - exact) <= 4 * np.abs(other - exact) + slack).all(), (axis, found, other, exact)


def test_an_infinite_element_or_a_nan_makes_a_nan() -> None:
    run = dyn.jit(variance(None))
    for value in (np.inf, -np.inf, np.nan):
        for place in (0, 77_777):
            x = draw("noise", (300, 400), "float32")
            x.reshape(-1)[place] = value
            assert np.isnan(run(x))


def passes(program: Program, *axes: int | str) -> int:
    """The kernels in parts."""
    traced = trace_function(lambda xs: program(*xs), "program", [LeafSpec("x", dtypes.float32, axes)])
    done = optimize(traced, Target("x86", "x86-64-v4", vector_bytes=64, registers=32), CompilationRecord())
    return sum(v.note.endswith(", parts") for launch in done.launches for v in launch.variants)


def test_what_takes_one_pass() -> None:
    assert passes(dnp.var, "m", "n") == 1
    assert passes(lambda x: dnp.std(x, axis=1), "m", "n") == 1
    assert passes(lambda x: dnp.std(x, axis=1, ddof=1) + dnp.max(x, axis=1), "m", "n") == 1
    assert passes(lambda x: (x - dnp.mean(x)) / dnp.std(x), "m", "n") == 2


def test_what_takes_two_passes() -> None:
    assert passes(lambda x: dnp.sum(dnp.abs(x - dnp.mean(x))), "n") == 2
    assert passes(lambda x: dnp.sum((x - dnp.sum(x) / 7) ** 2), "n") == 2
    assert passes(lambda x: dnp.sum((x - dnp.max(x, initial=0)) ** 2), "n") == 2
    assert passes(lambda x: dnp.sum((2 * x - dnp.mean(x)) * (2 * x - dnp.mean(x))), "n") == 2
    assert passes(lambda x: dnp.var(x) + dnp.max(dnp.abs(x - dnp.mean(x)), initial=0), "n") == 2


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_programs_in_parts(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SIZES", SMALL)

    def program(xp: Any, x: Any) -> Any:
        centred = x - xp.mean(x)
        return xp.var(x), xp.std(x, axis=0), xp.var(x, axis=1), centred / (xp.std(x) + 1)

    def oracle(xp: Any, x: Array) -> Any:
        return tuple(np.asarray(r).astype(x.dtype) for r in program(np, x.astype(np.float64)))

    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}[dtype]
    compare(program, f"{dtype} n m", sizes=(1, 2, 7), oracle=oracle, rtol=tolerance)
