"""Every op, once. Importing this package fills ``dyn.ir.opdef.REGISTRY``."""

from dyn.ir.opdef import REGISTRY
from dyn.ops import (
    barrier,
    batch_norm,
    bitcasts,
    bits,
    checkpoint,
    complex,
    composite,
    contract,
    control,
    convolution,
    custom_call,
    custom_derivatives,
    data_dependent,
    elementwise,
    erf_inverse,
    factorizations,
    fft,
    gather,
    indexing,
    library,
    map,
    reduce,
    reduce_precision,
    reduce_window,
    rejection,
    rng_bit_generator,
    scatter,
    select_and_scatter,
    shape,
    solving,
    sort_by,
    special,
    spectral,
    threefry,
    top_k,
    triangular,
    variadic_reduce,
    variadic_reduce_window,
    variadic_scatter,
    window_choice,
)
from dyn.ops.scalar import Scalar

#: The ops that dyn itself is made of: what others define is no part of its version.
OWN_OPS = frozenset(REGISTRY.values())

__all__ = [
    "OWN_OPS", "Scalar", "barrier", "batch_norm", "bitcasts", "bits", "checkpoint", "complex", "composite",
    "contract", "control", "convolution", "custom_call", "custom_derivatives", "elementwise", "erf_inverse",
    "factorizations", "fft", "gather", "indexing", "library", "map", "data_dependent", "reduce", "reduce_precision",
    "reduce_window", "rejection", "rng_bit_generator", "scatter", "select_and_scatter", "shape", "solving", "sort_by",
    "special", "spectral", "threefry", "top_k", "triangular", "variadic_reduce", "variadic_reduce_window",
    "variadic_scatter", "window_choice",
]  # fmt: skip
