"""The variants that a host program would choose, for people and for what is compiled before a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dyn.errors import DynError
from dyn.ir.binding import bind_function
from dyn.lower.host import HostProgram
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.shapes import Symbol, evaluate


def chosen_variants(host: HostProgram, shapes: Sequence[Sequence[int]]) -> Iterator[Variant]:
    """The variant of each launch whose condition holds first where the parameters have these shapes.

    Where a result may take an argument's memory, that for either case. Nothing is said of launches whose conditions are
    about sizes that are found out in the call, nor of those in loops and choices that are not reached: they count as
    reached.
    """
    yield from _chosen(host.launches, bind_function(host.function).sizes(shapes))


def _chosen(launches: Sequence[Launch], sizes: Mapping[Symbol, int]) -> Iterator[Variant]:
    for launch in launches:
        if launch.when is not None and not _holds(launch.when, sizes):
            continue
        for body in launch.bodies:
            holds = not launch.is_choice or body.when is None or _holds(body.when, sizes)
            if holds:
                yield from _chosen(body.launches, sizes)
                if launch.is_choice:
                    break
        for variant in launch.variants:
            holds = variant.condition is None or _holds(variant.condition, sizes)
            if holds is None:
                break
            if holds:
                yield variant
                if variant.in_place is None:
                    break
        if launch.when is not None:
            yield launch.variants[-1]  # without which none of the launch runs


def _holds(condition: Condition, sizes: Mapping[Symbol, int]) -> bool | None:
    """Whether a condition holds; None where it is about a size that is not known, or has no value."""
    try:
        size = evaluate(condition.dim, sizes)
    except (DynError, KeyError):
        return None
    return condition.low <= size and (condition.high is None or size <= condition.high)
