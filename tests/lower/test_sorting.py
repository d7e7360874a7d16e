"""Sorting by networks and merges: every dtype and width of vectors, around the sizes of vectors and blocks."""

from __future__ import annotations

import ctypes
import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.base import Effort, Source
from dyn.backends.runtime import native_runtime
from dyn.backends.x86 import X86Backend
from dyn.ir.builder import Builder
from dyn.ir.core import Value
from dyn.ir.opdef import REGISTRY
from dyn.ir.types import TensorType
from dyn.lower.abi import ALLOC, FREE, PARALLEL_FOR, TABLE_WORDS
from dyn.lower.host import Fault
from dyn.lower.host_errors import render_failure
from dyn.lower.library_calls import emit_library_call
from dyn.lower.native_call import DONE, TOO_LONG
from dyn.lower.sorting.networks import MOST_ROWS, halving, odd_even
from dyn.schedule.target import Target
from dyn.shapes import Facts
from dyn.source import Loc
from tests.lower.x86_run import runnable
from tests.orderings import DTYPES, KINDS, Array, bits, numbers, ordered, without_payloads
from tests.threads import in_threads

_TARGETS = runnable()
#: Around one vector and several of every width, and around a block of any.
_SIZES = (0, 1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 33, 64, 65, 127, 129, 256, 257, 700)
_LONG = tuple(MOST_ROWS * lanes * times + more for lanes in (2, 8, 16) for times, more in ((1, -1), (1, 1), (3, 5)))


class _Sort:
    """A native call that sorts along the only axis, or one of them."""

    def __init__(self, target: Target, dtypes: tuple[str, ...], rank: int = 1, **attrs: Any) -> None:
        b = Builder(Facts.EMPTY, Loc("sample.py", 1))
        operands = [Value(TensorType(dyn.dtypes.dtype(name), (4,) * rank), f"x{n}") for n, name in enumerate(dtypes)]
        wanted: Any = {"dimension": 0, "descending": False, **attrs}
        b.emit(REGISTRY["sort"], operands, **wanted)
        text = emit_library_call(b.ops[-1], target, lapack=False)
        assert text is not None
        backend = X86Backend(target)
        self._code = backend.load(backend.compile(Source(text.text, (text.symbol,), Effort.PROMOTE)))
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(self._code.address(text.symbol))

    def __call__(self, *operands: Array, results: tuple[Array, ...] | None = None) -> tuple[Array, ...]:
        made = results or tuple(np.empty_like(x) for x in operands)
        assert self.status(*operands, results=made) == DONE
        return made

    def status(self, *operands: Array, results: tuple[Array, ...]) -> int:
        words: list[int] = []
        dims = (ctypes.c_int64 * max(operands[0].ndim, 1))(*operands[0].shape)
        for x in (*operands, *results):
            words += [x.ctypes.data, 0, ctypes.addressof(dims), 0]
        tensors = (ctypes.c_int64 * len(words))(*words)
        table = (ctypes.c_int64 * TABLE_WORDS)()
        functions = {ALLOC: "dyn_alloc", FREE: "dyn_free", PARALLEL_FOR: "dyn_parallel_for"}
        for place, name in functions.items():
            table[place] = native_runtime().addresses[name]
        start = ctypes.addressof(tensors)
        return self._function(ctypes.addressof(table), start, start + 32 * len(operands))


def same(made: Array, wanted: Array) -> bool:
    return bits(without_payloads(made)) == bits(without_payloads(wanted))


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_networks_sort_zeros_and_ones(n: int) -> None:
    """And so anything: Knuth's 0-1 principle. Those that halve are given what is bitonic."""
    every = np.array(list(product((0, 1), repeat=n)), np.int8)
    # Up, down, and up again: zeros between ones, and ones between zeros.
    bitonic = every[(np.abs(np.diff(every, axis=1, append=every[:, :1])).sum(1) <= 2)]
    for cases, comparators in ((every, odd_even(n)), (bitonic, halving(n))):
        for i, j in comparators:
            cases[:, i], cases[:, j] = np.minimum(*cases[:, [i, j]].T), np.maximum(*cases[:, [i, j]].T)
        assert (np.diff(cases, axis=1) >= 0).all()


@pytest.mark.parametrize("target", _TARGETS, ids=lambda target: target.vector_bytes)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_vector_of_every_dtype(target: Target, dtype: str) -> None:
    down = target is _TARGETS[0]
    for descending in (False, True) if down else (False,):
        values = _Sort(target, (dtype,), descending=descending)
        orders = _Sort(target, (dtype, "int64"), descending=descending)
        for kind in KINDS:
            for size in _SIZES:
                x = numbers(dtype, size, kind)
                before, wanted = x.tobytes(), ordered([x], descending)
                assert same(values(x)[0], x[wanted]), (kind, size)
                made, places = orders(x, np.arange(size))
                assert places.tolist() == wanted, (kind, size)
                assert made.tobytes() == x[wanted].tobytes()
                assert x.tobytes() == before


