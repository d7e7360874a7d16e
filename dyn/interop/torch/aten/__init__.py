"""ATen operations by dyn's ops, a module for each family.

A converter is a short function of what PyTorch passes, with values for tensors and dims for sizes. ``tables`` has the
decorators that register them.
"""

from dyn.interop.torch.aten import (
    attention,
    complexes,
    convolutions,
    counting,
    creation,
    dropout,
    factors,
    indexing,
    matrices,
    normalization,
    ordering,
    pointwise,
    pools,
    randomness,
    recurrent,
    reductions,
    sampling,
    scatters,
    shapes,
    special,
    strided,
)

__all__ = [
    "attention",
    "complexes",
    "convolutions",
    "counting",
    "creation",
    "factors",
    "dropout",
    "indexing",
    "matrices",
    "normalization",
    "ordering",
    "pointwise",
    "pools",
    "randomness",
    "recurrent",
    "reductions",
    "sampling",
    "scatters",
    "shapes",
    "special",
    "strided",
]
