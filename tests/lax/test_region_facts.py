"""What a loop's body or a branch demands of the dims is asked where it runs, and of no other call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.backends.reference import run_reference
from dyn.errors import IRError, ShapeError
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from tests.canary import compile_traced, run_compiled

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)
YES, NO = np.asarray(True), np.asarray(False)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(mine: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=2e-5, atol=2e-5)


def message(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(ShapeError) as caught:
        call(*args)
    return str(caught.value)


def checked(function: Callable[..., Any], *args: Array) -> list[Array]:
    """What the reference makes of a call, whose program also survives its own text."""
    traced = dyn.jit(function).trace(*args).traced
    text = print_function(traced.function)
    again = verify(parse_function(text))
    assert print_function(again) == text
    return run_reference(again, [np.asarray(a) for a in (*args, *traced.captured)])


# ---- where it runs, and where it does not ----------------------------------------------------------------------------


def fifth(x: Array, flag: Array) -> Array:
    return lax.cond(flag, lambda x: x[4] * 2 + dnp.sum(x), dnp.sum, x)


def test_a_branch_that_is_not_taken_demands_nothing() -> None:
    f = dyn.jit(fifth)
    for size in SIZES:
        x = floats(size)
        close(f(x, NO), x.sum())
        close(checked(fifth, x, NO)[0], x.sum())
        if size >= 5:
            close(f(x, YES), x[4] * 2 + x.sum())
            close(checked(fifth, x, YES)[0], x[4] * 2 + x.sum())
    assert f.cache_info().compiles == 1


def test_one_that_is_taken_says_what_it_needs_and_where() -> None:
    f = dyn.jit(fifth)
    f(floats(7), YES)
    line = fifth.__code__.co_firstlineno + 1
    assert message(f, floats(3), YES) == (
        "x_0 >= 5 is required, but x_0 is 3: the index 4 is inside of axis 0.\n"
        "  x_0 is x.shape[0] = 3\n"
        f"  at test_region_facts.py:{line}  "
        "return lax.cond(flag, lambda x: x[4] * 2 + dnp.sum(x), dnp.sum, x)\n"
        "  help: use an index that the axis has."
    )
    assert "x_0 >= 5 is required, but x_0 is 3" in message(checked, fifth, floats(3), YES)
    assert f.cache_info().compiles == 1


def test_a_loop_over_nothing_demands_nothing() -> None:
    def f(x: Array) -> Array:
        return lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i] * dnp.max(x) + x[0], np.float32(0))

    compiled = dyn.jit(f)
    for size in SIZES:
        x = floats(size)
        wanted = 0 if size == 0 else (x * x.max() + x[0]).sum()
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(checked(f, x)[0], wanted, rtol=1e-3, atol=1e-3)
    assert compiled.cache_info().compiles == 1


def test_the_first_step_of_a_while_loop_asks() -> None:
    @dyn.jit
    def f(x: Array, steps: Array) -> Array:
        return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] + x[2]), (steps, np.float32(0)))[1]

    for size in SIZES:
        x = floats(size)
        assert f(x, np.int64(0)) == 0
        if size > 2:
            close(f(x, np.int64(3)), 3 * x[2])
        else:
            assert f"x_0 >= 3 is required, but x_0 is {size}" in message(f, x, np.int64(3))
    assert f.cache_info().compiles == 1


def test_a_condition_is_always_asked() -> None:
    f = dyn.jit(lambda x: lax.while_loop(lambda i: x[1] < i, lambda i: i - 1, np.float32(3)))
    assert f(np.full(2, 1.5, np.float32)) == 1
    assert "x_0 >= 2 is required, but x_0 is 1" in message(f, floats(1))


# ---- shapes that hold in a region alone ------------------------------------------------------------------------------


def product(a: Array, b: Array, flag: Array) -> Array:
    def multiply() -> Array:
        return dnp.exp(a @ b) + a * b.T

    return lax.cond(flag, multiply, lambda: dnp.zeros_like(a))


def test_sizes_that_are_equal_in_one_branch() -> None:
    """In the branch ``k`` and ``l`` are one size, and the result of both is shaped as ``a`` is."""
    f = dyn.jit(product)
    for n in (0, 1, 2, 7):
        a, b = floats(n, n), floats(n, n, seed=1)
        close(f(a, b, YES), np.exp(a @ b) + a * b.T)
        close(checked(product, a, b, YES)[0], np.exp(a @ b) + a * b.T)
        odd = floats(n + 2, n + 3)
        assert (f(a, odd, NO) == np.zeros_like(a)).all()
        assert (checked(product, a, odd, NO)[0] == np.zeros_like(a)).all()
        assert "is required" in message(f, a, odd, YES)
    assert f.cache_info().compiles == 1


def folded(x: Array, y: Array, flag: Array) -> Array:
    """Between the sort and the sum there is memory of ``n // m`` rows, which has no size where ``m`` is 0."""
    return lax.cond(flag, lambda: dnp.sum(dnp.sort(x.reshape(-1, y.shape[0]), 0)[0] * y), lambda: dnp.sum(y))


