"""Deferred kernels: how host programs say that they want one, in LLVM IR.

::

    void dyn_want(rt, slot)                       ``want`` of a runtime table: once a slot, have its kernel made
    void dyn_want_nothing(rt, slot)               another ``want``, of calls that have nothing made
    void dyn_variants_configure(ptr begin)        ``begin(null)`` is called in a thread of its own; null: nobody is
    i32  dyn_variants_end()                       whoever ``begin`` has started is about to end; 1 where it must go on
    void dyn_variants_idle()                      nobody is at work: after a fork, or where ``begin`` could start nobody
    i32  dyn_variants_state()                     0 where nobody is at work
    void dyn_slot_publish(slot, ptr kernel)       put a kernel into a slot

A slot (``dyn.lower.abi.KernelSlot``) is published by a release store, and read by an acquire load. A call never waits:
the first that wants a kernel marks the slot, and starts a thread unless one is at work. That thread is started by the
system, not by Python, for a call may hold the GIL or not; ``begin`` starts one of Python's, and this one ends.

``@variants.state`` is 0 where nobody is at work, 1 where somebody is, and 2 where he is and slots have been marked
since he last looked: then he looks once more before he ends.
"""

from __future__ import annotations

from dyn.lower.abi import KernelSlot
from dyn.lower.native import FunctionBuilder, Module

_IDLE, _AT_WORK, _MORE = "0", "1", "2"
_STACK_BYTES = 1 << 20
_SIG_SETMASK = "2"


def add_variants(m: Module) -> None:
    """Put these functions into a module that has the pool."""
    m.variable("variants.begin", "ptr", "null")
    m.variable("variants.state", "i32")
    _start(m)
    _want(m)
    _control(m)


def _want(m: Module) -> None:
    f = m.function("dyn_want", "void", [("ptr", "rt"), ("ptr", "slot")])
    word = f.at("%slot", KernelSlot.WANTED)
    with f.if_(f.icmp("ne", f.load_atomic("i64", word, "monotonic"), "0")):
        f.ret()
    before = f.rmw("xchg", "i64", word, "1")
    with f.if_(f.icmp("ne", before, "0")):
        f.ret()
    with f.if_(f.is_null(f.load_atomic("ptr", "@variants.begin"))):
        f.ret()
    # The mark comes before this exchange: who finds the state as it was before looks at the marks after it.
    state = f.rmw("xchg", "i32", "@variants.state", _MORE)
    with f.if_(f.icmp("eq", state, _IDLE, "i32")):
        f.call("void", "@variants.start", [])
    f.ret()

    f = m.function("dyn_want_nothing", "void", [("ptr", "rt"), ("ptr", "slot")])
    f.ret()


def _start(m: Module) -> None:
    """Start a thread that calls ``begin``; where the system has none to give, the next slot that is wanted tries."""
    f = m.function("variants.thread", "ptr", [("ptr", "argument")], exported=False)
    begin = f.load_atomic("ptr", "@variants.begin")
    with f.if_(f.is_null(begin)):  # the process has begun to end
        _set_idle(f)
        f.ret("ptr", "null")
    f.call("void", begin, [("ptr", "null")])
    f.ret("ptr", "null")

    f = m.function("variants.start", "void", [], exported=False)
    attributes, thread = f.stack("[8 x i64]"), f.stack("i64")
    every, before = f.stack("[16 x i64]"), f.stack("[16 x i64]")
    # It blocks all signals, and so do the threads that it starts: Python's handlers run in Python's own.
    f.emit(f"store [16 x i64] [{', '.join(['i64 -1'] * 16)}], ptr {every}, align 8")
    f.call("i32", "@pthread_sigmask", [("i32", _SIG_SETMASK), ("ptr", every), ("ptr", before)])
    f.call("i32", "@pthread_attr_init", [("ptr", attributes)])
    f.call("i32", "@pthread_attr_setstacksize", [("ptr", attributes), ("i64", str(_STACK_BYTES))])
    f.call("i32", "@pthread_attr_setdetachstate", [("ptr", attributes), ("i32", "1")])
    failed = f.call(
        "i32", "@pthread_create",
        [("ptr", thread), ("ptr", attributes), ("ptr", "@variants.thread"), ("ptr", "null")],
    )  # fmt: skip
    f.call("i32", "@pthread_attr_destroy", [("ptr", attributes)])
    f.call("i32", "@pthread_sigmask", [("i32", _SIG_SETMASK), ("ptr", before), ("ptr", "null")])
    with f.if_(f.icmp("ne", failed, "0", "i32")):
        _set_idle(f)
    f.ret()


def _set_idle(f: FunctionBuilder) -> None:
    f.store_atomic("i32", _IDLE, "@variants.state")


def _control(m: Module) -> None:
    f = m.function("dyn_variants_configure", "void", [("ptr", "begin")])
    f.store_atomic("ptr", "%begin", "@variants.begin")
    f.ret()

    f = m.function("dyn_variants_end", "i32", [])
    _, ended = f.cas("i32", "@variants.state", _AT_WORK, _IDLE)
    with f.if_(ended):
        f.ret("i32", "0")
    f.rmw("xchg", "i32", "@variants.state", _AT_WORK)  # as an exchange: it sees the marks before the last one
    f.ret("i32", "1")

    f = m.function("dyn_variants_idle", "void", [])
    _set_idle(f)
    f.ret()

    f = m.function("dyn_variants_state", "i32", [])
    f.ret("i32", f.load_atomic("i32", "@variants.state"))

    f = m.function("dyn_slot_publish", "void", [("ptr", "slot"), ("ptr", "kernel")])
    f.store_atomic("ptr", "%kernel", f.at("%slot", KernelSlot.KERNEL))
    f.ret()
