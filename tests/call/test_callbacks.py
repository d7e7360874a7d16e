"""Python functions that programs call: what they are given, when they are called, and what they raise."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, DynError, ShapeError, UnsupportedOpError
from tests.threads import in_threads

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)


def text_of(kind: type[DynError], call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*args)
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


def like(x: Any) -> dyn.ShapeDtypeStruct:
    return dyn.ShapeDtypeStruct(x.shape, x.dtype)


class Seen:
    """A callback that keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append(args[0] if len(args) == 1 and not kwargs else (args, kwargs))

    def taken(self) -> list[Any]:
        calls, self.calls = self.calls, []
        return [c.tolist() if isinstance(c, np.ndarray) else c for c in calls]


# ---- what a callback gives and is given ------------------------------------------------------------------------------


def test_a_pure_callback_among_other_ops() -> None:
    def tripled(a: Array) -> Array:
        return np.repeat(a[:, None], 3, 1)

    f = dyn.jit(lambda x: dyn.pure_callback(tripled, dyn.ShapeDtypeStruct((x.shape[0], 3), "float32"), x * 2) + 1)
    for size in SIZES:
        close(f(floats(size)), tripled(floats(size) * 2) + 1)
    assert f.cache_info().compiles == 1
    close(f.reference(floats(3)), tripled(floats(3) * 2) + 1)


def test_trees_of_arguments_and_results() -> None:
    def both(pair: tuple[Array, Array], *, scale: Array) -> dict[str, Array]:
        assert type(pair) is tuple
        return {"sum": pair[0] + pair[1], "count": pair[0].size * scale}

    def f(x: Array, y: Array) -> Any:
        wanted = {"sum": like(x), "count": dyn.ShapeDtypeStruct((), "int64")}
        return dyn.pure_callback(both, wanted, (x, y), scale=x.shape[0])

    x, y = floats(3), floats(3, seed=1)
    for made in (dyn.jit(f)(x, y), f(x, y)):
        close(made["sum"], x + y)
        assert made["count"] == 9


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float16", "float8_e5m2", "complex64"])
def test_dtypes(dtype: str) -> None:
    x = np.asarray([0, 1, 1]).astype(dyn.dtype(dtype).np)
    seen = Seen()

    def same(a: Array) -> Array:
        seen(a)
        return a

    f = dyn.jit(lambda x: dyn.pure_callback(same, like(x), x))
    made = f(x)
    assert made.dtype == x.dtype == seen.calls[0].dtype
    np.testing.assert_array_equal(made, x)


def test_numbers_take_the_declared_dtype() -> None:
    def f(number: Any, dtype: str) -> Any:
        return dyn.jit(lambda: dyn.pure_callback(lambda: number, dyn.ShapeDtypeStruct((), dtype)))()

    assert f(2, "float32").dtype == np.float32
    assert f(True, "int8") == 1
    assert f(1.5, "bfloat16") == 1.5
    assert text_of(ArgumentError, f, 1.5, "int32") == (
        "pure_callback of <lambda>: result is float64, and int32 was declared.\n"
        "  help: return it as int32, or declare what it returns."
    )


def test_what_a_callback_is_given_is_its_own() -> None:
    seen = Seen()
    f = dyn.jit(lambda x: (dyn.debug.callback(seen, x), dyn.debug.callback(seen, x + 1), x * 2)[2])
    x = floats(100)
    f(x)
    one, other = seen.calls
    one[:] = 5
    f(floats(100, seed=1))
    close(other, x + 1)
    close(x, floats(100))
    assert one.flags.writeable
    assert one.flags.owndata


def test_arrays_from_outside_and_numbers() -> None:
    seen, w = Seen(), np.zeros(2, np.float32)

    @dyn.jit
    def f(x: Array) -> None:
        dyn.debug.callback(seen, w, 3, "text", x.shape[0], key=None, x=x)

    f(floats(4)[:1])
    w[:] = 7
    f(floats(1))
    ((first, named), (second, _)) = seen.calls
    assert [first[1], first[2], first[3], named["key"]] == [3, "text", 1, None]
    assert (first[0].tolist(), second[0].tolist()) == ([0, 0], [7, 7])


