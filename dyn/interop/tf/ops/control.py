"""Functions that are called, branches, and loops.

A region (a branch, the body of a loop) gives data alone. What is known beforehand and stays what it is in a loop, sizes
and variables above all, is known inside, too. Variables that a region assigns are carried along with the rest; which
they are, and of what shape lists are that a loop fills, is found by tracing it: it is traced again until nothing new
turns up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import ShapeError, TraceError, UndecidedDimError, UnsupportedOpError
from dyn.interop.sizes import conditions
from dyn.interop.sizes.conditions import Comparison, Condition
from dyn.interop.sizes.values import SizeTensor, data, is_known, is_of_arguments, is_same
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.evaluation import EffectState, Evaluation, NodeCall
from dyn.interop.tf.graphs import Graph
from dyn.interop.tf.lists import TensorList
from dyn.interop.tf.ops.assertions import claim
from dyn.interop.tf.ops.lengths import with_room
from dyn.interop.tf.optionals import Optional, joined
from dyn.interop.tf.values import Resource
from dyn.shapes import Dim, Relation, format_dim
from dyn.trace import control
from dyn.trace.branch_sizes import Unequal
from dyn.trace.context import Trace
from dyn.trace.data_dependent import is_bound
from dyn.trace.tracer import Tracer

ASKS_FOR_OTHERS = True


@takes_call("PartitionedCall", "StatefulPartitionedCall", attrs=["f"])
def partitioned_call(call: NodeCall) -> Any:
    return call.evaluation.run(call.evaluation.library[call.attr("f")], call.inputs)


# ---- what a region carries -------------------------------------------------------------------------------------------


class _Again(Exception):  # nobody but the rule sees it
    """Ends the trace of a region that has to be given more than it was."""


@dataclass
class _Carried:
    """Results of regions beside the values of their outputs: variables that they assign, and shapes of lists."""

    keys: list[Any] = field(default_factory=list[Any])
    #: Of each output what branches give, by their numbers.
    optionals: dict[int, dict[int, Optional]] = field(default_factory=dict[int, dict[int, Optional]])
    shapes: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]])
    items: dict[int, Any] = field(default_factory=dict[int, Any])

    def note(self, state: EffectState) -> None:
        """Have the variables carried that were assigned. Raises _Again for new ones."""
        new = [key for key in state.written if key not in self.keys]
        if new:
            self.keys += sorted(new, key=repr)
            raise _Again

    def note_lists(self, around: Trace, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Have lists filled with zeros of the shape that is written to them, or with the item that is.

        Raises _Again for new ones.
        """
        found = False
        for number, (before, after) in enumerate(zip(given, made, strict=True)):
            is_list = isinstance(before, TensorList) and isinstance(after, TensorList)
            if not is_list or before.elements is not None:
                continue
            for dim in () if after.elements is None else after.elements.dims[1:]:
                _check_is_known_around(around, dim)
            if after.elements is not None:
                self.shapes[number] = tuple(after.elements.shape[1:])
                found = True
            elif after.item is not before.item and (before.item is None or not is_same(after.item, before.item)):
                self.items[number] = after.item
                found = True
        if found:
            raise _Again

    def note_optionals(self, trace: Trace, branch: int, made: Sequence[Any]) -> list[Any]:
        """The results of a branch, with zeros for what only another branch has: it is taken where that has run.

        Raises _Again for what is new.
        """
        optionals = {n: value for n, value in enumerate(made) if isinstance(value, Optional)}
        found = False
        for number, value in optionals.items():
            given = self.optionals.setdefault(number, {})
            if value.ways and branch not in given:
                given[branch] = value
                found = True
        if found:
            raise _Again
        return [
            joined(value, branch, self.optionals[n], trace) if n in optionals else value for n, value in enumerate(made)
        ]

    def filled(self, values: Sequence[Any]) -> list[Any]:
        return [
            value.of(self.shapes[n])
            if n in self.shapes
            else replace(value, item=self.items[n])
            if n in self.items and value.item is None
            else value
            for n, value in enumerate(values)
        ]


def _leaves(trace: Trace, value: Any) -> list[Tracer]:
    """A value as data, for a region."""
    return value.leaves() if isinstance(value, TensorList | Optional) else [data(trace, value)]


