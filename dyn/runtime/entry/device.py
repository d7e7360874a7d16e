"""Arrays in the memory of devices, as the entry reads and makes them, and calls of programs that run there.

Objects for such arrays (``dyn.runtime.device_memory``) are Python's, with slots: where these lie is found once
(``DeviceSlots``). All arrays of a call belong to one stream, on which it is made: other calls are left to Python, which
orders streams. A call runs without the GIL, as the driver may have it wait, while the device is the thread's current
one. Results are memory that the driver gave on the stream; where the call fails they go back at once.
"""

from __future__ import annotations

from dyn.lower.abi import FAIL, TABLE_WORDS, DeviceState, TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import address, call, drop, hold, is_type, type_of
from dyn.runtime.entry.arguments import describe, room_of
from dyn.runtime.entry.layout import (
    NO_STREAM,
    DeviceRecord,
    DeviceSlots,
    EntryFrame,
    EntryVersion,
    HostRecord,
    NodeRecord,
    OutputRecord,
    PyObjects,
)
from dyn.runtime.entry.results import keep_failure


def define_device(module: Module) -> None:
    """Define what the walk needs (``device_array``, ``on_stream``), and what a call does: ``device_state``,
    ``device_begin``, ``device_end``, ``device_results``."""
    _define_on_stream(module)
    _define_device_array(module)
    _define_state(module)
    _define_begin(module)
    _define_end(module)
    _define_results(module)


def has_device(f: FunctionBuilder, version: str) -> str:
    """Whether a version's program runs on a device."""
    return f.icmp("ne", f.load("ptr", version, EntryVersion.DEVICE), "null", "ptr")


def is_on_stream(f: FunctionBuilder, version: str) -> str:
    """Whether a version may run on the call's stream: its captured arrays belong to that or to none, and the driver has
    come through no fork."""
    wanted = f.load("i64", version, EntryVersion.STREAM)
    same = f.or_(
        f.icmp("eq", wanted, str(NO_STREAM)), f.icmp("eq", wanted, f.load("i64", "%frame", EntryFrame.STREAM)), "i1"
    )
    alive = f.load("i64", f.load("ptr", f.load("ptr", version, EntryVersion.DEVICE), DeviceRecord.ALIVE))
    return f.and_(same, f.icmp("ne", alive, "0"), "i1")


# ---- arguments -------------------------------------------------------------------------------------------------------


def _define_on_stream(module: Module) -> None:
    """``i1 on_stream(frame, object)``: whether an int is the number of the call's stream, which the first one says."""
    f = module.function("on_stream", "i1", [("ptr", "frame"), ("ptr", "object")], exported=False)
    number = _number(f, "%object")
    known = f.load("i64", "%frame", EntryFrame.STREAM)
    with f.if_(f.icmp("eq", known, str(NO_STREAM))):
        f.store("i64", number, "%frame", EntryFrame.STREAM)
        f.ret("i1", "true")
    f.ret("i1", f.icmp("eq", number, known))


def _number(f: FunctionBuilder, object: str) -> str:
    """The value of an int of Python's; gives up where it is none, or takes more than 64 bits."""
    f.ret_if(f.icmp("eq", is_type(f, object, "PyLong_Type"), "false", "i1"), "i1", "false")
    overflow = f.stack("i32", align=4)
    value = call(f, "i64", "PyLong_AsLongLongAndOverflow", [("ptr", object), ("ptr", overflow)])
    f.ret_if(f.icmp("ne", f.load("i32", overflow), "0", "i32"), "i1", "false")
    return value


def _slot(f: FunctionBuilder, object: str, slots: str, field: int) -> str:
    """The address of a slot in an object."""
    return f.at(object, f.load("i64", slots, field))


