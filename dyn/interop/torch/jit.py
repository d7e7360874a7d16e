"""``dyn.interop.torch.jit``: functions and modules of PyTorch, traced once for every shape and compiled by dyn.

This file is longer than most: a seventh of it says what ``jit`` takes and gives, and the rest is one class.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch.utils._pytree import SequenceKey, TreeSpec, keystr, tree_flatten, tree_flatten_with_path

from dyn.api import CacheInfo
from dyn.call import private, same_objects
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError
from dyn.interop.fallback import FallbackReason
from dyn.interop.torch.arguments import TensorSignature, type_of
from dyn.interop.torch.attributes import HooksChanged
from dyn.interop.torch.calls import accept, entry_state, torch_state, transformation
from dyn.interop.torch.distributed import DistributedModuleError, compile_parts, gathered
from dyn.interop.torch.dynamic_shapes import DeclaredShapes, DynamicShapes
from dyn.interop.torch.eager_pieces import EagerPiece
from dyn.interop.torch.errors import torch_error
from dyn.interop.torch.fallback import OF_CALLERS, failure_of, pieces_text, warn_of_failure, warn_of_pieces
from dyn.interop.torch.hidden_arguments import MovingTensor, StateCreated
from dyn.interop.torch.objects import SIMPLE, ObjectLayout, Opened, reached
from dyn.interop.torch.options import DEFAULT, TorchOptions
from dyn.interop.torch.program import ArgumentChanged, TensorProgram
from dyn.interop.torch.randomness import GeneratorNumber
from dyn.interop.torch.return_plans import OverlapError
from dyn.interop.torch.subclasses import WrapperLayout, is_wrapper
from dyn.interop.torch.threads import limited
from dyn.native_callable import NativeCallable
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.partition import Memory
from dyn.trace.static_keys import Static

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def jit(
    function: Callable[..., Any] | None = None, /, *, dynamic_shapes: Any = None, strict: bool = False,
    memory: Memory = "default",
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

    Returns:
        A function of the same arguments, which returns what ``function`` returns: tensors of the same dtypes and
        strides, with memory and gradients as PyTorch's have them. For second derivatives ``function`` is called again.

    Raises:
        ShapeError: for arguments that do not fit together, or not what is declared.
        ArgumentError: for arguments that have no hash, and ``dynamic_shapes`` that are not like the arguments.
    """
    options = TorchOptions.of({"strict": strict, "memory": memory}, "dyn.interop.torch.jit")
    if function is None:
        return functools.partial(jit, dynamic_shapes=dynamic_shapes, strict=strict, memory=memory)
    if isinstance(function, torch.export.ExportedProgram):
        function = function.module()
    if not callable(function):
        raise ArgumentError(f"jit takes a function or a module, not a {type(function).__name__}.")
    shapes = None if dynamic_shapes is None else DynamicShapes(function, dynamic_shapes)
    return _jitted(function, shapes, options)


#: So many programs are made of which each has changed an attribute that it relies on.
MOST_REWRITES = 4

#: The attributes of a jitted function's own.
_OWN = frozenset({
    "_first_steps", "_function", "_hits_before", "_hooked", "_lock", "_name", "_opened", "_options", "_parts",
    "_programs", "_said",
    "_shapes", "_strict", "_table",
})  # fmt: skip


def _jitted(
    function: Callable[..., Any], shapes: DynamicShapes | DeclaredShapes | None, options: TorchOptions
) -> TorchJitted:
    kind = JittedModule if isinstance(function, torch.nn.Module) else TorchJitted
    return kind.single()(function, shapes, options)


