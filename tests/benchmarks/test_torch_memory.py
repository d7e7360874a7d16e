"""The memory benchmark's tables, and a step in its own process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from benchmarks.process import ROOT
from benchmarks.suites import torch_memory

pytest.importorskip("transformers")


def test_tables() -> None:
    peaks = dict(zip(torch_memory.WHO, (200, 100, 150, 50), strict=True))
    found = [(3, {who: {"peak": peak * 2.0**20, "cpu": 0.25, "loss": 1.0} for who, peak in peaks.items()})]
    arguments = argparse.Namespace(layers="3", hidden=64, shape="2x8", words=100)
    report = torch_memory.report(found, arguments, 1.0)
    assert report.tables[0].rows == (("3", "200", "100", "150", "50", "0.50×", "0.75×", "0.25×"),)
    assert report.tables[1].rows == (("3", "250", "250", "250", "250"),)
    assert "batch × length 2 × 8" in report.notes[1]


@pytest.mark.slow
def test_a_process() -> None:
    request = {"who": "dyn, low", "layers": 1, "hidden": 64, "shape": "2x8", "words": 100}
    command = [sys.executable, "-m", "benchmarks.suites.torch_memory", json.dumps(request)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak"] >= 0
    assert found["cpu"] > 0
