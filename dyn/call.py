"""Call tables: the records by which the native entry makes a jitted function's calls, a plan for each form of call.

The entry (``dyn.runtime.entry``) accepts only calls that a plan describes to the last detail, so that everything which
is rare, or wrong, is left to Python. Plans are written here after a call by the slow path, and live as long as the
table.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dyn import config, dtypes
from dyn.array import OWN, Array, adapter_of
from dyn.backends.device_entry import entry_device
from dyn.backends.donated_memory import is_dense
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.native_entry import LazyEntry
from dyn.backends.runtime import native_runtime
from dyn.backends.runtime_tables import entry_functions
from dyn.backends.workers import begin_apart
from dyn.config import Config
from dyn.dtypes import DType, Kind
from dyn.fork_safety import lock
from dyn.frozen import is_record
from dyn.hosts import JAX, NUMPY, TORCH, Host, keeps_order
from dyn.hosts.cpython import addresses, fast_path, has_dict_tags
from dyn.hosts.jax import JaxMaker
from dyn.hosts.native import NativeType, device_holder, holder_type, native_type, tensor_maker
from dyn.lower.abi import TensorOffsets
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import Context
from dyn.runtime.entry.layout import (
    ANY,
    DEPTH,
    NO_STREAM,
    RELEASE_BYTES,
    ArrayReader,
    Build,
    BuildRecord,
    DictRecord,
    DonatedRecord,
    EntryPlan,
    EntryRecord,
    EntryTable,
    EntryVersion,
    HeldTensorRecord,
    HostRecord,
    NodeRecord,
    OutputRecord,
    PlanNode,
    PutRecord,
    ReuseRecord,
    SizeOp,
    StaticRecord,
    TestRecord,
)
from dyn.trace.context import trace_variable
from dyn.trace.pytree import TreeSpec, unflatten
from dyn.trace.signature import BoundArguments, Signature
from dyn.trace.static_keys import Static, same_static

if TYPE_CHECKING:
    from dyn.backends.loaded_programs import AnyProgram

#: A function has at most so many plans; a form of call that comes later takes the slow path.
MOST_PLANS = 64

_NUMBERS = {float: PlanNode.FLOAT, int: PlanNode.INT, complex: PlanNode.COMPLEX, bool: PlanNode.BOOL}
_CONTAINERS = {tuple: PlanNode.TUPLE, list: PlanNode.LIST, dict: PlanNode.DICT}
#: Types whose values never change, and compare without surprises.
_FIXED = (str, bytes, int, float, complex, bool, type(None), type, np.dtype)
_ENTRY = LazyEntry()
#: An instruction of a test of sizes: what it does, a number or a leaf, and that leaf's axis.
Step = tuple[SizeOp, int, int]


class _Words:
    """Memory of 8-byte words that native code reads, and the objects that it points to."""

    def __init__(self, count: int) -> None:
        self.words = (ctypes.c_int64 * max(count, 1))()
        self.address = ctypes.addressof(self.words)
        self.kept: list[Any] = []

    def put(self, offset: int, value: int) -> None:
        """Write one word: a number or an address."""
        self.words[offset // 8] = value

    def get(self, offset: int) -> int:
        return self.words[offset // 8]

    def object(self, offset: int, value: object) -> None:
        """Write the address of an object, and keep it."""
        self.kept.append(value)
        self.put(offset, id(value))

    def memory(self, offset: int, words: _Words) -> None:
        """Write the address of other memory, and keep it."""
        self.kept.append(words)
        self.put(offset, words.address)


def _records(rows: Sequence[_Row], size: int) -> _Words:
    """Records of ``size`` bytes, each given as values by offset."""
    memory = _Words(len(rows) * size // 8)
    for number, row in enumerate(rows):
        for offset, value in row.items():
            if isinstance(value, _ObjectAddress):
                memory.object(number * size + offset, value.value)
            elif isinstance(value, _Words):
                memory.memory(number * size + offset, value)
            else:
                memory.put(number * size + offset, value)
    return memory


@dataclasses.dataclass(frozen=True, eq=False)
class _ObjectAddress:
    """An object whose address goes into a record."""

    value: Any


#: A record: what lies at each offset. Numbers, and addresses of objects and of memory, which are kept.
_Row = dict[int, "int | _ObjectAddress | _Words"]


class NoPlanError(Exception):
    """A call is of a kind that the entry does not take."""


# ---- the form of a call ----------------------------------------------------------------------------------------------


class _Static:
    """Marker in the place of a leaf's number: the leaf is static, and is compared."""


