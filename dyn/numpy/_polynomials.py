"""Polynomials as vectors of their coefficients, the highest power first."""

from __future__ import annotations

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.numpy._axes import shape_in
from dyn.numpy._broadcast import align
from dyn.numpy._convolving import convolve
from dyn.numpy._creation import arange, ones
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._joining import concatenate
from dyn.numpy._manipulation import expand_dims, flip, view
from dyn.numpy._operands import cast, constant, emit, like, promote, shape_of, to_float
from dyn.numpy._options import whole_number
from dyn.numpy._public import Array, ArrayLike, Size, public, trace_of
from dyn.numpy._sorting.search import array_of, vector
from dyn.numpy._unary import filled
from dyn.shapes import Dim, dim_max
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["poly", "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "vander"]

#: Polynomials of so many coefficients are multiplied out; others are a loop.
_UNROLLED = 32


@public
def polyval(p: ArrayLike, x: ArrayLike, /, *, unroll: int = 16) -> Array:
    """Values of a polynomial, by Horner's rule; without coefficients they are 0.

    Args:
        p: vector of coefficients of any dtype, that of the highest power first; its size may be symbolic.
        x: array of any dtype: places.
        unroll: JAX's hint, which changes nothing here.

    Returns:
        An array of the shape of ``x``, in the dtype that both promote to.

    Raises:
        ShapeError: if ``p`` is no vector.

    Example:
        >>> dnp.polyval(np.array([1, 0, 2]), np.array([3, 4]))
        array([11, 18])
    """
    numbers, places = promote("polyval", *(array_of("polyval", v, p, x) for v in (p, x)))
    (count,) = shape_of(vector("polyval", numbers))
    start = filled(places, 0)
    if isinstance(count, int) and count <= _UNROLLED:
        result: Array = start
        for number in range(count):
            result = result * places + getitem(numbers, number)
        return result
    trace = trace_of(places, numbers)
    return control.scan(trace, lambda value, c: (value * places + c, None), start, numbers, None, False)[0]


def _lengthened(x: Tracer, size: Dim) -> Tracer:
    """Zeros in front, up to ``size`` coefficients."""
    more = x._trace.facts.simplify(size - shape_of(x)[0])
    if isinstance(more, int) and more == 0:
        return x
    return emit("pad", x, like(x, 0), edge_padding_low=(more,), edge_padding_high=(0,), interior_padding=(0,))


def _together(what: str, a: ArrayLike, b: ArrayLike) -> list[Tracer]:
    values = [vector(what, view(v, (1,)) if v.ndim == 0 else v) for v in
              promote(what, *(array_of(what, v, a, b) for v in (a, b)))]  # fmt: skip
    size = values[0]._trace.facts.simplify(dim_max(shape_of(values[0])[0], shape_of(values[1])[0]))
    return align(what, [_lengthened(v, size) for v in values])


@public
def polyadd(a1: ArrayLike, a2: ArrayLike, /) -> Array:
    """Sum of two polynomials.

    Args:
        a1: vector of coefficients of any dtype, that of the highest power first.
        a2: another one; they need not be equally long.

    Returns:
        A vector as long as the longer one, in the dtype that both promote to.

    Raises:
        ShapeError: if one has more than one axis.

    Example:
        >>> dnp.polyadd(np.array([1, 2, 3]), np.array([1, 1]))
        array([1, 3, 4])
    """
    return emit("add", *_together("polyadd", a1, a2))


@public
def polysub(a1: ArrayLike, a2: ArrayLike, /) -> Array:
    """Difference of two polynomials.

    Args:
        a1: vector of coefficients of any dtype, that of the highest power first.
        a2: another one; they need not be equally long.

    Returns:
        A vector as long as the longer one, in the dtype that both promote to.

    Raises:
        ShapeError: if one has more than one axis.
    """
    return emit("subtract", *_together("polysub", a1, a2))


@public
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials.

    Leading zeros stay, as in JAX: how many there are is known to the data alone.

    Args:
        a1: vector of coefficients of any dtype, that of the highest power first, not empty.
        a2: another one.
        trim_leading_zeros: False.

    Returns:
        A vector of one element less than both have, in the dtype that both promote to.

    Raises:
        ShapeError: if one is no vector, or empty, at the call at the latest.
        NotYetError: if ``trim_leading_zeros`` is true.

    Example:
        >>> dnp.polymul(np.array([1, 2]), np.array([1, 3]))
        array([1, 5, 6])
    """
    if trim_leading_zeros:
        raise NotYetError(
            "polymul with trim_leading_zeros has a data-dependent shape; data-dependent shapes come later.",
            loc=user_loc(),
            remedy="leave it out: leading zeros change no value.",
        )
    left, right = (array_of("polymul", v, a1, a2) for v in (a1, a2))
    return convolve(left, right)


def _times(what: str, m: int) -> range:
    return range(whole_number(what, "the order", m, 0))


@public
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Derivative of a polynomial, of any order.

    Args:
        p: vector of coefficients, that of the highest power first.
        m: how often, an int.

    Returns:
        A vector with ``m`` coefficients less, and none of a constant.

    Raises:
        InvalidValueError: if ``m`` is negative.
        ShapeError: if ``p`` is no vector.

    Example:
        >>> dnp.polyder(np.array([1, 2, 3]))
        array([2, 2])
    """
    value: Array = vector("polyder", array_of("polyder", p))
    for _ in _times("polyder", m):
        size = wrap_dim(value._trace, shape_of(value)[0])
        powers = flip(arange(size))
        value = getitem(value * cast(powers, value.element_type), slice(None, -1))
    return value


@public
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Integral of a polynomial, of any order.

    Args:
        p: vector of coefficients, that of the highest power first.
        m: how often, an int.
        k: constants of integration, a number for all or one for each; None: 0.

    Returns:
        A vector with ``m`` coefficients more; of integers in the default float dtype.

    Raises:
        InvalidValueError: if ``m`` is negative.
        ShapeError: if ``p`` is no vector.

    Example:
        >>> dnp.polyint(np.array([2.0, 2.0]))
        array([1., 2., 0.])
    """
    value: Array = promote("polyint", vector("polyint", array_of("polyint", p, k)), choose=to_float)[0]
    constants = None if k is None else array_of("polyint", k, value)
    for number in _times("polyint", m):
        size = wrap_dim(value._trace, shape_of(value)[0])
        powers = flip(arange(1, size + 1))
        last = constant(value._trace, 0, value.element_type)
        if constants is not None:
            own = constants if constants.ndim == 0 else getitem(constants, number if shape_of(constants) != (1,) else 0)
            last = cast(own, value.element_type)
        value = concatenate([value / cast(powers, value.element_type), view(last, (1,))])
    return value


@public
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Polynomial that has given zeros, and 1 for its first coefficient.

    Args:
        seq_of_zeros: vector of any dtype.

    Returns:
        A vector of one coefficient more, that of the highest power first; of integers in the default float dtype.

    Raises:
        NotYetError: if it is a matrix.
        ShapeError: if it has another number of axes.

    Example:
        >>> dnp.poly(np.array([1.0, 2.0]))
        array([ 1., -3.,  2.])
    """
    (zeros,) = promote("poly", array_of("poly", seq_of_zeros), choose=to_float)
    if zeros.ndim == 2:
        raise NotYetError(
            "poly of a matrix comes later: it needs its eigenvalues.", loc=user_loc(), remedy="pass the zeros."
        )
    (count,) = shape_of(vector("poly", zeros))
    first = cast(ones(1), zeros.element_type)
    start = emit("pad", first, like(first, 0), edge_padding_low=(0,), edge_padding_high=(count,), interior_padding=(0,))

    def step(row: Array, zero: Array) -> tuple[Array, None]:
        before = concatenate([row[:1] * 0, row[:-1]])
        return row - before * zero, None

    return control.scan(trace_of(start, zeros), step, start, zeros, None, False)[0]


@public
def vander(x: ArrayLike, N: Size | None = None, increasing: bool = False) -> Array:
    """Powers of each element of a vector, in the rows of a matrix.

    Args:
        x: vector of any dtype.
        N: how many powers, an int or a dimension; None: as many as there are elements.
        increasing: whether the 0-th power comes first, rather than the highest.

    Returns:
        A matrix of shape ``(x.size, N)``, in the dtype that ``x`` and int64 promote to, as in NumPy: float64 of
        float32.

    Raises:
        ShapeError: if ``x`` is no vector, or ``N`` is negative.

    Example:
        >>> dnp.vander(np.array([1, 2, 3]))
        array([[1, 1, 1],
               [4, 2, 1],
               [9, 3, 1]])
    """
    (value,) = promote("vander", array_of("vander", x, N), choose=lambda d: dtypes.int64 if d is dtypes.bool_ else d)
    count = shape_of(vector("vander", value))[0] if N is None else shape_in(value._trace, N, "vander")[0]
    powers = arange(wrap_dim(value._trace, count))
    wide: Array = expand_dims(value, 1)
    return wide ** (powers if increasing else flip(powers))
