"""Bytes in words: ``0 for most sizes; 8*m rounded up to 64 when m <= 7 and n > 32768``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from dyn.frozen import record
from dyn.shapes import Dim, Facts, Opaque, OpaqueKind, Symbol, dim_max, dim_min, format_dim
from dyn.shapes.expr import SymExpr, all_atoms, atom_dim
from dyn.shapes.inequality_text import at_least
from dyn.shapes.text import text_of_terms
from dyn.shapes.walk import replace_deeply

#: Of more conditions, or of more cases than these, no more than the conditions is said.
_MOST_CONDITIONS, _MOST_CASES = 4, 4


@record(eq=False)
class SizeCase:
    """A size where all ``conditions`` are 1 or more."""

    conditions: tuple[Dim, ...]
    size: Dim


def size_in_words(size: Dim, facts: Facts) -> str:
    """A size by cases: that for most sizes first, then others with when they are; without cases the formula alone."""
    indicators = _indicators(size)
    if len(indicators) <= _MOST_CONDITIONS:
        usual, *others = size_cases(size, facts)
        texts = [f"{_amount(case.size)} when {_words(case.conditions)}" for case in others]
        if not indicators or not texts:
            return _amount(usual.size)
    else:
        usual, texts = SizeCase((), facts.simplify(_with(size, indicators, ()))), []
    if not 0 < len(texts) <= _MOST_CASES:
        texts = [f"other sizes when {', or when '.join(indicators)}"]
    return "; ".join([f"{_amount(usual.size)} for most sizes", *texts])


def size_cases(size: Dim, facts: Facts) -> list[SizeCase]:
    """A size by the conditions that it depends on: first that without any. The last one that holds counts."""
    indicators = _indicators(size)
    found: list[tuple[frozenset[str], SizeCase]] = []
    cases: list[SizeCase] = []
    for count in range(len(indicators) + 1):
        for held in combinations(indicators, count):
            conditions = tuple(dict.fromkeys([c for words in held for c in _conditions(indicators[words][0])]))
            if conditions and facts.ge(0, dim_min(*conditions)).proved:  # they never hold at once
                continue
            case = SizeCase(conditions, facts.simplify(_with(size, indicators, held)))
            below = [other.size for of, other in found if of < set(held)]
            if not held or any(other != case.size for other in below):
                cases.append(case)
            found.append((frozenset(held), case))
    return cases


def _indicators(size: Dim) -> dict[str, list[Opaque]]:
    """The terms of a size that are 1 where conditions hold and 0 elsewhere, by the conditions' text."""
    by_words: dict[str, list[Opaque]] = {}
    for atom in _atoms(size):
        conditions = _conditions(atom)
        if conditions:
            by_words.setdefault(_words(conditions), []).append(atom)
    return by_words


def _atoms(dim: Dim) -> list[Opaque]:
    """The opaque terms in an expression, each once."""
    return [] if isinstance(dim, int) else [atom for atom in all_atoms(dim) if isinstance(atom, Opaque)]


def _conditions(atom: Opaque) -> list[Dim]:
    """Dims that have to be 1 or more where a term of the form ``max(0, min(1, a, b))`` is 1; none of other terms."""
    if atom.kind is not OpaqueKind.MAX or len(atom.args) != 2 or 0 not in atom.args:
        return []
    other = next(arg for arg in atom.args if arg != 0)
    inner = None if isinstance(other, int) else other.is_atom
    if not isinstance(inner, Opaque) or inner.kind is not OpaqueKind.MIN or 1 not in inner.args:
        return []
    conditions = [arg for arg in inner.args if arg != 1]
    # Where no size is 0 it is 1: that is no case of few sizes.
    return [] if all(_is_usual(dim) for dim in conditions) else conditions


def _is_usual(dim: Dim) -> bool:
    """Return True for what is 1 or more wherever no size is 0."""
    if isinstance(dim, int):
        return dim >= 1
    symbols_only = all(isinstance(atom, Symbol) for mono, _ in dim.terms for atom, _ in mono.factors)
    return symbols_only and dim.constant >= 0 and all(count > 0 for _, count in dim.terms)


def _words(conditions: Sequence[Dim]) -> str:
    """Conditions as one: ``x_0 <= 7 and x_1 > 32768``."""
    return " and ".join(dict.fromkeys([at_least(dim, 1) for dim in conditions]))


