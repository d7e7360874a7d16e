"""jaxlib's MLIR bindings: their dialects and contexts, and their names of element types."""

from __future__ import annotations

import functools
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import BackendUnavailableError

#: MLIR's names of element types.
ELEMENTS: dict[str, DType] = {
    "i1": dtypes.bool_, "i8": dtypes.int8, "i16": dtypes.int16, "i32": dtypes.int32, "i64": dtypes.int64,
    "ui8": dtypes.uint8, "ui16": dtypes.uint16, "ui32": dtypes.uint32, "ui64": dtypes.uint64,
    "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64,
    "complex<f32>": dtypes.complex64, "complex<f64>": dtypes.complex128,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in ELEMENTS.items()}


@functools.lru_cache(maxsize=1)
def bindings() -> Any:
    """``jaxlib.mlir`` with the dialects that programs are read with; BackendUnavailableError without jaxlib."""
    try:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, sdy, stablehlo
    except ImportError as error:
        raise BackendUnavailableError(
            f"StableHLO is read and written with the MLIR bindings of jaxlib, which cannot be imported ({error}).",
            remedy='install them with: pip install "dyn[jax]"',
        ) from error
    stablehlo.register_stablehlo_passes()
    return Bindings(ir, passmanager, _jax_mlir_ext, stablehlo, (stablehlo, chlo, sdy))


class Bindings:
    def __init__(self, ir: Any, passmanager: Any, jax: Any, stablehlo: Any, dialects: tuple[Any, ...]) -> None:
        self.ir, self.passmanager, self.jax, self.stablehlo = ir, passmanager, jax, stablehlo
        self.dialects = dialects

    def context(self) -> Any:
        """A context of its own for each module: contexts are not shared between threads."""
        context = self.ir.Context()
        registry = self.ir.DialectRegistry()
        self.jax.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for dialect in self.dialects:
            dialect.register_dialect(context)
        return context
