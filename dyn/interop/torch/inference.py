"""Inference mode (``torch.inference_mode``) in traces, whose tensors are ordinary ones all the same.

PyTorch counts the writes to a tensor and to its views together, and an inference tensor has no count. A view of a
parameter is an ordinary tensor in inference mode, too; one that Python makes there would be an inference tensor, and is
refused. So tensors of a trace are made outside of the mode, without gradients: what the function asks of the mode has
PyTorch's answer.

Composite operations are called once more outside of the mode: PyTorch takes them apart where autograd is, which the
mode leaves out, and a trace would come to them whole. So a program is the one of ``torch.no_grad``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

_NATIVE: Any = torch._C


def ordinary_tensors() -> AbstractContextManager[None]:
    """Have tensors that are made count their writes, in inference mode, too."""
    return _outside_of_inference() if torch.is_inference_mode_enabled() else nullcontext()


@contextmanager
def called_again() -> Iterator[None]:
    """In the handler of a composite operation: have it called again as it was, autocast and all, but outside of
    inference mode."""
    with _NATIVE._RestorePythonTLSSnapshot(), _outside_of_inference():  # the handler is below all of that
        yield


@contextmanager
def _outside_of_inference() -> Iterator[None]:
    with torch._C._InferenceMode(False), torch.no_grad():  # leaving the mode alone would record gradients
        yield