def _define_device_array(module: Module) -> None:
    """``i1 device_array(array, record, frame)``: a DeviceArray on the record's device, of the dtype and rank, and on
    the call's stream. It is what a call keeps: it keeps the memory."""
    params = [("ptr", "array"), ("ptr", "record"), ("ptr", "frame")]
    f = module.function("device_array", "i1", params, exported=False)
    device = f.load("ptr", f.load("ptr", "%record", NodeRecord.HOST), HostRecord.DEVICE)
    slots = f.load("ptr", device, DeviceRecord.SLOTS)
    kind = f.load("ptr", slots, DeviceSlots.ARRAY_TYPE)
    f.ret_if(f.icmp("ne", type_of(f, "%array"), kind, "ptr"), "i1", "false")
    for field, wanted in (
        (DeviceSlots.CONTEXT, f.load("ptr", device, DeviceRecord.CONTEXT)),
        (DeviceSlots.DTYPE, f.load("ptr", "%record", NodeRecord.VALUE)),
    ):
        found = f.load("ptr", _slot(f, "%array", slots, field))
        f.ret_if(f.icmp("ne", found, wanted, "ptr"), "i1", "false")
    stream = f.load("ptr", _slot(f, "%array", slots, DeviceSlots.STREAM))
    same = f.call("i1", "@on_stream", [("ptr", "%frame"), ("ptr", stream)])
    f.ret_if(f.icmp("eq", same, "false", "i1"), "i1", "false")
    shape = f.load("ptr", _slot(f, "%array", slots, DeviceSlots.SHAPE))
    rank = f.load("i64", "%record", NodeRecord.COUNT)
    f.ret_if(f.icmp("ne", f.load("i64", shape, PyObjects.SIZE), rank), "i1", "false")
    room = room_of(f, "%record")
    with f.count(rank) as axis:
        size = f.load("ptr", f.at(f.at(shape, PyObjects.ITEMS), axis, "ptr"))
        f.store("i64", _number(f, size), f.at(room, axis, "i64"))
    sized = f.call("i1", "@sized", [("ptr", "%record"), ("ptr", room), ("i64", rank)])
    f.ret_if(f.icmp("eq", sized, "false", "i1"), "i1", "false")
    data = _number(f, f.load("ptr", _slot(f, "%array", slots, DeviceSlots.ADDRESS)))
    describe(f, "%record", f.cast("inttoptr", data, "i64", "ptr"), room, f.cast("trunc", rank, "i64", "i32"))
    leaf = f.load("i64", "%record", NodeRecord.LEAF)
    f.store("ptr", "%array", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
    f.ret("i1", "true")


# ---- a call ----------------------------------------------------------------------------------------------------------


def _define_state(module: Module) -> None:
    """``void device_state(frame, version, runtime, state)``: the call's own state of the device's runtime table, which
    lies in the frame, behind the table. ``EntryVersion.FAILED`` says of a failure whether it is the driver's."""
    told = [("ptr", "rt"), ("i32", "site"), ("i32", "count"), ("ptr", "values")]
    f = module.function("device_fail", "void", told, exported=False)
    keep_failure(f, f.at(f.load("ptr", "%rt"), -(EntryFrame.BYTES + 8 * TABLE_WORDS)))
    f.ret()
    params = [("ptr", "frame"), ("ptr", "version"), ("ptr", "runtime"), ("ptr", "state")]
    f = module.function("device_state", "void", params, exported=False)
    shared = f.load("ptr", f.load("ptr", "%version", EntryVersion.DEVICE), DeviceRecord.STATE)
    for word in range(DeviceState.WORDS):
        f.store("i64", f.load("i64", shared, 8 * word), "%state", 8 * word)
    f.store("i64", f.load("i64", "%frame", EntryFrame.STREAM), "%state", DeviceState.STREAM)
    f.store("ptr", "%state", "%frame", EntryFrame.STATE)
    f.store("ptr", "%state", "%runtime")
    f.store("ptr", "@device_fail", "%runtime", 8 * FAIL)
    for field, value in ((EntryFrame.SITE, "-1"), (EntryFrame.VALUE_COUNT, "0"), (EntryFrame.VALUES, "0")):
        f.store("i64", value, "%frame", field)
    f.ret()


def _define_begin(module: Module) -> None:
    """``i1 device_begin(frame, version)``: the GIL is let go, and the device the thread's current one; false where the
    driver refuses, and nothing is changed then."""
    f = module.function("device_begin", "i1", [("ptr", "frame"), ("ptr", "version")], exported=False)
    device = f.load("ptr", "%version", EntryVersion.DEVICE)
    f.call("void", "@hold_leaves", [("ptr", "%frame")])
    f.store("ptr", call(f, "ptr", "PyEval_SaveThread", []), "%frame", EntryFrame.THREAD)
    before = f.at("%frame", EntryFrame.BEFORE)
    f.store("i64", "0", before)  # of AMD's the driver writes the lower half
    status = f.var("i32", f.call("i32", f.load("ptr", device, DeviceRecord.GET_CURRENT), [("ptr", before)]))
    own = f.load("i64", device, DeviceRecord.HANDLE)
    other = f.icmp("ne", f.load("i64", before), own)
    with f.if_(f.and_(other, f.icmp("eq", status.get(), "0", "i32"), "i1")):
        status.set(f.call("i32", f.load("ptr", device, DeviceRecord.SET_CURRENT), [("i64", own)]))
    good = f.icmp("eq", status.get(), "0", "i32")
    with f.if_(f.icmp("eq", good, "false", "i1")):
        f.call("void", "@take_back", [("ptr", "%frame")])
    f.ret("i1", good)


def _define_end(module: Module) -> None:
    """``void device_end(frame, version, outputs, status)``: what ``device_begin`` did is undone, and the results of a
    call that failed go back to the driver."""
    params = [("ptr", "frame"), ("ptr", "version"), ("ptr", "outputs"), ("i32", "status")]
    f = module.function("device_end", "void", params, exported=False)
    device = f.load("ptr", "%version", EntryVersion.DEVICE)
    with f.if_(f.icmp("ne", "%status", "0", "i32")):
        f.call("void", "@give_back", [("ptr", "%frame"), ("ptr", "%version"), ("ptr", "%outputs")])
    before, own = f.load("i64", "%frame", EntryFrame.BEFORE), f.load("i64", device, DeviceRecord.HANDLE)
    with f.if_(f.icmp("ne", before, own)):
        f.call("i32", f.load("ptr", device, DeviceRecord.SET_CURRENT), [("i64", before)])
    f.call("void", "@take_back", [("ptr", "%frame")])
    f.ret()

    f = module.function("give_back", "void", params[:3], exported=False)
    free = f.load("ptr", f.load("ptr", "%frame", EntryFrame.STATE), DeviceState.FREE)
    with f.count(f.load("i64", "%version", EntryVersion.OUTPUT_COUNT)) as number:
        tensor = f.at("%outputs", f.mul(number, str(TensorOffsets.BYTES)))
        data = f.load("ptr", tensor, TensorOffsets.DATA)
        with f.if_(f.icmp("ne", data, "null", "ptr")):
            f.call("i32", free, [("ptr", data), ("i64", f.load("i64", "%frame", EntryFrame.STREAM))])
            f.store("ptr", "null", tensor, TensorOffsets.DATA)
    f.ret()


# ---- results ---------------------------------------------------------------------------------------------------------


def _define_results(module: Module) -> None:
    """``i1 device_results(frame, version, outputs, results)``: a DeviceArray for each result, with a Block that has its
    memory; false with an exception, and what has no owner yet has gone back to the driver."""
    _define_new_device_array(module)
    params = [("ptr", "frame"), ("ptr", "version"), ("ptr", "outputs"), ("ptr", "results")]
    f = module.function("device_results", "i1", params, exported=False)
    records = f.load("ptr", "%version", EntryVersion.OUTPUTS)
    with f.count(f.load("i64", "%version", EntryVersion.OUTPUT_COUNT)) as number:
        record = f.at(records, f.mul(number, str(OutputRecord.BYTES)))
        tensor = f.at("%outputs", f.mul(number, str(TensorOffsets.BYTES)))
        arguments = [("ptr", "%frame"), ("ptr", "%version"), ("ptr", record), ("ptr", tensor)]
        made = f.call("ptr", "@new_device_array", arguments)
        with f.if_(f.is_null(made)):
            f.call("void", "@give_back", [(type, f"%{name}") for type, name in params[:3]])
            f.ret("i1", "false")
        f.store("ptr", made, f.at("%results", number, "ptr"))
    f.ret("i1", "true")


def _define_new_device_array(module: Module) -> None:
    """``ptr new_device_array(frame, version, record, tensor)``: null with an exception; the tensor's memory is its own
    unless that has been taken over."""
    _define_sizes(module)
    params = [("ptr", name) for name in ("frame", "version", "record", "tensor")]
    f = module.function("new_device_array", "ptr", params, exported=False)
    device = f.load("ptr", "%version", EntryVersion.DEVICE)
    slots = f.load("ptr", device, DeviceRecord.SLOTS)
    rank = f.cast("sext", f.load("i32", "%tensor", TensorOffsets.RANK), "i32", "i64")
    data = f.load("ptr", "%tensor", TensorOffsets.DATA)
    stream = f.cast("inttoptr", f.load("i64", "%frame", EntryFrame.STREAM), "i64", "ptr")
    parts = [
        f.call("ptr", "@sizes_of", [("ptr", f.load("ptr", "%tensor", TensorOffsets.DIMS)), ("i64", rank)]),
        call(f, "ptr", "PyLong_FromVoidPtr", [("ptr", data)]),
        call(f, "ptr", "PyLong_FromVoidPtr", [("ptr", stream)]),
        *[
            call(f, "ptr", "PyType_GenericAlloc", [("ptr", f.load("ptr", slots, kind)), ("i64", "0")])
            for kind in (DeviceSlots.ARRAY_TYPE, DeviceSlots.BLOCK_TYPE)
        ],
    ]
    whole = "true"
    for part in parts:
        whole = f.and_(whole, f.icmp("ne", part, "null", "ptr"), "i1")
    with f.if_(f.icmp("eq", whole, "false", "i1")):
        for part in parts:  # a Block without slots frees nothing
            drop(f, part)
        f.ret("ptr", "null")
    shape, place, number, array, block = parts
    context = f.load("ptr", device, DeviceRecord.CONTEXT)
    dtype = f.load("ptr", "%record", OutputRecord.DESCR)
    for shared in (place, number, context, context, dtype, address(f, "Py_False")):
        hold(f, shared)
    for object, field, value in (
        (block, DeviceSlots.BLOCK_CONTEXT, context), (block, DeviceSlots.BLOCK_ADDRESS, place),
        (block, DeviceSlots.BLOCK_STREAM, number), (array, DeviceSlots.CONTEXT, context),
        (array, DeviceSlots.ADDRESS, place), (array, DeviceSlots.STREAM, number), (array, DeviceSlots.DTYPE, dtype),
        (array, DeviceSlots.SHAPE, shape), (array, DeviceSlots.OWNER, block),
        (array, DeviceSlots.IS_SHARED, address(f, "Py_False")),
    ):  # fmt: skip
        f.store("ptr", value, _slot(f, object, slots, field))
    f.store("ptr", "null", "%tensor", TensorOffsets.DATA)
    f.ret("ptr", array)


def _define_sizes(module: Module) -> None:
    """``ptr sizes_of(dims, rank)``: a tuple of ints; null with an exception."""
    f = module.function("sizes_of", "ptr", [("ptr", "dims"), ("i64", "rank")], exported=False)
    made = call(f, "ptr", "PyTuple_New", [("i64", "%rank")])
    f.ret_if(f.is_null(made), "ptr", "null")
    with f.count("%rank") as axis:
        # No size is negative, and so an address tells it as well.
        size = f.load("ptr", f.at("%dims", axis, "i64"))
        number = call(f, "ptr", "PyLong_FromVoidPtr", [("ptr", size)])
        with f.if_(f.is_null(number)):
            drop(f, made)
            f.ret("ptr", "null")
        call(f, "i32", "PyTuple_SetItem", [("ptr", made), ("i64", axis), ("ptr", number)])  # takes it; cannot fail
    f.ret("ptr", made)
