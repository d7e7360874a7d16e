"""``torch.compile(model, backend="dyn")``: the graphs that Dynamo finds, compiled by dyn with their derivatives.

A graph is a function like any other to :func:`dyn.interop.torch.jit`: it is traced with autograd recording where it is
called so. Its sizes are those that Dynamo has made symbolic, and are read off the tensors that have them; other numbers
come as tensors that carry them. Graphs that are the same but for sizes have one program
(:mod:`dyn.interop.torch.graphs`).

AOTAutograd takes apart what ATen has no operations for: functions of higher order, ``torch.func``, tensor subclasses.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import operator
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._functorch.autograd_function import autograd_function_apply
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import WeakIdKeyDictionary

from dyn.errors import ArgumentError
from dyn.interop.torch.devices import KINDS
from dyn.interop.torch.dynamic_shapes import Axis, DeclaredShapes
from dyn.interop.torch.dynamo import make_sizes_symbolic, pass_by_own
from dyn.interop.torch.graphs import ArgumentKind, LoweredGraph, Match, carrier, lowered, match
from dyn.interop.torch.installed import BACKEND_NAMES, check_names
from dyn.interop.torch.jit import TorchJitted
from dyn.interop.torch.options import DEFAULT, TorchOptions
from dyn.interop.torch.report import GRAPHS, Label, lines_of
from dyn.source import Loc, is_user_frame, map_generated, unmap
from dyn.tracebacks import hide_own_frames

check_names(BACKEND_NAMES)

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._dynamo.precompile_context import BackendCacheArtifact, PrecompileContext  # noqa: E402

#: The modes of ``torch.compile``: dyn has one way to compile, whichever is asked for.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

_NOTHING_FIXED: Mapping[int, torch.Tensor] = MappingProxyType({})

pass_by_own()


def backend(
    graph: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: what ``torch.compile(backend="dyn")`` calls.

    Every ``mode`` is the same. ``options={"strict": True}`` has an error where an operation or a graph would be left to
    eager PyTorch, ``options={"memory": "low"}`` has gradients compute more again, and with ``options={"freeze": True}``
    nothing changes parameters while no gradients are recorded. These, ``"batch_invariant"`` and ``"on_new_shape"`` are
    as the arguments of ``dyn.interop.torch.jit``. Raises ArgumentError for other modes and options.
    """
    chosen = TorchOptions.of(dict(options or {}), "torch.compile(backend='dyn')")
    if mode is not None and mode not in MODES:
        raise ArgumentError(
            f"torch.compile(backend='dyn') has no mode {mode!r}.", remedy=f"it has {', '.join(MODES)}, all of them one."
        )
    if not _is_plain(graph, example_inputs):
        return _by_aot(graph, example_inputs, chosen)
    made = compiled(graph, Label.of(graph), chosen)
    if torch._dynamo.config.caching_precompile:
        _record(graph, made)
    return made


make_sizes_symbolic(backend)


def _record(graph: torch.fx.GraphModule, made: CompiledGraph) -> None:
    """Have a graph among what PyTorch saves (``torch.compiler.save_cache_artifacts``) with what Dynamo has found.

    One that cannot be saved is compiled again by the next process, which PyTorch logs.
    """
    name: Any = getattr(graph, "_backend_id", None)
    if name is None:
        return
    try:
        content = CompiledGraph.serialize_compile_artifacts(made)
    except Exception as error:
        warnings.warn(f"{made.label} is not saved by caching_precompile: {error}", stacklevel=2)
        return
    PrecompileContext.record_artifact(GraphArtifact(name, content))


class GraphArtifact(BackendCacheArtifact[Any]):
    """A compiled graph as PyTorch saves it: ``content`` are its bytes."""

    def after_deserialization(self) -> CompiledGraph:
        return CompiledGraph.deserialize_compile_artifacts(self.content)


