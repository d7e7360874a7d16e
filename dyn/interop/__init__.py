"""Front ends, a folder each: StableHLO, JAX, PyTorch, TensorFlow, Keras and ONNX.

``dyn.interop.torch`` and its kin are imported when they are first asked for, and with them the library.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from dyn.late_imports import import_whole

_FRONT_ENDS = ("jax", "keras", "onnx", "stablehlo", "tf", "torch")


def __getattr__(name: str) -> ModuleType:
    if name in _FRONT_ENDS:
        import_whole(f"dyn.interop.{name}")
        return import_module(f"dyn.interop.{name}")
    raise AttributeError(f"module 'dyn.interop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FRONT_ENDS})
