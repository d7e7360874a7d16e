"""Arguments whose axes lie in memory in another order than row by row, all in one order: they are read where they lie.

A version that is symmetric in its axes (``dyn.stitch.axis_symmetry``) runs over permuted sizes. Its results lie in that
order, too.
"""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.layout import MOST_ORDERED, EntryFrame, EntryPlan, EntryVersion, NodeRecord, OutputRecord, Tag


def define_order(module: Module) -> None:
    """``void reorder(frame, order)``: where one order of axes is that of all arguments, their sizes in that order.

    ``order``, of MOST_ORDERED words, is the frame's from then on, and no input has a tag. Else nothing is changed.
    """
    _define_find(module)
    _define_lies_in(module)
    _define_permute(module)
    f = module.function("reorder", "void", [("ptr", "frame"), ("ptr", "order")], exported=False)
    version = f.load("ptr", "%frame", EntryFrame.VERSION)
    rank, arguments = f.load("i64", version, EntryVersion.SYMMETRIC), f.load("i64", version, EntryVersion.ARGUMENTS)
    many = f.icmp("ugt", rank, str(MOST_ORDERED))
    with f.if_(f.or_(many, f.icmp("eq", rank, "0"), "i1")):
        f.ret()
    found = f.var("i1", "false")
    with f.count(arguments) as leaf:
        tensor = _tensor(f, leaf)
        odd = f.icmp("ne", f.load("i32", tensor, TensorOffsets.TAG), "0", "i32")
        with f.if_(f.and_(odd, f.icmp("eq", found.get(), "false", "i1"), "i1")):
            size = f.load("i64", f.at(_item_sizes(f), leaf, "i64"))
            is_order = f.call("i1", "@find_order", [("ptr", tensor), ("ptr", "%order"), ("i64", rank), ("i64", size)])
            with f.if_(f.icmp("eq", is_order, "false", "i1")):
                f.ret()
            found.set("true")
    with f.count(arguments) as leaf:
        same = f.call("i1", "@lies_in", [("ptr", "%frame"), ("ptr", "%order"), ("i64", rank), ("i64", leaf)])
        with f.if_(f.icmp("eq", same, "false", "i1")):
            f.ret()
    with f.count(arguments) as leaf:
        f.call("void", "@permute", [("ptr", "%frame"), ("ptr", "%order"), ("i64", rank), ("i64", leaf)])
    f.store("ptr", "%order", "%frame", EntryFrame.ORDER)
    f.store("i64", "0", "%frame", EntryFrame.TAGGED)
    f.ret()


def _tensor(f: FunctionBuilder, leaf: str) -> str:
    return f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(leaf, str(TensorOffsets.BYTES)))


def _item_sizes(f: FunctionBuilder) -> str:
    return f.load("ptr", f.load("ptr", "%frame", EntryFrame.PLAN), EntryPlan.ITEM_SIZES)


def _record(f: FunctionBuilder, leaf: str) -> str:
    return f.load("ptr", f.at(f.load("ptr", f.load("ptr", "%frame", EntryFrame.PLAN), EntryPlan.RECORDS), leaf, "ptr"))


def _size(f: FunctionBuilder, tensor: str, axis: str) -> str:
    return f.load("i64", f.at(f.load("ptr", tensor, TensorOffsets.DIMS), axis, "i64"))


def _stride(f: FunctionBuilder, tensor: str, axis: str) -> str:
    return f.load("i64", f.at(f.load("ptr", tensor, TensorOffsets.STRIDES), axis, "i64"))


def _define_find(module: Module) -> None:
    """``i1 find_order(tensor, order, rank, size)``: the order in which a strided array's axes lie without gaps.

    From the innermost on: the axis whose stride is the bytes of all inside of it; axes of one element come outermost.
    """
    params = [("ptr", "tensor"), ("ptr", "order"), ("i64", "rank"), ("i64", "size")]
    f = module.function("find_order", "i1", params, exported=False)
    step, used = f.var("i64", "%size"), f.var("i64", "0")
    with f.count("%rank") as place:
        chosen = f.var("i64", "-1")
        with f.count("%rank") as axis:
            free = f.icmp("eq", f.and_(used.get(), f.binary("shl", "1", axis)), "0")
            size = _size(f, "%tensor", axis)
            fits = f.and_(f.icmp("ne", size, "1"), f.icmp("eq", _stride(f, "%tensor", axis), step.get()), "i1")
            with f.if_(f.and_(free, fits, "i1")):
                chosen.set(axis)
        with f.if_(f.icmp("slt", chosen.get(), "0")), f.count("%rank") as axis:
            free = f.icmp("eq", f.and_(used.get(), f.binary("shl", "1", axis)), "0")
            with f.if_(f.and_(free, f.icmp("eq", _size(f, "%tensor", axis), "1"), "i1")):
                chosen.set(axis)
        f.ret_if(f.icmp("slt", chosen.get(), "0"), "i1", "false")
        f.store("i64", chosen.get(), f.at("%order", f.sub(f.sub("%rank", "1"), place), "i64"))
        used.set(f.or_(used.get(), f.binary("shl", "1", chosen.get())))
        step.set(f.mul(step.get(), _size(f, "%tensor", chosen.get())))
    f.ret("i1", "true")


