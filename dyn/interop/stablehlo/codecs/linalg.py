"""Codecs of Fourier transforms, of factors of matrices, and of normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.interop.stablehlo.codecs.elementwise import decode_as
from dyn.interop.stablehlo.hlo import Codec, HloEnum, HloFloat, HloInt, HloOp, HloType, HloValue, is_static
from dyn.interop.stablehlo.lapack import config

# --- fft --------------------------------------------------------------------------------------------------------------


#: The custom call of transforms whose lengths are symbols: they are its second operand, as integers.
FFT = "dyn.fft"


def _encode_fft(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    kind, lengths, type = op.attrs["fft_type"], op.attrs["fft_length"], HloType.of(op.result.type)
    if 0 in lengths:  # a sum of nothing, which StableHLO does not have
        return [e.full(0, type)]
    if is_static(lengths):
        attrs = {"fft_type": HloEnum("fft_type", kind), "fft_length": tuple(lengths)}
        return [e.op("stablehlo.fft", *operands, type=type, **attrs)]
    if e.for_xla:
        symbolic = ", ".join(map(str, lengths))
        raise NotYetError(
            f"a Fourier transform of a symbolic length ({symbolic}) has no form that XLA can refine.",
            loc=op.loc, remedy="make the sizes of the axes that it is along numbers with shapes=.",
        )  # fmt: skip
    given = [*operands, e.dims(lengths)]
    config = {"fft_type": kind}
    return e.ops(
        "stablehlo.custom_call", given, [type], call_target_name=FFT, api_version=HloInt(4), backend_config=config
    )


def _decode_fft(d: Any, op: HloOp) -> Sequence[Any]:
    kind, lengths = op.attrs["fft_type"].value, tuple(op.attrs["fft_length"])
    return [d.b.op("fft", d.value(op.operands[0]), fft_type=kind, fft_length=lengths)]


def _decode_fft_of_sizes(d: Any, op: HloOp) -> Sequence[Any]:
    x, lengths = op.operands
    return [d.b.op("fft", d.value(x), fft_type=config(op)["fft_type"], fft_length=d.dims(lengths))]


fft = Codec(
    f"stablehlo.fft, {FFT}",
    _encode_fft,
    {"stablehlo.fft": _decode_fft, f"custom_call.{FFT}": _decode_fft_of_sizes},
)


# --- cholesky, triangular_solve ---------------------------------------------------------------------------------------


def _encode_cholesky(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Write a Cholesky factor, with zeros in the other triangle: StableHLO leaves open what is there."""
    (a,), lower, rank = operands, op.attrs["lower"], len(op.result.shape)
    made = e.op("stablehlo.cholesky", a, lower=lower)
    places = HloType(dtypes.int64, made.shape)
    row, column = e.iota(places, rank - 2), e.iota(places, rank - 1)
    truth = HloType(dtypes.bool_, made.shape)
    kept = e.op("stablehlo.compare", row, column, type=truth, **e.direction("GE" if lower else "LE", "SIGNED"))
    return [e.op("stablehlo.select", kept, made, e.full(0, made.type), type=made.type)]


def _decode_cholesky(d: Any, op: HloOp) -> Sequence[Any]:
    return [d.b.op("cholesky", d.value(op.operands[0]), lower=op.attrs.get("lower", False))]


cholesky = Codec("stablehlo.cholesky", _encode_cholesky, {"stablehlo.cholesky": _decode_cholesky})


def _encode_solve(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    attrs = {**op.attrs, "transpose_a": HloEnum("transpose", op.attrs["transpose_a"])}
    return [e.op("stablehlo.triangular_solve", *operands, type=HloType.of(op.result.type), **attrs)]


def _decode_solve(d: Any, op: HloOp) -> Sequence[Any]:
    """Numbers of 16 bits are solved in 32, and rounded once."""
    attrs = {name: op.attrs[name] for name in ("left_side", "lower", "unit_diagonal")}
    given, dtype = [d.value(v) for v in op.operands], op.results[0].dtype
    if half := dtype.is_narrow:
        given = [d.b.op("convert", v, dtype=dtypes.float32) for v in given]
    made = d.b.op("triangular_solve", *given, transpose_a=op.attrs["transpose_a"].value, **attrs)
    return [d.b.op("convert", made, dtype=dtype) if half else made]


triangular_solve = Codec("stablehlo.triangular_solve", _encode_solve, {"stablehlo.triangular_solve": _decode_solve})


# --- batch_norm_* -----------------------------------------------------------------------------------------------------


def batch_norm(name: str) -> Codec:
    """The codec of the op ``name``, whose twin has the same attributes."""
    full = f"stablehlo.{name}"

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        types = [HloType.of(v.type) for v in op.results]
        epsilon = HloFloat(op.attrs["epsilon"])
        return e.ops(full, operands, types, epsilon=epsilon, feature_index=op.attrs["feature_index"])

    return Codec(full, encode, {full: decode_as(name, "epsilon", "feature_index")})
