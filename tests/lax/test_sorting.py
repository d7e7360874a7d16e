"""``dyn.lax``'s sorts against JAX's and NumPy's, at every size, from one program each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.errors import ArgumentError, ShapeError, TraceError, UnsupportedOpError
from dyn.ir.core import Region, Value
from dyn.ir.opdef import REGISTRY
from dyn.ops.regions import scalar_region
from dyn.ops.sorting.comparators import keys_of
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]
Require = Callable[[str], Any]
SIZES = (0, 1, 2, 7, 64, 1000)
NAN, INF = float("nan"), float("inf")
#: Numbers whose order is not plain.
ODD = np.array([NAN, 1.0, -0.0, 0.0, INF, NAN, 0.0, -0.0, -INF, 1.0], np.float32)


def drawn(size: int, seed: int, dtype: str = "float32") -> Array:
    """Numbers with equal ones among them."""
    return np.random.default_rng(seed).integers(-5, 5, (3, size)).astype(dtype)


def bits(x: Any) -> Array:
    """What tells 0.0 from -0.0."""
    array = np.asarray(x)
    return array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "f" else array


# --- sort ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_several_keys(axis: int) -> None:
    f = dyn.jit(lambda x, y, z: lax.sort((x, y, z), dimension=axis, num_keys=2))
    for size in SIZES:
        x, y = drawn(size, 0), drawn(size, 1, "int8")
        z = np.arange(x.size).reshape(x.shape)
        order = np.lexsort((y, x), axis=axis)
        for found, given in zip(f(x, y, z), (x, y, z), strict=True):
            np.testing.assert_array_equal(found, np.take_along_axis(given, order, axis))
    assert f.cache_info().compiles == 1


def test_as_in_jax(require_module: Require) -> None:
    jax_lax = require_module("jax").lax
    places = np.arange(ODD.size, dtype=np.int32)
    for found, wanted in (
        (lax.sort(ODD), jax_lax.sort(ODD)),
        (lax.sort((ODD, places)), jax_lax.sort((ODD, places))),
        (lax.sort([places % 2, ODD, places], num_keys=2), jax_lax.sort([places % 2, ODD, places], num_keys=2)),
        (lax.sort_key_val(-ODD, places), jax_lax.sort_key_val(-ODD, places)),
        (lax.top_k(ODD, 4), jax_lax.top_k(ODD, 4)),
        (lax.top_k(ODD[None].T, 9, axis=0), jax_lax.top_k(ODD[None].T, 9, axis=0)),
    ):
        several = isinstance(found, tuple)
        for own, other in zip(found if several else (found,), wanted if several else (wanted,), strict=True):
            assert np.asarray(own).dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(own, other)
            np.testing.assert_array_equal(bits(own)[~np.isnan(own)], bits(other)[~np.isnan(own)])


def test_complex_numbers_are_ordered_by_parts() -> None:
    z = np.array([1 + 2j, 1 + 1j, 5j, 2 - 1j], np.complex64)
    values, places = lax.sort((z, np.arange(4)))
    np.testing.assert_array_equal(values, np.sort(z))
    np.testing.assert_array_equal(places, [2, 1, 0, 3])


def test_a_sort_of_one_array_is_stable_for_zeros() -> None:
    found = lax.sort(ODD)
    np.testing.assert_array_equal(np.signbit(found[1:5]), [True, False, False, True])


def test_lexsort() -> None:
    f = dyn.jit(lambda x, y: (dnp.lexsort((x, y)), dnp.lexsort([x, y], axis=0), dnp.lexsort((x,))))
    for size in SIZES:
        x, y = drawn(size, 0), drawn(size, 1, "int16")
        for found, wanted in zip(
            f(x, y), (np.lexsort((x, y)), np.lexsort([x, y], axis=0), np.lexsort((x,))), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)
    assert f.cache_info().compiles == 1
    assert message(lambda: dnp.lexsort(drawn(7, 3)), UnsupportedOpError) == (
        "lexsort takes a number of keys that is known while tracing.\n  help: pass a tuple of arrays."
    )


# --- sort_by ------------------------------------------------------------------------------------------------------


def by_size(a: Any, b: Any, *rest: Any) -> Any:
    return abs(a) < abs(b)


def downward_then_upward(a: Any, b: Any, c: Any, d: Any) -> Any:
    return (a > b) | ((a == b) & (c < d))


def chosen(a: Any, b: Any, c: Any, d: Any) -> Any:
    return dnp.where(a == b, c > d, b > a)


def by_difference(a: Any, b: Any, *rest: Any) -> Any:
    """The order of numbers, but not in a form that says so."""
    return a - b < 0


def by_sums(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a + c * 0.5 < b + d * 0.5


def by_distance(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a - d < b - c


@pytest.mark.parametrize(
    ("comparator", "keys"),
    [
        (by_size, lambda x, y: (np.abs(x),)),
        (downward_then_upward, lambda x, y: (y, -x)),
        (chosen, lambda x, y: (-y, x)),
        (by_difference, lambda x, y: (x,)),
        (by_sums, lambda x, y: (x + y * np.float32(0.5),)),
        (by_distance, lambda x, y: (x + y,)),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_comparators(comparator: Any, keys: Any, axis: int) -> None:
    f = dyn.jit(lambda x, y, z: lax.sort_by((x, y, z), lambda a, b, c, d, i, j: comparator(a, b, c, d), axis))
    for size in SIZES:
        x, y = drawn(size, 0), drawn(size, 1)
        z = np.arange(x.size).reshape(x.shape)
        order = np.lexsort(keys(x, y), axis=axis)
        for found, given in zip(f(x, y, z), (x, y, z), strict=True):
            np.testing.assert_array_equal(found, np.take_along_axis(given, order, axis))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("comparator", [by_size, by_difference])
def test_one_array_and_complex_ones_carried(comparator: Any) -> None:
    x = drawn(20, 5)
    z = (x + 1j * np.arange(20)).astype(np.complex64)
    order = np.argsort(np.abs(x) if comparator is by_size else x, axis=-1, kind="stable")
    np.testing.assert_array_equal(lax.sort_by(x, comparator), np.take_along_axis(x, order, -1))
    found = lax.sort_by([x, z], comparator)[1]
    np.testing.assert_array_equal(found, np.take_along_axis(z, order, -1))


@pytest.mark.parametrize("size", [0, 1, 3, 17, 100])
def test_an_order_that_is_none_keeps_every_element(size: int) -> None:
    """What a comparator says that contradicts itself is up to us; memory is not."""
    x = np.arange(size)
    found = lax.sort_by(x, lambda a, b: (a * 7 + b * 3) % 5 < 2)
    assert set(np.asarray(found)) <= set(x)


@pytest.mark.parametrize("comparator", [by_size, by_difference])
def test_derivatives_and_examples(comparator: Any) -> None:
    x = np.array([[3.0, -1.0, 2.0, 5.0, 0.5]] * 2) * np.array([[1.0], [-1.0]])
    weights = np.arange(5.0)
    order = np.argsort(np.abs(x) if comparator is by_size else x, axis=-1, kind="stable")
    wanted = np.zeros((2, 5))
    np.put_along_axis(wanted, order, np.broadcast_to(weights, (2, 5)), -1)
    gradient = dyn.vmap(dyn.grad(lambda row: dnp.sum(lax.sort_by(row, comparator) * weights)))(x)
    np.testing.assert_array_equal(gradient, wanted)
    both = dyn.jvp(lambda row: lax.sort_by(row, comparator), (x[0],), (weights,))
    np.testing.assert_array_equal(both[0], x[0][order[0]])
    np.testing.assert_array_equal(both[1], weights[order[0]])


# --- what is read off comparators ---------------------------------------------------------------------------------


def read(build: Callable[..., Value], *types: str) -> tuple[tuple[str, bool], ...] | None:
    region: Region = scalar_region([dtypes.dtype(t) for t in types for _ in range(2)], build)
    keys = keys_of(region)
    if keys is None:
        return None
    makers = {v: op for op in region.ops for v in op.results}
    texts = []
    for key in keys:
        op = makers.get(key.value)
        text = f"x{region.params.index(key.value) // 2}" if op is None else op.opdef.name
        texts.append((text, key.descending))
    return tuple(texts)


def compare(b: Any, direction: str, x: Value, y: Value) -> Value:
    return b.op("compare", x, y, direction=direction)


def test_keys_of_comparators() -> None:
    assert read(lambda b, x, y: compare(b, "LT", x, y), "int32") == (("x0", False),)
    assert read(lambda b, x, y: compare(b, "GT", x, y), "int32") == (("x0", True),)
    assert read(lambda b, x, y: compare(b, "LT", y, x), "int32") == (("x0", True),)
    assert read(lambda b, x, y: compare(b, "GT", y, x), "int32") == (("x0", False),)
    assert read(lambda b, x, y: compare(b, "LT", b.op("abs", x), b.op("abs", y)), "int32") == (("abs", False),)

    def two(b: Any, x: Value, y: Value, p: Value, q: Value) -> Value:
        return b.op("or", compare(b, "LT", x, y), b.op("and", compare(b, "EQ", x, y), compare(b, "GT", p, q)))

    def two_by_choice(b: Any, x: Value, y: Value, p: Value, q: Value) -> Value:
        return b.op("select", compare(b, "NE", x, y), compare(b, "LT", x, y), compare(b, "LT", q, p))

    for build in (two, two_by_choice):
        assert read(build, "float32", "int8") == (("x0", False), ("x1", True))


def test_what_is_no_comparison_of_keys() -> None:
    assert read(lambda b, x, y: compare(b, "LE", x, y), "int32") is None
    assert read(lambda b, x, y: compare(b, "LT", x, b.op("abs", y)), "int32") is None
    assert read(lambda b, x, y, p, q: compare(b, "LT", x, q), "int32", "int32") is None
    assert read(lambda b, x, y: b.op("not", compare(b, "LT", x, y)), "int32") is None

    def other_equality(b: Any, x: Value, y: Value, p: Value, q: Value) -> Value:
        return b.op("or", compare(b, "LT", x, y), b.op("and", compare(b, "EQ", p, q), compare(b, "LT", p, q)))

    def unequal(b: Any, x: Value, y: Value, p: Value, q: Value) -> Value:
        return b.op("or", compare(b, "LT", x, y), b.op("and", compare(b, "NE", x, y), compare(b, "LT", p, q)))

    for build in (other_equality, unequal):
        assert read(build, "int32", "int32") is None


# --- top_k --------------------------------------------------------------------------------------------------------


def test_top_k_of_every_size() -> None:
    f = dyn.jit(lambda x: (*lax.top_k(x, 0), *lax.top_k(x, x.shape[1]), *lax.top_k(x, x.shape[1] // 10)))
    for size in SIZES:
        x = drawn(size, 4, "int32")
        order = np.argsort(-x, axis=1, kind="stable")
        found = f(x)
        for (values, places), k in zip((found[:2], found[2:4], found[4:]), (0, size, size // 10), strict=True):
            np.testing.assert_array_equal(places, order[:, :k])
            np.testing.assert_array_equal(values, np.take_along_axis(x, order[:, :k], 1))
    assert f.cache_info().compiles == 1


def test_top_k_of_a_traced_number() -> None:
    f = dyn.jit(lax.top_k)
    x = drawn(64, 6)[0]
    order = np.argsort(-x, kind="stable")
    for k in (0, 1, 7, 64):
        values, places = f(x, np.int64(k))
        np.testing.assert_array_equal(values, x[order[:k]])
        np.testing.assert_array_equal(places, order[:k])
    assert f.cache_info().compiles == 1


def _in_total_order(x: Any, k: int) -> Any:
    """Where the ``k`` greatest stand, by a sort of all that is written in another way than the op's."""
    keys = x
    if x.dtype.kind not in "iub":
        size = np.where(np.signbit(x.astype(np.float64)), -1, 1)
        magnitude = np.abs(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
        keys = np.where(size < 0, ~magnitude, magnitude)
    ranks = np.unique(keys, return_inverse=True)[1]
    return np.lexsort((np.arange(x.size), -ranks))[:k]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint32", "uint64", "int8", "bool"])
def test_top_k_of_long_lanes(dtype: str) -> None:
    """Those are pruned first; ordered, equal and odd ones are what pruning could trip over."""
    rng = np.random.default_rng(0)
    lanes = {
        "random": rng.standard_normal(20_011) * 1000,
        "ordered": np.arange(16_384.0),
        "equal": np.zeros(30_000),
        "few": rng.integers(0, 3, 20_000).astype(float),
    }
    if dtype.startswith("float"):
        odd = rng.permuted(np.resize([np.nan, -np.nan, 0.0, -0.0, -1.0, np.inf, -np.inf], 20_000))
        last = np.where(np.arange(20_031) == 20_030, np.nan, -rng.random(20_031))
        zeros = np.where(rng.random(20_000) < 0.5, -0.0, 0.0)
        lanes |= {"odd": odd, "a_nan_at_the_end": last, "zeros": zeros}
    for name, lane in lanes.items():
        with np.errstate(invalid="ignore"):
            x = (np.abs(lane) if dtype[0] in "ub" else lane).astype(dtype)
        for k in (1, 7, 300, 3000):
            values, places = top_k_of_the_op(x, k)
            wanted = _in_total_order(x, k)
            np.testing.assert_array_equal(places, wanted, err_msg=f"{name} {k}")
            np.testing.assert_array_equal(bits(values), bits(x[wanted]))


def top_k_of_the_op(x: Any, k: int) -> tuple[Any, Any]:
    """Of two lanes of one array, along its first axis."""
    values, places = (np.asarray(v) for v in lax.top_k(np.stack([x, x[::-1]], axis=1), k, axis=0))
    np.testing.assert_array_equal(places[:, 1], _in_total_order(np.ascontiguousarray(x[::-1]), k))
    return np.ascontiguousarray(values[:, 0]), places[:, 0]


# --- errors -------------------------------------------------------------------------------------------------------


def message(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


def test_errors() -> None:
    x, y, z = np.zeros(3), np.zeros((2, 2)), np.zeros(3, np.complex64)
    assert message(lambda: lax.sort([]), ArgumentError) == (
        "sort: there are 0 operands and 1 keys.\n  help: give at least one operand, and at least one of them for a key."
    )
    assert message(lambda: lax.sort(x, dimension=1), ShapeError) == (
        "sort: 1 is no axis of an array with 1 axes.\n  help: use one from -1 to 0."
    )
    assert message(lambda: lax.sort((x, y)), ShapeError) == (
        "sort: operands have ranks 1 and 2: f64[operand_0_0] and f64[operand_1_0, operand_1_1]"
    )
    assert message(lambda: lax.top_k(z, 1), UnsupportedOpError) == (
        "top_k does not take complex64, which has no order.\n  help: take the absolute values, or a part."
    )
    assert message(lambda: dnp.lexsort(()), ArgumentError) == (
        "lexsort: there are no keys.\n  help: give at least one array."
    )
    assert message(lambda: dnp.lexsort((z,)), UnsupportedOpError) == (
        "lexsort does not take complex64.\n  help: give the imaginary and the real part as keys."
    )
    assert message(lambda: lax.sort_by(x, lambda a, b: a - b), TraceError) == (
        "the comparator of sort_by gives f64[] (result), where comparisons are i1[].\n"
        "  help: convert it with .astype, or start from other values."
    )
    assert message(lambda: lax.sort_by(z, lambda a, b: a < b), UnsupportedOpError)


def test_more_than_there_are() -> None:
    f = dyn.jit(lambda x: lax.top_k(x, 5))
    f(np.zeros(5))
    text = message(lambda: f(np.zeros(4)), ShapeError)
    assert "axis 0 has as many elements as are taken of it" in text


def test_the_op_says_what_it_takes() -> None:
    trace_error = message(lambda: dyn.jit(lambda x: _emit(x, num_keys=3))(np.zeros(3)), ShapeError)
    assert trace_error == ("sort: 3 of 1 operands cannot be keys\n  help: there is at least one operand a key.")
    assert REGISTRY["sort_by"].kind is REGISTRY["sort"].kind


def _emit(x: Tracer, **attrs: Any) -> Any:
    return Tracer(x._trace, x._trace.emit("sort", x._value, dimension=0, descending=False, **attrs))
