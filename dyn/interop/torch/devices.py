"""Devices of PyTorch's tensors: which programs take, where a program runs, and autocast on each kind of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from dyn.errors import NotYetError, UnsupportedOpError
from dyn.frontend.retrace import Retrace
from dyn.source import user_loc

#: The kinds of devices whose tensors programs take: this machine's processor, and GPUs, AMD's among them.
KINDS = ("cpu", "cuda")
CPU = torch.device("cpu")
#: An operation that takes tensors of several devices: indices may be the processor's, copies lead anywhere, and of an
#: operation on lists that on each entry is looked at.
_ACROSS = (
    "aten::copy", "aten::_to_copy", "aten::index", "aten::_index_put", "aten::_unsafe_index", "aten::set_data",
    "aten::_foreach_",
)  # fmt: skip


def common_device(devices: Iterable[torch.device]) -> torch.device:
    """The device of a program with tensors on these: the GPU among them, or this machine's processor.

    UnsupportedOpError for several GPUs.
    """
    found = list(dict.fromkeys([one for one in devices if one.type != "cpu"]))
    if len(found) > 1:
        raise UnsupportedOpError(
            f"tensors on {found[0]} and on {found[1]}.", loc=user_loc(), remedy="jit a function for each device."
        )
    return found[0] if found else CPU


def device_name(device: torch.device) -> str | None:
    """dyn's name for a device, ``"cuda:1"`` or ``"rocm"``; None for this machine's processor."""
    if device.type == "cpu":
        return None
    family = "cuda" if torch.version.hip is None else "rocm"
    return f"{family}:{device.index}" if device.index else family


def require_device(program: torch.device, device: torch.device) -> None:
    """Check that a program may have a tensor on ``device``.

    Raises Retrace where the program is for the processor and the tensor is not; NotYetError for another GPU.
    """
    if device.type not in ("cpu", "meta") and device != program:
        if program.type == "cpu":
            raise Retrace(lambda attempt: attempt.move_to(device))
        raise NotYetError(
            f"tensors on {program} and on {device}.", loc=user_loc(), remedy="jit a function for each device."
        )


def result_device(args: Any, kwargs: Any) -> torch.device:
    """Device of an operation's results: what it says, or where its tensors are. Numbers of the processor's go along."""
    said = kwargs.get("device")
    if said is not None:
        return torch.device(said)
    found = CPU
    for arg in args:
        for one in arg if isinstance(arg, list | tuple) else (arg,):
            if isinstance(one, FakeTensor):
                if one.fake_device.type != "cpu":
                    return one.fake_device
                found = one.fake_device
    return found


def check_devices(func: Any, args: Any, kwargs: Any) -> None:
    """Raise PyTorch's error for an operation of tensors on the processor and on a GPU: it takes numbers alone there."""
    if func._schema.name.startswith(_ACROSS):
        return
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, FakeTensor)]
    device = next((one.fake_device for one in tensors if one.fake_device.type != "cpu"), None)
    other = next((one for one in tensors if one.fake_device != device and one.ndim), None)
    if device is not None and other is not None:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{device} and {other.fake_device}!"
        )


#: Of each kind of device the dtype that autocast has there, or False where it is off.
Autocasts = tuple["torch.dtype | bool", ...]


def autocasts() -> Autocasts:
    """The state of autocast on each kind of device."""
    return tuple([torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) for kind in KINDS])


NO_AUTOCASTS: Autocasts = (False,) * len(KINDS)


@contextlib.contextmanager
def autocast(state: Autocasts) -> Iterator[None]:
    """Have autocast be in a state, on all kinds of devices."""
    with contextlib.ExitStack() as stack:
        for kind, dtype in zip(KINDS, state, strict=True):
            given = None if isinstance(dtype, bool) else dtype
            stack.enter_context(torch.autocast(kind, dtype=given, enabled=given is not None, cache_enabled=False))
        yield
