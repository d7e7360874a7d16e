"""Tests of sizes that are data: what front ends want of the sizes of a call, beside the guards that are compiled.

A test is a row of instructions for a stack of integers, which ends with ``SizeOp.END``. ``i1 test(code, inputs)``
answers whether every CHECK found a number other than 0. What passes 2^63, and a division by 0, is a no.
"""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.layout import TEST_DEPTH, SizeOp, TestRecord

_COMPARE = {SizeOp.EQ: "eq", SizeOp.NE: "ne", SizeOp.GE: "sge"}
_CHECKED = {SizeOp.ADD: "sadd", SizeOp.SUB: "ssub", SizeOp.MUL: "smul"}


def define_test(module: Module) -> None:
    """Define ``test``."""
    for name in _CHECKED.values():
        module.declare(f"llvm.{name}.with.overflow.i64", "{ i64, i1 }", ["i64", "i64"])
    f = module.function("test", "i1", [("ptr", "code"), ("ptr", "inputs")], exported=False)
    stack = f.stack(f"[{TEST_DEPTH} x i64]")
    now, top = f.var("ptr", "%code"), f.var("ptr", stack)
    with f.loop() as loop:
        record = now.get()
        now.set(f.at(record, TestRecord.BYTES))
        op, value = f.load("i64", record, TestRecord.OP), f.load("i64", record, TestRecord.VALUE)
        with f.if_(f.icmp("eq", op, str(int(SizeOp.END)))):
            f.ret("i1", "true")
        with f.if_(f.icmp("ule", op, str(int(SizeOp.SIZE)))):
            pushed = f.var("i64", value)
            with f.if_(f.icmp("eq", op, str(int(SizeOp.SIZE)))):
                tensor = f.at("%inputs", f.mul(value, str(TensorOffsets.BYTES)))
                axis = f.load("i64", record, TestRecord.AXIS)
                pushed.set(f.load("i64", f.at(f.load("ptr", tensor, TensorOffsets.DIMS), axis, "i64")))
            f.store("i64", pushed.get(), top.get())
            top.set(f.at(top.get(), 8))
            loop.continue_()
        top.set(f.at(top.get(), -8))
        last = f.load("i64", top.get())
        with f.if_(f.icmp("eq", op, str(int(SizeOp.CHECK)))):
            f.ret_if(f.icmp("eq", last, "0"), "i1", "false")
            loop.continue_()
        first = f.load("i64", top.get(), -8)
        f.store("i64", _combined(f, op, first, last), top.get(), -8)
    f.unreachable()


def _combined(f: FunctionBuilder, op: str, a: str, b: str) -> str:
    made = f.var("i64", "0")
    for kind, name in _CHECKED.items():
        with f.if_(f.icmp("eq", op, str(int(kind)))):
            pair = f.value(f"call {{ i64, i1 }} @llvm.{name}.with.overflow.i64(i64 {a}, i64 {b})")
            f.ret_if(f.value(f"extractvalue {{ i64, i1 }} {pair}, 1"), "i1", "false")
            made.set(f.value(f"extractvalue {{ i64, i1 }} {pair}, 0"))
    for kind, condition in _COMPARE.items():
        with f.if_(f.icmp("eq", op, str(int(kind)))):
            made.set(f.cast("zext", f.icmp(condition, a, b), "i1", "i64"))
    for kind, condition in ((SizeOp.MAX, "sgt"), (SizeOp.MIN, "slt")):
        with f.if_(f.icmp("eq", op, str(int(kind)))):
            made.set(f.select(f.icmp(condition, a, b), a, b))
    divides = f.icmp("eq", op, str(int(SizeOp.DIVIDE)))
    with f.if_(f.or_(divides, f.icmp("eq", op, str(int(SizeOp.REMAINDER))), "i1")):
        # The divisors 0 and -1 are no sizes: the one has no answer, the other one that may pass 2^63.
        f.ret_if(f.icmp("ult", f.add(b, "1"), "2"), "i1", "false")
        quotient, rest = f.binary("sdiv", a, b), f.binary("srem", a, b)
        differ = f.icmp("slt", f.binary("xor", rest, b), "0")
        down = f.and_(f.icmp("ne", rest, "0"), differ, "i1")
        floor = f.select(down, f.add(quotient, "-1"), quotient)
        made.set(f.select(divides, floor, f.select(down, f.add(rest, b), rest)))
    return made.get()
