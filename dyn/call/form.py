"""The form of a call, as a plan describes it: containers, leaves, dtypes, ranks and static values."""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.array import OWN, Array, adapter_of
from dyn.backends.device_entry import entry_device
from dyn.backends.donated_memory import is_dense
from dyn.call.records import ObjectAddress, Row, Words, records
from dyn.config import Config
from dyn.dtypes import DType, Kind
from dyn.frozen import is_record
from dyn.hosts.native import NativeType, device_holder, holder_type, native_type
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import Context
from dyn.runtime.entry.layout import ANY, DEPTH, ArrayReader, HostRecord, NodeRecord, PlanNode
from dyn.trace.pytree import unflatten
from dyn.trace.signature import BoundArguments, Signature
from dyn.trace.static_keys import Static

_NUMBERS = {float: PlanNode.FLOAT, int: PlanNode.INT, complex: PlanNode.COMPLEX, bool: PlanNode.BOOL}
#: The dtypes that numbers become: as they are, and as ``LeafForm.narrow`` has it.
_NUMBER_DTYPES = {
    float: (dtypes.float64, dtypes.float32), int: (dtypes.int64, dtypes.int32),
    complex: (dtypes.complex128, dtypes.complex64), bool: (dtypes.bool_, dtypes.bool_),
}  # fmt: skip
_CONTAINERS = {tuple: PlanNode.TUPLE, list: PlanNode.LIST, dict: PlanNode.DICT}
#: Types whose values never change, and compare without surprises.
_FIXED = (str, bytes, int, float, complex, bool, type(None), type, np.dtype)
_INT64 = (-(2**63), 2**63 - 1)


class NoPlanError(Exception):
    """A call is of a kind that the entry does not take."""


