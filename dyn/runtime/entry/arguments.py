"""The walk over a call's arguments: plain containers, arrays and numbers, against a plan's code.

``i1 walk(args, plan, frame)`` answers whether everything is as the plan has it, and has then described every leaf in
the frame but those that other libraries describe (``foreign``). It only reads, and runs no Python code, so that
borrowed references stay good.
"""

from __future__ import annotations

from dyn.lower.abi import TensorOffsets
from dyn.lower.native import EndlessLoop, FunctionBuilder, Module, Var
from dyn.runtime.entry.api import address, call, is_type, type_of
from dyn.runtime.entry.layout import (
    ANY,
    DENSE,
    DEPTH,
    NOT_ZERO,
    ArrayReader,
    EntryFrame,
    EntryPlan,
    HostRecord,
    NodeRecord,
    PlanNode,
    PyObjects,
    StaticRecord,
    Tag,
)

#: Words of the stack of containers that are being walked: items or null, dict or null, position.
_LEVEL = 24


def define_walk(module: Module) -> None:
    """Define ``walk`` and what it needs."""
    _define_same_key(module)
    _define_array(module)
    _define_size(module)
    _define_number(module)
    f = module.function("walk", "i1", [("ptr", "args"), ("ptr", "plan"), ("ptr", "frame")], exported=False)
    _ArgumentWalk(f).write()


def define_statics(module: Module) -> None:
    """``i1 statics(args, plan)``: whether all static arguments are the plan's.

    Comparing values may run Python code, so this comes before anything is borrowed. An error of that code means no: the
    slow path meets it again.
    """
    f = module.function("statics", "i1", [("ptr", "args"), ("ptr", "plan")], exported=False)
    records = f.load("ptr", "%plan", EntryPlan.STATICS)
    with f.count(f.load("i64", "%plan", EntryPlan.STATIC_COUNT)) as number:
        record = f.at(records, f.mul(number, str(StaticRecord.BYTES)))
        argument = f.load("i64", record, StaticRecord.ARGUMENT)
        given = f.load("ptr", f.at("%args", argument, "ptr"))
        wanted = f.load("ptr", record, StaticRecord.OBJECT)
        with f.if_(f.icmp("ne", given, wanted, "ptr")):
            f.ret_if(f.icmp("ne", type_of(f, given), type_of(f, wanted), "ptr"), "i1", "false")
            branch = f.if_else(is_type(f, given, "PyFloat_Type"))
            with branch.then():
                same = f.call("i1", "@same_key", [("ptr", given), ("ptr", wanted)])
                f.ret_if(f.icmp("eq", same, "false", "i1"), "i1", "false")
            with branch.otherwise():
                like = f.load("ptr", record, StaticRecord.EQUAL)
                equal = call(f, "i32", "PyObject_RichCompareBool", [("ptr", given), ("ptr", like), ("i32", "2")])
                with f.if_(f.icmp("slt", equal, "0", "i32")):
                    call(f, "void", "PyErr_Clear", [])
                f.ret_if(f.icmp("ne", equal, "1", "i32"), "i1", "false")
    f.ret("i1", "true")


def _define_same_key(module: Module) -> None:
    """``i1 same_key(a, b)``: one object, or equal strings, ints or floats of just these types, by no Python code.

    Floats are equal if their bits are: -0.0 is not 0.0.
    """
    f = module.function("same_key", "i1", [("ptr", "a"), ("ptr", "b")], exported=False)
    f.ret_if(f.icmp("eq", "%a", "%b", "ptr"), "i1", "true")
    kind = type_of(f, "%a")
    f.ret_if(f.icmp("ne", kind, type_of(f, "%b"), "ptr"), "i1", "false")
    with f.if_(is_type(f, "%a", "PyUnicode_Type")):
        order = call(f, "i32", "PyUnicode_Compare", [("ptr", "%a"), ("ptr", "%b")])
        f.ret("i1", f.icmp("eq", order, "0", "i32"))
    with f.if_(is_type(f, "%a", "PyLong_Type")):
        equal = call(f, "i32", "PyObject_RichCompareBool", [("ptr", "%a"), ("ptr", "%b"), ("i32", "2")])
        f.ret("i1", f.icmp("eq", equal, "1", "i32"))
    with f.if_(is_type(f, "%a", "PyFloat_Type")):
        a, b = (call(f, "double", "PyFloat_AsDouble", [("ptr", side)]) for side in ("%a", "%b"))
        f.ret("i1", f.icmp("eq", f.cast("bitcast", a, "double", "i64"), f.cast("bitcast", b, "double", "i64")))
    f.ret("i1", "false")


