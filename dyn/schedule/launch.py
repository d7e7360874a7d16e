"""Launches of the host program: kernels with the conditions under which each is chosen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.data_dependent import bound_dim
from dyn.ir.external import ExternalTarget, callee_of
from dyn.ir.region_passes import unchanged
from dyn.ops.shape import is_stretch_factor
from dyn.schedule.cost import iteration_cost
from dyn.schedule.expressions import Parameters, Rewriter
from dyn.schedule.kernel import Buffer, Expr, Index, Kernel, Load, Loop, Role, Stmt, Store, TileContract, Update
from dyn.schedule.kernel_verifier import check
from dyn.schedule.kernel_walks import stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import (
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Relation,
    Symbol,
    SymExpr,
    dim_max,
    dim_min,
    evaluate,
    free_symbols,
    product,
)
from dyn.shapes.expr import all_atoms, polynomial
from dyn.shapes.inequality_text import at_least, at_most
from dyn.stitch.groups import Group, GroupKind


@record()
class Condition:
    """``low <= dim`` and, unless ``high`` is None, ``dim <= high``."""

    dim: Dim
    low: int
    high: int | None

    def describe(self) -> str:
        """The condition as people write it: ``x_0 <= 7 and x_1 > 32768``."""
        if self.high is None:
            return at_least(self.dim, self.low)
        if not isinstance(self.dim, int) and self.dim.is_atom is not None and self.low:
            return f"{self.low} <= {self.dim} <= {self.high}"
        above = at_most(self.dim, self.high)
        return f"{at_least(self.dim, self.low)} and {above}" if self.low else above

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Return True if it holds at some sizes. KeyError where one is missing, ShapeError if the dim has no value."""
        size = evaluate(self.dim, sizes)
        return self.low <= size and (self.high is None or size <= self.high)

    def indicator(self) -> Dim:
        """1 where it holds, 0 elsewhere."""
        above = self.dim - self.low + 1
        return dim_max(0, dim_min(1, above) if self.high is None else dim_min(1, above, self.high + 1 - self.dim))

    def decided(self, facts: Facts) -> bool | None:
        """True or False where the facts settle it for every shape."""
        low, high = facts.bounds(self.dim)
        if low is not None and low >= self.low and (self.high is None or (high is not None and high <= self.high)):
            return True
        if (high is not None and high < self.low) or (self.high is not None and low is not None and low > self.high):
            return False
        return None


@record()
class FoldOrder:
    """The order in which a phase folds floats: the extents of its loops, over places of the loops around; their roles;
    the order of lanes; and the scalars in each state, which tell apart what is computed."""

    extents: tuple[Dim, ...]
    roles: tuple[Role, Role, int]
    lanes: object
    states: tuple[tuple[DType, ...], ...]

    def under(self, facts: Facts) -> FoldOrder:
        """The order in sizes as some facts simplify them."""
        return self.rewritten(facts.simplify)

    def rewritten(self, change: Callable[[Dim], Dim]) -> FoldOrder:
        """The order in other sizes."""
        return replace(self, extents=tuple([change(extent) for extent in self.extents]))


@record(eq=False)
class Variant:
    """A kernel bound to a launch: host expressions for its size parameters and its grid, and when it is chosen.

    ``cost`` is about what one GRID iteration costs, in the unit of ``dyn.schedule.cost``. Nothing but speed depends on
    it. With ``in_place`` it is chosen only where the result of that number has taken the memory of a donated argument.
    """

    kernel: Kernel
    dims: tuple[Dim, ...]
    grid: Dim
    cost: Dim
    condition: Condition | None
    note: str
    in_place: int | None = None
    #: The steps that made its loops, in words.
    steps: tuple[str, ...] = ()
    #: Whether its kernel may be made after others: a call for which it is not there yet takes the next variant that
    #: holds, which computes the same to the last bit.
    deferred: bool = False
    #: For each phase that folds floats the order in which it does, to be compared with those of other launches.
    folds: tuple[FoldOrder, ...] = ()
    #: The numbers of the ``dims`` that occur in places of elements alone, where some dim is a multiple of a number.
    strides: frozenset[int] = frozenset()

    def exact_dims(self) -> tuple[Dim, ...]:
        """The dims, but strides without their numbers: where those are too large, no array has what they lead to."""
        return tuple([scaled(d)[1] if n in self.strides else d for n, d in enumerate(self.dims)])

    def when(self) -> str:
        """Condition under which it is chosen, as text: empty for always."""
        place = "" if self.in_place is None else f"result {self.in_place} has its argument's memory"
        return " and ".join(
            part for part in (place, "" if self.condition is None else self.condition.describe()) if part
        )


