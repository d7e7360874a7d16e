"""Arrays in the memory of devices, as the entry reads and makes them, and calls of programs that run there.

Objects for such arrays (``dyn.runtime.device_memory``) are Python's, with slots: where these lie is found once
(``DeviceSlots``). All arrays of a call belong to one stream, on which it is made: other calls are left to Python, which
orders streams. A call runs without the GIL, as the driver may have it wait, while the device is the thread's current
one. What is in this machine's memory is copied there first (``device_copies``), and the copies' memory goes back after
the call. Results are memory that the driver gave on the stream, or that of donated arguments; where the call fails,
what was given goes back at once.
"""

from __future__ import annotations

from dyn.lower.abi import FAIL, TABLE_WORDS, DeviceState, TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import address, call, drop, hold, is_type, type_of
from dyn.runtime.entry.arguments import describe, room_of
from dyn.runtime.entry.device_copies import define_stage
from dyn.runtime.entry.layout import (
    DEFAULT_STREAM,
    NO_STREAM,
    DeviceRecord,
    DeviceSlots,
    EntryFrame,
    EntryVersion,
    HostRecord,
    NodeRecord,
    OutputRecord,
    PyObjects,
    ReuseRecord,
    Tag,
)
from dyn.runtime.entry.results import keep_failure


def define_device(module: Module) -> None:
    """Define what the walk needs (``device_array``, ``on_stream``), and what a call does: ``is_sole``,
    ``device_state``, ``device_begin``, ``device_stage``, ``device_end``, ``device_results``."""
    _define_on_stream(module)
    _define_device_array(module)
    _define_is_sole(module)
    _define_state(module)
    _define_begin(module)
    define_stage(module)
    _define_end(module)
    _define_results(module)


def has_device(f: FunctionBuilder, version: str) -> str:
    """Whether a version's program runs on a device."""
    return f.icmp("ne", f.load("ptr", version, EntryVersion.DEVICE), "null", "ptr")


