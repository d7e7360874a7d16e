"""Vectors and matrices of normally distributed numbers."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.dtypes import Kind
from dyn.errors import ShapeError, UndecidedDimError, UnsupportedOpError
from dyn.numpy._axes import shape_in
from dyn.numpy._broadcast import join_shapes
from dyn.numpy._operands import cast, default_float, shape_of, tracer
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Key, Shape, Size, found_trace, public
from dyn.random._continuous import normal_floats
from dyn.random._sampler import float_dtype, one_key, spread_to
from dyn.shapes import Dim, RelKind, format_dim
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["multivariate_normal", "orthogonal"]

_METHODS = ("cholesky", "eigh", "svd")


@public
def multivariate_normal(
    key: Key, mean: ArrayLike, cov: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None,
    method: str = "cholesky",
) -> Array:  # fmt: skip
    r"""Normally distributed vectors with given means and covariances.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        mean: array of shape (..., n).
        cov: array of shape (..., n, n), symmetric.
        shape: sizes in front of ``n``; None: what the leading axes of both broadcast to.
        dtype: dtype of the result, a float one; None: the one that both promote to.
        method: how a factor of ``cov`` is found: ``"cholesky"``, or ``"eigh"`` or ``"svd"``, which take singular ones
            too.

    Returns:
        An array of shape (\*shape, n).

    Raises:
        ShapeError: if sizes do not fit, at the call at the latest, or axes are missing; if ``key`` is not one key.
        UnsupportedOpError: if ``key`` is not uint32, or ``method`` another one.

    Example:
        >>> dyn.random.multivariate_normal(dyn.random.key(7), np.zeros(2), np.eye(2), (5,)).shape
        (5, 2)
    """
    if method not in _METHODS:
        raise UnsupportedOpError(
            f"multivariate_normal knows the methods {', '.join(_METHODS)}, not {method!r}.",
            loc=user_loc(),
            remedy="name one of them.",
        )
    value = one_key("multivariate_normal", key, mean, cov, shape)
    trace = value._trace
    center, matrix = (tracer(trace, v, "multivariate_normal") for v in (mean, cov))
    for name, given, least in (("mean", center, 1), ("cov", matrix, 2)):
        if given.ndim < least:
            raise ShapeError(
                f"multivariate_normal: {name} has {given.ndim} axes, and at least {least} are needed.",
                loc=user_loc(),
                remedy="mean is (..., n) and cov (..., n, n).",
            )
    kind = dnp.result_type(center, matrix)
    kind = kind if kind.kind is Kind.FLOAT else default_float()
    center, matrix = cast(center, kind), cast(matrix, kind)
    size = shape_of(center)[-1]
    for axis in (-2, -1):
        trace.demand(RelKind.EQ, shape_of(matrix)[axis], size, "cov is a square matrix of the size of mean")
    lead = [shape_of(center)[:-1], shape_of(matrix)[:-2]]
    dims = join_shapes("multivariate_normal", trace, lead) if shape is None else shape_in(trace, shape, "shape")
    chosen = kind if dtype is None else float_dtype("multivariate_normal", dtype)
    normal = normal_floats(value, (*dims, size), chosen)
    moved: Any = dnp.matmul(_factor(matrix, method), dnp.expand_dims(normal, -1))
    return spread_to("multivariate_normal", center + dnp.squeeze(moved, -1), (*dims, size))


def _factor(matrix: Any, method: str) -> Any:
    """F with ``F F^T == matrix``."""
    if method == "cholesky":
        return dnp.linalg.cholesky(matrix)
    if method == "eigh":
        values, vectors = dnp.linalg.eigh(matrix)
        return vectors * dnp.expand_dims(dnp.sqrt(values), -2)
    u, values, _ = dnp.linalg.svd(matrix)
    return u * dnp.expand_dims(dnp.sqrt(values), -2)


def orthogonal(key: Key, n: Size, shape: Shape = (), dtype: DTypeLike = None, m: Size | None = None) -> Array:
    r"""Matrices with orthonormal columns, or rows where there are fewer of them, spread evenly among all such.

    By the factor Q of normally distributed numbers, whose signs are set by R (F. Mezzadri, "How to generate random
    matrices from the classical compact groups", 2007).

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        n: number of rows, an int or a dimension.
        shape: sizes of the result, ints or dimensions, which may be 0. The matrices stand behind them.
        dtype: float or complex dtype, of which matrices are unitary; None: the default float dtype.
        m: number of columns; None: ``n``.

    Returns:
        An array of shape (\*shape, n, m).

    Raises:
        UndecidedDimError: if which of two dimensions is the greater is not known.
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` no float one.
        ShapeError: if ``key`` is not one key, or a size is negative.

    Example:
        >>> dyn.random.orthogonal(dyn.random.key(7), 3, (2,)).shape
        (2, 3, 3)
    """
    if m is None:
        return _square(key, n, shape, dtype)
    if _is_less(key, n, m):
        return dnp.matrix_transpose(_tall(key, m, n, shape, dtype))
    return _tall(key, n, m, shape, dtype)


@public
def _square(key: Key, n: Size, shape: Shape, dtype: DTypeLike) -> Array:
    value = one_key("orthogonal", key, n, shape)
    (rows,) = shape_in(value._trace, n, "orthogonal")
    return _spread_evenly(value, rows, rows, shape, dtype)


@public
def _tall(key: Key, n: Size, m: Size, shape: Shape, dtype: DTypeLike) -> Array:
    value = one_key("orthogonal", key, n, m, shape)
    (rows,), (columns,) = (shape_in(value._trace, size, "orthogonal") for size in (n, m))
    value._trace.demand(RelKind.GE, rows, columns, "the columns are orthonormal")
    return _spread_evenly(value, rows, columns, shape, dtype)


def _spread_evenly(key: Tracer, rows: Dim, columns: Dim, shape: Shape, dtype: DTypeLike) -> Array:
    chosen = float_dtype("orthogonal", dtype, complexes=True)
    dims = shape_in(key._trace, shape, "orthogonal")
    q, r = dnp.linalg.qr(normal_floats(key, (*dims, rows, columns), chosen))
    return q * dnp.expand_dims(dnp.sign(dnp.linalg.diagonal(r)), -2)


def _is_less(key: Any, n: Any, m: Any) -> bool:
    """Tell whether there are fewer rows than columns."""
    if isinstance(n, int) and isinstance(m, int):
        return n < m
    trace = found_trace(key, n, m)
    assert trace is not None  # a dim belongs to one
    (rows,), (columns,) = (shape_in(trace, size, "orthogonal") for size in (n, m))
    if trace.facts.ge(rows, columns).proved:
        return False
    if trace.facts.ge(columns, rows).proved:
        return True
    raise UndecidedDimError(
        f"orthogonal: which of {format_dim(rows)} and {format_dim(columns)} is the greater is not known.",
        loc=user_loc(),
        remedy="declare it in constraints=, or draw the tall matrix and transpose it.",
    )