@record(eq=False)
class Body:
    """A region of a loop or a choice: its parameters, what it launches, and the values whose memory its results are.

    Of a loop's step, ``in_place`` are the carried values whose next ones are written over them. ``demands`` has to hold
    of the dims where it runs, and does not follow from what is known around it; it is ``conditional`` where its sizes
    mean something only if it may run: it demands something, divides by a size, or broadcasts sizes.

    Of alternatives, ``params`` and ``results`` are what the body calls the values that the launch reads and makes, and
    ``when`` says for which sizes it is right; of the last one it is None. One whose kernels are ``deferred`` runs only
    where they are there.
    """

    params: tuple[Value, ...]
    launches: tuple[Launch, ...]
    results: tuple[Value, ...]
    in_place: frozenset[int] = frozenset()
    demands: tuple[Relation, ...] = ()
    conditional: bool = False
    when: Condition | None = None
    deferred: bool = False


@record(eq=False)
class Launch:
    """A group's kernels over the same buffers; the first variant whose condition holds runs.

    A library call has no variants: its buffers are the op's operands and results, in order. (An op that a library may
    compute has some where the target has kernels for it.) Nor has a loop or a choice, which has the same buffers, and
    ``bodies`` for the op's regions; nor what finds out a dim. A group may take several launches, one after the other:
    ``temporaries`` are the buffers that this one writes for those that follow it, which are no values of the function.
    Where ``when`` does not hold nothing is launched. What ``demands`` say of dims is checked before.

    Launches of a group may have an alternative, one launch before them: it runs ``unless`` these do, whose ``when`` is
    one of these conditions, of which one holds at most. They run where that holds and the last variants of all of them
    are made; a call that finds one missing says that it wants them. So the alternative is right for every shape, and
    where the others are deferred it computes the same to the last bit.

    Alternatives (``is_choice``) have a body for each plan: the first one runs whose condition holds and whose kernels,
    where they are deferred, are there. The last one is always right.
    """

    group: Group
    buffers: tuple[Value, ...]
    variants: tuple[Variant, ...]
    temporaries: tuple[Value, ...] = ()
    when: Condition | None = None
    bodies: tuple[Body, ...] = ()
    unless: tuple[Condition, ...] = ()
    demands: tuple[Relation, ...] = ()

    def dims(self) -> Iterator[Dim]:
        """Dims by which the launch is chosen and sized, and those of its buffers; those of its conditional regions are
        left out."""
        for value in (*self.buffers, *self.temporaries):
            yield from value.shape
        yield from (condition.dim for condition in (self.when, *self.unless) if condition is not None)
        for variant in self.variants:
            if variant.condition is not None:
                yield variant.condition.dim
            yield from (*variant.exact_dims(), variant.grid)
        for body in self.bodies:
            if body.when is not None:
                yield body.when.dim
            if not body.conditional:
                for launch in body.launches:
                    yield from launch.dims()

    def written(self) -> tuple[Value, ...]:
        """The buffers that kernels or a library call write, and perhaps some of the group's that they only read."""
        made = {*self.group.outputs, *self.temporaries}
        return tuple(v for v in dict.fromkeys(self.buffers) if v in made)

    @property
    def is_choice(self) -> bool:
        """Whether the sizes of a call choose one of its bodies."""
        return self.group.kind is GroupKind.ALTERNATIVES

    @property
    def measures(self) -> Symbol | None:
        """The dim that is found out here."""
        return bound_dim(self.group.ops[0]) if self.group.kind is GroupKind.DATA_DEPENDENT_SIZE else None

    @property
    def call(self) -> Op | None:
        """The op of a library call."""
        return self.group.ops[0] if self.group.kind is GroupKind.LIBRARY and not self.variants else None

    @property
    def callee(self) -> ExternalTarget | None:
        """The function outside of the program that the launch calls, if it calls one."""
        return None if self.call is None else callee_of(self.call)


