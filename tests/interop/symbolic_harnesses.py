"""JAX's own examples of its primitives with symbolic sizes, run on dyn: a command, for there are thousands of them.

``python -m tests.interop.symbolic_harnesses --stride 10`` takes every tenth example and makes sizes of its arguments
symbols, as many as ``jax.export`` lets be: the first of :data:`LADDER` that it exports is the example's symbolic form.
The program is read, compiled once, run at the example's own sizes and at greater ones, and compared with JAX. An
example that JAX exports with no symbol at all, or that has no size to be one, is ``not exported``.

The options are those of ``tests.interop.harnesses``; ``--write`` puts the totals into ``symbolic_harnesses.json``
beside this file, and the table of them into ``docs/harnesses.md``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dyn.errors import ShapeError
from tests.interop.harness_page import tables, write_page
from tests.interop.harnesses import attempted, chosen, harnesses, parser, plain, run_all, short
from tests.interop.outcomes import Outcome, share, summary, table, write_summary

Shape = tuple[int, ...]
#: Which axes of which leaves are symbols, and what they are called.
Names = dict[tuple[int, int], str]
SUMMARY = Path(__file__).with_suffix(".json")
#: What sizes that are symbols become: first the example's own.
GROWTHS: tuple[Callable[[int], int], ...] = (lambda n: n, lambda n: n + 1, lambda n: 2 * n)


# --- symbols ----------------------------------------------------------------------------------------------------------


def distinct(shapes: Sequence[Shape]) -> Iterator[Names]:
    """Each axis of each argument is a symbol of its own."""
    yield {(i, a): f"d{i}_{a}" for i, shape in enumerate(shapes) for a, n in enumerate(shape) if n}


def shared(shapes: Sequence[Shape]) -> Iterator[Names]:
    """Equal sizes are one symbol; 1 stays 1, for it broadcasts."""
    yield {(i, a): f"n{n}" for i, shape in enumerate(shapes) for a, n in enumerate(shape) if n > 1}


def leading(shapes: Sequence[Shape]) -> Iterator[Names]:
    """The first axis of each argument: equal sizes are one symbol."""
    yield {(i, 0): f"n{shape[0]}" for i, shape in enumerate(shapes) if shape and shape[0]}


def single(shapes: Sequence[Shape]) -> Iterator[Names]:
    """One size at a time, with the axes that have it everywhere, then one axis at a time."""
    sizes = sorted({n for shape in shapes for n in shape if n > 1}, reverse=True)
    for size in sizes:
        yield {(i, a): f"n{size}" for i, shape in enumerate(shapes) for a, n in enumerate(shape) if n == size}
    for i, shape in enumerate(shapes):
        for a, n in enumerate(shape):
            if n:
                yield {(i, a): f"d{i}_{a}"}


Rung = Callable[[Sequence[Shape]], Iterator[Names]]
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
    names: Names


def symbolic(jax: Any, function: Any, args: Any) -> Symbolic | str:
    """The first choice of symbols that JAX exports, or why it exports none."""
    leaves, tree = jax.tree.flatten(args)
    shapes = [np.shape(leaf) for leaf in leaves]
    reason, tried = "it has no sizes", list[tuple[Names, bool]]()
    for rung, choose, bounded in LADDER:
        for names in choose(shapes):
            if not names or (names, bounded) in tried:
                continue
            tried.append((names, bounded))
            try:
                specs = jax.tree.unflatten(tree, specified(jax, leaves, names, bounded))
                return Symbolic(rung, jax.export.export(function)(*specs), names)
            except Exception as error:  # JAX's own limits are no concern of ours
                if len(tried) == 1:
                    reason = f"{type(error).__name__}: {short(str(error))}"
    return reason


def specified(jax: Any, leaves: Sequence[Any], names: Names, bounded: bool) -> list[Any]:
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


def run(name: str) -> Outcome:
    """Export an example with symbols, read it, run it at several sizes, compare."""
    warnings.simplefilter("ignore")
    harness, start = harnesses()[name], time.monotonic()
    kind, reason = example(harness)
    return Outcome(harness.group_name, name, kind, reason, round(time.monotonic() - start, 2))


def example(harness: Any) -> tuple[str, str]:
    """The outcome of an example, and why; of one that passed, which symbols it had and at how many sizes it ran."""
    import jax
    from jax import export  # noqa: F401  # pyright: ignore[reportUnusedImport]  # it is no part of "import jax"

    args = harness.dyn_args_maker(np.random.RandomState(0))
    function = jax.jit(harness.dyn_fun)
    program = symbolic(jax, function, args)
    if isinstance(program, str):
        return "not exported", program
    outcome, error = attempted(lambda: checked(jax, harness, function, args, program))
    kind, reason = outcome if error is None else error
    return kind, f"{reason} [{program.rung}]"


def checked(jax: Any, harness: Any, function: Any, args: Any, program: Symbolic) -> tuple[str, str]:
    """One compile, and JAX's results at each of the sizes that JAX takes."""
    from dyn.interop.stablehlo import load
    from tests.interop.tolerances import compared

    leaves, tree = jax.tree.flatten(args)
    loaded = load(program.exported.mlir_module_serialized, trusted=True)
    makers, sizes = makers_of(harness, len(leaves)), 0
    for grow in GROWTHS:
        given = grown(leaves, makers, program, grow)
        wanted, _ = attempted(lambda given=given: jax.tree.leaves(function(*jax.tree.unflatten(tree, given))))
        if wanted is None:
            continue  # the example takes no such sizes
        arrays = [plain(a) for i, a in enumerate(given) if i in program.exported.module_kept_var_idx]
        try:
            made = loaded(*arrays)
        except ShapeError:
            if sizes and refuses(program, tree, given, jax):
                continue
            raise
        results = [np.asarray(x) for x in (made if isinstance(made, tuple) else (made,))]
        used = jax.tree.unflatten(tree, given)
        kind, reason = compared(harness, used, results, [plain(a) for a in wanted])
        if kind != "passed":
            return kind, f"{reason}, at {'greater' if sizes else 'its own'} sizes"
        sizes += 1
    compiles = loaded.cache_info().compiles
    return ("passed", f"{sizes} sizes") if compiles == 1 else ("failed", f"{compiles} compiles of {sizes} sizes")