def test_memory_of_a_region_that_does_not_run() -> None:
    f = dyn.jit(folded)
    for n, m in ((0, 0), (6, 0), (5, 3), (1000, 7)):
        close(f(floats(n), floats(m), NO), floats(m).sum())
        close(checked(folded, floats(n), floats(m), NO)[0], floats(m).sum())
    close(f(floats(12), floats(3), YES), (np.sort(floats(12).reshape(4, 3), 0)[0] * floats(3)).sum())
    assert "is required" in message(f, floats(5), floats(3), YES)
    assert "is required, but x_0 is 6 and y_0*floordiv(x_0, y_0) is without a value" in message(
        f, floats(6), floats(0), YES
    )
    assert f.cache_info().compiles == 1


def test_memory_that_would_be_negative() -> None:
    def f(x: Array, flag: Array) -> Array:
        def tail() -> Array:
            x[4]
            rest = dnp.arange(x.shape[0] - 5).astype(np.float32)
            return dnp.sum(dnp.sort(dnp.sin(rest))[::-1] * rest)

        return lax.cond(flag, tail, lambda: dnp.sum(x))

    compiled = dyn.jit(f)
    for n in SIZES:
        close(compiled(floats(n), NO), floats(n).sum())
    rest = np.arange(2, dtype=np.float32)
    close(compiled(floats(7), YES), (np.sort(np.sin(rest))[::-1] * rest).sum())
    assert compiled.cache_info().compiles == 1


def test_rows_have_sizes_even_if_there_are_none() -> None:
    """A scan over nothing gives no rows of ``n - 5`` elements: that has to be a size, of each call."""

    @dyn.jit
    def f(x: Array, xs: Array) -> Array:
        def step(c: Array, row: Array) -> tuple[Array, Array]:
            return c, dnp.zeros(x.shape[0] - 5) + row

        return lax.scan(step, np.float32(0), xs)[1]

    assert f(floats(7), floats(0)).shape == (0, 2)
    assert f(floats(7), floats(3)).shape == (3, 2)
    assert message(f, floats(3), floats(0)).startswith(
        "x_0 - 5 >= 0 is required, but x_0 - 5 is -2 (x_0 is 3): "
        "x_0 - 5 is a size of a result, whether the region runs or not."
    )


