"""Custom calls as JAX emits them: what they compute, with symbolic sizes too, and programs that older JAXs exported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dyn.errors import UnsupportedOpError
from dyn.interop.stablehlo import dump, load

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402
from jax._src.lax import linalg  # noqa: E402

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """JAX with 64 bits."""
    with jax.enable_x64(True):
        yield


def matrices(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    made = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(dtype)


def hermitian(a: Array) -> Array:
    return a + np.conj(np.swapaxes(a, -1, -2))


def positive(a: Array) -> Array:
    return a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1], dtype=a.dtype)


# --- each routine, beside JAX -----------------------------------------------------------------------------------------


def tridiagonal_system(a: Any) -> Any:
    """The systems whose diagonals are rows of square matrices."""
    return linalg.tridiagonal_solve(a[..., 0, :], a[..., 1, :] + 3, a[..., 2, :], a[..., :, :2])


def upper(a: Any) -> Any:
    return jnp.triu(a) + 3 * jnp.eye(a.shape[-1], dtype=a.dtype)


#: A program of a stack of matrices, what makes its matrices, and the sizes of their rows and columns.
ROUTINES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array], tuple[int, int]]] = {
    "potrf": (linalg.cholesky, positive, (4, 4)),
    "getrf": (linalg.lu, np.array, (4, 3)),
    "geqrf, orgqr": (lambda a: linalg.qr(a, full_matrices=False), np.array, (4, 3)),
    "geqrf, orgqr of more columns": (lambda a: linalg.qr(a, full_matrices=True), np.array, (3, 5)),
    "ormqr": (lambda a: linalg.ormqr(*linalg.geqrf(a), a, left=True, transpose=True), np.array, (4, 3)),
    "ormqr from the right": (
        lambda a: linalg.ormqr(*linalg.geqrf(a), jnp.swapaxes(a, -1, -2), left=False, transpose=False), np.array, (4, 3)
    ),
    "trsm": (lambda a: linalg.triangular_solve(upper(a), a, left_side=True, lower=False), np.array, (3, 3)),
    "trsm, transposed": (
        lambda a: linalg.triangular_solve(upper(a), a, transpose_a=True, conjugate_a=True), np.array, (3, 3)
    ),
    "trsm, ones on the diagonal": (
        lambda a: linalg.triangular_solve(a, a, lower=True, unit_diagonal=True), np.array, (3, 3)
    ),
    "gesdd": (lambda a: linalg.svd(a, full_matrices=False)[1], np.array, (4, 3)),
    "gesdd of values alone": (lambda a: linalg.svd(a, compute_uv=False), np.array, (4, 3)),
    "syevd": (lambda a: linalg.eigh(a)[1], hermitian, (4, 4)),
    "geev": (lambda a: jnp.sort(jnp.abs(linalg.eig(a)[0])), np.array, (4, 4)),
    "gees": (linalg.schur, np.array, (3, 3)),
    "gehrd": (linalg.hessenberg, np.array, (4, 4)),
    "sytrd": (lambda a: linalg.tridiagonal(a, lower=True), hermitian, (4, 4)),
    "sytrd of the upper triangle": (lambda a: linalg.tridiagonal(a, lower=False), hermitian, (4, 4)),
    "gtsv": (tridiagonal_system, np.array, (4, 4)),
}  # fmt: skip

STABLE = [export.DisabledSafetyCheck.custom_call(f"lapack_{n}_ffi") for n in ("sormqr", "dormqr", "cunmqr", "zunmqr")]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128], ids=["f32", "c128"])
@pytest.mark.parametrize("name", ROUTINES)
def test_routines_of_lapack(name: str, dtype: Any) -> None:
    program, made, (rows, columns) = ROUTINES[name]
    (batch,) = export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((batch, rows, columns), dtype)
    exported = export.export(jax.jit(program), disabled_checks=STABLE)(spec)
    loaded = load(exported.mlir_module_serialized)
    for count in (1, 3):
        a = made(matrices((count, rows, columns), dtype))
        actual, wanted = jax.tree.leaves(loaded(a)), jax.tree.leaves(jax.jit(program)(a))
        assert len(actual) == len(wanted)
        for x, y in zip(actual, wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            tolerance = 1e-4 if np.dtype(dtype).itemsize == 4 else 1e-10
            np.testing.assert_allclose(x, y, tolerance, tolerance)
    assert loaded.cache_info().compiles == 1


def test_routines_are_written_again() -> None:
    """A routine that is no op of dyn's is written as a custom call that dyn reads."""
    (batch,) = export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((batch, 4, 3), np.float64)
    exported = export.export(jax.jit(lambda a: linalg.qr(a, full_matrices=False)))(spec)
    a = matrices((2, 4, 3))
    once = load(exported.mlir_module_serialized)
    text = dump(once.trace(a))
    assert isinstance(text, str)
    assert "@lapack.geqrf" in text
    assert "@lapack.orgqr" in text
    for x, y in zip(load(text)(a), once(a), strict=True):
        np.testing.assert_array_equal(x, y)


