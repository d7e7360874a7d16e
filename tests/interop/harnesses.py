"""JAX's own examples of its primitives, run on dyn: a command, for there are thousands of them.

``python -m tests.interop.harnesses --stride 10`` exports every tenth one, reads the module, compiles and runs it, and
compares with JAX. It prints a table by primitive, and the reasons of what did not pass, the most frequent ones first.
``--group NAME`` takes those of one primitive alone (or of several: ``--group sin,cos``), ``--name TEXT`` those whose
name contains a text, and ``--only-read`` traces them and goes no further. Each runs in a process that may crash.

``--results FILE`` keeps the outcomes, so that the next run takes only those that have not passed. ``--write`` puts the
totals into ``harnesses.json`` beside this file, from which ``python -m tests.coverage`` has them, and into
``docs/harnesses.md``.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.harness_page import section, write_page
from tests.interop.outcomes import Outcome, append, read_outcomes, summary, table, write_summary
from tests.interop.processes import Lost, in_processes

#: Environment of the processes: passes are verified, nothing is left on the disk, and JAX has 64 bits.
SETUP = {"DYN_VERIFY": "1", "DYN_CACHE_DIR": "0", "DYN_NUM_THREADS": "1", "JAX_ENABLE_X64": "1"}
SUMMARY = Path(__file__).parent / "harnesses.json"


@lru_cache(maxsize=1)
def harnesses() -> dict[str, Any]:
    """JAX's examples that it runs on a CPU, by their names, and in their order: JAX's own is that of sets of types."""
    import jax

    state = np.random.get_state()
    np.random.seed(0)  # the module draws some arguments while it is imported
    with jax.enable_x64(True):
        from jax._src.internal_test_util import test_harnesses
    np.random.set_state(state)
    by_name = sorted(test_harnesses.all_harnesses, key=lambda h: h.fullname)
    return {h.fullname: h for h in by_name if _runs_here(h)}


def _runs_here(harness: Any) -> bool:
    limits = [limit for limit in harness.jax_unimplemented if limit.filter(device="cpu", dtype=harness.dtype)]
    return harness.filter("cpu") and not any(limit.skip_run for limit in limits)


def run(name: str) -> Outcome:
    """Export an example, read it, run it, compare."""
    return _timed(name, only_read=False)


def only_read(name: str) -> Outcome:
    """Export an example and read it."""
    return _timed(name, only_read=True)


def _timed(name: str, *, only_read: bool) -> Outcome:
    warnings.simplefilter("ignore")
    harness, start = harnesses()[name], time.monotonic()
    kind, reason = example(harness, only_read=only_read)
    return Outcome(harness.group_name, name, kind, reason, round(time.monotonic() - start, 2))


def example(harness: Any, *, only_read: bool) -> tuple[str, str]:
    """The outcome of one example, and why."""
    import jax
    from jax import export

    from dyn.interop.stablehlo import load
    from tests.interop.tolerances import compared

    args = harness.dyn_args_maker(np.random.RandomState(0))  # what its makers call
    function = jax.jit(harness.dyn_fun)
    try:
        exported = export.export(function)(*args)
    except Exception as error:  # JAX's own limits are no concern of ours
        return "not exported", f"{type(error).__name__}: {_line(str(error))}"

    def made() -> list[Any] | None:
        loaded = load(exported.mlir_module_serialized, trusted=True)
        leaves = [plain(a) for i, a in enumerate(jax.tree.leaves(args)) if i in exported.module_kept_var_idx]
        if only_read:
            loaded.trace(*leaves)
            return None
        results = loaded(*leaves)
        return list(results) if isinstance(results, tuple) else [results]

    actual, outcome = attempted(made)
    if outcome is not None:
        return outcome
    if actual is None:
        return "passed", ""
    wanted = [plain(a) for a in jax.tree.leaves(function(*args))]
    return compared(harness, args, [np.asarray(x) for x in actual], wanted)


def attempted(work: Callable[[], Any]) -> tuple[Any, tuple[str, str] | None]:
    """The result of ``work``, or its outcome: ``refused`` where dyn says that it has not that, else ``failed``."""
    from dyn.errors import DynError, NotYetError, UnsupportedOpError

    try:
        return work(), None
    except (UnsupportedOpError, NotYetError) as error:
        return None, ("refused", short(error.problem))
    except DynError as error:
        return None, ("failed", f"{type(error).__name__}: {short(error.problem)}")
    except Exception as error:
        return None, ("failed", f"{type(error).__name__}: {_line(str(error))}")


def plain(array: Any) -> Any:
    """An array of NumPy's; of random keys their data."""
    import jax

    if hasattr(array, "dtype") and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)


def short(problem: str) -> str:
    """A reason without what differs from one example to the next."""
    return re.sub(r"\([^()]*\)|\[[^\]]*\]|\d+", "…", _line(problem))


def _line(text: str) -> str:
    return " ".join(text.split())[:160]


def outcome_of(task: str, answer: Any) -> Outcome:
    """An answer of a process, or its loss, which is no outcome yet."""
    if isinstance(answer, Lost):
        return Outcome(
            harnesses()[task].group_name, task, "failed" if answer.kind == "raised" else answer.kind, answer.reason
        )
    return answer


def chosen(group: str | None, part: str | None, stride: int) -> list[str]:
    """The names of examples, in their order."""
    groups = set(group.split(",")) if group else None
    every = [n for n, h in harnesses().items() if groups is None or h.group_name in groups]
    return [n for n in every if part is None or part in n][::stride]


def parser() -> argparse.ArgumentParser:
    """The options, which other runs over the same examples share."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--group", help="primitives, with commas between them")
    made.add_argument("--name", help="a part of the examples' names")
    made.add_argument("--stride", type=int, default=1)
    made.add_argument("--only-read", action="store_true")
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--limit", type=float, default=120.0, help="seconds for one example")
    made.add_argument("--results", type=Path, help="a file of outcomes, one a line: what passed in it is not run again")
    made.add_argument("--write", type=Path, nargs="?", const=SUMMARY, help="write the totals")
    return made


def run_all(work: str, names: Sequence[str], options: argparse.Namespace) -> list[Outcome]:
    """The outcomes of these examples: those of ``--results`` that passed, and the others', which are run now."""
    known = {o.name: o for o in read_outcomes(options.results)} if options.results else {}
    left = [n for n in names if n not in known or known[n].kind not in ("passed", "not exported")]
    started = time.monotonic()
    for number, (task, answer) in enumerate(
        in_processes(work, left, workers=options.workers, limit=options.limit, setup=SETUP), 1
    ):
        known[task] = outcome_of(task, answer)
        if options.results:
            append(options.results, known[task])
        if sys.stderr.isatty() or number % 200 == 0:
            spent = time.monotonic() - started
            print(f"\r{number} of {len(left)} in {spent:.0f} s", end="", file=sys.stderr, flush=True)
    return [known[n] for n in names]


def main() -> int:
    options = parser().parse_args()
    names = chosen(options.group, options.name, options.stride)
    work = "tests.interop.harnesses:" + ("only_read" if options.only_read else "run")
    outcomes = run_all(work, names, options)
    print(table(outcomes))
    if options.write:
        write_summary(options.write, summary(outcomes))
        write_page("static", section(summary(outcomes)))
    return 0 if all(o.kind in ("passed", "refused", "not exported") for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