def test_sizes_that_a_program_measures() -> None:
    def twice(x: Array) -> Array:
        (places,) = dnp.nonzero(x)
        wanted = dyn.ShapeDtypeStruct((2 * places.shape[0],), places.dtype)
        return dyn.pure_callback(lambda a: np.concatenate([a, a]), wanted, places)

    f = dyn.jit(twice)
    for values in ([1, 0, 2], [0], [], [3]):
        x = np.asarray(values, np.float32)
        places = np.nonzero(x)[0]
        np.testing.assert_array_equal(f(x), np.concatenate([places, places]))
    assert f.cache_info().compiles == 1


def test_results_of_the_kind_of_the_arguments() -> None:
    torch = pytest.importorskip("torch")

    def f(x: Any) -> Any:
        return dyn.pure_callback(lambda a: a + 1, like(x), x)

    assert type(f(np.ones(2))) is np.ndarray
    assert type(dyn.jit(f)(torch.ones(2))) is torch.Tensor
    eager = dyn.pure_callback(lambda a: a + 1, dyn.ShapeDtypeStruct((2,), "float32"), torch.ones(2))
    assert type(eager) is torch.Tensor
    assert type(dyn.pure_callback(lambda: 1.0, dyn.ShapeDtypeStruct((), "float32"))) is dyn.Array


def test_a_million_elements() -> None:
    f = dyn.jit(lambda x: dyn.pure_callback(np.sqrt, like(x), x * x))
    x = floats(1_000_000)
    close(f(x), np.abs(x))


# ---- when callbacks are called ---------------------------------------------------------------------------------------


def test_effects_come_once_and_in_order() -> None:
    seen = Seen()

    @dyn.jit
    def f(x: Array) -> Array:
        dyn.debug.callback(seen, "first")
        dyn.debug.callback(seen, x)
        dyn.debug.callback(seen, x)  # equal to the one before it
        dyn.io_callback(seen, None, dnp.sum(x))
        y = dnp.exp(x)
        dyn.debug.callback(seen, "last")
        return y

    f(np.ones(2, np.float32))
    assert seen.taken() == ["first", [1, 1], [1, 1], 2, "last"]
    f(np.ones(0, np.float32))
    assert seen.taken() == ["first", [], [], 0, "last"]
    assert f.cache_info().compiles == 1


def test_a_pure_callback_that_nobody_reads_is_not_called() -> None:
    seen = Seen()

    def counted(a: Array) -> Array:
        seen(a)
        return a

    @dyn.jit
    def f(x: Array) -> Array:
        dyn.pure_callback(counted, like(x), x)
        dyn.io_callback(counted, like(x), x + 1)
        return x

    f(np.zeros(1, np.float32))
    assert seen.taken() == [[1]]


def test_loops_and_choices() -> None:
    seen = Seen()

    @dyn.jit
    def f(x: Array) -> Array:
        def step(carry: Array, row: Array) -> Any:
            dyn.debug.callback(seen, ordered=True, step=carry)
            return carry + row, None

        total, _ = lax.scan(step, np.float32(0), x)
        lax.cond(total > 1, lambda: dyn.debug.callback(seen, "large"), lambda: None)
        lax.switch(x.shape[0] - 1, [lambda i=i: dyn.debug.callback(seen, i) for i in range(2)])
        lax.fori_loop(0, x.shape[0], lambda i, s: (dyn.debug.callback(seen, i), s)[1], 0)

        def going(state: Array) -> Array:
            dyn.debug.callback(seen, "asked")
            return state < total

        return lax.while_loop(going, lambda s: s + 1, np.float32(0))

    def expected(n: int) -> list[Any]:
        steps = [((), {"step": float(i)}) for i in range(n)]
        chosen = [*(["large"] if n > 1 else []), min(max(n - 1, 0), 1)]
        return [*steps, *chosen, *range(n), *["asked"] * (n + 1)]

    for n in (0, 1, 3):
        assert f(np.ones(n, np.float32)) == n
        found = [((), {"step": float(c[1]["step"])}) if isinstance(c, tuple) else c for c in seen.taken()]
        assert found == expected(n)
    assert f.cache_info().compiles == 1


