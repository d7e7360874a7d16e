"""Loops: what their steps are given, and values that grow in them.

A list or an array that grows is carried in room for as much as it becomes. How much that is follows from the number of
steps where that is known. Otherwise the loop runs twice: first for the sizes alone, of all that grows, and for what
decides on them. So nothing of what grows may be read in it, apart from sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError, UndecidedDimError, UnsupportedOpError
from dyn.interop.sizes import conditions
from dyn.interop.sizes.values import data
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.evaluation import EffectState, NodeCall
from dyn.interop.tf.lists import NestedList, TensorList
from dyn.interop.tf.loop_values import CountedArray, CountedList, PaddedArray
from dyn.interop.tf.ops.lengths import roomy, steps_of, with_room
from dyn.interop.tf.ops.regions import COMPOSITES, CarriedResults, leaves_of, rebuilt, retried
from dyn.interop.tf.values import Resource
from dyn.ir.data_dependent import bound_dim, mentions
from dyn.shapes import Dim, Facts, Symbol, dim_max, format_dim, free_symbols, value_conditions
from dyn.trace import control
from dyn.trace.context import Trace
from dyn.trace.data_dependent import is_bound
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

ASKS_FOR_OTHERS = True


@takes_call("While", "StatelessWhile", attrs=["cond", "body"])
def while_(call: NodeCall) -> Any:
    loop = _Loop(call)
    while True:
        try:
            return loop.run()
        except _Grows:
            continue


class _Grows(Exception):  # nobody but the rule sees it
    """Ends the trace of a loop of which an array of the state is found to grow."""


@dataclass(frozen=True, slots=True)
class _Growth:
    """The size of an axis after a step: ``size``, or ``added`` more than before, if either is known around the loop."""

    size: Dim | None = None
    added: Dim | None = None

    def most(self, start: Dim, steps: Dim | None, facts: Facts) -> Dim | None:
        """The greatest size in a loop of at most so many ``steps``; None where running it says that."""
        if self.size is not None:
            return dim_max(start, self.size)
        if self.added is None:
            return None
        if facts.ge(0, self.added).proved:
            return start
        return None if steps is None else start + steps * dim_max(self.added, 0)


class _Loop:
    """A loop of a graph, which is traced for what its values are carried as."""

    def __init__(self, call: NodeCall) -> None:
        self.call, self.evaluation, self.trace = call, call.evaluation, call.trace
        self.condition, self.body = (self.evaluation.library[call.attr(name)] for name in ("cond", "body"))
        kept = [self.body.source(self.body.outputs[n]) == (name, 0) for n, name in enumerate(self.body.arguments)]
        #: Of each value, whether it is the same in all steps.
        self.same = [one or isinstance(value, Resource) for one, value in zip(kept, call.inputs, strict=True)]
        # What no step changes is one array in all of them, where it can be: rows would be joined wherever one is read.
        self.inputs = [
            _as_one_array(value) if one else value for value, one in zip(call.inputs, self.same, strict=True)
        ]
        #: The axes along which arrays grow; None of those that were not looked at.
        self.growths: dict[int, dict[int, _Growth | None]] = {}

    def run(self) -> list[Any]:
        """The values after the last step."""
        starts = list(self.inputs)
        counted: dict[int, Any] = {}
        for number, value in enumerate(self.inputs):
            if self.same[number]:
                continue
            if isinstance(value, TensorList | NestedList):
                even = value.stacked() if isinstance(value, TensorList) and value.rows is not None else value
                found = with_room(self.call, self.condition, self.body, number, even)
                starts[number] = even if found is None else found
                if found is None:
                    counted[number] = _counted_list(even)
            elif number in self.growths:
                rooms = self._rooms(number)
                array = data(self.trace, value)
                if rooms is None:
                    counted[number] = CountedArray.of(array, tuple(self.growths[number]))
                else:
                    starts[number] = PaddedArray.of(array, rooms)
        if counted:
            self._give_room(starts, counted)
        made = self._traced(starts)
        return [self._result(number, value) for number, value in enumerate(made)]

    def _result(self, number: int, value: Any) -> Any:
        if self.same[number]:
            return self.call.inputs[number]
        if isinstance(value, PaddedArray):
            return value.array()
        given = self.call.inputs[number]
        if isinstance(value, TensorList) and isinstance(given, TensorList):
            return replace(value, has_room=given.has_room)  # it is for what this loop writes
        return value

    # What grows

    def _rooms(self, number: int) -> dict[int, Any] | None:
        """The room along each axis that an array needs; None where it follows from running the loop."""
        found = steps_of(self.call, self.condition, self.body)
        steps = None if found is None else found.most
        array, rooms = data(self.trace, self.inputs[number]), dict[int, Any]()
        for axis, growth in self.growths[number].items():
            most = None if growth is None else growth.most(array.dims[axis], steps, self.trace.facts)
            if most is None:
                return None
            rooms[axis] = wrap_dim(self.trace, most)
        return rooms

    def _note_growth(self, number: int, before: Tracer, after: Tracer) -> bool:
        """Note how axes of an array grow that was not looked at before; whether there are such."""
        growths, found = self.growths[number], False
        for axis, growth in growths.items():
            if growth is None:
                facts = after._trace.here.facts
                size = facts.simplify(after.dims[axis])
                added = 0 if facts.ge(before.dims[axis], size).proved else facts.simplify(size - before.dims[axis])
                is_fixed, is_sum = is_bound(self.trace, size), is_bound(self.trace, added)
                growths[axis] = _Growth(size if is_fixed else None, added if is_sum and not is_fixed else None)
                found = True
        return found

    def _give_room(self, starts: list[Any], counted: dict[int, Any]) -> None:
        """Run the loop for sizes alone, and give the values that are ``counted`` room for as much as there was."""
        given = [counted.get(number, value) for number, value in enumerate(starts)]
        made = self._traced(given, counts=True)
        for number, value in enumerate(made):
            if isinstance(value, CountedList):
                starts[number] = roomy(self.call, starts[number], lax.as_dim(value.most, name="length"))
            elif isinstance(value, CountedArray):
                rooms = {axis: lax.as_dim(most, name="room") for axis, most in value.most.items()}
                starts[number] = PaddedArray.of(data(self.trace, starts[number]), rooms)

    # Tracing

    def _traced(self, given: Sequence[Any], *, counts: bool = False) -> list[Any]:
        """The values after the last step, of values carried as they are given; variables are assigned.

        Where it ``counts``, nothing is assigned, and only values that are counted mean something.
        """
        carried = CarriedResults()
        return retried(lambda: self._emitted(carried, given, counts=counts))

    def _emitted(self, carried: CarriedResults, given: Sequence[Any], *, counts: bool) -> list[Any]:
        evaluation, trace, same = self.evaluation, self.trace, self.same
        starts = [value for value, is_same in zip(carried.filled(given), same, strict=True) if not is_same]
        leaves = [leaf for value in starts for leaf in leaves_of(trace, value)]
        count = len(leaves)
        leaves += [data(trace, evaluation.state.get(key)) for key in carried.keys]
        numbers = [number for number, is_same in enumerate(same) if not is_same]

        def values(leaves: Sequence[Tracer]) -> list[Any]:
            return rebuilt(starts, leaves[:count])

        def arguments(changing: Sequence[Any]) -> list[Any]:
            found = list(self.inputs)
            for number, value in zip(numbers, changing, strict=True):
                found[number] = value.array() if isinstance(value, PaddedArray | CountedArray) else value
            return found

        def state(leaves: Sequence[Tracer]) -> EffectState:
            return EffectState(dict(zip(carried.keys, leaves[count:], strict=True)), outer=evaluation.state)

        def continues(leaves: Sequence[Tracer]) -> Any:
            inner = evaluation.within(state(leaves), alone=counts)
            changing = values(leaves)
            own = arguments(changing)
            made = dnp.reshape(data(inner.trace, inner.run(self.condition, own)[0]), ())
            _check_reads_no_elements(inner.trace, [own[n] for n in self._unread(numbers, changing)], [made])
            return made

        def step(leaves: Sequence[Tracer]) -> list[Tracer]:
            inner = evaluation.within(state(leaves), alone=counts)
            changing = values(leaves)
            own = arguments(changing)
            results = [_as_carried(value) for value in inner.run(self.body, own)]
            carried.note_lists(trace, own, results)
            carried.note(inner.state)
            kept = self._carried_on(inner.trace, numbers, changing, own, results)
            made = [leaf for value in kept for leaf in leaves_of(inner.trace, value)]
            made += [data(inner.trace, inner.state.get(key)) for key in carried.keys]
            _check_reads_no_elements(inner.trace, [own[n] for n in self._unread(numbers, changing)], made)
            return made

        made = control.while_loop(trace, continues, step, leaves)
        if not counts:
            for key, value in zip(carried.keys, made[count:], strict=True):
                evaluation.state.set(key, value)
        changed = iter(rebuilt(starts, made[:count]))
        return [value if is_same else next(changed) for value, is_same in zip(self.inputs, same, strict=True)]

    def _unread(self, numbers: Sequence[int], changing: Sequence[Any]) -> list[int]:
        """The numbers of arrays of which the loop has sizes alone."""
        return [n for n, value in zip(numbers, changing, strict=True) if isinstance(value, CountedArray)]

    def _carried_on(
        self, inner: Trace, numbers: Sequence[int], changing: Sequence[Any], own: Sequence[Any], results: Sequence[Any]
    ) -> list[Any]:
        """Results of a step as its values are carried. Raises _Grows for an array that grows along another axis."""
        kept: list[Any] = []
        is_new = False
        for number, before in zip(numbers, changing, strict=True):
            after = results[number]
            if isinstance(before, PaddedArray | CountedArray):
                after = data(inner, after)
                is_new |= self._note_sizes(inner, number, own[number], after, tuple(before.sizes))
                is_new |= isinstance(before, CountedArray) and self._note_growth(number, own[number], after)
                kept.append(before if is_new else before.with_array(after))
                continue
            if isinstance(before, COMPOSITES):
                for old, new in zip(leaves_of(inner, before), leaves_of(inner, after), strict=False):
                    _check_sizes_stay(inner, self.trace, old.dims, new.dims)
            else:
                is_new |= self._note_sizes(inner, number, before, data(inner, after))
            kept.append(after)
        if is_new:
            raise _Grows
        return kept

    def _note_sizes(
        self, inner: Trace, number: int, before: Tracer, after: Tracer, but_for: Sequence[int] = ()
    ) -> bool:
        """Note the axes of an array that are of another size after a step; whether there are new ones."""
        if len(before.dims) != len(after.dims):
            raise UnsupportedOpError(
                f"a loop whose state has {len(before.dims)} axes, and {len(after.dims)} after a step."
            )
        pairs = enumerate(zip(before.dims, after.dims, strict=True))
        found = [axis for axis, (a, b) in pairs if axis not in but_for and not _stays(inner, self.trace, a, b)]
        for axis in found:
            self.growths.setdefault(number, {})[axis] = None
        return bool(found)


def _counted_list(value: TensorList | NestedList) -> CountedList:
    return CountedList.of(value.count if isinstance(value, NestedList) else value.counted().count)


def _as_one_array(value: Any) -> Any:
    """A list as one array, where its rows are proved to have one shape; anything else as it is."""
    is_even = isinstance(value, TensorList) and bool(value.leaves()) and value.rows is not None and value.is_even
    return value.stacked() if is_even else value


def _as_carried(value: Any) -> Any:
    """A value of a step as the next step has it: a list that a known place of was written to, as one array."""
    return value.stacked() if isinstance(value, TensorList) and value.rows is not None else value


def _check_sizes_stay(trace: Trace, around: Trace, before: Sequence[Dim], after: Sequence[Dim]) -> None:
    """Raise UnsupportedOpError where a step of a loop gives a list with elements of other sizes than those before."""
    for axis, (old, new) in enumerate(zip(before, after, strict=False)):
        if len(before) != len(after) or not _stays(trace, around, old, new):
            raise UnsupportedOpError(
                f"a loop that changes the size of axis {axis} of its state from {format_dim(old)} to "
                f"{format_dim(new)}.",
                remedy="collect what it makes in a tf.TensorArray.",
            )


def _stays(trace: Trace, around: Trace, old: Dim, new: Dim) -> bool:
    """Return True if a size after a step is the one before: guarded for sizes of several arguments that are one size in
    this call."""
    same = trace.facts.eq(old, new)
    if same.proved:
        return True
    if same.refuted or not is_bound(around, new) or isinstance(old, int):
        return False
    if free_symbols(old) & free_symbols(new) and not value_conditions(new):
        return False  # it grows, if not in this call; what is broadcast has one size or another
    is_equal = conditions.equal(old, new)
    try:
        return conditions.decide(is_equal, around)
    except (UndecidedDimError, ShapeError):
        return True  # which the loop demands


def _check_reads_no_elements(trace: Trace, arrays: Sequence[Tracer], made: Sequence[Tracer]) -> None:
    """Raise UnsupportedOpError where elements of arrays of which a loop has the sizes alone lead to what it makes."""
    values = {array._value for array in arrays}
    sizes: set[Symbol] = set()
    for op in trace.builder.ops if values else ():
        if any(value in values for value in op.operands) or mentions(op) & sizes:
            values.update(op.results)
            found = bound_dim(op)
            sizes |= {found} if found is not None else set()
    if any(one._value in values for one in made):
        raise UnsupportedOpError(
            "a loop whose state grows, by as much as its own elements say.",
            remedy="give tf.while_loop maximum_iterations, or a tf.range to go over.",
        )
