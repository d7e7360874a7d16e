"""Registry of converters of TensorFlow's operations, ``@converts("MatMul")``, and of folds of known values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dyn.trace.tracer import Tracer

if TYPE_CHECKING:
    from dyn.interop.tf.evaluation import NodeCall

#: Converters ask of sizes what the function asks that the user calls.
ASKS_FOR_OTHERS = True

Function = Callable[..., Any]
#: What converters compute with: tracers, whose operators are those of dyn's NumPy.
Data = Any


@dataclass(frozen=True, slots=True)
class Typed:
    """A result of a fold that is of another dtype than the others."""

    elements: Any
    dtype: str


@dataclass(frozen=True, slots=True)
class ConstantFolder:
    """How an operation of known values is done while the graph is read: a function of arrays of numbers or objects.

    The result is of the dtype that the attribute ``dtype`` names, or of ``dtype`` where the operation has no such
    attribute. NotImplemented says that it is data after all.
    """

    run: Function
    attrs: tuple[str, ...]
    dtype: str


#: By the name of the operation; filled by the modules of ``dyn.interop.tf.ops``.
CONVERTERS: dict[str, Callable[[NodeCall], Any]] = {}
FOLDS: dict[str, ConstantFolder] = {}
#: The attributes that a converter reads, by the name of the operation.
READ: dict[str, frozenset[str]] = {}
#: The functions that converters are made of, by the name of the operation.
FUNCTIONS: dict[str, Function] = {}


def attributes_of(function: Function) -> tuple[str, ...]:
    """The attributes of an operation that a function takes: its parameters that are passed by name."""
    parameters = inspect.signature(function).parameters.values()
    return tuple([one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY])


def converts(*names: str, sizes: Sequence[int] = (), numbers: Sequence[int] = ()) -> Callable[[Function], Function]:
    """Register a function of an operation's inputs, with the attributes that it names, as its converter.

    Inputs come as data, those counted in ``sizes`` as a dim or a list of dims, and those in ``numbers`` as an array
    that is the same in each call. Numbers below 0 count from the last input.
    """

    def register(function: Function) -> Function:
        attrs = attributes_of(function)

        def run(call: NodeCall) -> Any:
            count = len(call.inputs)
            as_sizes, as_numbers = ({n % count for n in given} for given in (sizes, numbers))
            inputs = [
                call.sizes(n) if n in as_sizes else call.numbers(n) if n in as_numbers else call.value(n)
                for n in range(count)
            ]
            return function(*inputs, **call.attributes(attrs))

        for name in names:
            CONVERTERS[name], READ[name], FUNCTIONS[name] = run, frozenset(attrs), function
        return function

    return register


def takes_call(*names: str, attrs: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Register a function of the call itself, for what depends on more than the elements of its inputs.

    ``attrs`` are the attributes that it reads; it can read no other.
    """

    def register(function: Function) -> Function:
        for name in names:
            CONVERTERS[name], READ[name], FUNCTIONS[name] = function, frozenset(attrs), function
        return function

    return register


def folds(*names: str, dtype: str = "T") -> Callable[[Function], Function]:
    """Register a function of known inputs, arrays of numbers or of dims, with the attributes that it names."""

    def register(function: Function) -> Function:
        for name in names:
            FOLDS[name] = ConstantFolder(function, attributes_of(function), dtype)
        return function

    return register


def axes_of(given: Any, rank: int) -> tuple[int, ...]:
    """Axes, of which those below 0 count from the end."""
    return tuple([int(axis) % rank if rank else 0 for axis in given.reshape(-1)])


def rank_of(value: Tracer) -> int:
    return len(value.dims)
