"""The entry that CPython calls: one for the process, led by data.

``PyObject* dyn_entry(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames)`` is a
``METH_FASTCALL | METH_KEYWORDS`` function. Its ``self`` is a tuple whose first item is a bytes object of eight bytes:
the address of the function's call table (``layout``).

It accepts or passes on. A call that matches a plan runs here from the arguments to the results; every other goes to the
slow path, a Python function, which compiles, raises what there is to raise, and makes the plan for the next such call.
"""

from __future__ import annotations

from dyn.lower.abi import ALLOC, ALLOC_OUTPUT, FAIL, DeviceState, TensorOffsets
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.entry.api import address, call, declare_api, drop
from dyn.runtime.entry.arguments import define_statics, define_walk
from dyn.runtime.entry.axis_order import define_order
from dyn.runtime.entry.conditions import define_test
from dyn.runtime.entry.copies import define_copies
from dyn.runtime.entry.current import define_is_current
from dyn.runtime.entry.device import define_device, has_device, is_on_stream
from dyn.runtime.entry.donation import define_donation, has_donations
from dyn.runtime.entry.foreign import define_foreign
from dyn.runtime.entry.layout import (
    MOST_ORDERED,
    NO_STREAM,
    STACK_BYTES,
    EntryFrame,
    EntryPlan,
    EntryTable,
    EntryVersion,
    OutputRecord,
    PyBuffer,
    PyObjects,
    Span,
)
from dyn.runtime.entry.results import define_build, define_memory, define_wrap

#: Exported functions: the setup, and the entry.
SYMBOLS = ("dyn_entry_setup", "dyn_entry")
#: What ``attempt`` answers when the call is not this plan's, and when it has to be made again by the slow path. No
#: object has such an address.
_NOT_MINE, _SLOW = "inttoptr (i64 1 to ptr)", "inttoptr (i64 2 to ptr)"


def entry_text(runtime_words: int) -> str:
    """The module's LLVM IR, for a runtime table of so many words."""
    module = Module()
    declare_api(module)
    block_name = define_memory(module)
    define_build(module)
    define_statics(module)
    define_walk(module)
    define_foreign(module)
    define_device(module)
    define_copies(module)
    define_order(module)
    define_wrap(module)
    define_donation(module, block_name)
    define_test(module)
    define_is_current(module)
    _define_run(module, runtime_words)
    _define_attempt(module, runtime_words)
    _define_entry(module)
    return module.text()


def _define_entry(module: Module) -> None:
    params = [("ptr", "self"), ("ptr", "args"), ("i64", "nargs"), ("ptr", "kwnames")]
    f = module.function("dyn_entry", "ptr", params)
    table = f.load("ptr", f.load("ptr", "%self", PyObjects.TUPLE_ITEMS), PyObjects.BYTES)
    keywords = f.var("i64", "0")
    with f.if_(f.icmp("ne", "%kwnames", "null", "ptr")):
        keywords.set(f.load("i64", "%kwnames", PyObjects.SIZE))
    state = f.var("ptr", "null")
    asked = f.load("ptr", table, EntryTable.STATE)
    with f.if_(f.icmp("ne", asked, "null", "ptr")):
        state.set(call(f, "ptr", "PyObject_CallNoArgs", [("ptr", asked)]))
        with f.if_(f.is_null(state.get())):
            f.ret("ptr", "null")
    found = f.stack("ptr")
    tracing = _variable(f, "trace_variable", found)
    config = _variable(f, "config_variable", found)
    plain = f.icmp("eq", tracing, address(f, "Py_None"), "ptr")
    plan = f.var("ptr", f.select(plain, f.load("ptr", table, EntryTable.PLANS), "null", "ptr"))
    with f.loop() as loop:
        now = plan.get()
        loop.break_if(f.is_null(now))
        arguments = [
            ("ptr", table), ("ptr", now), ("ptr", config), ("ptr", "%args"), ("i64", "%nargs"),
            ("i64", keywords.get()), ("ptr", "%kwnames"), ("ptr", state.get()),
        ]  # fmt: skip
        result = f.call("ptr", "@attempt", arguments)
        loop.break_if(f.icmp("eq", result, _SLOW, "ptr"))
        with f.if_(f.icmp("ne", result, _NOT_MINE, "ptr")):
            drop(f, state.get())
            f.ret("ptr", result)
        plan.set(f.load("ptr", now, EntryPlan.NEXT))
    drop(f, state.get())
    slow = f.load("ptr", table, EntryTable.SLOW)
    arguments = [("ptr", slow), ("ptr", "%args"), ("i64", "%nargs"), ("ptr", "%kwnames")]
    f.ret("ptr", call(f, "ptr", "PyObject_Vectorcall", arguments))


