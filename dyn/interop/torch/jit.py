"""``dyn.interop.torch.jit``: functions and modules of PyTorch, traced once for every shape and compiled by dyn."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch.utils._pytree import SequenceKey, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

from dyn import api
from dyn.api import CacheInfo
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError
from dyn.forking import lock
from dyn.hosts import TORCH
from dyn.interop.torch.attributes import Changes, Reads, is_plain, settable
from dyn.interop.torch.calls import Captured, ModuleConditions, accept, entry_state, torch_state, transformation
from dyn.interop.torch.distributed import DistributedModuleError, compile_parts, gathered
from dyn.interop.torch.dynamic_shapes import Declared, DynamicShapes
from dyn.interop.torch.eager import Piece, cut
from dyn.interop.torch.errors import torch_error
from dyn.interop.torch.fallback import OF_CALLERS, Failure, pieces_text, unsupported, warn_of_failure, warn_of_pieces
from dyn.interop.torch.gradients import Derivative, Given, spent
from dyn.interop.torch.hidden import (
    Hidden,
    HiddenNeeded,
    HiddenState,
    MovingTensor,
    OptimizerState,
    StateCreated,
)
from dyn.interop.torch.layouts import ROWS, Layout, layout_of
from dyn.interop.torch.objects import SIMPLE, Copies, ObjectLayout, Opened, closed_over, reached
from dyn.interop.torch.randomness import GeneratorNumber, Seed, SeedNeeded, Seeds, identity
from dyn.interop.torch.results import Collector, Outputs, OverlapError, Plan
from dyn.interop.torch.second_derivatives import EagerCall
from dyn.interop.torch.sizes import SizesNeeded, answers_by_sizes
from dyn.interop.torch.subclasses import WrapperLayout, is_wrapper
from dyn.interop.torch.tensors import refuse_leaks
from dyn.interop.torch.threads import limited
from dyn.interop.torch.tracing import StartsNeeded, Tracing
from dyn.native_callable import NativeCallable
from dyn.source import user_loc
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
    autocast, when gradients are asked for, when a module in it changes between ``train()`` and ``eval()``, and when an
    attribute of a module that it has read changes.

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
        strides, with memory and gradients as PyTorch's have them. For second derivatives ``function`` is called again.

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
    return _jitted(function, shapes, strict)


#: So many programs are made of which each has changed an attribute that it relies on.
MOST_REWRITES = 4

#: So often a program is traced again because a tensor that it captures lies elsewhere. Then the tensor is an argument,
#: and calls go by Python.
MOST_MOVES = 4

#: The attributes of a jitted function's own.
_OWN = frozenset({
    "_first_steps", "_function", "_hits_before", "_lock", "_name", "_opened", "_parts", "_programs", "_said",
    "_shapes", "_strict", "_table",
})  # fmt: skip


def _jitted(function: Callable[..., Any], shapes: DynamicShapes | Declared | None, strict: bool) -> TorchJitted:
    kind = JittedModule if isinstance(function, torch.nn.Module) else TorchJitted
    return kind.single()(function, shapes, strict=strict)


class TorchJitted(NativeCallable):
    """A PyTorch function that dyn compiles. Made by :func:`jit`.

    Of a module it has the attributes: they are read and set there, and a method that returns the module (``eval()``,
    ``to(...)``) returns this. ``state_dict()`` has the module's own keys. A copy, deep or by pickling, is of the
    function or the module alone, and compiles anew.
    """

    def __init__(
        self, function: Callable[..., Any], shapes: DynamicShapes | Declared | None = None, *, strict: bool = False
    ) -> None:
        super().__init__()
        self._function = function
        self._strict = strict
        #: What is declared of the tensors' shapes: for each way to call it, or of all calls.
        self._shapes = shapes
        self._name = getattr(function, "__name__", type(function).__name__)
        #: The function of tensors alone, for each way to call it that is neither a size nor a state of modules.
        self._programs: dict[Any, tuple[TensorProgram, ...]] = {}
        #: What has been said of calls and operations that are left to eager PyTorch.
        self._said: set[Failure | Piece] = set()
        #: The classes whose objects are trees of tensors among the arguments.
        self._opened = Opened()
        #: The optimizers whose first steps eager PyTorch has made, with the identities of the parameters.
        self._first_steps: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
        #: The compiled functions of which a distributed module's calls are made.
        self._parts: list[TorchJitted] = []
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
        return _jitted, (self._function, self._shapes, self._strict)

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
        def method(self: TorchJitted, *args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is module else result

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

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is not None:
            return self._function(*args, **kwargs)
        while True:
            try:
                return self._call_compiled(args, kwargs)
            except ArgumentChanged as found:  # before anything is computed
                for one in found.changed:
                    self._opened.add(one)

    def _call_compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call by a program, or by eager PyTorch where there can be none.

        Raises ArgumentChanged where the function changes an object that was taken for static.
        """
        leaves, tree = tree_flatten((args, kwargs))
        tensors: list[torch.Tensor] = []
        generators: list[torch.Generator] = []
        rest: list[Static | ObjectLayout | WrapperLayout | GeneratorNumber | None] = []
        inside: list[torch.Tensor]
        types: list[TensorType] = []
        try:
            _check_place()
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor) and is_wrapper(leaf) and self._shapes is None:
                    inside = []
                    rest.append(WrapperLayout.of(leaf, inside))
                    _check_hash(leaf, rest[-1])
                    for tensor in inside:
                        types.append(_type(tensor, tensors))
                        tensors.append(tensor)
                elif isinstance(leaf, torch.Tensor):
                    types.append(_type(leaf, tensors))
                    tensors.append(leaf)
                    rest.append(None)
                elif isinstance(leaf, torch.Generator):
                    rest.append(GeneratorNumber.of(leaf, generators))
                elif type(leaf) not in SIMPLE and self._opened.takes(leaf):
                    inside = []
                    rest.append(self._opened.layout(leaf, inside))
                    _check_hash(leaf, rest[-1])
                    for tensor in inside:
                        types.append(_type(tensor, tensors))
                        tensors.append(tensor)
                else:
                    rest.append(Static("argument", leaf))
        except UnsupportedOpError as error:
            if self._strict:
                raise
            return self._eagerly(Failure.of(error), args, kwargs)
        declared = self._shapes
        if isinstance(declared, DynamicShapes):
            key = (tree, tuple([type.rank for type in types]))
            declared = declared.declared(args, kwargs, key).of(tensors)
        state = (tree, tuple(rest), tuple(types), torch_state(), declared)
        try:
            hash(state)
        except TypeError:
            raise self._unhashable(args, kwargs) from None
        try:
            program = self._program(state, lambda: TensorProgram(self, tree, rest, types, declared))
        except UnsupportedOpError as error:  # of a gradient
            if self._strict:
                raise
            return self._eagerly(Failure.of(error), args, kwargs)
        failure = program.failure
        if failure is None or program.is_compiled_for(tensors):
            try:
                with limited():
                    result = program(tensors, generators, lambda: self._opened.containers((*args, *kwargs.values())))
            except ShapeError as error:
                raise torch_error(error) from None
            except OF_CALLERS:
                raise
            except OverlapError as error:
                if self._strict:
                    raise
                return self._eagerly(Failure.of(error), args, kwargs)
            except Exception as error:
                if isinstance(error, StateCreated) and not self._strict and self._is_first(error):
                    return self._function(*args, **kwargs)  # makes the state, which the next step finds
                # What is raised by running, and not by making, the program is the function's own.
                if self._strict or program.is_compiled_for(tensors):
                    raise
                failure = Failure.of(error)
                if isinstance(error, DistributedModuleError):
                    failure = self._in_parts(error, failure)
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
            program = next((one for one in known if one.is_for_now() and one.is_current()), None)
            if program is not None:
                if program.renew():
                    self._forget_calls()
                return program
            program = make()
            program.give([MovingTensor(one) for one in gathered(self._function)])
            if known:
                program.follow(known[-1])
            self._check_rewritten(program, known)
            current = {key: tuple([one for one in known if one.is_current()]) for key, known in self._programs.items()}
            if sum(map(len, current.values())) < sum(map(len, self._programs.values())):
                self._forget_calls()
            self._programs = {key: known for key, known in current.items() if known}
            self._programs[state] = (*self._programs.get(state, ()), program)
            return program

    def _in_parts(self, error: DistributedModuleError, failure: Failure) -> Failure:
        """Compile the parts of the modules that calls of a distributed module lead through; ``failure`` says so."""
        modules = [one for one in reached(self._function) if isinstance(one, torch.nn.Module)]
        parts = compile_parts([*modules, error.module], self._part)
        self._parts = [part for part in parts if isinstance(part, TorchJitted)]
        count = len(self._parts)
        says = "1 part of it is" if count == 1 else f"{count} parts of it are"
        return replace(failure, reason=f"{failure.reason} {says} compiled.") if count else failure

    def _part(self, function: Callable[..., Any], name: str) -> TorchJitted:
        part = TorchJitted.single()(function)
        part._name = name
        return part

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
        program.failure = Failure.of(error)

    def _is_first(self, created: StateCreated) -> bool:
        """Whether an optimizer makes state for parameters that it has not made any for before."""
        known = self._first_steps.setdefault(created.optimizer, set())
        is_first = not created.parameters <= known
        known |= created.parameters
        return is_first

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
        self._say(failure)
        return result

    def _say(self, failure: Failure) -> None:
        """Say, once, why PyTorch makes a call."""
        if failure not in self._said:
            self._said.add(failure)
            warn_of_failure(self._name, failure)

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

    def cache_info(self) -> CacheInfo:
        """How many programs were compiled, calls that found one, guards that tell programs apart, compile seconds."""
        infos = [program.jitted.cache_info() for program in self._in_order()]
        infos += [part.cache_info() for part in self._parts]
        native = CacheInfo(0, self._native_hits(), 0, 0.0)
        return CacheInfo(*[sum(column) for column in zip(native, *infos, strict=True)])

    def explain(self) -> str:
        """What was traced, assumed, proved, stitched and generated, for each way in which it was called."""
        parts: list[str] = []
        for program in self._in_order():
            if program.jitted.cache_info().compiles:
                parts.append(str(program.jitted.explain()))
            parts += [pieces_text(pieces) for pieces in program.pieces if pieces]
        parts += [part.explain() for part in self._parts]
        failures = [said for said in self._said if isinstance(said, Failure)]
        return "\n\n".join([*parts, *[f"calls in eager PyTorch: {failure}" for failure in failures]])

    def _in_order(self) -> list[TensorProgram]:
        return [program for known in list(self._programs.values()) for program in known]


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


