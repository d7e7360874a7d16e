"""The native entry: what it takes itself, what it leaves to Python, and that nobody can tell the difference."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
import tracemalloc
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.call import MOST_PLANS
from dyn.call import table as call_table
from dyn.runtime.entry.layout import RELEASE_BYTES, SMALL_BYTES
from tests.threads import in_threads

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _there_is_a_fast_path() -> None:  # pyright: ignore[reportUnusedFunction]  # used by pytest
    assert dyn.hosts.fast_path() is None


def native_hits(f: Any) -> int:
    """Calls that the entry made itself."""
    return 0 if f._table is None else f._table.hits


def equal(a: Any, b: Any) -> None:
    """Equal trees with equal types, dtypes, shapes and elements."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    elif a is not None:
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def check(f: Any, *args: Any, fast: Any = True, **kwargs: Any) -> Any:
    """Call twice by the entry and once by Python: all agree, and the entry took what it should."""
    f(*args, **kwargs)
    before = native_hits(f)
    result = f(*args, **kwargs)
    assert native_hits(f) - before == bool(fast)
    equal(result, f._call_slow(*args, **kwargs))
    return result


def values(*shape: int, dtype: Any = "f4") -> Array:
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


# --- what it takes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "i4", "f2", "f4", "f8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 0, 3), (5, 3)])
def test_dtypes_and_ranks(dtype: Any, shape: tuple[int, ...]) -> None:
    f = dyn.jit(lambda x: x)
    x = values(*shape, dtype=dtype)
    y = check(f, x)
    equal(y, x)
    assert not np.shares_memory(x, y)
    assert y.flags.c_contiguous
    assert y.flags.writeable
    assert y.flags.aligned


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64, 1000, 100_000])
def test_one_plan_serves_every_size(size: int) -> None:
    f = dyn.jit(lambda x, y: (x @ y, x + 1))
    f(np.ones((3, 4), "f4"), np.ones((4, 2), "f4"))
    before = native_hits(f)
    x, y = np.ones((size, 3), "f4"), np.ones((3, 2), "f4")
    a, b = f(x, y)
    equal(a, x @ y)
    equal(b, x + 1)
    assert native_hits(f) == before + 1
    assert f.cache_info()[:2] == (1, 1)


@pytest.mark.parametrize(("number", "dtype"), [(2, "i4"), (-(2**63), "i8"), (0.5, "f4"), (True, "?"), (False, "?")])
def test_python_numbers(number: Any, dtype: str) -> None:
    f = dyn.jit(lambda x, s: x * s)
    x = np.ones(5, dtype)
    equal(check(f, x, number), x * number)
    assert native_hits(f) == 1
    equal(f(x, 0 if number is not True else False), x * (0 if number is not True else False))


def test_numbers_are_told_apart_by_type() -> None:
    f = dyn.jit(lambda x, s: x * s)
    x = np.ones(3, "i4")
    for number in (2, 2.0, True, 2, 2.0, True):
        equal(f(x, number), f._call_slow(x, number))
    assert f.cache_info().compiles == 3


def test_a_complex_number_that_is_not_looked_at() -> None:
    f = dyn.jit(lambda x, s: x + 1)
    equal(check(f, values(3), 2 + 1j), values(3) + 1)


def test_an_int_that_does_not_fit() -> None:
    f = dyn.jit(lambda x, s: x * s)
    check(f, np.ones(3, "i8"), 1)
    with pytest.raises(dyn.errors.ArgumentError) as caught:
        f(np.ones(3, "i8"), 2**63)
    assert str(caught.value) == ("<lambda>(): s = 9223372036854775808 does not fit in int64.\n  help: pass a float.")


TREES: dict[str, Callable[[Array], Any]] = {
    "dict": lambda x: {"b": x, "a": x + 1},
    "list": lambda x: [x, x + 1],
    "nested": lambda x: {"layers": [{"w": x, "b": (x, None)}, {"w": x + 1, "b": (x, None)}], "n": ()},
    "ints": lambda x: {3: x, 1: [x], 2: {}},
    "numbers": lambda x: [1, 2.5, {"c": 7}, True, x],
    "none": lambda x: (None, x),
}


