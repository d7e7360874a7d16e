"""Native functions that use the pool from outside, for tests: tasks that leave marks, and floating-point modes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

from dyn.backends.base import Effort, Source
from dyn.backends.x86 import X86Backend
from dyn.lower.native import Module


@dataclass(frozen=True)
class Tasks:
    """Addresses. Tasks are ``fn(ctx, begin, end, worker)`` for ``parallel_for``."""

    #: Adds 1 to the i32 at ``ctx[i]`` for each i of the range.
    mark: int
    #: Gives each i of the range the modes that it is computed with.
    modes: int

    def set_modes(self, value: int) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(_build()[2])(value)

    def get_modes(self) -> int:
        return ctypes.CFUNCTYPE(ctypes.c_int64)(_build()[3])()


@lru_cache(maxsize=1)
def _build() -> tuple[int, ...]:
    m = Module()
    m.declare("llvm.x86.sse.stmxcsr", "void", ["ptr"])
    m.declare("llvm.x86.sse.ldmxcsr", "void", ["ptr"])
    params = [("ptr", "ctx"), ("i64", "begin"), ("i64", "end"), ("i64", "worker")]
    f = m.function("mark", "void", params)
    with f.count(f.sub("%end", "%begin")) as i:
        at = f.at("%ctx", f.add("%begin", i), "i32")
        f.store("i32", f.add(f.load("i32", at), "1", "i32"), at)
    f.ret()
    f = m.function("modes", "void", params)
    with f.count(f.sub("%end", "%begin")) as i:
        f.call("void", "@llvm.x86.sse.stmxcsr", [("ptr", f.at("%ctx", f.add("%begin", i), "i32"))])
    f.ret()
    f = m.function("set_modes", "void", [("i64", "value")])
    slot = f.stack("i32", align=4)
    f.store("i32", f.cast("trunc", "%value", "i64", "i32"), slot)
    f.call("void", "@llvm.x86.sse.ldmxcsr", [("ptr", slot)])
    f.ret()
    f = m.function("get_modes", "i64", [])
    slot = f.stack("i32", align=4)
    f.call("void", "@llvm.x86.sse.stmxcsr", [("ptr", slot)])
    f.ret("i64", f.cast("zext", f.load("i32", slot), "i32", "i64"))
    backend = X86Backend()
    symbols = ("mark", "modes", "set_modes", "get_modes")
    code = backend.load(backend.compile(Source(m.text(), symbols, Effort.PROMOTE)))
    return tuple(code.address(symbol) for symbol in symbols)


def tasks() -> Tasks:
    mark, modes, *_ = _build()
    return Tasks(mark, modes)