def tensor_of(f: FunctionBuilder, record: str) -> str:
    """The leaf's tensor in the frame."""
    leaf = f.load("i64", record, NodeRecord.LEAF)
    return f.at(f.load("ptr", "%frame", EntryFrame.INPUTS), f.mul(leaf, str(TensorOffsets.BYTES)))


def describe(f: FunctionBuilder, record: str, data: str, dims: str, rank: str) -> str:
    """Fill the leaf's tensor, and give it."""
    tensor = tensor_of(f, record)
    f.store("ptr", data, tensor, TensorOffsets.DATA)
    f.store("i32", "0", tensor, TensorOffsets.TAG)
    f.store("i32", rank, tensor, TensorOffsets.RANK)
    f.store("ptr", dims, tensor, TensorOffsets.DIMS)
    f.store("ptr", "null", tensor, TensorOffsets.STRIDES)
    return tensor


def room_of(f: FunctionBuilder, record: str) -> str:
    """The words of the frame for a leaf's dims, which are followed by those for its strides."""
    return f.at(f.load("ptr", "%frame", EntryFrame.ROOM), f.load("i64", record, NodeRecord.ROOM), "i64")


def tag(f: FunctionBuilder, tensor: str, bits: str, strides: str) -> None:
    """Say that an input has to be copied; ``strides`` are in bytes."""
    f.store("i32", bits, tensor, TensorOffsets.TAG)
    f.store("ptr", strides, tensor, TensorOffsets.STRIDES)
    f.store("i64", f.add(f.load("i64", "%frame", EntryFrame.TAGGED), "1"), "%frame", EntryFrame.TAGGED)


def _define_sized(module: Module) -> None:
    """``i1 sized(record, dims, rank)``: whether sizes are those that the record wants."""
    f = module.function(
        "sized", "i1", [("ptr", "record"), ("ptr", "dims"), ("i64", "rank")], exported=False, inline=True
    )
    wanted = f.load("ptr", "%record", NodeRecord.SIZES)
    f.ret_if(f.is_null(wanted), "i1", "true")
    with f.count("%rank") as axis:
        size, want = f.load("i64", f.at("%dims", axis, "i64")), f.load("i64", f.at(wanted, axis, "i64"))
        empty = f.and_(f.icmp("eq", want, str(NOT_ZERO)), f.icmp("eq", size, "0"), "i1")
        f.ret_if(empty, "i1", "false")
        other = f.and_(f.icmp("sge", want, "0"), f.icmp("ne", size, want), "i1")
        f.ret_if(other, "i1", "false")
    f.ret("i1", "true")


def _define_array(module: Module) -> None:
    """``i1 array(object, record, frame)``: an exact ndarray, or what holds one, of the dtype and rank.

    It is the ndarray that a call keeps: who holds it may lose it meanwhile. ``i1 ndarray(array, record, frame)`` is the
    part that describes it. NumPy's own sizes are the tensor's: compiled code reads them before it lets go of the GIL,
    and not after.
    """
    _define_sized(module)
    _define_ndarray(module)
    f = module.function(
        "array", "i1", [("ptr", "object"), ("ptr", "record"), ("ptr", "frame")], exported=False, inline=True
    )
    array = f.var("ptr", "%object")
    host = f.load("ptr", "%record", NodeRecord.HOST)
    with f.if_(f.icmp("ne", host, "null", "ptr")):
        f.ret_if(f.icmp("ne", type_of(f, "%object"), f.load("ptr", host, HostRecord.TYPE), "ptr"), "i1", "false")
        held = f.load("ptr", f.at("%object", f.load("i64", host, HostRecord.WHERE)))
        f.ret_if(f.is_null(held), "i1", "false")
        leaf = f.load("i64", "%record", NodeRecord.LEAF)
        f.store("ptr", "%object", f.at(f.load("ptr", "%frame", EntryFrame.HOLDERS), leaf, "ptr"))
        with f.if_(f.icmp("eq", f.load("i64", host, HostRecord.READER), str(int(ArrayReader.DEVICE_HOLDER)))):
            f.ret("i1", f.call("i1", "@device_array", [("ptr", held), ("ptr", "%record"), ("ptr", "%frame")]))
        array.set(held)
    f.ret("i1", f.call("i1", "@ndarray", [("ptr", array.get()), ("ptr", "%record"), ("ptr", "%frame")]))


