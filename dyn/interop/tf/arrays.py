"""Tensors of TensorFlow's as NumPy arrays and back: the same memory both ways."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.interop.tf.internals import context, pywrap_tfe, tf

Array = np.ndarray[Any, Any]
_from_capsule = pywrap_tfe.TFE_FromDlpackCapsule
#: What TensorFlow reads of DLPack's capsules.
_BY_DLPACK = frozenset(
    map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"))
)  # fmt: skip
#: TensorFlow ends the process where the memory of a tensor that it computes with starts elsewhere than at a multiple of
#: so many bytes (``EIGEN_MAX_ALIGN_BYTES``).
_ALIGNED = 64


def to_array(tensor: Any) -> Array:
    """The elements of a tensor on the CPU: TensorFlow's own memory, which is not to be written to.

    Of a tensor without axes TensorFlow makes a NumPy scalar, which the native entry does not read: it becomes an array.
    """
    elements = tensor._numpy()
    return elements if type(elements) is np.ndarray else np.asarray(elements)


def from_array(array: Array) -> Any:
    """A tensor in the memory of an array that nobody else has; a copy where that does not start where TensorFlow needs
    it to, as that of small arrays."""
    return from_arrays((array,))[0]


def from_arrays(arrays: Sequence[Array]) -> list[Any]:
    """Tensors in the memory of arrays that nobody else has, as by :func:`from_array`. Copies share one block."""
    eager = context.context()
    eager.ensure_initialized()
    handle, tensors, odd = eager._handle, [], []
    for number, array in enumerate(arrays):
        if array.dtype not in _BY_DLPACK:
            tensors.append(tf.constant(array))
        elif address_of(array) % _ALIGNED:
            odd.append(number)
            tensors.append(None)
        else:
            tensors.append(_from_capsule(array.__dlpack__(), handle))
    if odd:
        for number, copy in zip(odd, _aligned([arrays[number] for number in odd]), strict=True):
            tensors[number] = _from_capsule(copy.__dlpack__(), handle)
    return tensors


def address_of(array: Array) -> int:
    """Where the elements of an array start."""
    memory: Any = array
    try:  # in a third of the time
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))
    except (BufferError, TypeError, ValueError):  # it has none, or they lie apart
        return array.__array_interface__["data"][0]


def lie_at(tensors: Sequence[Any], addresses: Sequence[int]) -> bool:
    """Return True if the elements of tensors on the CPU, which have axes, start at these addresses."""
    byte, place = ctypes.c_char.from_buffer, ctypes.addressof
    try:
        found = [place(byte(tensor._numpy())) for tensor in tensors]
    except (BufferError, TypeError, ValueError):  # of dtypes that Python has no name for
        found = [address_of(tensor._numpy()) for tensor in tensors]
    return found == list(addresses)


def _aligned(arrays: Sequence[Array]) -> list[Array]:
    """Copies whose memory starts at multiples of 64 bytes, in one block."""
    ends = list(itertools.accumulate([-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays]))
    block = np.empty(ends[-1] + _ALIGNED, np.uint8)
    first = -address_of(block) % _ALIGNED
    copies: list[Array] = []
    start = first
    for array, end in zip(arrays, ends, strict=True):
        copy = np.ndarray(array.shape, array.dtype, block, start)
        copy[...] = array
        copies.append(copy)
        start = first + end
    return copies