def private(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies of a call's plain containers, down to where plans end, which nobody else can change.

    The caller's are read here, and not again: whoever makes a plan of the copies has to see that they hold what the
    program was made for, which may have been replaced meanwhile, by the function itself or in another thread.
    """
    return tuple([_private(value) for value in args]), {name: _private(value) for name, value in kwargs.items()}


def _private(value: Any, depth: int = 1) -> Any:
    kind = type(value)
    if depth >= DEPTH or kind not in _CONTAINERS:
        return value
    if kind is dict:
        return {key: _private(item, depth + 1) for key, item in value.copy().items()}
    return kind([_private(item, depth + 1) for item in tuple(value)])


def same_objects(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return True if two sequences hold the same objects."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


class _StaticMarker:
    """Marker in the place of a leaf's number: the leaf is static, and is compared."""


STATIC = _StaticMarker()


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


_ANYTHING = LeafForm()


class CallForm:
    """A call as a plan describes it. Raises NoPlanError where it has something that the entry does not know.

    ``numbers`` has for each argument, those by keyword last, a tree of the same containers with the numbers of the
    leaves, or STATIC for what is compared. The ``count`` leaves are in the order in which the program takes them; those
    that it does not take are the last. ``state`` is what the table's state has to be, and ``settings`` dyn's, those in
    force unless given. Containers are nobody else's (:func:`private`).
    """

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: Sequence[Any], count: int,
        leaves: Mapping[int, LeafForm] = MappingProxyType({}), state: Any = None, settings: Config | None = None,
    ) -> None:  # fmt: skip
        self.arguments = len(args)
        self.keywords = tuple(sys.intern(name) for name in kwargs)
        self.config: Config = config.current() if settings is None else settings
        self.leaves, self.wanted, self.state = count, leaves, state
        self.item_sizes = [0] * self.leaves
        #: The dtype and the rank of each leaf, which the program has to have been made for.
        self.types: dict[int, tuple[DType, int]] = {}
        #: For each leaf the number of its node.
        self.places = [0] * self.leaves
        #: How many leaves functions of other libraries read, and the words that the leaves' dims and strides take.
        self.foreign = self.room = 0
        #: Whether an array of NumPy's has to be copied for compiled code.
        self.copies = False
        #: How each leaf is read that is an array.
        self.arrays: dict[int, NativeType] = {}
        #: The devices of arrays, None for this machine's memory; and the leaves with elements there, numbers too.
        self.devices: set[Context | None] = set()
        self.on_host: set[int] = set()
        self.statics: list[tuple[int, Any]] = []
        self.nodes: list[Row] = []
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
    def of(
        signature: Signature, bound: BoundArguments, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Config
    ) -> CallForm:
        """The form of a call of a jitted function; NoPlanError where its arguments are no longer what was bound."""
        args, kwargs = private(args, kwargs)
        again = signature.bind(args, kwargs)
        if not same_objects(again.leaves, bound.leaves) or (again.tree, again.static) != (bound.tree, bound.static):
            raise NoPlanError
        count = len(bound.leaves)
        names = [*(signature.argument_name(i) for i in range(len(args))), *map(signature.keyword_label, kwargs)]
        numbers: dict[str, Any] = dict(zip(bound.names, unflatten(bound.tree, list(range(count))), strict=True))
        numbers |= {static.name: STATIC for static in bound.static}
        if len(names) != len(numbers) or {*names} != numbers.keys():
            raise NoPlanError
        return CallForm(args, kwargs, [numbers[name] for name in names], count, settings=settings)

    def key(self) -> Any:
        """Key by which equal forms have one plan."""
        nodes = tuple(
            tuple((o, (type(v.value), v.value) if isinstance(v, ObjectAddress) else v) for o, v in row.items())
            for row in self.nodes
        )
        statics = tuple((position, Static("", value)) for position, value in self.statics)
        sizes = tuple((number, leaf.sizes) for number, leaf in self.wanted.items())
        return (self.arguments, self.keywords, id(self.config), self.state, statics, nodes, sizes)

    def _node(self, value: Any, numbers: Any, key: Row, depth: int) -> None:
        """The records of a part of the arguments; ``numbers`` is the same tree with the leaves' numbers."""
        kind = type(value)
        if type(numbers) is int:
            self.nodes.append(key | {NodeRecord.LEAF: numbers} | self._leaf(value, numbers))
        elif value is None:
            self.nodes.append(key | {NodeRecord.KIND: PlanNode.NONE})
        elif numbers is STATIC:
            if not _is_fixed(value):
                raise NoPlanError
            self.nodes.append(key | {NodeRecord.KIND: PlanNode.SAME, NodeRecord.VALUE: ObjectAddress(value)})
        elif kind in _CONTAINERS and type(numbers) is kind and depth < DEPTH:
            self.nodes.append(
                key | {NodeRecord.KIND: _CONTAINERS[kind], NodeRecord.VALUE: id(kind), NodeRecord.COUNT: len(value)}
            )
            if kind is dict:
                for name, item in value.items():
                    if not _is_fixed(name):
                        raise NoPlanError
                    self._node(item, numbers[name], {NodeRecord.KEY: ObjectAddress(name)}, depth + 1)
            else:
                for item, number in zip(value, numbers, strict=True):
                    self._node(item, number, {}, depth + 1)
            self.nodes.append({NodeRecord.KIND: PlanNode.LEAVE})
        else:
            raise NoPlanError

    def _leaf(self, value: Any, number: int) -> Row:
        self.places[number] = len(self.nodes)
        kind, wanted = type(value), self.wanted.get(number, _ANYTHING)
        if wanted.is_size:
            row: Row = {NodeRecord.KIND: PlanNode.SIZE, NodeRecord.ROOM: self.room}
            self.room += 2
            return row
        if kind in _NUMBERS:
            self.devices.add(None)
            self.on_host.add(number)
            wide, narrow = _NUMBER_DTYPES[kind]
            self.types[number] = (narrow if wanted.narrow else wide, 0)
            least, greatest = _INT64 if wanted.limits is None else wanted.limits
            return {
                NodeRecord.KIND: _NUMBERS[kind],
                NodeRecord.UNIT: 4 if wanted.narrow else 8,
                NodeRecord.VALUE: least,
                NodeRecord.COUNT: greatest,
            }
        host, native = adapter_of(value), native_of(kind, value)
        if host is None or native is None:
            raise NoPlanError
        self.arrays[number] = native
        self.devices.add(native.device)
        if native.device is None:
            self.on_host.add(number)
        self.copies |= native.reader is ArrayReader.NUMPY and not is_dense(value)
        own = dtypes.dtype(value.dtype if native.reader is not ArrayReader.DLPACK else host.borrow(value).dtype)
        self.item_sizes[number], self.types[number] = own.itemsize, (own, value.ndim)
        if wanted.sizes is not None and len(wanted.sizes) != value.ndim:  # it has got another shape since
            raise NoPlanError
        tag = native.dtype_tag(own)
        row = {
            NodeRecord.KIND: PlanNode.ARRAY,
            NodeRecord.VALUE: ObjectAddress(own.np) if tag == id(own.np) else tag,
            NodeRecord.COUNT: value.ndim,
            NodeRecord.UNIT: own.itemsize // (2 if own.kind is Kind.COMPLEX else 1),
            NodeRecord.ROOM: self.room,
            NodeRecord.WEAK: ANY if wanted.weak is None else int(wanted.weak),
            NodeRecord.ROWS: int(wanted.rows),
        }
        self.room += 2 * value.ndim
        if native.reader is not ArrayReader.NUMPY:
            row[NodeRecord.HOST] = host_record(native)
        if native.reader in (ArrayReader.DLPACK, ArrayReader.BUFFER, ArrayReader.ARRAY):
            row[NodeRecord.KIND] = PlanNode.FOREIGN
            self.foreign += 1
        return row


def is_readable(leaf: Any) -> bool:
    """Whether the entry knows how to read a leaf of such a type."""
    return type(leaf) in _NUMBERS or native_of(type(leaf), leaf) is not None


def native_of(kind: type, value: Any) -> NativeType | None:
    """How the entry reads an array of a type; None where it does not know."""
    host = adapter_of(value)
    if host is not OWN:
        return None if host is None else native_type(host, value)
    held = holder_type(Array, "_data", "_label") if kind is Array else None
    data = None if held is None else value._data
    return device_holder(held, data.context) if held is not None and isinstance(data, DeviceArray) else held


@lru_cache(maxsize=64)
def host_record(native: NativeType) -> Words:
    """The record of a type, which is kept for as long as there are plans with it: forever. NoPlanError for arrays on a
    device that the entry cannot read."""
    device = None if native.device is None else entry_device(native.device)
    if native.device is not None and device is None:
        raise NoPlanError
    row: Row = {
        HostRecord.TYPE: ObjectAddress(native.type),
        HostRecord.READER: native.reader,
        HostRecord.WHERE: native.where,
        HostRecord.GRADIENTS: ObjectAddress(native.gradients),
        HostRecord.IMPL: native.impl,
        HostRecord.KEYS: native.keys,
        HostRecord.ODD_KEYS: native.odd_keys,
        HostRecord.STORAGE: native.storage,
        HostRecord.DATA: native.data,
        HostRecord.DEVICE: 0 if device is None else device.address,
        HostRecord.PLACE: native.place,
        HostRecord.CURRENT: ObjectAddress(native.current),
    }
    return records([row], HostRecord.BYTES)


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
