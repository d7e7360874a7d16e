"""Devices of JAX functions that dyn compiles: where a call runs, how arrays there are read, and what results become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn.array import OWN, Array, adapter_of, is_own
from dyn.hosts import JAX
from dyn.interop.jax.internals import Internals, found
from dyn.runtime.device_memory import DeviceArray, is_on_device, parse_device
from dyn.specialize.placement import placement_for


def device_name(device: str | None) -> str | None:
    """The name of a device as programs know it, ``cuda`` for ``cuda:0``; ArgumentError for the name of none."""
    parsed = None if device is None else parse_device(device)
    if parsed is None:
        return None if device is None else "cpu"
    family, ordinal = parsed
    return f"{family}:{ordinal}" if ordinal else family


def own_array(value: Any) -> Array | None:
    """A ``dyn.Array``, or any library's array on a GPU as one, where it lies; None for anything else."""
    if is_own(value):
        return value
    host = adapter_of(value)
    if host is None or not hasattr(value, "__dlpack_device__") or isinstance(value, np.ndarray):
        return None
    if host is not JAX and not is_on_device(value):
        return None
    data = host.borrow(value)
    return OWN.wrap(data) if isinstance(data, DeviceArray) else None


def device_of(
    device: str | None, leaves: Sequence[Any], arrays: Sequence[Any], function: str, names: Sequence[str]
) -> str | None:
    """The device that a call runs on: ``device``, if given, or where its arrays are; None for the processor.

    ``arrays`` are the ``leaves`` as they are computed with. Numbers go where the others are. ArgumentError for arrays
    in two places.
    """
    there = [array.device for array in arrays if is_own(array) and array.device != "cpu"]
    if there:
        values: list[Any] = []
        for leaf, array in zip(leaves, arrays, strict=True):
            is_number = array is None or isinstance(leaf, bool | int | float | complex)
            values.append(None if is_number else OWN.borrow(array) if is_own(array) else np.asarray(array))
        placement_for(values, device, function, lambda: names)
    wanted = there[0] if there and device is None else device
    return None if wanted == "cpu" else wanted


def memory(array: Any) -> np.ndarray[Any, Any] | DeviceArray:
    """The memory of an array of a call."""
    return OWN.borrow(array) if is_own(array) else np.asarray(array)


@dataclass(frozen=True, slots=True)
class DeviceMaker:
    """``make(array)``: a result on a device, as JAX's array there; where this JAX has no such device as ``dyn.Array``.

    With ``is_key`` it is the words of typed keys, which are JAX's alone: on the processor where they cannot be there.
    """

    parts: Internals
    weak: bool
    is_key: bool

    def __call__(self, array: Array) -> Any:
        data = OWN.borrow(array)
        assert isinstance(data, DeviceArray), "results of a program for a device are there"
        if not JAX.has_device(data.context):
            return self.parts.jax.numpy.asarray(array.to_numpy()) if self.is_key else array
        made = JAX.wrap(data)
        convert = found("jax._src.lax.lax", "_convert_element_type")
        return convert(made, made.dtype, weak_type=True) if self.weak and convert is not None else made
