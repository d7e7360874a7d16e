"""Reads the text of ``dyn.ir.printer`` back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dyn.dtypes import DType, Kind, dtype
from dyn.errors import IRError
from dyn.ir.core import Attr, Dense, Function, Op, ParamInfo, Region, Value
from dyn.ir.opdef import REGISTRY
from dyn.ir.printer import RELATION_SYNTAX
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, Reason, Relation, Symbol, as_dim, dim_max, dim_min, floordiv, mod, symbol
from dyn.shapes import broadcast as dim_broadcast
from dyn.source import UNKNOWN, Loc

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"[^"\n]*")|(?P<float>-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|inf\b|nan\b))
    |(?P<int>\d+)|(?P<value>%\w+)|(?P<dtype>\#\w+)|(?P<word>[A-Za-z_]\w*)|(?P<op>->|==|>=|//|\*\*|[-+*%(){}\[\],:=@~.]))""",
    re.VERBOSE,
)
_RELATIONS = {text: kind for kind, text in RELATION_SYNTAX.items()}
_DIM_CALLS = {"floordiv": floordiv, "mod": mod, "min": dim_min, "max": dim_max, "broadcast": dim_broadcast}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_function(text: str) -> Function:
    """The function that a text describes; IRError with line and column where it is malformed."""
    return _Parser(text).function()


