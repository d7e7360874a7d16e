"""The samples of ops, compiled with undecided shapes and run between canaries.

Those of elementwise ops, of which there are many, share programs (``test_op_programs``); those of ops that move
elements to computed places are compared to the bit (``test_op_samples``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dyn.backends.x86 import X86Backend, host_target
from dyn.compilation_record import CompilationRecord
from dyn.ir.opdef import REGISTRY, Composite, OpKind
from dyn.pipeline import compile_program, optimize
from dyn.trace.function import TracedFunction
from tests.canary import run_compiled
from tests.numpy.differential import compare
from tests.ops.test_ops import expected, function_of

_BACKEND = X86Backend(host_target())
_ELSEWHERE = (OpKind.POINTWISE, OpKind.INDEXED, OpKind.SCATTER)
NAMES = [
    name
    for name, op in sorted(REGISTRY.items())
    if op.kind not in _ELSEWHERE and not isinstance(op.loops, Composite)  # these are in test_composites
]


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str) -> None:
    opdef = REGISTRY[name]
    for sample in opdef.samples():
        function, _ = function_of(opdef, sample)
        traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
        record = CompilationRecord()
        program = compile_program(optimize(traced, host_target(), record), (), _BACKEND, record)
        pairs = zip(run_compiled(program, sample.operands), expected(opdef, sample), strict=True)
        for place, (actual, wanted) in enumerate(pairs):
            # Eigenvectors are determined up to a factor of length 1, which each library chooses.
            vectors = name in ("eig", "eigh") and place == 1 and wanted.size
            _check(_turned(actual, wanted) if vectors else actual, wanted)


def _turned(actual: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Columns turned to where the others are."""
    factor = np.sum(np.conj(actual) * wanted, axis=-2, keepdims=True)
    length = np.abs(factor)
    np.testing.assert_allclose(length, np.ones_like(length), rtol=1e-4)
    return (actual * (factor / length)).astype(actual.dtype)


def _check(actual: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, wanted)
        return
    single = wanted.dtype in (np.float32, np.complex64)
    rtol = {1: 0.13, 2: 1e-2}.get(wanted.dtype.itemsize, 1e-5 if single else 1e-12)
    a, b = actual.astype(np.complex128), wanted.astype(np.complex128)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint16", "bool"])
def test_every_so_manieth_element(dtype: str) -> None:
    """Lanes a few elements apart are picked from whole vectors, which end where the array does."""

    def program(xp: Any, x: Any) -> Any:
        rows = [xp.sum(x[:, ::step], axis=1) for step in (2, 3, 4, 5)]
        return [*[x[:, ::step] for step in (2, 3, 4, 5, -2)], x[:, 1::3], *rows]

    compare(program, f"{dtype} 2 n", sizes=(0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 130))
