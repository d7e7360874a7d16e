"""How far another order of rounding may take the results of a program: measured, by computing it with noise.

After each operation that rounds, elements are moved by a few units in the last place at random (discrete stochastic
arithmetic: J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993). Where the results of
several such runs stand apart, compiled code may too; where they are one, as with integers, so shall it be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.backends.reference import bind_symbols
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.core import Function, Op, Value, attr_values
from dyn.ir.data_dependent import bound_dim
from dyn.ir.differentiate import leading_to
from dyn.ir.evaluate import RegionFunction
from dyn.ir.opdef import OpKind
from dyn.shapes import Symbol

Array = np.ndarray[Any, Any]
RUNS = 6
_EPS = {
    dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7, dtypes.float32: 2.0**-22, dtypes.float64: 2.0**-51,
    dtypes.complex64: 2.0**-22, dtypes.complex128: 2.0**-51,
}  # fmt: skip
#: Operations that move elements, or choose among them, and never round.
_MOVES = frozenset({
    "reshape", "transpose", "slice", "reverse", "broadcast_in_dim", "concatenate", "pad", "gather", "dynamic_slice",
    "dynamic_update_slice", "select", "copy", "constant", "iota", "dim_size", "get_dimension_size", "sort", "negate",
    "abs", "maximum", "minimum", "clamp", "real", "imag", "complex", "bitcast_convert", "sign", "floor", "ceil",
})  # fmt: skip
#: Operations that round as they go on: what they are given is moved too.
_SUMS = frozenset({"reduce", "dot_general", "cumulative", "convolution", "reduce_window", "scatter"})
#: Functions that are 0 at numbers that are not: near those their error is one of what they are given, too.
_ROOTS = frozenset({"lgamma", "digamma"})


def noisy_runs(function: Function, arrays: Sequence[Array], count: int = RUNS) -> list[list[Array]]:
    """The results of runs with noise: two where everything is moved one way, and others where nothing is regular."""
    ways = [1.0, -1.0, *[None] * (count - 2)]
    return [_run(function, arrays, np.random.default_rng(number), way) for number, way in enumerate(ways)]


def _run(function: Function, arrays: Sequence[Array], rng: np.random.Generator, way: float | None) -> list[Array]:
    values: dict[Value, Array] = dict(zip(function.params, arrays, strict=True))
    noise = _Noise(rng, way)
    noise.run(leading_to(function.ops, function.results), values, bind_symbols(function, arrays))
    return [values[v] for v in function.results]


@dataclass(frozen=True)
class _Noise:
    rng: np.random.Generator
    way: float | None

    def run(self, ops: Sequence[Op], values: dict[Value, Array], env: Mapping[Symbol, int]) -> None:
        for op in ops:
            bound = bound_dim(op)
            name, rng = op.opdef.name, self.rng
            given = [values[v] for v in op.operands]
            if name in (_SUMS | _ROOTS) and op.attrs.get("combine") not in ("maximum", "minimum", "and", "or"):
                given = [_moved(a, v.dtype, rng, None) for a, v in zip(given, op.operands, strict=True)]
            attrs = attr_values(op.attrs, env) if bound is None else dict(op.attrs)
            if op.regions:
                outer = [{v: values[v] for v in r.reads()} for r in op.regions]
                pairs = zip(op.regions, outer, strict=True)
                attrs["regions"] = tuple(_NoisyRegion(r, captured, env, noise=self) for r, captured in pairs)
            found = op.opdef.reference(*given, **attrs)
            if bound is not None:
                env = {**env, bound: int(np.asarray(found))}
            still = name in _MOVES or op.opdef.kind is OpKind.CONTROL
            for result, array in zip(op.results, found if isinstance(found, tuple) else (found,), strict=True):
                array = np.asarray(array)
                values[result] = array if still else _moved(array, result.dtype, rng, self.way)


@record(eq=False)
class _NoisyRegion(RegionFunction):
    """A region as NumPy code with noise in it."""

    noise: _Noise = field(kw_only=True)

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        if self.region.params and not any(p.shape for p in self.region.params) and any(np.ndim(a) for a in arrays):
            return RegionFunction.__call__(self, *arrays)  # many scalars at once
        self.check()
        values = {**self.captured, **dict(zip(self.region.params, map(np.asarray, arrays), strict=True))}
        self.noise.run(leading_to(self.region.ops, self.region.results), values, self.env)
        return tuple(values[v] for v in self.region.results)


def _moved(array: Array, dtype: DType, rng: np.random.Generator, way: float | None) -> Array:
    """Each element a few units in the last place away."""
    step = _EPS.get(dtype)
    if step is None or array.size == 0:
        return array
    noise = rng.uniform(-2, 2, array.shape) if way is None else np.float64(2 * way)
    wide = array.astype(np.complex128 if dtype.kind.name == "COMPLEX" else np.float64)
    if dtype.kind.name != "COMPLEX":  # a NaN that is computed has either sign
        wide = np.where(np.isnan(wide), np.copysign(np.nan, noise), wide)
    if dtype.kind.name == "COMPLEX":  # each part by what the whole could be off
        size = np.where(np.isfinite(wide), np.abs(wide), 0)
        other = rng.uniform(-2, 2, array.shape)
        parts = np.stack([np.real(wide) + size * noise * step, np.imag(wide) + size * other * step], axis=-1)
        return parts.view(np.complex128)[..., 0].astype(dtype.np)
    return (wide * (1 + noise * step)).astype(dtype.np)


def disagreement(actual: Array, expected: Array, runs: Sequence[Array], dtype: DType, slack: float = 24.0) -> str:
    """Why the compiled result is not the reference's, in words; nothing where it is, up to what noise does."""
    if any(r.shape != expected.shape for r in runs):
        return ""  # a size that depends on values depends on rounding
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype}{actual.shape} is not {expected.dtype}{expected.shape}"
    if actual.size == 0:
        return ""
    if dtype.kind.name == "COMPLEX":
        halves = [(p(actual), p(expected), [p(r) for r in runs]) for p in (np.real, np.imag)]
        unsure = np.zeros(actual.shape, bool)
        for _, e, rs in halves:
            unsure |= ~np.isfinite(e.astype(np.float64)) | np.any(
                [~np.isfinite(r.astype(np.float64)) for r in rs], axis=0
            )
        size = np.abs(expected.astype(np.complex128))
        with np.errstate(all="ignore"):
            return next(filter(None, (_apart(a, e, rs, dtype, slack, size, unsure) for a, e, rs in halves)), "")
    with np.errstate(all="ignore"):
        return _apart(actual, expected, runs, dtype, slack, None, None)


