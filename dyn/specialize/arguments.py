"""Arguments of calls as what programs are found and traced by: dtypes, ranks and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dyn import dtypes
from dyn.array import adapter_of
from dyn.dtypes import DType
from dyn.errors import ArgumentError, TraceError
from dyn.runtime.device_memory import DeviceArray
from dyn.trace.lift import as_numpy, weak_dtype

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """Array argument without the array, for ``f.trace`` and ``f.lower``, and the type of a callback's result.

    Args:
        shape: sizes: ints, names of dims (strings), or None for an unnamed dim each.
        dtype: dtype in any spelling.
        weak: whether it stands for a Python number.

    Example:
        >>> f = dyn.jit(lambda x: x + 1).lower(dyn.ShapeDtypeStruct(("b", 768), "float32"))
    """

    shape: tuple[int | str | None, ...]
    dtype: Any
    weak: bool = False

    def __post_init__(self) -> None:
        dtypes.dtype(self.dtype)  # what is none is an error here, where it is written

    def sizes(self) -> tuple[int, ...]:
        """The shape, where each size is a number.

        Returns:
            A tuple of ints.

        Raises:
            ArgumentError: where one is not.
        """
        found = [size for size in self.shape if isinstance(size, int)]
        if len(found) != len(self.shape):
            raise ArgumentError(
                f"a call cannot be prepared for the shape {self.shape}.", remedy="give a number for each size."
            )
        return tuple(found)


class ArgumentLeaf(NamedTuple):
    """An argument leaf, ready to trace or to call with."""

    dtype: DType
    rank: int
    weak: bool
    array: Array | DeviceArray | None
    shape: tuple[int | str | None, ...]


def read_leaf(value: Any, name: str, function: str) -> ArgumentLeaf:
    """An argument leaf, read once; ArgumentError, about ``name`` of ``function``, where it is neither an array nor a
    number."""
    if isinstance(value, ShapeDtypeStruct):
        return ArgumentLeaf(dtypes.dtype(value.dtype), len(value.shape), value.weak, None, tuple(value.shape))
    if isinstance(value, DeviceArray):
        return ArgumentLeaf(dtypes.dtype(value.dtype), value.ndim, False, value, value.shape)
    weak = weak_dtype(value)
    if weak is not None:
        if weak is dtypes.int64 and not -(2**63) <= value < 2**63:
            raise ArgumentError(f"{function}(): {name} = {value} does not fit in int64.", remedy="pass a float.")
        return ArgumentLeaf(weak, 0, True, np.array(value, weak.np), ())
    if adapter_of(value) is None:
        raise ArgumentError(
            f"{function}(): {name} is a {type(value).__name__}, which is not an array.",
            remedy="pass an array or a number, or name the argument in static_argnames=.",
        )
    try:
        array = as_numpy(value)
    except TraceError as error:
        raise ArgumentError(f"{function}(): {name}: {error.problem}", remedy=error.remedy) from None
    array = array.view(np.ndarray)  # whose dtype and shape nobody else can change
    return ArgumentLeaf(dtypes.dtype(array.dtype), array.ndim, False, array, array.shape)
