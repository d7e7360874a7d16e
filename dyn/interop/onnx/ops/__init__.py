"""ONNX's operations by dyn's ops, a module for each family.

A converter is a short function of an operation's inputs, with the attributes that it names; ``sizes`` has what is done
with shapes while a graph is read.
"""

from dyn.interop.onnx.ops import (
    control,
    convolutions,
    indexing,
    normalization,
    pointwise,
    products,
    quantization,
    reductions,
    resizing,
    shapes,
    sizes,
)

__all__ = [
    "control", "convolutions", "indexing", "normalization", "pointwise", "products", "quantization", "reductions",
    "resizing", "shapes", "sizes",
]  # fmt: skip
