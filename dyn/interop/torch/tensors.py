"""Tensors of a PyTorch function that is traced: what torch sees of one, and the value that dyn's program has for it.

To PyTorch a traced tensor is a ``FakeTensor``: sizes and strides (of dyn's dims), dtype and device, and no elements.
Its elements are a value of the program. PyTorch's tensors share memory, and values do not: a :class:`Storage` has the
value of the memory, in its order, and a tensor is the steps that lead to it from there. What is written to a view goes
back the same steps, and every other view of the storage reads it when it is asked next.
"""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils._python_dispatch import _disable_current_modes

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.frozen import record
from dyn.interop.torch.float_sizes import FloatNode
from dyn.interop.torch.layouts import Order, TensorLayout
from dyn.interop.torch.sizes import as_torch
from dyn.interop.torch.sym_nodes import Environment, by_sizes_lacking
from dyn.shapes import Dim, Facts
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.tracer import Tracer

_VERSIONS = itertools.count(1)

#: What views ask of sizes is asked by the operation that the user calls.
ASKS_FOR_OTHERS = True

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


@record()
class ViewStep:
    """From a tensor to a view of it: ``read`` gives the view's value, ``write`` the tensor's when the view is written.

    ``write`` is None for what PyTorch lets nobody write to.
    """

    read: Callable[[Tracer], Tracer]
    write: Callable[[Tracer, Tracer], Tracer] | None


@record()
class ViewCall:
    """The operation that made a view, to be made again of another tensor: ``func(tensor, *rest, **named)``.

    ``number`` is that of the view, where the operation makes several.
    """

    func: Any
    rest: tuple[Any, ...]
    named: dict[str, Any]
    number: int | None = None


@record(eq=False)
class PossibleView:
    """The view that a copy is for PyTorch at some sizes: of a tensor that is contiguous in ``memory_format`` there,
    where one is named, and that can be viewed in ``sizes``, where these are."""

    source: TensorRecord
    memory_format: torch.memory_format | None
    sizes: tuple[Any, ...] | None


class Storage:
    """Memory that tensors share: the value of its elements in the order of memory, and a number for that state of it.

    The number is 0 as long as nothing is written, and no other state has it. ``home`` is the trace, of the program or
    of a region in it, that it came to be in. ``order`` has the axes of the tensor whose memory it is, outermost first;
    None for rows. ``origin`` is None where the program allocates it; ``outside`` is the argument or captured array, as
    the caller has it.

    Whether a ``reshape`` is a view or a copy depends on sizes. Where it is a copy by a default, the two memories are
    one for PyTorch at some sizes: once one is written to, nobody may read the other in this trace. ``maybe_of`` is how
    it is a view at these sizes.
    """

    __slots__ = (
        "_maybe_same", "_value", "home", "is_array", "is_stale", "maybe_of", "order", "origin", "outside", "version",
    )  # fmt: skip

    def __init__(self, value: Tracer, order: Order | None = None, origin: Origin | None = None) -> None:
        self._value, self.order, self.origin = value, order, origin
        self.outside: Tracer | None = None
        self.version = 0
        self.home = current_trace()
        self._maybe_same: list[Storage] = []
        #: Whether a memory that may be this one was written to.
        self.is_stale = False
        #: Whether it is the memory of a NumPy array that the function has come to.
        self.is_array = False
        self.maybe_of: PossibleView | None = None

    @property
    def value(self) -> Tracer:
        """The elements as they are now. Raises Retrace where these depend on what is the same memory."""
        if self.is_stale:
            raise by_sizes_lacking()
        return self._value

    @value.setter
    def value(self, value: Tracer) -> None:
        self._value = value

    def put(self, value: Tracer) -> None:
        """Give it other elements."""
        if self.is_array:
            raise NotYetError(
                "a write to a tensor that has the memory of a NumPy array.",
                loc=user_loc(),
                remedy="copy the array first: torch.tensor(array).",
            )
        self._value, self.version = value, next(_VERSIONS)
        for other in self._maybe_same:
            if other.origin is not None:  # the caller sees it
                raise by_sizes_lacking()
            other.is_stale = True

    def may_be(self, other: Storage, view: PossibleView) -> None:
        """Note that another memory may be this one, as a view."""
        self._maybe_same.append(other)
        other._maybe_same.append(self)
        other.maybe_of = view


