"""Programs that serve calls whose branches on sizes went another way than those of the call they were traced for.

A branch such as ``if n > 1`` makes a guard, and a call that goes the other way is traced again. Often the second
program does nothing that the first would not do at these sizes: both ways compute the same, or what differs is of no
effect where a size is 0 or 1. Then the first program's code makes those calls, too, and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from dyn.errors import DynError
from dyn.ir.calls import inline_calls
from dyn.ir.core import Function
from dyn.ir.external import Callee, callees
from dyn.ir.identity import function_identity
from dyn.ir.nested import in_regions
from dyn.ir.passes import (
    eliminate_dead_code,
    order_by_use,
    restate_demands,
    state_values,
)
from dyn.ir.redim import Redimension, Substitution
from dyn.ir.verifier import verify
from dyn.ops import OWN_OPS
from dyn.ops.normal_form import NORMAL_FORM
from dyn.shapes import Dim, Facts, Relation, RelKind, Symbol, SymExpr, as_dim, substitute, value_conditions
from dyn.trace.function import TracedFunction

#: What brings two functions that compute the same by the same ops to the same form.
_CANONICAL: tuple[Callable[[Function], Function], ...] = (
    inline_calls,
    *NORMAL_FORM,
    in_regions(eliminate_dead_code),
    in_regions(order_by_use),
)
#: The constants of questions that tell a size of 0 or 1 from others, such as ``n > 1`` and ``n >= 2``.
_SMALL = (0, 1, 2)


def loosened(traced: TracedFunction) -> TracedFunction:
    """A traced function whose program rests on as few of the guards that tell sizes 0 and 1 from others as may be.

    The guards stay: they choose the program. But it may serve other calls too, since nothing is compiled by them. What
    an op demands that followed from them is demanded of each call instead.
    """
    function, guards = traced.function, set(traced.guards)
    needless = [one for one in function.facts.relations if one in guards and _is_about_small_sizes(one)]
    loose = _without(function, needless) if needless else None
    if loose is None and len(needless) > 1:  # an op of the program is there because of one of them
        for one in needless:
            loose = _without(loose or function, [one]) or loose
    return traced if loose is None else replace(traced, function=loose)


def _without(function: Function, needless: Collection[Relation]) -> Function | None:
    """The function under facts without some; None where it is not well formed under them, or demands more.

    Its values stay, and each op is inferred again: what it demands then, and that its results have the types that they
    had, is demanded.
    """
    facts = function.facts
    kept = [one for one in facts.relations if one not in needless]
    try:
        loose = restate_demands(replace(function, facts=_facts(facts, kept)))
    except DynError:  # the solver may find no proof, too
        return None
    known = set(kept)
    demanded = [one for one in loose.facts.relations if one not in known]
    return loose if all(facts.ask(one).proved for one in demanded) else None


def _is_about_small_sizes(relation: Relation) -> bool:
    if relation.kind is RelKind.NONZERO:
        return True
    return relation.kind is RelKind.GE and (relation.lhs in _SMALL or relation.rhs in _SMALL)


def _facts(declared: Facts, relations: Iterable[Relation]) -> Facts:
    """The declarations of some facts, and relations."""
    facts = Facts.none()
    for one in declared.declarations:
        facts = facts.declare(
            one.symbol, min=one.min, max=one.max, multiple_of=one.multiple_of, likely=one.likely, reason=one.reason
        )
    for relation in relations:
        facts = facts.assume(relation)
    return facts


def serving(general: TracedFunction, special: TracedFunction) -> TracedFunction | None:
    """The function of ``general`` for calls of ``special``; None unless it gives what that gives in each of them.

    Both are traces of one Python function for one kind of arguments. That they agree is proved, for sizes that satisfy
    the guards of ``special``: what the code of ``general`` rests on follows from these and from what ``special``
    demands, each demand of one program follows from those of the other, where the sizes in ``special`` have values
    those in ``general`` have, that is well formed, and the same passes bring both to the same form.

    The guards that the code rests on, and does not check, are guards of the result, too. A call that satisfies those of
    ``special`` and not these is refused by a demand of ``special``, which is its program.
    """
    there = _dims(general, special)
    back = None if there is None else _dims(special, general)
    if there is None or back is None:
        return None
    own = [relation.substituted(there) for relation in general.function.facts.relations]
    facts = special.function.facts
    if not all(facts.ask(relation).proved for relation in own):
        return None
    try:
        checked = _facts(facts, [*special.guards, *own])
        if not all(checked.ask(relation).proved for relation in facts.relations):
            return None
        valued = state_values(special.function)
        body = state_values(Substitution(there).function(general.function, valued.facts))
        if body.facts is not valued.facts or not all(_has_value(relation, valued.facts) for relation in own):
            return None
        if _form(verify(replace(body, facts=facts))) != _form(replace(valued, facts=facts)):
            return None
    except DynError:
        return None
    guards = [guard.substituted(back) for guard in special.guards]
    return replace(special, function=general.function, guards=(*guards, *_unchecked(general)))


def _unchecked(traced: TracedFunction) -> list[Relation]:
    """The guards that a function's code rests on. It checks what its ops demand, and not those."""
    relied_on = set(traced.function.facts.relations)
    return [guard for guard in traced.guards if guard in relied_on]


