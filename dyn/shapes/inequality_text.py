"""Inequalities of sizes as people write them: ``x_0 <= 7 and x_1 > 32768``."""

from __future__ import annotations

from dyn.shapes.expr import Dim, Opaque, SymExpr, polynomial
from dyn.shapes.symbols import OpaqueKind
from dyn.shapes.text import format_dim

#: Of numbers that are one more than a multiple of this, the multiple is written.
_ROUND = 8


def at_least(dim: Dim, low: int) -> str:
    """The text of ``dim >= low``, with each side's terms on its own side."""
    if isinstance(dim, int):
        return f"{dim} >= {low}"
    atom, rest = _atom_and_number(dim)
    if atom is not None and atom.kind is OpaqueKind.MIN:
        # A number that is large enough is no condition.
        args = [arg for arg in atom.args if not isinstance(arg, int) or arg < low - rest]
        return " and ".join([at_least(arg, low - rest) for arg in args])
    if atom is not None and atom.kind is OpaqueKind.MAX:
        return f"({' or '.join([at_least(arg, low - rest) for arg in atom.args])})"
    above = polynomial({mono: count for mono, count in dim.terms if count > 0}, 0)
    below = polynomial({mono: -count for mono, count in dim.terms if count < 0}, 0)
    least = low - dim.constant
    if above == 0:
        return f"{format_dim(below)} <= {-least}"
    if below == 0:
        is_round = least > _ROUND and (least - 1) % _ROUND == 0
        return f"{format_dim(above)} > {least - 1}" if is_round else f"{format_dim(above)} >= {least}"
    if least in (0, 1):
        return f"{format_dim(above)} {'>' if least else '>='} {format_dim(below)}"
    return f"{format_dim(above)} >= {format_dim(below + least)}"


def at_most(dim: Dim, high: int) -> str:
    """The text of ``dim <= high``."""
    return f"{dim} <= {high}" if isinstance(dim, int) else at_least(-dim, -high)


def _atom_and_number(dim: SymExpr) -> tuple[Opaque | None, int]:
    """Of ``min(m, n) + 1`` the minimum and 1."""
    term = dim - dim.constant
    atom = None if isinstance(term, int) else term.is_atom
    return (atom if isinstance(atom, Opaque) else None), dim.constant
