"""Dynamo, kept out of what dyn traces: functions that ``torch.compile`` has made run as they are there.

PyTorch's operations of functions (``torch.cond`` and its kin) call their functions by ``torch.compile``, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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

    trace_rules.add("dyn")
    trace_rules.get_torch_obj_rule_map().update(dict.fromkeys(SEEN_THROUGH, UserFunctionVariable))


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
