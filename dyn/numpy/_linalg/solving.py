"""Systems of equations, inverses and determinants.

Matrices are the last two axes. LAPACK computes them in float32, float64, complex64 or complex128: 16-bit floats are
converted there and back. Of a singular matrix results are NaN, as in JAX, and nothing is raised.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dyn import dtypes
from dyn.errors import InvalidValueError, ShapeError
from dyn.numpy._axes import text_of
from dyn.numpy._binary import divide, multiply, subtract
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.selection import where
from dyn.numpy._linalg.norms import matrix_norm
from dyn.numpy._linalg.products import matmul
from dyn.numpy._linalg.stacks import (
    Stacks,
    adjoint,
    as_complex,
    eye_of,
    one_lead,
    one_square_stack,
    one_stack,
    require_equal,
    require_square,
    symmetrized,
    tolerance,
)
from dyn.numpy._logic import greater, isnan, logical_and, logical_not
from dyn.numpy._manipulation import expand_dims, moveaxis, squeeze, view
from dyn.numpy._operands import cast, emit, emit_all, promote, shape_of
from dyn.numpy._options import whole_number
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._reductions import any as any_of
from dyn.numpy._reductions import count_nonzero, max, min, sum
from dyn.numpy._unary import abs, square
from dyn.ops.linalg.matrices import real_of
from dyn.shapes import product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "SlogdetResult", "cond", "det", "inv", "lstsq", "matrix_power", "matrix_rank", "pinv", "slogdet", "solve",
    "tensorinv", "tensorsolve",
]  # fmt: skip


class SlogdetResult(NamedTuple):
    """Results of :func:`slogdet`.

    Args:
        sign: signs of determinants, of size 1 where matrices are complex.
        logabsdet: logarithms of their sizes.
    """

    sign: Array
    logabsdet: Array


# ---- systems of equations --------------------------------------------------------------------------------------------


@public
def solve(a: ArrayLike, b: ArrayLike, /) -> Array:
    """Solutions ``x`` of ``a @ x == b``, by LU factors.

    Args:
        a: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.
        b: vector (n,), or array (..., n, k); the axes in front broadcast.

    Returns:
        An array of shape (..., n) or (..., n, k); inf or NaN for a singular matrix, where NumPy raises. 16-bit floats
        are computed in float32, integers in the default float dtype.

    Raises:
        ShapeError: if matrices are not square, or sizes do not fit, at the call at the latest.

    Example:
        >>> dnp.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
        array([1. , 0.5])
    """
    stacks = Stacks("solve", a, b)
    left, right = stacks.arrays
    require_square("solve", left)
    if right.ndim == 0:
        raise ShapeError(f"solve: {text_of(right)} is 0-d.", loc=user_loc(), remedy="pass a vector or matrices.")
    vector = right.ndim == 1
    right = view(right, (*shape_of(right), 1)) if vector else right
    n, m = shape_of(left)[-1], shape_of(right)[-2]
    problem = f"{text_of(left)} and {text_of(stacks.arrays[1])} do not fit"
    require_equal("solve", left._trace, n, m, problem, "solve takes as many right sides' rows as the matrix has")
    result = stacks.back(emit("solve", *one_lead("solve", left, right)))
    return squeeze(result, -1) if vector else result


@public
def inv(x: ArrayLike, /) -> Array:
    """Inverses of square matrices.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.

    Returns:
        An array of the shape of ``x``; inf or NaN for a singular matrix, where NumPy raises. 16-bit floats are computed
        in float32, integers in the default float dtype.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
    """
    stacks, value = one_square_stack("inv", x)
    return stacks.back(emit("inverse", value))


@public
def pinv(x: ArrayLike, /, rtol: ArrayLike | None = None, hermitian: bool = False) -> Array:
    """Pseudo-inverses of Moore and Penrose, by singular values.

    The gradient takes the rank not to change.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0.
        rtol: singular values of up to so much times the greatest are taken for 0: a number, or one for each matrix;
            None: ``max(m, n) * eps``.
        hermitian: whether ``x`` is Hermitian.

    Returns:
        An array of shape (..., n, m). 16-bit floats are computed in float32, integers in the default float dtype.

    Raises:
        ShapeError: if ``x`` has fewer than two axes. With ``hermitian``, if matrices are not square.

    Example:
        >>> dnp.linalg.pinv(np.array([[2.0], [0.0]]))
        array([[0.5, 0. ]])
    """
    stacks, value = one_stack("pinv", x)
    if hermitian:
        require_square("pinv", value)
        value = symmetrized(value)
    real_dtype = real_of(stacks.dtype)
    limit = tolerance(value, real_dtype) if rtol is None else cast(promote("pinv", rtol)[0], real_dtype)
    return stacks.back(emit("pinv", value, expand(emit("stop_gradient", limit), shape_of(value)[:-2])))


@public
def lstsq(a: ArrayLike, b: ArrayLike, /, rcond: float | None = None) -> tuple[Array, Array, Array, Array]:
    """Least squares: the ``x`` for which ``a @ x`` is nearest to ``b``, of those the shortest.

    Args:
        a: matrix (m, n) of any dtype; sizes may be symbolic, or 0.
        b: vector (m,) or matrix (m, k).
        rcond: singular values of up to so much times the greatest are taken for 0; None: ``max(m, n) * eps``.

    Returns:
        ``x``, (n,) or (n, k); the sums of squared residuals, (1,) or (k,), for every rank, as in JAX; the rank, an
        int32; and the min(m, n) singular values of ``a``. 16-bit floats are computed in float32, integers in the
        default float dtype.

    Raises:
        ShapeError: if arrays have other numbers of axes, or rows, at the call at the latest: use ``dyn.vmap`` for
            several systems.

    Example:
        >>> dnp.linalg.lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))[0]
        array([2.])
    """
    stacks = Stacks("lstsq", a, b)
    left, right = stacks.arrays
    if left.ndim != 2 or right.ndim not in (1, 2):
        raise ShapeError(
            f"lstsq: {text_of(left)} is to be a matrix and {text_of(right)} a vector or a matrix.",
            loc=user_loc(),
            remedy="use dyn.vmap for several systems.",
        )
    columns = view(right, (*shape_of(right), 1)) if right.ndim == 1 else right
    problem = f"{text_of(left)} and {text_of(right)} do not fit"
    trace = left._trace
    require_equal("lstsq", trace, shape_of(left)[0], shape_of(right)[0], problem, "lstsq takes as many right sides")
    u, s, vh = emit_all("svd", left, full_matrices=False, vectors=True)
    limit = tolerance(left, s.element_type) if rcond is None else cast(promote("lstsq", rcond)[0], s.element_type)
    used = greater(s, multiply(limit, max(s, initial=0.0)))
    inverse = where(used, divide(1.0, where(used, s, 1.0)), 0.0)
    x = matmul(adjoint(vh), multiply(expand_dims(as_complex(inverse, left), -1), matmul(adjoint(u), columns)))
    away = sum(square(abs(subtract(columns, matmul(left, x)))), 0)
    x = squeeze(x, -1) if right.ndim == 1 else x
    return stacks.back(x), stacks.back(away), cast(count_nonzero(used), dtypes.int32), stacks.back(s)


@public
def tensorsolve(a: ArrayLike, b: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """Solutions ``x`` of ``tensordot(a, x, x.ndim) == b``.

    Args:
        a: array whose first axes are those of ``b`` and whose others are those of ``x``, with as many elements.
        b: array of any dtype.
        axes: axes of ``a`` that are moved to its end first; None: none.

    Returns:
        An array of the last axes of ``a``.

    Raises:
        ShapeError: if ``a`` has fewer axes than ``b``, or sizes do not fit, at the call at the latest.

    Example:
        >>> dnp.linalg.tensorsolve(np.eye(4).reshape(2, 2, 2, 2), np.ones((2, 2))).shape
        (2, 2)
    """
    left, right = promote("tensorsolve", a, b)
    if axes is not None:
        left = moveaxis(left, tuple(axes), tuple(range(left.ndim - len(axes), left.ndim)))
    if left.ndim < right.ndim:
        raise ShapeError(
            f"tensorsolve: {text_of(left)} has fewer axes than {text_of(right)}.",
            loc=user_loc(),
            remedy="pass an array whose first axes are those of the right side.",
        )
    shape = shape_of(left)[right.ndim :]
    size = product(shape_of(right))
    rows = product(shape_of(left)[: right.ndim])
    matrix = view(left, (rows, product(shape)))
    return view(solve(matrix, view(right, (size,))), shape)


@public
def tensorinv(x: ArrayLike, /, ind: int = 2) -> Array:
    """Inverse of ``tensordot(x, ·, x.ndim - ind)``.

    Args:
        x: array of any dtype, whose first axes have as many elements as the others.
        ind: number of first axes, which go behind the others.

    Returns:
        An array of the last axes of ``x``, then the first.

    Raises:
        InvalidValueError: if ``ind`` is not from 1 to the number of axes.
        ShapeError: if the numbers of elements differ, at the call at the latest.

    Example:
        >>> dnp.linalg.tensorinv(np.eye(6).reshape(6, 2, 3), ind=1).shape
        (2, 3, 6)
    """
    (value,) = promote("tensorinv", x)
    if not 0 < ind <= value.ndim:
        raise InvalidValueError(
            f"tensorinv: ind is {ind}, and {text_of(value)} has {value.ndim} axes.",
            loc=user_loc(),
            remedy="name a number of axes from 1 on.",
        )
    first, last = shape_of(value)[:ind], shape_of(value)[ind:]
    return view(inv(view(value, (product(first), product(last)))), (*last, *first))


# ---- determinants ----------------------------------------------------------------------------------------------------


@public
def det(x: ArrayLike, /) -> Array:
    """Determinants of square matrices; 1 of matrices of size 0.

    The gradient is right for singular matrices too; the second one is NaN there.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.

    Returns:
        An array of shape (...). 16-bit floats are computed in float32, integers in the default float dtype.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.det(np.array([[2.0, 0.0], [0.0, 4.0]]))
        array(8.)
    """
    stacks, value = one_square_stack("det", x)
    return stacks.back(emit("det", value))


@public
def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """Signs of determinants and logarithms of their sizes, without overflow.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.

    Returns:
        A :class:`SlogdetResult`: 0 and -inf for a singular matrix. 16-bit floats are computed in float32, integers in
        the default float dtype.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.slogdet(np.array([[2.0, 0.0], [0.0, -1.0]])).sign
        array(-1.)
    """
    stacks, value = one_square_stack("slogdet", x)
    return SlogdetResult(*(stacks.back(v) for v in emit_all("slogdet", value)))


# ---- powers, rank, condition -----------------------------------------------------------------------------------------


@public
def matrix_power(x: ArrayLike, n: int, /) -> Array:
    """Product of a number of times the same square matrix, by repeated squaring.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.
        n: how often, an int; of a negative one it is the inverse's.

    Returns:
        An array of the shape of ``x``; the identity of 0.

    Raises:
        ArgumentError: if ``n`` is no int.
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.matrix_power(np.array([[1, 1], [0, 1]]), 5)
        array([[1, 5],
               [0, 1]])
    """
    (value,) = promote("matrix_power", x)
    require_square("matrix_power", value)
    count = whole_number("matrix_power", "n", n)
    if count == 0:
        return eye_of(value)
    power: Tracer = inv(value) if count < 0 else value
    result: Tracer | None = None
    for bit in reversed(f"{-count if count < 0 else count:b}"):
        if bit == "1":
            result = power if result is None else matmul(result, power)
        power = matmul(power, power)
    assert result is not None
    return result


@public
def matrix_rank(x: ArrayLike, /, rtol: ArrayLike | None = None, hermitian: bool = False, *, tol: Any = None) -> Array:
    """Rank of matrices: the number of singular values that are not small.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0. Of fewer than two axes: whether an
            element is not 0.
        rtol: values count that are above so much times the greatest: a number, or one for each matrix; None:
            ``max(m, n) * eps``.
        hermitian: whether ``x`` is Hermitian.
        tol: values count that are above it, in the place of ``rtol``.

    Returns:
        An array of int64, of shape (...).

    Raises:
        InvalidValueError: if both ``tol`` and ``rtol`` are given.
        ShapeError: with ``hermitian``, if matrices are not square.

    Example:
        >>> dnp.linalg.matrix_rank(np.array([[1.0, 1.0], [1.0, 1.0]]))
        array(1)
    """
    if tol is not None and rtol is not None:
        raise InvalidValueError("matrix_rank: both tol and rtol are given.", loc=user_loc(), remedy="give one of them.")
    stacks = Stacks("matrix_rank", x)
    (value,) = stacks.arrays
    if value.ndim < 2:
        return cast(any_of(value), dtypes.int64)
    if hermitian:
        require_square("matrix_rank", value)
        s = abs(emit_all("eigh", symmetrized(value), lower=True, vectors=True)[0])
    else:
        s = emit_all("svd", value, full_matrices=False, vectors=True)[1]
    if tol is not None:
        limit = promote("matrix_rank", tol)[0]
    else:
        share = tolerance(value, s.element_type) if rtol is None else promote("matrix_rank", rtol)[0]
        limit = multiply(max(s, -1, initial=0.0), share)
    return count_nonzero(greater(s, expand_dims(limit, -1)), -1)


@public
def cond(x: ArrayLike, /, p: Any = None) -> Array:
    """Condition number of matrices: the norm times that of the inverse.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0.
        p: order of the norm: None for 2, 1, -1, 2, -2, inf, -inf or ``"fro"``.

    Returns:
        A real array of shape (...); infinite where a matrix is singular.

    Raises:
        ShapeError: for matrices of size 0, and, but for 2 and -2, for those that are not square; at the call at the
            latest.
        InvalidValueError: if ``p`` is another one.

    Example:
        >>> dnp.linalg.cond(np.array([[4.0, 0.0], [0.0, 2.0]]))
        array(2.)
    """
    stacks, value = one_stack("cond", x)
    if p in (None, 2, -2):
        s = emit_all("svd", value, full_matrices=False, vectors=True)[1]
        most, least = max(s, -1), min(s, -1)
        result = divide(least, most) if p == -2 else divide(most, least)
    else:
        require_square("cond", value)
        result = multiply(matrix_norm(value, ord=p), matrix_norm(emit("inverse", value), ord=p))
    undefined = logical_and(isnan(result), logical_not(any_of(isnan(value), (-2, -1))))
    return stacks.back(where(undefined, float("inf"), result))
