"""``dyn.numpy.linalg``: NumPy's results at every size, from one trace; what has no answer; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, DynError, ShapeError, UnsupportedOpError
from dyn.numpy import linalg
from tests.numpy.differential import compare, trace

Array = Any
SIZES = (0, 1, 2, 7)
LAPACK = ["float32", "float64", "complex64", "complex128"]


def tolerance(dtype: str) -> float:
    return 2e-3 if dtype in ("float32", "complex64") else 1e-8


def adjoint(xp: Any, x: Array) -> Array:
    return xp.conj(xp.matrix_transpose(x))


def definite(xp: Any, x: Array) -> Array:
    """Hermitian matrices whose eigenvalues are at least 1, from any."""
    return x @ adjoint(xp, x) + xp.eye(x.shape[-2], dtype=x.dtype)


def regular(xp: Any, x: Array) -> Array:
    """Matrices that are far from singular, from any square ones."""
    return x + 9 * xp.eye(x.shape[-1], dtype=x.dtype)


# ---- factors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", LAPACK)
def test_factors(dtype: str) -> None:
    """Those that are unique, or whose signs LAPACK chooses for NumPy and for dyn alike."""

    def program(xp: Any, x: Array) -> Any:
        la, p = xp.linalg, definite(xp, x @ adjoint(xp, x))
        w, v = la.eigh(p)
        u, s, vh = la.svd(x, full_matrices=False)
        q, r = la.qr(x)
        return (
            la.cholesky(p), la.cholesky(p, upper=True), w, la.eigvalsh(p), v * w[..., None, :] @ adjoint(xp, v), q, r,
            la.qr(x, mode="r"), s, u * s[..., None, :] @ vh, la.svd(x, compute_uv=False), la.svdvals(x),
        )  # fmt: skip

    compare(program, f"{dtype} b m n", sizes=(0, 1, 3), rtol=tolerance(dtype))
    if dtype == "float64":
        compare(program, f"{dtype} m n", sizes=(2, 7), rtol=tolerance(dtype))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_full_factors(dtype: str) -> None:
    def program(xp: Any, x: Array) -> Any:
        u, s, vh = xp.linalg.svd(x)
        q, r = xp.linalg.qr(x, mode="complete")
        return u @ adjoint(xp, u), s, vh @ adjoint(xp, vh), q @ r, q.shape[-1] * xp.ones(1)

    compare(program, f"{dtype} b m n", sizes=(0, 1, 3), rtol=1e-8)


def test_one_triangle_is_read() -> None:
    def program(xp: Any, x: Array) -> Any:
        return xp.linalg.eigvalsh(x, UPLO="L"), xp.linalg.eigvalsh(x, UPLO="U")

    compare(program, "float64 n n", rtol=1e-8)

    def symmetric(xp: Any, x: Array) -> Any:
        p = definite(xp, x)
        if xp is np:
            return np.linalg.cholesky(p), np.linalg.eigvalsh(x, "L"), np.linalg.eigvalsh((x + x.T) / 2)
        lower = xp.linalg.cholesky(xp.tril(p), symmetrize_input=False)
        return lower, xp.linalg.eigvalsh(x, symmetrize_input=False), xp.linalg.eigvalsh(x)

    compare(symmetric, "float64 n n", rtol=1e-8)


@pytest.mark.parametrize("dtype", LAPACK)
def test_eigenvalues(dtype: str) -> None:
    """In LAPACK's order; NumPy's are real where they all happen to be."""

    def program(xp: Any, x: Array) -> Any:
        w, v = xp.linalg.eig(x)
        if xp is np:
            wide = np.result_type(x.dtype, np.complex64)
            w, v = w.astype(wide), v.astype(wide)
        return w, v * w[..., None, :] - x @ v, xp.sum(xp.abs(v) ** 2, axis=-2), w + 0 * xp.linalg.eigvals(x)

    compare(program, f"{dtype} b n n", sizes=SIZES if dtype == "float64" else (0, 3), rtol=tolerance(dtype))


def test_hermitian_singular_values() -> None:
    def program(xp: Any, x: Array) -> Any:
        p = x + adjoint(xp, x)
        u, s, vh = xp.linalg.svd(p, hermitian=True)
        return s, u * s[..., None, :] @ vh, xp.linalg.svd(p, compute_uv=False, hermitian=True)

    compare(program, "complex128 2 n n", rtol=1e-8)


# ---- solving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", LAPACK)
def test_solving(dtype: str) -> None:
    def program(xp: Any, x: Array, y: Array) -> Any:
        la, a = xp.linalg, regular(xp, x)
        sign, log = la.slogdet(a)
        return la.solve(a, y), la.solve(a, y[0, :, 0]), la.inv(a), la.det(a / 9), sign, log

    compare(program, f"{dtype} b n n", f"{dtype} b n m", sizes=(0, 1, 3), rtol=tolerance(dtype))


def test_solving_broadcasts() -> None:
    def program(xp: Any, a: Array, b: Array) -> Any:
        return xp.linalg.solve(regular(xp, a), b)

    compare(program, "float64 b n n", "float64 n m", sizes=(0, 1, 3), rtol=1e-8)
    compare(program, "float64 n n", "float64 b n m", sizes=(0, 1, 3), rtol=1e-8)
    compare(program, "float64 b 1 n n", "float64 c n 2", sizes=(0, 1, 3), rtol=1e-8)


def test_integers_and_16_bits() -> None:
    def program(xp: Any, x: Array) -> Any:
        return xp.linalg.inv(regular(xp, x)), xp.linalg.det(x), xp.linalg.norm(x), xp.linalg.svdvals(x)

    compare(program, "int32 n n", rtol=1e-6)
    x = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float16)
    for name in ("inv", "cholesky", "det", "svdvals", "norm", "cond", "pinv", "eigvalsh"):
        own = x @ x.T + np.eye(3, dtype=np.float16) if name in ("cholesky", "eigvalsh") else x
        found, wanted = getattr(linalg, name)(own), getattr(np.linalg, name)(own.astype(np.float32))
        assert found.dtype == np.float16, name
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2, err_msg=name)
    assert linalg.eigvals(x).dtype == np.complex64


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_pseudo_inverses(dtype: str) -> None:
    def program(xp: Any, x: Array) -> Any:
        p = definite(xp, x)
        return xp.linalg.pinv(x, rtol=None), xp.linalg.pinv(x, rtol=0.3), xp.linalg.pinv(p, hermitian=True)

    compare(program, f"{dtype} b m n", sizes=(0, 1, 3), rtol=5e-3 if dtype == "float32" else 1e-7)


def test_tolerances_of_each_matrix() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 3))
    limits = np.array([1e-9, 0.5])
    np.testing.assert_allclose(linalg.pinv(x, rtol=limits), np.linalg.pinv(x, limits), atol=1e-12)
    np.testing.assert_array_equal(linalg.matrix_rank(x, rtol=limits), np.linalg.matrix_rank(x, rtol=limits))


def test_least_squares() -> None:
    def program(xp: Any, a: Array, b: Array, c: Array) -> Any:
        x, away, rank, s = xp.linalg.lstsq(a, b)
        y, *_ = xp.linalg.lstsq(a, c)
        if xp is np:
            away = np.sum(np.abs(b - a @ x) ** 2, axis=0)
            rank = np.int32(rank)
        return x, away, rank, s, y

    compare(program, "float64 m m", "float64 m k", "float64 m", sizes=(1, 4), rtol=1e-7)
    compare(program, "float64 7 n", "float64 7 k", "float64 7", sizes=(1, 3), rtol=1e-7)
    compare(program, "complex128 3 n", "complex128 3 k", "complex128 3", sizes=(1, 5), rtol=1e-7)


def test_tensors() -> None:
    def program(xp: Any, x: Array, b: Array) -> Any:
        a = xp.reshape(regular(xp, x), (2, 3, 3, 2))
        return xp.linalg.tensorsolve(a, b), xp.linalg.tensorinv(a), xp.linalg.tensorsolve(a, b, axes=(2, 3))

    compare(program, "float64 6 6", "float64 2 3", rtol=1e-8)


# ---- powers, rank, norms ---------------------------------------------------------------------------------------------


def test_powers() -> None:
    def program(xp: Any, x: Array, k: Array) -> Any:
        power = xp.linalg.matrix_power
        a = regular(xp, x) / 9
        return [power(a, n) for n in (-3, -1, 0, 1, 2, 3, 5, 8)] + [power(k, 3), power(k, 0)]

    compare(program, "float64 b n n", "int64 n n", sizes=(0, 1, 3), rtol=1e-8)


def test_rank_and_condition() -> None:
    def ranks(xp: Any, x: Array) -> Any:
        rank = xp.linalg.matrix_rank
        low = x[..., :1] @ x[..., :1, :]
        return rank(x), rank(low), rank(x, tol=1.5), rank(definite(xp, x), hermitian=True), rank(x[0, 0])

    compare(ranks, "float64 b m n", sizes=(1, 3, 4))

    def conditions(xp: Any, x: Array) -> Any:
        a = regular(xp, x)
        return [xp.linalg.cond(a, p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro")]

    compare(conditions, "float64 b n n", sizes=(1, 3), rtol=1e-7)
    compare(lambda xp, x: xp.linalg.cond(x), "complex128 m n", sizes=(1, 3), rtol=1e-7)
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert linalg.cond(singular) > 1e15
    assert linalg.cond(np.zeros((2, 2))) == np.inf
    assert np.isnan(linalg.cond(np.full((2, 2), np.nan)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32"])
def test_norms(dtype: str) -> None:
    vectors = (None, 2, 1, np.inf, 0, 3, 0.5)

    def program(xp: Any, x: Array) -> Any:
        la = xp.linalg
        found = [la.norm(x), la.norm(x[0, 0]), la.norm(x, axis=(0, 2)), la.norm(x, axis=(2, 1), keepdims=True)]
        found += [la.norm(x, p, axis=1) for p in vectors] + [la.norm(x, 1, axis=(1, 2), keepdims=True)]
        found += [la.vector_norm(x, ord=p, axis=(0, 2), keepdims=True) for p in vectors[1:]] + [la.vector_norm(x)]
        return found

    compare(program, f"{dtype} n m 3", sizes=(1, 2, 5), rtol=1e-4 if dtype == "float32" else 1e-8)

    def matrices(xp: Any, x: Array) -> Any:
        orders = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        return [xp.linalg.matrix_norm(x, ord=p, keepdims=k) for p in orders for k in (False, True)]

    compare(matrices, f"{dtype} b n m", sizes=(1, 4), rtol=1e-3 if dtype == "float32" else 1e-8)


def test_norms_of_nothing() -> None:
    """As the standard's sums have it: 0, but for the least of nothing, which is refused."""
    empty = np.zeros((2, 0))
    for order in (None, 1, 2, 3, np.inf, 0):
        np.testing.assert_array_equal(linalg.norm(empty, order, axis=1), np.zeros(2))
    for order in ("fro", "nuc", 1, 2, np.inf):
        assert linalg.matrix_norm(empty, ord=order) == 0
    with pytest.raises(ShapeError):
        linalg.norm(empty, -np.inf, axis=1)


