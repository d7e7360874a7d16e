"""Expressions of sizes, as JAX writes them: ``2*d0_0 - 1``, ``floordiv(b, 2)``, ``b^2``.

They are kept as text, which is what JAX's messages and ``jax.export.symbolic_shape`` have in common. A text's value is
a number where its names have numbers, and one of JAX's dimensions where they have those.
"""

from __future__ import annotations

import ast
import copy
import functools
import operator
import re
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[..., Any]] = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}


class UnreadableError(Exception):
    """A text that is no expression of sizes, or that has a name without a value."""


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise UnreadableError(text) from error


def names_in(text: str) -> tuple[str, ...]:
    """The sizes an expression is of, each once."""
    nodes = list(ast.walk(_parse(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return tuple(dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called))


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """The value of an expression; UnreadableError for a text that is none."""
    return _evaluate(_parse(text), values)


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and len(args) == 2:
            return _CALLS[name](*[_evaluate(arg, values) for arg in args])
        case _:
            raise UnreadableError(ast.unparse(node))


def python_text(text: str, places: Mapping[str, str]) -> str:
    """The expression as Python's, with ``places[name]`` for each name; UnreadableError for a name without a place."""
    return _text(_parse(text), places, python=True)[0]


def renamed(text: str, values: Mapping[str, str]) -> str:
    """The expression as JAX's, with the expressions ``values[name]`` for some names."""
    return _text(_substituted(_parse(text), values), {}, python=False)[0]


def _substituted(node: ast.expr, values: Mapping[str, str]) -> ast.expr:
    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return _parse(values[node.id]) if node.id in values else node

    return Put().visit(copy.deepcopy(node))


#: How operators are written, and how tightly they bind.
_SIGNS: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: (" + ", 1), ast.Sub: (" - ", 1), ast.Mult: ("*", 2), ast.FloorDiv: (" // ", 2), ast.Mod: (" % ", 2),
    ast.Pow: ("**", 4),
}  # fmt: skip
_CALLED: dict[type[ast.operator], str] = {ast.FloorDiv: "floordiv", ast.Mod: "mod"}


def _text(node: ast.expr, places: Mapping[str, str], python: bool) -> tuple[str, int]:
    """Text, and how tightly its outermost operator binds."""
    match node:
        case ast.Constant(value=int(number)):
            return str(number), 9 if number >= 0 else 3
        case ast.Name(id=name) if not python or name in places:
            return places.get(name, name), 9
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{_at_least(operand, 3, places, python)}", 2
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _CALLED and not python:
            inner = [_text(one, places, python)[0] for one in (left, right)]
            return f"{_CALLED[type(op)]}({', '.join(inner)})", 9
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            sign, level = _SIGNS[type(op)]
            sign = sign if python else sign.replace("**", "^")
            one = _at_least(left, level, places, python)
            return f"{one}{sign}{_at_least(right, level + 1, places, python)}", level
        case ast.Call(func=ast.Name(id="floordiv" | "mod" as name), args=[left, right], keywords=[]) if python:
            op = ast.FloorDiv() if name == "floordiv" else ast.Mod()
            return _text(ast.BinOp(left, op, right), places, python)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and len(args) == 2:
            return f"{name}({', '.join([_text(arg, places, python)[0] for arg in args])})", 9
        case _:
            raise UnreadableError(ast.unparse(node))


def _at_least(node: ast.expr, level: int, places: Mapping[str, str], python: bool) -> str:
    text, own = _text(node, places, python)
    return text if own >= level else f"({text})"


def divisions(text: str) -> list[tuple[str, str]]:
    """The divisions in an expression, with or without remainder, as dividend and divisor: the innermost last."""
    found: list[tuple[str, str]] = []
    try:
        nodes = list(ast.walk(_parse(text)))
    except UnreadableError:
        return []
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="floordiv" | "mod"), args=[left, right]):
                found.append((_text(left, {}, False)[0], _text(right, {}, False)[0]))
            case _:
                pass
    return found


def product(text: str) -> tuple[int, list[str]] | None:
    """The factor and the names of a product, with repeats; None for what is none."""
    try:
        return _product(_parse(text))
    except UnreadableError:
        return None


