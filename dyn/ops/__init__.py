"""Every op, once. Importing this package fills ``dyn.ir.opdef.REGISTRY``."""

from dyn.ops import contract, elementwise, gather, indexing, library, reduce, scatter, shape
from dyn.ops.scalar import Scalar

__all__ = ["Scalar", "contract", "elementwise", "gather", "indexing", "library", "reduce", "scatter", "shape"]