def _define_ndarray(module: Module) -> None:
    f = module.function(
        "ndarray", "i1", [("ptr", "array"), ("ptr", "record"), ("ptr", "frame")], exported=False, inline=True
    )
    array = "%array"
    f.ret_if(f.icmp("eq", is_type(f, array, "PyArray_Type"), "false", "i1"), "i1", "false")
    rank = f.load("i32", array, PyObjects.ARRAY_NDIM)
    wanted = f.load("i64", "%record", NodeRecord.COUNT)
    descr = f.load("ptr", array, PyObjects.ARRAY_DESCR)
    number = f.load("i32", descr, PyObjects.DESCR_TYPE_NUMBER)
    kind = f.cast("trunc", f.load("i64", "%record", NodeRecord.VALUE), "i64", "i32")
    good = f.icmp("eq", rank, f.cast("trunc", wanted, "i64", "i32"), "i32")
    good = f.and_(good, f.icmp("eq", number, kind, "i32"), "i1")
    f.ret_if(f.icmp("eq", good, "false", "i1"), "i1", "false")
    dims = f.load("ptr", array, PyObjects.ARRAY_DIMS)
    sized = f.call("i1", "@sized", [("ptr", "%record"), ("ptr", dims), ("i64", wanted)])
    f.ret_if(f.icmp("eq", sized, "false", "i1"), "i1", "false")
    tensor = describe(f, "%record", f.load("ptr", array, PyObjects.ARRAY_DATA), dims, rank)
    leaf = f.load("i64", "%record", NodeRecord.LEAF)
    f.store("ptr", array, f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
    order = f.load("i8", descr, PyObjects.DESCR_BYTEORDER)
    native = f.icmp("ne", order, str(ord(">")), "i8")  # "=", "|", "<": there is a fast path on such machines alone
    flags = f.and_(f.load("i32", array, PyObjects.ARRAY_FLAGS), str(DENSE), "i32")
    plain = f.and_(native, f.icmp("eq", flags, str(DENSE), "i32"), "i1")
    strict = f.icmp("ne", f.load("i64", "%record", NodeRecord.WEAK), str(ANY))
    f.ret_if(f.and_(strict, f.icmp("eq", native, "false", "i1"), "i1"), "i1", "false")
    with f.if_(f.icmp("eq", plain, "false", "i1")):
        bits = f.select(native, str(Tag.ODD), str(Tag.ODD | Tag.SWAPPED), "i32")
        tag(f, tensor, bits, f.load("ptr", array, PyObjects.ARRAY_STRIDES))
    f.ret("i1", "true")


def _define_number(module: Module) -> None:
    """``i1 number(object, record, frame, slot)``: a Python number of just the type, written to ``slot``."""
    params = [("ptr", "object"), ("ptr", "record"), ("ptr", "frame"), ("ptr", "slot")]
    f = module.function("number", "i1", params, exported=False)
    kind = f.load("i64", "%record", NodeRecord.KIND)
    overflow = f.stack("i32", align=4)
    with f.if_(f.icmp("eq", kind, str(int(PlanNode.SIZE)))):
        f.ret(
            "i1", f.call("i1", "@size", [("ptr", "%object"), ("ptr", "%record"), ("ptr", "%frame"), ("ptr", "%slot")])
        )
    narrow = f.icmp("eq", f.load("i64", "%record", NodeRecord.UNIT), "4")
    for node, name in (
        (PlanNode.FLOAT, "PyFloat_Type"), (PlanNode.INT, "PyLong_Type"), (PlanNode.BOOL, "PyBool_Type"),
        (PlanNode.COMPLEX, "PyComplex_Type"),
    ):  # fmt: skip
        with f.if_(f.icmp("eq", kind, str(int(node)))):
            f.ret_if(f.icmp("eq", is_type(f, "%object", name), "false", "i1"), "i1", "false")
            if node is PlanNode.FLOAT:
                _store_float(f, call(f, "double", "PyFloat_AsDouble", [("ptr", "%object")]), narrow, 0)
            elif node is PlanNode.INT:
                arguments = [("ptr", "%object"), ("ptr", overflow)]
                value = call(f, "i64", "PyLong_AsLongLongAndOverflow", arguments)
                f.store("i64", value, "%slot")  # the low half comes first
                f.ret_if(f.icmp("ne", f.load("i32", overflow), "0", "i32"), "i1", "false")
                least, greatest = (f.load("i64", "%record", o) for o in (NodeRecord.VALUE, NodeRecord.COUNT))
                f.ret_if(f.icmp("slt", value, least), "i1", "false")
                f.ret_if(f.icmp("sgt", value, greatest), "i1", "false")
                half = f.cast("sext", f.load("i32", "%slot"), "i32", "i64")
                f.ret_if(f.and_(narrow, f.icmp("ne", half, value), "i1"), "i1", "false")
            elif node is PlanNode.BOOL:
                true = f.icmp("eq", "%object", address(f, "Py_True"), "ptr")
                f.store("i8", f.cast("zext", true, "i1", "i8"), "%slot")
            else:
                for part, name in enumerate(("PyComplex_RealAsDouble", "PyComplex_ImagAsDouble")):
                    _store_float(f, call(f, "double", name, [("ptr", "%object")]), narrow, part)
    describe(f, "%record", "%slot", "null", "0")
    leaf = f.load("i64", "%record", NodeRecord.LEAF)
    f.store("ptr", "null", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
    f.ret("i1", "true")


def _define_size(module: Module) -> None:
    """``i1 size(object, record, frame, slot)``: a Python int, described as an array of that size and 0."""
    params = [("ptr", "object"), ("ptr", "record"), ("ptr", "frame"), ("ptr", "slot")]
    f = module.function("size", "i1", params, exported=False)
    f.ret_if(f.icmp("eq", is_type(f, "%object", "PyLong_Type"), "false", "i1"), "i1", "false")
    overflow = f.stack("i32", align=4)
    size = call(f, "i64", "PyLong_AsLongLongAndOverflow", [("ptr", "%object"), ("ptr", overflow)])
    f.ret_if(f.icmp("slt", size, "0"), "i1", "false")  # as it is where there is an overflow, which gives -1
    dims = room_of(f, "%record")
    f.store("i64", size, dims)
    f.store("i64", "0", dims, 8)
    describe(f, "%record", "%slot", dims, "2")
    leaf = f.load("i64", "%record", NodeRecord.LEAF)
    f.store("ptr", "null", f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
    f.ret("i1", "true")


def _store_float(f: FunctionBuilder, value: str, narrow: str, part: int) -> None:
    """A float of 64 bits, or of 32, as the real or the imaginary part. One that is too large is left to Python."""
    branch = f.if_else(narrow)
    with branch.then():
        short = f.cast("fptrunc", value, "double", "float")
        difference = f.value(f"fsub double {f.cast('fpext', short, 'float', 'double')}, {value}")
        # Infinite where the number was not, and no number where it was.
        f.ret_if(f.value(f"fcmp oeq double {difference}, 0x7FF0000000000000"), "i1", "false")
        f.ret_if(f.value(f"fcmp oeq double {difference}, 0xFFF0000000000000"), "i1", "false")
        f.store("float", short, "%slot", 4 * part)
    with branch.otherwise():
        f.store("double", value, "%slot", 8 * part)


class _ArgumentWalk:
    """The loop over a plan's code. The container that is being walked is in variables, those around it on a stack."""

    def __init__(self, f: FunctionBuilder) -> None:
        self.f = f
        self.stack = f.stack(f"[{_LEVEL * DEPTH} x i8]")
        self.top = f.var("ptr", self.stack)
        self.items = f.var("ptr", "%args")
        self.dict = f.var("ptr", "null")
        #: Its address goes to PyDict_Next.
        self.position = f.var("i64", "0")
        self.key, self.value = f.stack("ptr"), f.stack("ptr")
        self.record = f.var("ptr", f.load("ptr", "%plan", EntryPlan.CODE))

    def write(self) -> None:
        f = self.f
        with f.loop() as loop:
            record = self.record.get()
            self.record.set(f.at(record, NodeRecord.BYTES))
            kind = f.load("i64", record, NodeRecord.KIND)
            f.ret_if(f.icmp("eq", kind, str(int(PlanNode.END))), "i1", "true")
            with f.if_(f.icmp("eq", kind, str(int(PlanNode.LEAVE)))):
                self._leave()
                loop.continue_()
            object = self._next(record)
            with f.if_(f.icmp("eq", kind, str(int(PlanNode.SKIP)))):
                loop.continue_()
            with f.if_(f.icmp("eq", kind, str(int(PlanNode.SAME)))):
                wanted = f.load("ptr", record, NodeRecord.VALUE)
                same = f.call("i1", "@same_key", [("ptr", object), ("ptr", wanted)])
                f.ret_if(f.icmp("eq", same, "false", "i1"), "i1", "false")
                loop.continue_()
            self._leaves(kind, object, record, loop)
            self._enter(kind, object, record)
        f.unreachable()

    def _next(self, record: str) -> str:
        """The container's next item; of a dict, its key has to be the record's."""
        f = self.f
        object: Var = f.var("ptr")
        dict = self.dict.get()
        branch = f.if_else(f.is_null(dict))
        with branch.then():
            at = self.position.get()
            object.set(f.load("ptr", f.at(self.items.get(), at, "ptr")))
            self.position.set(f.add(at, "1"))
        with branch.otherwise():
            arguments = [("ptr", dict), ("ptr", self.position.address), ("ptr", self.key), ("ptr", self.value)]
            more = call(f, "i32", "PyDict_Next", arguments)
            f.ret_if(f.icmp("eq", more, "0", "i32"), "i1", "false")
            wanted = f.load("ptr", record, NodeRecord.KEY)
            same = f.call("i1", "@same_key", [("ptr", f.load("ptr", self.key)), ("ptr", wanted)])
            f.ret_if(f.icmp("eq", same, "false", "i1"), "i1", "false")
            object.set(f.load("ptr", self.value))
        return object.get()

    def _leaves(self, kind: str, object: str, record: str, loop: EndlessLoop) -> None:
        f = self.f
        with f.if_(f.icmp("eq", kind, str(int(PlanNode.ARRAY)))):
            good = f.call("i1", "@array", [("ptr", object), ("ptr", record), ("ptr", "%frame")])
            f.ret_if(f.icmp("eq", good, "false", "i1"), "i1", "false")
            loop.continue_()
        with f.if_(f.icmp("eq", kind, str(int(PlanNode.FOREIGN)))):
            host = f.load("ptr", record, NodeRecord.HOST)
            f.ret_if(f.icmp("ne", type_of(f, object), f.load("ptr", host, HostRecord.TYPE), "ptr"), "i1", "false")
            leaf = f.load("i64", record, NodeRecord.LEAF)
            f.store("ptr", object, f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaf, "ptr"))
            loop.continue_()
        with f.if_(f.icmp("ule", kind, str(int(PlanNode.SIZE)))):
            leaves = f.load("i64", "%plan", EntryPlan.LEAVES)
            numbers = f.at(f.load("ptr", "%frame", EntryFrame.OBJECTS), leaves, "ptr")
            slot = f.at(numbers, f.mul(f.load("i64", record, NodeRecord.LEAF), "16"))
            arguments = [("ptr", object), ("ptr", record), ("ptr", "%frame"), ("ptr", slot)]
            good = f.call("i1", "@number", arguments)
            f.ret_if(f.icmp("eq", good, "false", "i1"), "i1", "false")
            loop.continue_()
        with f.if_(f.icmp("eq", kind, str(int(PlanNode.NONE)))):
            f.ret_if(f.icmp("ne", object, address(f, "Py_None"), "ptr"), "i1", "false")
            loop.continue_()

    def _enter(self, kind: str, object: str, record: str) -> None:
        """Go into a container of just the type and length."""
        f = self.f
        f.ret_if(f.icmp("ne", type_of(f, object), f.load("ptr", record, NodeRecord.VALUE), "ptr"), "i1", "false")
        length = f.load("i64", object, PyObjects.SIZE)
        f.ret_if(f.icmp("ne", length, f.load("i64", record, NodeRecord.COUNT)), "i1", "false")
        top = self.top.get()
        for offset, type, var in ((0, "ptr", self.items), (8, "ptr", self.dict), (16, "i64", self.position)):
            f.store(type, var.get(), top, offset)
        self.top.set(f.at(top, _LEVEL))
        self.position.set("0")
        is_dict = f.icmp("eq", kind, str(int(PlanNode.DICT)))
        self.dict.set(f.select(is_dict, object, "null", "ptr"))
        self.items.set(f.at(object, PyObjects.TUPLE_ITEMS))
        with f.if_(f.icmp("eq", kind, str(int(PlanNode.LIST)))):
            self.items.set(f.load("ptr", object, PyObjects.LIST_ITEMS))

    def _leave(self) -> None:
        f = self.f
        top = f.at(self.top.get(), -_LEVEL)
        self.top.set(top)
        for offset, type, var in ((0, "ptr", self.items), (8, "ptr", self.dict), (16, "i64", self.position)):
            var.set(f.load(type, top, offset))
