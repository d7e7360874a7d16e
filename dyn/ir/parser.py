"""Reads the text of ``dyn.ir.printer`` back.

::

    function = "func" "@" name "(" {param ","} ")" "->" "(" {type [string] ","} ")" "{" {dim} {fact} body
    param    = value ":" type string ["hidden"] ["was" shape]
    dim      = "dim" name ":" string ["measured"] bounds
    bounds   = ["min" n] ["max" n] ["multiple_of" n] ["likely" n {"," n}] [string [loc]]
    fact     = "fact" (size relation size | shape relation shape) string [loc]
    body     = {op} "return" {value ","} "}"
    op       = [value {"," value} "="] name "(" {value ","} ")" ["{" {name "=" attr ","} "}"] {region} ":" [types] [loc]
    region   = "(" {value ":" type ","} ")" "{" {fact} body
    type     = name shape ["~"]
    attr     = "[" {attr ","} "]" | string | float | "#" name | "true" | "false" | dense | external | size
    dense    = "dense" "(" type ({"," number} | "," "all" number {"," number} | "," "sha256" string) ")"
    external = "external" "(" string ["," "effects"] ")"
    size     = polynomials of names, of calls such as floordiv(a, b), and of integers, with "+", "-", "*", "**"

This file is long because a grammar is best read in one piece.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from dyn.dtypes import DType, Kind, from_short
from dyn.dtypes import dtype as from_numpy
from dyn.errors import DynError, IRError
from dyn.frozen import record
from dyn.ir.core import Attr, Dense, Function, Op, ParamInfo, Region, Value
from dyn.ir.external import External
from dyn.ir.opdef import REGISTRY
from dyn.ir.printer import RELATION_SYNTAX
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, Reason, Relation, Symbol, as_dim, dim_max, dim_min, floordiv, mod, product, symbol
from dyn.shapes import broadcast as dim_broadcast
from dyn.source import UNKNOWN, Loc

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""\s*(?:(?P<string>{_STRING})
    |(?P<loc>@[ ](?:{_STRING}(?::\d+)?|[^\s":]+:\d+))
    |(?P<float>-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|inf\b|nan\b))
    |(?P<int>\d+)|(?P<value>%\w+)|(?P<dtype>\#\w+)|(?P<word>[^\W\d]\w*)
    |(?P<op>->|==|>=|\*\*|[-+*(){{}}\[\],:=@~]))""",
    re.VERBOSE,
)
_RELATIONS = {text: kind for kind, text in RELATION_SYNTAX.items()}
_DIM_CALLS: dict[str, tuple[Callable[..., Dim], int | None]] = {
    "floordiv": (floordiv, 2),
    "mod": (mod, 2),
    "min": (dim_min, None),
    "max": (dim_max, None),
    "broadcast": (dim_broadcast, None),
}
#: No program needs more, and reading them would take for ever.
_MAX_POWER = 64
_MAX_DEPTH = 100
_MAX_TERMS = 10_000

T = TypeVar("T")


@record()
class _Token:
    kind: str
    text: str
    at: int


def parse_function(text: str, constants: Mapping[str, Dense] | None = None) -> Function:
    """The function that a text describes; IRError with line and column where it is malformed.

    ``constants`` are the arrays that the text has by their digests (``dyn.ir.core.buffers``). Names, the grammar and
    the facts are checked here; types are the verifier's business.
    """
    return _Parser(text, constants or {}).function()


