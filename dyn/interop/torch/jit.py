"""``dyn.interop.torch.jit``: functions and modules of PyTorch, traced once for every shape and compiled by dyn."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MethodType
from typing import Any, ClassVar, TypeVar

import torch
from torch.utils._pytree import tree_flatten, tree_map

from dyn import dtypes
from dyn.call import private, same_objects
from dyn.errors import ArgumentError, NotYetError
from dyn.frontend.fallback import Fallback, FallbackReason, reason_of
from dyn.frontend.library import LibraryFunction
from dyn.interop.torch.attributes import HooksChanged
from dyn.interop.torch.calls import accept, entry_state, torch_state
from dyn.interop.torch.distributed import DistributedModuleError, compile_parts, gathered
from dyn.interop.torch.dynamic_shapes import DeclaredShapes, DynamicShapes
from dyn.interop.torch.dynamo import pass_by_own_if_looked_at, passed_by, without_dynamo
from dyn.interop.torch.hidden_arguments import MovingTensor, StateCreated
from dyn.interop.torch.module_calls import calls_made_by
from dyn.interop.torch.objects import Opened, reached
from dyn.interop.torch.options import DEFAULT, TorchOptions
from dyn.interop.torch.program import TensorProgram
from dyn.interop.torch.read_calls import TorchCall, read_call
from dyn.interop.torch.return_plans import OverlapError
from dyn.source import user_loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.specialize.call_arguments import OnNewShape
from dyn.trace.context import current_trace
from dyn.trace.partition import Memory
from dyn.tracebacks import hide_own_frames

_T = TypeVar("_T")

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def jit(
    function: Callable[..., Any] | None = None, /, *, dynamic_shapes: Any = None, strict: bool = False,
    memory: Memory = "default", on_new_shape: OnNewShape = "compile", freeze: bool = False,
    batch_invariant: bool = False,
) -> Any:  # fmt: skip
    """Compile a function or a module of PyTorch, once for every shape: ``model = dyn.interop.torch.jit(model)``.

    It is traced at its first call, by running it once on tensors without elements, whose sizes are symbols. Each axis
    of each tensor that is an argument is symbolic, sizes 0 and 1 among them. What the function decides by a size is
    proved, or a guard: a call whose sizes go another way is traced again. Arguments that are no tensors are static.
    Parameters, and other tensors that it closes over, are read at each call; what it writes to them, to buffers or to
    arguments is written. It is traced again for another dtype, rank, layout or tree of arguments, under another
    autocast, when gradients are asked for, when a module in it changes between ``train()`` and ``eval()``, and when an
    attribute of a module that it has read changes.

    An operation that dyn has no form of runs in eager PyTorch, in the midst of the program. A call that cannot be
    traced or compiled at all is made by PyTorch, and so are later ones like it; calls with tensors that are not dense
    arrays, on the CPU or on one GPU, are among them. A :class:`FallbackWarning` says what, where and why, once, and
    ``explain()`` says it again.

    A function of tensors on a GPU runs there, on PyTorch's current stream.

    Args:
        function: a function or module, or a ``torch.export.ExportedProgram``, whose own checks of sizes stay: those
            that it only assumes, such as 2 or more, are not asked for. Without, jit is a decorator with these options.
        dynamic_shapes: what ``torch.export`` takes: a tree like the arguments', a dict by their names or a tuple by
            position, with a dict from axes to dims, or a sequence of dims, for each tensor. A dim is
            ``torch.export.Dim("n", min=1, max=512)``, which is checked at each call and is one size wherever it stands;
            an int, the only size that is taken; ``Dim.STATIC``, which makes a program for each size; or
            ``Dim.DYNAMIC``, ``Dim.AUTO`` and None, which are dynamic, as are axes of which nothing is said.
        strict: have an error where a call, or an operation, would be left to eager PyTorch: NotYetError,
            UnsupportedOpError, UndecidedDimError, CompileError, or what was raised in tracing.
        memory: with ``"low"`` gradients take less memory and more time: the function is computed once more for them,
            segment by segment, from the values between layers, where that takes less than to keep the rest.
        on_new_shape: ``"error"`` raises instead of compiling a second program when a branch on a size goes another way.
        freeze: say that nothing changes the parameters, and other tensors that it closes over, while it is used: where
            no gradients are recorded, matrices that are multiplied are kept once more, in the order in which products
            read them best, and what is written to them later is not seen. Others put in their place are.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are.

    Returns:
        A function of the same arguments, which returns what ``function`` returns: tensors of the same dtypes and
        strides, with memory and gradients as PyTorch's have them. For second derivatives ``function`` is called again.

    Raises:
        ShapeError: for arguments that do not fit together, or not what is declared.
        ArgumentError: for arguments that have no hash, and ``dynamic_shapes`` that are not like the arguments.
    """
    given = {
        "strict": strict, "memory": memory, "on_new_shape": on_new_shape, "freeze": freeze,
        "batch_invariant": batch_invariant,
    }  # fmt: skip
    options = TorchOptions.of(given, "dyn.interop.torch.jit")
    if function is None:
        return functools.partial(jit, dynamic_shapes=dynamic_shapes, **given)
    if isinstance(function, torch.export.ExportedProgram):
        function = function.module()
    if not callable(function):
        raise ArgumentError(f"jit takes a function or a module, not a {type(function).__name__}.")
    shapes = None if dynamic_shapes is None else DynamicShapes(function, dynamic_shapes)
    return _jitted(function, shapes, options)


#: How a user has errors in place of calls and operations that eager PyTorch makes.
_REMEDY = 'strict=True of jit, or options={"strict": True} of torch.compile, makes it an error.'
#: So many programs are made of which each has changed an attribute that it relies on.
MOST_REWRITES = 4

#: The attributes of a jitted function's own.
_OWN = frozenset({
    "_first_steps", "_forgotten", "_function", "_hits_before", "_hooked", "_lock", "_looked_at", "_name",
    "_opened", "_options", "_parts", "_programs", "_shapes", "_strict", "_table", "_traces",
    "fallbacks", "warns_of_many",
})  # fmt: skip


def _jitted(
    function: Callable[..., Any], shapes: DynamicShapes | DeclaredShapes | None, options: TorchOptions
) -> TorchJitted:
    kind = JittedModule if isinstance(function, torch.nn.Module) else TorchJitted
    return kind.single()(function, shapes, options)


def _as_called(forward: Callable[..., Any], compiled: TorchJitted) -> Callable[..., Any]:
    """The call of a compiled module as its ``forward``, with the signature of the module's own."""

    @functools.wraps(forward)
    @passed_by
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    return call


