"""Arguments of calls on devices that are in this machine's memory: NumPy's arrays, and numbers.

They are laid out in one block of the device's, and go there in one copy, through pinned memory, unless they are too
many bytes for that (``dyn.runtime.staging``). This is done without the GIL, from arrays that are held.
"""

from __future__ import annotations

from dyn.lower.abi import DeviceState, TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.layout import DeviceRecord, EntryFrame, EntryVersion, StagedRecord
from dyn.runtime.entry.results import size_in_bytes
from dyn.runtime.staging import ALIGNED, MOST_BYTES, StagedPart, answer_of


def define_stage(module: Module) -> None:
    """``i32 device_stage(frame, version)``: arguments in this machine's memory are copied to the device, to one block
    for all of them, through pinned memory where they are not too many bytes; 0, or what the driver has answered, which
    the state is told then."""
    f = module.function("device_stage", "i32", [("ptr", "frame"), ("ptr", "version")], exported=False)
    count = f.load("i64", "%version", EntryVersion.STAGED_COUNT)
    with f.if_(f.icmp("eq", count, "0")):
        f.ret("i32", "0")
    state, total = f.load("ptr", "%frame", EntryFrame.STATE), f.var("i64", "0")
    parts = f.alloca(f.mul(count, str(StagedPart.BYTES)))
    with f.count(count) as number:
        tensor, part = _staged(f, parts, number)
        size = f.load("i64", _staged_record(f, number), StagedRecord.ITEM_SIZE)
        rank = f.cast("sext", f.load("i32", tensor, TensorOffsets.RANK), "i32", "i64")
        bytes = size_in_bytes(f, f.load("ptr", tensor, TensorOffsets.DIMS), rank, size)
        f.store("ptr", f.load("ptr", tensor, TensorOffsets.DATA), part, StagedPart.SOURCE)
        f.store("i64", total.get(), part, StagedPart.AT)
        f.store("i64", bytes, part, StagedPart.SIZE)
        end = f.add(total.get(), f.add(bytes, str(ALIGNED - 1)))
        total.set(f.and_(end, str(-ALIGNED)))
    block, stream = f.at("%frame", EntryFrame.STAGED), f.load("ptr", state, DeviceState.STREAM)
    bytes = f.select(f.icmp("eq", total.get(), "0"), "1", total.get())  # of nothing the driver gives no memory
    arguments = [("ptr", block), ("i64", bytes), ("ptr", stream)]
    status = f.call("i32", f.load("ptr", state, DeviceState.ALLOC), arguments)
    with f.if_(f.icmp("ne", status, "0", "i32")):
        f.store("ptr", "null", block)
        answer = f.or_(f.cast("zext", status, "i32", "i64"), str(answer_of("alloc", 0)))
        _tell(f, state, answer)
    into, once = f.load("ptr", block), f.icmp("ule", total.get(), str(MOST_BYTES))
    with f.if_(once):
        _copy(f, state, [("ptr", into), ("ptr", parts), ("i64", count), ("i64", total.get()), ("ptr", stream)])
    with f.count(count) as number:
        tensor, part = _staged(f, parts, number)
        place = f.at(into, f.load("i64", part, StagedPart.AT))
        with f.if_(f.icmp("eq", once, "false", "i1")):
            f.store("i64", "0", part, StagedPart.AT)
            bytes = f.load("i64", part, StagedPart.SIZE)
            _copy(f, state, [("ptr", place), ("ptr", part), ("i64", "1"), ("i64", bytes), ("ptr", stream)])
        f.store("ptr", place, tensor, TensorOffsets.DATA)
    f.ret("i32", "0")


def _staged_record(f: FunctionBuilder, number: str) -> str:
    records = f.load("ptr", "%version", EntryVersion.STAGED)
    return f.at(records, f.mul(number, str(StagedRecord.BYTES)))


def _staged(f: FunctionBuilder, parts: str, number: str) -> tuple[str, str]:
    """The tensor of a copied argument, and its part of the copy."""
    leaf = f.load("i64", _staged_record(f, number), StagedRecord.LEAF)
    tensor = f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(leaf, str(TensorOffsets.BYTES)))
    return tensor, f.at(parts, f.mul(number, str(StagedPart.BYTES)))


def _copy(f: FunctionBuilder, state: str, arguments: list[tuple[str, str]]) -> None:
    """Copy to the device; what the driver answers ends the function."""
    device = f.load("ptr", "%version", EntryVersion.DEVICE)
    ring = ("ptr", f.load("ptr", device, DeviceRecord.STAGING))
    answer = f.call("i64", f.load("ptr", device, DeviceRecord.COPY), [ring, *arguments])
    with f.if_(f.icmp("ne", answer, "0")):
        _tell(f, state, answer)


def _tell(f: FunctionBuilder, state: str, answer: str) -> None:
    """Tell the state that a copy of arguments has failed, in which no dispatch is, and end the function."""
    f.store("i64", answer, state, DeviceState.ERROR)
    f.store("i64", str(DeviceState.STAGING), state, DeviceState.DISPATCH)
    f.ret("i32", "1")
