"""Arrays of other libraries, described by these libraries' own functions.

Such a function may run Python code, or let other threads run: so all leaves are held before the first is called, sizes
are copied, and NumPy's arrays, which may have changed meanwhile, are described anew after the last.
"""

from __future__ import annotations

from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import address, call, call_method, drop, hold
from dyn.runtime.entry.arguments import describe, room_of, tag
from dyn.runtime.entry.layout import (
    ANY,
    ArrayReader,
    DLTensor,
    EntryFrame,
    EntryPlan,
    HostRecord,
    NodeRecord,
    PlanNode,
    PyBuffer,
    Tag,
)


def define_foreign(module: Module) -> None:
    """``i1 read_all(frame)`` describes all leaves, and answers whether they are as the plan has them."""
    _define_hold_leaves(module)
    _define_dense(module)
    _define_dlpack(module)
    _define_buffer(module)
    f = module.function("read_all", "i1", [("ptr", "frame")], exported=False)
    plan = f.load("ptr", "%frame", EntryFrame.PLAN)
    leaves, records = f.load("i64", plan, EntryPlan.LEAVES), f.load("ptr", plan, EntryPlan.RECORDS)
    objects = f.load("ptr", "%frame", EntryFrame.OBJECTS)
    buffers = f.load("ptr", "%frame", EntryFrame.BUFFERS)
    with f.count(f.load("i64", plan, EntryPlan.FOREIGN)) as number:
        f.store("ptr", "null", f.at(buffers, f.mul(number, str(PyBuffer.BYTES))), PyBuffer.OBJECT)
    f.call("void", "@hold_leaves", [("ptr", "%frame")])
    buffer = f.var("ptr", buffers)
    f.store("i64", "0", "%frame", EntryFrame.TAGGED)
    for node in (PlanNode.FOREIGN, PlanNode.ARRAY):
        with f.count(leaves) as leaf:
            record = f.load("ptr", f.at(records, leaf, "ptr"))
            with f.if_(f.icmp("eq", f.load("i64", record, NodeRecord.KIND), str(int(node)))):
                object = f.load("ptr", f.at(objects, leaf, "ptr"))
                arguments = [("ptr", object), ("ptr", record), ("ptr", "%frame")]
                if node is PlanNode.ARRAY:
                    good = f.call("i1", "@ndarray", arguments)
                    f.ret_if(f.icmp("eq", good, "false", "i1"), "i1", "false")
                else:
                    _read(f, record, arguments, buffer.get())
                    buffer.set(f.at(buffer.get(), PyBuffer.BYTES))
    f.ret("i1", "true")


def _read(f: FunctionBuilder, record: str, arguments: list[tuple[str, str]], buffer: str) -> None:
    reader = f.load("i64", f.load("ptr", record, NodeRecord.HOST), HostRecord.READER)
    good = f.var("i1", "false")
    branch = f.if_else(f.icmp("eq", reader, str(int(ArrayReader.DLPACK))))
    with branch.then():
        good.set(f.call("i1", "@dlpack", arguments))
    with branch.otherwise():
        (_, object), *_ = arguments
        by_array = f.icmp("eq", reader, str(int(ArrayReader.ARRAY)))
        source = f.var("ptr", object)
        with f.if_(by_array):
            source.set(call_method(f, object, "str___array__"))
        with f.if_(f.icmp("ne", source.get(), "null", "ptr")):
            good.set(f.call("i1", "@buffer", [*arguments, ("ptr", buffer), ("ptr", source.get())]))
        with f.if_(by_array):  # the buffer has it
            drop(f, source.get())
    with f.if_(f.icmp("eq", good.get(), "false", "i1")):
        call(f, "void", "PyErr_Clear", [])
        f.ret("i1", "false")


