"""The value that user code holds while a function is traced."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from dyn.dtypes import DType
from dyn.errors import LeakedTracerError, TraceError
from dyn.ir.core import Value
from dyn.shapes import Dim
from dyn.source import Loc, user_loc
from dyn.trace import answered_names
from dyn.trace.concretization_site import asking
from dyn.trace.context import Trace, current_trace
from dyn.trace.dims import SymbolicDim, wrap_dim
from dyn.trace.foreign import is_operator, refuse_foreign, refuse_jax
from dyn.trace.methods import changes_in_place, has_methods

#: The remedy for a loop over ``range`` of what is traced.
_RANGE = (
    "use dyn.lax.fori_loop or scan for a loop, dyn.numpy.arange for an array of its numbers, or make the value a "
    "static argument."
)


@changes_in_place
@has_methods
class Tracer:
    """Array of a function that is being traced: its elements are not there yet.

    It has NumPy's attributes, operators and methods, and dyn's symbolic dims. Functions that are traced are called with
    tracers in the place of arrays; nobody makes one.

    Operators, methods, ``np.*`` functions and ufuncs all go to the installed NumPy namespace.

    ``x[i] = v`` and ``x += v`` change the array, as in NumPy: whoever holds the same object (``y = x``) sees it. What
    was made of it before does not: not a slice, which NumPy makes a view, nor the caller's argument that it came from.

    Args:
        trace: trace that it belongs to.
        value: what it is in the program.
        loc: user's line that made it; None: that of the operation.

    Example:
        >>> show = dyn.jit(lambda x: print(x, x.shape, x.sum()))
        >>> show(np.ones((2, 3), "f4"))
        Tracer<f32[x_0, x_1]> (x_0, x_1) Tracer<f32[]>
    """

    __slots__ = ("_loc", "_trace", "_value")
    __array_priority__ = 1000
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # == is elementwise, as in NumPy

    def __init__(self, trace: Trace, value: Value, loc: Loc | None = None) -> None:
        self._trace = trace
        self._value = value
        if loc is None:
            # Nearly every tracer is of an op that was made for it just now, whose line is known: to walk the stack once
            # more would be a twentieth of a trace.
            made = trace.builder.producer(value)
            loc = user_loc() if made is None else made.loc
        self._loc: Loc = loc

    # What it is -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int | SymbolicDim, ...]:
        """The size of each axis; symbolic ones take part in arithmetic and in shape arguments."""
        self._looked_at()
        return tuple(wrap_dim(self._trace, d) for d in self._value.shape)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape as dyn's own dims, which ask no questions of their own."""
        return self._value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        self._looked_at()
        return self._value.dtype.np

    @property
    def element_type(self) -> DType:
        """dyn's dtype of the elements, where :attr:`dtype` is NumPy's."""
        return self._value.dtype

    @property
    def weak(self) -> bool:
        """True of what was computed of Python numbers alone, and so takes the dtype of what it meets."""
        return self._value.type.weak

    @property
    def ndim(self) -> int:
        """Number of axes."""
        self._looked_at()
        return len(self._value.shape)

    @property
    def size(self) -> int | SymbolicDim:
        """The number of elements."""
        self._looked_at()
        return wrap_dim(self._trace, self._value.type.size)

    @property
    def itemsize(self) -> int:
        """Bytes an element takes."""
        self._looked_at()
        return self._value.dtype.itemsize

    @property
    def nbytes(self) -> int | SymbolicDim:
        """Bytes the elements take."""
        self._looked_at()
        return wrap_dim(self._trace, self._value.type.nbytes)

    @property
    def T(self) -> Any:
        """The axes the other way round."""
        return self._trace.namespace.transpose(self)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return self._trace.namespace.matrix_transpose(self)

    @property
    def device(self) -> str:
        """Device of the elements when the program runs, ``"cpu"``."""
        return "cpu"

    @property
    def at(self) -> Any:
        """Copies with some elements changed, by ``x.at[i].set(v)``, ``x.at[i].add(v)``, …"""
        return self._trace.namespace.at(self)

    def to_device(self, device: str, /, *, stream: object = None) -> Any:
        """Array on a device; in a trace there is one device, that of the program.

        Args:
            device: ``"cpu"``.
            stream: taken for the standard's sake.

        Returns:
            An array with these elements.

        Raises:
            ArgumentError: for another device.
        """
        self._trace.namespace.check_device("to_device", device)
        return self.renewed()

    def __repr__(self) -> str:
        return f"Tracer<{self._value.type}>"

    def value_in(self, trace: Trace) -> Value:
        """IR value of the array, for use in a trace.

        Args:
            trace: trace in which it is used: its own, or one inside it.

        Returns:
            The value.

        Raises:
            LeakedTracerError: if its own trace is over, or ``trace`` is not inside it.
            TraceError: if ``trace`` is of a function that must not read what is around it.
        """
        if self._trace is trace and trace.alive:
            return self._value
        notes = self._origin()
        self._trace.check_alive(lambda: f"an array ({self._value.type})", notes)
        if trace.may_read(self._trace):
            trace.read_from(self._trace)
            return self._value
        if trace.alive and self._trace.encloses(trace):
            trace.refuse_closure(f"an array ({self._value.type})", notes)
        raise LeakedTracerError(
            f"an array ({self._value.type}) of a trace of {self._trace.name!r} is used in a trace of {trace.name!r}.",
            loc=user_loc(),
            notes=notes,
            remedy="pass it to the inner function as an argument.",
        )

    def _looked_at(self) -> None:
        """Note where a function is traced that knows this array from around it: a trace is of what it has seen."""
        current = current_trace()
        if current is not None and current is not self._trace and self._trace.encloses(current):
            current.read_from(self._trace)

    def _origin(self) -> tuple[str, ...]:
        """Notes for errors: the line that made the value, and the traces around it."""
        made = f"it was made at {self._loc.describe()}"
        return (made,) if self._trace.outer is None else (made, f"which is in {self._trace.described()}")

    # What it cannot do ----------------------------------------------------------------------------------------

    def _concrete(self, what: str, remedy: str) -> NoReturn:
        loc = user_loc()
        asks = asking(self._trace.namespace.has)
        if asks is not None and asks.computes and asks.remedy.startswith("use dyn."):
            what, remedy = asks.what, asks.remedy
        if asks is not None and asks.what == "range()":
            what, remedy = asks.what, _RANGE
        # An argument is known by its name; what was computed on this very line needs no word.
        computed = self._trace.builder.producer(self._value) is not None
        elsewhere = computed and (loc.file, loc.line) != (self._loc.file, self._loc.line)
        described = str(self._value.type).removesuffix("~")
        if not computed and self._value.name:
            described = f"{self._value.name} ({described})"
        raise TraceError(
            f"{what} needs the elements of {described}, which are not known while {self._trace.name!r} is traced.",
            loc=loc,
            notes=self._origin() if elsewhere else (),
            remedy=remedy,
        )

    def __bool__(self) -> bool:
        self._concrete(
            "a Python branch",
            "use dyn.numpy.where, dyn.lax.cond, or for a loop dyn.lax.while_loop; or make the value a static argument.",
        )

    def __int__(self) -> int:
        self._concrete("int()", "keep it an array, or make the value a static argument.")

    def __float__(self) -> float:
        self._concrete("float()", "keep it an array, or make the value a static argument.")

    def __complex__(self) -> complex:
        self._concrete("complex()", "keep it an array, or make the value a static argument.")

    def __index__(self) -> int:
        self._concrete("a Python index", "index with the array itself (dyn.numpy.take), or make it a static argument.")

    def __contains__(self, value: object) -> bool:
        self._concrete("'in'", "use (x == value).any(), which gives an array.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._concrete("pickling", "return the array from the function and pickle the result.")

    def __format__(self, spec: str) -> str:
        if spec:
            self._concrete("a number's text", "return it from the function, and format it outside.")
        return str(self)

    def item(self, *index: int) -> NoReturn:
        """Not there while a function is traced.

        Args:
            *index: the place of an element.

        Raises:
            TraceError: always: there are no elements yet.
        """
        self._concrete("item()", "keep it an array, or return it from the function and call item() outside.")

    def tolist(self) -> NoReturn:
        """Not there while a function is traced.

        Raises:
            TraceError: always: there are no elements yet.
        """
        self._concrete("tolist()", "return it from the function and call tolist() outside.")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._concrete(
            "a conversion to a NumPy array", "use functions of dyn.numpy (or numpy functions that dyn knows) on it."
        )

    @property
    def __jax_array__(self) -> NoReturn:
        refuse_jax(self._trace, f"an array of {self._value.type}")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_operator(func):
            return NotImplemented
        found = _first_tracer((*args, *(kwargs or {}).values()))
        assert found is not None, "PyTorch calls it where a tracer is among the arguments"
        refuse_foreign(found._trace, f"an array of {found._value.type}", func)

    # NumPy's protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self._trace.namespace.from_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._trace.namespace.from_function(func, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return self._trace.namespace.standard(api_version)

    def __getattr__(self, name: str) -> Any:
        # Protocols that others ask for (__dlpack__, _repr_html_, …) are not there.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._trace.namespace.method(self, name)

    def __len__(self) -> int:
        if not self._value.shape:
            raise TypeError("len() of unsized object")
        if not isinstance(self._value.shape[0], int):
            answered_names.ask(sys._getframe(1))
        return self._length("len()", "use x.shape[0] in shapes and arithmetic, or make the axis static with shapes=.")

    def __iter__(self) -> Iterator[Any]:
        if not self._value.shape:
            raise TypeError("iteration over a 0-d array")
        return self._rows()

    def _rows(self) -> Iterator[Any]:
        """The rows; how many there are is asked when the first is."""
        remedy = "compute with whole arrays, or make the axis static with shapes=, which unrolls the loop."
        for row in range(self._length("a Python loop over the rows", remedy)):
            yield self[row]

    def _length(self, what: str, remedy: str) -> int:
        size = wrap_dim(self._trace, self._value.shape[0])
        return size if isinstance(size, int) else size.known(what, remedy)

    def __copy__(self) -> Tracer:
        return self.renewed()

    def __deepcopy__(self, memo: object) -> Tracer:
        return self.renewed()

    def renewed(self) -> Tracer:
        """Array of its own, of the current trace, with these elements.

        Returns:
            A tracer; changes to it are not seen in this one.
        """
        trace = active_trace(self) or self._trace
        return Tracer(trace, self.value_in(trace), self._loc)

    def __getitem__(self, index: Any) -> Any:
        return self._trace.namespace.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._become(self._trace.namespace.assigned(self, index, value))

    def _change(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Change the array as NumPy's method ``name`` does."""
        self._become(self._trace.namespace.changed(name, self, args, kwargs))

    def _become(self, new: Tracer) -> None:
        """Have the elements of another array of this trace from now on."""
        trace = current_trace()
        if trace is not None and trace is not self._trace and self._trace.encloses(trace):
            raise TraceError(
                f"an array ({self._value.type}) of {self._trace.name!r} cannot be changed in {trace.name}: what is "
                "computed there is not known outside.",
                loc=user_loc(),
                notes=(f"it was made at {self._loc.describe()}",),
                remedy="return the new value, as a carried value or a result.",
            )
        self._value, self._loc = new.value_in(self._trace), user_loc()


def _binary(name: str) -> Any:
    def operator(self: Tracer, other: Any) -> Any:
        namespace = self._trace.namespace
        if type(other) in (list, tuple) and name in ("equal", "not_equal"):  # Python would answer by identity
            other = namespace.asarray(other)
        return getattr(namespace, name)(self, other) if namespace.is_operand(other) else NotImplemented

    return operator


def _reflected(name: str) -> Any:
    def operator(self: Tracer, other: Any) -> Any:
        namespace = self._trace.namespace
        return getattr(namespace, name)(other, self) if namespace.is_operand(other) else NotImplemented

    return operator


def _in_place(name: str) -> Any:
    def operator(self: Tracer, other: Any) -> Any:
        namespace = self._trace.namespace
        if self.weak or not namespace.is_operand(other):  # a Python number does not change: x = x + y takes its place
            return NotImplemented
        self._become(namespace.in_place(name, self, other))
        return self

    return operator


def _unary(name: str) -> Any:
    return lambda self: getattr(self._trace.namespace, name)(self)


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
for _short, _long in _BINARY.items():
    setattr(Tracer, f"__{_short}__", _binary(_long))
    setattr(Tracer, f"__r{_short}__", _reflected(_long))
    setattr(Tracer, f"__i{_short}__", _in_place(_long))
for _short, _make in {"divmod": _binary, "rdivmod": _reflected}.items():
    setattr(Tracer, f"__{_short}__", _make("divmod"))
for _short, _long in _COMPARE.items():
    setattr(Tracer, f"__{_short}__", _binary(_long))
for _short, _long in {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}.items():
    setattr(Tracer, f"__{_short}__", _unary(_long))


def renewed(leaf: Any) -> Any:
    """A leaf, as an array of its own if it is one of a trace."""
    return leaf.renewed() if isinstance(leaf, Tracer) else leaf


_TRACED = (Tracer, SymbolicDim)


def active_trace(*values: Any) -> Trace | None:
    """The trace that an operation on ``values`` belongs to: a tracer's own, or the current one where that is in it."""
    current = current_trace()
    for value in values:
        if isinstance(value, _TRACED):
            own = value._trace if isinstance(value, Tracer) else value.trace
            return current if current is not None and own.encloses(current) else own
    return current


def _first_tracer(values: Iterable[Any]) -> Tracer | None:
    """The first tracer among values, and in the lists and tuples among them."""
    for value in values:
        found = _first_tracer(value) if isinstance(value, list | tuple) else value
        if isinstance(found, Tracer):
            return found
    return None


answered_names.METHODS.add(Tracer.__len__)