class _Parser:
    def __init__(self, text: str, constants: Mapping[str, Dense]) -> None:
        self.source = text
        self.constants = constants
        self.tokens = self.tokenize(text)
        self.position = 0
        self.depth = 0
        self.symbols: dict[str, Symbol] = {}
        #: What a ``let`` has named.
        self.parts: dict[str, Dim] = {}
        self.values: dict[str, Value] = {}
        self.facts = Facts.none()

    # Tokens -----------------------------------------------------------------------------------------------------

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
        shown = "the end" if self.token.kind == "end" else repr(self.token.text)
        self.fail_at(self.token.at, f"{what}, not {shown}")

    @contextlib.contextmanager
    def checked(self, at: int) -> Iterator[None]:
        """Errors raised inside tell of this place of the text."""
        try:
            yield
        except IRError:
            raise
        except (DynError, ValueError, OverflowError) as error:
            problem = error.problem if isinstance(error, DynError) else str(error)
            self.fail_at(at, problem.rstrip("."))

    def take(self) -> _Token:
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind in ("word", "op"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}")

    def of_kind(self, kind: str, what: str = "") -> str:
        if self.token.kind != kind:
            self.fail(f"expected {what or f'a {kind}'}")
        return self.take().text

    def listed(self, read: Callable[[], T], end: str) -> list[T]:
        """Items with commas between them, up to ``end``."""
        items: list[T] = []
        while not self.accept(end):
            if items and not self.accept(","):
                self.fail(f"expected ',' or {end!r}")
            items.append(read())
        return items

    def string(self) -> str:
        at = self.token.at
        with self.checked(at):
            return json.loads(self.of_kind("string"))

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        at = self.token.at
        with self.checked(at):
            return sign * int(self.of_kind("int", "an integer"))

    def loc(self) -> Loc | None:
        if self.token.kind != "loc":
            return None
        token = self.take()
        text = token.text.removeprefix("@").lstrip()
        file, line = (text, "0") if text.endswith('"') else text.rsplit(":", 1)
        with self.checked(token.at):
            return Loc(json.loads(file) if file.startswith('"') else file, int(line))

    # Function ---------------------------------------------------------------------------------------------------

    def function(self) -> Function:
        self.find_dims()
        self.expect("func")
        self.expect("@")
        name = self.of_kind("word", "a name")
        self.expect("(")
        params = self.listed(self.param, ")")
        self.expect("->")
        self.expect("(")
        at = self.token.at
        declared = self.listed(self.result, ")")
        self.expect("{")
        while self.accept("dim"):
            self.declaration()
        while self.accept("fact"):
            self.fact()
        ops, results = self.block()
        if self.token.kind != "end":
            self.fail("expected the end")
        if [t for t, _ in declared] != [v.type for v in results]:
            types = ", ".join([str(v.type) for v in results])
            self.fail_at(at, f"the function returns ({types})")
        names = tuple([n for _, n in declared if n is not None])
        if len(names) not in (0, len(results)):
            self.fail_at(at, "some results have names and others do not")
        values, infos = tuple([v for v, _ in params]), tuple([i for _, i in params])
        return Function(name, values, ops, results, self.facts, infos, names)

    def find_dims(self) -> None:
        """Dims are declared below the header that uses them, so their names are read first."""
        for i in range(len(self.tokens) - 3):
            dim, name, colon, text = self.tokens[i : i + 4]
            if dim.text == "dim" and name.kind == "word" and colon.text == ":" and text.kind == "string":
                if name.text in self.symbols:
                    self.fail_at(name.at, f"the dim {name.text} is declared twice")
                self.position = i + 3
                origin = self.string()
                self.symbols[name.text] = symbol(name.text, origin, data_dependent=self.accept("measured"))
        self.position = 0

    def param(self) -> tuple[Value, ParamInfo]:
        value = self.typed_value()
        name = self.string()
        hidden = self.accept("hidden")
        return value, ParamInfo(name, hidden, self.shape() if self.accept("was") else None)

    def result(self) -> tuple[TensorType, str | None]:
        return self.type(), self.string() if self.token.kind == "string" else None

    def declaration(self) -> None:
        at = self.token.at
        name = self.of_kind("word", "a name")
        self.expect(":")
        self.string()
        self.accept("measured")
        low = self.integer() if self.accept("min") else 0
        high = self.integer() if self.accept("max") else None
        multiple = self.integer() if self.accept("multiple_of") else 1
        likely: list[int] = []
        if self.accept("likely"):
            likely.append(self.integer())
            while self.accept(","):
                likely.append(self.integer())
        if (low, high, multiple, likely) == (0, None, 1, []):
            return
        text = self.string() if self.token.kind == "string" else "declared"
        reason = Reason(text, self.loc())
        with self.checked(at):
            if multiple < 1:
                raise ValueError(f"{name} is declared to be a multiple of {multiple}")
            self.facts = self.facts.declare(
                self.symbols[name], min=low, max=high, multiple_of=multiple, likely=likely, reason=reason
            )

    def fact(self) -> None:
        at = self.token.at
        relation = self.relation()
        with self.checked(at):
            self.facts = self.facts.assume(relation)

    def relation(self) -> Relation:
        shapes = self.token.text == "["
        lhs = self.shape() if shapes else (self.dim(),)
        kind = _RELATIONS.get(self.token.text)
        if kind is None:
            self.fail("expected a relation")
        self.take()
        rhs = self.shape() if shapes else (self.dim(),)
        reason = Reason(self.string(), self.loc())
        return Relation(kind, product(lhs), product(rhs), reason, lhs if shapes else None, rhs if shapes else None)

    # Types ------------------------------------------------------------------------------------------------------

    def typed_value(self) -> Value:
        token = self.token
        name = self.of_kind("value")
        self.expect(":")
        value = Value(self.type(), "" if name[1:].isdigit() else name[1:])
        self.define(token, value)
        return value

    def define(self, token: _Token, value: Value) -> None:
        if token.text in self.values:
            self.fail_at(token.at, f"{token.text} is defined twice")
        self.values[token.text] = value

    def type(self) -> TensorType:
        at = self.token.at
        with self.checked(at):
            element = from_short(self.of_kind("word", "a type"))
        return TensorType(element, self.shape(), self.accept("~"))

    def shape(self) -> tuple[Dim, ...]:
        self.expect("[")
        return tuple(self.listed(self.dim, "]"))

    # Ops --------------------------------------------------------------------------------------------------------

    def block(self) -> tuple[tuple[Op, ...], tuple[Value, ...]]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail("expected fewer regions inside one another")
        ops: list[Op] = []
        while not self.accept("return"):
            ops.append(self.op())
        results: list[Value] = []
        if self.token.kind == "value":
            results.append(self.use())
            while self.accept(","):
                results.append(self.use())
        self.expect("}")
        self.depth -= 1
        return tuple(ops), tuple(results)

    def use(self) -> Value:
        value = self.values.get(self.token.text)
        if value is None:
            self.fail("expected a value that is defined")
        self.take()
        return value

    def op(self) -> Op:
        names: list[_Token] = []
        if self.token.text not in REGISTRY:  # of no results
            names.append(self.token)
            self.of_kind("value", "a value or 'return'")
            while self.accept(","):
                names.append(self.token)
                self.of_kind("value")
            self.expect("=")
        opdef = REGISTRY.get(self.token.text)
        if opdef is None:
            self.fail("expected an op")
        self.take()
        self.expect("(")
        operands = self.listed(self.use, ")")
        attrs: dict[str, Attr] = {}
        if self.accept("{"):
            self.listed(lambda: self.named_attr(attrs), "}")
        regions: list[Region] = []
        while self.accept("("):
            regions.append(self.region())
        self.expect(":")
        at = self.token.at
        types = [self.type()] if names else []
        while names and self.accept(","):
            types.append(self.type())
        if len(types) != len(names):
            self.fail_at(at, f"{len(names)} values have {len(types)} types")
        loc = self.loc()
        results = tuple([Value(t) for t in types])
        for token, value in zip(names, results, strict=True):
            self.define(token, value)
        return Op(opdef, tuple(operands), attrs, results, UNKNOWN if loc is None else loc, tuple(regions))

    def region(self) -> Region:
        params = self.listed(self.typed_value, ")")
        self.expect("{")
        demands: list[Relation] = []
        while self.accept("fact"):
            demands.append(self.relation())
        ops, results = self.block()
        return Region(tuple(params), ops, results, tuple(demands))

    def named_attr(self, attrs: dict[str, Attr]) -> None:
        at = self.token.at
        name = self.of_kind("word", "a name")
        if name in attrs:
            self.fail_at(at, f"the attribute {name} stands here twice")
        self.expect("=")
        attrs[name] = self.attr()

    def attr(self) -> Attr:
        token = self.token
        if self.accept("["):
            with self.nested():
                return tuple(self.listed(self.attr, "]"))
        if token.kind == "string":
            return self.string()
        if token.kind == "float":
            return float(self.take().text)
        if token.kind == "dtype":
            with self.checked(token.at):
                return from_short(self.take().text[1:])
        if token.text in ("true", "false"):
            return self.take().text == "true"
        if token.text == "dense":
            return self.dense()
        if token.text == "external":
            return self.external()
        return self.dim()

    def external(self) -> External:
        """A function that is not here: only its name is."""
        self.expect("external")
        self.expect("(")
        name, effects = self.string(), False
        if self.accept(","):
            self.expect("effects")
            effects = True
        self.expect(")")

        def missing(arrays: Sequence[Any], expected: Sequence[Any]) -> NoReturn:
            raise IRError(f"{name} cannot be called: a text has no functions.")

        return External(name, UNKNOWN, missing, effects)

    def dense(self) -> Dense:
        at = self.token.at
        self.expect("dense")
        self.expect("(")
        type = self.type()
        shape = [d for d in type.shape if isinstance(d, int)]
        if len(shape) < type.rank or any(d < 0 for d in shape):
            self.fail_at(at, f"{type} is no type of a dense array")
        items: list[bool | int | float] = []
        alike = False
        while self.accept(","):
            if not items and not alike and self.accept("sha256"):
                found = self.buffer(type)
                self.expect(")")
                return found
            alike = alike or (not items and self.accept("all"))
            items.append(self.number())
        self.expect(")")
        with self.checked(at):
            array = _array(type.dtype, () if alike else tuple(shape), items)
            return Dense(np.broadcast_to(array, shape))

    def buffer(self, type: TensorType) -> Dense:
        """A constant whose elements are not in the text."""
        at, name = self.token.at, self.string()
        found = self.constants.get(name)
        if found is None or from_numpy(found.array.dtype) is not type.dtype or found.array.shape != type.shape:
            self.fail_at(
                at,
                f"the elements of this constant, {type}, are not in the text, and not among the constants given: print "
                "and parse with dyn.ir.core.buffers(function.ops)",
            )
        return found

    def number(self) -> bool | int | float:
        if self.token.text in ("true", "false"):
            return self.take().text == "true"
        if self.token.kind == "float":
            return float(self.take().text)
        return self.integer()

    # Dims -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Refuses what is nested so deeply that Python could not follow."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail("expected fewer brackets inside one another")
        yield
        self.depth -= 1

    def dim(self) -> Dim:
        total = self.term()
        while self.token.text in ("+", "-") and self.token.kind == "op":
            sign = self.take().text
            total = total + self.term() if sign == "+" else total - self.term()
        return total

    def term(self) -> Dim:
        sign = -1 if self.accept("-") else 1
        at = self.token.at
        total = self.power()
        while self.accept("*"):
            total = self.multiplied(total, self.power(), at)
        return total * sign

    def multiplied(self, a: Dim, b: Dim, at: int) -> Dim:
        if _terms(a) * _terms(b) > _MAX_TERMS:
            self.fail_at(at, "the product has too many terms")
        return a * b

    def power(self) -> Dim:
        at = self.token.at
        base = self.primary()
        if not self.accept("**"):
            return base
        count = self.integer()
        if not 0 <= count <= _MAX_POWER:
            self.fail_at(at, f"the power {count} is not from 0 to {_MAX_POWER}")
        power: Dim = 1
        for _ in range(count):
            power = self.multiplied(power, base, at)
        return power

    def primary(self) -> Dim:
        if self.accept("("):
            with self.nested():
                inner = self.dim()
                self.expect(")")
                return inner
        if self.token.kind == "int":
            return self.integer()
        token = self.token
        word = self.of_kind("word", "a dim")
        if word == "let" and self.accept("("):
            return self.shared()
        if word in _DIM_CALLS and self.accept("("):
            with self.nested():
                args = self.listed(self.dim, ")")
            build, count = _DIM_CALLS[word]
            if len(args) != count and (count is not None or not args):
                wanted = "some arguments" if count is None else f"{count} arguments"
                self.fail_at(token.at, f"{word} takes {wanted}, not {len(args)}")
            with self.checked(token.at):
                return build(*args)
        if word in self.parts:
            return self.parts[word]
        if word not in self.symbols:
            self.fail_at(token.at, f"expected a dim that is declared, not {word!r}")
        return as_dim(self.symbols[word])

    def shared(self) -> Dim:
        """``let(p, a, b, c)``: where ``p0`` and ``p1`` stand for ``a`` and ``b`` in what comes after them."""
        prefix = self.of_kind("word", "a name")
        self.expect(",")
        with self.nested():
            parts: list[Dim] = []
            while not parts or self.accept(","):
                parts.append(self.dim())
                self.parts[f"{prefix}{len(parts) - 1}"] = parts[-1]
            self.expect(")")
        return parts[-1]


def _terms(dim: Dim) -> int:
    return 1 if isinstance(dim, int) else len(dim.terms) + 1


def _array(element: DType, shape: tuple[int, ...], items: list[Any]) -> np.ndarray[Any, Any]:
    if element.kind is Kind.COMPLEX:
        pairs = np.array(items, np.float64).reshape(-1, 2)
        return pairs.view(np.complex128).astype(element.np).reshape(shape)
    if element.is_float:
        return np.array(items, np.float64).astype(element.np).reshape(shape)
    if any(isinstance(item, float) or isinstance(item, bool) is not (element.kind is Kind.BOOL) for item in items):
        raise ValueError(f"the elements are not of type {element}")
    return np.array(items, element.np).reshape(shape)
