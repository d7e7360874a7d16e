"""``dyn.interop.torch.jit``: functions and modules of PyTorch, traced once for every shape and compiled by dyn."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch.utils._pytree import SequenceKey, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

from dyn import api
from dyn.api import CacheInfo
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.hosts import TORCH
from dyn.interop.torch.calls import Captured, ModuleConditions, accept, entry_state, torch_state
from dyn.interop.torch.dynamic_shapes import Declared, DynamicShapes
from dyn.interop.torch.eager import Piece, cut
from dyn.interop.torch.fallback import OF_CALLERS, Failure, pieces_text, unsupported, warn_of_failure, warn_of_pieces
from dyn.interop.torch.layouts import ROWS, Layout, layout_of
from dyn.interop.torch.randomness import SeedNeeded, new_seed
from dyn.interop.torch.results import Collector, Outputs
from dyn.interop.torch.tracing import Tracing
from dyn.native_callable import NativeCallable
from dyn.source import Loc, user_loc
from dyn.specialize.version import Version
from dyn.trace.context import current_trace
from dyn.trace.static import Static
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def jit(function: Callable[..., Any] | None = None, /, *, dynamic_shapes: Any = None, strict: bool = False) -> Any:
    """Compile a function or a module of PyTorch, once for every shape: ``model = dyn.interop.torch.jit(model)``.

    It is traced at its first call, by running it once on tensors without elements, whose sizes are symbols. Each axis
    of each tensor that is an argument is symbolic, sizes 0 and 1 among them. What the function decides by a size is
    proved, or a guard: a call whose sizes go another way is traced again. Arguments that are no tensors are static.
    Parameters, and other tensors that it closes over, are read at each call; what it writes to them, to buffers or to
    arguments is written. It is traced again for another dtype, rank, layout or tree of arguments, under another
    autocast, when gradients are asked for, and when a module in it changes between ``train()`` and ``eval()``.

    An operation that dyn has no form of runs in eager PyTorch, in the midst of the program. A call that cannot be
    traced or compiled at all is made by PyTorch, and so are later ones like it; calls with tensors that are not dense
    arrays on the CPU are among them. A :class:`FallbackWarning` says what, where and why, once, and ``explain()`` says
    it again.

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

    Returns:
        A function of the same arguments, which returns what ``function`` returns: tensors of the same dtypes and
        strides, with memory and gradients as PyTorch's have them. Second derivatives are refused.

    Raises:
        ShapeError: for arguments that do not fit together, or not what is declared.
        ArgumentError: for arguments that have no hash, and ``dynamic_shapes`` that are not like the arguments.
    """
    if function is None:
        return functools.partial(jit, dynamic_shapes=dynamic_shapes, strict=strict)
    if isinstance(function, torch.export.ExportedProgram):
        function = function.module()
    if not callable(function):
        raise ArgumentError(f"jit takes a function or a module, not a {type(function).__name__}.")
    shapes = None if dynamic_shapes is None else DynamicShapes(function, dynamic_shapes)
    return TorchJitted.single()(function, shapes, strict=strict)


def _as_it_is(loc: Loc) -> Loc:
    return loc


#: The attributes of a jitted function's own.
_OWN = frozenset({
    "_function", "_hits_before", "_locate", "_lock", "_name", "_programs", "_said", "_shapes", "_strict", "_table",
})  # fmt: skip


def _again(function: Callable[..., Any], shapes: DynamicShapes | Declared | None, strict: bool) -> TorchJitted:
    return TorchJitted.single()(function, shapes, strict=strict)


class TorchJitted(NativeCallable):
    """A PyTorch function that dyn compiles. Made by :func:`jit`.

    Of a module it has the attributes: they are read and set there, and a method that returns the module (``eval()``,
    ``to(...)``) returns this. ``state_dict()`` has the module's own keys. A copy, deep or by pickling, is of the
    function or the module alone, and compiles anew.
    """

    def __init__(
        self, function: Callable[..., Any], shapes: DynamicShapes | Declared | None = None, *, strict: bool = False,
        locate: Callable[[Loc], Loc] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._function = function
        self._strict = strict
        #: Gives the user's line for a line of a function that was generated.
        self._locate = locate or _as_it_is
        #: What is declared of the tensors' shapes: for each way to call it, or of all calls.
        self._shapes = shapes
        self._name = getattr(function, "__name__", type(function).__name__)
        #: The function of tensors alone, for each way to call it that is neither a size nor a state of modules.
        self._programs: dict[Any, tuple[TensorProgram, ...]] = {}
        #: What has been said of calls and operations that are left to eager PyTorch.
        self._said: set[Failure | Piece] = set()
        if not isinstance(function, torch.nn.Module):
            functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"dyn.interop.torch.jit({self._name})"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Methods: ``self`` becomes the first argument."""
        return self if instance is None or self._module is not None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        """As a function is, by its name, where that is the jitted one; otherwise by the function or module."""
        if self._module is None:
            name, found = getattr(self, "__qualname__", ""), sys.modules.get(getattr(self, "__module__", ""))
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is self:
                return name
        return _again, (self._function, self._shapes, self._strict)

    # What the module has

    @property
    def _module(self) -> torch.nn.Module | None:
        function = self._function
        return function if isinstance(function, torch.nn.Module) else None

    def __getattr__(self, name: str) -> Any:
        if name == "_function" or name.startswith("__"):  # not made yet, or asked for by a protocol
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        module = self._module
        if module is not None and name == "forward":
            return self.__call__
        found = getattr(self._function, name)
        if module is None or not isinstance(found, MethodType) or found.__self__ is not module:
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is module else result

        return method

    def __setattr__(self, name: str, value: Any) -> None:
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

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is not None:
            return self._function(*args, **kwargs)
        leaves, tree = tree_flatten((args, kwargs))
        tensors: list[torch.Tensor] = []
        rest: list[Any] = []
        types: list[TensorType] = []
        try:
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor):
                    types.append(_type(leaf, tensors))
                    tensors.append(leaf)
                    rest.append(None)
                else:
                    rest.append(Static("argument", leaf))
        except UnsupportedOpError as error:
            if self._strict:
                raise
            failure = Failure.of(error)
            return self._eagerly(failure, args, kwargs)
        declared = self._shapes
        if isinstance(declared, DynamicShapes):
            key = (tree, tuple([type.rank for type in types]))
            declared = declared.declared(args, kwargs, key).of(tensors)
        state = (tree, tuple(rest), tuple(types), torch_state(), declared)
        try:
            hash(state)
        except TypeError:
            raise self._unhashable(args, kwargs) from None
        program = self._program(state, lambda: TensorProgram(self, tree, rest, types, declared))
        failure = program.failure
        if failure is None or program.is_compiled_for(tensors):
            try:
                result = program(tensors)
            except OF_CALLERS:
                raise
            except Exception as error:
                # What is raised by running, and not by making, the program is the function's own.
                if self._strict or program.is_compiled_for(tensors):
                    raise
                failure = Failure.of(error)
            else:
                self._report(program)
                self._accept(args, kwargs, tensors, program)
                return result
        result = self._eagerly(failure, args, kwargs)
        program.failure = failure
        return result

    def _program(self, state: Any, make: Callable[[], TensorProgram]) -> TensorProgram:
        """The program for a state, made where there is none: one for all threads that ask.

        Those are forgotten then that rely on what is gone, with the tensors that they hold.
        """
        with self._lock:
            known = self._programs.get(state, ())
            program = next((one for one in known if one.is_training_same() and one.is_current()), None)
            if program is not None:
                return program
            program = make()
            current = {key: tuple([one for one in known if one.is_current()]) for key, known in self._programs.items()}
            if sum(map(len, current.values())) < sum(map(len, self._programs.values())):
                self._forget_calls()
            self._programs = {key: known for key, known in current.items() if known}
            self._programs[state] = (*self._programs.get(state, ()), program)
            return program

    def _accept(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor], program: TensorProgram
    ) -> None:
        """Leave calls like this one to the native entry from now on, if it can make them."""
        if self._table is not None and self._table.is_full:
            self._forget_calls()
        table = self._call_table(lambda: entry_state) if program.is_for_entry() else None
        if table is not None:
            accept(table, args, kwargs, tensors, program.version(tensors), program.modules, program.captured)

    def _eagerly(self, failure: Failure, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the function as it is. What that raises counts, and nothing is said of a failure then."""
        result = self._function(*args, **kwargs)
        failure = replace(failure, loc=self._locate(failure.loc))
        if failure not in self._said:
            self._said.add(failure)
            warn_of_failure(self._name, failure)
        return result

    def _report(self, program: TensorProgram) -> None:
        """Say which operations of a program are eager PyTorch's, those that nothing was said of."""
        for pieces in program.pieces:
            if not self._said.issuperset(pieces):
                self._said.update(pieces)
                warn_of_pieces(self._name, pieces)

    def _unhashable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentError:
        """The error for the first argument that is no tensor and has no hash."""
        for path, leaf in tree_flatten_with_path((args, kwargs))[0]:
            if isinstance(leaf, torch.Tensor):
                continue
            try:
                hash(leaf)
            except TypeError:
                name = ("args" if path[0] == SequenceKey(0) else "kwargs") + keystr(path[1:])
                kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}".removeprefix("builtins.")
                return ArgumentError(
                    f"{self._name}(): {name} is a {kind}, which is neither a tensor nor has a hash.",
                    loc=user_loc(),
                    remedy="pass torch.as_tensor(...) of it." if hasattr(leaf, "__array__") else "pass a tuple.",
                )
        raise AssertionError("all arguments have hashes")

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], seen: weakref.WeakSet[torch.nn.Module]) -> Any:
        """The function as it is; the modules that it calls are noted in ``seen``."""
        thread = threading.get_ident()

        def note(module: torch.nn.Module, given: Any) -> None:
            if threading.get_ident() == thread:
                seen.add(module)

        handle = torch.nn.modules.module.register_module_forward_pre_hook(note)
        try:
            return self._function(*args, **kwargs)
        finally:
            handle.remove()

    def cache_info(self) -> CacheInfo:
        """How many programs were compiled, calls that found one, guards that tell programs apart, compile seconds."""
        infos = [program.jitted.cache_info() for program in self._in_order()]
        native = CacheInfo(0, self._native_hits(), 0, 0.0)
        return CacheInfo(*[sum(column) for column in zip(native, *infos, strict=True)])

    def explain(self) -> str:
        """What was traced, assumed, proved, stitched and generated, for each way in which it was called."""
        parts: list[str] = []
        for program in self._in_order():
            if program.jitted.cache_info().compiles:
                parts.append(str(program.jitted.explain()))
            parts += [pieces_text(pieces) for pieces in program.pieces if pieces]
        failures = [said for said in self._said if isinstance(said, Failure)]
        return "\n\n".join([*parts, *[f"calls in eager PyTorch: {failure}" for failure in failures]])

    def _in_order(self) -> list[TensorProgram]:
        return [program for known in list(self._programs.values()) for program in known]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Everything of a tensor argument that a program is made for, beside its sizes.

    ``same_as`` is the number of an argument before it that is the same tensor.
    """

    dtype: torch.dtype
    rank: int
    device: torch.device
    layout: Layout
    #: Whether it requires a gradient, where gradients are recorded.
    has_gradient: bool
    same_as: int | None


class TensorProgram:
    """A function of tensors alone: a compiled one for one tree, layouts, static arguments and state of PyTorch."""

    def __init__(
        self, owner: TorchJitted, tree: Any, rest: Sequence[Any], types: Sequence[TensorType],
        declared: Declared | None = None,
    ) -> None:  # fmt: skip
        self.owner, self.tree, self.rest, self.types = owner, tree, tuple(rest), tuple(types)
        #: Why eager PyTorch makes calls for which nothing is compiled; None as long as dyn makes them all.
        self.failure: Failure | None = None
        #: The operations of each program that eager PyTorch runs.
        self.pieces: list[tuple[Piece, ...]] = []
        #: The tensors that it captures, and the modules that it calls, as far as it was traced.
        self.captured: tuple[Captured, ...] = ()
        self._called: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.modules = ModuleConditions.of((), _ignore)

        #: Whether the function draws random numbers, for which each call has a seed.
        self._draws = False

        def traced(args: tuple[Any, ...], seed: Tracer | None) -> Outputs:
            return self._trace(args, seed)

        traced.__name__ = traced.__qualname__ = owner._name
        if declared is None:
            self.jitted = api.jit(traced)
        else:
            self.jitted = api.jit(traced, shapes={"args": declared.axes}, dims=declared.dims)

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        given = tuple([tensor.detach() for tensor in tensors])
        if not self._draws:
            try:
                return self._finished(self.jitted(given, None), tensors)
            except SeedNeeded:
                self._draws = True
        return self._finished(self.jitted(given, new_seed()), tensors)

    @staticmethod
    def _finished(outputs: Outputs, tensors: Sequence[torch.Tensor]) -> Any:
        results, plan = outputs.results, outputs.plan
        if not tensors:  # programs without arguments, a seed among them, have NumPy's results
            results = [one if isinstance(one, torch.Tensor) else TORCH.wrap(one) for one in results]
        if plan.derivative is not None:
            results = plan.derivative.attached(results, tensors, plan.captured)
        return plan.finish(results, tensors)

    def is_compiled_for(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether there is a program for tensors of such sizes."""
        seed = torch.zeros((), dtype=torch.int64) if self._draws else None
        return self.jitted.is_compiled_for(tuple([tensor.detach() for tensor in tensors]), seed)

    def is_current(self) -> bool:
        """Whether the tensors that it captures are where they were, and modules what they were."""
        return self.modules.is_current() and all(one.is_current() for one in self.captured)

    def is_training_same(self) -> bool:
        """Whether those modules train that did."""
        return self.modules.is_training_same()

    def is_for_entry(self) -> bool:
        """Whether the entry can tell its arguments from others, and make the calls: arguments lie in rows and are
        different ones, no gradients are asked for, and Python has no part in it."""
        if torch.is_grad_enabled() and any(one.requires_grad for one in self.captured):
            return False
        if self._draws or self.failure is not None or any(self.pieces) or isinstance(self.owner._shapes, DynamicShapes):
            return False
        return all(type.layout == ROWS and type.same_as is None and not type.has_gradient for type in self.types)

    def version(self, tensors: Sequence[torch.Tensor]) -> Version:
        """What makes a call, which it has made before."""
        return self.jitted.version_of(tuple([TORCH.view(tensor.detach()) for tensor in tensors]), None)

    def _trace(self, tracers: Sequence[Tracer], seed: Tracer | None) -> Outputs:
        trace = current_trace()
        assert trace is not None, "dyn.jit calls functions in a trace"
        tracing = Tracing(trace, seed, None if self.owner._strict else cut)
        given: list[Any] = []
        for number, (tracer, type) in enumerate(zip(tracers, self.types, strict=True)):
            if type.same_as is None:
                given.append(tracing.argument(tracer, type.layout, type.dtype, type.device, number))
                given[-1].requires_grad_(type.has_gradient)
            else:
                given.append(given[type.same_as])
        left = iter(given)
        leaves = [next(left) if one is None else one.value for one in self.rest]
        args, kwargs = tree_unflatten(leaves, self.tree)
        with tracing.active():
            try:
                returned = self.owner._call(args, kwargs, self._called)
            finally:
                self.modules = ModuleConditions.of(self._called, self._on_end())
        if tracing.keys.asked and seed is None:  # and the function went on all the same
            raise SeedNeeded
        outputs = Collector(tracing, given).collect(returned, self.owner._name)
        self.captured += tuple([Captured.of(tensor) for tensor, _ in tracing.captured.values()])
        locate = self.owner._locate
        self.pieces.append(tuple([replace(piece, loc=locate(piece.loc)) for piece in tracing.pieces]))
        return outputs

    def _on_end(self) -> Callable[[Any], None]:
        """What to do when a module dies that it calls: the entry cannot tell, and Python has to be asked again."""
        owner = weakref.ref(self.owner)

        def ended(module: Any) -> None:
            found = owner()
            if found is not None:
                found._forget_calls()

        return ended


def _ignore(module: Any) -> None:
    """For modules that nobody waits for."""


def _type(tensor: torch.Tensor, before: Sequence[torch.Tensor]) -> TensorType:
    """What of an argument decides about the program, beside what dyn.jit looks at itself."""
    kind = unsupported(tensor)
    if kind is not None:
        raise UnsupportedOpError(f"{kind}.", loc=user_loc(), remedy="pass a plain, dense torch.Tensor on the CPU.")
    same = next((number for number, other in enumerate(before) if other is tensor), None)
    has_gradient = tensor.requires_grad and torch.is_grad_enabled()
    return TensorType(tensor.dtype, tensor.ndim, tensor.device, layout_of(tensor), has_gradient, same)
