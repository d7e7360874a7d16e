"""Intermediate arrays of few bytes lie on the host program's stack, others in the runtime's memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError

Array = np.ndarray[Any, Any]
#: Elements of 8 bytes around 2,048 bytes; nothing at all; many.
SIZES = (0, 1, 7, 255, 256, 257, 512, 5000)


def twice(x: Any) -> Any:
    """Two kernels, and an array between them."""
    return dnp.cumsum(dnp.cumsum(x))


def _array(size: int) -> Array:
    return np.arange(size, dtype="i8")


def test_arrays_around_the_limit() -> None:
    f = dyn.jit(twice)
    for size in (*SIZES, *reversed(SIZES)):
        assert np.array_equal(f(_array(size)), np.cumsum(np.cumsum(_array(size))))
    assert f.cache_info().compiles == 1
    assert "%few0" in f.lower(_array(3)).compile().as_text("llvm")


def test_red_zones_are_in_the_runtimes_memory() -> None:
    with dyn.config.override(red_zones=True):
        f = dyn.jit(twice)
        assert np.array_equal(f(_array(9)), np.cumsum(np.cumsum(_array(9))))
        assert "%few0" not in f.lower(_array(3)).compile().as_text("llvm")


def test_many_threads_have_stacks_of_their_own() -> None:
    f = dyn.jit(twice)

    def run(size: int) -> bool:
        x = _array(size) + size
        return all(np.array_equal(f(x), np.cumsum(np.cumsum(x))) for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, [*range(1, 17), 300, 301]))


def test_in_loops_and_branches() -> None:
    @dyn.jit
    def f(x: Any, n: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            return dyn.lax.cond(i % 2 == 0, lambda c: twice(c) % 1000, lambda c: twice(c + 1) % 1000, carry)

        return dyn.lax.fori_loop(0, n, step, x)

    for size in (3, 256, 700):
        wanted = _array(size)
        for i in range(5):
            wanted = np.cumsum(np.cumsum(wanted + i % 2)) % 1000
        assert np.array_equal(f(_array(size), np.int64(5)), wanted)


@pytest.mark.parametrize("size", [8, 3000])
def test_a_call_that_fails_between_its_segments(size: int) -> None:
    """The array in front of a measured size is given back, or was on the stack; the next call is right."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        found = twice(x)
        return found[found % 2 == 0] + y

    x = _array(size)
    wanted = np.cumsum(np.cumsum(x))
    wanted = wanted[wanted % 2 == 0]
    for _ in range(3):
        with pytest.raises(ShapeError):
            f(x, _array(len(wanted) + 1))
        assert np.array_equal(f(x, _array(len(wanted))), wanted + _array(len(wanted)))


def test_a_profile_sees_them() -> None:
    f = dyn.jit(twice)
    f(_array(5))
    with dyn.profile() as profile:
        f(_array(5))
    assert len(profile.events().launches) == 2