@pytest.mark.parametrize("kind", TREES)
def test_trees_in_and_out(kind: str) -> None:
    f = dyn.jit(lambda tree: (tree, [tree]))
    tree = TREES[kind](values(3))
    result = check(f, tree)
    arrays = dyn.jit(lambda t: t)._call_slow(tree)
    equal(result, (arrays, [arrays]))


def test_a_dict_in_another_order_and_with_other_strings() -> None:
    f = dyn.jit(lambda d: d["alpha"] - d["beta"])
    x, y = values(3), np.ones(3, "f4")
    check(f, {"alpha": x, "beta": y})
    check(f, {"beta": y, "alpha": x})
    before = native_hits(f)
    equal(f({"".join(["al", "pha"]): x, "".join(["be", "ta"]): y}), x - y)
    assert native_hits(f) == before + 1
    assert f.cache_info().compiles == 1


def test_what_is_traced_does_not_depend_on_the_order_of_a_dict() -> None:
    """As in JAX, a traced function sees keys in their own order, whichever call came first."""
    x, y, z = values(3), np.ones(3, "f4"), np.zeros(3, "f4")
    for first in ({"b": x, "a": (y, {"d": z, "c": y})}, {"a": (y, {"c": y, "d": z}), "b": x}):
        f = dyn.jit(lambda d: [*d["a"][1].values(), d[next(reversed(d))]])
        for d in (first, {"b": x, "a": (y, {"d": z, "c": y})}, {"a": (y, {"c": y, "d": z}), "b": x}):
            for one, other in zip(f(d), (y, z, x), strict=True):
                equal(one, other)
        assert f.cache_info().compiles == 1


def test_a_tree_of_200_leaves() -> None:
    f = dyn.jit(lambda d: {k: v + 1 for k, v in d.items()})
    tree = {f"k{i}": values(i % 5) for i in range(200)}
    result = check(f, tree)
    for name, array in tree.items():
        equal(result[name], array + 1)
    more = {**tree, "k3": values(4000)}
    equal(f(more)["k3"], values(4000) + 1)


def test_deep_trees_take_the_slow_path() -> None:
    tree: Any = values(3)
    for _ in range(40):
        tree = [tree]
    check(dyn.jit(lambda t: t), tree, fast=False)


def test_keywords_defaults_and_variable_arguments() -> None:
    def g(x: Any, /, y: Any = 2.0, *more: Any, k: Any = None, **rest: Any) -> Any:
        total = x * y
        for value in (*more, *rest.values(), *([] if k is None else [k])):
            total = total + value
        return total

    f, x = dyn.jit(g), values(4)
    for args, kwargs in [
        ((x,), {}), ((x, x), {}), ((x,), {"y": x}), ((x, x, x, 1), {}), ((x,), {"k": x}), ((x, 3.0), {"k": 1, "z": x}),
        ((x,), {"z": x, "y": 1}), ((x,), {"y": 1, "z": x}),
    ]:  # fmt: skip
        equal(check(f, *args, **kwargs), g(*args, **kwargs))


