"""Permutations and choices. Each follows ``jax.random`` step by step, and finds the same places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import one_axis, shape_in, text_of
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, constant, default_float, emit, emit_all, made, shape_of, tracer
from dyn.numpy._public import Array, ArrayLike, Key, Shape, Size, public
from dyn.numpy._unary import filled
from dyn.random._continuous import gumbel_floats
from dyn.random._sampler import one_key, shape_for
from dyn.random._uniform import checked_mode, integers_between, keys_of, random_bits, unit_floats
from dyn.shapes import Dim, RelKind, dim_min, product
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.tracer import Tracer

__all__ = ["categorical", "choice", "permutation"]

#: Sorting by 32 random bits leaves equal ones in their order. Three times as many bits as an index has make that rare.
_EXPONENT = 3
_MOST_KEY = 2**32 - 1
#: An index is an int32.
_MOST_PLACES = 2**31 - 1


# ---- permutation -----------------------------------------------------------------------------------------------------


@public
def permutation(key: Key, x: Size | ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """Slices of an array in random order, or a random order of numbers.

    Where the number of elements is symbolic three rounds of sorting by random bits are made, as many as the greatest
    size needs; the numbers are those of JAX for each size.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        x: array of any dtype, of one axis or more; or a size, an int or a dimension: the numbers below it.
        axis: axis of the slices.
        independent: whether every line along the axis has an order of its own.

    Returns:
        An array of the shape and dtype of ``x``; of a size a vector of int32.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32.
        ShapeError: if ``key`` is not one key, or ``x`` an array without axes.

    Example:
        >>> dnp.sort(dyn.random.permutation(dyn.random.key(7), 4))
        array([0, 1, 2, 3], dtype=int32)
    """
    value = one_key("permutation", key, x)
    if _is_size(x):
        return _shuffled(value, _places(value._trace, _count(value._trace, x, "permutation")), 0)
    array = tracer(value._trace, x, "permutation")
    if not array.ndim:
        raise ShapeError(
            "permutation takes an array with at least one axis, or a size.",
            loc=user_loc(),
            remedy="pass an int or a dimension for a permutation of arange.",
        )
    number = one_axis("permutation", axis, array.ndim)
    return _permuted(value, array, number, independent)


def _permuted(key: Tracer, array: Tracer, axis: int, independent: bool) -> Tracer:
    if independent or array.ndim == 1:
        return _shuffled(key, array, axis)
    order = _shuffled(key, _places(key._trace, shape_of(array)[axis]), 0)
    return dnp.take(array, order, axis)


def _is_size(x: Any) -> bool:
    return isinstance(x, int | np.integer | SymbolicDim) and not isinstance(x, bool)


def _count(trace: Trace, x: Any, what: str) -> Dim:
    (count,) = shape_in(trace, (x,), what)
    return count


def _places(trace: Trace, count: Dim) -> Tracer:
    trace.demand(RelKind.GE, _MOST_PLACES, count, "places along an axis are counted in int32")
    return made(trace, "iota", shape=(count,), dimension=0, dtype=dtypes.int32)


def _shuffled(key: Tracer, x: Tracer, axis: int) -> Tracer:
    """``x`` sorted by random bits, again and again: as often as its number of elements asks for.

    Where that is not known there are three rounds, and those that a call's number of elements does not ask for sort by
    zeros, which keeps the order. Three are enough for 2**32 - 1 elements.
    """
    shape, trace = shape_of(x), key._trace
    count = trace.facts.simplify(product(shape))
    rounds = _rounds(count) if isinstance(count, int) else _EXPONENT
    for number in range(rounds):
        key, sub = keys_of(key, 2)
        order = random_bits(sub, 32, shape)
        if not isinstance(count, int):
            size = made(trace, "dim_size", size=count, dtype=dtypes.int64)
            most = constant(trace, _most_elements(number), dtypes.int64)
            asked = emit("compare", size, most, direction="GT")
            spread = emit("broadcast_in_dim", asked, shape=shape, dims=())
            order = emit("select", spread, order, filled(order, 0))
        _, x = emit_all("sort", order, x, dimension=axis, descending=False)
    return x


def _rounds(count: int) -> int:
    return math.ceil(_EXPONENT * math.log(max(1, count)) / math.log(_MOST_KEY))


def _most_elements(rounds: int) -> int:
    """Most elements that so many rounds are enough for."""
    most = round(_MOST_KEY ** (rounds / _EXPONENT))
    while _rounds(most) > rounds:
        most -= 1
    while _rounds(most + 1) <= rounds:
        most += 1
    return most


# ---- choice ----------------------------------------------------------------------------------------------------------


@public
def choice(
    key: Key,
    a: Size | ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Slices of an array, or places below a size, chosen at random.

    With ``replace`` and ``p`` the time is the product of both sizes.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        a: array of any dtype, of one axis or more; or a size, an int or a dimension: int32 below it.
        shape: sizes that the axis is replaced by, ints or dimensions.
        replace: whether a slice may be chosen again.
        p: vector with the probability of each slice; None: they are equally likely.
        axis: axis of the slices.
        mode: ``"low"`` or ``"high"``: how many bits are drawn without ``replace`` and with ``p``; None: ``"low"``.

    Returns:
        An array in the dtype of ``a``; of a size int32.

    Raises:
        ShapeError: if there is nothing to choose from, too little without ``replace``, or not a probability for each,
            at the call at the latest; if ``key`` is not one key.
        UnsupportedOpError: if ``key`` is not uint32, ``p`` no real vector, or ``mode`` another one.

    Example:
        >>> dyn.random.choice(dyn.random.key(7), np.array([5, 5]), (3,))
        array([5, 5, 5])
    """
    value = one_key("choice", key, a, shape, p)
    trace = value._trace
    dims = shape_in(trace, shape, "choice")
    draws = product(dims)
    array = None if _is_size(a) else tracer(trace, a, "choice")
    if array is not None and not array.ndim:
        raise ShapeError("choice takes an array with at least one axis, or a size.", loc=user_loc())
    number = 0 if array is None else one_axis("choice", axis, array.ndim)
    count = _count(trace, a, "choice") if array is None else shape_of(array)[number]
    least = dim_min(draws, 1) if replace else draws
    trace.demand(RelKind.GE, count, least, "choice finds enough to choose from")
    if p is None and not replace:
        whole = _places(trace, count) if array is None else array
        chosen = _first(_permuted(value, whole, number, False), number, draws)
        shape_of_rest = shape_of(chosen)
        return view(chosen, (*shape_of_rest[:number], *dims, *shape_of_rest[number + 1 :]))
    if p is None:
        trace.demand(RelKind.GE, _MOST_PLACES, count, "places along an axis are counted in int32")
        zero = constant(trace, 0, dtypes.int64)
        most = made(trace, "dim_size", size=count, dtype=dtypes.int64)
        places = integers_between(value, dims, zero, most, dtypes.int32)
    else:
        chance = _chances(trace, p, count)
        places = _weighted(value, chance, dims) if replace else _best(value, chance, dims, checked_mode("choice", mode))
    return places if array is None else dnp.take(array, places, number)