class TorchJitted(LibraryFunction[TorchCall, TensorProgram]):
    """PyTorch function that dyn compiles. Made by :func:`jit`.

    Of a module it has the attributes: they are read and set there, and a method that returns the module (``eval()``,
    ``to(...)``) returns this. ``state_dict()`` has the module's own keys. A copy, deep or by pickling, is of the
    function or the module alone, and compiles anew.

    Attributes:
        programs: its programs, as dyn's own records.
    """

    _unnamed: ClassVar[tuple[str, str]] = (
        "calls differ by attributes that it reads, or by how containers and tensors in objects lie",
        "leave these as they are from call to call, or pass tensors in place of numbers that change.",
    )

    def __init__(
        self, function: Callable[..., Any], shapes: DynamicShapes | DeclaredShapes | None = None,
        options: TorchOptions = DEFAULT,
    ) -> None:  # fmt: skip
        name = getattr(function, "__name__", type(function).__name__)
        wraps = not isinstance(function, torch.nn.Module)
        super().__init__(
            function, name, wraps=wraps, library="eager PyTorch", remedy=_REMEDY, strict=options.strict
        )  # fmt: skip
        self._options = options
        #: What is declared of the tensors' shapes: for each way to call it, or of all calls.
        self._shapes = shapes
        #: The classes whose objects are trees of tensors among the arguments.
        self._opened = Opened()
        #: The optimizers whose first steps eager PyTorch has made, with the identities of the parameters.
        self._first_steps: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
        #: Modules whose hooks a call of the function has changed.
        self._hooked: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        #: The compiled functions of which a distributed module's calls are made.
        self._parts: list[TorchJitted] = []

    def __repr__(self) -> str:
        return f"dyn.interop.torch.jit({self._name})"

    def _binds(self) -> bool:
        return self._module is None

    def __reduce__(self) -> Any:
        """As a function is, by its name, where that is the jitted one; otherwise by the function or module."""
        if self._module is None:
            name, found = getattr(self, "__qualname__", ""), sys.modules.get(getattr(self, "__module__", ""))
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is self:
                return name
        return _jitted, (self._function, self._shapes, self._options)

    # What the module has

    @property
    def _module(self) -> torch.nn.Module | None:
        function = self._function
        return function if isinstance(function, torch.nn.Module) else None

    def __getattr__(self, name: str) -> Any:
        if name == "_function" or name.startswith("__"):  # not made yet, or asked for by a protocol
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        module = self._module
        found = getattr(self._function, name)
        if module is not None and name == "forward":
            return _as_called(found, self)
        if module is None or not isinstance(found, MethodType) or found.__self__ is not module:
            return found
        is_own = name not in vars(torch.nn.Module)

        @functools.wraps(found)
        def method(self: TorchJitted, *args: Any, **kwargs: Any) -> Any:
            with calls_made_by(self._compiled_for) if is_own else contextlib.nullcontext():
                result = found(*args, **kwargs)
            return self if result is module else result

        vars(method)["__wrapped__"] = found.__func__  # signatures leave out the parameter that is bound
        return MethodType(method, self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__":
            raise NotYetError(
                f"a compiled module as one of the class {value.__name__}, as fully_shard makes it.",
                loc=user_loc(),
                remedy="shard the module itself, and leave it to eager PyTorch.",
            )
        if name in _OWN or self._module is None:
            object.__setattr__(self, name, value)
        else:
            setattr(self._function, name, value)

    def __delattr__(self, name: str) -> None:
        if self._module is None:
            object.__delattr__(self, name)
        else:
            delattr(self._function, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._function)})

    # Calling

    @passed_by
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call_slow(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    @passed_by
    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        pass_by_own_if_looked_at()
        try:
            return super()._call_slow(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _rereading(self, read: Callable[[], _T]) -> _T:
        with without_dynamo():
            return super()._rereading(read)

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Fallback | None:
        try:
            return super()._prepared(args, kwargs)
        except (StateCreated, HooksChanged):  # once the first call has made it, calls are of this program
            return None

    def _leave_call(self, fallback: Fallback, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with without_dynamo():
            return super()._leave_call(fallback, args, kwargs)

    def _fallback_for(self, program: TensorProgram, call: TorchCall, error: Exception) -> Fallback | None:
        # What later calls rely on, PyTorch makes: an optimizer's state, which the next step finds, and hooks. The error
        # is not to be held, whose traceback has the call's arguments.
        if isinstance(error, StateCreated) and not self._strict:
            known, new = self._first_steps.setdefault(error.optimizer, set()), error.parameters
            if not new <= known:
                return Fallback(None, lambda: known.update(new))
        if isinstance(error, HooksChanged) and (module := error.module) not in self._hooked:
            return Fallback(None, lambda: self._hooked.add(module))
        if self._strict:
            return None
        if isinstance(error, OverlapError):
            return Fallback(reason_of(error))
        if program.is_compiled_for(call.tensors):
            return None  # what is raised by running, and not by making, the program is the function's own
        reason = reason_of(error)
        if isinstance(error, DistributedModuleError):
            reason = self._in_parts(error, reason)
        return Fallback(reason, lambda: program.leave_to_library(call, reason))

    def _open(self, objects: Sequence[Any]) -> None:
        """Take objects like these apart from now on, which the function changes."""
        for one in objects:
            self._opened.add(one)

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> TorchCall | None:
        if stands:
            args, kwargs = tree_map(_stand_in, (args, kwargs))
        elif current_trace() is not None:
            return None
        return read_call(self._function, self._name, self._opened, self._shapes, args, kwargs)

    def _find_program(self, call: TorchCall) -> TensorProgram | None:
        with self._lock:
            program = self._programs.find(call.key, TensorProgram.is_known_to_be_current)
            if program is None and (program := super()._find_program(call)) is not None:
                if program.renew():
                    self._forget_calls()
                program.watch()
            return program

    def _while_making(self) -> AbstractContextManager[object]:
        return self._lock  # one for all threads that ask

    def _make_program(self, call: TorchCall) -> TensorProgram:
        """A program for a call. Those are forgotten that rely on what is gone, with the tensors that they hold."""
        program, known = TensorProgram(self, call), self._programs.of(call.key)
        program.give([MovingTensor(one) for one in gathered(self._function)])
        if known:
            program.follow(known[-1])
        self._check_rewritten(program, known)
        if lost := self._programs.keep(TensorProgram.is_current):
            self._forget(lost)
            self._forget_calls()
        return program

    def _siblings(self, program: TensorProgram) -> Sequence[TensorProgram]:
        """The programs for tensors like those of one, made for other static arguments or attributes of modules."""
        found: dict[TensorProgram, Any] = {one: state for state, one in self._programs.pairs()}
        own = found.pop(program, None)
        if own is None:  # forgotten since
            return []
        by_state = sorted(found.items(), key=lambda pair: pair[1] == own)  # those of the same arguments last
        return [one for one, (_, _, *rest) in by_state if rest == [*own[2:]]]

    def _in_parts(self, error: DistributedModuleError, reason: FallbackReason) -> FallbackReason:
        """Compile the parts of the modules that calls of a distributed module lead through; ``reason`` says so."""
        modules = [one for one in reached(self._function) if isinstance(one, torch.nn.Module)]
        parts = compile_parts([*modules, error.module], self._part)
        found = [part for part in parts if isinstance(part, TorchJitted)]
        self._parts, count = list({id(part): part for part in (*self._parts, *found)}.values()), len(found)
        says = "1 part of it is" if count == 1 else f"{count} parts of it are"
        return replace(reason, reason=f"{reason.reason} {says} compiled.") if count else reason

    def _part(self, function: Callable[..., Any], name: str) -> TorchJitted:
        part = TorchJitted.single()(function)
        part._name = name
        return part

    def _compiled_for(self, module: torch.nn.Module) -> Callable[..., Any] | None:
        """The compiled function for a call of a module in one of this module's methods: of this one, and of those of
        its parts that have parts themselves, such as an encoder; None for others."""
        whole = self._module
        if module is whole:
            return self
        if whole is None or module._compiled_call_impl is not None or not any(module.children()):
            return None
        with self._lock:
            known = next((one for one in self._parts if one._function is module), None)
            if known is None and any(one is module for one in whole.modules()):
                known = _jitted(module, None, self._options)
                self._parts = [*self._parts, known]
        return known

    def _check_rewritten(self, program: TensorProgram, known: Sequence[TensorProgram]) -> None:
        """Leave calls to eager PyTorch where each changes an attribute that the next one reads, as a counter."""
        counts = Counter([name for one in known for name in one.rewritten])
        name, count = next(iter(counts.most_common(1)), ("", 0))
        if count < MOST_REWRITES:
            return
        error = NotYetError(
            f"{name} is read and changed by each call, of which {count} were compiled.",
            loc=user_loc(),
            remedy="keep it in a buffer, as a tensor that is written in place: self.register_buffer(...).",
        )
        if self._strict:
            raise error
        program.fallback_reason = reason_of(error)

    def _accept_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], call: TorchCall, program: TensorProgram
    ) -> None:
        """Leave calls like this one to the native entry from now on, if it can make them."""
        tensors = call.tensors
        if self._table is not None and self._table.is_full:
            self._forget_calls()
        table = self._call_table(lambda: entry_state) if program.is_for_entry() else None
        if table is not None:
            args, kwargs = private(args, kwargs)
            leaves, tree = tree_flatten((args, kwargs))
            # What containers hold, and PyTorch's state, may be something else by now.
            if same_objects(leaves, call.leaves) and tree == call.tree and torch_state() == call.settings:
                accept(table, args, kwargs, tensors, program.version(tensors), program.modules, program.captured)

    # What there is

    def _made_of(self) -> Sequence[TorchJitted]:
        return self._parts


class JittedModule(TorchJitted, torch.nn.Module):
    """A compiled module: a module itself, whose parameters, parts and methods are those of the one that was compiled.

    A parent finds its parameters, and ``DistributedDataParallel`` takes it. Names of parameters are the module's own;
    ``modules()`` has the module in place of this.
    """


def _of_module(name: str) -> property:
    return property(lambda self: TorchJitted.__getattr__(self, name))


# What torch.nn.Module's own methods and tables would be, the module's are.
for _name in vars(torch.nn.Module):
    if not _name.startswith("__") and _name not in vars(TorchJitted):
        setattr(JittedModule, _name, _of_module(_name))


def _stand_in(leaf: Any) -> Any:
    """A tensor for what stands for one: of these sizes, of which pages of memory are taken as they are written."""
    if not isinstance(leaf, ShapeDtypeStruct):
        return leaf
    dtype = getattr(torch, dtypes.dtype(leaf.dtype).name)
    return torch.empty(leaf.sizes(), dtype=dtype)