def _variable(f: FunctionBuilder, name: str, found: str) -> str:
    """Value of a context variable, borrowed: the context keeps it for as long as no Python code runs.

    Both variables have defaults, so that there is always something.
    """
    f.store("ptr", "null", found)
    call(f, "i32", "PyContextVar_Get", [("ptr", address(f, name)), ("ptr", "null"), ("ptr", found)])
    value = f.load("ptr", found)
    drop(f, value)
    return value


def _define_attempt(module: Module, runtime_words: int) -> None:
    """``ptr attempt(…)``: the result of the call if it is the plan's, null with an exception, or a mark."""
    params = [
        ("ptr", "table"), ("ptr", "plan"), ("ptr", "config"), ("ptr", "args"), ("i64", "nargs"), ("i64", "keywords"),
        ("ptr", "kwnames"), ("ptr", "state"),
    ]  # fmt: skip
    # Not inlined: what it takes of the stack has to go when it returns.
    f = module.function("attempt", "ptr", params, exported=False)
    same = f.icmp("eq", f.load("i64", "%plan", EntryPlan.ARGUMENTS), "%nargs")
    same = f.and_(same, f.icmp("eq", f.load("i64", "%plan", EntryPlan.KEYWORDS), "%keywords"), "i1")
    same = f.and_(same, f.icmp("eq", f.load("ptr", "%plan", EntryPlan.CONFIG), "%config", "ptr"), "i1")
    f.ret_if(f.icmp("eq", same, "false", "i1"), "ptr", _NOT_MINE)
    names = f.load("ptr", "%plan", EntryPlan.KEYWORD_NAMES)
    with f.count("%keywords") as number:
        given = f.load("ptr", f.at(f.at("%kwnames", PyObjects.TUPLE_ITEMS), number, "ptr"))
        wanted = f.load("ptr", f.at(names, number, "ptr"))
        f.ret_if(f.icmp("ne", given, wanted, "ptr"), "ptr", _NOT_MINE)
    with f.if_(f.icmp("ne", "%state", "null", "ptr")):
        arguments = [("ptr", "%state"), ("ptr", f.load("ptr", "%plan", EntryPlan.STATE)), ("i32", "2")]
        equal = call(f, "i32", "PyObject_RichCompareBool", arguments)
        with f.if_(f.icmp("slt", equal, "0", "i32")):
            call(f, "void", "PyErr_Clear", [])
        f.ret_if(f.icmp("ne", equal, "1", "i32"), "ptr", _NOT_MINE)
    statics = f.call("i1", "@statics", [("ptr", "%args"), ("ptr", "%plan")])
    f.ret_if(f.icmp("eq", statics, "false", "i1"), "ptr", _NOT_MINE)
    # The frame has room for the versions that there are now. Others may be added where the arguments run Python code.
    versions = f.load("ptr", "%plan", EntryPlan.VERSIONS)
    bytes = _frame_bytes(f, runtime_words)
    large = f.icmp("sgt", bytes, str(STACK_BYTES))
    frame = f.var("ptr")
    branch = f.if_else(large)
    with branch.then():
        frame.set(call(f, "ptr", "PyMem_RawMalloc", [("i64", bytes)]))
        f.ret_if(f.is_null(frame.get()), "ptr", _SLOW)
    with branch.otherwise():
        frame.set(f.alloca(bytes))
    f.store("ptr", versions, frame.get(), EntryFrame.VERSION)
    arguments = [("ptr", "%table"), ("ptr", "%plan"), ("ptr", "%args"), ("ptr", frame.get())]
    result = f.call("ptr", "@run", arguments)
    with f.if_(large):
        call(f, "void", "PyMem_RawFree", [("ptr", frame.get())])
    f.ret("ptr", result)


