"""The table of operations: how each is written with dyn's ops, and what its schema says that it writes.

The modules of :mod:`dyn.interop.torch.aten` fill it, and :mod:`dyn.interop.torch.tracing` looks operations up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.interop.torch.layouts import Order
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

if TYPE_CHECKING:
    from dyn.interop.torch.tracing import TorchTracing


@record()
class Converter:
    """The translation of one ATen operator into dyn's ops.

    ``run`` takes the call as PyTorch made it, and returns the values of its results. ``order`` is the order of axes in
    which these lie in memory, by the arguments' orders; a list has one for each result.
    """

    run: Callable[[TorchTracing, tuple[Any, ...], dict[str, Any]], Any]
    order: Callable[[Sequence[Any], dict[str, Any]], Order | list[Order | None] | None] = lambda args, kwargs: None


@record()
class View:
    """The translation of one ATen operator whose result is a view: reads of it, writes through it, its order of axes.

    ``read`` returns the view's value, ``write`` the tensor's after the view was written. Each takes the rest of the
    operation's arguments, sizes among them as dyn's. With ``is_dense`` a view of a tensor without gaps has none; with
    ``in_rows`` that of one that lies in rows lies in rows. ``place`` finds strides and the offset of the view from
    those of the tensor, where numbers are symbolic or known at run time only: PyTorch's own way to them asks for these.
    With ``is_placed`` it finds those that PyTorch would, which is then not asked at all.
    """

    read: Callable[..., Any]
    write: Callable[..., Tracer] | None
    order: Callable[..., Order | None] | None
    is_dense: bool
    in_rows: bool
    place: Callable[..., tuple[list[Dim], Dim]] | None = None
    is_placed: bool = False


#: By the operation, ``torch.ops.aten.add.Tensor``, or by its name where a library of its own defines it; filled by the
#: modules of ``dyn.interop.torch.aten``.
CONVERTERS: dict[Any, Converter] = {}
VIEWS: dict[Any, View] = {}
#: Operations in place that are more than their functional sibling and a write.
IN_PLACE: dict[Any, Callable[[TorchTracing, tuple[Any, ...], dict[str, Any]], Any]] = {}
#: Operations of other libraries that are written by PyTorch's own, on traced tensors, by their names.
WRITTEN: dict[str, Callable[..., Any]] = {}
#: How an operation of functions is written, ``torch.ops.higher_order.cond``: it takes the call as PyTorch made it.
HIGHER_ORDER: dict[Any, Callable[..., Any]] = {}


def converter_of(func: Any) -> Converter | None:
    """The converter of an operation; None where there is none."""
    found = CONVERTERS.get(func)
    if found is None and isinstance(func, OpOverload) and func.namespace != "aten":
        return CONVERTERS.get(func.name())
    return found


def unconverted(func: Any) -> NotYetError:
    return NotYetError(f"{func} has no converter.", loc=user_loc(), remedy="call it outside of the function.")


@functools.cache
def gives_views(func: Any) -> bool:
    """Return True if results of an operation may share memory with its arguments, by its schema."""
    return any(result.alias_info is not None for result in func._schema.returns)


def is_composite(func: Any) -> bool:
    """Whether PyTorch takes an operation apart where autograd is."""
    if not isinstance(func, OpOverload) or not torch._C._dispatch_has_kernel(func.name()):  # TorchScript's own
        return False
    return func._can_decompose()


@functools.cache
def gives_what_it_writes(func: Any) -> bool:
    """Whether an operation writes to its first argument and gives that: autograd records it then."""
    returns = func._schema.returns
    return bool(returns) and returns[0].alias_info is not None and returns[0].alias_info.is_write


@functools.cache
def is_written(func: Any) -> bool:
    """Whether an operation writes to one of its arguments."""
    return any(arg.alias_info is not None and arg.alias_info.is_write for arg in func._schema.arguments)


@functools.cache
def functional(func: Any) -> Any:
    """The operation that gives what ``func`` writes: ``add.Tensor`` of ``add_.Tensor`` and of ``add.out``; None
    where there is none."""
    namespace, _, name = func._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    if packet is None:
        return None
    wanted = [(arg.name, str(arg.type)) for arg in func._schema.arguments if arg.name != "out"]
    for overload in packet.overloads():
        found = getattr(packet, overload)
        if is_written(found):
            continue
        if [(arg.name, str(arg.type)) for arg in found._schema.arguments] == wanted:
            return found
    return None
