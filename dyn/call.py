"""What a jitted function tells the native entry: its call table, with a plan for each form of call that went well.

The entry (``dyn.runtime.entry``) accepts only calls that a plan describes to the last detail, so that everything which
is rare, or wrong, is left to Python. Plans are written here after a call by the slow path, and live as long as the
table.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.array import OWN, Array, adapter_of, result_host
from dyn.backends.host_programs import LoadedProgram, entry_functions
from dyn.backends.native_entry import Once
from dyn.config import Config
from dyn.dtypes import Kind
from dyn.forking import lock
from dyn.hosts import NUMPY, TORCH, Host
from dyn.hosts.cpython import addresses, fast_path
from dyn.hosts.native import NativeType, dlpack_word, holder_type, native_type
from dyn.lower.abi import Tensor
from dyn.runtime.entry.layout import (
    ANY,
    DEPTH,
    Build,
    BuildRecord,
    HostRecord,
    Node,
    NodeRecord,
    OutputRecord,
    Plan,
    Reader,
    StaticRecord,
    Table,
    Version,
)
from dyn.trace.context import trace_variable
from dyn.trace.pytree import TreeSpec, unflatten
from dyn.trace.signature import Bound, Signature
from dyn.trace.static import Static, same_static

#: A function has at most so many plans, and a plan so many versions; what comes later takes the slow path.
MOST_PLANS = 64

_NUMBERS = {float: Node.FLOAT, int: Node.INT, complex: Node.COMPLEX, bool: Node.BOOL}
_CONTAINERS = {tuple: Node.TUPLE, list: Node.LIST, dict: Node.DICT}
#: Types whose values never change, and compare without surprises.
_FIXED = (str, bytes, int, float, complex, bool, type(None), type, np.dtype)
_ENTRY = Once()


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
            if isinstance(value, _Kept):
                memory.object(number * size + offset, value.value)
            elif isinstance(value, _Words):
                memory.memory(number * size + offset, value)
            else:
                memory.put(number * size + offset, value)
    return memory


@dataclasses.dataclass(frozen=True, eq=False)
class _Kept:
    """An object whose address goes into a record."""

    value: Any


#: A record: what lies at each offset. Numbers, and addresses of objects and of memory, which are kept.
_Row = dict[int, "int | _Kept | _Words"]


class _NoPlanError(Exception):
    """A call is of a kind that the entry does not take."""


# ---- the form of a call ----------------------------------------------------------------------------------------------


class Form:
    """A call as a plan describes it. Raises _NoPlanError where it has something that the entry does not know."""

    def __init__(self, signature: Signature, bound: Bound, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.arguments = len(args)
        self.keywords = tuple(sys.intern(name) for name in kwargs)
        self.config: Config = config.current()
        self.leaves = len(bound.leaves)
        self.item_sizes = [0] * self.leaves
        #: For each leaf the number of its node.
        self.places = [0] * self.leaves
        #: How many leaves functions of other libraries read, and the words that the leaves' dims and strides take.
        self.foreign = self.room = 0
        self.hosts: list[Host] = []
        self.statics: list[tuple[int, Any]] = []
        self.nodes: list[_Row] = []
        names = [*(signature.argument_name(i) for i in range(len(args))), *map(signature.keyword_label, kwargs)]
        numbers = dict(zip(bound.names, unflatten(bound.tree, list(range(self.leaves))), strict=True))
        statics = {s.name for s in bound.static}
        if len(names) != len(numbers) + len(statics) or {*names} != numbers.keys() | statics:
            raise _NoPlanError
        for position, (name, value) in enumerate(zip(names, (*args, *kwargs.values()), strict=True)):
            if name in statics:
                if not _is_fixed(value):
                    raise _NoPlanError
                self.statics.append((position, value))
                self.nodes.append({NodeRecord.KIND: Node.SKIP})
            else:
                self._node(value, numbers[name], {}, 1)
        self.nodes.append({NodeRecord.KIND: Node.END})

    def key(self) -> Any:
        """What tells one form from another."""
        nodes = tuple(
            tuple((o, (type(v.value), v.value) if isinstance(v, _Kept) else v) for o, v in row.items())
            for row in self.nodes
        )
        statics = tuple((position, Static("", value)) for position, value in self.statics)
        return (self.arguments, self.keywords, id(self.config), statics, nodes)

    def _node(self, value: Any, numbers: Any, key: _Row, depth: int) -> None:
        """The records of a part of the arguments; ``numbers`` is the same tree with the leaves' numbers."""
        kind = type(value)
        if type(numbers) is int:
            self.nodes.append(key | {NodeRecord.LEAF: numbers} | self._leaf(value, numbers))
        elif value is None:
            self.nodes.append(key | {NodeRecord.KIND: Node.NONE})
        elif kind in _CONTAINERS and type(numbers) is kind and depth < DEPTH:
            self.nodes.append(
                key | {NodeRecord.KIND: _CONTAINERS[kind], NodeRecord.VALUE: id(kind), NodeRecord.COUNT: len(value)}
            )
            if kind is dict:
                for name, item in value.items():
                    if not _is_fixed(name):
                        raise _NoPlanError
                    self._node(item, numbers[name], {NodeRecord.KEY: _Kept(name)}, depth + 1)
            else:
                for item, number in zip(value, numbers, strict=True):
                    self._node(item, number, {}, depth + 1)
            self.nodes.append({NodeRecord.KIND: Node.LEAVE})
        else:
            raise _NoPlanError

    def _leaf(self, value: Any, number: int) -> _Row:
        self.places[number] = len(self.nodes)
        kind = type(value)
        if kind in _NUMBERS:
            return {NodeRecord.KIND: _NUMBERS[kind]}
        host, native = adapter_of(value), _native(kind, value)
        if host is None or native is None:
            raise _NoPlanError
        self.hosts.append(host)
        own = dtypes.dtype(value.dtype if native.reader is not Reader.DLPACK else host.view(value).dtype)
        self.item_sizes[number] = own.itemsize
        tag = native.dtype_tag(own)
        row: _Row = {
            NodeRecord.KIND: Node.ARRAY,
            NodeRecord.VALUE: _Kept(own.np) if tag == id(own.np) else tag,
            NodeRecord.COUNT: value.ndim,
            NodeRecord.UNIT: own.itemsize // (2 if own.kind is Kind.COMPLEX else 1),
            NodeRecord.ROOM: self.room,
            NodeRecord.WEAK: ANY,
        }
        self.room += 2 * value.ndim
        if native.reader is not Reader.NUMPY:
            row[NodeRecord.HOST] = _host_record(native)
        if native.reader in (Reader.DLPACK, Reader.BUFFER):
            row[NodeRecord.KIND] = Node.FOREIGN
            self.foreign += 1
        return row


