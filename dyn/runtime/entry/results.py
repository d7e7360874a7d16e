"""Callbacks for compiled code while it runs in a call of the entry's, and Python objects of its results."""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import address, call, drop, hold
from dyn.runtime.entry.axis_order import result_layout
from dyn.runtime.entry.layout import (
    FRESH,
    RELEASE_BYTES,
    SHARED_BLOCK,
    SHARED_BYTES,
    SHARED_COUNT,
    SMALL_BYTES,
    Build,
    BuildRecord,
    DLTensor,
    EntryFrame,
    EntryPlan,
    EntryVersion,
    HostRecord,
    OutputRecord,
    PutRecord,
    PyObjects,
)
from dyn.runtime.limits import BLOCK_NAME


def define_memory(module: Module) -> str:
    """The runtime table's functions that differ from call to call. Returns the name of capsules of blocks."""
    block_name = module.string(BLOCK_NAME)
    _define_let_go(module)
    _define_take_back(module)
    _define_alloc(module)
    _define_fail(module)
    _define_release_block(module, block_name)
    _define_new_array(module, block_name)
    _define_new_tensor(module)
    _define_alloc_output(module)
    return block_name


def _define_alloc(module: Module) -> None:
    """The arena, by the runtime's own function; its bytes count for whether the GIL is let go.

    Where all results have memory, arguments' perhaps, this is the last that is known of a call's work.
    """
    f = module.function("entry_alloc", "ptr", [("ptr", "rt"), ("i64", "bytes")], exported=False)
    frame = f.load("ptr", "%rt")
    f.store("i64", f.add(f.load("i64", frame, EntryFrame.WORK), "%bytes"), frame, EntryFrame.WORK)
    ready = f.and_(
        f.icmp("sle", f.load("i64", frame, EntryFrame.PENDING), "0"),
        f.is_null(f.load("ptr", frame, EntryFrame.THREAD)),
        "i1",
    )
    with f.if_(ready):
        f.call("void", "@let_go", [("ptr", frame)])
    f.ret("ptr", f.call("ptr", f.load("ptr", frame, EntryFrame.ALLOC), [("ptr", "%rt"), ("i64", "%bytes")]))


def _define_fail(module: Module) -> None:
    """A failed check: the slow path finds it again, and says it in words.

    It is written down where arguments' memory is given away: then there may be no finding it again.
    """
    params = [("ptr", "rt"), ("i32", "site"), ("i32", "count"), ("ptr", "values")]
    f = module.function("entry_fail", "void", params, exported=False)
    frame = f.load("ptr", "%rt")
    with f.if_(f.icmp("eq", f.load("i64", frame, EntryFrame.GIVEN), "0")):
        f.ret()
    keep_failure(f, frame)
    f.ret()


def keep_failure(f: FunctionBuilder, frame: str) -> None:
    """Write the failed check down that the runtime table's ``fail`` is told."""
    count = f.cast("sext", "%count", "i32", "i64")
    f.store("i64", f.cast("sext", "%site", "i32", "i64"), frame, EntryFrame.SITE)
    f.store("i64", count, frame, EntryFrame.VALUE_COUNT)
    kept = call(f, "ptr", "PyMem_RawMalloc", [("i64", f.mul(count, "8"))])
    f.store("ptr", kept, frame, EntryFrame.VALUES)
    with f.if_(f.icmp("ne", kept, "null", "ptr")), f.count(count) as number:
        f.store("i64", f.load("i64", f.at("%values", number, "i64")), f.at(kept, number, "i64"))


def _define_release_block(module: Module, block_name: str) -> None:
    """The destructor of the capsule that a pooled result stands on."""
    f = module.function("release_block", "void", [("ptr", "capsule")], exported=False)
    block = call(f, "ptr", "PyCapsule_GetPointer", [("ptr", "%capsule"), ("ptr", block_name)])
    call(f, "void", "dyn_block_free", [("ptr", block)])
    f.ret()


