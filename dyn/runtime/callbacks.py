"""Calls from host programs to Python that may never be answered, in LLVM IR.

::

    ptr dyn_ask_output(ptr rt, i32 index, ptr tensor)                what ``alloc_output`` of a runtime table is
    i32 dyn_ask_library(ptr rt, ptr number, ptr tensors, ptr values, i64 dispatch)  and ``library``
    i32 dyn_call(ptr rt, ptr function, ptr context, ptr in, ptr out, i64 dispatch)  and ``call``, of native code
    i32 dyn_ask_python(ptr context, ptr in, ptr out)                  a function outside of the program

``rt``'s state is the addresses of two functions, which take the same arguments and one more: where the answer goes; the
address of the third stands first in ``context``. A
signal's handler may raise in the moment in which Python enters a function, before the first line of it: then ctypes
returns whatever lies on the stack, which must be no pointer and no success. So the answer is a failure until it is
given. A tensor whose memory was asked for and not given has ``UNANSWERED`` for its data.
"""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import Module
from dyn.runtime.limits import UNANSWERED


def add_calls(m: Module) -> None:
    """Put these functions into a module."""
    f = m.function("dyn_ask_output", "ptr", [("ptr", "rt"), ("i32", "index"), ("ptr", "tensor")])
    answer = f.stack("ptr")
    f.store("ptr", "null", answer)
    f.store("i64", str(UNANSWERED), "%tensor", TensorOffsets.DATA)
    ask = f.load("ptr", f.load("ptr", "%rt"), 0)
    f.call("void", ask, [("ptr", "%rt"), ("i32", "%index"), ("ptr", "%tensor"), ("ptr", answer)])
    f.ret("ptr", f.load("ptr", answer))

    params = [("ptr", "rt"), ("ptr", "number"), ("ptr", "tensors"), ("ptr", "values"), ("i64", "dispatch")]
    f = m.function("dyn_ask_library", "i32", params)
    answer = f.stack("i64")
    f.store("i64", "1", answer)
    ask = f.load("ptr", f.load("ptr", "%rt"), 8)
    arguments = [("ptr", "%rt"), ("ptr", "%number"), ("ptr", "%tensors"), ("ptr", "%values"), ("ptr", answer)]
    f.call("void", ask, arguments)
    f.ret("i32", f.cast("trunc", f.load("i64", answer), "i64", "i32"))

    params = [("ptr", name) for name in ("rt", "function", "context", "in", "out")]
    f = m.function("dyn_call", "i32", [*params, ("i64", "dispatch")])
    f.ret("i32", f.call("i32", "%function", [("ptr", "%context"), ("ptr", "%in"), ("ptr", "%out")]))

    f = m.function("dyn_ask_python", "i32", [("ptr", "context"), ("ptr", "in"), ("ptr", "out")])
    answer = f.stack("i64")
    f.store("i64", "1", answer)
    ask = f.load("ptr", "%context")
    f.call("void", ask, [("ptr", "%context"), ("ptr", "%in"), ("ptr", "%out"), ("ptr", answer)])
    f.ret("i32", f.cast("trunc", f.load("i64", answer), "i64", "i32"))