def is_readable(leaf: Any) -> bool:
    """Whether the entry knows how to read a leaf of such a type."""
    return type(leaf) in _NUMBERS or _native(type(leaf), leaf) is not None


def _native(kind: type, value: Any) -> NativeType | None:
    host = adapter_of(value)
    if host is OWN:
        return holder_type(Array, "_data") if kind is Array else None
    return None if host is None else native_type(host, kind)


@lru_cache(maxsize=64)
def _host_record(native: NativeType) -> _Words:
    """The record of a type, which is kept for as long as there are plans with it: forever."""
    row: _Row = {
        HostRecord.TYPE: _Kept(native.type),
        HostRecord.READER: native.reader,
        HostRecord.WHERE: native.where,
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
        and parameters.frozen
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
    """What the entry compares a static argument with, by ``==``."""
    kind = type(value)
    exact = kind in (str, bytes, int, bool, type(None)) or isinstance(value, type | Enum)
    return value if exact else _Same(value)


# ---- what the entry reads --------------------------------------------------------------------------------------------


def _plan(form: Form) -> _Words:
    plan = _Words(Plan.BYTES // 8)
    plan.put(Plan.ARGUMENTS, form.arguments)
    plan.put(Plan.KEYWORDS, len(form.keywords))
    plan.memory(Plan.KEYWORD_NAMES, _records([{0: _Kept(name)} for name in form.keywords], 8))
    plan.object(Plan.CONFIG, form.config)
    statics: list[_Row] = [
        {StaticRecord.ARGUMENT: at, StaticRecord.OBJECT: _Kept(value), StaticRecord.EQUAL: _Kept(_comparable(value))}
        for at, value in form.statics
    ]
    plan.memory(Plan.STATICS, _records(statics, StaticRecord.BYTES))
    plan.put(Plan.STATIC_COUNT, len(statics))
    code = _records(form.nodes, NodeRecord.BYTES)
    plan.memory(Plan.CODE, code)
    plan.put(Plan.LEAVES, form.leaves)
    plan.memory(Plan.RECORDS, _records([{0: code.address + at * NodeRecord.BYTES} for at in form.places], 8))
    plan.put(Plan.FOREIGN, form.foreign)
    plan.put(Plan.ROOM, form.room)
    plan.memory(Plan.ITEM_SIZES, _records([{0: size} for size in form.item_sizes], 8))
    return plan


def _version(program: LoadedProgram, out_tree: TreeSpec, host: Host) -> tuple[_Words, dict[int, int]]:
    """A version's record, and how much room it needs in a frame, by the plan's field."""
    function = program.interface.function
    version = _Words(Version.BYTES // 8)
    version.put(Version.GUARDS, program.guards or 0)
    version.put(Version.RUN, program.address)
    version.put(Version.CONTEXT, program.context)
    version.put(Version.RUNTIME, program.runtime())
    version.memory(Version.CAPTURED, _captured(program.captured))
    version.put(Version.CAPTURED_COUNT, len(program.captured))
    version.put(Version.CAPTURED_BYTES, sum(array.nbytes for array in program.captured))
    made = _making(host)
    outputs: list[_Row] = [
        {
            OutputRecord.DESCR: _Kept(value.dtype.np),
            OutputRecord.ITEM_SIZE: value.dtype.itemsize,
            OutputRecord.RANK: len(value.shape),
            OutputRecord.TYPE: dlpack_word(value.dtype),
            **made,
        }
        for value in function.results
    ]
    version.put(Version.WRAPS, OutputRecord.WRAP in made)
    version.memory(Version.OUTPUTS, _records(outputs, OutputRecord.BYTES))
    version.put(Version.OUTPUT_COUNT, len(outputs))
    steps, epilogue = _build_steps(out_tree)
    version.memory(Version.CODE, _records(steps, BuildRecord.BYTES))
    if epilogue is not None:
        version.object(Version.EPILOGUE, epilogue)
    version.kept.append(program)
    ranks = sum(len(value.shape) for value in function.results)
    room = {
        Plan.INPUTS: len(function.params),
        Plan.OUTPUTS: len(outputs),
        Plan.OUTPUT_DIMS: ranks,
        Plan.STACK: len(steps),
    }
    return version, room


def _making(host: Host) -> _Row:
    """How results of a host are made."""
    if host is NUMPY:
        return {}
    native = native_type(host, sys.modules["torch"].Tensor) if host is TORCH else None
    return {OutputRecord.WRAP: _Kept(host.wrap)} if native is None else {OutputRecord.MAKE: native.make}


def _captured(arrays: Sequence[np.ndarray[Any, Any]]) -> _Words:
    """Tensors of arrays that stay where they are."""
    memory = _Words(len(arrays) * Tensor.BYTES // 8)
    for number, array in enumerate(arrays):
        at = number * Tensor.BYTES
        memory.put(at + Tensor.DATA, array.__array_interface__["data"][0])
        memory.put(at + Tensor.RANK - 4, array.ndim << 32)  # the upper half of a word
        memory.memory(at + Tensor.DIMS, _records([{0: size} for size in array.shape], 8))
    return memory


def _build_steps(out_tree: TreeSpec) -> tuple[list[_Row], Callable[[Any], Any] | None]:
    """How the results' tree is put together. One with nodes other than plain containers is made from a tuple."""
    steps: list[_Row] = []

    def visit(node: Any) -> bool:
        kind = type(node)
        if kind is int:
            steps.append({BuildRecord.KIND: Build.RESULT, BuildRecord.COUNT: node})
        elif node is None:
            steps.append({BuildRecord.KIND: Build.NONE})
        elif kind in (tuple, list, dict):
            if not all(visit(item) for item in (node.values() if kind is dict else node)):
                return False
            step: _Row = {
                BuildRecord.KIND: {tuple: Build.TUPLE, list: Build.LIST, dict: Build.DICT}[kind],
                BuildRecord.COUNT: len(node),
            }
            if kind is dict:
                step[BuildRecord.KEYS] = _records([{0: _Kept(name)} for name in node], 8)
            steps.append(step)
        else:
            return False
        return True

    count = out_tree.num_leaves
    plain = visit(unflatten(out_tree, list(range(count))))
    if not plain:
        steps.clear()
        visit(tuple(range(count)))
    end: _Row = {BuildRecord.KIND: Build.END}
    return [*steps, end], None if plain else lambda results: unflatten(out_tree, list(results))


class CallTable:
    """A jitted function's call table, and the built-in function that reads it.

    ``slow`` takes the calls that no plan is for. The built-in keeps it and the table alive, and nothing else does.
    """

    def __init__(self, slow: Callable[..., Any]) -> None:
        self._lock = lock()
        self._table = _Words(Table.BYTES // 8)
        self._plans: dict[Any, tuple[_Words, list[LoadedProgram]]] = {}
        self._table.object(Table.SLOW, slow)
        entry = _ENTRY.get(lambda: addresses(trace_variable(), config.context_variable(), entry_functions()))
        self.function = entry.function(self._table.address, slow, self._table)

    @property
    def hits(self) -> int:
        """How many calls the entry has made."""
        return self._table.get(Table.HITS)

    def add(
        self,
        signature: Signature,
        bound: Bound,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        program: LoadedProgram,
        out_tree: TreeSpec,
    ) -> None:
        """Let the entry make calls like this one, which ``program`` has just made, if it can."""
        if len(self._plans) >= MOST_PLANS or not program.native:
            return
        try:
            form = Form(signature, bound, args, kwargs)
        except _NoPlanError:
            return
        key = form.key()
        with self._lock:
            known = self._plans.get(key)
            plan, programs = (_plan(form), []) if known is None else known
            if program in programs:
                return
            version, room = _version(program, out_tree, result_host(form.hosts))
            # Sizes first, then the link: a call that finds the version has room for it.
            for field, count in room.items():
                plan.put(field, max(plan.get(field), count))
            version.put(Version.NEXT, plan.get(Plan.VERSIONS))
            plan.memory(Plan.VERSIONS, version)
            programs.append(program)
            if known is None:
                plan.put(Plan.NEXT, self._table.get(Table.PLANS))
                self._table.memory(Table.PLANS, plan)
                self._plans[key] = (plan, programs)


def make_table(slow: Callable[..., Any]) -> CallTable | None:
    """A call table, where there is a fast path and the settings want it."""
    return CallTable(slow) if fast_path() is None and config.current().fast_call else None
