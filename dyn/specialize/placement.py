"""Placements of calls: the device that a program runs on, by what its function says and where its arguments are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.errors import ArgumentError
from dyn.late_imports import import_whole
from dyn.runtime.device_memory import DeviceArray, parse_device
from dyn.runtime.driver import Context

if TYPE_CHECKING:
    from dyn.backends.families import Placement


def declared_placement(device: str | None) -> Placement | None:
    """The placement of ``jit(device=…)``; None for this machine's processor.

    BackendUnavailableError where there is no such device.
    """
    parsed = None if device is None else parse_device(device)
    if parsed is None:
        return None
    import_whole("dyn.backends.families")
    from dyn.backends.families import placement_of

    return placement_of(_name(parsed))


def placement_for(
    leaves: Sequence[Any], device: str | None, function: str, names: Callable[[], Sequence[str]]
) -> Placement | None:
    """The placement of a call with these leaves: ``device``, if given, or where they are; None for the processor.

    ``names`` gives what the user calls them. ArgumentError where arrays lie on another, or, of a function that has no
    device, on several.
    """
    arrays = [leaf for leaf in leaves if isinstance(leaf, DeviceArray)]
    if device is None and not arrays:
        return None
    context = arrays[0].context if arrays else None
    wanted = arrays[0].device if device is None else _name(parse_device(device))
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, DeviceArray):
            if leaf.context is not context or leaf.device != wanted:
                raise _elsewhere(leaves, number, leaf.device, wanted, device, function, names())
        elif device is None and isinstance(leaf, np.ndarray) and leaf.size:
            raise _elsewhere(leaves, number, "in this machine's memory", wanted, device, function, names())
    return declared_placement(wanted) if context is None else _placement_at(context)


def _elsewhere(
    leaves: Sequence[Any], number: int, place: str, wanted: str, device: str | None, function: str, names: Sequence[str]
) -> ArgumentError:
    """The error for leaf ``number`` of a call that runs on ``wanted``: that it is at another ``place``."""
    where = place if place.startswith("in ") else f"on {place}"
    if device is not None:
        return ArgumentError(
            f"{function}() runs on {wanted}, and {names[number]} is {where}.",
            remedy=f'put it there with dyn.device_put({names[number]}, "{wanted}"), or use jit(device="{place}").',
        )
    first = next(n for n, leaf in enumerate(leaves) if isinstance(leaf, DeviceArray))
    copies = f', or use jit(device="{wanted}"), which does' if where is place else ""
    return ArgumentError(
        f"{function}(): {names[first]} is on {wanted}, and {names[number]} is {where}.",
        remedy=f'put it there with dyn.device_put({names[number]}, "{wanted}"){copies}.',
    )


@lru_cache(maxsize=64)
def _placement_at(context: Context) -> Placement:
    """The placement of a device that is ready."""
    import_whole("dyn.backends.families")
    from dyn.backends.families import Placement, gpu_target

    return Placement(gpu_target(context.driver.vendor.family, context.device.arch), context.ordinal)


def _name(parsed: tuple[str, int] | None) -> str:
    """``cuda``, ``cuda:1``"""
    if parsed is None:
        return "cpu"
    family, ordinal = parsed
    return f"{family}:{ordinal}" if ordinal else family
