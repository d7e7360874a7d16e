"""ATen operations by dyn's ops, a module for each family: ``torch.ops.aten.add.Tensor`` and 188 other core ones.

A converter is a short function of what PyTorch passes, with values for tensors and dims for sizes. ``tables`` has the
decorators that register them.
"""

from dyn.interop.torch.aten import (
    attention,
    convolutions,
    creation,
    indexing,
    matrices,
    normalization,
    pointwise,
    reductions,
    shapes,
)

__all__ = [
    "attention",
    "convolutions",
    "creation",
    "indexing",
    "matrices",
    "normalization",
    "pointwise",
    "reductions",
    "shapes",
]
