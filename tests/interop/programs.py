"""Programs of one op, for round trips: each of an op's samples, with sizes that are numbers or symbols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.opdef import REGISTRY, OpDef, Sample
from dyn.ir.types import TensorType
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc
from dyn.trace.function import LeafSpec, TracedFunction, trace_function
from dyn.trace.pytree import flatten

Array = np.ndarray[Any, Any]


def of_sample(opdef: OpDef, sample: Sample, *, symbolic: bool) -> TracedFunction:
    """The op applied to parameters of the sample's shapes, or to ones every axis of which is a symbol of its own."""
    params: list[Value] = []
    for number, array in enumerate(sample.operands):
        shape = tuple(
            as_dim(symbol(f"x{number}_{a}", f"x{number}.shape[{a}]")) if symbolic else n
            for a, n in enumerate(array.shape)
        )
        params.append(Value(TensorType(dtypes.dtype(array.dtype), shape), f"x{number}"))
    builder = Builder(Facts.EMPTY, Loc("sample.py", 1))
    results = builder.emit(opdef, params, sample.regions, **sample.attrs)
    infos = tuple(ParamInfo(v.name) for v in params)
    function = Function("sample", tuple(params), tuple(builder.ops), results, builder.facts, infos)
    _, tree = flatten(tuple(range(len(results))))
    return TracedFunction(function, (), (), tree)


def distinct(samples: list[Sample]) -> Iterator[Sample]:
    """One sample for each choice of dtypes, ranks, attributes that are no sizes, and emptiness."""
    seen: set[Any] = set()
    for sample in samples:
        kinds = tuple((a.dtype.str, a.dtype.name, a.ndim, a.size == 0) for a in sample.operands)
        key = kinds, tuple((k, str(v)) for k, v in sample.attrs.items() if isinstance(v, str | bool | dtypes.DType))
        if key not in seen:
            seen.add(key)
            yield sample


def leaves_of(sample: Sample, *, symbolic: bool) -> list[LeafSpec]:
    """Arguments like a sample's operands."""
    return [
        LeafSpec(f"x{i}", dtypes.dtype(a.dtype), (None,) * a.ndim if symbolic else a.shape)
        for i, a in enumerate(sample.operands)
    ]


def retraced(loaded: Any, sample: Sample, *, symbolic: bool) -> TracedFunction:
    """A loaded program as it is traced for arguments like a sample's operands."""
    return trace_function(lambda tracers: loaded(*tracers), "again", leaves_of(sample, symbolic=symbolic))


NAMES = sorted(REGISTRY)
