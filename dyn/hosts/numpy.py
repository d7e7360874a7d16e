"""NumPy: arrays and scalars as they are. Results are arrays, those of rank 0 too."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dyn.hosts.base import NumpyArray
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import Context


class NumpyHost:
    """``np.ndarray`` and ``np.generic``."""

    name = "numpy"

    def view(self, value: Any) -> NumpyArray:
        """The array itself, or a copy of one that compiled code cannot read.

        It wants rows that lie one after the other, aligned, in this machine's byte order. Masked arrays stay what they
        are, for others to refuse.
        """
        if is_plain(value):
            return value
        masked = sys.modules.get("numpy.ma")  # it takes 10 ms to import
        if masked is not None and isinstance(value, masked.MaskedArray):
            return value
        return np.array(value, value.dtype.newbyteorder("="), order="C", subok=False)

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        """:meth:`view`, but for an array with other strides, which is given as it lies."""
        strided = type(value) is np.ndarray and value.flags.aligned and value.dtype.isnative
        return value if strided else self.view(value)

    def has_device(self, context: Context) -> bool:
        return False

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        return array


def is_plain(value: object) -> bool:
    """Tell whether a value is a NumPy array that compiled code reads as it is.

    Args:
        value: any object.

    Returns:
        True for an aligned, row-major array in the machine's byte order, of no subclass.
    """
    return type(value) is np.ndarray and value.flags.c_contiguous and value.flags.aligned and value.dtype.isnative