def _define_hold_leaves(module: Module) -> None:
    """``void hold_leaves(frame)``, and ``void drop_leaves(frame)`` for what was held."""
    for name, change in (("hold_leaves", hold), ("drop_leaves", drop)):
        f = module.function(name, "void", [("ptr", "frame")], exported=False)
        is_held = f.icmp("ne", f.load("i64", "%frame", EntryFrame.HELD), "0")
        done = is_held if change is hold else f.icmp("eq", is_held, "false", "i1")
        with f.if_(done):
            f.ret()
        f.store("i64", str(int(change is hold)), "%frame", EntryFrame.HELD)
        objects = f.load("ptr", "%frame", EntryFrame.OBJECTS)
        with f.count(f.load("i64", f.load("ptr", "%frame", EntryFrame.PLAN), EntryPlan.LEAVES)) as leaf:
            change(f, f.load("ptr", f.at(objects, leaf, "ptr")))
        f.ret()


def _copy_sizes(f: FunctionBuilder, record: str, dims: str) -> str:
    """Sizes in the frame. Returns where; gives up where they are not those that are wanted."""
    rank, room = f.load("i64", record, NodeRecord.COUNT), room_of(f, record)
    with f.count(rank) as axis:
        f.store("i64", f.load("i64", f.at(dims, axis, "i64")), f.at(room, axis, "i64"))
    sized = f.call("i1", "@sized", [("ptr", record), ("ptr", room), ("i64", rank)])
    f.ret_if(f.icmp("eq", sized, "false", "i1"), "i1", "false")
    return room


def _define_dense(module: Module) -> None:
    """``i1 is_dense(dims, strides, rank)``: whether elements lie row by row. Strides count elements."""
    params = [("ptr", "dims"), ("ptr", "strides"), ("i64", "rank")]
    f = module.function("is_dense", "i1", params, exported=False)
    step, dense = f.var("i64", "1"), f.var("i1", "true")
    with f.count("%rank") as number:
        axis = f.sub(f.sub("%rank", "1"), number)
        size, stride = f.load("i64", f.at("%dims", axis, "i64")), f.load("i64", f.at("%strides", axis, "i64"))
        f.ret_if(f.icmp("eq", size, "0"), "i1", "true")
        other = f.and_(f.icmp("ne", size, "1"), f.icmp("ne", stride, step.get()), "i1")
        dense.set(f.and_(dense.get(), f.icmp("eq", other, "false", "i1"), "i1"))
        step.set(f.mul(step.get(), size))
    f.ret("i1", dense.get())


