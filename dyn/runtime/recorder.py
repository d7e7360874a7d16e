"""Recorder of calls and launches, for profiles, in LLVM IR.

::

    i32  dyn_recorder_setup()                         once a process: 0, or an error number of pthread_key_create
    void dyn_recorder_limit(i64 chunks)               how many chunks may be taken from now on, by all threads together
    ptr  dyn_record_begin(rt, ctx, values, i64 count) what ``begin`` of a runtime table is while a profile is on
    ptr  dyn_recorder_threads()                       the first of the threads that have recorded
    i64  dyn_recorder_dropped()                       records there was no room for since the last question
    void dyn_recorder_free(ptr)                       gives back a chunk or a thread that was read

A host program asks ``begin`` for the table that it uses. The recorder's is a copy of the one that was given, in which
the functions that start work are the recorder's: they note the time, have the given table's do the work, and note the
time again. A kernel is launched through a function that does the same for each piece of the range, on whichever thread
takes it. A launch on a device is put between two events of its driver's, whose times are asked when the recording is
read. So nothing is recorded, looked at or paid for where ``begin`` is null; and a program that began before a
profile did, or that ends after it, uses one table throughout.

Each thread writes to chunks of its own (:class:`Chunk`), and publishes a record by the count of the words that are in
use. Whoever reads (one at a time; ``dyn.backends.recording``) follows the same chunks from their beginning, and gives
back those that their writer has left: so neither waits for the other. A thread that ends is marked, for the reader to
give back. A record that there is no room for is counted, and dropped.
"""

from __future__ import annotations

from dyn.lower.abi import BEGIN, CALL, END, FETCH, LAUNCH, LIBRARY, PROGRAM_NUMBER, TABLE_WORDS, DeviceState
from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.pool import define_now


class EventRecord:
    """Kinds of records, and the words of each. The first word is the kind, and the record's words above 8 bits.

    Times are nanoseconds of CLOCK_MONOTONIC. Numbers of calls and launches are unique in the process. The values of the
    program's symbols follow launches and calls, as far as they are known by then.
    """

    LAUNCH, PIECE, CALL, EVENTS = 1, 2, 3, 4
    #: header, number of the program, call, launch, dispatch, grid (-1 of what is no kernel), start, end
    LAUNCH_WORDS = 8
    #: header, launch, first and last + 1 of the GRID iterations, start, end
    PIECE_WORDS = 6
    #: header, number of the program, call, status, start, end
    CALL_WORDS = 6
    #: header, launch, GRID iterations, the events of its beginning and its end, number of the device, stream
    EVENTS_WORDS = 7


class Chunk:
    """A thread's records: byte offsets."""

    NEXT, USED, DATA, BYTES = 0, 8, 16, 1 << 16
    WORDS = (BYTES - DATA) // 8


class Thread:
    """A thread that has recorded: byte offsets. ``FIRST`` and ``READ`` are the reader's."""

    NEXT, ID, CHUNK, FRAMES, COUNT, ENDED, FIRST, READ, BYTES = 0, 8, 16, 24, 32, 40, 48, 56, 64


#: Bytes of a table.
_TABLE = 8 * TABLE_WORDS


class _RecordedCall:
    """A call in progress: byte offsets behind the table that it uses. ``NEXT`` links frames that no call uses."""

    PROGRAM, CALL, VALUES, COUNT, THREAD, GIVEN, START, NEXT, BYTES = 0, 8, 16, 24, 32, 40, 48, 56, 64


#: Where a frame, its table included, has the next one that no call uses.
NEXT_FRAME = _TABLE + _RecordedCall.NEXT
#: Symbols beyond so many are left out of records.
_MOST_VALUES = 1024
#: ``gettid``
_SYS_GETTID = 186


#: The functions that the module defines for others.
SYMBOLS = (
    "dyn_recorder_setup", "dyn_recorder_limit", "dyn_record_begin", "dyn_recorder_threads", "dyn_recorder_dropped",
    "dyn_recorder_free",
)  # fmt: skip


