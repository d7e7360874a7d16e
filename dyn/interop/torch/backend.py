"""``torch.compile(model, backend="dyn")``: the graphs that Dynamo finds, forward and backward, compiled by dyn.

AOTAutograd makes of each graph one for the results and one for the gradients, of ATen operations without writes. Each
is a function like any other to :func:`dyn.interop.torch.jit`. Its sizes are those that Dynamo has made symbolic:
arguments that are sizes are read off the tensors that have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from dyn.errors import ArgumentError, NotYetError
from dyn.interop.torch.jit import TorchJitted


def backend(
    graph: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: what ``torch.compile(backend="dyn")`` calls.

    Every ``mode`` is the same. Raises ArgumentError for ``options``, of which there are none.
    """
    if options:
        raise ArgumentError(
            f"torch.compile(backend='dyn') has no option {', '.join(sorted(options))}.", remedy="leave options= out."
        )
    decompositions = core_aten_decompositions()
    # PyTorch's own writes the sums of the forward pass with another rank than the derivative, which stays whole, reads.
    decompositions.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    compiler = aot_autograd(
        fw_compiler=compiled, bw_compiler=compiled, inference_compiler=compiled, decompositions=decompositions
    )
    return compiler(graph, example_inputs)


def compiled(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph of ATen operations as a function that takes its arguments in a list, which it empties."""
    inputs = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    #: An axis that is the symbol, for each.
    places: dict[Any, tuple[int, int]] = {}
    for number, value in enumerate(tensors):
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt):
                places.setdefault(cast(Any, size.node).expr, (number, axis))
    for value in inputs:
        _check_input(value, places)

    def function(*given: Any) -> Any:
        sizes = {symbol: given[number].shape[axis] for symbol, (number, axis) in places.items() if symbol.is_symbol}
        left = iter(given)
        return graph(*[_argument(value, left, sizes) for value in inputs])

    function.__name__ = function.__qualname__ = "graph"
    jitted = TorchJitted(function, [_declared(value.shape) for value in tensors])

    def run(*arguments: Any) -> Any:
        with torch.no_grad():
            return jitted(*[argument for argument in arguments if isinstance(argument, torch.Tensor)])

    return make_boxed_func(run)


def _check_input(value: Any, places: Mapping[Any, tuple[int, int]]) -> None:
    """Raise NotYetError for an argument of a graph that is no tensor, and no size that tensors say."""
    if isinstance(value, torch.Tensor):
        return
    if not isinstance(value, torch.SymInt):
        raise NotYetError(f"a graph with a {type(value).__name__} as an argument.")
    for symbol in value.node.expr.free_symbols:
        if symbol not in places:
            raise NotYetError(f"a graph with the size {symbol} as an argument that no tensor has.")


def _argument(value: Any, tensors: Iterator[Any], sizes: Mapping[Any, Any]) -> Any:
    """An argument of the graph: the next tensor, or a size computed from those of the tensors."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    return sympy_interp(PythonReferenceAnalysis, dict(sizes), value.node.expr)


def _declared(shape: Sequence[Any]) -> str:
    """How a shape is declared to ``dyn.jit``: by numbers and names; sizes that are computed by nothing."""
    if not shape:
        return "()"
    names = [str(size) if isinstance(size, int) else str(size.node.expr) for size in shape]
    return " ".join([name if name.isdigit() or name.isidentifier() else "_" for name in names])
