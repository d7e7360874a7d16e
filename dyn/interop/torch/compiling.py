"""PyTorch's settings for the whole process while anything is traced."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._dynamo.guards import set_is_in_mode_without_ignore_compile_internals
from torch.utils import _python_dispatch

from dyn.fork_safety import lock
from dyn.interop.torch.dynamo import count_frames


class _Compiling:
    """PyTorch's settings for the whole process while anything is traced: by the first trace that begins, and until the
    last one that goes on in any thread ends.

    ``torch.compiler.is_compiling()`` holds, as it does for ``torch.compile`` and ``torch.export``.
    ``torch.compile(fullgraph=True)`` is taken as inside of another such call. That a mode is active is noted: PyTorch's
    modes leave the note that they found, which is of another thread where they do not end in turn.
    """

    def __init__(self) -> None:
        self._lock = lock()
        self._traces = 0
        self._before: tuple[Any, ...] = ()

    @staticmethod
    def _taken_settings() -> tuple[Any, ...]:
        notes = [getattr(_python_dispatch, name) for name in _NOTES_OF_MODES]
        return count_frames(0), torch.compiler._is_compiling_flag, *notes

    @staticmethod
    def _set(frames: int, is_compiling: bool, *notes: bool) -> None:
        count_frames(frames)
        torch.compiler._is_compiling_flag = is_compiling
        for name, is_active in zip(_NOTES_OF_MODES, notes, strict=True):
            setattr(_python_dispatch, name, is_active)
        set_is_in_mode_without_ignore_compile_internals(notes[-1])

    def _set_for_traces(self) -> None:
        self._set(0, True, *[True for _ in _NOTES_OF_MODES])

    def __enter__(self) -> None:
        with self._lock:
            if not self._traces:
                self._before = self._taken_settings()
                self._set_for_traces()
            self._traces += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._traces -= 1
            if self._traces:
                self._set_for_traces()
            else:
                self._set(*self._before)


#: Where PyTorch notes that a mode is active; Dynamo's native code has the last one, too.
_NOTES_OF_MODES = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)

COMPILING = _Compiling()
