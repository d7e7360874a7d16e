"""What TensorFlow is given of a ``dyn.Array`` by DLPack: a copy, as whoever calls ``__dlpack__`` himself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

import dyn.numpy as dnp


def test_tensorflow_cannot_change_an_array(require_module: Callable[[str], ModuleType]) -> None:
    tf = require_module("tensorflow")
    array = dnp.asarray(np.arange(64.0, dtype=np.float32))
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    np.testing.assert_array_equal(tensor.numpy(), array)
    variable = tf.Variable(tensor)
    variable.assign_add(tensor)
    np.testing.assert_array_equal(array, np.arange(64.0))
    assert not np.shares_memory(tensor.numpy(), np.asarray(array))