def _is_plain(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Whether a graph can be run as it is, on the tensors of a trace: it is of ATen's operations and their kin."""
    if any(isinstance(one, list | tuple | dict) or is_traceable_wrapper_subclass(one) for one in example_inputs):
        return False
    return not any(_is_of_higher_order(node.target) for node in graph.graph.nodes if node.op == "call_function")


def _is_of_higher_order(target: Any) -> bool:
    if isinstance(target, HigherOrderOperator):
        return target is not autograd_function_apply
    module = getattr(target, "__module__", None) or ""
    return module.startswith(("torch._functorch", "torch._C._functorch", "torch.autograd.forward_ad"))


def _by_aot(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], options: TorchOptions) -> Callable[..., Any]:
    """A graph of which AOTAutograd makes two of ATen's operations, one for the results and one for the gradients."""
    decompositions = core_aten_decompositions()
    # PyTorch's own writes the sums of the forward pass with another rank than the derivative, which stays whole, reads.
    decompositions.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    label = Label.of(graph)
    parts = {
        f"{part}_compiler": functools.partial(
            _boxed,
            label=replace(label, name=f"{label.name} ({what})"),
            # The first half of a derivative records nothing itself, and its parameters change.
            options=options if part == "inference" else replace(options, freeze=False),
        )
        for part, what in (("fw", "forward"), ("bw", "backward"), ("inference", "inference"))
    }
    return aot_autograd(**parts, decompositions=decompositions)(graph, example_inputs)


def _boxed(graph: Any, example_inputs: Sequence[Any], *, label: Label, options: TorchOptions) -> Callable[..., Any]:
    """A graph of AOTAutograd's as a function that takes its arguments in a list, which it empties."""
    call = compiled(graph, label, options)

    def run(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        arguments.clear()
        with torch.no_grad():
            return call(*given)

    run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]  # AOTAutograd's mark
    return run


# ---- graphs and their programs ---------------------------------------------------------------------------------------


class GraphProgram:
    """The compiled function of a graph, and of those that differ from it in sizes alone.

    ``fixed`` are tensors that it closes over, in place of arguments, by their numbers among those that are ``kept``.
    """

    def __init__(
        self, graph: LoweredGraph, options: TorchOptions, fixed: Mapping[int, torch.Tensor] = _NOTHING_FIXED
    ) -> None:
        self.graph, self.options, self.fixed = graph, options, fixed

        def function(*given: Any) -> Any:
            left = iter(given)
            own = [fixed[n] if n in fixed else next(left) for n in range(len(graph.kept))] if fixed else ()
            with _restoring_modes():
                return graph(*own, *left)

        function.__name__ = function.__qualname__ = "graph"
        arguments = [
            pair for n, pair in enumerate(zip(graph.shapes, graph.kept, strict=True)) if n not in fixed
        ]  # fmt: skip
        rows = [_declared(shape) for shape, (_, kind) in arguments if _is_tensor(kind)]
        rows += [None] * len(graph.carried)
        self.jitted = TorchJitted.single()(function, DeclaredShapes(tuple(rows)), options)
        file = type(graph.graph).forward.__code__.co_filename
        map_generated(file, _lines(graph.graph, file))
        weakref.finalize(self, unmap, file)


class CompiledGraph(SerializableCallable):
    """A graph of PyTorch's as a compiled function of the same arguments.

    It can be saved with what Dynamo found (``aot_compile`` of what ``torch.compile`` returns): the graph is, and its
    machine code is in the cache on disk.
    """

    def __init__(self, graph: LoweredGraph, label: Label, options: TorchOptions) -> None:
        self.graph, self.label, self.options = graph, label, options
        self.number = next(_NUMBERS)
        GRAPHS.add(self)
        self._route = _Route(graph, *PROGRAMS.find(graph, options))
        #: The program for calls that the first one is not for.
        self._other: _Route | None = None
        #: With the option ``freeze``, the programs of the parameters that it is called with.
        self._frozen = _FrozenRoutes(graph, options) if options.freeze else None

    @property
    def jitted(self) -> list[TorchJitted]:
        """The compiled functions that make its calls: where frozen ones do, others that nobody has called are none."""
        frozen = [] if self._frozen is None else [route.call for route in self._frozen.routes()]
        others = [route.call for route in (self._route, self._other) if route is not None]
        return [*frozen, *[call for call in others if not frozen or call.cache_info().compiles]]

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._called(arguments)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _called(self, arguments: Sequence[Any]) -> Any:
        if self._frozen is not None and not torch.is_grad_enabled():
            frozen = self._frozen.get(arguments)
            if frozen is not None:
                return frozen.run(arguments)
        route = self._route
        if route.equal and not all(arguments[a] == arguments[b] for a, b in route.equal):
            route = self._other
            if route is None:
                route = self._other = _Route(self.graph, *PROGRAMS.find(self.graph, self.options, asks=False))
        return route.run(arguments)

    @classmethod
    def serialize_compile_artifacts(cls, fn: CompiledGraph) -> bytes:
        """The bytes of a graph, for :meth:`deserialize_compile_artifacts` in another process."""
        return pickle.dumps((fn.graph.saved(), replace(fn.label, owner=None), fn.options))

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> CompiledGraph:
        """A graph of saved bytes, which are trusted as pickles are."""
        saved, label, options = pickle.loads(data)
        return cls(LoweredGraph.loaded(saved), label, options)


