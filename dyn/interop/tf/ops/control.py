"""Functions that are called, branches, and what these give to their derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import ShapeError, TraceError, UndecidedDimError, UnsupportedOpError
from dyn.interop.sizes import conditions
from dyn.interop.sizes.conditions import Comparison, Condition
from dyn.interop.sizes.values import SizeTensor, data, is_known, is_of_arguments
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.evaluation import EffectState, Evaluation, NodeCall
from dyn.interop.tf.graphs import Graph
from dyn.interop.tf.ops.assertions import claim
from dyn.interop.tf.ops.regions import COMPOSITES, CarriedResults, leaves_of, rebuilt, retried
from dyn.interop.tf.optionals import Optional
from dyn.shapes import Relation
from dyn.trace import control
from dyn.trace.branch_sizes import Unequal
from dyn.trace.tracer import Tracer

ASKS_FOR_OTHERS = True


@takes_call("PartitionedCall", "StatefulPartitionedCall", attrs=["f"])
def partitioned_call(call: NodeCall) -> Any:
    return call.evaluation.run(call.evaluation.library[call.attr("f")], call.inputs)


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
    carried = CarriedResults()
    likes: list[list[Any]] = []

    def branch(number: int, graph: Graph) -> Callable[[], Any]:
        def run() -> Any:
            state = EffectState(outer=evaluation.state)
            inner = evaluation.within(state)
            inner.branch = number
            made = carried.note_branch_lists(evaluation.trace, number, inner.run(graph, arguments))
            made = carried.note_optionals(inner.trace, number, made)
            carried.note(state)
            likes.append(made)
            leaves = [leaf for value in made for leaf in leaves_of(inner.trace, value)]
            return [*leaves, *[data(inner.trace, state.get(key)) for key in carried.keys]]

        return run

    made = retried(lambda: choose(evaluation, list(itertools.starmap(branch, enumerate(branches)))))
    count = len(made) - len(carried.keys)
    for key, value in zip(carried.keys, made[count:], strict=True):
        evaluation.state.set(key, value)
    return rebuilt(likes[-1], made[:count])


# ---- values that only one branch gives, for its derivative -----------------------------------------------------------


@takes_call("OptionalNone")
def optional_none(call: NodeCall) -> Any:
    return Optional(())


@takes_call("OptionalFromValue")
def optional_from_value(call: NodeCall) -> Any:
    def part(value: Any) -> Any:
        stays = (is_known(value) and is_of_arguments(value)) or isinstance(value, COMPOSITES)
        return value if stays else data(call.trace, value)

    return Optional((tuple(map(part, call.inputs)),))


@takes_call("OptionalGetValue", attrs=["output_types", "output_shapes"])
def optional_get_value(call: NodeCall) -> Any:
    found = call.inputs[0]
    if not isinstance(found, Optional):
        raise UnsupportedOpError(f"the value of an optional that is a {type(found).__name__}.")
    return list(found.taken(call.evaluation.branch, call.attr("output_types"), call.attr("output_shapes")))