class _Color(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class _Frozen:
    n: int
    names: tuple[str, ...] = ()


class _Mutable:
    """A value that says it is equal to others, and changes."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mutable) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (3, int("3"), 3.0),
        ("axis", "".join(["ax", "is"]), "b"),
        ((1, (2, "x")), (1, (2, "x")), (1, (2, "y"))),
        (None, None, False),
        (_Color.RED, _Color.RED, _Color.BLUE),
        (_Frozen(1, ("a",)), _Frozen(1, ("a",)), _Frozen(2)),
        (np.dtype("f4"), np.dtype("f4"), np.dtype("f8")),
        (np.float32, np.float32, np.float64),
    ],
)
def test_static_arguments(one: Any, same: Any, other: Any) -> None:
    seen: list[Any] = []

    def g(x: Any, s: Any) -> Any:
        seen.append(s)
        return x + len(seen)

    f = dyn.jit(g, static_argnames="s")
    x = values(3)
    equal(check(f, x, one), x + 1)
    equal(check(f, x, same), x + 1)
    equal(check(f, x, other), x + 2)
    equal(check(f, x, one), x + 1)
    equal(check(f, x, s=one), x + 1)
    assert seen == [one, other]


def test_a_static_argument_that_changes_is_seen_to() -> None:
    f = dyn.jit(lambda x, s: x + s.n, static_argnums=1)
    x, s = values(3), _Mutable(1)
    equal(check(f, x, s, fast=False), x + 1)
    s.n = 5
    equal(f(x, s), x + 5)


def test_a_static_argument_whose_comparison_raises() -> None:
    """The slow path finds by its hash that it is another."""

    class Odd(tuple[Any, ...]):
        __slots__ = ()

    class Angry:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparisons")

        __hash__ = object.__hash__

    f = dyn.jit(lambda x, s: x + len(s), static_argnums=1)
    x = values(3)
    check(f, x, (1, 2))
    equal(check(f, x, (1, Angry())), x + 2)
    equal(check(f, x, (1, 2)), x + 2)
    equal(check(f, x, Odd((1, 2))), x + 2)


# --- what it leaves ---------------------------------------------------------------------------------------------------


class _Subclass(np.ndarray):
    """A subclass that says nothing of its own."""


class _Float(float):
    pass


class _Point(NamedTuple):
    x: Any
    y: Any


ODD: dict[str, Array] = {
    "strided": values(4, 4)[:, ::2],
    "transposed": values(4, 4).T,
    "backwards": values(4)[::-1],
    "byte-swapped": values(4).astype(">f4"),
    "subclass": values(4).view(_Subclass),
    "scalar": np.float32(3),  # pyright: ignore[reportAssignmentType]
    "python's scalar": np.float64(3),  # pyright: ignore[reportAssignmentType]
    "zero strides": np.broadcast_to(np.float32(1), (3,)),
    "huge strides": np.lib.stride_tricks.as_strided(values(1), (1, 1), (2**62, -(2**62))),
    "misaligned": np.frombuffer(b"\0" + values(4).tobytes(), "f4", offset=1),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("nested", [False, True])
def test_arrays_that_lie_oddly_are_copied_first(kind: str, nested: bool) -> None:
    f = dyn.jit(lambda x: x)
    given = ODD[kind]
    before = np.array(given)
    result = check(f, {"a": [given]} if nested else given)
    result = result["a"][0] if nested else result
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, given)
    assert result.dtype == before.dtype.newbyteorder("=")
    assert not np.shares_memory(result, given)
    np.testing.assert_array_equal(given, before)


def test_what_copies_is_compiled_by_the_first_call_that_needs_it() -> None:
    code = """
import numpy as np, dyn
from dyn.backends import runtime
f = dyn.jit(lambda x: x + x[0])
x = np.arange(16, dtype="f4").reshape(4, 4)
f(x), f(x)
print(runtime._copies.cache_info().currsize, f._table.hits)
f(x.T)
print(runtime._copies.cache_info().currsize, f._table.hits)
print(f(x.T).tolist() == (x.T + x.T[0]).tolist(), f._table.hits)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "1", "1", "1", "True", "2"]


def test_overlapping_arguments() -> None:
    f = dyn.jit(lambda x, y: (x + y, y * 2))
    base = values(10)
    equal(check(f, base[1:], base[:-1]), (base[1:] + base[:-1], base[:-1] * 2))
    equal(check(f, base, base), (base + base, base * 2))
    equal(check(f, base[::-1], base), (base[::-1] + base, base * 2))


