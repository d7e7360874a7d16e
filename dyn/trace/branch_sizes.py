"""Sizes of the results of branches, where they are not the same in all: measured before the branches are chosen from.

A branch may find a size out inside, as that of ``x[x > 0]``, or give other sizes than another branch does. The result
of the choice then has a size that depends on data: a first choice, by the same index, gives the sizes as numbers, and
the choice itself is given them as dims. Of a branch that finds its sizes out the first choice has what leads to them,
which is computed again in the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.ir.builder import Builder
from dyn.ir.core import Region, Value
from dyn.ir.data_dependent import bound_dim
from dyn.ir.effects import without_effects
from dyn.ir.inline_regions import build_region, splice, splice_over
from dyn.lazy_property import lazy_property
from dyn.shapes import (
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Relation,
    Symbol,
    SymExpr,
    as_dim,
    format_dim,
    free_symbols,
    substitute,
)
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value

#: The emission of a choice between regions.
Choose = Callable[[Sequence[Region]], Sequence[Value]]
Sizes = tuple[Dim, ...]


class Unequal(Enum):
    """The meaning of sizes that branches give and that are not proved to be equal."""

    #: Sizes of different dims have to be equal: each branch demands it. Numbers, and sizes of one dim (``n`` and
    #: ``2*n``), are measured, as those are that a branch finds out inside.
    DEMANDED = auto()
    #: They may differ: the result has the size of the branch that runs.
    MEASURED = auto()
    #: A ShapeError.
    REFUSED = auto()


class _Branch:
    """A branch with the dims that it finds out."""

    def __init__(self, trace: Trace, region: Region, known: Sequence[Relation]) -> None:
        self.trace, self.region, self.known = trace, region, known
        self.bound = frozenset([s for op in region.ops if (s := bound_dim(op)) is not None])

    @lazy_property
    def facts(self) -> Facts:
        """The facts inside, and what is known where it is chosen."""
        inner = self.trace.builder.inner()
        inner.adopt(self.region.demands)
        facts = inner.facts
        for relation in self.known:
            if not facts.ask(relation).refuted:
                facts = facts.assume(relation)
        return facts

    def proves(self, size: Dim, common: Dim) -> bool:
        return size is common or self.facts.eq(size, common).proved


def common_shapes(
    trace: Trace, regions: Sequence[Region], known: Sequence[Sequence[Relation]], names: Sequence[str], what: str,
    unequal: Unequal, choose: Choose,
) -> tuple[list[Region], list[Sizes]]:  # fmt: skip
    """The regions, and a shape for each result of theirs that is known around them.

    ``known`` has for each region, if for any, what is known to hold where it is chosen. ``names`` are those of the
    results, and ``what`` is the choice's, in errors. Results whose number of axes differs keep one of their shapes.
    """
    own = known or [()] * len(regions)
    branches = [_Branch(trace, region, here) for region, here in zip(regions, own, strict=True)]
    columns = list(zip(*[region.results for region in regions], strict=True))
    measured: dict[Sizes, tuple[str, int]] = {}
    found: list[tuple[Dim | Sizes, ...]] = []
    for name, column in zip(names, columns, strict=True):
        if any(v.type.rank != column[0].type.rank for v in column):
            found.append(next((v for v in column if not v.type.weak), column[0]).shape)
            continue
        shape: list[Dim | Sizes] = []
        for axis in range(column[0].type.rank):
            sizes = tuple([v.shape[axis] for v in column])
            common = _common(branches, sizes, unequal)
            if common is None:
                if unequal is Unequal.REFUSED:
                    raise _refusal(what, name, axis, sizes)
                measured.setdefault(sizes, (name, axis))
            shape.append(sizes if common is None else common)
        found.append(tuple(shape))
    if not measured:
        return list(regions), [tuple([_dim(one, {}) for one in shape]) for shape in found]
    numbers = choose([_numbers(trace, branch, [sizes[n] for sizes in measured]) for n, branch in enumerate(branches)])
    dims: dict[Sizes, Dim] = {}
    for number, (sizes, (name, axis)) in zip(numbers, measured.items(), strict=True):
        origin = f"the size of {name} of {what} on axis {axis}"
        dims[sizes] = dim_from_value(trace, number, _name(branches, sizes), origin)
    # Behind the dims that were measured here, dims of branches are younger: they are said in terms of these.
    again = [_again(trace, branch) for branch in branches]
    return again, [tuple([_dim(one, dims) for one in shape]) for shape in found]


def _common(branches: Sequence[_Branch], sizes: Sizes, unequal: Unequal) -> Dim | None:
    """The size on an axis that all branches have, in terms known around them; None where there is none."""
    visible = [
        size for size, branch in zip(sizes, branches, strict=True) if branch.bound.isdisjoint(free_symbols(size))
    ]
    plain = sorted(dict.fromkeys(visible), key=lambda size: isinstance(size, SymExpr) and size.height > 0)
    for size in plain:
        if all(branch.proves(own, size) for branch, own in zip(branches, sizes, strict=True)):
            return size
    if unequal is not Unequal.DEMANDED or len(visible) < len(sizes):
        return None
    numbers = _captured_sizes(branches[0].trace)
    return plain[0] if _may_be_one(list(dict.fromkeys([substitute(size, numbers) for size in plain]))) else None


def _captured_sizes(trace: Trace) -> dict[Symbol, Dim]:
    """The sizes of arrays that are closed over, where these are of any size (calls outside of traces): numbers, as they
    are in a program for these arrays alone."""
    program = trace.program
    axes = [dim for value, _, _ in program.hidden for dim in value.shape]
    return {symbol: program.sizes[symbol] for dim in axes for symbol in free_symbols(dim) if symbol in program.sizes}


def _may_be_one(sizes: Sequence[Dim]) -> bool:
    """Return True if sizes can be equal without a number that a dim must be: ``n`` and ``m``, ``n`` and what it is
    broadcast to.

    To demand that ``n`` and ``2*n`` are equal would be to demand that ``n`` is 0.
    """
    return all(
        _are_apart(a, b) or a in _broadcast(b) or b in _broadcast(a) for a, b in itertools.combinations(sizes, 2)
    )


def _are_apart(a: Dim, b: Dim) -> bool:
    """Return True if sizes are of different dims, and not both numbers."""
    symbols = free_symbols(a), free_symbols(b)
    return any(symbols) and symbols[0].isdisjoint(symbols[1])


def _broadcast(size: Dim) -> Sequence[Dim]:
    """The sizes that a size is the broadcast of."""
    atom = size.is_atom if isinstance(size, SymExpr) else None
    return atom.args if isinstance(atom, Opaque) and atom.kind is OpaqueKind.BROADCAST else ()


def _numbers(trace: Trace, branch: _Branch, sizes: Sequence[Dim]) -> Region:
    """The region that gives sizes of a branch as numbers."""
    types = [v.type for v in branch.region.params]

    def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        own = dict[Symbol, Dim]()
        if any(not branch.bound.isdisjoint(free_symbols(size)) for size in sizes):
            needed = "the sizes of what a branch gives, which are found out before the branch is run"
            quiet = without_effects(replace(branch.region, results=()), by=needed)
            own.update(splice_over(inner, quiet, params, own)[1])
        return [inner.op("dim_size", size=substitute(size, own), dtype=dtypes.int64) for size in sizes]

    trace.builder.loc = user_loc()
    return build_region(trace.builder, types, build)


def _again(trace: Trace, branch: _Branch) -> Region:
    """The region with dims of its own."""
    if not branch.bound:
        return branch.region
    types = [v.type for v in branch.region.params]
    return build_region(trace.builder, types, lambda inner, params: splice(inner, branch.region, params))


def _dim(size: Dim | Sizes, measured: dict[Sizes, Dim]) -> Dim:
    return measured[size] if isinstance(size, tuple) else size


def _name(branches: Sequence[_Branch], sizes: Sizes) -> str:
    """The name of a dim that is one of several sizes: that of the one that is found out."""
    bound = [s for branch, size in zip(branches, sizes, strict=True) for s in branch.bound if size is as_dim(s)]
    return bound[0].name if bound else "size"


def _refusal(what: str, name: str, axis: int, sizes: Sizes) -> ShapeError:
    said = ", ".join(map(format_dim, dict.fromkeys(sizes)))
    return ShapeError(f"the branches of {what} give {name} with the sizes {said} on axis {axis}.", loc=user_loc())