def _define_new_array(module: Module, block_name: str) -> None:
    """``ptr new_array(frame, record, dims, strides, bytes)``: a new ndarray, or null with an exception set.

    ``strides`` are null where it lies row by row. Large ones stand on a block of the runtime's pool, which a capsule
    gives back.
    """
    _define_over(module, block_name)
    params = [("ptr", "frame"), ("ptr", "record"), ("ptr", "dims"), ("ptr", "strides"), ("i64", "bytes")]
    f = module.function("new_array", "ptr", params, exported=False, inline=True)
    descr = f.load("ptr", "%record", OutputRecord.DESCR)
    rank = f.cast("trunc", f.load("i64", "%record", OutputRecord.RANK), "i64", "i32")
    many = f.icmp(
        "sge", f.load("i64", f.load("ptr", "%frame", EntryFrame.VERSION), EntryVersion.OUTPUT_COUNT), str(SHARED_COUNT)
    )
    with f.if_(f.and_(many, f.icmp("ule", "%bytes", str(SHARED_BYTES)), "i1")):
        f.ret("ptr", f.call("ptr", "@new_shared", [(type, f"%{name}") for type, name in params]))
    block = f.var("ptr", "null")
    with f.if_(f.icmp("sge", "%bytes", str(SMALL_BYTES))):
        block.set(call(f, "ptr", "dyn_block_alloc", [("i64", "%bytes")]))
    hold(f, descr)  # each constructor takes a reference over
    with f.if_(f.is_null(block.get())):  # where the pool has no memory NumPy has none either, and says so
        with f.if_(f.icmp("ne", "%strides", "null", "ptr")):
            arguments = [
                ("ptr", address(f, "PyArray_Type")), ("ptr", descr), ("i32", rank), ("ptr", "%dims"),
                ("ptr", "%strides"), ("ptr", "null"), ("i32", "0"), ("ptr", "null"),
            ]  # fmt: skip
            f.ret("ptr", call(f, "ptr", "PyArray_NewFromDescr", arguments))
        arguments = [("i32", rank), ("ptr", "%dims"), ("ptr", descr), ("i32", "0")]
        f.ret("ptr", call(f, "ptr", "PyArray_Empty", arguments))
    capsule = _block_capsule(f, block.get(), block_name)
    with f.if_(f.is_null(capsule)):
        drop(f, descr)
        f.ret("ptr", "null")
    place = [("ptr", "%dims"), ("ptr", "%strides"), ("ptr", block.get())]
    arguments = [("ptr", descr), ("i32", rank), *place, ("ptr", capsule)]
    f.ret("ptr", f.call("ptr", "@over", arguments))


def _block_capsule(f: FunctionBuilder, block: str, block_name: str) -> str:
    """A capsule that gives a block back; null, and the block is free, where there is no memory."""
    capsule = call(f, "ptr", "PyCapsule_New", [("ptr", block), ("ptr", block_name), ("ptr", "@release_block")])
    with f.if_(f.is_null(capsule)):
        call(f, "void", "dyn_block_free", [("ptr", block)])
    return capsule


