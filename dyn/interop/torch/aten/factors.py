"""Linear algebra: factors of matrices, solutions, determinants, eigenvalues.

Matrices come back in columns, one after the other, as LAPACK gives them to PyTorch. A matrix that has no answer is an
error where it is one in PyTorch (:mod:`dyn.interop.torch.aten.domains`); where PyTorch returns ``info`` that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import NotYetError
from dyn.interop.torch.aten.domains import require_factors
from dyn.interop.torch.aten.tables import converts, in_place, takes_call
from dyn.interop.torch.tensors import Order, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace.dims import max_dim, min_dim
from dyn.trace.tracer import Tracer

#: How a matrix lies in memory is asked for the user, as PyTorch asks it.
ASKS_FOR_OTHERS = True


def columns(rank: int) -> Order:
    """The order of matrices that lie in columns."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _ordered(*outputs: bool, stacks: int = 1) -> Any:
    """The orders of results: in columns where it says so. They have the axes of the first ``stacks`` arguments."""

    def order(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        rank = max(one.ndim for one in args[:stacks])
        orders = [columns(rank) if own else None for own in outputs]
        return orders if len(orders) > 1 else orders[0]

    return order


def _nothing(a: Tracer) -> Tracer:
    """An empty tensor, in the place of a factor that nobody asked for."""
    return dnp.zeros((0,), dtype=a.dtype)


def _transposed(a: Tracer) -> Tracer:
    return dnp.swapaxes(a, -1, -2)


def _adjoint(a: Tracer) -> Tracer:
    return dnp.conj(_transposed(a))


def _one_stack(a: Tracer, b: Tracer) -> tuple[Tracer, Tracer]:
    """Two stacks of matrices, as many of each, of one dtype: PyTorch's kernels take the memory of others as it is."""
    if a.dtype != b.dtype:
        raise NotYetError(
            f"matrices of {a.dtype} and {b.dtype}.", loc=user_loc(), remedy="convert the operands to one dtype."
        )
    lead = dnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return dnp.broadcast_to(a, (*lead, *a.shape[-2:])), dnp.broadcast_to(b, (*lead, *b.shape[-2:]))


def _diagonal(a: Tracer) -> Tracer:
    return dnp.diagonal(a, 0, -2, -1)


def _first(bad: Tracer) -> Tracer:
    """The number, from 1, of the first place on the last axis that is bad; 0 where none is: LAPACK's ``info``."""
    number = dnp.arange(1, bad.shape[-1] + 1, dtype="int32")
    found = dnp.min(dnp.where(bad, number, dnp.iinfo("int32").max), axis=-1, initial=dnp.iinfo("int32").max)
    return dnp.where(dnp.any(bad, axis=-1), found, 0).astype("int32")


@in_place("_linalg_check_errors.default")
def check_errors(tracing: TorchTracing, info: Any, api_name: str, *, is_matrix: bool) -> None:
    require_factors(record_of(info).value, api_name, is_matrix=is_matrix)


# ---- products of triangular matrices ---------------------------------------------------------------------------------


@converts("linalg_cholesky_ex.default", order=_ordered(True, False))
def cholesky_ex(a: Tracer, upper: bool = False, check_errors: bool = False) -> tuple[Tracer, Tracer]:
    made = _cholesky(a, upper)
    info = _first(dnp.isnan(_diagonal(made)))
    return made, _checked(info, "linalg.cholesky", a) if check_errors else info


def _checked(info: Tracer, name: str, a: Tracer) -> Tracer:
    require_factors(info, name, is_matrix=a.ndim == 2)
    return info


@converts("cholesky.default", order=_ordered(True))
def cholesky(a: Tracer, upper: bool = False) -> Tracer:
    made = _cholesky(a, upper)
    _checked(_first(dnp.isnan(_diagonal(made))), "cholesky", a)
    return made


def _cholesky(a: Tracer, upper: bool) -> Tracer:
    """The factor by the triangle that is asked for: the other one is not read."""
    lower = dnp.tril(_adjoint(a) if upper else a)
    whole = lower + _adjoint(dnp.tril(lower, -1))
    made = dnp.linalg.cholesky(whole, symmetrize_input=False)
    return _adjoint(made) if upper else made


@converts("cholesky_solve.default", order=_ordered(True, stacks=2))
def cholesky_solve(b: Tracer, factor: Tracer, upper: bool = False) -> Tracer:
    factor, b = _one_stack(_adjoint(factor) if upper else factor, b)
    half = lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


@converts("cholesky_inverse.default", order=_ordered(True))
def cholesky_inverse(factor: Tracer, upper: bool = False) -> Tracer:
    _checked(_first(dnp.equal(_diagonal(factor), 0)), "cholesky_inverse", factor)
    return cholesky_solve(dnp.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


@converts("linalg_solve_triangular.default", order=_ordered(True, stacks=2))
def solve_triangular(a: Tracer, b: Tracer, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tracer:
    a, b = _one_stack(a, b)
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unitriangular)


@converts("triangular_solve.default", order=_ordered(True, True, stacks=2))
def triangular_solve(
    b: Tracer, a: Tracer, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tracer, Tracer]:
    a, b = _one_stack(a, b)
    made = lax.linalg.triangular_solve(
        a, b, left_side=True, lower=not upper, transpose_a=transpose, unit_diagonal=unitriangular
    )
    return made, a


# ---- LU --------------------------------------------------------------------------------------------------------------


def _factored(a: Tracer, pivot: bool = True) -> tuple[Tracer, Tracer, Tracer]:
    """The factors, pivots counted from 1 as LAPACK does, and the order of rows."""
    if not pivot:
        raise NotYetError("LU factors without pivots.", loc=user_loc(), remedy="leave pivot=False out.")
    factors, pivots, order = lax.linalg.lu(a)
    return factors, pivots + dnp.asarray(1, dtype="int32"), order


@converts("linalg_lu_factor_ex.default", order=_ordered(True, False, False))
def lu_factor_ex(a: Tracer, pivot: bool = True, check_errors: bool = False) -> tuple[Tracer, Tracer, Tracer]:
    factors, pivots, _ = _factored(a, pivot)
    info = _first(dnp.equal(_diagonal(factors), 0))
    return factors, pivots, _checked(info, "torch.linalg.lu_factor", a) if check_errors else info


@converts("linalg_lu.default")
def lu(a: Tracer, pivot: bool = True) -> tuple[Tracer, Tracer, Tracer]:
    factors, _, order = _factored(a, pivot)
    return (_permutation(order, a.dtype), *_triangles(factors))


def _permutation(order: Tracer, dtype: Any) -> Tracer:
    """The matrix whose column ``i`` has its 1 in row ``order[i]``."""
    rows = dnp.arange(order.shape[-1])[:, None]
    return (rows == order[..., None, :]).astype(dtype)


def _triangles(factors: Tracer) -> tuple[Tracer, Tracer]:
    m, n = factors.shape[-2:]
    k = min_dim(m, n)
    lower = dnp.tril(factors[..., :, :k], -1) + dnp.eye(m, k, dtype=factors.dtype)
    return lower, dnp.triu(factors[..., :k, :])


def _exchanged(pivots: Tracer, rows: Any) -> Tracer:
    """The order of rows after exchanging each with its pivot, one after the other."""
    start = dnp.broadcast_to(dnp.arange(rows), (*pivots.shape[:-1], rows))

    def element(a: Tracer, at: Any) -> Any:
        """An element of the last axis, which may have none: the loop takes no steps then."""
        return dnp.sum(dnp.where(dnp.arange(a.shape[-1]) == at, a, 0), axis=-1, keepdims=True)

    def exchange(i: Any, order: Tracer) -> Tracer:
        other = element(pivots.astype("int64"), i) - 1
        places = dnp.arange(rows)
        swapped = dnp.where(places == other, element(order, i), order)
        return dnp.where(places == i, element(order, other), swapped)

    return lax.fori_loop(0, pivots.shape[-1], exchange, start)


@converts("lu_unpack.default")
def lu_unpack(
    factors: Tracer, pivots: Tracer, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tracer, Tracer, Tracer]:
    nothing = _nothing(factors)
    order = _permutation(_exchanged(pivots, factors.shape[-2]), factors.dtype) if unpack_pivots else nothing
    return (order, *(_triangles(factors) if unpack_data else (nothing, nothing)))


def _solved_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Columns, or rows where the unknown is on the left."""
    return columns(max(args[0].ndim, args[2].ndim)) if kwargs.get("left", args[3] if len(args) > 3 else True) else None


@converts("linalg_lu_solve.default", order=_solved_order)
def lu_solve(factors: Tracer, pivots: Tracer, b: Tracer, left: bool = True, adjoint: bool = False) -> Tracer:
    if not left:
        # X A = B is A^T X^T = B^T; the adjoint of A^T is what conjugates.
        made = _transposed(b) if adjoint else _adjoint(b)
        made = lu_solve(factors, pivots, made, adjoint=not adjoint)
        return _transposed(made) if adjoint else _adjoint(made)
    factors, b = _one_stack(factors, b)
    order = dnp.broadcast_to(_exchanged(pivots, factors.shape[-1]), factors.shape[:-1])[..., None]
    if not adjoint:
        half = lax.linalg.triangular_solve(
            factors, dnp.take_along_axis(b, order, axis=-2), left_side=True, lower=True, unit_diagonal=True
        )
        return lax.linalg.triangular_solve(factors, half, left_side=True)
    half = lax.linalg.triangular_solve(factors, b, left_side=True, transpose_a=True, conjugate_a=True)
    half = lax.linalg.triangular_solve(
        factors, half, left_side=True, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=True
    )
    return dnp.take_along_axis(half, dnp.argsort(order, axis=-2), axis=-2)


@converts("linalg_inv_ex.default", order=_ordered(True, False))
def inv_ex(a: Tracer, check_errors: bool = False) -> tuple[Tracer, Tracer]:
    info = lu_factor_ex(a)[2]
    return dnp.linalg.inv(a), _checked(info, "linalg.inv", a) if check_errors else info


@takes_call("_linalg_det.default", order=_ordered(False, True, False))
def det(tracing: TorchTracing, a: Any) -> tuple[Tracer, Tracer, Tracer]:
    return dnp.linalg.det(tracing.value(a)), *_factors_of_determinant(tracing, a)


@takes_call("_linalg_slogdet.default", order=_ordered(False, False, True, False))
def slogdet(tracing: TorchTracing, a: Any) -> tuple[Tracer, Tracer, Tracer, Tracer]:
    sign, size = dnp.linalg.slogdet(tracing.value(a))
    return sign, size, *_factors_of_determinant(tracing, a)


def _factors_of_determinant(tracing: TorchTracing, a: Any) -> tuple[Tracer, Tracer]:
    """LU factors and pivots: of the transpose where real rows are contiguous. PyTorch's derivatives ask that again."""
    value = tracing.value(a)
    is_turned = not a.is_complex() and a.is_contiguous()
    return _factored(_transposed(value) if is_turned else value)[:2]


def _solve_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Solutions in columns, stacks of vectors too: PyTorch turns them where ``left`` is False."""
    a, b = args[:2]
    rank = b.ndim if _is_vector(a, b) else max(a.ndim, b.ndim)
    return [columns(rank) if kwargs.get("left", True) and rank > 1 else None, columns(a.ndim), None, None]


def _is_vector(a: Any, b: Any) -> bool:
    """Whether ``b`` is a stack of vectors for PyTorch."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape[:-1]))


@takes_call("_linalg_solve_ex.default", order=_solve_order)
def solve_ex(
    tracing: TorchTracing, a: Any, b: Any, left: bool = True, check_errors: bool = False
) -> tuple[Tracer, Tracer, Tracer, Tracer]:
    is_vector = _is_vector(a, b)
    matrix, given = tracing.value(a), tracing.value(b)
    factors, pivots, info = lu_factor_ex(matrix)
    if check_errors:
        _checked(info, "torch.linalg.solve", matrix)
    made = lu_solve(factors, pivots, given[..., None] if is_vector else given, left=left)
    return (made[..., 0] if is_vector else made), factors, pivots, info


# ---- orthogonal factors, eigenvalues, singular values ----------------------------------------------------------------


@converts("linalg_qr.default", order=_ordered(True, True))
def qr(a: Tracer, mode: str = "reduced") -> tuple[Tracer, Tracer]:
    if mode == "r":
        return _nothing(a), dnp.linalg.qr(a, mode="r")
    q, r = dnp.linalg.qr(a, mode=mode)
    return q, r


@converts("_linalg_svd.default", order=_ordered(True, False, True))
def svd(
    a: Tracer, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None
) -> tuple[Tracer, Tracer, Tracer]:
    if not compute_uv:
        return _nothing(a), dnp.linalg.svdvals(a), _nothing(a)
    u, s, vh = dnp.linalg.svd(a, full_matrices=full_matrices)
    return u, s, vh


@converts("_linalg_eigh.default", order=_ordered(False, True))
def eigh(a: Tracer, UPLO: str = "L", compute_v: bool = True) -> tuple[Tracer, Tracer]:
    if not compute_v:
        return dnp.linalg.eigvalsh(a, UPLO), _nothing(a)
    values, vectors = dnp.linalg.eigh(a, UPLO)
    return values, vectors


@converts("linalg_eig.default", order=_ordered(False, True))
def eig(a: Tracer) -> tuple[Tracer, Tracer]:
    values, vectors = dnp.linalg.eig(a)
    return values, vectors


@converts("linalg_eigvals.default", "_linalg_eigvals.default")
def eigvals(a: Tracer) -> Tracer:
    return dnp.linalg.eigvals(a)


@converts("linalg_pinv.atol_rtol_tensor")
def pinv(a: Tracer, *, atol: Any = None, rtol: Tracer | None = None, hermitian: bool = False) -> Tracer:
    """By singular values, of which those below ``max(atol, rtol * the greatest)`` count as 0."""
    m, n = a.shape[-2:]
    eps = dnp.finfo(a.dtype).eps
    if rtol is None:
        usual = dnp.asarray(max_dim(m, n), dtype=a.dtype) * eps
        rtol = usual if atol is None else dnp.where(atol > 0, dnp.zeros_like(usual), usual)
    if hermitian:
        values, right = dnp.linalg.eigh(a, "L")
        sizes, left = dnp.abs(values), right
    else:
        left, values, right = dnp.linalg.svd(a, full_matrices=False)
        sizes, right = values, _adjoint(right)
    greatest = dnp.max(sizes, axis=-1, keepdims=True, initial=0)
    least = dnp.asarray(rtol)[..., None] * greatest
    if atol is not None:
        least = dnp.maximum(least, atol[..., None])
    kept = sizes > least
    inverted = dnp.where(kept, 1 / dnp.where(kept, values, dnp.ones_like(values)), dnp.zeros_like(values))
    return (right * inverted[..., None, :].astype(right.dtype)) @ _adjoint(left)


@converts("geqrf.default", order=_ordered(True, False))
def geqrf(a: Tracer) -> tuple[Tracer, Tracer]:
    """R, the vectors of reflections below it, and their factors (Golub and Van Loan, *Matrix Computations*, 5.2)."""
    m, n = a.shape[-2:]
    rows, columns_ = dnp.arange(m), dnp.arange(n)
    count = min_dim(m, n)
    numbers = dnp.arange(count)

    def step(i: Any, state: Any) -> Any:
        made, factors = state
        column = dnp.take(made, i, axis=-1)
        head = dnp.take(column, i, axis=-1)
        below = dnp.where(rows > i, column, dnp.zeros_like(column))
        rest = dnp.sum(dnp.abs(below) ** 2, axis=-1)
        size = dnp.sqrt(dnp.abs(head) ** 2 + rest)
        # The sign that does not cancel; nothing is reflected where all is 0 below.
        beta = dnp.where(dnp.real(head) >= 0, -size, size)
        none = rest == 0
        beta = dnp.where(none, dnp.real(head), beta).astype(made.dtype)
        safe = dnp.where(none, dnp.ones_like(beta), beta)
        tau = dnp.where(none, dnp.zeros_like(beta), (beta - head) / safe)
        scale = dnp.where(none, dnp.ones_like(beta), head - beta)[..., None]
        v = dnp.where(rows > i, column / scale, (rows == i).astype(made.dtype))[..., None]
        turned = made - dnp.conj(tau)[..., None, None] * (v @ (_adjoint(v) @ made))
        later = dnp.where(columns_ > i, turned, made)
        own = dnp.where(rows > i, v[..., 0], dnp.where(rows == i, beta[..., None], column))[..., None]
        made = dnp.where(columns_ == i, own, later)
        return made, dnp.where(numbers == i, tau[..., None], factors)

    return lax.fori_loop(0, count, step, (a, dnp.zeros((*a.shape[:-2], count), dtype=a.dtype)))


def _reflected(a: Tracer, tau: Tracer, x: Tracer, *, adjoint: bool) -> Tracer:
    """``Q x``, where Q is the product of reflections that the columns of ``a`` have below the diagonal, or ``Qᴴ x``.

    A scan over the columns: in its body nothing asks whether there are any.
    """
    rows, count = dnp.arange(a.shape[-2]), tau.shape[-1]

    def step(x: Any, one: Any) -> Any:
        i, column, factor = one
        v = dnp.where(rows > i, column, (rows == i).astype(a.dtype))[..., None]
        factor = (dnp.conj(factor) if adjoint else factor)[..., None, None]
        return x - factor * dnp.matmul(v, dnp.matmul(_adjoint(v), x)), None

    given = dnp.arange(count), dnp.moveaxis(a[..., :count], -1, 0), dnp.moveaxis(tau, -1, 0)
    return lax.scan(step, x, given, reverse=not adjoint)[0]


@converts("linalg_householder_product.default", order=_ordered(True))
def householder_product(a: Tracer, tau: Tracer) -> Tracer:
    m, n = a.shape[-2:]
    return _reflected(a, tau, dnp.broadcast_to(dnp.eye(m, n, dtype=a.dtype), a.shape), adjoint=False)


@converts("ormqr.default", order=_ordered(True))
def ormqr(a: Tracer, tau: Tracer, c: Tracer, left: bool = True, transpose: bool = False) -> Tracer:
    """``op(Q) C`` or ``C op(Q)``, where Q is the product of reflections."""
    if not left:
        return _adjoint(ormqr(a, tau, _adjoint(c), transpose=not transpose))
    return _reflected(a, tau, c, adjoint=transpose)


_TERMS, _LEAST_NORM = 18, 1.0


@converts("linalg_matrix_exp.default")
def matrix_exp(a: Tracer) -> Tracer:
    """By scaling and squaring (Higham, *Functions of Matrices*, 10.3): the series of a matrix of norm 1 at most."""
    if a.ndim > 2 and isinstance(a.shape[-1], int) and a.shape[-1] == 0:
        return a
    norm = dnp.max(dnp.sum(dnp.abs(a), axis=-2), axis=-1, initial=0)[..., None, None]
    times = dnp.maximum(dnp.ceil(dnp.log2(dnp.maximum(norm, _LEAST_NORM))), 0)
    scaled = a * dnp.exp2(-times).astype(a.dtype)
    one = dnp.eye(a.shape[-1], dtype=a.dtype)
    made = dnp.broadcast_to(one, a.shape)
    for term in range(_TERMS, 0, -1):
        made = one + (scaled @ made) / term

    def square(state: Any) -> Any:
        number, x = state
        return number + 1, dnp.where(number < times, x @ x, x)

    most = dnp.max(times, initial=0)
    return lax.while_loop(lambda state: state[0] < most, square, (dnp.zeros((), dtype=times.dtype), made))[1]
