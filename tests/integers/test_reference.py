"""The NumPy reference of every op of integers, which folds constants too, at all edges."""

from __future__ import annotations

import numpy as np
import pytest

from dyn import integers
from dyn.dtypes import DType
from dyn.ops import REGISTRY
from dyn.ops.elementwise import convert_array
from tests.integers.edges import FLOATS, INTEGERS, assert_equal, converted, edges, float_edges, pairs, wanted


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", [*integers.BINARY, *integers.UNARY])
def test_ops(name: str, dtype: DType) -> None:
    operands = pairs(dtype)[: 2 if name in integers.BINARY else 1]
    reference = REGISTRY[name].reference
    assert reference is not None
    with np.errstate(all="ignore"):
        assert_equal(reference(*operands), wanted(name, dtype, *operands), *operands)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_conversions(dtype: DType) -> None:
    for source in FLOATS:
        values = float_edges(source)
        assert_equal(convert_array(values, dtype), converted(dtype, values), values)
    for source in INTEGERS:
        values = np.array(edges(source), source.np)
        assert_equal(convert_array(values, dtype), converted(dtype, values), values)
