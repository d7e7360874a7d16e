"""The codec of random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.interop.stablehlo.hlo import Codec, HloEnum, HloOp, HloType, HloValue, is_static
from dyn.shapes import Dim


def _encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Static, or the custom call that JAX's exports have for shapes that are symbolic.

    As unsigned numbers, whatever they are in the end: for XLA these are the bits there are. A state whose size is
    symbolic is one of two numbers, and is written as that: XLA does not find out.
    """
    state, bits = (HloType.of(v.type) for v in op.results)
    own = state if state.static else HloType(state.dtype, (2,))
    types = [own, HloType(dtypes.UNSIGNED[bits.dtype.bits], bits.shape)]
    algorithm, shape = HloEnum("rng_algorithm", op.attrs["algorithm"]), op.attrs["shape"]
    given = e.cast(operands[0], own)
    if is_static(shape):
        made = e.ops("stablehlo.rng_bit_generator", [given], types, rng_algorithm=algorithm)
    else:
        made = e.ops(
            "stablehlo.custom_call", [given, e.dims(shape)], types,
            call_target_name="stablehlo.dynamic_rng_bit_generator", rng_algorithm=algorithm,
        )  # fmt: skip
    new, words = made
    return [e.cast(new, state), words if types[1] == bits else e.op("stablehlo.bitcast_convert", words, type=bits)]


def _bits(d: Any, op: HloOp, shape: tuple[Dim, ...]) -> Sequence[Any]:
    dtype, algorithm = op.results[1].dtype, op.attrs["rng_algorithm"].value
    state = d.value(op.operands[0])
    return d.b.op_all("rng_bit_generator", state, shape=shape, dtype=dtype, algorithm=algorithm)


def _decode(d: Any, op: HloOp) -> Sequence[Any]:
    shape = tuple([n for n in op.results[1].shape if n is not None])
    if len(shape) != len(op.results[1].shape):
        d.fail("makes bits of a shape that is not known", "sizes have to follow from the arguments' shapes.")
    return _bits(d, op, shape)


rng_bit_generator = Codec(
    "stablehlo.rng_bit_generator, dynamic_rng_bit_generator",
    _encode,
    {
        "stablehlo.rng_bit_generator": _decode,
        "custom_call.stablehlo.dynamic_rng_bit_generator": lambda d, op: _bits(d, op, d.dims(op.operands[1])),
    },
)
