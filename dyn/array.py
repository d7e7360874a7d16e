"""``dyn.Array``, dyn's own array, for results that are of no one library's kind; and which kind results are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from dyn import config, dtypes
from dyn.errors import ArgumentError, DonatedError, InvalidValueError, UnsupportedOpError
from dyn.hosts import FOREIGN, NUMPY, Host, NumpyArray, export_dlpack, host_of
from dyn.hosts.dlpack import CPU
from dyn.runtime.device_memory import DeviceArray, copied, parse_device, put
from dyn.runtime.driver import Context, context_of
from dyn.source import user_loc
from dyn.trace.context import current_trace, installed_namespace
from dyn.trace.lift import as_numpy, check_integers
from dyn.trace.methods import has_methods
from dyn.trace.pytree import flatten, unflatten
from dyn.trace.tracer import Tracer, active_trace


def _binary(name: str) -> Callable[[Any, Any], Any]:
    """An operator that is a function of the namespace."""

    def method(self: Any, other: Any) -> Any:
        return getattr(installed_namespace(), name)(self, other) if _is_operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return getattr(installed_namespace(), name)(other, self) if _is_operand(other) else NotImplemented

    return method


def _in_place(name: str, sign: str) -> Callable[[Any, Any], Any]:
    """``x += y``, after which the name x stands for another array: of the same shape and dtype, as in the standard."""

    def method(self: Array, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        result = getattr(installed_namespace(), name)(self, other)
        if (result.dtype, len(result.shape)) == (self.dtype, self.ndim):
            if isinstance(result, Tracer) or result.shape == self.shape:
                return result
        raise ArgumentError(
            f"x {sign}= y: the result is {result.dtype.name}{list(result.shape)}, and x stays "
            f"{self.dtype.name}{list(self.shape)}.",
            loc=user_loc(),
            remedy=f"write x = x {sign} y.",
        )

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return getattr(installed_namespace(), name)(self)

    return method


@has_methods
class Array:
    """An immutable array, in this machine's memory or in that of a GPU.

    A jitted function returns it where its arguments are of several kinds (NumPy and PyTorch, say), of a kind that dyn
    does not know, or are ``dyn.Array`` themselves; :func:`asarray` makes one. It has NumPy's attributes and operators
    and the functions of ``dyn.numpy`` as methods, which are compiled when they are first used and return ``dyn.Array``.
    It never changes: ``x += y`` makes a new array of the name ``x``, and ``x.at[i].set(v)`` is ``x`` with ``x[i] = v``.
    Other libraries read its memory without a copy: ``np.asarray(x)`` gives a read-only view, ``torch.from_dlpack(x)``
    and ``jax.dlpack.from_dlpack(x)`` arrays that must not be written to.

    One on a GPU (:func:`device_put`, or a result of a function that runs there) may be there before its elements are:
    whoever reads them waits. ``x.to_numpy()``, ``np.asarray(x)`` and ``x.item()`` copy them to this machine's memory.
    """

    __slots__ = ("__weakref__", "_data", "_label")
    __array_priority__ = 1000  # NumPy's operators leave it to ours
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # == is elementwise, as in NumPy

    #: Taken out where the array is donated; then the label says to which argument of which function.
    _data: NumpyArray | DeviceArray
    _label: str

    def __init__(self) -> None:
        raise ArgumentError("dyn.Array is not made by calling the class.", remedy="use dyn.asarray(value).")

    # What it is -------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def itemsize(self) -> int:
        """Bytes an element takes."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes the elements take."""
        return self._data.nbytes

    @property
    def device(self) -> str:
        """Device of the elements, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"rocm"``, …"""
        return "cpu" if isinstance(self._data, np.ndarray) else self._data.device

    @property
    def T(self) -> Array:
        """The axes the other way round; in this machine's memory, the same memory."""
        if isinstance(self._data, np.ndarray):
            return _made(self._data.T)
        return installed_namespace().permute_dims(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Array:
        """The last two axes exchanged; in this machine's memory, the same memory."""
        if isinstance(self._data, np.ndarray):
            return _made(np.matrix_transpose(self._data))
        return installed_namespace().matrix_transpose(self)

    def to_device(self, device: str, /, *, stream: object = None) -> Array:
        """Array on a device.

        Args:
            device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"rocm"``, …
            stream: taken for the standard's sake: the copy is there when this returns.

        Returns:
            The array itself, or a copy.

        Raises:
            ArgumentError: for the name of no device.
            BackendUnavailableError: where there is no such device on this machine.
        """
        return device_put(self, device)

    def to_numpy(self) -> NumpyArray:
        """Elements as a NumPy array, once they are there.

        Returns:
            A read-only view, or of an array on a GPU a copy.
        """
        return self.__array__()

    @property
    def _host(self) -> NumpyArray:
        """The elements in this machine's memory."""
        return self._data if isinstance(self._data, np.ndarray) else self._data.to_numpy()

    @property
    def at(self) -> Any:
        """Copies with some elements changed, by ``x.at[i].set(v)``, ``x.at[i].add(v)``, …"""
        return installed_namespace().at(self)

    def block_until_ready(self) -> Array:
        """Wait for the elements: on the CPU they are there when the call returns.

        Returns:
            The array itself.
        """
        if not isinstance(self._data, np.ndarray):
            self._data.synchronize()
        return self

    # What others make of it -------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        """A read-only view, or a copy where ``dtype`` or ``copy`` wants one."""
        if not isinstance(self._data, np.ndarray):
            if copy is False:
                raise needs_copy("__array__", f"an array on {self.device}")
            return np.asarray(self._data.to_numpy(), dtype)
        result = np.array(self._data, dtype, copy=copy)
        if np.may_share_memory(result, self._data):
            result = result.view()
            result.flags.writeable = False
        return result

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule (https://data-apis.org/array-api/latest/API_specification); bfloat16 goes through.

        Of an array on a GPU the consumer's ``stream`` waits for the elements.
        """
        if isinstance(self._data, DeviceArray):
            if stream is not None and not isinstance(stream, int):
                raise BufferError(f"{stream!r} is no stream")
            return self._data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        return export_dlpack(self._data, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if isinstance(self._data, np.ndarray) else self._data.__dlpack_device__()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """``dyn.numpy``; ArgumentError for a version of the standard that it does not follow."""
        return installed_namespace().standard(api_version)

    def __reduce__(self) -> Any:
        return (asarray, (self._host,))

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: object) -> Array:
        return self

    def tolist(self) -> Any:
        """Elements as nested lists of Python numbers.

        Returns:
            Nested lists, or of an array without axes a number.

        Example:
            >>> dnp.arange(3).tolist()
            [0, 1, 2]
        """
        return self._host.tolist()

    def item(self, *index: int) -> Any:
        """One element as a Python number.

        Args:
            *index: its index on each axis, or its number; none: the only element.

        Returns:
            A Python number.

        Raises:
            ValueError: if no index is given and there is not one element.

        Example:
            >>> dnp.arange(3).item(1)
            1
        """
        return self._host.item(*index)

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    def __index__(self) -> int:
        return operator.index(self._host)

    def __format__(self, spec: str) -> str:
        return format(self._host[()], spec) if self.ndim == 0 else format(str(self), spec)

    def __repr__(self) -> str:
        label = getattr(self, "_label", None)
        if label is not None:
            return f"dyn.Array(donated: {label})"
        text = np.array2string(self._host, separator=", ", prefix="dyn.Array(")
        empty = f", shape={self.shape}" if self.size == 0 else ""
        where = "" if isinstance(self._data, np.ndarray) else f", device={self.device}"
        return f"dyn.Array({text}{empty}, dtype={self.dtype.name}{where})"

    def __str__(self) -> str:
        return str(self._host)

    # Operators, which are the namespace's functions --------------------------------------------------------------

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("true_divide"), _reflected("true_divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
    __iadd__, __isub__ = _in_place("add", "+"), _in_place("subtract", "-")
    __imul__, __itruediv__ = _in_place("multiply", "*"), _in_place("true_divide", "/")
    __ifloordiv__, __imod__ = _in_place("floor_divide", "//"), _in_place("remainder", "%")
    __ipow__, __imatmul__ = _in_place("power", "**"), _in_place("matmul", "@")
    __iand__, __ior__ = _in_place("bitwise_and", "&"), _in_place("bitwise_or", "|")
    __ixor__ = _in_place("bitwise_xor", "^")
    __ilshift__, __irshift__ = _in_place("left_shift", "<<"), _in_place("right_shift", ">>")
    __eq__ = _binary("equal")
    __ne__ = _binary("not_equal")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_not")

    # Parts of it ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[number] for number in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return value in self._host

    def __getitem__(self, index: Any) -> Any:
        """NumPy's indexing: parts are views of the same memory, and a bad index is an IndexError.

        Of an array on a GPU they are copies there.
        """
        if not isinstance(self._data, np.ndarray) and current_trace() is None:
            return _part(self._data, index)
        kind = type(index)
        simple = kind in _PLAIN_INDICES or (kind is tuple and _PLAIN_INDICES.issuperset(map(type, index)))
        if not simple or current_trace() is not None:
            parts = index if isinstance(index, tuple) else (index,)
            if active_trace(*parts) is not None:
                return installed_namespace().asarray(self)[index]
            plain = tuple([part._host if isinstance(part, Array) else part for part in parts])
            index = plain if isinstance(index, tuple) else plain[0]
        return _made(np.asarray(self._host[index]))

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise UnsupportedOpError(
            "x[i] = v: a dyn.Array does not change.",
            loc=user_loc(),
            remedy="write x = x.at[i].set(v); or use np.array(x), which is a copy that does.",
        )

    def __getattr__(self, name: str) -> Any:
        if name == "_data":
            raise DonatedError(
                f"a dyn.Array that was donated is used again: {self._label}.",
                loc=user_loc(),
                remedy="use what that call returned, or do not donate the argument.",
            )
        # Protocols that others ask for are not there.
        if not name.startswith("_"):
            try:
                return installed_namespace().method(self, name)
            except AttributeError:
                pass
        raise AttributeError(f"'dyn.Array' object has no attribute {name!r}", name=name, obj=self)


#: Dtypes of which a copy is all that is to be done.
_COPIED = frozenset(map(np.dtype, ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")))
#: Types of operands that need no further look.
_OPERANDS = frozenset({Array, np.ndarray, int, float, complex, bool})
#: Types of indices that are no arrays, and have none in them.
_PLAIN_INDICES = frozenset({int, slice, type(None), type(Ellipsis)})


def _is_operand(value: object) -> bool:
    """Whether operators take ``value`` beside an array."""
    return type(value) in _OPERANDS or installed_namespace().is_operand(value)


def use_up(array: Array, label: str) -> None:
    """End a donated array, as the native entry does: whoever uses it again gets a DonatedError with the label."""
    if hasattr(array, "_label"):
        return
    array._label = label
    del array._data


def _part(data: DeviceArray, index: Any) -> Array:
    """A part of an array on a device: copied to this machine's memory and back.

    Inside of a jitted function parts are taken on the device.
    """
    parts = index if isinstance(index, tuple) else (index,)
    plain = tuple([part._host if isinstance(part, Array) else part for part in parts])
    part = np.asarray(data.to_numpy()[plain if isinstance(index, tuple) else plain[0]])
    return _made(put(data.context, part, data.stream))


def _made(data: NumpyArray | DeviceArray) -> Array:
    """An array over memory that nobody writes to."""
    array = object.__new__(Array)
    array._data = data
    return array


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
        return value if isinstance(value, Array) and _is_of(value, dtype) else _made(_taken_over(value, dtype))
    if isinstance(value, Array) and copy is not True:
        return value if _is_of(value, dtype) else value.astype(dtype)
    if type(value) is np.ndarray and dtype is None and value.dtype in _COPIED:
        return _made(value.copy(order="K"))
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
    return _made(np.array(data, element.np))


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
    made = value if isinstance(value, Array) else _made(held if copy is False else copied(held))
    if _is_of(made, dtype):
        return made
    if copy is False:
        raise needs_copy("asarray", f"a {type(value).__name__} of {made.dtype}", f" of {dtypes.dtype(dtype).name}")
    return made.astype(dtype)


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


def needs_copy(what: str, kind: str, wanted: str = "") -> InvalidValueError:
    """The error for ``copy=False`` where only a copy will do."""
    return InvalidValueError(
        f"{what}: {kind} becomes an array{wanted} by copying, and copy is False.",
        loc=user_loc(),
        remedy="leave copy out.",
    )


class OwnHost:
    """``dyn.Array`` as a host: what is of no one library's kind."""

    name = "dyn"

    def view(self, value: Any) -> NumpyArray:
        return value._host if isinstance(value, Array) else FOREIGN.view(value)

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        return value._data if isinstance(value, Array) else FOREIGN.borrow(value)

    def has_device(self, context: Context) -> bool:
        return True

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        return _made(array)


OWN = OwnHost()


def adapter_of(value: object) -> Host | None:
    """The host of an array leaf, ``dyn.Array`` among them; None for what is no array."""
    if isinstance(value, Array):
        return OWN
    found = host_of(value)
    return OWN if found is FOREIGN else found


def view(value: Any) -> NumpyArray:
    """The elements of any library's array as a NumPy array, without a copy where that is possible.

    Raises UnsupportedOpError for what has no place in a compiled program: another device, a gradient, a trace.
    """
    host = adapter_of(value)
    return np.asarray(value) if host is None else host.view(value)


def describe(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """The dtype and the shape of a :class:`Array` on a device; None for anything else."""
    data = value._data if isinstance(value, Array) else None
    return (data.dtype, data.shape) if isinstance(data, DeviceArray) else None


def result_host(hosts: list[Host]) -> Host:
    """Host of a call's results: that of all arguments if they agree, else ``dyn.Array``; NumPy if there are none."""
    if not hosts:
        return NUMPY
    first = hosts[0]
    return first if all(host is first for host in hosts) else OWN


# ---- arguments of other libraries ------------------------------------------------------------------------------------


def to_numpy(leaves: Sequence[Any]) -> tuple[list[Any], Host] | None:
    """A call's leaves as plain NumPy arrays and numbers, and what its results are to become.

    Arrays of other libraries are viewed, arrays that lie oddly copied. None where nothing of that had to be done.
    Raises UnsupportedOpError for an array that cannot be viewed.
    """
    hosts = [adapter_of(leaf) for leaf in leaves]
    viewed = [leaf if host is None else host.borrow(leaf) for leaf, host in zip(leaves, hosts, strict=True)]
    if all(map(operator.is_, viewed, leaves)):
        return None
    return viewed, result_host([host for host in hosts if host is not None])


def from_numpy(host: Host, result: Any) -> Any:
    """A tree of fresh NumPy arrays as one of another library's."""
    if host is NUMPY:
        return result
    if type(result) is np.ndarray:
        return host.wrap(result)
    leaves, tree = flatten(result)
    return unflatten(tree, [host.wrap(leaf) for leaf in leaves])


def from_device(host: Host, result: Any) -> Any:
    """A tree of fresh arrays on a device as one of another library's; of :class:`Array` where that has none there."""
    leaves, tree = flatten(result)
    wraps = {context: (host if host.has_device(context) else OWN).wrap for context in {leaf.context for leaf in leaves}}
    return unflatten(tree, [wraps[leaf.context](leaf) for leaf in leaves])


# ---- devices ---------------------------------------------------------------------------------------------------------


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
    data = None if host is None else host.borrow(x)
    if isinstance(data, DeviceArray):
        if data.context is context:
            return x if isinstance(x, Array) else _made(data)
        here = data.to_numpy()  # there is no way from one device to another yet but this machine's memory
        return _made(here if context is None else put(context, here))
    own = asarray(x)
    return own if context is None else _made(put(context, own._host))


def captured_on(context: Context | None, array: Any, function: str) -> NumpyArray | DeviceArray:
    """A captured array for programs on a device, or None for the processor; ArgumentError for one on another device."""
    held = array._data if isinstance(array, Array) else array
    data = held if isinstance(held, DeviceArray) else as_numpy(held)
    if isinstance(data, DeviceArray):
        if data.context is not context:
            where = "cpu" if context is None else context.name
            raise _captured_elsewhere(function, data.device, where)
        data.share()
        return data
    # What never changes is put there once.
    return put(context, data) if context is not None and isinstance(array, Array) else data


def _captured_elsewhere(function: str, place: str, wanted: str) -> ArgumentError:
    """The error for a captured array on another device."""
    return ArgumentError(
        f"{function}() runs on {wanted}, and closes over an array on {place}.",
        remedy=f'put it there with dyn.device_put(x, "{wanted}"), or use jit(device="{place}").',
    )