# ---- products --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int32"])
def test_products(dtype: str) -> None:
    def program(xp: Any, x: Array, y: Array) -> Any:
        la = xp.linalg
        return (
            la.diagonal(x), la.diagonal(x, offset=1), la.diagonal(x, offset=-2), la.trace(x), la.trace(x, offset=1),
            la.trace(x, offset=-1, dtype="complex128"), la.outer(x[0, 0], y[0, 0]), la.matmul(x, x.mT),
            la.matrix_transpose(x), la.tensordot(x, y, axes=((1,), (1,))), la.vecdot(x, x), xp.vdot(x, x),
            la.vecdot(x, x, axis=-2),
        )  # fmt: skip

    compare(program, f"{dtype} b m n", f"{dtype} 2 m 4", sizes=(1, 2, 5), rtol=1e-8)


def test_cross() -> None:
    def program(xp: Any, x: Array, y: Array) -> Any:
        cross = xp.linalg.cross
        return cross(x, y), cross(x, x), cross(y, x)

    compare(program, "float64 n 3", "float64 3", sizes=(0, 1, 4))
    compare(lambda xp, x, y: xp.linalg.cross(x, y, axis=1), "complex128 n 3 m", "complex128 1 3 m", sizes=(0, 1, 4))
    f = dyn.jit(linalg.cross)
    x = np.eye(3)
    np.testing.assert_array_equal(f(x[0], x[1]), x[2])
    with pytest.raises(ShapeError):  # the same program: the size is looked at when it is called
        f(np.ones(2), np.ones(2))


