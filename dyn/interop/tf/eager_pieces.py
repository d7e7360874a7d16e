"""Operations that TensorFlow runs in the midst of a program, on the program's own memory.

An operation without a converter cuts the program in two, and stands between them as a call of Python
(:class:`dyn.ir.external.External`). What TensorFlow infers of its results' shapes is a fact. Sizes that it leaves open
are known once it has run: it is called twice, and the first call gives the sizes and keeps the results for the second.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dyn import dtypes as dyn_dtypes
from dyn import lax
from dyn.errors import NotYetError
from dyn.fork_safety import lock
from dyn.interop.sizes.values import SizeTensor, data
from dyn.interop.tf.arrays import from_array, to_array
from dyn.interop.tf.evaluation import NodeCall
from dyn.interop.tf.internals import tf
from dyn.interop.tf.values import Foreign, dyn_dtype
from dyn.ir.external import External, ExternalResult
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.dims import unwrap_dim
from dyn.trace.external import call_library
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]
#: Results that wait for their second call; more than these are of calls that failed in between.
_MOST_KEPT = 256


def cut(call: NodeCall, reason: str) -> Any:
    """Have TensorFlow run an operation each time the program comes by; the values of its results.

    Raises NotYetError where it takes or gives what is no array of dyn's, or results of an unknown rank.
    """
    node, trace = call.node, call.trace
    operands: list[Tracer] = []
    inputs: list[int | Any] = []
    specs: list[Any] = []
    for value in call.inputs:
        if isinstance(value, Foreign):
            inputs.append(value.tensor)
            specs.append(tf.TensorSpec(value.tensor.shape, value.tensor.dtype))
        elif isinstance(value, np.ndarray):
            inputs.append(tf.constant(value))
            specs.append(value)
        elif isinstance(value, Tracer | SizeTensor):
            made = data(trace, value)
            dims = [trace.facts.simplify(dim) for dim in made.dims]
            inputs.append(len(operands))
            operands.append(made)
            shape = [dim if isinstance(dim, int) else None for dim in dims]
            specs.append(tf.TensorSpec(shape, made.element_type.name))
        else:
            raise NotYetError(f"{reason} It is given a {type(value).__name__}, which TensorFlow cannot be handed.")
    function = _function(call, specs)
    outputs = list(function.outputs)
    for tensor in outputs:
        if dyn_dtype(tensor.dtype.name) is None:
            raise NotYetError(f"{reason} It gives {tensor.dtype.name}, of which dyn has no arrays.")
        if tensor.shape.rank is None:
            raise NotYetError(f"{reason} It gives a tensor of an unknown rank.")
    operation = _Operation(function, tuple(inputs), tuple([isinstance(spec, np.ndarray) for spec in specs]))
    shapes: list[list[Any]] = [[*tensor.shape] for tensor in outputs]
    name = f"{node.op} ({node.name}) in TensorFlow"
    unknown = [(n, axis) for n, shape in enumerate(shapes) for axis, size in enumerate(shape) if size is None]
    if unknown:
        sizes, token = _call(
            call, External(name, user_loc(), _First(operation, tuple(unknown)), borrows=True), operands,
            [(len(unknown),), ()], [np.dtype("int64")] * 2,
        )  # fmt: skip
        for place, (number, axis) in enumerate(unknown):
            shapes[number][axis] = lax.as_dim(sizes[place], name=f"size{axis}")
        operands = [*operands, token]
        operation = _Second(operation)
    external = External(name, user_loc(), operation, vmap_method="sequential", borrows=True)
    dtypes = [np.dtype(tensor.dtype.as_numpy_dtype) for tensor in outputs]
    return _call(call, external, operands, shapes, dtypes)


def _call(
    call: NodeCall, external: External, operands: Sequence[Tracer], shapes: Sequence[Any], dtypes: Sequence[Any]
) -> Any:
    dims = [[cast(Dim, unwrap_dim(size)) for size in shape] for shape in shapes]
    return call_library(call.trace, external, operands, dims, list(map(dyn_dtypes.dtype, dtypes)))


def _function(call: NodeCall, specs: Sequence[Any]) -> Any:
    """The operation as a concrete function; constants among ``specs`` are known to it."""
    definition = tf.compat.v1.GraphDef()
    definition.library.CopyFrom(call.evaluation.library.proto)
    own = definition.node.add()
    own.CopyFrom(call.node.proto)
    own.ClearField("input")
    own.name = "operation"
    for name in list(own.attr):
        if name.startswith("_"):
            del own.attr[name]
    for number, spec in enumerate(specs):
        stand_in = definition.node.add()
        stand_in.name, stand_in.op = f"given{number}", "Placeholder"
        dtype = tf.as_dtype(spec.dtype)
        stand_in.attr["dtype"].type = dtype.as_datatype_enum
        own.input.append(f"given{number}:0")
    count = sum([n for _, n in call.evaluation.library.outputs_of(call.node.proto)])

    def run(*tensors: Any) -> Any:
        given = iter(tensors)
        mapped = {
            f"given{number}:0": tf.constant(spec) if isinstance(spec, np.ndarray) else next(given)
            for number, spec in enumerate(specs)
        }
        return tf.import_graph_def(definition, mapped, [f"operation:{n}" for n in range(count)], name="")

    return tf.compat.v1.wrap_function(run, [spec for spec in specs if not isinstance(spec, np.ndarray)])


@dataclass(frozen=True, eq=False, slots=True)
class _Operation:
    """A concrete function with its inputs: numbers of operands, and tensors; ``skipped`` are constants in it."""

    function: Any
    inputs: tuple[Any, ...]
    skipped: tuple[bool, ...]

    def run(self, arrays: Sequence[Array]) -> list[Any]:
        given = [
            from_array(np.array(arrays[one])) if isinstance(one, int) else one
            for one, is_constant in zip(self.inputs, self.skipped, strict=True)
            if not is_constant
        ]
        made = self.function(*given)
        return list(made) if isinstance(made, list | tuple) else [made]

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> list[Array]:
        return [to_array(one) for one in self.run(arrays)]


class _PendingResults:
    """Results that were computed and not taken yet, by number."""

    def __init__(self) -> None:
        self._lock, self._numbers = lock(), itertools.count()
        self._results: OrderedDict[int, list[Array]] = OrderedDict()

    def put(self, results: list[Array]) -> int:
        with self._lock:
            number = next(self._numbers)
            self._results[number] = results
            while len(self._results) > _MOST_KEPT:
                self._results.popitem(last=False)
        return number

    def take(self, number: int) -> list[Array] | None:
        with self._lock:
            return self._results.pop(number, None)


_KEPT = _PendingResults()


@dataclass(frozen=True, eq=False, slots=True)
class _First:
    """The first call: the open sizes, and the number of the results."""

    operation: _Operation
    unknown: tuple[tuple[int, int], ...]

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> list[Array]:
        results = self.operation(arrays, ())
        sizes = np.array([results[number].shape[axis] for number, axis in self.unknown], np.int64)
        return [sizes, np.array(_KEPT.put(results), np.int64)]


@dataclass(frozen=True, eq=False, slots=True)
class _Second:
    """The second call, which takes the results; it computes them again where they are gone."""

    operation: _Operation

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> list[Array]:
        found = _KEPT.take(int(arrays[-1]))
        return self.operation(arrays[:-1], ()) if found is None else found
