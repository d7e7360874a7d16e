"""Text to dimension: the inverse of :func:`~dyn.shapes.format_dim`, by recursive descent.

::

    sum     = ["-"] term {("+" | "-") term}
    term    = unary {("*" | "//" | "%") unary}
    unary   = "-" unary | power
    power   = primary ["**" number]
    primary = number | name | "(" sum ")" | function "(" sum {"," sum} ")" | "let" "(" name {"," sum} ")"

In ``let(p, a, b, c)`` the names ``p0`` and ``p1`` stand for ``a`` and ``b`` in what comes after; its value is ``c``.

A name may have the form of a place, ``x.shape[0]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from dyn.errors import ArgumentError, ShapeError
from dyn.shapes.expr import Dim, OpaqueKind, Symbol, as_dim, floordiv, mod, product
from dyn.shapes.walk import rebuild
from dyn.source import user_loc

_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d]\w*(?:\.\w+|\[\d+\])*)|(\*\*|//|[<>=!]=|[-+*%(),<>]))")
_ARITY = {OpaqueKind.FLOORDIV: 2, OpaqueKind.MOD: 2}
_FUNCTIONS = {str(kind): kind for kind in OpaqueKind}
#: Larger powers are a slip of the pen: no shape needs them, and they would take for ever.
_MAX_POWER = 64
_MAX_DEPTH = 100

Scope = Mapping[str, Symbol] | Callable[[str], Symbol]


def text_error(problem: str, text: str, column: int, remedy: str = "") -> ArgumentError:
    """An error about a place in a text: shows the text with a caret below the place."""
    return ArgumentError(problem, loc=user_loc(), remedy=remedy, notes=(text, " " * column + "^"))


class DimReader:
    """Reads dimensions from ``text[start:stop]``, front to back. ``column`` is where the next token starts."""

    def __init__(self, text: str, scope: Scope, start: int = 0, stop: int | None = None) -> None:
        self.text = text
        self.scope = scope
        self.end = start
        self.stop = len(text) if stop is None else stop
        self.depth = 0
        #: What a ``let`` has named.
        self.parts: dict[str, Dim] = {}
        self.token = ""
        self.column = 0
        self.advance()

    def advance(self) -> None:
        """Go on to the next token; ``""`` at the end."""
        match = _TOKEN.match(self.text, self.end, self.stop)
        if match is not None:
            self.token = match[match.lastindex or 0]
            self.end = match.end()
            self.column = self.end - len(self.token)
            return
        rest = self.text[self.end : self.stop]
        self.column = self.end + len(rest) - len(rest.lstrip())
        if rest.strip():
            self.fail(f"unexpected {self.text[self.column]!r}")
        self.token = ""

    def fail(self, problem: str, column: int | None = None) -> NoReturn:
        column = self.column if column is None else column
        raise text_error(f"cannot read a dimension: {problem} at column {column + 1}.", self.text, column)

    def unexpected(self, wanted: str) -> NoReturn:
        self.fail(f"expected {wanted}, found {repr(self.token) if self.token else 'the end'}")

    def accept(self, *tokens: str) -> str:
        """The next token if it is one of these, which is then passed; else ``""``."""
        token = self.token
        if token and token in tokens:
            self.advance()
            return token
        return ""

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.unexpected(repr(token))

    def whole(self) -> Dim:
        """A dimension and nothing after it."""
        result = self.sum()
        if self.token:
            self.unexpected("the end")
        return result

    def sum(self) -> Dim:
        result = self.term()
        while sign := self.accept("+", "-"):
            operand = self.term()
            result = result + operand if sign == "+" else result - operand
        return result

    def term(self) -> Dim:
        result = self.unary()
        while self.token in ("*", "//", "%"):
            column, sign = self.column, self.accept("*", "//", "%")
            operand = self.unary()
            if sign == "*":
                result = result * operand
            else:
                result = self.checked(floordiv if sign == "//" else mod, (result, operand), column)
        return result

    def unary(self) -> Dim:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail("too many nested parentheses")
        result = -self.unary() if self.accept("-") else self.power()
        self.depth -= 1
        return result

    def power(self) -> Dim:
        base = self.primary()
        if self.accept("**"):
            if not self.token.isdecimal() or int(self.token) > _MAX_POWER:
                self.unexpected(f"a number up to {_MAX_POWER}")
            exponent = int(self.token)
            self.advance()
            return product([base] * exponent)
        return base

    def primary(self) -> Dim:
        token, column = self.token, self.column
        if token.isdecimal():
            self.advance()
            return int(token)
        if token == "(":
            self.advance()
            inner = self.sum()
            self.expect(")")
            return inner
        if not token or not (token[0].isalpha() or token[0] == "_"):
            self.unexpected("a number, a name or '('")
        self.advance()
        if self.token == "(":
            return self.call(token, column)
        return self.lookup(token, column)

    def call(self, name: str, column: int) -> Dim:
        if name == "let":
            return self.let()
        kind = _FUNCTIONS.get(name)
        if kind is None:
            self.fail(f"no function {name!r}; there are {', '.join(_FUNCTIONS)}", column)
        self.expect("(")
        args = [self.sum()]
        while self.accept(","):
            args.append(self.sum())
        self.expect(")")
        if len(args) != _ARITY.get(kind, len(args)):
            self.fail(f"{name} takes {_ARITY[kind]} arguments, got {len(args)},", column)
        return self.checked(lambda *xs: rebuild(kind, xs), tuple(args), column)

    def let(self) -> Dim:
        self.expect("(")
        prefix, result, count = self.token, 0, 0
        if not prefix.isidentifier():
            self.unexpected("a name")
        self.advance()
        while self.accept(","):
            result = self.sum()
            self.parts[f"{prefix}{count}"] = result
            count += 1
        if not count:
            self.unexpected("','")
        self.expect(")")
        return result

    def checked(self, build: Callable[..., Dim], args: tuple[Dim, ...], column: int) -> Dim:
        try:
            return build(*args)
        except ShapeError as error:
            self.fail(error.problem.rstrip("."), column)

    def lookup(self, name: str, column: int) -> Dim:
        if name in self.parts:
            return self.parts[name]
        if callable(self.scope):
            return as_dim(self.scope(name))
        if name not in self.scope:
            known = ", ".join(sorted(self.scope)) if self.scope else "none"
            self.fail(f"unknown name {name!r} (known: {known})", column)
        return as_dim(self.scope[name])


def parse_dim(text: str, scope: Scope) -> Dim:
    """The dimension that ``text`` writes; ``scope`` is a mapping of names, or a function that may make symbols.

    Reads what :func:`~dyn.shapes.format_dim` writes, and ``//``, ``%`` and parentheses.
    Raises :class:`~dyn.errors.ArgumentError`, which shows the place.
    """
    return DimReader(text, scope).whole()
