"""Programs that serve calls whose branches on sizes went another way than those of the call they were traced for.

A branch such as ``if n > 1`` makes a guard, and a call that goes the other way is traced again. Often the second
program does nothing that the first would not do at these sizes: both ways compute the same, or what differs is of no
effect where a size is 0 or 1. Then the first program's code makes those calls, too, and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dyn.errors import DynError
from dyn.frozen import record
from dyn.ir.core import Function
from dyn.ir.external import ExternalTarget, callees
from dyn.ir.identity import function_identity
from dyn.ir.region_passes import in_regions
from dyn.ir.substitute_dims import Redimension, Substitution
from dyn.ir.verifier import verify
from dyn.ops import OWN_OPS
from dyn.passes.inline_calls import inline_calls
from dyn.passes.normal_form import NORMAL_FORM
from dyn.passes.redundancy import eliminate_dead_code, order_by_use
from dyn.passes.refine_shapes import restate_demands, state_values
from dyn.shapes import Dim, Facts, Relation, Symbol, SymExpr, as_dim, substitute, value_conditions
from dyn.trace import small_sizes
from dyn.trace.function import TracedFunction
from dyn.trace.joint_function import first_half, joint_function, with_half_of
from dyn.trace.small_sizes import restated

#: What brings two functions that compute the same by the same ops to the same form.
_CANONICAL: tuple[Callable[[Function], Function], ...] = (
    inline_calls,
    *NORMAL_FORM,
    in_regions(eliminate_dead_code),
    in_regions(order_by_use),
)


def without_small_size_guards(traced: TracedFunction) -> TracedFunction:
    """A traced function whose program rests on as few of the guards that tell sizes 0 and 1 from others as may be.

    The guards stay: they choose the program. But it may serve other calls too, since nothing is compiled by them.
    """
    loose = small_sizes.without_small_size_guards(traced.function, set(traced.guards))
    return traced if loose is None else replace(traced, function=loose)


def generalized(general: TracedFunction, special: TracedFunction) -> TracedFunction | None:
    """The function of ``general`` for calls of ``special``; None unless it gives what that gives in each of them.

    Both are traces of one Python function for one kind of arguments. That they agree is proved, for sizes that satisfy
    the guards of ``special``: what the code of ``general`` rests on follows from these and from what ``special``
    demands, each demand of one program follows from those of the other, where the sizes in ``special`` have values
    those in ``general`` have, that is well formed, and the same passes bring both to the same form.

    The guards that the code rests on, and does not check, are guards of the result, too. A call that satisfies those of
    ``special`` and not these is refused by a demand of ``special``, which is its program.
    """
    return _serving_both_halves(general, special) or _serving_alone(general, special)


def narrowed(general: TracedFunction, special: TracedFunction) -> TracedFunction | None:
    """The function of ``special`` for those of its calls that satisfy the guards that the code of ``general`` rests on,
    too; None where these follow from its own, or nothing satisfies both.

    A call of ``special`` that breaks them is traced again, and has the program that ``special`` would have.
    """
    dims, facts = _dims(general.function, special.function), special.function.facts
    if dims is None or not all(symbol in dims for one in _unchecked(general) for symbol in one.symbols()):
        return None
    guards = [one.substituted(dims) for one in _unchecked(general)]
    unknown = tuple([one for one in guards if not facts.ask(one).proved])
    if not unknown or any(facts.ask(one).refuted for one in unknown):
        return None
    try:
        function = replace(special.function, facts=restated(facts, [*facts.relations, *unknown]))
    except DynError:  # they contradict each other
        return None
    return replace(special, function=function, guards=(*special.guards, *unknown))


def _serving_alone(general: TracedFunction, special: TracedFunction) -> TracedFunction | None:
    """:func:`generalized`, with what ``special`` has for a second half of its derivative, if it has one."""
    env = _env(general, special, general.function, special.function)
    if env is None or not _agree(general.function, special.function, special.guards, env.there):
        return None
    return _served(general, special, env)


def _serving_both_halves(general: TracedFunction, special: TracedFunction) -> TracedFunction | None:
    """:func:`generalized`, of functions whose derivatives are programs of their own: both programs serve.

    The joint functions agree. What the first program keeps for the second one may differ.
    """
    if general.joint is None or special.joint is None:
        return None
    tree = with_half_of(special.out_tree, general.out_tree)
    first, second = first_half(general.out_tree), first_half(special.out_tree)
    if tree is None or first is None or second is None:
        return None
    (node, numbers), (_, others) = first, second
    try:
        # Its function may rest on fewer guards than when it was traced.
        one = restate_demands(joint_function(general.function, general.joint, numbers))
        other = joint_function(special.function, special.joint, others)
    except DynError:
        return None
    env = _env(general, special, one, other)
    if env is None or node.half is None or not _agree(one, other, special.guards, env.there):
        return None
    known = restated(other.facts, [*other.facts.relations, *special.guards])
    if not all(known.ask(demand.substituted(env.there)).proved for demand in node.half.region.demands):
        return None
    dims = list(general.result_dims)
    for number, other_number in zip(numbers, others, strict=True):
        dims[number] = special.result_dims[other_number]
    return replace(_served(general, special, env), out_tree=tree, result_dims=tuple(dims))


def _served(general: TracedFunction, special: TracedFunction, env: _Env) -> TracedFunction:
    guards = [guard.substituted(env.back) for guard in special.guards]
    each_once = tuple(dict.fromkeys([*guards, *_unchecked(general)]))
    return replace(special, function=general.function, guards=each_once, joint=None)


def _agree(general: Function, special: Function, guards: Sequence[Relation], there: Mapping[Symbol, Dim]) -> bool:
    """Whether a function, whose symbols are the dims ``there``, computes what another one does wherever that has no
    error, and has an error wherever that has one, in calls that satisfy ``guards``."""
    own = [relation.substituted(there) for relation in general.facts.relations]
    facts = special.facts
    if not all(facts.ask(relation).proved for relation in own):
        return False
    try:
        checked = restated(facts, [*guards, *own])
        if not all(checked.ask(relation).proved for relation in facts.relations):
            return False
        valued = state_values(special)
        body = state_values(Substitution(there).function(general, valued.facts))
        if body.facts is not valued.facts or not all(_has_value(relation, valued.facts) for relation in own):
            return False
        return _form(verify(replace(body, facts=facts))) == _form(replace(valued, facts=facts))
    except DynError:
        return False


def _unchecked(traced: TracedFunction) -> list[Relation]:
    """The guards that a function's code rests on. It checks what its ops demand, and not those."""
    relied_on = set(traced.function.facts.relations)
    return [guard for guard in traced.guards if guard in relied_on]


