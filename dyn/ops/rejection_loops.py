"""Numbers that are drawn until one is accepted, as loops over all of them at once: what ``dyn.ops.rejection`` says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Value
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.masked_loops import while_any
from dyn.shapes import Dim

_BITS = {dtypes.float32: (dtypes.uint32, 23), dtypes.float64: (dtypes.uint64, 52)}


class Draws(Arithmetic):
    """Random numbers from arrays of keys, uint32 of shape (…, 2), in ``jax.random``'s arithmetic."""

    def constant(self, value: Any, dtype: DType) -> Value:
        return self.b.op("constant", value=Dense(np.asarray(value).astype(dtype.np)))

    def blocks(self, keys: Value, number: int, shape: tuple[Dim, ...] = ()) -> Value:
        """64 random bits for each key, the block of that number; or, from it on, for each element of a shape."""
        first = self.constant(number, dtypes.uint64)
        lead = keys.shape[:-1]
        spread = self.b.op("broadcast_in_dim", first, shape=lead, dims=()) if lead else first
        return self.b.op("threefry2x32", keys, spread, shape=shape)

    def split(self, keys: Value, count: int) -> list[Value]:
        """So many new keys from each."""
        return [self._words(self.blocks(keys, number)) for number in range(count)]

    def _words(self, blocks: Value) -> Value:
        shape = (*blocks.shape, 2)
        both = self.b.op("broadcast_in_dim", blocks, shape=shape, dims=tuple(range(len(shape) - 1)))
        place = self.b.op("iota", shape=shape, dimension=len(shape) - 1, dtype=dtypes.uint64)
        down = self.mul(self.sub(self.fill(place, 1), place), 32)
        return self.b.op("convert", self.f("shift_right_logical", both, down), dtype=dtypes.uint32)

    def uniform(self, keys: Value, dtype: DType, shape: tuple[Dim, ...] = ()) -> Value:
        """Floats in [0, 1)."""
        bits, (pattern, mantissa) = self.blocks(keys, 0, shape), _BITS[dtype]
        if pattern.bits == 32:
            upper = self.f("shift_right_logical", bits, self.fill(bits, 32))
            halves = [self.b.op("convert", half, dtype=pattern) for half in (upper, bits)]
            bits = self.f("xor", *halves)
        fraction = self.f("shift_right_logical", bits, self.fill(bits, pattern.bits - mantissa))
        one = int(np.ones((), dtype.np).view(pattern.np))
        floats = self.b.op("bitcast_convert", self.f("or", fraction, self.fill(fraction, one)), dtype=dtype)
        return self.sub(floats, 1)

    def normal(self, keys: Value, dtype: DType) -> Value:
        """Normally distributed floats."""
        low = float(np.nextafter(dtype.np.type(-1), dtype.np.type(0)))
        drawn = self.uniform(keys, dtype)
        drawn = self.add(self.mul(drawn, float(dtype.np.type(1) - dtype.np.type(low))), low)
        return self.mul(self.f("xla_erf_inv", self.f("maximum", drawn, self.fill(drawn, low))), math.sqrt(2))

    def both(self, *flags: Value) -> Value:
        first, *rest = flags
        for flag in rest:
            first = self.f("and", first, flag)
        return first

    def spread(self, x: Value, shape: tuple[Dim, ...]) -> Value:
        """One for each key, for all of its numbers."""
        return self.b.op("broadcast_in_dim", x, shape=shape, dims=tuple(range(len(x.shape))))


# --- gamma ------------------------------------------------------------------------------------------------------------


def gamma(b: Builder, op: Op) -> tuple[Value]:
    """G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000."""
    d, (keys, alpha) = Draws(b), op.operands
    dtype = alpha.dtype
    third = float(dtype.np.type(1 / 3))
    large = d.cmp(alpha, "GE", 1)
    scale = d.sub(d.where(large, alpha, d.add(alpha, 1)), third)
    slope = d.div(d.fill(scale, third), d.f("sqrt", scale))
    rest, last = d.split(keys, 2)
    cubes = _accepted_cubes(d, rest, scale, slope)
    u, inverse = d.uniform(last, dtype), d.div(d.fill(alpha, 1), alpha)
    # Below 1 it is a number of one more, times a power of a uniform one.
    if op.attrs["log_space"]:
        logs = d.f("log_plus_one", d.neg(u))
        none = d.f("or", large, d.cmp(logs, "EQ", 0))
        below = d.where(none, 0, d.mul(logs, inverse))
        return (d.add(d.add(d.f("log", scale), d.f("log", cubes)), below),)
    below = d.f("power", d.sub(d.fill(u, 1), u), inverse)
    return (d.mul(d.mul(scale, cubes), d.where(large, 1, below)),)


