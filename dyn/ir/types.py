"""Types of values: an element type and a symbolic shape."""

from __future__ import annotations

from collections.abc import Mapping

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.shapes import Dim, Facts, Symbol, exact_text, format_dim, product


@record()
class TensorType:
    """A dense, row-major array of ``dtype`` whose dims may be symbolic. Rank 0 is a scalar.

    ``weak`` marks a value that came from a Python scalar alone and so takes the dtype of what it meets (NEP 50).
    """

    dtype: DType
    shape: tuple[Dim, ...]
    weak: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Dim:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        return TensorType(self.dtype, shape, self.weak)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape, self.weak)

    def text(self, names: Mapping[Symbol, str] | None = None) -> str:
        """``float32[n, 3]``; with ``names`` what the printer writes, which is never shortened."""
        dims = [format_dim(d) if names is None else exact_text(d, names) for d in self.shape]
        return f"{self.dtype}[{', '.join(dims)}]" + ("~" if self.weak else "")

    def __str__(self) -> str:
        return self.text()


def same_type(a: TensorType, b: TensorType, facts: Facts) -> bool:
    """Whether two types are equal as far as the facts prove it."""
    if a.dtype is not b.dtype or a.rank != b.rank or a.weak != b.weak:
        return False
    return all(x is y or facts.eq(x, y).proved for x, y in zip(a.shape, b.shape, strict=True))
