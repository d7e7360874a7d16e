"""The products that are timed: 60 of float32, with captured weights too, narrow dtypes, and int8 with scales."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.products.product import Product

#: Depth and columns of the weights of BERT-base and of a decoder's layer.
_UP, _DOWN, _SAME, _LARGE = (768, 3072), (3072, 768), (768, 768), (4096, 4096)


def _float32() -> Iterator[Product]:
    """60 shapes."""
    for rows, (depth, columns) in itertools.product((1, 2, 4, 8), (_UP, _DOWN, _LARGE)):
        yield Product(rows, depth, columns)
    for rows, (depth, columns) in itertools.product((1, 4, 8), (_UP, _LARGE)):
        yield Product(rows, depth, columns, transposed_right=True)
    for rows in (16, 37, 64, 128, 512):
        yield Product(rows, *_SAME)
        yield Product(rows, *_UP)
    for rows in (16, 64, 512):
        yield Product(rows, *_DOWN)
        yield Product(rows, *_UP, transposed_right=True)
    yield Product(2048, *_SAME)
    for size in (64, 128, 256, 512, 1000, 1024, 2048):
        yield Product(size, size, size)
    for rows, depth, columns in ((256, 4096, 64), (4096, 64, 64), (4096, 768, 64), (4096, 1024, 1024), (33, 1000, 17)):
        yield Product(rows, depth, columns)
    for rows, depth, columns, batch in (
        (1, 64, 512, 48), (37, 64, 37, 96), (128, 64, 128, 96), (128, 128, 64, 96), (256, 256, 256, 8),
    ):  # fmt: skip
        yield Product(rows, depth, columns, batch)
    for rows, depth, columns, batch in ((1, 64, 512, 48), (128, 64, 128, 96)):
        yield Product(rows, depth, columns, batch, transposed_right=True)
    for rows, depth, columns in (
        (768, 37, 768), (768, 64, 3072), (768, 512, 3072), (3072, 512, 768), (64, 4096, 64), (1024, 1024, 1024),
    ):  # fmt: skip
        yield Product(rows, depth, columns, transposed_left=True)


def _narrow() -> Iterator[Product]:
    """16-bit floats at few rows, int8, and weights of int8 that are multiplied by scales."""
    for dtype, rows, weights, transposed in itertools.product(
        ("bfloat16", "float16"), (1, 2, 4, 8), (_LARGE, _UP), (False, True)
    ):
        yield Product(rows, *weights, dtype=dtype, transposed_right=transposed)
    for rows in (1, 8, 64, 512):
        yield Product(rows, *_UP, dtype="int8")
    yield Product(64, *_LARGE, dtype="int8")
    for scales, rows, weights in itertools.product(("columns", "groups"), (1, 8, 64), (_LARGE, _UP)):
        yield Product(rows, *weights, scales=scales)


def _has_weights(product: Product) -> bool:
    """Return True if the right operand is one that a model keeps: one matrix, whose product is no gradient."""
    return product.batch == 1 and not product.transposed_left


#: The 60 of float32 by their names, with weights as arguments.
FLOAT32 = {product.name: product for product in _float32()}
#: Those of float32 that narrow ones of the same sizes are held against, if they are not among the 60.
_TWINS = {product.in_float32().name: product.in_float32() for product in _narrow()}
_ARGUMENTS = [*(FLOAT32 | _TWINS).values(), *_narrow()]
#: All products by their names.
PRODUCTS = {
    product.name: product
    for one in _ARGUMENTS
    for product in (one, *([replace(one, captured=True)] if _has_weights(one) else []))
}
#: A few of each kind, for ``--quick``.
QUICK = (
    "float32 1x768x3072", "float32 4x768x3072 w.T", "float32 8x4096x4096", "float32 37x768x768",
    "float32 512x768x3072", "float32 512x768x3072 w.T", "float32 1024x1024x1024", "float32 256x4096x64",
    "float32 96 of 128x64x128 w.T", "float32 768x512x3072 x.T", "float32 1x768x3072 captured",
    "float32 64x768x3072 captured", "float32 1x4096x4096", "float32 64x768x3072", "bfloat16 1x4096x4096",
    "bfloat16 4x4096x4096 w.T", "float16 1x4096x4096", "int8 64x768x3072", "int8*columns 1x4096x4096",
    "int8*groups 8x4096x4096", "int8*columns 1x4096x4096 captured",
)  # fmt: skip
