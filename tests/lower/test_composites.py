"""Samples of the ops that are made up of others: a program for each form, run at all its sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.ir.core import attrs_key, region_key
from dyn.ir.opdef import REGISTRY, Composite, Sample
from dyn.trace.function import TracedFunction
from tests.canary import compile_traced, run_compiled
from tests.lower.test_op_programs import TOLERANCE
from tests.lower.test_op_samples import function_of

Array = np.ndarray[Any, Any]
NAMES = sorted(name for name, op in REGISTRY.items() if isinstance(op.loops, Composite))


def near(actual: Array, wanted: Array, scale: float) -> None:
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, wanted)
        return
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    tolerance = TOLERANCE[dtypes.dtype(wanted.dtype).name] * scale
    np.testing.assert_allclose(actual.astype(wide), wanted.astype(wide), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_samples(name: str) -> None:
    opdef = REGISTRY[name]
    forms: dict[object, list[Sample]] = {}
    for sample in opdef.samples():
        types = tuple((a.dtype, a.ndim) for a in sample.operands)
        key = (types, attrs_key(sample.attrs), tuple(region_key(region, {}) for region in sample.regions))
        forms.setdefault(key, []).append(sample)
    for samples in forms.values():
        function = function_of(opdef, samples[0])
        program = compile_traced(TracedFunction(function, (), (), None), ())  # pyright: ignore[reportArgumentType]
        for sample in samples:
            wanted = run_reference(function, sample.operands)
            for own, other in zip(run_compiled(program, sample.operands), wanted, strict=True):
                near(own, other, 8)  # of sums over a few elements
