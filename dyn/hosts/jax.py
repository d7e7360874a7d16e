"""JAX arrays on the CPU. JAX is never imported here: where there is an array, it has been already."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.source import user_loc

#: Results of fewer bytes are copied, which takes JAX half as long as taking them over.
_SMALL = 1 << 14


class JaxHost:
    """``jax.Array``."""

    name = "jax"

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
        """A large result's memory is taken over, where it starts at a multiple of 64 bytes; a small one is copied.

        As everywhere in JAX, 64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is set.
        """
        jax = sys.modules["jax"]
        if array.nbytes < _SMALL:
            return jax.numpy.asarray(array)
        return jax.device_put(array, jax.devices("cpu")[0])
