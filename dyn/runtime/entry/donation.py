"""Donated arguments in the entry: whose memory is free to be written to, who takes it, and what becomes of the rest.

An array's memory is given to a result where it is NumPy's own or a block of the runtime's pool, writable and row by
row, and no other array of the call lies there, not even in part (``dyn.backends.donated_memory`` is the same in
Python). On a device it is one of the driver's blocks, which nobody else has (``DeviceArray.is_sole``). An object that
holds an array (``dyn.Array``) has it taken out before the program runs, so that nobody finds it there meanwhile; its
array's memory is given only if nothing else refers to that array.
"""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import call, call_method, drop, hold, is_type
from dyn.runtime.entry.layout import (
    OWNDATA,
    WRITEABLE,
    DeviceRecord,
    DonatedRecord,
    EntryFrame,
    EntryPlan,
    EntryVersion,
    HostRecord,
    NodeRecord,
    OutputRecord,
    PlanNode,
    PyObjects,
    ReuseRecord,
    Span,
    Tag,
)


def define_donation(module: Module, block_name: str) -> None:
    """Define ``give``, ``take_out``, ``put_back``, ``take``, ``use_up`` and ``failed``.

    ``block_name`` is what capsules of blocks are called.
    """
    _define_is_own(module, block_name)
    _define_spans(module)
    _define_give(module)
    _define_take_out(module)
    _define_take(module)
    _define_use_up(module)
    _define_failed(module)


def has_donations(f: FunctionBuilder, version: str) -> str:
    """Whether a version's calls use arguments up."""
    both = f.add(f.load("i64", version, EntryVersion.REUSE_COUNT), f.load("i64", version, EntryVersion.DONATED_COUNT))
    return f.icmp("ne", both, "0")


def _records(f: FunctionBuilder, field: int, count: int, size: int) -> tuple[str, str, int]:
    version = f.load("ptr", "%frame", EntryFrame.VERSION)
    return f.load("ptr", version, field), f.load("i64", version, count), size


def _reuses(f: FunctionBuilder) -> tuple[str, str, int]:
    return _records(f, EntryVersion.REUSES, EntryVersion.REUSE_COUNT, ReuseRecord.BYTES)


def _donated(f: FunctionBuilder) -> tuple[str, str, int]:
    return _records(f, EntryVersion.DONATED, EntryVersion.DONATED_COUNT, DonatedRecord.BYTES)


def _leaf(f: FunctionBuilder, record: str, field: int) -> tuple[str, str]:
    """The number of the leaf that a record names, and its tensor."""
    leaf = f.load("i64", record, field)
    return leaf, f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(leaf, str(TensorOffsets.BYTES)))


def _node(f: FunctionBuilder, leaf: str) -> str:
    records = f.load("ptr", f.load("ptr", "%frame", EntryFrame.PLAN), EntryPlan.RECORDS)
    return f.load("ptr", f.at(records, leaf, "ptr"))


# ---- whose memory it is ----------------------------------------------------------------------------------------------


def _define_is_own(module: Module, block_name: str) -> None:
    """``i1 is_own(array, references)``: whether an ndarray's memory is NumPy's or a block of the pool's, and may be
    written; or that of such an array that it is a view of.

    With ``references`` other than 0 the array is one that an object holds, which has to have just so many, and to be no
    view.
    """
    f = module.function("is_own", "i1", [("ptr", "array"), ("i32", "references")], exported=False)
    flags = f.load("i32", "%array", PyObjects.ARRAY_FLAGS)
    f.ret_if(f.icmp("eq", f.and_(flags, str(WRITEABLE), "i32"), "0", "i32"), "i1", "false")
    owner = f.var("ptr", "%array")
    base = f.load("ptr", "%array", PyObjects.ARRAY_BASE)
    branch = f.if_else(f.icmp("ne", "%references", "0", "i32"))
    with branch.then():
        # The low half: CPython 3.12 and later keep other things in the upper one.
        count = f.load("i32", "%array", PyObjects.REFERENCES)
        f.ret_if(f.icmp("ne", count, "%references", "i32"), "i1", "false")
    with branch.otherwise(), f.if_(f.icmp("ne", base, "null", "ptr")), f.if_(is_type(f, base, "PyArray_Type")):
        owner.set(base)
    base = f.load("ptr", owner.get(), PyObjects.ARRAY_BASE)
    with f.if_(f.is_null(base)):
        flags = f.and_(f.load("i32", owner.get(), PyObjects.ARRAY_FLAGS), str(OWNDATA), "i32")
        f.ret("i1", f.icmp("ne", flags, "0", "i32"))
    valid = call(f, "i32", "PyCapsule_IsValid", [("ptr", base), ("ptr", block_name)])
    f.ret("i1", f.icmp("ne", valid, "0", "i32"))


