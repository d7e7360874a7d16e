"""Tensors of a PyTorch function that is traced: what torch sees of one, and the value that dyn's program has for it.

To PyTorch a traced tensor is a ``FakeTensor``: sizes and strides (of dyn's dims), dtype and device, and no elements.
Its elements are a value of the program. PyTorch's tensors share memory, and values do not: a :class:`Storage` has the
value of the memory, in its order, and a tensor is the steps that lead to it from there. What is written to a view goes
back the same steps, and every other view of the storage reads it when it is asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.interop.torch.layouts import Layout, Order
from dyn.interop.torch.sizes import Environment, FloatNode, as_torch
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: Where memory comes from that the program does not allocate: an argument or a captured tensor, by number.
Origin = tuple[Literal["argument", "captured"], int]

_DTYPES: dict[torch.dtype, DType] = {getattr(torch, d.name): d for d in dtypes.ALL if hasattr(torch, d.name)}
_TORCH_DTYPES = {own: theirs for theirs, own in _DTYPES.items()}


def dyn_dtype(dtype: torch.dtype) -> DType | None:
    """dyn's dtype for PyTorch's; None where it has none."""
    return _DTYPES.get(dtype)


def known_dtype(dtype: torch.dtype) -> DType:
    """dyn's dtype for PyTorch's; UnsupportedOpError where it has none."""
    own = dyn_dtype(dtype)
    if own is None:
        raise UnsupportedOpError(f"dyn has no arrays of {dtype}.", loc=user_loc(), remedy="use another dtype.")
    return own


def numpy_dtype(dtype: torch.dtype) -> Any:
    """NumPy's dtype for PyTorch's; UnsupportedOpError where dyn has none."""
    return known_dtype(dtype).np


def torch_dtype(dtype: DType) -> torch.dtype | None:
    """PyTorch's dtype for dyn's; None where it has none."""
    return _TORCH_DTYPES.get(dtype)


@dataclass(frozen=True, slots=True)
class Step:
    """From a tensor to a view of it: ``read`` gives the view's value, ``write`` the tensor's when the view is written.

    ``write`` is None for what PyTorch lets nobody write to.
    """

    read: Callable[[Tracer], Tracer]
    write: Callable[[Tracer, Tracer], Tracer] | None


@dataclass(frozen=True, slots=True)
class ViewCall:
    """The operation that made a view, to be made again of another tensor: ``func(tensor, *rest, **named)``.

    ``number`` is that of the view, where the operation makes several.
    """

    func: Any
    rest: tuple[Any, ...]
    named: dict[str, Any]
    number: int | None = None


class Storage:
    """Memory that tensors share: the value of its elements in the order of memory, and how often it was written.

    ``order`` has the axes of the tensor whose memory it is, outermost first; None for rows. ``origin`` is None where
    the program allocates it; ``outside`` is the argument or captured array, as the caller has it.
    """

    __slots__ = ("order", "origin", "outside", "value", "version")

    def __init__(self, value: Tracer, order: Order | None = None, origin: Origin | None = None) -> None:
        self.value, self.order, self.origin = value, order, origin
        self.outside: Tracer | None = None
        self.version = 0


class Record:
    """Value of a traced tensor: a view of a storage, or all of it.

    ``order`` has its axes by their strides, greatest first; None for rows. Whether the elements lie one after the
    other, without gaps, ``is_dense`` tells. ``call`` is the operation that made the view of ``parent``.
    """

    __slots__ = ("_value", "_version", "call", "is_dense", "order", "parent", "step", "storage")

    def __init__(
        self, storage: Storage, parent: Record | None = None, step: Step | None = None, order: Order | None = None,
        is_dense: bool = True, call: ViewCall | None = None,
    ) -> None:  # fmt: skip
        self.storage, self.parent, self.step, self.order, self.is_dense = storage, parent, step, order, is_dense
        self.call = call
        self._value: Tracer | None = None
        self._version = -1

    @staticmethod
    def of_memory(logical: Tracer, order: Order | None, origin: Origin | None = None, is_dense: bool = True) -> Record:
        """The record of a tensor that has a storage of its own, of its value."""
        if order is None or not is_dense:
            return Record(Storage(logical, None, origin), order=order, is_dense=is_dense)
        storage = Storage(dnp.transpose(logical, order), order, origin)
        back = inverse(order)
        step = Step(lambda memory: dnp.transpose(memory, back), lambda memory, new: dnp.transpose(new, order))
        record = Record(storage, None, step, order)
        record._value, record._version = logical, storage.version
        return record

    @property
    def root(self) -> Record:
        """The record of the tensor that has all of the memory."""
        return self if self.parent is None else self.parent.root

    def of(self, other: Record) -> Record:
        """The same view of another tensor that has all of its memory."""
        if self.parent is None:
            return other
        return Record(other.storage, self.parent.of(other), self.step, self.order, self.is_dense, self.call)

    @property
    def value(self) -> Tracer:
        """The value as it is now."""
        if self.step is None:
            return self._base()
        if self._value is None or self._version != self.storage.version:
            self._value, self._version = self.step.read(self._base()), self.storage.version
        return self._value

    def _base(self) -> Tracer:
        """The value that the step starts from."""
        return self.storage.value if self.parent is None else self.parent.value

    def write(self, value: Tracer) -> None:
        """Give the tensor, and with it all that share its memory, other elements."""
        self._put(value)
        self.storage.version += 1

    def _put(self, value: Tracer) -> None:
        if self.step is not None:
            if self.step.write is None:
                raise UnsupportedOpError(
                    "a tensor of which several elements share memory is written to.",
                    loc=user_loc(),
                    remedy="write to a clone() of it, as PyTorch asks for too.",
                )
            value = self.step.write(self._base(), value)
        if self.parent is None:
            self.storage.value = value
        else:
            self.parent._put(value)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


def record_of(tensor: Any) -> Record:
    """What dyn keeps of a traced tensor."""
    return tensor._dyn


def is_traced(value: object) -> bool:
    """Whether it is a tensor of a trace."""
    return isinstance(value, FakeTensor) and hasattr(value, "_dyn")


def float_of(tensor: torch.Tensor) -> Any:
    """The number in a tensor of one: a float, or of a traced tensor a ``torch.SymFloat`` that the program computes."""
    if not isinstance(tensor, FakeTensor):
        return tensor.item()
    env: Any = tensor.fake_mode.shape_env
    return torch.SymFloat(cast(Any, FloatNode(env, record_of(tensor).value)))


class Maker:
    """Makes the traced tensors of one trace."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.mode = FakeTensorMode(shape_env=env, static_shapes=False)  # pyright: ignore[reportArgumentType]
        # Its cache is keyed by the expressions of PyTorch's own nodes.
        self.mode.cache_enabled = False

    def fresh(self, value: Tracer, dtype: torch.dtype, device: torch.device, order: Order | None = None) -> FakeTensor:
        """A tensor with memory of its own, whose axes lie in it in ``order``."""
        return self.made(Record.of_memory(value, order), *self.rows(value.dims, order), dtype, device)

    def given(
        self, value: Tracer, layout: Layout, dtype: torch.dtype, device: torch.device, origin: Origin
    ) -> FakeTensor:
        """A tensor from outside of the function, of whose memory ``value`` is read."""
        record = Record.of_memory(value, layout.order, origin, is_dense=layout.is_dense)
        record.storage.outside = value
        sizes = [as_torch(self.env, dim) for dim in value.dims]
        strides = [as_torch(self.env, stride) for stride in layout.strides(value.dims)]
        return self.made(record, sizes, strides, dtype, device)

    def rows(self, dims: Sequence[Dim], order: Order | None = None) -> tuple[list[Any], list[Any]]:
        """The sizes and strides of elements that lie one after the other, in rows or in another ``order`` of axes."""
        strides = Layout(order).strides(dims)
        return [as_torch(self.env, dim) for dim in dims], [as_torch(self.env, stride) for stride in strides]

    def made(self, record: Record, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> FakeTensor:
        """A tensor of a record."""
        with _disable_current_modes():
            meta = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
            fake: Any = FakeTensor(self.mode, meta, device)
            torch._C._set_throw_on_mutable_data_ptr(fake)  # it has no address to compute with
        fake._dyn = record
        return fake
