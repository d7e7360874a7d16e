"""The host program: everything a call does around its kernels, as data.

It binds the dims to the arguments' sizes, checks what was assumed of them, lays out the arena, has outputs allocated,
chooses variants and launches kernels. ``dyn.lower.host_llvm`` makes it native code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dyn.errors import NotYetError, ShapeError
from dyn.ir.core import Dense, Function, Op, Value, attr_dims
from dyn.lower.donate import Reuse
from dyn.lower.launch import Body, Launch, walk_launches
from dyn.lower.layout import LoopPlaces, Place, Scope, divides, lay_out
from dyn.shapes import (
    Declaration,
    Dim,
    Reason,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    dim_max,
    evaluate,
    format_dim,
    free_symbols,
    linear_in,
)
from dyn.stitch.groups import Plan


@dataclass(frozen=True, slots=True)
class Bind:
    """``symbol`` is ``(size - offset) / factor`` of an axis of an input."""

    symbol: Symbol
    input: int
    axis: int
    factor: Dim = 1
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class AxisCheck:
    """An axis of an input has the size ``dim``."""

    input: int
    axis: int
    dim: Dim


class Fault(Enum):
    """Failures that are not a broken relation."""

    TOO_LARGE = "too large"
    NO_VALUE = "division by zero"
    NO_MEMORY = "no memory"
    LIBRARY = "a library call failed"
    TOO_LONG = "too large for LAPACK"


@dataclass(frozen=True, slots=True)
class InRegion:
    """What a region demands: checked where it is about to run."""

    relation: Relation


#: What can go wrong in a call; a failure is the number of a site and the values of all symbols.
Site = AxisCheck | Relation | Declaration | InRegion | Fault


@dataclass(frozen=True, eq=False, slots=True)
class HostProgram:
    """A whole call. ``slots`` are the sizes of the arena's parts in bytes, each a multiple of ALIGNMENT.

    ``symbols`` are those of the binds, then those that launches measure. Slot ``i`` is there from the beginning where
    ``segments[i]`` is 0, else from the measurement of that number on, counted from 1; so are the outputs, whose shapes
    are known by then, and a check is made as soon as all that it is about is known.
    ``reuses`` are the outputs that a caller may leave where an input lies: it says so for each call.
    """

    function: Function
    symbols: tuple[Symbol, ...]
    binds: tuple[Bind, ...]
    sites: tuple[Site, ...]
    slots: tuple[Dim, ...]
    segments: tuple[int, ...]
    places: dict[Value, Place]
    #: The largest sizes that the call makes, in elements: each must fit the address space.
    sizes: tuple[Dim, ...]
    launches: tuple[Launch, ...]
    #: What the dims have to satisfy for this program to be the one for a call.
    guards: tuple[Relation, ...] = ()
    reuses: tuple[Reuse, ...] = ()
    #: The variables of each loop, and how many there are in all.
    loops: Mapping[Launch, LoopPlaces] = field(default_factory=dict[Launch, LoopPlaces])
    variables: int = 0
    #: The regions that demand something of the dims (``Body.demands``), with what they have alone.
    scopes: Mapping[Body, Scope] = field(default_factory=dict[Body, Scope])
    #: The large constants, by number: arrays that are there before a call.
    constants: tuple[Dense, ...] = ()

    @property
    def arena(self) -> Dim:
        """Bytes of intermediate memory, as a formula over the function's dims."""
        total: Dim = 0
        scoped = {slot for scope in self.scopes.values() for slot in scope.slots}
        for number, slot in enumerate(self.slots):
            total = total + (dim_max(slot, 0) if number in scoped else slot)
        return total

    def text(self) -> str:
        """The program as people and golden files read it."""
        lines = [f"host @{self.function.name} {{"]
        names = [info.name for info in self.function.infos]
        for bind in self.binds:
            source = f"{names[bind.input]}.shape[{bind.axis}]"
            if bind.offset != 0:
                source = f"({source} - {bind.offset})"
            lines.append(f"  {bind.symbol.name} = {source}" + (f" / {bind.factor}" if bind.factor != 1 else ""))
        for number, site in enumerate(self.sites):
            where = "in a region" if isinstance(site, InRegion) else "check"
            lines.append(f"  {where} {number}: {site_text(site, names)}")
        measured = [launch.measures for launch in walk_launches(self.launches) if launch.measures is not None]
        for number, (slot, segment) in enumerate(zip(self.slots, self.segments, strict=True)):
            when = f", once {measured[segment - 1].name} is known" if segment else ""
            lines.append(f"  slot {number}: {slot} bytes{when}")
        for number, dense in enumerate(self.constants):
            lines.append(f"  constant {number}: {dense.array.nbytes} bytes")
        lines += [f"  output {reuse.output}: in the memory of {names[reuse.input]}, if given" for reuse in self.reuses]
        lines += self._lines(self.launches, "  ")
        return "\n".join([*lines, "}"]) + "\n"

    def _lines(self, launches: Sequence[Launch], indent: str) -> list[str]:
        lines: list[str] = []
        for launch in launches:
            arguments = ", ".join(f"{self.places[v].kind} {self.places[v].number}" for v in launch.buffers)
            when = "" if launch.when is None else f" if {launch.when.describe()}"
            if launch.measures is not None:
                lines.append(f"{indent}measure {launch.measures.name} ({arguments})")
                continue
            verb = "run" if launch.bodies else "launch" if launch.call is None else "call"
            lines.append(f"{indent}{verb} {launch.group.name}({arguments}){when}")
            for variant in launch.variants:
                dims = ", ".join(str(d) for d in variant.dims)
                when = f"if {condition}" if (condition := variant.when()) else "always"
                lines.append(f"{indent}  {when}: {variant.note} dims [{dims}] grid {variant.grid}")
            if launch in self.loops:
                lines.append(f"{indent}  {self.loops[launch].text()}")
            for body in launch.bodies:
                checks = [f"{indent}    check {self.sites.index(InRegion(relation))}" for relation in body.demands]
                lines += [f"{indent}  {{", *checks, *self._lines(body.launches, f"{indent}    "), f"{indent}  }}"]
        return lines


