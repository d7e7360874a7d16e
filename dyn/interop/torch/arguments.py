"""Tensors that programs are given as arguments, and everything of them that a program is made for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.interop.torch.devices import KINDS
from dyn.interop.torch.layouts import TensorLayout, layout_of
from dyn.interop.torch.tensors import dyn_dtype
from dyn.source import user_loc


@record()
class TensorSignature:
    """Everything of a tensor argument that a program is made for, beside its sizes.

    ``same_as`` is the number of an argument before it that is the same tensor.
    """

    dtype: torch.dtype
    rank: int
    device: torch.device
    layout: TensorLayout
    #: Whether it requires a gradient, where gradients are recorded, and whether it is a leaf then.
    has_gradient: bool
    is_leaf: bool
    same_as: int | None


def unsupported(tensor: torch.Tensor) -> str | None:
    """The reason why a tensor is no argument of a program, such as "a nested tensor"; None where it is one."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"a tensor of the class {type(tensor).__name__}"
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.layout is not torch.strided:
        return f"a tensor of the layout {tensor.layout}"
    if tensor.device.type not in KINDS:
        return f"a tensor on {tensor.device}"
    return f"a tensor of {tensor.dtype}" if dyn_dtype(tensor.dtype) is None else None


def type_of(tensor: torch.Tensor, before: Sequence[torch.Tensor]) -> TensorSignature:
    """Properties of an argument that decide about the program, beside those that dyn.jit looks at itself."""
    kind = unsupported(tensor)
    if kind is not None:
        raise UnsupportedOpError(
            f"{kind}.", loc=user_loc(), remedy="pass a plain, dense torch.Tensor on the CPU or a GPU."
        )
    same = next((number for number, other in enumerate(before) if other is tensor), None)
    has_gradient = tensor.requires_grad and torch.is_grad_enabled()
    is_leaf = not has_gradient or tensor.is_leaf
    return TensorSignature(tensor.dtype, tensor.ndim, tensor.device, layout_of(tensor), has_gradient, is_leaf, same)


def types_of(hidden: Sequence[torch.Tensor | None]) -> tuple[TensorSignature | None, ...]:
    """The types of hidden arguments, each a tensor of its own."""
    return tuple([None if one is None else type_of(one, ()) for one in hidden])


def apart(tensors: Sequence[torch.Tensor], hidden: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """The hidden arguments of a call with these ``tensors``: what is an argument as well, or twice, is another tensor
    to the program, of the same memory."""
    known = set(map(id, tensors))
    found: list[torch.Tensor] = []
    for value in hidden:
        if value is not None:
            found.append(value.view_as(value) if id(value) in known else value)
            known.add(id(value))
    return found


def plain(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple([tensor.detach() for tensor in tensors])


def start_at_0(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether tensors start where their memory does."""
    return not any(tensor.storage_offset() for tensor in tensors)
