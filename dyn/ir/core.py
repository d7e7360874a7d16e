"""DHLO, dynamic HLO: values, ops, regions, functions.

Everything is a frozen record; a change makes a new Function. A Value or an Op is itself, not its contents
(``eq=False``): two ops may look alike and differ. Dims stand in types and attributes as symbolic expressions over the
Function's symbols, so shape arithmetic never appears as ops.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from dyn.dtypes import DType, dtype
from dyn.frozen import record
from dyn.ir.opdef import OpDef
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, Relation, Symbol, SymExpr, as_dim, evaluate, free_symbols
from dyn.source import Loc


@record(eq=False)
class Value:
    """A tensor in a program. ``name`` is a hint for people."""

    type: TensorType
    name: str = ""

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype


#: A constant of so many elements lies in a buffer of its own, unless all of them are one: as code it would take as long
#: to compile as it has elements, and more.
BUFFER_FROM = 64


class Dense:
    """An immutable array in an attribute: a constant's value. It keeps a copy of the array that it is made from.

    Of a large array whose elements are all one only that one is kept: ``array`` has no strides then. Two are equal when
    their bytes are: 0.0 is not -0.0, and a NaN is itself. With ``copy=False`` it takes over an array that nobody writes
    to any more. Elements that lie somewhere else too need not be kept here (:meth:`leave_to`).
    """

    __slots__ = ("__weakref__", "_array", "_content", "_restore", "dtype", "has_buffer", "shape")

    def __init__(self, array: np.ndarray[Any, Any], *, copy: bool = True) -> None:
        element = dtype(array.dtype).np
        one = uniform_element(array) if array.size >= BUFFER_FROM else None
        own = np.array(array if one is None else one, element, order="C", copy=copy or None)
        self._content: bytes | None = None
        if one is not None:
            self._content = own.tobytes()
            own = np.broadcast_to(own, array.shape)
        if own is array:  # its own flag stays as it is
            own = own.view()
        own.setflags(write=False)
        self._array: np.ndarray[Any, Any] | None = own
        self._restore: Callable[[], np.ndarray[Any, Any]] | None = None
        self.shape: tuple[int, ...] = own.shape
        self.dtype: np.dtype[Any] = own.dtype
        #: Whether the elements lie in a buffer, instead of in the code that reads them.
        self.has_buffer = own.size >= BUFFER_FROM and one is None

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements. Where they were left to somebody else, each call makes them anew."""
        kept = self._array
        if kept is None:
            assert self._restore is not None
            kept = self._restore()
            kept.setflags(write=False)
        return kept

    def leave_to(self, restore: Callable[[], np.ndarray[Any, Any]]) -> None:
        """Keep the elements no longer: ``restore`` makes the same ones."""
        self._restore, self._array = restore, None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.array, dtype, copy=copy)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, wherever they are."""
        return self.size * self.dtype.itemsize

    @property
    def is_splat(self) -> bool:
        """Whether it is a large array whose elements are all one, of which that one is kept."""
        return self.size >= BUFFER_FROM and not self.has_buffer

    @property
    def element(self) -> np.ndarray[Any, Any] | None:
        """The element, as a 0-d array, that it consists of to the bit; None where there are several, or none."""
        return None if self.has_buffer else uniform_element(self.array)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dense) and self.key() == other.key())

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        return f"Dense({self.array!r})"

    def key(self) -> tuple[object, ...]:
        """Key by which constants are compared. ``dtype.str`` would not do: bfloat16's is that of any two bytes."""
        return (self.dtype, self.shape, self.content)

    @property
    def content(self) -> bytes:
        """The bytes of the elements; of a buffer their SHA-256, and where all elements are one the bytes of that."""
        found = self._content
        if found is None:
            array = self.array
            found = sha256(array.reshape(-1).view(np.uint8).data).digest() if self.has_buffer else array.tobytes()
            self._content = found
        return found