def test_chains_of_products() -> None:
    def program(xp: Any, a: Array, b: Array, c: Array, x: Array) -> Any:
        dot = xp.linalg.multi_dot
        return dot([a, b]), dot([a, b, c]), dot([a, b, c, x]), dot([x, c.T, b.T, a.T]), dot([x, x]), dot([b, c, x])

    compare(program, "float64 n 9", "float64 9 2", "float64 2 m", "float64 m", sizes=(0, 1, 3), rtol=1e-8, oracle=plain)


def plain(xp: Any, a: Array, b: Array, c: Array, x: Array) -> Any:
    """From the left: NumPy's ``multi_dot`` refuses some empty chains."""
    return a @ b, a @ b @ c, a @ b @ c @ x, x @ c.T @ b.T @ a.T, x @ x, b @ c @ x


def test_a_chain_is_cut_where_that_is_cheap_for_every_shape() -> None:
    traced = trace(lambda xp, a, b, x: xp.linalg.multi_dot([a, b, x]), "float64 n n", "float64 n n", "float64 n")
    first = next(op for op in traced.function.ops if op.opdef.name == "dot_general")
    assert first.result.shape[-1] == 1  # the column first: a matrix times a matrix is never made


# ---- no answer -------------------------------------------------------------------------------------------------------


