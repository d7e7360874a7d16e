"""Calls that a ``tf.GradientTape`` records.

TensorFlow makes the graph of the gradient, by its own rules and those of ``tf.custom_gradient``, as a part of the graph
of the function. What of that needs the cotangents is read as the second half of the program
(:mod:`dyn.trace.split_linearization`): a program of its own, which is given what the first one keeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dyn.numpy as dnp
from dyn.frontend.outputs import OutputPlan, Outputs, Source, SplitProgram, picked
from dyn.interop.tf.arrays import from_arrays
from dyn.interop.tf.evaluation import EffectState, Evaluation, Known
from dyn.interop.tf.graph_calls import operation
from dyn.interop.tf.internals import context, pywrap_tfe, record, tape, tf
from dyn.interop.tf.programs import TfProgram, data_here, traced_for_dyn
from dyn.lazy_property import lazy_property
from dyn.trace.gradients import Leaves
from dyn.trace.pytree import list_tree
from dyn.trace.split_linearization import second_half
from dyn.trace.tracer import Tracer
from dyn.transforms import SecondHalf

CALLS_USERS = True
ASKS_FOR_OTHERS = True


@dataclass(frozen=True, slots=True)
class _Form:
    """Form of a cotangent: one tensor, or, where it ``is_sparse``, the parts of a ``tf.IndexedSlices``: rows, their
    indices, and the shape of the whole where it ``has_shape``."""

    is_sparse: bool
    has_shape: bool = False

    @staticmethod
    def of(cotangent: Any) -> _Form:
        is_sparse = isinstance(cotangent, tf.IndexedSlices)
        return _Form(is_sparse, is_sparse and cotangent.dense_shape is not None)

    @property
    def count(self) -> int:
        return 1 + self.is_sparse + self.has_shape

    def packed(self, parts: Iterator[Any]) -> Any:
        """The cotangent of the next parts."""
        own = list(itertools.islice(parts, self.count))
        return tf.IndexedSlices(*own) if self.is_sparse else own[0]

    def fitted(self, parts: Iterator[Any], source: Tracer) -> list[Tracer]:
        """The next parts as data, with the sizes of the source, also where TensorFlow has computed them."""
        first, *rest = map(data_here, itertools.islice(parts, self.count))
        rows = [first.shape[0]] if self.is_sparse else source.shape[:1]
        return [dnp.reshape(first, (*rows, *source.shape[1:])), *rest]


class Joint:
    """A function with its gradient as one function: of its tensors, and then cotangents of its float outputs.

    ``tensors`` are those of its arguments that have a gradient, by number; ``wanted`` its outputs that have cotangents.
    """

    def __init__(
        self, flat: Callable[..., Any], specs: Sequence[Any], plain: TfProgram, untrained: Sequence[Any] = ()
    ) -> None:
        outputs = plain.concrete.outputs
        #: Variables that are not trained, and have gradients all the same.
        self.untrained = untrained
        self.flat, self.plain, self.arguments = flat, plain, len(specs)
        self.tensors = [n for n, spec in enumerate(specs) if spec.dtype.is_floating or spec.dtype.is_complex]
        self.wanted = [n for n, one in enumerate(outputs) if one.dtype.is_floating or one.dtype.is_complex]
        ranks = [outputs[n].shape.rank for n in self.wanted]
        shapes = [None if rank is None else [None] * rank for rank in ranks]
        cotangents = [tf.TensorSpec(shape, outputs[n].dtype) for n, shape in zip(self.wanted, shapes, strict=True)]
        self.specs = [*specs, *cotangents]
        #: Variables that the function reads and that are trained, and of each source whether it has a gradient.
        self.watched: list[Any] = []
        self.has: list[bool] = []
        #: Of those that have one, its form.
        self.forms: list[_Form] = []

    def both(self, *given: Any) -> Any:
        """The results of the function, and the cotangents of its sources."""
        tensors, cotangents = list(given[: self.arguments]), given[self.arguments :]
        with tf.GradientTape() as inner:
            for number in self.tensors:
                inner.watch(tensors[number])
            for variable in self.untrained:
                inner.watch(variable)
            returned = self.flat(*tensors)
        made = [one for one in tf.nest.flatten(returned, expand_composites=True) if tf.is_tensor(one)]
        targets = [one for one in made if one.dtype.is_floating or one.dtype.is_complex]
        # A cotangent has the sizes of its result: without that they would be unrelated.
        cotangents = [tf.reshape(one, tf.shape(own)) for one, own in zip(cotangents, targets, strict=True)]
        self.watched = list(inner.watched_variables())
        sources = [*[tensors[number] for number in self.tensors], *self.watched]
        pulled = inner.gradient(targets, sources, cotangents) if targets and sources else [None] * len(sources)
        self.has = [one is not None for one in pulled]
        made = [one for one in pulled if one is not None]
        made = [one if isinstance(one, tf.IndexedSlices) else tf.convert_to_tensor(one) for one in made]
        self.forms = list(map(_Form.of, made))
        return returned, made

    def alone(self, *given: Any) -> Any:
        """The cotangents of the sources."""
        return self.both(*given)[1]

    def packed(self, parts: Sequence[Any]) -> list[Any]:
        """The cotangents of the sources that have one, of their parts."""
        left = iter(parts)
        return [form.packed(left) for form in self.forms]

    def places(self, program: TfProgram) -> tuple[int, ...]:
        """Of each cotangent, which input of the function it belongs to: a tensor, or after these one of ``program``'s
        variables."""
        numbers = {id(one.handle): number for number, one in enumerate(program.variables)}
        places = [*self.tensors, *[self.arguments + numbers[id(one.handle)] for one in self.watched]]
        return tuple([place for place, has in zip(places, self.has, strict=True) if has])


class GradientProgram:
    """The gradient of a program as a program by itself, which computes again what it needs, and assigns nothing.

    It takes the inputs of the program, values of variables and the seed among them, and cotangents of its results.
    """

    def __init__(self, joint: Joint) -> None:
        self._joint = Joint(joint.flat, joint.specs[: joint.arguments], joint.plain, joint.untrained)
        plain = joint.plain
        concrete = traced_for_dyn(self._joint.alone, self._joint.specs)
        options = replace(plain.options, on_new_shape="compile")
        self.program = TfProgram(concrete, f"{plain.name}_gradient", options=options, assigns=False)
        self.wanted, self.places = self._joint.wanted, self._joint.places(plain)
        numbers = {id(one.handle): number for number, one in enumerate(plain.variables)}
        self._again: GradientProgram | None = None
        self._variables = [numbers[id(one.handle)] for one in self.program.variables]

    def inputs(self, tensors: Sequence[Any], cotangents: Sequence[Any], variables: Sequence[Any]) -> tuple[Any, Any]:
        """Tensors and values of variables for the program, from those of the program whose gradient it is."""
        return [*tensors, *cotangents], [variables[number] for number in self._variables]

    def packed(self, parts: Sequence[Any]) -> list[Any]:
        """The cotangents that the program gives, of its results."""
        return self._joint.packed(parts)

    @lazy_property
    def recorded(self) -> RecordedProgram:
        """The program with its own gradient."""
        return RecordedProgram(self._joint.alone, self._joint.specs, self.program, self._joint.untrained)

    def again(self) -> GradientProgram:
        """The gradient of this gradient."""
        if self._again is None:
            own = self._joint
            self._again = GradientProgram(Joint(own.alone, own.specs, self.program, own.untrained))
        return self._again


class RecordedProgram(TfProgram):
    """A function together with its gradient: ``arguments`` tensors, and then the cotangents of its float outputs.

    The graph gives the outputs of the function, and then the cotangents of its sources: float tensors among the
    arguments, and variables.
    """

    def __init__(
        self, flat: Callable[..., Any], specs: Sequence[Any], plain: TfProgram, untrained: Sequence[Any] = ()
    ) -> None:
        self._joint = joint = Joint(flat, specs, plain, untrained)
        self._arguments, self._wanted = joint.arguments, joint.wanted
        concrete = traced_for_dyn(joint.both, joint.specs)
        self._count = sum([form.count for form in joint.forms])
        super().__init__(concrete, plain.name, plain.called, plain.options, assigns=plain.assigns)
        self._inputs = joint.places(self)
        self.watched = tuple(joint.watched)
        self._plain = plain

    @lazy_property
    def gradient(self) -> GradientProgram:
        """The gradient by itself, for what is differentiated twice."""
        return GradientProgram(self._joint)

    def traced(self, args: Sequence[Tracer], variables: Sequence[Any], seed: Any) -> Outputs[OutputPlan]:
        state = self._state(variables, seed)
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
            inner = evaluation.within(EffectState(outer=state, is_region=False))
            inner.read(graph, [node for node in graph.needed if node.name in late], inside)
            pulled = [inside[name][number] for name, number in graph.outputs[len(graph.outputs) - self._count :]]
            sources, parts = [*args, *variables], iter(pulled)
            return [
                part
                for form, place in zip(self._joint.forms, self._joint.places(self), strict=True)
                for part in form.fitted(parts, sources[place])
            ]

        leaves = Leaves(values, list_tree(len(values)), "results")
        residuals, half = second_half(evaluation.trace, run, self.name, leaves, "cotangent")
        self.pieces.append(tuple(evaluation.pieces))
        count = len(collected.results)
        kept: list[Source] = [("result", count + number) for number in range(len(residuals))]
        inputs: list[Source] = [("argument", number) for number in self._inputs]
        split = SplitProgram(SecondHalf(half), tuple(kept), tuple(given), tuple(inputs))
        return Outputs(replace(collected.plan, split=split), [*collected.results, *residuals])

    def __call__(self, tensors: Sequence[Any], variables: Sequence[Any] | None = None, seed: Any = None) -> Any:
        eager = context.context()
        if variables is None:
            for variable in self.watched:
                tape.variable_accessed(variable)
            variables = self.reads.recorded(eager)
        seed = self.seed() if seed is None else seed
        with record.stop_recording():
            made = self.run(tensors, variables, seed)
            plan: OutputPlan = made.plan
            split = plan.split
            assert split is not None, "the program has its gradient"
            results = from_arrays(made.results[: len(made.results) - len(split.residuals)])
            outputs = self.finished(plan, results, tensors, eager)
        if not split.inputs or not split.results:
            return self._plain.packed(outputs)
        inputs = [*tensors, *variables]
        origin = tensors, variables, seed
        recorded = [results[number] for number in split.results]
        residuals = tuple(picked(split.residuals, {"result": made.results}))
        sources = picked(split.inputs, {"argument": inputs})

        def backward(*cotangents: Any) -> list[Any]:
            return self._pulled(split, residuals, recorded, origin, cotangents)

        record.record_operation("Dyn", recorded, sources, backward)
        return self._plain.packed(outputs)

    def _of_plain(self, variables: Sequence[Any]) -> list[Any]:
        """Of the values of variables those that the program without its gradient has."""
        numbers = {id(one.handle): number for number, one in enumerate(self.variables)}
        return [variables[numbers[id(one.handle)]] for one in self._plain.variables]

    def _pulled(
        self, split: SplitProgram, residuals: tuple[Any, ...], results: Sequence[Any],
        origin: tuple[Sequence[Any], Sequence[Any], Any], cotangents: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        whole = [
            tf.zeros_like(own) if one is None else tf.convert_to_tensor(one)
            for one, own in zip(cotangents, results, strict=True)
        ]
        tensors, variables, seed = origin
        if not pywrap_tfe.TFE_Py_TapeSetIsEmpty() and pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(
            [*whole, *tensors, *variables]
        ):
            own = self._of_plain(variables)
            return self.gradient.recorded(*self.gradient.inputs(tensors, whole, own), seed)
        if not context.executing_eagerly():  # in a graph that is made of a tape's gradients, as of tape.jacobian
            found = self.gradient
            inputs, values = found.inputs(tensors, whole, self._of_plain(variables))
            seeds = [tf.constant(seed)] if found.program.draws else []
            return found.packed(operation(found.program, [*inputs, *values], seeds, found.again))
        assert split.half is not None, "TensorFlow gives a cotangent"
        pulled = split.half.program(residuals, tuple([one._numpy() for one in whole]))
        return self._joint.packed(from_arrays(pulled))


def is_recording(tensors: Sequence[Any], program: TfProgram) -> bool:
    """Whether a tape wants to know of a call."""
    if pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        return False
    if pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(list(tensors)):
        return True
    return bool(program.variables)


def watched_untrained(program: TfProgram) -> list[Any]:
    """The variables of a program that are not trained, but that a tape has been told to watch."""
    is_watched = pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop
    if not program.untrained or not is_watched([one.handle for one in program.untrained]):
        return []
    return [one for one in program.untrained if is_watched([one.handle])]