def _chances(trace: Trace, p: Any, count: Dim) -> Tracer:
    chance = tracer(trace, p, "choice")
    if chance.element_type.kind is Kind.COMPLEX or chance.ndim != 1:
        raise UnsupportedOpError(
            f"choice takes a vector of float probabilities, not {text_of(chance)} of {chance.element_type.name}.",
            loc=user_loc(),
            remedy="give one number for each slice.",
        )
    trace.demand(RelKind.EQ, shape_of(chance)[0], count, "choice takes a probability for each slice")
    return cast(chance, chance.element_type if chance.element_type.is_float else default_float())


def _first(x: Tracer, axis: int, count: Dim) -> Tracer:
    limit = tuple(count if a == axis else n for a, n in enumerate(shape_of(x)))
    return emit("slice", x, start=(0,) * len(limit), limit=limit, strides=(1,) * len(limit))


def _weighted(key: Tracer, chance: Tracer, shape: tuple[Dim, ...]) -> Tracer:
    """Draw indices with given weights: the number of running sums below a random part of the whole sum."""
    sums = emit("cumulative", chance, dimension=0, combine="add", reverse=False)
    unit = unit_floats(key, shape, chance.element_type)
    # The last of the sums is the greatest: probabilities are not negative. Of none it is 0.
    whole = dnp.max(sums, initial=0)
    target = emit("subtract", filled(unit, 1), unit) * whole
    below = dnp.sum(sums < target[..., None], axis=-1, dtype="int32")
    return below