def _apart(
    actual: Array, expected: Array, runs: Sequence[Array], dtype: DType, slack: float, size: Array | None,
    unsure: Array | None,
) -> str:  # fmt: skip
    if dtype not in _EPS:
        fine = (actual == expected) | np.any([r != expected for r in runs], axis=0)
    else:
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        near = [r.astype(np.float64) for r in runs]
        spread = np.max([np.abs(r - e) for r in near], axis=0)
        odd = np.any([np.isfinite(r) != np.isfinite(e) for r in near], axis=0)
        least = _least(dtype)
        allowed = slack * spread + 4 * _EPS[dtype] * (np.abs(e) if size is None else size) + least
        fine = (np.abs(a - e) <= allowed) | (a == e) | (np.isnan(a) & np.isnan(e)) | odd
        fine |= False if unsure is None else unsure
    if fine.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~fine)[0])
    others = sorted({str(r[place]) for r in runs})
    return (
        f"{int((~fine).sum())} of {fine.size} elements; at {place} {actual[place]!r} is not {expected[place]!r} "
        f"(with noise: {', '.join(others)})"
    )


def _least(dtype: DType) -> float:
    """What is as good as 0: numbers near the least normal one lose their digits."""
    return {16: 1e-6, 32: 1e-37, 64: 1e-300}.get(dtype.bits if dtype.kind.name != "COMPLEX" else dtype.bits // 2, 0.0)