class TensorRecord:
    """Value of a traced tensor: a view of a storage, or all of it.

    ``order`` has its axes by their strides, greatest first; None for rows. Whether the elements lie one after the
    other, without gaps, ``is_dense`` tells. ``home`` is the trace that it came to be in. ``call`` is the operation that
    made the view of ``parent``.
    """

    __slots__ = ("_value", "_version", "call", "home", "is_dense", "order", "parent", "step", "storage")

    def __init__(
        self, storage: Storage, parent: TensorRecord | None = None, step: ViewStep | None = None,
        order: Order | None = None, is_dense: bool = True, call: ViewCall | None = None,
    ) -> None:  # fmt: skip
        self.storage, self.parent, self.step, self.order, self.is_dense = storage, parent, step, order, is_dense
        self.call, self.home = call, current_trace()
        self._value: Tracer | None = None
        self._version = -1

    @staticmethod
    def of_memory(
        logical: Tracer, order: Order | None, origin: Origin | None = None, is_dense: bool = True
    ) -> TensorRecord:
        """The record of a tensor that has a storage of its own, of its value."""
        if order is None or not is_dense:
            return TensorRecord(Storage(logical, None, origin), order=order, is_dense=is_dense)
        storage = Storage(dnp.transpose(logical, order), order, origin)
        back = inverse(order)
        step = ViewStep(lambda memory: dnp.transpose(memory, back), lambda memory, new: dnp.transpose(new, order))
        record = TensorRecord(storage, None, step, order)
        record._value, record._version = logical, storage.version
        return record

    @property
    def root(self) -> TensorRecord:
        """The record of the tensor that has all of the memory."""
        return self if self.parent is None else self.parent.root

    def of(self, other: TensorRecord) -> TensorRecord:
        """The same view of another tensor that has all of its memory."""
        if self.parent is None:
            return other
        return TensorRecord(other.storage, self.parent.of(other), self.step, self.order, self.is_dense, self.call)

    @property
    def value(self) -> Tracer:
        """The value as it is now."""
        if self.step is None:
            return self._base()
        if self.storage.is_stale:
            raise by_sizes_lacking()
        if self._value is None or self._version != self.storage.version or not _is_readable(self._value):
            self._value, self._version = self.step.read(self._base()), self.storage.version
        return self._value

    def _base(self) -> Tracer:
        """The value that the step starts from."""
        return self.storage.value if self.parent is None else self.parent.value

    def write(self, value: Tracer) -> None:
        """Give the tensor, and with it all that share its memory, other elements."""
        if self.step is not None:
            if self.step.write is None:
                raise UnsupportedOpError(
                    "a tensor of which several elements share memory is written to.",
                    loc=user_loc(),
                    remedy="write to a clone() of it, as PyTorch asks for too.",
                )
            value = self.step.write(self._base(), value)
        if self.parent is None:
            self.storage.put(value)
        else:
            self.parent.write(value)


def _is_readable(value: Tracer) -> bool:
    """Whether a value, of a region perhaps that has ended, may be read in the trace at hand."""
    here = current_trace()
    return here is None or here is value._trace or here.may_read(value._trace)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


def record_of(tensor: Any) -> TensorRecord:
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