def _define_spans(module: Module) -> None:
    """``i64 spans(frame)``: the memory of all arrays of a call, in the order of the addresses; and how many there are.

    ``i32 earlier(a, b)`` is what tells the order.
    """
    f = module.function("earlier", "i32", [("ptr", "a"), ("ptr", "b")], exported=False)
    a, b = f.load("i64", "%a", Span.START), f.load("i64", "%b", Span.START)
    f.ret("i32", f.select(f.icmp("ult", a, b), "-1", f.cast("zext", f.icmp("ugt", a, b), "i1", "i32"), "i32"))

    f = module.function("spans", "i64", [("ptr", "frame")], exported=False)
    first = f.load("ptr", "%frame", EntryFrame.SPANS)
    plan, version = f.load("ptr", "%frame", EntryFrame.PLAN), f.load("ptr", "%frame", EntryFrame.VERSION)
    sizes = f.load("ptr", plan, EntryPlan.ITEM_SIZES)
    count = f.var("i64", "0")

    def add(start: str, end: str, leaf: str) -> None:
        span = f.at(first, f.mul(count.get(), str(Span.BYTES)))
        for value, field in ((start, Span.START), (end, Span.END), (leaf, Span.LEAF)):
            f.store("i64", value, span, field)
        count.set(f.add(count.get(), "1"))

    with f.count(f.load("i64", plan, EntryPlan.LEAVES)) as leaf:
        kind = f.load("i64", _node(f, leaf), NodeRecord.KIND)
        is_array = f.or_(
            f.icmp("eq", kind, str(int(PlanNode.ARRAY))), f.icmp("eq", kind, str(int(PlanNode.FOREIGN))), "i1"
        )
        with f.if_(is_array):
            start, end = _bounds(f, leaf, f.load("i64", f.at(sizes, leaf, "i64")))
            with f.if_(f.icmp("ne", start, end)):
                add(start, end, leaf)
    captured = f.load("ptr", version, EntryVersion.CAPTURED_SPANS)
    with f.count(f.load("i64", version, EntryVersion.CAPTURED_SPAN_COUNT)) as number:
        span = f.at(captured, f.mul(number, "16"))
        add(f.load("i64", span), f.load("i64", span, 8), "-1")
    arguments = [("ptr", first), ("i64", count.get()), ("i64", str(Span.BYTES)), ("ptr", "@earlier")]
    call(f, "void", "qsort", arguments)
    f.ret("i64", count.get())


def _bounds(f: FunctionBuilder, leaf: str, item_size: str) -> tuple[str, str]:
    """The first byte of an array and the one after its last; twice the same for an array without elements."""
    tensor = f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(leaf, str(TensorOffsets.BYTES)))
    data = f.cast("ptrtoint", f.load("ptr", tensor, TensorOffsets.DATA), "ptr", "i64")
    dims, strides = f.load("ptr", tensor, TensorOffsets.DIMS), f.load("ptr", tensor, TensorOffsets.STRIDES)
    rank = f.cast("sext", f.load("i32", tensor, TensorOffsets.RANK), "i32", "i64")
    start, end, bytes = f.var("i64", data), f.var("i64", f.add(data, item_size)), f.var("i64", item_size)
    is_dense = f.is_null(strides)
    with f.count(rank) as axis:
        size = f.load("i64", f.at(dims, axis, "i64"))
        bytes.set(f.mul(bytes.get(), size))
        with f.if_(f.icmp("eq", is_dense, "false", "i1")):
            reach = f.mul(f.sub(size, "1"), f.load("i64", f.at(strides, axis, "i64")))
            down = f.icmp("slt", reach, "0")
            start.set(f.add(start.get(), f.select(down, reach, "0")))
            end.set(f.add(end.get(), f.select(down, "0", reach)))
    with f.if_(is_dense):
        end.set(f.add(data, bytes.get()))
    with f.if_(f.icmp("eq", bytes.get(), "0")):
        end.set(start.get())
    return start.get(), end.get()


