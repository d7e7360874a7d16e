"""Calls that a ``tf.GradientTape`` records.

TensorFlow makes the graph of the gradient, by its own rules and those of ``tf.custom_gradient``, as a part of the graph
of the function. What of that needs the cotangents is read as the second half of the program
(:mod:`dyn.trace.halves`): a program of its own, which is given what the first one keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dyn.numpy as dnp
from dyn import api
from dyn.errors import NotYetError
from dyn.interop.tf.arrays import from_array
from dyn.interop.tf.evaluation import Evaluation, Known, State
from dyn.interop.tf.internals import context, pywrap_tfe, record, tape, tf
from dyn.interop.tf.ops.randomness import DRAWN, SEED
from dyn.interop.tf.programs import Plan, Program, data_here
from dyn.interop.tf.values import Resource
from dyn.source import user_loc
from dyn.trace.gradients import Leaves
from dyn.trace.halves import second_half
from dyn.trace.pytree import flatten, register_node
from dyn.trace.tracer import Tracer
from dyn.transforms import SecondHalf

CALLS_USERS = True
ASKS_FOR_OTHERS = True


@dataclass(frozen=True, eq=False, slots=True)
class RecordedPlan:
    """A plan with the second half, whose residuals are the results after the first ``count``.

    ``given`` are the results, by number, that it takes cotangents of; ``inputs`` the sources whose cotangents it gives.
    """

    plan: Plan
    half: SecondHalf
    count: int
    given: tuple[int, ...]
    inputs: tuple[int, ...]


class RecordedOutputs:
    """The results of a recorded program, and what it keeps, with the plan for them: a tree of dyn's."""

    __slots__ = ("plan", "results")

    def __init__(self, plan: RecordedPlan, results: Sequence[Any]) -> None:
        self.plan, self.results = plan, results


register_node(
    RecordedOutputs, lambda node: (node.results, node.plan), lambda plan, results: RecordedOutputs(plan, list(results))
)