@dataclass(frozen=True, slots=True)
class TensorType:
    """Everything of a tensor argument that a program is made for, beside its sizes.

    ``same_as`` is the number of an argument before it that is the same tensor.
    """

    dtype: torch.dtype
    rank: int
    device: torch.device
    layout: Layout
    #: Whether it requires a gradient, where gradients are recorded, and whether it is a leaf then.
    has_gradient: bool
    is_leaf: bool
    same_as: int | None


@dataclass(frozen=True, eq=False, slots=True)
class _Compiled:
    """The function that dyn compiles, and the state of PyTorch's objects that it is given, with the types of what that
    was."""

    function: Any
    hidden: tuple[Hidden, ...]
    types: tuple[TensorType | None, ...]


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
        #: The tensors that it captures, and what it reads of modules, as far as it was traced.
        self.captured: tuple[Captured, ...] = ()
        self.modules = ModuleConditions.of((), _ignore)

        #: The attributes that it reads and changes: calls that do so have another program each.
        self.rewritten: frozenset[str] = frozenset()
        #: Whether it counts places from where memory starts. Arguments that start elsewhere are PyTorch's.
        self._has_starts = False
        self.declared = declared
        #: What of the optimizers that step has to be as it was.
        self._optimizers: list[OptimizerState] = []
        #: What the function is given in the place of generators among its arguments.
        count = max([one.number + 1 for one in rest if isinstance(one, GeneratorNumber)], default=0)
        self._generators = [torch.Generator() for _ in range(count)]
        self._has_run = False
        #: How often tensors, by identity, were elsewhere than where a program like this one had captured them.
        self._moves: dict[int, int] = {}
        self._giving = lock()
        self._compiled = self._of(())

    @property
    def jitted(self) -> Any:
        """The function of tensors that dyn compiles."""
        return self._compiled.function

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """The state of PyTorch's objects that it is given."""
        return self._compiled.hidden

    def _of(self, hidden: tuple[Hidden, ...]) -> _Compiled:
        """The function that is given ``hidden`` state. Sizes of hidden arguments are numbers, as those of parameters.

        Raises UnsupportedOpError for what no program is given.
        """
        values = [one.sample() for one in hidden]
        types = _types(values)

        def traced(args: tuple[Any, ...], hidden: tuple[Any, ...]) -> Outputs:
            return self._trace(args, hidden, compiled)

        traced.__name__ = traced.__qualname__ = self.owner._name
        sizes = tuple([tuple(value.shape) for value in values if value is not None])
        shapes: dict[str, Any] = {"hidden": sizes} if sizes else {}
        if self.declared is not None:
            function = api.jit(traced, shapes=shapes | {"args": self.declared.axes}, dims=self.declared.dims)
        else:
            function = api.jit(traced, shapes=shapes or None)
        compiled = _Compiled(function, hidden, types)
        return compiled

    def give(self, hidden: Sequence[Hidden]) -> None:
        """Give it more of the state of PyTorch's objects. Raises UnsupportedOpError for what no program is given."""
        with self._giving:
            known = {one.key: one for one in (*self.hidden, *hidden)}
            if len(known) > len(self.hidden):
                self._compiled = self._of(tuple({**known, **{one.key: one for one in self.hidden}}.values()))

    def follow(self, last: TensorProgram) -> None:
        """Give it what the last program for such calls was given, and tensors that have moved too often since."""
        moved = {id(one.held.tensor): one.held.tensor for one in last.captured if one.has_moved()}
        self._moves = {key: last._moves.get(key, 0) + 1 for key in moved}
        known = [one for one in last.hidden if not isinstance(one, Seed)]
        self.give([*known, *[MovingTensor(one) for key, one in moved.items() if self._moves[key] >= MOST_MOVES]])

    def __call__(
        self, tensors: Sequence[torch.Tensor], generators: Sequence[torch.Generator],
        containers: Callable[[], Sequence[Any]],
    ) -> Any:  # fmt: skip
        """The result of a call with these ``tensors`` and ``generators``, once what it changes of the arguments'
        ``containers`` is changed."""
        seeds = Seeds(generators, restores=not self._has_run)
        try:
            result = self._called(tensors, seeds, containers)
        except BaseException:
            seeds.restore()  # whoever makes the call now draws what it would have
            raise
        self._has_run = True
        return result

    def _called(self, tensors: Sequence[torch.Tensor], seeds: Seeds, containers: Callable[[], Sequence[Any]]) -> Any:
        by_sizes = False
        while True:  # until a trace has all that it needs
            compiled = self._compiled
            values = [seeds.of(one) if isinstance(one, Seed) else one.sample() for one in compiled.hidden]
            hidden = _apart(tensors, values)
            if self._has_starts and not _start_at_0([*tensors, *hidden]):
                raise NotYetError(
                    "as_strided with storage_offset= of a tensor that does not start where its memory does.",
                    loc=user_loc(),
                    remedy="leave storage_offset= out, or pass a clone() of the tensor.",
                )
            try:
                with answers_by_sizes(by_sizes):
                    outputs = compiled.function(_plain(tensors), _plain(hidden))
                return self._finished(outputs, [*tensors, *hidden], containers)
            except SeedNeeded as error:
                self.give([self._seed(error.generator)])
            except StartsNeeded:
                self._has_starts = True
            except HiddenNeeded as error:
                self.give(error.hidden)
            except SizesNeeded:
                if by_sizes:  # sizes of the call do not tell
                    raise NotYetError(
                        "a write to what is a view or a copy by a size that the program finds out.",
                        loc=user_loc(),
                        remedy="write to a clone() of it.",
                    ) from None
                by_sizes = True

    def _seed(self, generator: torch.Generator) -> Seed:
        """A seed of a generator that the function has come to: one that it closes over, or that stands for another."""
        known = [identity(one) for one in self._generators]
        number = known.index(identity(generator)) if identity(generator) in known else None
        return Seed(generator if number is None else number)

    def _finished(
        self, outputs: Outputs, tensors: Sequence[torch.Tensor], containers: Callable[[], Sequence[Any]]
    ) -> Any:
        results, plan = outputs.results, outputs.plan
        if not tensors:  # programs without arguments have NumPy's results
            results = [one if isinstance(one, torch.Tensor) else TORCH.wrap(one) for one in results]
        if plan.derivative is not None:
            call = self._eager_call(plan, plan.derivative, tensors)
            results = plan.derivative.attached(results, tensors, plan.captured, call)
        if plan.spent:
            results = [spent(one) if number in plan.spent else one for number, one in enumerate(results)]
        return plan.finish(results, tensors, containers)

    def _eager_call(self, plan: Plan, derivative: Derivative, tensors: Sequence[torch.Tensor]) -> EagerCall:
        """The call as the function as it is would make it, for second derivatives."""
        dtype, autocast, _ = torch_state()

        def again(tensors: Sequence[Any]) -> list[torch.Tensor]:
            self.owner._say(
                Failure("a second derivative (create_graph=True), for which it is called again.", user_loc())
            )
            args, kwargs = self._arguments(tensors)
            with torch.autocast("cpu", dtype=autocast or None, enabled=autocast is not False, cache_enabled=False):
                return plan.memories(self.owner._function(*args, **kwargs), derivative.results)

        def refusal() -> str | None:
            if self.owner._strict:
                return "strict=True"
            if any(isinstance(one, Seed) for one in self.hidden):
                return "it draws random numbers"
            if any(isinstance(one, MovingTensor) for one in self.hidden):
                return "it closes over tensors that have moved in memory"
            if self.hidden:
                return "it reads or leaves gradients"
            if plan.writes:
                return "it writes to tensors"
            if plan.has_objects:
                return "it returns or changes objects"
            same = self.is_current() and self.is_for_now() and torch.get_default_dtype() is dtype
            return None if same else "modules or settings have changed since"

        return EagerCall.of(again, refusal, derivative.inputs, tensors, plan.captured)

    def _arguments(self, tensors: Sequence[Any]) -> Any:
        """Arguments and keywords of a call of the function, with these tensors."""
        left = iter(tensors)
        leaves: list[Any] = []
        for one in self.rest:
            match one:
                case None:
                    leaves.append(next(left))
                case ObjectLayout() | WrapperLayout():
                    leaves.append(one.made(left))
                case GeneratorNumber(number):
                    leaves.append(self._generators[number])
                case _:
                    leaves.append(one.value)
        return tree_unflatten(leaves, self.tree)

    def is_compiled_for(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether there is a program for tensors of such sizes."""
        compiled = self._compiled
        hidden = _apart(tensors, [one.sample() for one in compiled.hidden])
        if self._has_starts and not _start_at_0([*tensors, *hidden]):
            return False
        return compiled.function.is_compiled_for(_plain(tensors), _plain(hidden))

    def is_current(self) -> bool:
        """Whether the tensors that it captures are where they were, and modules what they were."""
        return self.modules.is_current() and all(one.is_current() for one in self.captured)

    def is_for_now(self) -> bool:
        """Whether the attributes that it read of modules are what they were, and hidden arguments and optimizers are
        such as they were."""
        if not self.modules.are_attributes_same():
            return False
        try:
            compiled = self._compiled
            now = _types([one.sample() for one in compiled.hidden])
        except UnsupportedOpError:
            return False
        return now == compiled.types and all(one.is_current() for one in self._optimizers)

    def renew(self) -> bool:
        """Whether attributes are other objects now, equal to those that they were, which are forgotten."""
        if self.modules.are_attributes_identical():
            return False
        self.modules = self.modules.renewed()
        return True

    def is_for_entry(self) -> bool:
        """Whether the entry can tell its arguments from others, and make the calls: arguments lie in rows and are
        different ones, no gradients are asked for, and Python has no part in it."""
        if torch.is_grad_enabled() and any(one.requires_grad for one in self.captured):
            return False
        if (
            self._has_starts
            or self.hidden
            or self.failure is not None
            or any(self.pieces)
            or isinstance(self.owner._shapes, DynamicShapes)
        ):
            return False
        if any(isinstance(one, ObjectLayout | WrapperLayout | GeneratorNumber) for one in self.rest):
            return False
        return all(type.layout == ROWS and type.same_as is None and not type.has_gradient for type in self.types)

    def version(self, tensors: Sequence[torch.Tensor]) -> Version:
        """What makes a call, which it has made before."""
        return self.jitted.version_of(tuple([TORCH.borrow(tensor.detach()) for tensor in tensors]), ())

    def _trace(self, tracers: Sequence[Tracer], hidden: Sequence[Tracer], compiled: _Compiled) -> Outputs:
        trace = current_trace()
        assert trace is not None, "dyn.jit calls functions in a trace"
        tracing = Tracing(trace, None if self.owner._strict else cut, self._has_starts)
        try:
            outputs = self._collected(tracing, tracers, hidden, compiled)
        except Exception as error:
            if tracing.env.strayed:
                raise SizesNeeded from error
            raise
        if tracing.keys.missing:  # and the function went on all the same
            raise SeedNeeded(tracing.keys.missing[0])
        if tracing.env.refused:  # likewise
            raise SizesNeeded
        captured = tuple([Captured.of(tensor) for tensor, _ in tracing.captured.values()])
        tensors, pieces = tracing.maker.tensors, tuple(tracing.pieces)
        del tracing
        refuse_leaks(tensors)
        self.captured += captured
        self.pieces.append(pieces)
        return outputs

    def _collected(
        self, tracing: Tracing, tracers: Sequence[Tracer], hidden: Sequence[Tracer], compiled: _Compiled
    ) -> Outputs:
        """What the function gives for traced tensors of these values, collected."""
        given: list[Given] = []
        found = [pair for pair in zip(compiled.hidden, compiled.types, strict=True) if pair[1] is not None]
        types = [*self.types, *[type for _, type in found if type is not None]]
        for number, (tracer, type) in enumerate(zip([*tracers, *hidden], types, strict=True)):
            if type.same_as is not None:
                given.append(given[type.same_as])
                continue
            tensor = tracing.argument(tracer, type.layout, type.dtype, type.device, number)
            match found[number - len(tracers)][0] if number >= len(tracers) else None:
                case MovingTensor(moving):  # which autograd knows, not what stands for it
                    tracing.stand_ins[id(moving)] = moving, tensor
                case Seed(generator):
                    generator = self._generators[generator] if isinstance(generator, int) else generator
                    tracing.keys.add(generator, tracer)
                case _:
                    tensor.requires_grad_(type.has_gradient)
            given.append(Given(tracing, tensor, type.is_leaf))
        with tracing.active():  # classes that are registered may compute
            args, kwargs = self._arguments([one.tensor for one in given[: len(tracers)]])
        left = iter(given[len(tracers) :])
        state = HiddenState(compiled.hidden, [None if one is None else next(left).tensor for one in compiled.types])
        tracing.on_capture = state.note_captured
        for tensor, _ in tracing.stand_ins.values():
            state.note_captured(tensor)

        def captured() -> list[torch.Tensor]:
            return [tensor for tensor, _ in (*tracing.stand_ins.values(), *tracing.captured.values())]

        leaves = [tensor for one in given[: len(tracers)] for tensor in (one.leaf, one.tensor)]
        own = Copies(self.owner._opened.containers((*args, *kwargs.values())))
        returned, outside = self._run(tracing, args, kwargs, state.placed(leaves, captured))
        self._optimizers = state.optimizers
        collector = Collector(tracing, given)
        return collector.collect(returned, self.owner._name, own.containers, own.changed(), settable(outside), state)

    def _run(
        self, tracing: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], state: AbstractContextManager[None]
    ) -> tuple[Any, Changes]:
        """What the function returns, and the attributes of modules that it changes, run in ``state``.

        Nothing from outside of it has changed then: raises ArgumentChanged and NotYetError where it did that cannot be
        done at each call.
        """
        owner = self.owner
        statics = self._plain_statics()
        closed = Copies(owner._opened.containers(closed_over(owner._function), plain=True))
        reads = Reads()
        tracing.on_wrapper = reads.note_wrapper
        try:
            with reads.recording(), tracing.keys.watched(), tracing.active(), state:
                returned = owner._function(*args, **kwargs)
        finally:
            outside = reads.taken_back()
            self.rewritten |= reads.rewritten(outside)
            self.modules = self.modules.joined(ModuleConditions.of(reads.watched.values(), self._on_end()))
            changed = statics.leading_to_changed()
            statics.restore()
            kept = closed.taken_back(tracing.is_own)
        if changed:
            raise ArgumentChanged(changed)
        if kept is not None:
            raise NotYetError(
                f"a tensor is kept in a {type(kept).__name__} that the function, or a hook of a module, closes over.",
                loc=user_loc(),
                remedy="return it, or write it to a tensor or a buffer in place.",
            )
        return returned, outside

    def _plain_statics(self) -> Copies:
        """What is in the plain objects that are passed as they are."""
        statics: list[Any] = []
        for one in self.rest:
            if isinstance(one, ObjectLayout | Static):
                statics += one.statics() if isinstance(one, ObjectLayout) else [one.value]
        plain = tuple([one for one in statics if is_plain(type(one))])
        return Copies(self.owner._opened.containers(plain, plain=True))

    def _on_end(self) -> Callable[[Any], None]:
        """What to do when a module dies that it calls: the entry cannot tell, and Python has to be asked again."""
        owner = weakref.ref(self.owner)

        def ended(module: Any) -> None:
            found = owner()
            if found is not None:
                found._forget_calls()

        return ended


def _apart(tensors: Sequence[torch.Tensor], hidden: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """The hidden arguments of a call with these ``tensors``: what is an argument as well, or twice, is another tensor
    to the program, of the same memory."""
    known = set(map(id, tensors))
    found: list[torch.Tensor] = []
    for value in hidden:
        if value is not None:
            found.append(value.view_as(value) if id(value) in known else value)
            known.add(id(value))
    return found


def _types(hidden: Sequence[torch.Tensor | None]) -> tuple[TensorType | None, ...]:
    """The types of hidden arguments, each a tensor of its own."""
    return tuple([None if one is None else _type(one, ()) for one in hidden])


def _plain(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple([tensor.detach() for tensor in tensors])


def _start_at_0(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether tensors start where their memory does."""
    return not any(tensor.storage_offset() for tensor in tensors)


def _check_place() -> None:
    """Raise UnsupportedOpError where a call is a part of what PyTorch transforms."""
    place = transformation()
    if place is not None:
        raise UnsupportedOpError(
            f"a call inside of {place}.", loc=user_loc(), remedy="jit the function that transforms, with it inside."
        )


def _check_hash(argument: Any, layout: Any) -> None:
    """Raise UnsupportedOpError for an object with attributes that nothing can be found by."""
    try:
        hash(layout)
    except TypeError as error:
        raise UnsupportedOpError(
            f"a {type(argument).__name__} with tensors and an attribute that is neither one nor has a hash: {error}.",
            loc=user_loc(),
            remedy="pass the tensors, or register the class by torch.utils._pytree.register_pytree_node.",
        ) from None


class ArgumentChanged(BaseException):
    """Ends a trace that changes objects among the arguments, which were taken for static. Nobody but the caller of the
    trace is to see it, and so it is no ``Exception``."""

    def __init__(self, changed: Sequence[Any]) -> None:
        super().__init__()
        self.changed = changed


def _ignore(module: Any) -> None:
    """For modules that nobody waits for."""


def _type(tensor: torch.Tensor, before: Sequence[torch.Tensor]) -> TensorType:
    """What of an argument decides about the program, beside what dyn.jit looks at itself."""
    kind = unsupported(tensor)
    if kind is not None:
        raise UnsupportedOpError(f"{kind}.", loc=user_loc(), remedy="pass a plain, dense torch.Tensor on the CPU.")
    same = next((number for number, other in enumerate(before) if other is tensor), None)
    has_gradient = tensor.requires_grad and torch.is_grad_enabled()
    is_leaf = not has_gradient or tensor.is_leaf
    return TensorType(tensor.dtype, tensor.ndim, tensor.device, layout_of(tensor), has_gradient, is_leaf, same)