def is_on_stream(f: FunctionBuilder, version: str) -> str:
    """Whether a version may run on the call's stream: its captured arrays belong to that or to none, and the driver has
    come through no fork. A call without arrays on the device has no stream yet, and any will do."""
    wanted, now = f.load("i64", version, EntryVersion.STREAM), f.load("i64", "%frame", EntryFrame.STREAM)
    same = f.or_(f.icmp("eq", wanted, str(NO_STREAM)), f.icmp("eq", wanted, now), "i1")
    same = f.or_(same, f.icmp("eq", now, str(NO_STREAM)), "i1")
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
        size = f.load("ptr", f.at(f.at(shape, PyObjects.TUPLE_ITEMS), axis, "ptr"))
        f.store("i64", _number(f, size), f.at(room, axis, "i64"))
    sized = f.call("i1", "@sized", [("ptr", "%record"), ("ptr", room), ("i64", rank)])
    f.ret_if(f.icmp("eq", sized, "false", "i1"), "i1", "false")
    data = _number(f, f.load("ptr", _slot(f, "%array", slots, DeviceSlots.ADDRESS)))
    describe(f, "%record", f.cast("inttoptr", data, "i64", "ptr"), room, f.cast("trunc", rank, "i64", "i32"))
    leaf = f.load("i64", "%record", NodeRecord.LEAF)
    f.store("ptr", "%array", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
    f.ret("i1", "true")


def _define_is_sole(module: Module) -> None:
    """``i1 is_sole(array, references, slots)``: whether an array is a DeviceArray of just so many references whose
    memory nobody else has (``DeviceArray.is_sole``)."""
    params = [("ptr", "array"), ("i32", "references"), ("ptr", "slots")]
    f = module.function("is_sole", "i1", params, exported=False)
    kind = f.load("ptr", "%slots", DeviceSlots.ARRAY_TYPE)
    f.ret_if(f.icmp("ne", type_of(f, "%array"), kind, "ptr"), "i1", "false")
    count = f.load("i32", "%array", PyObjects.REFERENCES)
    f.ret_if(f.icmp("ne", count, "%references", "i32"), "i1", "false")
    shared = f.load("ptr", _slot(f, "%array", "%slots", DeviceSlots.IS_SHARED))
    f.ret_if(f.icmp("ne", shared, address(f, "Py_False"), "ptr"), "i1", "false")
    owner = f.load("ptr", _slot(f, "%array", "%slots", DeviceSlots.OWNER))
    kind = f.load("ptr", "%slots", DeviceSlots.BLOCK_TYPE)
    f.ret_if(f.icmp("ne", type_of(f, owner), kind, "ptr"), "i1", "false")
    f.ret("i1", f.icmp("eq", f.load("i32", owner, PyObjects.REFERENCES), "1", "i32"))


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
    f.store("ptr", "null", "%frame", EntryFrame.STAGED)
    with f.if_(f.icmp("eq", f.load("i64", "%frame", EntryFrame.STREAM), str(NO_STREAM))):
        own = f.load("i64", "%version", EntryVersion.STREAM)
        stream = f.select(f.icmp("eq", own, str(NO_STREAM)), str(DEFAULT_STREAM), own)
        f.store("i64", stream, "%frame", EntryFrame.STREAM)
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
    f.call("void", "@settle", [("ptr", "%frame")])
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
    """``void device_end(frame, version, outputs, status)``: what ``device_begin`` and ``device_stage`` did is undone,
    and the results of a call that failed go back to the driver."""
    params = [("ptr", "frame"), ("ptr", "version"), ("ptr", "outputs"), ("i32", "status")]
    f = module.function("device_end", "void", params, exported=False)
    device = f.load("ptr", "%version", EntryVersion.DEVICE)
    with f.if_(f.icmp("ne", "%status", "0", "i32")):
        f.call("void", "@give_back", [("ptr", "%frame"), ("ptr", "%version"), ("ptr", "%outputs")])
    staged = f.load("ptr", "%frame", EntryFrame.STAGED)
    with f.if_(f.icmp("ne", staged, "null", "ptr")):
        free = f.load("ptr", f.load("ptr", "%frame", EntryFrame.STATE), DeviceState.FREE)
        f.call("i32", free, [("ptr", staged), ("i64", f.load("i64", "%frame", EntryFrame.STREAM))])
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
    memory, or with that of a donated argument; false with an exception, and what has no owner yet has gone back to the
    driver."""
    _define_new_device_array(module)
    _define_donors(module)
    params = [("ptr", "frame"), ("ptr", "version"), ("ptr", "outputs"), ("ptr", "results")]
    f = module.function("device_results", "i1", params, exported=False)
    f.call("void", "@donors", [(type, f"%{name}") for type, name in params])
    records, count = (
        f.load("ptr", "%version", EntryVersion.OUTPUTS),
        f.load("i64", "%version", EntryVersion.OUTPUT_COUNT),
    )
    with f.count(count) as number:
        record = f.at(records, f.mul(number, str(OutputRecord.BYTES)))
        tensor, slot = f.at("%outputs", f.mul(number, str(TensorOffsets.BYTES))), f.at("%results", number, "ptr")
        parts = [("ptr", one) for one in ("%frame", "%version", record, tensor, f.load("ptr", slot))]
        made = f.call("ptr", "@new_device_array", parts)
        with f.if_(f.is_null(made)):
            with f.count(f.sub(count, number)) as later:
                f.store("ptr", "null", f.at(slot, later, "ptr"))
            f.call("void", "@give_back", [(type, f"%{name}") for type, name in params[:3]])
            f.ret("i1", "false")
        f.store("ptr", made, slot)
    f.ret("i1", "true")


def _define_donors(module: Module) -> None:
    """``void donors(frame, version, outputs, results)``: in the place of each result for which the program has asked
    for no memory, the DeviceArray among the arguments whose memory it was put into, borrowed."""
    params = [("ptr", "frame"), ("ptr", "version"), ("ptr", "outputs"), ("ptr", "results")]
    f = module.function("donors", "void", params, exported=False)
    reuses = f.load("ptr", "%version", EntryVersion.REUSES)
    with f.count(f.load("i64", "%version", EntryVersion.REUSE_COUNT)) as number:
        reuse = f.at(reuses, f.mul(number, str(ReuseRecord.BYTES)))
        leaf, output = f.load("i64", reuse, ReuseRecord.LEAF), f.load("i64", reuse, ReuseRecord.OUTPUT)
        input = f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(leaf, str(TensorOffsets.BYTES)))
        tensor = f.at("%outputs", f.mul(output, str(TensorOffsets.BYTES)))
        given = f.icmp("eq", f.load("i32", input, TensorOffsets.TAG), str(Tag.GIVEN), "i32")
        with f.if_(f.and_(given, f.is_null(f.load("ptr", tensor, TensorOffsets.DATA)), "i1")):
            array = f.load("ptr", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
            f.store("ptr", array, f.at("%results", output, "ptr"))
    f.ret()


def _define_new_device_array(module: Module) -> None:
    """``ptr new_device_array(frame, version, record, tensor, donor)``: null with an exception; the tensor's memory is
    its own unless that has been taken over. With a ``donor`` it has the memory of that."""
    _define_sizes(module)
    params = [("ptr", name) for name in ("frame", "version", "record", "tensor", "donor")]
    f = module.function("new_device_array", "ptr", params, exported=False)
    device = f.load("ptr", "%version", EntryVersion.DEVICE)
    slots = f.load("ptr", device, DeviceRecord.SLOTS)
    rank = f.cast("sext", f.load("i32", "%tensor", TensorOffsets.RANK), "i32", "i64")
    stream = f.cast("inttoptr", f.load("i64", "%frame", EntryFrame.STREAM), "i64", "ptr")
    shape = f.call("ptr", "@sizes_of", [("ptr", f.load("ptr", "%tensor", TensorOffsets.DIMS)), ("i64", rank)])
    number = call(f, "ptr", "PyLong_FromVoidPtr", [("ptr", stream)])
    array = _new(f, slots, DeviceSlots.ARRAY_TYPE)
    place, owner = f.var("ptr"), f.var("ptr")
    branch = f.if_else(f.is_null("%donor"))
    with branch.then():
        place.set(call(f, "ptr", "PyLong_FromVoidPtr", [("ptr", f.load("ptr", "%tensor", TensorOffsets.DATA))]))
        owner.set(_new(f, slots, DeviceSlots.BLOCK_TYPE))
    with branch.otherwise():
        for var, field in ((place, DeviceSlots.ADDRESS), (owner, DeviceSlots.OWNER)):
            var.set(f.load("ptr", _slot(f, "%donor", slots, field)))
            hold(f, var.get())
    parts = (shape, number, array, place.get(), owner.get())
    whole = "true"
    for part in parts:
        whole = f.and_(whole, f.icmp("ne", part, "null", "ptr"), "i1")
    with f.if_(f.icmp("eq", whole, "false", "i1")):
        for part in parts:  # a Block without slots frees nothing
            drop(f, part)
        f.ret("ptr", "null")
    context = f.load("ptr", device, DeviceRecord.CONTEXT)
    dtype = f.load("ptr", "%record", OutputRecord.DESCR)
    with f.if_(f.is_null("%donor")):
        for shared in (context, place.get(), number):
            hold(f, shared)
        for field, value in (
            (DeviceSlots.BLOCK_CONTEXT, context), (DeviceSlots.BLOCK_ADDRESS, place.get()),
            (DeviceSlots.BLOCK_STREAM, number),
        ):  # fmt: skip
            f.store("ptr", value, _slot(f, owner.get(), slots, field))
    for shared in (context, dtype, address(f, "Py_False")):
        hold(f, shared)
    for field, value in (
        (DeviceSlots.CONTEXT, context), (DeviceSlots.ADDRESS, place.get()), (DeviceSlots.STREAM, number),
        (DeviceSlots.DTYPE, dtype), (DeviceSlots.SHAPE, shape), (DeviceSlots.OWNER, owner.get()),
        (DeviceSlots.IS_SHARED, address(f, "Py_False")),
    ):  # fmt: skip
        f.store("ptr", value, _slot(f, array, slots, field))
    f.store("ptr", "null", "%tensor", TensorOffsets.DATA)
    f.ret("ptr", array)


def _new(f: FunctionBuilder, slots: str, kind: int) -> str:
    """A new object of one of the types for memory of devices, whose slots are empty."""
    return call(f, "ptr", "PyType_GenericAlloc", [("ptr", f.load("ptr", slots, kind)), ("i64", "0")])


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