def _rebuilt(like: Sequence[Any], leaves: Sequence[Tracer]) -> list[Any]:
    """Values such as these, of this data."""
    made: list[Any] = []
    start = 0
    for value in like:
        is_several = isinstance(value, TensorList | Optional)
        count = len(value.leaves()) if is_several else 1
        own = leaves[start : start + count]
        made.append(value.with_leaves(own) if is_several else own[0])
        start += count
    return made


def _retried(run: Callable[[], Any]) -> Any:
    while True:
        try:
            return run()
        except _Again:
            continue


# ---- branches --------------------------------------------------------------------------------------------------------


def _truth(call: NodeCall, value: Any) -> Any:
    """A predicate as a bool where it is known, as a condition on sizes, or as data."""
    if isinstance(value, Tracer):
        if value.dims:
            return dnp.reshape(value, ()) if value.dims == (1,) else dnp.asarray(value.shape[0] != 0)
        return value if value.dtype.kind == "b" else value != 0
    if isinstance(value, np.ndarray):
        return bool(value) if value.ndim == 0 else value.size > 0
    if isinstance(value, SizeTensor) and value.elements.ndim == 0:
        element = value.elements.item()
        condition = element if value.dtype.name == "bool" else conditions.negated(conditions.equal(element, 0))
        known = conditions.known(condition, call.trace)
        return condition if known is None else known
    raise UnsupportedOpError(f"a branch on a {type(value).__name__}.")


@takes_call("If", "StatelessIf", attrs=["then_branch", "else_branch"])
def if_(call: NodeCall) -> Any:
    evaluation, arguments = call.evaluation, list(call.inputs[1:])
    branches = [evaluation.library[call.attr(name)] for name in ("then_branch", "else_branch")]
    truth = _truth(call, call.inputs[0])
    if isinstance(truth, bool):
        return evaluation.run(branches[0 if truth else 1], arguments)
    asserted = _asserted(call, branches[1])
    if asserted is not None:  # the other branch ends the program
        claim(call, call.inputs[0], asserted)
        return evaluation.run(branches[0], arguments)
    if isinstance(truth, Tracer):
        return _if(evaluation, truth, branches, arguments)
    predicate, known = truth.computed(call.trace), (_relations(truth), _relations(truth.negated()))
    try:
        return _choice(evaluation, _cond(predicate, Unequal.REFUSED, known), branches, arguments)
    except (TraceError, ShapeError):
        pass
    # The branches give other shapes: which one it is, is decided for this program, by a guard.
    try:
        decided = conditions.decide(truth, call.trace)
    except (UndecidedDimError, ShapeError):  # of a size that the program finds out
        return _if(evaluation, predicate, branches, arguments, known)
    return evaluation.run(branches[0 if decided else 1], arguments)


def _if(
    evaluation: Evaluation, predicate: Any, branches: Sequence[Graph], arguments: Sequence[Any],
    known: Sequence[Sequence[Relation]] = (),
) -> list[Any]:  # fmt: skip
    """The results of the branch that a predicate chooses, of whatever sizes that has; what is ``known`` in each."""
    try:
        return _choice(evaluation, _cond(predicate, Unequal.MEASURED, known), branches, arguments)
    except (TraceError, ShapeError) as error:
        raise UnsupportedOpError(f"a branch: {error.problem}", loc=error.loc, notes=error.notes) from error


def _relations(condition: Condition) -> list[Relation]:
    """The relations of sizes that hold where a condition does."""
    if isinstance(condition, Comparison):
        return [condition.yes]
    return [relation for part in condition.parts for relation in _relations(part)] if condition.every else []


def _cond(
    predicate: Any, unequal: Unequal, known: Sequence[Sequence[Relation]]
) -> Callable[[Evaluation, list[Callable[[], Any]]], Any]:
    def choose(evaluation: Evaluation, functions: list[Callable[[], Any]]) -> Any:
        return control.switch(evaluation.trace, predicate, functions, (), "cond", unequal, known)

    return choose