class TorchJitted(NativeCallable):
    """PyTorch function that dyn compiles. Made by :func:`jit`.

    Of a module it has the attributes: they are read and set there, and a method that returns the module (``eval()``,
    ``to(...)``) returns this. ``state_dict()`` has the module's own keys. A copy, deep or by pickling, is of the
    function or the module alone, and compiles anew.

    Attributes:
        cache_info: counts of its programs.
        explain: what was made of it, and why.
    """

    def __init__(
        self, function: Callable[..., Any], shapes: DynamicShapes | DeclaredShapes | None = None,
        options: TorchOptions = DEFAULT,
    ) -> None:  # fmt: skip
        super().__init__()
        self._function = function
        self._options, self._strict = options, options.strict
        #: What is declared of the tensors' shapes: for each way to call it, or of all calls.
        self._shapes = shapes
        self._name = getattr(function, "__name__", type(function).__name__)
        #: The function of tensors alone, for each way to call it that is neither a size nor a state of modules.
        self._programs: dict[Any, tuple[TensorProgram, ...]] = {}
        #: What has been said of calls and operations that are left to eager PyTorch.
        self._said: set[FallbackReason | EagerPiece] = set()
        #: The classes whose objects are trees of tensors among the arguments.
        self._opened = Opened()
        #: The optimizers whose first steps eager PyTorch has made, with the identities of the parameters.
        self._first_steps: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
        #: Modules whose hooks a call of the function has changed.
        self._hooked: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
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
        types: list[TensorSignature] = []
        try:
            _check_place()
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor) and is_wrapper(leaf) and self._shapes is None:
                    inside = []
                    rest.append(WrapperLayout.of(leaf, inside))
                    _check_hash(leaf, rest[-1])
                    for tensor in inside:
                        types.append(type_of(tensor, tensors))
                        tensors.append(tensor)
                elif isinstance(leaf, torch.Tensor):
                    types.append(type_of(leaf, tensors))
                    tensors.append(leaf)
                    rest.append(None)
                elif isinstance(leaf, torch.Generator):
                    rest.append(GeneratorNumber.of(leaf, generators))
                elif type(leaf) not in SIMPLE and self._opened.takes(leaf):
                    inside = []
                    rest.append(self._opened.layout(leaf, inside))
                    _check_hash(leaf, rest[-1])
                    for tensor in inside:
                        types.append(type_of(tensor, tensors))
                        tensors.append(tensor)
                else:
                    rest.append(Static("argument", leaf))
        except UnsupportedOpError as error:
            if self._strict:
                raise
            return self._eagerly(failure_of(error), args, kwargs)
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
            return self._eagerly(failure_of(error), args, kwargs)
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
                return self._eagerly(failure_of(error), args, kwargs)
            except Exception as error:
                if isinstance(error, StateCreated) and not self._strict and self._is_first(error):
                    return self._function(*args, **kwargs)  # makes the state, which the next step finds
                if isinstance(error, HooksChanged) and error.module not in self._hooked:
                    self._hooked.add(error.module)
                    return self._function(*args, **kwargs)  # registers them, and the next call finds them
                # What is raised by running, and not by making, the program is the function's own.
                if self._strict or program.is_compiled_for(tensors):
                    raise
                failure = failure_of(error)
                if isinstance(error, DistributedModuleError):
                    failure = self._in_parts(error, failure)
            else:
                self._report(program)
                self._accept(args, kwargs, (leaves, tree), state[3], tensors, program)
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
            program = next((one for one in known if one.is_known_to_be_current()), None)
            if program is not None:
                return program
            program = next((one for one in known if one.is_for_now() and one.is_current()), None)
            if program is not None:
                if program.renew():
                    self._forget_calls()
                program.watch()
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

    def _siblings(self, program: TensorProgram) -> Sequence[TensorProgram]:
        """The programs for tensors like those of one, made for other static arguments or attributes of modules."""
        found = {one: state for state, known in list(self._programs.items()) for one in known}
        own = found.pop(program, None)
        if own is None:  # forgotten since
            return []
        by_state = sorted(found.items(), key=lambda pair: pair[1] == own)  # those of the same arguments last
        return [one for one, (_, _, *rest) in by_state if rest == [*own[2:]]]

    def _in_parts(self, error: DistributedModuleError, failure: FallbackReason) -> FallbackReason:
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
        program.failure = failure_of(error)

    def _is_first(self, created: StateCreated) -> bool:
        """Whether an optimizer makes state for parameters that it has not made any for before."""
        known = self._first_steps.setdefault(created.optimizer, set())
        is_first = not created.parameters <= known
        known |= created.parameters
        return is_first

    def _accept(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[list[Any], TreeSpec], state: Any,
        tensors: Sequence[torch.Tensor], program: TensorProgram,
    ) -> None:  # fmt: skip
        """Leave calls like this one to the native entry from now on, if it can make them.

        ``given`` are the leaves of the arguments as they were read, with their tree, and ``state`` PyTorch's then.
        """
        if self._table is not None and self._table.is_full:
            self._forget_calls()
        table = self._call_table(lambda: entry_state) if program.is_for_entry() else None
        if table is not None:
            args, kwargs = private(args, kwargs)
            leaves, tree = tree_flatten((args, kwargs))
            # What containers hold, and PyTorch's state, may be something else by now.
            if same_objects(leaves, given[0]) and tree == given[1] and torch_state() == state:
                accept(table, args, kwargs, tensors, program.version(tensors), program.modules, program.captured)

    def _eagerly(self, failure: FallbackReason, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the function as it is. What that raises counts, and nothing is said of a failure then."""
        result = self._function(*args, **kwargs)
        self._say(failure)
        return result

    def _say(self, failure: FallbackReason) -> None:
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
        """Counts so far.

        Returns:
            A named tuple: programs compiled, calls that found one, guards that tell programs apart, compile seconds.
        """
        infos = [program.jitted.cache_info() for program in self._in_order()]
        infos += [part.cache_info() for part in self._parts]
        native = CacheInfo(0, self._native_hits(), 0, 0.0)
        return CacheInfo(*[sum(column) for column in zip(native, *infos, strict=True)])

    def explain(self) -> str:
        """Report on what was traced, assumed, proved, stitched and generated, for each way in which it was called.

        Returns:
            A string.
        """
        parts: list[str] = []
        for program in self._in_order():
            if program.jitted.cache_info().compile_seconds:
                parts.append(str(program.jitted.explain()))
            parts += [pieces_text(pieces) for pieces in program.pieces if pieces]
        parts += [part.explain() for part in self._parts]
        failures = [said for said in self._said if isinstance(said, FallbackReason)]
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