@pytest.mark.parametrize("target", _TARGETS, ids=lambda target: target.vector_bytes)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_rows_longer_than_a_block(target: Target, dtype: str) -> None:
    values, orders = _Sort(target, (dtype,)), _Sort(target, (dtype, "int32"))
    for size, kind in product(_LONG, ("few", "many", "in order", "backwards")):
        x = numbers(dtype, size, kind)
        wanted = np.argsort(x, kind="stable")
        assert same(values(x)[0], x[wanted]), (kind, size)
        made, places = orders(x, np.arange(size, dtype=np.int32))
        assert (places == wanted).all(), (kind, size)
        assert made.tobytes() == x[wanted].tobytes()


def test_in_its_own_place() -> None:
    for size in (5, 700, 20_000):
        x = numbers("float32", size, "few")
        wanted = x[np.argsort(x, kind="stable")]
        _Sort(_TARGETS[0], ("float32",))(x, results=(x,))
        assert same(x, wanted)


@pytest.mark.parametrize("descending", [False, True])
def test_several_keys(descending: bool) -> None:
    sort = _Sort(_TARGETS[0], ("uint8", "float64", "int64", "complex128"), num_keys=3, descending=descending)
    for size in (0, 1, 17, 300, 9000):
        keys = [numbers("uint8", size, "few") % 3, numbers("float64", size, "few"), numbers("int64", size, "few")]
        places = np.arange(size) * (1 + 2j)
        order = ordered(keys, descending)
        made = sort(*keys, places)
        assert made[3].tolist() == places[order].tolist(), size
        assert all(one.tobytes() == key[order].tobytes() for one, key in zip(made[:3], keys, strict=True))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_every_axis(dtype: str) -> None:
    for shape in ((0, 3, 2), (3, 0, 2), (2, 5, 1), (1, 1, 1), (4, 33, 3), (2, 3, 300), (70, 2, 130)):
        x = numbers(dtype, math.prod(shape), "few").reshape(shape)
        places = np.arange(math.prod(shape)).reshape(shape)
        for axis in range(3):
            wanted = np.argsort(x, axis, kind="stable")
            made = _Sort(_TARGETS[0], (dtype,), 3, dimension=axis)(x)[0]
            assert same(made, np.take_along_axis(x, wanted, axis)), (shape, axis)
            made = _Sort(_TARGETS[0], (dtype, "int64"), 3, dimension=axis)(x, places)[1]
            assert (made == np.take_along_axis(places, wanted, axis)).all(), (shape, axis)


def test_in_programs() -> None:
    """One compile for all sizes, of views that lie backwards and apart, in loops and under vmap."""

    @dyn.jit
    def f(x: Any) -> Any:
        twice = dyn.lax.fori_loop(0, 2, lambda i, c: dnp.sort(-c, axis=-1), x)
        return dnp.sort(x, axis=0), dnp.argsort(x, axis=-1, descending=True), twice, dyn.vmap(dnp.sort)(x)

    rng = np.random.default_rng(0)
    for shape in ((0, 4), (1, 1), (3, 700), (700, 3)):
        x = rng.integers(-5, 5, shape).astype(np.float32)
        for view in (x, x[::-1, ::2], x.T):
            first, second, third, fourth = f(view)
            np.testing.assert_array_equal(first, np.sort(view, 0))
            np.testing.assert_array_equal(second, np.argsort(-view, -1, kind="stable"))
            np.testing.assert_array_equal(third, np.sort(view, -1))
            np.testing.assert_array_equal(fourth, np.sort(view, -1))
    assert f.cache_info().compiles == 1


def test_dtypes_without_native_code_are_sorted_by_the_library() -> None:
    b = Builder(Facts.EMPTY, Loc("sample.py", 1))
    b.emit(REGISTRY["sort"], [Value(TensorType(dyn.dtypes.float8_e5m2, (4,)), "x")], dimension=0, descending=False)
    assert emit_library_call(b.ops[-1], _TARGETS[0], lapack=True) is None


def test_places_are_counted_in_32_bits() -> None:
    """No element of so many is looked at."""
    x, places = (np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (2**32 - 1,), (0,)) for _ in range(2))
    sort = _Sort(_TARGETS[0], ("int8", "int8"))
    assert sort.status(x, places, results=(x, places)) == TOO_LONG
    sort = dyn.jit(dnp.argsort)
    sort(np.zeros(3, np.int8))
    host = sort.programs[0].loaded.interface.host()
    error = render_failure(host, host.sites.index(Fault.TOO_LONG), [3] * len(host.symbols), [(3,)])
    assert str(error).startswith("2^32 - 1 or more elements are to be sorted with their places, which have 32 bits")


def test_several_threads_sort_at_once() -> None:
    """Rows, blocks and runs of one call go to all threads; other calls do the whole work themselves."""
    sort = dyn.jit(lambda x: (dnp.sort(x, axis=-1), dnp.argsort(x, axis=-1)))
    arrays = [numbers("float32", size, "few") for size in (100_000, 70_001, 9000, 300)] * 2

    def check(x: Array) -> None:
        wanted = np.argsort(x, kind="stable")
        for _ in range(3):
            values, places = sort(x)
            assert same(values, x[wanted])
            assert (places == wanted).all()

    for threads in (1, 3):
        with dyn.config.override(num_threads=threads):
            for x in arrays[:2]:
                check(x)
    in_threads(check, arrays)