def _accepted_cubes(d: Draws, keys: Value, scale: Value, slope: Value) -> Value:
    """The cubes of ``1 + x*slope`` with normally distributed x that are accepted."""

    def step(b: Builder, left: Value, state: list[Value], fixed: list[Value]) -> tuple[Value, list[Value]]:
        d, (keys, found), (scale, slope) = Draws(b), state, fixed
        dtype = scale.dtype
        keys, trial, last = d.split(keys, 3)
        x, v = _positive(d, left, trial, slope)
        square, cube = d.mul(x, x), d.mul(d.mul(v, v), v)
        u = d.uniform(last, dtype)
        squeeze = d.sub(d.fill(u, 1), d.mul(d.mul(square, square), float(dtype.np.type(0.0331))))
        bound = d.add(d.mul(square, 0.5), d.mul(scale, d.add(d.sub(d.fill(cube, 1), cube), d.f("log", cube))))
        refused = d.both(d.cmp(u, "GE", squeeze), d.cmp(d.f("log", u), "GE", bound))
        return d.both(left, refused), [keys, d.where(left, cube, found)]

    # An infinite or undefined parameter is its own result.
    finite = d.f("is_finite", scale)
    return while_any(d.b, finite, [keys, d.fill(scale, 1)], [scale, slope], step)[1]


def _positive(d: Draws, wanted: Value, keys: Value, slope: Value) -> tuple[Value, Value]:
    """Normally distributed x with a positive ``1 + x*slope``, where it is wanted; and that."""

    def step(b: Builder, left: Value, state: list[Value], fixed: list[Value]) -> tuple[Value, list[Value]]:
        d, (keys, x, v), (slope,) = Draws(b), state, fixed
        keys, sub = d.split(keys, 2)
        drawn = d.normal(sub, slope.dtype)
        trial = d.add(d.mul(drawn, slope), 1)
        return d.both(left, d.cmp(trial, "LE", 0)), [keys, d.where(left, drawn, x), d.where(left, trial, v)]

    made = while_any(d.b, wanted, [keys, d.fill(slope, 0), d.fill(slope, 1)], [slope], step)
    return made[1], made[2]


# --- Poisson ----------------------------------------------------------------------------------------------------------


def poisson(b: Builder, op: Op) -> tuple[Value]:
    d, (keys, rate), dtype = Draws(b), op.operands, op.attrs["dtype"]
    small = d.f("or", d.cmp(rate, "NE", rate), d.cmp(rate, "LT", 10))
    few = _few(d, keys, d.where(small, rate, 0))
    many = _many(d, keys, d.where(small, 1e5, rate), d.f("not", small))
    wide = b.op("convert", d.where(d.cmp(rate, "EQ", 0), 0, d.where(small, few, many)), dtype=dtypes.float64)
    most, bits = int(np.iinfo(dtype.np).max), d.f("maximum", wide, d.fill(wide, 0))
    fits = d.cmp(wide, "LT", float(most))
    whole = b.op("convert", d.where(fits, bits, 0), dtype=dtype)
    whole = d.where(d.cmp(wide, "LT", 0), _minus_one(d, whole), whole)
    return (d.where(d.cmp(wide, "GE", float(most)), most, whole),)


def _minus_one(d: Draws, like: Value) -> Value:
    """All bits, as the largest number where there is no -1."""
    return d.f("not", d.fill(like, 0))


