"""Index expressions as C++: 64-bit, with the divisions of :mod:`dyn.shapes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dyn.shapes import Dim, Opaque, OpaqueKind, SymExpr
from dyn.shapes.expr import Atom

_CALLS = {
    OpaqueKind.FLOORDIV: "dyn_floordiv",
    OpaqueKind.MOD: "dyn_mod",
    OpaqueKind.MIN: "dyn_imin",
    OpaqueKind.MAX: "dyn_imax",
    OpaqueKind.BROADCAST: "dyn_broadcast",
}
#: What gives the quotient and the rest by a power of two.
_BITS: dict[OpaqueKind, Callable[[int], str]] = {
    OpaqueKind.FLOORDIV: lambda divisor: f">> {divisor.bit_length() - 1}",
    OpaqueKind.MOD: lambda divisor: f"& {divisor - 1}",
}
#: An expression with more calls than this, written out, gets names for them: shared ones are many when they are nested.
MOST_CALLS = 24


def dim_text(dim: Dim, names: Mapping[Atom, str]) -> str:
    """A ``long long`` expression; a sum has no parentheses around it. ``names`` has its symbols, and what is named."""
    if isinstance(dim, int):
        return _integer(dim)
    text = ""
    for monomial, coefficient in dim.terms:
        factors = [] if abs(coefficient) == 1 else [_integer(abs(coefficient))]
        for atom, power in monomial.factors:
            known = names.get(atom)
            if known is None:
                assert isinstance(atom, Opaque)
                known = call_text(atom, names)
            factors += [known] * power
        sign = "-" if coefficient < 0 else "+"
        product = " * ".join(factors)
        text = f"{text} {sign} {product}" if text else product if coefficient > 0 else f"-{product}"
    if dim.constant:
        text += f" {'-' if dim.constant < 0 else '+'} {_integer(abs(dim.constant))}"
    return text


def call_text(opaque: Opaque, names: Mapping[Atom, str]) -> str:
    """n-ary functions nest: ``f(a, f(b, c))``. By a power of two a number is divided by its bits, rounded down."""
    divisor = opaque.args[-1]
    if opaque.kind in _BITS and isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0:
        number = dim_text(opaque.args[0], names)
        number = number if number.isidentifier() else f"({number})"
        return f"({number} {_BITS[opaque.kind](divisor)})"
    args = [dim_text(arg, names) for arg in opaque.args]
    text = args.pop()
    while args:
        text = f"{_CALLS[opaque.kind]}({args.pop()}, {text})"
    return text


def calls_to_name(dim: Dim, names: Mapping[Atom, str]) -> list[Opaque]:
    """The functions in an expression that is too long to be written out, each after those it is made of."""
    if isinstance(dim, int):
        return []
    calls: dict[Opaque, int] = {}
    stack = [atom for atom in _functions(dim) if atom not in names]
    while stack:
        atom = stack[-1]
        inside = [a for arg in atom.args for a in _functions(arg) if a not in names]
        waiting = [a for a in inside if a not in calls]
        if waiting and atom not in calls:
            stack += waiting
            continue
        stack.pop()
        calls.setdefault(atom, 1 + sum([calls[a] for a in inside]))
    total = sum([calls[atom] for atom in _functions(dim) if atom not in names])
    return list(calls) if total > MOST_CALLS else []


def _functions(dim: Dim) -> Iterator[Opaque]:
    """The outermost functions in an expression, each as often as it stands there."""
    if isinstance(dim, SymExpr):
        for monomial, _ in dim.terms:
            for atom, power in monomial.factors:
                if isinstance(atom, Opaque):
                    yield from [atom] * power


def _integer(value: int) -> str:
    return str(value) if abs(value) < 1 << 31 else f"{value}LL"
