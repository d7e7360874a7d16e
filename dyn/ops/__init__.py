"""Every op, once. Importing this package fills ``dyn.ir.opdef.REGISTRY``."""

from dyn.ir.opdef import REGISTRY
from dyn.ops import (
    bits,
    complex,
    contract,
    control,
    convolution,
    elementwise,
    gather,
    indexing,
    library,
    map,
    measure,
    reduce,
    reduce_window,
    rejection,
    scatter,
    shape,
    threefry,
    variadic_reduce,
    variadic_reduce_window,
    window_choice,
)
from dyn.ops.scalar import Scalar

#: The ops that dyn itself is made of: what others define is no part of its version.
OWN_OPS = frozenset(REGISTRY.values())

__all__ = [
    "OWN_OPS", "Scalar", "bits", "complex", "contract", "control", "convolution", "elementwise", "gather", "indexing",
    "library", "map", "measure", "reduce", "reduce_window", "rejection", "scatter", "shape", "threefry",
    "variadic_reduce", "variadic_reduce_window", "window_choice",
]  # fmt: skip