def test_rows_have_a_size_even_if_there_are_none() -> None:
    """A scan over nothing gives no rows of ``broadcast(n, m)`` or ``n // m`` elements; they have values still."""

    @dyn.jit
    def joined(x: Array, xs: Array) -> Array:
        return lax.scan(lambda c, row: (c, row + x), np.float32(0), xs)[1]

    for n, m, shape in ((4, 4, 4), (1, 0, 0), (1, 3, 3), (4, 1, 4), (0, 1, 0)):
        assert joined(floats(n), floats(0, m)).shape == (0, shape)
        assert joined(floats(n), floats(2, m)).shape == (2, shape)
    assert message(joined, floats(4), floats(0, 0)).splitlines()[0] == (
        "x_0 broadcasts with xs_1 is required, but x_0 is 4 and xs_1 is 0: "
        "broadcast(x_0, xs_1) is a size of a result, whether the region runs or not."
    )
    assert joined.cache_info().compiles == 1

    @dyn.jit
    def divided(x: Array, y: Array, xs: Array) -> Array:
        def step(c: Array, row: Array) -> tuple[Array, Array]:
            return c, dnp.zeros(x.shape[0] // y.shape[0]) + row

        return lax.scan(step, np.float32(0), xs)[1]

    assert divided(floats(7), floats(2), floats(0)).shape == (0, 3)
    assert message(divided, floats(7), floats(0), floats(0)).splitlines()[0] == (
        "y_0 != 0 is required, but y_0 is 0: floordiv(x_0, y_0) is a size of a result, whether the region runs or not."
    )


def test_a_region_inside_of_a_region() -> None:
    @dyn.jit
    def f(x: Array, flag: Array) -> Array:
        def loop() -> Array:
            return x[0] + lax.fori_loop(0, x.shape[0] - 1, lambda i, s: s + x[1] * x[i], np.float32(0))

        return lax.cond(flag, loop, lambda: np.float32(-1))

    for n in SIZES:
        x = floats(n)
        assert f(x, NO) == -1
        if n:
            wanted = x[0] + (x[1] * x[:-1].sum() if n > 1 else 0)
            np.testing.assert_allclose(f(x, YES), wanted, rtol=1e-3, atol=1e-4)
        else:
            assert "x_0 >= 1 is required" in message(f, x, YES)
    assert f.cache_info().compiles == 1


def test_what_can_never_hold_is_refused_when_traced() -> None:
    def f(x: Array, flag: Array) -> Array:
        return lax.cond(flag, lambda: x[4], lambda: np.float32(0)) + x.reshape(3)[0]

    text = message(dyn.jit(f), floats(3), NO)
    assert text.splitlines()[0] == "x_0 >= 5 cannot hold, where x_0 is 3."
    assert "needed: the index 4 is inside of axis 0" in text


def test_a_question_in_a_region_is_one_of_the_whole_function() -> None:
    @dyn.jit
    def f(x: Array, flag: Array) -> Array:
        return lax.cond(flag, lambda: dnp.sum(x) if x.shape[0] > 3 else dnp.prod(x), lambda: np.float32(0))

    close(f(floats(4), YES), floats(4).sum())
    close(f(floats(2), YES), floats(2).prod())
    assert f.cache_info().compiles == 2
    assert f.cache_info().guards == 2


def test_what_a_region_does_not_demand_is_not_known_in_it() -> None:
    function = dyn.jit(fifth).trace(floats(7), YES).traced.function
    (op,) = function.ops
    bare = tuple(replace(region, demands=()) for region in op.regions)
    with pytest.raises(IRError, match="slice: the facts do not imply that x_0 >= 5"):
        verify(function.with_ops((replace(op, regions=bare),), op.results))


def test_what_a_region_knows_answers_its_questions() -> None:
    @dyn.jit
    def f(x: Array, flag: Array) -> Array:
        def branch() -> Array:
            x[4]
            return dnp.sum(x) if x.shape[0] >= 2 else dnp.prod(x)

        return lax.cond(flag, branch, lambda: np.float32(0))

    close(f(floats(7), YES), floats(7).sum())
    assert f(floats(1), NO) == 0
    assert f.cache_info()[:1] == (1,)
    assert f.cache_info().guards == 0


# ---- transformed -----------------------------------------------------------------------------------------------------


def test_gradients_of_regions_that_do_not_run() -> None:
    f = dyn.jit(dyn.grad(fifth))
    loop = dyn.jit(dyn.grad(lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s * 0.5 + x[i] * x[0], np.float32(1))))
    for n in (0, 1, 2, 7):
        close(f(floats(n), NO), np.ones(n))
        assert loop(floats(n)).shape == (n,)
    close(f(floats(7), YES), np.ones(7) + 2 * np.eye(7)[4])
    assert "x_0 >= 5 is required" in message(f, floats(3), YES)
    forward = dyn.jit(lambda x, flag: dyn.jvp(lambda x: fifth(x, flag), (x,), (x,))[1])
    for n in (0, 1, 2, 7):
        close(forward(floats(n), NO), floats(n).sum())
    assert "x_0 >= 5 is required" in message(forward, floats(3), YES)
    assert (f.cache_info().compiles, loop.cache_info().compiles, forward.cache_info().compiles) == (1, 1, 1)


