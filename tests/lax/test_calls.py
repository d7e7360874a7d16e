"""Barriers, composites and custom calls: what they compute, what passes make of them, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, DynError, ShapeError, UnsupportedOpError

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)


def text_of(kind: type[DynError], call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*args)
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


# ---- barriers --------------------------------------------------------------------------------------------------------


def test_a_barrier_keeps_what_is_computed_twice(jax: ModuleType) -> None:
    def f(lib: Any, np_: Any, x: Array) -> Array:
        once = np_.tanh(np_.sum(x, axis=0))
        again, _ = lib.lax.optimization_barrier((x, once))
        return once, np_.tanh(np_.sum(again, axis=0))

    mine = dyn.jit(lambda x: f(dyn, dnp, x))
    for size in SIZES:
        x = floats(size, 3)
        for a, b in zip(mine(x), f(jax, jax.numpy, x), strict=True):
            close(a, b, 1e-3)
    assert mine.cache_info().compiles == 1
    lowered = mine.lower(floats(2, 3))
    assert lowered.as_text("dhlo").count("tanh") == 2
    assert lowered.as_text("stitch").count("= tanh") == 2
    assert "optimization_barrier" not in lowered.as_text("stitch")
    without = dyn.jit(lambda x: (dnp.tanh(dnp.sum(x, axis=0)), dnp.tanh(dnp.sum(x, axis=0)))).lower(floats(2, 3))
    assert without.as_text("stitch").count("= tanh") == 1


def test_a_barrier_costs_nothing() -> None:
    """Arguments, constants, views and results pass it without a copy that would not be there otherwise."""

    def texts(barrier: Callable[[Any], Any]) -> str:
        def f(x: Array, y: Array) -> Any:
            a, b, c = barrier((x, dnp.transpose(y), 2 * x))
            return dnp.sum(a * c, axis=1), b @ a

        shapes = (dyn.ShapeDtypeStruct(("n", 4), "float32"), dyn.ShapeDtypeStruct(("n", 4), "float32"))
        return dyn.jit(f).lower(*shapes).as_text("host")

    plain, behind = texts(lambda v: v), texts(lax.optimization_barrier)
    assert [line for line in behind.splitlines() if "slot" in line] == [
        line for line in plain.splitlines() if "slot" in line
    ]


def test_results_of_barriers() -> None:
    def f(x: Array, y: Array) -> Any:
        a, b, c = lax.optimization_barrier((x, x + y, dnp.float32(3)))
        return a, b, c, a, lax.optimization_barrier(b * 2)

    x, y = floats(3), floats(3, seed=1)
    for found, wanted in zip(dyn.jit(f)(x, y), (x, x + y, 3, x, (x + y) * 2), strict=True):
        close(found, wanted)
    z = (floats(3) + 1j).astype(np.complex64)
    close(dyn.jit(lambda z: lax.optimization_barrier((z * z, z))[0])(z), z * z)
    assert lax.optimization_barrier(x) is x
    assert dyn.jit(lambda x: (lax.optimization_barrier(()), x))(x)[0] == ()


def test_barriers_in_loops_and_transformations() -> None:
    def step(c: Array, a: Array) -> Any:
        c, a = lax.optimization_barrier((c, a))
        return dnp.sin(c) * a, c

    x = floats(5)
    plain = lambda c, a: (dnp.sin(c) * a, c)  # noqa: E731
    for use in (
        lambda f: dyn.grad(lambda x: dnp.sum(lax.scan(f, x[0], x)[1])),
        lambda f: dyn.vmap(lambda x: f(x, np.float32(2))[0]),
        lambda f: lambda x: dyn.jvp(lambda x: f(x, x)[0], (x,), (x,))[1],
        lambda f: dyn.jacrev(lambda x: f(x, x)[0]),
    ):
        close(use(step)(x), use(plain)(x))


# ---- composites ------------------------------------------------------------------------------------------------------


def test_a_composite_is_what_it_is_made_of(jax: ModuleType) -> None:
    def scaled(x: Array, *, factor: float) -> Any:
        return dnp.exp(x) * factor, x

    mine = lax.composite(scaled, "my.scaled", version=2)
    theirs = jax.lax.composite(lambda x, *, factor: (jax.numpy.exp(x) * factor, x), "my.scaled", version=2)
    f = dyn.jit(lambda x: mine(x, factor=3.0))
    for size in SIZES:
        for a, b in zip(f(floats(size)), theirs(floats(size), factor=3.0), strict=True):
            close(a, b)
    assert f.cache_info().compiles == 1
    x = floats(4)
    close(dyn.grad(lambda x: dnp.sum(mine(x, factor=2.0)[0]))(x), 2 * np.exp(x))
    close(dyn.vmap(lambda x: mine(x, factor=2.0)[0])(x), 2 * np.exp(x))
    close(dyn.jvp(lambda x: mine(x, factor=2.0)[0], (x,), (x,))[1], 2 * np.exp(x) * x)
    close(mine(x, factor=1.0)[0], np.exp(x))
    text = f.trace(dyn.ShapeDtypeStruct(("n",), "float32")).traced.function
    (op,) = [op for op in text.ops if op.opdef.name == "composite"]
    assert op.attrs == {"name": "my.scaled", "version": 2, "attributes": (("factor", 3.0),)}


def test_what_composites_refuse() -> None:
    x = floats(3)

    def closing(y: Array) -> Array:
        return lax.composite(lambda x: x + y, "adds")(x)

    assert text_of(UnsupportedOpError, dyn.jit(closing), x).splitlines()[0] == (
        "adds reads an array (f32[y_0]) from outside."
    )
    three: Any = [3]
    assert text_of(ArgumentError, lambda: lax.composite(closing, "f")(x, factor=three)) == (
        "composite 'f': the attribute factor is a list.\n"
        "  help: attributes are numbers, strings, booleans, and tuples of these; arrays are operands."
    )
    assert (
        text_of(ArgumentError, lambda: lax.composite(closing, ""))
        == "composite: '' is no name.\n  help: pass a string."
    )


# ---- custom calls ----------------------------------------------------------------------------------------------------


def sort_pairs(keys: Array, values: Array, *, descending: bool) -> tuple[Array, Array]:
    order = np.argsort(-keys if descending else keys, axis=-1, kind="stable")
    return np.take_along_axis(keys, order, -1), np.take_along_axis(values, order, -1)


@pytest.fixture(autouse=True)
def registered() -> None:
    lax.register_custom_call("test.sort_pairs", sort_pairs)


def sorted_pairs(x: Array, k: Array) -> Any:
    shapes = (dyn.ShapeDtypeStruct(x.shape, x.dtype), dyn.ShapeDtypeStruct(k.shape, k.dtype))
    return lax.custom_call("test.sort_pairs", shapes, x, k, descending=True)


def test_a_custom_call_among_others() -> None:
    f = dyn.jit(lambda x, k: tuple(part + 1 for part in sorted_pairs(x * 2, k)))
    for size in SIZES:
        x, k = floats(size), np.arange(size)
        for found, wanted in zip(f(x, k), sort_pairs(x * 2, k, descending=True), strict=True):
            close(found, wanted + 1)
    assert f.cache_info().compiles == 1
    close(sorted_pairs(floats(5), np.arange(5))[0], -np.sort(-floats(5)))
    one = lax.custom_call(
        "test.sort_pairs", [dyn.ShapeDtypeStruct((2,), "float32")] * 2, floats(2), floats(2), descending=False
    )
    assert type(one) is list


def test_many_examples_are_called_one_by_one() -> None:
    f = dyn.jit(dyn.vmap(sorted_pairs, in_axes=(0, None)))
    for count in (0, 1, 3):
        x, k = floats(count, 4), np.arange(4)
        keys, values = f(x, k)
        assert keys.shape == values.shape == (count, 4)
        for i in range(count):
            wanted = sort_pairs(x[i], k, descending=True)
            close(keys[i], wanted[0])
            close(values[i], wanted[1])
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("name", ["lapack.geqrf", "dyn.external", "dyn.mine"])
def test_names_of_dyns_own_are_not_registered(name: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        lax.register_custom_call(name, lambda x: x)
    assert refused.value.problem == (
        f"custom calls whose names begin with 'dyn.' or 'lapack.', as {name!r} does, are dyn's own."
    )
    assert refused.value.remedy == "register the function for another name."


def test_the_last_registration_counts() -> None:
    lax.register_custom_call("test.changing", lambda x: x + 1)
    f = dyn.jit(lambda x: lax.custom_call("test.changing", dyn.ShapeDtypeStruct(x.shape, x.dtype), x))
    close(f(floats(3)), floats(3) + 1)
    lax.register_custom_call("test.changing", lambda x: x * 2)
    close(f(floats(3)), floats(3) * 2)


def test_an_implementation_cannot_write_to_what_it_is_given() -> None:
    def writes(x: Array) -> Array:
        x += 1
        return x

    lax.register_custom_call("test.writes", writes)
    x = floats(3)
    with pytest.raises(ValueError, match="read-only"):
        dyn.jit(lambda x: lax.custom_call("test.writes", dyn.ShapeDtypeStruct(x.shape, x.dtype), x))(x)
    close(x, floats(3))


def test_what_custom_calls_refuse() -> None:
    x = floats(3)

    def call(target: str, shape: Any = (3,), dtype: Any = "float32", **attributes: Any) -> Callable[[Array], Any]:
        return dyn.jit(lambda x: lax.custom_call(target, dyn.ShapeDtypeStruct(shape, dtype), x, **attributes))

    text = text_of(UnsupportedOpError, call("test.nowhere"), x)
    assert text.startswith(
        "custom_call: nothing is registered for 'test.nowhere', which is called with (f32[x_0]); registered are "
    )
    assert text.endswith(
        "  help: register a function of NumPy arrays for it: dyn.lax.register_custom_call('test.nowhere', function)."
    )
    lax.register_custom_call("test.same", lambda x: x)
    assert text_of(ShapeError, call("test.same", (4,)), x) == (
        "custom_call: result 0 of 'test.same' is (3,), and (4,) was declared."
    )
    assert text_of(ArgumentError, call("test.same", (3,), "float64"), x) == (
        "custom_call: result 0 of 'test.same' is float32, and float64 was declared.\n"
        "  help: convert it in the function that was registered."
    )
    assert text_of(ArgumentError, call("test.sort_pairs", descending=floats(1)), x) == (
        "custom_call 'test.sort_pairs': the attribute descending is a ndarray.\n"
        "  help: attributes are numbers, strings, booleans, and tuples of these; arrays are operands."
    )
    assert text_of(ArgumentError, call("test.same", ("n",)), x) == (
        "custom_call 'test.same': 'n', in the shape of a result, is no size.\n"
        "  help: use numbers and dimensions, such as x.shape[0]."
    )
    lax.register_custom_call("test.pair", lambda x: (x, x))
    assert text_of(ArgumentError, call("test.pair"), x) == (
        "custom_call: 'test.pair' gave 2 results, and 1 were declared."
    )
    assert text_of(UnsupportedOpError, dyn.grad(lambda x: dnp.sum(call("test.same")(x))), x) == (
        "custom_call: 'test.same' has no derivative: what it computes is not known.\n"
        "  help: give the function around it a dyn.custom_vjp or a dyn.custom_jvp."
    )
    three: Any = 3
    assert text_of(ArgumentError, lambda: lax.register_custom_call("x", three)) == (
        "register_custom_call takes a function, not a int.\n  help: pass the function itself."
    )


def test_a_custom_call_with_a_derivative_of_its_own() -> None:
    lax.register_custom_call("test.cube", lambda x: x**3)

    @dyn.custom_jvp
    def cube(x: Array) -> Array:
        return lax.custom_call("test.cube", dyn.ShapeDtypeStruct(x.shape, x.dtype), x)

    cube.defjvps(lambda t, result, x: 3 * x * x * t)
    x = floats(4)
    close(dyn.jit(dyn.grad(lambda x: dnp.sum(cube(x))))(x), 3 * x * x)
    close(dyn.vmap(dyn.grad(cube))(x), 3 * x * x)