def site_text(site: Site, names: Sequence[str]) -> str:
    """What a check demands."""
    if isinstance(site, AxisCheck):
        return f"{names[site.input]}.shape[{site.axis}] == {site.dim}"
    if isinstance(site, InRegion):
        return site.relation.describe()
    if isinstance(site, Relation | Declaration):
        return site.describe()
    return site.value


def build_host(
    plan: Plan, launches: tuple[Launch, ...], guards: tuple[Relation, ...], reuses: tuple[Reuse, ...] = ()
) -> HostProgram:
    """The host program that runs ``launches``. Guards were checked when this version was chosen, and are not again."""
    function = plan.function
    binds, checks = bind_dims(function)
    symbols = [bind.symbol for bind in binds]
    measured = list(dict.fromkeys(s for launch in walk_launches(launches) if (s := launch.measures) is not None))
    symbols += measured
    for symbol in function.symbols():
        # A fact may be about what was measured in a function that was transformed, and is not here itself.
        if symbol not in symbols and not symbol.measured:
            raise NotYetError(
                f"the dimension {symbol.name} ({symbol.origin}) follows from no argument's shape.",
                remedy="let an axis of some argument be that dimension alone.",
            )
    sites: list[Site] = [*checks]
    sites += [
        d for d in function.facts.declarations if d.symbol in symbols and (d.min, d.max, d.multiple_of) != (0, None, 1)
    ]
    # A dim that is solved for (n in an axis of n + 3) is a size all the same; one that is read off an axis is anyway.
    solved = [*(b.symbol for b in binds if b.factor != 1 or b.offset != 0), *measured]
    sites += [Relation(RelKind.GE, as_dim(s), 0, Reason(f"the dim {s.name} is a size")) for s in solved]
    sites += [relation for relation in function.facts.relations if relation not in guards]
    bodies = [body for launch in walk_launches(launches) for body in launch.bodies]
    sites += dict.fromkeys(InRegion(relation) for body in bodies for relation in body.demands)
    dividing = any(divides(dim) for dim in (*function_dims(function), *_launch_dims(launches)))
    sites += [Fault.TOO_LARGE, *([Fault.NO_VALUE] if dividing else []), Fault.NO_MEMORY]
    if any(launch.call is not None for launch in walk_launches(launches)):
        sites += [Fault.LIBRARY, Fault.TOO_LONG]
    layout = lay_out(plan, launches)
    return HostProgram(
        function, tuple(symbols), tuple(binds), tuple(sites), tuple(layout.slots),
        tuple(layout.segments), layout.places, layout.sizes,
        launches, guards, reuses, layout.loops, layout.variables, layout.scopes, tuple(layout.constants.values()),
    )  # fmt: skip


def bind_dims(function: Function) -> tuple[list[Bind], list[AxisCheck]]:
    """How every symbol that can be gets its value, and which axes must agree with one that another axis gave.

    It follows from the parameters' own dims, and so is the same before all passes and after them.
    """
    binds: list[Bind] = []
    checks: list[AxisCheck] = []
    known: dict[Symbol, None] = {}
    pending: list[tuple[int, int, SymExpr]] = []
    for number, (param, info) in enumerate(zip(function.params, function.infos, strict=True)):
        for position, dim in enumerate(param.shape if info.dims is None else info.dims):
            symbol = dim.is_symbol if isinstance(dim, SymExpr) else None
            if symbol is not None and symbol not in known:
                known[symbol] = None
                binds.append(Bind(symbol, number, position))
            elif isinstance(dim, int) or symbol is not None:
                # A captured array is looked at once, when the program is loaded with it.
                if not (info.hidden and isinstance(dim, int)):
                    checks.append(AxisCheck(number, position, dim))
            else:
                pending.append((number, position, dim))
    progress = True
    while progress:
        progress = False
        for number, position, dim in pending:
            unknown = [s for s in free_symbols(dim) if s not in known]
            linear = linear_in(dim, unknown[0]) if len(unknown) == 1 else None
            if linear is not None and not any(u in free_symbols(linear[0]) for u in unknown):
                known[unknown[0]] = None
                binds.append(Bind(unknown[0], number, position, *linear))
                progress = True
    checks += [AxisCheck(number, position, dim) for number, position, dim in pending]
    return binds, checks


