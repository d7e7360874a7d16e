"""jaxlib's MLIR bindings: their dialects and contexts, and their names of element types."""

from __future__ import annotations

import functools
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import BackendUnavailableError
from dyn.interop.stablehlo.mlir.untrusted_modules import open_context
from dyn.requirements import cause_of, install_extra

#: MLIR's names of element types.
ELEMENTS: dict[str, DType] = {
    "i1": dtypes.bool_, "i8": dtypes.int8, "i16": dtypes.int16, "i32": dtypes.int32, "i64": dtypes.int64,
    "ui8": dtypes.uint8, "ui16": dtypes.uint16, "ui32": dtypes.uint32, "ui64": dtypes.uint64,
    **{f"f8{d.short[2:].upper()}": d for d in dtypes.FLOAT8},
    "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64,
    "complex<f32>": dtypes.complex64, "complex<f64>": dtypes.complex128,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in ELEMENTS.items()}


@functools.lru_cache(maxsize=1)
def bindings() -> Any:
    """``jaxlib.mlir`` with the dialects that programs are read with; BackendUnavailableError without jaxlib."""
    try:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir.dialects import stablehlo
    except ImportError as error:
        raise BackendUnavailableError(
            f"StableHLO is read and written with the MLIR bindings of jaxlib, which cannot be imported ({error}).",
            remedy=f"install them with: {install_extra('jax')}",
        ) from cause_of(error)
    stablehlo.register_stablehlo_passes()
    return Bindings(ir, passmanager, stablehlo)


class Bindings:
    """The modules of the bindings that are used."""

    def __init__(self, ir: Any, passmanager: Any, stablehlo: Any) -> None:
        self.ir, self.passmanager, self.stablehlo = ir, passmanager, stablehlo

    def context(self) -> Any:
        """A context of its own for each module: contexts are not shared between threads."""
        return open_context()