def _define_give(module: Module) -> None:
    """``void give(frame)``: tag the inputs whose memory is given to results, and count them."""
    f = module.function("give", "void", [("ptr", "frame")], exported=False)
    reuses, count, size = _reuses(f)
    candidates = f.var("i64", "0")
    # The holder's own, and one of this call's.
    held = f.cast("trunc", f.add(f.load("i64", "%frame", EntryFrame.HELD), "1"), "i64", "i32")
    with f.count(count) as number:
        reuse = f.at(reuses, f.mul(number, str(size)))
        leaf, tensor = _leaf(f, reuse, ReuseRecord.LEAF)
        plain = f.icmp("eq", f.load("i32", tensor, TensorOffsets.TAG), "0", "i32")
        is_array = f.icmp("eq", f.load("i64", _node(f, leaf), NodeRecord.KIND), str(int(PlanNode.ARRAY)))
        with f.if_(f.and_(plain, is_array, "i1")):
            array = f.load("ptr", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
            is_held = f.icmp("ne", f.load("i64", reuse, ReuseRecord.DONATED), "-1")
            references = f.select(is_held, held, "0", "i32")
            free, device = f.var("i1"), f.load("ptr", f.load("ptr", "%frame", EntryFrame.VERSION), EntryVersion.DEVICE)
            branch = f.if_else(f.is_null(device))
            with branch.then():
                free.set(f.call("i1", "@is_own", [("ptr", array), ("i32", references)]))
            with branch.otherwise():
                slots = f.load("ptr", device, DeviceRecord.SLOTS)
                free.set(f.call("i1", "@is_sole", [("ptr", array), ("i32", references), ("ptr", slots)]))
            with f.if_(free.get()):
                f.store("i32", str(Tag.GIVEN), tensor, TensorOffsets.TAG)
                candidates.set(f.add(candidates.get(), "1"))
    with f.if_(f.icmp("eq", candidates.get(), "0")):
        f.ret()
    _refuse_shared(f)
    given = f.var("i64", "0")
    with f.count(count) as number:
        _, tensor = _leaf(f, f.at(reuses, f.mul(number, str(size))), ReuseRecord.LEAF)
        tag = f.load("i32", tensor, TensorOffsets.TAG)
        given.set(f.add(given.get(), f.cast("zext", f.icmp("eq", tag, str(Tag.GIVEN), "i32"), "i1", "i64")))
    f.store("i64", given.get(), "%frame", EntryFrame.GIVEN)
    f.ret()


def _refuse_shared(f: FunctionBuilder) -> None:
    """Take the tag from inputs whose memory another array of the call shares.

    Of two spans that overlap one is the span that reaches furthest so far, or both overlap with it.
    """
    spans = f.load("ptr", "%frame", EntryFrame.SPANS)
    count = f.call("i64", "@spans", [("ptr", "%frame")])
    reach, before = f.var("i64", "0"), f.var("i64", "-1")
    with f.count(count) as number:
        span = f.at(spans, f.mul(number, str(Span.BYTES)))
        start, end, leaf = (f.load("i64", span, field) for field in (Span.START, Span.END, Span.LEAF))
        with f.if_(f.icmp("ult", start, reach.get())):
            for one in (before.get(), leaf):
                with f.if_(f.icmp("ne", one, "-1")):
                    tensor = f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(one, str(TensorOffsets.BYTES)))
                    with f.if_(f.icmp("eq", f.load("i32", tensor, TensorOffsets.TAG), str(Tag.GIVEN), "i32")):
                        f.store("i32", "0", tensor, TensorOffsets.TAG)
        with f.if_(f.icmp("ugt", end, reach.get())):
            reach.set(end)
            before.set(leaf)


