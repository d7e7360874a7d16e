"""Arguments whose axes lie in another order than row by row: programs that treat axes alike run over them so."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.threads import in_threads

Array = np.ndarray[Any, Any]


def _filled(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "f4") -> Array:
    """An array whose axes lie in memory in an order, from the outermost on."""
    inside = np.random.default_rng(0).integers(1, 100, [shape[axis] for axis in order])
    return inside.astype(dtype).transpose(np.argsort(order))


def _mixed(x: Any, y: Any) -> Any:
    return dnp.where(x > y, x + y, y * 2)


def _numpy_mixed(x: Array, y: Array) -> Array:
    return np.where(x > y, x + y, y * 2)


def _calls(f: Any, *args: Any) -> list[Any]:
    """The result of a call by Python and of two by the native entry."""
    results = [f._call_slow(*args), f(*args), f(*args)]
    assert f.cache_info().compiles == 1
    return results


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (5, 1), (0, 5), (1, 1), (64, 96)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "c8", "?"])
def test_results_lie_as_arguments_do(shape: tuple[int, int], dtype: str) -> None:
    f = dyn.jit(lambda x: (x, x == x))
    x = _filled(shape, (1, 0), dtype)
    for same, equal in _calls(f, x):
        np.testing.assert_array_equal(same, x)
        assert not np.shares_memory(same, x)
        assert equal.all()
        assert equal.shape == shape
        if 0 not in shape:
            assert same.flags.f_contiguous
            assert equal.flags.f_contiguous
        assert same.flags.writeable


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_orders_of_three_axes(order: tuple[int, ...]) -> None:
    f = dyn.jit(_mixed)
    for shape in ((4, 5, 6), (1, 5, 6), (4, 1, 6), (4, 5, 1), (1, 5, 1)):
        x, y = _filled(shape, order), _filled(shape, order) + np.float32(7)
        for result in _calls(f, x, y):
            np.testing.assert_array_equal(result, _numpy_mixed(x, y))
            assert result.transpose(order).flags.c_contiguous


OTHERS: dict[str, Callable[[], Array]] = {
    "row by row": lambda: _filled((4, 6), (0, 1)),
    "another type": lambda: _filled((4, 6), (1, 0), ">f4"),
    "gaps": lambda: _filled((8, 6), (1, 0))[::2],
    "backwards": lambda: _filled((4, 6), (1, 0))[::-1],
    "stretched": lambda: np.broadcast_to(_filled((4, 1), (0, 1)), (4, 6)),
    "misaligned": lambda: np.frombuffer(b"\0" + _filled((6, 4), (0, 1)).tobytes(), "f4", offset=1).reshape(6, 4).T,
    "a row": lambda: _filled((1, 6), (0, 1)),
    "a column": lambda: _filled((4, 1), (0, 1)),
    "an element": lambda: _filled((1, 1), (0, 1)),
    "nothing": lambda: _filled((0, 6), (1, 0)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_arguments_that_lie_otherwise(other: str) -> None:
    f = dyn.jit(_mixed)
    x, y = _filled((4, 6), (1, 0)), OTHERS[other]()
    if other == "nothing":
        x = x[:1]
    for first, second in ((x, y), (y, x)):
        for result in _calls(f, first, second):
            np.testing.assert_array_equal(result, _numpy_mixed(first, second))


def test_errors_are_about_the_sizes_as_they_are() -> None:
    f = dyn.jit(_mixed)
    f(_filled((4, 6), (1, 0)), _filled((4, 6), (1, 0)))
    for wrong in ((5, 6), (4, 7)):
        x, y = _filled((4, 6), (1, 0)), _filled(wrong, (1, 0))
        with pytest.raises(dyn.errors.ShapeError) as there:
            f(x.copy("C"), y.copy("C"))
        for _ in range(2):
            with pytest.raises(dyn.errors.ShapeError) as here:
                f(x, y)
            assert str(here.value).splitlines()[:3] == str(there.value).splitlines()[:3]


def test_programs_that_tell_axes_apart() -> None:
    def branch(x: Any) -> Any:
        return x + 1 if x.shape[0] > 4 else x * 2

    f, g = dyn.jit(branch), dyn.jit(lambda x: x - dnp.sum(x, axis=0))
    for shape in ((3, 9), (9, 3)):
        x = _filled(shape, (1, 0))
        for _ in range(3):
            np.testing.assert_array_equal(f(x), branch(x))
            np.testing.assert_allclose(g(x), x - x.sum(0))


def test_a_donated_argument() -> None:
    f = dyn.jit(lambda x: x * 2, donate_argnums=0)
    x = _filled((30, 40), (1, 0))
    expected = x * 2
    for _ in range(3):
        np.testing.assert_array_equal(f(x.copy("K")), expected)


def test_declared_sizes_are_those_of_the_axes() -> None:
    f = dyn.jit(lambda x: x * 2, shapes="3 n")
    for _ in range(3):
        np.testing.assert_array_equal(f(_filled((3, 5), (1, 0))), 2 * _filled((3, 5), (1, 0)))
        with pytest.raises(dyn.errors.ShapeError):
            f(_filled((5, 3), (1, 0)))


def test_more_axes_than_the_entry_orders() -> None:
    f = dyn.jit(lambda x: x * 2)
    shape = (2, 1, 3, 1, 2, 1, 2, 1, 2)
    x = _filled(shape, tuple(reversed(range(9))))
    for result in _calls(f, x):
        np.testing.assert_array_equal(result, x * 2)


def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    f = dyn.jit(lambda x: (x * 2, x > 3))
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.arange(12).reshape(3, 4).to(dtype).t()
        for _ in range(3):
            twice, more = f(x)
            assert torch.equal(twice, x * 2)
            assert torch.equal(more, x > 3)
            assert twice.stride() == more.stride() == (1, 4)
    images = torch.rand(2, 3, 5, 7).to(memory_format=torch.channels_last)
    for _ in range(3):
        assert f(images)[0].is_contiguous(memory_format=torch.channels_last)


def test_threads_with_arrays_that_lie_otherwise() -> None:
    f = dyn.jit(lambda x: x * 2 + 1)
    arrays = [_filled((200, 300), order) + np.float32(n) for n in range(8) for order in ((0, 1), (1, 0))]

    def one(number: int) -> None:
        for _ in range(20):
            x = arrays[number % len(arrays)]
            np.testing.assert_array_equal(f(x), x * 2 + 1)

    in_threads(one, range(16))
