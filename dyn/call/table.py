"""Call tables: a jitted function's plans, linked for the native entry, which makes the calls that they describe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dyn import config
from dyn.backends.native_entry import LazyEntry
from dyn.backends.runtime import native_runtime
from dyn.backends.runtime_tables import entry_functions
from dyn.backends.workers import begin_apart
from dyn.call.form import CallForm, NoPlanError
from dyn.call.plan import plan_record
from dyn.call.records import Row, Words, records
from dyn.call.results import Results
from dyn.call.surroundings import NO_SURROUNDINGS, Surroundings
from dyn.call.version import version_record
from dyn.fork_safety import lock
from dyn.hosts.cpython import addresses, fast_path
from dyn.runtime.entry.layout import EntryPlan, EntryTable, EntryVersion, SizeOp, TestRecord
from dyn.trace.context import trace_variable

if TYPE_CHECKING:
    from dyn.backends.loaded_programs import AnyProgram

#: A function has at most so many plans; a form of call that comes later takes the slow path.
MOST_PLANS = 64
_ENTRY = LazyEntry()
#: An instruction of a test of sizes: what it does, a number or a leaf, and that leaf's axis.
Step = tuple[SizeOp, int, int]


def _addresses(*, copies: bool) -> list[int]:
    return addresses(trace_variable(), config.context_variable(), entry_functions(copies=copies))


@lru_cache(maxsize=1)
def begin_loading() -> None:
    """Load the native runtime and the native entry in a thread of its own, which compiles them where they are not on
    disk: every first call needs them at its end, and traces meanwhile, which leaves a processor idle."""

    def load() -> None:
        native_runtime()
        if config.current().calls_natively and fast_path() is None and threading.main_thread().is_alive():
            _ENTRY.get(lambda: _addresses(copies=False))

    begin_apart(load)


class CallTable:
    """A jitted function's call table, and the built-in function that reads it.

    ``slow`` takes the calls that no plan is for. The built-in keeps it and the table alive, and nothing else does.
    ``state`` is asked at each call for what else, beside arguments and settings of dyn, decides what a call is; its
    answer has to equal that of the plan. It raises nothing.
    """

    def __init__(self, slow: Callable[..., Any], state: Callable[[], Any] | None = None) -> None:
        self._lock = lock()
        self._table = Words(EntryTable.BYTES // 8)
        self._plans: dict[Any, tuple[Words, list[AnyProgram]]] = {}
        self._table.object(EntryTable.SLOW, slow)
        if state is not None:
            self._table.object(EntryTable.STATE, state)
        entry = _ENTRY.get(lambda: _addresses(copies=False))
        self.function = entry.function(self._table.address, slow, self._table)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more plans."""
        return len(self._plans) >= MOST_PLANS

    @property
    def hits(self) -> int:
        """Number of calls that the entry has made."""
        return self._table.get(EntryTable.HITS)

    def add(
        self, make: Callable[[], CallForm], program: AnyProgram, results: Results,
        test: Sequence[Step] = (),
        donated: Callable[[CallForm], Mapping[int, str | None]] = lambda form: {},
        around: Surroundings = NO_SURROUNDINGS,
        copies: bool = False,
    ) -> None:  # fmt: skip
        """Let the entry make calls of a form, such as ``program`` has just made, if it can.

        ``test`` is what the sizes of a call of that form have to be for the program, beside the program's own guards.
        ``make`` gives the form; it may raise NoPlanError. ``donated`` gives the leaves that such calls use up, beside
        NumPy's arrays: those of ``dyn.Array`` with what they are labelled with, others with None. ``around`` is what
        the program relies on beside the arguments. ``copies`` says that arrays in this machine's memory are copied to
        the program's device, whatever their sizes.
        """
        if self.is_full or not program.native:
            return
        try:
            form = make()
        except NoPlanError:
            return
        key = form.key()
        with self._lock:
            known = self._plans.get(key)
            plan, programs = (plan_record(form), []) if known is None else known
            if form.copies or program in programs:  # the entry has passed this call on, or would the next one
                _ENTRY.complete(lambda: _addresses(copies=True))
            if program in programs:
                return
            try:
                version, room = version_record(program, results, form, donated(form), around, copies=copies)
            except NoPlanError:
                return
            if test:
                rows: list[Row] = [
                    {TestRecord.OP: op, TestRecord.VALUE: value, TestRecord.AXIS: axis}
                    for op, value, axis in (*test, (SizeOp.END, 0, 0))
                ]
                version.memory(EntryVersion.TEST, records(rows, TestRecord.BYTES))

            # Sizes first, then the link: a call that finds the version has room for it.
            for field, count in room.items():
                plan.put(field, max(plan.get(field), count))
            version.put(EntryVersion.NEXT, plan.get(EntryPlan.VERSIONS))
            plan.memory(EntryPlan.VERSIONS, version)
            programs.append(program)
            if known is None:
                plan.put(EntryPlan.NEXT, self._table.get(EntryTable.PLANS))
                self._table.memory(EntryTable.PLANS, plan)
                self._plans[key] = (plan, programs)


def make_table(slow: Callable[..., Any], state: Callable[[], Any] | None = None) -> CallTable | None:
    """A call table, where there is a fast path and the settings want it."""
    return CallTable(slow, state) if fast_path() is None and config.current().calls_natively else None
