"""JAX's own examples of its primitives with symbolic sizes, run on dyn: a command, for there are thousands of them.

``python -m tests.interop.symbolic_harnesses --stride 10`` takes every tenth example and makes sizes of its arguments
symbols, as many as ``jax.export`` lets be: the first of :data:`LADDER` that it exports is the example's symbolic form.
The program is read, compiled once, run at the example's own sizes and at greater ones, and compared with JAX.

Each example runs in one of two processes; one that dies or takes longer than ``--limit`` seconds is an outcome like any
other. ``--results FILE`` keeps outcomes as lines of JSON, and what is in it already is not run again; ``--document``
writes the tables of that file into ``docs/harnesses.md``.
"""

from __future__ import annotations

import argparse
import collections
import json
import queue
import re
import select
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dyn.errors import DynError, NotYetError, ShapeError, UnsupportedOpError
from tests.interop.harnesses import compared, harnesses, short

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
KINDS = ("passed", "refused", "failed", "crashed", "not exported", "no sizes")
WORKERS = 2
DOCUMENT = Path(__file__).parents[2] / "docs" / "harnesses.md"


@dataclass(frozen=True)
class Outcome:
    """What became of one example.

    ``refused``: dyn says that it has not that; ``crashed``: the process died, or took too long; ``not exported``: JAX
    exports it with no symbol at all; ``no sizes``: it has none, or all are 0, which JAX's symbols never are.
    """

    group: str
    name: str
    kind: str
    reason: str = ""
    #: Which choice of symbols JAX accepted, and how many of the greater sizes could be compared.
    symbols: str = ""
    sizes: int = 0


# --- symbols ----------------------------------------------------------------------------------------------------------


def distinct(shapes: Sequence[Shape]) -> Iterator[dict[tuple[int, int], str]]:
    """Each axis of each argument is a symbol of its own."""
    yield {(i, a): f"d{i}_{a}" for i, shape in enumerate(shapes) for a, n in enumerate(shape) if n}


def shared(shapes: Sequence[Shape]) -> Iterator[dict[tuple[int, int], str]]:
    """Equal sizes are one symbol; 1 stays 1, for it broadcasts."""
    yield {(i, a): f"n{n}" for i, shape in enumerate(shapes) for a, n in enumerate(shape) if n > 1}


def leading(shapes: Sequence[Shape]) -> Iterator[dict[tuple[int, int], str]]:
    """The first axis of each argument: equal sizes are one symbol."""
    yield {(i, 0): f"n{shape[0]}" for i, shape in enumerate(shapes) if shape and shape[0]}


def single(shapes: Sequence[Shape]) -> Iterator[dict[tuple[int, int], str]]:
    """One size at a time, with the axes that have it everywhere, then one axis at a time."""
    sizes = sorted({n for shape in shapes for n in shape if n > 1}, reverse=True)
    for size in sizes:
        yield {(i, a): f"n{size}" for i, shape in enumerate(shapes) for a, n in enumerate(shape) if n == size}
    for i, shape in enumerate(shapes):
        for a, n in enumerate(shape):
            if n:
                yield {(i, a): f"d{i}_{a}"}


Rung = Callable[[Sequence[Shape]], Iterator[dict[tuple[int, int], str]]]
#: What is tried in turn: which axes are symbols, and whether they are known to be as great as the example's sizes.
LADDER: tuple[tuple[str, Rung, bool], ...] = (
    ("distinct", distinct, False),
    ("shared", shared, False),
    ("distinct, bounded", distinct, True),
    ("shared, bounded", shared, True),
    ("leading", leading, False),
    ("leading, bounded", leading, True),
    ("single", single, False),
    ("single, bounded", single, True),
)


@dataclass(frozen=True)
class Symbolic:
    """An example's program with symbols: which axes of which leaves they are."""

    rung: str
    exported: Any
    names: dict[tuple[int, int], str]


def symbolic(jax: Any, function: Any, args: Any, static: str = "") -> Symbolic | str:
    """The first choice of symbols that JAX exports, or why it exports none."""
    leaves, tree = jax.tree.flatten(args)
    shapes = [np.shape(leaf) for leaf in leaves]
    reason, tried = "", list[dict[tuple[int, int], str]]()
    for rung, choose, bounded in LADDER:
        for names in choose(shapes):
            if not names or (names, bounded) in tried:
                continue
            tried.append((names, bounded))  # pyright: ignore[reportArgumentType]
            try:
                specs = jax.tree.unflatten(tree, specified(jax, leaves, names, bounded))
                return Symbolic(rung, jax.export.export(function)(*specs), names)
            except Exception as error:  # JAX's own limits are no concern of ours
                reason = reason or f"{type(error).__name__}: {error}"
    return reason


