"""A product of two matrices: its sizes and dtype, its arrays, what it computes, and the name of its row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyn import dtypes

#: A product of at most so many rows reads its weights for little else: its speed is that of memory.
FEW_ROWS = 8
#: Elements along the reduced axis that share a scale, of weights with scales by groups.
GROUP = 128
#: The most that a result may differ from the product in float64, by the greatest number of that: the dtype of the
#: result rounds so, and float32's sums of some thousands of terms; sums of integers are exact.
TOLERANCES = {"float32": 2e-5, "bfloat16": 8e-3, "float16": 2e-3, "int8": 0.0}


@dataclass(frozen=True)
class Product:
    """``x @ w``, with ``x`` of rows × depth and ``w`` of depth × columns, ``batch`` of them.

    A transposed operand lies the other way in memory: ``x.T @ w`` of gradients, ``x @ w.T`` of layers that keep their
    weights as columns × depth. ``scales`` is ``"columns"`` or ``"groups"`` for weights of int8 which are multiplied by
    a float32 for each column, or for each column and ``GROUP`` of the depth; ``x`` is float32 then. The weights are an
    argument, or an array that the function has captured.
    """

    rows: int
    depth: int
    columns: int
    batch: int = 1
    dtype: str = "float32"
    transposed_left: bool = False
    transposed_right: bool = False
    scales: str = ""
    captured: bool = False

    @property
    def name(self) -> str:
        """``bfloat16 1x4096x4096 w.T captured``"""
        sizes = f"{self.rows}x{self.depth}x{self.columns}"
        words = [self.dtype if not self.scales else f"int8*{self.scales}"]
        words += [f"{self.batch} of {sizes}" if self.batch > 1 else sizes]
        words += ["x.T"] * self.transposed_left + ["w.T"] * self.transposed_right + ["captured"] * self.captured
        return " ".join(words)

    @property
    def is_few_rows(self) -> bool:
        return self.rows <= FEW_ROWS and not self.transposed_left

    @property
    def kind(self) -> str:
        """The class of rows that means are taken over."""
        dtype = f"int8 weights, scales by {self.scales}" if self.scales else self.dtype
        if self.transposed_left:
            form = "gradients"
        elif self.is_few_rows:
            form = "few rows"
        else:
            form = "batched" if self.batch > 1 else "many rows"
        return f"{dtype}, {form}{', captured' if self.captured else ''}"

    @property
    def result_dtype(self) -> str:
        if self.scales:
            return "float32"
        return "int32" if self.dtype == "int8" else self.dtype

    @property
    def result_shape(self) -> tuple[int, ...]:
        return (*((self.batch,) if self.batch > 1 else ()), self.rows, self.columns)

    @property
    def tolerance(self) -> float:
        return TOLERANCES["float32" if self.scales else self.dtype]

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.depth * self.columns

    @property
    def weight_bytes(self) -> int:
        """Bytes of one right operand, scales included."""
        elements = self.batch * self.depth * self.columns
        if not self.scales:
            return elements * dtypes.dtype(self.dtype).itemsize
        return elements + 4 * self.columns * (self.depth // GROUP if self.scales == "groups" else 1)

    @property
    def nbytes(self) -> int:
        """Bytes that a call has to move: those of both operands and of the result."""
        left = "float32" if self.scales else self.dtype
        moved = self.rows * self.depth * dtypes.dtype(left).itemsize
        moved += self.rows * self.columns * dtypes.dtype(self.result_dtype).itemsize
        return self.batch * moved + self.weight_bytes

    def in_float32(self) -> Product:
        """The product of float32 that a narrow one is held against."""
        return replace(self, dtype="float32", scales="")

    def make(self, weights: int) -> dict[str, Any]:
        """The tree of arrays: ``x``, so many ``weights`` of which no two are equal, and ``scales`` where there are."""
        rng = np.random.default_rng(0)
        left = (self.depth, self.rows) if self.transposed_left else (self.rows, self.depth)
        right = (self.columns, self.depth) if self.transposed_right else (self.depth, self.columns)
        batch = (self.batch,) if self.batch > 1 else ()
        first = _draw(rng, (*batch, *right), "int8" if self.scales else self.dtype)
        tree: dict[str, Any] = {"x": _draw(rng, (*batch, *left), "float32" if self.scales else self.dtype)}
        tree["weights"] = [first, *(first.copy() for _ in range(1, weights))]
        for place, weight in enumerate(tree["weights"]):
            weight.flat[0] = place
        if self.scales:
            shape = (self.depth // GROUP, self.columns) if self.scales == "groups" else (self.columns,)
            tree["scales"] = rng.uniform(0.5, 1.5, shape).astype(np.float32) / 64
        return tree

    def compute(self, library: Any, x: Any, w: Any, scales: Any = None) -> Any:
        """The product, as users of ``dyn`` or ``jax`` write it: a library with ``numpy`` and ``lax``."""
        lib = library.numpy
        if scales is not None:
            w = w.astype(lib.float32)
            if self.scales == "groups":
                w = w.reshape(-1, GROUP, self.columns) * scales[:, None, :]
                w = w.reshape(self.depth, self.columns)
            else:
                w = w * scales
        if self.transposed_left:
            x = lib.swapaxes(x, -1, -2)
        if self.transposed_right:
            w = lib.swapaxes(w, -1, -2)
        if self.dtype == "int8":
            return library.lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type="int32")
        return x @ w

    def reference(self, tree: dict[str, Any]) -> np.ndarray:
        """The product with the first of the weights, in float64."""
        x, w = tree["x"].astype(np.float64), tree["weights"][0].astype(np.float64)
        if self.scales:
            scales = tree["scales"].astype(np.float64)
            w = w * (np.repeat(scales, GROUP, axis=0) if self.scales == "groups" else scales)
        x = np.swapaxes(x, -1, -2) if self.transposed_left else x
        return x @ (np.swapaxes(w, -1, -2) if self.transposed_right else w)


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-127, 128, shape, np.int8)
    return rng.standard_normal(shape, np.float32).astype(dtypes.dtype(dtype).np)