STATIC = _Static()


@dataclasses.dataclass(frozen=True)
class LeafForm:
    """Conditions on a leaf beside its type, dtype and rank.

    ``sizes`` are those of the axes, ANY or NOT_ZERO among them. ``weak`` is JAX's weak type; NumPy's arrays have none,
    and are not byte-swapped then. ``narrow`` says that a Python number becomes one of 32 bits, ``limits`` between which
    numbers an int lies. ``is_size`` says that an int is the size of an array without elements. ``rows`` says that a
    PyTorch tensor has to lie row by row.
    """

    sizes: tuple[int, ...] | None = None
    weak: bool | None = None
    narrow: bool = False
    limits: tuple[int, int] | None = None
    is_size: bool = False
    rows: bool = False


class CallForm:
    """A call as a plan describes it. Raises NoPlanError where it has something that the entry does not know.

    ``numbers`` has for each argument, those by keyword last, a tree of the same containers with the numbers of the
    leaves, or STATIC for what is compared. The ``count`` leaves are in the order in which the program takes them; those
    that it does not take are the last. ``state`` is what the table's state has to be.
    """

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: Sequence[Any], count: int,
        leaves: Mapping[int, LeafForm] = MappingProxyType({}), state: Any = None,
    ) -> None:  # fmt: skip
        self.arguments = len(args)
        self.keywords = tuple(sys.intern(name) for name in kwargs)
        self.config: Config = config.current()
        self.leaves, self.wanted, self.state = count, leaves, state
        self.item_sizes = [0] * self.leaves
        #: For each leaf the number of its node.
        self.places = [0] * self.leaves
        #: How many leaves functions of other libraries read, and the words that the leaves' dims and strides take.
        self.foreign = self.room = 0
        #: Whether an array of NumPy's has to be copied for compiled code.
        self.copies = False
        #: How each leaf is read that is an array.
        self.arrays: dict[int, NativeType] = {}
        #: The devices of arrays, None for this machine's memory, where numbers are, too.
        self.devices: set[Context | None] = set()
        self.statics: list[tuple[int, Any]] = []
        self.nodes: list[_Row] = []
        for position, (value, tree) in enumerate(zip((*args, *kwargs.values()), numbers, strict=True)):
            if tree is STATIC:
                if not _is_fixed(value):
                    raise NoPlanError
                self.statics.append((position, value))
                self.nodes.append({NodeRecord.KIND: PlanNode.SKIP})
            else:
                self._node(value, tree, {}, 1)
        self.nodes.append({NodeRecord.KIND: PlanNode.END})

    @staticmethod
    def of(signature: Signature, bound: BoundArguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallForm:
        """The form of a call of a jitted function."""
        count = len(bound.leaves)
        names = [*(signature.argument_name(i) for i in range(len(args))), *map(signature.keyword_label, kwargs)]
        numbers: dict[str, Any] = dict(zip(bound.names, unflatten(bound.tree, list(range(count))), strict=True))
        numbers |= {static.name: STATIC for static in bound.static}
        if len(names) != len(numbers) or {*names} != numbers.keys():
            raise NoPlanError
        return CallForm(args, kwargs, [numbers[name] for name in names], count)

    def key(self) -> Any:
        """Key by which equal forms have one plan."""
        nodes = tuple(
            tuple((o, (type(v.value), v.value) if isinstance(v, _ObjectAddress) else v) for o, v in row.items())
            for row in self.nodes
        )
        statics = tuple((position, Static("", value)) for position, value in self.statics)
        sizes = tuple((number, leaf.sizes) for number, leaf in self.wanted.items())
        return (self.arguments, self.keywords, id(self.config), self.state, statics, nodes, sizes)

    def _node(self, value: Any, numbers: Any, key: _Row, depth: int) -> None:
        """The records of a part of the arguments; ``numbers`` is the same tree with the leaves' numbers."""
        kind = type(value)
        if type(numbers) is int:
            self.nodes.append(key | {NodeRecord.LEAF: numbers} | self._leaf(value, numbers))
        elif value is None:
            self.nodes.append(key | {NodeRecord.KIND: PlanNode.NONE})
        elif numbers is STATIC:
            if not _is_fixed(value):
                raise NoPlanError
            self.nodes.append(key | {NodeRecord.KIND: PlanNode.SAME, NodeRecord.VALUE: _ObjectAddress(value)})
        elif kind in _CONTAINERS and type(numbers) is kind and depth < DEPTH:
            self.nodes.append(
                key | {NodeRecord.KIND: _CONTAINERS[kind], NodeRecord.VALUE: id(kind), NodeRecord.COUNT: len(value)}
            )
            if kind is dict:
                for name, item in value.items():
                    if not _is_fixed(name):
                        raise NoPlanError
                    self._node(item, numbers[name], {NodeRecord.KEY: _ObjectAddress(name)}, depth + 1)
            else:
                for item, number in zip(value, numbers, strict=True):
                    self._node(item, number, {}, depth + 1)
            self.nodes.append({NodeRecord.KIND: PlanNode.LEAVE})
        else:
            raise NoPlanError

    def _leaf(self, value: Any, number: int) -> _Row:
        self.places[number] = len(self.nodes)
        kind, wanted = type(value), self.wanted.get(number, _ANYTHING)
        if wanted.is_size:
            row: _Row = {NodeRecord.KIND: PlanNode.SIZE, NodeRecord.ROOM: self.room}
            self.room += 2
            return row
        if kind in _NUMBERS:
            self.devices.add(None)
            least, greatest = _INT64 if wanted.limits is None else wanted.limits
            return {
                NodeRecord.KIND: _NUMBERS[kind],
                NodeRecord.UNIT: 4 if wanted.narrow else 8,
                NodeRecord.VALUE: least,
                NodeRecord.COUNT: greatest,
            }
        host, native = adapter_of(value), _native(kind, value)
        if host is None or native is None:
            raise NoPlanError
        self.arrays[number] = native
        self.devices.add(native.device)
        self.copies |= native.reader is ArrayReader.NUMPY and not is_dense(value)
        own = dtypes.dtype(value.dtype if native.reader is not ArrayReader.DLPACK else host.borrow(value).dtype)
        self.item_sizes[number] = own.itemsize
        tag = native.dtype_tag(own)
        row = {
            NodeRecord.KIND: PlanNode.ARRAY,
            NodeRecord.VALUE: _ObjectAddress(own.np) if tag == id(own.np) else tag,
            NodeRecord.COUNT: value.ndim,
            NodeRecord.UNIT: own.itemsize // (2 if own.kind is Kind.COMPLEX else 1),
            NodeRecord.ROOM: self.room,
            NodeRecord.WEAK: ANY if wanted.weak is None else int(wanted.weak),
            NodeRecord.ROWS: int(wanted.rows),
        }
        self.room += 2 * value.ndim
        if native.reader is not ArrayReader.NUMPY:
            row[NodeRecord.HOST] = _host_record(native)
        if native.reader in (ArrayReader.DLPACK, ArrayReader.BUFFER, ArrayReader.ARRAY):
            row[NodeRecord.KIND] = PlanNode.FOREIGN
            self.foreign += 1
        return row


_ANYTHING = LeafForm()
_INT64 = (-(2**63), 2**63 - 1)


def is_readable(leaf: Any) -> bool:
    """Whether the entry knows how to read a leaf of such a type."""
    return type(leaf) in _NUMBERS or _native(type(leaf), leaf) is not None


def _native(kind: type, value: Any) -> NativeType | None:
    host = adapter_of(value)
    if host is not OWN:
        return None if host is None else native_type(host, value)
    held = holder_type(Array, "_data", "_label") if kind is Array else None
    data = None if held is None else value._data
    return device_holder(held, data.context) if held is not None and isinstance(data, DeviceArray) else held


@lru_cache(maxsize=64)
def _host_record(native: NativeType) -> _Words:
    """The record of a type, which is kept for as long as there are plans with it: forever. NoPlanError for arrays on a
    device that the entry cannot read."""
    device = None if native.device is None else entry_device(native.device)
    if native.device is not None and device is None:
        raise NoPlanError
    row: _Row = {
        HostRecord.TYPE: _ObjectAddress(native.type),
        HostRecord.READER: native.reader,
        HostRecord.WHERE: native.where,
        HostRecord.GRADIENTS: _ObjectAddress(native.gradients),
        HostRecord.IMPL: native.impl,
        HostRecord.KEYS: native.keys,
        HostRecord.ODD_KEYS: native.odd_keys,
        HostRecord.STORAGE: native.storage,
        HostRecord.DATA: native.data,
        HostRecord.DEVICE: 0 if device is None else device.address,
        HostRecord.PLACE: native.place,
        HostRecord.CURRENT: _ObjectAddress(native.current),
    }
    return _records([row], HostRecord.BYTES)


def _is_fixed(value: Any) -> bool:
    """Whether a value can never become unequal to what it is now, so that to be the same object is to be equal."""
    kind = type(value)
    if kind in _FIXED or isinstance(value, type | Enum | np.dtype) or kind.__hash__ is object.__hash__:
        return True
    if kind.__hash__ is tuple.__hash__:
        return all(_is_fixed(item) for item in value)
    parameters = getattr(kind, "__dataclass_params__", None)
    return (
        parameters is not None
        and (parameters.frozen or is_record(kind))
        and all(_is_fixed(getattr(value, field.name)) for field in dataclasses.fields(value))
    )


class _Same:
    """Equal to what is the same static argument; for values whose own ``==`` leaves the comparison to the other."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return same_static(self.value, other)


def _comparable(value: Any) -> Any:
    """An object for the entry to compare a static argument with, by ``==``."""
    kind = type(value)
    exact = kind in (str, bytes, int, bool, type(None)) or isinstance(value, type | Enum)
    return value if exact else _Same(value)


# ---- what the entry reads --------------------------------------------------------------------------------------------


def _plan(form: CallForm) -> _Words:
    plan = _Words(EntryPlan.BYTES // 8)
    plan.put(EntryPlan.ARGUMENTS, form.arguments)
    plan.put(EntryPlan.KEYWORDS, len(form.keywords))
    plan.memory(EntryPlan.KEYWORD_NAMES, _records([{0: _ObjectAddress(name)} for name in form.keywords], 8))
    plan.object(EntryPlan.CONFIG, form.config)
    plan.object(EntryPlan.STATE, form.state)
    statics: list[_Row] = [
        {
            StaticRecord.ARGUMENT: at,
            StaticRecord.OBJECT: _ObjectAddress(value),
            StaticRecord.EQUAL: _ObjectAddress(_comparable(value)),
        }
        for at, value in form.statics
    ]
    plan.memory(EntryPlan.STATICS, _records(statics, StaticRecord.BYTES))
    plan.put(EntryPlan.STATIC_COUNT, len(statics))
    for number, leaf in form.wanted.items():
        if leaf.sizes is not None:
            form.nodes[form.places[number]][NodeRecord.SIZES] = _records([{0: size} for size in leaf.sizes], 8)
    code = _records(form.nodes, NodeRecord.BYTES)
    plan.memory(EntryPlan.CODE, code)
    plan.put(EntryPlan.LEAVES, form.leaves)
    plan.memory(EntryPlan.RECORDS, _records([{0: code.address + at * NodeRecord.BYTES} for at in form.places], 8))
    plan.put(EntryPlan.FOREIGN, form.foreign)
    plan.put(EntryPlan.ROOM, form.room)
    plan.memory(EntryPlan.ITEM_SIZES, _records([{0: size} for size in form.item_sizes], 8))
    return plan


@dataclasses.dataclass(frozen=True)
class ArgumentResult:
    """In the place of a result: the array of a leaf, which is none of NumPy's."""

    leaf: int


@dataclasses.dataclass(frozen=True)
class ConstantResult:
    """In the place of a result: an object."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Results:
    """The way from a program's results to those of a call.

    ``tree`` has a result's number in the place of each, and may have arguments and constants; ``finish`` makes of a
    tuple of the results what ``tree`` alone cannot say. ``wraps`` has for each result what makes it of the ndarray,
    where that is not NumPy's ``host``. With ``any_order`` results may lie in the order of axes of the arguments.
    """

    tree: Any
    finish: Callable[[Any], Any]
    host: Host = NUMPY
    wraps: tuple[Callable[[Any], Any], ...] = ()
    any_order: bool = False

    @staticmethod
    def of(out_tree: TreeSpec, host: Host) -> Results:
        """The results of a jitted function."""
        numbers = list(range(out_tree.num_leaves))
        tree = unflatten(out_tree, numbers)
        return Results(tree, lambda results: unflatten(out_tree, list(results)), host, any_order=keeps_order(host))


@dataclasses.dataclass(frozen=True)
class HeldTensor:
    """A PyTorch tensor that a program captures, as it was then: elements of ``dtype`` row by row at ``address``."""

    tensor: Any
    dtype: DType
    shape: tuple[int, ...]
    address: int


class _Absent:
    """Marker in the place of what a dict does not have."""


ABSENT = _Absent()


@dataclasses.dataclass(frozen=True)
class HeldDict:
    """A dict by names, and objects that it has under some of them, or under all, in their order. What it does not have
    is ABSENT."""

    names: Mapping[str, Any]
    entries: tuple[tuple[str, Any], ...]
    whole: bool

    def is_current(self) -> bool:
        """Whether it still has them."""
        names = self.names
        if self.whole and (len(names) != len(self.entries) or [*names] != [name for name, _ in self.entries]):
            return False
        return not self.entries or all(names.get(name, ABSENT) is value for name, value in self.entries)


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Conditions of a program beside a call's arguments: dicts and tensors that have to be as they were, and a limit on
    the threads that it uses where the settings allow more; 0 for none."""

    dicts: Sequence[HeldDict] = ()
    tensors: Sequence[HeldTensor] = ()
    threads: int = 0


_NOTHING = Surroundings()


def _put_surroundings(version: _Words, given: Surroundings) -> None:
    tagged = int(has_dict_tags())
    dicts: list[_Row] = []
    for one in given.dicts:
        entries: list[_Row] = [
            {
                EntryRecord.KEY: _ObjectAddress(sys.intern(name)),
                EntryRecord.VALUE: 0 if value is ABSENT else _ObjectAddress(value),
            }
            for name, value in one.entries
        ]
        row: _Row = {
            DictRecord.DICT: _ObjectAddress(one.names),
            DictRecord.ENTRIES: _records(entries, EntryRecord.BYTES),
            DictRecord.COUNT: len(entries),
            DictRecord.WHOLE: int(one.whole),
            DictRecord.TAGGED: tagged,
        }
        dicts.append(row)
    version.memory(EntryVersion.DICTS, _records(dicts, DictRecord.BYTES))
    version.put(EntryVersion.DICT_COUNT, len(dicts))
    tensors: list[_Row] = []
    for held in given.tensors:
        native = _native(type(held.tensor), held.tensor)
        if native is None or native.reader is not ArrayReader.DLPACK:
            raise NoPlanError
        row: _Row = {
            HeldTensorRecord.OBJECT: _ObjectAddress(held.tensor),
            HeldTensorRecord.HOST: _host_record(native),
            HeldTensorRecord.TYPE: native.dtype_tag(held.dtype),
            HeldTensorRecord.RANK: len(held.shape),
            HeldTensorRecord.SIZES: _records([{0: size} for size in held.shape], 8),
            HeldTensorRecord.ADDRESS: 0 if 0 in held.shape else held.address,
        }
        if native.storage and len(held.shape) <= HeldTensorRecord.MOST_AXES:
            row[HeldTensorRecord.WORDS] = _Words(HeldTensorRecord.WORD_COUNT + 1)
        tensors.append(row)
    version.memory(EntryVersion.TENSORS, _records(tensors, HeldTensorRecord.BYTES))
    version.put(EntryVersion.TENSOR_COUNT, len(tensors))


def _version(
    program: AnyProgram, results: Results, form: CallForm, donated: Mapping[int, str | None], around: Surroundings
) -> tuple[_Words, dict[int, int]]:
    """A version's record, and how much room it needs in a frame, by the plan's field."""
    function = program.interface.function
    version = _Words(EntryVersion.BYTES // 8)
    _put_device(version, program, form, donated)
    version.put(EntryVersion.GUARDS, program.guards or 0)
    version.put(EntryVersion.RUN, program.address)
    version.put(EntryVersion.CONTEXT, program.context)
    version.put(EntryVersion.RUNTIME, program.runtime(around.threads))
    version.memory(EntryVersion.CAPTURED, _captured(program.captured))
    version.put(EntryVersion.CAPTURED_COUNT, len(program.captured))
    # What is called outside may take any time, and so is called without the GIL.
    outside = RELEASE_BYTES if program.externals.callees else 0
    version.put(EntryVersion.CAPTURED_BYTES, sum(array.nbytes for array in program.captured) + outside)
    version.put(EntryVersion.ARGUMENTS, len(function.params) - len(program.captured))
    given = results.wraps or (None,) * len(function.results)
    make = _making if isinstance(program, LoadedProgram) else _making_there
    wraps = [make(results.host, value.dtype, wrap) for value, wrap in zip(function.results, given, strict=True)]
    outputs: list[_Row] = [
        {
            OutputRecord.DESCR: _ObjectAddress(value.dtype.np),
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
    version.memory(EntryVersion.OUTPUTS, _records(outputs, OutputRecord.BYTES))
    version.put(EntryVersion.OUTPUT_COUNT, len(outputs))
    steps, epilogue = _build_steps(results, len(outputs))
    version.memory(EntryVersion.CODE, _records(steps, BuildRecord.BYTES))
    if epilogue is not None:
        version.object(EntryVersion.EPILOGUE, epilogue)
    version.kept.append(program)
    _put_surroundings(version, around)
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


def _put_device(version: _Words, program: AnyProgram, form: CallForm, donated: Mapping[int, str | None]) -> None:
    """Write the device that a program runs on, if it does. NoPlanError where arguments have to be copied there, or are
    used up, or where none says which stream is the call's."""
    version.put(EntryVersion.STREAM, NO_STREAM)
    if isinstance(program, LoadedProgram):
        if form.devices - {None}:
            raise NoPlanError
        return
    device = entry_device(program.device)
    if device is None or form.devices != {program.device} or donated:
        raise NoPlanError
    version.put(EntryVersion.DEVICE, device.address)
    version.object(EntryVersion.FAILED, program.raise_if_written)
    if program.captured_stream is not None:
        version.put(EntryVersion.STREAM, program.captured_stream)


def _put_donations(
    version: _Words, program: AnyProgram, host: Host, form: CallForm, donated: Mapping[int, str | None]
) -> int:
    """Write a version's records of donated arguments; gives the number of memory spans that a call needs room for.

    NumPy's arrays are given to NumPy's results alone, which they then are; nobody else's may be written to.
    """
    order = {leaf: number for number, leaf in enumerate(donated)}
    reuses: list[_Row] = []
    for reuse in program.interface.reuses if isinstance(program, LoadedProgram) else ():
        native = form.arrays.get(reuse.input)
        plain = native is not None and native.reader is ArrayReader.NUMPY and host is NUMPY
        if plain or reuse.input in donated:
            row: _Row = {ReuseRecord.OUTPUT: reuse.output, ReuseRecord.LEAF: reuse.input}
            reuses.append(row | {ReuseRecord.DONATED: order.get(reuse.input, -1)})
    version.memory(EntryVersion.REUSES, _records(reuses, ReuseRecord.BYTES))
    version.put(EntryVersion.REUSE_COUNT, len(reuses))
    ends: list[_Row] = []
    for leaf, label in donated.items():
        end: _Row = {DonatedRecord.LEAF: leaf}
        if label is not None:
            end |= {DonatedRecord.LABEL: _ObjectAddress(label), DonatedRecord.SLOT: form.arrays[leaf].label}
        ends.append(end)
    version.memory(EntryVersion.DONATED, _records(ends, DonatedRecord.BYTES))
    version.put(EntryVersion.DONATED_COUNT, len(ends))
    if not reuses or not isinstance(program, LoadedProgram):
        return 0
    spans = [byte_bounds(array) for array in program.captured if array.size]
    version.memory(EntryVersion.CAPTURED_SPANS, _records([{0: start, 8: end} for start, end in spans], 16))
    version.put(EntryVersion.CAPTURED_SPAN_COUNT, len(spans))
    version.object(EntryVersion.FAILED, program.raise_if_written)
    return form.leaves + len(spans)


def _making(host: Host, dtype: DType, wrap: Callable[[Any], Any] | None) -> _Row:
    """Maker of a host's results of a dtype, which is ``wrap`` where that is given, for an output record."""
    if wrap is None and host is JAX:
        wrap = JAX.maker(dtype.np)
    if wrap is not None:
        return {OutputRecord.WRAP: _ObjectAddress(wrap)} | (_put(wrap) if isinstance(wrap, JaxMaker) else {})
    if host is NUMPY:
        return {}
    held = holder_type(Array, "_data", "_label") if host is OWN else None
    if held is not None:
        return {OutputRecord.HOLDER: _host_record(held)}
    make = tensor_maker() if host is TORCH else 0
    return {OutputRecord.MAKE: make} if make else {OutputRecord.WRAP: _ObjectAddress(host.wrap)}


def _making_there(host: Host, dtype: DType, wrap: Callable[[Any], Any] | None) -> _Row:
    """Maker of a host's results of arrays on a device, for an output record; NumPy has no such arrays."""
    held = holder_type(Array, "_data", "_label") if host in (OWN, NUMPY) and wrap is None else None
    if held is not None:
        return {OutputRecord.HOLDER: _host_record(held)}
    if host is NUMPY:
        raise NoPlanError
    return {OutputRecord.WRAP: _ObjectAddress(host.wrap if wrap is None else wrap)}


def _put(maker: JaxMaker) -> _Row:
    put = maker.put
    if put.function is None:
        return {}
    row: _Row = {
        PutRecord.FUNCTION: _ObjectAddress(put.function),
        PutRecord.AVALS: _ObjectAddress(maker.avals),
        PutRecord.SHARDING: _ObjectAddress(put.sharding),
        PutRecord.DEVICES: _ObjectAddress(put.devices),
    }
    return {OutputRecord.PUT: _records([row], PutRecord.BYTES)}


def _captured(arrays: Sequence[np.ndarray[Any, Any] | DeviceArray]) -> _Words:
    """Tensors of arrays that stay where they are."""
    memory = _Words(len(arrays) * TensorOffsets.BYTES // 8)
    for number, array in enumerate(arrays):
        at = number * TensorOffsets.BYTES
        is_there = isinstance(array, DeviceArray)
        memory.put(at + TensorOffsets.DATA, array.address if is_there else array.__array_interface__["data"][0])
        memory.put(at + TensorOffsets.RANK - 4, array.ndim << 32)  # the upper half of a word
        memory.memory(at + TensorOffsets.DIMS, _records([{0: size} for size in array.shape], 8))
    return memory


def _build_steps(results: Results, count: int) -> tuple[list[_Row], Callable[[Any], Any] | None]:
    """Stack-machine code that builds the results' tree; and what finishes it from a tuple, where its nodes are no plain
    containers."""
    steps: list[_Row] = []

    def visit(node: Any) -> bool:
        kind = type(node)
        if kind is int:
            steps.append({BuildRecord.KIND: Build.RESULT, BuildRecord.COUNT: node})
        elif kind is ArgumentResult:
            steps.append({BuildRecord.KIND: Build.ARGUMENT, BuildRecord.COUNT: node.leaf})
        elif kind is ConstantResult or node is None:
            value = None if node is None else node.value
            steps.append({BuildRecord.KIND: Build.OBJECT, BuildRecord.VALUE: _ObjectAddress(value)})
        elif kind in (tuple, list, dict):
            if not all(visit(item) for item in (node.values() if kind is dict else node)):
                return False
            step: _Row = {
                BuildRecord.KIND: {tuple: Build.TUPLE, list: Build.LIST, dict: Build.DICT}[kind],
                BuildRecord.COUNT: len(node),
            }
            if kind is dict:
                step[BuildRecord.VALUE] = _records(
                    [{0: _ObjectAddress(one)} for one in (dict.fromkeys(node), *node)], 8
                )
            steps.append(step)
        else:
            return False
        return True

    plain = visit(results.tree)
    if not plain:
        steps.clear()
        visit(tuple(range(count)))
    end: _Row = {BuildRecord.KIND: Build.END}
    return [*steps, end], None if plain else results.finish


def _addresses(*, copies: bool) -> list[int]:
    return addresses(trace_variable(), config.context_variable(), entry_functions(copies=copies))


@lru_cache(maxsize=1)
def begin_loading() -> None:
    """Load the native runtime and the native entry in a thread of its own, which compiles them where they are not on
    disk: every first call needs them at its end, and traces meanwhile, which leaves a processor idle."""

    def load() -> None:
        native_runtime()
        if config.current().calls_natively and fast_path() is None and threading.main_thread().is_alive():
            _ENTRY.get(lambda: _addresses(copies=False))

    begin_apart(load)


class CallTable:
    """A jitted function's call table, and the built-in function that reads it.

    ``slow`` takes the calls that no plan is for. The built-in keeps it and the table alive, and nothing else does.
    ``state`` is asked at each call for what else, beside arguments and settings of dyn, decides what a call is; its
    answer has to equal that of the plan. It raises nothing.
    """

    def __init__(self, slow: Callable[..., Any], state: Callable[[], Any] | None = None) -> None:
        self._lock = lock()
        self._table = _Words(EntryTable.BYTES // 8)
        self._plans: dict[Any, tuple[_Words, list[AnyProgram]]] = {}
        self._table.object(EntryTable.SLOW, slow)
        if state is not None:
            self._table.object(EntryTable.STATE, state)
        entry = _ENTRY.get(lambda: _addresses(copies=False))
        self.function = entry.function(self._table.address, slow, self._table)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more plans."""
        return len(self._plans) >= MOST_PLANS

    @property
    def hits(self) -> int:
        """Number of calls that the entry has made."""
        return self._table.get(EntryTable.HITS)

    def add(
        self, make: Callable[[], CallForm], program: AnyProgram, results: Results,
        test: Sequence[Step] = (),
        donated: Callable[[CallForm], Mapping[int, str | None]] = lambda form: {}, around: Surroundings = _NOTHING,
    ) -> None:  # fmt: skip
        """Let the entry make calls of a form, such as ``program`` has just made, if it can.

        ``test`` is what the sizes of a call of that form have to be for the program, beside the program's own guards.
        ``make`` gives the form; it may raise NoPlanError. ``donated`` gives the leaves that such calls use up, beside
        NumPy's arrays: those of ``dyn.Array`` with what they are labelled with, others with None. ``around`` is what
        the program relies on beside the arguments.
        """
        if self.is_full or not program.native:
            return
        try:
            form = make()
        except NoPlanError:
            return
        key = form.key()
        with self._lock:
            known = self._plans.get(key)
            plan, programs = (_plan(form), []) if known is None else known
            if form.copies or program in programs:  # the entry has passed this call on, or would the next one
                _ENTRY.complete(lambda: _addresses(copies=True))
            if program in programs:
                return
            try:
                version, room = _version(program, results, form, donated(form), around)
            except NoPlanError:
                return
            if test:
                rows: list[_Row] = [
                    {TestRecord.OP: op, TestRecord.VALUE: value, TestRecord.AXIS: axis}
                    for op, value, axis in (*test, (SizeOp.END, 0, 0))
                ]
                version.memory(EntryVersion.TEST, _records(rows, TestRecord.BYTES))

            # Sizes first, then the link: a call that finds the version has room for it.
            for field, count in room.items():
                plan.put(field, max(plan.get(field), count))
            version.put(EntryVersion.NEXT, plan.get(EntryPlan.VERSIONS))
            plan.memory(EntryPlan.VERSIONS, version)
            programs.append(program)
            if known is None:
                plan.put(EntryPlan.NEXT, self._table.get(EntryTable.PLANS))
                self._table.memory(EntryTable.PLANS, plan)
                self._plans[key] = (plan, programs)


def make_table(slow: Callable[..., Any], state: Callable[[], Any] | None = None) -> CallTable | None:
    """A call table, where there is a fast path and the settings want it."""
    return CallTable(slow, state) if fast_path() is None and config.current().calls_natively else None
