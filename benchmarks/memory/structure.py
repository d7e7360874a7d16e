"""What dyn makes of a program: how many groups, what a call launches, and how many bytes its kernels move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Structure:
    """Groups of the program that a function has for some arguments; launches of a call, and the bytes that these read
    and write: ``unknown`` of them have no formula, and count for none."""

    groups: int
    launches: int
    moved: int
    unknown: int


def structure(function: Any, arguments: Sequence[Any]) -> Structure:
    """The structure of the program of a jitted function that has been called with such arguments.

    Bytes are those of ``dyn/schedule/launch_cost.py`` at the sizes of the call, for the variants that it takes: each
    buffer once a launch, however often the kernel comes back to it.
    """
    import dyn

    function(*arguments)
    groups = max(sum(group.count for group in report.groups) for report in function.explain().versions)
    with dyn.profile() as profile:
        function(*arguments)
    launches = profile.events().launches
    known = [launch.nbytes for launch in launches if launch.nbytes is not None]
    return Structure(groups, len(launches), sum(known), len(launches) - len(known))
