"""DHLO as text. What is printed parses back to the same text (``dyn.ir.parser``).

::

    func @softmax(%x: f32[m, n] "x") -> f32[m, n] {
      dim m: x.shape[0], >= 0
      fact m == n  // "rows equal columns" at model.py:3
      %0 = reduce_max(%x) {axes = [1]} : f32[m]  @ model.py:4
      return %0
    }
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import numpy as np

from dyn.dtypes import DType, dtype
from dyn.ir.core import Attr, Dense, Function, Op, Region, Value
from dyn.shapes import RelKind, Symbol, SymExpr, format_dim
from dyn.source import Loc

#: How each relation is written.
RELATION_SYNTAX = {
    RelKind.EQ: "==",
    RelKind.GE: ">=",
    RelKind.NONZERO: "nonzero",
    RelKind.DIVIDES: "divides",
    RelKind.SAME_NUMEL: "same_numel",
    RelKind.BROADCASTS: "broadcasts",
}


def unique_names(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """A name for each symbol, its own where it is free, with a number behind it otherwise."""
    names: dict[Symbol, str] = {}
    taken: set[str] = set()
    for symbol in symbols:
        name = symbol.name
        count = 1
        while name in taken:
            count += 1
            name = f"{symbol.name}_{count}"
        taken.add(name)
        names[symbol] = name
    return names


def print_function(function: Function, *, locs: bool = True) -> str:
    """The text of a function; ``locs=False`` leaves the source lines out."""
    return _Printer(function, locs).text()


def loc_text(loc: Loc) -> str:
    """``model.py:12``, or a quoted name for an origin without a line."""
    return f"{os.path.basename(loc.file)}:{loc.line}" if loc.line else f'"{loc.file}"'


class _Printer:
    def __init__(self, function: Function, locs: bool) -> None:
        self.function = function
        self.locs = locs
        self.symbols = unique_names(function.symbols())
        self.values: dict[Value, str] = {}
        self.taken: Counter[str] = Counter()
        self.next = 0
        self.lines: list[str] = []

    def text(self) -> str:
        function = self.function
        params: list[str] = []
        for value, info in zip(function.params, function.infos, strict=True):
            hidden = " hidden" if info.hidden else ""
            dims = "" if info.dims is None else f" was [{', '.join(format_dim(d, self.symbols) for d in info.dims)}]"
            params.append(
                f'{self.define(value, named=True)}: {value.type.text(self.symbols)} "{info.name}"{hidden}{dims}'
            )
        results = ", ".join(v.type.text(self.symbols) for v in function.results)
        self.lines.append(f"func @{function.name}({', '.join(params)}) -> ({results}) {{")
        for symbol, name in self.symbols.items():
            self.lines.append(f'  dim {name}: "{symbol.origin}"{self.declaration(symbol)}')
        for relation in function.facts.relations:
            lhs, rhs = format_dim(relation.lhs, self.symbols), format_dim(relation.rhs, self.symbols)
            loc = f" @ {loc_text(relation.reason.loc)}" if self.locs and relation.reason.loc is not None else ""
            self.lines.append(f'  fact {lhs} {RELATION_SYNTAX[relation.kind]} {rhs} "{relation.reason.text}"{loc}')
        self.block(function.ops, function.results, 1)
        return "\n".join([*self.lines, "}"]) + "\n"

    def declaration(self, symbol: Symbol) -> str:
        declared = next((d for d in self.function.facts.declarations if d.symbol is symbol), None)
        if declared is None:
            return ""
        text = f" min {declared.min}" if declared.min else ""
        text += f" max {declared.max}" if declared.max is not None else ""
        text += f" multiple_of {declared.multiple_of}" if declared.multiple_of != 1 else ""
        return text + (f" likely {', '.join(str(v) for v in declared.likely)}" if declared.likely else "")

    def define(self, value: Value, *, named: bool) -> str:
        if named and value.name.isidentifier() and not self.taken[value.name]:
            name = value.name
        else:
            name = str(self.next)
            self.next += 1
        self.taken[name] += 1
        self.values[value] = f"%{name}"
        return f"%{name}"

    def block(self, ops: tuple[Op, ...], results: tuple[Value, ...], depth: int) -> None:
        pad = "  " * depth
        for op in ops:
            operands = ", ".join(self.values[v] for v in op.operands)
            names = ", ".join(self.define(v, named=False) for v in op.results)
            types = ", ".join(v.type.text(self.symbols) for v in op.results)
            attrs = ", ".join(f"{k} = {self.attr(v)}" for k, v in sorted(op.attrs.items()))
            attrs = f" {{{attrs}}}" if attrs else ""
            loc = f"  @ {loc_text(op.loc)}" if self.locs else ""
            regions = self.regions(op.regions, depth)
            self.lines.append(f"{pad}{names} = {op.opdef.name}({operands}){attrs}{regions} : {types}{loc}")
        self.lines.append(f"{pad}return {', '.join(self.values[v] for v in results)}".rstrip())

    def regions(self, regions: tuple[Region, ...], depth: int) -> str:
        texts: list[str] = []
        for region in regions:
            outer, self.lines = self.lines, []
            params = ", ".join(f"{self.define(v, named=False)}: {v.type.text(self.symbols)}" for v in region.params)
            self.block(region.ops, region.results, depth + 1)
            body, self.lines = "\n".join(self.lines), outer
            texts.append(f" ({params}) {{\n{body}\n{'  ' * depth}}}")
        return "".join(texts)

    def attr(self, value: Attr) -> str:
        if isinstance(value, tuple):
            return f"[{', '.join(self.attr(v) for v in value)}]"
        if isinstance(value, SymExpr):
            return format_dim(value, self.symbols)
        if isinstance(value, DType):
            return f"#{value.short}"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, Dense):
            return dense_text(value)
        return repr(value)


def dense_text(value: Dense) -> str:
    """``dense(f32[2], 1.0, 2.0)``; complex elements are written as two numbers."""
    array = value.array
    shape = ", ".join(str(n) for n in array.shape)
    element = dtype(array.dtype)
    flat = array.reshape(-1)
    if array.dtype.kind == "c":
        flat = np.stack([flat.real, flat.imag], axis=-1).reshape(-1)
    if element.kind.name == "FLOAT" and array.dtype.kind != "f":
        flat = flat.astype(np.float32)
    items = "".join(f", {item!r}" for item in flat.tolist())
    return f"dense({element.short}[{shape}]{items})"
