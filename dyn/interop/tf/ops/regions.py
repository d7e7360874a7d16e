"""Regions of a program, branches and bodies of loops: what they are given and give beside data.

A region gives data alone. What is known beforehand and stays what it is in a loop, sizes and variables above all, is
known inside, too. Variables that a region assigns are carried along with the rest; which they are, and of what shape
lists are that it fills, is found by tracing it: it is traced again until nothing new turns up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dyn.errors import UnsupportedOpError
from dyn.interop.sizes.values import data, is_same
from dyn.interop.tf.evaluation import EffectState
from dyn.interop.tf.lists import LeafType, NestedList, TensorList, leaf_types
from dyn.interop.tf.loop_values import CountedArray, CountedList, PaddedArray
from dyn.interop.tf.optionals import Optional, joined
from dyn.shapes import Dim, format_dim
from dyn.trace.context import Trace
from dyn.trace.data_dependent import is_bound
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the graph that is read.
CALLS_USERS = True
ASKS_FOR_OTHERS = True

T = TypeVar("T")

#: Values that are made of several arrays, or of none.
COMPOSITES = (TensorList, NestedList, Optional, CountedList, CountedArray, PaddedArray)


class RetraceRegion(Exception):
    """Ends the trace of a region that has to be given more than it was."""


@dataclass
class CarriedResults:
    """Results of regions beside the values of their outputs: variables that they assign, and shapes of lists."""

    keys: list[Any] = field(default_factory=list[Any])
    #: Of each output what branches give, by their numbers.
    optionals: dict[int, dict[int, Optional]] = field(default_factory=dict[int, dict[int, Optional]])
    shapes: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]])
    items: dict[int, Any] = field(default_factory=dict[int, Any])
    #: Elements of lists of lists, with the types of their data.
    likes: dict[int, tuple[Any, list[LeafType]]] = field(default_factory=dict[int, tuple[Any, list[LeafType]]])
    #: The lists of which the program counts the elements.
    counted: set[int] = field(default_factory=set[int])
    #: Of each output that is a list, to which of its places branches have written, by their numbers.
    written: dict[int, dict[int, Any]] = field(default_factory=dict[int, dict[int, Any]])

    def note(self, state: EffectState) -> None:
        """Have the variables carried that were assigned. Raises RetraceRegion for new ones."""
        new = [key for key in state.written if key not in self.keys]
        if new:
            self.keys += sorted(new, key=repr)
            raise RetraceRegion

    def note_lists(self, around: Trace, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Have lists filled with zeros of the shape that is written to them, or with the item that is.

        Raises RetraceRegion for new ones.
        """
        found = [self._note_list(around, *one) for one in enumerate(zip(given, made, strict=True))]
        if any(found):
            raise RetraceRegion

    def _note_list(self, around: Trace, number: int, pair: tuple[Any, Any]) -> bool:
        before, after = pair
        if isinstance(before, NestedList) and isinstance(after, NestedList):
            if after.like is None or len(before.columns) == len(after.columns) > 0 or not after.like.leaves():
                return False
            for leaf in after.like.leaves():
                _check_are_known_around(around, leaf.dims)
            self.likes[number] = after.like, leaf_types(after.like)
            return True
        if not isinstance(before, TensorList) or not isinstance(after, TensorList):
            return False
        if before.count is None and after.count is not None:
            self.counted.add(number)
            return True
        if before.elements is not None:
            return False
        if after.elements is not None:
            _check_are_known_around(around, after.elements.dims[1:])
            self.shapes[number] = tuple(after.elements.shape[1:])
            return True
        if after.item is not before.item and (before.item is None or not is_same(after.item, before.item)):
            self.items[number] = after.item
            return True
        return False

    def note_branch_lists(self, around: Trace, branch: int, made: Sequence[Any]) -> list[Any]:
        """The results of a branch, with lists that another branch fills filled with zeros here, and rows as one array
        where other branches have other ones.

        Raises RetraceRegion for what is new.
        """
        found = False
        for number, value in enumerate(made):
            if isinstance(value, TensorList):
                if value.count is not None and number not in self.counted:
                    self.counted.add(number)
                    found = True
                seen = self.written.setdefault(number, {})
                own = None if value.rows is None else tuple([row is None for row in value.rows])
                found |= branch not in seen and any(own != one for one in seen.values())
                seen.setdefault(branch, own)
        results = self.filled([self._one_array(number, value) for number, value in enumerate(made)])
        for number, value in enumerate(results):
            if number not in self.shapes and isinstance(value, TensorList) and value.elements is not None:
                if all(is_bound(around, dim) for dim in value.elements.dims[1:]):
                    self.shapes[number] = tuple(value.elements.shape[1:])
                    found = True
            if number not in self.likes and isinstance(value, NestedList) and value.like is not None:
                if all(is_bound(around, dim) for leaf in value.like.leaves() for dim in leaf.dims):
                    self.likes[number] = value.like, leaf_types(value.like)
                    found = True
        if found:
            raise RetraceRegion
        return results

    def _one_array(self, number: int, value: Any) -> Any:
        if not isinstance(value, TensorList) or value.rows is None:
            return value
        is_other = number in self.shapes or len(set(self.written[number].values())) > 1
        return value.stacked() if is_other else value

    def note_optionals(self, trace: Trace, branch: int, made: Sequence[Any]) -> list[Any]:
        """The results of a branch, with zeros for what only another branch has: it is taken where that has run.

        Raises RetraceRegion for what is new.
        """
        optionals = {n: value for n, value in enumerate(made) if isinstance(value, Optional)}
        found = False
        for number, value in optionals.items():
            given = self.optionals.setdefault(number, {})
            if value.ways and branch not in given:
                given[branch] = value
                found = True
        if found:
            raise RetraceRegion
        return [
            joined(value, branch, self.optionals[n], trace) if n in optionals else value for n, value in enumerate(made)
        ]

    def filled(self, values: Sequence[Any]) -> list[Any]:
        """Values with the elements that lists of theirs turned out to have."""
        return [self._filled(number, value) for number, value in enumerate(values)]

    def _filled(self, number: int, value: Any) -> Any:
        if isinstance(value, NestedList) and number in self.likes:
            return value.of(*self.likes[number])
        if not isinstance(value, TensorList):
            return value
        if number in self.counted:
            value = value.counted()
        if number in self.shapes:
            return value.of(self.shapes[number])
        is_blank = number in self.items and value.item is None
        return replace(value, item=self.items[number]) if is_blank else value


def leaves_of(trace: Trace, value: Any) -> list[Tracer]:
    """A value as data, for a region."""
    return value.leaves() if isinstance(value, COMPOSITES) else [data(trace, value)]


def rebuilt(like: Sequence[Any], leaves: Sequence[Tracer]) -> list[Any]:
    """Values such as these, of this data."""
    made: list[Any] = []
    start = 0
    for value in like:
        is_several = isinstance(value, COMPOSITES)
        count = len(value.leaves()) if is_several else 1
        own = leaves[start : start + count]
        made.append(value.with_leaves(own) if is_several else own[0])
        start += count
    return made


def retried(run: Callable[[], T]) -> T:
    """The result of ``run``, once no region of it asks to be given more."""
    while True:
        try:
            return run()
        except RetraceRegion:
            continue


def _check_are_known_around(around: Trace, dims: Sequence[Dim]) -> None:
    """Raise UnsupportedOpError for a list that a loop fills with tensors whose sizes are found out in a step."""
    for dim in dims:
        if not is_bound(around, dim):
            raise UnsupportedOpError(
                f"a list that a loop fills with tensors of the size {format_dim(dim)}, which each step finds out.",
                remedy="write rows of one size, padded, and their lengths to a list beside.",
            )
