"""Modules that talk to other processes at each call, and the parts of them that are compiled.

``DistributedDataParallel`` and modules that ``fully_shard`` has sharded do work in Python around each call, which no
program does: such a call is eager PyTorch's. What is between is not: the largest parts of it that talk to nobody are
functions of their own (``torch.nn.Module.compile`` leaves its own in the same place), and so is the ``forward`` of a
sharded module with nothing sharded inside of it, which runs between its hooks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

import torch
from torch.nn.modules.module import _forward_unimplemented
from torch.nn.parallel import DistributedDataParallel

from dyn.errors import NotYetError
from dyn.native_callable import NativeCallable
from dyn.source import user_loc


class DistributedModuleError(NotYetError):
    """A module that talks to other processes is called in a trace."""

    def __init__(self, module: torch.nn.Module, problem: str, remedy: str) -> None:
        super().__init__(problem, loc=user_loc(), remedy=remedy)
        self.module = module


def check_module(module: torch.nn.Module) -> None:
    """Raise DistributedModuleError for a module whose calls do in Python what they must do each time."""
    if isinstance(module, DistributedDataParallel):
        raise DistributedModuleError(
            module,
            "DistributedDataParallel, which gets ready at each call to add up gradients.",
            "compile the module in it: DistributedDataParallel(dyn.interop.torch.jit(module)).",
        )
    if isinstance(module, _sharded("FSDPModule", "FullyShardedDataParallel")):
        raise DistributedModuleError(
            module,
            "a module that is sharded, which gathers its parameters at each call.",
            "call it outside of the function, or leave out strict=True: its parts are compiled then.",
        )


def _sharded(*names: str) -> tuple[type, ...]:
    """Classes of ``torch.distributed.fsdp``, which takes long to import: none where nobody has."""
    module = sys.modules.get("torch.distributed.fsdp")
    return () if module is None else tuple([getattr(module, name) for name in names])


def gathered(function: Callable[..., Any]) -> list[torch.nn.Parameter]:
    """The parameters of a module, or of the module whose method ``function`` is, that a sharded module has gathered:
    their memory is freed after the call, and is other memory at the next one."""
    module = function.__self__ if isinstance(function, MethodType) else function
    if not isinstance(module, torch.nn.Module):
        return []
    managed = [one for one in module.modules() if getattr(one, "_is_fsdp_managed_module", False)]
    found = [parameter for one in managed for parameter in one.parameters(recurse=False)]
    return [parameter for parameter in found if type(parameter) is torch.nn.Parameter]  # shards are DTensors


def compile_parts(modules: Iterable[torch.nn.Module], make: Callable[[Callable[..., Any], str], Any]) -> list[Any]:
    """Have the parts of those modules that talk to other processes, or have such modules in them, called as compiled
    functions: those that ``make(function, name)`` gives. Returns all of them, each once.

    They stay so, whoever calls the module. What has been compiled before is left as it is.
    """
    found = [part for module in modules if _count(module) for part in _compiled(module, make)]
    return list({id(part): part for part in found}.values())


def _compiled(module: torch.nn.Module, make: Callable[[Callable[..., Any], str], Any]) -> list[Any]:
    if isinstance(module, NativeCallable):
        return [module]
    name, own, count = type(module).__name__, module.__dict__, _count(module)
    if not count and type(module).forward is not _forward_unimplemented:
        if module._compiled_call_impl is None:
            module._compiled_call_impl = make(module._call_impl, name)
        return [module._compiled_call_impl]
    if count == 1 and isinstance(module, _sharded("FSDPModule")):
        if "forward" not in own:
            own["forward"] = make(module.forward, name)
        return [own["forward"]]
    if isinstance(module, _sharded("FullyShardedDataParallel")):
        return []  # its parameters are other tensors at each call
    return [part for child in module.children() for part in _compiled(child, make)]


def _count(module: torch.nn.Module) -> int:
    """Number of modules that talk to other processes, of a module and those in it."""
    talking = (DistributedDataParallel, *_sharded("FSDPModule", "FullyShardedDataParallel"))
    return sum(isinstance(one, talking) for one in module.modules())