def _fixed_bytes(runtime_words: int) -> int:
    """Bytes of a frame before its parts: its own words, the runtime table, and the state of one for a device."""
    return EntryFrame.BYTES + 8 * (runtime_words + DeviceState.WORDS)


#: The parts of a frame after these: the count of each, and the bytes of one.
_PARTS = (
    (EntryPlan.INPUTS, TensorOffsets.BYTES), (EntryPlan.LEAVES, 8), (EntryPlan.LEAVES, 16), (EntryPlan.OUTPUTS, 8),
    (EntryPlan.OUTPUTS, TensorOffsets.BYTES), (EntryPlan.OUTPUT_DIMS, 8), (EntryPlan.STACK, 8),
    (EntryPlan.ROOM, 8), (EntryPlan.FOREIGN, PyBuffer.BYTES),
    (EntryPlan.LEAVES, 8), (EntryPlan.LEAVES, 8), (EntryPlan.SPANS, Span.BYTES), (EntryPlan.DONATED, 8),
)  # fmt: skip


def _frame_bytes(f: FunctionBuilder, runtime_words: int) -> str:
    total = str(_fixed_bytes(runtime_words))
    for count, size in _PARTS:
        total = f.add(total, f.mul(f.load("i64", "%plan", count), str(size)))
    return total


def _parts(f: FunctionBuilder, runtime_words: int) -> list[str]:
    """The address of each part. Numbers come right after objects, where ``walk`` looks for them."""
    at = f.at("%frame", _fixed_bytes(runtime_words))
    parts: list[str] = []
    for count, size in _PARTS:
        parts.append(at)
        at = f.at(at, f.mul(f.load("i64", "%plan", count), str(size)))
    return parts


def _define_run(module: Module, runtime_words: int) -> None:
    """``ptr run(table, plan, args, frame)``: describe the arguments, choose a version, run it, build the results."""
    _define_made(module, runtime_words)
    params = [("ptr", "table"), ("ptr", "plan"), ("ptr", "args"), ("ptr", "frame")]
    f = module.function("run", "ptr", params, exported=False)
    inputs, objects, _, results, outputs, dims, stack, *parts = _parts(f, runtime_words)
    room, buffers, blocks, holders, spans, taken_out = parts
    for field, part in (
        (EntryFrame.INPUTS, inputs), (EntryFrame.OBJECTS, objects), (EntryFrame.RESULTS, results),
        (EntryFrame.PLAN, "%plan"),
        (EntryFrame.THREAD, "null"), (EntryFrame.ROOM, room), (EntryFrame.BUFFERS, buffers),
        (EntryFrame.BLOCKS, blocks),
        (EntryFrame.HOLDERS, holders), (EntryFrame.SPANS, spans), (EntryFrame.TAKEN_OUT, taken_out),
    ):  # fmt: skip
        f.store("ptr", part, "%frame", field)
    f.store("i64", "0", "%frame", EntryFrame.HELD)
    f.store("i64", "0", "%frame", EntryFrame.TAGGED)
    f.store("i64", "0", "%frame", EntryFrame.GIVEN)
    f.store("i64", "0", "%frame", EntryFrame.ASKED)
    f.store("i64", str(NO_STREAM), "%frame", EntryFrame.STREAM)
    walked = f.call("i1", "@walk", [("ptr", "%args"), ("ptr", "%plan"), ("ptr", "%frame")])
    f.ret_if(f.icmp("eq", walked, "false", "i1"), "ptr", _NOT_MINE)
    arguments = [("ptr", name) for name in ("%table", "%plan", "%frame", outputs, dims, stack)]
    made = f.call("ptr", "@made", arguments)
    foreign = f.load("i64", "%plan", EntryPlan.FOREIGN)
    with f.count(foreign) as number:
        buffer = f.at(buffers, f.mul(number, str(PyBuffer.BYTES)))
        with f.if_(f.icmp("ne", f.load("ptr", buffer, PyBuffer.OBJECT), "null", "ptr")):
            call(f, "void", "PyBuffer_Release", [("ptr", buffer)])
    with f.if_(f.icmp("ne", f.load("i64", "%frame", EntryFrame.HELD), "0")):
        f.call("void", "@drop_leaves", [("ptr", "%frame")])
    f.ret("ptr", made)


