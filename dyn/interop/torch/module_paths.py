"""The paths of modules that a traced function calls: ``encoder.layer.3.attention``, beside the lines of their code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from dyn.source import within_module
from dyn.trace.patched_names import Replacement

#: What calls a module, as PyTorch has it.
_CALL: Any = torch.nn.Module.__call__


class ModulePaths:
    """The paths of modules below the outermost one that is called, found when it is: each by its first path."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}

    def of(self, module: torch.nn.Module) -> str:
        """The path of a module; ``""`` for an outermost one."""
        if id(module) not in self._paths:
            self._add(module, "")
        return self._paths[id(module)]

    def _add(self, module: torch.nn.Module, path: str) -> None:
        if id(module) in self._paths:
            return
        self._paths[id(module)] = path
        parts = object.__getattribute__(module, "__dict__").get("_modules", {})  # which no condition is to be about
        for name, part in parts.items():
            if part is not None:
                self._add(part, f"{path}.{name}" if path else name)


def _called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    paths = _CALLER.current
    if paths is None:
        return _CALL(module, *args, **kwargs)
    with within_module(paths.of(module)):
        return _CALL(module, *args, **kwargs)


_CALLER: Replacement[ModulePaths] = Replacement(torch.nn.Module, "__call__", _called)


@contextlib.contextmanager
def noting_modules() -> Iterator[None]:
    """Have lines that this thread traces be said to be those of the modules that are called."""
    with _CALLER.active(ModulePaths()):
        yield
