"""Symbolic integers, and what is known of them. Knows nothing of the IR.

From the bottom: ``symbols``, ``text``, ``expr`` (canonical polynomials), ``joins`` (min, max, broadcast), ``walk``
(evaluate, substitute), ``parse``; ``relation`` (what can be said), ``interval``, ``poly`` and ``linear`` (arithmetic),
``order`` (which term an equation replaces), ``state`` (what is known, in solved form), ``relevant_inequalities`` →
``bound`` → ``simplify`` → ``case_proofs`` → ``decide`` (questions), ``models`` (sizes that contradict claims),
``stack`` (room for a proof), ``retract`` and ``learn`` (new facts), ``questions`` (by kind), ``declarations`` and
``assumptions`` (what is told of dims, as facts), ``facts`` (the snapshot that others hold); ``declare`` (the texts that
users write).
"""

from dyn.shapes.assumptions import numel_relation
from dyn.shapes.declarations import Declaration
from dyn.shapes.declare import Constraint, DimDecl, NamedDim, parse_constraints, parse_shapes
from dyn.shapes.expr import (
    Atom,
    Dim,
    Monomial,
    Opaque,
    SymExpr,
    as_dim,
    floordiv,
    keeping_recent,
    mod,
    product,
)
from dyn.shapes.facts import Facts, KeptFacts
from dyn.shapes.joins import broadcast, dim_max, dim_min, joined_from
from dyn.shapes.parse import parse_dim
from dyn.shapes.poly import exact_quotient
from dyn.shapes.relation import (
    Answer,
    Outcome,
    Reason,
    Relation,
    RelKind,
    Verdict,
    first_broken,
    format_shape,
    literal,
    value_conditions,
)
from dyn.shapes.sums import dim_difference, dim_sum
from dyn.shapes.symbols import OpaqueKind, Symbol, SymbolSequence, symbol
from dyn.shapes.text import exact_text, format_dim
from dyn.shapes.walk import evaluate, free_symbols, last_data_dependent, linear_in, substitute

__all__ = [
    "Answer",
    "Atom",
    "Constraint",
    "Declaration",
    "Dim",
    "DimDecl",
    "Facts",
    "KeptFacts",
    "Monomial",
    "NamedDim",
    "Opaque",
    "OpaqueKind",
    "Reason",
    "RelKind",
    "Outcome",
    "Relation",
    "first_broken",
    "SymExpr",
    "Symbol",
    "SymbolSequence",
    "Verdict",
    "as_dim",
    "broadcast",
    "dim_difference",
    "dim_max",
    "dim_min",
    "dim_sum",
    "evaluate",
    "exact_quotient",
    "exact_text",
    "floordiv",
    "format_dim",
    "format_shape",
    "free_symbols",
    "joined_from",
    "keeping_recent",
    "last_data_dependent",
    "linear_in",
    "literal",
    "mod",
    "numel_relation",
    "parse_constraints",
    "parse_dim",
    "parse_shapes",
    "product",
    "substitute",
    "symbol",
    "value_conditions",
]
