"""TensorFlow's operations by dyn's ops, a module for each family.

A converter is a short function of an operation's inputs, with the attributes that it names. ``tables`` has the
decorators that register them; ``sizes`` has what is done with shapes while a graph is read.
"""

from dyn.interop.tf.ops import (
    assertions,
    boxes,
    colors,
    control,
    convolutions,
    images,
    indexing,
    lengths,
    lists,
    loops,
    matrices,
    numerics,
    pointwise,
    quantization,
    randomness,
    reductions,
    shapes,
    sizes,
    sparse,
    variables,
)

__all__ = [
    "assertions",
    "boxes",
    "colors",
    "control",
    "convolutions",
    "images",
    "indexing",
    "lengths",
    "lists",
    "loops",
    "matrices",
    "numerics",
    "pointwise",
    "quantization",
    "randomness",
    "reductions",
    "shapes",
    "sizes",
    "sparse",
    "variables",
]
