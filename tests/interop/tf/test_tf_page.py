"""The examples of the pages on TensorFlow run, and give what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import dyn
from tests.docs.examples import run_in_fresh_process


@pytest.mark.parametrize("page", ["from_tensorflow.md", "tensorflow.md"])
def test_examples_run_and_give_what_is_shown(
    page: str, require_module: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    require_module("sybil")
    run_in_fresh_process(Path(dyn.__file__).parents[1] / "docs" / page, tmp_path)