def _product(node: ast.expr) -> tuple[int, list[str]] | None:
    match node:
        case ast.Constant(value=int(number)):
            return number, []
        case ast.Name(id=name):
            return 1, [name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _product(operand)
            return None if inner is None else (-inner[0], inner[1])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, other = _product(left), _product(right)
            return None if one is None or other is None else (one[0] * other[0], one[1] + other[1])
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            one = _product(left)
            return None if one is None else (one[0] ** power, one[1] * power)
        case _:
            return None


def is_term(text: str) -> bool:
    """Tell whether an expression is one call, or a product of names."""
    try:
        node = _parse(text)
    except UnreadableError:
        return False
    return isinstance(node, ast.Call) or _product(node) is not None


def calls_in(message: str) -> list[str]:
    """The calls of ``mod`` and ``floordiv`` that a message has, the outermost of each."""
    found, end = list[str](), 0
    for start in re.finditer(r"\b(?:mod|floordiv)\(", message):
        if start.start() < end:
            continue
        depth, end = 1, start.end()
        while end < len(message) and depth:
            depth += {"(": 1, ")": -1}.get(message[end], 0)
            end += 1
        found.append(message[start.start() : end])
    return found


def plus_one(text: str) -> str:
    """The expression and 1."""
    terms = linear(text)
    return f"{text} + 1" if terms is None else linear_text({**terms, "": terms.get("", 0) + 1})


def linear(text: str) -> dict[str, int] | None:
    """The factors of a sum of multiples of names, its constant under ``""``; None for what is no such sum."""
    try:
        terms = _linear(_parse(text))
    except UnreadableError:
        return None
    return None if terms is None else {name: factor for name, factor in terms.items() if factor or not name}


def _linear(node: ast.expr) -> dict[str, int] | None:
    match node:
        case ast.Constant(value=int(number)):
            return {"": number}
        case ast.Name(id=name):
            return {name: 1}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _times(_linear(operand), -1)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _plus(_linear(left), _linear(right))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _plus(_linear(left), _times(_linear(right), -1))
        case ast.BinOp(left=ast.Constant(value=int(number)), op=ast.Mult(), right=right):
            return _times(_linear(right), number)
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int(number))):
            return _times(_linear(left), number)
        case _:
            return None


def _times(terms: dict[str, int] | None, number: int) -> dict[str, int] | None:
    return None if terms is None else {name: number * factor for name, factor in terms.items()}


def _plus(a: dict[str, int] | None, b: dict[str, int] | None) -> dict[str, int] | None:
    if a is None or b is None:
        return None
    return {name: a.get(name, 0) + b.get(name, 0) for name in (*a, *(name for name in b if name not in a))}


def linear_text(terms: Mapping[str, int]) -> str:
    """A sum of multiples, positive ones first, the constant last."""
    parts = sorted(((n, f) for n, f in terms.items() if f), key=lambda part: (part[0] == "", part[1] < 0))
    text = ""
    for name, factor in parts:
        size = abs(factor)
        body = str(size) if not name else name if size == 1 else f"{size}*{name}"
        text += (f" {'-' if factor < 0 else '+'} " if text else "-" if factor < 0 else "") + body
    return text if text else "0"


def difference(left: str, right: str) -> dict[str, int] | None:
    """``left - right`` as :func:`linear` gives it, without a common divisor."""
    terms = _plus(linear(left), _times(linear(right), -1))
    if terms is None:
        return None
    divisor = gcd(*[factor for name, factor in terms.items() if name])
    if divisor > 1 and terms.get("", 0) % divisor == 0:
        terms = {name: factor // divisor for name, factor in terms.items()}
    return {name: factor for name, factor in terms.items() if factor or not name}


def solved(left: str, right: str, order: Mapping[str, int]) -> tuple[str, str] | None:
    """Solve ``left == right`` for one name: the name, and an expression without it; None where that cannot be done.

    The name is the last in ``order`` of those for which the expression is positive wherever its names are, if any is.
    """
    terms = difference(left, right)
    if terms is None:
        return None
    best: tuple[tuple[bool, int], str, str] | None = None
    for name, factor in terms.items():
        if not name or abs(factor) != 1:
            continue
        rest = {other: -factor * f for other, f in terms.items() if other != name}
        rank = (all(f >= 0 for f in rest.values()), order.get(name, 0))
        if best is None or rank > best[0]:
            best = rank, name, linear_text(rest)
    return None if best is None else (best[1], best[2])
