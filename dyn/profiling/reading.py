"""Reads a recording: the recorder's words as events, with the names and formulas of the programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from dyn.backends.recording import Recording
from dyn.profiling.events import CallEvent, CompileStage, Events, LaunchEvent, PieceEvent
from dyn.profiling.programs import ProgramInfo
from dyn.runtime.recorder import EventRecord


@dataclass(frozen=True, slots=True)
class _Raw:
    """A record: the thread that wrote it, its words after the first, and the values of symbols behind them."""

    thread: int
    words: Sequence[int]
    values: tuple[int, ...]


_LENGTHS = {
    EventRecord.LAUNCH: EventRecord.LAUNCH_WORDS,
    EventRecord.PIECE: EventRecord.PIECE_WORDS,
    EventRecord.CALL: EventRecord.CALL_WORDS,
}


@dataclass
class _Records:
    """Records by kind."""

    of: dict[int, list[_Raw]] = field(default_factory=lambda: {kind: list[_Raw]() for kind in _LENGTHS})


def _records(recording: Recording) -> _Records:
    found = _Records()
    for thread, words in recording.words.items():
        at = 0
        while at < len(words):
            kind, length = words[at] & 0xFF, words[at] >> 8
            own = _LENGTHS[kind]
            found.of[kind].append(_Raw(thread, words[at + 1 : at + own], tuple(words[at + own : at + length])))
            at += length
    return found


def _launches(
    records: _Records, pieces: dict[int, list[PieceEvent]], streams: Collection[int],
    info: Callable[[int], ProgramInfo | None],
) -> Iterator[LaunchEvent]:  # fmt: skip
    """The launches; those on devices on the tracks of streams, with their times there."""
    for raw in records.of[EventRecord.LAUNCH]:
        number, call, launch, dispatch, grid, start_ns, end_ns = raw.words
        program = info(number)
        if program is None:
            continue
        kernel, sizes = program.launched(dispatch, raw.values)
        ran, thread = tuple(sorted(pieces.get(launch, ()), key=lambda piece: piece.start_ns)), raw.thread
        on_device = bool(ran) and ran[0].thread in streams
        if on_device:
            thread, start_ns, end_ns, ran = ran[0].thread, ran[0].start_ns, ran[0].end_ns, ()
        yield LaunchEvent(
            program.name, kernel, call, thread, sizes.space, program.dims(raw.values),
            None if grid < 0 else grid, sizes.nbytes, start_ns, end_ns, ran, sizes.operations, on_device,
        )  # fmt: skip


def read(recording: Recording, compiles: Sequence[CompileStage], threads: dict[int, str]) -> Events:
    """The events of a recording.

    Programs are described once for all calls of the same code; one that was found whole is lowered again for it.
    """
    records = _records(recording)
    described: dict[int, ProgramInfo] = {}

    def info(number: int) -> ProgramInfo | None:
        known = recording.programs.get(number)
        if known is None:
            return None
        if id(known) not in described:
            described[id(known)] = ProgramInfo(known)
        return described[id(known)]

    pieces: dict[int, list[PieceEvent]] = {}
    for raw in records.of[EventRecord.PIECE]:
        launch, begin, end, start_ns, end_ns = raw.words
        pieces.setdefault(launch, []).append(PieceEvent(raw.thread, begin, end, start_ns, end_ns))
    launches = list(_launches(records, pieces, recording.names, info))
    launched: dict[int, int] = {}
    for raw in records.of[EventRecord.LAUNCH]:
        _, call, _, _, _, start_ns, end_ns = raw.words
        launched[call] = launched.get(call, 0) + end_ns - start_ns
    calls: list[CallEvent] = []
    for raw in records.of[EventRecord.CALL]:
        number, call, status, start_ns, end_ns = raw.words
        program = info(number)
        if program is not None:
            dims = program.dims(raw.values)
            inside = launched.get(call, 0)
            calls.append(CallEvent(program.name, call, raw.thread, dims, status != 0, start_ns, end_ns, inside))
    return Events(
        tuple(sorted(calls, key=lambda event: event.start_ns)),
        tuple(sorted(launches, key=lambda event: event.start_ns)),
        tuple(sorted(compiles, key=lambda event: event.start_ns)),
        threads,
        recording.dropped,
    )
