"""The examples of the page "From TensorFlow" run, and give what it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import dyn
from tests.docs.examples import examples_of


def test_examples_run_and_give_what_is_shown(require_module: Callable[[str], ModuleType]) -> None:
    require_module("sybil")
    for example in examples_of(Path(dyn.__file__).parents[1] / "docs" / "from_tensorflow.md"):
        example.evaluate()
