"""Eager functions of dyn.numpy by the native entry: a call by it and one through Python are told apart by nothing."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import eager, lax
from dyn.numpy._public import Size, public
from tests.threads import in_threads


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


# ---- sizes and numbers -----------------------------------------------------------------------------------------------


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions whose calls went through Python."""
    found: list[str] = []
    made = eager.call_eagerly

    def counted(fn: Any, *rest: Any) -> Any:
        found.append(fn.__name__)
        return made(fn, *rest)

    monkeypatch.setattr(eager, "call_eagerly", counted)
    return found


X, V, OWN = np.arange(6, dtype="f4").reshape(2, 3), np.arange(12, dtype="f4"), dyn.asarray(np.arange(12, dtype="f4"))
CALLS: dict[str, Callable[[int], Any]] = {
    "zeros": dnp.zeros,
    "ones of several": lambda n: dnp.ones((n, 2), dtype="int32"),
    "full": lambda n: dnp.full([n, 2], n / 7),
    "arange": lambda n: dnp.arange(n, n + 4),
    "eye": lambda n: dnp.eye(n, n + 1),
    "random": lambda n: dyn.random.normal(KEY, (n, 2)),
    "broadcast_to": lambda n: dnp.broadcast_to(X, (n, 2, 3)),
    "reshape": lambda n: dnp.reshape(V, (2**n % 5, -1)),
    "method": lambda n: OWN.reshape(-1, 2**n % 5),
    "float": lambda n: dnp.add(X, n / 7),
    "int": lambda n: dnp.multiply(n * 1000 + 17, X),
    "complex": lambda n: dnp.add(X, complex(n, n / 7)),
    "where": lambda n: dnp.where(X, n / 7, X),
    "operator": lambda n: OWN * (n / 7) + (n + 1000),
    "lax of a size": lambda n: lax.iota("float32", n),
    "lax of a shape": lambda n: lax.broadcast_in_dim(V, (n, 12), (1,)),
    "lax of a number": lambda n: lax.add(X, n / 7),
    "lax of arrays": lambda n: lax.sin(X),
}
KEY = dyn.random.key(0)


@pytest.mark.parametrize("name", CALLS)
def test_other_sizes_and_numbers_are_calls_of_the_entry(name: str, slow_calls: list[str]) -> None:
    call = CALLS[name]
    sizes = (1, 2, 5, 6, 9, 10) if name in ("reshape", "method") else (3, 0, 1, 2, 7, 1000)
    with dyn.config.override(fast_call=False):
        wanted = [outcome(lambda n=n: call(n)) for n in sizes]
    for n in sizes[:3]:
        outcome(lambda n=n: call(n))
    slow_calls.clear()
    assert [outcome(lambda n=n: call(n)) for n in sizes] == wanted
    assert slow_calls == []


def test_sizes_that_are_none() -> None:
    kinds: tuple[Any, ...] = (
        5,
        -1,
        -5,
        True,
        np.int64(4),
        np.array(3),
        2.0,
        None,
        "5",
        2**63,
        2**64,
        2**62,
        (),
        (2, 5),
    )
    for size in kinds:
        same(lambda size=size: dnp.zeros(size))
        same(lambda size=size: dnp.zeros((size, 0)))
        same(lambda size=size: dnp.reshape(X, (size, -1)))
        same(lambda size=size: dnp.reshape(np.zeros((0, 3), "f4"), (size, -1)))
        same(lambda size=size: dnp.broadcast_to(X, (2, size)))
        same(lambda size=size: dnp.eye(3, size))
        same(lambda size=size: lax.iota("int32", size))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "?", "bfloat16"])
def test_integers_that_do_not_fit(dtype: str, slow_calls: list[str]) -> None:
    x = np.zeros(3, dyn.bfloat16.np if dtype == "bfloat16" else dtype)
    edges = [
        b + d for b in (0, 2**7, -(2**7), 2**8, 2**31, -(2**31), 2**32, 2**63, -(2**63), 2**64) for d in (-1, 0, 1)
    ]
    for value in edges:
        same(lambda value=value: dnp.add(x, value))
        same(lambda value=value: dnp.maximum(value, x))
        same(lambda value=value: dnp.add(dyn.asarray(x), value))
    dnp.add(x, 20)  # where the calls before have filled the table of calls, this one starts another
    slow_calls.clear()
    for value in range(21, 100):
        dnp.add(x, value)
    assert slow_calls == [] or dtype == "bfloat16"  # NumPy has no such type


def test_zeros_of_both_signs_and_numbers_that_are_none() -> None:
    x = np.ones(3, "f4")
    for _ in range(4):
        assert np.signbit(dnp.copysign(x, 0.0)).tolist() == [False] * 3
        assert np.signbit(dnp.copysign(x, -0.0)).tolist() == [True] * 3
        for value in (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-320):
            same(lambda value=value: dnp.copysign(x, value))
            same(lambda value=value: dnp.multiply(x, value))
            same(lambda value=value: dnp.clip(x, value, 0.0))


def test_a_thousand_literals_are_few_programs() -> None:
    x = np.ones(3, "f4")
    scope: dict[str, Any] = {"dnp": dnp, "x": x}
    before = len(eager._PROGRAMS)
    for k in range(1000):
        value = f"{k}.03125"
        exec(f"def call(): return dnp.hypot(x, {value})", scope)
        np.testing.assert_allclose(scope["call"](), np.hypot(x, float(value)), rtol=1e-6)
    assert len(eager._PROGRAMS) - before <= eager.MOST_LITERALS + 1


