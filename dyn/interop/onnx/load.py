"""ONNX models as functions of dyn."""

from __future__ import annotations

import inspect
import re
from collections import namedtuple
from keyword import iskeyword
from typing import Any

from dyn.api import Jitted, jit
from dyn.dtypes import Kind
from dyn.errors import ArgumentError
from dyn.interop.onnx import ops
from dyn.interop.onnx.evaluation import GraphReader
from dyn.interop.onnx.graphs import OnnxModel, TensorInput, read
from dyn.interop.sizes.values import data
from dyn.source import user_loc
from dyn.specialize.call_arguments import check_bools
from dyn.trace.context import current_trace
from dyn.trace.lift import lift
from dyn.trace.tracer import Tracer, active_trace

#: What is asked of sizes below is asked by the model.
CALLS_USERS = True

#: The tables of operations are filled.
assert ops


def load(source: Any, *, device: str | None = None, batch_invariant: bool = False) -> Jitted:
    """ONNX model as a jitted function, for inference: callable, traceable, and inlined where another trace calls it.

    Sizes that the model leaves open are symbolic, by its own names (``batch``, ``sequence``) where it has such; those
    of one name are one size, which is checked at each call. Arithmetic of shapes stays arithmetic of dims.

    Args:
        source: path of a model, whose large arrays may lie in files beside it and are mapped; its bytes; or an
            ``onnx.ModelProto``.
        device: where it runs, as in :func:`dyn.jit`; None: where its arguments are.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, as
            :func:`dyn.jit` does.

    Returns:
        A :class:`dyn.Jitted` of the model's inputs, by position or by name, which gives its output, or a named tuple of
        several. In names, what is no identifier is ``_``.

    Raises:
        ArtifactError: for what is no sound ONNX model.
        ArgumentError: for an option that is no bool.
        UnsupportedOpError: for types that dyn has not; when traced, for operations that it has not, by their names.
        NotYetError: for versions of the operations that the ``onnx`` package here has not.
        BackendUnavailableError: without the ``onnx`` package.
    """
    check_bools("dyn.interop.onnx.load", batch_invariant=batch_invariant)
    return function_of(read(source), device=device, batch_invariant=batch_invariant)


def function_of(model: OnnxModel, *, device: str | None = None, batch_invariant: bool = False) -> Jitted:
    """A function of a model that was read."""
    names = _plain(one.name for one in model.inputs)
    outputs = _plain(model.graph.outputs)
    several: Any = None
    if len(outputs) > 1:
        several = namedtuple("Outputs", outputs)  # pyright: ignore[reportUntypedNamedTuple]

    def program(*args: Any) -> Any:
        values = [_given(one, arg) for one, arg in zip(model.inputs, args, strict=True)]
        trace = active_trace(*values) or current_trace()
        assert trace is not None, "a loaded model runs in a trace"
        made = [data(trace, one) for one in GraphReader(model).run(model.graph, values)]
        return made[0] if several is None else several(*made)

    program.__name__ = program.__qualname__ = re.sub(r"\W+", "_", model.name).strip("_") or "model"
    program.__doc__ = f"The ONNX graph {model.name or 'without a name'}."
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    program.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    shapes = ", ".join(map(_axes, model.inputs)) or None
    return jit(program, shapes=shapes, device=device, batch_invariant=batch_invariant)


#: Python's numbers become those of a kind at least as wide.
_WIDTHS = {Kind.BOOL: 0, Kind.UINT: 1, Kind.INT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def _plain(names: Any) -> list[str]:
    """Names as Python has them, each once."""
    found: list[str] = []
    for name in names:
        own = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "value"
        own = own if own.isidentifier() else f"value_{own}"
        own = f"{own}_" if iskeyword(own) else own
        while own in found:
            own += "_"
        found.append(own)
    return found


def _axes(one: TensorInput) -> str:
    return " ".join(_sizes(one)) or "()"


def _sizes(one: TensorInput) -> list[str]:
    return [str(size) if size is not None else "_" for size in one.axes]


def _given(wanted: TensorInput, given: Any) -> Tracer:
    """An argument in the trace, of the type that the model takes."""
    trace = active_trace(given) or current_trace()
    assert trace is not None, "a loaded model runs in a trace"
    value = lift(trace, given)
    if value.type.weak and _WIDTHS[value.dtype.kind] <= _WIDTHS[wanted.dtype.kind]:
        value = trace.emit("convert", value, dtype=wanted.dtype)
    if value.dtype is not wanted.dtype or len(value.shape) != len(wanted.axes):
        expected = f"{wanted.dtype.short}[{', '.join(_sizes(wanted))}]"
        raise ArgumentError(
            f"{wanted.name} is {value.type}, and the ONNX model takes {expected}.",
            loc=user_loc(),
            remedy="convert it with .astype, or give it that many axes.",
        )
    return Tracer(trace, value)
