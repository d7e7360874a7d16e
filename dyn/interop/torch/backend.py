"""``torch.compile(model, backend="dyn")``: the graphs that Dynamo finds, forward and backward, compiled by dyn.

AOTAutograd makes of each graph one for the results and one for the gradients, of ATen operations without writes. Each
is a function like any other to :func:`dyn.interop.torch.jit`. Its sizes are those that Dynamo has made symbolic:
arguments that are sizes are read off the tensors that have them, and other numbers come as tensors that carry them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, cast

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from dyn.errors import ArgumentError
from dyn.interop.torch.dynamic_shapes import Axis, Declared
from dyn.interop.torch.jit import TorchJitted
from dyn.interop.torch.tensors import float_of
from dyn.source import Loc

#: The modes of ``torch.compile``: dyn has one way to compile, whichever is asked for.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIONS = ("strict",)


def backend(
    graph: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: what ``torch.compile(backend="dyn")`` calls.

    Every ``mode`` is the same. ``options={"strict": True}`` has an error where an operation or a graph would be left to
    eager PyTorch, as ``strict=`` of ``dyn.interop.torch.jit`` does. Raises ArgumentError for other modes and options.
    """
    given = dict(options or {})
    unknown = sorted(given.keys() - set(OPTIONS))
    if unknown:
        raise ArgumentError(
            f"torch.compile(backend='dyn') has no option {', '.join(unknown)}.", remedy=f"it has {', '.join(OPTIONS)}."
        )
    strict = given.get("strict", False)
    if not isinstance(strict, bool):
        raise ArgumentError(f"the option strict of torch.compile(backend='dyn') is {strict!r}.", remedy="pass a bool.")
    if mode is not None and mode not in MODES:
        raise ArgumentError(
            f"torch.compile(backend='dyn') has no mode {mode!r}.", remedy=f"it has {', '.join(MODES)}, all of them one."
        )
    decompositions = core_aten_decompositions()
    # PyTorch's own writes the sums of the forward pass with another rank than the derivative, which stays whole, reads.
    decompositions.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    compiler = functools.partial(compiled, strict=strict)
    compile_all = aot_autograd(
        fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions
    )
    return compile_all(graph, example_inputs)


def compiled(graph: Any, example_inputs: Sequence[Any], *, strict: bool = False) -> Callable[..., Any]:
    """A graph of ATen operations as a function that takes its arguments in a list, which it empties."""
    inputs = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    #: An axis that is the symbol, for each.
    places: dict[Any, tuple[int, int]] = {}
    for number, value in enumerate(tensors):
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt):
                places.setdefault(cast(Any, size.node).expr, (number, axis))
    kinds = [_kind(value, places) for value in inputs]
    kept = [kind for kind in kinds if kind is not _Kind.SIZE]

    def function(*given: Any) -> Any:
        own = [argument for argument, kind in zip(given, kept, strict=True) if kind is _Kind.TENSOR]
        sizes = {symbol: own[number].shape[axis] for symbol, (number, axis) in places.items() if symbol.is_symbol}
        left = iter(given)
        return graph(*[_argument(kind, value, left, sizes) for kind, value in zip(kinds, inputs, strict=True)])

    function.__name__ = function.__qualname__ = "graph"
    rows = iter([_declared(value.shape) for value in tensors])
    declared = Declared(tuple([next(rows) if kind is _Kind.TENSOR else None for kind in kept if kind in _CARRIED]))
    jitted = TorchJitted.single()(function, declared, strict=strict, locate=_locator(graph))
    passed = [(number, kind) for number, kind in enumerate(kinds) if kind is not _Kind.SIZE]

    def run(arguments: list[Any]) -> Any:
        given = [_carried(kind, arguments[number]) for number, kind in passed]
        arguments.clear()
        if not torch.is_grad_enabled():  # as it is in all calls but a few
            return jitted(*given)
        with torch.no_grad():
            return jitted(*given)

    run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]  # AOTAutograd's mark
    return run


class _Kind(Enum):
    """Kind of an argument of a graph: the form in which the compiled function of tensors gets it."""

    TENSOR = "itself"
    SIZE = "computed of the sizes of tensors"
    INT = "as the sizes of a tensor without elements"
    FLOAT = "as a tensor of it"
    STATIC = "as a part of the key"


#: Those that are tensors when they get there.
_CARRIED = (_Kind.TENSOR, _Kind.INT, _Kind.FLOAT)


def _kind(value: Any, places: Mapping[Any, tuple[int, int]]) -> _Kind:
    if isinstance(value, torch.Tensor):
        return _Kind.TENSOR
    if isinstance(value, torch.SymInt):
        return _Kind.SIZE if all(symbol in places for symbol in value.node.expr.free_symbols) else _Kind.INT
    return _Kind.FLOAT if isinstance(value, torch.SymFloat) else _Kind.STATIC


def _carried(kind: _Kind, argument: Any) -> Any:
    """An argument of a call as one of the compiled function. A tensor of n by 0 takes no memory, and n is its size."""
    if kind is _Kind.INT:
        return torch.empty((max(argument, 0), max(-argument, 0), 0))
    return torch.tensor(argument, dtype=torch.float64) if kind is _Kind.FLOAT else argument


def _argument(kind: _Kind, value: Any, given: Iterator[Any], sizes: Mapping[Any, Any]) -> Any:
    """An argument of the graph: what is given, the number that it stands for, or a size computed of tensors'."""
    if kind is _Kind.SIZE:
        return sympy_interp(PythonReferenceAnalysis, dict(sizes), value.node.expr)
    argument = next(given)
    if kind is _Kind.INT:
        return argument.shape[0] - argument.shape[1]
    if kind is _Kind.FLOAT:
        return float_of(argument)
    return argument


def _locator(graph: Any) -> Callable[[Loc], Loc]:
    """A function that finds the user's line for a line of a graph's code, where there is one."""
    traces = {node.name: node.stack_trace for node in graph.graph.nodes if node.stack_trace}

    def locate(loc: Loc) -> Loc:
        lines = _LINE.findall(traces.get(loc.code.partition(" = ")[0].partition(":")[0], ""))
        return Loc(lines[-1][0], int(lines[-1][1]), lines[-1][2]) if lines else loc

    return locate


_LINE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def _declared(shape: Sequence[Any]) -> tuple[Axis, ...]:
    """How a shape is declared to ``dyn.jit``: by numbers and names; sizes that are computed by nothing."""
    names = [size if isinstance(size, int) else str(size.node.expr) for size in shape]
    return tuple([None if isinstance(name, str) and not name.isidentifier() else name for name in names])
