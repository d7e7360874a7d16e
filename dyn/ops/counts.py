"""Counts of operations that polynomials of sizes cannot say: logarithms, divisions, and numbers that nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from dyn.dtypes import Kind
from dyn.ir.core import Op
from dyn.ir.opdef import FlopRule
from dyn.shapes import Dim, Symbol, as_dim, floordiv, format_dim, free_symbols, product, substitute, symbol


@dataclass(frozen=True, slots=True, eq=False)
class Logarithm(Symbol):
    """The logarithm to base 2 of a size ``of``, rounded up; 0 of 0."""

    of: Dim = 0


@dataclass(frozen=True, slots=True, eq=False)
class UnknownCount(Symbol):
    """A number that neither sizes nor the program say: how often a loop runs. ``origin`` says what it is."""


def log2(size: Dim) -> Dim:
    """Logarithm to base 2, rounded up; 0 of 0."""
    return max(size - 1, 0).bit_length() if isinstance(size, int) else as_dim(_logarithm(size))


@lru_cache(1024)
def _logarithm(size: Dim) -> Logarithm:
    name = f"log2({format_dim(size)})"
    return Logarithm(name, name, symbol(name).uid, of=size)


def unknown_count(name: str, text: str) -> Dim:
    """A number that is not known, with what it is."""
    return as_dim(UnknownCount(name, text, symbol(name).uid))


def at_sizes(count: Dim, sizes: Mapping[Symbol, Dim]) -> Dim:
    """A count with sizes put in place of symbols."""
    logarithms = [one for one in free_symbols(count) if isinstance(one, Logarithm)]
    return substitute(count, {**sizes, **{one: log2(at_sizes(one.of, sizes)) for one in logarithms}})


def leaves_of(count: Dim) -> frozenset[Symbol]:
    """The symbols that a count depends on, those of sizes under logarithms among them."""
    found: set[Symbol] = set()
    for one in free_symbols(count):
        found |= leaves_of(one.of) if isinstance(one, Logarithm) else {one}
    return frozenset(found)


# --- matrices ---------------------------------------------------------------------------------------------------------


def per_matrix(count: Callable[[Op, Dim, Dim], Dim]) -> FlopRule:
    """The rule of an op on matrices: ``count(op, rows, columns)`` for each, four times that if they are complex.

    Counts are the leading terms of textbooks (G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th edition, 2013;
    of factorisations also LAPACK Working Note 41). Of iterations they are those of typical matrices.
    """

    def rule(op: Op) -> Dim:
        *lead, rows, columns = op.operands[0].shape
        complex_factor = 4 if op.operands[0].dtype.kind is Kind.COMPLEX else 1
        return complex_factor * product(lead) * count(op, rows, columns)

    return rule


def third(number: Dim) -> Dim:
    """A third, rounded down."""
    return floordiv(number, 3)