class TensorMaker:
    """Makes the traced tensors of one trace."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.mode = FakeTensorMode(shape_env=env, static_shapes=False)  # pyright: ignore[reportArgumentType]
        # Its cache is keyed by the expressions of PyTorch's own nodes.
        self.mode.cache_enabled = False
        #: All tensors that were made.
        self.tensors: list[weakref.ref[Any]] = []
        #: Strides by sizes and order.
        self._strides: dict[tuple[tuple[Dim, ...], Order | None], list[Dim]] = {}
        #: Tensors of PyTorch's by sizes, order and dtype. It asks about sizes and strides of each one that is new, and
        #: keeps the answers; those that the facts here give, as long as they are these.
        self._metas: dict[tuple[tuple[Dim, ...], Order | None, torch.dtype], torch.Tensor] = {}
        self._facts = Facts.EMPTY

    def fresh(self, value: Tracer, dtype: torch.dtype, device: torch.device, order: Order | None = None) -> FakeTensor:
        """A tensor with memory of its own, whose axes lie in it in ``order``."""
        dims, facts = value.dims, self.env.trace.facts
        if facts is not self._facts:
            self._metas, self._facts = {}, facts
        with _disable_current_modes(), self.env.making():
            meta = self._metas.get((dims, order, dtype))
            if meta is None:
                sizes, strides = self.rows(dims, order)
                meta = self._metas[dims, order, dtype] = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
            fake = self._fake(meta.data, device)  # which counts the writes to it alone
        return self.given_to(fake, TensorRecord.of_memory(value, order))

    def given(
        self, value: Tracer, layout: TensorLayout, dtype: torch.dtype, device: torch.device, origin: Origin
    ) -> FakeTensor:
        """A tensor from outside of the function, of whose memory ``value`` is read."""
        record = TensorRecord.of_memory(value, layout.order, origin, is_dense=layout.is_dense)
        record.storage.outside = value
        sizes = [as_torch(self.env, dim) for dim in value.dims]
        strides = [as_torch(self.env, stride) for stride in layout.strides(value.dims)]
        return self.made(record, sizes, strides, dtype, device)

    def rows(self, dims: Sequence[Dim], order: Order | None = None) -> tuple[list[Any], list[Any]]:
        """The sizes and strides of elements that lie one after the other, in rows or in another ``order`` of axes."""
        key = tuple(dims), order
        strides = self._strides.get(key)
        if strides is None:
            strides = self._strides[key] = TensorLayout(order).strides(dims)
        return [as_torch(self.env, dim) for dim in dims], [as_torch(self.env, stride) for stride in strides]

    def made(
        self, record: TensorRecord, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device
    ) -> FakeTensor:
        """A tensor of a record."""
        with _disable_current_modes(), self.env.making():
            fake = self._fake(torch.empty_strided(sizes, strides, dtype=dtype, device="meta"), device)
        return self.given_to(fake, record)

    def _fake(self, meta: torch.Tensor, device: torch.device) -> Any:
        """A tensor of the geometry of another one, which has no storage that anything is done with."""
        fake: Any = FakeTensor(self.mode, meta, device)
        torch._C._set_throw_on_mutable_data_ptr(fake)  # it has no address to compute with
        return fake

    def given_to(self, fake: Any, record: TensorRecord) -> Any:
        """A tensor of PyTorch's that has a record from now on."""
        fake._dyn = record
        self.tensors.append(weakref.ref(fake))
        return fake

    def view(self, record: TensorRecord, whole: Any, sizes: Any, strides: Any, offset: Any) -> FakeTensor:
        """A tensor of a record, which lies in the memory of another one."""
        with in_kernel_invocation_manager(self.mode):  # the way to what it is to PyTorch, without asking Python
            meta = torch.as_strided(whole, sizes, strides, offset)
        return self.given_to(FakeTensor(self.mode, meta, whole.fake_device), record)


#: At most so many garbage collections are made before a tensor counts as kept.
_COLLECTIONS = 5

#: So many seconds at most are waited for another thread's collection, during which Python makes no other one. One of a
#: large heap takes some; one whose finalizers wait for this thread would never end.
_PATIENCE = 10.0


def refuse_leaks(tensors: Sequence[weakref.ref[Any]]) -> None:
    """Raise UnsupportedOpError where one of these traced tensors, of a trace that has ended, is still there."""
    for _ in range(_COLLECTIONS):
        if all(one() is None for one in tensors) or _garbage() == 0:
            break
    kept = next((tensor for one in tensors if (tensor := one()) is not None), None)
    if kept is not None:
        raise UnsupportedOpError(
            "the function keeps a traced tensor, in a hook, a list or an attribute, and calls of the program would not "
            "give it another one.",
            loc=kept._dyn.storage.value._loc,
            remedy="return it instead.",
        )


def _garbage() -> int | None:
    """Collect garbage: how many objects were found, or None where another thread collects for all too long."""
    found: list[int] = []
    thread = threading.get_ident()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and threading.get_ident() == thread:
            found.append(info["collected"] + info["uncollectable"])

    until = time.monotonic() + _PATIENCE
    gc.callbacks.append(note)
    try:
        gc.collect()
        while not found and time.monotonic() < until:
            time.sleep(0.001)
            gc.collect()
    finally:
        gc.callbacks.remove(note)
    return found[-1] if found else None
