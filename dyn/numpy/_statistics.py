"""Covariances and correlations; running sums without NaNs; numbers at equal ratios."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.errors import ArgumentError, ShapeError
from dyn.numpy._axes import text_of
from dyn.numpy._binary import clip, power, true_divide
from dyn.numpy._creation import linspace
from dyn.numpy._cumulative import cumprod, cumsum
from dyn.numpy._diagonal import diagonal
from dyn.numpy._indexing.selection import where
from dyn.numpy._indexing.take import size_of
from dyn.numpy._joining import concatenate
from dyn.numpy._linalg.products import matmul
from dyn.numpy._logic import isnan
from dyn.numpy._manipulation import view
from dyn.numpy._moments import average
from dyn.numpy._operands import cast, default_float, promote, shape_of, to_float
from dyn.numpy._options import check_numbers, whole_number
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Size, public
from dyn.numpy._reductions import sum as sum_of
from dyn.numpy._sorting.search import array_of, vector
from dyn.numpy._unary import conj, exp, imag, log, real, sqrt
from dyn.source import user_loc
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = ["corrcoef", "cov", "geomspace", "logspace", "nancumprod", "nancumsum"]


def _variables(what: str, m: ArrayLike, y: ArrayLike | None, rowvar: bool) -> Tracer:
    """A row for each variable, a column for each observation."""
    given = [array_of(what, v, m, y) for v in (m, y) if v is not None]
    rows: list[Tracer] = []
    for number, value in enumerate(promote(what, *given, choose=to_float)):
        if value.ndim > 2:
            raise ShapeError(
                f"{what}: {text_of(value)} has {value.ndim} axes.", loc=user_loc(), remedy="pass a vector or a matrix."
            )
        x: Array = view(value, (1,) * (2 - value.ndim) + shape_of(value))
        rows.append(x if rowvar or (number == 0 and value.ndim == 1) or shape_of(x)[0] == 1 else x.T)
    return rows[0] if len(rows) == 1 else concatenate(rows)


def _covariance(x: Array, ddof: float, fweights: ArrayLike | None, aweights: ArrayLike | None) -> Array:
    weights: Array = None
    own: Array = None
    for given, frequency in ((fweights, True), (aweights, False)):
        if given is not None:
            counts = vector("cov", array_of("cov", given, x))
            if frequency and not counts.element_type.is_integer:
                raise ArgumentError(
                    f"cov: fweights are {counts.element_type.name}, not integers.",
                    loc=user_loc(),
                    remedy="use aweights, or convert them with .astype('int64').",
                )
            one = cast(counts, to_float(real(x).element_type))
            weights = one if weights is None else weights * one
            own = own if frequency else one
    if weights is None:
        total: Array = cast(size_of(x, shape_of(x)[1]), real(x).element_type)
    else:
        total = sum_of(weights)
    mean = average(x, 1, weights)
    factor = total - ddof if own is None or ddof == 0 else total - ddof * sum_of(weights * own) / total
    centred = x - mean[:, None]
    right = centred if weights is None else centred * weights
    return true_divide(matmul(centred, conj(right).T), where(factor > 0, factor, 0.0))


@public
def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: float | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Covariances of variables; of one variable its variance.

    Args:
        m: vector or matrix of any dtype: a row for each variable, a column for each observation.
        y: further variables, in the same form.
        rowvar: whether variables are rows; False: they are columns.
        bias: whether it is divided by the number of observations, rather than by one less.
        ddof: number to take from the number of observations, in the place of ``bias``.
        fweights: vector of integers: how often each observation was made.
        aweights: vector of numbers: how much each observation counts.

    Returns:
        A matrix, or an array without axes where there is one variable, known to be alone; of integers in the default
        float dtype. Infinite or NaN where the divisor is not positive.

    Raises:
        ShapeError: if ``m`` or ``y`` has more than two axes, or numbers of observations differ, at the call at the
            latest.
        ArgumentError: if ``fweights`` are not integers, or ``ddof`` is none.

    Example:
        >>> dnp.cov(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        array([[ 1., -1.],
               [-1.,  1.]])
    """
    less = (0.0 if bias else 1.0) if ddof is None else whole_number("cov", "ddof", ddof)
    made = _covariance(_variables("cov", m, y, rowvar), less, fweights, aweights)
    return view(made, ()) if shape_of(made) == (1, 1) else made