def loaded_for(program: Callable[..., Any], *args: Array) -> Any:
    return load(export.export(jax.jit(program))(*args).mlir_module_serialized)(*args)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=["f64", "c64"])
def test_factors_are_factors(dtype: Any) -> None:
    """Vectors that are determined up to a phase are compared by their product."""
    a = matrices((2, 4, 3), dtype)
    square = matrices((2, 4, 4), dtype, 1)
    close = 1e-4 if np.dtype(dtype).itemsize == 8 and np.dtype(dtype).kind == "c" else 1e-10

    def adjoint(x: Array) -> Array:
        return np.conj(np.swapaxes(x, -1, -2))

    for full in (True, False):
        u, s, vh = loaded_for(lambda x, full=full: linalg.svd(x, full_matrices=full), a)
        np.testing.assert_allclose((u[..., :3] * s[..., None, :]) @ vh, a, close, close)
        assert u.shape == (2, 4, 4 if full else 3)
    v, w = loaded_for(linalg.eigh, hermitian(square))
    np.testing.assert_allclose(v * w[..., None, :] @ adjoint(v), hermitian(square), close, close)
    w, left, right = loaded_for(linalg.eig, square)
    np.testing.assert_allclose(square @ right, right * w[..., None, :], close, close)
    np.testing.assert_allclose(adjoint(left) @ square, w[..., :, None] * adjoint(left), close, close)
    np.testing.assert_allclose(np.linalg.norm(left, axis=-2), 1, close)
    w, left = loaded_for(lambda x: linalg.eig(x, compute_right_eigenvectors=False), square)
    np.testing.assert_allclose(adjoint(left) @ square, w[..., :, None] * adjoint(left), close, close)
    w, right = loaded_for(lambda x: linalg.eig(x, compute_left_eigenvectors=False), square)
    np.testing.assert_allclose(square @ right, right * w[..., None, :], close, close)
    form, vectors = loaded_for(linalg.schur, square)
    np.testing.assert_allclose(vectors @ form @ adjoint(vectors), square, close, close)


@pytest.mark.parametrize("size", [0, 1])
def test_small_matrices(size: int) -> None:
    square, wide = matrices((2, size, size)), matrices((2, size, 2))
    for program, a in (
        (linalg.cholesky, positive(square)), (linalg.lu, square), (linalg.lu, wide), (linalg.qr, wide),
        (lambda x: linalg.qr(x, full_matrices=False), np.swapaxes(wide, -1, -2)), (linalg.eigh, hermitian(square)),
        (lambda x: linalg.svd(x)[1], wide), (lambda x: linalg.eig(x)[0], square), (linalg.schur, square),
        (lambda x: linalg.triangular_solve(x + 2, x), square),
    ):  # fmt: skip
        for x, y in zip(jax.tree.leaves(loaded_for(program, a)), jax.tree.leaves(jax.jit(program)(a)), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, 1e-12, 1e-12)


def test_matrices_without_an_answer() -> None:
    """NaN for that one, and what is right for the one beside it."""
    bad = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    pair = np.stack([bad, np.eye(3)])
    unknown = np.stack([np.full((3, 3), np.nan), np.eye(3)])
    singular = np.stack([np.zeros((3, 3)) - [[0], [3], [0]], np.eye(3)])
    for program, a in (
        (linalg.cholesky, pair), (lambda x: linalg.svd(x)[1], unknown), (linalg.lu, pair * 0),
        (lambda x: linalg.eigh(x, symmetrize_input=False)[1], unknown), (tridiagonal_system, singular),
    ):  # fmt: skip
        for x, y in zip(jax.tree.leaves(loaded_for(program, a)), jax.tree.leaves(jax.jit(program)(a)), strict=True):
            np.testing.assert_allclose(x, y, 1e-12, 1e-12)


