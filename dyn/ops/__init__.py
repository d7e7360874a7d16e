"""Every op, once. Importing this package fills ``dyn.ir.opdef.REGISTRY``."""

from dyn.ops import bits, complex, contract, elementwise, gather, indexing, library, reduce, scatter, shape
from dyn.ops.scalar import Scalar

__all__ = [
    "Scalar", "bits", "complex", "contract", "elementwise", "gather", "indexing", "library", "reduce", "scatter",
    "shape",
]  # fmt: skip
