"""Expressions as text: whole, for what is read again, and shortened, for people.

An expression that is small is written as a tree. One whose tree would be long shares its parts::

    let(p, floordiv(n, 2), max(m, p0), p1 + floordiv(p0, 3))

The first word names the parts: ``p0`` is the first, ``p1`` the second, and each may mention those before it; the last
is the expression. For people the inner parts of such an expression are left out: ``max(m, …) + floordiv(…, 3)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dyn.shapes.symbols import Symbol

if TYPE_CHECKING:
    from dyn.shapes.expr import Atom, Dim, Monomial, Opaque, SymExpr

#: An expression with so many atoms, counted as often as they occur, is written as a tree.
_TREE = 240
#: How many levels of opaque terms people are shown of a larger one, as long as the text is short.
_LEVELS = 6
_SHORT = 400
#: How many terms of a sum people are shown.
_TERMS = 12
#: A part is shared if it is mentioned twice, or if it is so high: readers descend into what is not.
_HIGH = 16

Write = Callable[["Opaque"], str]


def format_dim(dim: Dim, names: Mapping[Symbol, str] | None = None) -> str:
    """``2*b*s + 3``: the text for people, bounded in length. ``names`` replaces symbols' own names.

    That of a small expression is the whole text, which :func:`dyn.shapes.parse_dim` reads. In that of a large one
    parts are left out; :func:`exact_text` has them all.
    """
    if isinstance(dim, int):
        return str(int(dim))
    return dim.text if names is None else text_for_people(dim, names)


def text_for_people(dim: SymExpr, names: Mapping[Symbol, str] | None = None) -> str:
    """The text of an expression, made anew."""
    if dim.weight <= _TREE:
        return _sum(dim, names, _tree(names))
    text = _shown(dim, names, 1)
    for levels in range(2, _LEVELS + 1):  # each is longer than the one before by a bounded factor
        longer = _shown(dim, names, levels)
        if len(longer) > _SHORT:
            break
        text = longer
    return text


def exact_text(dim: Dim, names: Mapping[Symbol, str] | None = None) -> str:
    """The whole text, which :func:`dyn.shapes.parse_dim` reads; no longer than the expression has parts."""
    if isinstance(dim, int):
        return str(int(dim))
    if dim.weight <= _TREE:
        return _sum(dim, names, _tree(names))
    order, uses = _parts(dim)
    known = [s.name if names is None else names.get(s, s.name) for s in dim.symbols]
    prefix = "p"
    while any(name.startswith(prefix) for name in known):
        prefix += "p"
    texts: dict[Opaque, str] = {}
    shared: list[str] = []

    def write(atom: Opaque) -> str:
        return texts[atom]

    for atom in order:
        text = f"{atom.kind}({', '.join([_arg(arg, names, write) for arg in atom.args])})"
        if uses[atom] > 1 or atom.height % _HIGH == 0:
            texts[atom] = f"{prefix}{len(shared)}"
            shared.append(text)
        else:
            texts[atom] = text
    return f"let({', '.join([prefix, *shared, _sum(dim, names, write)])})"


def text_of_terms(dim: Dim, names: Mapping[Symbol, str], terms: Mapping[Opaque, str]) -> str:
    """The text of a sum whose opaque terms are written as ``terms`` says."""
    return _arg(dim, names, terms.__getitem__)


def _parts(dim: SymExpr) -> tuple[list[Opaque], dict[Opaque, int]]:
    """The opaque terms in an expression, arguments first, and how often each is mentioned."""
    order: list[Opaque] = []
    uses: dict[Opaque, int] = {}
    stack: list[tuple[Opaque, bool]] = [(atom, False) for atom in _mentioned(dim)]
    while stack:
        atom, entered = stack.pop()
        if entered:
            order.append(atom)
            continue
        uses[atom] = uses.get(atom, 0) + 1
        if uses[atom] == 1:
            stack.append((atom, True))
            stack.extend([(inner, False) for arg in atom.args if not isinstance(arg, int) for inner in _mentioned(arg)])
    return order, uses


def _mentioned(dim: SymExpr) -> list[Opaque]:
    return [atom for mono, _ in dim.terms for atom, _ in mono.factors if not isinstance(atom, Symbol)]


def _tree(names: Mapping[Symbol, str] | None) -> Write:
    def write(atom: Opaque) -> str:
        return f"{atom.kind}({', '.join([_arg(arg, names, write) for arg in atom.args])})"

    return write


def _shown(dim: SymExpr, names: Mapping[Symbol, str] | None, levels: int) -> str:
    return _sum(dim, names, lambda atom: _shown_atom(atom, names, levels), _TERMS)


def _shown_atom(atom: Opaque, names: Mapping[Symbol, str] | None, levels: int) -> str:
    args: list[str] = []
    for arg in atom.args[:_TERMS]:
        if isinstance(arg, int):
            args.append(str(arg))
        elif arg.height and levels <= 1:
            args.append("…")
        else:
            args.append(_sum(arg, names, lambda inner: _shown_atom(inner, names, levels - 1), _TERMS))
    if len(atom.args) > _TERMS:
        args.append("…")
    return f"{atom.kind}({', '.join(args)})"


def _arg(arg: Dim, names: Mapping[Symbol, str] | None, write: Write) -> str:
    return str(int(arg)) if isinstance(arg, int) else _sum(arg, names, write)


def _sum(dim: SymExpr, names: Mapping[Symbol, str] | None, write: Write, most: int | None = None) -> str:
    parts: list[str] = []
    for mono, coefficient in dim.terms[:most]:
        text = _product(mono, names, write)
        magnitude = abs(coefficient)
        _append_signed(parts, text if magnitude == 1 else f"{magnitude}*{text}", coefficient < 0)
    if most is not None and len(dim.terms) > most:
        parts.append(" + …")
    if dim.constant:
        _append_signed(parts, str(abs(dim.constant)), dim.constant < 0)
    return "".join(parts)


def _append_signed(parts: list[str], text: str, negative: bool) -> None:
    if parts:
        parts.append(" - " if negative else " + ")
    elif negative:
        parts.append("-")
    parts.append(text)


def _product(mono: Monomial, names: Mapping[Symbol, str] | None, write: Write) -> str:
    return "*".join([_atom(atom, names, write) + (f"**{power}" if power > 1 else "") for atom, power in mono.factors])


def _atom(atom: Atom, names: Mapping[Symbol, str] | None, write: Write) -> str:
    if isinstance(atom, Symbol):
        return atom.name if names is None else names.get(atom, atom.name)
    return write(atom)
