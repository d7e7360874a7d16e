"""``int(x)`` and ``float(x)`` of traced tensors and of symbolic numbers: numbers of the program, as ``x.item()``.

Python makes a number of its own of what they are given, so the code that calls them is traced again with others in
their place (:mod:`dyn.trace.answered_names`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dyn.interop.torch.sizes import asking_frame
from dyn.interop.torch.tensors import is_traced
from dyn.trace import answered_names


def number_function(name: str) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
    """The function for ``int(x)`` or ``float(x)`` of a tensor; of a traced one, the code that asks is traced again."""

    def number(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_traced(args[0]):
            answered_names.ask(asking_frame(), name)
        return func(*args, **kwargs)

    return number


def _item(tensor: torch.Tensor) -> Any:
    """The number in a traced tensor; NotImplemented of one that is none, or has many."""
    if not is_traced(tensor) or tensor.dtype.is_complex:
        return NotImplemented
    return (tensor.long() if tensor.dtype is torch.bool else tensor).item()


def _as_int(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return value
    if isinstance(value, torch.SymFloat):
        return torch.sym_int(value)
    if not isinstance(value, torch.Tensor):
        return NotImplemented
    return _item(value.trunc().long() if value.dtype.is_floating_point else value)


def _as_float(value: Any) -> Any:
    if isinstance(value, torch.SymFloat):
        return value
    number = _item(value) if isinstance(value, torch.Tensor) else value
    return torch.sym_float(number) if isinstance(number, torch.SymInt | torch.SymFloat) else _plain(number)


def _plain(number: Any) -> Any:
    """A Python number, which ``torch.ones(1).item()`` is in each call, as a float; NotImplemented for all else."""
    return float(number) if type(number) in (int, float, bool) else NotImplemented


answered_names.ANSWERS["int"].append(_as_int)
answered_names.ANSWERS["float"].append(_as_float)
answered_names.NUMBERS["int"].append(torch.SymInt)
answered_names.NUMBERS["float"].append(torch.SymFloat)
