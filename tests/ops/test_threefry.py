"""The block cipher, against the answers that its authors publish (Random123, kat_vectors)."""

from __future__ import annotations

import numpy as np
import pytest

import dyn
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.ops.threefry import blocks
from dyn.trace.context import current_trace
from dyn.trace.tracer import Tracer

#: Key, counter, block.
KNOWN = [
    ((0x00000000, 0x00000000), 0x00000000_00000000, 0x6B200159_99BA4EFE),
    ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF_FFFFFFFF, 0x1CB996FC_BB002BE7),
    ((0x13198A2E, 0x03707344), 0x243F6A88_85A308D3, 0xC4923A9C_483DF7A0),
]


@pytest.mark.parametrize(("key", "count", "block"), KNOWN)
def test_known_answers(key: tuple[int, int], count: int, block: int) -> None:
    keys, first = np.array(key, np.uint32), np.array(count, np.uint64)
    assert int(blocks(keys, first, ())) == block

    @dyn.jit
    def compiled(keys, first):
        trace = current_trace()
        assert trace is not None
        return Tracer(trace, trace.emit("threefry2x32", keys._value, first._value, shape=()))

    assert int(compiled(keys, first)) == block


def test_what_it_does_not_take() -> None:
    def call(keys, first):
        return Tracer(keys._trace, keys._trace.emit("threefry2x32", keys._value, first._value, shape=(2,)))

    f = dyn.jit(call)
    with pytest.raises(UnsupportedOpError) as caught:
        f(np.zeros(2, np.int32), np.uint64(0))
    assert caught.value.problem == "threefry2x32: keys are uint32 and counters uint64, not int32 and uint64"
    with pytest.raises(ShapeError) as caught:
        f(np.zeros((2, 2), np.uint32), np.uint64(0))
    assert "is not two words for each of" in caught.value.problem
    with pytest.raises(ShapeError) as caught:
        f(np.zeros(3, np.uint32), np.uint64(0))
    assert "a key is two words" in caught.value.problem


def test_what_is_computed_from_a_key_is_one_kernel() -> None:
    f = dyn.jit(lambda key, x: dyn.random.normal(key, x.shape) * x + dyn.random.uniform(key, x.shape, minval=x))
    f(np.zeros(2, np.uint32), np.ones((3, 4), np.float32))
    assert str(f.explain()).count("variant") == 1