def _define_over(module: Module, block_name: str) -> None:
    """``ptr over(descr, rank, dims, strides, data, base)``: an ndarray over memory of ``base``; null with an exception.

    It takes the references to ``descr`` and ``base`` over. ``ptr new_shared(frame, record, dims, strides, bytes)`` is
    one that shares a block with other results of the call.
    """
    params = [("ptr", "descr"), ("i32", "rank"), ("ptr", "dims"), ("ptr", "strides"), ("ptr", "data"), ("ptr", "base")]
    f = module.function("over", "ptr", params, exported=False)
    arguments = [
        ("ptr", address(f, "PyArray_Type")), ("ptr", "%descr"), ("i32", "%rank"), ("ptr", "%dims"),
        ("ptr", "%strides"), ("ptr", "%data"), ("i32", str(FRESH)), ("ptr", "null"),
    ]  # fmt: skip
    array = call(f, "ptr", "PyArray_NewFromDescr", arguments)
    with f.if_(f.is_null(array)):
        drop(f, "%base")
        f.ret("ptr", "null")
    status = call(f, "i32", "PyArray_SetBaseObject", [("ptr", array), ("ptr", "%base")])  # takes it even where it fails
    with f.if_(f.icmp("ne", status, "0", "i32")):
        drop(f, array)
        f.ret("ptr", "null")
    f.ret("ptr", array)

    params = [("ptr", "frame"), ("ptr", "record"), ("ptr", "dims"), ("ptr", "strides"), ("i64", "bytes")]
    f = module.function("new_shared", "ptr", params, exported=False)
    needed = f.and_(f.add("%bytes", "64"), "-64")  # nobody's elements start where another's end
    with f.if_(f.icmp("slt", f.load("i64", "%frame", EntryFrame.SHARED_LEFT), needed)):
        block = call(f, "ptr", "dyn_block_alloc", [("i64", str(SHARED_BLOCK))])
        f.ret_if(f.is_null(block), "ptr", "null")
        capsule = _block_capsule(f, block, block_name)
        f.ret_if(f.is_null(capsule), "ptr", "null")
        drop(f, f.load("ptr", "%frame", EntryFrame.SHARED_CAPSULE))
        f.store("ptr", block, "%frame", EntryFrame.SHARED)
        f.store("i64", str(SHARED_BLOCK), "%frame", EntryFrame.SHARED_LEFT)
        f.store("ptr", capsule, "%frame", EntryFrame.SHARED_CAPSULE)
    data, capsule = f.load("ptr", "%frame", EntryFrame.SHARED), f.load("ptr", "%frame", EntryFrame.SHARED_CAPSULE)
    f.store("ptr", f.at(data, needed), "%frame", EntryFrame.SHARED)
    f.store("i64", f.sub(f.load("i64", "%frame", EntryFrame.SHARED_LEFT), needed), "%frame", EntryFrame.SHARED_LEFT)
    descr = f.load("ptr", "%record", OutputRecord.DESCR)
    hold(f, descr)
    hold(f, capsule)
    rank = f.cast("trunc", f.load("i64", "%record", OutputRecord.RANK), "i64", "i32")
    arguments = [
        ("ptr", descr), ("i32", rank), ("ptr", "%dims"), ("ptr", "%strides"), ("ptr", data), ("ptr", capsule)
    ]  # fmt: skip
    f.ret("ptr", f.call("ptr", "@over", arguments))


