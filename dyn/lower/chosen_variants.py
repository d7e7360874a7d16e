"""The variants that a host program would choose, for people and for what is compiled before a call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from dyn.errors import DynError, ShapeError
from dyn.ir.binding import bind_function
from dyn.lower.host import HostProgram
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.shapes import Facts, Reason, Relation, RelKind, Symbol, as_dim, substitute

#: So many combinations of likely sizes are looked at.
MOST_COMBINATIONS = 32
_LIKELY = Reason("the size is likely")


def chosen_variants(host: HostProgram, shapes: Sequence[Sequence[int]]) -> Iterator[Variant]:
    """The variant of each launch whose condition holds first where the parameters have these shapes.

    Where a result may take an argument's memory, that for either case. Nothing is said of launches whose conditions are
    about sizes that are found out in the call, nor of those in loops and choices that are not reached: they count as
    reached.
    """
    yield from _chosen(host.launches, bind_function(host.function).sizes(shapes), None)


def likely_variants(host: HostProgram, shapes: Sequence[Sequence[int]] | None) -> Iterator[Variant]:
    """The variants of sizes that are declared as likely: of each combination of them, the first so many.

    Other sizes are what follows from these, or else those of a call with parameters of these ``shapes``. Without, a
    variant is one of them where the facts prove its condition whatever they are.
    """
    facts = host.function.facts
    hints = {symbol: likely for symbol in host.symbols if (likely := facts.likely(symbol))}
    if not hints:
        return
    call = {} if shapes is None else bind_function(host.function).sizes(shapes)
    for combination in _combinations(list(hints.values())):
        sizes = dict(zip(hints, combination, strict=True))
        try:
            told = facts
            for symbol, size in sizes.items():
                told = told.assume(Relation(RelKind.EQ, as_dim(symbol), size, _LIKELY))
        except ShapeError:
            continue  # such sizes never come together
        for symbol in host.symbols:
            known = told.simplify(as_dim(symbol))
            if isinstance(known, int):
                sizes[symbol] = known
            elif symbol in call:
                sizes[symbol] = call[symbol]
        yield from _chosen(host.launches, sizes, told)


def _combinations(likely: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Combinations of a size of each dim: first those in which every size occurs."""
    most = max(map(len, likely))
    in_turn = (tuple([sizes[n % len(sizes)] for sizes in likely]) for n in range(most))
    found: dict[tuple[int, ...], None] = {}
    for combination in itertools.chain(in_turn, itertools.product(*likely)):
        if len(found) == MOST_COMBINATIONS:
            break
        if combination not in found:
            found[combination] = None
            yield combination


def _chosen(launches: Sequence[Launch], sizes: Mapping[Symbol, int], facts: Facts | None) -> Iterator[Variant]:
    for launch in launches:
        if launch.when is not None and not _holds(launch.when, sizes, facts):
            continue
        for body in launch.bodies:
            holds = not launch.is_choice or body.when is None or _holds(body.when, sizes, facts)
            if holds:
                yield from _chosen(body.launches, sizes, facts)
                if launch.is_choice:
                    break
        for variant in launch.variants:
            holds = variant.condition is None or _holds(variant.condition, sizes, facts)
            if holds is None:
                break
            if holds:
                yield variant
                if variant.in_place is None:
                    break
        if launch.when is not None:
            yield launch.variants[-1]  # without which none of the launch runs


def _holds(condition: Condition, sizes: Mapping[Symbol, int], facts: Facts | None) -> bool | None:
    """Whether a condition holds; None where it is about a size that is not known, or has no value.

    With ``facts`` it may hold whatever the sizes are that are not known.
    """
    try:
        return condition.holds(sizes)
    except KeyError:
        if facts is None:
            return None
        dim = substitute(condition.dim, {symbol: as_dim(size) for symbol, size in sizes.items()})
        return Condition(dim, condition.low, condition.high).decided(facts)
    except DynError:
        return None
