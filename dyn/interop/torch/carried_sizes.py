"""Integers as arguments of programs: sizes of tensors without elements, of which all that is asked is a guard."""

from __future__ import annotations

from typing import Any

import torch

#: Integers that are passed as sizes are less, without their sign: it leaves room for what is computed of them.
MOST_CARRIED = 1 << 31


def size_carrier(number: int) -> torch.Tensor:
    """An integer as an argument of a program: a tensor of that size, which takes no memory. Its rank says the sign."""
    return torch.empty((number, 0) if number >= 0 else (-number, 0, 0))


def carried_size(carrier: torch.Tensor) -> Any:
    """The integer that a tensor of :func:`size_carrier` is passed for."""
    return carrier.shape[0] if carrier.ndim == 2 else -carrier.shape[0]
