"""Reductions with a body of one's own, compiled: one program for all sizes, in the order of the elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.errors import IRError
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value, attrs_key, region_key
from dyn.ir.evaluate import run_sample
from dyn.ir.opdef import REGISTRY, OpDef, Sample
from dyn.ir.types import TensorType
from dyn.lower.gpu.dialect import dialect_of
from dyn.pipeline import CompilationRecord, Optimized, optimize
from dyn.schedule.kernel import Buffer, Carry, Const, Expr, Kernel, Loop, Ref, Role, Store
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.target import Target
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc
from dyn.trace.function import LeafSpec, TracedFunction, trace_function
from tests.canary import compile_traced, run_compiled
from tests.lower.gpu_programs import TARGETS, compile_function, run
from tests.shim.run import ShimModule

Array = np.ndarray[Any, Any]
OPS = [REGISTRY[name] for name in ("variadic_reduce", "variadic_reduce_window")]
#: Samples of one op that one program takes, at several sizes.
Form = tuple[OpDef, list[Sample]]


def forms(opdef: OpDef) -> list[Form]:
    """The samples by dtypes, ranks, axes and bodies."""
    found: dict[object, list[Sample]] = {}
    for sample in opdef.samples():
        types = tuple((a.dtype, a.ndim) for a in sample.operands)
        key = (types, attrs_key(sample.attrs), region_key(sample.regions[0], {}))
        found.setdefault(key, []).append(sample)
    return [(opdef, samples) for samples in found.values()]


def traced_sample(opdef: OpDef, sample: Sample) -> TracedFunction:
    sizes = [as_dim(symbol(f"n{a}", f"x.shape[{a}]")) for a in range(sample.operands[0].ndim)]
    types = [TensorType(dtypes.dtype(a.dtype), tuple(sizes[: a.ndim])) for a in sample.operands]
    params = [Value(t, "x") for t in types]
    builder = Builder(Facts.EMPTY, Loc("sample.py", 1))
    results = builder.emit(opdef, params, sample.regions, **sample.attrs)
    infos = tuple(ParamInfo(f"x{i}") for i in range(len(params)))
    function = Function("sample", tuple(params), tuple(builder.ops), results, builder.facts, infos)
    return replace(trace_function(lambda xs: xs[0], "empty", [LeafSpec("x", dtypes.float32, ())]), function=function)


def same(actual: Array, wanted: Array) -> None:
    """Equal to the bit, but for which NaN it is."""
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    assert np.all((actual == wanted) | ((actual != actual) & (wanted != wanted))), (actual, wanted)


@pytest.mark.parametrize("form", [form for opdef in OPS for form in forms(opdef)], ids=lambda form: form[0].name)
def test_compiled_samples(form: Form) -> None:
    opdef, samples = form
    compiled = compile_traced(traced_sample(opdef, samples[0]), [])
    for sample in samples:
        for actual, wanted in zip(run_compiled(compiled, sample.operands), run_sample(opdef, sample), strict=True):
            same(actual, wanted)


@pytest.mark.parametrize("opdef", OPS, ids=lambda opdef: opdef.name)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_samples_on_gpus(target: Target, opdef: OpDef, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    reals = [s for _, s in forms(opdef) if not any(a.dtype.kind == "c" for a in s[0].operands)]
    compiled = [compile_function(traced_sample(opdef, s[0]).function, target, f"s{i}") for i, s in enumerate(reals)]
    texts = [text for one in compiled for text in one.texts.values()]
    module = ShimModule(texts, dialect_of(target), target.warp)
    for samples, one in zip(reals, compiled, strict=True):
        for sample in samples:
            for actual, wanted in zip(run(module, one, sample.operands), run_sample(opdef, sample), strict=True):
                assert actual is not None
                same(actual, wanted)


# --- schedules ----------------------------------------------------------------------------------------------------


def last_greatest(a: Any, b: Any) -> Any:
    """The greatest element, and where it stands last."""
    (value, place), (x, i) = a, b
    wins = x >= value
    return dnp.where(wins, x, value), dnp.where(wins, i, place)


def places(x: Any, axis: int) -> Any:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return dnp.broadcast_to(dnp.reshape(dnp.arange(x.shape[axis]), shape), x.shape)


def lowered(program: Callable[..., Any], *axes: int | str) -> Optimized:
    traced = trace_function(lambda xs: program(*xs), "program", [LeafSpec("x", dtypes.float32, axes)])
    return optimize(traced, Target("x86", "x86-64-v4", vector_bytes=64, registers=32), CompilationRecord())


def kernels(done: Optimized) -> str:
    return "\n".join(kernel_text(v.kernel) for launch in done.launches for v in launch.variants)


def test_rows_lie_side_by_side_unless_they_are_few(golden: Callable[[str, str], None]) -> None:
    def program(x: Any) -> Any:
        return lax.reduce((dnp.exp(x), places(x, 1)), (-np.inf, -1), last_greatest, (1,))

    done = lowered(program, "m", "n")
    (launch,) = done.launches
    assert [v.when() for v in launch.variants] == ["m <= 7", ""]
    golden("ordered_rows.txt", kernels(done))


def test_several_axes_are_folded_in_the_order_of_memory(golden: Callable[[str, str], None]) -> None:
    def program(x: Any) -> Any:
        return lax.reduce(x, 1.0, lambda acc, y: acc * 0.5 + y, (0, 2)) * 2

    golden("ordered_axes.txt", kernels(lowered(program, "a", "b", "c")))


def test_what_goes_along_rows_stays_outside() -> None:
    def program(x: Any) -> Any:
        total = lax.reduce(x, 1.0, lambda acc, y: acc * 0.5 + y, (1,))
        return dnp.sum(x, axis=1) + total, x - total[:, None]

    done = lowered(program, "m", "n")
    ends = [end for group in done.plan.groups for end in group.ends]
    assert [group.kind.value for group in done.plan.groups] == ["stitch", "stitch"]
    assert any("one of the two reduces rows in order" in end.words for end in ends), ends


def test_columns_share_a_kernel_with_sums_and_with_what_is_computed_from_both() -> None:
    def program(x: Any) -> Any:
        total = lax.reduce(x, 1.0, lambda acc, y: acc * 0.5 + y, (0,))
        return x - total * dnp.sum(x, axis=0)

    done = lowered(program, "m", "n")
    assert [group.kind.value for group in done.plan.groups] == ["stitch"]
    x = np.random.default_rng(0).normal(size=(7, 5)).astype("f4")
    total = np.ones(5, "f4")
    for row in x:
        total = total * np.float32(0.5) + row
    np.testing.assert_allclose(dyn.jit(program)(x), x - total * x.sum(0), rtol=1e-5)


def test_two_bodies_are_two_kernels() -> None:
    """Groups that differ in a region alone are not one."""

    def program(x: Any) -> Any:
        first = lax.reduce(dnp.sin(x), 1.0, lambda acc, y: acc * 0.5 + y, (0,))
        second = lax.reduce(dnp.cos(x), 1.0, lambda acc, y: acc * 0.25 + y, (0,))
        third = lax.reduce(dnp.tan(x), 1.0, lambda acc, y: acc * 0.5 - y, (0,))
        return first, second, third

    x = np.arange(3, dtype="f4")
    for found, (f, scale, sign) in zip(
        dyn.jit(program)(x), [(np.sin, 0.5, 1), (np.cos, 0.25, 1), (np.tan, 0.5, -1)], strict=True
    ):
        wanted = 1.0
        for y in f(x):
            wanted = wanted * scale + sign * y
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


# --- the kernel IR ------------------------------------------------------------------------------------------------


def test_kernels_that_carry_badly_are_refused() -> None:
    f32 = dtypes.float32
    n, j = symbol("n", "n"), symbol("j", "j")
    out, ref, state = Buffer("out", f32), Ref("acc", f32), Ref("state", f32)
    zero, whole = Const(f32, 0.0), Const(dtypes.int32, 0)

    def problem(role: Role, init: Expr = zero, value: Expr = state, store: Expr = ref) -> str:
        loop = Loop(role, j, as_dim(n), (), (), (Carry(ref, state, init, value),))
        with pytest.raises(IRError) as caught:
            check(Kernel("k", (out,), (n,), (), (loop, Store(out, 0, store))))
        return str(caught.value)

    assert problem(Role.LANE) == "kernel k: lane loop j carries acc, and has no order"
    assert problem(Role.SERIAL, init=whole) == "kernel k: what loop j carries as acc has several dtypes"
    assert problem(Role.SERIAL, init=state) == "kernel k: state is used before it is computed"
    assert problem(Role.SERIAL, store=state) == "kernel k: state is used before it is computed"
