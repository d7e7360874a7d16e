"""Sizes of slices and windows that are dims, and paddings: what no array has is refused before a program begins."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import lax
from dyn.errors import ShapeError

VECTOR, PLACES = np.arange(5, dtype=np.float32), np.array([[0], [4]], np.int32)
NUMBERS = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))


def gathered(x: Any, m: Any, places: Any) -> Any:
    return lax.gather(x, places, NUMBERS, (m.shape[0] - 4,))


def sliced(x: Any, m: Any) -> Any:
    return lax.dynamic_slice(x, (3,), (m.shape[0] - 4,))


def folded(x: Any, m: Any) -> Any:
    return lax.reduce_window(x, np.float32(0), lax.max, (m.shape[0] - 4,), (1,), [(0, 0)])


def line(function: Callable[..., Any]) -> str:
    """Where an error says that the function's only line stands, and the line itself."""
    number = function.__code__.co_firstlineno + 1
    return f"at test_symbolic_sizes.py:{number}  {linecache.getline(__file__, number).strip()}"


def refused(function: Any, *arguments: Any) -> str:
    with pytest.raises(ShapeError) as caught:
        function(*arguments)
    return str(caught.value)


def test_slices_of_a_gather() -> None:
    f = dyn.jit(gathered)
    for size in (4, 5, 6, 9):
        wanted = [VECTOR[min(p, 5 - (size - 4)) :][: size - 4] for p in (0, 4)]
        np.testing.assert_array_equal(f(VECTOR, np.zeros(size), PLACES), wanted)
    assert refused(f, VECTOR, np.zeros(3), PLACES) == (
        "m_0 - 4 >= 0 is required, but m_0 - 4 is -1 (m_0 is 3): a slice of axis 0 has no negative size.\n"
        f"  m_0 is m.shape[0] = 3\n  {line(gathered)}\n  help: pass arguments whose shapes satisfy it."
    )
    assert refused(f, VECTOR, np.zeros(12), PLACES) == (
        "x_0 >= m_0*min(1, places_0) - 4*min(1, places_0) is required, but x_0 is 5 and "
        "m_0*min(1, places_0) - 4*min(1, places_0) is 8 (m_0 is 12, places_0 is 2): a slice of axis 0 fits.\n"
        "  x_0 is x.shape[0] = 5\n  m_0 is m.shape[0] = 12\n  places_0 is places.shape[0] = 2\n"
        f"  {line(gathered)}\n  help: pass arguments whose shapes satisfy it."
    )
    assert f(VECTOR, np.zeros(12), PLACES[:0]).shape == (0, 8), "no slice is taken, and so none has to fit"
    assert f.cache_info().compiles == 1


def test_a_dynamic_slice() -> None:
    f = dyn.jit(sliced)
    for size in (4, 5, 9):
        np.testing.assert_array_equal(f(VECTOR, np.zeros(size)), VECTOR[min(3, 5 - (size - 4)) :][: size - 4])
    assert refused(f, VECTOR, np.zeros(0)) == (
        "m_0 - 4 >= 0 is required, but m_0 - 4 is -4 (m_0 is 0): a slice of axis 0 has no negative size.\n"
        f"  m_0 is m.shape[0] = 0\n  {line(sliced)}\n  help: pass arguments whose shapes satisfy it."
    )
    assert refused(f, VECTOR, np.zeros(10)) == (
        "x_0 >= m_0 - 4 is required, but x_0 is 5 and m_0 - 4 is 6 (m_0 is 10): a slice of axis 0 fits.\n"
        f"  x_0 is x.shape[0] = 5\n  m_0 is m.shape[0] = 10\n  {line(sliced)}\n"
        "  help: pass arguments whose shapes satisfy it."
    )
    assert f.cache_info().compiles == 1


def test_a_window() -> None:
    f = dyn.jit(folded)
    for size in (5, 7, 9, 12):
        count = max(5 - (size - 4) + 1, 0)
        np.testing.assert_array_equal(f(VECTOR, np.zeros(size)), np.arange(size - 5, size - 5 + count))
    assert refused(f, VECTOR, np.zeros(4)) == (
        "m_0 - 4 >= 1 is required, but m_0 - 4 is 0 (m_0 is 4): a window along axis 0 has at least one element.\n"
        f"  m_0 is m.shape[0] = 4\n  {line(folded)}\n  help: pass arguments whose shapes satisfy it."
    )
    assert f.cache_info().compiles == 1


def test_paddings_of_a_convolution_may_cut_off_more_than_there_is() -> None:
    """As StableHLO has it there are no windows then; other paddings cut off, or add, what they say."""

    @dyn.jit
    def f(x: Any, kernel: Any, m: Any) -> Any:
        padding = [(m.shape[0] - 9, m.shape[0] - 6)]
        return dyn.nn.conv(x, kernel, 1, padding, dimension_numbers=("NHC", "HIO", "NHC"))

    x = np.arange(10, dtype=np.float32).reshape(1, 5, 2)
    kernel = np.array([1, 2, 3, 4, 5, 6], np.float32).reshape(3, 2, 1)
    for size in (0, 1, 2, 7, 8, 9, 12, 64):
        low, high = size - 9, size - 6
        padded = np.pad(x[0], ((max(low, 0), max(high, 0)), (0, 0)))
        padded = padded[max(-low, 0) : max(len(padded) - max(-high, 0), 0)]
        count = max(len(padded) - 2, 0) if 5 + low + high >= 0 else 0
        wanted = [(padded[p : p + 3] * kernel[..., 0]).sum() for p in range(count)]
        found = f(x, kernel, np.zeros(size))
        assert found.shape == (1, count, 1)
        np.testing.assert_allclose(found[0, :, 0], np.array(wanted, np.float32))
    assert f.cache_info().compiles == 1


def started(x: Any, m: Any) -> Any:
    return lax.slice_in_dim(x, m.shape[0] - 7, 5)


def limited(x: Any, m: Any) -> Any:
    return lax.slice_in_dim(x, 0, m.shape[0] - 7)


def from_both_ends(x: Any, m: Any) -> Any:
    return lax.slice_in_dim(x, x.shape[0] - m.shape[0], m.shape[0] - 2 * x.shape[0])


def one(x: Any, m: Any) -> Any:
    return lax.index_in_dim(x, m.shape[0] - 7)


@pytest.mark.parametrize("function", [started, limited, from_both_ends, one])
def test_places_that_are_negative_at_some_sizes_count_from_the_end(function: Callable[..., Any]) -> None:
    f = dyn.jit(function)
    for size in range(15):
        m = np.zeros(size)
        try:
            wanted = dyn.jit(function, shapes=f"5, {size}")(VECTOR, m)
        except ShapeError:
            with pytest.raises(ShapeError):
                f(VECTOR, m)
        else:
            np.testing.assert_array_equal(f(VECTOR, m), wanted)
    assert f.cache_info().compiles == 1


def test_a_place_before_the_first_element() -> None:
    assert refused(dyn.jit(one), VECTOR, np.zeros(1)) == (
        "x_0*min(1, max(0, -m_0 + 7)) + m_0 - 7 >= 0 is required, but x_0*min(1, max(0, -m_0 + 7)) + m_0 - 7 is -1 "
        "(x_0 is 5, m_0 is 1): a slice of axis 0 starts inside.\n"
        f"  x_0 is x.shape[0] = 5\n  m_0 is m.shape[0] = 1\n  {line(one)}\n"
        "  help: pass arguments whose shapes satisfy it."
    )
