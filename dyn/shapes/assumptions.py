"""Relations as assumptions: the facts that they are learned as, and the error where they cannot hold."""

from __future__ import annotations

from dyn.errors import DomainError, ShapeError
from dyn.shapes.expr import Dim, SymExpr, product
from dyn.shapes.questions import DimQuestions
from dyn.shapes.relation import Reason, Relation, RelKind, Why
from dyn.shapes.retract import Fact

_REMEDY = "make the sizes agree, or change the declaration that fixes them."


def numel_relation(a: tuple[Dim, ...], b: tuple[Dim, ...], reason: Reason) -> Relation:
    """The relation that two shapes have as many elements."""
    return Relation(RelKind.SAME_NUMEL, product(a), product(b), reason, a, b)


#: The relations that say the same with their sides exchanged.
_SYMMETRIC = (RelKind.EQ, RelKind.BROADCASTS, RelKind.SAME_NUMEL)


def relation_key(relation: Relation) -> tuple[object, ...]:
    """Key that relations which say the same have in common."""
    if relation.kind in _SYMMETRIC:
        if relation.lhs_shape is not None:
            return relation.kind, frozenset((relation.lhs_shape, relation.rhs_shape))
        return relation.kind, frozenset((relation.lhs, relation.rhs))
    return relation.kind, relation.lhs, relation.rhs


def facts_of(relation: Relation, known: DimQuestions) -> list[Fact]:
    """A relation as facts, under what is known."""
    why = (relation.reason,)
    match relation.kind:
        case RelKind.EQ:
            return [Fact(RelKind.EQ, relation.lhs - relation.rhs, why)]
        case RelKind.SAME_NUMEL:
            return [Fact(RelKind.EQ, _numel_difference(relation, known), why)]
        case RelKind.GE:
            return [Fact(RelKind.GE, relation.lhs - relation.rhs, why)]
        case RelKind.NONZERO:
            return [Fact(RelKind.NONZERO, relation.lhs, why)]
        case RelKind.DIVIDES:
            return [Fact(RelKind.DIVIDES, relation.rhs, why, relation.lhs)]
        case RelKind.BROADCASTS:
            return [Fact(RelKind.BROADCASTS, relation.lhs, why, relation.rhs)]


def _numel_difference(relation: Relation, known: DimQuestions) -> Dim:
    """Difference of the element counts, without common factors that are not 0."""
    if relation.lhs_shape is None or relation.rhs_shape is None:
        return relation.lhs - relation.rhs
    left, right = list(known.simplify_shape(relation.lhs_shape)), list(known.simplify_shape(relation.rhs_shape))
    for dim in tuple(left):
        if dim in right and known.nonzero(dim).proved:
            left.remove(dim)
            right.remove(dim)
    return product(left) - product(right)


def impossible(
    text: str, relation: Relation | None, reason: Reason, why: Why, known: DimQuestions
) -> ShapeError | DomainError:
    """The error for what cannot hold, by the reasons ``why``, under what is known."""
    where = ""
    if relation is not None:
        sides = [side for side in (relation.lhs, relation.rhs) if isinstance(side, SymExpr)]
        solved = [(side, known.simplify(side)) for side in dict.fromkeys(sides)]
        values = [f"{side} is {value}" for side, value in solved if side is not value]
        where = f", where {' and '.join(values)}" if values else ""
    notes = [f"needed: {reason.text}", *[f"known: {other}" for other in why if other != reason]]
    raises = reason.error or ShapeError
    return raises(f"{text} cannot hold{where}.", loc=reason.loc, remedy=reason.remedy or _REMEDY, notes=tuple(notes))
