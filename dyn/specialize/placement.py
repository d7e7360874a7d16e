"""Placements of calls: the device that a program runs on, by what its function says and where its arguments are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.array import mixed
from dyn.errors import ArgumentError
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
    from dyn.backends.families import placement_of

    return placement_of(_name(parsed))


def placement_for(leaves: Sequence[Any], device: str | None, function: str) -> Placement | None:
    """The placement of a call with these leaves: ``device``, if given, or where they are; None for the processor.

    ArgumentError where arrays lie on another, or, of a function that has no device, on several.
    """
    arrays = [leaf for leaf in leaves if isinstance(leaf, DeviceArray)]
    if device is None and not arrays:
        return None
    context = arrays[0].context if arrays else None
    wanted = arrays[0].device if device is None else _name(parse_device(device))
    other = next((array.device for array in arrays if array.context is not context or array.device != wanted), None)
    if other is not None:
        raise mixed(function, other, wanted, "an argument is")
    if device is None and any(isinstance(leaf, np.ndarray) and leaf.size for leaf in leaves):
        raise ArgumentError(
            f"{function}(): some arguments are on {wanted}, and others in this machine's memory.",
            remedy=f'put them there with dyn.device_put(x, "{wanted}"), or use jit(device="{wanted}"), which does.',
        )
    return declared_placement(wanted) if context is None else _placement_at(context)


@lru_cache(maxsize=64)
def _placement_at(context: Context) -> Placement:
    """The placement of a device that is ready."""
    from dyn.backends.families import Placement, gpu_target

    return Placement(gpu_target(context.driver.vendor.family, context.device.arch), context.ordinal)


def _name(parsed: tuple[str, int] | None) -> str:
    """``cuda``, ``cuda:1``"""
    if parsed is None:
        return "cpu"
    family, ordinal = parsed
    return f"{family}:{ordinal}" if ordinal else family
