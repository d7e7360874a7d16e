"""Jitted functions that are called in traces: traced once, and written into their callers."""

# ruff: noqa: PLW0108  # a lambda that only calls a function is that function's caller

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, LeakedTracerError, ShapeError, TraceError, UndecidedDimError
from dyn.interop import stablehlo
from dyn.ir.core import Function, Op
from dyn.ir.verifier import verify

Array = Any


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def counted(function: Callable[..., Any], **options: Any) -> tuple[Any, list[int]]:
    """The function under ``dyn.jit``, and a list that grows when its Python runs."""
    runs: list[int] = []

    def callee(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return function(*args, **kwargs)

    return dyn.jit(callee, **options), runs


def traced(function: Callable[..., Any], *args: Any, **options: Any) -> Function:
    return verify(dyn.jit(function, **options).trace(*args).function)


# --- one trace --------------------------------------------------------------------------------------------------------


def test_a_function_is_traced_once_for_all_of_its_callers() -> None:
    f, runs = counted(lambda x: x * 2)
    assert dyn.jit(lambda x, y: f(x) + f(x) + f(y[1:]))(ones(3), ones(4)).tolist() == [6] * 3
    assert dyn.jit(lambda x: f(x) + 1)(ones(2)).tolist() == [3] * 2
    assert dyn.grad(lambda x: dnp.sum(f(x) * x))(ones(2)).tolist() == [4] * 2
    assert f(ones(5)).tolist() == [2] * 5
    assert (len(runs), f.cache_info().compiles) == (1, 1)


def test_a_call_from_outside_is_traced_for_callers_too() -> None:
    f, runs = counted(lambda x: x * 2)
    f(ones(3))
    assert dyn.jit(lambda x: f(x) + 1)(ones(2)).tolist() == [3] * 2
    assert (len(runs), f.cache_info().compiles) == (1, 1)


def test_python_runs_once_in_each_of_nested_functions() -> None:
    log: list[str] = []
    a = dyn.jit(lambda x: (log.append("a"), x + 1)[1])
    b = dyn.jit(lambda x: (log.append("b"), a(a(x)))[1])
    c = dyn.jit(lambda x: (log.append("c"), b(b(x)))[1])
    assert c(ones(2)).tolist() == [5] * 2
    assert b(ones(2)).tolist() == [3] * 2
    assert log == ["c", "b", "a"]


def test_a_hundred_layers_are_traced_once() -> None:
    def plain(w: Array, x: Array) -> Array:
        return dnp.tanh(x @ w["w"] + w["b"]) * 0.5 + x

    weights = [{"w": ones(4, 4), "b": ones(4)} for _ in range(100)]
    shapes = [[{"w": "d d", "b": "d"}] * 100, "n d"]
    layer, runs = counted(plain)

    def model(layer: Any) -> Callable[..., Any]:
        def run(weights: Any, x: Array) -> Array:
            for w in weights:
                x = layer(w, x)
            return x

        return run

    own = traced(model(layer), weights, ones(3, 4), shapes=shapes)
    written = traced(model(plain), weights, ones(3, 4), shapes=shapes)
    assert len(runs) == 1
    assert [op.opdef.name for op in own.ops] == [op.opdef.name for op in written.ops]
    assert not own.facts.relations


def test_sizes_that_are_numbers_or_one_another_are_known_as_such() -> None:
    f, runs = counted(lambda x, y: sum(x[i] for i in range(x.shape[0])) + y)
    g = dyn.jit(f, shapes="3 n, n")
    assert g(ones(3, 2), ones(2)).tolist() == [4] * 2
    assert not g.trace(ones(3, 2), ones(2)).function.facts.relations
    assert dyn.jit(f, shapes="4 n, n")(ones(4, 2), ones(2)).tolist() == [5] * 2
    assert dyn.jit(f, shapes="3 m, m")(ones(3, 5), ones(5)).tolist() == [4] * 5
    assert len(runs) == 2


def test_a_number_that_the_caller_knows_by_a_branch() -> None:
    f = dyn.jit(lambda x: sum(x[i] for i in range(x.shape[0])))
    g = dyn.jit(lambda x: f(x) if x.shape[0] == 3 else dnp.sum(x, 0))
    assert g(ones(3, 2)).tolist() == [3] * 2
    assert g(ones(5, 2)).tolist() == [5] * 2


def test_a_number_that_only_the_caller_can_prove() -> None:
    f = dyn.jit(lambda x, y: [x.sum() * i for i in range(x.shape[0] + y.shape[0])])
    g = dyn.jit(lambda x, y: f(x, y), shapes="n, m", constraints="n + m == 3")
    assert g(ones(2), ones(1)) == [0, 2, 4]
    assert g(ones(1), ones(2)) == [0, 1, 2]
    assert g.cache_info().compiles == 1


# --- branches and demands ---------------------------------------------------------------------------------------------


def test_branches_become_guards_of_the_caller_unless_it_proves_them() -> None:
    f, runs = counted(lambda x: x + 1 if x.shape[0] > 3 else x - 1)
    g = dyn.jit(lambda x: f(f(x)))
    assert [g(ones(n)).tolist() for n in (3, 5, 2, 9)] == [[-1] * 3, [3] * 5, [-1] * 2, [3] * 9]
    assert (len(runs), g.cache_info().compiles, g.cache_info().guards) == (2, 2, 2)
    large = dyn.jit(lambda x: f(x), shapes="n", dims=[dyn.Dim("n", min=10)])
    assert large(ones(12)).tolist() == [2] * 12
    assert (len(runs), large.cache_info().guards) == (2, 0)
    # Callers of the caller are asked as well.
    assert dyn.jit(lambda x: g(x[1:]))(ones(4)).tolist() == [-1] * 3
    assert dyn.jit(lambda x: g(x[1:]))(ones(5)).tolist() == [3] * 4


def test_a_guard_has_the_caller_s_dims_and_the_line_in_the_function() -> None:
    f = dyn.jit(lambda x: x + 1 if x.shape[0] > 3 else x - 1)
    g = dyn.jit(lambda x: f(x[1:]), on_new_shape="error")
    g(ones(3))
    with pytest.raises(ShapeError) as caught:
        g(ones(8))
    line = test_a_guard_has_the_caller_s_dims_and_the_line_in_the_function.__code__.co_firstlineno + 1
    assert caught.value.problem == (
        "<lambda>() needs a second program for these arguments: it has one for 3 >= max(0, x_0 - 1), by the "
        f"branch on not max(0, x_0 - 1) > 3 (test_callees.py:{line})."
    )
    with pytest.raises(UndecidedDimError) as undecided:
        dyn.jit(lambda x: f(x[1:])).trace(dyn.ShapeDtypeStruct((None,), "float32"))
    assert undecided.value.problem == "whether max(0, x_0 - 1) > 3 cannot be decided: x_0 is x.shape[0]."


def test_a_branch_without_an_answer() -> None:
    f = dyn.jit(lambda x, y: x if x.shape[0] % y.shape[0] == 0 else x + y[0])
    g = dyn.jit(lambda x, y: f(x, y))
    assert g(ones(4), ones(2)).tolist() == [1] * 4
    for function in (f, g):
        with pytest.raises(ShapeError) as caught:
            function(ones(3), ones(0))
        assert caught.value.problem == (
            "the branch on mod(x_0, y_0) == 0 has no answer: mod(x_0, y_0) divides by zero: y_0 is 0."
        )


def test_demands_are_those_of_the_caller() -> None:
    f = dyn.jit(lambda x, y: x + y * (x.shape[0] // y.shape[0]))
    g = dyn.jit(lambda x, y: f(x, y))
    assert g(ones(3), ones(1)).tolist() == [4] * 3
    with pytest.raises(ShapeError) as caught:
        g(ones(3), ones(2))
    assert caught.value.problem == (
        "x_0 broadcasts with y_0 is required, but x_0 is 3 and y_0 is 2: add broadcasts axis 0, in <lambda>."
    )
    with pytest.raises(ShapeError) as caught:
        dyn.jit(lambda x, y: f(x[1:], y))(ones(3), ones(0))
    assert caught.value.problem == (
        "y_0 != 0 is required, but y_0 is 0: max(0, x_0 - 1) is divided by y_0, in <lambda>."
    )


def test_a_demand_in_a_branch_is_asked_where_that_runs() -> None:
    first = dyn.jit(lambda x: x[2])
    g = dyn.jit(lambda p, x: lax.cond(p, lambda: first(x), lambda: x.sum()))
    assert g(np.True_, ones(3)) == 1
    assert g(np.False_, ones(1)) == 1
    with pytest.raises(ShapeError, match="in <lambda>"):
        g(np.True_, ones(1))


def test_what_is_declared_of_a_function_is_demanded_of_its_callers() -> None:
    f = dyn.jit(lambda x, y: x @ y, shapes="a 2*b, 2*b c", dims=[dyn.Dim("a", min=2)], constraints="c >= a")
    g = dyn.jit(lambda x, y: f(x, y))
    assert g(ones(2, 4), ones(4, 3)).shape == (2, 3)
    for first, second, text in (
        ((1, 4), (4, 3), "x_0 >= 2 is required, but x_0 is 1: <lambda> declares a."),
        (
            (2, 3), (3, 3),
            "x_1 == 2*floordiv(x_1, 2) is required, but x_1 is 3 and 2*floordiv(x_1, 2) is 2: "
            "<lambda> declares x.shape[1] as 2*b.",
        ),
        ((3, 4), (4, 2), "y_1 >= x_0 is required, but y_1 is 2 and x_0 is 3: <lambda> has constraints='c >= a'."),
    ):  # fmt: skip
        with pytest.raises(ShapeError) as caught:
            g(ones(*first), ones(*second))
        assert caught.value.problem == text


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (1, 0), (1, 1), (3, 1), (1, 3), (3, 3)])
def test_sizes_of_0_and_1(a: int, b: int) -> None:
    f = dyn.jit(lambda x, y: x + y)
    given, other = ones(a), ones(b)
    wanted = (given + other) * 2
    assert dyn.jit(lambda x, y: f(x, y) * 2)(given, other).tolist() == wanted.tolist()
    assert dyn.jit(lambda x, y: f(x, y) * 2, shapes=f"{a}, n")(given, other).tolist() == wanted.tolist()


def test_dims_that_the_caller_measures_and_that_the_function_measures() -> None:
    f, runs = counted(lambda y: dnp.sum(y) * y.shape[0])
    assert dyn.jit(lambda x: f(x[x > 1]) + f(x[x > 2]))(np.array([1.0, 2, 3])) == 13
    assert len(runs) == 1
    found = dyn.jit(lambda x: dnp.nonzero(x)[0])
    numbers = np.array([0, 1, 2])
    assert dyn.jit(lambda x: found(x) + found(x))(numbers).tolist() == [2, 4]
    count = dyn.jit(lambda x: dnp.nonzero(x)[0].shape[0])
    assert dyn.jit(lambda x: dnp.zeros(count(x)))(numbers).shape == (2,)


# --- what a function closes over --------------------------------------------------------------------------------------


def test_captured_arrays_are_read_at_each_call() -> None:
    weight = ones(3)
    f = dyn.jit(lambda x: x * weight)
    g = dyn.jit(lambda x: f(x) + f(x) + weight)
    slope = dyn.grad(lambda x: dnp.sum(f(x) * weight))
    assert (g(ones(3)).tolist(), slope(ones(3)).tolist()) == ([3] * 3, [1] * 3)
    weight[:] = 5
    assert (g(ones(3)).tolist(), slope(ones(3)).tolist()) == ([15] * 3, [25] * 3)
    assert len(traced(g, ones(3)).params) == 2


def test_a_function_that_reads_its_caller_s_arrays_is_traced_at_each_call() -> None:
    box: dict[str, Any] = {}
    f, runs = counted(lambda z: z + box["h"])

    def outer(x: Array) -> Array:
        box["h"] = x * 2
        box["h"] = f(x)
        return f(x)

    for size in (3, 4):
        assert dyn.jit(outer)(ones(size)).tolist() == [4] * size
    assert len(runs) == 4
    assert dyn.grad(lambda x: dnp.sum(outer(x)))(ones(2)).tolist() == [4] * 2


def test_a_function_that_looks_at_its_caller_s_sizes() -> None:
    box: dict[str, Any] = {}
    f = dyn.jit(lambda z: z * box["h"].shape[0])

    def outer(x: Array) -> Array:
        box["h"] = x
        return f(x[:1])

    for shapes in ("3", "4", None):
        size = 5 if shapes is None else int(shapes)
        assert dyn.jit(outer, shapes=shapes)(ones(size)).tolist() == [size]


def test_dims_of_the_caller_and_of_the_function_in_one_expression() -> None:
    def outer(x: Array) -> Array:
        n = x.shape[0]
        f = dyn.jit(lambda z: z + dnp.zeros(n) + (1 if z.shape[0] == n else 0) + (z.shape[0] - n))
        return f(x)

    assert dyn.jit(outer)(ones(3)).tolist() == [2] * 3


def test_what_a_function_makes_stays_in_it() -> None:
    box: list[Any] = []
    f = dyn.jit(lambda x: (box.append(x * 2), x)[1])
    with pytest.raises(LeakedTracerError, match="is used outside that trace"):
        dyn.jit(lambda x: f(x) + box[0])(ones(3))
    g = dyn.jit(lambda x: (box.append(x.shape[0]), x)[1])
    with pytest.raises(LeakedTracerError, match="the dimension x_0 of a trace of '<lambda>'"):
        dyn.jit(lambda x: g(x) + (x.shape[0] + box[1]))(ones(3))


def test_a_caller_s_array_is_not_written_to() -> None:
    def outer(x: Array) -> Array:
        buffer = dnp.zeros(2)

        def write(z: Array) -> Array:
            buffer[0] = z
            return z

        dyn.jit(write)(x[0])
        return buffer

    with pytest.raises(TraceError) as caught:
        dyn.jit(outer)(ones(2))
    assert caught.value.problem == (
        "an array (f32[2]) of 'outer' cannot be changed in write: what is computed there is not known outside."
    )


def test_neither_callers_nor_arrays_are_kept() -> None:
    class Marked(np.ndarray[Any, Any]):
        pass

    def run() -> Any:
        weight = ones(4).view(Marked)
        f = dyn.jit(lambda x: x * weight)
        dyn.grad(lambda x: dnp.sum(f(x)))(ones(4))
        return weakref.ref(weight)

    kept = run()
    f = dyn.jit(lambda x: x * 2)

    def outer(x: Array) -> Array:
        return f(x)

    caller = dyn.jit(outer)
    caller(ones(3))
    gone = weakref.ref(caller)
    del caller, outer
    gc.collect()
    assert kept() is None
    assert gone() is None


# --- arguments and results --------------------------------------------------------------------------------------------


def test_numbers_are_weak() -> None:
    f, tenth = dyn.jit(lambda x, a: x * a), dyn.jit(lambda: 0.1)
    assert dyn.jit(lambda x: f(f(2, 3), x))(ones(2)).dtype == np.float32
    assert dyn.jit(lambda x: x + tenth())(np.zeros(1)).tolist() == [0.1]
    assert dyn.jit(lambda x: x + tenth())(ones(1)).dtype == np.float32
    assert tenth().dtype == np.float32


def test_static_values_and_trees() -> None:
    f, runs = counted(
        lambda p, *, axis, scale=2.0: {"y": dnp.sum(p["x"], axis) * scale, "t": (p["b"], None)}, static_argnames="axis"
    )

    def g(x: Array) -> Array:
        one, two = f({"x": x, "b": x}, axis=0), f({"b": x, "x": x}, axis=0, scale=3.0)
        three = f({"x": x, "b": x}, axis=1)
        return one["y"].sum() + two["y"].sum() + three["y"].sum() + one["t"][0][0, 0]

    assert dyn.jit(g)(ones(2, 3)) == 12 + 18 + 12 + 1
    assert dyn.jit(g)(ones(4, 3)) == 24 + 36 + 24 + 1
    assert len(runs) == 3
    h, runs = counted(lambda x, s: x * s, static_argnums=1)
    made = dyn.jit(lambda x: (h(x, 2), h(x, 2.0), h(x, True)))(np.ones(2, np.int32))
    assert ([r.dtype.name for r in made], len(runs)) == (["int32", "float32", "int32"], 3)


def test_sizes_are_sizes() -> None:
    f, runs = counted(lambda x, n: dnp.zeros(n) + n + x.sum())
    g = dyn.jit(lambda x: f(x, x.shape[0] + 1))
    assert [g(ones(n)).tolist() for n in (3, 2)] == [[7.0] * 4, [5.0] * 3]
    assert len(runs) == 1
    assert dyn.jit(lambda x: f(x, x.shape[0]), shapes="3")(ones(3)).tolist() == [6.0] * 3
    twice = dyn.jit(lambda x: x.shape[0] * 2)
    assert dyn.jit(lambda x: dnp.zeros(twice(x)) + twice(x))(ones(3)).tolist() == [6.0] * 6
    assert twice(ones(3)) == 6
    # A difference of sizes may be negative, as no symbol is.
    below = dyn.jit(lambda x, n: x * abs(n))
    assert dyn.jit(lambda x: below(x, x.shape[0] - 5))(ones(3)).tolist() == [2] * 3


def test_arrays_of_the_caller_s_closure_as_arguments() -> None:
    constant = np.arange(3, dtype=np.float32)
    f, runs = counted(lambda x, c: x + c)
    g = dyn.jit(lambda x: f(x, constant))
    assert g(ones(3)).tolist() == [1, 2, 3]
    constant[:] = 0
    assert g(ones(3)).tolist() == [1] * 3
    for size in (2, 3):  # outside of jit its axes are dims
        other = ones(size)
        assert dyn.grad(lambda x: dnp.sum(f(x, other) ** 2))(ones(size)).tolist() == [4] * size  # noqa: B023  # now
    assert len(runs) == 2


def test_what_is_no_array_is_refused_as_from_outside() -> None:
    f = dyn.jit(lambda x, s: x)
    for leaf in ("text", dyn.ShapeDtypeStruct((2,), "float32"), 2**70):
        texts: list[str] = []
        for call in (lambda x, leaf=leaf: f(x, leaf), dyn.jit(lambda x, leaf=leaf: f(x, leaf), static_argnums=1)):
            with pytest.raises(ArgumentError) as caught:
                call(ones(2))
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
    with pytest.raises(TraceError, match="a Python branch needs the elements of"):
        dyn.jit(lambda x: dyn.jit(lambda x, t: x if t else -x)(x, True))(ones(2))


def test_changes_to_arguments_are_the_function_s_own() -> None:
    def change(x: Array) -> Array:
        x += 1
        x[0] = 7
        return x

    f = dyn.jit(change)
    made, given = dyn.jit(lambda x: (f(x), x))(ones(2))
    assert (made.tolist(), given.tolist()) == ([7, 2], [1, 1])


def test_donation_is_for_calls_from_outside() -> None:
    f = dyn.jit(lambda x: x + 1, donate_argnums=0)
    x = ones(1000)
    assert dyn.jit(lambda x: f(x) + x)(x)[0] == 3
    address = x.ctypes.data
    assert f(x).ctypes.data == address


# --- transformations --------------------------------------------------------------------------------------------------


def test_in_every_transformation() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((3, 3)).astype("f4"), rng.standard_normal((5, 3)).astype("f4")

    def plain(w: Array, x: Array) -> Array:
        return dnp.tanh(x @ w)

    f, runs = counted(plain)

    def results(f: Any) -> list[Any]:
        def loss(w: Array) -> Array:
            return dnp.sum(f(w, f(w, x)) ** 2)

        def step(carry: Array, row: Array) -> Any:
            return f(w, carry), f(w, row)

        return [
            dyn.vmap(f, (None, 0))(w, x), dyn.grad(loss)(w), dyn.hessian(loss)(w), dyn.jvp(loss, (w,), (w,))[1],
            dyn.vjp(f, w, x)[1](x), dyn.jit(lambda x: lax.scan(step, x[0], x))(x),
            dyn.grad(dyn.checkpoint(loss))(w), dyn.jit(lambda: lax.cond(w[0, 0] > 0, lambda: f(w, x), lambda: x))(),
        ]  # fmt: skip

    for mine, theirs in zip(dyn.tree.leaves(results(f)), dyn.tree.leaves(results(plain)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
    assert len(runs) == 6  # for matrices and vectors, of dims and of numbers, that are one another and that are not


def test_a_function_with_a_derivative_of_its_own_is_traced_for_calls_that_are_differentiated() -> None:
    @dyn.custom_vjp
    def sine(x: Array) -> Array:
        return dnp.sin(x)

    def forward(x: Array) -> Any:
        return dnp.sin(x), x

    sine.defvjp(forward, lambda x, ct: (100 * ct * x,))
    f, runs = counted(lambda x: sine(x) * 2)
    assert f(ones(2)).shape == (2,)
    for _ in range(2):
        np.testing.assert_allclose(dyn.grad(lambda x: dnp.sum(f(x) + f(x)))(ones(2)), [400] * 2)
    assert dyn.jit(lambda x: f(x))(ones(2)).shape == (2,)
    assert len(runs) == 2

    @dyn.custom_jvp
    def other(x: Array) -> Array:
        return dnp.sin(x)

    other.defjvp(lambda primals, tangents: (other(primals[0]), 7 * tangents[0] * other(primals[0])))
    g, runs = counted(lambda x: other(x))
    slope = dyn.grad(lambda x: dnp.sum(g(x)))
    np.testing.assert_allclose(slope(ones(2)), [7 * np.sin(1)] * 2, rtol=1e-5)
    np.testing.assert_allclose(dyn.grad(lambda x: dnp.sum(slope(x)))(ones(2)), [49 * np.sin(1)] * 2, rtol=1e-5)
    np.testing.assert_allclose(g(ones(2)), [np.sin(1)] * 2, rtol=1e-5)


def test_callbacks_run_for_each_call() -> None:
    seen: list[Any] = []

    def look(x: Array) -> Array:
        dyn.debug.callback(lambda v: seen.append(v.tolist()), x)
        return dyn.pure_callback(lambda v: v * 2, dyn.ShapeDtypeStruct(x.shape, x.dtype), x)

    f = dyn.jit(look)
    assert dyn.jit(lambda x: f(f(x)))(ones(2)).tolist() == [4] * 2
    assert seen == [[1] * 2, [2] * 2]


def test_a_composite_stays_one() -> None:
    f = dyn.jit(lambda x: lax.composite(dnp.sin, "my.sine")(x))
    text = stablehlo.dump(dyn.jit(lambda x: f(x) * 2).trace(ones(3)))
    assert "my.sine" in str(text)


def _lines(ops: tuple[Op, ...]) -> set[str]:
    return {op.loc.function for op in ops}


def test_ops_have_the_lines_of_the_function() -> None:
    def inner(x: Array) -> Array:
        return dnp.sin(x)

    f = dyn.jit(inner)
    assert "inner" in _lines(traced(lambda x: f(f(x)), ones(3)).ops)