def specified(jax: Any, leaves: Sequence[Any], names: dict[tuple[int, int], str], bounded: bool) -> list[Any]:
    """Leaves as JAX exports functions of them."""
    least: dict[str, int] = {}
    for (i, axis), name in names.items():
        least[name] = max(least.get(name, 1), np.shape(leaves[i])[axis])
    scope = jax.export.SymbolicScope([f"{k} >= {v}" for k, v in least.items() if v > 1] if bounded else ())
    specs: list[Any] = []
    for i, leaf in enumerate(leaves):
        words = [names.get((i, axis), str(n)) for axis, n in enumerate(np.shape(leaf))]
        if any(not w.isdigit() for w in words):
            shape = jax.export.symbolic_shape(f"({', '.join(words)},)", scope=scope)
            specs.append(jax.ShapeDtypeStruct(shape, leaf.dtype))
        else:
            specs.append(leaf)
    return specs


def grown(leaves: Sequence[Any], makers: Sequence[Any], program: Symbolic, grow: Callable[[int], int]) -> list[Any]:
    """Leaves with greater sizes where they are symbols: as the example makes them, or its own elements again."""
    made: list[Any] = []
    for i, leaf in enumerate(leaves):
        shape = np.shape(leaf)
        wanted = tuple([grow(n) if (i, axis) in program.names else n for axis, n in enumerate(shape)])
        if wanted == shape:
            made.append(leaf)
        elif makers[i] is not None:
            made.append(makers[i](wanted))
        else:
            made.append(np.pad(np.asarray(leaf), [(0, w - n) for w, n in zip(wanted, shape, strict=True)], "wrap"))
    return made


def makers_of(harness: Any, count: int) -> list[Any]:
    """How an example makes arguments of a shape, for those that are random."""
    from jax._src.internal_test_util import test_harnesses

    found: list[Any] = []
    for descriptor in harness.arg_descriptors:
        if isinstance(descriptor, test_harnesses.RandArg):
            dtype = descriptor.dtype
            found.append(lambda shape, dtype=dtype: harness.rng_factory(np.random.RandomState(1))(shape, dtype))
        elif not isinstance(descriptor, test_harnesses.StaticArg):
            found.append(None)
    return found if len(found) == count else [None] * count


# --- one example ------------------------------------------------------------------------------------------------------


def run(harness: Any) -> Outcome:
    """Export it with symbols, read it, run it at several sizes, compare."""
    import jax
    from jax import export  # noqa: F401  # pyright: ignore[reportUnusedImport]  # it is no part of "import jax"

    from dyn.interop.stablehlo import load

    group, name = harness.group_name, harness.fullname
    args = harness.dyn_args_maker(np.random.RandomState(0))
    leaves, tree = jax.tree.flatten(args)
    if not any(n for leaf in leaves for n in np.shape(leaf)):
        return Outcome(group, name, "no sizes")
    function = jax.jit(harness.dyn_fun)
    program = symbolic(jax, function, args)
    if isinstance(program, str):
        return Outcome(group, name, "not exported", first_words(program))
    checked = 0
    try:
        loaded = load(program.exported.mlir_module_serialized)
        makers = makers_of(harness, len(leaves))
        for grow in GROWTHS:
            given = grown(leaves, makers, program, grow)
            try:
                wanted = jax.tree.leaves(function(*jax.tree.unflatten(tree, given)))
            except Exception:
                if grow is GROWTHS[0]:
                    raise
                continue  # the example takes no such sizes
            arrays = [np.asarray(a) for i, a in enumerate(given) if i in program.exported.module_kept_var_idx]
            try:
                made = loaded(*arrays)
            except ShapeError as error:
                if grow is not GROWTHS[0] and refuses(jax, program, tree, given):
                    continue
                return Outcome(group, name, "failed", short(error), program.rung)
            kind, reason = compared(made if isinstance(made, tuple) else (made,), wanted)
            if kind != "passed":
                return Outcome(group, name, kind, f"{reason} at {'its own' if not checked else 'greater'} sizes")
            checked += 1
        compiles = loaded.cache_info().compiles
        if compiles != 1:
            return Outcome(group, name, "failed", f"{compiles} compiles", program.rung)
    except (UnsupportedOpError, NotYetError) as error:
        return Outcome(group, name, "refused", short(error), program.rung)
    except DynError as error:
        return Outcome(group, name, "failed", short(error), program.rung)
    except Exception as error:
        return Outcome(group, name, "failed", f"{type(error).__name__}: {str(error)[:100]}", program.rung)
    return Outcome(group, name, "passed", "", program.rung, checked - 1)


GROWTHS: tuple[Callable[[int], int], ...] = (lambda n: n, lambda n: n + 1, lambda n: 2 * n)


def refuses(jax: Any, program: Symbolic, tree: Any, leaves: Sequence[Any]) -> bool:
    """Whether the exported program refuses sizes in JAX too."""
    try:
        program.exported.call(*jax.tree.unflatten(tree, leaves))
    except Exception:
        return True
    return False


def first_words(text: str) -> str:
    return re.sub(r"\d+", "…", text.split("\n", 1)[0])[:110]


# --- many of them -----------------------------------------------------------------------------------------------------


