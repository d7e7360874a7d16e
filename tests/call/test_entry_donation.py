"""Donated arguments and the native entry: it takes and refuses what Python does, and ends what is used up."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.backends import host_programs
from dyn.backends.host_programs import LoadedProgram
from dyn.errors import DonatedError, ShapeError
from dyn.lower.abi import LAUNCH, TABLE_WORDS
from dyn.runtime.entry.layout import RELEASE_BYTES
from tests.donated import REFUSED, numbers

Array = np.ndarray[Any, Any]


def hits(f: Any) -> int:
    return 0 if f._table is None else f._table.hits


def natively(f: Any, *args: Any, again: int = 1) -> Any:
    """A call that the entry makes itself."""
    before = hits(f)
    result = f(*args)
    assert hits(f) == before + again
    return result


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def step(w: Any, g: Any) -> Any:
    return w - 0.5 * g


@pytest.fixture
def descend() -> Any:
    f = dyn.jit(step, donate_argnums=0, shapes="n, n")
    f(numbers(3), numbers(3))
    return f


# ---- NumPy's arrays --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000, 300_000])
def test_the_result_is_the_argument(descend: Any, n: int) -> None:
    w, g = numbers(n), numbers(n) * 2
    for _ in range(3):
        expected = w - np.float32(0.5) * g
        assert natively(descend, w, g) is w
        np.testing.assert_array_equal(w, expected)
    np.testing.assert_array_equal(g, numbers(n) * 2)


@pytest.mark.parametrize("n", [1, 1000, 300_000])
def test_results_of_other_calls_are_taken(descend: Any, n: int) -> None:
    make = dyn.jit(lambda x: x + 1)
    make(numbers(3))
    w = natively(make, numbers(n))
    for call in (descend, descend._call_slow):
        before = w.copy()
        assert call(w, numbers(n)) is w
        np.testing.assert_array_equal(w, before - np.float32(0.5) * numbers(n))
    # A view of a result is the result's memory.
    assert np.shares_memory(natively(descend, w[: n // 2], numbers(n // 2)), w) is (n // 2 > 0)


def test_results_that_share_a_block_are_taken_one_by_one(descend: Any) -> None:
    many = dyn.jit(lambda x: [x + i for i in range(40)])
    many(numbers(3))
    results = natively(many, numbers(3))
    before = [r.copy() for r in results]
    assert natively(descend, results[7], numbers(3)) is results[7]
    for number, (a, b) in enumerate(zip(results, before, strict=True)):
        np.testing.assert_array_equal(a, b - np.float32(0.5) * numbers(3) if number == 7 else b)


def test_another_shape_is_a_view() -> None:
    f = dyn.jit(lambda x: (x + 1).reshape(-1), donate_argnums=0)
    f(numbers(2, 3))
    for n in (0, 1, 2, 7, 1000):
        x = numbers(n, 3)
        expected = (x + 1).reshape(-1)
        result = natively(f, x)
        assert result.base is x
        assert result.shape == (3 * n,)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", REFUSED)
def test_memory_that_is_not_taken(kind: str) -> None:
    f = dyn.jit(lambda x: x + 1, donate_argnums=0)
    f(REFUSED[kind](3))
    for n in (2, 7, 64, 1000, 50_000):
        x = REFUSED[kind](n)
        before = np.array(x)
        result = natively(f, x)
        assert not np.shares_memory(result, x)
        np.testing.assert_array_equal(result, (before + 1).astype(np.float32))
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("fast", [True, False])
def test_arrays_that_overlap(fast: bool) -> None:
    add = dyn.jit(lambda x, y: x + y, donate_argnums=(0, 1), shapes="n, n")
    add(numbers(3), numbers(3)[::-1])
    add(numbers(3), numbers(3))
    x = numbers(64)
    pairs = [(x, x), (x[:40], x[20:60]), (x[:10], x[9:19]), (x[10:20], x[:40:4]), (x[:9], x[8::-1]), (x[3:4], x[:1])]
    for a, b in pairs:
        b = b[: len(a)]
        before, expected = x.copy(), a + b
        result = natively(add, a, b) if fast else add._call_slow(a, b)
        assert np.shares_memory(result, x) is (a.size == 1)
        np.testing.assert_array_equal(result, expected)
        if a.size > 1:
            np.testing.assert_array_equal(x, before)
    assert np.shares_memory(natively(add, x[:32], x[32:]), x)  # neighbours are no overlap


def test_overlaps_among_hundreds_of_arrays() -> None:
    f = dyn.jit(lambda tree, rest: [x + 1 for x in tree], donate_argnums=0)
    block = numbers(1000)
    parts = [block[5 * i : 5 * i + 4] for i in range(200)]
    f([x.copy() for x in parts[:20]], parts[20:])
    for shared in ((), (17,), (3, 150, 198)):
        order = np.random.default_rng(len(shared)).permutation(200)
        given = [parts[i] for i in order]
        for i in shared:  # two elements more, the last of which is the first of the next
            given[i] = block[5 * order[i] : 5 * order[i] + 6]
        expected = [x + 1 for x in given[:20]]
        results = natively(f, given[:20], given[20:])
        told = {int(order[i]) for i in shared} | {int(order[i]) + 1 for i in shared}
        for i, x, result, wanted in zip(order, given, results, expected, strict=False):
            assert (result is x) is (int(i) not in told)
            np.testing.assert_array_equal(result, wanted)


LATER = np.array([1, 2, 3, 4], np.float32)


def test_what_is_closed_over_stays_as_it_was() -> None:
    f = dyn.jit(lambda x: x + LATER, donate_argnums=0, shapes="4")
    x = LATER.copy()
    assert f(x) is x
    for _ in range(2):
        np.testing.assert_array_equal(natively(f, LATER), LATER + LATER)
        np.testing.assert_array_equal(LATER, [1, 2, 3, 4])
    assert natively(f, x) is x


def test_a_failed_check_leaves_the_argument_alone(descend: Any) -> None:
    for call in (descend, descend._call_slow):
        x = numbers(4)
        with pytest.raises(ShapeError) as caught:
            call(x, numbers(5))
        assert str(caught.value) == (
            "y.shape[0] is 5, and it must be n = 4.\n  n is x.shape[0] = 4\n"
            "  help: pass arrays that agree, or give the two axes different names in shapes=."
        ).replace("y.", "g.").replace("x.", "w.")
        np.testing.assert_array_equal(x, numbers(4))
        assert not hasattr(caught.value, "__notes__")
    assert natively(descend, x, numbers(4)) is x


def test_what_a_branch_that_does_not_run_demands() -> None:
    """Memory is asked for after all where a branch would fail: nothing of the caller's is written before it does."""

    def chosen(p: Any, x: Any, y: Any) -> Any:
        return x + 1, dyn.lax.cond(p, lambda: y[4], lambda: y[0] * 0)

    f = dyn.jit(chosen, donate_argnums=1)
    no, yes = np.array(False), np.array(True)
    f(no, numbers(9), numbers(9))
    for n in (9, 3, 100_000):
        for m in (5, 4):
            x = numbers(n)
            expected = x + 1
            result, last = natively(f, no, x, numbers(m))
            assert (result is x) is (m > 4)
            np.testing.assert_array_equal(result, expected)
            assert last == 0
        x = numbers(n)
        with pytest.raises(ShapeError):
            f(yes, x, numbers(4))
        np.testing.assert_array_equal(x, numbers(n))


