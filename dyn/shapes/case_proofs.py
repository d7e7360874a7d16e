"""Proofs that an expression is never negative, by cases and by the definitions of division.

What bounds leave open is taken apart: a minimum is each of its arguments in turn, and the least of them (a hypothesis
for the bounds); ``floordiv(a, b) >= c`` is ``a >= b*c``; ``mod(a, b)`` is ``a - b*floordiv(a, b)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from dyn.errors import ShapeError
from dyn.shapes.bound import Hypotheses
from dyn.shapes.expr import Atom, Dim, Opaque, OpaqueKind, SymExpr, floordiv
from dyn.shapes.simplify import Simplifier
from dyn.shapes.walk import mentions, replace_deeply, split_linear

#: How many terms a proof may take apart, one inside another.
_SPLITS = 3
_EXTREMA = (OpaqueKind.MIN, OpaqueKind.MAX)
_CHOICES = (*_EXTREMA, OpaqueKind.BROADCAST)


def never_negative(s: Simplifier, e: Dim) -> bool:
    """Whether ``e >= 0`` wherever it has a value."""
    if isinstance(e, int):
        return e >= 0
    return s.work.remember(("never negative", e), lambda e: _holds(s, e, _SPLITS, ()))


def _holds(s: Simplifier, e: Dim, splits: int, hypotheses: Hypotheses) -> bool:
    e = s.simplify(e)
    if s.bounds.never_negative(e, hypotheses):
        return True
    if not splits or isinstance(e, int) or e.is_large or s.bounds.has_counterexample(e, hypotheses):
        return False
    opaques = sorted([atom for atom in e.atoms if isinstance(atom, Opaque)], key=lambda atom: atom.key)
    for atom in opaques:
        if atom.kind in _CHOICES:
            return all(
                _holds(s, case[0], splits - 1, more) for case, more in cases(s, (e,), atom, hypotheses)
            ) or _one_holds(s, e, atom, splits, hypotheses)
    for atom in opaques:
        unfolded = _unfold(s, e, atom)
        if unfolded is not None and _holds(s, unfolded, splits - 1, hypotheses):
            return True
    return False


def _one_holds(s: Simplifier, e: SymExpr, atom: Opaque, splits: int, hypotheses: Hypotheses) -> bool:
    """Whether ``e`` is at least what it is for one argument of an extremum, and that is never negative.

    Arguments without opaque terms are not tried: inequalities have said it.
    """
    parts = split_linear(e, atom)
    if parts is None or not isinstance(parts[0], int) or (parts[0] > 0) is not (atom.kind is OpaqueKind.MAX):
        return False
    return atom.kind in _EXTREMA and any(
        _holds(s, parts[0] * arg + parts[1], splits - 1, hypotheses)
        for arg in atom.args
        if isinstance(arg, SymExpr) and arg.height
    )


def cases(
    s: Simplifier, dims: tuple[Dim, ...], atom: Opaque, hypotheses: Hypotheses = ()
) -> Iterator[tuple[tuple[Dim, ...], Hypotheses]]:
    """The dims with a minimum, maximum or broadcast replaced by each argument that it may be, and what holds there."""
    for arg in atom.args:
        s.work.step()
        more = _gaps(s, atom, arg)
        if more is None:
            continue
        try:
            case = tuple([replace_atom(dim, atom, arg) for dim in dims])
        except ShapeError:  # it has no value
            continue
        yield case, tuple(dict.fromkeys([*hypotheses, *more]))


def _gaps(s: Simplifier, atom: Opaque, arg: Dim) -> list[SymExpr] | None:
    """Expressions that are at least 0 where ``atom`` is ``arg``; None where it never is."""
    more: list[SymExpr] = []
    if atom.kind is not OpaqueKind.BROADCAST:  # of which nothing linear follows
        for other in atom.args:
            gap = s.simplify(other - arg if atom.kind is OpaqueKind.MIN else arg - other)
            if isinstance(gap, SymExpr):
                more.append(gap)
            elif gap < 0:
                return None
    return more


def extrema(*dims: Dim) -> list[Opaque]:
    """The minima and maxima in the dims, in canonical order."""
    small = [dim for dim in dims if isinstance(dim, SymExpr) and dim.height and not dim.is_large]
    atoms = {atom for dim in small for atom in dim.atoms if isinstance(atom, Opaque)}
    return sorted([atom for atom in atoms if atom.kind in _EXTREMA], key=lambda atom: atom.key)


def _unfold(s: Simplifier, e: SymExpr, atom: Opaque) -> Dim | None:
    """An expression without the division ``atom`` that is never negative exactly where ``e`` is; None without one."""
    parts = split_linear(e, atom)
    if parts is None or parts[0] == 0:
        return None
    factor, rest = parts
    a, b = atom.args
    if atom.kind is OpaqueKind.MOD:
        return factor * (a - b * floordiv(a, b)) + rest
    known = s.simplify(b)
    if not s.bounds.positive_divisor(b) or (isinstance(known, int) and known <= 0):
        return None
    if factor == 1:  # floordiv(a, b) >= -rest
        return a + b * rest
    if factor == -1:  # floordiv(a, b) <= rest
        return b * rest + b - 1 - a
    return None


def replace_atom(dim: Dim, atom: Atom, value: Dim) -> Dim:
    """The expression with an atom replaced, inside opaque terms too; a large one as it is, which has the same value.

    Raises :class:`~dyn.errors.ShapeError` where nothing is left that has a value.
    """
    if isinstance(dim, int) or dim.is_large or not mentions(dim, atom):
        return dim
    return replace_deeply(dim, atom.symbols, lambda other: value if other is atom else None)