_NUMBERS = itertools.count()


class _Route:
    """From the arguments of a graph to those of a program's."""

    def __init__(self, graph: LoweredGraph, program: GraphProgram, found: Match) -> None:
        self.program, self.call = program, program.jitted
        #: Pairs of arguments, by number, that have to be equal.
        self.equal = tuple([(graph.numbered[a], graph.numbered[b]) for a, b in found.equal])
        given: list[tuple[int | None, Any, ArgumentKind]] = [
            (number, None, kind) for n, (number, kind) in enumerate(graph.kept) if n not in program.fixed
        ]
        for symbol in program.graph.carried:
            size = found.sizes[symbol]
            given.append(
                (None, size, ArgumentKind.INT)
                if isinstance(size, int)
                else (graph.numbered[size], None, ArgumentKind.INT)
            )
        #: Each argument of the program: an argument of the graph by its number, or a size, and what it is passed as.
        self.given = tuple(given)
        #: Takes all of them out of the graph's arguments, where they are passed as they are.
        self.chosen: Callable[[Any], Any] | None = None
        if all(kind is ArgumentKind.TENSOR for _, _, kind in given) and len(given) > 1:
            self.chosen = operator.itemgetter(*[number for number, _, _ in given])

    def run(self, arguments: Sequence[Any]) -> Any:
        """The program's result for the arguments of a graph."""
        if self.chosen is not None:
            return self.call(*self.chosen(arguments))
        return self.call(*[carrier(kind, size if n is None else arguments[n]) for n, size, kind in self.given])


class _FrozenRoute:
    """A graph as a program that closes over tensors in place of arguments, as long as they are in the same memory."""

    def __init__(self, route: _Route, addresses: tuple[int, ...], ends: Sequence[weakref.ref[torch.Tensor]]) -> None:
        self.route, self.addresses, self._ends = route, addresses, ends


class _FrozenRoutes:
    """A graph as programs that close over the parameters and buffers which it is passed: one for each set of them, for
    Dynamo has one graph for modules that are alike. A set that is gone takes its program with it."""

    def __init__(self, graph: LoweredGraph, options: TorchOptions) -> None:
        self._graph, self._options, self._lock = graph, options, threading.Lock()
        #: The arguments that are closed over: their numbers among those that are kept, and in the graph.
        self._places = {
            n: number
            for n, (number, kind) in enumerate(graph.kept)
            if kind is ArgumentKind.TENSOR and number in graph.closed_over
        }
        self._known: dict[tuple[int, ...], _FrozenRoute] = {}

    def routes(self) -> list[_Route]:
        """Those that there are."""
        return [one.route for one in tuple(self._known.values())]

    def get(self, arguments: Sequence[Any]) -> _Route | None:
        """The one for these arguments; None where the graph closes over nothing."""
        if not self._places:
            return None
        given = [arguments[number] for number in self._places.values()]
        key, addresses = tuple(map(id, given)), tuple([one.data_ptr() for one in given])
        known = self._known.get(key)
        if known is None or known.addresses != addresses:
            with self._lock:
                known = self._known.get(key)
                if known is None or known.addresses != addresses:
                    known = self._known[key] = self._make(key, given, addresses)
        return known.route

    def _make(self, key: tuple[int, ...], given: list[torch.Tensor], addresses: tuple[int, ...]) -> _FrozenRoute:
        known = weakref.ref(self)

        def gone(tensor: Any) -> None:
            found = known()
            if found is not None:
                found._known.pop(key, None)

        own = dict(zip(self._places, map(_alias_of, given), strict=True))
        program = GraphProgram(self._graph, self._options, own)
        route = _Route(self._graph, program, Match({symbol: symbol for symbol in self._graph.carried}))
        return _FrozenRoute(route, addresses, [weakref.ref(one, gone) for one in given])


