"""Native calls of LAPACK: one compile for every size, stacks of none, what has no answer, other processes, no SciPy."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config, lax, pipeline
from dyn.backends import lapack, programs
from dyn.backends.lapack import lapack_imports
from dyn.backends.x86 import host_target
from dyn.errors import BackendUnavailableError, ShapeError
from dyn.ir.builder import Builder
from dyn.ir.core import Value
from dyn.ir.opdef import REGISTRY, LibraryRoutine
from dyn.ir.types import TensorType
from dyn.lower.lapack.routines import ROUTINES
from dyn.lower.library_calls import emit_library_call
from dyn.ops.linalg.matrices import LAPACK_DTYPES, positive_matrices, random_matrices
from dyn.shapes import Facts
from dyn.source import Loc
from dyn.specialize.shared_code import Codes
from tests.runtime.test_entry import native_hits

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[2]
SIZES = (0, 1, 2, 7, 64)
FLOATS = [dtype.np for dtype in LAPACK_DTYPES]


def bound(dtype: Any) -> float:
    return 2e-3 if np.finfo(dtype).bits == 32 else 1e-9


def close(actual: Array, wanted: Array, scale: float = 1.0) -> None:
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=bound(wanted.dtype) * scale)


def eye_like(x: Array) -> Array:
    return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)


def h(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


# ---- every size, one compile -----------------------------------------------------------------------------------------


def check_cholesky(x: Array, made: Any) -> None:
    close(made @ h(made), x, 64)
    assert not np.triu(made, 1).any()


def check_lu(x: Array, made: Any) -> None:
    factors, _, order = made
    rows = np.take_along_axis(x, np.broadcast_to(order[..., None], x.shape).astype(np.int64), axis=-2)
    close((np.tril(factors, -1) + eye_like(x)) @ np.triu(factors), rows)


def check_qr(x: Array, made: Any) -> None:
    q, r = made
    close(q @ r, x)
    close(h(q) @ q, eye_like(x))


def check_eigh(x: Array, made: Any) -> None:
    w, v = made
    close(v * w[..., None, :] @ h(v), x, 64)


def check_svd(x: Array, made: Any) -> None:
    u, s, vh = made
    close(u * s[..., None, :] @ vh, x, 8)


def check_eig(x: Array, made: Any) -> None:
    w, v = made
    close(x @ v, v * w[..., None, :], 8)


CASES: dict[str, tuple[Callable[[Any], Any], bool, Callable[[Array, Any], None]]] = {
    "cholesky": (dnp.linalg.cholesky, True, check_cholesky),
    "inverse": (dnp.linalg.inv, True, lambda x, made: close(made @ x, eye_like(x))),
    "solve": (lambda x: dnp.linalg.solve(x, x), True, lambda x, made: close(made, eye_like(x))),
    "lu": (lax.linalg.lu, False, check_lu),
    "qr": (dnp.linalg.qr, False, check_qr),
    "eigh": (dnp.linalg.eigh, True, check_eigh),
    "svd": (lambda x: dnp.linalg.svd(x, full_matrices=False), False, check_svd),
    "eig": (dnp.linalg.eig, False, check_eig),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_one_compile_serves_every_size(name: str, dtype: Any) -> None:
    """Stacks of none, one and more matrices of every size, by the native entry alone."""
    function, positive, check = CASES[name]
    f = dyn.jit(function)
    of = positive_matrices if positive else random_matrices
    calls = 0
    for count, sizes in ((0, (0, 2)), (1, SIZES), (2, (0, 1, 7)), (1000, (2,))):
        for size in sizes:
            x = of((count, size, size), dyn.dtypes.dtype(dtype))
            check(x, f(x))
            calls += 1
    assert f.cache_info().compiles == 1
    assert native_hits(f) >= calls - 2


def test_it_runs_in_loops_and_in_branches() -> None:
    @dyn.jit
    def f(x: Any, times: Any) -> Any:
        whole = lax.fori_loop(0, times, lambda _, a: dnp.linalg.inv(a) + a, x)
        return lax.cond(times > 1, dnp.linalg.det, lambda a: dnp.linalg.slogdet(a).logabsdet, whole)

    for times in (0, 1, 2, 3):
        for size in (1, 3):
            x = wanted = positive_matrices((size, size), dyn.dtypes.float64)
            for _ in range(times):
                wanted = np.linalg.inv(wanted) + wanted
            value = np.linalg.det(wanted) if times > 1 else np.linalg.slogdet(wanted)[1]
            np.testing.assert_allclose(f(x, times), value, rtol=1e-9)
    assert f.cache_info().compiles == 1


def test_every_routine_belongs_to_an_op() -> None:
    named = {loops.routine for op in REGISTRY.values() if isinstance(loops := op.loops, LibraryRoutine)}
    assert named - {None} == {*ROUTINES, "sort", "top_k"}


# ---- what has no answer ----------------------------------------------------------------------------------------------


def with_bad(dtype: Any, bad: float) -> Array:
    """Three matrices, of which the second has a bad element, in both triangles."""
    x = positive_matrices((3, 4, 4), dyn.dtypes.dtype(dtype))
    x[1, 1, 2] = x[1, 2, 1] = bad
    return x


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["eigh", "svd", "eig"])
def test_one_matrix_without_an_answer(name: str, dtype: Any, bad: float) -> None:
    """It is NaN, and those beside it are right."""
    function, _, check = CASES[name]
    x = with_bad(dtype, bad)
    made = dyn.jit(function)(x)
    for part in made:
        assert np.isnan(part[1]).all()
    check(x[::2], [part[::2] for part in made])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_singular_and_indefinite_matrices(dtype: Any) -> None:
    x = positive_matrices((3, 3, 3), dyn.dtypes.dtype(dtype))
    x[1] = 1
    x[1, 0, 0] = -1
    factor = dyn.jit(dnp.linalg.cholesky)(x)
    assert np.isnan(factor[1][np.tril_indices(3)]).all()
    assert not factor[1][np.triu_indices(3, 1)].any()
    close(factor[::2] @ h(factor[::2]), x[::2], 8)
    x[1] = 0
    for function in (dnp.linalg.inv, lambda a: dnp.linalg.solve(a, a)):
        made = dyn.jit(function)(x)
        assert np.isnan(made[1]).all()
        assert np.isfinite(made[::2]).all()
    sign, size = dyn.jit(dnp.linalg.slogdet)(x)
    assert (sign[1], size[1], np.signbit(np.real(dyn.jit(dnp.linalg.det)(x)[1]))) == (0, -np.inf, False)


def test_only_the_triangle_that_is_named_is_read() -> None:
    x = positive_matrices((4, 4), dyn.dtypes.complex128)
    wanted = np.linalg.eigvalsh(x)
    for lower in (True, False):
        spoiled = x.copy()
        spoiled[np.triu_indices(4, 1) if lower else np.tril_indices(4, -1)] = np.nan
        spoiled[np.diag_indices(4)] += 1j
        values = dyn.jit(lambda a, lower=lower: dnp.linalg.eigh(a, UPLO="L" if lower else "U"))(spoiled)[0]
        np.testing.assert_allclose(values, wanted, rtol=1e-12)
    spoiled = positive_matrices((4, 4), dyn.dtypes.float64)
    wanted = np.linalg.cholesky(spoiled)
    spoiled[np.triu_indices(4, 1)] = np.nan
    factor = dyn.jit(lambda a: lax.linalg.cholesky(a, symmetrize_input=False))(spoiled)
    np.testing.assert_allclose(factor, wanted, rtol=1e-12)


def test_determinants_that_pass_the_range_on_the_way() -> None:
    """The product of a matrix's diagonal: as it is in the end, whatever it would have been in between."""
    det, slogdet = dyn.jit(dnp.linalg.det), dyn.jit(dnp.linalg.slogdet)
    for diagonal, wanted in (
        ([1e200, 1e200, 1e-200, -1e-200], -1.0),
        ([5e-324, 2.0**1000, 2.0**74], 1.0),
        ([1e300, 1e300], np.inf),
        ([-1e-300, 1e-300], 0.0),
        ([], 1.0),
    ):
        np.testing.assert_allclose(det(np.diag(np.array(diagonal))), wanted, rtol=1e-12)
        for dtype in (np.float64, np.complex128):
            sign, size = slogdet(np.diag(np.array(diagonal, dtype)))
            assert sign == np.prod(np.sign(diagonal))
            np.testing.assert_allclose(size, sum(np.log(np.abs(diagonal))), rtol=1e-12, atol=1e-11)
    assert np.isnan(det(np.full((2, 2), np.nan)))
    turned = slogdet(np.diag(np.array([1j, 1j, 1j])))
    np.testing.assert_allclose(turned[0], -1j, atol=1e-15)


