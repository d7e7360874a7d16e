"""Axes of loop nests: fusing those that run over memory in one stride, cutting them, and loops around code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from dyn.frozen import record
from dyn.schedule.kernel import Bindings, Carry, Fold, Loop, Ref, Role, Stmt
from dyn.schedule.kernel_walks import symbols_of_extent
from dyn.schedule.order import Order
from dyn.shapes import (
    Atom,
    Dim,
    Opaque,
    OpaqueKind,
    Symbol,
    SymExpr,
    as_dim,
    dim_min,
    floordiv,
    free_symbols,
    linear_in,
    mod,
    product,
    substitute,
)
from dyn.shapes import symbol as new_symbol
from dyn.shapes.walk import replace_deeply


class AxisKind(Enum):
    """Dependence of an axis's iterations on one another."""

    #: Nothing: any order, all at once.
    PARALLEL = "parallel"
    #: Folded by monoids.
    REDUCE = "reduce"
    #: Folded in order, or writing places that may meet: never cut and never reordered.
    FOLD = "fold"
    #: Writing places of its own in each iteration of the axes outside of it, which it may not leave.
    DISTINCT = "distinct"
    #: Carried from one to the next, each with an element of its own.
    SCAN = "scan"
    #: Summed as products of two operands' elements.
    CONTRACTED = "contracted"


@record()
class Axis:
    """A loop to be: its variable, its extent, and its kind."""

    var: Symbol
    extent: Dim
    kind: AxisKind = AxisKind.PARALLEL
    #: The symbols of the extent that stand for values which the nest computes: rows of different lengths, read from an
    #: array. Such an axis is a stage's own, and is never fused with another.
    bound: Bindings = ()

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def symbols(self) -> frozenset[Symbol]:
        """Symbols that the extent depends on, through computed values too."""
        return symbols_of_extent(self.extent, self.bound)


def axis(name: str, extent: Dim, kind: AxisKind = AxisKind.PARALLEL, bound: Bindings = ()) -> Axis:
    return Axis(new_symbol(name, "a loop variable"), extent, kind, bound)


def index_of(axes: Sequence[Axis | None]) -> tuple[Dim, ...]:
    """The index that some axes make; an axis of size 1 is None and its index 0."""
    return tuple(0 if a is None else as_dim(a.var) for a in axes)


