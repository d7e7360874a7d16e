"""The programs that a profile mentions: the name, the sizes and the bytes of what each dispatch launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.backends.loaded_programs import Known
from dyn.errors import DynError
from dyn.explain.report import group_row
from dyn.explain.text import group_title
from dyn.profiling.events import KernelInfo
from dyn.schedule.cost import traffic
from dyn.schedule.kernel import Update
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.launch import Dispatch, dispatches
from dyn.shapes import Dim, Symbol, evaluate, substitute


class ProgramInfo:
    """A program, lowered again if its code was found whole. ``name`` is the function's."""

    def __init__(self, known: Known) -> None:
        self.name = known.name
        host = known.interface.host()
        self._symbols: tuple[Symbol, ...] = host.symbols
        self._dispatches = [_Dispatched(dispatch) for dispatch in dispatches(host.launches)]

    def dims(self, values: Sequence[int]) -> dict[str, int]:
        """The dims of a call by name, from its symbols' values as they were recorded."""
        return {symbol.name: value for symbol, value in zip(self._symbols, values, strict=False)}

    def launched(self, dispatch: int, values: tuple[int, ...]) -> tuple[KernelInfo, tuple[int, ...], int | None]:
        """The kernel of a dispatch, by its number, with its space and its bytes for the values of a call."""
        found = self._dispatches[dispatch]
        environment = dict(zip(self._symbols, values, strict=False))
        return (found.kernel, *found.sizes(values, environment))


class _Dispatched:
    """A dispatch: its kernel in words, and formulas of its sizes."""

    def __init__(self, dispatch: Dispatch) -> None:
        row, variant = group_row(dispatch.launch), dispatch.variant
        if variant is not None:
            note, when = variant.note, variant.when()
        else:
            note, when = "a library call" if dispatch.launch.callee is None else "a function outside", ""
        self.kernel = KernelInfo(group_title(row), row.kind, note, when, row.lines)
        self._space = dispatch.launch.group.space
        self._accesses = _accesses(dispatch)
        self._known: dict[tuple[int, ...], tuple[tuple[int, ...], int | None]] = {}

    def sizes(self, values: tuple[int, ...], environment: Mapping[Symbol, int]) -> tuple[tuple[int, ...], int | None]:
        """The space and the bytes for a call's sizes."""
        found = self._known.get(values)
        if found is None:
            space = tuple(-1 if (size := _value(dim, environment)) is None else size for dim in self._space)
            pairs = [(_value(accessed, environment), _value(held, environment)) for accessed, held in self._accesses]
            known = [min(accessed, held) for accessed, held in pairs if accessed is not None and held is not None]
            found = self._known[values] = space, sum(known) if len(known) == len(pairs) else None
        return found


def _accesses(dispatch: Dispatch) -> list[tuple[Dim, Dim]]:
    """For each buffer, the bytes that a dispatch reads and writes, each access counted, and those that there are."""
    buffers, variant = dispatch.launch.buffers, dispatch.variant
    if variant is None:
        return [(value.type.nbytes, value.type.nbytes) for value in buffers]
    kernel = variant.kernel
    sizes = dict(zip(kernel.dims, variant.dims, strict=True))
    updated = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Update)}
    found: list[tuple[Dim, Dim]] = []
    for value, buffer, count in zip(buffers, kernel.buffers, traffic(kernel), strict=True):
        most = value.type.nbytes * (2 if id(buffer) in updated else 1)
        found.append((substitute(count, sizes) * value.dtype.itemsize, most))
    return found


def _value(dim: Dim, environment: Mapping[Symbol, int]) -> int | None:
    """A formula's value; None where it has none, as of a size that was not known yet."""
    try:
        return evaluate(dim, environment)
    except (DynError, KeyError):
        return None