@pytest.mark.parametrize(
    "argument", [_Float(3), _Point(values(3), values(3)), OrderedDict(a=values(3))], ids=["float", "tuple", "dict"]
)
def test_what_python_does(argument: Any) -> None:
    f = dyn.jit(lambda x: x)
    check(f, argument, fast=False)
    assert native_hits(f) == 0


def test_masked_arrays_are_refused() -> None:
    f = dyn.jit(lambda x: x + 1)
    check(f, values(3))
    with pytest.raises(dyn.errors.ArgumentError) as caught:
        f(np.ma.masked_array(values(3), [True, False, True]))
    assert str(caught.value) == (
        "<lambda>(): x: a masked array has no place in a compiled program: its mask would be lost.\n"
        "  help: use array.filled(value), and pass the mask as an array of its own."
    )


@pytest.mark.parametrize("dtype", ["O", "U3", "M8[s]", "i4,f4"])
def test_dtypes_that_have_no_place(dtype: str) -> None:
    f = dyn.jit(lambda x: x + 1)
    check(f, values(3))
    for array in (np.zeros(3, dtype), np.zeros(6, dtype)[::2]):
        with pytest.raises(dyn.errors.ArgumentError) as caught:
            f(array)
        assert str(caught.value) == (
            f"<lambda>(): x: an array of dtype {array.dtype} has no place in a compiled program.\n"
            "  help: convert it to a numeric dtype first, for example array.astype('float32')."
        )


def test_a_plan_is_for_exact_types_only() -> None:
    f = dyn.jit(lambda x: x * 2)
    x = values(8)
    check(f, x)
    for other in (x.view(_Subclass), x.astype(">f4"), x[::2], x.reshape(2, 4), x.astype("i4"), np.float32(3)):
        equal(f(other), np.asarray(np.asarray(other) * 2, np.asarray(other).dtype.newbyteorder("=")))


def test_results_with_other_nodes() -> None:
    f = dyn.jit(lambda x: _Point(x + 1, OrderedDict(b=x, a=[x])))
    x = values(3)
    result = check(f, x)
    assert type(result) is _Point
    assert list(result.y) == ["b", "a"]
    equal(result.y["a"], [x])


def test_no_results() -> None:
    f = dyn.jit(lambda x: {"a": (), "b": None, "c": []})
    assert check(f, values(3)) == {"a": (), "b": None, "c": []}


def test_inside_a_trace_it_steps_aside() -> None:
    inner = dyn.jit(lambda x: x * 2)
    x = values(3)
    check(inner, x)
    before = native_hits(inner)
    outer = dyn.jit(lambda y: inner(y) + inner(x))
    equal(outer(x), x * 4)
    assert native_hits(inner) == before


def test_other_settings_are_other_plans() -> None:
    f = dyn.jit(lambda x: x / 2)
    x = values(3, dtype="i4")
    assert check(f, x).dtype == np.float32
    with dyn.config.override(default_float="float64"):
        assert f(x).dtype == np.float64
        assert check(f, x).dtype == np.float64
    assert check(f, x).dtype == np.float32
    with dyn.config.override(fast_call=False):
        check(f, x, fast=False)
        check(dyn.jit(lambda x: x), x, fast=False)


def test_versions_by_guard() -> None:
    f = dyn.jit(lambda x, y: x + 1 if x.shape[0] * y.shape[0] > 12 else x - 1)
    small, large = values(3), values(5)
    for x in (small, large, small, large):
        equal(f(x, small), x + 1 if len(x) > 4 else x - 1)
    assert f.cache_info()[:3] == (2, 2, 2)
    assert native_hits(f) == 2
    equal(check(f, values(4), small), values(4) - 1)


def test_a_guard_that_passes_64_bits() -> None:
    f = dyn.jit(lambda x, y: y + 1 if x.shape[0] * y.shape[1] > 12 else y - 1)
    y = values(3, 3)
    equal(check(f, values(1), y), y - 1)
    huge, wide = np.zeros((2**40, 0), "f4"), np.zeros((0, 2**40), "f4")
    g = dyn.jit(lambda x, y: y + 1 if x.shape[0] * y.shape[1] > 12 else y - 1)
    assert check(g, huge, wide, fast=False).shape == (0, 2**40)
    assert check(g, huge[:3], wide[:, :3]).shape == (0, 3)