def _with(size: Dim, indicators: Mapping[str, Sequence[Opaque]], held: Collection[str]) -> Dim:
    """The size where the conditions in ``held`` hold, and no others."""
    values = {atom: int(words in held) for words, atoms in indicators.items() for atom in atoms}
    if isinstance(size, int):
        return size
    return replace_deeply(size, size.symbols, lambda atom: None if isinstance(atom, Symbol) else values.get(atom))


def _amount(size: Dim) -> str:
    """``4*m*n rounded up to 64, plus 128``: the terms by what they are rounded up to."""
    if isinstance(size, int):
        return str(size)
    by_unit: dict[int, list[Dim]] = {}
    for term in _terms(size):
        unit, inner = _rounded(term) or (1, term)
        by_unit.setdefault(unit, []).append(inner)
    texts: list[str] = []
    for unit, terms in sorted(by_unit.items(), key=lambda item: -item[0]):
        each = "each " if len(terms) > 1 else ""
        said = " + ".join([_text(term) for term in terms])
        texts.append(said if unit == 1 else f"{said}{', ' if each else ' '}{each}rounded up to {unit}")
    return ", plus ".join(texts)


def _terms(size: SymExpr) -> list[Dim]:
    """The terms of a sum, the constant last; the whole where a term is subtracted."""
    if size.constant < 0 or any(count < 0 for _, count in size.terms):
        return [size]
    terms: list[Dim] = []
    rest: Dim = size
    for mono, count in size.terms:
        factors: Dim = count
        for atom, power in mono.factors:
            for _ in range(power):
                factors = factors * atom_dim(atom)
        terms.append(factors)
        rest = rest - factors
    return [*terms, *([rest] if rest != 0 else [])]


def _rounded(term: Dim) -> tuple[int, Dim] | None:
    """Of ``64*floordiv(m*n + 15, 16)`` 64 and ``4*m*n``; of a maximum of such that of what is rounded, or None."""
    if isinstance(term, int) or term.constant or len(term.terms) != 1:
        return None
    (mono, count) = term.terms[0]
    if len(mono.factors) != 1 or mono.factors[0][1] != 1:
        return None
    atom = mono.factors[0][0]
    if not isinstance(atom, Opaque):
        return None
    if atom.kind is OpaqueKind.MAX and count == 1:
        return _rounded_maximum(atom)
    quotient = _upwards(atom)
    if quotient is None or count % quotient[1]:
        return None
    return count, count // quotient[1] * quotient[0]


def _rounded_maximum(atom: Opaque) -> tuple[int, Dim] | None:
    found = [_rounded(arg) for arg in atom.args if not isinstance(arg, int)]
    numbers = [arg for arg in atom.args if isinstance(arg, int)]
    units = {one[0] for one in found if one is not None}
    if None in found or len(units) != 1:
        return None
    unit = units.pop()
    if any(number % unit for number in numbers):
        return None
    return unit, dim_max(*numbers, *[one[1] for one in found if one is not None])


def _upwards(atom: Opaque) -> tuple[Dim, int] | None:
    """Of ``floordiv(n + 511, 512)`` n and 512: a quotient that is rounded up."""
    if atom.kind is not OpaqueKind.FLOORDIV:
        return None
    above, below = atom.args
    if not isinstance(below, int) or isinstance(above, int) or above.constant != below - 1:
        return None
    return above - above.constant, below


def _text(dim: Dim) -> str:
    """An expression, in which quotients that are rounded up are ``ceil(n / 512)``."""
    if isinstance(dim, int):
        return str(dim)
    whole = format_dim(dim)
    if "…" in whole:  # of a large expression parts are left out
        return whole
    terms: dict[Opaque, str] = {}
    for atom in _atoms(dim):  # arguments come first
        quotient = _upwards(atom)
        if quotient is None:
            terms[atom] = f"{atom.kind}({', '.join([_text(arg) for arg in atom.args])})"
        else:
            above = _text(quotient[0])
            terms[atom] = f"ceil({f'({above})' if ' ' in above else above} / {quotient[1]})"
    return text_of_terms(dim, {symbol: symbol.name for symbol in dim.symbols}, terms)
