"""Number of threads that PyTorch allows (``torch.set_num_threads``), which calls of dyn's code keep to."""

from __future__ import annotations

import contextlib
import functools

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


_UNLIMITED = contextlib.nullcontext()
_cpus = functools.cache(usable_cpus)
