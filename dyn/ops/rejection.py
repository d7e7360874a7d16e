"""Random numbers that are drawn until one is accepted: gamma and Poisson.

Compiled programs draw them in loops (``dyn.ops.rejection_loops``), and the reference here with NumPy's own code, which
goes on with the numbers that are left alone. The draws are those of ``jax.random``, in its order; what is computed from
them may differ in the last bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import NOT_CONTINUOUS, Attrs, Composite, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops import rejection_loops
from dyn.ops.gamma_slope import gamma_jvp, gamma_vjp
from dyn.ops.threefry import blocks
from dyn.ops.transform_rules import again
from dyn.requirements import scipy_module
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]


# --- draws --------------------------------------------------------------------------------------------------------


def _blocks(keys: Array, count: int) -> Array:
    """64 bits for each of ``count`` places, for each of a list of keys."""
    return blocks(keys, np.zeros(keys.shape[:-1], np.uint64), (count,))


def _split(keys: Array, count: int) -> list[Array]:
    """``count`` keys from each of a list."""
    made = _blocks(keys, count)
    words = np.stack([made >> np.uint64(32), made & np.uint64(0xFFFFFFFF)], axis=-1).astype(np.uint32)
    return [words[:, i] for i in range(count)]


def _uniform(keys: Array, count: int, dtype: np.dtype[Any]) -> Array:
    """Floats in [0, 1), ``count`` for each of a list of keys."""
    bits = _blocks(keys, count)
    if dtype == np.float64:
        return ((bits >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 1
    words = (bits >> np.uint64(32)).astype(np.uint32) ^ bits.astype(np.uint32)
    return ((words >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def _normal(keys: Array, dtype: np.dtype[Any]) -> Array:
    """A normally distributed float for each of a list of keys."""
    erfinv = scipy_module("special", "the reference of random_gamma").erfinv
    low = np.nextafter(dtype.type(-1), dtype.type(0))
    drawn = np.maximum(low, _uniform(keys, 1, dtype)[:, 0] * (dtype.type(1) - low) + low)
    return (dtype.type(np.sqrt(2)) * np.asarray(erfinv(drawn))).astype(dtype)


# --- gamma --------------------------------------------------------------------------------------------------------


def _gamma_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    keys, alpha = operands
    if keys.dtype is not dtypes.uint32 or alpha.dtype not in (dtypes.float32, dtypes.float64):
        raise ctx.unsupported(
            f"keys are uint32 and parameters float32 or float64, not {keys.dtype.name} and {alpha.dtype.name}",
            "convert them with .astype first",
        )
    if keys.rank != alpha.rank + 1:
        raise ctx.fail(f"{keys} is not a key for each of {alpha}")
    for axis, (own, other) in enumerate(zip(keys.shape, (*alpha.shape, 2), strict=True)):
        ctx.require(RelKind.EQ, own, other, f"there is a key of two words for each element on axis {axis}")
    return (TensorType(alpha.dtype, alpha.shape),)


def _accepted_cubes(keys: Array, d: Array, c: Array) -> Array:
    """The cubes of ``1 + x*c`` with normally distributed x that are accepted (G. Marsaglia, W. W. Tsang, "A simple
    method for generating gamma variables", ACM TOMS 26, 2000)."""
    dtype = d.dtype
    keys, found = keys.copy(), np.ones_like(d)
    left = np.flatnonzero(np.isfinite(d))  # an infinite or undefined parameter is its own result
    while left.size:
        keys[left], trial, last = _split(keys[left], 3)
        x, v, again = np.zeros_like(d[left]), np.full_like(d[left], -1), np.arange(left.size)
        while again.size:
            trial[again], sub = _split(trial[again], 2)
            x[again] = _normal(sub, dtype)
            v[again] = dtype.type(1) + x[again] * c[left[again]]
            again = again[v[again] <= 0]
        square, cube, u = x * x, v * v * v, _uniform(last, 1, dtype)[:, 0]
        found[left] = cube
        bound = square * dtype.type(0.5) + d[left] * (dtype.type(1) - cube + np.log(cube))
        refused = (u >= dtype.type(1) - dtype.type(0.0331) * (square * square)) & (np.log(u) >= bound)
        left = left[refused]
    return found


def _gamma(keys: Array, alpha: Array, log_space: bool) -> Array:
    dtype, a = alpha.dtype, alpha.reshape(-1)
    third = dtype.type(1 / 3)
    with np.errstate(all="ignore"):
        large = a >= 1
        d = np.where(large, a, a + dtype.type(1)) - third
        rest, last = _split(keys.reshape(-1, 2), 2)
        cubes = _accepted_cubes(rest, d, third / np.sqrt(d))
        u = _uniform(last, 1, dtype)[:, 0]
        # Below 1 it is a number of one more, times a power of a uniform one.
        if log_space:
            logs = np.log1p(-u)
            result = np.log(d) + np.log(cubes) + np.where(large | (logs == 0), 0, logs * (1 / a))
        else:
            result = d * cubes * np.where(large, 1, (1 - u) ** (1 / a))
    return result.astype(dtype).reshape(alpha.shape)


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    return again(b, op, [v if own else spread(b, v, size) for v, own in zip(operands, batched, strict=True)])


def _keys(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(3).integers(0, 2**32, (*shape, 2), np.uint32)


#: For each element of the second operand a number of the gamma distribution with that parameter, or its logarithm;
#: the first are their keys, uint32 of shape (…, 2).
random_gamma = OpDef(
    "random_gamma",
    OpKind.OPAQUE,
    types=_gamma_types,
    loops=Composite(),
    reference=_gamma,
    samples=lambda: [
        Sample((_keys(shape), np.full(shape, alpha, dtype)), {"log_space": log_space})
        for shape in ((), (0,), (1,), (2,), (7, 1), (64,))
        for dtype in (np.float32, np.float64)
        for alpha in (0.1, 3.0)
        for log_space in (False, True)
    ],
    vjp=gamma_vjp, jvp=gamma_jvp, batch=_batch,
    simplify=rejection_loops.gamma,
)  # fmt: skip


# --- Poisson ------------------------------------------------------------------------------------------------------


def _poisson_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    keys, rate = operands
    if keys.dtype is not dtypes.uint32 or rate.dtype is not dtypes.float32:
        raise ctx.unsupported(
            f"keys are uint32 and rates float32, not {keys.dtype.name} and {rate.dtype.name}",
            "convert them with .astype first",
        )
    if rate.rank < keys.rank - 1:
        raise ctx.fail(f"{rate} has no rates for each of {keys}")
    for axis, (own, other) in enumerate(zip(keys.shape[:-1], rate.shape, strict=False)):
        ctx.require(RelKind.EQ, own, other, f"keys and rates agree on axis {axis}")
    ctx.require(RelKind.EQ, keys.shape[-1], 2, "a key is two words")
    return (TensorType(attrs["dtype"], rate.shape),)


def _few(keys: Array, rate: Array) -> Array:
    """Poisson numbers of small rates, by products of uniform numbers (D. E. Knuth, TAOCP 2, section 3.4.1)."""
    count, logs = np.zeros(rate.shape, np.float64), np.zeros(rate.shape, np.float32)
    while (more := logs > -rate).any():
        keys, sub = _split(keys, 2)
        count += more
        logs = logs + np.log(_uniform(sub, rate.shape[1], np.dtype(np.float32)))
    return count - 1


def _many(keys: Array, rate: Array) -> Array:
    """Poisson numbers by transformed rejection (W. Hörmann, "The transformed rejection method for generating Poisson
    random variables", Insurance: Mathematics and Economics 12, 1993)."""
    gammaln, single = scipy_module("special", "the reference of random_poisson").gammaln, np.float32
    log_rate, b = np.log(rate), single(0.931) + single(2.53) * np.sqrt(rate)
    a = single(-0.059) + single(0.02483) * b
    inverse = single(1.1239) + single(1.1328) / (b - single(3.4))
    most = single(0.9277) - single(3.6224) / (b - single(2))
    count, accepted = np.full(rate.shape, -1, np.float32), np.isinf(rate)  # of an infinite rate nothing is accepted
    # As in JAX, the elements of a key are drawn together until all have been accepted, and the last that was counts.
    while (waiting := ~accepted.all(axis=1, keepdims=True)).any():
        keys, first, second = _split(keys, 3)
        u = _uniform(first, rate.shape[1], np.dtype(single)) - single(0.5)
        v = _uniform(second, rate.shape[1], np.dtype(single))
        inner = single(0.5) - np.abs(u)
        k = np.floor((2 * a / inner + b) * u + rate + single(0.43))
        score = np.log(v * inverse / (a / (inner * inner) + b))
        likelihood = -rate + k * log_rate - np.asarray(gammaln(k + single(1))).astype(single)
        refused = (k < 0) | ((inner < single(0.013)) & (v > inner))
        taken = ((inner >= single(0.07)) & (v <= most)) | (~refused & (score <= likelihood))
        count = np.where(taken & waiting & np.isfinite(rate), k, count)
        accepted = accepted | taken
    return count


def _poisson(keys: Array, lam: Array, dtype: DType) -> Array:
    several = keys.reshape(-1, 2)
    rate = lam.reshape(len(several), lam.size // max(len(several), 1))
    with np.errstate(all="ignore"):
        small = np.isnan(rate) | (rate < 10)
        count = _few(several, np.where(small, rate, np.float32(0)))
        if not small.all():
            count = np.where(small, count, _many(several, np.where(small, np.float32(1e5), rate)))
    info = np.iinfo(dtype.np)
    wide = np.where(rate == 0, 0, count)
    whole = np.where(wide >= float(info.max), info.max, np.where(wide < info.max, wide, 0).astype(dtype.np))
    return whole.astype(dtype.np).reshape(lam.shape)


#: Integers of the Poisson distribution with the rates that are the second operand, of shape (…, *shape), float32; the
#: first are keys, uint32 of shape (…, 2). Of what is no rate, or is infinite, -1.
random_poisson = OpDef(
    "random_poisson",
    OpKind.OPAQUE,
    types=_poisson_types,
    loops=Composite(),
    reference=_poisson,
    samples=lambda: [
        Sample((_keys(leading), np.full((*leading, *shape), rate, np.float32)), {"dtype": dtype})
        for leading, shape in (((), ()), ((), (0,)), ((), (1,)), ((), (7,)), ((2,), (3, 5)), ((0,), (3,)), ((), (64,)))
        for rate in (0.0, 2.5, 40.0)
        for dtype in (dtypes.int32, dtypes.int64)
    ],
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=_batch,
    simplify=rejection_loops.poisson,
)  # fmt: skip
