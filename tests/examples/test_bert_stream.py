"""The demo, run as `make demo` runs it, on a small stream."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def demo(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "bert_stream.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_small_stream(tmp_path: Path):
    done = demo("--layers", "1", "--shapes", "6", "--check", "2", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("BERT, 1 layers", "compiles", "1 in ", "6 shapes", "on 2 shapes", "p50, ms", "bert_stream.png"):
        assert words in done.stdout
    assert (tmp_path / "bert_stream.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shapes", "0"], "argument --shapes: 0 is less than 1"),
        (["--shapes", "5000"], "there are only 1992 different shapes, not 5000."),
        (["--weights", "none.safetensors"], "none.safetensors"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: list[str], words: str):
    done = demo(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
