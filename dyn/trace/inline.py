"""A jitted function called inside a trace: its declarations become relations between the caller's dims."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.errors import ArgumentError
from dyn.shapes import Dim, Reason, Relation, RelKind, Symbol, parse_constraints, parse_dim, substitute, symbol
from dyn.source import user_loc
from dyn.trace.annotations import Axes, Marked, marked_relations
from dyn.trace.context import Trace
from dyn.trace.function import Declarations


def require_declared(
    trace: Trace,
    function: str,
    names: Sequence[str],
    shapes: Sequence[tuple[Dim, ...]],
    axes: Sequence[Axes],
    declarations: Declarations,
) -> None:
    """Demand of the caller's dims what the function declares of its own.

    The declared names are the function's own: each stands for the caller's dim at its first bare use.
    """
    own: dict[str, Symbol] = {}
    given: dict[Symbol, Dim] = {}
    pending: list[tuple[str, int, Dim, Dim]] = []
    marked: list[Marked] = []
    for name, shape, declared in zip(names, shapes, axes, strict=True):
        for axis, (dim, wanted) in enumerate(zip(shape, declared, strict=True)):
            if wanted is None:
                continue
            if isinstance(wanted, str) and wanted.startswith("#"):
                marked.append(Marked(f"{name}.shape[{axis}]", dim, wanted[1:]))
            elif isinstance(wanted, str) and wanted.isidentifier() and wanted not in own:
                own[wanted] = symbol(wanted, f"{name}.shape[{axis}]")
                given[own[wanted]] = dim
            else:
                pending.append((name, axis, dim, wanted if isinstance(wanted, int) else _parsed(function, wanted, own)))
    loc = user_loc()
    for name, axis, dim, wanted in pending:
        reason = Reason(f"{function} declares {name}.shape[{axis}] as {wanted}", loc)
        trace.require(Relation(RelKind.EQ, dim, substitute(wanted, given), reason))

    def resolve(text: str) -> Dim | None:
        if text.isidentifier() and text not in own:
            return None
        return substitute(_parsed(function, text, own), given)

    for relation in marked_relations(marked, resolve, loc):
        trace.require(relation)
    for declared_dim in declarations.dims:
        known = own.get(declared_dim.name)
        if known is None:
            continue
        reason = Reason(f"{function} declares {declared_dim.name}", loc)
        dim = given[known]
        trace.require(Relation(RelKind.GE, dim, declared_dim.min, reason))
        if declared_dim.max is not None:
            trace.require(Relation(RelKind.GE, declared_dim.max, dim, reason))
        if declared_dim.multiple_of != 1:
            trace.require(Relation(RelKind.DIVIDES, declared_dim.multiple_of, dim, reason))
    for text in declarations.constraints:
        for kind, lhs, rhs in parse_constraints(text, own):
            reason = Reason(f"{function} has constraints={text!r}", loc)
            trace.require(Relation(kind, substitute(lhs, given), substitute(rhs, given), reason))


def _parsed(function: str, text: str, own: dict[str, Symbol]) -> Dim:
    def known(name: str) -> Symbol:
        if name not in own:
            raise ArgumentError(
                f"{function}(): the dim {name} in shapes= follows from no argument's shape.",
                remedy=f"let an axis of some argument be {name} alone, before it is used in an expression.",
            )
        return own[name]

    return parse_dim(text, known)