def test_too_many_columns_for_lapack() -> None:
    f = dyn.jit(lambda x: dnp.linalg.qr(x)[1])
    with pytest.raises(ShapeError) as error:
        f(np.empty((0, 2**31), np.float32))
    assert str(error.value) == (
        "a matrix has 2^31 or more rows or columns, or as much to work with, and LAPACK counts in 32 bits (arguments: "
        "x (0, 2147483648)).\n"
        "  help: pass smaller matrices."
    )
    assert f(np.empty((0, 2**31 - 1), np.float32)).shape == (0, 2**31 - 1)


# ---- other processes, and no SciPy -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache of each test's own, and no verifier, which wants to see the passes."""
    with config.override(cache_dir=str(tmp_path), verify_ir=False):
        yield tmp_path


def test_another_process_finds_the_program_and_its_pointers(folder: Path) -> None:
    """The object on disk names LAPACK's functions; SciPy is imported where they are needed, and addresses differ."""
    script = """
        import sys
        import numpy as np, dyn, dyn.numpy as dnp
        assert "scipy" not in sys.modules
        f = dyn.jit(lambda x: dnp.linalg.inv(x))
        print(f(np.diag([2.0, 4.0])).tolist(), "scipy" in sys.modules, f.cache_info().compiles)
        (version,) = f.programs
        print("lower" in version.record.seconds)
        """
    environment = {**os.environ, "DYN_CACHE_DIR": str(folder), "DYN_VERIFY": "0", "PYTHONPATH": str(ROOT)}
    for lowered in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=environment, check=True
        )
        assert done.stdout == f"[[0.5, 0.0], [0.0, 0.25]] True 1\n{lowered}\n"