def test_many_examples() -> None:
    each = dyn.jit(dyn.vmap(fifth, in_axes=(0, None)))
    for n in (0, 1, 2, 7):
        x = floats(3, n)
        close(each(x, NO), x.sum(1))
    close(each(floats(3, 7), YES), floats(3, 7)[:, 4] * 2 + floats(3, 7).sum(1))
    assert "is required" in message(each, floats(2, 3), YES)
    assert each.cache_info().compiles == 1


def test_a_transformed_function_that_is_no_region_of_the_program_demands_of_the_call() -> None:
    f = dyn.jit(dyn.vmap(lambda x: x[2]))
    assert "is required" in message(f, floats(4, 2))


def test_complex_numbers_in_a_region() -> None:
    f = dyn.jit(lambda z, flag: lax.cond(flag, lambda: z[4] * z, lambda: z))
    z = (floats(7) + 1j * floats(7, seed=1)).astype(np.complex64)
    close(f(z, YES), z[4] * z)
    close(f(z[:3], NO), z[:3])
    assert "is required" in message(f, z[:3], YES)


def test_parts_that_a_branch_or_a_step_hands_on_have_memory_of_their_own() -> None:
    turned = dyn.jit(lambda z, flag: lax.cond(flag, lambda: z * z, lambda: dnp.conj(z)))
    z = (floats(7) + 1j * floats(7, seed=1)).astype(np.complex64)
    for _ in range(2):
        close(turned(z, YES), z * z)
        close(turned(z, NO), z.conj())
    steps = dyn.jit(lambda z, w: lax.fori_loop(0, 3, lambda i, c: (dnp.conj(c[1]), c[0]), (z, w)))
    close(steps(z, 2 * z), (2 * z, z.conj()))


# ---- around it -------------------------------------------------------------------------------------------------------


def test_a_region_that_fails_writes_nothing_of_the_callers() -> None:
    """A donated argument is not taken for a call in which a region would fail if it ran."""

    def f(x: Array, flag: Array) -> Array:
        y = x + 1
        return lax.cond(flag, lambda: y * y[4], lambda: y * 2), y * 3

    compiled = dyn.jit(f, donate_argnums=0)
    x = floats(7)
    y = x + 1
    first, second = compiled(x, YES)
    assert first is x or second is x
    close(first, y * y[4])
    close(second, y * 3)
    small = floats(3)
    message(compiled, small, YES)
    assert (small == floats(3)).all()
    first, second = compiled(small, NO)
    close(first, (floats(3) + 1) * 2)
    close(second, (floats(3) + 1) * 3)
    assert (small == floats(3)).all()
    assert compiled.cache_info().compiles == 1


def test_a_loop_that_nobody_reads_asks_for_nothing() -> None:
    def f(x: Array) -> Array:
        lax.fori_loop(0, 3, lambda i, a: a * a[2], x)
        return dnp.sum(x)

    compiled = dyn.jit(f)
    for size in SIZES:
        close(compiled(floats(size)), floats(size).sum())
        close(checked(f, floats(size))[0], floats(size).sum())
    assert compiled.cache_info().compiles == 1


def test_it_goes_on_after_a_failure() -> None:
    f = dyn.jit(fifth)
    for _ in range(20):
        message(f, floats(3), YES)
        close(f(floats(7), YES), floats(7)[4] * 2 + floats(7).sum())


def test_no_bytes_beside_the_arrays_are_written() -> None:
    program = compile_traced(dyn.jit(product).trace(floats(3, 3), floats(3, 3), NO).traced, ())
    for sizes in ((2, 2, 2, 2), (0, 0, 0, 0)):
        a, b = floats(*sizes[:2]), floats(*sizes[2:])
        close(run_compiled(program, [a, b, YES])[0], np.exp(a @ b) + a * b.T)
    assert not run_compiled(program, [floats(3, 3), floats(4, 5), NO])[0].any()


