"""Operations that eager PyTorch runs in the midst of a program, on the program's own memory.

An operation for which there is no converter, decomposition or composite form cuts the program in two, and stands
between them as a call of Python (:class:`dyn.ir.external.External`): a *piece*. The shapes and dtypes of its results
are those that PyTorch's own fake kernel gives for the traced tensors, whose sizes are dyn's dims, and each call checks
them. ``torch.library`` operations are taken so too, with the strides that their tags ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._higher_order_ops.effects import _get_effect
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError
from dyn.frontend.fallback import Piece
from dyn.frozen import record
from dyn.hosts import TORCH
from dyn.interop.torch.collectives import check_collective, is_collective, wait_for
from dyn.interop.torch.converters import View
from dyn.interop.torch.devices import CPU
from dyn.interop.torch.layouts import Order, order_by_size
from dyn.interop.torch.sizes import SYMBOLIC, as_dim, as_dyn
from dyn.interop.torch.tensors import TensorRecord, inverse, is_traced, known_dtype, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.ir.external import External, ExternalResult
from dyn.shapes import Dim
from dyn.source import Loc, user_loc
from dyn.trace.context import current_trace
from dyn.trace.external import call_library
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]

#: Operations of PyTorch itself give the same for all strides of what they are given; others may look at them.
_BLIND_TO_STRIDES = ("aten", "prims", "prim")
#: A view whose places in memory no copy has.
_ADDRESSES = {torch.ops.aten.as_strided.default}
#: Operations that resize tensors without elements; their fake kernels leave these as they are.
_SIZES_WHAT_IS_EMPTY = {
    torch.ops.aten._fused_moving_avg_obs_fq_helper.default,
    torch.ops.aten._fused_moving_avg_obs_fq_helper_functional.default,
}
_NO_FAKE_KERNEL = (UnsupportedOperatorException, UnsupportedFakeTensorException)
_MEND = "mend the function that torch.library.register_fake was given for it."
_OF_DATA = (DynamicOutputShapeException, DataDependentOutputException)


def cut(tracing: TorchTracing, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
    """Have eager PyTorch run an operation each time the program comes by; the traced tensors of its results.

    It writes to copies, and the tensors are written once it is done. Raises NotYetError where no fake kernel says the
    sizes of the results before it runs, and for what copies cannot stand for.
    """
    check_collective(func)
    for one in (*args, *kwargs.values()):
        if isinstance(one, torch.dtype):  # of quantized tensors fake kernels say that they are floats
            known_dtype(one)
    if any(isinstance(one, torch.Generator) for one in (*args, *kwargs.values())):
        raise NotYetError(reason, loc=user_loc())  # it may be one that stands for an argument
    if any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns):
        return tracing.viewed(func, _view(tracing, func, args, kwargs, reason), args, kwargs)
    call = _OperationCall(tracing, func, args, kwargs, reason)
    shapes = [tuple(map(as_dim, target.shape)) for target in call.written]
    fake = _fake(tracing, func, args, kwargs)
    is_sized = func in _SIZES_WHAT_IS_EMPTY and any(_is_empty(one) for one in tree_leaves(args) if is_traced(one))
    if is_sized or shapes != [tuple(map(as_dim, target.shape)) for target in call.written]:
        raise NotYetError(f"{func}, which gives a tensor another shape.", loc=user_loc())
    pairs = list(zip(_by_return(func, fake), call.targets, strict=True))
    own = [leaf for part, target in pairs if target is None for leaf in tree_leaves(part) if leaf is not None]
    results = [_DeclaredResult.of(leaf) for leaf in own]
    values = call.emit(results)
    for target, value in zip(call.written, values[len(results) :], strict=True):
        tracing.write(target, value)
    made = iter([
        tracing.maker.fresh(value, one.dtype, leaf.device, one.order)
        for value, one, leaf in zip(values, results, own, strict=False)
    ])  # fmt: skip
    returned = [
        tree_map(lambda leaf: None if leaf is None else next(made), part) if target is None else target
        for part, target in pairs
    ]
    return returned[0] if len(returned) == 1 else tuple(returned) if returned else None


def _is_empty(tensor: Any) -> bool:
    """Return True if a tensor has no elements in any call."""
    return 0 in map(as_dim, tensor.shape)


def _by_return(func: Any, made: Any) -> list[Any]:
    """What an operation gives for each of the returns in its schema."""
    count = len(func._schema.returns)
    return [made] if count == 1 else list(made) if count else []


def _view(tracing: TorchTracing, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> View:
    """How a view is read that only PyTorch knows: as a copy that it makes. It cannot be written to."""
    name = str(func)
    if func in _ADDRESSES:
        raise NotYetError(reason, loc=user_loc())
    if len(func._schema.returns) > 1:
        raise NotYetError(f"{name}, which is a view that is known by its places in memory.", loc=user_loc())
    results = [_DeclaredResult.of(one, in_rows=True) for one in tree_leaves(_fake(tracing, func, args, kwargs))]

    def read(whole: Tracer, *rest: Any, **named: Any) -> Tracer:
        values = _OperationCall(tracing, func, args, kwargs, reason, whole).emit(results)
        several = not isinstance(func._schema.returns[0].type, torch.TensorType)
        return values[rest[-1] if several else 0]

    def write(whole: Tracer, new: Tracer, *rest: Any, **named: Any) -> Tracer:
        raise NotYetError(f"a write to what {name} gives.", loc=user_loc(), remedy="write to a clone() of it.")

    return View(read, write, None, False, False)


def _fake(tracing: TorchTracing, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results as PyTorch's fake kernel gives them: tensors without elements."""
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(func.tags):
        raise _unsized(func)
    try:
        with tracing.maker.mode:
            return func(*args, **kwargs)
    except _OF_DATA:
        raise _unsized(func) from None
    except _NO_FAKE_KERNEL:
        raise NotYetError(
            f"{func} has no fake kernel, which would say the sizes of its results.",
            loc=user_loc(),
            remedy=f'register one: torch.library.register_fake("{func._schema.name}").',
        ) from None


