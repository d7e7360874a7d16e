"""Waiting for collectives, in whose pieces it has been done (:mod:`dyn.interop.torch.collectives`)."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dyn.interop.torch.collectives import WAIT, check_collective
from dyn.interop.torch.converters import IN_PLACE
from dyn.interop.torch.tensors import record_of
from dyn.interop.torch.tracing import TorchTracing


def _wait(tracing: TorchTracing, tensor: FakeTensor) -> Any:
    """The tensor itself. Raises NotYetError for one from outside, which another call may be filling."""
    record = record_of(tensor)
    if record.storage.origin is not None:
        check_collective(torch.ops._c10d_functional.wait_tensor.default)
    geometry = tensor.shape, tensor.stride()
    return tracing.maker.made(record, *geometry, tensor.dtype, tensor.fake_device)


@functools.wraps(_wait)
def _run(tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _wait(tracing, *args, **kwargs)


if torch.distributed.is_available():
    _name, _overload = WAIT.partition("::")[2], "default"
    IN_PLACE[getattr(getattr(torch.ops._c10d_functional, _name), _overload)] = _run