def _has_value(relation: Relation, facts: Facts) -> bool:
    """Whether both sides of a relation are proved to have values."""
    needs = [need for side in (relation.lhs, relation.rhs) for need in value_conditions(side)]
    return all(facts.ask(Relation(kind, lhs, rhs, relation.reason)).proved for kind, lhs, rhs in needs)


@record()
class _Env:
    """The dims that the symbols of one function are in another, and the other way round."""

    there: Mapping[Symbol, Dim]
    back: Mapping[Symbol, Dim]


def _env(general: TracedFunction, special: TracedFunction, one: Function, other: Function) -> _Env | None:
    """The dims of two functions, or their joint functions, in each other; None where they differ in more than what they
    compute."""
    if general.donated != special.donated:
        return None
    there, back = _dims(one, other), _dims(special.function, general.function)
    if there is None or back is None:
        return None
    for traced, dims in ((general, there), (special, back)):
        if not all(symbol in dims for guard in traced.guards for symbol in guard.symbols()):
            return None
    return _Env(there, back)


def _dims(one: Function, other: Function) -> dict[Symbol, Dim] | None:
    """What the symbols of one function are in the other: of the parameters' axes, and those that are measured, by age.

    None where parameters are not proved to have the same types there.
    """
    dims: dict[Symbol, Dim] = {}
    pairs = list(zip(one.params, other.params, strict=False))
    if len(one.params) != len(other.params):
        return None
    for own, its in pairs:
        if len(own.shape) != len(its.shape) or own.type.with_shape(its.shape) != its.type:
            return None
        for dim, found in zip(own.shape, its.shape, strict=True):
            if isinstance(dim, SymExpr) and dim.is_symbol is not None:
                dims.setdefault(dim.is_symbol, found)
    own, its = _measured(one), _measured(other)
    if len(own) != len(its):
        return None
    dims |= {symbol: as_dim(found) for symbol, found in zip(own, its, strict=True)}
    same = all(
        other.facts.eq(substitute(dim, dims), found).proved
        for own, its in pairs
        for dim, found in zip(own.shape, its.shape, strict=True)
    )
    return dims if same else None


def _measured(function: Function) -> list[Symbol]:
    return sorted([symbol for symbol in function.symbols() if symbol.data_dependent], key=lambda s: s.uid)


def _form(function: Function) -> tuple[str, tuple[ExternalTarget, ...]]:
    """The digest of what the ops of a function compute, where its facts hold, and the functions outside that it calls.

    A digest knows those by their numbers alone: of equal code each program calls its own.
    """
    for step in _CANONICAL:
        function = step(function)
    # Facts hold of what parameters were declared as, too.
    function = replace(function, infos=tuple([replace(info, dims=None) for info in function.infos]))
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