def test_nothing_is_left_behind(descend: Any) -> None:
    w, g = numbers(5000), numbers(5000)
    descend(w, g)
    gc.collect()
    counts, blocks = (sys.getrefcount(w), sys.getrefcount(g)), sys.getallocatedblocks()
    for _ in range(1000):
        w = descend(w, g)
    assert (sys.getrefcount(w), sys.getrefcount(g)) == counts
    # Blocks are of all threads; one that is left behind by each call would be a thousand.
    assert sys.getallocatedblocks() - blocks < 500


def test_the_gil_is_released_where_all_results_have_memory() -> None:
    f = dyn.jit(lambda x: dnp.sin(dnp.cos(dnp.tanh(x))), donate_argnums=0)
    f(numbers(3))
    x = numbers(max(RELEASE_BYTES, 4_000_000))
    ran, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            ran[0] += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    other.start()
    try:
        before = ran[0]
        with config.override(num_threads=1):
            f(numbers(3))
            assert natively(f, x) is x
        assert ran[0] > before + 20
    finally:
        stop.set()
        other.join()


# ---- failures after the first result has been written ----------------------------------------------------------------


@pytest.fixture
def short_of_memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A runtime whose launches fail, from the one on whose number is in the list."""
    words = TABLE_WORDS
    table = (ctypes.c_int64 * words)()
    launch_type = ctypes.CFUNCTYPE(
        ctypes.c_int32, *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p),
        *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),
    )  # fmt: skip
    state = [1 << 60, 0]

    @launch_type
    def launch(*arguments: Any) -> int:
        state[1] += 1
        return 1 if state[1] > state[0] else real(*arguments)

    address = LoadedProgram.runtime.__get__(object.__new__(LoadedProgram))()
    table[:] = (ctypes.c_int64 * words).from_address(address)
    real = launch_type(table[LAUNCH])
    table[LAUNCH] = ctypes.cast(launch, ctypes.c_void_p).value or 0
    monkeypatch.setattr(LoadedProgram, "runtime", lambda self, threads=0: ctypes.addressof(table))
    monkeypatch.setattr(host_programs, "_kept_by_a_test", (table, launch, real), raising=False)
    return state


NOTE = "what the donated a, b held may be lost: results were being written there."


def test_an_error_says_what_became_of_the_arguments(short_of_memory: list[int]) -> None:
    def two(a: Any, b: Any) -> Any:
        return a + 1, b * 2

    f = dyn.jit(two, donate_argnums=(0, 1), shapes="n, m")
    f(numbers(3), numbers(4))
    a, b = numbers(7), numbers(9)
    natively(f, a, b)
    for call in (f, f._call_slow):
        for first in (0, 1):
            short_of_memory[:] = [first, 0]
            a, b = numbers(7), numbers(9)
            with pytest.raises(MemoryError) as caught:
                call(a, b)
            assert short_of_memory[1] == first + 1  # it is not made again
            assert str(caught.value) == "two: no memory for the scratch of its kernels (arguments: a (7,), b (9,))"
            assert caught.value.__notes__ == [NOTE]
    # Where nothing was given away the call is made again, by Python.
    short_of_memory[:] = [1 << 60, 0]
    x = numbers(9)
    before = hits(f)
    f(x[:4], x[2:])
    assert hits(f) == before + 1
    short_of_memory[:] = [0, 0]
    with pytest.raises(MemoryError) as caught:
        f(x[:4], x[2:])
    assert short_of_memory[1] == 2
    assert not hasattr(caught.value, "__notes__")
    np.testing.assert_array_equal(x, numbers(9))


def test_a_holder_gets_its_array_back(short_of_memory: list[int]) -> None:
    f = dyn.jit(step, donate_argnums=0, shapes="n, n")
    w, g = dyn.asarray(numbers(3)), numbers(3)
    w = f(f(w, g), g)
    before = np.array(w)
    short_of_memory[:] = [0, 0]
    with pytest.raises(MemoryError) as caught:
        f(w, g)
    assert caught.value.__notes__ == ["what the donated w held may be lost: results were being written there."]
    np.testing.assert_array_equal(w, before)


# ---- dyn.Array -------------------------------------------------------------------------------------------------------


def ended(array: Any, label: str) -> None:
    assert repr(array) == f"dyn.Array(donated: {label})"
    for use in (lambda: array.shape, lambda: array + 1, lambda: np.asarray(array), lambda: len(array)):
        with pytest.raises(DonatedError) as caught:
            use()
        text = [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]
        assert text == [
            f"a dyn.Array that was donated is used again: {label}.",
            "  help: use what that call returned, or do not donate the argument.",
        ]


@pytest.mark.parametrize("n", [0, 1, 7, 5000, 100_000])
def test_a_dyn_array_is_used_up(descend: Any, n: int) -> None:
    w, g = dyn.asarray(numbers(n)), numbers(n)
    old, w = w, descend(w, g)  # by Python
    ended(old, "it was w of step()")
    for _ in range(3):
        old, expected, where = w, np.array(w) - np.float32(0.5) * g, address(w._data)
        w = natively(descend, w, g)
        assert type(w) is dyn.Array
        assert address(w._data) == where
        np.testing.assert_array_equal(np.asarray(w), expected)
        ended(old, "it was w of step()")
    with pytest.raises(DonatedError):
        descend(old, g)


def test_names_in_trees() -> None:
    f = dyn.jit(lambda params, x: {k: v + x for k, v in params.items()}, donate_argnames="params")
    params = {"a": dyn.asarray(numbers(3)), "b": dyn.asarray(numbers(4))}
    for _ in range(4):
        old, params = params, f(params, 1.0)
        ended(old["a"], "it was params['a'] of <lambda>()")
        ended(old["b"], "it was params['b'] of <lambda>()")
    assert hits(f) > 0


@pytest.mark.parametrize("other", [np.asarray, lambda x: x.T, lambda x: x[1:], lambda x: np.asarray(x)[::-1]])
def test_a_view_of_a_dyn_array_stays_as_it_was(descend: Any, other: Any) -> None:
    w, g = dyn.asarray(numbers(5000)), numbers(5000)
    w = descend(descend(w, g), g)
    view = other(w)
    before = np.array(view)
    result = natively(descend, w, g)
    assert address(result._data) != address(np.asarray(view))
    np.testing.assert_array_equal(np.array(view), before)
    ended(w, "it was w of step()")


def test_a_dyn_array_that_came_twice() -> None:
    f = dyn.jit(lambda x, y: x + y, donate_argnums=0, shapes="n, n")
    g = dyn.jit(lambda x, y: (x + y, x - y), donate_argnums=(0, 1), shapes="n, n")
    for function, ends in ((f, False), (g, True)):
        for _ in range(3):
            x = dyn.asarray(numbers(1000))
            result = function(x, x)
            first = result[0] if ends else result
            np.testing.assert_array_equal(np.asarray(first), 2 * numbers(1000))
            assert repr(x).startswith("dyn.Array(donated: it was x of <lambda>()")
        assert hits(function) > 0


def test_an_array_whose_memory_a_user_has(descend: Any) -> None:
    own, g = numbers(5000), numbers(5000)
    for _ in range(3):
        w = dyn.asarray(own, copy=False)
        descend(w, g)
        np.testing.assert_array_equal(own, numbers(5000))
    assert hits(descend) > 0


def test_numpys_arrays_beside_a_dyn_array() -> None:
    f = dyn.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1), shapes="n, n")
    for _ in range(4):
        x, y = dyn.asarray(numbers(1000)), numbers(1000)
        a, b = f(x, y)
        assert (type(a), type(b)) == (dyn.Array, dyn.Array)
        np.testing.assert_array_equal(y, numbers(1000))  # nobody writes to what is b's
        assert not np.shares_memory(np.asarray(b), y)
        ended(x, "it was x of <lambda>()")
    assert hits(f) > 0


def test_a_failed_check_leaves_a_dyn_array_alone(descend: Any) -> None:
    w = dyn.asarray(numbers(5))
    descend(dyn.asarray(numbers(5)), numbers(5))
    for call in (descend, descend._call_slow):
        with pytest.raises(ShapeError):
            call(w, numbers(6))
        np.testing.assert_array_equal(np.asarray(w), numbers(5))
    natively(descend, w, numbers(5))


def test_an_array_that_another_thread_computes_with() -> None:
    """Its memory is not taken under a call that has released the GIL."""
    total = dyn.jit(lambda x: dnp.sum(dnp.sin(x) * 0 + x))
    bump = dyn.jit(lambda x: x + 1, donate_argnums=0)
    zeros = np.zeros(3_000_000, np.float32)
    total(dyn.asarray(zeros[:3]))
    total(dyn.asarray(zeros[:3]))
    bump(bump(dyn.asarray(zeros[:3])))
    wrong: list[float] = []

    def work(x: Any) -> None:
        with config.override(num_threads=1):
            wrong.append(float(total(x)))

    with config.override(num_threads=1):
        total(dyn.asarray(zeros[:3]))
    for _ in range(5):
        x = dyn.asarray(zeros)
        other = threading.Thread(target=work, args=(x,))
        other.start()
        time.sleep(0.001)
        assert float(np.asarray(bump(x))[0]) == 1
        other.join()
    assert set(wrong) <= {0.0}


def test_a_subtree_that_is_emptied_meanwhile() -> None:
    """Labels are written to objects that the call holds, whatever becomes of their container."""
    f = dyn.jit(lambda tree: [dnp.sin(x) * 0 + 2 for x in tree], donate_argnums=0)
    tree = [dyn.asarray(np.ones(500_000, np.float32)) for _ in range(8)]
    tree = f(f(tree))
    stop = threading.Event()
    shared: list[Any] = list(tree)
    del tree

    def clear() -> None:
        while not stop.is_set():
            shared.clear()
            stop.wait(0.0005)

    other = threading.Thread(target=clear)
    other.start()
    try:
        for _ in range(20):
            shared[:] = [dyn.asarray(np.ones(500_000, np.float32)) for _ in range(8)]
            results = f(list(shared)) if not shared else f(shared)
            assert all(float(np.asarray(r)[-1]) == 2 for r in results)
    finally:
        stop.set()
        other.join()


# ---- PyTorch's and JAX's ---------------------------------------------------------------------------------------------


def test_tensors_are_not_written_to() -> None:
    torch = pytest.importorskip("torch")
    f = dyn.jit(lambda x: x + 1, donate_argnums=0)
    x = torch.zeros(8)
    f(x)
    for _ in range(2):
        assert (natively(f, x) == 1).all()
        assert (x == 0).all()


def test_a_dyn_array_beside_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    f = dyn.jit(lambda x, y: x + y, donate_argnums=0, shapes="n, n")
    w, g = dyn.asarray(numbers(5000)), torch.ones(5000)
    w = f(f(w, g), g)
    old, where = w, address(w._data)
    w = natively(f, w, g)
    assert address(w._data) == where
    np.testing.assert_array_equal(np.asarray(w), numbers(5000) + 3)
    ended(old, "it was x of <lambda>()")
    # A tensor over the same memory.
    own = numbers(5000)
    shared = dyn.asarray(own, copy=False)
    f(shared, torch.from_numpy(own))
    np.testing.assert_array_equal(own, numbers(5000))


def test_jax_arrays_are_deleted() -> None:
    jax: Any = pytest.importorskip("jax")
    import dyn.interop.jax as djax

    f = djax.jit(lambda p, x: {k: v - x for k, v in p.items()}, donate_argnums=0)
    x = jax.numpy.ones(7)
    p = {"a": jax.numpy.zeros(7), "b": jax.numpy.zeros(7)}
    old, p = p, f(p, x)
    assert old["a"].is_deleted()
    for number in range(3):
        old, p = p, natively(f, p, x)
        assert old["a"].is_deleted()
        assert old["b"].is_deleted()
        assert not x.is_deleted()
        assert float(p["a"][0]) == -2.0 - number
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        f(old, x)
    a: Any = jax.numpy.zeros(7)
    natively(f, {"a": a, "b": a}, x)
    assert a.is_deleted()
    # One of NumPy's stays.
    f({"a": jax.numpy.zeros(7), "b": np.zeros(7, "f4")}, x)
    mixed: Any = {"a": jax.numpy.zeros(7), "b": np.zeros(7, "f4")}
    assert float(natively(f, mixed, x)["b"][0]) == -1
    assert mixed["a"].is_deleted()
    np.testing.assert_array_equal(mixed["b"], 0)


def test_jax_arrays_of_a_call_that_fails_are_not_deleted() -> None:
    jax: Any = pytest.importorskip("jax")
    import dyn.interop.jax as djax

    f = djax.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jax.numpy.zeros(7), jax.numpy.ones(7)
    x = f(f(x, y), y)
    with pytest.raises(TypeError, match="incompatible shapes"):
        f(x, jax.numpy.ones(5))
    assert not x.is_deleted()
    natively(f, x, y)
    assert x.is_deleted()
