"""DHLO as text. What is printed parses back to the same text (``dyn.ir.parser``).

::

    func @softmax(%x: f32[m, n] "x") -> (f32[m] "result") {
      dim m: "x.shape[0]" min 1 max 512 "dyn.Dim('m') says so"
      dim n: "x.shape[1]"
      fact m*n >= m "maximum of nothing has no value" @ model.py:3
      %0 = reduce(%x) {axes = [1], combine = "maximum", nonempty = true} : f32[m]  @ model.py:3
      return %0
    }

Dims are listed by age, because the order of the terms of an expression is that of its symbols' ages. Strings are
JSON's. ``@`` and a blank begin a source line: ``@ model.py:3``, ``@ "my model.py":3``, or ``@ "constraints="`` for an
origin that has none. ``~`` behind a type says that it is weak. A dim is ``measured`` where an op of that name finds it
out while the program runs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable

import numpy as np

from dyn.dtypes import DType, Kind, dtype
from dyn.errors import IRError
from dyn.ir.core import Attr, Dense, Function, Op, Region, Value
from dyn.ir.external import External
from dyn.shapes import Declaration, Dim, Relation, RelKind, Symbol, SymExpr, exact_text
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

#: Words that mean something else where a dim may stand. A symbol of such a name is printed with a number behind it.
RESERVED = frozenset({"true", "false", "dense", "external", "inf", "nan"})

#: A file name that needs no quotes in a source line.
PLAIN_FILE = r'[^\s":]+'


def unique_names(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """A name for each symbol, its own where it is free, with a number behind it otherwise."""
    names: dict[Symbol, str] = {}
    taken = set(RESERVED)
    for symbol in symbols:
        plain = symbol.name if symbol.name.isidentifier() else re.sub(r"\W", "_", f"d_{symbol.name}")
        name = plain
        count = 1
        while name in taken:
            count += 1
            name = f"{plain}_{count}"
        taken.add(name)
        names[symbol] = name
    return names


def symbol_names(function: Function) -> dict[Symbol, str]:
    """The names of a function's dims in its text, by age."""
    return unique_names(sorted(function.symbols(), key=lambda s: s.uid))


def print_function(function: Function, *, locs: bool = True) -> str:
    """The text of a function; ``locs=False`` leaves the source lines out."""
    return "\n".join(_FunctionPrinter(function, locs).print()) + "\n"


def print_around(function: Function, op: Op | None, lines: int = 4) -> list[str]:
    """The header and the lines around an op, which is marked; the first lines where there is no op to show.

    Prints invalid functions too: an undefined value is ``%undefined``.
    """
    printer = _FunctionPrinter(function, locs=True)
    text = printer.print()
    at = printer.line_of.get(op) if op is not None else None
    if at is None:
        return text if len(text) <= 4 * lines else [*text[: 4 * lines], "..."]
    first, last = max(1, at - lines), min(len(text), at + lines + 1)
    shown = [f"{'->' if i == at else '  '} {text[i]}" for i in range(first, last)]
    before, after = ["..."] if first > 1 else [], ["..."] if last < len(text) else []
    return [text[0], *before, *shown, *after]


def loc_text(loc: Loc) -> str:
    """``model.py:12``, or a quoted name for an origin without a line."""
    if not loc.line:
        return quoted(loc.file)
    file = os.path.basename(loc.file)
    return f"{file if re.fullmatch(PLAIN_FILE, file) else quoted(file)}:{loc.line}"


