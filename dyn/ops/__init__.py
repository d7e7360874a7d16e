"""Every op, once. Importing this package fills ``dyn.ir.opdef.REGISTRY``."""

from dyn.ir.opdef import REGISTRY
from dyn.ops import (
    barrier,
    batch_norm,
    bitcasts,
    bits,
    checkpoint,
    compaction,
    complex,
    composite,
    contract,
    control,
    csr_matmul,
    cumulative,
    custom_call,
    custom_derivatives,
    data_dependent,
    elementwise,
    erf_inverse,
    fft,
    map,
    panels,
    reduce,
    reduce_precision,
    rejection,
    rng_bit_generator,
    shape,
    special,
    threefry,
    variadic_reduce,
)
from dyn.ops.indexing import dynamic_slices, gather, scatter, variadic_scatter
from dyn.ops.linalg import factorizations, solving, spectral, triangular
from dyn.ops.scalar import Scalar
from dyn.ops.sorting import sort, sort_by, top_k
from dyn.ops.windows import convolution, reduce_window, select_and_scatter, variadic_reduce_window, window_choice

#: The ops that dyn itself is made of: what others define is no part of its version.
OWN_OPS = frozenset(REGISTRY.values())

__all__ = [
    "OWN_OPS", "Scalar", "barrier", "batch_norm", "bitcasts", "bits", "checkpoint", "compaction", "complex",
    "composite", "contract", "control", "convolution", "csr_matmul", "cumulative", "custom_call",
    "custom_derivatives", "data_dependent", "dynamic_slices", "elementwise", "erf_inverse", "factorizations", "fft",
    "gather", "map", "panels", "reduce", "reduce_precision", "reduce_window", "rejection", "rng_bit_generator",
    "scatter", "select_and_scatter", "shape", "solving", "sort", "sort_by", "special", "spectral", "threefry", "top_k",
    "triangular", "variadic_reduce", "variadic_reduce_window", "variadic_scatter", "window_choice",
]  # fmt: skip