def _define_new_tensor(module: Module) -> None:
    """``ptr new_tensor(record, dims, given, bytes, place)``: another library's array over a block, by DLPack.

    Null where there is none, perhaps with an exception set. ``given`` are strides in bytes, or null; ``place`` is told
    where its elements lie.
    """
    f = module.function("release_managed", "void", [("ptr", "managed")], exported=False)  # from any thread
    call(f, "void", "dyn_block_free", [("ptr", f.load("ptr", "%managed", DLTensor.CONTEXT))])
    call(f, "void", "PyMem_RawFree", [("ptr", "%managed")])
    f.ret()

    params = [("ptr", "record"), ("ptr", "dims"), ("ptr", "given"), ("i64", "bytes"), ("ptr", "place")]
    f = module.function("new_tensor", "ptr", params, exported=False)
    rank = f.load("i64", "%record", OutputRecord.RANK)
    block = call(f, "ptr", "dyn_block_alloc", [("i64", "%bytes")])
    f.ret_if(f.is_null(block), "ptr", "null")
    head = DLTensor.HEAD + DLTensor.BYTES
    managed = call(f, "ptr", "PyMem_RawMalloc", [("i64", f.add(f.mul(rank, "16"), str(head)))])
    with f.if_(f.is_null(managed)):
        call(f, "void", "dyn_block_free", [("ptr", block)])
        f.ret("ptr", "null")
    f.store("i64", str(DLTensor.NUMBER), managed, DLTensor.VERSION)
    f.store("ptr", block, managed, DLTensor.CONTEXT)
    f.store("ptr", "@release_managed", managed, DLTensor.DELETER)
    f.store("i64", "0", managed, DLTensor.FLAGS)
    tensor, own = f.at(managed, DLTensor.HEAD), f.at(managed, head)
    strides = f.at(own, rank, "i64")
    f.store("ptr", block, tensor, DLTensor.DATA)
    f.store("i64", str(DLTensor.CPU), tensor, DLTensor.DEVICE)
    f.store("i32", f.cast("trunc", rank, "i64", "i32"), tensor, DLTensor.RANK)
    kind = f.cast("trunc", f.load("i64", "%record", OutputRecord.TYPE), "i64", "i32")
    f.store("i32", kind, tensor, DLTensor.TYPE)
    f.store("ptr", own, tensor, DLTensor.DIMS)
    f.store("ptr", strides, tensor, DLTensor.STRIDES)
    f.store("i64", "0", tensor, DLTensor.OFFSET)
    step = f.var("i64", "1")
    with f.count(rank) as number:
        axis = f.sub(f.sub(rank, "1"), number)
        size = f.load("i64", f.at("%dims", axis, "i64"))
        f.store("i64", size, f.at(own, axis, "i64"))
        f.store("i64", step.get(), f.at(strides, axis, "i64"))
        step.set(f.mul(step.get(), f.select(f.icmp("eq", size, "0"), "1", size)))
    item_size = f.load("i64", "%record", OutputRecord.ITEM_SIZE)
    with f.if_(f.icmp("ne", "%given", "null", "ptr")), f.count(rank) as axis:
        stride = f.load("i64", f.at("%given", axis, "i64"))
        f.store("i64", f.binary("sdiv", stride, item_size), f.at(strides, axis, "i64"))
    f.store("ptr", "null", "%place")
    status = f.call("i32", f.load("ptr", "%record", OutputRecord.MAKE), [("ptr", managed), ("ptr", "%place")])
    made = f.load("ptr", "%place")
    # Where it fails it is not said whether the memory was given back: then it never is.
    f.ret_if(f.icmp("ne", status, "0", "i32"), "ptr", "null")
    f.store("ptr", block, "%place")
    f.ret("ptr", made)


def size_in_bytes(f: FunctionBuilder, dims: str, rank: str, item_size: str) -> str:
    """Bytes of an array. The host program has refused those that pass 2^63."""
    bytes = f.var("i64", item_size)
    with f.count(rank) as axis:
        bytes.set(f.mul(bytes.get(), f.load("i64", f.at(dims, axis, "i64"))))
    return bytes.get()


def _define_let_go(module: Module) -> None:
    """``void let_go(frame)``: release the GIL if the call is worth it. The last Python object has been made by then.

    Other threads may then change the containers that the arrays came in, so each array is held.
    """
    f = module.function("let_go", "void", [("ptr", "frame")], exported=False)
    plan = f.load("ptr", "%frame", EntryFrame.PLAN)
    leaves = f.load("i64", plan, EntryPlan.LEAVES)
    inputs = f.load("ptr", "%frame", EntryFrame.INPUTS)
    sizes = f.load("ptr", plan, EntryPlan.ITEM_SIZES)
    work = f.var("i64", f.load("i64", "%frame", EntryFrame.WORK))
    with f.count(leaves) as leaf:
        tensor = f.at(inputs, f.mul(leaf, str(TensorOffsets.BYTES)))
        rank = f.cast("sext", f.load("i32", tensor, TensorOffsets.RANK), "i32", "i64")
        size = size_in_bytes(
            f, f.load("ptr", tensor, TensorOffsets.DIMS), rank, f.load("i64", f.at(sizes, leaf, "i64"))
        )
        work.set(f.add(work.get(), size))
    with f.if_(f.icmp("slt", work.get(), str(RELEASE_BYTES))):
        f.ret()
    f.call("void", "@hold_leaves", [("ptr", "%frame")])
    f.store("ptr", call(f, "ptr", "PyEval_SaveThread", []), "%frame", EntryFrame.THREAD)
    f.ret()


