"""Arguments that do not lie row by row, aligned, in this machine's byte order: compiled code reads copies of them."""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import address, call
from dyn.runtime.entry.layout import COPY_BYTES, EntryFrame, EntryPlan, NodeRecord, PlanNode, Tag
from dyn.runtime.entry.results import size_in_bytes


def define_copies(module: Module) -> None:
    """``i1 copy_tagged(frame, rt)``: copies of the inputs with a tag; false where there is no memory, or no code yet
    that copies: it is compiled once the slow path has made such a call.

    Large ones are made without the GIL, and with the runtime's threads.
    """
    _define_settle(module)
    _define_free_copies(module)
    f = module.function("copy_tagged", "i1", [("ptr", "frame"), ("ptr", "rt")], exported=False)
    plan = f.load("ptr", "%frame", EntryFrame.PLAN)
    leaves, sizes = f.load("i64", plan, EntryPlan.LEAVES), f.load("ptr", plan, EntryPlan.ITEM_SIZES)
    inputs, blocks = f.load("ptr", "%frame", EntryFrame.INPUTS), f.load("ptr", "%frame", EntryFrame.BLOCKS)
    work = f.var("i64", "0")
    with f.count(leaves) as leaf:
        f.store("ptr", "null", f.at(blocks, leaf, "ptr"))
    f.ret_if(f.is_null(address(f, "dyn_copy_dense")), "i1", "false")
    with f.count(leaves) as leaf:
        tensor, tag = _tagged(f, inputs, leaf)
        with f.if_(f.icmp("ne", tag, "0", "i32")):
            bytes = _bytes(f, tensor, f.load("i64", f.at(sizes, leaf, "i64")))
            block = call(f, "ptr", "dyn_block_alloc", [("i64", bytes)])
            f.ret_if(f.is_null(block), "i1", "false")
            f.store("ptr", block, f.at(blocks, leaf, "ptr"))
            work.set(f.add(work.get(), bytes))
    thread = f.var("ptr", "null")
    with f.if_(f.icmp("sge", work.get(), str(COPY_BYTES))):
        f.call("void", "@settle", [("ptr", "%frame")])
        thread.set(call(f, "ptr", "PyEval_SaveThread", []))
    records = f.load("ptr", plan, EntryPlan.RECORDS)
    with f.count(leaves) as leaf:
        tensor, tag = _tagged(f, inputs, leaf)
        with f.if_(f.icmp("ne", tag, "0", "i32")):
            block = f.load("ptr", f.at(blocks, leaf, "ptr"))
            unit = f.load("i64", f.load("ptr", f.at(records, leaf, "ptr")), NodeRecord.UNIT)
            swapped = f.icmp("ne", f.and_(tag, str(Tag.SWAPPED), "i32"), "0", "i32")
            rank = f.cast("sext", f.load("i32", tensor, TensorOffsets.RANK), "i32", "i64")
            arguments = [
                ("ptr", "%rt"), ("ptr", block), ("ptr", f.load("ptr", tensor, TensorOffsets.DATA)), ("i64", rank),
                ("ptr", f.load("ptr", tensor, TensorOffsets.DIMS)),
                ("ptr", f.load("ptr", tensor, TensorOffsets.STRIDES)),
                ("i64", f.load("i64", f.at(sizes, leaf, "i64"))), ("i64", f.select(swapped, unit, "0")),
            ]  # fmt: skip
            call(f, "void", "dyn_copy_dense", arguments)
            f.store("ptr", block, tensor, TensorOffsets.DATA)
            f.store("i32", "0", tensor, TensorOffsets.TAG)
            f.store("ptr", "null", tensor, TensorOffsets.STRIDES)
    with f.if_(f.icmp("ne", thread.get(), "null", "ptr")):
        call(f, "void", "PyEval_RestoreThread", [("ptr", thread.get())])
    f.ret("i1", "true")


def _tagged(f: FunctionBuilder, inputs: str, leaf: str) -> tuple[str, str]:
    tensor = f.at(inputs, f.mul(leaf, str(TensorOffsets.BYTES)))
    return tensor, f.and_(f.load("i32", tensor, TensorOffsets.TAG), str(Tag.COPIED), "i32")


def _bytes(f: FunctionBuilder, tensor: str, item_size: str) -> str:
    rank = f.cast("sext", f.load("i32", tensor, TensorOffsets.RANK), "i32", "i64")
    return size_in_bytes(f, f.load("ptr", tensor, TensorOffsets.DIMS), rank, item_size)


def _define_settle(module: Module) -> None:
    """``void settle(frame)``: hold the leaves, and copy the sizes of NumPy's arrays into the frame.

    Without the GIL another thread may give an array another shape.
    """
    f = module.function("settle", "void", [("ptr", "frame")], exported=False)
    f.call("void", "@hold_leaves", [("ptr", "%frame")])
    plan, inputs = f.load("ptr", "%frame", EntryFrame.PLAN), f.load("ptr", "%frame", EntryFrame.INPUTS)
    records = f.load("ptr", plan, EntryPlan.RECORDS)
    with f.count(f.load("i64", plan, EntryPlan.LEAVES)) as leaf:
        record = f.load("ptr", f.at(records, leaf, "ptr"))
        with f.if_(f.icmp("eq", f.load("i64", record, NodeRecord.KIND), str(int(PlanNode.ARRAY)))):
            tensor, _ = _tagged(f, inputs, leaf)
            rank, room = f.load("i64", record, NodeRecord.COUNT), f.load("i64", record, NodeRecord.ROOM)
            dims = f.at(f.load("ptr", "%frame", EntryFrame.ROOM), room, "i64")
            strides = f.at(dims, rank, "i64")
            for field, own in ((TensorOffsets.DIMS, dims), (TensorOffsets.STRIDES, strides)):
                given = f.load("ptr", tensor, field)
                with f.if_(f.icmp("ne", given, "null", "ptr")):
                    with f.count(rank) as axis:
                        f.store("i64", f.load("i64", f.at(given, axis, "i64")), f.at(own, axis, "i64"))
                    f.store("ptr", own, tensor, field)
    f.ret()


def _define_free_copies(module: Module) -> None:
    """``void free_copies(frame)``"""
    f = module.function("free_copies", "void", [("ptr", "frame")], exported=False)
    blocks = f.load("ptr", "%frame", EntryFrame.BLOCKS)
    with f.count(f.load("i64", f.load("ptr", "%frame", EntryFrame.PLAN), EntryPlan.LEAVES)) as leaf:
        call(f, "void", "dyn_block_free", [("ptr", f.load("ptr", f.at(blocks, leaf, "ptr")))])
    f.ret()