class RecordedProgram(Program):
    """A function together with its gradient: ``arguments`` tensors, and then the cotangents of its float outputs.

    The graph gives the outputs of the function, and then the cotangents of its sources: float tensors among the
    arguments, and variables.
    """

    def __init__(self, flat: Callable[..., Any], specs: Sequence[Any], plain: Program) -> None:
        outputs = plain.concrete.outputs
        wanted = [n for n, one in enumerate(outputs) if one.dtype.is_floating or one.dtype.is_complex]
        self._arguments = len(specs)
        self._tensors = [n for n, spec in enumerate(specs) if spec.dtype.is_floating or spec.dtype.is_complex]
        watched: list[Any] = []
        gradients: list[bool] = []

        def joint(*given: Any) -> Any:
            tensors, cotangents = list(given[: len(specs)]), given[len(specs) :]
            with tf.GradientTape() as inner:
                for number in self._tensors:
                    inner.watch(tensors[number])
                returned = flat(*tensors)
            made = [one for one in tf.nest.flatten(returned, expand_composites=True) if tf.is_tensor(one)]
            targets = [one for one in made if one.dtype.is_floating or one.dtype.is_complex]
            watched[:] = inner.watched_variables()
            sources = [*[tensors[number] for number in self._tensors], *watched]
            pulled = (
                inner.gradient(targets, sources, list(cotangents)) if targets and sources else [None] * len(sources)
            )
            pulled = [tf.convert_to_tensor(one) if one is not None else None for one in pulled]
            gradients[:] = [one is not None for one in pulled]
            return returned, [one for one in pulled if one is not None]

        cotangents = [tf.TensorSpec([None] * outputs[n].shape.rank, outputs[n].dtype) for n in wanted]
        concrete = tf.function(joint).get_concrete_function(*specs, *cotangents)
        self._count = sum(gradients)
        self._wanted = wanted
        super().__init__(concrete, plain.name, strict=plain.strict)
        handles = {id(one.handle): number for number, one in enumerate(self.variables)}
        places = [*self._tensors, *[len(specs) + handles[id(one.handle)] for one in watched]]
        self._inputs = tuple([place for place, has in zip(places, gradients, strict=True) if has])
        self.watched = tuple(watched)
        self._plain = plain

    def _jitted(self) -> Any:
        def recorded(args: tuple[Any, ...], variables: tuple[Any, ...], seed: Any) -> RecordedOutputs:
            return self._traced(args, variables, seed)

        recorded.__name__ = recorded.__qualname__ = self.name
        sizes = tuple([one.axes(number) for number, one in enumerate(self.variables)])
        return api.jit(recorded, shapes={"variables": sizes} if sizes else None)

    def _traced(self, args: Sequence[Tracer], variables: Sequence[Tracer], seed: Any) -> RecordedOutputs:
        state = State({Resource(number): value for number, value in enumerate(variables)})
        if seed is not None:
            state.values |= {SEED: seed, DRAWN: dnp.zeros((), dtype="uint32")}
        evaluation = Evaluation(self.library, state, self._otherwise)
        graph, total = self.graph, self._arguments + len(self._wanted)
        names = graph.arguments
        late = graph.depending(names[self._arguments : total])
        known = Known(zip(names[: self._arguments], [(value,) for value in args], strict=True))
        known |= zip(names[total:], [(value,) for value in self._captured], strict=True)
        evaluation.read(graph, [node for node in graph.needed if node.name not in late], known)
        outputs = graph.outputs[: len(graph.outputs) - self._count]
        made = [known[name][number] for name, number in outputs]
        # What is returned as it is given has a cotangent all the same.
        made = [data_here(value) if number in self._wanted else value for number, value in enumerate(made)]
        collected = self._collected(made, [], state)
        given = [collected.plan.outputs[number][1] for number in self._wanted]
        values = tuple([collected.results[number].value_in(evaluation.trace) for number in given])

        def run(*cotangents: Tracer) -> list[Tracer]:
            inside = known | dict(zip(names[self._arguments : total], [(one,) for one in cotangents], strict=True))
            inner = evaluation.within(State(outer=state))
            inner.read(graph, [node for node in graph.needed if node.name in late], inside)
            pulled = graph.outputs[len(graph.outputs) - self._count :]
            return [data_here(inside[name][number]) for name, number in pulled]

        leaves = Leaves(values, flatten([0] * len(values))[1], "results")
        residuals, half = second_half(evaluation.trace, run, self.name, leaves, "cotangent")
        self.pieces.append(tuple(evaluation.pieces))
        plan = RecordedPlan(collected.plan, SecondHalf(half), len(collected.results), tuple(given), self._inputs)
        return RecordedOutputs(plan, [*collected.results, *residuals])

    def __call__(self, tensors: Sequence[Any]) -> Any:
        eager = context.context()
        for variable in self.watched:
            tape.variable_accessed(variable)
        variables = [one.read(eager) for one in self.variables]
        with record.stop_recording():
            made = self.run(tensors, variables)
            plan: RecordedPlan = made.plan
            results = [from_array(one) for one in made.results[: plan.count]]
            outputs = self.finished(plan.plan, results, tensors, eager)
        if not self._inputs or not plan.given:
            return self._plain.packed(outputs)
        inputs = [*tensors, *variables]
        recorded = [results[number] for number in plan.given]
        residuals = tuple(made.results[plan.count :])
        sources = [inputs[number] for number in plan.inputs]

        def backward(*cotangents: Any) -> list[Any]:
            return self._pulled(plan, residuals, recorded, sources, cotangents)

        record.record_operation("Dyn", recorded, sources, backward)
        return self._plain.packed(outputs)

    def _pulled(
        self, plan: RecordedPlan, residuals: tuple[Any, ...], results: Sequence[Any], sources: Sequence[Any],
        cotangents: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        whole = [tf.zeros_like(own) if one is None else one for one, own in zip(cotangents, results, strict=True)]
        if not pywrap_tfe.TFE_Py_TapeSetIsEmpty() and pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop([*whole, *sources]):
            raise NotYetError(
                f"{self.name}(): a gradient of a gradient through a compiled function.",
                loc=user_loc(),
                remedy="call the function as it is, or end the tape's with block before tape.gradient.",
            )
        pulled = plan.half.program(residuals, tuple([tf.convert_to_tensor(one)._numpy() for one in whole]))
        return [from_array(one) for one in pulled]


def is_recording(tensors: Sequence[Any], program: Program) -> bool:
    """Whether a tape wants to know of a call."""
    if pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        return False
    if pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(list(tensors)):
        return True
    return bool(program.variables)
