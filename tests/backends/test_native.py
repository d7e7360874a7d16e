"""The builder of native code: what it builds, run."""

from __future__ import annotations

import ctypes

import pytest

from dyn.backends.base import Effort, Source
from dyn.backends.x86 import X86Backend
from dyn.errors import IRError
from dyn.lower.native import Module


def build(module: Module, *symbols: str) -> list[int]:
    backend = X86Backend()
    code = backend.load(backend.compile(Source(module.text(), symbols, Effort.PROMOTE)))
    return [code.address(symbol) for symbol in symbols]


def unary(address: int) -> ctypes._CFunctionType:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def test_loops_and_variables() -> None:
    m = Module()
    f = m.function("sum_to", "i64", [("i64", "n")])
    total = f.var("i64", "0")
    with f.count("%n") as i:
        total.set(f.add(total.get(), i))
    f.ret("i64", total.get())
    (address,) = build(m, "sum_to")
    assert [unary(address)(n) for n in (-1, 0, 1, 10)] == [0, 0, 0, 45]


def test_branches_and_breaks() -> None:
    m = Module()
    f = m.function("collatz", "i64", [("i64", "n")])
    steps, now = f.var("i64", "0"), f.var("i64", "%n")
    with f.loop() as loop:
        value = now.get()
        loop.break_if(f.icmp("sle", value, "1"))
        branch = f.if_else(f.icmp("eq", f.and_(value, "1"), "0"))
        with branch.then():
            now.set(f.binary("sdiv", value, "2"))
        with branch.otherwise():
            now.set(f.add(f.mul(value, "3"), "1"))
        steps.set(f.add(steps.get(), "1"))
        with f.if_(f.icmp("sgt", steps.get(), "1000")):
            f.ret("i64", "-1")
    f.ret("i64", steps.get())
    (address,) = build(m, "collatz")
    assert [unary(address)(n) for n in (1, 2, 3, 27)] == [0, 1, 7, 111]


def test_memory_atomics_strings_and_calls() -> None:
    m = Module()
    slot = m.variable("slot", "i64")
    strlen = m.declare("strlen", "i64", ["ptr"])
    f = m.function("swap", "i64", [("i64", "n")])
    f.ret("i64", f.rmw("xchg", "i64", slot, "%n"))
    f = m.function("claim", "i64", [("i64", "n")])
    _, done = f.cas("i64", slot, "7", "%n")
    f.ret("i64", f.cast("zext", done, "i1", "i64"))
    f = m.function("length", "i64", [("i64", "n")])
    text = m.string('a "quoted" \\ line\n')
    f.ret("i64", f.call("i64", strlen, [("ptr", f.at(text, "%n"))]))
    swap, claim, length = (unary(a) for a in build(m, "swap", "claim", "length"))
    assert [swap(5), swap(7), claim(1), claim(2), swap(0)] == [0, 5, 1, 0, 1]
    assert [length(0), length(3)] == [len(b'a "quoted" \\ line\n'), 15]


def test_code_after_an_end_is_refused() -> None:
    f = Module().function("f", "void", [])
    with pytest.raises(IRError, match="runs off its end"):
        f.text()
    f.ret()
    with pytest.raises(IRError, match="after the end of a block"):
        f.ret()
