"""Shared parts of dyn.random: calls outside of traces, keys, shapes and dtypes as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._axes import shape_in
from dyn.numpy._broadcast import join_shapes
from dyn.numpy._manipulation import broadcast_to
from dyn.numpy._operands import cast, default_float, operand, shape_of, tracer
from dyn.numpy._public import DTypeLike, Shape
from dyn.shapes import Dim, RelKind, format_shape
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import wrap_dim
from dyn.trace.lift import dtype_of, is_liftable
from dyn.trace.tracer import Tracer

# ---- arguments -------------------------------------------------------------------------------------------------------


def one_key(what: str, key: Any, *others: Any) -> Tracer:
    """The key of a sampler: two words."""
    if not is_liftable(key):
        raise UnsupportedOpError(
            f"{what} takes a key first, and not a {type(key).__name__}.",
            loc=user_loc(),
            remedy=f"make one with dyn.random.key(seed): {what}(key, …).",
        )
    value = operand(what, key, *others)
    _check_words(what, value)
    if value.ndim != 1:
        raise ShapeError(
            f"{what} takes one key, of shape (2,), not an array with {value.ndim} axes.",
            loc=user_loc(),
            remedy="use dyn.vmap for several keys." if value.ndim else "make one with dyn.random.key(seed).",
        )
    value._trace.demand(RelKind.EQ, shape_of(value)[0], 2, f"the key of {what} is two words")
    return value


def _check_words(what: str, value: Tracer) -> None:
    if value.element_type is not dtypes.uint32:
        raise UnsupportedOpError(
            f"{what} takes a key of dtype uint32, not {value.element_type.name}.",
            loc=user_loc(),
            remedy="make one with dyn.random.key(seed).",
        )


def key_words(what: str, keys: Any) -> Tracer:
    """Any number of keys: words along the last axis."""
    value = operand(what, keys)
    _check_words(what, value)
    if not value.ndim:
        raise ShapeError(
            f"{what} takes keys of shape (..., 2), not ().", loc=user_loc(),
            remedy="make one with dyn.random.key(seed).",
        )  # fmt: skip
    value._trace.demand(RelKind.EQ, shape_of(value)[-1], 2, f"each key of {what} is two words")
    return value


def float_dtype(what: str, dtype: DTypeLike, *, complexes: bool = False) -> DType:
    """The float dtype of results: the default one unless it is given."""
    chosen = default_float() if dtype is None else dtype_of(dtype)
    if chosen.kind is Kind.FLOAT or (complexes and chosen.kind is Kind.COMPLEX):
        return chosen
    kinds = "a float or complex dtype" if complexes else "a float dtype"
    raise UnsupportedOpError(
        f"{what} draws numbers of {kinds}, not of {chosen.name}.",
        loc=user_loc(),
        remedy="leave dtype out, or name one.",
    )


def integer_dtype(what: str, dtype: DTypeLike, default: DType) -> DType:
    """The integer dtype of results."""
    chosen = default if dtype is None else dtype_of(dtype)
    if chosen.is_integer and (default.kind is Kind.INT or chosen.kind is Kind.UINT):
        return chosen
    kind = "an integer dtype" if default.kind is Kind.INT else "an unsigned integer dtype"
    raise UnsupportedOpError(
        f"{what} draws numbers of {kind}, not of {chosen.name}.", loc=user_loc(), remedy="leave dtype out, or name one."
    )


def parameter(trace: Trace, value: Any, what: str, dtype: DType) -> Tracer:
    """A parameter of a distribution in the dtype of the results."""
    given = tracer(trace, value, what)
    if given.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} takes real parameters, not {given.element_type.name}.",
            loc=user_loc(),
            remedy="pass the real or imaginary part.",
        )
    return cast(given, dtype)


def shape_for(what: str, trace: Trace, shape: Shape | None, parameters: Sequence[Tracer]) -> tuple[Dim, ...]:
    """The shape of results: the one that is given, or what the parameters broadcast to."""
    if shape is None:
        return join_shapes(what, trace, [shape_of(p) for p in parameters])
    return shape_in(trace, shape, what)


def spread_to(what: str, value: Tracer, shape: tuple[Dim, ...]) -> Tracer:
    """A parameter of a distribution for each result."""
    if value.ndim > len(shape):
        raise ShapeError(
            f"{what}: a parameter of shape {format_shape(shape_of(value))} does not broadcast to the shape "
            f"{format_shape(shape)} of the results.",
            loc=user_loc(),
            remedy="give a shape that the parameters broadcast to, or none.",
        )
    return broadcast_to(value, tuple([wrap_dim(value._trace, size) for size in shape]))
