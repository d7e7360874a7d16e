"""Dtypes of operands that PyTorch asks for where its fake kernels do not: one for several, bool, or one of floats.

A converter would promote such operands, as NumPy does. Eager PyTorch is asked instead: it raises its own error at each
call, or has a kernel for them.
"""

from __future__ import annotations

from typing import Any

import torch

from dyn.errors import NotYetError
from dyn.source import user_loc

#: The positions of operands that have one dtype.
_ALIKE = {
    f"aten::{name}": positions
    for positions, names in {
        (0, 1): (
            "mm", "bmm", "mv", "dot", "vdot", "linalg_cross", "linalg_solve_triangular", "lerp.Scalar",
            "_cdist_forward", "binary_cross_entropy", "grid_sampler_2d", "grid_sampler_3d",
        ),
        (0, 1, 2): ("addmm", "addmv", "addbmm", "baddbmm", "linear", "convolution", "lerp.Tensor"),
        (0, 2): ("index_put", "_unsafe_index_put", "masked_scatter"),
        (0, 3): ("index_add", "index_copy", "scatter.src", "scatter.reduce", "scatter_add", "scatter_reduce.two"),
    }.items()
    for name in names
}  # fmt: skip
#: The position of the operand that has truth values.
_TRUTH = {
    "aten::where.self": 0, "aten::masked_fill.Scalar": 1, "aten::masked_fill.Tensor": 1, "aten::masked_scatter": 1,
}  # fmt: skip
#: Operations whose first operand has floats or complex numbers, unless they are told another dtype.
_OF_FLOATS = {
    f"aten::{name}"
    for name in (
        "mean", "mean.dim", "_softmax", "_log_softmax", "std.correction", "var.correction",
        "var_mean.correction", "std_mean.correction", "native_layer_norm", "native_group_norm",
        "gelu", "silu",
    )
}  # fmt: skip
#: The positions of a norm's operand and of its parameters, which may be float32 where the operand has halves.
_NORMS = {"aten::native_layer_norm": (0, 2, 3), "aten::native_group_norm": (0, 1, 2)}
_HALVES = (torch.float16, torch.bfloat16)
#: Old programs have bytes for truth values, which PyTorch still takes here.
_BYTES = {"aten::where.self"}


def check_dtypes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise NotYetError where PyTorch may have no kernel for the operands' dtypes."""
    name = func.name()
    positions = _ALIKE.get(name)
    if positions is not None:
        dtypes = [_dtype(args, position) for position in positions]
        given = list(dict.fromkeys(dtype for dtype in dtypes if dtype is not None))
        if len(given) > 1:
            raise NotYetError(
                f"{func} of {' and '.join(map(_name, given))}.",
                loc=user_loc(),
                remedy="convert the operands to one dtype.",
            )
    position = _TRUTH.get(name)
    if position is not None:
        dtype = _dtype(args, position)
        if dtype not in (None, torch.bool) and not (dtype is torch.uint8 and name in _BYTES):
            raise NotYetError(f"{func} by a mask of {_name(dtype)}.", loc=user_loc(), remedy="pass a mask of bool.")
    norm = _NORMS.get(name)
    if norm is not None:
        dtype, *parameters = (_dtype(args, position) for position in norm)
        given = list(dict.fromkeys(one for one in parameters if one is not None))
        if given and given != [dtype] and (dtype not in _HALVES or given != [torch.float32]):
            raise NotYetError(
                f"{func} of {_name(dtype)}, with parameters of {' and '.join(map(_name, given))}.",
                loc=user_loc(),
                remedy="convert the operands to one dtype.",
            )
    if name in _OF_FLOATS and kwargs.get("dtype") is None:
        dtype = _dtype(args, 0)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise NotYetError(f"{func} of {_name(dtype)}.", loc=user_loc(), remedy="convert the operand to floats.")


def check_written(func: Any, target: torch.Tensor, result: torch.Tensor) -> None:
    """Raise NotYetError where PyTorch does not write a result of one kind of numbers to a tensor of another."""
    if not torch.can_cast(result.dtype, target.dtype):
        raise NotYetError(
            f"{func} writes {_name(result.dtype)} to a tensor of {_name(target.dtype)}.",
            loc=user_loc(),
            remedy="convert the result, or write to a tensor of its dtype.",
        )


def _dtype(args: tuple[Any, ...], position: int) -> torch.dtype | None:
    operand = args[position] if position < len(args) else None
    return operand.dtype if isinstance(operand, torch.Tensor) else None


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