def test_a_loop_whose_results_nobody_reads() -> None:
    seen = Seen()

    @dyn.jit
    def f(x: Array) -> None:
        lax.scan(lambda c, row: (c, dyn.debug.callback(seen, row)), None, x)
        lax.map(lambda row: dyn.debug.callback(seen, row * 2), x)

    assert f(np.arange(3.0)) is None
    assert seen.taken() == [0, 1, 2, 0, 2, 4]


def test_results_of_effects_carry_on() -> None:
    count = iter(range(100))

    @dyn.jit
    def f(x: Array) -> Array:
        one = dyn.io_callback(lambda: next(count), dyn.ShapeDtypeStruct((), "int64"), ordered=True)
        other = dyn.io_callback(lambda: next(count), dyn.ShapeDtypeStruct((), "int64"), ordered=True)
        return dnp.stack([one, other])

    assert f(floats(1)).tolist() == [0, 1]
    assert f(floats(2)).tolist() == [2, 3]


def test_without_arguments_and_in_nested_jits() -> None:
    seen = Seen()
    inner = dyn.jit(lambda x: (dyn.debug.callback(seen, x), x)[1])
    outer = dyn.jit(lambda: (dyn.debug.callback(seen, "outer"), inner(dnp.ones(2)))[1])
    outer()
    outer()
    assert seen.taken() == ["outer", [1, 1]] * 2


def test_a_callback_calls_a_jitted_function() -> None:
    double = dyn.jit(lambda x: x * 2)
    f = dyn.jit(lambda x: dyn.pure_callback(double, like(x), x) + 1)
    close(f(floats(5)), floats(5) * 2 + 1)
    close(f(floats(6)), floats(6) * 2 + 1)


def test_several_threads() -> None:
    """The calls let go of the GIL, and take it to call back."""
    seen = Seen()
    f = dyn.jit(lambda x, i: (dyn.debug.callback(seen, i), dnp.sum(dnp.exp(x)))[1])
    x = floats(400, 400)
    f(x, 0)
    seen.taken()
    in_threads(lambda n: [f(x, 10 * n + i) for i in range(10)], range(4))
    assert sorted(seen.taken()) == list(range(40))


# ---- transformations -------------------------------------------------------------------------------------------------


def squares(x: Array, **options: Any) -> Array:
    return dyn.pure_callback(lambda a: a * a, like(x), x, **options)


def test_derivatives() -> None:
    seen, x = Seen(), np.arange(3, dtype=np.float32)

    def looked_at(x: Array) -> Array:
        dyn.debug.callback(seen, x * 2)
        return dnp.sum(x * x)

    close(dyn.grad(looked_at)(x), 2 * x)
    close(dyn.jit(dyn.grad(looked_at))(x), 2 * x)
    close(dyn.jit(lambda x: dyn.jvp(looked_at, (x,), (x,))[1])(x), np.sum(2 * x * x))
    result, pull = dyn.vjp(looked_at, x)
    close(pull(np.float32(1))[0], 2 * x)
    assert result == 5
    assert seen.taken() == [[0, 2, 4]] * 4

    text = (
        "custom_call: pure_callback of <lambda> has no derivative: what it computes is not known.\n"
        "  help: give the function around it a dyn.custom_vjp or a dyn.custom_jvp."
    )
    assert text_of(UnsupportedOpError, dyn.grad(lambda x: dnp.sum(squares(x))), x) == text
    assert text_of(UnsupportedOpError, lambda: dyn.jvp(squares, (x,), (x,))) == text
    close(dyn.grad(lambda x: dnp.sum(squares(lax.stop_gradient(x)) * x))(x), x * x)