def _asserted(call: NodeCall, graph: Graph) -> Sequence[Any] | None:
    """What a branch shows that asserts the branch's own condition, which is false there; None for others."""
    for node in graph.needed:
        if node.op == "Assert":
            name, number = graph.source(node.inputs[0])
            if name in graph.arguments and number == 0:
                given = call.inputs[1 + graph.arguments.index(name)]
                if given is call.inputs[0]:
                    return [
                        graph.nodes[one].attr("value") for one, _ in node.inputs[1:] if graph.nodes[one].op == "Const"
                    ]
    return None


@takes_call("Case", "StatelessCase", attrs=["branches"])
def case(call: NodeCall) -> Any:
    evaluation, arguments = call.evaluation, list(call.inputs[1:])
    branches = [evaluation.library[name] for name in call.attr("branches")]
    index = call.inputs[0]
    if isinstance(index, np.ndarray):
        number = int(index)
        return evaluation.run(branches[number if 0 <= number < len(branches) else -1], arguments)
    index: Any = call.value(0)
    index = dnp.where(index < 0, len(branches) - 1, index)  # as those above: the last one

    def choose(evaluation: Evaluation, functions: list[Callable[[], Any]]) -> Any:
        return control.switch(evaluation.trace, index, functions, (), "switch", Unequal.MEASURED)

    try:
        return _choice(evaluation, choose, branches, arguments)
    except (TraceError, ShapeError) as error:
        raise UnsupportedOpError(f"a branch: {error.problem}", loc=error.loc, notes=error.notes) from error


