"""Codecs of matrix products and convolutions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import NotYetError
from dyn.interop.stablehlo.hlo import Codec, HloNumbers, HloOp, HloText, HloType, HloValue, is_static

_DOT = (
    ("lhs_batch", "lhs_batching_dimensions"),
    ("rhs_batch", "rhs_batching_dimensions"),
    ("lhs_contracting", "lhs_contracting_dimensions"),
    ("rhs_contracting", "rhs_contracting_dimensions"),
)


def _encode_dot(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    numbers = HloNumbers("dot", {hlo: op.attrs[own] for own, hlo in _DOT})
    return [e.op("stablehlo.dot_general", *operands, type=HloType.of(op.result.type), dot_dimension_numbers=numbers)]


def in_result_dtype(d: Any, op: HloOp) -> list[Any]:
    """The operands of a contraction in the dtype of its result, which sums are taken in."""
    wide, values = op.results[0].dtype, [d.value(v) for v in op.operands[:2]]
    algorithm = op.attrs.get("algorithm")
    if algorithm is not None:
        _check_algorithm(d, algorithm.text, wide)
    return [v if v.dtype is wide else d.b.op("convert", v, dtype=wide) for v in values]


def _check_algorithm(d: Any, text: str, wide: DType) -> None:
    """Check that sums in the dtype of the result are as exact as an algorithm says.

    One that takes operands for less than they are, such as ``TF32_TF32_F32``, has less exact products than dyn's.
    """
    found = re.search(r"accumulation_type = (\w+)", text)
    bits = re.search(r"\d+", found[1]) if found is not None else None
    if bits is None or int(bits[0]) > max(wide.bits, 32):
        d.fail(f"has the algorithm {text}", "make the result of the dtype that sums are to be taken in.")


def _decode_dot(d: Any, op: HloOp) -> Sequence[Any]:
    numbers = op.attrs["dot_dimension_numbers"]
    if op.operands[0].dtype is dtypes.bool_:
        return _dot_of_bools(d, op, {own: numbers.axes(hlo) for own, hlo in _DOT})
    return [d.b.op("dot_general", *in_result_dtype(d, op), **{own: numbers.axes(hlo) for own, hlo in _DOT})]


def _dot_of_bools(d: Any, op: HloOp, axes: dict[str, tuple[int, ...]]) -> Sequence[Any]:
    """Whether any pair is true in both: how many are, as a number."""
    wide = op.results[0].dtype
    counted = dtypes.int32 if wide is dtypes.bool_ else wide
    made = d.b.op("dot_general", *(d.b.op("convert", d.value(v), dtype=counted) for v in op.operands), **axes)
    return [made if wide is counted else d.b.op("convert", made, dtype=wide)]


def _decode_plain_dot(d: Any, op: HloOp) -> Sequence[Any]:
    """``stablehlo.dot``: vectors and matrices."""
    lhs, rhs = in_result_dtype(d, op)
    axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (len(lhs.shape) - 1,), "rhs_contracting": (0,)}
    return [d.b.op("dot_general", lhs, rhs, **axes)]


dot_general = Codec(
    "stablehlo.dot_general",
    _encode_dot,
    {"stablehlo.dot_general": _decode_dot, "stablehlo.dot": _decode_plain_dot},
)


# --- convolution ------------------------------------------------------------------------------------------------------


def _placed(spec: tuple[int, ...], letters: str) -> str:
    names = [*letters, *map(str, range(len(spec) - 2))]
    placed = [""] * len(spec)
    for name, axis in zip(names, spec, strict=True):
        placed[axis] = name
    return f"[{', '.join(placed)}]"


def conv_text(lhs: tuple[int, ...], rhs: tuple[int, ...], out: tuple[int, ...]) -> str:
    """``[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]``"""
    return f"{_placed(lhs, 'bf')}x{_placed(rhs, 'oi')}->{_placed(out, 'bf')}"


def parse_conv(text: str) -> tuple[tuple[int, ...], ...]:
    """Dimension numbers of a convolution: places of batch, features and spatial axes in image, kernel and result."""
    groups = [[part.strip() for part in group.split(",")] for group in re.findall(r"\[([^\]]*)\]", text)]
    specs: list[tuple[int, ...]] = []
    for names, letters in zip(groups, ("bf", "oi", "bf"), strict=True):
        order = [*letters, *map(str, range(len(names) - 2))]
        specs.append(tuple(names.index(name) for name in order))
    return tuple(specs)


def _encode_conv(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    attrs, type = op.attrs, HloType.of(op.result.type)
    groups = (attrs["feature_group_count"], attrs["batch_group_count"])
    fixed = ("strides", "lhs_dilation", "rhs_dilation")
    if not is_static(groups) or not all(is_static(attrs[name]) for name in fixed):
        raise NotYetError(
            "a convolution whose groups, strides or dilations are symbolic has no StableHLO form.", loc=op.loc,
            remedy="make those sizes numbers with shapes=.",
        )  # fmt: skip
    numbers = f"#stablehlo.conv<{conv_text(attrs['lhs_spec'], attrs['rhs_spec'], attrs['out_spec'])}>"
    spatial = bool(attrs["strides"])
    rest: dict[str, Any] = {
        "dimension_numbers": HloText(numbers), "feature_group_count": groups[0], "batch_group_count": groups[1],
    }  # fmt: skip
    if spatial:
        rest |= {
            "window_strides": attrs["strides"], "lhs_dilation": attrs["lhs_dilation"],
            "rhs_dilation": attrs["rhs_dilation"], "window_reversal": attrs["reversal"],
        }  # fmt: skip
    padding = tuple(map(tuple, attrs["padding"]))
    if all(is_static(pair) for pair in padding):
        return [e.op("stablehlo.convolution", *operands, type=type, padding=padding or None, **rest)]
    return [e.op("stablehlo.dynamic_conv", *operands, e.dims(padding), type=type, **rest)]


def _convolution(d: Any, op: HloOp, padding: Any) -> Sequence[Any]:
    attrs = op.attrs
    lhs_spec, rhs_spec, out_spec = parse_conv(attrs["dimension_numbers"].fields["text"])
    rank = len(lhs_spec) - 2
    ones = (1,) * rank
    return [
        d.b.op(
            "convolution", *in_result_dtype(d, op), strides=attrs.get("window_strides", ones), padding=padding,
            lhs_dilation=attrs.get("lhs_dilation", ones), rhs_dilation=attrs.get("rhs_dilation", ones),
            reversal=attrs.get("window_reversal", (False,) * rank), lhs_spec=lhs_spec, rhs_spec=rhs_spec,
            out_spec=out_spec, feature_group_count=attrs.get("feature_group_count", 1),
            batch_group_count=attrs.get("batch_group_count", 1),
        )
    ]  # fmt: skip


def _decode_conv(d: Any, op: HloOp) -> Sequence[Any]:
    rank = len(op.results[0].shape) - 2
    return _convolution(d, op, tuple(op.attrs.get("padding", ((0, 0),) * rank)))


convolution = Codec(
    "stablehlo.convolution, dynamic_conv",
    _encode_conv,
    {
        "stablehlo.convolution": _decode_conv,
        "stablehlo.dynamic_conv": lambda d, op: _convolution(d, op, d.matrix(op.operands[2])),
    },
)
