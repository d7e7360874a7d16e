"""The examples in a page of the documentation: blocks of Python, and sessions whose answers are compared.

A block is ```` ```python ````, a session ```` ```pycon ````. All of a page share one namespace, in their order, which
is empty at first: somebody may paste a page into a fresh Python, from top to bottom. A block that needs another machine
comes after ``<!-- skip: next if(…) -->``.

``python -m tests.docs.examples docs/start.md`` runs a page.
"""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import unittest
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The modules that pages with examples need beside the package's own.
PAGES: dict[str, tuple[str, ...]] = {
    "adding_a_backend.md": (),
    "adding_a_front_end.md": (),
    "adding_a_pass.md": (),
    "adding_an_op.md": (),
    "arrays.md": (),
    "callbacks.md": ("scipy",),
    "errors.md": (),
    "explain.md": (),
    "debugging.md": (),
    "from_jax.md": ("jax",),
    "from_numpy.md": (),
    "from_pytorch.md": ("torch",),
    "gpu.md": ("cuda.bindings.nvrtc",),
    "how_it_works.md": (),
    "index.md": (),
    "jax.md": ("jax",),
    "onnx.md": ("onnx", "jax"),
    "performance_guide.md": (),
    "profiling.md": (),
    "random.md": (),
    "runtime.md": (),
    "schedules.md": (),
    "serving.md": ("torch",),
    "settings.md": (),
    "stablehlo.md": ("jax",),
    "stitching.md": (),
    "start.md": (),
    "symbolic_sizes.md": (),
    "torch.md": ("torch", "transformers"),
    "training.md": ("torch",),
}


def examples_of(path: Path) -> Iterable[Any]:
    """The examples of a page, in order, each with ``evaluate()``, which raises where it gives something else."""
    from sybil import Document, Region, Sybil
    from sybil.evaluators.doctest import DocTestEvaluator
    from sybil.parsers.abstract import DocTestStringParser
    from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

    blocks = CodeBlockParser("pycon", DocTestEvaluator())
    session = DocTestStringParser(DocTestEvaluator(doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE))

    def sessions(document: Document) -> Iterator[Region]:
        for block in blocks(document):
            for region in session(block.parsed, document.path):
                region.adjust(block, block.parsed)
                yield region

    return Sybil([PythonCodeBlockParser(), sessions, SkipParser()]).parse(path).examples()


def run(path: Path) -> int:
    """Run a page's examples in this process; the number of those that ran."""
    count = 0
    for example in examples_of(path):
        try:
            example.evaluate()
            count += not isinstance(example.parsed, tuple)  # that of a directive, which says what to skip
        except unittest.SkipTest as reason:
            print(f"{path.name}:{example.line}: not run: {reason}")
    return count


def run_in_fresh_process(path: Path, folder: Path) -> str:
    """What a page prints whose examples run in a process of their own, in a folder; it ends with their number.

    An AssertionError with what it wrote last, where an example fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.docs.examples", str(path)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{path.name}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    """Run pages, and tell how many examples of each ran."""
    for argument in arguments:
        print(f"{run(Path(argument))} examples of {argument} ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