def test_derivatives_of_loops_and_checkpoints_call_once() -> None:
    seen, x = Seen(), np.ones(3, np.float32) * 2

    def scanned(x: Array) -> Array:
        def step(carry: Array, row: Array) -> Any:
            dyn.debug.callback(seen, carry)
            return carry * row, dnp.sin(carry)

        last, rows = lax.scan(step, np.float32(1), x)
        return last + dnp.sum(rows)

    def chosen(x: Array) -> Array:
        def taken(x: Array) -> Array:
            dyn.debug.callback(seen, x)
            return dnp.sum(x * x)

        return lax.cond(x[0] > 0, taken, dnp.sum, x)

    def kept(x: Array) -> Array:
        def inside(x: Array) -> Array:
            dyn.debug.callback(seen, x)
            lax.cond(x[0] > 0, lambda: dyn.debug.callback(seen, "inside"), lambda: None)
            return dnp.sum(dnp.sin(dnp.sin(x)))

        return dyn.checkpoint(inside)(x)

    for f, calls in ((scanned, [1, 2, 4]), (chosen, [[2, 2, 2]]), (kept, [[2, 2, 2], "inside"])):
        for made in (dyn.grad(f), lambda x, f=f: dyn.jvp(f, (x,), (x,))[1], dyn.jit(dyn.grad(f))):
            made(x)
            assert seen.taken() == calls, f.__name__


def test_what_a_callback_with_effects_gave_is_kept_for_the_derivative() -> None:
    def draws() -> Callable[[], Any]:
        numbers = iter(range(1, 100))
        return lambda: next(numbers)

    def scanned(draw: Any, x: Array) -> Array:
        def step(carry: Array, row: Array) -> Any:
            return carry + row * dyn.io_callback(draw, dyn.ShapeDtypeStruct((), "float32")), None

        return lax.scan(step, np.float32(0), x)[0]

    def kept(draw: Any, x: Array) -> Array:
        number = dyn.ShapeDtypeStruct((), "float32")
        return dyn.checkpoint(lambda x: dnp.sum(dnp.sin(x * dyn.io_callback(draw, number))))(x)

    x = np.zeros(3, np.float32)
    draw = draws()
    close(dyn.jit(dyn.grad(lambda x: scanned(draw, x)))(x), [1, 2, 3])
    assert draw() == 4
    draw = draws()
    close(dyn.jit(dyn.grad(lambda x: kept(draw, x)))(x), [1, 1, 1])
    assert draw() == 2
    assert text_of(UnsupportedOpError, dyn.jit(lambda x: dyn.jvp(lambda x: scanned(draw, x), (x,), (x,))), x) == (
        "custom_call: what a callback with effects gives is needed by a derivative that computes the function around "
        "it again, and it is not called twice.\n"
        "  help: make the call outside of loops, branches and checkpoints, and pass in what it gives; or use "
        "dyn.pure_callback."
    )


def test_a_derivative_of_its_own() -> None:
    seen = Seen()

    @dyn.custom_vjp
    def f(x: Array) -> Array:
        dyn.debug.callback(seen, "function")
        return squares(x)

    def forward(x: Array) -> Any:
        dyn.debug.callback(seen, "forward")
        return squares(x), x

    def backward(x: Array, ct: Array) -> Any:
        dyn.debug.callback(seen, "backward")
        return (2 * x * ct,)

    f.defvjp(forward, backward)
    x = floats(3)
    close(dyn.jit(f)(x), x * x)
    assert seen.taken() == ["function"]
    close(dyn.jit(dyn.grad(lambda x: dnp.sum(f(x))))(x), 2 * x)
    assert seen.taken() == ["forward", "backward"]
    close(dyn.jit(dyn.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x[0], None, 2)[0]))(x), [4 * x[0] ** 3, 0, 0])
    assert seen.taken() == ["function"] * 2 + ["backward"] * 2


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((2,), (2,))] * 3),
        ("sequential_unrolled", [((2,), (2,))] * 3),
        ("expand_dims", [((3, 2), (1, 2))]),
        ("broadcast_all", [((3, 2), (3, 2))]),
        ("legacy_vectorized", [((3, 2), (2,))]),
    ],
)
def test_many_examples(method: Any, shapes: Any) -> None:
    seen = Seen()

    def added(x: Array, y: Array) -> Array:
        seen((x.shape, y.shape))
        return x + y

    def f(x: Array, y: Array) -> Array:
        return dyn.pure_callback(added, like(x), x, y, vmap_method=method)

    many = dyn.jit(dyn.vmap(f, in_axes=(0, None)))
    x, y = floats(3, 2), floats(2, seed=1)
    close(many(x, y), x + y)
    assert seen.taken() == shapes
    assert many(floats(0, 2), y).shape == (0, 2)
    close(many(floats(1, 4), floats(4)), floats(1, 4) + floats(4))
    assert many.cache_info().compiles == 1


