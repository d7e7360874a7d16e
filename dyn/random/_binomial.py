"""Counts of successes: by waiting times where they are few, by transformed rejection where they are many."""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.dtypes import DType
from dyn.lax import while_loop
from dyn.numpy._operands import cast, default_float, tracer
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Key, Shape, public
from dyn.random._sampler import float_dtype, one_key, parameter, shape_for, spread_to
from dyn.random._uniform import keys_of, unit_floats
from dyn.shapes import Dim
from dyn.trace.tracer import Tracer

__all__ = ["binomial"]

#: What Stirling's formula for log(k!) leaves out, for k up to 9.
_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


@public
def binomial(key: Key, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Successes of a number of trials with a given probability.

    By waiting times where they are few, else by transformed rejection (W. Hörmann, "The generation of binomial random
    variates", 1993).

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        n: number of trials; of fractions the whole part counts.
        p: probability of success.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype: floats, as in JAX; NaN of invalid parameters.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.binomial(dyn.random.key(7), 5, 1.0, (2,))
        array([5., 5.], dtype=float32)
    """
    value, chosen = one_key("binomial", key, n, p, shape), float_dtype("binomial", dtype)
    chance = tracer(value._trace, p, "binomial")
    kind = default_float() if chance.weak or not chance.element_type.is_float else chance.element_type
    given = [parameter(value._trace, v, "binomial", kind) for v in (n, chance)]
    dims = shape_for("binomial", value._trace, shape, given)
    count, p = (_array(spread_to("binomial", v, dims)) for v in given)
    rare = p < 0.5
    q = dnp.where(rare, p, 1 - p)
    no_count = dnp.isnan(count) | (count < 0)
    no_chance = dnp.isnan(q)
    invalid = no_count | no_chance | (q < 0)
    q = dnp.where(no_chance | (q < 0), 0.01, q)
    few = no_count | (count * q <= 10)
    count = dnp.floor(count)
    drawn = dnp.where(
        few,
        _few(value, dnp.where(few, count, 0), q, dims, kind),
        _many(value, dnp.where(few, 1e4, count), dnp.where(few, 0.5, q), dims, kind),
    )
    made = dnp.where(invalid, np.nan, dnp.where(dnp.isinf(count), np.inf, drawn))
    plain = rare | no_count | no_chance | dnp.isinf(count)
    return cast(_tracer(dnp.where(plain, made, count - made)), chosen)


def _array(x: Tracer) -> Any:
    """A tracer for arithmetic."""
    return x


def _tracer(x: Any) -> Tracer:
    return x


def _few(key: Tracer, count: Any, chance: Any, dims: tuple[Dim, ...], dtype: DType) -> Any:
    """The number of waiting times, which are geometrically distributed, that fit into ``count`` trials."""
    log = dnp.log1p(-chance)

    def waiting(state: Any) -> Any:
        return dnp.any(state[1] <= count)

    def wait(state: Any) -> Any:
        number, total, key = state
        sub, key = keys_of(key, 2)
        number = dnp.where(total <= count, number + 1, number)
        u: Array = unit_floats(sub, dims, dtype)
        return number, total + dnp.ceil(dnp.log(u) / log), key

    none = dnp.zeros_like(count)
    return while_loop(waiting, wait, (none, none, key))[0] - 1


def _many(key: Tracer, count: Any, chance: Any, dims: tuple[Dim, ...], dtype: DType) -> Any:
    """Binomial numbers by transformed rejection (W. Hörmann, "The generation of binomial random variates", J. Stat.
    Comput. Simul. 46, 1993).

    As in JAX all are drawn together until each has been accepted, and the last that was counts.
    """
    deviation = dnp.sqrt(count * chance * (1 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    ratio, alpha = chance / (1 - chance), (2.83 + 5.1 / b) * deviation
    mode = dnp.floor((count + 1) * chance)

    def refused(state: Any) -> Any:
        return dnp.any(dnp.logical_not(state[1]))

    def draw(state: Any) -> Any:
        found, accepted, key = state
        key, first, second = keys_of(key, 3)
        u = _array(unit_floats(first, dims, dtype)) - 0.5
        v = _array(unit_floats(second, dims, dtype))
        inner = 0.5 - dnp.abs(u)
        quickly = (inner >= 0.07) & (v <= 0.92 - 4.2 / b)
        k = dnp.floor((2 * a / inner + b) * u + (count * chance + 0.5))
        outside = (k < 0) | (k > count)
        score = dnp.log(v * alpha / (a / (inner * inner) + b))
        bound = (
            (mode + 0.5) * dnp.log((mode + 1) / (ratio * (count - mode + 1)))
            + (count + 1) * dnp.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * dnp.log(ratio * (count - k + 1) / (k + 1))
            + _tail(mode) + _tail(count - mode) - _tail(k) - _tail(count - k)
        )  # fmt: skip
        taken = quickly | (dnp.logical_not(outside) & (score <= bound))
        return dnp.where(taken, k, found), accepted | taken, key

    start = (dnp.full_like(count, -1), dnp.zeros_like(count, dtype="bool"), key)
    return while_loop(refused, draw, start)[0]


def _tail(k: Any) -> Any:
    """The difference of the logarithm of k! and Stirling's formula."""
    place = dnp.clip(k, 0, 9)
    square = (place + 1) * (place + 1)
    # As in JAX the series is that of a number of at most 9, which is where it is used from on.
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (place + 1)
    table = dnp.asarray(np.array(_TAILS), dtype=k.dtype)
    return dnp.where(k <= 9, table[dnp.floor(place).astype("int32")], series)
