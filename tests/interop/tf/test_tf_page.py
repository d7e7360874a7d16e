"""The examples of the page "From TensorFlow" run, and give what it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import dyn
from tests.docs.examples import run_in_fresh_process


def test_examples_run_and_give_what_is_shown(require_module: Callable[[str], ModuleType], tmp_path: Path) -> None:
    require_module("sybil")
    run_in_fresh_process(Path(dyn.__file__).parents[1] / "docs" / "from_tensorflow.md", tmp_path)
