"""Tensors of a PyTorch function that is traced: what torch sees of one, and the value that dyn's program has for it.

To PyTorch a traced tensor is a ``FakeTensor``: sizes and strides (of dyn's dims), dtype and device, and no elements.
Its elements are a value of the program. PyTorch's tensors share memory, and values do not: a :class:`Storage` has the
value of the tensor whose memory it is, and a view is the steps that lead to it from there. What is written to a view
goes back the same steps, and every other view of the storage reads it when it is asked next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.interop.torch.sizes import Environment, as_torch
from dyn.shapes import Dim, dim_max
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: How the axes of a tensor lie in memory, outermost first: ``(0, 2, 3, 1)`` is channels last.
Order = tuple[int, ...]

_DTYPES: dict[torch.dtype, DType] = {getattr(torch, d.name): d for d in dtypes.ALL if hasattr(torch, d.name)}
_TORCH_DTYPES = {own: theirs for theirs, own in _DTYPES.items()}


def dyn_dtype(dtype: torch.dtype) -> DType | None:
    """dyn's dtype for PyTorch's; None where it has none."""
    return _DTYPES.get(dtype)


def numpy_dtype(dtype: torch.dtype) -> Any:
    """NumPy's dtype for PyTorch's; UnsupportedOpError where dyn has none."""
    own = dyn_dtype(dtype)
    if own is None:
        raise UnsupportedOpError(f"dyn has no arrays of {dtype}.", loc=user_loc(), remedy="use another dtype.")
    return own.np


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


class Storage:
    """Memory that tensors share: the value of the tensor that all of them are views of, and how often it was written.

    ``given`` is the number of the argument whose memory it is.
    """

    __slots__ = ("given", "value", "version")

    def __init__(self, value: Tracer, given: int | None = None) -> None:
        self.value, self.given = value, given
        self.version = 0


class Record:
    """What dyn keeps of a traced tensor: a view of a storage, or all of it.

    ``order`` is how its axes lie in memory, one element after the other; None where they lie in rows, and where they do
    not lie so: ``is_dense`` tells these two apart.
    """

    __slots__ = ("_value", "_version", "is_dense", "order", "parent", "step", "storage")

    def __init__(
        self, storage: Storage, parent: Record | None = None, step: Step | None = None, order: Order | None = None,
        is_dense: bool = True,
    ) -> None:  # fmt: skip
        self.storage, self.parent, self.step, self.order, self.is_dense = storage, parent, step, order, is_dense
        self._value: Tracer | None = None
        self._version = -1

    @property
    def value(self) -> Tracer:
        """The value as it is now."""
        if self.parent is None or self.step is None:
            return self.storage.value
        if self._value is None or self._version != self.storage.version:
            self._value, self._version = self.step.read(self.parent.value), self.storage.version
        return self._value

    def write(self, value: Tracer) -> None:
        """Give the tensor, and with it all that share its memory, other elements."""
        self._put(value)
        self.storage.version += 1

    def _put(self, value: Tracer) -> None:
        if self.parent is None or self.step is None:
            self.storage.value = value
            return
        if self.step.write is None:
            raise RuntimeError("a view that several elements share memory in is written to")
        self.parent._put(self.step.write(self.parent.value, value))


def record_of(tensor: Any) -> Record:
    """What dyn keeps of a traced tensor."""
    return tensor._dyn


def is_traced(value: object) -> bool:
    """Whether it is a tensor of a trace."""
    return isinstance(value, FakeTensor) and hasattr(value, "_dyn")


class Maker:
    """Makes the traced tensors of one trace."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.mode = FakeTensorMode(shape_env=env, static_shapes=False)  # pyright: ignore[reportArgumentType]
        # Its cache is keyed by the expressions of PyTorch's own nodes.
        self.mode.cache_enabled = False

    def fake(self, value: Tracer, dtype: torch.dtype, device: torch.device, order: Order | None = None) -> FakeTensor:
        """A tensor without elements, of the shape of a value, whose axes lie in memory in ``order``."""
        sizes, strides = self.rows(value.dims, order)
        return self.strided(sizes, strides, dtype, device)

    def rows(self, dims: Sequence[Dim], order: Order | None = None) -> tuple[list[Any], list[Any]]:
        """The sizes and strides of elements that lie one after the other, in rows or in another ``order`` of axes."""
        sizes = [as_torch(self.env, dim) for dim in dims]
        strides: list[Any] = [0] * len(sizes)
        stride: Dim = 1
        for axis in reversed(order or range(len(sizes))):
            strides[axis] = as_torch(self.env, stride)
            stride = stride * dim_max(dims[axis], 1)
        return sizes, strides

    def strided(self, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> FakeTensor:
        """A tensor without elements."""
        with _disable_current_modes():
            meta = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
            return FakeTensor(self.mode, meta, device)

    def fresh(self, value: Tracer, dtype: torch.dtype, device: torch.device, order: Order | None = None) -> FakeTensor:
        """A tensor with memory of its own."""
        made: Any = self.fake(value, dtype, device, order)
        made._dyn = Record(Storage(value), order=order)
        return made
