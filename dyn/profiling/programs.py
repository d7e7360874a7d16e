"""The programs that a profile mentions: the name, the sizes, the bytes and the operations of what each launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.backends.loaded_programs import Known
from dyn.errors import DynError
from dyn.explain.report import group_row
from dyn.explain.text import group_title
from dyn.frozen import record
from dyn.ops.counts import at_sizes
from dyn.profiling.events import KernelInfo
from dyn.schedule.launch import Dispatch, dispatches
from dyn.schedule.launch_cost import buffer_bytes, bytes_at, group_work, leading_launches
from dyn.shapes import Dim, Symbol, evaluate


@record()
class LaunchSizes:
    """A launch at the sizes of a call: what it iterates over, the bytes that it moves, and its operations by dtype.

    None stands for what has no formula; the operations of several launches of a group are with the first.
    """

    space: tuple[int, ...]
    nbytes: int | None
    operations: Mapping[str, int] | None


class ProgramInfo:
    """A program, lowered again if its code was found whole. ``name`` is the function's."""

    def __init__(self, known: Known) -> None:
        self.name = known.name
        host = known.interface.host()
        self._symbols: tuple[Symbol, ...] = host.symbols
        leading = leading_launches(host.launches)
        self._dispatches = [_Dispatched(one, counted=one.launch in leading) for one in dispatches(host.launches)]

    def dims(self, values: Sequence[int]) -> dict[str, int]:
        """The dims of a call by name, from its symbols' values as they were recorded."""
        return {symbol.name: value for symbol, value in zip(self._symbols, values, strict=False)}

    def launched(self, dispatch: int, values: tuple[int, ...]) -> tuple[KernelInfo, LaunchSizes]:
        """The kernel of a dispatch, by its number, and what it does for the values of a call."""
        found = self._dispatches[dispatch]
        return found.kernel, found.sizes(values, dict(zip(self._symbols, values, strict=False)))


class _Dispatched:
    """A dispatch: its kernel in words, and formulas of its sizes; its operations where they are ``counted`` with it."""

    def __init__(self, dispatch: Dispatch, *, counted: bool) -> None:
        row, variant = group_row(dispatch.launch), dispatch.variant
        if variant is not None:
            note, when = variant.note, variant.when()
        else:
            note, when = "a library call" if dispatch.launch.callee is None else "a function outside", ""
        self.kernel = KernelInfo(group_title(row), row.kind, note, when, row.lines)
        self._space = dispatch.launch.group.space
        self._buffers = buffer_bytes(dispatch)
        work = group_work(dispatch.launch.group) if counted else None
        self._flops = None if work is None else {dtype.name: count for dtype, count in work.flops.items()}
        self._known: dict[tuple[int, ...], LaunchSizes] = {}

    def sizes(self, values: tuple[int, ...], environment: Mapping[Symbol, int]) -> LaunchSizes:
        """The launch at a call's sizes."""
        found = self._known.get(values)
        if found is None:
            space = tuple(-1 if (size := _value(dim, environment)) is None else size for dim in self._space)
            found = LaunchSizes(space, self._bytes(environment), self._operations(environment))
            self._known[values] = found
        return found

    def _bytes(self, environment: Mapping[Symbol, int]) -> int | None:
        try:
            return bytes_at(self._buffers, environment)
        except (DynError, KeyError):
            return None

    def _operations(self, environment: Mapping[Symbol, int]) -> Mapping[str, int] | None:
        if self._flops is None:
            return None
        found: dict[str, int] = {}
        for name, count in self._flops.items():
            number = _value(at_sizes(count, environment), environment)
            if number is None:
                return None
            found[name] = number
        return found


def _value(dim: Dim, environment: Mapping[Symbol, int]) -> int | None:
    """A formula's value; None where it has none, as of a size that was not known yet."""
    try:
        return evaluate(dim, environment)
    except (DynError, KeyError):
        return None