def _unsized(func: Any) -> NotYetError:
    return NotYetError(
        f"{func}, whose results have sizes that depend on data.",
        loc=user_loc(),
        remedy="call it outside of the function.",
    )


@record()
class _DeclaredResult:
    """A result that a piece declares: its dims, dtype, and the order of its axes in memory."""

    dims: tuple[Dim, ...]
    dtype: torch.dtype
    order: Order | None

    @staticmethod
    def of(fake: Any, in_rows: bool = False) -> _DeclaredResult:
        """The result that a fake one stands for."""
        if not isinstance(fake, FakeTensor):
            raise NotYetError(f"an operation that returns a {type(fake).__name__}.", loc=user_loc())
        if fake.layout is not torch.strided:
            raise NotYetError(f"an operation that makes a tensor of the layout {fake.layout}.", loc=user_loc())
        _ = known_dtype(fake.dtype)
        dims = tuple([as_dim(size) for size in fake.shape])
        return _DeclaredResult(dims, fake.dtype, None if in_rows else _order(fake))

    @property
    def in_memory(self) -> tuple[Dim, ...]:
        return self.dims if self.order is None else tuple([self.dims[axis] for axis in self.order])


def _order(fake: FakeTensor) -> Order | None:
    """The order of a result's axes in memory: by its strides, for sizes of which none is 0 or 1.

    Only that is taken of its strides: it lies in memory of the program's own, one element after the other.
    """
    return order_by_size([as_dim(stride) for stride in fake.stride()])


@record()
class _TensorOperand:
    """A tensor that an operation is given: operand ``number``, whose axes lie in memory in ``order``.

    ``strides``, where the operation may look at them, are numbers, and numbers of operands as ``(number,)``. What is
    written is a copy.
    """

    number: int
    order: Order | None
    strides: tuple[int | tuple[int], ...] | None
    is_written: bool

    def made(self, arrays: Sequence[Array]) -> torch.Tensor:
        tensor = TORCH.wrap(arrays[self.number])
        if self.order is not None:
            tensor = tensor.permute(inverse(self.order))
        if self.strides is not None:
            strides = [int(arrays[n[0]]) if isinstance(n, tuple) else n for n in self.strides]
            return _strided(tensor, strides)
        return tensor.clone() if self.is_written else tensor


