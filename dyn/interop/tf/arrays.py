"""Tensors of TensorFlow's as NumPy arrays and back: the same memory both ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.hosts.dlpack import export_dlpack
from dyn.interop.tf.internals import tf

Array = np.ndarray[Any, Any]
_from_dlpack = tf.experimental.dlpack.from_dlpack
#: What TensorFlow reads of DLPack's capsules.
_BY_DLPACK = frozenset(
    map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"))
)  # fmt: skip
#: TensorFlow ends the process where the memory of a tensor that it computes with starts elsewhere than at a multiple of
#: so many bytes (``EIGEN_MAX_ALIGN_BYTES``).
_ALIGNED = 64


def to_array(tensor: Any) -> Array:
    """The elements of a tensor on the CPU: TensorFlow's own memory, which is not to be written to."""
    return tensor._numpy()


def from_array(array: Array) -> Any:
    """A tensor in the memory of an array that nobody else has; a copy where that does not start where TensorFlow needs
    it to, as that of small arrays."""
    if array.dtype not in _BY_DLPACK:
        return tf.constant(array)
    return _from_dlpack(export_dlpack(_aligned(array) if array.__array_interface__["data"][0] % _ALIGNED else array))


def _aligned(array: Array) -> Array:
    """A copy whose memory starts at a multiple of 64 bytes."""
    count = array.nbytes
    memory = np.empty(count + _ALIGNED, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNED
    made = memory[start : start + count].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
