"""``dyn.Array``: what it is to Python, to NumPy and to other libraries."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp


def made(*values: Any, dtype: Any = "f4") -> dyn.Array:
    return dyn.asarray(np.array(values, dtype))


def test_what_it_is() -> None:
    x = dyn.asarray(np.arange(6, dtype="i4").reshape(2, 3))
    assert (x.shape, x.dtype, x.ndim, x.size, x.itemsize, x.nbytes, x.device) == ((2, 3), "int32", 2, 6, 4, 24, "cpu")
    assert (x.T.shape, x.mT.shape, len(x)) == ((3, 2), (3, 2), 2)
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (5 in x, 9 in x) == (True, False)
    assert x.block_until_ready() is x
    assert x.to_device("cpu") is x
    assert x.__array_namespace__() is dnp
    assert copy.deepcopy(x) is not x


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "dyn.Array(1.5, dtype=float32)"),
        ([1, 2], "dyn.Array([1, 2], dtype=int64)"),
        (np.zeros((0, 3), "f4"), "dyn.Array([], shape=(0, 3), dtype=float32)"),
        (np.ones((2, 2), ml_dtypes.bfloat16), "dyn.Array([[1, 1],\n           [1, 1]], dtype=bfloat16)"),
    ],
)
def test_repr(value: Any, text: str) -> None:
    assert repr(dyn.asarray(value)) == text


def test_scalars() -> None:
    assert (bool(made(2)[0]), int(made(2)[0]), float(made(2.5)[0])) == (True, 2, 2.5)
    assert complex(made(1)[0]) == 1 + 0j
    assert operator.index(made(3, dtype="i8")[0]) == 3
    assert [10, 20, 30][made(1, dtype="i4")[0]] == 20  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert made(1.25)[0].item() == 1.25
    assert f"{made(1.25)[0]:.1f}" == "1.2"
    with pytest.raises(TypeError):
        operator.index(made(1.5)[0])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(made(1, 2))
    with pytest.raises(TypeError, match="0-d"):
        iter(made(1)[0])
    with pytest.raises(TypeError, match="unhashable"):
        hash(made(1))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "eq", "ne", "lt", "le", "gt", "ge"])
def test_operators(name: str) -> None:
    op = getattr(operator, name)
    a, b = np.array([1, 2, 3], "f4"), np.array([3, 2, 1], "f4")
    x, y = dyn.asarray(a), dyn.asarray(b)
    for left, right, expected in [
        (x, y, op(a, b)),
        (x, b, op(a, b)),
        (a, y, op(a, b)),
        (x, 2, op(a, 2)),
        (2, x, op(2, a)),
    ]:
        result = op(left, right)
        assert type(result) is dyn.Array
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert result.dtype == expected.dtype


def test_more_operators() -> None:
    x, n = made(1, -2, 3), made(5, 3, dtype="i4")
    assert (-x).tolist() == [-1, 2, -3]
    assert abs(x).tolist() == [1, 2, 3]
    assert (~n).tolist() == [-6, -4]
    assert (n & 1).tolist() == [1, 1]
    assert (n // 2).tolist() == [2, 1]
    assert (n % 2).tolist() == [1, 1]
    assert (x @ x).tolist() == 14
    assert x.sum().tolist() == 2
    assert x.reshape(3, 1).shape == (3, 1)
    assert x.astype("i4").dtype == np.int32
    with pytest.raises(TypeError):
        _ = x + "text"


def test_indexing() -> None:
    x = dyn.asarray(np.arange(12, dtype="f4").reshape(3, 4))
    assert x[1].tolist() == [4, 5, 6, 7]
    assert x[1, 2].tolist() == 6
    assert x[:, ::2][-1].tolist() == [8, 10]
    assert x[..., None].shape == (3, 4, 1)
    assert x[made(2, 0, dtype="i8")][:, 0].tolist() == [8, 0]
    assert x[x > 9].tolist() == [10, 11]
    assert np.shares_memory(np.asarray(x[1]), np.asarray(x))
    with pytest.raises(IndexError):
        x[3]
    taken = dyn.jit(lambda i: x[i])(np.array([2, 0]))
    assert taken.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = made(1).nope
    assert str(caught.value) == "'dyn.Array' object has no attribute 'nope'"
    assert not hasattr(made(1), "_repr_html_")
    with pytest.raises(dyn.errors.ArgumentError):
        dyn.Array()


def test_in_a_trace() -> None:
    w = made(1, 2)
    f = dyn.jit(lambda x: w * x + (x - w) @ w)
    np.testing.assert_allclose(f(np.array([3, 4], "f4")), np.array([3, 8]) + 6)


@pytest.mark.parametrize("dtype", ["f4", "i8", "?", ml_dtypes.bfloat16])
def test_pickling(dtype: Any) -> None:
    x = dyn.asarray(np.array([[1, 0]], dtype))
    y = pickle.loads(pickle.dumps(x))
    assert (type(y), y.dtype, y.tolist()) == (dyn.Array, x.dtype, x.tolist())


def test_numpy_reads_it() -> None:
    x = made(1, 2)
    array = np.asarray(x)
    assert not array.flags.writeable
    assert np.shares_memory(array, np.asarray(x))
    assert np.array(x).flags.writeable
    assert not np.shares_memory(np.array(x), array)
    assert np.asarray(x, "f8").tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, "f8", copy=False)
    np.testing.assert_allclose(np.sin(x), np.sin(array))


def test_asarray() -> None:
    source = np.array([1.0, 2.0])
    x = dyn.asarray(source)
    source[0] = 9
    assert x.tolist() == [1, 2]
    assert x.dtype == np.float64
    assert dyn.asarray(x) is x
    assert dyn.asarray(x, "float32").dtype == np.float32
    taken = dyn.asarray(source, copy=False)
    assert np.shares_memory(np.asarray(taken), source)
    with pytest.raises(ValueError, match="copy"):
        dyn.asarray(source, "f4", copy=False)
    assert dyn.asarray([1.0]).dtype == np.float32
    assert dyn.asarray([1j]).dtype == np.complex64
    with dyn.config.override(default_float="float64"):
        assert dyn.asarray([1.0]).dtype == np.float64
    with pytest.raises(dyn.errors.UnsupportedOpError):
        dyn.asarray(["text"])


def test_dlpack(require_module: Callable[[str], ModuleType]) -> None:
    torch: Any = require_module("torch")
    for x in (made(1, 2, 3), made(1, 2, dtype=ml_dtypes.bfloat16), dyn.asarray(np.zeros((0, 2), "i4"))):
        tensor = torch.from_dlpack(x)
        assert tensor.tolist() == x.tolist()
        assert str(tensor.dtype) == f"torch.{x.dtype.name}"
        if x.size:  # PyTorch writes to memory that is marked as read-only
            assert tensor.data_ptr() != np.asarray(x).ctypes.data
    x = made(1, 2, 3)
    array = np.from_dlpack(x)
    assert array.tolist() == [1, 2, 3]
    assert array.ctypes.data == np.asarray(x).ctypes.data
    assert made(1).__dlpack_device__() == (1, 0)
    x = made(1, 2)
    assert np.from_dlpack(x, copy=True).ctypes.data != np.asarray(x).ctypes.data
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" not in repr(x.__dlpack__())
    with pytest.raises((BufferError, ValueError)):
        x.__dlpack__(dl_device=(2, 0))


def test_eager_calls_find_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    from dyn import api, eager

    monkeypatch.setattr(eager, "_PROGRAMS", eager._EagerPrograms())
    compiled: list[Any] = []
    trace = api.Jitted._traced_with
    monkeypatch.setattr(api.Jitted, "_traced_with", lambda *a: compiled.append(a) or trace(*a))
    x = made(1, 2, 3)
    for size in (3, 5):
        # A rank that no other test has: the native entry keeps its plans of earlier calls of the same form.
        y = dyn.asarray(np.ones((size, 1, 1, 1, 1, 1, 1), "f4"))
        _ = (y * 1.0625) - y
    assert len(compiled) == 2
    assert np.signbit((x * 0.0).tolist()).tolist() == [False] * 3
    assert np.signbit((x * -0.0).tolist()).tolist() == [True] * 3
    assert (x * 2).dtype == (x * True).dtype == (x * 2.0).dtype
    assert dnp.sum(x, axis=0).tolist() == dnp.sum(x, axis=-1).tolist() == 6


def test_an_eager_error_names_its_own_line() -> None:
    x, y = made(1, 2, 3), made(1, 2)
    _ = x + x
    with pytest.raises(dyn.errors.ShapeError) as caught:
        _ = x + y  # the line that is wrong
    assert "the line that is wrong" in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64", "float8_e4m3fn"])
def test_nobody_makes_a_view_of_an_array_writable(dtype: str) -> None:
    for shape in ((), (3,), (2, 3)):
        x = dnp.ones(shape, dtype=dtype)
        view = np.asarray(x)
        assert view.shape == shape
        assert str(view.dtype) == dtype
        for one in (view, view.view(), view.reshape(-1)):
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                one.flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0
        base = view
        while isinstance(base, np.ndarray):
            assert not base.flags.writeable
            base = base.base
    assert np.asarray(dnp.ones((0, 3))).shape == (0, 3)