def test_what_is_asked_where_is_explained() -> None:
    f = dyn.jit(fifth)
    f(floats(7), NO)
    text = str(f.explain())
    assert "x_0 >= 5: the index 4 is inside of axis 0, in a loop or a branch: checked where that runs" in text


# ---- sizes that are measured -----------------------------------------------------------------------------------------


def same(function: Callable[..., Any], wanted: Any, *args: Array) -> None:
    """Compiled code and the reference give ``wanted``; where that is a text, a ShapeError that begins with it."""
    if isinstance(wanted, str):
        assert message(dyn.jit(function), *args).startswith(wanted)
        assert message(checked, function, *args).startswith(wanted)
        return
    close(dyn.jit(function)(*args), wanted)
    close(checked(function, *args)[0], wanted)


def first_taken(x: Array, m: Array, flag: Array) -> Array:
    y = x[m]
    return lax.cond(flag, lambda: y[0], lambda: np.float32(-1))


def counted(n: int) -> tuple[Array, Array]:
    """Five numbers, and a mask of the last ``n``."""
    return np.arange(5, dtype=np.float32), np.arange(5) >= 5 - n


def test_a_size_that_is_measured_around_a_branch() -> None:
    f = dyn.jit(first_taken)
    assert f(*counted(2), YES) == 3
    assert f(*counted(0), NO) == -1
    assert message(f, *counted(0), YES) == (
        "count >= 1 is required, but count is 0: the index 0 is inside of axis 0.\n"
        "  count is the number of nonzero elements of m (m_0,) = 0\n"
        f"  at test_region_facts.py:{first_taken.__code__.co_firstlineno + 2}  "
        "return lax.cond(flag, lambda: y[0], lambda: np.float32(-1))\n"
        "  help: use an index that the axis has."
    )
    assert f.cache_info().compiles == 1
    same(first_taken, -1, *counted(0), NO)
    same(dyn.grad(first_taken), np.zeros(5), *counted(0), NO)
    same(dyn.grad(first_taken), np.eye(5)[3], *counted(2), YES)
    same(dyn.grad(first_taken), "count >= 1 is required, but count is 0", *counted(0), YES)


@pytest.mark.parametrize("around", [True, False], ids=["around both", "in the outer one"])
def test_a_size_that_is_measured_and_branches_in_one_another(around: bool) -> None:
    def f(x: Array, m: Array, outer: Array, inner: Array) -> Array:
        kept = x[m] if around else None

        def branch() -> Array:
            y = x[m] if kept is None else kept
            return lax.cond(inner, lambda: y[1] + y[0], lambda: dnp.sum(y))

        return lax.cond(outer, branch, lambda: np.float32(-1))

    same(f, -1, *counted(1), NO, YES)
    same(f, 4, *counted(1), YES, NO)
    same(f, 7, *counted(2), YES, YES)
    same(f, "count >= 2 is required, but count is 1: the index 1 is inside of axis 0.", *counted(1), YES, YES)


def test_a_size_that_a_branch_measures_itself() -> None:
    def f(x: Array, m: Array, flag: Array) -> Array:
        def branch() -> Array:
            y = x[m]
            return dnp.sum(dnp.sort(dnp.sin(y[2:])) * 2) + y[2]

        return lax.cond(flag, branch, lambda: np.float32(-1))

    same(f, -1, *counted(1), NO)
    same(f, 4 + 2 * np.sin(np.float32(4)), *counted(3), YES)
    same(f, "count >= 3 is required, but count is 1", *counted(1), YES)
    same(dyn.grad(f), np.zeros(5), *counted(1), NO)
    same(dyn.grad(f), np.eye(5)[4] * (1 + 2 * np.cos(np.float32(4))), *counted(3), YES)


