"""DHLO, dynamic HLO: values, ops, regions, functions.

Everything is a frozen record; a change makes a new Function. A Value or an Op is itself, not its contents
(``eq=False``): two ops may look alike and differ. Dims stand in types and attributes as symbolic expressions over the
Function's symbols, so shape arithmetic never appears as ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.ir.opdef import OpDef
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, Symbol, SymExpr, free_symbols
from dyn.source import Loc


@dataclass(frozen=True, eq=False, slots=True)
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


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """An immutable array in an attribute: a constant's value."""

    array: np.ndarray[Any, Any]

    def __post_init__(self) -> None:
        self.array.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dense) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> tuple[object, ...]:
        return (self.array.dtype.str, self.array.shape, self.array.tobytes())


#: What an attribute may be: a Dim, a bool, a float, a string, a dtype, a Dense, or a tuple of these.
Attr = Any


@dataclass(frozen=True, eq=False, slots=True)
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

    def __repr__(self) -> str:
        return f"{self.opdef.name}({', '.join(repr(v) for v in self.operands)})"


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A nested program: what a loop repeats, a branch runs, a reduction combines with."""

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """How people know a parameter (``params['w']`` in messages), and whether it is a captured array.

    ``dims`` are its dims before refinement replaced equal ones by one another: what a call is checked against. None
    while they are the parameter's own.
    """

    name: str
    hidden: bool = False
    dims: tuple[Dim, ...] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """A whole program: parameters, ops in order, results, and what is known of its dims."""

    name: str
    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    facts: Facts
    infos: tuple[ParamInfo, ...]
    result_names: tuple[str, ...] = field(default=())

    def with_ops(
        self, ops: tuple[Op, ...], results: tuple[Value, ...] | None = None, facts: Facts | None = None
    ) -> Function:
        """The same function with other ops (and results and facts)."""
        return replace(
            self,
            ops=ops,
            results=self.results if results is None else results,
            facts=self.facts if facts is None else facts,
        )

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in order of first appearance: parameters, then ops."""
        found: dict[Symbol, None] = {}
        for dim in self._dims():
            if isinstance(dim, SymExpr):
                for symbol in sorted(free_symbols(dim), key=lambda s: s.uid):
                    found.setdefault(symbol, None)
        return tuple(found)

    def _dims(self) -> Iterator[Dim]:
        for param, info in zip(self.params, self.infos, strict=True):
            yield from param.shape if info.dims is None else info.dims
        for relation in self.facts.relations:
            yield relation.lhs
            yield relation.rhs
        for op in self.ops:
            for result in op.results:
                yield from result.shape
            yield from attr_dims(op.attrs)

    def users(self) -> dict[Value, list[Op]]:
        """The ops that read each value, in order; an op that reads it twice is listed once."""
        users: dict[Value, list[Op]] = {value: [] for value in self.params}
        for op in self.ops:
            for operand in dict.fromkeys(op.operands):
                users[operand].append(op)
            for result in op.results:
                users[result] = []
        return users

    def producers(self) -> dict[Value, Op]:
        """The op that makes each value."""
        return {result: op for op in self.ops for result in op.results}


def attr_dims(attrs: Mapping[str, Attr]) -> Iterator[Dim]:
    """Every symbolic dim in some attributes."""
    for value in attrs.values():
        if isinstance(value, SymExpr):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, SymExpr))


def map_attr_dims(attrs: Mapping[str, Attr], change: Any) -> dict[str, Attr]:
    """The attributes with ``change`` applied to each symbolic dim."""

    def one(value: Attr) -> Attr:
        if isinstance(value, SymExpr):
            return change(value)
        if isinstance(value, tuple):
            return tuple(one(v) for v in value)
        return value

    return {name: one(value) for name, value in attrs.items()}