def _few(d: Draws, keys: Value, rate: Value) -> Value:
    """Poisson numbers of small rates, by products of uniform numbers (D. E. Knuth, TAOCP 2, section 3.4.1)."""

    def step(b: Builder, left: Value, state: list[Value], fixed: list[Value]) -> tuple[Value, list[Value]]:
        d, (keys, count, logs), (rate,) = Draws(b), state, fixed
        keys, sub = d.split(keys, 2)
        drawn = d.uniform(sub, rate.dtype, rate.shape[len(keys.shape) - 1 :])
        logs = d.add(logs, d.f("log", drawn))
        return d.cmp(logs, "GT", d.neg(rate)), [keys, d.where(left, d.add(count, 1), count), logs]

    none = d.fill(rate, 0)
    return d.sub(while_any(d.b, d.cmp(none, "GT", d.neg(rate)), [keys, none, none], [rate], step)[1], 1)


def _many(d: Draws, keys: Value, rate: Value, wanted: Value) -> Value:
    """Poisson numbers by transformed rejection (W. Hörmann, "The transformed rejection method for generating Poisson
    random variables", Insurance: Mathematics and Economics 12, 1993). Nothing is drawn where none is ``wanted``.

    As in JAX, the elements of a key are drawn together until all have been accepted, and the last that was counts.
    """
    lead = len(keys.shape) - 1

    def waiting(d: Draws, accepted: Value) -> Value:
        open_ = d.f("not", accepted)
        axes = tuple(range(lead, len(open_.shape)))
        return d.b.op("reduce", open_, axes=axes, combine="or", nonempty=False) if axes else open_

    def step(b: Builder, left: Value, state: list[Value], fixed: list[Value]) -> tuple[Value, list[Value]]:
        d, (keys, count, accepted), (rate,) = Draws(b), state, fixed
        keys, first, second = d.split(keys, 3)
        k, taken = _trial(d, rate, first, second)
        counts = d.both(taken, d.spread(left, rate.shape), d.f("is_finite", rate))
        accepted = d.f("or", accepted, taken)
        return waiting(d, accepted), [keys, d.where(counts, k, count), accepted]

    accepted = d.cmp(rate, "EQ", math.inf)  # of an infinite rate nothing is accepted
    axes = tuple(range(len(rate.shape)))
    some = d.b.op("reduce", wanted, axes=axes, combine="or", nonempty=False) if axes else wanted
    open_ = waiting(d, accepted)
    some = d.b.op("broadcast_in_dim", some, shape=open_.shape, dims=()) if open_.shape else some
    return while_any(d.b, d.both(open_, some), [keys, d.fill(rate, -1), accepted], [rate], step)[1]


def _trial(d: Draws, rate: Value, first: Value, second: Value) -> tuple[Value, Value]:
    """A number for each rate, and whether it is accepted."""
    b = d.add(d.mul(d.f("sqrt", rate), _single(2.53)), _single(0.931))
    a = d.add(d.mul(b, _single(0.02483)), _single(-0.059))
    inverse = d.add(d.div(d.fill(b, _single(1.1328)), d.sub(b, _single(3.4))), _single(1.1239))
    most = d.sub(d.fill(b, _single(0.9277)), d.div(d.fill(b, _single(3.6224)), d.sub(b, 2)))
    shape = rate.shape[len(first.shape) - 1 :]
    u, v = d.sub(d.uniform(first, rate.dtype, shape), 0.5), d.uniform(second, rate.dtype, shape)
    inner = d.sub(d.fill(u, 0.5), d.f("abs", u))
    factor = d.add(d.div(d.mul(a, 2), inner), b)
    k = d.f("floor", d.add(d.add(d.mul(factor, u), rate), _single(0.43)))
    score = d.f("log", d.div(d.mul(v, inverse), d.add(d.div(a, d.mul(inner, inner)), b)))
    likelihood = d.sub(d.sub(d.mul(k, d.f("log", rate)), rate), d.f("lgamma", d.add(k, 1)))
    outside = d.both(d.cmp(inner, "LT", _single(0.013)), d.cmp(v, "GT", inner))
    refused = d.f("or", d.cmp(k, "LT", 0), outside)
    quickly = d.both(d.cmp(inner, "GE", _single(0.07)), d.cmp(v, "LE", most))
    slowly = d.both(d.f("not", refused), d.cmp(score, "LE", likelihood))
    return k, d.f("or", quickly, slowly)


def _single(number: float) -> float:
    return float(np.float32(number))
