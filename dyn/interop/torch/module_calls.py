"""Calls of modules, which the thread that makes them may have made in another way: while it traces, with the paths of
modules (``encoder.layer.3.attention``) beside the lines of their code; in methods of a compiled module, by the compiled
module."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from dyn.source import within_module
from dyn.trace.patched_names import Replacement

#: What calls a module, as PyTorch has it.
_CALL: Any = torch.nn.Module.__call__


class Caller(Protocol):
    """Calls a module."""

    def __call__(self, module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """The result of a call of a module."""


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

    def call(self, module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """The result of a call of a module, in whose code lines are said to be the module's."""
        with within_module(self.of(module)):
            return _CALL(module, *args, **kwargs)


def _called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    call = _CALLER.current
    return _CALL(module, *args, **kwargs) if call is None else call(module, *args, **kwargs)


_CALLER: Replacement[Caller] = Replacement(torch.nn.Module, "__call__", _called)


@contextlib.contextmanager
def noting_modules() -> Iterator[None]:
    """Have lines that this thread traces be said to be those of the modules that are called."""
    with _CALLER.active(ModulePaths().call):
        yield


#: A class of a library, and a method by which its own methods have a module compiled by ``torch.compile``:
#: ``generate`` of transformers does for static caches on GPUs.
_COMPILING = ("transformers.modeling_utils", "PreTrainedModel", "get_compiled_call")


@functools.cache
def _compiling(owner: Any, name: str) -> Replacement[bool]:
    """A method that gives what calls a module, rather than what ``torch.compile`` makes of that."""
    of_library = getattr(owner, name)

    def get(module: Any, *args: Any, **kwargs: Any) -> Any:
        return of_library(module, *args, **kwargs) if replacement.current is None else module.__call__

    replacement: Replacement[bool] = Replacement(owner, name, get)
    return replacement


@contextlib.contextmanager
def calls_made_by(choose: Callable[[torch.nn.Module], Callable[..., Any] | None]) -> Iterator[None]:
    """Have this thread's calls of modules made by what ``choose`` gives for one. In what that does, and where it gives
    None, modules are called as before."""
    outer = _CALLER.current or _CALL
    file, kind, name = _COMPILING
    owner = getattr(sys.modules.get(file), kind, None)

    def call(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        with _CALLER.active(outer):
            chosen = choose(module)
            if chosen is not None:
                return chosen(*args, **kwargs)
        return outer(module, *args, **kwargs)

    with _CALLER.active(call), contextlib.nullcontext() if owner is None else _compiling(owner, name).active(True):
        yield