def function_dims(function: Function) -> Iterator[Dim]:
    """Every dim in a function's parameters, facts and ops."""
    for param, info in zip(function.params, function.infos, strict=True):
        yield from param.shape if info.dims is None else info.dims
    for relation in function.facts.relations:
        yield from (relation.lhs, relation.rhs)
    yield from _op_dims(function.ops)


def _op_dims(ops: tuple[Op, ...]) -> Iterator[Dim]:
    for op in ops:
        for result in op.results:
            yield from result.shape
        yield from attr_dims(op.attrs)
        for region in op.regions:
            for relation in region.demands:
                yield from (relation.lhs, relation.rhs)
            yield from _op_dims(region.ops)


def _launch_dims(launches: tuple[Launch, ...]) -> Iterator[Dim]:
    """What the launches are chosen and sized by."""
    for launch in walk_launches(launches):
        for variant in launch.variants:
            yield from (*variant.dims, variant.grid)
            yield from (c.dim for c in (launch.when, variant.condition) if c is not None)
        for value in launch.temporaries:
            yield from value.shape


def render_failure(program: HostProgram, site: int, values: Sequence[int], sizes: Sequence[Sequence[int]]) -> Exception:
    """The error that a failed check is, with the names, the values and the user's line.

    ``values`` are those of ``program.symbols``, ``sizes`` the shapes of the inputs.
    """
    env = dict(zip(program.symbols, values, strict=True))
    what = program.sites[site]
    infos = program.function.infos
    if isinstance(what, AxisCheck):
        return _axis_error(program, what, env, sizes)
    if isinstance(what, InRegion):
        what = what.relation
    if isinstance(what, Relation):
        origins = _origins(program, (what.lhs, what.rhs), env)
        return ShapeError(
            what.failure(env), loc=what.reason.loc, notes=origins, remedy="pass arguments whose shapes satisfy it."
        )
    if isinstance(what, Declaration):
        size = env[what.symbol]
        return ShapeError(
            f"{what.symbol.origin} is {size}, and {what.describe()} was declared.",
            remedy=f"pass an array of a size that was declared, or change the declaration of {what.symbol.name}.",
        )
    shapes = ", ".join(f"{info.name} {tuple(s)}" for info, s in zip(infos, sizes, strict=True) if not info.hidden)
    if what is Fault.TOO_LARGE:
        return ShapeError(
            f"an array of this call would have more than 2^63 bytes (arguments: {shapes}).",
            remedy="pass smaller arguments.",
        )
    if what is Fault.TOO_LONG:
        return ShapeError(
            f"a matrix has 2^31 or more rows or columns, or as much to work with, and LAPACK counts in 32 bits "
            f"(arguments: {shapes}).",
            remedy="pass smaller matrices.",
        )
    if what is Fault.NO_VALUE:
        return _undefined(program, env)
    arena = _arena_bytes(program, env)
    what_for = f"{arena} bytes of intermediate arrays" if arena else "the scratch of its kernels"
    return MemoryError(f"{program.function.name}: no memory for {what_for} (arguments: {shapes})")


def _arena_bytes(program: HostProgram, env: dict[Symbol, int]) -> int:
    try:
        return max(0, evaluate(program.arena, env))
    except ShapeError:  # of a region that does not run some sizes may have no value
        return 0


def _undefined(program: HostProgram, env: dict[Symbol, int]) -> ShapeError:
    """The first size that has no value."""
    for dim in function_dims(program.function):
        try:
            evaluate(dim, env)
        except ShapeError as error:
            return ShapeError(error.problem, remedy=error.remedy, notes=_origins(program, (dim,), env))
    raise AssertionError("every size has a value")


def _axis_error(
    program: HostProgram, check: AxisCheck, env: dict[Symbol, int], sizes: Sequence[Sequence[int]]
) -> ShapeError:
    name = program.function.infos[check.input].name
    actual = sizes[check.input][check.axis]
    if isinstance(check.dim, int):
        return ShapeError(
            f"{name}.shape[{check.axis}] is {actual}, and it is declared to be {check.dim}.",
            remedy=f"pass an array whose axis {check.axis} has {check.dim} elements, or change shapes=.",
        )
    wanted = evaluate(check.dim, env)
    return ShapeError(
        f"{name}.shape[{check.axis}] is {actual}, and it must be {format_dim(check.dim)} = {wanted}.",
        notes=_origins(program, (check.dim,), env),
        remedy="pass arrays that agree, or give the two axes different names in shapes=.",
    )


def _origins(program: HostProgram, dims: tuple[Dim, ...], env: dict[Symbol, int]) -> tuple[str, ...]:
    symbols = sorted({s for d in dims for s in free_symbols(d)}, key=lambda s: s.uid)
    return tuple(f"{s.name} is {s.origin} = {env[s]}" for s in symbols if s in env)