def _strided(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A copy with these strides; axes of stride 0 repeat one element."""
    one = tensor
    for axis, stride in enumerate(strides):
        if stride == 0:
            one = one.narrow(axis, 0, min(1, one.shape[axis]))
    made = torch.empty_strided(one.shape, strides, dtype=tensor.dtype)
    return made.copy_(one).expand(tensor.shape) if one.numel() else made.new_empty(tensor.shape)


@record()
class _NumberOperand:
    """A number that an operation is given: operand ``number``, as a Python number."""

    number: int
    type: type

    def made(self, arrays: Sequence[Array]) -> Any:
        return self.type(arrays[self.number])


class _OperationCall:
    """A call of an operation: what it is given, as operands of a program and as the operation takes it.

    ``targets`` has for each of its returns the argument that it is, which is written; None for a result of its own.
    ``written`` are the traced tensors that are written, each once. The first argument is of the value ``whole``, where
    it is said.
    """

    def __init__(
        self, tracing: TorchTracing, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: str,
        whole: Tracer | None = None,
    ) -> None:  # fmt: skip
        self.tracing, self.func, self.reason = tracing, func, reason
        schema = func._schema
        given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | dict(kwargs)
        by_alias = {
            frozenset(argument.alias_info.before_set): given.get(argument.name)
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        }
        found = [None if one.alias_info is None else frozenset(one.alias_info.before_set) for one in schema.returns]
        self.targets = [None if alias is None else by_alias.get(alias) for alias in found]
        self.written = list(
            {id(leaf): leaf for leaf in tree_leaves(list(by_alias.values())) if is_traced(leaf)}.values()
        )
        leaves, self.tree = tree_flatten((args, dict(kwargs)))
        self._check_sharing(leaves)
        self.operands: list[Any] = []
        self._tensors: dict[int, _TensorOperand] = {}
        self.leaves = tuple([self._operand(leaf, whole if number == 0 else None) for number, leaf in enumerate(leaves)])

    def _check_sharing(self, leaves: Sequence[Any]) -> None:
        """Raise NotYetError where a tensor that is written shares memory with another: the copies would not."""
        for leaf in filter(is_traced, leaves):
            for target in self.written:
                if leaf is not target and record_of(leaf).storage is record_of(target).storage:
                    raise NotYetError(
                        f"{self.func} writes to a tensor that shares memory with another of its arguments.",
                        loc=user_loc(),
                        remedy="pass a clone() of one of them.",
                    )

    def _operand(self, leaf: Any, whole: Tracer | None) -> Any:
        if isinstance(leaf, SYMBOLIC):
            value = as_dyn(self.tracing.trace, leaf)
            if isinstance(value, bool | int | float):
                return value
            if isinstance(leaf, torch.SymFloat):
                value = dnp.astype(value, dtypes.float64.np)
            return _NumberOperand(self._add(value), float if isinstance(leaf, torch.SymFloat) else int)
        if not is_traced(leaf):
            return leaf
        known = self._tensors.get(id(leaf))
        if known is None:
            record: TensorRecord = record_of(leaf)
            order, value = record.order, record.value if whole is None else whole
            strides = tuple(map(self._stride, leaf.stride())) if self._sees_strides(record) else None
            if strides is not None:
                order = None
            value = value if order is None else dnp.transpose(value, order)
            is_written = any(leaf is other for other in self.written)
            known = self._tensors[id(leaf)] = _TensorOperand(self._add(value), order, strides, is_written)
        return known

    def _sees_strides(self, record: TensorRecord) -> bool:
        """Whether the operation is to be given the very strides: a tensor with gaps, or that repeats elements."""
        if record.is_dense or torch.Tag.flexible_layout in self.func.tags:
            return False
        if {torch.Tag.needs_exact_strides, torch.Tag.needs_fixed_stride_order} & set(self.func.tags):
            return True
        return self.func.namespace not in _BLIND_TO_STRIDES

    def _stride(self, stride: Any) -> int | tuple[int]:
        return stride if isinstance(stride, int) else (self._add(as_dyn(self.tracing.trace, stride)),)

    def _add(self, value: Any) -> int:
        self.operands.append(value)
        return len(self.operands) - 1

    def emit(self, results: Sequence[_DeclaredResult]) -> list[Tracer]:
        """The call in the program: values of the results, and after them of what is written."""
        trace, loc = current_trace() or self.tracing.trace, user_loc()
        declared = [*results, *[_DeclaredResult.of(target, in_rows=True) for target in self.written]]
        operation = EagerOperation(
            self.func, self.leaves, self.tree, tuple([target is None for target in self.targets]),
            tuple([self._tensors[id(target)] for target in self.written]),
            tuple([one.order for one in declared]), loc, _has_autocast_behind(),
        )  # fmt: skip
        name = f"{self.func} in eager PyTorch"
        external = External(name, loc, operation, has_effects(self.func), vmap_method="sequential", borrows=True)
        self.tracing.pieces.append(Piece(str(self.func), self.reason, loc))
        kinds = [known_dtype(one.dtype) for one in declared]
        made = call_library(trace, external, self.operands, [one.in_memory for one in declared], kinds)
        return [
            value if one.order is None else dnp.transpose(value, inverse(one.order))
            for value, one in zip(made, declared, strict=True)
        ]


def has_effects(func: Any) -> bool:
    """Whether an operation does something beside giving its results: writes, draws random numbers, or is said to."""
    if torch.Tag.nondeterministic_seeded in func.tags or not func._schema.returns or is_collective(func):
        return True
    return func._schema.is_mutable or _get_effect(func) is not None


def _has_autocast_behind() -> bool:
    """Whether the operation at hand comes from where autocast has done its part, or does not see what is below it."""
    keys = (torch._C.DispatchKey.AutocastCPU, torch._C.DispatchKey.AutocastCUDA)
    return any(map(torch._C._dispatch_tls_is_dispatch_key_excluded, keys))


@dataclass(frozen=True, eq=False)
class EagerOperation:
    """A PyTorch operation as a program calls it, with arrays in the program's own memory.

    ``is_own`` tells for each of its returns whether it is a result of the program; ``written`` are the tensors that
    come after these. ``orders`` has how each lies in memory.
    """

    func: Any
    leaves: tuple[Any, ...]
    tree: TreeSpec
    is_own: tuple[bool, ...]
    written: tuple[_TensorOperand, ...]
    orders: tuple[Order | None, ...]
    loc: Loc
    has_autocast_behind: bool

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> list[Array]:
        tensors: dict[int, torch.Tensor] = {}
        leaves: list[Any] = []
        for leaf in self.leaves:
            if isinstance(leaf, _TensorOperand):
                if leaf.number not in tensors:
                    tensors[leaf.number] = leaf.made(arrays)
                leaves.append(tensors[leaf.number])
            else:
                made = leaf.made(arrays) if isinstance(leaf, _NumberOperand) else leaf
                leaves.append(CPU if isinstance(made, torch.device) else made)  # the arrays are this machine's
        args, kwargs = tree_unflatten(leaves, self.tree)
        with torch.no_grad(), _behind_autocast() if self.has_autocast_behind else nullcontext():
            returned = _by_return(self.func, self.func(*args, **kwargs))
            if is_collective(self.func):  # what it gives is still being filled
                wait_for([*tree_leaves(returned), *[tensors[one.number] for one in self.written]])
        own = [part for part, is_own in zip(returned, self.is_own, strict=True) if is_own]
        results = [leaf for leaf in tree_leaves(own) if leaf is not None]
        results += [tensors[one.number] for one in self.written]
        if len(results) != len(expected):
            raise ArgumentError(
                f"{self.func} gave {len(results)} tensors, and its fake kernel {len(expected)}.",
                loc=self.loc,
                remedy=_MEND,
            )
        return [self._checked(number, *pair) for number, pair in enumerate(zip(results, expected, strict=True))]

    def _checked(self, number: int, tensor: torch.Tensor, expected: ExternalResult) -> Array:
        """A result as an array, its axes as they lie in the program's memory."""
        array = TORCH.borrow(tensor.detach())
        if not isinstance(array, np.ndarray):
            raise UnsupportedOpError(f"{self.func} gave a result on {tensor.device}.", loc=self.loc, remedy=_MEND)
        order = self.orders[number]
        array = array if order is None else array.transpose(order)
        if array.dtype != expected.dtype.np or array.shape != expected.shape:
            raise ShapeError(
                f"{self.func} gave a result of {array.dtype} and shape {array.shape}, and its fake kernel said "
                f"{expected.dtype.name} and {expected.shape}.",
                loc=self.loc,
                remedy=_MEND,
            )
        return array


def _behind_autocast() -> Any:
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU))