def _define_dlpack(module: Module) -> None:
    """``i1 dlpack(object, record, frame)``: a PyTorch tensor, on the CPU or on the record's device; there it has to lie
    row by row, and the stream is PyTorch's current one, which it is asked for once a call.

    DLPack leaves out what else a tensor may be: one that requires a gradient, whose elements are conjugated or negated
    when they are read, or that has no elements in memory. Those are for the slow path, but for gradients where PyTorch
    computes none.
    """
    f = module.function("dlpack", "i1", [("ptr", "object"), ("ptr", "record"), ("ptr", "frame")], exported=False)
    host = f.load("ptr", "%record", NodeRecord.HOST)
    with f.if_(requires_grad(f, "%object")):
        f.ret_if(computes_gradients(f, host), "i1", "false")
    on_device = f.icmp("ne", f.load("ptr", host, HostRecord.DEVICE), "null", "ptr")
    unknown = f.icmp("eq", f.load("i64", "%frame", EntryFrame.ASKED), "0")
    with f.if_(f.and_(on_device, unknown, "i1")):
        current = call(f, "ptr", "PyObject_CallNoArgs", [("ptr", f.load("ptr", host, HostRecord.CURRENT))])
        f.ret_if(f.is_null(current), "i1", "false")
        same = f.call("i1", "@on_stream", [("ptr", "%frame"), ("ptr", current)])
        drop(f, current)
        f.ret_if(f.icmp("eq", same, "false", "i1"), "i1", "false")
        f.store("i64", "1", "%frame", EntryFrame.ASKED)
    wanted, count = f.load("i64", "%record", NodeRecord.VALUE), f.load("i64", "%record", NodeRecord.COUNT)
    tensor = read_tensor(f, "%object", host, wanted, count)
    rank = f.load("i32", tensor, DLTensor.RANK)
    dims, strides = f.load("ptr", tensor, DLTensor.DIMS), f.load("ptr", tensor, DLTensor.STRIDES)
    room = _copy_sizes(f, "%record", dims)
    base = f.load("ptr", tensor, DLTensor.DATA)
    with f.if_(f.is_null(base)):  # nothing lies there, or nothing is there
        filled = f.var("i1", "true")
        with f.count(count) as axis:
            empty = f.icmp("eq", f.load("i64", f.at(room, axis, "i64")), "0")
            filled.set(f.and_(filled.get(), f.icmp("eq", empty, "false", "i1"), "i1"))
        f.ret_if(filled.get(), "i1", "false")
    data = f.at(base, f.load("i64", tensor, DLTensor.OFFSET))
    described = describe(f, "%record", data, room, rank)
    dense = f.call("i1", "@is_dense", [("ptr", room), ("ptr", strides), ("i64", count)])
    in_rows = f.or_(on_device, f.icmp("ne", f.load("i64", "%record", NodeRecord.ROWS), "0"), "i1")
    f.ret_if(f.and_(in_rows, f.icmp("eq", dense, "false", "i1"), "i1"), "i1", "false")
    aligned = _is_aligned(f, data)
    f.ret_if(f.and_(on_device, f.icmp("eq", aligned, "false", "i1"), "i1"), "i1", "false")
    plain = f.and_(dense, aligned, "i1")
    with f.if_(f.icmp("eq", plain, "false", "i1")):
        bytes = f.binary("udiv", f.and_(f.binary("lshr", wanted, "8"), "255"), "8")
        own = f.at(room, count, "i64")
        with f.count(count) as axis:
            stride = f.mul(f.load("i64", f.at(strides, axis, "i64")), bytes)
            f.store("i64", stride, f.at(own, axis, "i64"))
        tag(f, described, str(Tag.ODD), own)
    f.ret("i1", "true")


def requires_grad(f: FunctionBuilder, object: str) -> str:
    """Whether a tensor requires a gradient; gives up where it does not say."""
    answer = call(f, "ptr", "PyObject_GetAttr", [("ptr", object), ("ptr", address(f, "str_requires_grad"))])
    return _is_true(f, answer)


def computes_gradients(f: FunctionBuilder, host: str) -> str:
    """Whether PyTorch computes gradients now; gives up where it does not say."""
    return _is_true(f, call(f, "ptr", "PyObject_CallNoArgs", [("ptr", f.load("ptr", host, HostRecord.GRADIENTS))]))


def _is_true(f: FunctionBuilder, answer: str) -> str:
    """An answer that is True or False, which are of those objects that never go away; gives up where it is neither."""
    f.ret_if(f.is_null(answer), "i1", "false")
    drop(f, answer)
    true, false = (f.icmp("eq", answer, address(f, name), "ptr") for name in ("Py_True", "Py_False"))
    f.ret_if(f.icmp("eq", true, false, "i1"), "i1", "false")
    return true


