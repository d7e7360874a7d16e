"""The examples in a page of the documentation: blocks of Python, and sessions whose answers are compared.

A block is ```` ```python ````, a session ```` ```pycon ````. All of a page share one namespace, in their order. A block
that cannot run by itself comes after ``<!-- skip: next -->``.
"""

from __future__ import annotations

import doctest
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

#: The pages whose examples run, and the modules that they need beside the package's own.
PAGES: dict[str, tuple[str, ...]] = {
    "start.md": (),
    "symbolic_sizes.md": (),
    "settings.md": (),
    "errors.md": (),
    "from_numpy.md": (),
    "explain.md": (),
    "from_jax.md": ("jax",),
    "from_pytorch.md": ("torch",),
    "serving.md": (),
    "torch.md": ("torch", "transformers"),
    "training.md": ("torch",),
    "adding_an_op.md": (),
    "adding_a_pass.md": (),
    "adding_a_backend.md": (),
    "how_it_works.md": (),
    "runtime.md": (),
    "performance_guide.md": (),
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