def linearize(index: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    """The offset of an element of a dense row-major array, in elements."""
    offset: Dim = 0
    stride: Dim = 1
    for i, size in zip(reversed(index), reversed(shape), strict=True):
        offset = offset + i * stride
        stride = stride * size
    return offset


def collapse(axes: list[Axis], dims: Sequence[Dim]) -> tuple[list[Axis], dict[Symbol, Dim]]:
    """Merge neighbouring axes of one kind wherever every index moves through both in one stride.

    Gives the axes that are left and what to substitute for the old variables. Two axes (i over I, j over J) are one
    when in each index the coefficient of i is J times that of j: then i*J + j is all that counts.
    """
    axes = list(axes)
    dims = list(dict.fromkeys(dims))
    replaced: dict[Symbol, Dim] = {}
    position = len(axes) - 2
    while position >= 0:
        outer, inner = axes[position], axes[position + 1]
        if (
            outer.kind is inner.kind
            and not (outer.bound or inner.bound)
            and all(_one_stride(dim, outer, inner) for dim in dims)
        ):
            merged = axis(f"{outer.name}{inner.name}", outer.extent * inner.extent, inner.kind)
            change: dict[Symbol, Dim] = {outer.var: 0, inner.var: as_dim(merged.var)}
            replaced = {s: substitute(d, change) for s, d in replaced.items()} | change
            dims = list(dict.fromkeys(substitute(d, change) for d in dims))
            axes[position : position + 2] = [merged]
        position -= 1
    return axes, replaced


def _one_stride(dim: Dim, outer: Axis, inner: Axis) -> bool:
    if isinstance(dim, int):
        return True
    symbols = free_symbols(dim)
    if outer.var not in symbols and inner.var not in symbols:
        return True
    first, second = linear_in(dim, outer.var), linear_in(dim, inner.var)
    if first is None or second is None:  # a quotient of both, as places in panels are
        alone = substitute(dim, {outer.var: 0})
        return dim == substitute(alone, {inner.var: as_dim(outer.var) * inner.extent + as_dim(inner.var)})
    if inner.var in free_symbols(first[0]):
        return False
    return first[0] == second[0] * inner.extent


def nest(
    axes: Sequence[Axis], roles: Sequence[Role], body: tuple[Stmt, ...], width: int = 0, count: Symbol | None = None
) -> tuple[Stmt, ...]:
    """Perfectly nested loops without folds; teams have ``width`` lanes, and the innermost loop takes ``count``
    iterations at once."""
    for a, role in zip(reversed(axes), reversed(roles), strict=True):
        body = (Loop(role, a.var, a.extent, body, width=width if role is Role.TEAM else 0, count=count),)
        count = None
    return body


def fold_nest(
    axes: Sequence[Axis],
    inner: Role,
    body: tuple[Stmt, ...],
    folds: tuple[Fold, ...],
    carries: tuple[Carry, ...] = (),
    outer: Role = Role.SERIAL,
    width: int = 0,
    order: Order | None = None,
    chained: bool = False,
) -> tuple[Stmt, ...]:
    """Nested loops, each passing the folds outwards: of several the innermost in role ``inner``, the outermost in role
    ``outer`` (teams of ``width`` lanes), and the others serial.

    Lanes fold in ``order``; so does an innermost serial loop that is ``chained``.

    The refs of ``folds`` hold the whole reductions after the loops. What is carried goes through all loops in the order
    of the iterations: ``init`` is where the first one starts, and ``ref`` holds what the last one leaves.
    """
    for depth, a in enumerate(reversed(axes)):
        outermost = depth == len(axes) - 1
        own, own_carries = folds, carries
        if not outermost:  # a loop starts from what the loop around it was handed, and hands back what it is left with
            own = tuple(Fold(tuple(map(_like, f.refs)), f.monoid, f.values, f.block) for f in folds)
            own_carries = tuple(Carry(_like(c.ref), c.state, _like(c.state), c.value) for c in carries)
        role = inner if depth == 0 else outer if outermost else Role.SERIAL
        in_order = order if folds and (role is Role.LANE or (chained and depth == 0)) else None
        lanes = width if role is Role.TEAM else 0
        body = (Loop(role, a.var, a.extent, body, own, own_carries, lanes, in_order, a.bound),)
        if not outermost:
            folds = tuple(Fold(f.refs, f.monoid, o.refs) for f, o in zip(folds, own, strict=True))
            carries = tuple(
                Carry(c.ref, state, c.init, o.ref)
                for c, o in zip(carries, own_carries, strict=True)
                if isinstance(state := o.init, Ref)
            )
    return body


def _like(ref: Ref) -> Ref:
    return Ref(ref.name, ref.dtype)


def flatten(axes: Sequence[Axis]) -> tuple[list[Axis], dict[Symbol, Dim]]:
    """Axes of one kind as one, by division: for what does not lie in one stride and must be a single loop all the
    same."""
    extent = product(a.extent for a in axes)
    whole = axis("".join(a.name for a in axes), extent, axes[0].kind)
    rest: Dim = as_dim(whole.var)
    change: dict[Symbol, Dim] = {}
    for position, a in reversed(list(enumerate(axes))):
        size = 1 if a.extent == 0 else a.extent  # a loop of no steps, where no index is asked for
        change[a.var] = rest if position == 0 else mod(rest, size)
        rest = floordiv(rest, size)
    return [whole], change


def onto(whole: Axis, axes: Sequence[Axis]) -> Callable[[Dim], Dim]:
    """Index expressions over several axes as ones over the whole: exactly where one stride runs through all, by
    division otherwise."""
    (flat,), by_division = flatten(axes)
    by_division = {s: substitute(d, {flat.var: as_dim(whole.var)}) for s, d in by_division.items()}

    def change(dim: Dim) -> Dim:
        left, merged = collapse(list(axes), [dim])
        if len(left) > 1:
            return substitute(dim, by_division)
        return substitute(substitute(dim, merged), {left[0].var: as_dim(whole.var)})

    return change


def split(a: Axis, chunk: Dim, name: str = "c") -> tuple[Axis, Axis, dict[Symbol, Dim]]:
    """An axis as chunks and what lies in one: the outer axis, the inner axis, and what the variable becomes."""
    if isinstance(a.extent, int) and isinstance(chunk, int) and a.extent <= chunk:
        outer = axis(name, 1, a.kind)
        inner = axis(a.name, a.extent, a.kind)
    else:
        # Host programs compute it for extents near 2^63 too, those of empty arrays, to which no chunk can be added.
        outer = axis(name, floordiv(a.extent - 1, chunk) + 1, a.kind, a.bound)
        inner = axis(a.name, dim_min(chunk, a.extent - as_dim(outer.var) * chunk), a.kind, a.bound)
    return outer, inner, {a.var: as_dim(outer.var) * chunk + as_dim(inner.var)}


def chunks(extent: Dim, chunk: Dim) -> Dim:
    """The number of chunks of an extent: of the least of several the least of theirs, of which some may be known."""
    atom = None if isinstance(extent, int) else extent.is_atom
    if isinstance(atom, Opaque) and atom.kind is OpaqueKind.MIN:
        return dim_min(*[chunks(arg, chunk) for arg in atom.args])
    return floordiv(extent - 1, chunk) + 1


def quotient_by(atom: Atom, var: Symbol) -> int | None:
    """The number that a variable is divided by, where an atom is such a quotient; None where it is anything else."""
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.FLOORDIV or atom.args[0] != as_dim(var):
        return None
    size = atom.args[1]
    return size if isinstance(size, int) else None


def confined(dim: Dim, var: Symbol, size: int) -> Dim:
    """An index expression where a variable is at least 0 and less than ``size``: quotients of it are 0, and it is its
    own remainder."""
    if isinstance(dim, int) or var not in dim.symbols:
        return dim
    whole = as_dim(var)
    known: dict[Atom, Dim] = {}
    for quotient, value in ((floordiv(whole, size), 0), (mod(whole, size), whole)):  # of 1 they are no atoms
        atom = quotient.is_atom if isinstance(quotient, SymExpr) else None
        if isinstance(atom, Opaque):
            known[atom] = value
    return replace_deeply(dim, {var}, known.get)


def composed(first: Mapping[Symbol, Dim], then: Mapping[Symbol, Dim]) -> dict[Symbol, Dim]:
    """One substitution after another, as one."""
    return {s: substitute(d, then) for s, d in first.items()} | dict(then)
