"""ONNX: models as functions of dyn, for inference. The ``onnx`` package reads them."""

from __future__ import annotations

import importlib
from typing import Any

from dyn.errors import BackendUnavailableError
from dyn.late_imports import import_whole
from dyn.requirements import install_extra

try:
    importlib.import_module("onnx")
except ImportError as _error:
    raise BackendUnavailableError(
        f"the onnx package cannot be imported ({_error}).", remedy=f"install it with: {install_extra('onnx')}"
    ) from None

import_whole("dyn.interop.onnx.load")
from dyn.interop.onnx.load import load  # noqa: E402

__all__ = ["load"]


def __dir__() -> list[Any]:
    return __all__
