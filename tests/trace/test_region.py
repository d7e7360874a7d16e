"""Python functions as regions: what they may read, what they have to give, and where errors point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import LeakedTracerError, TraceError, UnsupportedOpError
from dyn.ir.core import Region
from dyn.ir.types import TensorType
from dyn.ops.regions import monoid_of
from dyn.trace.context import Trace
from dyn.trace.pytree import flatten
from dyn.trace.region import Expected, TracedRegion, trace_region
from dyn.trace.tracer import Tracer
from tests.trace.tracing import leaf, text_of, trace

F32, I32 = TensorType(dtypes.float32, ()), TensorType(dtypes.int32, ())


def traced(
    body: Callable[..., Any], *params: TensorType, expected: Expected | None = None, closes: bool = True
) -> TracedRegion:
    """The region of ``body(x, *params)``, where ``x`` is the array of the function around it."""
    found: list[TracedRegion] = []

    def fn(x: Any) -> Any:
        region = trace_region(
            x._trace, lambda *args: body(x, *args), params, name="the body", expected=expected, closes=closes
        )
        found.append(region)
        return x * 2  # what is made after a region is not made in it

    done = trace(fn, leaf("x", None, 3))
    assert [op.opdef.name for op in done.function.ops] == ["constant", "broadcast_in_dim", "multiply"]
    return found[0]


def names(region: Region) -> list[str]:
    return [op.opdef.name for op in region.ops]


def expecting(tree: Any, *types: TensorType) -> Expected:
    return Expected(flatten(tree)[1], types, "the initial values")


def test_the_ops_of_a_region_are_its_own() -> None:
    region = traced(lambda x, a, b: {"sum": a + b, "both": (a, b * 2)}, F32, F32).region
    assert sorted(names(region)) == ["add", "constant", "multiply"]
    assert [v.type for v in region.params] == [F32, F32]
    assert list(region.reads()) == []
    assert len(region.results) == 3


def test_an_open_region_reads_values_around_it() -> None:
    region = traced(lambda x, a: dnp.sum(x * a) + dnp.sum(a * x), F32).region
    assert {v.type.rank for v in region.reads()} == {2}
    assert region.results[0].type == F32


def test_the_order_of_operands_does_not_matter() -> None:
    """An operation belongs to the region that it is traced in, whichever operand comes from outside."""
    for body in (lambda x, a: x[0, 0] - a, lambda x, a: a - x[0, 0], lambda x, a: x[0, 0] + x[0, 1]):
        assert names(traced(body, F32).region)[-1] in ("subtract", "add")


def test_a_closed_region_says_what_it_reads() -> None:
    def run(body: Callable[..., Any]) -> str:
        return text_of(UnsupportedOpError, traced, body, F32, closes=False)

    assert run(lambda x, a: a + x) == (
        "the body reads an array (f32[x_0, 3]) from outside.\n"
        '  it was made at tracing.py:N  traced = trace_function(lambda tracers: fn(*tracers), "f", leaves, '
        "Declarations(dims, constraints))\n"
        "  at test_region.py:N  assert run(lambda x, a: a + x) == (\n"
        "  help: make it one more operand: there are its arguments, Python numbers and dimensions alone."
    )
    array = np.ones(3)
    text = run(lambda x, a: a + array)
    assert text.startswith("the body reads an array (f64[3]) from outside.\n  at test_region.py:N")


def test_dims_are_those_of_the_function() -> None:
    def body(x: Any, a: Any) -> Any:
        n = x.shape[0]
        assert n + 1 > n
        assert (n * 2) % 2 == 0
        return a * n + dnp.zeros((n,)).shape[0] / n

    for closes in (True, False):
        region = traced(lambda x, a: a * x.shape[0] + x.shape[0] ** -0.5, F32, closes=closes).region
        assert names(region).count("dim_size") >= 1
        assert list(region.reads()) == []
    assert traced(body, F32).region.results[0].type == F32


def test_captured_arrays_are_parameters_of_the_function() -> None:
    array = np.arange(3, dtype="f4")

    def fn(x: Tracer) -> Tracer:
        def inner(a: Any) -> Any:
            return trace_region(a._trace, lambda b: b + dnp.sum(array), [F32], name="inner").region.results[0] and a

        trace_region(x._trace, inner, [F32], name="outer")
        return x

    assert [info.hidden for info in trace(fn, leaf("x", 3)).function.infos] == [False, True]


def test_regions_in_regions() -> None:
    inner: list[Region] = []

    def outer(x: Any, a: Any) -> Any:
        inner.append(trace_region(a._trace, lambda b: a * b + x[0, 0], [F32], name="inner").region)
        return a

    region = traced(outer, F32).region
    assert names(inner[0])[-1] == "add"
    assert {v.type.rank for v in inner[0].reads()} == {0, 2}
    assert names(region) == []


def test_a_closed_region_closes_what_is_inside_of_it() -> None:
    def outer(x: Any, a: Any) -> Any:
        trace_region(a._trace, lambda b: b + x[0, 0], [F32], name="inner")
        return a

    with pytest.raises(UnsupportedOpError, match=r"inner reads an array \(f32\[x_0, 3\]\) from outside"):
        traced(outer, F32, closes=False)


def test_values_of_a_region_end_with_it() -> None:
    kept: list[Any] = []

    def fn(x: Tracer) -> Any:
        trace_region(x._trace, lambda a: kept.append(a) or a, [F32], name="the body of it")
        return x + kept[0]

    text = text_of(LeakedTracerError, trace, fn, leaf("x", 3))
    assert text.startswith("an array (f32[]) of a trace of 'the body of it' is used outside that trace.\n")


def test_results_are_what_is_expected() -> None:
    wanted = expecting((0, 0), F32, I32)
    region = traced(lambda x, a: (1, 2), F32, expected=wanted).region
    assert [v.type for v in region.results] == [F32, I32]
    assert traced(lambda x, a: (1.5, True), F32).region.results[0].type.weak
    assert text_of(TraceError, traced, lambda x, a: {"a": a}, F32, expected=wanted).startswith(
        "the body gives {'a': *}, and the initial values are (*, *).\n"
    )
    assert text_of(TraceError, traced, lambda x, a: (a, 1.5), F32, expected=wanted).startswith(
        "the body gives f64[]~ (result[1]), where the initial values are i32[].\n"
    )
    assert text_of(TraceError, traced, lambda x, a: (x, 1), F32, expected=wanted).startswith(
        "the body gives f32[x_0, 3] (result[0]), where the initial values are f32[].\n"
    )
    assert text_of(TraceError, traced, lambda x, a: "text", F32).startswith(
        "the body gives a str (result), which is not an array.\n"
    )


def test_monoids_are_recognised() -> None:
    def found(body: Callable[..., Any], *types: TensorType) -> tuple[str, ...] | None:
        return monoid_of(traced(lambda x, *args: body(*args), *types, *types, closes=False).region)

    assert found(lambda a, b: a + b, F32) == ("add",)
    assert found(lambda a, b: b * a, F32) == ("multiply",)
    assert found(lambda a, i, b, j: (dnp.maximum(a, b), i | j), F32, I32) == ("maximum", "or")
    assert found(lambda a, b: a - b, F32) is None
    assert found(lambda a, b: a + a, F32) is None
    assert found(lambda a, b: a + b + 1, F32) is None
    assert found(lambda a, b: b, F32) is None
    assert found(lambda a, i, b, j: (a + b, i), F32, I32) is None
    complex64 = replace(F32, dtype=dtypes.complex64)
    assert found(lambda a, b: a + b, complex64) == ("add",)
    assert found(lambda a, b: a * b, complex64) is None


def test_a_trace_knows_what_it_may_read() -> None:
    def fn(x: Tracer) -> Tracer:
        inner: list[Trace] = []
        trace_region(x._trace, lambda a: inner.append(a._trace) or a, [F32], name="inner")
        assert x._trace.encloses(inner[0])
        assert not inner[0].encloses(x._trace)
        assert not inner[0].may_read(x._trace)  # it has ended
        assert inner[0].program is x._trace.program is x._trace
        return x

    trace(fn, leaf("x", 3))
