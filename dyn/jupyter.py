"""IPython extension: ``%load_ext dyn`` gives the magic ``%%dyn_explain``, and shows compiles sooner that take long.

It needs IPython, which nothing else of dyn does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyn.progress import SHOWN_AFTER, WATCH

#: A compile that takes longer than this, in seconds, is shown while it goes on.
SHOWN_IN_NOTEBOOKS_AFTER = 1.0


def load(shell: Any) -> None:
    """Set the extension up in a shell; anew where it was."""
    unload(shell)
    shell.register_magic_function(_explain_magic(shell), magic_kind="cell", magic_name="dyn_explain")
    WATCH.after = SHOWN_IN_NOTEBOOKS_AFTER


def unload(shell: Any) -> None:
    """Take back what :func:`load` set up."""
    WATCH.after = SHOWN_AFTER
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