def _define_made(module: Module, runtime_words: int) -> None:
    """``ptr made(table, plan, frame, outputs, dims, stack)``: the rest of ``run``; held leaves and buffers stay so."""
    params = [("ptr", name) for name in ("table", "plan", "frame", "outputs", "dims", "stack")]
    f = module.function("made", "ptr", params, exported=False)
    with f.if_(f.icmp("ne", f.load("i64", "%plan", EntryPlan.FOREIGN), "0")):
        read = f.call("i1", "@read_all", [("ptr", "%frame")])
        f.ret_if(f.icmp("eq", read, "false", "i1"), "ptr", _NOT_MINE)
    inputs, results = f.load("ptr", "%frame", EntryFrame.INPUTS), f.load("ptr", "%frame", EntryFrame.RESULTS)
    version = _choose(f, f.load("ptr", "%frame", EntryFrame.VERSION), inputs)
    f.store("ptr", version, "%frame", EntryFrame.VERSION)
    on_device = has_device(f, version)
    odd = f.icmp("ne", f.load("i64", "%frame", EntryFrame.TAGGED), "0")
    f.ret_if(f.and_(on_device, odd, "i1"), "ptr", _SLOW)  # what goes to a device lies row by row
    donates = has_donations(f, version)
    with f.if_(donates):
        f.call("void", "@give", [("ptr", "%frame")])
        f.call("void", "@take_out", [("ptr", "%frame")])
    f.store("ptr", "null", "%frame", EntryFrame.ORDER)
    order = f.stack(f"[{MOST_ORDERED} x i64]")
    with f.if_(f.icmp("ne", f.load("i64", "%frame", EntryFrame.TAGGED), "0")):
        f.call("void", "@reorder", [("ptr", "%frame"), ("ptr", order)])
    tagged = f.icmp("ne", f.load("i64", "%frame", EntryFrame.TAGGED), "0")
    with f.if_(tagged):
        copied = f.call(
            "i1", "@copy_tagged", [("ptr", "%frame"), ("ptr", f.load("ptr", version, EntryVersion.RUNTIME))]
        )
        with f.if_(f.icmp("eq", copied, "false", "i1")):
            f.call("void", "@free_copies", [("ptr", "%frame")])
            with f.if_(donates):
                f.call("void", "@put_back", [("ptr", "%frame")])
            f.ret("ptr", _SLOW)
    _captured(f, version, inputs)
    _outputs(f, version, results, "%outputs", "%dims")
    f.store("i64", "0", "%frame", EntryFrame.SHARED_LEFT)
    f.store("ptr", "null", "%frame", EntryFrame.SHARED_CAPSULE)
    runtime = f.at("%frame", EntryFrame.BYTES)
    _runtime(f, version, runtime, runtime_words)
    status = f.var("i32", "0")
    branch = f.if_else(on_device)
    with branch.then():
        begun = f.call("i1", "@device_begin", [("ptr", "%frame"), ("ptr", version)])
        with f.if_(f.icmp("eq", begun, "false", "i1")):
            with f.if_(donates):
                f.call("void", "@put_back", [("ptr", "%frame")])
            f.ret("ptr", _SLOW)
        status.set(f.call("i32", "@device_stage", [("ptr", "%frame"), ("ptr", version)]))
    with branch.otherwise(), f.if_(f.icmp("eq", f.load("i64", "%frame", EntryFrame.PENDING), "0")):
        f.call("void", "@let_go", [("ptr", "%frame")])
    context = f.load("ptr", version, EntryVersion.CONTEXT)
    arguments = [("ptr", runtime), ("ptr", context), ("ptr", inputs), ("ptr", "%outputs")]
    with f.if_(f.icmp("eq", status.get(), "0", "i32")):
        status.set(f.call("i32", f.load("ptr", version, EntryVersion.RUN), arguments))
    branch = f.if_else(on_device)
    with branch.then():
        ended = [("ptr", "%frame"), ("ptr", version), ("ptr", "%outputs"), ("i32", status.get())]
        f.call("void", "@device_end", ended)
    with branch.otherwise():
        f.call("void", "@take_back", [("ptr", "%frame")])
    drop(f, f.load("ptr", "%frame", EntryFrame.SHARED_CAPSULE))
    with f.if_(tagged):
        f.call("void", "@free_copies", [("ptr", "%frame")])
    with f.if_(f.icmp("ne", status.get(), "0", "i32")):
        _drop_results(f, version, results)
        call(f, "void", "PyErr_Clear", [])
        with f.if_(donates):
            f.call("void", "@put_back", [("ptr", "%frame")])
        gave = f.and_(donates, f.icmp("ne", f.load("i64", "%frame", EntryFrame.GIVEN), "0"), "i1")
        with f.if_(f.or_(gave, on_device, "i1")):
            again = f.call("i1", "@failed", [("ptr", "%frame")])
            f.ret_if(f.icmp("eq", again, "false", "i1"), "ptr", "null")
        f.ret("ptr", _SLOW)
    good = f.var("i1", "true")
    branch = f.if_else(on_device)
    with branch.then():
        made = [("ptr", "%frame"), ("ptr", version), ("ptr", "%outputs"), ("ptr", results)]
        good.set(f.call("i1", "@device_results", made))
    with branch.otherwise(), f.if_(donates):
        good.set(f.call("i1", "@take", [("ptr", "%frame"), ("ptr", "%outputs")]))
    f.store("i64", f.add(f.load("i64", "%table", EntryTable.HITS), "1"), "%table", EntryTable.HITS)
    with f.if_(f.and_(good.get(), f.icmp("ne", f.load("i64", version, EntryVersion.WRAPS), "0"), "i1")):
        good.set(f.call("i1", "@wrap", [("ptr", version), ("ptr", results)]))
    with f.if_(donates):
        good.set(f.call("i1", "@use_up", [("ptr", "%frame"), ("i1", good.get())]))
    with f.if_(f.icmp("eq", good.get(), "false", "i1")):
        _drop_results(f, version, results)
        f.ret("ptr", "null")
    objects = f.load("ptr", "%frame", EntryFrame.OBJECTS)
    arguments = [
        ("ptr", f.load("ptr", version, EntryVersion.CODE)),
        ("ptr", results),
        ("ptr", objects),
        ("ptr", "%stack"),
    ]
    tree = f.call("ptr", "@build", arguments)
    with f.if_(f.is_null(tree)):  # results that no container had taken yet
        _drop_results(f, version, results)
        f.ret("ptr", "null")
    epilogue = f.load("ptr", version, EntryVersion.EPILOGUE)
    with f.if_(f.is_null(epilogue)):
        f.ret("ptr", tree)
    result = call(f, "ptr", "PyObject_CallOneArg", [("ptr", epilogue), ("ptr", tree)])
    drop(f, tree)
    f.ret("ptr", result)


