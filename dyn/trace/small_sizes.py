"""Guards that tell sizes of 0 and 1 from others, and programs that do without them.

A branch such as ``if n > 1`` leaves one. A program and the second half of its derivative rest on as few of them as may
be: then they serve calls that went the other way, too (:mod:`dyn.specialize.widening`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dyn.errors import DynError
from dyn.ir.core import Function
from dyn.passes.refine_shapes import restate_demands
from dyn.shapes import Facts, Relation, RelKind, Symbol

#: The constants of questions that tell a size of 0 or 1 from others, such as ``n > 1`` and ``n >= 2``.
_SMALL = (0, 1, 2)


def without_small_size_guards(function: Function, guards: Collection[Relation]) -> Function | None:
    """The function under facts without as many of those ``guards`` that tell sizes 0 and 1 from others as may be.

    What an op demands that followed from them is demanded of each call instead, if it follows from them. None where no
    guard can be left out.
    """
    needless = [one for one in function.facts.relations if one in guards and _is_about_small_sizes(one)]
    loose = _without(function, needless) if needless else None
    if loose is None and len(needless) > 1:  # an op of the program is there because of one of them
        for one in needless:
            loose = _without(loose or function, [one]) or loose
    return loose


def _without(function: Function, needless: Collection[Relation]) -> Function | None:
    """The function under facts without some; None where it is not well formed under them, or demands more.

    Its values stay, and each op is inferred again: what it demands then, and that its results have the types that they
    had, is demanded.
    """
    facts = function.facts
    kept = [one for one in facts.relations if one not in needless]
    try:
        loose = restate_demands(replace(function, facts=restated(facts, kept)))
    except DynError:  # the solver may find no proof, too
        return None
    known = set(kept)
    demanded = [one for one in loose.facts.relations if one not in known]
    return loose if all(facts.ask(one).proved for one in demanded) else None


def _is_about_small_sizes(relation: Relation) -> bool:
    if relation.kind is RelKind.NONZERO:
        return True
    return relation.kind is RelKind.GE and (relation.lhs in _SMALL or relation.rhs in _SMALL)


def restated(declared: Facts, relations: Iterable[Relation], symbols: Collection[Symbol] | None = None) -> Facts:
    """Facts with the declarations of some others, of some ``symbols`` or of all, and relations."""
    facts = Facts.none()
    for one in declared.declarations:
        if symbols is not None and one.symbol not in symbols:
            continue
        facts = facts.declare(
            one.symbol, min=one.min, max=one.max, multiple_of=one.multiple_of, likely=one.likely, reason=one.reason
        )
    for relation in relations:
        facts = facts.assume(relation)
    return facts