def may_lack_value(dims: Iterable[Dim]) -> bool:
    """Whether some dim divides by what may be 0, or broadcasts sizes."""
    seen: dict[Opaque, None] = {}
    for dim in dims:
        if isinstance(dim, SymExpr) and dim.divides:
            return True
        new = [atom for atom in all_atoms(dim, seen.__contains__) if isinstance(atom, Opaque)]
        if any(atom.kind is OpaqueKind.BROADCAST for atom in new):
            return True
        seen |= dict.fromkeys(new)
    return False


def general_launches(launches: Sequence[Launch]) -> Iterator[Launch]:
    """Launches in their order, of alternatives those of the general plan."""
    for launch in launches:
        if launch.is_choice:
            yield from launch.bodies[-1].launches
        else:
            yield launch


def walk_launches(launches: Sequence[Launch]) -> Iterator[Launch]:
    """Every launch, and after a loop or a choice those of its regions."""
    for launch in launches:
        yield launch
        for body in launch.bodies:
            yield from walk_launches(body.launches)


def aliases(launches: Sequence[Launch]) -> dict[Value, Value]:
    """Values that are the same memory as others: what loops hand on unchanged, and numbers that dims were read from."""
    same: dict[Value, Value] = {}
    for launch in launches:
        if launch.measures is not None:
            before, after = launch.buffers
            same[after] = same.get(before, before)
        for op in launch.group.ops if launch.bodies and not launch.is_choice else ():
            count = len(op.operands)
            for i, keep in enumerate(unchanged(op)):
                if keep:
                    before = launch.buffers[i]
                    same[launch.buffers[count + i]] = same.get(before, before)
    return same


@record(eq=False)
class Dispatch:
    """A dispatch to the runtime: a variant of a launch's kernel, or without one a library call or a call outside."""

    launch: Launch
    variant: Variant | None


def dispatches(launches: Sequence[Launch]) -> tuple[Dispatch, ...]:
    """Every dispatch of a program. Host programs tell the runtime its number here, by which a profile knows it."""
    found: list[Dispatch] = []
    for launch in walk_launches(launches):
        found += [Dispatch(launch, variant) for variant in launch.variants]
        if launch.call is not None:
            found.append(Dispatch(launch, None))
    return tuple(found)


