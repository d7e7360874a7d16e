"""Reductions that choose a pair, as argmax does: in lanes and in parts, with the results of the order of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import dyn
import dyn.numpy as dnp
from dyn import dtypes, lax
from dyn.interop.stablehlo import load
from dyn.ops.choices import Choice, choice_of
from dyn.ops.regions import scalar_region
from dyn.pipeline import CompilationRecord, optimize
from dyn.schedule.target import Target
from dyn.schedule.x86 import tables
from dyn.trace.function import LeafSpec, trace_function
from tests.schedule.test_ordered_reductions import last_greatest, places
from tests.schedule.test_split import SMALL

Array = np.ndarray[Any, Any]
Pair = tuple[Any, Any]


def as_jax(combine: str) -> Callable[[Pair, Pair], Pair]:
    """The body of ``jax.lax.argmax`` and ``argmin``: NaN wins, and of equal elements the least place."""

    def body(a: Pair, b: Pair) -> Pair:
        (value, place), (x, i) = a, b
        wins = (value > x if combine == "maximum" else value < x) | (value != value)
        first = wins | ((value == x) & (place < i))
        return dnp.where(wins, value, x), dnp.where(first, place, i)

    return body


def strictly(combine: str) -> Callable[[Pair, Pair], Pair]:
    """The first of the extremes; NaN never wins."""

    def body(a: Pair, b: Pair) -> Pair:
        (value, place), (x, i) = a, b
        wins = x > value if combine == "maximum" else x < value
        return dnp.where(wins, x, value), dnp.where(wins, i, place)

    return body


def numpy_like(a: Pair, b: Pair) -> Pair:
    """As ``strictly``, but that the first NaN wins; by way of a maximum."""
    (value, place), (x, i) = a, b
    wins = (x > value) | ((x != x) & (value == value))
    return dnp.maximum(value, x), dnp.where(wins, i, place)


BODIES = {
    "jax max": (as_jax("maximum"), Choice("maximum", True)),
    "jax min": (as_jax("minimum"), Choice("minimum", True)),
    "first max": (strictly("maximum"), Choice("maximum", False)),
    "first min": (strictly("minimum"), Choice("minimum", False)),
    "numpy": (numpy_like, Choice("maximum", True)),
}


def chosen(body: Callable[[Pair, Pair], Pair], dtype: str = "float32") -> Choice | None:
    """What is found in the region of a body."""
    x, i = LeafSpec("x", dtypes.dtype(dtype), ("n",)), LeafSpec("i", dtypes.int64, ("n",))
    init = np.zeros((), dtype), np.zeros((), "int64")
    traced = trace_function(lambda xs: lax.reduce(tuple(xs), init, body, (0,)), "program", [x, i])
    found = [op.regions[0] for op in traced.function.ops if op.opdef.name == "variadic_reduce"]
    return choice_of(found[0]) if found else None


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_choose(name: str) -> None:
    body, choice = BODIES[name]
    assert chosen(body) == choice
    assert chosen(body, "bfloat16") == choice
    assert chosen(body, "int32") == Choice(choice.combine, False)


def _swapped(a: Pair, b: Pair) -> Pair:
    (value, place), (x, i) = a, b
    return dnp.maximum(value, x), dnp.where(x > value, place, i)


def _last_nan(a: Pair, b: Pair) -> Pair:
    (value, place), (x, i) = a, b
    wins = (x > value) | (x != x)
    return dnp.where(wins, x, value), dnp.where(wins, i, place)


def _shifted(a: Pair, b: Pair) -> Pair:
    (value, place), (x, i) = a, b
    wins = x > value + 1
    return dnp.where(wins, x, value), dnp.where(wins, i, place)


def _greatest_place(a: Pair, b: Pair) -> Pair:
    (value, place), (x, i) = a, b
    wins = (x > value) | ((x == value) & (i > place))
    return dnp.where(wins, x, value), dnp.where(wins, i, place)


@pytest.mark.parametrize("body", [last_greatest, _swapped, _last_nan, _shifted, _greatest_place])
def test_bodies_that_choose_otherwise(body: Callable[[Pair, Pair], Pair]) -> None:
    assert chosen(body) is None


def test_products_of_regions_are_no_choice() -> None:
    f32, i64 = dtypes.float32, dtypes.int64
    assert choice_of(scalar_region((f32, i64) * 2, lambda b, v, p, x, i: (b.op("multiply", v, x), p))) is None
    assert choice_of(scalar_region((f32,) * 4, lambda b, v, p, x, i: (v, p))) is None


# --- results ----------------------------------------------------------------------------------------------------------


def in_order(body: str, x: Array, axis: int, inits: tuple[float, int]) -> tuple[Array, Array]:
    """The fold one by one, in NumPy."""
    lines = np.moveaxis(x, axis, -1)
    values, found = np.full(lines.shape[:-1], inits[0], x.dtype), np.full(lines.shape[:-1], inits[1], np.int64)
    with np.errstate(invalid="ignore"):
        for i in range(lines.shape[-1]):
            y = lines[..., i]
            if body.startswith("jax"):
                wins = (values > y if body == "jax max" else values < y) | (values != values)
                first = wins | ((values == y) & (found < i))
                values, found = np.where(wins, values, y), np.where(first, found, i)
            else:
                wins = y < values if body == "first min" else y > values
                if body == "numpy":
                    wins |= (y != y) & (values == values)
                values, found = np.where(wins, y, values), np.where(wins, i, found)
    return values, found


def draw(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Few numbers, so that many are equal; in floats NaNs and infinities, here and there in whole rows."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, shape)
    if np.dtype(dtype).kind != "f":
        return x.astype(dtype)
    made = np.array([-np.inf, -1, 0.5, np.inf], dtype)[x]
    made[rng.random(shape) < 0.1] = np.nan
    if len(shape) == 2:
        made[rng.random(shape[0]) < 0.2] = rng.choice([-np.inf, np.inf, np.nan])
        made[:, rng.random(shape[1]) < 0.2] = rng.choice([-np.inf, np.inf, np.nan])
    return made


def programs(body: str, axis: int, dtype: str) -> tuple[Any, tuple[float, int]]:
    number = np.dtype(dtype)
    low = -np.inf if number.kind == "f" else np.iinfo(number).min
    high = np.inf if number.kind == "f" else np.iinfo(number).max
    inits = (high if body.endswith("min") else low), 0 if body.startswith("jax") else -1
    init = number.type(inits[0]), np.int64(inits[1])
    made = dyn.jit(lambda x: lax.reduce((x, places(x, axis)), init, BODIES[body][0], (axis,)))
    return made, inits


def agree(body: str, dtype: str, shapes: list[tuple[int, ...]], axis: int) -> None:
    run, inits = programs(body, axis, dtype)
    for seed, shape in enumerate(shapes):
        x = draw(shape, dtype, seed)
        for found, wanted in zip(run(x), in_order(body, x, axis, inits), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert run.cache_info().compiles == 1


SHAPES = [(0, 3), (3, 0), (1, 1), (1, 7), (5, 1), (3, 16), (2, 17), (9, 65), (40, 130)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("body", BODIES)
def test_results_are_those_of_the_order_of_memory(body: str, dtype: str, axis: int) -> None:
    agree(body, dtype, SHAPES, axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("body", BODIES)
def test_results_in_parts(body: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SIZES", SMALL)
    agree(body, "float32", SHAPES, axis)


def test_a_million_elements_in_parts() -> None:
    run, _ = programs("numpy", 0, "float32")
    x = np.random.default_rng(0).integers(0, 1000, 10**6).astype("f4")
    for at in (None, 999_999, 400_001):
        if at is not None:
            x[at] = np.nan
        value, place = run(x)
        np.testing.assert_array_equal([value, place], [x.max(), x.argmax()])


@hypothesis.settings(max_examples=20)
@hypothesis.given(
    st.sampled_from(["jax max", "first max"]), st.floats(width=32), st.integers(-3, 9), st.integers(0, 99)
)
def test_whatever_it_starts_from(body: str, start: float, place: int, seed: int) -> None:
    run = dyn.jit(lambda x, v, p: lax.reduce((x, places(x, 0)), (v, p), BODIES[body][0], (0,)))
    for size in (0, 1, 20):
        x = draw((size,), "float32", seed)
        wanted = in_order(body, x, 0, (start, place))
        for a, b in zip(run(x, np.float32(start), np.int64(place)), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


# --- schedules --------------------------------------------------------------------------------------------------------


def steps(program: Callable[..., Any], *axes: int | str) -> list[str]:
    traced = trace_function(lambda xs: program(*xs), "program", [LeafSpec("x", dtypes.float32, axes)])
    done = optimize(traced, Target("x86", "x86-64-v4", vector_bytes=64, registers=32), CompilationRecord())
    return ["; ".join(v.steps) for launch in done.launches for v in launch.variants]


def test_a_choice_goes_in_lanes_and_in_parts() -> None:
    rows = steps(lambda x: lax.reduce((x, places(x, 1)), (-np.inf, 0), as_jax("maximum"), (1,)), "m", "n")
    whole = "split r1 by 32768; split p by 64; bind r1 to lanes"
    assert rows == [whole, "bind r1 to lanes", "split r1 by 32768; hoist p; bind r1 to lanes", "split p by 64"]


def test_places_that_may_not_increase_keep_their_order() -> None:
    rows = steps(lambda x: lax.reduce((x, dnp.astype(x, "int64")), (-np.inf, 0), as_jax("maximum"), (1,)), "m", "n")
    assert rows == ["", "split i0 by 256; bind i0 to lanes"]


def test_what_has_nothing_to_do_with_the_rest_is_reduced_by_itself() -> None:
    """A choice, a sum and a fold whose order counts, in one body of four arrays."""

    def body(a: Any, b: Any) -> Any:
        (top, at, total, last), (x, i, y, z) = a, b
        return *as_jax("maximum")((top, at), (x, i)), total + y, last * 0.5 + z

    program = dyn.jit(lambda x: lax.reduce((x, places(x, 0), x, x), (-np.inf, 0, 2.0, 1.0), body, (0,)))
    x = np.random.default_rng(0).standard_normal(1000).astype("f4")
    top, at, total, last = program(x)
    assert (top, at) == (x.max(), x.argmax())
    np.testing.assert_allclose(total, 2 + x.astype("f8").sum(), rtol=1e-5)
    wanted = np.float32(1)
    for y in x:
        wanted = wanted * np.float32(0.5) + y
    assert last == wanted


def test_argmax_as_jax_exports_it() -> None:
    jax = pytest.importorskip("jax")
    m, n = jax.export.symbolic_shape("m, n")
    spec = jax.ShapeDtypeStruct((m, n), np.float32)
    program = load(
        jax.export.export(jax.jit(lambda x: (jax.numpy.argmax(x, 1), jax.numpy.argmin(x, 0))))(
            spec
        ).mlir_module_serialized
    )
    x = draw((40, 130), "float32", 3)
    for found, wanted in zip(program(x), (x.argmax(1), x.argmin(0)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert "bind r1 to lanes" in str(program.explain())
