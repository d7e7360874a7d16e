"""Convolutions and correlations of vectors."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, emit, promote, shape_of
from dyn.numpy._options import no_choice
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._sorting.search import demand_elements, vector
from dyn.numpy._unary import conj
from dyn.shapes import Dim, dim_max, dim_min, floordiv, mod
from dyn.trace.tracer import Tracer

__all__ = ["convolve", "correlate"]


def _operands(what: str, a: ArrayLike, v: ArrayLike) -> tuple[Tracer, Tracer]:
    x, y = promote(what, a, v)
    for value in (x, y):
        demand_elements(what, vector(what, value), 0, 1)
    return x, y


def _part(what: str, mode: str, n: Dim, m: Dim) -> tuple[Dim, Dim]:
    """The start and the length of the part of the whole convolution that a mode asks for."""
    short, long = dim_min(n, m), dim_max(n, m)
    if mode == "full":
        return 0, n + m - 1
    if mode == "same":
        return floordiv(short - 1, 2), long
    if mode == "valid":
        return short - 1, long - short + 1
    raise no_choice(what, "mode", mode, ("full", "same", "valid"))


def _slid(x: Tracer, kernel: Tracer, start: Dim, length: Dim, reverse: bool) -> Tracer:
    """Elements ``start``, … of the whole convolution of two vectors; of the correlation, unless ``reverse``."""
    element = x.element_type
    if element is dtypes.bool_:
        x, kernel = cast(x, dtypes.int32), cast(kernel, dtypes.int32)
    (n,), (m,) = shape_of(x), shape_of(kernel)
    facts = x._trace.facts
    low = facts.simplify(m - 1 - start)
    high = facts.simplify(start + length - n)
    made = emit(
        "convolution", view(x, (1, 1, n)), view(kernel, (1, 1, m)), strides=(1,), padding=((low, high),),
        lhs_dilation=(1,), rhs_dilation=(1,), reversal=(reverse,), lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2),
        out_spec=(0, 1, 2), feature_group_count=1, batch_group_count=1,
    )  # fmt: skip
    return cast(view(made, (shape_of(made)[2],)), element)


@public
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None) -> Array:
    """Convolution of two vectors: the products of their elements, added up where their places have the same sum.

    Args:
        a: vector of any dtype, not empty; its size n may be symbolic.
        v: vector of any dtype, not empty, of m elements.
        mode: ``"full"``: all n + m - 1 sums; ``"same"``: as many as the longer vector has, in the middle; ``"valid"``:
            those in which the shorter lies inside the longer.
        precision: JAX's hint, which changes nothing here.

    Returns:
        A vector in the dtype that both promote to; of booleans whether any product is true.

    Raises:
        ShapeError: if one is no vector, or empty, at the call at the latest.
        InvalidValueError: if ``mode`` is another one.

    Example:
        >>> dnp.convolve(np.array([1, 2, 3]), np.array([1, 1]))
        array([1, 3, 5, 3])
    """
    x, y = _operands("convolve", a, v)
    start, length = _part("convolve", mode, shape_of(x)[0], shape_of(y)[0])
    return _slid(x, y, start, length, True)


@public
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None) -> Array:
    """Correlation of two vectors: the sums of products of one and the conjugate of the other, moved along it.

    Args:
        a: vector of any dtype, not empty; its size may be symbolic.
        v: vector of any dtype, not empty.
        mode: ``"full"``, ``"same"`` or ``"valid"``, as for :func:`convolve`.
        precision: JAX's hint, which changes nothing here.

    Returns:
        A vector in the dtype that both promote to.

    Raises:
        ShapeError: if one is no vector, or empty, at the call at the latest.
        InvalidValueError: if ``mode`` is another one.

    Example:
        >>> dnp.correlate(np.array([1, 2, 3]), np.array([0, 1]), "full")
        array([1, 2, 3, 0])
    """
    x, y = _operands("correlate", a, v)
    n, m = shape_of(x)[0], shape_of(y)[0]
    start, length = _part("correlate", mode, n, m)
    if mode == "same":
        # Where v is the longer one NumPy exchanges them and turns the result: the middle of an even number of places
        # is one further on.
        start = start + dim_min(dim_max(m - n, 0), 1) * (1 - mod(dim_min(n, m), 2))
    return _slid(x, conj(y), start, length, False)
