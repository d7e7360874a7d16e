"""Interface of a host: a library whose arrays users pass in, and want back."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dyn.runtime.device_memory import DeviceArray

NumpyArray = np.ndarray[Any, Any]


class Host(Protocol):
    """A host: one kind of array, with conversions to NumPy's arrays, and of results to it."""

    @property
    def name(self) -> str: ...

    def view(self, value: Any) -> NumpyArray:
        """The elements as a NumPy array, without a copy where that is possible; the view keeps ``value`` alive.

        Raises UnsupportedOpError for what has no place in a compiled program: another device, a gradient, a trace.
        """
        ...

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        """:meth:`view` for no longer than a call lasts: the library may free or move the memory afterwards.

        An array on a GPU is taken where it lies, on the library's current stream.
        """
        ...

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        """A fresh result, which nobody else holds, as an array of this kind; without a copy where that is possible."""
        ...
