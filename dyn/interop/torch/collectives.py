"""Collective operations of ``torch.distributed`` in programs: run by PyTorch, in their order, and waited for at once.

A functional collective (``torch.ops._c10d_functional``) gives memory that another thread still fills, and
``wait_tensor`` finds by that memory what it waits for. A program copies results into memory of its own, so a piece
waits before it gives its results, and ``wait_tensor`` of them has nothing left to do. What another call has begun, and
what is sent from one process to one other, is only known by the very tensors: eager PyTorch makes such calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._ops import OpOverload

from dyn.errors import NotYetError
from dyn.source import user_loc

_FUNCTIONAL = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor", "symm_mem")
#: Operations that begin something which a later one ends: other processes may have to begin theirs in between.
_BEGUN = ("isend", "irecv", "batch_p2p_ops")
#: The operation that waits, by its name: not every PyTorch has ``torch.distributed``.
WAIT = "_c10d_functional::wait_tensor"


def is_collective(func: Any) -> bool:
    """Whether an operation talks to other processes, and gives tensors that are still being filled."""
    return isinstance(func, OpOverload) and func.namespace in _FUNCTIONAL


def check_collective(func: Any) -> None:
    """Raise NotYetError for operations on what is known by its memory, which is the caller's."""
    if not isinstance(func, OpOverload):
        return
    name = func._schema.name
    if func.namespace == "c10d":
        raise NotYetError(
            f"{name}, a collective in place.",
            loc=user_loc(),
            remedy="call a functional one (torch.distributed._functional_collectives), or compile what is around it.",
        )
    if func.namespace == "_c10d_functional" and name.partition("::")[2] in _BEGUN:
        raise NotYetError(
            f"{name}, which goes on while the function does.", loc=user_loc(), remedy="call it outside of the function."
        )
    if name == WAIT:
        raise NotYetError(
            f"{name} of an argument, or of a tensor that is closed over: what it waits for has begun elsewhere.",
            loc=user_loc(),
            remedy="wait for it outside of the function.",
        )


def wait_for(tensors: Iterable[Any]) -> None:
    """Wait until tensors that a collective has given are filled."""
    for one in tensors:
        if isinstance(one, torch.Tensor):
            torch.ops._c10d_functional.wait_tensor(one)