def refuses(program: Symbolic, tree: Any, leaves: Sequence[Any], jax: Any) -> bool:
    """Tell whether the exported program refuses sizes in JAX too."""
    _, error = attempted(lambda: program.exported.call(*jax.tree.unflatten(tree, leaves)))
    return error is not None


# --- tables -----------------------------------------------------------------------------------------------------------


def section(outcomes: Sequence[Outcome]) -> str:
    """The page's part on symbolic sizes, as Markdown."""
    made = summary(outcomes)
    kinds = Counter(o.kind for o in outcomes)
    rungs = Counter(o.reason.rpartition("[")[2].rstrip("]") for o in outcomes if o.kind == "passed")
    more = sum(not o.reason.startswith("1 size") for o in outcomes if o.kind == "passed")
    lines = [
        f"{len(outcomes):,} examples of JAX {made['jax']} were run with symbolic sizes: JAX exports "
        f"{len(outcomes) - kinds['not exported']:,} of them so, and {kinds['passed']:,} of these pass "
        f"({share(o.kind for o in outcomes):.2%}). {more:,} were compared at greater sizes too, with the same compile.",
        f"Symbols: {', '.join(f'{rung} {count:,}' for rung, count in rungs.most_common())}.",
        "",
        *tables(made),
    ]
    return "\n".join(lines).rstrip()


def main() -> int:
    options = parser().parse_args()
    names = in_turn(chosen(options.group, options.name, options.stride))
    outcomes = run_all("tests.interop.symbolic_harnesses:run", names, options)
    print(table(outcomes))
    if options.write:
        write_summary(SUMMARY, summary(outcomes))
        write_page("symbolic", section(outcomes))
    return 0 if all(o.kind in ("passed", "refused", "not exported") for o in outcomes) else 1


def in_turn(names: Sequence[str]) -> list[str]:
    """One example of each primitive, then the second of each: a run that is cut short has seen all primitives."""
    turns: Counter[str] = Counter()
    placed: list[tuple[int, str]] = []
    for name in names:
        group = harnesses()[name].group_name
        placed.append((turns[group], name))
        turns[group] += 1
    return [name for _, name in sorted(placed, key=lambda p: p[0])]


if __name__ == "__main__":
    sys.exit(main())
