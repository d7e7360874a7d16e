"""Asserting that dyn has compiled all of a function of PyTorch."""

from __future__ import annotations

from typing import Any

import dyn.interop.torch as dyn_torch
from dyn.interop.torch import TorchJitted


def nothing_fell_back(compiled: Any) -> None:
    """Assert that a function of ``jit`` or ``torch.compile`` was called, and that eager PyTorch made no call of it and
    ran no operation of its programs."""
    text = dyn_torch.explain(compiled)
    assert "eager PyTorch" not in text, text
    assert "nothing has been compiled" not in text, text
    if isinstance(compiled, TorchJitted):
        programs = compiled._in_order()
        assert [one for program in programs for pieces in program.pieces for one in pieces] == []
        assert [program.failure for program in programs if program.failure is not None] == []
