"""A PyTorch function that is run once, on tensors without elements, and leaves a program of dyn's.

:class:`Tracing` is a mode of PyTorch's dispatcher: each ATen operation that the function comes to, below autograd and
below composite operations, arrives here, and is one of these:

- an operation with a converter (:mod:`dyn.interop.torch.aten`), which writes it as ops of dyn's;
- a view, of which the storage is kept in mind (:mod:`dyn.interop.torch.tensors`);
- an operation in place, which is its functional sibling and a write;
- one that PyTorch itself knows to write by others (``torch._decomp``).

Tensors that the function closes over, parameters first of all, are captured: read at each call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from dyn.dtypes import DType
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.interop.torch.sizes import Environment, as_dyn, as_torch
from dyn.interop.torch.tensors import Maker, Order, Record, Step, Storage, dyn_dtype, is_traced, record_of, torch_dtype
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Converter:
    """How an ATen operation is written with dyn's ops: ``run`` takes the call as PyTorch made it, and gives the values
    of its results. ``order`` is how they lie in memory, by the arguments' orders: each of them where it is a list.
    """

    run: Callable[[Tracing, tuple[Any, ...], dict[str, Any]], Any]
    order: Callable[[Sequence[Any], dict[str, Any]], Order | list[Order | None] | None] = lambda args, kwargs: None


@dataclass(frozen=True, slots=True)
class View:
    """How a view operation is written: what it reads of a tensor's value, what it writes back, and its order.

    Each takes the rest of the operation's arguments, sizes among them as dyn's. With ``in_rows`` the view of what lies
    in rows lies in rows.
    """

    read: Callable[..., Any]
    write: Callable[..., Tracer] | None
    order: Callable[..., Order | None] | None
    in_rows: bool


#: By the operation, ``torch.ops.aten.add.Tensor``; filled by the modules of ``dyn.interop.torch.aten``.
CONVERTERS: dict[Any, Converter] = {}
VIEWS: dict[Any, View] = {}
#: Operations in place that are more than their functional sibling and a write.
IN_PLACE: dict[Any, Callable[[Tracing, tuple[Any, ...], dict[str, Any]], Any]] = {}

#: What is asked of a tensor itself.
_OF_THE_TENSOR = {torch.ops.prim.device.default}


class Tracing(TorchDispatchMode):
    """The trace of a PyTorch function, in ``trace``."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace
        self.env = Environment(trace)
        self.maker = Maker(self.env)
        #: The tensors that the function closes over, by identity, with the traced tensors that stand for them.
        self.captured: dict[int, tuple[torch.Tensor, Any]] = {}

    # Tensors from outside -----------------------------------------------------------------------------------------

    def argument(self, value: Tracer, dtype: torch.dtype, device: torch.device, number: int) -> Any:
        """The traced tensor of an argument."""
        made: Any = self.maker.fake(value, dtype, device)
        made._dyn = Record(Storage(value, given=number))
        return made

    def capture(self, tensor: torch.Tensor) -> Any:
        """The traced tensor of one that the function closes over."""
        found = self.captured.get(id(tensor))
        if found is None:
            dtype = self.dtype(tensor.dtype)
            plain = tensor.detach()
            value = Tracer(self.trace, self.trace.captured(plain, dtype, tuple(tensor.shape), "parameter"))
            made: Any = self.maker.strided(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
            made._dyn = Record(Storage(value))
            found = self.captured[id(tensor)] = tensor, made
        return found[1]

    def dtype(self, dtype: torch.dtype) -> DType:
        """dyn's dtype for PyTorch's."""
        own = dyn_dtype(dtype)
        if own is None:
            raise UnsupportedOpError(f"dyn has no arrays of {dtype}.", loc=user_loc(), remedy="use another dtype.")
        return own

    # Operations ---------------------------------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args = tree_map(self._taken, args)
        kwargs = {name: tree_map(self._taken, arg) for name, arg in (kwargs or {}).items()}
        if func in _OF_THE_TENSOR:
            return args[0].fake_device
        if func in IN_PLACE:
            return IN_PLACE[func](self, args, kwargs)
        view = VIEWS.get(func)
        if view is not None:
            return self._viewed(func, view, args, kwargs)
        converter = CONVERTERS.get(func)
        if converter is not None:
            return self._converted(func, converter, args, kwargs)
        if _is_written(func) and functional(func) is not None:
            return self._in_place(func, args, kwargs)
        with self:
            if func in decomposition_table:
                return decomposition_table[func](*args, **kwargs)
            made = func.decompose(*args, **kwargs)
        if made is NotImplemented:
            raise NotYetError(f"{func} has no converter.", loc=user_loc(), remedy="call it outside of the function.")
        return made

    def _taken(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not is_traced(value):
            if isinstance(value, FakeTensor):
                raise UnsupportedOpError("a tensor of another trace.", loc=user_loc(), remedy="pass it as an argument.")
            return self.capture(value)
        return value

    def value(self, given: Any) -> Any:
        """What a converter computes with: the value of a tensor, the dim of a size, anything else as it is."""
        if isinstance(given, FakeTensor):
            return record_of(given).value
        if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
            return as_dyn(self.trace, given)
        if isinstance(given, list | tuple):
            return [self.value(one) for one in given]
        return given

    def _converted(self, func: Any, converter: Converter, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = _device(args, kwargs)
        made = converter.run(self, args, kwargs)
        order = converter.order(args, kwargs)
        if isinstance(made, Tracer):
            assert not isinstance(order, list), "one result has one order"
            return self._fresh(made, device, order)
        orders = order if isinstance(order, list) else [order] * len(made)
        return type(made)([self._fresh(one, device, own) for one, own in zip(made, orders, strict=True)])

    def _fresh(self, value: Tracer | None, device: torch.device, order: Order | None) -> Any:
        if value is None:
            return None
        dtype = torch_dtype(value.element_type)
        assert dtype is not None, "values of a trace of PyTorch have dtypes of its"
        return self.maker.fresh(value, dtype, device, order)

    def _viewed(self, func: Any, view: View, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        parent = record_of(args[0])
        if view.in_rows and parent.is_dense and parent.order is None:
            return self._viewed_in_rows(args[0], view, args, kwargs)
        try:
            with self.maker.mode:
                made = func(*args, **kwargs)
        except ValueError:
            if not view.in_rows:
                raise
            # Our strides are not PyTorch's to the last: what it views, and we cannot, is a tensor of its own.
            rest = [self.value(arg) for arg in args[1:]]
            return self._fresh(view.read(parent.value, *rest), _device(args, kwargs), None)
        rest = [self.value(arg) for arg in args[1:]]
        named = {name: self.value(arg) for name, arg in kwargs.items()}
        several = not isinstance(made, torch.Tensor)
        if several:
            rest.append([[as_dyn(self.trace, n) for n in one.shape] for one in made])
        views: Sequence[Any] = made if several else (made,)
        for number, one in enumerate(views):
            given = [*rest, number] if several else rest
            one._dyn = _view_record(parent, view, given, named)
        return made

    def _viewed_in_rows(self, whole: Any, view: View, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A view of elements that lie in rows, whose own do so too: its sizes are all there is to know."""
        rest = [self.value(arg) for arg in args[1:]]
        record = _view_record(record_of(whole), view, rest, {name: self.value(arg) for name, arg in kwargs.items()})
        sizes, strides = self.maker.rows(record.value.dims)
        with self.maker.mode:
            made: Any = torch.as_strided(whole, sizes, strides, whole.storage_offset())
        made._dyn = record
        return made

    def _in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sibling = functional(func)
        if func._schema.name.endswith("_"):
            target = args[0]
        else:
            kwargs = dict(kwargs)
            target = kwargs.pop("out")
        with self:
            result = sibling(*args, **kwargs)
        self.write(target, record_of(result).value)
        return target

    def write(self, target: Any, value: Tracer) -> None:
        """Give a tensor the elements of a value, in its dtype and shape."""
        record = record_of(target)
        own = record.value
        if value.element_type is not own.element_type:
            value = value.astype(own.element_type.np)
        if value.dims != own.dims:
            value = self.trace.namespace.broadcast_to(value, own.shape)
        record.write(value)


def _view_record(parent: Record, view: View, rest: Sequence[Any], named: dict[str, Any]) -> Record:
    read, write = view.read, view.write
    step = Step(
        lambda whole: read(whole, *rest, **named),
        None if write is None else lambda whole, new: write(whole, new, *rest, **named),
    )
    if view.order is not None and parent.is_dense:
        return Record(parent.storage, parent, step, view.order(parent, *rest, **named))
    return Record(parent.storage, parent, step, is_dense=view.in_rows and parent.is_dense and parent.order is None)


def _device(args: Sequence[Any], kwargs: dict[str, Any]) -> torch.device:
    """Where results are: where it is said, or where the first tensor is."""
    said = kwargs.get("device")
    if said is not None:
        return torch.device(said)
    for arg in args:
        if isinstance(arg, FakeTensor):
            return arg.fake_device
        if isinstance(arg, list | tuple) and arg and isinstance(arg[0], FakeTensor):
            return arg[0].fake_device
    return torch.device("cpu")


@functools.cache
def _is_written(func: Any) -> bool:
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
        if _is_written(found):
            continue
        if [(arg.name, str(arg.type)) for arg in found._schema.arguments] == wanted:
            return found
    return None


__all__ = ["CONVERTERS", "IN_PLACE", "VIEWS", "Converter", "Tracing", "View", "as_torch", "functional"]
