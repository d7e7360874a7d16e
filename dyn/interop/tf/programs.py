"""Programs of TensorFlow functions: of tensors of one rank and dtype each, for every size.

A program is a concrete function of TensorFlow's, traced once for open sizes, that is read into dyn. Variables are read
where they lie at each call, and assigned in TensorFlow once the program has run, which takes its result's memory over.
"""

from __future__ import annotations

import itertools
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import api
from dyn.errors import NotYetError, ShapeError, UndecidedDimError, UnsupportedOpError
from dyn.frontend.fallback import Piece
from dyn.frontend.outputs import OutputPlan, Outputs, Source, picked
from dyn.interop.sizes.values import SizeTensor, data
from dyn.interop.tf import graphs
from dyn.interop.tf.arrays import from_arrays, to_array
from dyn.interop.tf.eager_pieces import cut
from dyn.interop.tf.evaluation import EffectState, Evaluation
from dyn.interop.tf.internals import (
    EagerTensor,
    auto_control_deps_utils,
    context,
    distribute_lib,
    tf,
)
from dyn.interop.tf.keras_building import NeedsBuilding, building
from dyn.interop.tf.keras_layers import ask_for_sizes
from dyn.interop.tf.ops.randomness import DRAWING, DRAWN, SEED
from dyn.interop.tf.options import DEFAULT, TfOptions
from dyn.interop.tf.values import Foreign, Resource, dyn_dtype
from dyn.interop.tf.variables import Variable, VariableAssignments, VariableReads
from dyn.lazy_property import lazy_property
from dyn.source import is_generated, is_user_frame, user_loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.trace.context import current_trace
from dyn.trace.patched_names import Replacement, all_active
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the graph of the function that is called.
CALLS_USERS = True
ASKS_FOR_OTHERS = True

Array = np.ndarray[Any, Any]


_TRACING = threading.local()