def test_where_there_is_no_answer_it_is_nan_for_that_matrix_alone() -> None:
    """One program; NumPy raises LinAlgError for the whole stack."""

    @dyn.jit
    def f(x: Array) -> Any:
        la = dnp.linalg
        return (
            la.cholesky(x), la.inv(x), la.solve(x, x), la.pinv(x), la.eigvalsh(x), la.svdvals(x), la.eigvals(x),
            la.qr(x).R, la.det(x), la.slogdet(x).logabsdet,
        )  # fmt: skip

    good = np.array([[2.0, 1.0], [1.0, 3.0]])
    broken = np.full((2, 2), np.nan)
    for number, part in enumerate(f(np.stack([good, broken, good]))):
        assert np.isnan(part[1]).any(), number
        alone = f(good[None])[number][0]
        np.testing.assert_array_equal(part[0], alone)
        np.testing.assert_array_equal(part[2], alone)
    singular = np.stack([good, np.ones((2, 2)), np.zeros((2, 2))])
    cholesky, inverse, solved, _, values, *_, determinant, log = f(singular)
    assert np.isnan(inverse[1:]).all()
    assert np.isnan(solved[2]).all()
    assert np.isnan(cholesky[2]).any()
    np.testing.assert_array_equal(np.triu(cholesky, 1), 0)
    np.testing.assert_allclose(determinant, [5.0, 0.0, 0.0], atol=1e-12)
    assert log[2] == -np.inf
    np.testing.assert_allclose(values[1], [0.0, 2.0], atol=1e-12)
    assert f.cache_info().compiles == 1


def test_infinity_is_no_number_to_lapack() -> None:
    x = np.array([[np.inf, 1.0], [1.0, 2.0]])
    for name in ("eigvals", "eigvalsh", "svdvals", "pinv"):
        assert np.isnan(getattr(linalg, name)(x)).any(), name


# ---- refused ---------------------------------------------------------------------------------------------------------

