"""``dyn.Array``, dyn's own array: its attributes, and the protocols of Python and of other libraries.

This file is longer than most: half of it says what each attribute takes and gives.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

from dyn.array.changes import change, refuse_in_trace
from dyn.array.exports import export_unchanging, unchanging_view
from dyn.array.operators import binary, in_place, reflected, unary
from dyn.errors import ArgumentError, DonatedError, InvalidValueError
from dyn.hosts import NumpyArray, host_of
from dyn.hosts.dlpack import CPU
from dyn.runtime.device_memory import DeviceArray, parse_device, put
from dyn.runtime.driver import Context, context_of
from dyn.source import user_loc
from dyn.trace.context import current_trace, installed_namespace
from dyn.trace.methods import changes_in_place, has_methods
from dyn.trace.tracer import Tracer, active_trace


class _ArrayMeta(type):
    """The class of ``dyn.Array``, of which arrays that are being traced are instances too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is Array or isinstance(instance, Tracer)


@changes_in_place
@has_methods
class Array(metaclass=_ArrayMeta):
    """An array in this machine's memory or in that of a GPU.

    A jitted function returns it where its arguments are of several kinds (NumPy and PyTorch, say), of a kind that dyn
    does not know, or are ``dyn.Array`` themselves; :func:`asarray` makes one. It has NumPy's attributes and operators
    and the functions of ``dyn.numpy`` as methods, which are compiled when they are first used and return ``dyn.Array``.
    ``x[i] = v``, ``x += y`` and ``x.sort()`` change it as they change NumPy's arrays, and compiled functions that close
    over it compute with its new elements. Its memory does not change while anybody else holds it: parts of it (``y =
    x[1:]``) and what other libraries were given keep the elements that they had. These read the memory without a copy
    where they do not write to it: ``np.asarray(x)`` and ``np.from_dlpack(x)`` give read-only views,
    ``jax.dlpack.from_dlpack(x)`` an array of JAX, which does not change either. ``torch.from_dlpack(x)`` is a copy:
    PyTorch writes to memory that is marked as read-only.

    One on a GPU (:func:`device_put`, or a result of a function that runs there) may be there before its elements are:
    whoever reads them waits. ``x.to_numpy()``, ``np.asarray(x)`` and ``x.item()`` copy them to this machine's memory.

    While a function is traced, its arrays are instances too.
    """

    __module__ = "dyn.array"  # where users and pickles find it
    __slots__ = ("__weakref__", "_data", "_label", "_whole")
    __array_priority__ = 1000  # NumPy's operators leave it to ours
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # == is elementwise, as in NumPy

    #: Taken out where the array is donated; then the label says to which argument of which function.
    _data: NumpyArray | DeviceArray
    _label: str
    #: Of one that was taken from another: that one, as long as it is there.
    _whole: weakref.ref[Array]

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
        if current_trace() is not None:
            return installed_namespace().asarray(self).T
        data = self._data
        if isinstance(data, np.ndarray):
            part = object.__new__(Array)
            part._data, part._whole = data.T, _ref(self) if data.base is None else _root_of(self)
            return part
        return installed_namespace().permute_dims(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Array:
        """The last two axes exchanged; in this machine's memory, the same memory."""
        if current_trace() is not None:
            return installed_namespace().asarray(self).mT
        if isinstance(self._data, np.ndarray):
            return _taken(self, np.matrix_transpose(self._data))
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
        parsed = parse_device(device)
        return on(self, None if parsed is None else context_of(*parsed))

    def to_numpy(self) -> NumpyArray:
        """Elements as a NumPy array, once they are there.

        Returns:
            A read-only view, or of an array on a GPU a copy.
        """
        return self.__array__()

    def _read(self) -> NumpyArray:
        """The elements, for code that goes on with what they are: a program that is being traced is for these alone."""
        self._read_in_trace()
        return self._host

    def _read_in_trace(self) -> None:
        trace = current_trace()
        if trace is not None and trace.program.reads is not None:
            trace.program.reads.note_elements(self)

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
        self._read_in_trace()
        if not isinstance(self._data, np.ndarray):
            if copy is False:
                raise needs_copy("__array__", f"an array on {self.device}")
            return np.asarray(self._data.to_numpy(), dtype)
        result = np.array(self._data, dtype, copy=copy)
        return unchanging_view(result) if np.may_share_memory(result, self._data) else result

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule (https://data-apis.org/array-api/latest/API_specification); bfloat16 goes through.

        Who takes it cannot change the array: the memory is marked as read-only, or is a copy (see
        :func:`~dyn.array.exports.export_unchanging`). Of an array on a GPU the consumer's ``stream`` waits for the
        elements, and the memory is the array's own.
        """
        self._read_in_trace()
        if isinstance(self._data, DeviceArray):
            if stream is not None and not isinstance(stream, int):
                raise BufferError(f"{stream!r} is no stream")
            return self._data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        return export_unchanging(
            self._data, sys._getframe(1).f_globals.get("__name__", ""), stream, max_version, dl_device, copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if isinstance(self._data, np.ndarray) else self._data.__dlpack_device__()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """``dyn.numpy``; ArgumentError for a version of the standard that it does not follow."""
        return installed_namespace().standard(api_version)

    def __reduce__(self) -> Any:
        return (_unpickled, (self._read(),))

    def __copy__(self) -> Array:
        return made(self._data) if current_trace() is None else installed_namespace().asarray(self)

    def __deepcopy__(self, memo: object) -> Array:
        return self.__copy__()

    def tolist(self) -> Any:
        """Elements as nested lists of Python numbers.

        Returns:
            Nested lists, or of an array without axes a number.

        Example:
            >>> dnp.arange(3).tolist()
            [0, 1, 2]
        """
        return self._read().tolist()

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
        return self._read().item(*index)

    def __bool__(self) -> bool:
        return bool(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __complex__(self) -> complex:
        return complex(self._read())

    def __index__(self) -> int:
        return operator.index(self._read())

    def __format__(self, spec: str) -> str:
        return format(self._read()[()], spec) if self.ndim == 0 else format(str(self), spec)

    def __repr__(self) -> str:
        label = getattr(self, "_label", None)
        if label is not None:
            return f"dyn.Array(donated: {label})"
        text = np.array2string(self._read(), separator=", ", prefix="dyn.Array(")
        empty = f", shape={self.shape}" if self.size == 0 else ""
        where = "" if isinstance(self._data, np.ndarray) else f", device={self.device}"
        return f"dyn.Array({text}{empty}, dtype={self.dtype.name}{where})"

    def __str__(self) -> str:
        return str(self._read())

    # Operators, which are the namespace's functions --------------------------------------------------------------

    __add__, __radd__ = binary("add"), reflected("add")
    __sub__, __rsub__ = binary("subtract"), reflected("subtract")
    __mul__, __rmul__ = binary("multiply"), reflected("multiply")
    __truediv__, __rtruediv__ = binary("true_divide"), reflected("true_divide")
    __floordiv__, __rfloordiv__ = binary("floor_divide"), reflected("floor_divide")
    __mod__, __rmod__ = binary("remainder"), reflected("remainder")
    __divmod__, __rdivmod__ = binary("divmod"), reflected("divmod")
    __pow__, __rpow__ = binary("power"), reflected("power")
    __matmul__, __rmatmul__ = binary("matmul"), reflected("matmul")
    __and__, __rand__ = binary("bitwise_and"), reflected("bitwise_and")
    __or__, __ror__ = binary("bitwise_or"), reflected("bitwise_or")
    __xor__, __rxor__ = binary("bitwise_xor"), reflected("bitwise_xor")
    __lshift__, __rlshift__ = binary("left_shift"), reflected("left_shift")
    __rshift__, __rrshift__ = binary("right_shift"), reflected("right_shift")
    __iadd__, __isub__ = in_place("add", "+"), in_place("subtract", "-")
    __imul__, __itruediv__ = in_place("multiply", "*"), in_place("true_divide", "/")
    __ifloordiv__, __imod__ = in_place("floor_divide", "//"), in_place("remainder", "%")
    __ipow__, __imatmul__ = in_place("power", "**"), in_place("matmul", "@")
    __iand__, __ior__ = in_place("bitwise_and", "&"), in_place("bitwise_or", "|")
    __ixor__ = in_place("bitwise_xor", "^")
    __ilshift__, __irshift__ = in_place("left_shift", "<<"), in_place("right_shift", ">>")
    __eq__ = binary("equal")
    __ne__ = binary("not_equal")
    __lt__ = binary("less")
    __le__ = binary("less_equal")
    __gt__ = binary("greater")
    __ge__ = binary("greater_equal")
    __neg__ = unary("negative")
    __pos__ = unary("positive")
    __abs__ = unary("abs")
    __invert__ = unary("bitwise_not")

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
        return value in self._read()

    def __getitem__(self, index: Any) -> Any:
        """NumPy's indexing: parts are views of the same memory, and a bad index is an IndexError.

        Of an array on a GPU they are copies there.
        """
        data = self._data
        if current_trace() is None:
            if type(data) is not np.ndarray:
                return _taken(self, _part(data, index) if isinstance(data, DeviceArray) else data[_plain_index(index)])
            kind = type(index)
            if kind not in _PLAIN_INDICES and (kind is not tuple or not _PLAIN_INDICES.issuperset(map(type, index))):
                index = _plain_index(index)
            part = object.__new__(Array)
            part._data = own = data[index]
            if type(own) is not np.ndarray:  # a scalar of NumPy's
                part._data = np.asarray(own)
            elif own.base is not None:
                part._whole = _ref(self) if data.base is None else _root_of(self)
            return part
        parts = index if isinstance(index, tuple) else (index,)
        if current_trace() is not None and active_trace(*parts) is not None:
            return installed_namespace().asarray(self)[index]
        return _taken(self, np.asarray(self._host[_plain_index(index)]))

    def __setitem__(self, index: Any, value: Any) -> None:
        """NumPy's assignment: the value is broadcast, and becomes elements of the array's dtype."""
        parts = index if isinstance(index, tuple) else (index,)
        refuse_in_trace("x[i] = v", *parts, value)
        plain, given = _plain_index(index), _plain_value(value, self.dtype)
        change(self, lambda elements: elements.__setitem__(plain, given))

    def _change(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Change the array as NumPy's method ``name`` does."""
        refuse_in_trace(f"x.{name}()", *args, *kwargs.values())
        given = [_plain_argument(value) for value in args]
        named = {key: _plain_argument(value) for key, value in kwargs.items()}
        change(self, lambda elements: getattr(elements, name)(*given, **named))

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


#: Types of indices that are no arrays, and have none in them.
_PLAIN_INDICES = frozenset({int, slice, type(None), type(Ellipsis)})


def _plain_index(index: Any) -> Any:
    """An index as NumPy takes it."""
    kind = type(index)
    if kind in _PLAIN_INDICES or (kind is tuple and _PLAIN_INDICES.issuperset(map(type, index))):
        return index
    return tuple(map(_plain_part, index)) if isinstance(index, tuple) else _plain_part(index)


def _plain_part(part: Any) -> Any:
    """A part of an index as NumPy takes it; objects that are numbers are asked for them now."""
    if is_own(part):
        return part._host
    known = isinstance(part, int | slice | list | np.ndarray | np.generic) or part is None or part is Ellipsis
    index: Any = part
    return operator.index(index) if not known and hasattr(type(part), "__index__") else part


def _plain_argument(value: Any) -> Any:
    """An argument of one of NumPy's methods as that takes it."""
    host = None if is_own(value) else host_of(value)
    return value._host if is_own(value) else value if host is None else host.view(value)


def _plain_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """A value as NumPy takes it. Python's numbers stay: NumPy says which ones do not fit. Code of the user's, which
    converts other objects, runs now, and not while memory is written to."""
    if is_own(value):
        return value._host
    if isinstance(value, int | float | complex | np.generic | np.ndarray):
        return value
    host = host_of(value)
    plain = np.asarray(value) if host is None else host.view(value)
    return plain.astype(dtype) if plain.dtype == object else plain


def is_own(value: object) -> TypeGuard[Array]:
    """Whether a value is a :class:`Array` with elements, and none that is being traced."""
    return type(value) is Array


def use_up(array: Array, label: str) -> None:
    """End a donated array, as the native entry does: whoever uses it again gets a DonatedError with the label."""
    if hasattr(array, "_label"):
        return
    array._label = label
    del array._data


_ref = weakref.ref


def _taken(whole: Array, data: NumpyArray | DeviceArray) -> Array:
    """An array that was taken from another one, of which NumPy's would be a view."""
    part = made(data)
    if isinstance(data, np.ndarray) and data.base is None:  # of an index array
        return part
    part._whole = _root_of(whole)
    return part


def _root_of(whole: Array) -> weakref.ref[Array]:
    """The array that one was taken from, itself where that is none."""
    around = whole._data
    is_root = isinstance(around, np.ndarray) and not isinstance(around.base, np.ndarray)
    return (None if is_root else getattr(whole, "_whole", None)) or _ref(whole)


def _part(data: DeviceArray, index: Any) -> DeviceArray:
    """A part of an array on a device: copied to this machine's memory and back.

    Inside of a jitted function parts are taken on the device.
    """
    part = np.asarray(data.to_numpy()[_plain_index(index)])
    return put(data.context, part, data.stream)


def made(data: NumpyArray | DeviceArray) -> Array:
    """An array over memory that nobody else writes to."""
    array = object.__new__(Array)
    array._data = data
    return array


def _unpickled(data: NumpyArray) -> Array:
    return made(data.copy(order="K"))


def contents(array: Array) -> NumpyArray | DeviceArray:
    """The memory of an array."""
    return array._data


def host_contents(array: Array) -> NumpyArray:
    """The elements of an array in this machine's memory, which nobody may write to."""
    return array._host


def on(array: Array, context: Context | None) -> Array:
    """An array on a device, or with None in this machine's memory; itself where it is there."""
    data = array._data
    if isinstance(data, DeviceArray):
        if data.context is context:
            return array
        data = data.to_numpy()  # there is no way from one device to another yet but this machine's memory
        return made(data if context is None else put(context, data))
    return array if context is None else made(put(context, data))


def needs_copy(what: str, kind: str, wanted: str = "") -> InvalidValueError:
    """The error for ``copy=False`` where only a copy will do."""
    return InvalidValueError(
        f"{what}: {kind} becomes an array{wanted} by copying, and copy is False.",
        loc=user_loc(),
        remedy="leave copy out.",
    )
