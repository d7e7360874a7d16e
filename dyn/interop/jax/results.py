"""Arguments as NumPy arrays, and results as JAX's: the same memory both ways."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn.array import Array
from dyn.errors import ArgumentError
from dyn.hosts import JAX
from dyn.hosts.jax import JaxMaker
from dyn.interop.jax.devices import DeviceMaker, own_array
from dyn.interop.jax.internals import Internals
from dyn.interop.jax.tracing import Result
from dyn.shapes import Symbol, evaluate

_NUMBERS = (bool, int, float, complex)
#: Types of NumPy's arrays that are remembered.
_MOST_TYPES = 4096


def read_leaf(parts: Internals, value: Any, name: str) -> tuple[Any, Any]:
    """A leaf that is no plain JAX array as an array to compute with, and its type as JAX has it.

    The array is NumPy's or, in dyn's or on a GPU, a ``dyn.Array``; None for a ``jax.ShapeDtypeStruct``. Raises
    ArgumentError for what is no array.
    """
    jax = parts.jax
    if isinstance(value, jax.ShapeDtypeStruct):
        return None, value
    own = None if isinstance(value, jax.Array) else own_array(value)
    if own is not None:
        return _read_own(parts, own, name)
    try:
        if isinstance(value, np.ndarray):
            value = value.view()  # whose dtype and shape nobody else can change
        if type(value) is np.ndarray:
            aval = _numpy_type(parts, value.shape, value.dtype, jax.config.jax_enable_x64)
        else:
            aval = jax.typeof(value)
        dtype = aval.dtype
    except (TypeError, AttributeError):
        if isinstance(value, np.ndarray | np.generic):
            # So does jax.jit, unless it has been called with this machine's byte order before: then it reads the bytes
            # as if they were in that.
            native = value.dtype.newbyteorder("=")
            how = "to a dtype of numbers" if native == value.dtype else f"with .astype({native.name!r})"
            raise ArgumentError(
                f"{name} is a NumPy array of dtype {value.dtype}, which JAX does not have.",
                remedy=f"convert it {how}.",
            ) from None
        raise ArgumentError(
            f"{name} is a {type(value).__name__}, which is not an array.",
            remedy="pass an array or a number, or name the argument in static_argnames=.",
        ) from None
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        own = own_array(value)
        return JAX.view(value) if own is None else own, aval
    if isinstance(value, _NUMBERS) and not isinstance(value, np.generic):
        return np.array(value, dtype), aval
    # Without jax_enable_x64 64-bit arrays are 32-bit ones to JAX.
    return np.asarray(value, None if dtype == jax.dtypes.float0 else dtype), aval


def _read_own(parts: Internals, array: Array, name: str) -> tuple[Any, Any]:
    """A ``dyn.Array`` and its type as JAX has it. Numbers of 64 bits become narrower ones where JAX says so, in this
    machine's memory alone: ArgumentError for those on a device, and for dtypes that JAX does not have."""
    dtype = array.dtype
    try:
        aval = _numpy_type(parts, array.shape, dtype, parts.jax.config.jax_enable_x64)
    except TypeError:
        raise ArgumentError(f"{name} is of dtype {dtype}, which JAX does not have.") from None
    if aval.dtype == dtype:
        return array, aval
    if array.device != "cpu":
        raise ArgumentError(
            f"{name} is an array of {dtype} on {array.device}, and JAX has {aval.dtype} unless jax_enable_x64 is set.",
            remedy=f"convert it with .astype({aval.dtype.name!r}), or set jax_enable_x64.",
        )
    return array.to_numpy().astype(aval.dtype), aval


@functools.lru_cache(maxsize=_MOST_TYPES)
def _numpy_type(parts: Internals, shape: tuple[int, ...], dtype: np.dtype[Any], x64: bool) -> Any:
    """``jax.typeof`` of a NumPy array: JAX makes it anew for each, which takes longer than to find it."""
    return parts.jax.typeof(np.broadcast_to(np.zeros((), dtype), shape))


def wrapper(parts: Internals, result: Result, device: str | None) -> JaxMaker | DeviceMaker:
    """Maker of JAX arrays of one result of a program for a device."""
    if device is not None:
        return DeviceMaker(parts, result.weak, result.impl is not None)
    return JaxMaker() if result.impl is not None else JaxMaker(result.dtype, weak=result.weak)


def finish(
    parts: Internals, results: Sequence[Result], wrappers: Sequence[Callable[[Any], Any]], arrays: Sequence[Any],
    sizes: Callable[[], Mapping[Symbol, int]],
) -> list[Any]:  # fmt: skip
    """Results of which some are typed keys, or have no elements. ``sizes`` gives the symbols' values in a call."""
    jax, made, rest = parts.jax, list[Any](), iter(arrays)
    for result, wrap in zip(results, wrappers, strict=True):
        if result.shape is not None:
            env = sizes()
            made.append(np.zeros(tuple([evaluate(d, env) for d in result.shape if d is not None]), result.dtype))
        elif result.impl is not None:
            made.append(jax.random.wrap_key_data(wrap(next(rest)), impl=result.impl))
        else:
            made.append(wrap(next(rest)))
    return made
