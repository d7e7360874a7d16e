"""How converters are registered: ``@converts("mm.default")``, ``@pointwise("add.Tensor")``, ``@view("t.default")``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch._subclasses.fake_tensor import FakeTensor

import dyn.numpy as dnp
from dyn.interop.torch.converters import CONVERTERS, IN_PLACE, VIEWS, WRITTEN, Converter, View
from dyn.interop.torch.installed import missing
from dyn.interop.torch.iteration import iteration_order
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.tensors import known_dtype, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.trace.tracer import Tracer

#: What is asked of sizes here is asked by the operation that the user calls.
ASKS_FOR_OTHERS = True

Function = Callable[..., Any]
#: How the dtypes of operands make that of the results and that of the computation, as PyTorch names the ways.
Promotion = ELEMENTWISE_TYPE_PROMOTION_KIND


#: Operations that some of the versions that dyn works with have not: PyTorch 2.14 writes it by others.
_GONE = frozenset(["cholesky.default"])


def operation(name: str) -> Any:
    """``aten.add.Tensor`` of its name without the first part; other namespaces are written out, ``prims::…``.

    A name without an overload is that of a library that may not be imported yet: it stays a name, as does that of an
    operation that this version has not and need not have. BackendUnavailableError says which other one is missing.
    """
    namespace, _, rest = name.rpartition("::")
    packet, _, overload = rest.partition(".")
    if not overload:
        return name
    found = getattr(getattr(getattr(torch.ops, namespace or "aten"), packet, None), overload, None)
    if found is None and name not in _GONE:
        raise missing(f"torch.ops.{namespace or 'aten'}.{rest}")
    return name if found is None else found


def axis_of(axis: int, rank: int) -> int:
    """The axis that a number names, which counts from the end where it is negative."""
    return axis + rank if axis < 0 else axis


def converts(*names: str, order: Any = None, numbers: Sequence[int] = ()) -> Callable[[Function], Function]:
    """Register a function of values and sizes as the converter of operations.

    Of the arguments in the positions ``numbers``, lists of sizes, it takes numbers: a guard says which.
    """

    def register(function: Function) -> Function:
        @functools.wraps(function)
        def run(tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if numbers:
                args = tuple([[int(n) for n in arg] if i in numbers else arg for i, arg in enumerate(args)])
            return function(*tracing.value(args), **{name: tracing.value(arg) for name, arg in kwargs.items()})

        for name in names:
            CONVERTERS[operation(name)] = Converter(run) if order is None else Converter(run, order)
        return function

    return register


def takes_call(*names: str, order: Any = None) -> Callable[[Function], Function]:
    """Register a function of the trace and the arguments as PyTorch passes them, for what depends on their types."""

    def register(function: Function) -> Function:
        @functools.wraps(function)
        def run(tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return function(tracing, *args, **kwargs)

        for name in names:
            CONVERTERS[operation(name)] = Converter(run) if order is None else Converter(run, order)
        return function

    return register


def operands_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """The order in memory of a result of all operands, as PyTorch's iterator over elements has it."""
    return iteration_order([*args, *kwargs.values()])


def kept_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """The order in memory of the first argument."""
    return iteration_order(args[:1])


def kept_orders(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Order | None]:
    """The order in memory of the first argument, of two results."""
    return [kept_order(args, kwargs)] * 2


def format_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """Channels last where the first argument lies so, and rows otherwise: PyTorch's ``suggest_memory_format``."""
    order = kept_order(args, kwargs)
    return order if order in CHANNELS_LAST.values() else None


def shared_order(tensors: Sequence[Any]) -> Order | None:
    """The order in memory of tensors of full rank, where it is one for all of them; rows otherwise."""
    given = [one for one in tensors if isinstance(one, FakeTensor)]
    rank = max([tensor.ndim for tensor in given], default=0)
    orders = {record_of(tensor).order for tensor in given if tensor.ndim == rank}
    return orders.pop() if len(orders) == 1 else None


def pointwise(
    *names: str, promotion: Promotion = Promotion.DEFAULT, operands: int = 0, order: Any = operands_order
) -> Callable[[Function], Function]:
    """Register a function of one element of each operand, broadcast together.

    Operands are the first ``operands`` arguments. They come in the dtype that PyTorch computes in, and the result
    gets the one that PyTorch gives it.
    """

    def register(function: Function) -> Function:
        @functools.wraps(function)
        def run(tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            given = args[:operands]
            tracing.decide_broadcast(given)
            computed, result = elementwise_dtypes(*map(_typed, given), type_promotion_kind=promotion)
            values = [cast(tracing.value(arg), known_dtype(computed)) for arg in given]
            rest = [tracing.value(arg) for arg in args[operands:]]
            made = function(*values, *rest, **{name: tracing.value(arg) for name, arg in kwargs.items()})
            return cast(made, known_dtype(result))

        for name in names:
            CONVERTERS[operation(name)] = Converter(run, order)
        return function

    return register


def _typed(arg: Any) -> Any:
    """An operand for ``elementwise_dtypes``, which asks numbers for their types alone."""
    if isinstance(arg, torch.SymInt):
        return 1
    return 1.0 if isinstance(arg, torch.SymFloat) else arg


def cast(value: Any, dtype: Any) -> Tracer:
    """A value or number as a value of a dtype."""
    if isinstance(value, Tracer) and value.element_type is dtype and not value.weak:
        return value
    if not isinstance(value, Tracer):
        return dnp.asarray(value, dtype=dtype.np)
    return value.astype(dtype.np)


CHANNELS_LAST = {torch.channels_last: (0, 2, 3, 1), torch.channels_last_3d: (0, 2, 3, 4, 1)}


def named_order(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """The order of ``memory_format=``; that of the first argument where none is named, or it is to be preserved."""
    wanted = kwargs.get("memory_format")
    if wanted in (None, torch.preserve_format):
        return kept_order(args, kwargs)
    return CHANNELS_LAST.get(wanted)


def view(
    *names: str, write: Callable[..., Tracer] | None = None, order: Callable[..., Order | None] | None = None,
    is_dense: bool = False, in_rows: bool = False, place: Callable[..., Any] | None = None, is_placed: bool = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """Register a function of a value and sizes as what a view reads.

    ``write(whole, new, *rest)`` is the whole value once the view is ``new``; ``order(record, *rest)`` the order of the
    view's axes in memory, rows where it is left out. What the others say: :class:`View`.
    """

    def register(function: Function) -> Function:
        for name in names:
            VIEWS[operation(name)] = View(function, write, order, is_dense, in_rows, place, is_placed)
        return function

    return register


def in_place(*names: str) -> Callable[[Function], Function]:
    """Register a function of the trace and the arguments as PyTorch passes them, which writes to one of them, or has
    an answer that is no tensor."""

    def register(function: Function) -> Function:
        @functools.wraps(function)
        def run(tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return function(tracing, *args, **kwargs)

        for name in names:
            IN_PLACE[operation(name)] = run
        return function

    return register


def writes_out(*names: str) -> Callable[[Function], Function]:
    """Register a function of PyTorch's tensors as what operations of another library are, which need not be imported:
    ``quantized_decomposed::quantize_per_tensor.tensor``."""

    def register(function: Function) -> Function:
        for name in names:
            WRITTEN[name] = function
        return function

    return register
