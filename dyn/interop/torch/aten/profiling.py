"""Ranges of PyTorch's profiler, which are about the trace and not about the program."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dyn.interop.torch.aten.tables import in_place, operation
from dyn.interop.torch.tracing import TorchTracing


def _as_it_is(name: str) -> None:
    function = operation(name)

    def run(tracing: TorchTracing, *args: Any) -> Any:
        with _disable_current_modes():
            return function(*args)

    in_place(name)(run)


_ = torch.autograd.profiler  # declares the operations
for _name in ("_record_function_enter_new.default", "_record_function_exit._RecordFunction"):
    _as_it_is(f"profiler::{_name}")
