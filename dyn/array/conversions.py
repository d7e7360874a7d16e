"""Arrays of any library, numbers and nested lists as ``dyn.Array``, in this machine's memory or on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.array.array_type import Array, is_own, made, needs_copy, on
from dyn.array.own_host import adapter_of
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.hosts import NUMPY, NumpyArray, host_of
from dyn.runtime.device_memory import DeviceArray, copied, parse_device, put
from dyn.runtime.driver import Context, context_of
from dyn.source import user_loc
from dyn.trace.held import HeldBuffer
from dyn.trace.lift import as_numpy, check_integers

#: Dtypes of which a copy is all that is to be done.
_COPIED = frozenset(map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")))


def asarray(value: Any, /, dtype: Any = None, *, copy: bool | None = None) -> Array:
    """Array of any library, number or nested lists of numbers as a :class:`Array`.

    It is copied, as dyn.Array never changes and ``value`` may.

    Args:
        value: array, number or nested lists, which become what ``dyn.numpy.asarray`` makes of them.
        dtype: dtype of the result; None: that of ``value``, the default float dtype of Python floats.
        copy: None: where it is needed; True: always; False: never: the memory is taken over, on the promise that nobody
            writes to it any more, whatever its strides.

    Returns:
        The array.

    Raises:
        InvalidValueError: if ``copy`` is False and a copy is needed: for another dtype, bytes in another order,
            elements that are not aligned.
        UnsupportedOpError: if ``value`` has a dtype that dyn does not have, or its lists are not equally long.

    Example:
        >>> dyn.asarray([1.0, 2.0])
        dyn.Array([1., 2.], dtype=float32)
    """
    adapter = adapter_of(value)
    held = None if adapter is None or adapter is NUMPY else adapter.borrow(value)
    if isinstance(held, DeviceArray):
        return _converted_there(value, held, dtype, copy)
    if copy is False:
        return value if is_own(value) and _is_of(value, dtype) else made(_taken_over(value, dtype))
    if is_own(value) and copy is not True:
        return value if _is_of(value, dtype) else value.astype(dtype)
    if type(value) is np.ndarray and dtype is None and value.dtype in _COPIED:
        return made(value.copy(order="K"))
    host = host_of(value)
    if host is not None:
        data = as_numpy(host.view(value) if held is None else held)
    else:
        data = as_numpy(read_lists(value))
        if dtype is None and data.dtype.kind in "fc":
            default = dtypes.dtype(config.current().default_float)
            complex_default = np.complex128 if default is dtypes.float64 else np.complex64
            data = data.astype(default.np if data.dtype.kind == "f" else complex_default)
    element = dtypes.dtype(data.dtype if dtype is None else dtype)
    if host is None and dtype is not None:
        check_integers(value, element)
    return made(np.array(data, element.np))


def read_lists(value: Any) -> np.ndarray[Any, Any]:
    """NumPy's array of a number or of nested lists; UnsupportedOpError where these are not equally long."""
    try:
        return np.asarray(value)
    except ValueError as error:
        if not isinstance(value, list | tuple):
            raise
        raise UnsupportedOpError(
            "asarray: nested lists of different lengths are no array.",
            loc=user_loc(),
            remedy="make the lists equally long.",
        ) from error


def _converted_there(value: Any, held: DeviceArray, dtype: Any, copy: bool | None) -> Array:
    """An array on a GPU as a :class:`Array` there: a copy, unless it is one already or ``copy`` is False."""
    own = value if is_own(value) else made(held if copy is False else copied(held))
    if _is_of(own, dtype):
        return own
    if copy is False:
        raise needs_copy("asarray", f"a {type(value).__name__} of {own.dtype}", f" of {dtypes.dtype(dtype).name}")
    return own.astype(dtype)


def _is_of(value: Array, dtype: Any) -> bool:
    return dtype is None or dtypes.dtype(dtype).np == value.dtype


def _taken_over(value: Any, dtype: Any) -> NumpyArray:
    """The memory of an array itself; InvalidValueError where a copy would be needed."""
    kind = f"a {type(value).__name__}"
    host = host_of(value)
    if host is None:
        raise needs_copy("asarray", kind)
    if isinstance(value, np.ndarray):
        data, again = as_numpy(value), value
    else:  # a host that has to copy gives other memory each time
        data, again = as_numpy(host.view(value)), as_numpy(host.view(value))
    if data.size and data.ctypes.data != again.ctypes.data:
        raise needs_copy("asarray", kind)
    if not data.flags.aligned or not data.dtype.isnative:
        raise needs_copy("asarray", f"{kind} whose elements are not aligned, or have another byte order,")
    wanted = data.dtype if dtype is None else dtypes.dtype(dtype).np
    if wanted != data.dtype:
        raise needs_copy("asarray", f"{kind} of {data.dtype}", f" of {wanted}")
    return np.asarray(data)


def device_put(x: Any, device: str | None = None) -> Array:
    """An array on a device, as a :class:`Array`; itself where it is one that is there.

    Args:
        x: an array of any library, a number, or nested lists of numbers. One of another library's on the device is not
            copied: nobody may write to it any more.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"rocm"``, …; ``"cpu"`` unless given.

    Returns:
        The array. Its elements are those of ``x`` now: what is written to ``x`` later does not show.

    Raises:
        ArgumentError: for the name of no device.
        BackendUnavailableError: where there is no such device on this machine.
        MemoryError: where it has no memory for the array.
    """
    parsed = None if device is None else parse_device(device)
    context = None if parsed is None else context_of(*parsed)
    host = adapter_of(x)
    held = None if host is None or is_own(x) else host.borrow(x)
    return on(made(held) if isinstance(held, DeviceArray) else asarray(x), context)


def captured_on(context: Context | None, held: Any, function: str) -> NumpyArray | DeviceArray:
    """A captured array, or the :class:`~dyn.trace.held.HeldBuffer` of one of dyn's, for programs on a device, or
    with None on the processor; ArgumentError for one on another device."""
    stays = isinstance(held, HeldBuffer | np.generic)  # what never changes is put there once
    held = held.data if isinstance(held, HeldBuffer) else held
    data = held if isinstance(held, DeviceArray) else as_numpy(held)
    if isinstance(data, DeviceArray):
        if data.context is not context:
            where = "cpu" if context is None else context.name
            raise _captured_elsewhere(function, data.device, where)
        data.share()
        return data
    return put(context, data) if context is not None and stays else data


def _captured_elsewhere(function: str, place: str, wanted: str) -> ArgumentError:
    """The error for a captured array on another device."""
    return ArgumentError(
        f"{function}() runs on {wanted}, and closes over an array on {place}.",
        remedy=f'put it there with dyn.device_put(x, "{wanted}"), or use jit(device="{place}").',
    )
