"""Comparison of compiled TensorFlow functions with TensorFlow, call by call."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import dyn.interop.tf as dtf

#: Its types are not complete.
tf: Any = importlib.import_module("tensorflow")


def alike(made: Any, wanted: Any, tolerance: float = 1e-5, what: str = "") -> None:
    """Assert that two structures of tensors are of one type, shape and value."""
    tf.nest.assert_same_structure(made, wanted)
    pair = [tf.nest.flatten(one, expand_composites=True) for one in (made, wanted)]
    for one, other in zip(*pair, strict=True):
        if not isinstance(other, tf.Tensor):
            assert one == other, what
            continue
        assert isinstance(one, tf.Tensor), what
        assert one.dtype == other.dtype, (what, one.dtype, other.dtype)
        assert one.shape == other.shape, (what, one.shape, other.shape)
        if other.dtype in (tf.bfloat16, tf.float16):
            one, other, tolerance = tf.cast(one, tf.float32), tf.cast(other, tf.float32), 2e-2
        if other.dtype.is_floating or other.dtype.is_complex:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance, err_msg=what)
        else:
            np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=what)


def check(
    function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], *, tolerance: float = 1e-5, compiles: int = 1
) -> Any:
    """Assert that calls give what TensorFlow gives, by so many programs without anything of TensorFlow's in them."""
    compiled = dtf.jit(function, strict=True)
    for args in calls:
        shapes = str([getattr(arg, "shape", arg) for arg in args])
        wanted = function(*args)
        alike(compiled(*args), wanted, tolerance, shapes)
    assert compiled.cache_info().compiles == compiles
    assert not any(any(one.pieces) for version in compiled.programs for one in version.programs)
    return compiled
