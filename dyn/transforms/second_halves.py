"""Second halves of derivatives outside of traces: programs of what a first one kept, and of cotangents or tangents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from dyn.api import Jitted, jit
from dyn.fork_safety import lock
from dyn.ir.core import Region, region_key
from dyn.ir.external import callees
from dyn.trace.context import Trace, current_trace
from dyn.trace.gradients import Leaves, require_tree
from dyn.trace.gradients import linearize as linearize_in
from dyn.trace.pytree import flatten, list_tree, register_node, unflatten
from dyn.trace.split_linearization import Half, declared_axes, split_derivative, write_second_half
from dyn.trace.tracer import active_trace
from dyn.transforms.transformed import Function, Transformed, positions

#: So many programs of second halves are remembered, the latest used.
MOST_HALVES = 256


class SecondHalf:
    """The second half of a derivative, and its program, which is found by what the half computes."""

    def __init__(self, half: Half) -> None:
        self.half = half
        self._programs: dict[frozenset[int], Jitted] = {}

    @property
    def program(self) -> Jitted:
        """Program of the second half: of residuals and the leaves of a tree, it gives the leaves of another tree."""
        return self.program_without(frozenset())

    def program_without(self, zero: frozenset[int]) -> Jitted:
        """The program for a tree of which leaves with these numbers are zeros, which are not passed."""
        found = self._programs.get(zero)
        if found is None:
            found = self._programs[zero] = _HALVES.program(self.half, zero)
        return found


class _Halves:
    """Programs of second halves, by what these compute and at which lines: a function that is differentiated again
    has equal ones. They know the leaves of trees alone, as nodes may hold anything."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[Hashable, Jitted] = OrderedDict()

    def program(self, half: Half, zero: frozenset[int]) -> Jitted:
        """The program of a half, of which some leaves are zeros."""
        region = half.region
        if callees(region.ops):  # whose functions may hold anything, too
            return _program_of(half, zero)
        types = half.residuals, tuple([v.type for v in half.given.values])
        key = half.name, half.what, zero, types, tuple(half.given.names()), region_key(region, {}), _locs(region)
        with self._lock:
            found = self._known.pop(key, None)
            if found is None:
                found = _program_of(half, zero)
            self._known[key] = found
            if len(self._known) > MOST_HALVES:
                self._known.popitem(last=False)
        return found


_HALVES = _Halves()


def _locs(region: Region) -> tuple[Any, ...]:
    return tuple([(op.loc, *[_locs(inner) for inner in op.regions]) for op in region.ops])


def _program_of(half: Half, zero: frozenset[int]) -> Jitted:
    values = half.given.values
    given = Leaves(values, flatten((0,) * len(values))[1], tuple(half.given.names()))
    flat = replace(half, given=given, out_tree=list_tree(half.out_tree.num_leaves))

    def program(residuals: Sequence[Any], tree: tuple[Any, ...]) -> Any:
        trace = current_trace()
        assert trace is not None, "programs are traced"
        return write_second_half(trace, flat, residuals, tree, zero)

    program.__name__ = "pull" if half.what == "cotangent" else "push"
    made = jit(program, shapes=(declared_axes(half.residuals), None))
    made.warns_of_many = False  # it is no function of a user's
    return made


class _BoundSecondHalf:
    """Second half of a linearized call, with the residuals: arrays that its first program kept for it."""

    def __init__(self, second: SecondHalf, residuals: Sequence[Any]) -> None:
        self.second, self.residuals = second, tuple(residuals)

    def __call__(self, tree: Any) -> Any:
        """The second half, of a tree of cotangents or tangents."""
        leaves, spec = flatten(tree)
        half = self.second.half
        trace = active_trace(*self.residuals, *leaves)
        if trace is not None:
            return write_second_half(trace, half, self.residuals, tree)
        require_tree(spec, half.given.tree, half.what, half.name)
        return unflatten(half.out_tree, self.second.program(self.residuals, tuple(leaves)))


register_node(_BoundSecondHalf, lambda kept: (kept.residuals, kept.second), _BoundSecondHalf)


def first_half(kind: str, fun: Function, name: str, has_aux: bool, *, forward: bool) -> Transformed:
    """The function as a program of its own, which gives its result, what it kept, and what else it returned."""

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = linearize_in(trace, fun, args, positions(len(args)), name, has_aux=has_aux)
        residuals, half = split_derivative(trace, found, forward=forward)
        return found.result(), _BoundSecondHalf(SecondHalf(half), residuals), found.aux

    return Transformed(kind, fun, inside)
