"""Samples of the ops that move elements to and from computed places, compiled with every axis symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.opdef import REGISTRY, OpDef, OpKind, Sample
from dyn.ir.types import TensorType
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc
from dyn.trace.function import TracedFunction
from tests.canary import compile_traced, run_compiled

NAMES = sorted(name for name, op in REGISTRY.items() if op.kind in (OpKind.INDEXED, OpKind.SCATTER))


def function_of(opdef: OpDef, sample: Sample) -> Function:
    """The op applied to parameters, every axis of which is a symbol of its own."""
    params: list[Value] = []
    for number, array in enumerate(sample.operands):
        shape = tuple(as_dim(symbol(f"x{number}_{a}", f"x{number}.shape[{a}]")) for a in range(array.ndim))
        params.append(Value(TensorType(dtypes.dtype(array.dtype), shape), f"x{number}"))
    builder = Builder(Facts.EMPTY, Loc("sample.py", 1))
    results = builder.emit(opdef, params, sample.regions, **sample.attrs)
    infos = tuple(ParamInfo(v.name) for v in params)
    return Function("sample", tuple(params), tuple(builder.ops), results, builder.facts, infos)


def plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats that NumPy cannot compare as float32, which holds them: two NaNs are equal then."""
    return array.astype(np.float32) if dtypes.dtype(array.dtype).is_float and array.dtype.kind != "f" else array


@pytest.mark.parametrize("name", NAMES)
def test_compiled_samples(name: str) -> None:
    compiled = 0
    for sample in REGISTRY[name].samples():
        if any(array.dtype.kind == "c" for array in sample.operands):
            continue  # kernels have no complex numbers yet
        function = function_of(REGISTRY[name], sample)
        traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
        (actual,) = run_compiled(compile_traced(traced, ()), sample.operands)
        (wanted,) = run_reference(function, sample.operands)
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(plain(actual), plain(wanted), err_msg=f"{sample}")
        compiled += 1
    assert compiled
