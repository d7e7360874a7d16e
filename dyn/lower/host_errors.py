"""Errors of host programs: what a failed check means, with the names, the values and the user's line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dyn.errors import DeviceError, DomainError, OverrunError, ShapeError, device_remedy
from dyn.integers import sized
from dyn.ir.binding import AxisCheck, axis_error
from dyn.ir.core import Op
from dyn.ir.opdef import LibraryRoutine
from dyn.lower.host import Fault, HostProgram, InRegion, LocatedDim, launch_dims, located_dims
from dyn.lower.layout import StoragePlace
from dyn.schedule.launch import dispatches, walk_launches
from dyn.shapes import Declaration, Dim, Opaque, Relation, Symbol, as_dim, evaluate, format_dim, free_symbols
from dyn.shapes.expr import atom_dim


def render_failure(
    program: HostProgram, site: int, values: Sequence[int], sizes: Sequence[Sequence[int]], more: Sequence[int] = ()
) -> Exception:
    """The error that a failed check is, with the names, the values and the user's line.

    ``values`` are those of ``program.symbols``, ``sizes`` the shapes of the inputs, ``more`` what was reported behind
    the values.
    """
    env = dict(zip(program.symbols, values, strict=True))
    what = program.sites[site]
    infos = program.function.infos
    if isinstance(what, AxisCheck):
        return axis_error(infos[what.input].name, what, sizes[what.input][what.axis], env)
    if isinstance(what, InRegion):
        what = what.relation
    if isinstance(what, Relation):
        # An error about elements says all that there is to say.
        origins = () if issubclass(what.error, DomainError) else _origins(program, (what.lhs, what.rhs), env)
        return what.error(what.failure(env), loc=what.reason.loc, notes=origins, remedy=what.remedy)
    if isinstance(what, Declaration):
        size = env[what.symbol]
        return ShapeError(
            f"{what.symbol.origin} is {size}, and {what.describe()} was declared.",
            remedy=f"pass an array of a size that was declared, or change the declaration of {what.symbol.name}.",
        )
    shapes = ", ".join(f"{info.name} {tuple(s)}" for info, s in zip(infos, sizes, strict=True) if not info.hidden)
    if what in (Fault.TOO_LARGE, Fault.NO_VALUE):
        too_large = ShapeError(
            f"an array of this call would have more than 2^63 bytes (arguments: {shapes}).",
            remedy="pass smaller arguments.",
        )
        found = _nonsense(program, env, located_dims(program.function))
        if found is None and not _has_large_array(program.function.ops, env):
            found = _nonsense(program, env, [LocatedDim(dim, None) for dim in launch_dims(program.launches)])
        return too_large if found is None else found
    if what is Fault.TOO_LONG:
        loops = [launch.call.opdef.loops for launch in walk_launches(program.launches) if launch.call is not None]
        sorts = [one.routine == "sort" for one in loops if isinstance(one, LibraryRoutine) and one.routine is not None]
        matrix = "a matrix has 2^31 or more rows or columns, or as much to work with, and LAPACK counts in 32 bits"
        axis = "2^32 - 1 or more elements are to be sorted with their places, which have 32 bits"
        reasons = ([] if all(sorts) else [matrix]) + ([axis] if any(sorts) else [])
        remedy = "pass smaller matrices." if reasons == [matrix] else "pass smaller arrays."
        return ShapeError(f"{', or '.join(reasons)} (arguments: {shapes}).", remedy=remedy)
    if what is Fault.OVERRUN:
        return _overrun(program, more[0], more[1])
    arena = _arena_bytes(program, env)
    what_for = f"{arena} bytes of intermediate arrays" if arena else "the scratch of its kernels"
    return MemoryError(f"{program.function.name}: no memory for {what_for} (arguments: {shapes})")


def _overrun(program: HostProgram, number: int, zone: int) -> OverrunError:
    """The error of a launch, by number, that wrote into a red zone."""
    launch = next(itertools.islice(walk_launches(program.launches), number, None))
    callee = launch.callee
    if callee is not None:
        who, remedy = f"the function {callee.name}", "write no more than the sizes that the function is told."
    else:
        who = f"the {'kernel' if launch.call is None else 'library call'} {launch.group.name}"
        remedy = "report the program: this is an error of dyn."
    most = program.most_written
    if zone < most:
        where = f"behind {program.written(launch)[zone].type}, which it makes"
    else:
        segment, slot = program.zones()[zone - most]
        slot_ahead = program.segments.index(segment) if slot is None else slot
        around = "before" if slot is None else "behind"
        place = StoragePlace("arena", slot_ahead)
        types = dict.fromkeys(str(v.type) for v, at in program.places.items() if at == place)
        where = f"{around} slot {slot_ahead} of the arena, which is for {', '.join(types)}"
    return OverrunError(f"{who} wrote {where}.", loc=launch.group.ops[-1].loc, remedy=remedy)


def device_failure(program: HostProgram, device: str, answer: str, number: int) -> DeviceError:
    """The error for an answer of a device's driver, in the dispatch of a number, or -1 outside of any."""
    name = program.function.name
    if number < 0:
        return DeviceError(
            f"{name}: {device} failed: its driver answers {answer}.",
            remedy=device_remedy(answer),
        )
    group = dispatches(program.launches)[number].launch.group
    lines = dict.fromkeys([op.loc.describe() for op in group.ops])
    return DeviceError(
        f"{name}: {device} did not launch {group.name}: its driver answers {answer}.",
        loc=group.ops[-1].loc,
        notes=tuple([f"it computes {line}" for line in lines]),
        remedy=device_remedy(answer),
    )


