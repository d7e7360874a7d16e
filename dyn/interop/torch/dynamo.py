"""Dynamo, kept out of what dyn traces: functions that ``torch.compile`` has made run as they are there.

PyTorch's operations of functions (``torch.cond`` and its kin) call their functions by ``torch.compile``, too.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, cast

import torch

_NATIVE: Any = torch._C
#: Dynamo's part of CPython.
_FRAMES: Any = _NATIVE._dynamo.eval_frame
#: Functions of dyn's that stand in PyTorch's own code, and do there what that did before where Dynamo reads them.
SEEN_THROUGH: list[Callable[..., Any]] = []


def pass_by_own() -> None:
    """Have Dynamo look into nothing of dyn's, which runs in the midst of what it looks at: derivatives do.

    It is told where it is used: importing it takes longer than importing all of this package.
    """
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import UserFunctionVariable

    _pass_by_files()
    trace_rules.get_torch_obj_rule_map().update(dict.fromkeys(SEEN_THROUGH, UserFunctionVariable))


@functools.cache
def _pass_by_files() -> None:
    from torch._dynamo import trace_rules

    trace_rules.add("dyn")


def pass_by_own_if_looked_at() -> None:
    """Do so where Dynamo is imported, in front of calls that it may look into."""
    if "torch._dynamo.trace_rules" in sys.modules:
        pass_by_own()


def passed_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of dyn's that users call, which Dynamo is to call as it is, whatever backend it is asked by."""
    attributes = vars(function)
    attributes["_torchdynamo_disable"] = True
    attributes["_torchdynamo_disable_msg"] = "dyn has compiled it"
    strategy = _FRAMES._FrameExecStrategy(_FRAMES._FrameAction.SKIP, _FRAMES._FrameAction.DEFAULT)
    _FRAMES.set_code_exec_strategy(cast(Any, function).__code__, strategy)
    return function


def leave_dynamo() -> Any:
    """Hand no frames of this thread to Dynamo until a function of ``torch.compile`` is called or ends; gives whom they
    were handed to.

    Such a function is entered again in the midst of a trace, and Dynamo looks at each frame in it for which no mode of
    PyTorch's is active: those of dyn among them.
    """
    return _FRAMES.set_eval_frame(None)


def count_frames(count: int) -> int:
    """Set how many frames the call of ``torch.compile(fullgraph=True)`` that goes on has compiled, for the whole
    process, and give the count there was: -1 outside of such calls.

    At 0, one inside takes what Dynamo leaves alone, and Dynamo takes nothing of a function after its first break.
    """
    return _FRAMES.set_fullgraph_compiled_frame_count(count)


@contextlib.contextmanager
def without_dynamo() -> Iterator[None]:
    """Hand no frames of this thread to Dynamo."""
    callback = leave_dynamo()
    try:
        yield
    finally:
        _FRAMES.set_eval_frame(callback)


#: How many graphs of one function Dynamo may make where nobody says how many: the questions that models ask, each once
#: more for every size that may be 1. PyTorch's own number is for backends that compile each of them.
_RECOMPILE_LIMIT = 64


def make_sizes_symbolic(backend: Callable[..., Any]) -> None:
    """Have ``torch.compile`` by a backend make all sizes symbolic from the first call on, where ``dynamic=`` says
    nothing: each of its own, equal ones too, and with room for what Dynamo traces anew for 0 and 1.

    Dynamo has a context for backends, ``backend_ctx_ctor``, and drops it where a backend is asked for by
    ``torch.compile``, in an object of its own that knows the backend and what ``dynamic`` is.
    """
    from torch._dynamo.repro.after_dynamo import WrapBackendDebug

    def context(asked: Any) -> Callable[[], AbstractContextManager[None]]:
        known = vars(asked)
        if known.get("compiler_fn") is not backend or known.get("dynamic") is not None:
            raise AttributeError("backend_ctx_ctor", name="backend_ctx_ctor", obj=asked)
        return functools.partial(_Settings, _changes())

    cast(Any, WrapBackendDebug).backend_ctx_ctor = property(context)


#: Sets something, and gives what sets it back.
Change = Callable[[], Callable[[], None]]


def _changes() -> tuple[Change, ...]:
    """Changes that make sizes symbolic where the process has not been told to have them constant, and leave room."""
    from torch.fx.experimental import _config

    dynamo: Any = torch._dynamo.config
    settings: dict[str, Any] = {}
    if dynamo._is_default("recompile_limit"):
        settings["recompile_limit"] = _RECOMPILE_LIMIT
    if dynamo.automatic_dynamic_shapes:
        settings["assume_static_by_default"] = False
    apart = cast(Any, _config)._make_closure_patcher(use_duck_shape=False)
    return (dynamo._make_closure_patcher(**settings), apart) if settings else (apart,)


class _Settings:
    """Settings of PyTorch's while a function of ``torch.compile`` runs, and Dynamo may look at it."""

    __slots__ = ("_changes", "_restores")

    def __init__(self, changes: tuple[Change, ...]) -> None:
        self._changes, self._restores = changes, ()

    def __enter__(self) -> None:
        self._restores = tuple([change() for change in self._changes])

    def __exit__(self, *raised: object) -> None:
        for restore in self._restores:
            restore()
