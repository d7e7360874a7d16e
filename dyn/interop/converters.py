"""Tables of converters: how the operations of a guest library's graphs are read.

A front end that reads graphs has one :class:`ConverterRegistry`: of converters, which make ops of dyn's, and of folds,
which are done at once where all inputs are known (:mod:`dyn.interop.sizes`). An :class:`OperationCall` is what they are
given. One registry is one table of names; nothing else of the guest's has to be said.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn import lax
from dyn.errors import DynError, ShapeError, UnsupportedOpError
from dyn.interop.sizes.values import Array, SizeTensor, data, elements_of, is_known
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

#: Converters ask of sizes what the function asks that the user calls.
ASKS_FOR_OTHERS = True

Function = Callable[..., Any]
#: What converters compute with: tracers, whose operators are those of dyn's NumPy.
Data = Any


class OperationCall:
    """An operation with its inputs.

    Attributes:
        inputs: the values of its inputs; None for those that are left out.
    """

    inputs: Sequence[Any]

    @property
    def op(self) -> str:
        """The name of the operation."""
        raise NotImplementedError

    @property
    def trace(self) -> Trace:
        """The trace that it is read in."""
        raise NotImplementedError

    def attributes(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Those of the attributes that the operation has."""
        raise NotImplementedError

    def value(self, number: int) -> Any:
        """An input as data."""
        return data(self.trace, self.inputs[number])

    def values(self, start: int = 0, stop: int | None = None) -> list[Any]:
        """Inputs as data."""
        return [data(self.trace, value) for value in self.inputs[start:stop]]

    def dims(self, number: int) -> tuple[Dim, ...]:
        """The shape of an input."""
        value = self.inputs[number]
        if isinstance(value, Tracer):
            return value.dims
        if is_known(value):
            return tuple(elements_of(value).shape)
        raise UnsupportedOpError(f"the shape of a {type(value).__name__}.")

    def numbers(self, number: int) -> Array:
        """An input that is the same in each call."""
        value = self.inputs[number]
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, SizeTensor):
            simplified = [self.trace.facts.simplify(one) for one in value.elements.flat]
            if all(isinstance(one, int) for one in simplified):
                return np.reshape(np.array(simplified, value.dtype.np), value.elements.shape)
        raise UnsupportedOpError(
            f"input {number} of {self.op} is computed by the program, and has to be known while it is compiled.",
            remedy="pass a constant.",
        )

    def sizes(self, number: int) -> Any:
        """An input as a dim, or as a list of dims: integers that the program computes are measured by it."""
        value, trace = self.inputs[number], self.trace
        if is_known(value):
            found = elements_of(value)
            plain = [one.item() if isinstance(one, np.generic) else one for one in found.flat]
            faces = [one if isinstance(one, float) else wrap_dim(trace, one) for one in plain]
            return faces[0] if found.ndim == 0 else faces
        if isinstance(value, Tracer):
            if not value.dims:
                return lax.as_dim(value)
            count = trace.facts.simplify(value.dims[0])
            if len(value.dims) == 1 and isinstance(count, int):
                return [lax.as_dim(value[n]) for n in range(count)]
        raise UnsupportedOpError(f"input {number} of {self.op} does not say how many sizes it has.")


@dataclass(frozen=True, slots=True)
class Typed:
    """A result of a fold that is of another dtype than the others."""

    elements: Any
    dtype: str


@dataclass(frozen=True, slots=True)
class ConstantFolder:
    """A function of arrays of numbers or objects, by which an operation on known values is done in reading.

    The result is of the dtype that the attribute ``dtype`` names, or of ``dtype`` where the operation has no such
    attribute. NotImplemented says that it is data after all.
    """

    run: Function
    attrs: tuple[str, ...]
    dtype: str


@contextmanager
def noted(operation: str) -> Iterator[None]:
    """Have errors say which operation of a guest's graph they are about, where nothing further in has said so."""
    try:
        yield
    except DynError as error:
        if any(one.startswith("in the operation") for one in error.notes):
            raise
        notes = (*error.notes, f"in the operation {operation}")
        again = type(error)(error.problem, loc=error.loc, remedy=error.remedy, notes=notes)
        raise again.with_traceback(error.__traceback__) from None


def attributes_of(function: Function) -> tuple[str, ...]:
    """The attributes of an operation that a function takes: its parameters that are passed by name."""
    parameters = inspect.signature(function).parameters.values()
    return tuple([one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY])


class ConverterRegistry:
    """The converters and folds of a guest's operations, by their names.

    Attributes:
        converters: what makes ops of dyn's of a call.
        folds: what is done with known values.
        read: the attributes that a converter reads.
        functions: the functions that converters are made of.
    """

    def __init__(self) -> None:
        self.converters: dict[str, Callable[[Any], Any]] = {}
        self.folds: dict[str, ConstantFolder] = {}
        self.read: dict[str, frozenset[str]] = {}
        self.functions: dict[str, Function] = {}

    def converts(
        self, *names: str, sizes: Sequence[int] = (), numbers: Sequence[int] = ()
    ) -> Callable[[Function], Function]:
        """Register a function of an operation's inputs, with the attributes that it names, as its converter.

        Inputs come as data, those counted in ``sizes`` as a dim or a list of dims, and those in ``numbers`` as an array
        that is the same in each call; one that is left out as None. Numbers below 0 count from the last input.
        """

        def register(function: Function) -> Function:
            attrs = attributes_of(function)

            def run(call: OperationCall) -> Any:
                count = len(call.inputs)
                as_sizes, as_numbers = ({n + count if n < 0 else n for n in given} for given in (sizes, numbers))
                inputs = [
                    None
                    if call.inputs[n] is None
                    else call.sizes(n)
                    if n in as_sizes
                    else call.numbers(n)
                    if n in as_numbers
                    else call.value(n)
                    for n in range(count)
                ]
                return function(*inputs, **call.attributes(attrs))

            self._add(names, run, attrs, function)
            return function

        return register

    def takes_call(self, *names: str, attrs: Sequence[str] = ()) -> Callable[[Function], Function]:
        """Register a function of the call itself, for what depends on more than the elements of its inputs.

        ``attrs`` are the attributes that it reads; it can read no other.
        """

        def register(function: Function) -> Function:
            self._add(names, function, attrs, function)
            return function

        return register

    def _add(self, names: Sequence[str], run: Function, attrs: Sequence[str], function: Function) -> None:
        for name in names:
            self.converters[name], self.read[name], self.functions[name] = run, frozenset(attrs), function

    def folds_known(self, *names: str, dtype: str = "T") -> Callable[[Function], Function]:
        """Register a function of known inputs, arrays of numbers or of dims, with the attributes that it names."""

        def register(function: Function) -> Function:
            for name in names:
                self.folds[name] = ConstantFolder(function, attributes_of(function), dtype)
            return function

        return register


def axes_of(given: Any, rank: int) -> tuple[int, ...]:
    """Axes, of which those below 0 count from the end."""
    return tuple([int(axis) % rank if rank else 0 for axis in given.reshape(-1)])


def axis_of(axis: int, value: Tracer) -> int:
    """An axis of an array, counted from its start; ShapeError where it has no such one."""
    rank = len(value.dims)
    if not -rank <= axis < rank:
        raise ShapeError(
            f"there is no axis {axis} of {rank}.", loc=user_loc(), remedy="name an axis that the tensor has."
        )
    return axis % rank


def rank_of(value: Tracer) -> int:
    return len(value.dims)
