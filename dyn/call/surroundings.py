"""Conditions of a program beside a call's arguments, and their records, by which the native entry tests them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from dyn.call.form import NoPlanError, host_record, native_of
from dyn.call.records import ObjectAddress, Row, Words, records
from dyn.dtypes import DType
from dyn.hosts.cpython import has_dict_tags
from dyn.runtime.entry.layout import (
    ArrayReader,
    DictRecord,
    EntryRecord,
    EntryVersion,
    HeldTensorRecord,
    ListRecord,
    NameRecord,
)
from dyn.trace.held import ABSENT, HeldBuffer, HeldDict, HeldList


@dataclasses.dataclass(frozen=True)
class HeldTensor:
    """A PyTorch tensor that a program captures, as it was then: elements of ``dtype`` row by row at ``address``."""

    tensor: Any
    dtype: DType
    shape: tuple[int, ...]
    address: int


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Conditions of a program beside a call's arguments: dicts, lists and tensors that have to be as they were, and a
    limit on the threads that it uses where the settings allow more; 0 for none."""

    dicts: Sequence[HeldDict] = ()
    tensors: Sequence[HeldTensor] = ()
    threads: int = 0
    lists: Sequence[HeldList] = ()
    #: Arrays of dyn's whose elements the trace has read.
    buffers: Sequence[HeldBuffer] = ()


NO_SURROUNDINGS = Surroundings()


def put_surroundings(version: Words, given: Surroundings, buffers: Sequence[HeldBuffer]) -> None:
    """Write a version's records of what its program relies on, the arrays of dyn's that it captures among it.

    NoPlanError for arrays that the entry cannot read.
    """
    tagged = int(has_dict_tags())
    dicts: list[Row] = []
    for one in given.dicts:
        entries: list[Row] = [
            {
                EntryRecord.KEY: ObjectAddress(sys.intern(name)),
                EntryRecord.VALUE: 0 if value is ABSENT else ObjectAddress(value),
            }
            for name, value in one.entries
        ]
        row: Row = {
            DictRecord.DICT: ObjectAddress(one.names),
            DictRecord.ENTRIES: records(entries, EntryRecord.BYTES),
            DictRecord.COUNT: len(entries),
            DictRecord.WHOLE: int(one.whole),
            DictRecord.TAGGED: tagged,
        }
        dicts.append(row)
    version.memory(EntryVersion.DICTS, records(dicts, DictRecord.BYTES))
    version.put(EntryVersion.DICT_COUNT, len(dicts))
    lists: list[Row] = [
        {
            ListRecord.LIST: ObjectAddress(one.items),
            ListRecord.ENTRIES: records([{0: ObjectAddress(item)} for item in one.entries], 8),
            ListRecord.COUNT: len(one.entries),
        }
        for one in given.lists
    ]
    version.memory(EntryVersion.LISTS, records(lists, ListRecord.BYTES))
    version.put(EntryVersion.LIST_COUNT, len(lists))
    names: list[Row] = []
    for one in (*buffers, *given.buffers):
        own = native_of(type(one.array), one.array)
        if own is None:
            raise NoPlanError
        name: Row = {NameRecord.OBJECT: ObjectAddress(one.array), NameRecord.WHERE: own.where}
        names.append(name | {NameRecord.VALUE: ObjectAddress(one.data)})
    version.memory(EntryVersion.NAMES, records(names, NameRecord.BYTES))
    version.put(EntryVersion.NAME_COUNT, len(names))
    tensors: list[Row] = []
    for held in given.tensors:
        native = native_of(type(held.tensor), held.tensor)
        if native is None or native.reader is not ArrayReader.DLPACK:
            raise NoPlanError
        row: Row = {
            HeldTensorRecord.OBJECT: ObjectAddress(held.tensor),
            HeldTensorRecord.HOST: host_record(native),
            HeldTensorRecord.TYPE: native.dtype_tag(held.dtype),
            HeldTensorRecord.RANK: len(held.shape),
            HeldTensorRecord.SIZES: records([{0: size} for size in held.shape], 8),
            HeldTensorRecord.ADDRESS: 0 if 0 in held.shape else held.address,
        }
        if native.storage and len(held.shape) <= HeldTensorRecord.MOST_AXES:
            row[HeldTensorRecord.WORDS] = Words(HeldTensorRecord.WORD_COUNT + 1)
        tensors.append(row)
    version.memory(EntryVersion.TENSORS, records(tensors, HeldTensorRecord.BYTES))
    version.put(EntryVersion.TENSOR_COUNT, len(tensors))