def _define_take_back(module: Module) -> None:
    """``void take_back(frame)``: have the GIL again, where ``let_go`` released it. Nothing where it did not."""
    f = module.function("take_back", "void", [("ptr", "frame")], exported=False)
    thread = f.load("ptr", "%frame", EntryFrame.THREAD)
    with f.if_(f.is_null(thread)):
        f.ret()
    call(f, "void", "PyEval_RestoreThread", [("ptr", thread)])
    f.store("ptr", "null", "%frame", EntryFrame.THREAD)
    f.ret()


def _define_alloc_output(module: Module) -> None:
    params = [("ptr", "rt"), ("i32", "number"), ("ptr", "tensor")]
    f = module.function("entry_alloc_output", "ptr", params, exported=False)
    frame = f.load("ptr", "%rt")
    # A program may ask for a result's memory that an argument has been given for.
    f.call("void", "@take_back", [("ptr", frame)])
    version = f.load("ptr", frame, EntryFrame.VERSION)
    number = f.cast("sext", "%number", "i32", "i64")
    record = f.at(f.load("ptr", version, EntryVersion.OUTPUTS), f.mul(number, str(OutputRecord.BYTES)))
    dims = f.load("ptr", "%tensor", TensorOffsets.DIMS)
    rank, item_size = f.load("i64", record, OutputRecord.RANK), f.load("i64", record, OutputRecord.ITEM_SIZE)
    bytes = size_in_bytes(f, dims, rank, item_size)
    place = f.stack("ptr")
    own, strides = result_layout(f, frame, record, dims)
    arguments = [("ptr", record), ("ptr", own), ("ptr", strides), ("i64", bytes)]
    array = f.var("ptr")
    branch = f.if_else(f.icmp("eq", f.load("i64", record, OutputRecord.MAKE), "0"))
    with branch.then():
        made = f.call("ptr", "@new_array", [("ptr", frame), *arguments])
        f.ret_if(f.is_null(made), "ptr", "null")
        array.set(made)
        f.store("ptr", f.load("ptr", made, PyObjects.ARRAY_DATA), place)
    with branch.otherwise():
        made = f.call("ptr", "@new_tensor", [*arguments, ("ptr", place)])
        f.ret_if(f.is_null(made), "ptr", "null")
        array.set(made)
    f.store("ptr", array.get(), f.at(f.load("ptr", frame, EntryFrame.RESULTS), number, "ptr"))
    f.store("i64", f.add(f.load("i64", frame, EntryFrame.WORK), bytes), frame, EntryFrame.WORK)
    pending = f.add(f.load("i64", frame, EntryFrame.PENDING), "-1")
    f.store("i64", pending, frame, EntryFrame.PENDING)
    with f.if_(f.icmp("sle", pending, "0")):
        f.call("void", "@let_go", [("ptr", frame)])
    f.ret("ptr", f.load("ptr", place))