def _refusing(owner: Any) -> Replacement[bool]:
    """The number of a replica, of which a user's function is refused while it is traced: no program of all has it."""
    number: Any = vars(owner)["replica_id_in_sync_group"]

    def asked(replica: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename
        if replacement.current and (is_user_frame(file) or is_generated(file)):
            _TRACING.refusal = NotYetError(
                "a function that asks which replica it is in.", loc=user_loc(), remedy="pass the number as an argument."
            )
            raise _TRACING.refusal
        return number.fget(replica)

    replacement: Replacement[bool] = Replacement(owner, "replica_id_in_sync_group", property(asked))
    return replacement


_CONTEXTS: tuple[Any, ...] = (distribute_lib.ReplicaContextBase, distribute_lib._DefaultReplicaContext)
_REPLICA_NUMBERS = [_refusing(one) for one in _CONTEXTS]


def traced_for_dyn(flat: Callable[..., Any], specs: Sequence[Any], built_by: Sequence[Any] | None = None) -> Any:
    """The concrete function of tensors that TensorFlow traces, in which dyn's functions are parts of the function.

    What Keras has not built yet is built by a trace for the tensors ``built_by``, those of the call, where there are
    such; without, by the trace itself.
    """
    ask_for_sizes(is_tracing)
    before, _TRACING.on = is_tracing(), True
    _TRACING.refusal = None
    try:
        with context.eager_mode(), all_active(_REPLICA_NUMBERS):
            if built_by is None:
                with building(True):
                    return _initialized(tf.function(flat), specs)
            try:
                with building(False):
                    return _initialized(tf.function(flat), specs)
            except NeedsBuilding:
                pass
            with building(True):
                _initialized(tf.function(flat), built_by)
            with building(True):  # layers that each trace makes anew
                return _initialized(tf.function(flat), specs)
    except Exception:
        refusal = _TRACING.refusal
        if refusal is not None:  # which TensorFlow gives another class
            raise refusal from None
        raise
    finally:
        _TRACING.on = before


def _initialized(function: Any, specs: Sequence[Any]) -> Any:
    """The concrete function of a ``tf.function``, once the variables that its first trace creates have their values.

    TensorFlow gives them these after a trace that succeeds. Where one fails, the function traced for other sizes finds
    variables that it has created before: the state of a module. What Keras has built is undone by :func:`building`.
    """
    created: list[Any] = []
    initialize = function._initialize

    def keep(args: Any, kwargs: Any, add_initializers_to: list[Any]) -> None:
        try:
            initialize(args, kwargs, add_initializers_to=add_initializers_to)
        except BaseException:
            created.extend(add_initializers_to)
            raise

    function._initialize = keep
    try:
        return function.get_concrete_function(*specs)
    except Exception:
        function._initialize_uninitialized_variables(created)
        raise
    finally:
        del function._initialize


def is_tracing() -> bool:
    """Whether TensorFlow traces a function for dyn, on this thread."""
    return getattr(_TRACING, "on", False)


class TfProgram:
    """A concrete function, as dyn runs it. ``called`` are its tensors as users would write them. Where it ``assigns``
    nothing, variables stay what they are."""

    def __init__(
        self, concrete: Any, name: str, called: Sequence[str] = (), options: TfOptions = DEFAULT, *,
        assigns: bool = True,
    ) -> None:  # fmt: skip
        self.concrete, self.name, self.options, self.assigns = concrete, name, options, assigns
        self.called = called
        graph = concrete.graph
        effects = [op.name for op in graph.control_outputs]
        self.graph, self.library = graphs.of_graph(graph, concrete.outputs, effects)
        self._otherwise = None if options.strict else cut
        #: The operations that TensorFlow runs, of each version.
        self.pieces: list[tuple[Piece, ...]] = []
        self.variables: list[Variable] = []
        self._captured: list[Any] = []
        numbers: dict[int, int] = {}
        for tensor in concrete.captured_inputs:
            if not isinstance(tensor, EagerTensor):
                raise UnsupportedOpError(
                    "a function that closes over a tensor of the graph around it.", remedy="pass it as an argument."
                )
            found = Variable.of(tensor) if tensor.dtype == tf.resource else None
            if found is not None:
                number = numbers.setdefault(id(tensor), len(self.variables))
                self.variables += [found] if number == len(self.variables) else []
                self._captured.append(Resource(number, found.shape))
            else:
                known = dyn_dtype(tensor.dtype.name) is not None
                self._captured.append(to_array(tensor) if known else Foreign(tensor))
        self.reads = VariableReads(self.variables)
        #: TensorFlow's variables among them that tapes watch only where they are told to.
        self.untrained = [one for one in concrete.variables if not one.trainable and one.dtype.is_floating]
        #: Assignments of variables, by their numbers.
        self._assignments: dict[tuple[int, ...], VariableAssignments] = {}
        self.draws = any(node.op in DRAWING for node in self._nodes())
        self._calls = itertools.count()
        self._structure = concrete.structured_outputs
        flat = tf.nest.flatten(self._structure, expand_composites=True)
        places = {id(tensor): number for number, tensor in enumerate(concrete.outputs)}
        #: Of each leaf of the function's result, which output of the graph it is.
        self._leaves = [places.get(id(leaf)) if isinstance(leaf, tf.Tensor) else None for leaf in flat]
        self._others = flat
        self._is_one = isinstance(self._structure, tf.Tensor)
        self.function = self._jitted()

    def _nodes(self) -> list[graphs.GraphNode]:
        called = [self.library[name] for name in self.library.names]
        return [node for graph in (self.graph, *called) for node in graph.nodes.values()]

    def _jitted(self) -> Any:
        def traced(args: tuple[Any, ...], variables: tuple[Any, ...], seed: Any) -> Outputs[OutputPlan]:
            return self.traced(args, variables, seed)

        traced.__name__ = traced.__qualname__ = self.name
        return self.compiled(traced, range(len(self.variables)))

    def compiled(self, function: Callable[..., Any], passed: Sequence[int]) -> Any:
        """The function of dyn's of ``args``, the variables of the numbers ``passed``, and a seed."""
        sizes = tuple([self.variables[number].axes(number) for number in passed])
        shapes = {"variables": sizes} if sizes else None
        return api.jit_of_arrays(
            function, self.called, shapes=shapes, on_new_shape=self.options.on_new_shape,
            batch_invariant=self.options.batch_invariant,
        )  # fmt: skip

    def traced(self, args: Sequence[Tracer], variables: Sequence[Any], seed: Any) -> Outputs[OutputPlan]:
        """The outputs of the graph in the trace at hand, and what is assigned, as results with a plan."""
        state = self._state(variables, seed)
        evaluation = Evaluation(self.library, state, self._otherwise)
        made = evaluation.run(self.graph, [*args, *self._captured])
        outputs = self._collected(made, args, state)
        if (pieces := tuple(evaluation.pieces)) not in self.pieces:  # as those of the same sizes are, traced again
            self.pieces.append(pieces)
        return outputs

    def _state(self, variables: Sequence[Any], seed: Any) -> EffectState:
        """The state that the program begins with."""
        pairs = zip(self.variables, variables, strict=True)
        state = EffectState({Resource(number, one.shape): value for number, (one, value) in enumerate(pairs)})
        if seed is not None:
            state.values |= {SEED: seed, DRAWN: dnp.zeros((), dtype="uint32")}
        return state

    def _collected(self, made: Sequence[Any], args: Sequence[Tracer], state: EffectState) -> Outputs[OutputPlan]:
        """The values of outputs, and of what is assigned, as results with a plan."""
        results: list[Tracer] = []
        outputs: list[Source] = []
        for value in made:
            place = next((n for n, given in enumerate(args) if value is given), None)
            if place is not None:
                outputs.append(("argument", place))
            elif isinstance(value, Tracer | SizeTensor):
                outputs.append(("result", len(results)))
                results.append(data_here(value))
            elif isinstance(value, np.ndarray):
                outputs.append(("constant", tf.constant(value)))
            else:
                outputs.append(("constant", _foreign(value)))
        writes: list[tuple[int, int]] = []
        for key in state.written if self.assigns else ():
            if isinstance(key, Resource):
                writes.append((key.number, len(results)))
                results.append(state.get(key))
        return Outputs(OutputPlan(tuple(outputs), tuple(writes)), results)

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """The result of a call with these tensors."""
        eager = context.context()
        made = self.run(tensors, self.reads(eager), self.seed())
        results = from_arrays(made.results)
        return self.packed(self.finished(made.plan, results, tensors, eager))

    def run(self, tensors: Sequence[Any], variables: Sequence[Any], seed: Any) -> Any:
        """What the compiled function gives for tensors, and for what was read of variables."""
        given = tuple([to_array(tensor) for tensor in tensors])
        return self.function(given, tuple([to_array(value) for value in variables]), seed)

    def arrays(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of the compiled function for a call with these tensors, and some seed."""
        given = tuple([to_array(tensor) for tensor in tensors])
        variables = tuple([to_array(value) for value in self.reads(context.context())])
        return given, variables, np.uint64(0) if self.draws else None

    def is_compiled_for(self, tensors: Sequence[Any]) -> bool:
        """Return True if there is code for a call with these tensors."""
        return self.function.is_compiled_for(*self.arrays(tensors))

    @lazy_property
    def assigned(self) -> tuple[int, ...]:
        """The variables that the function may assign, by number."""
        if not self.assigns:
            return ()
        graph = self.concrete.graph
        read = {*auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph)}
        first = len(graph.inputs) - len(self._captured)
        written = {
            value.number
            for place, value in enumerate(self._captured, first)
            if isinstance(value, Resource) and place not in read
        }
        return tuple(sorted(written))

    def trace(self) -> None:
        """Trace the program for any sizes, which raises what dyn has against it."""
        given = self.concrete.graph.inputs
        structs = self.structs(given[: len(given) - len(self._captured)])
        try:
            self.function.trace(*structs)
        except (UndecidedDimError, ShapeError):
            return  # with numbers for sizes, it is known

    def structs(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of the compiled function as ``ShapeDtypeStruct``s, by tensors or their specifications."""
        args = tuple([ShapeDtypeStruct(tuple(one.shape), one.dtype.name) for one in tensors])
        variables = [ShapeDtypeStruct(one.axes(number), one.dtype.name) for number, one in enumerate(self.variables)]
        return args, tuple(variables), ShapeDtypeStruct((), "uint64") if self.draws else None

    def computed(self, *given: Any) -> list[Array]:
        """Arrays of the outputs, and of the variables that may be ``assigned``, for arrays of the tensors, of the
        variables, and a seed where the function draws."""
        arrays = [np.asarray(one) for one in given]
        seed = np.uint64(arrays.pop()) if self.draws else None
        count = len(arrays) - len(self.variables)
        tensors, variables = tuple(arrays[:count]), tuple(arrays[count:])
        made = self.function(tensors, variables, seed)
        plan: OutputPlan = made.plan
        found = picked(plan.outputs, {"result": made.results, "argument": tensors})
        outputs = [one.numpy() if isinstance(one, tf.Tensor) else one for one in found]
        writes = dict(plan.writes)
        written = [made.results[writes[n]] if n in writes else variables[n] for n in self.assigned]
        return [*outputs, *written]

    def seed(self) -> Any:
        """The seed of a call, which follows ``tf.random.set_seed``, and is another each time where there is none.

        The number of the call stands in its high half.
        """
        if not self.draws:
            return None
        is_free = context.global_seed() is None
        low = secrets.randbits(32) if is_free else context.internal_operation_seed() & 0xFFFFFFFF
        return np.uint64((next(self._calls) & 0xFFFFFFFF) << 32 | low)

    def finished(self, plan: OutputPlan, results: Sequence[Any], tensors: Sequence[Any], eager: Any) -> list[Any]:
        """The tensors of outputs, once variables are assigned."""
        if plan.writes:
            self._assign(plan.writes, results, eager)
        return picked(plan.outputs, {"result": results, "argument": tensors})

    def _assign(self, writes: Sequence[tuple[int, int]], results: Sequence[Any], eager: Any) -> None:
        numbers = tuple([number for number, _ in writes])
        found = self._assignments.get(numbers)
        if found is None:
            made = VariableAssignments([self.variables[number] for number in numbers])
            found = self._assignments.setdefault(numbers, made)
        found(eager, [results[result] for _, result in writes])

    def packed(self, outputs: Sequence[Any]) -> Any:
        """Outputs in the structure that the function returns."""
        first = self._leaves[0] if self._is_one else None
        if first is not None:
            return outputs[first]
        flat = [other if n is None else outputs[n] for n, other in zip(self._leaves, self._others, strict=True)]
        return tf.nest.pack_sequence_as(self._structure, flat, expand_composites=True)


def data_here(value: Any) -> Tracer:
    """A value as data of the trace at hand."""
    trace = current_trace()
    assert trace is not None, "programs are traced"
    return data(trace, value)


def _foreign(value: Any) -> Any:
    if isinstance(value, Foreign):
        return value.tensor
    raise NotYetError(f"a result that is a {type(value).__name__}.")