def test_many_examples_of_many() -> None:
    def f(x: Array) -> Array:
        return dyn.pure_callback(lambda a: a * 2, like(x), x, vmap_method="expand_dims")

    x = floats(2, 3, 4)
    close(dyn.jit(dyn.vmap(dyn.vmap(f)))(x), x * 2)


def test_effects_of_many_examples() -> None:
    seen, x = Seen(), np.arange(3, dtype=np.float32)

    def vmapped(f: Callable[..., Any]) -> list[Any]:
        dyn.jit(dyn.vmap(f))(x)
        return seen.taken()

    def looked_at(x: Array) -> Array:
        dyn.debug.callback(seen, x)
        return x

    assert vmapped(looked_at) == [0, 1, 2]
    assert vmapped(lambda x: (dyn.debug.callback(seen, "once"), x)[1]) == ["once"]
    assert vmapped(lambda x: lax.cond(x > 0, looked_at, lambda x: x, x)) == [1, 2]
    assert vmapped(lambda x: lax.while_loop(lambda c: c < 2, lambda c: looked_at(c) + 1, x)) == [0, 1, 1]
    assert text_of(UnsupportedOpError, vmapped, lambda x: dyn.debug.print("{}", x, ordered=True)) == (
        "vmap: debug.print is ordered, and the examples of vmap have no order.\n"
        "  help: leave ordered=True out, or use dyn.lax.map, which takes one after the other."
    )
    assert text_of(UnsupportedOpError, vmapped, squares) == (
        "vmap: pure_callback of <lambda> says nothing of how it is called for many examples.\n"
        '  help: pass vmap_method="sequential" to call it once for each; "expand_dims" or "broadcast_all" to call it '
        "once, with an axis of examples in front."
    )


# ---- errors ----------------------------------------------------------------------------------------------------------


def raises(_: Array) -> Array:
    raise KeyError("from the callback")


def test_what_a_callback_raises_comes_out_of_the_call() -> None:
    def f(x: Array) -> Array:
        (found,) = dnp.nonzero(x)
        return dyn.pure_callback(raises, like(found), found) + 1

    program = dyn.jit(f)
    for _ in range(3):
        with pytest.raises(KeyError, match="from the callback") as caught:
            program(floats(1000))
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[0] == "test_what_a_callback_raises_comes_out_of_the_call"
        assert names[-1] == "raises"
    with pytest.raises(KeyError):
        f(np.ones(3))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, StopIteration])
def test_exceptions_of_every_kind(kind: type[BaseException]) -> None:
    def raising(a: Array) -> Array:
        raise kind

    f = dyn.jit(lambda x: lax.scan(lambda c, row: (c + squares(row), dyn.debug.callback(raising, c)), 0.0, x)[0])
    with pytest.raises(kind):
        f(floats(3))
    assert f(floats(0)) == 0


def test_memory_is_given_back_when_a_callback_raises() -> None:
    from dyn.backends.runtime import native_runtime

    f = dyn.jit(lambda x: dyn.pure_callback(raises, like(x), dnp.cumsum(x) + 1) * 2)
    x = floats(1_000_000)
    native_runtime().trim()  # or blocks of calls before this test go back to the system in its midst
    idle: list[int] = []
    for _ in range(8):
        with pytest.raises(KeyError):
            f(x)
        idle.append(native_runtime().idle_bytes())
    assert len(set(idle[1:])) == 1, idle


def test_donated_arguments_are_whole_when_a_callback_raises() -> None:
    failing = [False]

    def check(total: Array) -> None:
        if failing[0]:
            raise ValueError("too much")

    def before(w: Array, g: Array) -> Array:
        dyn.debug.callback(check, g[0, 0])
        return w - g

    def after(w: Array, g: Array) -> Array:
        new = w - g
        dyn.debug.callback(check, dnp.max(new))
        return new

    def inside(w: Array, g: Array) -> Array:
        return lax.fori_loop(0, 3, lambda i, w: (dyn.debug.callback(check, i), w - g)[1], w)

    for f in (before, after, inside):
        program = dyn.jit(f, donate_argnums=0, shapes="m n, m n")
        failing[0] = False
        with pytest.warns(UserWarning, match="no result can take") if f is after else contextlib.nullcontext():
            program(floats(50, 50), floats(50, 50, seed=1))
        failing[0] = True
        w = floats(50, 50)
        with pytest.raises(ValueError, match="too much"):
            program(w, floats(50, 50, seed=1))
        np.testing.assert_array_equal(w, floats(50, 50))