def _define_put(module: Module) -> None:
    """``i1 put(record, array, result)``: whether it has the type of such an array; the JAX array then, or null with an
    exception, is in ``result``."""
    params = [("ptr", "record"), ("ptr", "array"), ("ptr", "result")]
    f = module.function("put", "i1", params, exported=False)
    shape = call(f, "ptr", "PyObject_GetAttr", [("ptr", "%array"), ("ptr", address(f, "str_shape"))])
    with f.if_(f.is_null(shape)):
        call(f, "void", "PyErr_Clear", [])
        f.ret("i1", "false")
    avals = f.load("ptr", "%record", PutRecord.AVALS)
    aval = call(f, "ptr", "PyDict_GetItem", [("ptr", avals), ("ptr", shape)])
    hold(f, aval)  # others may forget it while the function runs
    drop(f, shape)
    f.ret_if(f.is_null(aval), "i1", "false")
    held = call(f, "ptr", "PyList_New", [("i64", "1")])
    with f.if_(f.is_null(held)):
        drop(f, aval)
        call(f, "void", "PyErr_Clear", [])
        f.ret("i1", "false")
    hold(f, "%array")
    call(f, "i32", "PyList_SetItem", [("ptr", held), ("i64", "0"), ("ptr", "%array")])  # takes it; cannot fail
    arguments = f.stack("[6 x ptr]")
    sharding, devices = (f.load("ptr", "%record", field) for field in (PutRecord.SHARDING, PutRecord.DEVICES))
    for place, value in enumerate((aval, sharding, held, devices, address(f, "Py_False")), 1):
        f.store("ptr", value, arguments, 8 * place)
    made = call(
        f, "ptr", "PyObject_Vectorcall",
        [
            ("ptr", f.load("ptr", "%record", PutRecord.FUNCTION)), ("ptr", f.at(arguments, 8)),
            ("i64", str(1 << 63 | 5)), ("ptr", "null"),
        ],
    )  # fmt: skip
    f.store("ptr", made, "%result")
    drop(f, held)
    drop(f, aval)
    f.ret("i1", "true")


def define_wrap(module: Module) -> None:
    """``i1 wrap(version, results)``: arrays of the library that results are of, in their places; or an exception."""
    _define_put(module)
    f = module.function("wrap", "i1", [("ptr", "version"), ("ptr", "results")], exported=False)
    records = f.load("ptr", "%version", EntryVersion.OUTPUTS)
    with f.count(f.load("i64", "%version", EntryVersion.OUTPUT_COUNT)) as number:
        record = f.at(records, f.mul(number, str(OutputRecord.BYTES)))
        wrap = f.load("ptr", record, OutputRecord.WRAP)
        with f.if_(f.icmp("ne", wrap, "null", "ptr")):
            slot = f.at("%results", number, "ptr")
            array = f.load("ptr", slot)
            put = f.load("ptr", record, OutputRecord.PUT)
            result = f.var("ptr", "null")
            met = f.var("i1", "false")
            with f.if_(f.icmp("ne", put, "null", "ptr")):
                met.set(f.call("i1", "@put", [("ptr", put), ("ptr", array), ("ptr", result.address)]))
            with f.if_(f.icmp("eq", met.get(), "false", "i1")):
                result.set(call(f, "ptr", "PyObject_CallOneArg", [("ptr", wrap), ("ptr", array)]))
            made = result.get()
            f.store("ptr", made, slot)
            drop(f, array)
            f.ret_if(f.is_null(made), "i1", "false")
        holder = f.load("ptr", record, OutputRecord.HOLDER)
        with f.if_(f.icmp("ne", holder, "null", "ptr")):
            slot = f.at("%results", number, "ptr")
            arguments = [("ptr", f.load("ptr", holder, HostRecord.TYPE)), ("i64", "0")]
            made = call(f, "ptr", "PyType_GenericAlloc", arguments)
            f.ret_if(f.is_null(made), "i1", "false")
            f.store("ptr", f.load("ptr", slot), f.at(made, f.load("i64", holder, HostRecord.WHERE)))
            f.store("ptr", made, slot)
    f.ret("i1", "true")


# ---- the results' tree -----------------------------------------------------------------------------------------------