def _arena_bytes(program: HostProgram, env: dict[Symbol, int]) -> int:
    return max(0, _value(program.arena, env))


def _has_large_array(ops: Sequence[Op], env: Mapping[Symbol, int]) -> bool:
    """Whether a value is an array of more than 2^63 bytes, as far as its size is known."""
    values = [value for op in ops for value in op.results if free_symbols(value.type.size) <= env.keys()]
    large = any(_passes(_value(value.type.nbytes, env)) for value in values)
    return large or any(_has_large_array(region.ops, env) for op in ops for region in op.regions)


def _value(dim: Dim, env: Mapping[Symbol, int]) -> int:
    try:
        return evaluate(dim, env)
    except ShapeError:  # of a region that does not run
        return 0


def _nonsense(program: HostProgram, env: Mapping[Symbol, int], dims: Iterable[LocatedDim]) -> ShapeError | None:
    """The first size that has no value, or passes 64 bits; None where all are what they should be.

    Sizes in regions and of data come last: a region that does not run may have any, and what has not been measured yet
    is 0 here.
    """

    def order(found: LocatedDim) -> bool:
        return found.inside or any(symbol.data_dependent for symbol in free_symbols(found.dim))

    for located in sorted(dims, key=order):
        dim, loc = located.dim, located.loc
        if not env.keys() >= free_symbols(dim):
            continue
        try:
            found = _too_large(dim, env)
        except ShapeError as error:
            return ShapeError(error.problem, loc=loc, remedy=error.remedy, notes=_origins(program, (dim,), env))
        if found is not None:
            part, value = found
            if isinstance(part, int):
                problem = f"{part} is a part of {format_dim(dim)}"
            else:
                whole = "" if part == dim else f", a part of {format_dim(dim)}"
                problem = f"{format_dim(part)} is {value} in this call{whole}"
            return ShapeError(
                f"{problem}, and sizes have 64 bits.",
                loc=loc,
                remedy="pass smaller arguments.",
                notes=_origins(program, (dim,), env),
            )
    return None


def _too_large(dim: Dim, env: Mapping[Symbol, int]) -> tuple[Dim, int] | None:
    """The first step of computing a dim that passes 64 bits, in the order of the native code, with its value."""
    evaluate(dim, env)
    if isinstance(dim, int):
        return (dim, dim) if _passes(dim) else None
    opaque = [atom for atom in dim.atoms if isinstance(atom, Opaque)]
    parts = {as_dim(arg) for atom in opaque for arg in atom.args} | {atom_dim(atom) for atom in opaque} | {dim}
    for part in sorted(parts, key=_depth):
        for step, value in _steps(part, env):
            if _passes(value):
                return step, value
    return None


def _depth(dim: Dim) -> tuple[int, str]:
    """Sorts what a dim is made of before it."""
    return (0, "") if isinstance(dim, int) else (len(dim.atoms), str(dim))


def _passes(value: int) -> bool:
    try:
        sized(value)
    except OverflowError:
        return True
    return False


def _steps(dim: Dim, env: Mapping[Symbol, int]) -> Iterator[tuple[Dim, int]]:
    """The partial products and sums of a polynomial, with their values."""
    if isinstance(dim, int):
        yield dim, dim
        return
    total: Dim = 0
    for mono, coefficient in dim.terms:
        product: Dim = 1
        for atom, power in mono.factors:
            for _ in range(power):
                product = product * atom_dim(atom)
                yield product, evaluate(product, env)
        product = product * coefficient
        total = total + product
        for step in (product, total):
            yield step, evaluate(step, env)
    if dim.constant:
        yield dim.constant, dim.constant
        yield dim, evaluate(dim, env)


def _origins(program: HostProgram, dims: tuple[Dim, ...], env: Mapping[Symbol, int]) -> tuple[str, ...]:
    symbols = sorted({s for d in dims for s in free_symbols(d)}, key=lambda s: s.uid)
    return tuple(f"{s.name} is {s.origin} = {env[s]}" for s in symbols if s in env)