def test_donated_memory_is_taken_behind_the_last_callback() -> None:
    seen = Seen()

    def f(w: Array, loss: Array) -> Array:
        dyn.debug.callback(seen, loss)
        return w + 1

    w = floats(50, 50)
    assert dyn.jit(f, donate_argnums=0)(w, np.float32(2)) is w
    assert seen.taken() == [2]


def test_checks_of_programs_that_call() -> None:
    seen = Seen()

    def f(x: Array, y: Array) -> Array:
        dyn.debug.callback(seen, x)
        (places,) = dnp.nonzero(x)
        return x[:3] + dnp.reshape(y, (2, -1)).sum() + dnp.sum(dnp.reshape(places, (2, -1)))

    program = dyn.jit(f)
    program(np.ones(4, np.float32), floats(4))
    seen.taken()
    with pytest.raises(ShapeError):
        program(np.ones(4, np.float32), floats(3))
    assert seen.taken() == []  # what is known before the call is checked before the call
    with pytest.raises(ShapeError):
        program(np.ones(5, np.float32), floats(4))
    assert seen.taken() == [[1] * 5]


def test_results_that_are_not_what_was_declared() -> None:
    def returning(made: Any) -> Callable[..., Any]:
        return lambda x: dyn.pure_callback(lambda a: made, like(x), x)

    x = floats(3)
    for call in (lambda f: f(x), lambda f: dyn.jit(f)(x)):
        assert text_of(ShapeError, call, returning(floats(2))) == (
            "pure_callback of <lambda>: result has the shape (2,), and (3,) was declared.\n"
            "  help: return an array of the declared shape, or declare what it returns."
        )
        assert text_of(ArgumentError, call, returning(np.ones(3))) == (
            "pure_callback of <lambda>: result is float64, and float32 was declared.\n"
            "  help: return it as float32, or declare what it returns."
        )
        assert text_of(ArgumentError, call, returning((x, x))) == (
            "pure_callback of <lambda> returned (*, *), and * was declared.\n"
            "  help: return a tree of the structure of result_shape_dtypes, or declare what it returns."
        )
        assert text_of(ArgumentError, call, returning("text")) == (
            "pure_callback of <lambda>: result is a str, which is not an array.\n"
            "  help: return arrays, or Python numbers."
        )
    with pytest.raises(ShapeError, match=r"at test_callbacks.py:\d+  return lambda x: dyn.pure_callback"):
        dyn.jit(returning(floats(2)))(x)


def test_what_callbacks_refuse() -> None:
    x, three = floats(3), 3
    call: Any = dyn.pure_callback
    assert text_of(ArgumentError, call, three, None) == (
        "pure_callback takes a function, not a int.\n  help: pass the function itself."
    )
    assert text_of(ArgumentError, call, np.sin, "float32", x) == (
        "pure_callback of sin: the type of result is declared by a str, which has no shape and dtype.\n"
        '  help: declare it with dyn.ShapeDtypeStruct((x.shape[0], 3), "float32").'
    )
    assert text_of(ArgumentError, call, np.sin, dyn.ShapeDtypeStruct(("n",), "float32"), x) == (
        "pure_callback of sin: 'n', in the shape of result, is no size.\n"
        "  help: use numbers and dimensions, such as x.shape[0]."
    )
    assert text_of(ArgumentError, dyn.jit(lambda x: call(np.sin, like(x), "text")), x) == (
        "pure_callback of sin: args[0] is a str, which is not an array.\n"
        "  help: pass arrays or numbers there, and close over everything else."
    )
    assert text_of(ArgumentError, lambda: call(np.sin, like(x), x, vmap_method="each")) == (
        "pure_callback: vmap_method='each' is none.\n"
        "  help: pass one of 'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', "
        "'legacy_vectorized', or None."
    )

    def in_a_kernel(a: Array, b: Array) -> Array:
        dyn.debug.print("{}", a)
        return a + b

    assert text_of(UnsupportedOpError, dyn.jit(lambda x: lax.reduce(x, np.float32(0), in_a_kernel, (0,))), x) == (
        "variadic_reduce: its function calls debug.print, and runs inside a kernel, where nothing outside of the "
        "program can be called.\n"
        "  help: make the call before or behind it, or write the loop with dyn.lax.scan or fori_loop."
    )
    with pytest.raises(UnsupportedOpError, match="pure_callback of <lambda> has no form in StableHLO"):
        dyn.jit(squares).lower(x).as_text("stablehlo")


