"""PyTorch's threads: how many it allows (``torch.set_num_threads``), and those on which autograd pulls cotangents."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from dyn import config
from dyn.backends.runtime import usable_cpus


def thread_limit() -> int:
    """The number of threads that PyTorch allows, where it is less than dyn's setting; 0 otherwise."""
    allowed = torch.get_num_threads()
    return allowed if allowed < (config.current().num_threads or _cpus()) else 0


def limited() -> contextlib.AbstractContextManager[object]:
    """Have calls use no more threads than PyTorch allows."""
    limit = thread_limit()
    return config.override(num_threads=limit) if limit else _UNLIMITED


def in_callers_context(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with the context variables, dyn's settings among them, of who has called ``backward()``.

    Autograd pulls cotangents of tensors on GPUs on threads of its own, and tells these what they were.
    """
    if not torch._C._is_key_in_tls("context"):
        return function(*arguments)
    return torch._C._get_obj_in_tls("context").copy().run(function, *arguments)


_UNLIMITED = contextlib.nullcontext()
_cpus = functools.cache(usable_cpus)