def quoted(text: str) -> str:
    """A string as JSON writes it."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


class _FunctionPrinter:
    def __init__(self, function: Function, locs: bool) -> None:
        self.function = function
        self.locs = locs
        self.symbols = symbol_names(function)
        self.values: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.next = 0
        self.lines: list[str] = []
        self.line_of: dict[Op, int] = {}

    def print(self) -> list[str]:
        function = self.function
        params = ", ".join(self.param(i) for i in range(len(function.params)))
        results = ", ".join(self.result(i) for i in range(len(function.results)))
        self.lines.append(f"func @{function.name}({params}) -> ({results}) {{")
        declared = {d.symbol: d for d in function.facts.declarations}
        for symbol, name in self.symbols.items():
            measured = " measured" if symbol.data_dependent else ""
            self.lines.append(
                f"  dim {name}: {quoted(symbol.origin)}{measured}{self.declaration(declared.get(symbol))}"
            )
        for relation in function.facts.relations:
            self.lines.append(f"  fact {self.relation(relation)}")
        self.block(function.ops, function.results, 1)
        self.lines.append("}")
        return self.lines

    def param(self, i: int) -> str:
        value = self.function.params[i]
        text = f"{self.define(value, named=True)}: {value.type.text(self.symbols)}"
        if i >= len(self.function.infos):  # an invalid function, printed to show why
            return text
        info = self.function.infos[i]
        was = "" if info.dims is None else f" was {self.shape(info.dims)}"
        return f"{text} {quoted(info.name)}{' hidden' if info.hidden else ''}{was}"

    def result(self, i: int) -> str:
        names = self.function.result_names
        text = self.function.results[i].type.text(self.symbols)
        return f"{text} {quoted(names[i])}" if i < len(names) else text

    def shape(self, dims: tuple[Dim, ...]) -> str:
        return f"[{', '.join(exact_text(d, self.symbols) for d in dims)}]"

    def declaration(self, declared: Declaration | None) -> str:
        if declared is None:
            return ""
        text = f" min {declared.min}" if declared.min else ""
        text += f" max {declared.max}" if declared.max is not None else ""
        text += f" multiple_of {declared.multiple_of}" if declared.multiple_of != 1 else ""
        text += f" likely {', '.join(str(v) for v in declared.likely)}" if declared.likely else ""
        return f"{text} {quoted(declared.reason.text)}{self.at(declared.reason.loc, ' ')}" if text else ""

    def relation(self, relation: Relation) -> str:
        if relation.lhs_shape is not None and relation.rhs_shape is not None:
            lhs, rhs = self.shape(relation.lhs_shape), self.shape(relation.rhs_shape)
        else:
            lhs, rhs = exact_text(relation.lhs, self.symbols), exact_text(relation.rhs, self.symbols)
        reason = f"{quoted(relation.reason.text)}{self.at(relation.reason.loc, ' ')}"
        return f"{lhs} {RELATION_SYNTAX[relation.kind]} {rhs} {reason}"

    def at(self, loc: Loc | None, pad: str) -> str:
        return f"{pad}@ {loc_text(loc)}" if self.locs and loc is not None else ""

    def define(self, value: Value, *, named: bool) -> str:
        if named and value.name.isidentifier() and value.name not in self.taken:
            name = value.name
        else:
            name = str(self.next)
            self.next += 1
        self.taken.add(name)
        self.values[value] = f"%{name}"
        return f"%{name}"

    def use(self, values: Iterable[Value]) -> str:
        return ", ".join([self.values.get(v, "%undefined") for v in values])

    def block(self, ops: tuple[Op, ...], results: tuple[Value, ...], depth: int) -> None:
        pad = "  " * depth
        for op in ops:
            self.line_of[op] = len(self.lines)
            operands = self.use(op.operands)
            names = ", ".join(self.define(v, named=False) for v in op.results)
            attrs = ", ".join(f"{k} = {self.attr(v)}" for k, v in sorted(op.attrs.items()))
            head = f"{names} = " if names else ""
            line = f"{pad}{head}{op.opdef.name}({operands})" + (f" {{{attrs}}}" if attrs else "")
            for region in op.regions:
                line = self.region(region, line, depth)
            types = ", ".join(v.type.text(self.symbols) for v in op.results)
            self.lines.append(f"{line} : {types}".rstrip() + self.at(op.loc, "  "))
        self.lines.append(f"{pad}return {self.use(results)}".rstrip())

    def region(self, region: Region, line: str, depth: int) -> str:
        """Ends a line with a region's beginning, prints its body, and gives the line on which it ends."""
        params = ", ".join(f"{self.define(v, named=False)}: {v.type.text(self.symbols)}" for v in region.params)
        self.lines.append(f"{line} ({params}) {{")
        pad = "  " * (depth + 1)
        self.lines += [f"{pad}fact {self.relation(relation)}" for relation in region.demands]
        self.block(region.ops, region.results, depth + 1)
        return "  " * depth + "}"

    def attr(self, value: Attr) -> str:
        if isinstance(value, tuple):
            return f"[{', '.join(self.attr(v) for v in value)}]"
        if isinstance(value, SymExpr):
            return exact_text(value, self.symbols)
        if isinstance(value, DType):
            return f"#{value.short}"
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, Dense):
            return dense_text(value)
        if isinstance(value, bool | int | float):
            return number_text(value)
        if isinstance(value, External):
            return f"external({quoted(value.name)}{', effects' if value.effects else ''})"
        raise IRError(f"{value!r}, a {type(value).__name__}, is no attribute")


def number_text(value: bool | int | float) -> str:
    """``true``, ``-3``, ``0.1``, ``inf``: subclasses, such as NumPy's, as what they are numbers of."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)


def dense_text(value: Dense) -> str:
    """``dense(f32[2], 1.0, 2.0)``; complex elements are written as two numbers.

    Of a large array that is one number that one is written, ``dense(f32[100], all 1.0)``, and of another one the
    SHA-256 of its elements' bytes, by which the parser finds it again among those that it is given.
    """
    shape = ", ".join(str(n) for n in value.shape)
    element = dtype(value.dtype)
    start = f"dense({element.short}[{shape}]"
    if value.has_buffer:
        return f"{start}, sha256 {quoted(value.content.hex())})"
    array = value.array
    flat = array[(0,) * array.ndim].reshape(1) if value.is_splat else array.reshape(-1)
    if element.kind is Kind.COMPLEX:
        flat = np.stack([flat.real, flat.imag], axis=-1).reshape(-1)
    if element.is_narrow:  # every one is a float32
        flat = flat.astype(np.float32)
    items = ", ".join([number_text(item) for item in flat.tolist()])
    if value.is_splat:
        return f"{start}, all {items})"
    return f"{start}, {items})" if items else f"{start})"