def read_tensor(f: FunctionBuilder, object: str, host: str, kind: str, rank: str) -> str:
    """A DLTensor with what a plain tensor is; gives up where it is not of the dtype, rank and place, and where its
    dispatch keys have it computed with in another way than by its memory."""
    impl = f.load("ptr", f.at(object, f.load("i64", host, HostRecord.IMPL)))
    keys = f.load("i64", f.at(impl, f.load("i64", host, HostRecord.KEYS)))
    odd = f.and_(keys, f.load("i64", host, HostRecord.ODD_KEYS))
    f.ret_if(f.icmp("ne", odd, "0"), "i1", "false")
    tensor = f.stack(f"[{DLTensor.BYTES} x i8]")
    status = f.call("i32", f.load("ptr", host, HostRecord.WHERE), [("ptr", object), ("ptr", tensor)])
    f.ret_if(f.icmp("ne", status, "0", "i32"), "i1", "false")
    good = f.icmp("eq", f.load("i64", tensor, DLTensor.DEVICE), f.load("i64", host, HostRecord.PLACE))
    good = f.and_(good, f.icmp("eq", f.cast("zext", f.load("i32", tensor, DLTensor.TYPE), "i32", "i64"), kind), "i1")
    good = f.and_(good, f.icmp("eq", f.cast("sext", f.load("i32", tensor, DLTensor.RANK), "i32", "i64"), rank), "i1")
    f.ret_if(f.icmp("eq", good, "false", "i1"), "i1", "false")
    return tensor


def _is_aligned(f: FunctionBuilder, data: str) -> str:
    """Whether an address is a multiple of a number's bytes, which are a power of two."""
    mask = f.sub(f.load("i64", "%record", NodeRecord.UNIT), "1")
    return f.icmp("eq", f.and_(f.cast("ptrtoint", data, "ptr", "i64"), mask), "0")


def _define_buffer(module: Module) -> None:
    """``i1 buffer(object, record, frame, buffer, source)``: a JAX array on the CPU, by the buffer of ``source``.

    That is the array itself, or what its ``__array__`` returns. A buffer is there when its elements are, and the array
    is not deleted under it.
    """
    params = [("ptr", "object"), ("ptr", "record"), ("ptr", "frame"), ("ptr", "buffer"), ("ptr", "source")]
    f = module.function("buffer", "i1", params, exported=False)
    aval = call(f, "ptr", "PyObject_GetAttr", [("ptr", "%object"), ("ptr", address(f, "str_aval"))])
    f.ret_if(f.is_null(aval), "i1", "false")
    dtype = call(f, "ptr", "PyObject_GetAttr", [("ptr", aval), ("ptr", address(f, "str_dtype"))])
    drop(f, dtype)
    weak = f.load("i64", "%record", NodeRecord.WEAK)
    good = f.var("i1", f.icmp("eq", dtype, f.load("ptr", "%record", NodeRecord.VALUE), "ptr"))
    with f.if_(f.icmp("ne", weak, str(ANY))):
        found = call(f, "ptr", "PyObject_GetAttr", [("ptr", aval), ("ptr", address(f, "str_weak_type"))])
        drop(f, found)
        wanted = f.select(f.icmp("eq", weak, "0"), address(f, "Py_False"), address(f, "Py_True"), "ptr")
        good.set(f.and_(good.get(), f.icmp("eq", found, wanted, "ptr"), "i1"))
    drop(f, aval)
    f.ret_if(f.icmp("eq", good.get(), "false", "i1"), "i1", "false")
    arguments = [("ptr", "%source"), ("ptr", "%buffer"), ("i32", str(PyBuffer.SIMPLE_DIMS))]
    with f.if_(f.icmp("ne", call(f, "i32", "PyObject_GetBuffer", arguments), "0", "i32")):
        f.store("ptr", "null", "%buffer", PyBuffer.OBJECT)
        f.ret("i1", "false")
    rank = f.load("i32", "%buffer", PyBuffer.RANK)
    count = f.load("i64", "%record", NodeRecord.COUNT)
    data = f.load("ptr", "%buffer", PyBuffer.DATA)
    good = f.icmp("eq", f.cast("sext", rank, "i32", "i64"), count)
    good = f.and_(good, _is_aligned(f, data), "i1")
    f.ret_if(f.icmp("eq", good, "false", "i1"), "i1", "false")
    room = _copy_sizes(f, "%record", f.load("ptr", "%buffer", PyBuffer.DIMS))
    describe(f, "%record", data, room, rank)
    f.ret("i1", "true")
