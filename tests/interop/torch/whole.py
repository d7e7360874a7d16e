"""Asserting that dyn has compiled all of a function of PyTorch."""

from __future__ import annotations

from typing import Any

import dyn.interop.torch as dyn_torch
from dyn.interop.torch import TorchJitted


def nothing_fell_back(compiled: Any) -> None:
    """Assert that a function of ``jit`` or ``torch.compile`` was called, and that eager PyTorch made no call of it and
    ran no operation of its programs."""
    report = dyn_torch.explain(compiled)
    told = [report, *report.parts]
    assert [text for one in told for text in one.failures] == []
    assert [text for one in told for way in one.ways for text in way.pieces] == []
    assert "eager PyTorch" not in str(report)
    assert any(one.versions for one in told), "nothing has been compiled"
    if isinstance(compiled, TorchJitted):
        assert [program.fallback_reason for program in compiled.programs if program.fallback_reason is not None] == []
