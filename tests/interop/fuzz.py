"""Modules that nobody meant, read and traced: a command, for there are thousands of them.

``python -m tests.interop.fuzz --count 10000 --seed 0`` mutates texts, bytecode and portable artifacts (``fuzz_seeds``,
``fuzz_mutations``), reads each in a process with limits (``fuzz_process``), and prints how many of them became what.
What is neither traced nor refused with an error of dyn's is a finding; its module is written into ``--keep``.
``--only NUMBER`` prints what becomes of one of them, whose module is a function of the seed and its number alone.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.interop.fuzz_mutations import mutated
from tests.interop.fuzz_process import Outcome, Source, examined
from tests.interop.fuzz_seeds import seeds

#: Modules for one task of a worker.
_CHUNK = 200


def case(corpus: Mapping[str, Source], seed: int, number: int) -> tuple[str, Source]:
    """The module of a number, with the name of what it was."""
    rng = random.Random(f"{seed}:{number}")
    name = rng.choice(list(corpus))
    return name, mutated(corpus[name], list(corpus.values()), rng)


Found = tuple[int, str, Outcome]
_corpus: dict[str, Source] = {}


def _begin(corpus: Mapping[str, Source]) -> None:
    _corpus.update(corpus)


def _examined(seed: int, first: int, last: int) -> list[Found]:
    cases = [case(_corpus, seed, number) for number in range(first, last)]
    made = examined([source for _, source in cases])
    return [(first + i, name, outcome) for i, ((name, _), outcome) in enumerate(zip(cases, made, strict=True))]


def run(count: int, seed: int, workers: int) -> Iterator[Found]:
    """The outcomes of the modules 0 … count-1."""
    # Workers fork, and JAX, which some of the corpus comes from, has threads: they begin without it.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, fresh, initializer=_begin, initargs=(seeds(),)) as pool:
        tasks = [pool.submit(_examined, seed, first, min(count, first + _CHUNK)) for first in range(0, count, _CHUNK)]
        for task in tasks:
            yield from task.result()


def table(found: list[Found]) -> str:
    """How many became what, by the form of the module."""
    forms = ("text", "bytecode", "artifact")

    def form(name: str) -> str:
        last = name.rpartition(".")[2]
        return last if last in forms else "text"

    counts = collections.Counter((outcome.kind, form(name)) for _, name, outcome in found)
    kinds = sorted({kind for kind, _ in counts}, key=lambda k: -sum(counts[k, f] for f in forms))
    lines = [f"{'':24s}" + "".join(f"{f:>10s}" for f in (*forms, "all"))]
    for kind in kinds:
        numbers = [counts[kind, f] for f in forms]
        lines.append(f"{kind:24s}" + "".join(f"{n:10d}" for n in (*numbers, sum(numbers))))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.only is not None:
        name, source = case(seeds(), options.seed, options.only)
        print(name, source, examined([source])[0], sep="\n")
        return 0
    found: list[Found] = []
    for number, name, outcome in run(options.count, options.seed, options.workers):
        found.append((number, name, outcome))
        if outcome.finding:
            print(f"{number} ({name}): {outcome.kind}: {outcome.said}", flush=True)
    print(table(found))
    findings = [number for number, _, outcome in found if outcome.finding]
    if options.keep is not None and findings:
        options.keep.mkdir(parents=True, exist_ok=True)
        corpus = seeds()
        for number in findings:
            _, source = case(corpus, options.seed, number)
            suffix = "mlir" if isinstance(source, str) else "bin"
            data = source.encode(errors="surrogatepass") if isinstance(source, str) else source
            (options.keep / f"{options.seed}_{number}.{suffix}").write_bytes(data)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
