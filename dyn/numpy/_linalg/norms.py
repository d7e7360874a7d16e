"""Norms of vectors and of matrices, in the dtype of absolute values; of 16-bit floats computed in float32."""

from __future__ import annotations

import builtins
from typing import Any

from dyn.dtypes import Kind
from dyn.errors import InvalidValueError
from dyn.numpy._axes import distinct_axes
from dyn.numpy._binary import add, multiply, power
from dyn.numpy._linalg.stacks import Stacks, one_stack
from dyn.numpy._logic import not_equal
from dyn.numpy._manipulation import expand_dims, moveaxis, view
from dyn.numpy._operands import cast, emit_all, shape_of
from dyn.numpy._public import Array, ArrayLike, Axis, public
from dyn.numpy._reductions import max, min, sum
from dyn.numpy._unary import abs, imag, real, sqrt
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["matrix_norm", "norm", "vector_norm"]

_INF = float("inf")


def _squares(x: Tracer) -> Tracer:
    """The squares of absolute values."""
    if x.element_type.kind is Kind.COMPLEX:
        re, im = real(x), imag(x)
        return add(multiply(re, re), multiply(im, im))
    return multiply(x, x)


def _vector(x: Tracer, axis: Axis, keepdims: bool, ord: Any) -> Tracer:
    if isinstance(ord, str | bool):
        raise InvalidValueError(
            f"norm: a vector has no norm of order {ord!r}.", loc=user_loc(), remedy="use a number, inf or -inf."
        )
    if ord is None or ord == 2:
        return sqrt(sum(_squares(x), axis, None, keepdims))
    if ord == _INF:
        return max(abs(x), axis, keepdims, initial=0.0)
    if ord == -_INF:
        return min(abs(x), axis, keepdims)
    if ord == 0:
        return sum(cast(not_equal(x, 0), abs(x).element_type), axis, None, keepdims)
    if ord == 1:
        return sum(abs(x), axis, None, keepdims)
    return power(sum(power(abs(x), ord), axis, None, keepdims), 1.0 / ord)


def _matrix(x: Tracer, keepdims: bool, ord: Any) -> Tracer:
    """Norms of matrices, along the last two axes."""
    if ord is None or ord == "fro":
        return sqrt(sum(_squares(x), (-2, -1), None, keepdims))
    if ord in (2, -2, "nuc"):
        s = emit_all("svd", x, full_matrices=False, vectors=True)[1]
        result = sum(s, -1) if ord == "nuc" else max(s, -1, initial=0.0) if ord == 2 else min(s, -1)
        return expand_dims(result, (-2, -1)) if keepdims else result
    if ord not in (1, -1, _INF, -_INF):
        raise InvalidValueError(
            f"norm: matrices have no norm of order {ord!r}.",
            loc=user_loc(),
            remedy="use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.",
        )
    along, over = (-2, -1) if builtins.abs(ord) == 1 else (-1, -2)
    sums = sum(abs(x), along, None, True)
    result = max(sums, over, True, initial=0.0) if ord > 0 else min(sums, over, True)
    return result if keepdims else view(result, shape_of(result)[:-2])


@public
def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """Norm of vectors: ``sum(abs(x)**ord) ** (1 / ord)``.

    Args:
        x: array of any dtype; sizes may be symbolic, or 0.
        axis: axis or axes of a vector; None: all.
        keepdims: whether these axes stay, with size 1.
        ord: a number, inf (the greatest absolute value), -inf (the least) or 0 (how many are not 0).

    Returns:
        An array without the axes, in the float dtype of absolute values; 0 of nothing, but of the orders below 0.

    Raises:
        InvalidValueError: if ``ord`` is no number.
        ShapeError: if an axis is not one of ``x``; when called, if there is nothing and ``ord`` is -inf.

    Example:
        >>> dnp.linalg.vector_norm(np.array([3.0, 4.0]))
        array(5.)
    """
    stacks = Stacks("vector_norm", x)
    (value,) = stacks.arrays
    return stacks.back(_vector(value, axis, keepdims, ord))


@public
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norm of the matrices in the last two axes.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0.
        keepdims: whether these axes stay, with size 1.
        ord: ``"fro"``, ``"nuc"`` (the sum of the singular values), 2 and -2 (the greatest and the least one), 1 and -1
            (the greatest and the least sum of a column), inf and -inf (of a row).

    Returns:
        An array without the two axes, in the float dtype of absolute values.

    Raises:
        InvalidValueError: if ``ord`` is another one.
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> dnp.linalg.matrix_norm(np.array([[3.0, 0.0], [0.0, 4.0]]), ord=2)
        array(4.)
    """
    stacks, value = one_stack("matrix_norm", x)
    return stacks.back(_matrix(value, keepdims, ord))


@public
def norm(x: ArrayLike, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Norm of vectors or of matrices, as NumPy has it.

    Args:
        x: array of any dtype; sizes may be symbolic, or 0.
        ord: order, as for :func:`vector_norm` and :func:`matrix_norm`; None: 2 for vectors and ``"fro"`` for matrices.
        axis: axis of vectors, or the two of matrices; None: all elements, unless ``ord`` is given and there are two
            axes.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array without the axes, in the float dtype of absolute values.

    Raises:
        InvalidValueError: if ``ord`` is another one, or ``axis`` has more than two.
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> dnp.linalg.norm(np.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
        array([ 5., 10.])
    """
    stacks = Stacks("norm", x)
    (value,) = stacks.arrays
    if axis is None:
        if ord is None or value.ndim == 1:
            return stacks.back(_vector(value, None, keepdims, ord))
        axis = tuple(range(value.ndim))
    axes = distinct_axes("norm", axis if isinstance(axis, tuple | list) else (axis,), value.ndim)
    if len(axes) == 1:
        return stacks.back(_vector(value, axes[0], keepdims, ord))
    if len(axes) != 2:
        raise InvalidValueError(
            f"norm: axis has {len(axes)} axes; a norm is of one or two.",
            loc=user_loc(),
            remedy="use vector_norm for more axes.",
        )
    result = _matrix(moveaxis(value, tuple(axes), (-2, -1)), False, ord)
    return stacks.back(expand_dims(result, tuple(sorted(axes))) if keepdims else result)
