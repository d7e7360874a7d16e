"""Index expressions as C++: 64-bit, with the divisions of :mod:`dyn.shapes`."""

from __future__ import annotations

from collections.abc import Mapping

from dyn.shapes import Dim, Opaque, OpaqueKind, Symbol

_CALLS = {
    OpaqueKind.FLOORDIV: "dyn_floordiv",
    OpaqueKind.MOD: "dyn_mod",
    OpaqueKind.MIN: "dyn_imin",
    OpaqueKind.MAX: "dyn_imax",
    OpaqueKind.BROADCAST: "dyn_broadcast",
}


def dim_text(dim: Dim, names: Mapping[Symbol, str]) -> str:
    """A ``long long`` expression; a sum has no parentheses around it."""
    if isinstance(dim, int):
        return _integer(dim)
    text = ""
    for monomial, coefficient in dim.terms:
        factors = [] if abs(coefficient) == 1 else [_integer(abs(coefficient))]
        for atom, power in monomial.factors:
            factors += [_call(atom, names) if isinstance(atom, Opaque) else names[atom]] * power
        sign = "-" if coefficient < 0 else "+"
        product = " * ".join(factors)
        text = f"{text} {sign} {product}" if text else product if coefficient > 0 else f"-{product}"
    if dim.constant:
        text += f" {'-' if dim.constant < 0 else '+'} {_integer(abs(dim.constant))}"
    return text


def _call(opaque: Opaque, names: Mapping[Symbol, str]) -> str:
    """n-ary functions nest: ``f(a, f(b, c))``."""
    args = [dim_text(arg, names) for arg in opaque.args]
    text = args.pop()
    while args:
        text = f"{_CALLS[opaque.kind]}({args.pop()}, {text})"
    return text


def _integer(value: int) -> str:
    return str(value) if abs(value) < 1 << 31 else f"{value}LL"
