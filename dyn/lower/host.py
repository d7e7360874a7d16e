"""The host program: everything a call does around its kernels, as data.

It binds the dims to the arguments' sizes, checks what was assumed of them, lays out the arena, has outputs allocated,
chooses variants and launches kernels. ``dyn.lower.host_llvm`` makes it native code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum

from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.ir.binding import AxisCheck, Bind, bind_function
from dyn.ir.core import Dense, Function, Op, Value, attr_dims
from dyn.ir.data_dependent import size_demand
from dyn.lower.layout import ArenaScope, LoopPlaces, StoragePlace, lay_out
from dyn.schedule.donate import Reuse
from dyn.schedule.launch import Body, Launch, may_lack_value, walk_launches
from dyn.shapes import Declaration, Dim, Reason, Relation, RelKind, Symbol, as_dim, dim_max, dim_sum
from dyn.source import Loc
from dyn.stitch.groups import Plan


class Fault(Enum):
    """Failures that are not a broken relation."""

    TOO_LARGE = "too large"
    NO_VALUE = "no value"
    NO_MEMORY = "no memory"
    LIBRARY = "a library call failed"
    TOO_LONG = "too large for a library"
    OVERRUN = "a red zone was written"
    DEVICE = "the device failed"


class MemorySpace(Enum):
    """Memory that the buffers of a program are in."""

    HOST = "host"
    DEVICE = "device"


@record()
class InRegion:
    """A demand of a region: checked where it is about to run."""

    relation: Relation


#: What can go wrong in a call; a failure is the number of a site and the values of all symbols.
Site = AxisCheck | Relation | Declaration | InRegion | Fault


@record(eq=False)
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
    places: dict[Value, StoragePlace]
    #: The largest sizes that the call makes, in elements: each must fit the address space.
    sizes: tuple[Dim, ...]
    launches: tuple[Launch, ...]
    #: What the dims have to satisfy for this program to be the one for a call.
    guards: tuple[Relation, ...] = ()
    reuses: tuple[Reuse, ...] = ()
    #: The variables of each loop, and how many there are in all.
    loops: Mapping[Launch, LoopPlaces] = field(default_factory=dict[Launch, LoopPlaces])
    variables: int = 0
    #: The conditional regions (``Body.conditional``), with what they have alone.
    scopes: Mapping[Body, ArenaScope] = field(default_factory=dict[Body, ArenaScope])
    #: The large constants, by number: arrays that are there before a call.
    constants: tuple[Dense, ...] = ()
    #: The bytes of a red zone (``dyn.lower.host_llvm.red_zones``): a multiple of ALIGNMENT, 0 for none.
    red_zone: int = 0
    #: The memory of all buffers: arguments, results, constants and the arena. Sizes are this machine's.
    space: MemorySpace = MemorySpace.HOST

    def zones(self) -> tuple[tuple[int, int | None], ...]:
        """The red zones of the arena: the segment of each, and the slot that it is behind, if it is not the first."""
        if not self.red_zone:
            return ()
        zones: list[tuple[int, int | None]] = []
        for segment in sorted(set(self.segments)):
            zones += [(segment, None), *((segment, slot) for slot, of in enumerate(self.segments) if of == segment)]
        return tuple(zones)

    @property
    def most_written(self) -> int:
        """Most values that any launch writes into the arena."""
        return max((len(self.written(launch)) for launch in walk_launches(self.launches)), default=0)

    def written(self, launch: Launch) -> tuple[Value, ...]:
        """Values that a launch writes into the arena; none where there are no red zones."""
        if not self.red_zone or launch.bodies or launch.measures is not None:
            return ()
        return tuple(v for v in launch.written() if self.places[v].kind == "arena")

    @property
    def arena(self) -> Dim:
        """Bytes of intermediate memory, as a formula over the function's dims."""
        scoped = {slot for scope in self.scopes.values() for slot in scope.slots}
        slots = [dim_max(slot, 0) if number in scoped else slot for number, slot in enumerate(self.slots)]
        return dim_sum(slots) + self.red_zone * len(self.zones())

    def text(self) -> str:
        """The program as people and golden files read it."""
        lines = [f"host @{self.function.name} {{"]
        if self.space is MemorySpace.DEVICE:
            lines.append("  buffers in the memory of a device")
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
        if self.red_zone:
            lines.append(f"  red zones of {self.red_zone} bytes")
        for number, dense in enumerate(self.constants):
            lines.append(f"  constant {number}: {dense.nbytes} bytes")
        lines += [f"  output {reuse.output}: in the memory of {names[reuse.input]}, if given" for reuse in self.reuses]
        lines += self._lines(self.launches, "  ")
        return "\n".join([*lines, "}"]) + "\n"

    def _lines(self, launches: Sequence[Launch], indent: str) -> list[str]:
        lines: list[str] = []
        for launch in launches:
            arguments = ", ".join(f"{self.places[v].kind} {self.places[v].number}" for v in launch.buffers)
            when = "" if launch.when is None else f" if {launch.when.describe()}"
            device = self.space is MemorySpace.DEVICE
            when += "".join(f" unless {condition.describe()}" for condition in launch.unless)
            if launch.measures is not None:
                fetched = ", fetched" if device else ""
                lines.append(f"{indent}measure {launch.measures.name} ({arguments}){fetched}")
                continue
            verb = (
                "choose"
                if launch.is_choice
                else "run"
                if launch.bodies
                else "launch"
                if launch.call is None
                else "call"
            )
            where = " on the host" if device and launch.call is not None else ""
            lines.append(f"{indent}{verb} {launch.group.name}({arguments}){where}{when}")
            for variant in launch.variants:
                dims = ", ".join(str(d) for d in variant.dims)
                when = f"if {condition}" if (condition := variant.when()) else "always"
                lines.append(f"{indent}  {when}: {variant.note} dims [{dims}] grid {variant.grid}")
            if launch in self.loops:
                lines.append(f"{indent}  {self.loops[launch].text()}")
            for body in launch.bodies:
                checks = [f"{indent}    check {self.sites.index(InRegion(relation))}" for relation in body.demands]
                when = f"if {body.when.describe()} " if body.when is not None else ""
                lines += [f"{indent}  {when}{{", *checks, *self._lines(body.launches, f"{indent}    "), f"{indent}  }}"]
        return lines


