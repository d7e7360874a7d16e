"""Programs in memory by number: what a recording of calls refers to."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary

from dyn.fork_safety import lock
from dyn.frozen import record

if TYPE_CHECKING:
    from dyn.backends.device_programs import DeviceProgram
    from dyn.backends.host_programs import Interface, LoadedProgram

    AnyProgram = LoadedProgram | DeviceProgram


@record()
class Known:
    """A program that a recording may mention: the name of its function, and its interface.

    Programs of the same name and code share the interface of the first of them.
    """

    name: str
    interface: Interface


class _ProgramRegistry:
    """The programs of this process. Those that are recorded are known after their end, but not kept alive."""

    numbers: ClassVar = count(1)

    def __init__(self) -> None:
        self.lock = lock()
        self.live: WeakValueDictionary[int, AnyProgram] = WeakValueDictionary()
        #: While calls are recorded, all programs that there have been since, and an interface for each code.
        self.known: dict[int, Known] | None = None
        self.by_code: dict[object, Known] = {}

    def register(self, program: AnyProgram) -> int:
        number = next(self.numbers)
        self.live[number] = program
        if self.known is not None:
            with self.lock:
                self.note(number, program)
        return number

    def note(self, number: int, program: AnyProgram) -> None:
        if self.known is not None:
            name = program.interface.function.name
            known = Known(name, program.interface)
            self.known[number] = self.by_code.setdefault((name, program.address, program.kernels), known)


_PROGRAMS = _ProgramRegistry()


def register(program: AnyProgram) -> int:
    """A number for a new program, by which it is known while it lives, and longer if calls are recorded then."""
    return _PROGRAMS.register(program)


def remember() -> None:
    """Keep what is known of the programs that there are, and of those that come, until :func:`forget`."""
    with _PROGRAMS.lock:
        _PROGRAMS.known = {}
        for reference in _PROGRAMS.live.valuerefs():  # a list, while other threads add to the table
            program = reference()
            if program is not None:
                _PROGRAMS.note(reference.key, program)


def forget() -> None:
    """Keep nothing of programs that have ended any more."""
    with _PROGRAMS.lock:
        _PROGRAMS.known, _PROGRAMS.by_code = None, {}


def remembered() -> dict[int, Known]:
    """The programs since :func:`remember`, by number."""
    with _PROGRAMS.lock:
        return dict(_PROGRAMS.known or {})