def test_a_size_that_a_function_has_to_know() -> None:
    """A function that cannot be traced for a size that is a dim has a program for each size."""
    traced: list[Any] = []

    @public
    def rows(n: Size) -> Any:
        traced.append(n)
        return dnp.stack([dnp.ones(2) for _ in range(n)])

    for _ in range(3):
        for n in (2, 3):
            assert rows(n).shape == (n, 2)
    assert len(traced) <= 6
    with pytest.raises(Exception, match="at least one"):
        rows(0)


# ---- results that are dyn.Array --------------------------------------------------------------------------------------


def test_results_of_the_entry_are_arrays_like_others() -> None:
    a = dyn.asarray(np.arange(6, dtype="f4").reshape(2, 3))
    for _ in range(3):
        _ = a + a
    b = a + a
    assert type(b) is dyn.Array
    assert gc.is_tracked(b) == gc.is_tracked(a)
    seen = weakref.ref(b)
    data = np.asarray(b)
    plain = object()
    assert sys.getrefcount(b) == sys.getrefcount(plain)  # Python 3.14 counts no reference for the call
    del b
    assert seen() is None
    assert data.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_calls_leave_nothing_behind() -> None:
    a, big = dyn.asarray(np.ones(3, "f4")), dyn.asarray(np.ones(1 << 20, "f4"))

    def calls(count: int) -> None:
        for k in range(count):
            _ = (a + k / 7)[1:] * a[1:], dnp.zeros((k % 5, 2)), a.sum(), a.reshape(-1, 1)
            _ = big + big if k % 100 == 0 else None

    calls(300)
    gc.collect()
    before, kept = sys.getrefcount(dyn.Array), len(gc.get_objects())
    calls(20_000)
    gc.collect()
    assert sys.getrefcount(dyn.Array) - before < 20
    assert len(gc.get_objects()) - kept < 100


def test_threads_that_call_with_numbers_of_their_own() -> None:
    a = dyn.asarray(np.arange(4, dtype="f4"))

    def work(seed: int) -> None:
        for k in range(2000):
            number, size = seed * 10_000 + k, (seed + k) % 9
            assert (a + number).tolist() == [number + i for i in range(4)]
            assert dnp.ones(size).tolist() == [1] * size

    in_threads(work, range(4))


def test_changed_elements_by_the_entry(slow_calls: list[str]) -> None:
    def call(n: int) -> Any:
        a = dyn.asarray(np.arange(12.0).reshape(3, 4))
        return a.at[n % 3, 1 : 1 + n % 4].set(n / 7), a.at[n % 3].get(), a.at[n % 7].add(1.0, mode="drop")

    with dyn.config.override(fast_call=False):
        wanted = [outcome(lambda n=n: call(n)) for n in range(12)]
    for _ in range(2):
        slow_calls.clear()
        assert [outcome(lambda n=n: call(n)) for n in range(12)] == wanted
    assert slow_calls == []
    with pytest.raises(dyn.errors.ShapeError, match="outside of axis 0"):
        dyn.asarray(np.zeros(3)).at[3].set(1.0)
    for mode in ("clip", "drop", "fill", None):
        for unique in (False, True):
            same(lambda mode=mode, unique=unique: dyn.asarray(V).at[3].multiply(2.5, mode=mode, unique_indices=unique))


def test_arrays_of_all_kinds_are_copied() -> None:
    kinds = [
        np.arange(6.0).reshape(2, 3).T, np.ones(3, ">f4"), np.float32(2), [1, 2.5], np.zeros((0, 2), "?"), 3,
        np.ones(3, dyn.bfloat16.np), dyn.asarray(np.ones(2)), np.arange(10)[::-2],
    ]  # fmt: skip
    for kind in kinds:
        made = dyn.asarray(kind)
        np.testing.assert_array_equal(np.asarray(made, "f8"), np.asarray(kind, "f8"))
        if isinstance(kind, np.ndarray):
            assert made.dtype == kind.dtype.newbyteorder("=")
            assert not np.shares_memory(np.asarray(made), kind)
    with pytest.raises(dyn.errors.UnsupportedOpError):
        dyn.asarray(np.array(["a"]))


def test_indices_of_arrays() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    a = dyn.asarray(x)
    indices: list[Any] = [
        0, -1, slice(1, 3), (0, 1), (slice(None), 1), None, (None, ..., 0), ..., (np.int64(1), 2), np.array([0, 1]),
        (dyn.asarray(np.array([0, 1])), 1), x > 3, True, [0, 1], (slice(None), [0, 2]), (),
    ]  # fmt: skip
    for index in indices:
        plain = (
            tuple(np.asarray(p) if isinstance(p, dyn.Array) else p for p in index) if type(index) is tuple else index
        )
        assert type(a[index]) is dyn.Array
        np.testing.assert_array_equal(np.asarray(a[index]), x[plain])
    with pytest.raises(IndexError):
        a[5]
    assert dyn.jit(lambda n: a[0] + n)(np.ones(())).tolist() == (x[0] + 1).tolist()
    assert dyn.jit(lambda n: a[n])(np.array(1)).tolist() == x[1].tolist()
