"""Every op, once. Importing this package fills ``dyn.ir.opdef.REGISTRY``."""

from dyn.ops import (
    bits,
    complex,
    contract,
    convolution,
    elementwise,
    gather,
    indexing,
    library,
    map,
    reduce,
    reduce_window,
    scatter,
    shape,
    variadic_reduce,
    variadic_reduce_window,
)
from dyn.ops.scalar import Scalar

__all__ = [
    "Scalar", "bits", "complex", "contract", "convolution", "elementwise", "gather", "indexing", "library", "map",
    "reduce", "reduce_window", "scatter", "shape", "variadic_reduce", "variadic_reduce_window",
]  # fmt: skip
