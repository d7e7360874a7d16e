"""Programs of PyTorch functions: functions of tensors alone, one for each way to call that is no matter of sizes.

This file is longer than most: it is one class, whose parts share what a program's trace has found.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_unflatten

from dyn import api
from dyn.array import OWN
from dyn.errors import NotYetError, ShapeError, UnsupportedOpError
from dyn.fork_safety import lock
from dyn.frontend.fallback import FallbackReason, Fallbacks, Piece
from dyn.frontend.library import LibraryProgram
from dyn.frontend.retrace import Retrace
from dyn.frozen import record
from dyn.hosts import TORCH
from dyn.interop.torch.arguments import TensorSignature, apart, plain, start_at_0, types_of
from dyn.interop.torch.attributes import Changes, HooksChanged, Reads, Watched, is_plain, own_names, settable
from dyn.interop.torch.calls import Captured, ModuleConditions, Watch, torch_state
from dyn.interop.torch.devices import autocast, common_device, device_name
from dyn.interop.torch.dynamic_shapes import DeclaredShapes, DynamicShapes
from dyn.interop.torch.eager_pieces import cut
from dyn.interop.torch.errors import torch_error
from dyn.interop.torch.forks import Forks
from dyn.interop.torch.gradients import BackwardProgram, Given, spent
from dyn.interop.torch.hidden_arguments import (
    ChangedAttribute,
    Hidden,
    HiddenState,
    LearningRate,
    MovingTensor,
    OptimizerState,
)
from dyn.interop.torch.inference import ordinary_tensors
from dyn.interop.torch.layouts import ROWS
from dyn.interop.torch.objects import Copies, ObjectLayout, Opened, closed_over
from dyn.interop.torch.options import TorchOptions
from dyn.interop.torch.randomness import GeneratorNumber, Seed, Seeds, identity
from dyn.interop.torch.read_calls import TorchCall
from dyn.interop.torch.results import Collector, TorchOutputs
from dyn.interop.torch.return_plans import ReturnPlan
from dyn.interop.torch.second_derivatives import EagerCall
from dyn.interop.torch.subclasses import WrapperLayout
from dyn.interop.torch.sym_nodes import answers_by_sizes, by_sizes_lacking
from dyn.interop.torch.tensors import refuse_leaks
from dyn.interop.torch.threads import limited
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.specialize.version import Version
from dyn.stages import Traced
from dyn.trace.context import current_trace
from dyn.trace.static_keys import Static
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True

#: So often a program is traced again because a tensor that it captures lies elsewhere. Then the tensor is an argument,
#: and calls go by Python.
MOST_MOVES = 4
#: So many native checks of its conditions are made for a program, which has others from call to call.
MOST_WATCHES = 4


class Owner(Protocol):
    """The jitted function that a program is of."""

    _name: str
    _function: Callable[..., Any]
    _options: TorchOptions
    _shapes: DynamicShapes | DeclaredShapes | None
    _opened: Opened
    fallbacks: Fallbacks

    def _forget_calls(self) -> None:
        """Have Python make the calls again."""

    def _siblings(self, program: TensorProgram) -> Sequence[TensorProgram]:
        """The programs for tensors like those of one, made for other static arguments or attributes of modules."""
        ...


@record(eq=False)
class _Compiled:
    """The function that dyn compiles, and the state of PyTorch's objects that it is given, with the types of what that
    was."""

    function: Any
    hidden: tuple[Hidden, ...]
    types: tuple[TensorSignature | None, ...]


class TensorProgram(LibraryProgram[TorchCall]):
    """A function of tensors alone: a compiled one for one tree, layouts, static arguments and state of PyTorch."""

    def __init__(self, owner: Owner, call: TorchCall) -> None:
        super().__init__()
        self.owner, self.tree, self.rest, self.types = owner, call.tree, call.rest, call.types
        #: The tensors among the arguments as users would write them.
        self.names = tuple(call.names())
        self._cut: list[tuple[Piece, ...]] = []
        #: The tensors that it captures, and what it reads of modules, as far as it was traced.
        self.captured: tuple[Captured, ...] = ()
        self.modules = ModuleConditions.of((), _ignore)
        #: The native check of both, and of which it is. It is made anew a few times, where they change.
        self._watched: tuple[ModuleConditions, tuple[Captured, ...], Watch | None] = self.modules, self.captured, None
        self._watches_left = MOST_WATCHES
        #: The attributes that it reads and changes: calls that do so have another program each.
        self.rewritten: frozenset[str] = frozenset()
        #: Whether it counts places from where memory starts. Arguments that start elsewhere are PyTorch's.
        self._has_starts = False
        #: Whether the function branches on what only the running program knows, and both ways are followed.
        self._has_forks = False
        self.declared = call.declared
        #: What of the optimizers that step has to be as it was.
        self._optimizers: list[OptimizerState] = []
        #: What the function is given in the place of generators among its arguments.
        count = max([one.number + 1 for one in self.rest if isinstance(one, GeneratorNumber)], default=0)
        self._generators = [torch.Generator() for _ in range(count)]
        self._has_run = False
        #: How often tensors, by identity, were elsewhere than where a program like this one had captured them.
        self._moves: dict[int, int] = {}
        self._giving = lock()
        #: Where it runs: a trace may find that it needs another one than its arguments say.
        self.device = common_device([type.device for type in self.types])
        self._compiled = self._of(())

    @property
    def jitted(self) -> Any:
        """The function of tensors that dyn compiles."""
        return self._compiled.function

    @property
    def pieces(self) -> Sequence[Sequence[Piece]]:
        return self._cut

    @property
    def functions(self) -> Sequence[Any]:
        return (self.jitted,)

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """The state of PyTorch's objects that it is given."""
        return self._compiled.hidden

    def _of(self, hidden: tuple[Hidden, ...]) -> _Compiled:
        """The function that is given ``hidden`` state. Sizes of hidden arguments are numbers, as those of parameters.

        Raises UnsupportedOpError for what no program is given.
        """
        values = [one.sample() for one in hidden]
        types = types_of(values)

        def traced(args: tuple[Any, ...], hidden: tuple[Any, ...]) -> TorchOutputs:
            return self._traced(args, hidden, compiled)

        traced.__name__ = traced.__qualname__ = self.owner._name
        given = [(one, value) for one, value in zip(hidden, values, strict=True) if value is not None]
        sizes = tuple([
            (None,) * value.ndim if isinstance(one, ChangedAttribute) else tuple(value.shape) for one, value in given
        ])  # fmt: skip
        shapes: dict[str, Any] = {"hidden": sizes} if sizes else {}
        shapes |= {} if self.declared is None else {"args": self.declared.axes}
        function = api.jit_of_arrays(
            traced, self.names, shapes=shapes or None, dims=() if self.declared is None else self.declared.dims,
            device=device_name(self.device), on_new_shape=self.owner._options.on_new_shape,
            batch_invariant=self.owner._options.batch_invariant,
        )  # fmt: skip
        # A call may set what it has read, as transformers' models do: what is traced next may compute the same.
        function.reason = self.because
        function.relatives = lambda: [one.jitted for one in self.owner._siblings(self)]
        compiled = _Compiled(function, hidden, types)
        return compiled

    def give(self, hidden: Sequence[Hidden]) -> None:
        """Give it more of the state of PyTorch's objects. Raises UnsupportedOpError for what no program is given."""
        with self._giving:
            known = {one.key: one for one in (*self.hidden, *hidden)}
            if len(known) > len(self.hidden):
                self._compiled = self._of(tuple({**known, **{one.key: one for one in self.hidden}}.values()))

    def _move_to(self, device: torch.device) -> None:
        """Have it run on a device, of which a trace has found tensors."""
        with self._giving:
            if self.device != device:
                self.device = device
                self._compiled = self._of(self.hidden)

    def follow(self, last: TensorProgram) -> None:
        """Give it what the last program for such calls was given, and tensors that have moved too often since."""
        moved = {id(one.held.tensor): one.held.tensor for one in last.captured if one.has_moved()}
        self._moves = {key: last._moves.get(key, 0) + 1 for key in moved}
        known = [one for one in last.hidden if not isinstance(one, Seed)]
        self.give([*known, *[MovingTensor(one) for key, one in moved.items() if self._moves[key] >= MOST_MOVES]])

    def fits(self, call: TorchCall) -> bool:
        return self.is_for_now() and self.is_current()

    def fallback_reason_for(self, call: TorchCall) -> FallbackReason | None:
        return None if self.fallback_reason is None or self.is_compiled_for(call.tensors) else self.fallback_reason

    def __call__(self, call: TorchCall) -> Any:
        """The result of a call, once what it changes of the arguments' containers is changed."""
        seeds = Seeds(call.generators, restores=not self._has_run)
        try:
            with limited():
                outputs, given = self._tried(call.tensors, seeds, lambda function, *arrays: function(*arrays))
                containers = functools.partial(self.owner._opened.containers, (*call.args, *call.kwargs.values()))
                result = self._finished(outputs, given, containers)
        except BaseException as error:
            seeds.restore()  # whoever makes the call now draws what it would have
            if isinstance(error, ShapeError):
                raise torch_error(error) from None
            raise
        self._has_run = True
        return result

    def trace(self, call: TorchCall) -> Traced:
        return self._without_call(call.tensors, lambda function, *arrays: function.trace(*arrays))

    def prepare(self, call: TorchCall) -> None:
        self._without_call(call.tensors, lambda function, *arrays: function.prepare([arrays]))

    def _without_call(self, tensors: Sequence[torch.Tensor], run: Callable[..., Any]) -> Any:
        seeds = Seeds(self._generators, restores=True)
        try:
            return self._tried(tensors, seeds, run)[0]
        finally:
            seeds.restore()

    def _tried(
        self, tensors: Sequence[torch.Tensor], seeds: Seeds, run: Callable[..., Any]
    ) -> tuple[Any, list[torch.Tensor]]:
        """The result of ``run`` for the function of tensors and its arguments, and the tensors that it was given. It is
        called again until a trace has all that it needs."""
        attempt = _Attempt(self)
        while True:  # until a trace has all that it needs
            compiled = self._compiled
            values = [seeds.of(one) if isinstance(one, Seed) else one.sample() for one in compiled.hidden]
            hidden = apart(tensors, values)
            if self._has_starts and not start_at_0([*tensors, *hidden]):
                raise NotYetError(
                    "as_strided with storage_offset= of a tensor that does not start where its memory does.",
                    loc=user_loc(),
                    remedy="leave storage_offset= out, or pass a clone() of the tensor.",
                )
            try:
                with answers_by_sizes(attempt.by_sizes):
                    return run(compiled.function, plain(tensors), plain(hidden)), [*tensors, *hidden]
            except Retrace as lacking:
                if lacking.rereads:
                    raise
                lacking.change(attempt)

    def _seed(self, generator: torch.Generator) -> Seed:
        """A seed of a generator that the function has come to: one that it closes over, or that stands for another."""
        known = [identity(one) for one in self._generators]
        number = known.index(identity(generator)) if identity(generator) in known else None
        return Seed(generator if number is None else number)

    def _finished(
        self, outputs: TorchOutputs, tensors: Sequence[torch.Tensor], containers: Callable[[], Sequence[Any]]
    ) -> Any:
        results, plan = outputs.results, outputs.plan
        if not tensors:  # programs without arguments have NumPy's results
            results = [one if isinstance(one, torch.Tensor) else TORCH.wrap(OWN.borrow(one)) for one in results]
        if plan.derivative is not None:
            call = self._eager_call(plan, plan.derivative, tensors)
            results = plan.derivative.attached(results, tensors, plan.captured, call)
        if plan.spent:
            results = [spent(one) if number in plan.spent else one for number, one in enumerate(results)]
        return plan.finish(results, tensors, containers)

    def _eager_call(self, plan: ReturnPlan, derivative: BackwardProgram, tensors: Sequence[torch.Tensor]) -> EagerCall:
        """The call as the function as it is would make it, for second derivatives."""
        dtype, autocasts, _ = torch_state()

        def again(tensors: Sequence[Any]) -> list[torch.Tensor]:
            reason = "a second derivative (create_graph=True), for which it is called again."
            self.owner.fallbacks.say(self.owner._name, FallbackReason(reason, user_loc()))
            args, kwargs = self._arguments(tensors)
            with autocast(autocasts):
                return plan.memories(self.owner._function(*args, **kwargs), derivative.results)

        def refusal() -> str | None:
            if self.owner._options.strict:
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
        hidden = apart(tensors, [one.sample() for one in compiled.hidden])
        if self._has_starts and not start_at_0([*tensors, *hidden]):
            return False
        return compiled.function.is_compiled_for(plain(tensors), plain(hidden))

    def is_current(self) -> bool:
        """Whether the tensors that it captures are where they were, and modules what they were."""
        return self.modules.is_current() and all(one.is_current() for one in self.captured)

    def is_for_now(self) -> bool:
        """Whether the attributes that it read of modules are what they were, and hidden arguments and optimizers are
        such as they were."""
        return self.modules.are_attributes_same() and self._is_hidden_same()

    def _is_hidden_same(self) -> bool:
        compiled = self._compiled
        if not compiled.hidden and not self._optimizers:
            return True
        try:
            now = types_of([one.sample() for one in compiled.hidden])
        except UnsupportedOpError:
            return False
        return now == compiled.types and all(one.is_current() for one in self._optimizers)

    def watch(self) -> None:
        """Have the native entry look, from now on, at what the program relies on, which is as it was."""
        if self._watches_left and not self._is_watched():
            self._watches_left -= 1
            self._watched = self.modules, self.captured, Watch.of(self.modules, self.captured)

    def _is_watched(self) -> bool:
        return self._watched[0] is self.modules and self._watched[1] is self.captured

    def is_known_to_be_current(self) -> bool:
        """Whether the native entry says so. Otherwise Python has to be asked."""
        watch = self._watched[2]
        return watch is not None and self._is_watched() and watch.holds() and self._is_hidden_same()

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
            or self.fallback_reason is not None
            or any(self.pieces)
            or isinstance(self.owner._shapes, DynamicShapes)
        ):
            return False
        if any(isinstance(one, ObjectLayout | WrapperLayout | GeneratorNumber) for one in self.rest):
            return False
        return all(type.layout == ROWS and type.same_as is None and not type.has_gradient for type in self.types)

    def version(self, tensors: Sequence[torch.Tensor]) -> Version:
        """The version that makes a call, which it has made before."""
        return self.jitted.version_of(tuple([TORCH.borrow(tensor.detach()) for tensor in tensors]), ())

    def _traced(self, tracers: Sequence[Tracer], hidden: Sequence[Tracer], compiled: _Compiled) -> TorchOutputs:
        trace = current_trace()
        assert trace is not None, "dyn.jit calls functions in a trace"
        options = self.owner._options
        tracing = TorchTracing(trace, None if options.strict else cut, self._has_starts, options.memory, self.device)
        tracing.env.forks = Forks(are_followed=self._has_forks)
        try:
            outputs = self._collected(tracing, tracers, hidden, compiled)
        except Exception as error:
            if tracing.env.strayed:
                raise by_sizes_lacking() from error
            self._try_static_integers(error)
            raise
        if tracing.lacked:  # and the function went on all the same
            raise tracing.lacked[0]
        if tracing.env.refused:  # likewise
            raise by_sizes_lacking()
        tracing.recompute()
        if options.freeze and outputs.plan.derivative is None:
            with torch._C.DisableTorchFunction():
                tracing.freeze([one.number for one in outputs.plan.writes if one.kind == "captured"])
        captured = tuple([Captured.of(tensor) for tensor, _ in tracing.captured.values()])
        tensors, pieces = tracing.maker.tensors, tuple(tracing.pieces)
        del tracing
        refuse_leaks(tensors)
        self.captured += captured
        if pieces not in self._cut:  # as those of the same sizes are, traced again
            self._cut.append(pieces)
        return outputs

    def _try_static_integers(self, error: Exception) -> None:
        """Have the call read again with integers of objects as numbers, where it is these that the trace may have
        failed for; back to sizes where it fails all the same."""
        opened = self.owner._opened
        if not opened.integers_are_sizes:
            opened.integers_are_sizes = True
        elif any(isinstance(one, ObjectLayout) and one.has_integers() for one in self.rest):
            raise Retrace(_keep_integers, rereads=True) from error

    def _collected(
        self, tracing: TorchTracing, tracers: Sequence[Tracer], hidden: Sequence[Tracer], compiled: _Compiled
    ) -> TorchOutputs:
        """The function's outputs for traced tensors of these values."""
        given: list[Given] = []
        found = [pair for pair in zip(compiled.hidden, compiled.types, strict=True) if pair[1] is not None]
        types = [*self.types, *[type for _, type in found if type is not None]]
        for number, (tracer, type) in enumerate(zip([*tracers, *hidden], types, strict=True)):
            if type.same_as is not None:
                given.append(given[type.same_as])
                continue
            with ordinary_tensors():
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
        pairs = zip(compiled.hidden, state.given, strict=True)
        attributes = [(one, value) for one, value in pairs if isinstance(one, ChangedAttribute) and value is not None]
        placed = state.placed(leaves, captured)
        returned, outside = self._run(
            tracing, args, kwargs, placed, attributes, lambda: not (own.changed() or state.optimizers)
        )
        self._optimizers = state.optimizers
        collector = Collector(tracing, given)
        return collector.collect(returned, self.owner._name, own.containers, own.changed(), settable(outside), state)

    def _run(
        self, tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any], state: AbstractContextManager[None],
        attributes: Sequence[tuple[ChangedAttribute, Any]], is_unchanged: Callable[[], bool],
    ) -> tuple[Any, Changes]:  # fmt: skip
        """The function's result, and the attributes of modules that it changes, run in ``state`` with what is passed
        for ``attributes``. ``is_unchanged`` says whether arguments and optimizers are as they were.

        Nothing from outside of it has changed then: raises Retrace and NotYetError where it did that cannot be
        done at each call.
        """
        owner = self.owner
        statics = self._plain_statics()
        closed = Copies(owner._opened.containers(closed_over(owner._function), plain=True))
        reads = Reads(frozenset([(id(one.names), one.name) for one, _ in attributes]))
        tracing.on_wrapper = reads.note_wrapper
        run, forks = functools.partial(owner._function, *args, **kwargs), tracing.env.forks
        assert forks is not None, "a trace has them"

        def is_all_unchanged() -> bool:
            watched = any(one.changed() for one in list(reads.watched.values()))
            return is_unchanged() and not (watched or statics.changed() or closed.changed())

        placed = contextlib.ExitStack()  # until it is known what the function has changed
        try:
            for one, given in attributes:
                placed.enter_context(one.placed(given))
            with reads.recording(), tracing.keys.watched(), tracing.active(), state:
                returned = forks.run(tracing, run, is_all_unchanged) if forks.are_followed else run()
        finally:
            hooked = reads.hooked()
            outside = reads.taken_back()
            placed.close()
            rewritten = reads.rewritten(outside)
            lacking = self._read_and_set(rewritten)
            if not lacking:  # these are no conditions once they are passed
                self.rewritten |= {f"{type(one.owner).__name__}.{name}" for one, name in rewritten}
                self.modules = self.modules.joined(ModuleConditions.of(reads.watched.values(), self._on_end()))
            changed = statics.leading_to_changed()
            statics.restore()
            kept = closed.taken_back(tracing.is_own)
        if changed:
            raise Retrace(lambda owner: owner._open(changed), rereads=True)
        if hooked is not None:
            raise HooksChanged(hooked, user_loc())
        if kept is not None:
            raise NotYetError(
                f"a tensor is kept in a {type(kept).__name__} that the function, or a hook of a module, closes over.",
                loc=user_loc(),
                remedy="return it, or write it to a tensor or a buffer in place.",
            )
        if lacking:
            raise Retrace(lambda attempt: attempt.give(lacking))
        return returned, outside

    def _read_and_set(self, rewritten: Sequence[tuple[Watched, str]]) -> list[ChangedAttribute]:
        """The attributes among those that were read and set that can be passed to the program, and are not yet."""
        found = [
            ChangedAttribute(one.owner, one.names, name)
            for one, name in rewritten
            if not isinstance(one.owner, dict) and one.names is own_names(one.owner)
        ]
        known = {one.key for one in self.hidden}
        return [one for one in found if one.key not in known and one.sample() is not None]

    def _plain_statics(self) -> Copies:
        """The contents of the plain objects that are passed as they are."""
        statics: list[Any] = []
        for one in self.rest:
            if isinstance(one, ObjectLayout | Static):
                statics += one.statics() if isinstance(one, ObjectLayout) else [one.value]
        plain = tuple([one for one in statics if is_plain(type(one))])
        return Copies(self.owner._opened.containers(plain, plain=True))

    def _on_end(self) -> Callable[[Any], None]:
        """A callback for the death of a module that it calls: Python is asked again, for the entry cannot tell."""
        owner = weakref.ref(self.owner)

        def ended(module: Any) -> None:
            found = owner()
            if found is not None:
                found._forget_calls()

        return ended


