"""Saved-tensor hooks of whoever calls a compiled function, kept out of what it traces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_NATIVE: Any = torch._C
_HOOKS: Any = _NATIVE._autograd


@contextlib.contextmanager
def without_callers_hooks() -> Iterator[None]:
    """Have autograd keep tensors as they are, though the caller packs them (``torch.utils.checkpoint`` without
    re-entrance, ``save_on_cpu``): a trace keeps traced ones, and a call that finds its program keeps others."""
    hooks: list[Any] = []
    while (found := _HOOKS._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(found)
        _HOOKS._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            _HOOKS._push_saved_tensors_default_hooks(pack, unpack)
