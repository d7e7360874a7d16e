"""Digests of functions: equal only where every pass must do the same.

The text of a function (``dyn.ir.printer``) is for people and the parser: it says nothing of a NaN's bits, or in which
order dims were declared. Here everything counts that a pass could look at, and nothing else: source lines and the
reasons of facts do not.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Any

from dyn.dtypes import DType, dtype
from dyn.frozen import record
from dyn.ir.core import Attr, Dense, Function, Op, Value
from dyn.ir.external import External
from dyn.ir.opdef import OpDef
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Opaque, Relation, Symbol, SymExpr, as_dim
from dyn.shapes.text import text_of_terms


@record()
class Identity:
    """The digests of a function.

    ``structure`` is without names: functions of one structure have the same machine code. It holds in this process, as
    long as somebody keeps the objects in ``kept``. ``named`` holds in every process and counts the names of arguments
    and dims, since they stand in notes and messages; None where something in the function has no meaning elsewhere: an
    op that is not dyn's own, an attribute of an unknown kind.
    """

    structure: str
    names: tuple[str, ...]
    kept: tuple[Any, ...]

    @property
    def named(self) -> str | None:
        return None if self.kept else _digest([self.structure, *self.names])


def function_identity(function: Function, ops: Collection[OpDef], guards: Iterable[Relation] = ()) -> Identity:
    """The digests of a function, and of relations that go with it. ``ops`` are those that are known by their names.

    The relative ages of dims count: the terms of an expression are in the order of these.
    """
    writer = _FieldWriter(ops)
    writer.function(function)
    for guard in guards:
        writer.relation(guard)
    writer.ages()
    return Identity(_digest(writer.lines), tuple(writer.names), tuple(writer.kept))


def _digest(lines: Iterable[str]) -> str:
    return sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()


class _FieldWriter:
    """Lines of fields, each field free of blanks or quoted, so that no two functions write the same."""

    def __init__(self, ops: Collection[OpDef]) -> None:
        self.ops = ops
        self.lines: list[str] = []
        #: The names, in the order in which what they name is written.
        self.names: list[str] = []
        #: What is written as its address.
        self.kept: list[Any] = []
        #: Symbols by their first appearance.
        self.symbols: dict[Symbol, str] = {}
        self.values: dict[Value, int] = {}
        self.types: dict[TensorType, str] = {}
        self.dims: dict[Dim, str] = {}
        #: Opaque terms, each of which has a line of its own: sizes that are made of one another share theirs.
        self.terms: dict[Opaque, str] = {}
        #: What ops are called.
        self.opdefs: dict[OpDef, str] = {}
        #: External functions by their first appearance: code knows them by their numbers.
        self.externals: dict[External, int] = {}

    def function(self, function: Function) -> None:
        self.names.append(repr(function.name))
        for param, info in zip(function.params, function.infos, strict=True):
            dims = "own" if info.dims is None else self.shape(info.dims)
            self.names.append(repr(info.name))
            self.lines.append(f"param {self.define(param)} {info.hidden} {dims}")
        for declared in function.facts.declarations:
            self.lines.append(
                f"dim {self.dim(as_dim(declared.symbol))} {declared.min} {declared.max} {declared.multiple_of} "
                f"{declared.likely}"
            )
        for relation in function.facts.relations:
            self.relation(relation)
        self.block(function.ops, function.results)

    def ages(self) -> None:
        """The order of the symbols, which is that of the terms of a dim."""
        for symbol in sorted(self.symbols, key=lambda s: s.uid):
            self.names.append(f"{symbol.name!r} {symbol.origin!r}")
            self.lines.append(f"{self.symbols[symbol]} {symbol.data_dependent}")

    def relation(self, relation: Relation) -> None:
        shapes = [None if s is None else self.shape(s) for s in (relation.lhs_shape, relation.rhs_shape)]
        self.lines.append(f"{relation.kind.value} {self.dim(relation.lhs)} {self.dim(relation.rhs)} {shapes}")

    def block(self, ops: tuple[Op, ...], results: tuple[Value, ...]) -> None:
        values, opdefs, attr = self.values, self.opdefs, self.attr
        for op in ops:
            called = opdefs.get(op.opdef)
            if called is None:
                known = op.opdef in self.ops
                called = opdefs[op.opdef] = op.opdef.name if known else f"{op.opdef.name} {self.object(op.opdef)}"
            operands = [values[v] for v in op.operands]
            attrs = [f"{name}={attr(op.attrs[name])}" for name in sorted(op.attrs)] if op.attrs else ()
            for region in op.regions:
                self.lines.append(f"region {' '.join([self.define(v) for v in region.params])}")
                for relation in region.demands:
                    self.relation(relation)
                self.block(region.ops, region.results)
            results_ = [self.define(v) for v in op.results]
            self.lines.append(f"{called} {operands} {attrs} {results_}")
        self.lines.append(f"return {[self.values[v] for v in results]}")

    def define(self, value: Value) -> str:
        """The type of a value, which gets the next number."""
        self.values[value] = len(self.values)
        text = self.types.get(value.type)
        if text is None:
            weak = "~" if value.type.weak else ""
            text = self.types[value.type] = f"{value.dtype.name}{self.shape(value.shape)}{weak}"
        return text

    def shape(self, dims: Iterable[Dim]) -> str:
        return f"[{','.join([self.dim(d) for d in dims])}]"

    def dim(self, dim: Dim) -> str:
        text = self.dims.get(dim)
        if text is None:
            symbol = dim.is_symbol if isinstance(dim, SymExpr) else None
            if symbol is not None:
                text = self.symbols.setdefault(symbol, f"d{len(self.symbols)}")
            else:
                if isinstance(dim, SymExpr):
                    self.name_terms(dim)
                text = self.sum(dim)
            self.dims[dim] = text
        return text

    def sum(self, dim: Dim) -> str:
        """A dim whose symbols and terms have names."""
        return text_of_terms(dim, self.symbols, self.terms).replace(" ", "")

    def name_terms(self, dim: SymExpr) -> None:
        """Give names to the symbols and terms of a dim that have none, and write the terms: arguments first."""
        stack: list[tuple[SymExpr | Opaque, bool]] = [(dim, False)]
        while stack:
            node, entered = stack.pop()
            if isinstance(node, SymExpr):
                for mono, _ in reversed(node.terms):
                    for atom, _ in reversed(mono.factors):
                        if isinstance(atom, Symbol):
                            self.symbols.setdefault(atom, f"d{len(self.symbols)}")
                        elif atom not in self.terms:
                            stack.append((atom, False))
            elif entered and node not in self.terms:
                args = ",".join([self.sum(arg) for arg in node.args])
                name = self.terms[node] = f"t{len(self.terms)}"
                self.lines.append(f"term {name} {node.kind}({args})")
            elif not entered:
                stack.append((node, True))
                stack.extend([(arg, False) for arg in reversed(node.args) if isinstance(arg, SymExpr)])

    def attr(self, value: Attr) -> str:
        """An attribute, with its kind: True is not 1, 1 not 1.0, and a NaN is its bits."""
        kind = type(value)
        if kind is int or kind is SymExpr:
            return self.dim(value)
        if kind is tuple:
            return f"({','.join([self.attr(v) for v in value])})"
        if kind is str:
            return repr(value)
        if kind is bool:
            return str(value)
        if kind is float:
            return f"f{struct.pack('<d', value).hex()}"
        if kind is DType:
            return f"#{value.name}"
        if isinstance(value, External):
            number = self.externals.setdefault(value, len(self.externals))
            return f"external {number} {value.effects}"
        if kind is Dense:
            return f"dense {dtype(value.dtype).name} {value.shape} {value.content.hex()}"
        for plain in (int, float, str):  # NumPy's numbers, and enumerations
            if isinstance(value, plain):
                return f"{kind.__module__}.{kind.__qualname__} {self.attr(plain(value))}"
        return self.object(value)

    def object(self, value: Any) -> str:
        """A thing that is equal to itself alone."""
        self.kept.append(value)
        return f"object {id(value)}"