#: For each parameter that programs close over the tensor of its memory that they hold, so that it may end before them.
_ALIASES: Any = WeakIdKeyDictionary()


def _alias_of(tensor: torch.Tensor) -> torch.Tensor:
    found = _ALIASES.get(tensor)
    if found is None or found.data_ptr() != tensor.data_ptr() or found.dtype != tensor.dtype:
        found = _ALIASES[tensor] = tensor.detach()
    return found


def compiled(graph: torch.fx.GraphModule, label: Label | None = None, options: TorchOptions = DEFAULT) -> CompiledGraph:
    """A graph, whose nodes have fake tensors (``meta``), as a compiled function."""
    return CompiledGraph(lowered(graph), Label.of(graph) if label is None else label, options)


class _GraphPrograms:
    """The programs of this process that graphs still use, by structure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, list[weakref.ref[GraphProgram]]] = {}

    def find(self, graph: LoweredGraph, options: TorchOptions, *, asks: bool = True) -> tuple[GraphProgram, Match]:
        """A program for a graph, and how that is the program's graph: with ``asks`` perhaps for some sizes only."""
        key = None if graph.structure is None else (graph.structure, options)
        with self._lock:
            live = {k: [one for one in known if one() is not None] for k, known in self._known.items()}
            self._known = {k: known for k, known in live.items() if known}
            programs = [program for one in self._known.get(key, ()) if (program := one()) is not None]
            matches = [(program, found) for program in programs if (found := match(program.graph, graph)) is not None]
            best = min(matches, key=lambda one: len(one[1].equal), default=None)
            if best is not None and (asks or not best[1].equal):
                return best
            made = GraphProgram(graph, options)
            if key is not None:
                self._known.setdefault(key, []).append(weakref.ref(made))
            return made, Match({symbol: symbol for symbol in graph.carried})


PROGRAMS = _GraphPrograms()


def _is_tensor(kind: ArgumentKind) -> bool:
    """Whether an argument is a tensor when it gets to the compiled function."""
    return kind not in (ArgumentKind.STATIC, ArgumentKind.OBJECT)


def _declared(shape: Sequence[Any] | None) -> tuple[Axis, ...] | None:
    """How a shape is declared to ``dyn.jit``: by numbers and names; sizes that are computed by nothing."""
    if shape is None:
        return None
    return tuple([size if isinstance(size, int) else str(size) if size.is_symbol else None for size in shape])


@contextlib.contextmanager
def _restoring_modes() -> Iterator[None]:
    """Leave gradient mode and autocast as they were, whatever a graph that stops in the middle has entered."""
    gradients = torch.is_grad_enabled()
    autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in KINDS]
    depth = torch.autocast_increment_nesting()
    try:
        yield
    finally:
        while torch.autocast_decrement_nesting() >= depth:
            pass
        torch.set_grad_enabled(gradients)
        for kind, is_enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, is_enabled)
            torch.set_autocast_dtype(kind, dtype)


def _lines(graph: torch.fx.GraphModule, file: str) -> dict[int, Loc]:
    """The user's lines for those of a graph's code, which each begin with the name of a node."""
    traces = {node.name: lines_of(node.stack_trace) for node in graph.graph.nodes if node.stack_trace}
    users = {name: [line for line in lines if is_user_frame(line.file)] or lines for name, lines in traces.items()}
    found: dict[int, Loc] = {}
    for number, line in enumerate(linecache.getlines(file), 1):
        name = line.strip().partition(" = ")[0].partition(":")[0].strip()
        if users.get(name):
            found[number] = users[name][-1]
    return found