def worker() -> None:
    """Run the examples whose names come in, one outcome a line."""
    import jax

    warnings.simplefilter("ignore")
    chosen = {h.fullname: h for h in harnesses(None, 1)}
    out = sys.stdout
    sys.stdout = sys.stderr
    with jax.enable_x64(True):
        print(json.dumps("ready"), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(asdict(run(chosen[json.loads(line)]))), file=out, flush=True)


class Worker:
    """A process that runs examples, made again when it dies."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._process: subprocess.Popen[str] | None = None

    def run(self, group: str, name: str) -> Outcome:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(name) + "\n")
            process.stdin.flush()
            line = self._line(process, self._limit)
        except (BrokenPipeError, TimeoutError) as error:
            late = isinstance(error, TimeoutError)
            self.end()
            return Outcome(group, name, "crashed", f"longer than {self._limit:g} s" if late else "the process died")
        if not line:
            status = process.wait()
            self.end()
            return Outcome(group, name, "crashed", f"the process died with status {status}")
        return Outcome(**json.loads(line))

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [sys.executable, "-m", "tests.interop.symbolic_harnesses", "--worker"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            if not self._line(self._process, 300):
                raise RuntimeError("a process that runs examples does not start")
        return self._process

    @staticmethod
    def _line(process: subprocess.Popen[str], limit: float) -> str:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], limit)
        if not ready:
            raise TimeoutError
        return process.stdout.readline()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run_all(chosen: Sequence[tuple[str, str]], limit: float, workers: int, note: Callable[[Outcome], None]) -> None:
    """Run examples, by group and name, in ``workers`` processes."""
    pending: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for item in chosen:
        pending.put(item)

    def loop() -> None:
        process = Worker(limit)
        while True:
            try:
                group, name = pending.get_nowait()
            except queue.Empty:
                return process.end()
            note(process.run(group, name))

    threads = [threading.Thread(target=loop) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_turn(chosen: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """One of each primitive, then the second of each: a run that is cut short has seen all."""
    turns: collections.Counter[str] = collections.Counter()
    placed: list[tuple[int, tuple[str, str]]] = []
    for group, name in chosen:
        placed.append((turns[group], (group, name)))
        turns[group] += 1
    return [item for _, item in sorted(placed, key=lambda p: p[0])]


def read_results(path: Path | None) -> dict[str, Outcome]:
    if path is None or not path.exists():
        return {}
    outcomes = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    return {o.name: o for o in outcomes}


# --- tables -----------------------------------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> str:
    """Counts by primitive, then the reasons, as Markdown."""
    groups = sorted({o.group for o in outcomes})
    lines = [f"| primitive | {' | '.join(KINDS)} |", "|---|" + "---|" * len(KINDS)]
    for group in [*groups, "all"]:
        counts = collections.Counter(o.kind for o in outcomes if group in (o.group, "all"))
        lines.append(f"| {group} | {' | '.join(str(counts[k] or '') for k in KINDS)} |")
    reasons = collections.Counter((o.kind, o.reason) for o in outcomes if o.reason and o.kind != "not exported")
    if reasons:
        lines += ["", "| | what | why | for example |", "|---|---|---|---|"]
    for (kind, reason), count in reasons.most_common(60):
        first = next(o.name for o in outcomes if (o.kind, o.reason) == (kind, reason))
        lines.append(f"| {count} | {kind} | {reason.replace('|', chr(92) + '|')} | `{first}` |")
    return "\n".join(lines)


def summary(outcomes: Sequence[Outcome]) -> str:
    counts = collections.Counter(o.kind for o in outcomes)
    ran = sum(counts[k] for k in ("passed", "refused", "failed", "crashed"))
    rungs = collections.Counter(o.symbols for o in outcomes if o.kind == "passed")
    return (
        f"{counts['passed']} of {ran} that JAX exports with symbols pass ({counts['passed'] / max(ran, 1):.1%}); "
        f"{counts['not exported']} are not exported with symbols, {counts['no sizes']} have no sizes. "
        f"Symbols: {', '.join(f'{k} {v}' for k, v in rungs.most_common())}. "
        f"{sum(o.sizes > 0 for o in outcomes)} were compared at greater sizes too."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", help="the examples of one primitive alone")
    parser.add_argument("--name", help="the examples whose name has this")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return 0
    done = read_results(options.results)
    chosen = [(h.group_name, h.fullname) for h in harnesses(options.group, 1)]
    chosen = chosen[options.offset :: options.stride]
    chosen = [(g, n) for g, n in chosen if not options.name or options.name in n]
    outcomes = [done[n] for _, n in chosen if n in done]

    def note(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if options.results is not None:
            with options.results.open("a") as file:
                print(json.dumps(asdict(outcome)), file=file)

    run_all(in_turn([(g, n) for g, n in chosen if n not in done]), options.limit, options.workers, note)
    print(table(outcomes), summary(outcomes), sep="\n\n")
    return 0 if all(o.kind in ("passed", "refused", "not exported", "no sizes") for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