def define_build(module: Module) -> None:
    """``ptr build(code, results, objects, stack)``: the tree, or null with an exception set; takes the results'
    references. ``objects`` are the leaves'."""
    _define_items(module)
    params = [("ptr", "code"), ("ptr", "results"), ("ptr", "objects"), ("ptr", "stack")]
    f = module.function("build", "ptr", params, exported=False)
    top = f.var("ptr", "%stack")
    record = f.var("ptr", "%code")
    with f.loop() as loop:
        now = record.get()
        record.set(f.at(now, BuildRecord.BYTES))
        kind, count = f.load("i64", now, BuildRecord.KIND), f.load("i64", now, BuildRecord.COUNT)
        loop.break_if(f.icmp("eq", kind, str(int(Build.END))))
        with f.if_(f.icmp("eq", kind, str(int(Build.RESULT)))):
            slot = f.at("%results", count, "ptr")
            f.store("ptr", f.load("ptr", slot), top.get())
            f.store("ptr", "null", slot)
            top.set(f.at(top.get(), 8))
            loop.continue_()
        for leaf in (Build.ARGUMENT, Build.OBJECT):
            with f.if_(f.icmp("eq", kind, str(int(leaf)))):
                argument = leaf is Build.ARGUMENT
                place = f.at("%objects", count, "ptr") if argument else f.at(now, BuildRecord.VALUE)
                object = f.load("ptr", place)
                hold(f, object)
                f.store("ptr", object, top.get())
                top.set(f.at(top.get(), 8))
                loop.continue_()
        first = f.at(top.get(), f.mul(count, "-8"))
        keys = f.load("ptr", now, BuildRecord.VALUE)
        made = f.call("ptr", "@items", [("i64", kind), ("i64", count), ("ptr", keys), ("ptr", first)])
        with f.if_(f.is_null(made)):  # the items are gone; what lies under them remains
            f.call("void", "@drop_all", [("ptr", "%stack"), ("ptr", first)])
            f.ret("ptr", "null")
        f.store("ptr", made, first)
        top.set(f.at(first, 8))
    f.ret("ptr", f.load("ptr", "%stack"))


def _define_items(module: Module) -> None:
    """``ptr items(kind, count, keys, first)``: a container of ``count`` objects, whose references it takes over.

    Null, with an exception set, where there is no memory; the objects are dropped then.
    """
    f = module.function("drop_all", "void", [("ptr", "first"), ("ptr", "end")], exported=False)
    now = f.var("ptr", "%first")
    with f.loop() as loop:
        at = now.get()
        loop.break_if(f.icmp("eq", at, "%end", "ptr"))
        drop(f, f.load("ptr", at))
        f.store("ptr", "null", at)
        now.set(f.at(at, 8))
    f.ret()

    params = [("i64", "kind"), ("i64", "count"), ("ptr", "keys"), ("ptr", "first")]
    f = module.function("items", "ptr", params, exported=False)
    end = f.at("%first", "%count", "ptr")
    with f.if_(f.icmp("eq", "%kind", str(int(Build.DICT)))):
        # The keys' table is copied whole, rather than grown key by key.
        made = call(f, "ptr", "PyDict_Copy", [("ptr", f.load("ptr", "%keys"))])
        failed = f.var("i1", f.is_null(made))
        with f.if_(f.icmp("eq", failed.get(), "false", "i1")), f.count("%count") as i:
            item = f.load("ptr", f.at("%first", i, "ptr"))
            key = f.load("ptr", f.at("%keys", f.add(i, "1"), "ptr"))
            status = call(f, "i32", "PyDict_SetItem", [("ptr", made), ("ptr", key), ("ptr", item)])
            failed.set(f.or_(failed.get(), f.icmp("ne", status, "0", "i32"), "i1"))
        f.call("void", "@drop_all", [("ptr", "%first"), ("ptr", end)])
        with f.if_(failed.get()):
            drop(f, made)
            f.ret("ptr", "null")
        f.ret("ptr", made)
    for kind, new, put in (
        (Build.TUPLE, "PyTuple_New", "PyTuple_SetItem"),
        (Build.LIST, "PyList_New", "PyList_SetItem"),
    ):
        with f.if_(f.icmp("eq", "%kind", str(int(kind)))):
            made = call(f, "ptr", new, [("i64", "%count")])
            with f.if_(f.is_null(made)):
                f.call("void", "@drop_all", [("ptr", "%first"), ("ptr", end)])
                f.ret("ptr", "null")
            with f.count("%count") as i:
                item = f.load("ptr", f.at("%first", i, "ptr"))
                call(f, "i32", put, [("ptr", made), ("i64", i), ("ptr", item)])  # takes it; cannot fail
            f.ret("ptr", made)
    f.unreachable()
