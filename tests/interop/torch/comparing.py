"""Comparing what a compiled function of PyTorch returns with what the function itself does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten


def outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The results, or the class of the error."""
    try:
        with torch.no_grad():
            return function(*arguments)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return type(error)


def strides(tensor: Any) -> list[int]:
    """The strides of axes that have more than one element: others may have any."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def same(wanted: Any, found: Any, tolerance: float = 1e-5, *, in_strides: bool = True) -> None:
    """Assert that trees agree: tensors in values, dtype, shape, device and strides, others in type and value."""
    leaves, tree = tree_flatten(wanted)
    given, its = tree_flatten(found)
    assert tree == its
    for a, b in zip(leaves, given, strict=True):
        if not isinstance(a, torch.Tensor):
            assert (type(a), a) == (type(b), b)
            continue
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
        if a.numel() and in_strides:
            assert strides(a) == strides(b)
        allowed = 2e-2 if a.dtype is torch.bfloat16 else tolerance
        torch.testing.assert_close(b, a, equal_nan=True, rtol=allowed, atol=allowed)