def test_captured_arrays_are_read_anew() -> None:
    w = values(3)
    f = dyn.jit(lambda x: x * w)
    check(f, values(3))
    w += 5
    equal(check(f, values(3)), values(3) * w)


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
def test_many_forms() -> None:
    f = dyn.jit(lambda *arrays: arrays[0] + 1)
    x = values(2)
    for count in range(1, MOST_PLANS + 9):
        check(f, *[x] * count, fast=count <= MOST_PLANS)
    assert f._table is not None
    assert len(f._table._plans) == MOST_PLANS


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_check_leaves_nothing_behind() -> None:
    f = dyn.jit(lambda x, y: x + y, shapes="n, n")
    x, y = values(1000), values(1000)
    check(f, x, y)
    counts = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(50):
        with pytest.raises(dyn.errors.ShapeError) as caught:
            f(x, y[:-1])
        assert str(caught.value) == (
            "y.shape[0] is 999, and it must be n = 1000.\n  n is x.shape[0] = 1000\n"
            "  help: pass arrays that agree, or give the two axes different names in shapes=."
        )
        del caught
    assert (sys.getrefcount(x), sys.getrefcount(y)) == counts
    equal(check(f, x, y), x + y)


def test_results_larger_than_memory() -> None:
    f = dyn.jit(lambda x, y: (x + 1, dnp.zeros((x.shape[0], y.shape[0]))))
    check(f, values(3), values(2))
    x, y = np.zeros(2**22, "i1"), np.zeros(2**22, "i1")
    f(x[:3], y[:2])
    before = native_hits(f)
    for _ in range(3):
        with pytest.raises(MemoryError) as caught:
            f(x, y)
        assert str(caught.value) == (
            "Unable to allocate 64.0 TiB for an array with shape (4194304, 4194304) and data type float32"
        )
    assert native_hits(f) == before
    equal(check(f, x[:5], y[:2]), (x[:5] + 1, np.zeros((5, 2), "f4")))


def test_an_arena_larger_than_memory() -> None:
    f = dyn.jit(lambda x, y: dnp.sum(dnp.exp(x[:, None] + y[None, :]) @ (y[:, None] + x[None, :])))
    check(f, values(3) * 0, values(2) * 0)
    x = np.zeros(2**22, "f4")
    with pytest.raises(MemoryError):
        f(x, x)
    check(f, values(3) * 0, values(2) * 0)


# --- references -------------------------------------------------------------------------------------------------------


def test_references_stay_as_they_are() -> None:
    f = dyn.jit(lambda tree, s, n: {"a": (tree["x"] + n, [tree["y"][0]]), "b": None}, static_argnames="s")
    x, y, name, static = values(3), values(40_000), "x-and-more", ("some", "static", 12345)
    tree = {"x": x, "y": [y], name: x}
    number, keys = 123.5, ["a", "b"]
    watched: list[Any] = [x, y, name, static, tree, tree["y"], number, x.dtype, None, *keys]
    check(f, tree, static, number)
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    for _ in range(1000):
        f(tree, static, number)
    after = [sys.getrefcount(value) for value in watched]
    # None and interned strings are everybody's; a thousand references too many or too few would show all the same.
    assert all(abs(a - b) < 500 for a, b in zip(after, before, strict=True)), (before, after)
    assert after[:7] == before[:7]


@pytest.mark.parametrize("size", [3, SMALL_BYTES, RELEASE_BYTES])
def test_memory_stays_as_it_is(size: int) -> None:
    f = dyn.jit(lambda x: {"a": [x + 1, (x, None)], "b": dnp.sum(x)})
    x = values(size)
    for _ in range(100):
        check(f, x)
    tracemalloc.start()
    try:
        for _ in range(20):
            f(x)
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(2000 if size > 3 else 20_000):
            f(x)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - start < 4096
    finally:
        tracemalloc.stop()


