"""Subscripts with sizes and scalar tensors in them: ``x[n - 1]``, ``x[scores.argmax()]``, ``x[:count]``.

PyTorch's own code, in C++, asks such a subscript for its number. Here it is what PyTorch makes of a number, a
``select``, before that code sees it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def subscripted(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a read or write by a subscript, in which numbers may stand that are known when a program runs."""
    tensor, subscript, *rest = args
    items: tuple[Any, ...] = subscript if isinstance(subscript, tuple) else (subscript,)
    if any(_has_number(item) for item in items):
        return func(*_selected(tensor, items), *rest)
    return func(*args)


def _is_number(item: Any) -> bool:
    """Whether it is a number that is not known to Python: a size, or an integer tensor without axes, and no batch."""
    if isinstance(item, torch.Tensor) and not is_functorch_wrapped_tensor(item):
        return item.ndim == 0 and not item.dtype.is_floating_point and item.dtype not in (torch.bool, torch.uint8)
    return isinstance(item, torch.SymInt)


def _has_number(item: Any) -> bool:
    if isinstance(item, slice):
        return any(isinstance(bound, torch.Tensor) for bound in (item.start, item.stop, item.step))
    return _is_number(item)


def _number(item: Any) -> Any:
    return item.item() if isinstance(item, torch.Tensor) else item


def _axes(item: Any) -> int:
    """How many axes of the tensor a part of a subscript is about."""
    if item is None or item is True or item is False:
        return 0
    is_mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.ndim if is_mask else 1


def _selected(tensor: Any, items: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The tensor with its numbers selected, and what is left of the subscript."""
    axis, left = 0, list[Any]()
    others = sum(_axes(item) for item in items if item is not Ellipsis)
    for item in items:
        if _is_number(item):
            tensor = tensor.select(axis, _number(item))
            others -= 1
            continue
        if item is Ellipsis:
            axis += tensor.ndim - others
            left.append(item)
            continue
        if isinstance(item, slice):
            item = slice(*[_number(bound) for bound in (item.start, item.stop, item.step)])
        axis += _axes(item)
        left.append(item)
    return tensor, tuple(left) or (Ellipsis,)
