"""The allocator: aligned, disjoint, reused, bounded, and null rather than a crash."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import pytest

from dyn.backends.runtime import idle_limit, native_runtime
from tests.threads import in_threads

_MIB = 1 << 20
_SIZES = (0, 1, 64, 191, 192, 193, 256, 4000, 4096, 100_000, _MIB // 4 - 64, _MIB // 4, _MIB, 4 * _MIB - 64, 9 * _MIB)


def alloc(bytes: int) -> int | None:
    return _functions()[0](bytes)


def free(block: int | None) -> None:
    _functions()[1](block)


def _functions() -> tuple[Callable[..., int | None], Callable[..., None]]:
    runtime = native_runtime()
    return (
        runtime.function("dyn_block_alloc", ctypes.c_void_p, ctypes.c_int64),
        runtime.function("dyn_block_free", None, ctypes.c_void_p),
    )


@pytest.fixture(autouse=True)
def nothing_idle() -> None:
    native_runtime().trim()


@pytest.mark.parametrize("size", _SIZES)
def test_a_block_is_aligned_and_as_large_as_asked(size: int) -> None:
    block = alloc(size)
    assert block is not None
    assert block % 64 == 0
    ctypes.memset(block, 0xA5, size)
    free(block)


@pytest.mark.parametrize("size", [-1, -(2**63), 2**63 - 1, 2**47, 2**47 - 64])
def test_what_cannot_be_is_null(size: int) -> None:
    assert alloc(size) is None
    block = alloc(100)
    assert block is not None
    free(block)


def test_nothing_may_be_freed() -> None:
    free(None)


@pytest.mark.parametrize("size", _SIZES)
def test_a_block_is_used_again(size: int) -> None:
    first = alloc(size)
    free(first)
    second = alloc(size)
    assert second == first
    free(second)


def test_a_larger_block_serves_up_to_half_its_size() -> None:
    block = alloc(8 * _MIB)
    free(block)
    again = alloc(5 * _MIB)
    assert again == block
    free(again)
    small = alloc(_MIB)
    assert small != block
    free(small)


def test_idle_blocks_are_counted_and_returned() -> None:
    runtime = native_runtime()
    assert runtime.idle_bytes() == 0
    blocks = [alloc(3 * _MIB) for _ in range(5)]
    assert runtime.idle_bytes() == 0
    for block in blocks:
        free(block)
    assert 15 * _MIB <= runtime.idle_bytes() <= 20 * _MIB
    runtime.trim()
    assert runtime.idle_bytes() == 0


def test_no_more_is_kept_than_the_limit() -> None:
    runtime = native_runtime()
    limit = runtime.function("dyn_block_limit", None, ctypes.c_int64)
    limit(10 * _MIB)
    try:
        blocks = [alloc(4 * _MIB) for _ in range(6)]
        for block in blocks:
            free(block)
        assert 4 * _MIB <= runtime.idle_bytes() <= 10 * _MIB
    finally:
        limit(idle_limit())


def test_sizes_that_never_come_back_are_forgotten() -> None:
    """Forty sizes after another, each 20 % larger: the blocks of the first are returned, though nobody asked for it."""
    runtime = native_runtime()
    size, largest = _MIB, 0
    for _ in range(24):
        free(alloc(size))
        largest = max(largest, runtime.idle_bytes())
        size = size * 6 // 5
    for _ in range(40):
        free(alloc(300_000))
        free(alloc(size))
        free(alloc(size // 3))
        size += 64 * 1024
    assert runtime.idle_bytes() <= 4 * size


def test_as_many_blocks_as_a_training_step_takes_are_used_again() -> None:
    """Each step gives a hundred weights new blocks, and the old ones back: no step after the second maps one."""
    held = [alloc(_MIB // 4) for _ in range(100)]
    seen: set[int | None] = set()
    for step in range(5):
        new = [alloc(_MIB // 4) for _ in range(100)]
        if step >= 2:
            assert seen.issuperset(new)
        seen.update(new)
        for block in held:
            free(block)
        held = new
    for block in held:
        free(block)


def test_threads_get_blocks_of_their_own() -> None:
    """Each writes its number all over its blocks, and finds it there when it looks again."""

    def work(number: int) -> int:
        rng = random.Random(number)
        held: list[tuple[int, int]] = []
        bad = 0
        for _ in range(3000):
            if held and rng.random() < 0.5:
                block, size = held.pop(rng.randrange(len(held)))
                data = ctypes.string_at(block, size)
                bad += data != bytes([number]) * size
                free(block)
            else:
                size = int(2 ** rng.uniform(0, 19))
                block = alloc(size)
                assert block is not None
                ctypes.memset(block, number, size)
                held.append((block, size))
        for block, _ in held:
            free(block)
        return bad

    assert in_threads(work, range(1, 9)) == [0] * 8