def test_a_result_outlives_its_function() -> None:
    f = dyn.jit(lambda x: x + 1)
    x = values(SMALL_BYTES)
    result = check(f, x)
    view = result[3:]
    dead = weakref.ref(f)
    del f, result
    gc.collect()
    assert dead() is None
    np.testing.assert_array_equal(view, x[3:] + 1)


def test_a_function_goes_when_nobody_holds_it() -> None:
    class Big:
        pass

    big = Big()
    f = dyn.jit(lambda x, marker=big: x + 1)
    check(f, values(3))
    builtin = type(f).__call__
    dead, gone = weakref.ref(f), weakref.ref(big)
    del f, big
    gc.collect()
    assert dead() is not None  # the built-in alone keeps everything that it may need
    equal(builtin(values(5)), values(5) + 1)
    del builtin
    gc.collect()
    assert dead() is None
    assert gone() is None


def test_large_results_are_pooled_and_aligned() -> None:
    f = dyn.jit(lambda x: x + 1)
    y = check(f, values(SMALL_BYTES))
    assert y.base is not None
    assert y.ctypes.data % 64 == 0
    z = copy.deepcopy(y)
    del y
    equal(pickle.loads(pickle.dumps(z)), values(SMALL_BYTES) + 1)


# --- the callable -----------------------------------------------------------------------------------------------------


def test_it_looks_like_the_function() -> None:
    @dyn.jit
    def doubled(x: Any) -> Any:
        """Twice x."""
        return x * 2

    check(doubled, values(3))
    doubled.mark = 5
    assert doubled.mark == 5
    assert (doubled.__name__, doubled.__doc__, doubled.__module__) == ("doubled", "Twice x.", __name__)
    assert isinstance(doubled, dyn.Jitted)
    assert type(doubled).__name__ == "Jitted"
    assert repr(doubled) == "dyn.jit(doubled)"
    assert callable(doubled)
    assert copy.copy(doubled) is doubled
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(doubled)


@dyn.jit
def at_module_level(x: Any) -> Any:
    return x + 1


def test_a_function_of_a_module_is_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level


def test_methods() -> None:
    class Model:
        scale = 3.0

        @dyn.jit
        def run(self, x: Any) -> Any:
            return x * self["scale"]

        def __getitem__(self, name: str) -> Any:
            return getattr(self, name)

    run = dyn.jit(lambda self, x: x * 3, static_argnums=0)
    Model.run = run  # pyright: ignore[reportAttributeAccessIssue]
    model = Model()
    x = values(3)
    equal(model.run(x), x * 3)
    before = native_hits(run)
    equal(model.run(x), x * 3)
    assert native_hits(run) == before + 1
    assert model.run.__self__ is model  # pyright: ignore[reportFunctionMemberAccess]


def test_wrong_arguments() -> None:
    f = dyn.jit(lambda x, *, k=1: x * k)
    x = values(3)
    check(f, x, k=2)
    for args, kwargs, text in [
        ((), {}, "missing a required argument: 'x'"),
        ((x, x), {}, "too many positional arguments"),
        ((x,), {"x": x}, "multiple values for argument 'x'"),
        ((x,), {"z": x}, "got an unexpected keyword argument 'z'"),
    ]:
        with pytest.raises(dyn.errors.ArgumentError) as caught:
            f(*args, **kwargs)
        assert str(caught.value) == f"<lambda>(): {text}.\n  help: its signature is (x, *, k=1)."


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("quick_switches")
def test_sixteen_threads_agree_with_one() -> None:
    f = dyn.jit(lambda t, k: {"sum": dnp.sum(t["x"]), "y": [t["x"] * k, t["y"]]})
    sizes = [0, 1, 2, 7, 64, 1000, 50_000]
    trees = [{"x": values(n), "y": values(n, dtype="i4")} for n in sizes]
    expected = [f(tree, 2.0) for tree in trees]
    counts = [sys.getrefcount(tree["x"]) for tree in trees]

    def work(seed: int) -> None:
        for number in np.random.default_rng(seed).integers(0, len(sizes), 1000):
            equal(f(trees[number], 2.0), expected[number])

    in_threads(work, range(16))
    assert native_hits(f) >= 16_000
    assert [sys.getrefcount(tree["x"]) for tree in trees] == counts


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
@pytest.mark.usefixtures("quick_switches")
def test_plans_made_while_others_call() -> None:
    f = dyn.jit(lambda *arrays: sum(arrays[1:], arrays[0]) if arrays[0].shape[0] > 4 else arrays[0])
    x, y = np.ones(3, "f4"), np.ones(9, "f4")

    def work(seed: int) -> None:
        for count in np.random.default_rng(seed).integers(1, 6, 300):
            assert f(*[x] * count).tolist() == [1] * 3
            assert f(*[y] * count).tolist() == [count] * 9

    in_threads(work, range(8))


