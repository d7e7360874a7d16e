"""JAX arrays on the CPU. JAX is never imported here: where there is an array, it has been already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.source import user_loc

#: Types of results that are remembered, shape by shape.
_MOST_SHAPES = 1024
#: Dtypes that JAX may make narrower.
_WIDE = frozenset(("int64", "uint64", "float64", "complex128"))


@lru_cache(maxsize=1)
def putter() -> Callable[[NumpyArray, Any], Any]:
    """``put(array, aval)``: a JAX array of that type on the first CPU, over the array's memory where that starts at a
    multiple of 64 bytes; nobody may write to it any more.

    It is what ``jax.device_put`` comes to, which takes ten times as long to get there.
    """
    jax = sys.modules["jax"]
    cpu = jax.devices("cpu")[0]
    batched = getattr(sys.modules.get("jaxlib._jax"), "batched_device_put", None)
    if batched is None:
        return lambda array, aval: jax.device_put(array)
    sharding, devices = jax.sharding.SingleDeviceSharding(cpu), [cpu]
    return lambda array, aval: batched(aval, sharding, [array], devices, False)


class JaxHost:
    """``jax.Array``."""

    name = "jax"

    def __init__(self) -> None:
        self._avals: dict[tuple[Any, tuple[int, ...]], Any] = {}

    def view(self, value: Any) -> NumpyArray:
        """The array's own memory, read-only. An array that lies on several devices is put together, which copies it."""
        jax = sys.modules["jax"]
        if isinstance(value, jax.core.Tracer):
            raise UnsupportedOpError(
                "a JAX tracer: inside of jax.jit and its like there are no elements to compute with.",
                loc=user_loc(),
                remedy="call the function as dyn.interop.jax.call(f)(x), or outside of the JAX transformation.",
            )
        devices = value.devices()
        other = next((device for device in devices if device.platform != "cpu"), None)
        if other is not None:
            raise UnsupportedOpError(
                f"a JAX array on {other}: this version computes on the CPU.",
                loc=user_loc(),
                remedy="pass jax.device_put(x, jax.devices('cpu')[0]).",
            )
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            raise UnsupportedOpError(
                f"a JAX array of dtype {value.dtype}, which is not a number.",
                loc=user_loc(),
                remedy="pass jax.random.key_data(x), or draw the numbers before the call.",
            )
        return np.asarray(value)

    def wrap(self, array: NumpyArray) -> Any:
        """The result's memory is taken over, where it starts at a multiple of 64 bytes, and copied otherwise.

        As everywhere in JAX, 64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is set.
        """
        aval = self._avals.get((array.dtype, array.shape))
        if aval is None:
            jax = sys.modules["jax"]
            if array.dtype.name in _WIDE:
                return jax.numpy.asarray(array)
            if len(self._avals) >= _MOST_SHAPES:
                self._avals.clear()
            aval = self._avals[array.dtype, array.shape] = jax.core.ShapedArray(array.shape, array.dtype)
        return putter()(array, aval)
