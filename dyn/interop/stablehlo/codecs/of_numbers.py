"""Operations on complex numbers, and on single bits, that are no ops of dyn's: they are read as several.

Their formulas are XLA's: a maximum of complex numbers is that of pairs in lexicographic order, ``atan2`` and ``cbrt``
are by logarithms and powers. An ``i1`` is a bit of an integer, the lowest one first, as parts of wide numbers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.interop.stablehlo.hlo import Codec, HloOp
from dyn.lax import bitcast_convert_type
from dyn.lax import complex as complex_of
from dyn.trace.lift import lift
from dyn.trace.tracer import Tracer


def _of_arrays(d: Any, op: HloOp, function: Callable[..., Any]) -> Sequence[Any]:
    trace = d.block.trace
    return [lift(trace, function(*[Tracer(trace, d.value(v)) for v in op.operands]))]


def of_complex(codec: Codec, function: Callable[..., Any]) -> Codec:
    """The codec of an op that takes no complex numbers, which StableHLO's operation does: ``function`` of arrays."""
    ((name, real),) = codec.decode.items()

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        return _of_arrays(d, op, function) if op.operands[0].dtype.kind is Kind.COMPLEX else real(d, op)

    return Codec(codec.form, codec.encode, {name: decode})


def _is_greater(x: Any, y: Any) -> Any:
    return dnp.where(x.real == y.real, x.imag > y.imag, x.real > y.real)


def maximum(x: Any, y: Any) -> Any:
    """The greater one of complex numbers, by real parts, and by imaginary parts where these are equal."""
    return dnp.where(_is_greater(x, y), x, y)


def minimum(x: Any, y: Any) -> Any:
    """The lesser one of complex numbers."""
    return dnp.where(_is_greater(y, x), x, y)


def atan2(y: Any, x: Any) -> Any:
    """``-i*log((x + i*y) / sqrt(x**2 + y**2))``."""
    i = np.asarray(1j, x.dtype)
    return -i * dnp.log((x + i * y) / dnp.sqrt(x * x + y * y))


def cbrt(x: Any) -> Any:
    """The principal cube root: ``x ** (1/3)``, and 0 of 0."""
    return dnp.where(x == 0, x, x ** np.asarray(1 / 3, x.dtype))


# --- bits -------------------------------------------------------------------------------------------------------------


def of_bits(codec: Codec) -> Codec:
    """The codec of bitcasts, of booleans and complex numbers too."""
    ((name, rule),) = codec.decode.items()

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        (source,), to = [v.dtype for v in op.operands], op.results[0].dtype
        if source is not to and dtypes.bool_ in (source, to):
            return _of_arrays(d, op, lambda x: _of_bits(x, to) if source is dtypes.bool_ else _bits(x, source))
        if source is not to and source.kind is Kind.COMPLEX:
            return _of_arrays(d, op, lambda x: _recast(x, to))
        return rule(d, op)

    return Codec(codec.form, codec.encode, {name: decode})


def _of_bits(x: Any, to: DType) -> Any:
    """Numbers of ``to`` whose bits are the last axis of booleans."""
    unsigned = dtypes.UNSIGNED[to.bits]
    places = dnp.arange(to.bits, dtype=unsigned.np)
    made = dnp.sum(dnp.left_shift(x.astype(unsigned.np), places), axis=-1, dtype=unsigned.np)
    return made if to is unsigned else bitcast_convert_type(made, to.np)


def _bits(x: Any, source: DType) -> Any:
    """The bits of numbers along a new last axis."""
    unsigned = dtypes.UNSIGNED[source.bits]
    pattern = x if source is unsigned else bitcast_convert_type(x, unsigned.np)
    places = dnp.arange(source.bits, dtype=unsigned.np)
    return dnp.bitwise_and(dnp.right_shift(pattern[..., None], places), unsigned.np.type(1)) != 0


def _recast(x: Any, to: DType) -> Any:
    """Complex numbers of one width as those of another: each part of a wide one is a narrow one."""
    part = np.dtype(f"f{to.bits // 16}")
    pairs = bitcast_convert_type(dnp.stack([x.real, x.imag], axis=-1), part)
    return complex_of(pairs[..., 0], pairs[..., 1])
