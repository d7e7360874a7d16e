"""IPython extension: ``%load_ext dyn`` gives the magic ``%%dyn_explain``, and shows compiles that take long.

It needs IPython, which nothing else of dyn does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from html import escape
from typing import Any

from dyn import events

#: A compile that takes longer than this, in seconds, is shown while it goes on.
SHOWN_AFTER = 1.0
#: Seconds between two looks at what is being compiled.
_STEP = 0.25
#: Seconds that may lie between two stages of one compile.
_PAUSE = 0.25


def load(shell: Any) -> None:
    """Set the extension up in a shell; anew where it was."""
    unload(shell)
    shell.register_magic_function(_explain_magic(shell), magic_kind="cell", magic_name="dyn_explain")
    progress = shell.user_ns["_dyn_progress"] = Progress()
    events.listen_to_begins(progress.stage_began)
    events.listen(progress.stage_ended)


def unload(shell: Any) -> None:
    """Take back what :func:`load` set up."""
    progress = shell.user_ns.pop("_dyn_progress", None)
    if progress is not None:
        events.unlisten_to_begins(progress.stage_began)
        events.unlisten(progress.stage_ended)
    shell.magics_manager.magics["cell"].pop("dyn_explain", None)


# ---- %%dyn_explain ---------------------------------------------------------------------------------------------------


def _explain_magic(shell: Any) -> Any:
    def dyn_explain(line: str, cell: str) -> None:
        """Run a cell, then show ``explain()`` of each function of the notebook that compiled something in it.

        ``%%dyn_explain name …`` shows those of these names, whether they compiled or not.
        """
        from IPython.display import display

        before = _compiles(shell.user_ns)
        outcome = shell.run_cell(cell)
        if not outcome.success:
            return  # the error is shown already
        after = _compiles(shell.user_ns)
        wanted = line.split() or [name for name, count in after.items() if count != before.get(name, 0)]
        shown: set[int] = set()
        for name in wanted:
            function = shell.user_ns.get(name)
            if not callable(getattr(function, "explain", None)):
                raise NameError(
                    f"{name!r} is no function compiled by dyn; %%dyn_explain takes names of such functions."
                )
            if id(function) not in shown:
                shown.add(id(function))
                display(function.explain())
        if not wanted:
            print("dyn: nothing was compiled in this cell.")  # noqa: T201  # what a magic answers with

    return dyn_explain


def _compiles(namespace: Mapping[str, Any]) -> dict[str, int]:
    """The compiles so far of each function in a namespace."""
    counts: dict[str, int] = {}
    for name, value in list(namespace.items()):
        info = getattr(type(value), "cache_info", None)
        if not name.startswith("_") and info is not None and hasattr(type(value), "explain"):
            counts[name] = value.cache_info().compiles
    return counts


# ---- compiles that take long -----------------------------------------------------------------------------------------


class Progress:
    """A display of the compile that goes on, once it has taken ``SHOWN_AFTER`` seconds; taken away as it ends.

    It goes on while one of its stages does: one that fails, or that only lowers, has ended with its last stage.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: For each thread in a stage: the function, when its compile began, and the stage.
        self._compiling: dict[int, tuple[str, float, str]] = {}
        #: For each thread that was in one: the function, and when its compile began and its last stage ended.
        self._ended: dict[int, tuple[str, float, float]] = {}
        self._watcher: threading.Thread | None = None

    def stage_began(self, name: str, stage: str, start: float) -> None:
        """Take note of a stage: one that follows another of the same function at once is of the same compile."""
        thread = threading.get_ident()
        with self._lock:
            last, began, end = self._ended.pop(thread, ("", 0.0, 0.0))
            same = last == name and start - end < _PAUSE
            self._compiling[thread] = (name, began if same else start, stage)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="dyn progress", daemon=True)
                self._watcher.start()

    def stage_ended(self, name: str, stage: str, start: float, end: float) -> None:
        """Take note of the end of a stage."""
        thread = threading.get_ident()
        with self._lock:
            known = self._compiling.pop(thread, None)
            self._ended[thread] = (name, start if known is None else known[1], end)

    def _watch(self) -> None:
        handle: Any = None
        while True:
            time.sleep(_STEP)
            with self._lock:
                going = list(self._compiling.values())
                if not going:
                    self._watcher = None
                    break
            now = time.perf_counter()
            long = [one for one in going if now - one[1] >= SHOWN_AFTER]
            if long:
                handle = _show(handle, long, now)
        if handle is not None:
            _show(handle, [], 0.0)


def _show(handle: Any, compiles: list[tuple[str, float, str]], now: float) -> Any:
    """The display of some compiles, in the place of an earlier one."""
    from IPython.display import HTML, display

    lines = [
        f'<div><progress style="width:8em"></progress> compiling <code>{escape(name)}</code>: {now - began:.1f} s, '
        f"<code>{escape(stage)}</code></div>"
        for name, began, stage in compiles
    ]
    shown = HTML("".join(lines) or "<span></span>")
    if handle is None:
        return display(shown, display_id=True)
    handle.update(shown)
    return handle
