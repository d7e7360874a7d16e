"""Convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import nn
from dyn.interop.torch.aten.tables import converts, format_order
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp


def spread(values: Sequence[Any], rank: int) -> list[Any]:
    """One number for each axis: PyTorch takes one for all of them."""
    given = list(values)
    return given * rank if len(given) == 1 else given


def _order(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Channels last where the images or the kernel lie so."""
    return format_order(args, kwargs) or format_order(args[1:], kwargs)


@converts("convolution.default", order=_order, numbers=(3, 5))
def convolution(
    a: Tracer, weight: Tracer, bias: Tracer | None, stride: Sequence[Any], padding: Sequence[Any],
    dilation: Sequence[Any], transposed: bool, output_padding: Sequence[Any], groups: int,
) -> Tracer:  # fmt: skip
    rank = weight.ndim - 2
    batched = a.ndim == weight.ndim
    if not batched:
        a = a[None]
    stride, padding, dilation = (spread(values, rank) for values in (stride, padding, dilation))
    letters = "DHW"[3 - rank :]
    layout = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    if transposed:
        # The derivative of a convolution by its input: the input dilated by the stride, the weight turned over.
        extra = spread(output_padding, rank)
        sizes = weight.shape
        weight = dnp.flip(weight, axis=tuple(range(2, 2 + rank)))
        inner, outer = sizes[0] // groups, sizes[1]
        weight = dnp.reshape(weight, (groups, inner, outer, *sizes[2:]))
        weight = dnp.reshape(dnp.swapaxes(weight, 1, 2), (groups * outer, inner, *sizes[2:]))
        pads = [
            (d * (k - 1) - p, d * (k - 1) - p + e)
            for d, k, p, e in zip(dilation, sizes[2:], padding, extra, strict=True)
        ]
        made = nn.conv(
            a, weight, [1] * rank, pads, lhs_dilation=stride, rhs_dilation=dilation, dimension_numbers=layout,
            feature_group_count=groups,
        )  # fmt: skip
    else:
        made = nn.conv(
            a, weight, stride, [(p, p) for p in padding], rhs_dilation=dilation, dimension_numbers=layout,
            feature_group_count=groups,
        )  # fmt: skip
    if bias is not None:
        made = dnp.add(made, dnp.reshape(bias, (-1, *[1] * rank)))
    return made if batched else made[0]


@converts("_convolution.default", "_convolution.deprecated", order=_order, numbers=(3, 5))
def whole_convolution(
    a: Tracer, weight: Tracer, bias: Tracer | None, stride: Sequence[Any], padding: Sequence[Any],
    dilation: Sequence[Any], transposed: bool, output_padding: Sequence[Any], groups: int, *settings: Any,
) -> Tracer:  # fmt: skip
    """A convolution with the settings of PyTorch's libraries, which say how one is computed."""
    return convolution(a, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@converts("conv_tbc.default")
def conv_tbc(a: Tracer, weight: Tracer, bias: Tracer, pad: Any = 0) -> Tracer:
    """A convolution along the first axis, of times, with channels last: the weight has times, inputs, outputs."""
    layout = ("WNC", "WIO", "WNC")
    return dnp.add(nn.conv(a, weight, [1], [(pad, pad)], dimension_numbers=layout), bias)


@converts("conv_tbc_backward.default")
def conv_tbc_backward(cotangent: Tracer, a: Tracer, weight: Tracer, bias: Tracer, pad: Any) -> tuple[Tracer, ...]:
    return vjp(lambda a, weight, bias: conv_tbc(a, weight, bias, pad), a, weight, bias)[1](cotangent)


@converts("convolution_backward.default", numbers=(4, 6))
def convolution_backward(
    cotangent: Tracer, a: Tracer, weight: Tracer, bias_sizes: Any, stride: Sequence[Any], padding: Sequence[Any],
    dilation: Sequence[Any], transposed: bool, output_padding: Sequence[Any], groups: int, wanted: Sequence[bool],
) -> tuple[Tracer | None, ...]:  # fmt: skip
    def forward(a: Tracer, weight: Tracer) -> Tracer:
        return convolution(a, weight, None, stride, padding, dilation, transposed, output_padding, groups)

    of_both = vjp(forward, a, weight)[1](cotangent)
    channels = 1 if a.ndim == weight.ndim else 0
    of_bias = dnp.sum(cotangent, axis=tuple([axis for axis in range(cotangent.ndim) if axis != channels]))
    return tuple([one if asked else None for one, asked in zip((*of_both, of_bias), wanted, strict=True)])