class _Parser:
    def __init__(self, text: str) -> None:
        self.source = text
        self.tokens = self.tokenize(text)
        self.position = 0
        self.symbols: dict[str, Symbol] = {}
        self.values: dict[str, Value] = {}
        self.facts = Facts.EMPTY

    def tokenize(self, text: str) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        stripped = len(text.rstrip())
        while at < stripped:
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                self.fail_at(at, f"unexpected {text[at]!r}")
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        tokens.append(_Token("end", "", stripped))
        return tokens

    def fail_at(self, at: int, what: str) -> NoReturn:
        line = self.source.count("\n", 0, at) + 1
        column = at - (self.source.rfind("\n", 0, at) + 1) + 1
        raise IRError(f"line {line}, column {column}: {what}")

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def fail(self, what: str) -> NoReturn:
        self.fail_at(self.token.at, f"{what}, not {self.token.text or 'the end'!r}")

    def take(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}")

    def of_kind(self, kind: str) -> str:
        if self.token.kind != kind:
            self.fail(f"expected a {kind}")
        return self.take().text

    def string(self) -> str:
        return self.of_kind("string")[1:-1]

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * int(self.of_kind("int"))

    def function(self) -> Function:
        self.declare_symbols()
        self.expect("func")
        self.expect("@")
        name = self.of_kind("word")
        self.expect("(")
        params: list[Value] = []
        infos: list[ParamInfo] = []
        while not self.accept(")"):
            params.append(self.typed_value())
            info = self.string()
            hidden = self.accept("hidden")
            infos.append(ParamInfo(info, hidden, self.dims() if self.accept("was") else None))
            self.accept(",")
        self.expect("->")
        self.types()
        self.expect("{")
        while self.accept("dim"):
            self.skip_declaration()
        while self.accept("fact"):
            self.fact()
        ops, results = self.block()
        return Function(name, tuple(params), ops, results, self.facts, tuple(infos))

    def declare_symbols(self) -> None:
        """Dims are declared below the header that uses them, so their lines are read first."""
        for match in re.finditer(r"^ *dim (\w+): ", self.source, re.MULTILINE):
            name = match.group(1)
            self.position = next(i for i, t in enumerate(self.tokens) if t.at >= match.end())
            self.symbols[name] = symbol(name, self.string())
            self.declaration(self.symbols[name])
        self.position = 0

    def declaration(self, sym: Symbol) -> None:
        low, high, multiple, likely = 0, None, 1, list[int]()
        while self.token.text in ("min", "max", "multiple_of", "likely"):
            word = self.take().text
            if word == "min":
                low = self.integer()
            elif word == "max":
                high = self.integer()
            elif word == "multiple_of":
                multiple = self.integer()
            else:
                likely.append(self.integer())
                while self.accept(","):
                    likely.append(self.integer())
        if (low, high, multiple, likely) != (0, None, 1, []):
            reason = Reason("declared", None)
            self.facts = self.facts.declare(
                sym, min=low, max=high, multiple_of=multiple, likely=tuple(likely), reason=reason
            )

    def skip_declaration(self) -> None:
        while self.token.text not in ("dim", "fact", "return", "}") and self.token.kind not in ("value", "end"):
            self.take()

    def fact(self) -> None:
        lhs = self.dim()
        kind = _RELATIONS.get(self.take().text)
        if kind is None:
            self.fail("expected a relation")
        rhs = self.dim()
        text = self.string()
        loc = self.loc() if self.accept("@") else None
        self.facts = self.facts.assume(Relation(kind, lhs, rhs, Reason(text, loc)))

    def loc(self) -> Loc:
        if self.token.kind == "string":
            return Loc(self.string())
        start = self.token.at
        while not (self.token.text == ":" and self.tokens[self.position + 1].kind == "int"):
            self.take()
        file = self.source[start : self.token.at]
        self.take()
        return Loc(file, self.integer())

    def typed_value(self) -> Value:
        name = self.of_kind("value")
        self.expect(":")
        value = Value(self.type(), "" if name[1:].isdigit() else name[1:])
        self.values[name] = value
        return value

    def types(self) -> list[TensorType]:
        types: list[TensorType] = []
        self.expect("(")
        while not self.accept(")"):
            types.append(self.type())
            self.accept(",")
        return types

    def type(self) -> TensorType:
        element = dtype(self.of_kind("word"))
        return TensorType(element, self.dims(), self.accept("~"))

    def dims(self) -> tuple[Dim, ...]:
        self.expect("[")
        shape: list[Dim] = []
        while not self.accept("]"):
            shape.append(self.dim())
            self.accept(",")
        return tuple(shape)

    def block(self) -> tuple[tuple[Op, ...], tuple[Value, ...]]:
        ops: list[Op] = []
        while not self.accept("return"):
            ops.append(self.op())
        results: list[Value] = []
        while self.token.kind == "value":
            results.append(self.use())
            self.accept(",")
        self.expect("}")
        return tuple(ops), tuple(results)

    def use(self) -> Value:
        value = self.values.get(self.token.text)
        if value is None:
            self.fail("expected a value that is defined")
        self.take()
        return value

    def op(self) -> Op:
        names = [self.of_kind("value")]
        while self.accept(","):
            names.append(self.of_kind("value"))
        self.expect("=")
        opdef = REGISTRY.get(self.token.text)
        if opdef is None:
            self.fail("expected an op")
        self.take()
        self.expect("(")
        operands: list[Value] = []
        while not self.accept(")"):
            operands.append(self.use())
            self.accept(",")
        attrs: dict[str, Attr] = {}
        if self.accept("{"):
            while not self.accept("}"):
                key = self.of_kind("word")
                self.expect("=")
                attrs[key] = self.attr()
                self.accept(",")
        regions: list[Region] = []
        while self.accept("("):
            regions.append(self.region())
        self.expect(":")
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        loc = self.loc() if self.accept("@") else UNKNOWN
        results = tuple(Value(t) for t in types)
        self.values.update(zip(names, results, strict=True))
        return Op(opdef, tuple(operands), attrs, results, loc, tuple(regions))

    def region(self) -> Region:
        params: list[Value] = []
        while not self.accept(")"):
            params.append(self.typed_value())
            self.accept(",")
        self.expect("{")
        ops, results = self.block()
        return Region(tuple(params), ops, results)

    def attr(self) -> Attr:
        token = self.token
        if self.accept("["):
            items: list[Any] = []
            while not self.accept("]"):
                items.append(self.attr())
                self.accept(",")
            return tuple(items)
        if token.kind == "string":
            return self.string()
        if token.kind == "float":
            return float(self.take().text)
        if token.kind == "dtype":
            return dtype(self.take().text[1:])
        if token.text in ("true", "false"):
            return self.take().text == "true"
        if token.text == "dense":
            return self.dense()
        return self.dim()

    def dense(self) -> Dense:
        self.expect("dense")
        self.expect("(")
        type = self.type()
        items: list[Any] = []
        while self.accept(","):
            items.append(self.number())
        self.expect(")")
        return Dense(_array(type.dtype, tuple(int(d) for d in type.shape if isinstance(d, int)), items))

    def number(self) -> bool | int | float:
        if self.token.text in ("True", "False"):
            return self.take().text == "True"
        if self.token.kind == "float":
            return float(self.take().text)
        return self.integer()

    def dim(self) -> Dim:
        total = self.product()
        while self.token.text in ("+", "-") and self.token.kind == "op":
            total = total + self.product() if self.take().text == "+" else total - self.product()
        return total

    def product(self) -> Dim:
        sign = -1 if self.accept("-") else 1
        total = self.atom()
        while self.token.text == "*":
            self.take()
            total = total * self.atom()
        return total * sign

    def atom(self) -> Dim:
        base = self.primary()
        if not self.accept("**"):
            return base
        power: Dim = 1
        for _ in range(self.integer()):
            power = power * base
        return power

    def primary(self) -> Dim:
        if self.accept("("):
            inner = self.dim()
            self.expect(")")
            return inner
        if self.token.kind == "int":
            return self.integer()
        word = self.of_kind("word")
        if word in _DIM_CALLS and self.accept("("):
            args: list[Dim] = []
            while not self.accept(")"):
                args.append(self.dim())
                self.accept(",")
            return _DIM_CALLS[word](*args)
        if word not in self.symbols:
            self.position -= 1
            self.fail("expected a dim that is declared")
        return as_dim(self.symbols[word])


def _array(element: DType, shape: tuple[int, ...], items: list[Any]) -> np.ndarray[Any, Any]:
    if element.kind is Kind.COMPLEX:
        pairs = np.array(items, dtype=np.float64).reshape(-1, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1]).astype(element.np).reshape(shape)
    return np.array(items).astype(element.np).reshape(shape)
