"""Random products of weights that never change, as arguments and as they are kept in panels: operands of any dtypes,
views and layouts, computed on the way in and on the way out, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.dtypes import dtype

Array = np.ndarray
#: Sizes around vectors, tiles and panels.
COLUMNS, REDUCED, ROWS = (
    (1, 15, 16, 17, 48, 63, 64, 65, 96, 130, 200),
    (0, 1, 2, 3, 5, 64, 67, 130),
    (0, 1, 2, 5, 9, 37),
)
#: The dtypes of both operands, and of the sums.
DTYPES = (
    ("float32", "float32", "float32"), ("float64", "float64", "float64"), ("bfloat16", "bfloat16", "float32"),
    ("float16", "float16", "float32"), ("float32", "bfloat16", "float32"), ("float32", "int8", "float32"),
    ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("int8", "uint8", "int32"), ("int16", "int8", "int32"),
    ("int32", "int32", "int32"), ("bfloat16", "float32", "float32"),
)  # fmt: skip


@dataclass
class Case:
    """A product: its dtypes, the weight's sizes, and by name what is done with operands and results."""

    dtypes: tuple[str, str, str]
    batch: int
    reduced: int
    columns: int
    weight: str
    left: str
    after: str

    @staticmethod
    def draw(random: Random) -> Case:
        return Case(
            random.choice(DTYPES), random.choice((0, 0, 0, 1, 3)), random.choice(REDUCED), random.choice(COLUMNS),
            random.choice(("as it is", "turned", "reshaped", "scaled", "scaled, turned")),
            random.choice(("as it is", "as it is", "turned", "doubled", "strided")),
            random.choice(("nothing", "bias", "greater than 0", "sum")),
        )  # fmt: skip

    def values(self, rng: np.random.Generator, name: str, *shape: int) -> Array:
        """Small numbers, so that integers do not overflow, and narrow floats hold most of them."""
        low = 0 if name.startswith("uint") else -8
        return rng.integers(low, 9, shape).astype(dtype(name).np)

    def stored(self, rng: np.random.Generator) -> Array:
        """The weight as it lies."""
        shape = [self.columns, self.reduced] if "turned" in self.weight else [self.reduced, self.columns]
        batch = [self.batch] if self.batch else []
        if self.weight == "reshaped":
            return self.values(rng, self.dtypes[1], int(np.prod([*batch, *shape], dtype=int)))
        return self.values(rng, self.dtypes[1], *batch, *shape)

    def product(self, np_: Any, x: Any, w: Any, scales: Any, wide: Any) -> Any:
        """The results by NumPy's functions or dyn's, with ``wide(a, b)`` for the products and their sums."""
        batch = [self.batch] if self.batch else []
        if self.weight == "reshaped":
            w = np_.reshape(w, (*batch, self.reduced, self.columns))
        if "scaled" in self.weight:
            w = w.astype(dtype(self.dtypes[2]).np) * (scales[:, None] if "turned" in self.weight else scales)
        if "turned" in self.weight:
            w = np_.swapaxes(w, -1, -2)
        if self.left == "turned":
            x = np_.swapaxes(x, -1, -2)
        x = x + x if self.left == "doubled" else x[..., ::2] if self.left == "strided" else x
        y = wide(x, w)
        if self.after == "bias":
            return y + scales
        return (
            np_.maximum(y, 0) if self.after == "greater than 0" else np_.sum(y, axis=-1) if self.after == "sum" else y
        )

    def left_operand(self, rng: np.random.Generator, rows: int) -> Array:
        batch = [self.batch] if self.batch else []
        shape = [self.reduced, rows] if self.left == "turned" else [rows, self.reduced * (1 + (self.left == "strided"))]
        return self.values(rng, self.dtypes[0], *batch, *shape)


def check(case: Case, seed: int) -> None:
    rng, sums = np.random.default_rng(seed), dtype(case.dtypes[2]).np
    stored = case.stored(rng)
    scales = case.values(rng, case.dtypes[2], case.columns)
    w, s = dyn.asarray(stored), dyn.asarray(scales)
    batch = (tuple(range(bool(case.batch))),) * 2

    exact: Any = np.float64 if sums.kind == "f" else np.int64

    def by_numpy(a: Array, b: Array) -> Array:
        return np.matmul(a.astype(exact), b.astype(exact))

    def wide(a: Any, b: Any) -> Any:
        last = a.ndim - 1
        return dyn.lax.dot_general(a, b, (((last,), (last - 1,)), batch), preferred_element_type=case.dtypes[2])

    f = dyn.jit(lambda x: case.product(dnp, x, w, s, wide))
    g = dyn.jit(lambda x, w, s: case.product(dnp, x, w, s, wide))
    for rows in ROWS:
        x = case.left_operand(rng, rows)
        want = case.product(np, x, stored, scales, by_numpy)
        if sums.kind == "i":
            want = want.astype(np.int64).astype(np.int32)
        for found in (f(x), g(x, stored, scales)):
            np.testing.assert_allclose(np.asarray(found).astype(exact), want, rtol=1e-5, atol=1e-3, err_msg=str(case))


@pytest.mark.parametrize("cpu", ["", "x86-64-v4", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("seed", range(6))
def test_products(seed: int, cpu: str) -> None:
    random = Random(f"{seed} {cpu}")
    with config.override(target_cpu=cpu, pack_weights=True, verify_ir=True):
        for number in range(5):
            check(Case.draw(random), 100 * seed + number)