# ---- what becomes of the arguments -----------------------------------------------------------------------------------


def _define_take_out(module: Module) -> None:
    """``void take_out(frame)``: empty the holders among the arguments, and label them; ``void put_back(frame)``."""
    f = module.function("take_out", "void", [("ptr", "frame")], exported=False)
    records, count, size = _donated(f)
    with f.count(count) as number:
        record, place, holder, slot = _held(f, records, number, size)
        f.store("ptr", "null", place)
        with f.if_(f.icmp("ne", f.load("ptr", record, DonatedRecord.LABEL), "null", "ptr")):
            f.store("ptr", f.load("ptr", slot), place)  # null where the object came twice
            f.store("ptr", "null", slot)
            with f.if_(f.icmp("ne", f.load("ptr", place), "null", "ptr")):
                hold(f, holder)
                label = f.load("ptr", record, DonatedRecord.LABEL)
                hold(f, label)
                at = f.at(holder, f.load("i64", record, DonatedRecord.SLOT))
                before = f.load("ptr", at)
                f.store("ptr", label, at)
                drop(f, before)
    f.ret()

    f = module.function("put_back", "void", [("ptr", "frame")], exported=False)
    records, count, size = _donated(f)
    with f.count(count) as number:
        record, place, holder, slot = _held(f, records, number, size)
        array = f.load("ptr", place)
        with f.if_(f.icmp("ne", array, "null", "ptr")):
            f.store("ptr", array, slot)
            f.store("ptr", "null", place)
            at = f.at(holder, f.load("i64", record, DonatedRecord.SLOT))
            label = f.load("ptr", at)
            f.store("ptr", "null", at)
            drop(f, label)
            drop(f, holder)
    f.ret()


def _held(f: FunctionBuilder, records: str, number: str, size: int) -> tuple[str, str, str, str]:
    """A DonatedRecord, the frame's place for its array; for a holder moreover itself, and its slot for the array."""
    record = f.at(records, f.mul(number, str(size)))
    place = f.at(f.load("ptr", "%frame", EntryFrame.TAKEN_OUT), number, "ptr")
    leaf = f.load("i64", record, DonatedRecord.LEAF)
    holder = f.load("ptr", f.at(f.load("ptr", "%frame", EntryFrame.HOLDERS), leaf, "ptr"))
    host = f.load("ptr", _node(f, leaf), NodeRecord.HOST)
    where = f.var("i64", "0")
    with f.if_(f.icmp("ne", host, "null", "ptr")):
        where.set(f.load("i64", host, HostRecord.WHERE))
    return record, place, holder, f.at(holder, where.get())