def _best(key: Tracer, chance: Tracer, shape: tuple[Dim, ...], mode: str) -> Tracer:
    """The places of the greatest logarithms with noise (https://arxiv.org/abs/1903.06059)."""
    noise = gumbel_floats(key, shape_of(chance), chance.element_type, mode)
    return view(_greatest(emit("add", noise, emit("log", chance)), 0, product(shape)), shape)


def _greatest(scores: Tracer, axis: int, count: Dim) -> Tracer:
    """The places of the greatest scores along an axis, the greatest first."""
    places = made(scores._trace, "iota", shape=shape_of(scores), dimension=axis, dtype=dtypes.int32)
    _, order = emit_all("sort", scores, places, dimension=axis, descending=True)
    return _first(order, axis, count)


# ---- categorical -----------------------------------------------------------------------------------------------------


@public
def categorical(
    key: Key,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Places along an axis, each as likely as the exponential of its logit (https://arxiv.org/abs/1611.01144).

    Without ``replace`` they are those of the greatest noisy logits (https://arxiv.org/abs/1903.06059).

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        logits: array of any real dtype.
        axis: axis of the classes; its size may be symbolic.
        shape: sizes that end in those of ``logits`` without the axis, or in what these broadcast to; what stands in
            front is how many are drawn of each. None: one.
        replace: whether a class may be drawn again.
        mode: ``"low"`` or ``"high"``: how many bits are drawn; None: ``"low"``.

    Returns:
        An array of int32.

    Raises:
        ArgumentError: if ``shape`` has too few sizes.
        ShapeError: if sizes do not fit, or there are too few classes without ``replace``, at the call at the latest; if
            ``key`` is not one key.
        UnsupportedOpError: if ``key`` is not uint32, or ``mode`` another one.

    Example:
        >>> dyn.random.categorical(dyn.random.key(7), np.array([0.0, -np.inf]), shape=(3,))
        array([0, 0, 0], dtype=int32)
    """
    value = one_key("categorical", key, logits, shape)
    trace = value._trace
    scores = tracer(trace, logits, "categorical")
    if scores.element_type.kind is not Kind.FLOAT:
        scores = cast(scores, default_float())
    scores = cast(scores, scores.element_type)
    number = one_axis("categorical", axis, scores.ndim)
    rest = (*shape_of(scores)[:number], *shape_of(scores)[number + 1 :])
    dims = rest if shape is None else shape_for("categorical", trace, shape, [])
    if len(dims) < len(rest):
        raise ArgumentError(
            f"categorical: a shape of {len(dims)} axes does not end in the {len(rest)} axes that the logits have "
            "beside theirs.",
            loc=user_loc(),
            remedy="put what is drawn of each in front of the logits' own shape.",
        )
    many = len(dims) - len(rest)
    front, own = dims[:many], list(dims[many:])
    chosen = checked_mode("categorical", mode)
    if replace:
        own.insert(number, shape_of(scores)[number])
        noise = gumbel_floats(value, (*front, *own), scores.element_type, chosen)
        return cast(dnp.argmax(dnp.add(noise, scores), axis=many + number), dtypes.int32)
    noisy = emit("add", scores, gumbel_floats(value, shape_of(scores), scores.element_type, chosen))
    trace.demand(RelKind.GE, shape_of(scores)[number], product(front), "categorical finds enough to choose from")
    for a, b in zip(own, rest, strict=True):
        trace.demand(RelKind.EQ, a, b, "categorical without replace has the shape of the logits")
    best = dnp.moveaxis(_greatest(noisy, number, product(front)), number, 0)
    return view(best, dims)