# ---- printing --------------------------------------------------------------------------------------------------------


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    @dyn.jit
    def f(x: Array, n: Array) -> Array:
        dyn.debug.print("{} of {x}, {:.2f}, {name} {{}} {sizes}", x.shape[0], n, x=x, name="as it is", sizes=x.shape)
        return x

    f(np.arange(2.0), 1.5)
    f(np.zeros(0), 2.5)
    dyn.debug.print("eagerly {x}", x=np.ones(2, np.int8))
    assert capsys.readouterr().out == (
        "2 of [0. 1.], 1.50, as it is {} (array(2),)\n0 of [], 2.50, as it is {} (array(0),)\neagerly [1 1]\n"
    )


def test_formats_are_checked_when_the_function_is_traced() -> None:
    x = floats(2)

    def printing(fmt: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        return lambda: dyn.jit(lambda x: dyn.debug.print(fmt, *args, **kwargs))(x)

    assert text_of(ArgumentError, printing("{}")) == (
        "debug.print: '{}' has more fields than arguments by position.\n"
        "  help: pass an argument for each field; a brace that is printed is written twice."
    )
    assert text_of(ArgumentError, printing("{y}", y=1, z=2)) == (
        "debug.print: '{y}' has no field for z.\n"
        "  help: write {} for each argument by position, and {name} for each by name."
    )
    assert text_of(ArgumentError, printing("{y}")) == (
        "debug.print: '{y}' has the field {y}, and no argument of that name.\n"
        "  help: pass an argument for each field; a brace that is printed is written twice."
    )
    assert text_of(ArgumentError, printing("{")) == (
        "debug.print: '{' is no format for its arguments: Single '{' encountered in format string.\n"
        "  help: write fields as str.format takes them."
    )
    assert text_of(ArgumentError, printing(x)) == (
        'debug.print takes a format string, not a ndarray.\n  help: write dyn.debug.print("{}", x).'
    )


# ---- programs and their caches ---------------------------------------------------------------------------------------


def test_callbacks_die_with_their_functions() -> None:
    class Large:
        pass

    large = Large()
    known = weakref.ref(large)

    def make(large: Large) -> Any:
        return dyn.jit(lambda x: (dyn.debug.callback(lambda a: large, x), x)[1])

    f = make(large)
    f(floats(3))
    del f, large
    gc.collect()
    assert known() is None


_KEPT = """
import sys, numpy as np, dyn
from dyn.backends import x86
first, second = [], []
one, two = (first, second) if sys.argv[1] == "one" else (second, first)
f = dyn.jit(lambda x: (dyn.debug.callback(one.append, x), dyn.debug.callback(two.append, x + 1), x)[2])
f(np.ones(2, "f4"))
print(first[0][0], second[0][0], len(first), len(second), x86._binding.cache_info().currsize)
"""


def test_programs_that_call_are_kept_on_disk(tmp_path: Any) -> None:
    """They are found by what they compute, and call what the process at hand has."""

    def run(how: str) -> list[str]:
        # A variant that a process ends too soon to make, the next one makes: with LLVM, and when it will.
        environment = {**os.environ, "DYN_CACHE_DIR": str(tmp_path), "DYN_VARIANTS": "all"}
        done = subprocess.run(
            [sys.executable, "-c", _KEPT, how], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    # On a busy machine the first process may end before all is written: then the second one writes the rest.
    for _ in range(2):
        assert run("one")[:4] == ["1.0", "2.0", "1", "1"]
    assert run("one") == ["1.0", "2.0", "1", "1", "0"]
    assert run("other") == ["2.0", "1.0", "1", "1", "0"]