def uniform_element(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """The element, as a 0-d array, that an array consists of to the bit; None where there are several, or none."""
    if array.size == 0:
        return None
    first = np.array(array[(0,) * array.ndim])
    if all(stride == 0 or size == 1 for stride, size in zip(array.strides, array.shape, strict=True)):
        return first
    words = np.ascontiguousarray(array).reshape(-1).view(f"u{min(array.itemsize, 8)}").reshape(array.size, -1)
    # Most differ soon.
    return first if all((part == words[0]).all() for part in (words[:BUFFER_FROM], words)) else None


#: What an attribute may be: a Dim (an int or an expression), a bool, a float, a string, a dtype, a Dense, or a tuple
#: of these.
Attr = Any


@record(eq=False)
class Op:
    """One operation: its definition, operands, attributes, regions, results, and the user's line."""

    opdef: OpDef
    operands: tuple[Value, ...]
    attrs: Mapping[str, Attr]
    results: tuple[Value, ...]
    loc: Loc
    regions: tuple[Region, ...] = ()

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def reads(self) -> Iterator[Value]:
        """The values from outside that the op reads: its operands, and what its regions use. May repeat."""
        yield from self.operands
        for region in self.regions:
            yield from region.reads()

    def __repr__(self) -> str:
        return f"{self.opdef.name}({', '.join(repr(v) for v in self.operands)})"


@record(eq=False)
class Region:
    """A nested program: what a loop repeats, a branch runs, a reduction combines with."""

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    #: What has to hold of the dims where the region runs, beyond what is known around it. Inside they are facts.
    demands: tuple[Relation, ...] = ()

    def reads(self) -> Iterator[Value]:
        """The values from outside that the region uses. May repeat."""
        own = set(self.params)
        for op in self.ops:
            yield from (v for v in op.reads() if v not in own)
            own.update(op.results)
        yield from (v for v in self.results if v not in own)


@record()
class ParamInfo:
    """Name of a parameter in messages (``params['w']``), and whether it is a captured array.

    ``dims`` are its dims before refinement replaced equal ones by one another: what a call is checked against. None
    while they are the parameter's own.
    """

    name: str
    hidden: bool = False
    dims: tuple[Dim, ...] | None = None


@record(eq=False)
class Function:
    """A whole program: parameters, ops in order, results, and what is known of its dims."""

    name: str
    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    facts: Facts
    infos: tuple[ParamInfo, ...]
    result_names: Sequence[str] = field(default=())

    def checked_shapes(self) -> tuple[tuple[Dim, ...], ...]:
        """The shapes of the parameters that calls are checked against: those from before refinement."""
        return tuple([
            param.shape if info.dims is None else info.dims
            for param, info in zip(self.params, self.infos, strict=True)
        ])  # fmt: skip

    def with_ops(
        self, ops: tuple[Op, ...], results: tuple[Value, ...] | None = None, facts: Facts | None = None
    ) -> Function:
        """A copy of the function with other ops (and results and facts)."""
        return replace(
            self,
            ops=ops,
            results=self.results if results is None else results,
            facts=self.facts if facts is None else facts,
        )

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in order of first appearance: parameters, what is known of them, ops."""
        found: dict[Symbol, None] = {}
        seen: set[SymExpr] = set()
        for dim in self._dims():
            if isinstance(dim, SymExpr) and dim not in seen:
                seen.add(dim)
                for symbol in sorted(free_symbols(dim), key=lambda s: s.uid):
                    found.setdefault(symbol, None)
        return tuple(found)

    def _dims(self) -> Iterator[Dim]:
        for param, info in itertools.zip_longest(self.params, self.infos):  # the verifier prints invalid functions too
            yield from info.dims if info is not None and info.dims is not None else ()
            yield from param.shape if param is not None else ()
        for declaration in self.facts.declarations:
            yield as_dim(declaration.symbol)
        for relation in self.facts.relations:
            yield from _relation_dims(relation)
        yield from _block_dims(self.ops)

    def users(self) -> dict[Value, list[Op]]:
        """The ops that read each value, in order, in their regions too; an op that reads it twice is listed once."""
        users: dict[Value, list[Op]] = {value: [] for value in self.params}
        for op in self.ops:
            for operand in dict.fromkeys(op.reads()):
                users[operand].append(op)
            for result in op.results:
                users[result] = []
        return users

    def producers(self) -> dict[Value, Op]:
        """The op that makes each value."""
        return {result: op for op in self.ops for result in op.results}


def _block_dims(ops: tuple[Op, ...]) -> Iterator[Dim]:
    for op in ops:
        for region in op.regions:
            for param in region.params:
                yield from param.shape
            for relation in region.demands:
                yield from _relation_dims(relation)
            yield from _block_dims(region.ops)
        for result in op.results:
            yield from result.shape
        yield from attr_dims(op.attrs)


def _relation_dims(relation: Relation) -> Iterator[Dim]:
    yield from (relation.lhs, relation.rhs, *(relation.lhs_shape or ()), *(relation.rhs_shape or ()))


def with_operands(op: Op, values: Mapping[Value, Value]) -> Op:
    """The op with values replaced where it reads them, in its regions too; the same op where none is."""
    operands = tuple([values.get(v, v) for v in op.operands])
    if not op.regions:
        return op if operands == op.operands else Op(op.opdef, operands, op.attrs, op.results, op.loc)
    regions = tuple([_region_with(region, values) for region in op.regions])
    if operands == op.operands and all(a is b for a, b in zip(regions, op.regions, strict=True)):
        return op
    return replace(op, operands=operands, regions=regions)


def _region_with(region: Region, values: Mapping[Value, Value]) -> Region:
    ops = tuple([with_operands(op, values) for op in region.ops])
    results = tuple([values.get(v, v) for v in region.results])
    if results == region.results and all(a is b for a, b in zip(ops, region.ops, strict=True)):
        return region
    return replace(region, ops=ops, results=results)


# --- attributes ---------------------------------------------------------------------------------------------------


def attr_dims(attrs: Mapping[str, Attr]) -> Iterator[Dim]:
    """Every symbolic dim in some attributes."""
    for value in attrs.values():
        if isinstance(value, SymExpr):
            yield value
        elif isinstance(value, tuple):
            yield from _dims_in(value)


def _dims_in(values: tuple[Attr, ...]) -> Iterator[SymExpr]:
    for value in values:
        if isinstance(value, SymExpr):
            yield value
        elif isinstance(value, tuple):
            yield from _dims_in(value)


def map_attr_dims(attrs: Mapping[str, Attr], change: Callable[[Dim], Dim]) -> dict[str, Attr]:
    """The attributes with ``change`` applied to each symbolic dim."""

    def one(value: Attr) -> Attr:
        if isinstance(value, SymExpr):
            return change(value)
        if isinstance(value, tuple):
            return tuple([one(v) for v in value])
        return value

    return {name: one(value) for name, value in attrs.items()}


def buffers(ops: Sequence[Op]) -> dict[str, Dense]:
    """The constants that lie in buffers, those of regions too, by the hexadecimal of their ``content``."""
    found: dict[str, Dense] = {}
    for op in ops:
        for value in op.attrs.values():
            if isinstance(value, Dense) and value.has_buffer:
                found.setdefault(value.content.hex(), value)
        for region in op.regions:
            found.update(buffers(region.ops))
    return found


def attr_values(attrs: Mapping[str, Attr], env: Mapping[Symbol, int]) -> dict[str, Any]:
    """The attributes with each symbolic dim as the number that it is where the symbols have the values of ``env``."""
    return map_attr_dims(attrs, lambda dim: evaluate(dim, env))


def attrs_key(attrs: Mapping[str, Attr]) -> tuple[object, ...]:
    """Key by which ops' attributes are compared. Python takes 1, 1.0 and True for one another, and 0.0 for -0.0."""
    return tuple([(name, _attr_key(attrs[name])) for name in sorted(attrs)])


def _attr_key(value: Attr) -> object:
    if isinstance(value, tuple):
        return tuple([_attr_key(v) for v in value])
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    return type(value), value


def region_key(region: Region, outer: Mapping[Value, object]) -> tuple[object, ...]:
    """Key by which regions are compared, their values numbered as they come; ``outer`` are those from outside."""
    names: dict[Value, object] = {param: ("param", number) for number, param in enumerate(region.params)}

    def name(value: Value) -> object:
        found = names.get(value)
        return ("outer", outer[value]) if found is None else found

    ops: list[object] = []
    for op in region.ops:
        inner = tuple([region_key(r, {v: name(v) for v in r.reads()}) for r in op.regions])
        types = tuple([v.type for v in op.results])
        ops.append((op.opdef, attrs_key(op.attrs), tuple([name(v) for v in op.operands]), inner, types))
        names.update((result, (len(ops), number)) for number, result in enumerate(op.results))
    demands = tuple([(r.kind, r.lhs, r.rhs, r.lhs_shape, r.rhs_shape) for r in region.demands])
    return tuple([v.type for v in region.params]), tuple(ops), tuple([name(v) for v in region.results]), demands
