"""``int(x)`` and ``float(x)`` of traced tensors and of symbolic numbers: numbers of the program, as ``x.item()``.

Python makes a number of its own of what they are given, so the code that calls them is traced again with others in
their place (:mod:`dyn.trace.answered_names`).
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

from dyn.trace import answered_names

#: Modules whose code is between a call of ``len`` or ``int`` and what answers it.
_BETWEEN = ("dyn.", "torch.overrides", "torch._tensor", "torch.fx.experimental.sym_node")
_ROOT = "torch"


def asking_frame() -> FrameType | None:
    """The frame of the code that calls ``len``, ``int`` or ``float``."""
    frame = sys._getframe(1)
    while frame is not None and _is_between(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _is_between(module: str) -> bool:
    return module == _ROOT or module.startswith(_BETWEEN)


def _item(tensor: torch.Tensor) -> Any:
    """The number in a traced tensor; NotImplemented of one that is none, or has many."""
    from dyn.interop.torch.tensors import is_traced

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
    """What ``torch.ones(1).item()`` is in each call, which is Python's; NotImplemented for anything else."""
    return float(number) if type(number) in (int, float, bool) else NotImplemented


answered_names.ANSWERS["int"].append(_as_int)
answered_names.ANSWERS["float"].append(_as_float)
answered_names.NUMBERS["int"].append(torch.SymInt)
answered_names.NUMBERS["float"].append(torch.SymFloat)
