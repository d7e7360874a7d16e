"""dyn's dtypes where NumPy wants one of its own."""

from __future__ import annotations

import numpy as np
import pytest

import dyn
from dyn import dtypes
from dyn.dtypes import DType


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_numpy_takes_it(dtype: DType) -> None:
    assert np.dtype(dtype) == dtype.np
    assert np.zeros((3, 0), dtype).dtype == dtype.np
    assert np.array([1, 2], dtype=dtype).tolist() == [1, 1 if dtype is dtypes.bool_ else 2]
    assert np.ones(3).astype(dtype).tolist() == [1, 1, 1]
    assert np.ones(3).astype(dtype).dtype == dtype  # as NumPy's dtypes are equal to all that stands for them
    assert np.ones(4, dtype.np).view(dtype).dtype == dtype.np
    assert np.promote_types(dtype, dtype) == dtype.np


def test_it_is_no_array_for_that() -> None:
    with pytest.raises(dyn.errors.ArgumentError) as caught:
        dyn.jit(lambda x: x + 1)(dyn.f32)
    assert str(caught.value) == (
        "<lambda>(): x is a DType, which is not an array.\n"
        "  help: pass an array or a number, or name the argument in static_argnames=."
    )
    assert dyn.numpy.result_type(dyn.f32, dyn.f64) == np.float64