def test_sizes_that_are_measured_around_loops() -> None:
    def stepped(x: Array, m: Array, steps: Array) -> Array:
        y = x[m]
        return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] + y[2]), (steps, np.float32(0)))[1]

    def scanned(x: Array, m: Array, xs: Array) -> Array:
        y = x[m]
        return lax.scan(lambda c, r: (c + r * y[2], c * y[1]), np.float32(0), xs)[0]

    def switched(x: Array, m: Array, number: Array) -> Array:
        y = x[m]
        return lax.switch(number, [lambda: y[0], lambda: y[1], lambda: y[2]])

    error = "count >= 3 is required, but count is 1"
    same(stepped, 0, *counted(1), np.int64(0))
    same(stepped, 8, *counted(3), np.int64(2))
    same(stepped, error, *counted(1), np.int64(2))
    for f, wanted in ((scanned, 12), (dyn.grad(scanned), 3 * np.eye(5)[4])):
        same(f, np.zeros_like(wanted), *counted(1), floats(0))
        same(f, wanted, *counted(3), np.arange(3, dtype=np.float32))
        same(f, error, *counted(1), floats(3))
    same(switched, 4, *counted(1), np.int64(0))
    same(switched, 4, *counted(3), np.int64(2))
    same(switched, error, *counted(1), np.int64(2))


def test_examples_that_take_a_branch_of_a_measured_size() -> None:
    def f(x: Array, m: Array, flags: Array) -> Array:
        y = x[m]
        return dyn.vmap(lambda flag: lax.cond(flag, lambda: y[0], lambda: np.float32(-1)))(flags)

    same(f, [-1, -1], *counted(0), np.array([False, False]))
    same(f, [4, -1], *counted(1), np.array([True, False]))
    same(f, "count >= 1 is required, but count is 0", *counted(0), np.array([True, False]))


def test_memory_of_a_measured_size_in_a_region_that_does_not_run() -> None:
    def negative(x: Array, m: Array, flag: Array) -> Array:
        y = x[m]

        def branch() -> Array:
            y[4]
            rest = dnp.arange(y.shape[0] - 5).astype(np.float32)
            return dnp.sum(dnp.sort(dnp.sin(rest))[::-1] * rest)

        return lax.cond(flag, branch, lambda: dnp.sum(dnp.sort(y)))

    def without_a_value(x: Array, m: Array, k: Array, flag: Array) -> Array:
        y, d = x[m], lax.as_dim(k)
        return lax.cond(flag, lambda: dnp.sum(dnp.sort(y.reshape(-1, d), 0)[0]), lambda: dnp.sum(y))

    for n in SIZES:
        x = np.arange(n, dtype=np.float32)
        same(negative, x.sum(), x, x > 0, NO)
    rest = np.arange(2, dtype=np.float32)
    same(negative, (np.sort(np.sin(rest))[::-1] * rest).sum(), floats(7), np.ones(7, bool), YES)
    same(negative, "count >= 5 is required, but count is 1", *counted(1), YES)
    x = np.arange(7, dtype=np.float32)
    same(without_a_value, 21, x, x > 0, np.int64(0), NO)
    same(without_a_value, 6, x, x > 0, np.int64(3), YES)
    same(without_a_value, "(count,) and (floordiv(count, size), size) have the same number", x, x > 0, np.int64(4), YES)
    same(without_a_value, "(count,) and (floordiv(count, size), size) have the same number", x, x > 0, np.int64(0), YES)


def test_what_a_branch_knows_of_its_own_size_is_not_known_outside() -> None:
    """In the branch ``n >= d + 3``: where it does not run ``n`` may be 1, and has no element 2."""

    def f(x: Array, k: Array, flag: Array) -> Array:
        def branch() -> Array:
            return dnp.sum(dnp.zeros(x.shape[0] - lax.as_dim(k) - 3) + 1)

        return lax.cond(flag, branch, lambda: np.float32(0)) + x[2]

    same(f, 2, np.arange(5, dtype=np.float32), np.int64(1), NO)
    same(f, 3, np.arange(5, dtype=np.float32), np.int64(1), YES)
    same(f, "x_0 >= 3 is required, but x_0 is 1: the index 2 is inside of axis 0.", floats(1), np.int64(1), NO)