def site_text(site: Site, names: Sequence[str]) -> str:
    """Demand of a check, as text."""
    if isinstance(site, AxisCheck):
        return f"{names[site.input]}.shape[{site.axis}] == {site.dim}"
    if isinstance(site, InRegion):
        return site.relation.describe()
    if isinstance(site, Relation | Declaration):
        return site.describe()
    return site.value


def build_host(
    plan: Plan,
    launches: tuple[Launch, ...],
    guards: tuple[Relation, ...],
    reuses: tuple[Reuse, ...] = (),
    red_zone: int = 0,
    space: MemorySpace = MemorySpace.HOST,
) -> HostProgram:
    """The host program that runs ``launches``. Guards were checked when this version was chosen, and are not again."""
    function = plan.function
    binding = bind_function(function)
    symbols = [bind.symbol for bind in binding.binds]
    measuring = {s: launch.group.ops[0] for launch in walk_launches(launches) if (s := launch.measures) is not None}
    symbols += measuring
    for symbol in function.symbols():
        # A fact may be about what was measured in a function that was transformed, and is not here itself.
        if symbol not in symbols and not symbol.data_dependent:
            raise NotYetError(
                f"the dimension {symbol.name} ({symbol.origin}) follows from no argument's shape.",
                remedy="let an axis of some argument be that dimension alone.",
            )
    sites: list[Site] = [*binding.checks]
    sites += [
        d for d in function.facts.declarations if d.symbol in symbols and (d.min, d.max, d.multiple_of) != (0, None, 1)
    ]
    # A dim that is solved for (n in an axis of n + 3) is a size all the same; one that is read off an axis is anyway.
    solved = [b.symbol for b in binding.binds if b.factor != 1 or b.offset != 0]
    sites += [Relation(RelKind.GE, as_dim(s), 0, Reason(f"the dim {s.name} is a size")) for s in solved]
    sites += [size_demand(op) for op in measuring.values()]
    sites += [relation for relation in function.facts.relations if relation not in guards]
    sites += dict.fromkeys(relation for launch in walk_launches(launches) for relation in launch.demands)
    bodies = [body for launch in walk_launches(launches) for body in launch.bodies]
    sites += dict.fromkeys(InRegion(relation) for body in bodies for relation in body.demands)
    dims = dict.fromkeys([*(found.dim for found in located_dims(function)), *launch_dims(launches)])
    sites += [Fault.TOO_LARGE, *([Fault.NO_VALUE] if may_lack_value(dims) else []), Fault.NO_MEMORY]
    if any(launch.call is not None and launch.callee is None for launch in walk_launches(launches)):
        sites += [Fault.LIBRARY, Fault.TOO_LONG]
    if red_zone:
        sites += [Fault.OVERRUN]
    if space is MemorySpace.DEVICE:
        sites += [Fault.DEVICE]
    layout = lay_out(plan, launches)
    return HostProgram(
        function, tuple(symbols), binding.binds, tuple(sites), tuple(layout.slots),
        tuple(layout.segments), layout.places, layout.sizes,
        launches, guards, reuses, layout.loops, layout.variables, layout.scopes, tuple(layout.constants.values()),
        red_zone, space,
    )  # fmt: skip


@record()
class LocatedDim:
    """A dim, the user's line that it comes from where there is one, and whether it stands in a region."""

    dim: Dim
    loc: Loc | None
    inside: bool = False


def located_dims(function: Function) -> Iterator[LocatedDim]:
    """Every dim in a function's parameters, facts and ops."""
    for shape in function.checked_shapes():
        yield from (LocatedDim(dim, None) for dim in shape)
    yield from _relation_dims(function.facts.relations, inside=False)
    yield from _op_dims(function.ops, inside=False)


def _relation_dims(relations: Iterable[Relation], *, inside: bool) -> Iterator[LocatedDim]:
    for relation in relations:
        yield from (LocatedDim(dim, relation.reason.loc, inside) for dim in (relation.lhs, relation.rhs))


def _op_dims(ops: tuple[Op, ...], *, inside: bool) -> Iterator[LocatedDim]:
    for op in ops:
        dims = [dim for result in op.results for dim in result.shape]
        yield from (LocatedDim(dim, op.loc, inside) for dim in (*dims, *attr_dims(op.attrs)))
        for region in op.regions:
            yield from _relation_dims(region.demands, inside=True)
            yield from _op_dims(region.ops, inside=True)


def launch_dims(launches: tuple[Launch, ...]) -> Iterator[Dim]:
    """Dims by which launches and their variants are chosen and sized."""
    for launch in walk_launches(launches):
        for variant in launch.variants:
            yield from (*variant.exact_dims(), variant.grid)
            yield from (c.dim for c in (launch.when, *launch.unless, variant.condition) if c is not None)
        yield from (body.when.dim for body in launch.bodies if body.when is not None)
        for value in launch.temporaries:
            yield from value.shape
