"""The ring of pinned memory of a device (``dyn.runtime.staging``), in LLVM IR.

::

    i64 dyn_staging_copy(ptr staging, ptr into, ptr parts, i64 count, i64 bytes, ptr stream)

copies parts of this machine's memory (``StagedPart``) to ``bytes`` of a device's, through the ring where they are few
enough and there is pinned memory, and otherwise from where they lie, waiting for the stream. They may change when it
returns. It answers 0, or what the driver did, with the number of that function in ``CALLS`` in the upper half.
"""

from __future__ import annotations

from dyn.lower.native import FunctionBuilder, Module
from dyn.runtime.driver import OUT_OF_MEMORY
from dyn.runtime.staging import (
    ALIGNED,
    CALLS,
    MOST_BYTES,
    MOST_PENDING,
    RING_BYTES,
    StagedPart,
    StagingRecord,
    answer_of,
)

_NO_TIMING = 2
#: The answer where there is no pinned memory.
_NO_MEMORY = answer_of("pinned", OUT_OF_MEMORY)
#: Arguments of ``dyn_staging_copy``, and of the part of it that goes through the ring.
_COPY = [("ptr", "staging"), ("ptr", "into"), ("ptr", "parts"), ("i64", "count"), ("i64", "bytes"), ("ptr", "stream")]


def add_staging(m: Module) -> None:
    """Put the ring's functions into a module."""
    for name, result, arguments in (
        ("pthread_mutex_lock", "i32", ["ptr"]),
        ("pthread_mutex_unlock", "i32", ["ptr"]),
        ("memcpy", "ptr", ["ptr", "ptr", "i64"]),
    ):
        m.declare(name, result, arguments)
    _define_reserve(m)
    _define_through_ring(m)
    f = m.function("dyn_staging_copy", "i64", _COPY)
    with f.if_(f.icmp("ule", "%bytes", str(MOST_BYTES))):
        mutex = f.at("%staging", StagingRecord.MUTEX)
        f.call("i32", "@pthread_mutex_lock", [("ptr", mutex)])
        answer = f.call("i64", "@staging.through_ring", [(type, f"%{name}") for type, name in _COPY])
        f.call("i32", "@pthread_mutex_unlock", [("ptr", mutex)])
        f.ret_if(f.icmp("ne", answer, str(_NO_MEMORY), "i64"), "i64", answer)
    with f.count("%count") as number:
        part = f.at("%parts", f.mul(number, str(StagedPart.BYTES)))
        source, at, size = _part(f, part)
        with f.if_(f.icmp("ne", size, "0")):
            arguments = [("ptr", f.at("%into", at)), ("ptr", source), ("i64", size), ("ptr", "%stream")]
            _call(f, "to_device", arguments)
            _call(f, "synchronize", [("ptr", "%stream")])
    f.ret("i64", "0")


def _call(f: FunctionBuilder, name: str, arguments: list[tuple[str, str]]) -> None:
    """Call a function of the driver's; gives its answer back where that is not 0."""
    number = CALLS.index(name)
    status = f.call("i32", f.load("ptr", "%staging", 8 * number), arguments)
    told = f.or_(f.cast("zext", status, "i32", "i64"), str(number << 32))
    f.ret_if(f.icmp("ne", status, "0", "i32"), "i64", told)


def _part(f: FunctionBuilder, part: str) -> tuple[str, str, str]:
    at, size = f.load("i64", part, StagedPart.AT), f.load("i64", part, StagedPart.SIZE)
    return f.load("ptr", part, StagedPart.SOURCE), at, size


def _slot(f: FunctionBuilder, number: str) -> str:
    """The slot of the copy of a number."""
    place = f.and_(number, str(MOST_PENDING - 1))
    return f.at(f.at("%staging", StagingRecord.SLOTS), f.mul(place, str(StagingRecord.SLOT_BYTES)))


def _define_reserve(m: Module) -> None:
    """``i64 reserve(staging, bytes)``: leaves in NEXT a place of the ring, counted on without end, of so many bytes in
    one piece that no copy reads any more.

    Copies follow each other, the oldest in front: what a part of the ring was taken for before is one turn behind it.
    """
    f = m.function("staging.reserve", "i64", [("ptr", "staging"), ("i64", "bytes")], exported=False)
    turn = str(RING_BYTES)
    begin = f.var("i64", f.load("i64", "%staging", StagingRecord.NEXT))
    into = f.and_(begin.get(), str(RING_BYTES - 1))
    with f.if_(f.icmp("ugt", f.add(into, "%bytes"), turn)):
        begin.set(f.add(f.sub(begin.get(), into), turn))
    f.store("i64", begin.get(), "%staging", StagingRecord.NEXT)
    last_turn = f.sub(f.add(begin.get(), "%bytes"), turn)
    with f.loop() as loop:
        first, last = (f.load("i64", "%staging", at) for at in (StagingRecord.FIRST, StagingRecord.LAST))
        loop.break_if(f.icmp("eq", first, last))
        slot = _slot(f, first)
        is_read = f.icmp("slt", f.load("i64", slot, StagingRecord.BEGIN), last_turn)
        is_full = f.icmp("eq", f.sub(last, first), str(MOST_PENDING))
        loop.break_unless(f.or_(is_read, is_full, "i1"))
        _call(f, "wait_for_event", [("ptr", f.load("ptr", slot, StagingRecord.EVENT))])
        f.store("i64", f.add(first, "1"), "%staging", StagingRecord.FIRST)
    f.ret("i64", "0")


def _define_through_ring(m: Module) -> None:
    f = m.function("staging.through_ring", "i64", _COPY, exported=False)
    with f.if_(f.icmp("eq", "%bytes", "0")):
        f.ret("i64", "0")
    place = f.at("%staging", StagingRecord.RING)
    with f.if_(f.is_null(f.load("ptr", place))):
        _call(f, "pinned", [("ptr", place), ("i64", str(RING_BYTES)), ("i32", "0")])
    reserved = f.call("i64", "@staging.reserve", [("ptr", "%staging"), ("i64", "%bytes")])
    f.ret_if(f.icmp("ne", reserved, "0"), "i64", reserved)
    begin = f.load("i64", "%staging", StagingRecord.NEXT)
    memory = f.at(f.load("ptr", place), f.and_(begin, str(RING_BYTES - 1)))
    with f.count("%count") as number:
        source, at, size = _part(f, f.at("%parts", f.mul(number, str(StagedPart.BYTES))))
        f.call("ptr", "@memcpy", [("ptr", f.at(memory, at)), ("ptr", source), ("i64", size)])
    last = f.load("i64", "%staging", StagingRecord.LAST)
    slot = _slot(f, last)
    event = f.at(slot, StagingRecord.EVENT)
    with f.if_(f.is_null(f.load("ptr", event))):
        _call(f, "create_event", [("ptr", event), ("i32", str(_NO_TIMING))])
    _call(f, "to_device", [("ptr", "%into"), ("ptr", memory), ("i64", "%bytes"), ("ptr", "%stream")])
    _call(f, "record_event", [("ptr", f.load("ptr", event)), ("ptr", "%stream")])
    f.store("i64", begin, slot, StagingRecord.BEGIN)
    f.store("i64", f.add(last, "1"), "%staging", StagingRecord.LAST)
    end = f.add(begin, f.add("%bytes", str(ALIGNED - 1)))
    f.store("i64", f.and_(end, str(-ALIGNED)), "%staging", StagingRecord.NEXT)
    f.ret("i64", "0")