def _drop_results(f: FunctionBuilder, version: str, results: str) -> None:
    with f.count(f.load("i64", version, EntryVersion.OUTPUT_COUNT)) as number:
        drop(f, f.load("ptr", f.at(results, number, "ptr")))


def _choose(f: FunctionBuilder, versions: str, inputs: str) -> str:
    """The first version whose guards hold and that is current; without one the call is not this plan's."""
    version = f.var("ptr", versions)
    with f.loop() as loop:
        now = version.get()
        f.ret_if(f.is_null(now), "ptr", _NOT_MINE)
        fits = f.var("i1", "true")
        test, guards = f.load("ptr", now, EntryVersion.TEST), f.load("ptr", now, EntryVersion.GUARDS)
        with f.if_(f.icmp("ne", test, "null", "ptr")):
            fits.set(f.call("i1", "@test", [("ptr", test), ("ptr", inputs)]))
        with f.if_(f.icmp("ne", guards, "null", "ptr")):
            held = f.icmp("ne", f.call("i32", guards, [("ptr", inputs)]), "0", "i32")
            fits.set(f.and_(fits.get(), held, "i1"))
        relies = f.or_(f.load("i64", now, EntryVersion.DICT_COUNT), f.load("i64", now, EntryVersion.TENSOR_COUNT))
        for count in (EntryVersion.LIST_COUNT, EntryVersion.NAME_COUNT):
            relies = f.or_(relies, f.load("i64", now, count))
        with f.if_(f.and_(fits.get(), f.icmp("ne", relies, "0"), "i1")):
            fits.set(f.call("i1", "@is_current", [("ptr", now)]))
        with f.if_(f.and_(fits.get(), has_device(f, now), "i1")):
            fits.set(is_on_stream(f, now))
        loop.break_if(fits.get())
        version.set(f.load("ptr", now, EntryVersion.NEXT))
    return version.get()