MATRIX, VECTOR = np.ones((2, 2)), np.ones(2)
REFUSED: list[tuple[Callable[[], Any], type[DynError], str]] = [
    (lambda: linalg.inv(VECTOR), ShapeError, "inv: x (x_0,) is no stack of matrices: it has 1 axes."),
    (lambda: linalg.qr(np.ones(())), ShapeError, "qr: x () is no stack of matrices: it has 0 axes."),
    (lambda: linalg.solve(MATRIX, np.ones(())), ShapeError, "solve: b () is 0-d."),
    (lambda: linalg.qr(MATRIX, mode="raw"), ArgumentError, "qr: mode is 'reduced', 'complete' or 'r', not 'raw'."),
    (lambda: linalg.eigh(MATRIX, UPLO="X"), ArgumentError, "eigh: UPLO is 'L' or 'U', not 'X'."),
    (
        lambda: linalg.matrix_power(MATRIX, cast(Any, 0.5)),
        ArgumentError,
        "matrix_power: n is an int, not the float 0.5.",
    ),
    (lambda: linalg.norm(VECTOR, "fro"), ArgumentError, "norm: a vector has no norm of order 'fro'."),
    (lambda: linalg.matrix_norm(MATRIX, ord=3), ArgumentError, "norm: matrices have no norm of order 3."),
    (lambda: linalg.norm(np.ones((2, 2, 2)), 2), ArgumentError, "norm: axis has 3 axes; a norm is of one or two."),
    (lambda: linalg.multi_dot([MATRIX]), ArgumentError, "multi_dot takes 2 arrays or more, not 1."),
    (
        lambda: linalg.tensorinv(MATRIX, ind=0),
        ArgumentError,
        "tensorinv: ind is 0, and x (x_0, x_1) has 2 axes.",
    ),
    (
        lambda: linalg.outer(MATRIX, VECTOR),
        ShapeError,
        "outer: x (x_0, x_1) and y (y_0,) are to be vectors.",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused(number: int) -> None:
    call, error, problem = REFUSED[number]
    with pytest.raises(error) as caught:
        call()
    assert caught.value.problem == problem
    assert caught.value.remedy
    assert caught.value.loc is not None


def test_square_is_known_or_looked_at() -> None:
    with pytest.raises(ShapeError) as known:
        trace(lambda xp, x: xp.linalg.inv(x), "float64 2 3")
    assert known.value.problem == "inv: x (2, 3) has matrices that are not square: the sizes are 2 and 3."
    f = dyn.jit(linalg.inv)
    f(MATRIX)
    with pytest.raises(ShapeError) as called:
        f(np.ones((2, 3)))
    assert "is required, but" in called.value.problem
    assert "inv takes square matrices" in called.value.problem


def test_dtypes_that_lapack_lacks_are_refused_by_ops() -> None:
    from dyn.ir.builder import Builder
    from dyn.ir.core import Value
    from dyn.ir.types import TensorType
    from dyn.shapes import Facts
    from dyn.source import Loc

    b = Builder(Facts.EMPTY, Loc("here.py", 1))
    with pytest.raises(UnsupportedOpError) as caught:
        b.op("inverse", Value(TensorType(dyn.dtype("int32"), (2, 2))))
    assert str(caught.value) == (
        "inverse: takes float32, float64, complex64 and complex128, not int32\n  at here.py:1\n"
        "  help: convert it with .astype('float32')"
    )


def test_names() -> None:
    """The standard's extension, whole, and NumPy's names."""
    standard = """
        cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank
        matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
    """.split()  # noqa: SIM905 - names in rows are easier to compare with the standard
    assert [name for name in standard if name not in linalg.__all__] == []
    own = {"EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult"}
    assert [name for name in linalg.__all__ if not hasattr(np.linalg, name) and name not in own] == []
    assert [name for name in np.linalg.__all__ if name not in linalg.__all__ and name != "LinAlgError"] == []
    assert sorted(np.fft.__all__) == sorted(dnp.fft.__all__)
    for module in (linalg, dnp.fft):
        assert all(getattr(module, name).__doc__ for name in module.__all__)