def _choice(
    evaluation: Evaluation, choose: Callable[[Evaluation, list[Callable[[], Any]]], Any], branches: Sequence[Graph],
    arguments: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """The results of the branch that the program chooses."""
    carried = _Carried()
    likes: list[list[Any]] = []

    def branch(number: int, graph: Graph) -> Callable[[], Any]:
        def run() -> Any:
            state = EffectState(outer=evaluation.state)
            inner = evaluation.within(state)
            inner.branch = number
            made = carried.note_optionals(inner.trace, number, inner.run(graph, arguments))
            carried.note(state)
            likes.append(made)
            leaves = [leaf for value in made for leaf in _leaves(inner.trace, value)]
            return [*leaves, *[data(inner.trace, state.get(key)) for key in carried.keys]]

        return run

    made = _retried(lambda: choose(evaluation, list(itertools.starmap(branch, enumerate(branches)))))
    count = len(made) - len(carried.keys)
    for key, value in zip(carried.keys, made[count:], strict=True):
        evaluation.state.set(key, value)
    return _rebuilt(likes[-1], made[:count])


# ---- loops -----------------------------------------------------------------------------------------------------------


@takes_call("While", "StatelessWhile", attrs=["cond", "body"])
def while_(call: NodeCall) -> Any:
    evaluation, trace = call.evaluation, call.trace
    condition, body = (evaluation.library[call.attr(name)] for name in ("cond", "body"))
    same = [body.source(body.outputs[n]) == (name, 0) for n, name in enumerate(body.arguments)]
    same = [one or isinstance(value, Resource) for one, value in zip(same, call.inputs, strict=True)]
    carried = _Carried()
    # What no step changes is one array in all of them, where it can be: rows would be joined wherever one is read.
    inputs = [_as_one_array(value) if is_same else value for value, is_same in zip(call.inputs, same, strict=True)]
    given_lists = list(inputs)
    for number, value in enumerate(given_lists):
        if isinstance(value, TensorList):
            value = value if value.rows is None or same[number] else value.stacked()
            given_lists[number] = with_room(call, condition, body, number, value)

    def loop() -> Any:
        starts = [value for value, is_same in zip(carried.filled(given_lists), same, strict=True) if not is_same]
        count = sum([len(_leaves(trace, value)) for value in starts])
        leaves = [leaf for value in starts for leaf in _leaves(trace, value)]
        leaves += [data(trace, evaluation.state.get(key)) for key in carried.keys]

        def given(leaves: Sequence[Tracer]) -> tuple[list[Any], EffectState]:
            changing = iter(_rebuilt(starts, leaves[:count]))
            arguments = [value if is_same else next(changing) for value, is_same in zip(inputs, same, strict=True)]
            state = EffectState(dict(zip(carried.keys, leaves[count:], strict=True)), outer=evaluation.state)
            return arguments, state

        def continues(leaves: Sequence[Tracer]) -> Any:
            arguments, state = given(leaves)
            inner = evaluation.within(state)
            made = inner.run(condition, arguments)[0]
            return dnp.reshape(data(inner.trace, made), ())

        def step(leaves: Sequence[Tracer]) -> list[Tracer]:
            arguments, state = given(leaves)
            inner = evaluation.within(state)
            results = [_as_carried(value) for value in inner.run(body, arguments)]
            carried.note_lists(trace, arguments, results)
            carried.note(state)
            made = [value for value, is_same in zip(results, same, strict=True) if not is_same]
            kept = [leaf for value in made for leaf in _leaves(inner.trace, value)]
            for before, after in zip(leaves, kept, strict=False):
                _check_sizes_stay(inner.trace, trace, before, after)
            return [*kept, *[data(inner.trace, state.get(key)) for key in carried.keys]]

        made = control.while_loop(trace, continues, step, leaves)
        for key, value in zip(carried.keys, made[count:], strict=True):
            evaluation.state.set(key, value)
        changed = iter(_rebuilt(starts, made[:count]))
        return [value if is_same else next(changed) for value, is_same in zip(call.inputs, same, strict=True)]

    return _retried(loop)


def _as_one_array(value: Any) -> Any:
    """A list as one array, where its rows are proved to have one shape; anything else as it is."""
    is_even = isinstance(value, TensorList) and bool(value.leaves()) and value.rows is not None and value.is_even
    return value.stacked() if is_even else value


def _as_carried(value: Any) -> Any:
    """A value of a step as the next step has it: a list that a known place of was written to, as one array."""
    return value.stacked() if isinstance(value, TensorList) and value.rows is not None else value


def _check_sizes_stay(trace: Trace, around: Trace, before: Tracer, after: Tracer) -> None:
    """Raise UnsupportedOpError where a step of a loop gives an array of another size than that before, or one that is
    found out in the step. Sizes of arguments that are the same in this call are guarded."""
    for axis, (old, new) in enumerate(zip(before.dims, after.dims, strict=False)):
        same = trace.facts.eq(old, new)
        if same.proved:
            continue
        is_refused = same.refuted or not is_bound(around, new) or len(before.dims) != len(after.dims)
        if is_refused or not _is_of_this_call(around, old, new):
            raise UnsupportedOpError(
                f"a loop that changes the size of axis {axis} of its state from {format_dim(old)} to "
                f"{format_dim(new)}.",
                remedy="collect what it makes in a tf.TensorArray.",
            )


def _is_of_this_call(around: Trace, old: Dim, new: Dim) -> bool:
    """Whether two sizes are equal in this call: guarded where they are those of arguments, else not known."""
    is_equal = conditions.equal(old, new)
    try:
        return conditions.decide(is_equal, around)
    except (UndecidedDimError, ShapeError):
        return True  # which the loop demands


def _check_is_known_around(around: Trace, dim: Dim) -> None:
    """Raise UnsupportedOpError for a list that a loop fills with tensors whose sizes are found out in a step."""
    if not is_bound(around, dim):
        raise UnsupportedOpError(
            f"a list that a loop fills with tensors of the size {format_dim(dim)}, which each step finds out.",
            remedy="write rows of one size, padded, and their lengths to a list beside.",
        )


# ---- values that only one branch gives, for its derivative -----------------------------------------------------------


@takes_call("OptionalNone")
def optional_none(call: NodeCall) -> Any:
    return Optional(())


@takes_call("OptionalFromValue")
def optional_from_value(call: NodeCall) -> Any:
    def part(value: Any) -> Any:
        stays = (is_known(value) and is_of_arguments(value)) or isinstance(value, TensorList | Optional)
        return value if stays else data(call.trace, value)

    return Optional((tuple(map(part, call.inputs)),))


@takes_call("OptionalGetValue", attrs=["output_types", "output_shapes"])
def optional_get_value(call: NodeCall) -> Any:
    found = call.inputs[0]
    if not isinstance(found, Optional):
        raise UnsupportedOpError(f"the value of an optional that is a {type(found).__name__}.")
    return list(found.taken(call.evaluation.branch, call.attr("output_types"), call.attr("output_shapes")))
