"""Versions: the records by which the native entry calls one program, each a part of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dyn.array import OWN
from dyn.backends.device_entry import entry_device
from dyn.backends.host_programs import LoadedProgram
from dyn.call.form import CallForm, NoPlanError
from dyn.call.records import ObjectAddress, Row, Words, records
from dyn.call.results import Results, build_steps, device_output_maker, output_maker
from dyn.call.surroundings import Surroundings, put_surroundings
from dyn.hosts import NUMPY, Host
from dyn.lower.abi import TensorOffsets
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.entry.layout import (
    NO_STREAM,
    RELEASE_BYTES,
    ArrayReader,
    BuildRecord,
    DonatedRecord,
    EntryPlan,
    EntryVersion,
    OutputRecord,
    ReuseRecord,
    StagedRecord,
)

if TYPE_CHECKING:
    from dyn.backends.loaded_programs import AnyProgram


def version_record(
    program: AnyProgram, results: Results, form: CallForm, donated: Mapping[int, str | None], around: Surroundings, *,
    copies: bool,
) -> tuple[Words, dict[int, int]]:  # fmt: skip
    """A version's record, and how much room it needs in a frame, by the plan's field."""
    function = program.interface.function
    arguments = function.params[: len(function.params) - len(program.captured)]
    for number, (dtype, rank) in form.types.items():
        # An array is described after the call, and may be another than it was before: by the call, or by a thread.
        if number < len(arguments) and (arguments[number].dtype is not dtype or len(arguments[number].shape) != rank):
            raise NoPlanError
    version = Words(EntryVersion.BYTES // 8)
    _put_device(version, program, form, donated, copies=copies)
    version.put(EntryVersion.GUARDS, program.guards or 0)
    version.put(EntryVersion.RUN, program.address)
    version.put(EntryVersion.CONTEXT, program.context)
    version.put(EntryVersion.RUNTIME, program.runtime(around.threads))
    version.memory(EntryVersion.CAPTURED, _captured(program.captured))
    version.put(EntryVersion.CAPTURED_COUNT, len(program.captured))
    # What is called outside may take any time, and so is called without the GIL.
    outside = RELEASE_BYTES if program.externals.callees else 0
    version.put(EntryVersion.CAPTURED_BYTES, sum(array.nbytes for array in program.captured) + outside)
    version.put(EntryVersion.ARGUMENTS, len(arguments))
    given = results.wraps or (None,) * len(function.results)
    if isinstance(program, LoadedProgram):
        make, host = output_maker, results.host
    else:
        make, host = device_output_maker, results.host if results.host.has_device(program.device) else OWN
    wraps = [make(host, value.dtype, wrap) for value, wrap in zip(function.results, given, strict=True)]
    outputs: list[Row] = [
        {
            OutputRecord.DESCR: ObjectAddress(value.dtype.np),
            OutputRecord.ITEM_SIZE: value.dtype.itemsize,
            OutputRecord.RANK: len(value.shape),
            OutputRecord.TYPE: value.dtype.dlpack,
            **own,
        }
        for value, own in zip(function.results, wraps, strict=True)
    ]
    is_ours = isinstance(program, LoadedProgram)
    if is_ours and results.any_order and not any(OutputRecord.WRAP in own for own in wraps):
        version.put(EntryVersion.SYMMETRIC, program.symmetric_rank)
    version.put(EntryVersion.WRAPS, any(OutputRecord.WRAP in own or OutputRecord.HOLDER in own for own in wraps))
    version.memory(EntryVersion.OUTPUTS, records(outputs, OutputRecord.BYTES))
    version.put(EntryVersion.OUTPUT_COUNT, len(outputs))
    steps, epilogue = build_steps(results, len(outputs))
    version.memory(EntryVersion.CODE, records(steps, BuildRecord.BYTES))
    if epilogue is not None:
        version.object(EntryVersion.EPILOGUE, epilogue)
    version.kept.append(program)
    put_surroundings(version, around, program.buffers)
    ranks = sum(len(value.shape) for value in function.results)
    spans = _put_donations(version, program, results.host, form, donated)
    room = {
        EntryPlan.SPANS: spans,
        EntryPlan.DONATED: len(donated),
        EntryPlan.INPUTS: max(len(function.params), form.leaves),
        EntryPlan.OUTPUTS: len(outputs),
        EntryPlan.OUTPUT_DIMS: ranks,
        EntryPlan.STACK: len(steps),
    }
    return version, room


def _put_device(
    version: Words, program: AnyProgram, form: CallForm, donated: Mapping[int, str | None], *, copies: bool
) -> None:
    """Write the device that a program runs on, if it does, and which arguments are copied there.

    NoPlanError for arrays on other devices or, unless it ``copies`` them, in this machine's memory; for arguments that
    are used up by a library's own method; and where a library would have to be asked for its stream.
    """
    version.put(EntryVersion.STREAM, NO_STREAM)
    version.memory(EntryVersion.STAGED, records([], StagedRecord.BYTES))
    if isinstance(program, LoadedProgram):
        if form.devices - {None}:
            raise NoPlanError
        return
    device = entry_device(program.device)
    if device is None or form.devices - {None, program.device} or None in donated.values():
        raise NoPlanError
    if program.follows_current and form.devices <= {None}:
        raise NoPlanError
    if not copies and not form.on_host.isdisjoint(form.arrays):
        raise NoPlanError
    version.put(EntryVersion.DEVICE, device.address)
    version.object(EntryVersion.FAILED, program.raise_if_written)
    if program.captured_stream is not None:
        version.put(EntryVersion.STREAM, program.captured_stream)
    params = program.interface.function.params
    staged: list[Row] = [
        {StagedRecord.LEAF: leaf, StagedRecord.ITEM_SIZE: params[leaf].dtype.itemsize}
        for leaf in sorted(form.on_host)
        if leaf < len(params) - len(program.captured)
    ]
    version.memory(EntryVersion.STAGED, records(staged, StagedRecord.BYTES))
    version.put(EntryVersion.STAGED_COUNT, len(staged))


def _put_donations(
    version: Words, program: AnyProgram, host: Host, form: CallForm, donated: Mapping[int, str | None]
) -> int:
    """Write a version's records of donated arguments; gives the number of memory spans that a call needs room for.

    NumPy's arrays are given to NumPy's results alone, which they then are; nobody else's may be written to.
    """
    order = {leaf: number for number, leaf in enumerate(donated)}
    reuses: list[Row] = []
    is_ours = isinstance(program, LoadedProgram)
    for reuse in program.interface.reuses:
        native = form.arrays.get(reuse.input)
        plain = is_ours and native is not None and native.reader is ArrayReader.NUMPY and host is NUMPY
        if plain or reuse.input in donated:
            row: Row = {ReuseRecord.OUTPUT: reuse.output, ReuseRecord.LEAF: reuse.input}
            reuses.append(row | {ReuseRecord.DONATED: order.get(reuse.input, -1)})
    version.memory(EntryVersion.REUSES, records(reuses, ReuseRecord.BYTES))
    version.put(EntryVersion.REUSE_COUNT, len(reuses))
    ends: list[Row] = []
    for leaf, label in donated.items():
        end: Row = {DonatedRecord.LEAF: leaf}
        if label is not None:
            end |= {DonatedRecord.LABEL: ObjectAddress(label), DonatedRecord.SLOT: form.arrays[leaf].label}
        ends.append(end)
    version.memory(EntryVersion.DONATED, records(ends, DonatedRecord.BYTES))
    version.put(EntryVersion.DONATED_COUNT, len(ends))
    if not reuses:
        return 0
    if not isinstance(program, LoadedProgram):  # captured arrays are shared: nobody gives their memory
        return form.leaves
    spans = [byte_bounds(array) for array in program.captured if array.size]
    version.memory(EntryVersion.CAPTURED_SPANS, records([{0: start, 8: end} for start, end in spans], 16))
    version.put(EntryVersion.CAPTURED_SPAN_COUNT, len(spans))
    version.object(EntryVersion.FAILED, program.raise_if_written)
    return form.leaves + len(spans)


def _captured(arrays: Sequence[np.ndarray[Any, Any] | DeviceArray]) -> Words:
    """Tensors of arrays that stay where they are."""
    memory = Words(len(arrays) * TensorOffsets.BYTES // 8)
    for number, array in enumerate(arrays):
        at = number * TensorOffsets.BYTES
        is_there = isinstance(array, DeviceArray)
        memory.put(at + TensorOffsets.DATA, array.address if is_there else array.__array_interface__["data"][0])
        memory.put(at + TensorOffsets.RANK - 4, array.ndim << 32)  # the upper half of a word
        memory.memory(at + TensorOffsets.DIMS, records([{0: size} for size in array.shape], 8))
    return memory
