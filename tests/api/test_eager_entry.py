"""Eager functions of dyn.numpy by the native entry: a call by it and one through Python are told apart by nothing."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp


def outcome(call: Callable[[], Any]) -> Any:
    try:
        result = call()
    except Exception as error:
        return type(error), str(error)
    parts = result if isinstance(result, tuple | list) else [result]
    return type(result), [(type(p), np.asarray(p).dtype.name, np.shape(p), np.asarray(p).tobytes()) for p in parts]


def same(call: Callable[[], Any]) -> Any:
    """The outcome of a call the first, the second and the third time, and without the entry."""
    with dyn.config.override(fast_call=False):
        wanted = outcome(call)
    for _ in range(4):
        assert outcome(call) == wanted
    return wanted


ARRAYS: dict[str, Any] = {
    "rows": np.arange(6, dtype="f4").reshape(2, 3), "columns": np.arange(6, dtype="f4").reshape(3, 2).T,
    "own": dyn.asarray(np.ones((2, 3), "f4")), "bytes": np.arange(6, dtype="i1").reshape(2, 3),
    "empty": np.zeros((0, 3), "f4"), "wide": np.ones((2, 3)), "swapped": np.ones((2, 3), ">f4"),
    "scalar": np.float32(2), "strange": np.ones((2, 4), "f4"),
}  # fmt: skip


@pytest.mark.parametrize("first", ARRAYS)
@pytest.mark.parametrize("second", [*ARRAYS, "2", "7", "2.5", "1000", "-0.0", "True", "1j", "None", "text"])
def test_two_arguments(first: str, second: str) -> None:
    x = ARRAYS[first]
    y = ARRAYS[second] if second in ARRAYS else second if second == "text" else eval(second)
    same(lambda: dnp.add(x, y))
    same(lambda: dnp.power(x, y))


def test_parts_that_are_no_arrays() -> None:
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    axes: tuple[Any, ...] = (0, 1, 2, -1, None, (0, 1), (0, 2), (1,), 1.0, True, 5)
    for axis in axes:
        for keepdims in (False, True):
            same(lambda axis=axis, keepdims=keepdims: dnp.sum(x, axis=axis, keepdims=keepdims))
    for shape in ((24,), (4, 6), (-1, 2), (2, -1), (5, 5)):
        same(lambda shape=shape: dnp.reshape(x, shape))
    for dtype in ("float32", "int32", np.float64, np.dtype("f4"), dyn.float16):
        same(lambda dtype=dtype: dnp.astype(x, dtype))
    for parts in ([x, x], (x, x), [x], [x, x[:1]], [x, x[0]], []):
        for axis in (0, 1, None):
            same(lambda parts=parts, axis=axis: dnp.concatenate(parts, axis=axis))
    for low, high in ((None, 2.0), (1, None), (1.5, 3.0), (np.float32(1), 3)):
        same(lambda low=low, high=high: dnp.clip(x, low, high))


def test_settings_and_traces() -> None:
    x = np.ones(3, "f4")
    same(lambda: dnp.add(x, x))
    f = dyn.jit(lambda y: dnp.add(y, y) + dnp.add(x, x))
    assert f(x).tolist() == [4, 4, 4]
    assert dyn.grad(lambda y: dnp.sum(dnp.add(y, x)))(x).tolist() == [1, 1, 1]
    for default in ("float32", "float64"):
        with dyn.config.override(default_float=default):
            same(lambda: dnp.add(x, 0.5))
            same(lambda: dnp.mean(np.arange(3)))


def test_they_are_functions_as_before() -> None:
    assert inspect.isfunction(dnp.add)
    assert pickle.loads(pickle.dumps(dnp.add)) is dnp.add
    x = np.ones(3, "f4")
    assert not np.shares_memory(dnp.add(x, 0), x)
    assert dnp.add(x, x).flags.writeable
