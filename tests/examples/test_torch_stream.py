"""The example of PyTorch, run as `make torch` runs it, on a small stream."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def needed(require_module: Callable[[str], ModuleType]) -> None:
    require_module("torch")
    require_module("transformers")


def example(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "torch_stream.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_small_stream() -> None:
    done = example("--layers", "1", "--hidden", "32", "--shapes", "3", "--steps", "2", "--skip-inductor")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("without Inductor", "inference", "BertForMaskedLM: 1 compile", "kernels: ", "training"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shapes", "0"], "argument --shapes: 0 is less than 1"),
        (["--hidden", "40"], "argument --hidden: 40 is not a multiple of 32"),
    ],
)
def test_bad_arguments(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: another one imports PyTorch and its models for seconds before it reads its arguments."""
    from examples import torch_stream

    monkeypatch.setattr(sys, "argv", ["torch_stream.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        torch_stream.main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