def test_without_scipy_a_program_calls_numpy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was compiled where SciPy was is then not found: it is lowered in the other way."""
    monkeypatch.setattr("dyn.specialize.program.CODES", Codes(most=0))
    x = positive_matrices((2, 3, 3), dyn.dtypes.float64)

    def made() -> Any:
        f = dyn.jit(lambda x: dnp.linalg.det(x) + 1)
        return f, f(x)

    def lowered(f: Any) -> bool:
        return "lower" in f.programs[0].record.seconds

    native, wanted = made()
    assert lowered(native)
    assert not lowered(made()[0])
    for module in (pipeline, programs):
        monkeypatch.setattr(module, "has_lapack", lambda: False)
    other, found = made()
    assert lowered(other)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    for f, hits in ((native, 1), (other, 0)):
        for _ in range(2):
            f(x)
        assert bool(native_hits(f)) == bool(hits)


def test_scipy_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack, "_address", lapack._address.__wrapped__)
    monkeypatch.setitem(sys.modules, "scipy.linalg.cython_lapack", None)
    with pytest.raises(BackendUnavailableError) as error:
        lapack_imports(b"..dyn_lapack_dpotrf..")
    assert str(error.value) == (
        "LAPACK is computed by SciPy, which cannot be imported: import of scipy.linalg.cython_lapack halted; None "
        "in sys.modules.\n"
        "  help: pip install 'scipy>=1.13'"
    )


def test_the_text_depends_on_dtype_rank_and_attributes_alone() -> None:
    """So equal calls of a model are one object."""

    def text(rank: int, size: int, dtype: Any, **attrs: Any) -> Any:
        b = Builder(Facts.EMPTY, Loc("sample.py", 1))
        b.emit(REGISTRY["cholesky"], [Value(TensorType(dtype, (size,) * rank), "x")], **attrs)
        return emit_library_call(b.ops[-1], host_target(), lapack=True)

    first = text(3, 2, dyn.dtypes.float32, lower=True)
    assert first == text(3, 5, dyn.dtypes.float32, lower=True)
    others = [
        text(2, 2, dyn.dtypes.float32, lower=True),
        text(3, 2, dyn.dtypes.float64, lower=True),
        text(3, 2, dyn.dtypes.float32, lower=False),
    ]
    assert len({first.symbol, *(other.symbol for other in others)}) == 4
    b = Builder(Facts.EMPTY, Loc("sample.py", 1))
    b.emit(REGISTRY["fft"], [Value(TensorType(dyn.dtypes.complex64, (4,)), "x")], fft_type="FFT", fft_length=(4,))
    assert emit_library_call(b.ops[-1], host_target(), lapack=True) is None