def _captured(f: FunctionBuilder, version: str, inputs: str) -> None:
    """The tensors of captured arrays, after those of the arguments."""
    start = f.at(inputs, f.mul(f.load("i64", version, EntryVersion.ARGUMENTS), str(TensorOffsets.BYTES)))
    captured = f.load("ptr", version, EntryVersion.CAPTURED)
    words = f.mul(f.load("i64", version, EntryVersion.CAPTURED_COUNT), str(TensorOffsets.BYTES // 8))
    with f.count(words) as word:
        f.store("i64", f.load("i64", f.at(captured, word, "i64")), f.at(start, word, "i64"))
    f.store("i64", f.load("i64", version, EntryVersion.CAPTURED_BYTES), "%frame", EntryFrame.WORK)
    pending = f.sub(f.load("i64", version, EntryVersion.OUTPUT_COUNT), f.load("i64", "%frame", EntryFrame.GIVEN))
    f.store("i64", pending, "%frame", EntryFrame.PENDING)


def _outputs(f: FunctionBuilder, version: str, results: str, outputs: str, dims: str) -> None:
    """Tensors for the results, whose dims the host program will write."""
    at = f.var("ptr", dims)
    records = f.load("ptr", version, EntryVersion.OUTPUTS)
    with f.count(f.load("i64", version, EntryVersion.OUTPUT_COUNT)) as number:
        f.store("ptr", "null", f.at(results, number, "ptr"))
        tensor = f.at(outputs, f.mul(number, str(TensorOffsets.BYTES)))
        rank = f.load("i64", f.at(records, f.mul(number, str(OutputRecord.BYTES))), OutputRecord.RANK)
        f.store("ptr", at.get(), tensor, TensorOffsets.DIMS)
        f.store("ptr", "null", tensor, TensorOffsets.STRIDES)
        f.store("i32", f.cast("trunc", rank, "i64", "i32"), tensor, TensorOffsets.RANK)
        # What a device's runtime table reads and writes.
        kind = f.load("i64", f.at(records, f.mul(number, str(OutputRecord.BYTES))), OutputRecord.TYPE)
        f.store("i32", f.cast("trunc", kind, "i64", "i32"), tensor, TensorOffsets.TAG)
        f.store("ptr", "null", tensor, TensorOffsets.DATA)
        at.set(f.at(at.get(), rank, "i64"))


def _runtime(f: FunctionBuilder, version: str, runtime: str, words: int) -> None:
    """A runtime table of this call's own. Its state is the frame, and three of its functions are the entry's; on a
    device it has a state as the device's functions know it."""
    shared = f.load("ptr", version, EntryVersion.RUNTIME)
    for word in range(words):
        f.store("ptr", f.load("ptr", shared, 8 * word), runtime, 8 * word)
    f.store("ptr", f.load("ptr", shared, 8 * ALLOC), "%frame", EntryFrame.ALLOC)
    f.store("ptr", "%frame", runtime)
    branch = f.if_else(has_device(f, version))
    with branch.then():
        state = f.at(runtime, 8 * words)
        f.call("void", "@device_state", [("ptr", "%frame"), ("ptr", version), ("ptr", runtime), ("ptr", state)])
    with branch.otherwise():
        for slot, function in ((ALLOC, "entry_alloc"), (ALLOC_OUTPUT, "entry_alloc_output"), (FAIL, "entry_fail")):
            f.store("ptr", f"@{function}", runtime, 8 * slot)