def _define_take(module: Module) -> None:
    """``i1 take(frame, outputs)``: results in given memory, in their places; false with an exception.

    Such a result is the argument's array, or a view of it in its own shape. The program may have had reason to ask for
    memory all the same.
    """
    f = module.function("take", "i1", [("ptr", "frame"), ("ptr", "outputs")], exported=False)
    outputs = f.load("ptr", f.load("ptr", "%frame", EntryFrame.VERSION), EntryVersion.OUTPUTS)
    reuses, count, size = _reuses(f)
    with f.count(count) as number:
        reuse = f.at(reuses, f.mul(number, str(size)))
        output = f.load("i64", reuse, ReuseRecord.OUTPUT)
        slot = f.at(f.load("ptr", "%frame", EntryFrame.RESULTS), output, "ptr")
        with f.if_(f.is_null(f.load("ptr", slot))):
            leaf, input = _leaf(f, reuse, ReuseRecord.LEAF)
            array = f.load("ptr", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
            result = f.at("%outputs", f.mul(output, str(TensorOffsets.BYTES)))
            rank, dims = f.load("i32", result, TensorOffsets.RANK), f.load("ptr", result, TensorOffsets.DIMS)
            same = f.var("i1", f.icmp("eq", rank, f.load("i32", array, PyObjects.ARRAY_NDIM), "i32"))
            with f.if_(same.get()), f.count(f.cast("sext", rank, "i32", "i64")) as axis:
                own = f.load("i64", f.at(f.load("ptr", array, PyObjects.ARRAY_DIMS), axis, "i64"))
                equal = f.icmp("eq", own, f.load("i64", f.at(dims, axis, "i64")))
                same.set(f.and_(same.get(), equal, "i1"))
            hold(f, array)
            f.store("ptr", array, slot)
            with f.if_(f.icmp("eq", same.get(), "false", "i1")):
                descr = f.load("ptr", f.at(outputs, f.mul(output, str(OutputRecord.BYTES))), OutputRecord.DESCR)
                hold(f, descr)
                data = f.load("ptr", input, TensorOffsets.DATA)
                place = [("ptr", dims), ("ptr", "null"), ("ptr", data)]
                view = f.call("ptr", "@over", [("ptr", descr), ("i32", rank), *place, ("ptr", array)])
                f.store("ptr", view, slot)
                f.ret_if(f.is_null(view), "i1", "false")
    f.ret("i1", "true")


def _define_use_up(module: Module) -> None:
    """``i1 use_up(frame, good)``: the end of donated arguments whose call is over, well or not; whether all is well.

    There is an exception where it is not.
    """
    params = [("ptr", "frame"), ("i1", "good")]
    f = module.function("use_up", "i1", params, exported=False)
    records, count, size = _donated(f)
    good = f.var("i1", "%good")
    with f.count(count) as number:
        record, place, holder, _ = _held(f, records, number, size)
        array = f.load("ptr", place)
        with f.if_(f.icmp("ne", array, "null", "ptr")):
            f.store("ptr", "null", place)
            drop(f, array)
            drop(f, holder)
        with f.if_(f.and_(f.is_null(f.load("ptr", record, DonatedRecord.LABEL)), good.get(), "i1")):
            leaf = f.load("i64", record, DonatedRecord.LEAF)
            object = f.load("ptr", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
            answer = call_method(f, object, "str_delete")
            drop(f, answer)
            with f.if_(f.is_null(answer)):
                good.set("false")
    f.ret("i1", good.get())


def _define_failed(module: Module) -> None:
    """``i1 failed(frame)``: whether a call that has failed may be made again; false with an exception.

    It may where nothing has been written to the arguments, and no device has failed.
    """
    f = module.function("failed", "i1", [("ptr", "frame")], exported=False)
    function = f.load("ptr", f.load("ptr", "%frame", EntryFrame.VERSION), EntryVersion.FAILED)
    arguments = f.stack("[4 x ptr]")
    inputs = f.load("ptr", "%frame", EntryFrame.INPUTS)
    for number, pointer in enumerate((f.at("%frame", EntryFrame.SITE), inputs), 1):
        made = call(f, "ptr", "PyLong_FromVoidPtr", [("ptr", pointer)])
        f.store("ptr", made, arguments, 8 * number)
    first = f.at(arguments, 8)
    answer = f.var("ptr", "null")
    whole = f.and_(
        f.icmp("ne", f.load("ptr", arguments, 8), "null", "ptr"),
        f.icmp("ne", f.load("ptr", arguments, 16), "null", "ptr"), "i1",
    )  # fmt: skip
    with f.if_(whole):
        two = str(1 << 63 | 2)
        given = [("ptr", function), ("ptr", first), ("i64", two), ("ptr", "null")]
        answer.set(call(f, "ptr", "PyObject_Vectorcall", given))
    for number in (1, 2):
        drop(f, f.load("ptr", arguments, 8 * number))
    call(f, "void", "PyMem_RawFree", [("ptr", f.load("ptr", "%frame", EntryFrame.VALUES))])
    drop(f, answer.get())
    f.ret("i1", f.icmp("ne", answer.get(), "null", "ptr"))
