"""Every pointwise op's samples, compiled: one program an op, of all its dtypes and attributes, run at all its sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value, attrs_key, region_key
from dyn.ir.evaluate import run_sample
from dyn.ir.opdef import REGISTRY, OpDef, OpKind, Sample
from dyn.ir.types import TensorType
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc
from dyn.trace.function import LeafSpec, trace_function
from tests.canary import compile_traced, run_compiled

Array = np.ndarray[Any, Any]
OPS = sorted(name for name, op in REGISTRY.items() if op.kind is OpKind.POINTWISE)
#: How far results may be from the reference: some units in the last place, of complex numbers of the whole.
TOLERANCE = {
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    **{d.name: 2.0**-d.floating.fraction for d in dtypes.FLOAT8},
    "float32": 2e-6,
    "float64": 2e-14,
    "complex64": 4e-6,
    "complex128": 2e-14,
}


def forms(opdef: OpDef) -> dict[object, list[Sample]]:
    """The samples by dtypes, ranks and attributes: what one program can take at several sizes."""
    found: dict[object, list[Sample]] = {}
    for sample in opdef.samples():
        types = tuple((a.dtype, a.ndim) for a in sample.operands)
        regions = tuple(region_key(region, {}) for region in sample.regions)
        found.setdefault((types, attrs_key(sample.attrs), regions), []).append(sample)
    return found


def program(opdef: OpDef, samples: list[Sample]) -> Function:
    """The op once for each form, over parameters of the forms' own; samples stand for their forms."""
    builder = Builder(Facts.EMPTY, Loc("sample.py", 1))
    params: list[Value] = []
    results: list[Value] = []
    for number, sample in enumerate(samples):
        sizes = [as_dim(symbol(f"n{number}_{a}", f"n{number}")) for a in range(max(x.ndim for x in sample.operands))]
        own = [Value(TensorType(dtypes.dtype(a.dtype), tuple(sizes[: a.ndim])), "x") for a in sample.operands]
        params += own
        results += builder.emit(opdef, own, sample.regions, **sample.attrs)
    infos = tuple(ParamInfo(f"x{i}") for i in range(len(params)))
    return Function("samples", tuple(params), tuple(builder.ops), tuple(results), builder.facts, infos)


def near(actual: Array, wanted: Array, dtype: DType) -> None:
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if dtype.kind in (Kind.BOOL, Kind.INT, Kind.UINT):
        np.testing.assert_array_equal(actual, wanted)
        return
    wide = np.complex128 if dtype.kind is Kind.COMPLEX else np.float64
    tolerance = TOLERANCE[dtype.name]
    np.testing.assert_allclose(actual.astype(wide), wanted.astype(wide), rtol=tolerance, atol=tolerance / 4)


@pytest.mark.parametrize("name", OPS)
def test_samples(name: str) -> None:
    opdef = REGISTRY[name]
    groups = list(forms(opdef).values())
    leaf = [LeafSpec("x", dtypes.float32, ())]
    traced = replace(trace_function(lambda xs: xs[0], "empty", leaf), function=program(opdef, [g[0] for g in groups]))
    compiled = compile_traced(traced, [])
    for turn in range(max(len(group) for group in groups)):
        samples = [group[turn % len(group)] for group in groups]
        results = run_compiled(compiled, [a for sample in samples for a in sample.operands])
        for sample, actual in zip(samples, results, strict=True):
            (wanted,) = run_sample(opdef, sample)
            near(actual, wanted, dtypes.dtype(wanted.dtype))
