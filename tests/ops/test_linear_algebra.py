"""Ops that LAPACK and pocketfft compute: their samples in compiled programs, and what their vectors have to satisfy.

Eigenvectors and singular vectors of complex matrices have phases that nothing determines. Their derivatives are tested
by what does not depend on them: products of a vector with its own conjugate, as differences have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.differentiate import push_forward
from dyn.ir.evaluate import run_sample
from dyn.ir.opdef import REGISTRY, OpDef, Sample
from dyn.ir.types import TensorType
from dyn.ops.linalg.matrices import positive_matrices, random_matrices
from dyn.passes.redundancy import eliminate_dead_code
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc
from dyn.trace.function import TracedFunction
from tests.canary import compile_traced, run_compiled

Array = np.ndarray[Any, Any]
NAMES = (
    "adjugate", "cholesky", "det", "eig", "eigh", "fft", "inverse", "lu", "pinv", "qr", "slogdet", "solve", "svd",
    "triangular_solve",
)  # fmt: skip


def function_of(opdef: OpDef, sample: Sample, kept: Sequence[int] | None = None) -> Function:
    """The op applied to parameters, every axis of which is a symbol of its own, and some of its results."""
    params: list[Value] = []
    for number, array in enumerate(sample.operands):
        shape = tuple(as_dim(symbol(f"x{number}_{a}", f"x{number}.shape[{a}]")) for a in range(array.ndim))
        params.append(Value(TensorType(dtypes.dtype(array.dtype), shape), f"x{number}"))
    builder = Builder(Facts.EMPTY, Loc("sample.py", 1))
    results = builder.emit(opdef, params, **sample.attrs)
    some = results if kept is None else tuple(results[i] for i in kept)
    infos = tuple(ParamInfo(v.name) for v in params)
    return Function("sample", tuple(params), tuple(builder.ops), some, builder.facts, infos)


def in_phase(vectors: Array, wanted: Array) -> Array:
    """Columns, each times the number of size 1 that brings it closest to the one it should be."""
    along = np.sum(np.conj(vectors) * wanted, axis=-2, keepdims=True)
    return vectors * (along / np.abs(along))


@pytest.mark.parametrize("name", NAMES)
def test_compiled_samples(name: str) -> None:
    """One sample of each dtype and attributes, complex ones too: a library is given them as they lie in memory.

    NumPy's LAPACK need not be SciPy's: they agree as closely as such algorithms do, and vectors up to their phase.
    """
    seen: set[object] = set()
    for sample in reversed(REGISTRY[name].samples()):
        key = (sample.operands[0].dtype, repr(sample.attrs) if name != "triangular_solve" else "")
        if key in seen or 0 in sample.operands[0].shape or (name == "fft" and len(seen) > 12):
            continue
        seen.add(key)
        function = function_of(REGISTRY[name], sample)
        traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
        sample_rank = sample.operands[0].ndim
        found = run_compiled(compile_traced(traced, ()), sample.operands)
        for actual, wanted in zip(found, run_reference(function, sample.operands), strict=True):
            assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
            bound = 1e-4 if actual.dtype in (np.float32, np.complex64) else 1e-11
            same = in_phase(actual, wanted) if name in ("eig", "eigh") and wanted.ndim == sample_rank else actual
            np.testing.assert_allclose(same, wanted, rtol=bound, atol=bound, err_msg=str(sample))


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_types_that_are_said(name: str) -> None:
    for sample in REGISTRY[name].samples():
        if name == "fft":  # its lengths are numbers in samples, and so not those of symbols
            run_sample(REGISTRY[name], sample)
        else:
            run_reference(function_of(REGISTRY[name], sample), sample.operands)


@pytest.mark.parametrize(("name", "values"), [("eigh", 0), ("eig", 0), ("svd", 1)])
def test_vectors_that_nobody_reads_are_not_computed(name: str, values: int) -> None:
    sample = next(s for s in REGISTRY[name].samples() if s.attrs["vectors"] and s.operands[0].shape == (3, 3))
    function = eliminate_dead_code(function_of(REGISTRY[name], sample, [values]))
    (op,) = function.ops
    assert (op.attrs["vectors"], len(op.results)) == (False, 1)
    (found,) = run_reference(function, sample.operands)
    whole = run_reference(function_of(REGISTRY[name], sample), sample.operands)
    np.testing.assert_allclose(found, whole[values], rtol=1e-5)
    both = eliminate_dead_code(function_of(REGISTRY[name], sample))
    assert both.ops[0].attrs["vectors"]


def _outer(v: Array, t: Array | None = None) -> Array:
    """``v v^H`` of each column v, or with its tangent t how that changes."""
    if t is None:
        return np.einsum("ij,kj->jik", v, np.conj(v))
    return np.einsum("ij,kj->jik", t, np.conj(v)) + np.einsum("ij,kj->jik", v, np.conj(t))


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.complex128], ids=str)
@pytest.mark.parametrize("name", ["eigh", "eig", "svd"])
def test_derivatives_of_vectors(name: str, dtype: dtypes.DType) -> None:
    shape = (4, 3) if name == "svd" else (4, 4)
    x = positive_matrices(shape, dtype) if name == "eigh" else random_matrices(shape, dtype)
    step = random_matrices(shape, dtype, 5)
    attrs: dict[str, Any] = {"eigh": {"lower": True}, "eig": {}, "svd": {"full_matrices": False}}[name]
    sample = Sample((x,), {**attrs, "vectors": True})
    at = {"eigh": (1,), "eig": (1,), "svd": (0, 2)}[name]

    b = Builder(Facts.EMPTY, Loc("sample.py", 1))
    params = [Value(TensorType(dtype, shape), name) for name in ("x", "t")]
    results = b.emit(REGISTRY[name], params[:1], **sample.attrs)
    tangents = {params[0]: params[1]}
    push_forward(b, tuple(b.ops), tangents)
    wanted = (*results, *(tangents[v] for v in results))
    function = Function("f", tuple(params), tuple(b.ops), wanted, b.facts, (ParamInfo("x"), ParamInfo("t")))
    made = run_reference(function, [x, step])

    h = 1e-6
    up, down = (run_sample(REGISTRY[name], Sample((x + s * h * step,), sample.attrs)) for s in (1, -1))
    for place in at:
        v, t = made[place], made[place + len(results)]
        above, below = up[place], down[place]
        if name == "svd" and place == 2:
            v, t, above, below = (np.conj(m.T) for m in (v, t, above, below))
        np.testing.assert_allclose(_outer(v, t), (_outer(above) - _outer(below)) / (2 * h), atol=1e-6)
        if name == "eig":
            np.testing.assert_allclose(np.sum(np.real(np.conj(v) * t), axis=0), 0, atol=1e-12)
    if name == "svd":  # the phases of the two sides belong together
        (u, s, vh), (du, ds, dvh) = made[:3], made[3:]
        np.testing.assert_allclose(du * s @ vh + u * ds @ vh + u * s @ dvh, step, atol=1e-10)
    if name in ("eigh", "eig"):
        (w, v), (dw, dv) = made[:2], made[2:]
        whole = np.tril(step) + np.conj(np.tril(step, -1).T) if name == "eigh" else step
        whole = whole - 1j * np.diag(np.imag(np.diag(whole))) if name == "eigh" else whole
        np.testing.assert_allclose(whole @ v + x @ dv, dv * w + v * dw, atol=1e-10)


def test_the_adjugate_of_singular_matrices() -> None:
    """As minors have it, whatever the rank; NaN of NaN."""
    adjugate = REGISTRY["adjugate"].reference
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.complex128, np.float32):
        for rank in (0, 1, 2, 3):
            x = (rng.standard_normal((3, rank)) @ rng.standard_normal((rank, 3))).astype(dtype)
            minors = [
                [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, j, 0), i, 1)) for j in range(3)]
                for i in range(3)
            ]
            found = adjugate(x)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, minors, atol=1e-5 if dtype == np.float32 else 1e-12)
    assert np.isnan(adjugate(np.full((2, 2), np.nan))).all()
    np.testing.assert_array_equal(adjugate(np.zeros((1, 1))), [[1.0]])


def test_lu_and_its_permutation() -> None:
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 2, 2), (2, 0, 3)):
        x = random_matrices(shape, dtypes.float64)
        factors, pivots, order = REGISTRY["lu"].reference(x)
        m, n = shape[-2:]
        lower = np.tril(factors, -1)[..., :, : min(m, n)] + np.eye(m, min(m, n))
        upper = np.triu(factors)[..., : min(m, n), :]
        rows = np.take_along_axis(x, np.broadcast_to(order[..., None], shape).astype(np.int64), axis=-2)
        np.testing.assert_allclose(lower @ upper, rows, atol=1e-12)
        assert pivots.shape == (*shape[:-2], min(m, n))
        assert pivots.dtype == order.dtype == np.int32
