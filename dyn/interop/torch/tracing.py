"""A PyTorch function that is run once, on tensors without elements, and leaves a program of dyn's.

:class:`TorchTracing` is a mode of PyTorch's dispatcher: each ATen operation that the function comes to, below autograd
and below composite operations, arrives here, and is one of these:

- an operation with a converter (:mod:`dyn.interop.torch.aten`), which writes it as ops of dyn's;
- a view, of which the storage is kept in mind (:mod:`dyn.interop.torch.tensors`);
- an operation in place, which is its functional sibling and a write;
- one that PyTorch itself knows to write by others (``torch._decomp``).

Tensors that the function closes over, parameters first of all, are captured: read at each call.

This file is longer than most: it is one class, which PyTorch calls and converters are given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import disable_autocast_cache
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from dyn.errors import NotYetError, ShapeError, TraceError, UnsupportedOpError, problem_of
from dyn.frontend.retrace import Retrace
from dyn.hosts import TORCH
from dyn.interop.sizes import conditions
from dyn.interop.torch.compiling import COMPILING
from dyn.interop.torch.converters import (
    HIGHER_ORDER,
    IN_PLACE,
    VIEWS,
    WRITTEN,
    Converter,
    View,
    converter_of,
    functional,
    gives_views,
    gives_what_it_writes,
    is_composite,
    is_written,
    unconverted,
)
from dyn.interop.torch.devices import CPU, check_devices, require_device, result_device
from dyn.interop.torch.dynamo import leave_dynamo, without_dynamo
from dyn.interop.torch.encoder_layers import ENCODERS
from dyn.interop.torch.errors import torch_error
from dyn.interop.torch.float_sizes import FLOAT_OPERATORS, NODE_TYPES
from dyn.interop.torch.functions import Functions
from dyn.interop.torch.hooks import call_users
from dyn.interop.torch.inference import called_again, ordinary_tensors
from dyn.interop.torch.iteration import decide_axis, open_sizes
from dyn.interop.torch.layouts import ROWS, Order, TensorLayout, layout_of, order_by_size
from dyn.interop.torch.module_calls import noting_modules
from dyn.interop.torch.operand_dtypes import check_kernel, check_written
from dyn.interop.torch.python_effects import refused
from dyn.interop.torch.randomness import GeneratorError, Keys
from dyn.interop.torch.saved_tensors import without_callers_hooks
from dyn.interop.torch.scopes import RegionScope
from dyn.interop.torch.sizes import OPERATORS, as_dim, as_dyn, as_torch
from dyn.interop.torch.subclasses import check_wrapper, wrappers_in
from dyn.interop.torch.sym_nodes import Environment
from dyn.interop.torch.tensors import (
    TensorMaker,
    TensorRecord,
    ViewCall,
    ViewStep,
    is_traced,
    known_dtype,
    record_of,
    torch_dtype,
)
from dyn.shapes import RelKind
from dyn.source import anchored, user_loc
from dyn.trace.context import Trace, outside_of_regions
from dyn.trace.held import Frozen
from dyn.trace.partition import Memory, recompute_from
from dyn.trace.patched_names import all_active
from dyn.trace.tracer import Tracer

#: What rules ask of sizes is asked by the operation that the user calls.
ASKS_FOR_OTHERS = True

#: What is asked of a tensor itself.
_OF_THE_TENSOR: dict[Any, Callable[[Any], Any]] = {
    torch.ops.prim.device.default: lambda tensor: tensor.fake_device,
    torch.ops.aten.size.default: lambda tensor: list(tensor.shape),
}


#: The dtypes that PyTorch has Python's numbers in.
_WIDEST = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class TorchTracing(TorchDispatchMode):
    """The trace of a PyTorch function, in ``trace``.

    ``otherwise(tracing, func, args, kwargs, reason)`` takes the operations that dyn cannot; without, they raise.
    """

    supports_higher_order_operators = True

    def __init__(
        self, trace: Trace, otherwise: Callable[..., Any] | None = None, has_starts: bool = False,
        memory: Memory = "default", device: torch.device = CPU,
    ) -> None:  # fmt: skip
        super().__init__()
        #: The trace that it writes to, and the device that the program runs on.
        self.trace, self.device = trace, device
        #: How much gradients compute again.
        self.memory: Memory = memory
        #: Whether arguments are known to start where their memory does.
        self.has_starts = has_starts
        #: The number of the op at which autograd began to pull cotangents inside of the function.
        self.pulls_from: int | None = None
        #: Whether Python code may be called back as cotangents are pulled, by hooks.
        self.calls_back = False
        #: Whether an operation is being made of others, whose dtypes are no business of the user's.
        self.is_inside = False
        #: What the function came to, and the program has not.
        self.lacked: list[Retrace] = []
        self.keys = Keys(trace, self.lacking)
        self.otherwise = otherwise
        #: What ``otherwise`` has taken.
        self.pieces: list[Any] = []
        self.env = Environment(trace, NODE_TYPES)
        self.maker = TensorMaker(self.env)
        #: The views that were made of whole memories, by the geometry of both.
        self._views: dict[Any, TensorRecord] = {}
        #: The tensors that the function closes over, by identity, with the traced tensors that stand for them.
        self.captured: dict[int, tuple[torch.Tensor, Any]] = {}
        #: Their memory, in the same order.
        self.memories: list[Any] = []
        #: Those that are arguments of the program, likewise.
        self.stand_ins: dict[int, tuple[torch.Tensor, Any]] = {}
        #: Is told of each tensor that is captured, before it is used.
        self.on_capture: Callable[[torch.Tensor], None] = lambda tensor: None
        #: Is told of tensors that wrap others, of which an operation is.
        self.on_wrapper: Callable[[torch.Tensor], None] = check_wrapper
        #: The regions that are being traced, each in the one before it.
        self.scopes: list[RegionScope] = []
        #: The tensors that stand in the place of others, by the identity of these, in a region that is run once more.
        self.others: Mapping[int, Any] = {}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Have PyTorch's operations traced, none of which leaves anything behind.

        Autograd pulls cotangents of tensors on GPUs on threads of its own otherwise, which know of no trace.
        """
        with (
            disable_autocast_cache(), enable_python_dispatcher(), COMPILING, without_dynamo(), self.keys.active(),
            all_active((*OPERATORS, *FLOAT_OPERATORS, *ENCODERS)),
            torch.autograd.set_multithreading_enabled(False), without_callers_hooks(),
            self, Functions(HIGHER_ORDER, self.env, self.note_wrappers, self._note_hooks, self._pulling),
            noting_modules(),
        ):  # fmt: skip
            yield

    @contextlib.contextmanager
    def scope(self) -> Iterator[RegionScope]:
        """Note what is read and written of the traces around the region that is being traced."""
        scope = RegionScope()
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()
            scope.restore()

    @contextlib.contextmanager
    def standing_in(self, others: Mapping[int, Any]) -> Iterator[None]:
        """Note that tensors stand in the place of others."""
        before, self.others = self.others, others
        try:
            yield
        finally:
            self.others = before

    def note_read(self, tree: Any) -> None:
        """Note tensors that are read in the regions that are being traced."""
        for scope in self.scopes:
            scope.note_read(tree)

    # Tensors from outside -----------------------------------------------------------------------------------------

    def argument(
        self, value: Tracer, layout: TensorLayout, dtype: torch.dtype, device: torch.device, number: int
    ) -> Any:
        """The traced tensor of an argument."""
        if layout is not ROWS:
            for axis, size in enumerate(value.dims):  # a tensor without elements lies in rows: known by the key
                self.trace.demand(RelKind.GE, size, 1, f"argument {number} has elements on axis {axis}")
        return self.maker.given(value, layout, dtype, device, ("argument", number))

    def capture(self, tensor: torch.Tensor) -> Any:
        """The traced tensor of one that the function closes over."""
        found = self.stand_ins.get(id(tensor)) or self.captured.get(id(tensor))
        if found is None:
            self.on_capture(tensor)
            require_device(self.device, tensor.device)
            if tensor.device.type != "cpu" and not tensor.is_contiguous():  # a program reads rows, and here no copy
                raise self.lacking(lambda attempt: attempt.give_moving(tensor))
            dtype, plain = known_dtype(tensor.dtype), tensor.detach()
            number = len(self.captured)
            with torch._C.DisableTorchFunction():  # each use of it looks first whether it lies there still
                array = TORCH.captured(plain)
            with outside_of_regions(self.trace):
                value = Tracer(self.trace, self.trace.captured(array, dtype, tuple(tensor.shape), "parameter"))
                made = self.maker.given(value, layout_of(plain), tensor.dtype, tensor.device, ("captured", number))
            found = self.captured[id(tensor)] = tensor, made
            self.memories.append(array)
        return found[1]

    def freeze(self, written: Collection[int]) -> None:
        """Say that nothing changes the captured tensors, but those of these numbers, which the program writes: they
        share memory with no others."""
        for number, ((tensor, _), array) in enumerate(zip(self.captured.values(), self.memories, strict=True)):
            if number not in written:
                stamp = None if tensor.is_inference() else tensor._version
                self.trace.program.frozen[id(array)] = Frozen(tensor, stamp)

    def _made_of_numbers(self, tensor: torch.Tensor) -> Any:
        """The traced tensor of one that the function has just made of Python's numbers, or that is a NumPy array.

        Each call makes another one of numbers. Memory of an array is the caller's, or the function's own: nobody can
        tell, and it is not written.
        """
        taken = self.capture(tensor)
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            is_own = tensor.untyped_storage().resizable()
        if not is_own:
            record_of(taken).storage.is_array = True
            return taken
        return self.maker.fresh(record_of(taken).value, tensor.dtype, tensor.device)

    def lacking(self, change: Callable[[Any], None]) -> Retrace:
        """The exception that ends the trace, and that counts where the function catches it and goes on."""
        made = Retrace(change)
        self.lacked.append(made)
        return made

    def recompute(self) -> None:
        """With ``memory="low"``, have what pulls cotangents inside of the function compute again what takes memory."""
        if self.memory == "low" and self.pulls_from is not None:
            recompute_from(self.trace, self.pulls_from)

    def start_of(self, whole: TensorRecord) -> int:
        """The place in its memory where a tensor starts that is not a view in the trace.

        Raises Retrace of an argument, unless it is known to start where its memory does.
        """
        origin = whole.storage.origin
        if origin is None:
            return 0
        kind, number = origin
        if kind == "captured":
            return int(list(self.captured.values())[number][0].storage_offset())
        if not self.has_starts:
            raise self.lacking(lambda attempt: attempt.note_starts())
        return 0

    # Operations ---------------------------------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        leave_dynamo()
        wrappers = wrappers_in(types, args, kwargs)
        if wrappers:
            self.note_wrappers(wrappers)
            return NotImplemented  # their class says what this is, by operations on what is inside
        # Views come back as they are: PyTorch refuses to make one of a result of a call inside of a handler.
        if torch.is_inference_mode_enabled() and is_composite(func) and not gives_views(func):
            with called_again(), self:
                return func(*args, **(kwargs or {}))
        with ordinary_tensors():
            return self._dispatched(func, args, kwargs)

    def _dispatched(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """The result of an operation that PyTorch has come to."""
        if isinstance(func, HigherOrderOperator):
            return self._higher_order(func, args, kwargs or {})
        if func is not torch.ops.aten.detach.default:
            self.note_read((args, kwargs))
        if self.pulls_from is None and not self.scopes and torch._C._current_graph_task_id() != -1:
            self.pulls_from = len(self.trace.builder.ops)
        asked = _OF_THE_TENSOR.get(func)
        if asked is not None:
            return asked(self.taken(args[0]))
        if gives_what_it_writes(func):
            _check_history(args)
        if func is torch.ops.aten.lift_fresh.default and not is_traced(args[0]):
            return self._made_of_numbers(args[0])
        args = tuple([self._all_taken(arg) for arg in args])
        kwargs = {name: self._all_taken(arg) for name, arg in kwargs.items()} if kwargs else {}
        if self.device.type != "cpu":
            check_devices(func, args, kwargs)
        if self.otherwise is None or not isinstance(func, OpOverload) or torch.Tag.inplace_view in func.tags:
            return self._traced(func, args, kwargs)
        versions = self._versions(args, kwargs) if is_written(func) else []
        try:
            return self._traced(func, args, kwargs)
        except GeneratorError:
            raise
        except (TraceError, NotImplementedError) as error:
            if versions and self._versions(args, kwargs) != versions:  # half of what it writes is written
                raise
            reason = problem_of(error)
        return self.otherwise(self, func, args, kwargs, reason)

    def _note_hooks(self) -> None:
        """Note that the function may register hooks, which are called as cotangents are pulled."""
        self.calls_back = True

    def _pulling(self, outputs: Any) -> contextlib.AbstractContextManager[None]:
        """The context in which the function itself pulls cotangents through ``outputs``."""
        captured = [tensor for tensor, _ in (*self.stand_ins.values(), *self.captured.values())]
        return (
            refused(with_modules=False)
            if self.calls_back or call_users(outputs, captured)
            else contextlib.nullcontext()
        )

    def note_wrappers(self, wrappers: Sequence[torch.Tensor]) -> None:
        """Note tensors that wrap others, of which an operation is, or a function of PyTorch's."""
        for one in wrappers:
            self.on_wrapper(one)

    def _higher_order(self, func: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation of functions, by its rule; by what PyTorch says that it is, where it has none."""
        rule = HIGHER_ORDER.get(func)
        with self:
            if rule is not None:
                return rule(self, *args, **kwargs)
            whole: Any = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
            if whole is None:
                raise unconverted(func)
            return whole(*args, **kwargs)

    def _versions(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
        """How often each tensor was written."""
        return [record_of(leaf).storage.version for leaf in tree_leaves((args, kwargs)) if is_traced(leaf)]

    def _traced(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation as ops of dyn's. The function may catch what does not fit, as in PyTorch."""
        try:
            # Converters call nothing of the user's; what PyTorch makes an operation of may.
            with anchored(is_last=func in VIEWS or converter_of(func) is not None):
                return self._made(func, args, kwargs)
        except ShapeError as error:
            raise torch_error(error) from None

    def _made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.Tag.inplace_view in func.tags:
            return self._viewed_in_place(func, args, kwargs)
        view = VIEWS.get(func)
        if view is not None:
            if not isinstance(args[0], torch.Tensor):  # autograd conjugates numbers that tensors are multiplied by
                args = self._made_of_numbers(torch.tensor(args[0], dtype=_WIDEST[type(args[0])])), *args[1:]
            return self.viewed(func, view, args, kwargs)
        if self.is_inside:
            return self._made_by_rule(func, args, kwargs)
        check_kernel(func, args, kwargs)
        self.is_inside = True
        try:
            return self._made_by_rule(func, args, kwargs)
        finally:
            self.is_inside = False

    def _made_by_rule(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation by its converter, by its functional sibling, or by others that PyTorch makes it of."""
        if func in IN_PLACE:
            return IN_PLACE[func](self, args, kwargs)
        converter = converter_of(func)
        if converter is not None:
            return self._converted(func, converter, args, kwargs)
        written = WRITTEN.get(func.name())
        if written is not None:
            with self:
                return written(*args, **kwargs)
        if func._schema.name.startswith("aten::_foreach_"):
            with self:  # an operation for each entry, in PyTorch's own loop
                return func._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
        if is_written(func) and functional(func) is not None:
            return self._in_place(func, args, kwargs)
        with self:
            if func in decomposition_table:
                return decomposition_table[func](*args, **kwargs)
            made = func.decompose(*args, **kwargs)
        if made is NotImplemented:
            raise unconverted(func)
        return made

    @staticmethod
    def is_own(value: Any) -> bool:
        """Whether it is a tensor or a number of a trace."""
        return isinstance(value, FakeTensor | torch.SymInt | torch.SymFloat | torch.SymBool)

    def taken(self, value: Any) -> Any:
        """The traced tensor of one from outside; anything else as it is."""
        if isinstance(value, torch.Tensor) and not is_traced(value):
            if isinstance(value, FakeTensor):
                raise UnsupportedOpError("a tensor of another trace.", loc=user_loc(), remedy="pass it as an argument.")
            return self.capture(value)
        return value

    def _all_taken(self, value: Any) -> Any:
        """The traced tensors of those in an argument, which has them in lists at most."""
        if isinstance(value, list | tuple):
            return type(value)([self._all_taken(one) for one in value]) if value else value
        return self.taken(value)

    def value(self, given: Any) -> Any:
        """What a converter computes with: the value of a tensor, the dim of a size, anything else as it is."""
        if isinstance(given, FakeTensor):
            return record_of(given).value
        if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
            return as_dyn(self.trace, given)
        if isinstance(given, list | tuple):
            return [self.value(one) for one in given]
        return given

    def decide_broadcast(self, operands: Sequence[Any]) -> None:
        """Where autograd records operands that are broadcast together, ask which axes are repeated.

        Its sums over repeated axes are written for one answer. Without gradients the program does for all.
        """
        tensors = [one for one in operands if isinstance(one, FakeTensor)]
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
            return
        rank = max(tensor.ndim for tensor in tensors)
        for axis in range(1, rank + 1):
            # What is known to be 1 is summed over anyway.
            sizes = open_sizes(self.trace, [as_dim(tensor.shape[-axis]) for tensor in tensors if tensor.ndim >= axis])
            if sizes:
                decide_axis(self.trace, sizes)

    def values(self, given: Sequence[Any]) -> list[Any]:
        """What converters compute with, of tensors that PyTorch has not passed to an operation yet."""
        with _disable_current_modes():
            return self.value([self.taken(one) for one in given])

    def fresh(self, value: Tracer, device: torch.device) -> Any:
        """A traced tensor that has a value and memory of its own."""
        return self._fresh(value, device, None)

    def _converted(self, func: Any, converter: Converter, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = result_device(args, kwargs)
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
        made = self.maker.fresh(value, dtype, device, order)
        require_device(self.device, made.fake_device)
        return made

    def viewed(self, func: Any, view: View, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        several = not isinstance(func._schema.returns[0].type, torch.TensorType)
        record = None if several else self._view(func, view, args, kwargs)
        parent = record_of(args[0])
        if record is not None:
            dims = record.value.dims  # what dyn's rule decides of the sizes, PyTorch's finds known
            if view.in_rows and dims == parent.value.dims:
                record.order, record.is_dense = parent.order, parent.is_dense
                whole = args[0]
                return self.strided(whole, record, whole.shape, whole.stride(), whole.storage_offset())
            if view.in_rows and parent.is_dense and parent.order is None:
                return self.strided(args[0], record, *self.maker.rows(dims), args[0].storage_offset())
            if view.place is not None and (view.is_placed or self._is_symbolic(args)):
                sizes = [as_torch(self.env, dim) for dim in dims]
                return self._placed(args[0], record, sizes, view.place, args, kwargs)
        try:
            with self.maker.mode:
                made = func(*args, **kwargs)
        except ValueError:
            if not view.in_rows or record is None:
                raise
            # Our strides are not PyTorch's to the last: what it views, and we cannot, is a tensor of its own.
            return self._fresh(record.value, result_device(args, kwargs), None)
        if record is not None:
            if view.in_rows and view.order is None and parent.is_dense:  # of other orders PyTorch found the view's
                record.order = order_by_size([as_dim(stride) for stride in made.stride()])
                record.is_dense = True
            self.maker.given_to(made, record)
            self._note(made)
            return made
        sizes = [[as_dyn(self.trace, n) for n in one.shape] for one in made]
        for number, one in enumerate(made):
            self.maker.given_to(one, self._view(func, view, args, kwargs, number, sizes))
            self._note(one)
        return made

    def _view(
        self, func: Any, view: View, args: tuple[Any, ...], kwargs: dict[str, Any], number: int | None = None,
        sizes: Any = None,
    ) -> TensorRecord:  # fmt: skip
        """The record of a view, or of view ``number`` of several, whose ``sizes`` their rules take."""
        parent = record_of(args[0])
        rest = [self.value(arg) for arg in args[1:]]
        named = {name: self.value(arg) for name, arg in kwargs.items()}
        if number is not None:
            rest += [sizes, number]
        read, write = view.read, view.write
        step = ViewStep(
            lambda whole: read(whole, *rest, **named),
            None if write is None else lambda whole, new: write(whole, new, *rest, **named),
        )
        order = None if view.order is None else view.order(parent, *rest, **named)
        is_dense = parent.is_dense and (view.is_dense or (view.in_rows and parent.order is None))
        call = ViewCall(func, tuple(args[1:]), kwargs, number)
        return TensorRecord(parent.storage, parent, step, order, is_dense, call)

    def strided(self, whole: Any, record: TensorRecord, sizes: Any, strides: Any, offset: Any) -> Any:
        """The traced tensor of a view whose geometry is known: PyTorch has nothing to ask."""
        made = self.maker.view(record, whole, sizes, strides, offset)
        self._note(made)
        return made

    def _is_symbolic(self, args: tuple[Any, ...]) -> bool:
        """Whether numbers beside a tensor are symbolic, or its own sizes are known to the running program only."""
        if any(isinstance(arg, torch.SymInt) for arg in args[1:]):
            return True
        return any(conditions.is_measured(as_dim(size), self.trace) for size in args[0].shape)

    def _placed(
        self, whole: Any, record: TensorRecord, sizes: Any, place: Callable[..., Any], args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # fmt: skip
        """A view whose strides and offset are found as dims."""
        strides, offset = place(
            [as_dim(size) for size in whole.shape], [as_dim(stride) for stride in whole.stride()],
            as_dim(whole.storage_offset()), *[self.value(arg) for arg in args[1:]],
            **{name: self.value(arg) for name, arg in kwargs.items()},
        )  # fmt: skip
        geometry = [as_torch(self.env, stride) for stride in strides], as_torch(self.env, offset)
        return self.strided(whole, record, sizes, *geometry)

    def _note(self, made: Any) -> None:
        """Have a view found again by its geometry, for autograd: it views gradients as what they are gradients of."""
        if torch.is_grad_enabled() and made._dyn.root.is_dense:
            key = _geometry(made._dyn.root, made.shape, made.stride(), made.storage_offset())
            self._views.setdefault(key, made._dyn)

    def known_view(
        self, root: TensorRecord, sizes: Sequence[Any], strides: Sequence[Any], offset: Any
    ) -> TensorRecord | None:
        """The record of a view of a whole memory as another memory like it was viewed before."""
        known = self._views.get(_geometry(root, sizes, strides, offset)) if root.is_dense else None
        return None if known is None else known.of(root)

    def _viewed_in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``x.t_()`` and its kin: the tensor becomes a view of what it was."""
        target, sibling = args[0], functional(func)
        view, name = VIEWS.get(sibling), func._schema.name.partition("::")[2]
        if view is None and sibling not in IN_PLACE:
            raise NotYetError(f"{func} has no converter.", loc=user_loc(), remedy="make a new tensor instead.")
        origin = record_of(target).storage.origin
        if origin is not None:
            whose = "an argument" if origin[0] == "argument" else "a tensor that is closed over"
            raise NotYetError(
                f"{name} of {whose}, whose sizes it would change for the caller.",
                loc=user_loc(),
                remedy=f"call {name.removesuffix('_')}, which gives a new tensor.",
            )
        if view is None:  # by strides
            record = record_of(IN_PLACE[sibling](self, args, kwargs))
        else:
            record = self._view(sibling, view, args, kwargs)
        _ = record.value
        with self.maker.mode:
            func(*args, **kwargs)
        target._dyn = record
        return target

    def _in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sibling = functional(func)
        if func._schema.name.endswith("_"):
            target = args[0]
        else:
            kwargs = dict(kwargs)
            target = kwargs.pop("out")
        with self:
            result = sibling(*args, **kwargs)
        check_written(func, target, result)
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
        for scope in self.scopes:
            scope.note_write(record.storage)
        record.write(value)


def _geometry(root: TensorRecord, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Any:
    """A view of a whole memory as a key."""
    view = (tuple(map(as_dim, sizes)), tuple(map(as_dim, strides)), as_dim(offset))
    return root.storage.value.dims, root.storage.order, view


def _check_history(args: tuple[Any, ...]) -> None:
    """Raise NotYetError where autograd is about to record a write to a tensor from outside of the trace, which would
    have a history of traced tensors then."""
    target = args[0]
    if not isinstance(target, torch.Tensor) or not torch.is_grad_enabled():
        return
    origin = record_of(target).storage.origin if is_traced(target) else ("captured", 0)
    if origin is None or origin[0] != "captured":  # views of what is closed over have the history of that
        return
    if any(isinstance(one, torch.Tensor) and one.requires_grad for one in tree_leaves(args)):
        raise NotYetError(
            f"gradients of a write to a tensor that the function closes over, of shape {tuple(target.shape)}.",
            loc=user_loc(),
            remedy="write under torch.no_grad(), write what is detached, or return the new value.",
        )