def by_group(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Launches with those of one group taken together: for people, who think in groups."""
    joined: list[Launch] = []
    for group, run in itertools.groupby(launches, key=lambda launch: launch.group):
        several = list(run)
        if len(several) == 1:
            joined += several
            continue
        inner = {value for launch in several for value in launch.temporaries}
        buffers = dict.fromkeys(v for launch in several for v in launch.buffers if v not in inner)
        variants = [
            replace(v, condition=launch.when if v.condition is None else v.condition)
            for launch in several
            for v in launch.variants
        ]
        joined.append(Launch(group, tuple(buffers), tuple(variants)))
    return tuple(joined)


def bind_kernel(
    body: tuple[Stmt, ...],
    buffers: tuple[Buffer, ...],
    scratch: tuple[Buffer, ...],
    *,
    name: str,
    condition: Condition | None = None,
    note: str = "",
    in_place: bool = False,
) -> Variant:
    """A kernel made of statements that still mention the host's dims: those become size parameters."""
    inner: set[Symbol] = set()
    for stmt in walk_stmts(body):
        if isinstance(stmt, Loop):
            inner.add(stmt.var)
            inner.update(s for s, _ in stmt.bound)
            inner.update(() if stmt.count is None else (stmt.count,))
        elif isinstance(stmt, TileContract):
            inner |= {stmt.row, stmt.col, stmt.red}
            inner.update(part for digits in stmt.digits for part, _ in digits.parts)
        elif isinstance(stmt, Update):
            inner.update(s for s, _ in stmt.bound)
        for expr in walk_exprs(stmt_exprs(stmt)):
            if isinstance(expr, Load):
                inner.update(s for s, _ in expr.bound)
    grid: list[Loop] = []
    block = body
    while len(block) == 1 and isinstance(block[0], Loop) and block[0].role is Role.GRID:
        grid.append(block[0])
        block = block[0].body
    cost = iteration_cost(block, grid)
    parameters = Parameters(frozenset(inner))
    sized = {id(b): replace(b, size=parameters.rewrite(b.size)) for b in (*buffers, *scratch) if b.size != 0}
    rewritten = _Rename(parameters, sized).block(body)
    factors = frozenset([symbol for host, symbol in parameters.symbols.items() if is_stretch_factor(host)])
    globals_, own = (tuple([sized.get(id(b), b) for b in some]) for some in (buffers, scratch))
    kernel = Kernel(name, globals_, tuple(parameters.symbols.values()), own, rewritten, note, in_place, factors)
    check(kernel)
    size = product(loop.extent for loop in grid)
    dims = tuple(parameters.symbols)
    strides = _strides(kernel) if any(scaled(dim)[0] != 1 for dim in dims) else frozenset[int]()
    return Variant(kernel, dims, size, cost, condition, note, strides=strides)


def _strides(kernel: Kernel) -> frozenset[int]:
    """The size parameters of a kernel that occur in places of elements alone, and in no extent and no value."""
    used: set[Symbol] = set()
    for buffer in (*kernel.buffers, *kernel.scratch):
        used.update(free_symbols(buffer.size))
    for stmt in walk_stmts(kernel.body):
        if isinstance(stmt, Loop):
            used.update(free_symbols(stmt.extent))
        elif isinstance(stmt, TileContract):
            extents = (stmt.row_extent, stmt.col_extent, stmt.red_extent)
            parts = [extent for digits in stmt.digits for _, extent in digits.parts]
            used.update(s for dim in (*extents, *parts, *[d.value for d in stmt.digits]) for s in free_symbols(dim))
        used.update(s for e in walk_exprs(stmt_exprs(stmt)) if isinstance(e, Index) for s in free_symbols(e.expr))
    return frozenset(number for number, symbol in enumerate(kernel.dims) if symbol not in used)


def scaled(dim: Dim) -> tuple[int, Dim]:
    """A number and a dim of which a dim is the product: 256 and ``n*m`` for ``256*n*m``."""
    if isinstance(dim, int) or dim.constant or len(dim.terms) != 1:
        return 1, dim
    ((monomial, number),) = dim.terms
    return number, polynomial({monomial: 1}, 0)


class _Rename(Rewriter):
    """Puts size parameters in place of host dims, and buffers with such sizes in place of the old ones."""

    def __init__(self, parameters: Parameters, buffers: dict[int, Buffer]) -> None:
        super().__init__(parameters.rewrite)
        self.buffers = buffers

    def stmt(self, stmt: Stmt) -> Stmt:
        new = super().stmt(stmt)
        if isinstance(new, Store) and id(new.buffer) in self.buffers:
            return Store(self.buffers[id(new.buffer)], new.index, new.value)
        if isinstance(new, Update) and id(new.buffer) in self.buffers:
            return replace(new, buffer=self.buffers[id(new.buffer)])
        return new

    def node(self, expr: Expr) -> Expr:
        new = super().node(expr)
        if isinstance(new, Load) and id(new.buffer) in self.buffers:
            return Load(self.buffers[id(new.buffer)], new.index, new.bound, new.mask, new.other)
        return new
