"""Polynomials as vectors of their coefficients, the highest power first."""

from __future__ import annotations

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.numpy._axes import shape_in
from dyn.numpy._broadcast import align
from dyn.numpy._convolving import convolve
from dyn.numpy._creation import arange, ones
from dyn.numpy._indexing import getitem
from dyn.numpy._joining import concatenate
from dyn.numpy._manipulation import expand_dims, flip, view
from dyn.numpy._operands import cast, constant, emit, like, promote, shape_of, to_float
from dyn.numpy._options import whole_number
from dyn.numpy._public import Array, ArrayLike, Size, public, trace_of
from dyn.numpy._search import array_of, vector
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
    """The polynomial at each element of ``x``, by Horner's rule; without coefficients it is 0.

    ``unroll`` is a hint that is not needed here.
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
    """The sum of two polynomials, with as many coefficients as the longer one."""
    return emit("add", *_together("polyadd", a1, a2))


@public
def polysub(a1: ArrayLike, a2: ArrayLike, /) -> Array:
    """The difference of two polynomials, with as many coefficients as the longer one."""
    return emit("subtract", *_together("polysub", a1, a2))


@public
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials. Leading zeros stay, as in JAX: how many there are is known to the data alone."""
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
    """The ``m``-th derivative of a polynomial. That of a constant has no coefficients."""
    value: Array = vector("polyder", array_of("polyder", p))
    for _ in _times("polyder", m):
        size = wrap_dim(value._trace, shape_of(value)[0])
        powers = flip(arange(size))
        value = getitem(value * cast(powers, value.element_type), slice(None, -1))
    return value


@public
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The ``m``-th integral of a polynomial; ``k`` are the constants, a number for all or one for each integration."""
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
    """The polynomial with these zeros, whose first coefficient is 1. Of a matrix it comes later."""
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
    """The powers of each element of a vector, ``N`` of them (as many as there are elements), the highest first."""
    (value,) = promote("vander", array_of("vander", x, N), choose=lambda d: dtypes.int64 if d is dtypes.bool_ else d)
    count = shape_of(vector("vander", value))[0] if N is None else shape_in(value._trace, N, "vander")[0]
    powers = arange(wrap_dim(value._trace, count))
    wide: Array = expand_dims(value, 1)
    return wide ** (powers if increasing else flip(powers))