def recorder_text() -> str:
    """The module's LLVM IR. It is a module of its own, which only a process that records compiles or loads."""
    m = Module()
    m.variable("recorder.key", "i32", align=64)
    m.variable("recorder.threads", "ptr", "null", align=64)
    m.variable("recorder.left", "i64", align=64)
    m.variable("recorder.dropped", "i64")
    for name, result, arguments in (
        ("pthread_key_create", "i32", ["ptr", "ptr"]),
        ("pthread_getspecific", "ptr", ["i32"]),
        ("pthread_setspecific", "i32", ["i32", "ptr"]),
        ("aligned_alloc", "ptr", ["i64", "i64"]),
        ("free", "void", ["ptr"]),
    ):
        m.declare(name, result, arguments)
    m.declare("syscall", "i64", ["i64"], varargs=True)
    define_now(m, "recorder.now")
    _setup(m)
    _thread(m)
    _room(m)
    _begin(m)
    _end(m)
    _piece(m)
    _launch(m)
    _launch_on_device(m)
    _calls(m)
    return m.text()


def _setup(m: Module) -> None:
    f = m.function("dyn_recorder_setup", "i32", [])
    f.ret("i32", f.call("i32", "@pthread_key_create", [("ptr", "@recorder.key"), ("ptr", "@recorder.thread_ended")]))

    f = m.function("recorder.thread_ended", "void", [("ptr", "thread")], exported=False)
    f.store_atomic("i64", "1", f.at("%thread", Thread.ENDED))
    f.ret()

    f = m.function("dyn_recorder_limit", "void", [("i64", "chunks")])
    f.store_atomic("i64", "%chunks", "@recorder.left")
    f.ret()

    f = m.function("dyn_recorder_threads", "ptr", [])
    f.ret("ptr", f.load_atomic("ptr", "@recorder.threads"))

    f = m.function("dyn_recorder_dropped", "i64", [])
    f.ret("i64", f.rmw("xchg", "i64", "@recorder.dropped", "0"))

    f = m.function("dyn_recorder_free", "void", [("ptr", "memory")])
    f.call("void", "@free", [("ptr", "%memory")])
    f.ret()


