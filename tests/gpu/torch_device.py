"""PyTorch on the software GPU: its own tensors on ``cuda``, in a build of PyTorch that has no CUDA.

PyTorch makes tensors on devices that it was not built for of DLPack's capsules, and asks nobody. What it lacks is its
kernels: here every operation is computed by the processor, of copies, and views are made as they are of any tensor.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

from dyn import dtypes
from dyn.runtime import dlpack
from dyn.runtime.device_memory import DeviceBlock, copy_to_device, copy_to_host
from dyn.runtime.dlpack import DeviceTensor, export_capsule
from dyn.runtime.driver import Context
from tests.gpu.software import SoftwareGpu
from tests.shim import unit

#: DLPack's number of the kind.
_CUDA = 2
#: The driver's functions that ``torch_guard.cpp`` calls, in its order.
_FUNCTIONS = (
    "get_current", "set_current", "create_event", "record_event", "wait_event", "destroy_event", "synchronize",
)  # fmt: skip
_GUARD = Path(__file__).with_name("torch_guard.cpp")
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
#: What the processor's kernels do to any tensor: they look at sizes alone.
_VIEWS = ("aten::as_strided", "aten::view", "aten::_reshape_alias", "aten::unfold", "aten::set_")


class TorchDevice:
    """The device 0 of a context as PyTorch's ``cuda``, and the streams that are current there, a thread each."""

    def __init__(self, context: Context, gpu: SoftwareGpu, guard: ctypes.CDLL) -> None:
        self.context, self.counters, self._guard = context, gpu.counters, guard

    @property
    def stream(self) -> int:
        """The current stream of this thread."""
        return self._guard.current_stream()

    @contextlib.contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """``torch.cuda.stream``"""
        before = self.stream
        self._guard.set_current_stream(ctypes.c_int64(stream))
        try:
            yield
        finally:
            self._guard.set_current_stream(ctypes.c_int64(before))

    def empty(self, size: Any, dtype: torch.dtype, stride: Any = None) -> torch.Tensor:
        """A tensor with memory of its own, full of nothing in particular."""
        steps = torch.empty(size, dtype=dtype, device="meta").stride() if stride is None else tuple(stride)
        nbytes = torch.empty_strided(size, steps, dtype=dtype, device="meta").untyped_storage().nbytes()
        block = DeviceBlock.allocate(self.context, nbytes, self.stream)
        own = dtypes.dtype(str(dtype).removeprefix("torch."))
        shape = DeviceTensor(block.address, (_CUDA, self.context.ordinal), own.dlpack, (nbytes // own.itemsize,))
        made = torch._C._from_dlpack(export_capsule(shape, block, versioned=False))
        return torch.as_strided(made, tuple(size), steps)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor of the processor's."""
        made = self.empty(tensor.shape, tensor.dtype)
        self._write(made, tensor)
        return made

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy for the processor, of the same strides."""
        nbytes = tensor.untyped_storage().nbytes()
        words = np.empty(nbytes, np.uint8)
        copy_to_host(self.context, words.ctypes.data, tensor.untyped_storage().data_ptr(), nbytes, self.stream)
        flat = torch.from_numpy(words).view(tensor.dtype) if nbytes else torch.empty(0, dtype=tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _write(self, target: torch.Tensor, value: torch.Tensor) -> None:
        """Give a tensor other elements: all of its memory is read and written."""
        with torch.no_grad():
            here = self.to_host(target)
            here.copy_(value)
            nbytes = target.untyped_storage().nbytes()
            place = target.untyped_storage().data_ptr()
            copy_to_device(self.context, place, here.untyped_storage().data_ptr(), nbytes, self.stream)

    def run(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """An operation with tensors on the device."""
        name = op._schema.name
        if name in _VIEWS:
            return op.redispatch(_CPU, *args, **kwargs)
        if name in ("aten::empty", "aten::empty_strided"):
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            return self.empty(args[0], dtype, args[1] if name == "aten::empty_strided" else None)
        copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

        def here(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
                return copies.setdefault(id(leaf), (leaf, self.to_host(leaf)))[1]
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        own_args, own_kwargs = tree_map(here, (args, kwargs))
        made = op(*own_args, **own_kwargs)
        written = [copies[id(one)] for one in self._written(op, args, kwargs) if id(one) in copies]
        for leaf, copy in written:
            self._write(leaf, copy)
        back = {id(copy): leaf for leaf, copy in written}
        wants_cpu = torch.device(kwargs.get("device") or "cuda").type == "cpu"

        def there(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or wants_cpu or (written and id(leaf) not in back):
                return leaf
            return back[id(leaf)] if id(leaf) in back else self.to_device(leaf)

        return tree_map(there, made)

    @staticmethod
    def _written(op: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for number, one in enumerate(op._schema.arguments):
            if one.alias_info is not None and one.alias_info.is_write:
                value = kwargs.get(one.name) if number >= len(args) else args[number]
                found += value if isinstance(value, list | tuple) else [value]
        return found


@contextlib.contextmanager
def torch_on(context: Context, gpu: SoftwareGpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchDevice]:
    """Have PyTorch's ``cuda`` be a device, for a while."""
    guard = ctypes.CDLL(str(_guard()))
    guard.current_stream.restype = ctypes.c_int64
    device = TorchDevice(context, gpu, guard)
    functions = [context.driver.address(name) for name in _FUNCTIONS]
    guard.use((ctypes.c_uint64 * (len(functions) + 1))(*functions, context.handle))
    libraries = [torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")]
    libraries[0].fallback(device.run, "CUDA")
    for op in (torch.ops.aten.copy_.default,):  # PyTorch has one kernel for all kinds of devices
        libraries[1].impl(op, functools.partial(device.run, op), "CUDA")
    for name, function in {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "current_device": lambda: context.ordinal,
        "current_stream": lambda device_=None: SimpleNamespace(cuda_stream=device.stream),
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_rng_state": lambda device_="cuda": torch.zeros(16, dtype=torch.uint8),  # Dynamo keeps it
        "set_rng_state": lambda state, device_="cuda": None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, function)
    if context.driver.vendor.family == "rocm":  # a PyTorch that was built for it calls its devices "cuda"
        from_capsule = torch._C._from_dlpack

        def renamed(capsule: Any) -> torch.Tensor:
            name = dlpack._get_name(capsule)
            dlpack._KINDS[name].from_address(dlpack._get_pointer(capsule, name)).tensor.device = _CUDA
            return from_capsule(capsule)

        monkeypatch.setattr(torch.version, "hip", "6.0")
        monkeypatch.setattr(torch._C, "_from_dlpack", renamed)
    try:
        yield device
    finally:
        guard.use(None)
        for library in libraries:
            library._destroy()


def _guard() -> Path:
    """The library of what PyTorch asks of devices of the kind."""
    root = Path(torch.__file__).parent
    options = ["-std=c++20", "-O0", "-fPIC", "-shared"]
    options += [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]

    def make(folder: Path) -> None:
        linked = [
            *[str(root / "lib" / f"lib{name}.so") for name in ("torch_cpu", "c10")],
            "-o",
            str(folder / "guard.so"),
        ]
        unit.run_compiler([[*options, str(_GUARD), *linked]])

    return unit.kept([_GUARD.read_text("utf-8"), torch.__version__], make) / "guard.so"