@pytest.mark.usefixtures("quick_switches")
def test_arrays_that_are_dropped_in_mid_call() -> None:
    f = dyn.jit(lambda t: t["x"] * 2 + 1)
    tree = {"x": np.zeros(1 << 18, "f4")}
    f(tree)
    stop = threading.Event()

    def swap() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            tree["x"] = np.full(1 << 18, n, "f4")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            y = f(tree)
            assert (y == y[0]).all()
    finally:
        stop.set()
        thread.join()


def test_other_threads_run_while_a_large_call_does() -> None:
    f = dyn.jit(lambda x: dnp.sum(dnp.exp(dnp.sin(x)) @ dnp.exp(x)))
    x = np.zeros((1200, 1200), "f4")
    f(x)
    ticks: list[int] = []
    done = threading.Event()

    def call() -> None:
        f(x)
        done.set()

    thread = threading.Thread(target=call)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is made to give the GIL up
    try:
        thread.start()
        while not done.is_set():
            ticks.append(1)
            done.wait(0.0005)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert len(ticks) > 1


def test_library_calls_are_left_to_python() -> None:
    """They run Python code, during which nothing borrowed would be safe."""
    f = dyn.jit(lambda x: dnp.real(dnp.fft.fft(x)))
    x = values(5).astype(np.float64)
    np.testing.assert_allclose(check(f, x, fast=False), np.fft.fft(x).real, atol=1e-9)


@pytest.mark.parametrize("shapes", [None, "2*k, m", "3*k+1, m", "n, n+2"])
def test_guards_choose_as_python_does(shapes: str | None) -> None:
    def program(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        result = x + 1
        if n // 3 > m % 4:
            result = result * 2
        if n * m == 12 or n - m > 5:
            result = result - 7
        return result

    f = dyn.jit(program, shapes=shapes)
    fits = {
        None: lambda n, m: True,
        "2*k, m": lambda n, m: n % 2 == 0,
        "3*k+1, m": lambda n, m: n % 3 == 1,
        "n, n+2": lambda n, m: m == n + 2,
    }[shapes]
    for _ in range(2):
        for n in range(13):
            for m in range(0, 15, 3 if shapes != "n, n+2" else 1):
                x, y = values(n), values(m)
                if fits(n, m):
                    equal(f(x, y), program(x, y))
                else:
                    with pytest.raises(dyn.errors.ShapeError):
                        f(x, y)
    assert native_hits(f) > 0
    assert f.cache_info().compiles <= 8


def test_without_a_fast_path_everything_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_table, "fast_path", lambda: "there is none here")
    f = dyn.jit(lambda t, n=1: {"y": t["x"] + n}, static_argnames="n")
    for size in (0, 1, 7):
        equal(f({"x": values(size)}, n=2), {"y": values(size) + 2})
    assert f._table is None
    assert f.cache_info()[:2] == (1, 2)
    with pytest.raises(dyn.errors.ArgumentError):
        f({"x": "text"})