def _define_lies_in(module: Module) -> None:
    """``i1 lies_in(frame, order, rank, leaf)``: whether an argument has no axes, or they lie in that order without
    gaps, and its elements are aligned and of this machine's byte order."""
    params = [("ptr", "frame"), ("ptr", "order"), ("i64", "rank"), ("i64", "leaf")]
    f = module.function("lies_in", "i1", params, exported=False)
    tensor = _tensor(f, "%leaf")
    f.ret_if(f.icmp("eq", f.load("i32", tensor, TensorOffsets.RANK), "0", "i32"), "i1", "true")
    tag = f.load("i32", tensor, TensorOffsets.TAG)
    f.ret_if(f.icmp("ne", f.and_(tag, str(~Tag.ODD), "i32"), "0", "i32"), "i1", "false")
    mask = f.sub(f.load("i64", _record(f, "%leaf"), NodeRecord.UNIT), "1")
    data = f.cast("ptrtoint", f.load("ptr", tensor, TensorOffsets.DATA), "ptr", "i64")
    f.ret_if(f.icmp("ne", f.and_(data, mask), "0"), "i1", "false")
    in_rows = f.icmp("eq", tag, "0", "i32")
    step, inner = f.var("i64", f.load("i64", f.at(_item_sizes(f), "%leaf", "i64"))), f.var("i64", "%rank")
    with f.count("%rank") as place:
        axis = f.load("i64", f.at("%order", f.sub(f.sub("%rank", "1"), place), "i64"))
        size = _size(f, tensor, axis)
        with f.if_(f.icmp("ne", size, "1")):
            branch = f.if_else(in_rows)
            with branch.then():  # its axes lie in their own order
                f.ret_if(f.icmp("sge", axis, inner.get()), "i1", "false")
                inner.set(axis)
            with branch.otherwise():
                f.ret_if(f.icmp("ne", _stride(f, tensor, axis), step.get()), "i1", "false")
            step.set(f.mul(step.get(), size))
    f.ret("i1", "true")


def _define_permute(module: Module) -> None:
    """``void permute(frame, order, rank, leaf)``: an argument's sizes in that order, in the frame's words for its
    strides, which nobody needs any more."""
    params = [("ptr", "frame"), ("ptr", "order"), ("i64", "rank"), ("i64", "leaf")]
    f = module.function("permute", "void", params, exported=False)
    tensor = _tensor(f, "%leaf")
    with f.if_(f.icmp("eq", f.load("i32", tensor, TensorOffsets.RANK), "0", "i32")):
        f.ret()
    room = f.add(f.load("i64", _record(f, "%leaf"), NodeRecord.ROOM), "%rank")
    own = f.at(f.load("ptr", "%frame", EntryFrame.ROOM), room, "i64")
    with f.count("%rank") as place:
        axis = f.load("i64", f.at("%order", place, "i64"))
        f.store("i64", _size(f, tensor, axis), f.at(own, place, "i64"))
    f.store("ptr", own, tensor, TensorOffsets.DIMS)
    f.store("ptr", "null", tensor, TensorOffsets.STRIDES)
    f.store("i32", "0", tensor, TensorOffsets.TAG)
    f.ret()


def result_layout(f: FunctionBuilder, frame: str, record: str, dims: str) -> tuple[str, str]:
    """Sizes of a result and its strides in bytes, which are null where it lies row by row."""
    own, strides = f.var("ptr", dims), f.var("ptr", "null")
    order = f.load("ptr", frame, EntryFrame.ORDER)
    rank = f.load("i64", record, OutputRecord.RANK)
    given = f.and_(f.icmp("ne", order, "null", "ptr"), f.icmp("ne", rank, "0"), "i1")
    room = f.stack(f"[{2 * MOST_ORDERED} x i64]")
    with f.if_(given):
        own.set(room)
        strides.set(f.at(room, MOST_ORDERED * 8))
        step = f.var("i64", f.load("i64", record, OutputRecord.ITEM_SIZE))
        with f.count(rank) as number:
            place = f.sub(f.sub(rank, "1"), number)
            axis, size = f.load("i64", f.at(order, place, "i64")), f.load("i64", f.at(dims, place, "i64"))
            f.store("i64", size, f.at(own.get(), axis, "i64"))
            f.store("i64", step.get(), f.at(strides.get(), axis, "i64"))
            step.set(f.mul(step.get(), f.select(f.icmp("eq", size, "0"), "1", size)))
    return own.get(), strides.get()