def _has_value(relation: Relation, facts: Facts) -> bool:
    """Whether both sides of a relation are proved to have values."""
    needs = [need for side in (relation.lhs, relation.rhs) for need in value_conditions(side)]
    return all(facts.ask(Relation(kind, lhs, rhs, relation.reason)).proved for kind, lhs, rhs in needs)


def _dims(one: TracedFunction, other: TracedFunction) -> dict[Symbol, Dim] | None:
    """What the symbols of one function are in the other: of the parameters' axes, and those that are measured, by age.

    None where the functions differ in more than what they compute.
    """
    dims: dict[Symbol, Dim] = {}
    pairs = list(zip(one.function.params, other.function.params, strict=False))
    if len(one.function.params) != len(other.function.params) or one.donated != other.donated:
        return None
    for own, its in pairs:
        if own.type.with_shape(its.shape) != its.type:
            return None
        for dim, found in zip(own.shape, its.shape, strict=True):
            if isinstance(dim, SymExpr) and dim.is_symbol is not None:
                dims[dim.is_symbol] = found
    own, its = _measured(one.function), _measured(other.function)
    if len(own) != len(its):
        return None
    dims |= {symbol: as_dim(found) for symbol, found in zip(own, its, strict=True)}
    same = all(
        substitute(dim, dims) == found for own, its in pairs for dim, found in zip(own.shape, its.shape, strict=True)
    )
    return dims if same and all(s in dims for guard in one.guards for s in guard.symbols()) else None


def _measured(function: Function) -> list[Symbol]:
    return sorted([symbol for symbol in function.symbols() if symbol.measured], key=lambda s: s.uid)


def _form(function: Function) -> tuple[str, tuple[Callee, ...]]:
    """The digest of what the ops of a function compute, where its facts hold, and the functions outside that it calls.

    A digest knows those by their numbers alone: of equal code each program calls its own.
    """
    for step in _CANONICAL:
        function = step(function)
    refined = _Refined(function.facts).function(function, Facts.EMPTY)
    return function_identity(refined, OWN_OPS).structure, callees(refined.ops)


class _Refined(Redimension):
    """A function in whose regions, too, dims are what facts simplify them to."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts

    def replacement(self, dim: SymExpr) -> Dim:
        return self.facts.simplify(dim)

    def demands(self, demands: tuple[Relation, ...]) -> tuple[Relation, ...]:
        return tuple(
            [
                replace(
                    relation, lhs=self.dim(relation.lhs), rhs=self.dim(relation.rhs), lhs_shape=None, rhs_shape=None
                )
                for relation in demands
            ]
        )