def _keep_integers(owner: Owner) -> None:
    owner._opened.integers_are_sizes = False


#: As many optimizers of the same parameters may step in a function.
_MOST_OPTIMIZERS = 8


class _Attempt:
    """A call of a program that is traced, as often as it takes: what :class:`Retrace` changes of it."""

    def __init__(self, program: TensorProgram) -> None:
        self._program = program
        #: Whether questions that have a default are answered by the sizes of the call.
        self.by_sizes = False

    def give(self, hidden: Sequence[Hidden]) -> None:
        """Give it state that the function came to. NotYetError for that of optimizers which each trace makes anew."""
        for one in hidden:
            if isinstance(one, LearningRate) and one.count_alike(self._program.hidden) >= _MOST_OPTIMIZERS:
                raise NotYetError(
                    "an optimizer that the function itself makes.",
                    loc=user_loc(),
                    remedy="make it once, outside of the function.",
                )
        self._program.give(hidden)

    def give_seed(self, generator: torch.Generator) -> None:
        """Give it a seed of a generator that the function draws from."""
        self._program.give([self._program._seed(generator)])

    def give_moving(self, tensor: torch.Tensor) -> None:
        """Give it a tensor on a GPU that does not lie in rows, in place of capturing it: each call has to copy it."""
        self._program.give([MovingTensor(tensor)])

    def move_to(self, device: torch.device) -> None:
        """Have it run on a GPU, on which the function has a tensor."""
        self._program._move_to(device)

    def follow_forks(self) -> None:
        """Have both ways followed where the function branches on what only the running program knows."""
        self._program._has_forks = True

    def note_starts(self) -> None:
        """Have it be for arguments that start where their memory does, from where it counts places."""
        self._program._has_starts = True

    def answer_by_sizes(self) -> None:
        """Have this call's sizes answer. NotYetError where they do already: they do not tell."""
        if self.by_sizes:
            raise NotYetError(
                "a write to what is a view or a copy by a size that the program finds out.",
                loc=user_loc(),
                remedy="write to a clone() of it.",
            )
        self.by_sizes = True


def _ignore(module: Any) -> None:
    """For modules that nobody waits for."""