@public
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Array:
    """Correlations of variables, between -1 and 1.

    Args:
        x: vector or matrix of any dtype: a row for each variable, a column for each observation.
        y: further variables, in the same form.
        rowvar: whether variables are rows; False: they are columns.

    Returns:
        A matrix, or an array without axes where there is one variable; NaN where a variable does not vary.

    Raises:
        ShapeError: if ``x`` or ``y`` has more than two axes, or numbers of observations differ, at the call at the
            latest.

    Example:
        >>> dnp.corrcoef(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        array([[ 1., -1.],
               [-1.,  1.]])
    """
    made = _covariance(_variables("corrcoef", x, y, rowvar), 1.0, None, None)
    if shape_of(made) == (1, 1):
        only: Array = view(made, ())
        return only / only
    deviation = sqrt(real(diagonal(made)))
    scaled = made / deviation[:, None] / deviation[None, :]
    if scaled.element_type.kind is not dtypes.Kind.COMPLEX:
        return clip(scaled, -1, 1)
    return clip(real(scaled), -1, 1) + 1j * clip(imag(scaled), -1, 1)


# ---- running ---------------------------------------------------------------------------------------------------------


def _without_nan(what: str, x: ArrayLike, instead: int) -> Tracer:
    value = array_of(what, x)
    return where(isnan(value), instead, value) if value.element_type.is_inexact else value


@public
def nancumsum(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """Running sum along an axis, in which NaN counts as 0.

    Args:
        x: array of any dtype, of any shape.
        axis: axis to go along; None: all elements, in one axis.
        dtype: dtype to compute in and of the result; None: as for :func:`cumsum`.

    Returns:
        An array of the shape of ``x``, or with ``axis=None`` a vector.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.nancumsum(np.array([1.0, np.nan, 2.0]))
        array([1., 1., 3.])
    """
    return cumsum(_without_nan("nancumsum", x, 0), axis, dtype)


@public
def nancumprod(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """Running product along an axis, in which NaN counts as 1.

    Args:
        x: array of any dtype, of any shape.
        axis: axis to go along; None: all elements, in one axis.
        dtype: dtype to compute in and of the result; None: as for :func:`cumprod`.

    Returns:
        An array of the shape of ``x``, or with ``axis=None`` a vector.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``.
    """
    return cumprod(_without_nan("nancumprod", x, 1), axis, dtype)


# ---- at equal ratios -------------------------------------------------------------------------------------------------


@public
def logspace(
    start: Any, stop: Any, /, num: Size = 50, *, endpoint: bool = True, base: Any = 10.0, dtype: DTypeLike = None
) -> Array:
    """Powers of a base whose exponents lie at equal distances.

    Args:
        start: first exponent; a Python number or a traced scalar.
        stop: last exponent, or the one behind it.
        num: how many: an int, a dimension or a traced integer.
        endpoint: whether ``stop`` is the last of them.
        base: the base, a number or a traced scalar.
        dtype: dtype of the result; None: the default float dtype. It is computed in float64.

    Returns:
        An array of shape ``(num,)``.

    Raises:
        ShapeError: if ``num`` is negative.

    Example:
        >>> dnp.logspace(0, 2, 3)
        dyn.Array([  1.,  10., 100.], dtype=float32)
    """
    exponents = linspace(start, stop, num, dtype=dtypes.float64, endpoint=endpoint)
    element = default_float() if dtype is None else dtype_of(dtype)
    return cast(power(cast(promote("logspace", exponents, base)[1], dtypes.float64), exponents), element)


@public
def geomspace(start: Any, stop: Any, /, num: Size = 50, *, endpoint: bool = True, dtype: DTypeLike = None) -> Array:
    """Numbers of one sign, each the one before times the same number.

    Args:
        start: first number, not 0; a Python number or a traced scalar.
        stop: last number, not 0, or the one behind it.
        num: how many: an int, a dimension or a traced integer.
        endpoint: whether ``stop`` is the last of them.
        dtype: dtype of the result; None: the default float dtype. It is computed in float64.

    Returns:
        An array of shape ``(num,)``; NaN where the ends have different signs.

    Raises:
        InvalidValueError: if an end is the number 0.
        ShapeError: if ``num`` is negative.

    Example:
        >>> dnp.geomspace(1, 100, 3)
        dyn.Array([  1.,  10., 100.], dtype=float32)
    """
    for name, end in (("start", start), ("stop", stop)):
        check_numbers("geomspace", name, end, lambda number: number != 0, "use numbers other than 0.")
    line: Array = linspace(0.0, 1.0, num, dtype=dtypes.float64, endpoint=endpoint)
    _, first, last = (cast(v, dtypes.float64) for v in promote("geomspace", line, start, stop))
    low: Array = first
    made = low * exp(log(true_divide(last, first)) * line)
    # The ends exactly.
    made = where(line == 0, low, where(line == 1, last, made))
    return cast(made, default_float() if dtype is None else dtype_of(dtype))
