"""XLA's own results on CPUs, which the definitions of elements are, and those of JAX programs through dyn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn.interop.jax as djax
from dyn import integers
from dyn.dtypes import DType
from tests.integers.edges import (
    FLOATS,
    INTEGERS,
    assert_equal,
    converted,
    edges,
    float_edges,
    integer_type,
    pairs,
    wanted,
)

jax = pytest.importorskip("jax")
lax, jnp = jax.lax, jax.numpy

_OPS = {
    "add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div, "remainder": lax.rem,
    "maximum": lax.max, "minimum": lax.min, "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
    "shift_left": lax.shift_left, "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic, "negate": lax.neg, "abs": lax.abs, "sign": lax.sign,
    "not": lax.bitwise_not, "popcnt": lax.population_count, "count_leading_zeros": lax.clz,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _wide() -> Any:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_elements(dtype: DType) -> None:
    a, b = pairs(dtype)
    names = [name for name in _OPS if name not in ("abs",) or integer_type(dtype).signed]
    assert {*names, "abs", "power"} == integers.BINARY.keys() | integers.UNARY.keys()

    def of_all(x: Any, y: Any) -> list[Any]:
        return [_OPS[name](x, y) if name in integers.BINARY else _OPS[name](x) for name in names]

    for run in (jax.jit(of_all), djax.jit(of_all)):
        for name, got in zip(names, run(a, b), strict=True):
            operands = (a, b) if name in integers.BINARY else (a,)
            assert_equal(got, wanted(name, dtype, *operands), *operands)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_functions_of_jax_numpy(dtype: DType) -> None:
    """``jax.numpy`` is made of these, and has results of its own by 0."""
    a, b = pairs(dtype)

    def of_all(x: Any, y: Any) -> list[Any]:
        return [jnp.floor_divide(x, y), jnp.remainder(x, y), jnp.fmod(x, y)]

    for got, want in zip(djax.jit(of_all)(a, b), jax.jit(of_all)(a, b), strict=True):
        assert_equal(got, np.asarray(want), a, b)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_conversions(dtype: DType) -> None:
    sources = {source: float_edges(source) for source in FLOATS}
    sources |= {source: np.array(edges(source), source.np) for source in INTEGERS}

    def of_all(*values: Any) -> list[Any]:
        return [lax.convert_element_type(x, dtype.np) for x in values]

    for run in (jax.jit(of_all), djax.jit(of_all)):
        for got, (_, values) in zip(run(*sources.values()), sources.items(), strict=True):
            assert_equal(got, converted(dtype, values), values)
