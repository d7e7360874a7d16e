"""Interface of a host: a library whose arrays users pass in, and want back."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import Context

NumpyArray = np.ndarray[Any, Any]


class Host(Protocol):
    """Adapter for one library's arrays: they are converted to NumPy's arrays, and results to them.

    Attributes:
        name: name of the library in messages.
    """

    @property
    def name(self) -> str:
        """Name of the library in messages."""
        ...

    def view(self, value: Any) -> NumpyArray:
        """Elements as a NumPy array, without a copy where that is possible.

        Args:
            value: array of this library.

        Returns:
            A view that keeps ``value`` alive, or a copy.

        Raises:
            UnsupportedOpError: for what has no place in a compiled program: another device, a gradient, a trace.
        """
        ...

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        """Elements for no longer than a call lasts: the library may free or move the memory afterwards.

        Args:
            value: array of this library.

        Returns:
            As :meth:`view`; an array on a GPU is taken where it lies, on the library's current stream.

        Raises:
            UnsupportedOpError: as :meth:`view`.
        """
        ...

    def has_device(self, context: Context) -> bool:
        """Tell whether the library, as it is built and loaded in this process, has arrays on a device.

        Args:
            context: the device.

        Returns:
            A Python bool.
        """
        ...

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        """Result of a call as an array of this kind, without a copy where that is possible.

        Args:
            array: a fresh result, which nobody else holds.

        Returns:
            An array of this library.
        """
        ...
