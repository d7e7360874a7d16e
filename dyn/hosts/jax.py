"""JAX arrays. JAX is never imported here: where there is an array, it has been already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.runtime.device_memory import DeviceArray, borrow
from dyn.runtime.driver import Context
from dyn.source import user_loc

#: Types of results that are remembered, shape by shape.
_MOST_SHAPES = 1024
#: The platforms of GPUs that dyn has a name for.
_GPUS = frozenset(("gpu", "cuda", "rocm"))
#: Dtypes that JAX may make narrower.
_WIDE = frozenset(("int64", "uint64", "float64", "complex128"))


@dataclass(frozen=True, eq=False)
class Putter:
    """``put(array, aval)``: a JAX array of that type on the first CPU, over the array's memory where that starts at a
    multiple of 64 bytes; nobody may write to it any more.

    It is what ``jax.device_put`` comes to, which takes ten times as long to get there: jaxlib's ``function(aval,
    sharding, [array], devices, False)``. Where this jaxlib has none, ``function`` is None.
    """

    jax: Any
    function: Callable[..., Any] | None
    sharding: Any
    devices: list[Any]

    def __call__(self, array: NumpyArray, aval: Any) -> Any:
        if self.function is None:
            return self.jax.device_put(array)
        return self.function(aval, self.sharding, [array], self.devices, False)


@lru_cache(maxsize=1)
def putter() -> Putter:
    """The one of this process."""
    jax = sys.modules["jax"]
    cpu = jax.devices("cpu")[0]
    function = getattr(sys.modules.get("jaxlib._jax"), "batched_device_put", None)
    return Putter(jax, function, jax.sharding.SingleDeviceSharding(cpu), [cpu])


class JaxMaker:
    """``make(array)``: a JAX array of an array that nobody else has: one result of a program, weak or not.

    Without a ``dtype`` it has the array's. ``avals`` are the types that have been met, by their shapes.
    """

    __slots__ = ("_dtype", "_weak", "avals", "put")

    def __init__(self, dtype: Any = None, *, weak: bool = False) -> None:
        self._dtype, self._weak = dtype, weak
        self.put = putter()
        self.avals: dict[tuple[int, ...], Any] = {}

    def __call__(self, array: NumpyArray) -> Any:
        aval = self.avals.get(array.shape)
        return self.put(array, self._make(array) if aval is None else aval)

    def _make(self, array: NumpyArray) -> Any:
        if len(self.avals) >= _MOST_SHAPES:
            self.avals.clear()
        dtype = array.dtype if self._dtype is None else self._dtype
        aval = self.avals[array.shape] = self.put.jax.core.ShapedArray(array.shape, dtype, weak_type=self._weak)
        return aval


@lru_cache(maxsize=8)
def _count(family: str) -> int:
    """How many GPUs of a family JAX has; 0 in a build for the processor."""
    try:
        return len(sys.modules["jax"].devices(family))
    except RuntimeError:  # it knows none of that name
        return 0


class JaxHost:
    """``jax.Array``."""

    name = "jax"

    def __init__(self) -> None:
        self._makers: dict[np.dtype[Any], JaxMaker] = {}

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
                f"a JAX array on {other}: it cannot be read by this machine's processor.",
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

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        jax = sys.modules["jax"]
        if isinstance(value, jax.core.Tracer):
            return self.view(value)
        platforms = [device.platform for device in value.devices()]
        return borrow(value) if len(platforms) == 1 and platforms[0] in _GPUS else self.view(value)

    def has_device(self, context: Context) -> bool:
        return context.ordinal < _count(context.driver.vendor.family)

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        """The result's memory is taken over, where it starts at a multiple of 64 bytes, and copied otherwise.

        As everywhere in JAX, 64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is set.
        """
        if isinstance(array, DeviceArray):
            return sys.modules["jax"].dlpack.from_dlpack(array)
        made = self.maker(array.dtype)
        return sys.modules["jax"].numpy.asarray(array) if made is None else made(array)

    def maker(self, dtype: np.dtype[Any]) -> JaxMaker | None:
        """Maker of JAX arrays for results of a dtype; None for one that JAX may make narrower."""
        made = self._makers.get(dtype)
        if made is None and dtype.name not in _WIDE:
            made = self._makers[dtype] = JaxMaker()
        return made