def _memory(f: FunctionBuilder, bytes: int) -> str:
    return f.call("ptr", "@aligned_alloc", [("i64", "64"), ("i64", str(-(-bytes // 64) * 64))])


def _chunk(m: Module) -> None:
    """A new chunk for a record; null where there may be none, or is no memory: then the record is counted."""
    f = m.function("recorder.chunk", "ptr", [], exported=False)
    left = f.rmw("sub", "i64", "@recorder.left", "1", "monotonic")
    with f.if_(f.icmp("sgt", left, "0")):
        chunk = _memory(f, Chunk.BYTES)
        with f.if_(f.icmp("ne", chunk, "null", "ptr")):
            f.store("ptr", "null", chunk, Chunk.NEXT)
            f.store("i64", "0", chunk, Chunk.USED)
            f.ret("ptr", chunk)
    f.rmw("add", "i64", "@recorder.left", "1", "monotonic")
    f.rmw("add", "i64", "@recorder.dropped", "1", "monotonic")
    f.ret("ptr", "null")


def _thread(m: Module) -> None:
    """The calling thread's, made when it first records; null where there is no memory."""
    _chunk(m)
    f = m.function("recorder.thread", "ptr", [], exported=False)
    key = f.load("i32", "@recorder.key")
    known = f.call("ptr", "@pthread_getspecific", [("i32", key)])
    f.ret_if(f.icmp("ne", known, "null", "ptr"), "ptr", known)
    chunk = f.call("ptr", "@recorder.chunk", [])
    f.ret_if(f.is_null(chunk), "ptr", "null")
    thread = _memory(f, Thread.BYTES)
    with f.if_(f.is_null(thread)):
        f.call("void", "@free", [("ptr", chunk)])
        f.ret("ptr", "null")
    for offset in (Thread.COUNT, Thread.ENDED, Thread.READ):
        f.store("i64", "0", thread, offset)
    f.store("ptr", "null", thread, Thread.FRAMES)
    f.store("ptr", chunk, thread, Thread.CHUNK)
    f.store("ptr", chunk, thread, Thread.FIRST)
    number = f.call("i64", "@syscall", [("i64", str(_SYS_GETTID))], signature="i64 (i64, ...)")
    f.store("i64", number, thread, Thread.ID)
    f.call("i32", "@pthread_setspecific", [("i32", key), ("ptr", thread)])
    with f.loop() as loop:
        first = f.load_atomic("ptr", "@recorder.threads")
        f.store("ptr", first, thread, Thread.NEXT)
        _, done = f.cas("ptr", "@recorder.threads", first, thread)
        loop.break_if(done)
    f.ret("ptr", thread)


def _room(m: Module) -> None:
    """Code that makes room for a record of so many words (null where it is dropped), and code that publishes it."""
    params = [("ptr", "thread"), ("i64", "words")]
    f = m.function("recorder.room", "ptr", params, exported=False)
    chunk = f.load("ptr", "%thread", Thread.CHUNK)
    used = f.load("i64", chunk, Chunk.USED)
    with f.if_(f.icmp("sgt", f.add(used, "%words"), str(Chunk.WORDS))):
        following = f.call("ptr", "@recorder.chunk", [])
        f.ret_if(f.is_null(following), "ptr", "null")
        f.store("ptr", following, "%thread", Thread.CHUNK)
        f.store_atomic("ptr", following, f.at(chunk, Chunk.NEXT))
        f.ret("ptr", f.at(following, Chunk.DATA))
    f.ret("ptr", f.at(f.at(chunk, Chunk.DATA), used, "i64"))

    f = m.function("recorder.publish", "void", params, exported=False)
    used = f.at(f.load("ptr", "%thread", Thread.CHUNK), Chunk.USED)
    f.store_atomic("i64", f.add(f.load("i64", used), "%words"), used)
    f.ret()

    f = m.function("recorder.number", "i64", [("ptr", "thread")], exported=False)
    count = f.add(f.load("i64", "%thread", Thread.COUNT), "1")
    f.store("i64", count, "%thread", Thread.COUNT)
    f.ret("i64", f.or_(f.binary("shl", f.load("i64", "%thread", Thread.ID), "40"), count))


def _record(f: FunctionBuilder, thread: str, kind: int, words: list[str], frame: str | None = None) -> str:
    """Write a record: its words after the first, and the values of the symbols of a call. Gives where it is, or null
    where there was no room."""
    count = "0" if frame is None else f.load("i64", frame, _RecordedCall.COUNT)
    total = f.add(count, str(len(words) + 1))
    at = f.call("ptr", "@recorder.room", [("ptr", thread), ("i64", total)])
    with f.if_(f.icmp("ne", at, "null", "ptr")):
        f.store("i64", f.or_(f.binary("shl", total, "8"), str(kind)), at)
        for number, word in enumerate(words, 1):
            f.store("i64", word, at, 8 * number)
        if frame is not None:
            values, behind = f.load("ptr", frame, _RecordedCall.VALUES), f.at(at, 8 * (len(words) + 1))
            with f.count(count) as i:
                f.store("i64", f.load("i64", f.at(values, i, "i64")), f.at(behind, i, "i64"))
        f.call("void", "@recorder.publish", [("ptr", thread), ("i64", total)])
    return at


def _now(f: FunctionBuilder) -> str:
    return f.call("i64", "@recorder.now", [])


def _begin(m: Module) -> None:
    f = m.function("dyn_record_begin", "ptr", [("ptr", "rt"), ("ptr", "ctx"), ("ptr", "values"), ("i64", "count")])
    start = _now(f)
    thread = f.call("ptr", "@recorder.thread", [])
    f.ret_if(f.is_null(thread), "ptr", "%rt")
    own = f.var("ptr", f.load("ptr", thread, Thread.FRAMES))
    branch = f.if_else(f.is_null(own.get()))
    with branch.then():
        own.set(_memory(f, _TABLE + _RecordedCall.BYTES))
        f.ret_if(f.is_null(own.get()), "ptr", "%rt")
    with branch.otherwise():
        f.store("ptr", f.load("ptr", own.get(), _TABLE + _RecordedCall.NEXT), thread, Thread.FRAMES)
    made = own.get()
    for offset in range(0, _TABLE, 8):
        f.store("ptr", f.load("ptr", "%rt", offset), made, offset)
    there = f.icmp("ne", f.load("ptr", "%rt", 8 * FETCH), "null", "ptr")
    launch = f.select(there, "@recorder.launch_on_device", "@recorder.launch", "ptr")
    for slot, function in (
        (LAUNCH, launch), (LIBRARY, "@recorder.library"), (CALL, "@recorder.call"), (BEGIN, "null"),
        (END, "@recorder.end"),
    ):  # fmt: skip
        f.store("ptr", function, made, 8 * slot)
    few = f.icmp("sle", "%count", str(_MOST_VALUES))
    for type, value, offset in (
        ("i64", f.load("i64", "%ctx", PROGRAM_NUMBER), _RecordedCall.PROGRAM),
        ("i64", f.call("i64", "@recorder.number", [("ptr", thread)]), _RecordedCall.CALL),
        ("ptr", "%values", _RecordedCall.VALUES),
        ("i64", f.select(few, "%count", str(_MOST_VALUES)), _RecordedCall.COUNT),
        ("ptr", thread, _RecordedCall.THREAD),
        ("ptr", "%rt", _RecordedCall.GIVEN),
        ("i64", start, _RecordedCall.START),
    ):
        f.store(type, value, made, _TABLE + offset)
    f.ret("ptr", made)


def _end(m: Module) -> None:
    f = m.function("recorder.end", "void", [("ptr", "rt"), ("i32", "status")], exported=False)
    frame = f.at("%rt", _TABLE)
    thread = f.load("ptr", frame, _RecordedCall.THREAD)
    program, call = f.load("i64", frame, _RecordedCall.PROGRAM), f.load("i64", frame, _RecordedCall.CALL)
    status, start = f.cast("sext", "%status", "i32", "i64"), f.load("i64", frame, _RecordedCall.START)
    _record(f, thread, EventRecord.CALL, [program, call, status, start, _now(f)], frame)
    f.store("ptr", f.load("ptr", thread, Thread.FRAMES), frame, _RecordedCall.NEXT)
    f.store("ptr", "%rt", thread, Thread.FRAMES)
    f.ret()


# What a piece is given for its dims, in bytes.
_KERNEL, _DIMS, _NUMBER = 0, 8, 16


def _piece(m: Module) -> None:
    """A kernel, as the given table launches it: runs the real one over a piece of the range."""
    params = [("ptr", "ctx"), ("ptr", "buffers"), ("ptr", "scratch"), ("i64", "begin"), ("i64", "end")]
    f = m.function("recorder.piece", "void", params, exported=False)
    start = _now(f)
    kernel, dims = f.load("ptr", "%ctx", _KERNEL), f.load("ptr", "%ctx", _DIMS)
    f.call(
        "void", kernel, [("ptr", dims), ("ptr", "%buffers"), ("ptr", "%scratch"), ("i64", "%begin"), ("i64", "%end")]
    )
    end = _now(f)
    thread = f.call("ptr", "@recorder.thread", [])
    with f.if_(f.icmp("ne", thread, "null", "ptr")):
        _record(f, thread, EventRecord.PIECE, [f.load("i64", "%ctx", _NUMBER), "%begin", "%end", start, end])
    f.ret()


def _launch(m: Module) -> None:
    params = [("ptr", "rt"), ("ptr", "kernel"), ("i64", "grid"), ("ptr", "dims"), ("ptr", "buffers"), ("i64", "bytes")]
    params += [("i64", "cost"), ("i64", "pieces"), ("i64", "dispatch")]
    f = m.function("recorder.launch", "i32", params, exported=False)
    frame = f.at("%rt", _TABLE)
    thread = f.load("ptr", frame, _RecordedCall.THREAD)
    number = f.call("i64", "@recorder.number", [("ptr", thread)])
    ctx = f.stack("[3 x i64]")
    f.store("ptr", "%kernel", ctx, _KERNEL)
    f.store("ptr", "%dims", ctx, _DIMS)
    f.store("i64", number, ctx, _NUMBER)
    given = f.load("ptr", frame, _RecordedCall.GIVEN)
    start = _now(f)
    arguments = [
        ("ptr", given), ("ptr", "@recorder.piece"), ("i64", "%grid"), ("ptr", ctx), ("ptr", "%buffers"),
        ("i64", "%bytes"), ("i64", "%cost"), ("i64", "%pieces"), ("i64", "%dispatch"),
    ]  # fmt: skip
    status = f.call("i32", f.load("ptr", given, 8 * LAUNCH), arguments)
    _launched(f, frame, number, "%grid", start)
    f.ret("i32", status)


def _launch_on_device(m: Module) -> None:
    """A launch on a device, between two events. Where there is no event its time is not known."""
    params = [("ptr", "rt"), ("ptr", "kernel"), ("i64", "grid"), ("ptr", "dims"), ("ptr", "buffers"), ("i64", "bytes")]
    params += [("i64", "cost"), ("i64", "pieces"), ("i64", "dispatch")]
    f = m.function("recorder.launch_on_device", "i32", params, exported=False)
    frame = f.at("%rt", _TABLE)
    thread = f.load("ptr", frame, _RecordedCall.THREAD)
    number = f.call("i64", "@recorder.number", [("ptr", thread)])
    state, given = f.load("ptr", "%rt"), f.load("ptr", frame, _RecordedCall.GIVEN)
    stream, record = f.load("ptr", state, DeviceState.STREAM), f.load("ptr", state, DeviceState.RECORD_EVENT)
    events = [f.stack("ptr"), f.stack("ptr")]
    for event in events:
        f.store("ptr", "null", event)
        f.call("i32", f.load("ptr", state, DeviceState.CREATE_EVENT), [("ptr", event), ("i32", "0")])
    f.call("i32", record, [("ptr", f.load("ptr", events[0])), ("ptr", stream)])
    start = _now(f)
    arguments = [("ptr", given), *[(type, f"%{name}") for type, name in params[1:]]]
    status = f.call("i32", f.load("ptr", given, 8 * LAUNCH), arguments)
    _launched(f, frame, number, "%grid", start)
    f.call("i32", record, [("ptr", f.load("ptr", events[1])), ("ptr", stream)])
    marks = [f.load("i64", event) for event in events]
    device, place = f.load("i64", state, DeviceState.DEVICE), f.load("i64", state, DeviceState.STREAM)
    kept = _record(f, thread, EventRecord.EVENTS, [number, "%grid", *marks, device, place])
    with f.if_(f.is_null(kept)):  # nobody will read them
        for event in events:
            f.call("i32", f.load("ptr", state, DeviceState.DESTROY_EVENT), [("ptr", f.load("ptr", event))])
    f.ret("i32", status)


def _launched(f: FunctionBuilder, frame: str, number: str, grid: str, start: str) -> None:
    """Record what a dispatch has started, and that it ends now."""
    end = _now(f)
    program, call = f.load("i64", frame, _RecordedCall.PROGRAM), f.load("i64", frame, _RecordedCall.CALL)
    words = [program, call, number, "%dispatch", grid, start, end]
    _record(f, f.load("ptr", frame, _RecordedCall.THREAD), EventRecord.LAUNCH, words, frame)


def _calls(m: Module) -> None:
    """Library calls, and calls of functions outside: on the thread that makes them."""
    for name, slot, params in (
        ("recorder.library", LIBRARY, ("rt", "number", "tensors", "values")),
        ("recorder.call", CALL, ("rt", "function", "context", "in", "out")),
    ):
        f = m.function(name, "i32", [*[("ptr", param) for param in params], ("i64", "dispatch")], exported=False)
        frame = f.at("%rt", _TABLE)
        given = f.load("ptr", frame, _RecordedCall.GIVEN)
        number = f.call("i64", "@recorder.number", [("ptr", f.load("ptr", frame, _RecordedCall.THREAD))])
        start = _now(f)
        arguments = [("ptr", given), *[("ptr", f"%{param}") for param in params[1:]], ("i64", "%dispatch")]
        status = f.call("i32", f.load("ptr", given, 8 * slot), arguments)
        _launched(f, frame, number, "-1", start)
        f.ret("i32", status)