# --- other calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aggregate", [True, False])
@pytest.mark.parametrize("greatest", [True, False])
def test_approximate_top_k_is_exact(greatest: bool, aggregate: bool) -> None:
    find = jax.lax.approx_max_k if greatest else jax.lax.approx_min_k
    x = np.random.default_rng(0).permutation(60).reshape(3, 20).astype(np.float32)

    def program(x: Any) -> Any:
        return find(x, 4, aggregate_to_topk=aggregate)

    for actual, wanted in zip(loaded_for(program, x), program(x), strict=True):
        np.testing.assert_array_equal(actual, wanted)


MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @SPMDFullToShardShape(%x) : (tensor<4xf32>) -> tensor<2xf32> loc("model.py":7:3)
  return %0 : tensor<2xf32>
}
"""


def test_arrays_are_not_divided_among_devices() -> None:
    x = np.ones(4, np.float32)
    same = MODULE.replace("tensor<2xf32>", "tensor<4xf32>")
    np.testing.assert_array_equal(load(same)(x), x)
    with pytest.raises(UnsupportedOpError) as caught:
        load(MODULE)(x)
    assert str(caught.value) == (
        "the custom call 'SPMDFullToShardShape' of (f32[4]) divides an array among devices, into parts of (2,).\n"
        "  at model.py:7\n"
        "  help: export the program for one device."
    )


def test_what_has_no_implementation_is_named() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        load(MODULE.replace("SPMDFullToShardShape", "lapack_sgelsd_ffi"))(np.ones(4, np.float32))
    assert str(caught.value) == (
        "the custom call 'lapack_sgelsd_ffi' of (f32[4]) has no meaning in this version.\n"
        "  at model.py:7\n"
        "  help: give it one: dyn.interop.stablehlo.register_custom_call(name, impl), where impl may be a "
        "dyn.ffi_call."
    )


# --- what older JAXs exported -----------------------------------------------------------------------------------------

_DATA = "jax._src.internal_test_util.export_back_compat_test_data"
#: Not read: programs for several devices, custom calls that GPUs alone have, VHLO of before its versions, and one whose
#: result depends on how often a start that is not neutral is added.
_UNREAD = ("shardy", "gesvd", "hipsolver_syev.", "rocm_threefry", "tpu_ApproxTopK", "tpu_Eigh", "tpu_Lu", "tpu_Qr",
           "tpu_Sharding", "variadic", "f64_sy", "stablehlo_dynamic_rng_bit_generator")  # fmt: skip


def _modules(found: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(found, dict) and "mlir_module_serialized" in found:
        yield path, found
    elif isinstance(found, dict):
        for name, inner in found.items():
            yield from _modules(inner, f"{path}.{name}")


def _old() -> dict[str, dict[str, Any]]:
    """JAX's own: the module, its inputs and its results, for the versions of each custom call; two of four dtypes."""
    made: dict[str, dict[str, Any]] = {}
    for info in pkgutil.iter_modules(importlib.import_module(_DATA).__path__):
        if not info.ispkg:
            for name, found in vars(importlib.import_module(f"{_DATA}.{info.name}")).items():
                if name.startswith("data"):
                    made.update(_modules(found, f"{info.name}.{name}"))
    return {
        name: data
        for name, data in made.items()
        if not name.endswith((".f64", ".c64")) and not any(word in name for word in _UNREAD)
    }


OLD = _old()


def _essence(name: str, results: list[Array]) -> list[Array]:
    """Of factors that are determined up to a phase what they are the factors of."""
    if "eigh" in name:
        v, w = results
        return [w, v * w @ v.conj().T]
    if "schur" in name:
        form, vectors = results
        return [vectors @ form @ vectors.conj().T]
    if "eig_" in name:  # of a matrix of rank 2: vectors of the eigenvalue 0 are any
        w, left, right = results
        return [w, *(np.abs(v[:, :2]) for v in (left, right))]
    return results


@pytest.mark.parametrize("name", OLD)
def test_programs_that_older_versions_exported(name: str) -> None:
    data = OLD[name]
    made = load(data["mlir_module_serialized"])(*[np.asarray(x) for x in data["inputs"]])
    actual = _essence(name, list(made) if isinstance(made, tuple) else [made])
    wanted = _essence(name, [np.asarray(x) for x in data["expected_outputs"]])
    for x, y in zip(actual, wanted, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        narrow = x.dtype.name in ("float32", "complex64")
        np.testing.assert_allclose(x, y, 1e-4 if narrow else 1e-9, 1e-4 if narrow else 1e-9)
