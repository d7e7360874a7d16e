"""Loops and choices: against Python and JAX, at every size with one program, transformed, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, ShapeError, TraceError, UnsupportedOpError
from tests.threads import in_threads

Array = Any
SIZES = (0, 1, 2, 7, 64)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)


# ---- scan ------------------------------------------------------------------------------------------------------------


def cell(np_: Any, w: Array, u: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
    def step(h: Array, x: Array) -> tuple[Array, Array]:
        h = np_.tanh(h @ w + x @ u)
        return h, np_.sum(h * h)

    return step


@dyn.jit
def network(w: Array, u: Array, h: Array, xs: Array) -> Any:
    return lax.scan(cell(dnp, w, u), h, xs)


def weights() -> tuple[Array, Array, Array]:
    return floats(4, 4) * 0.3, floats(3, 4, seed=1), floats(4, seed=2)


def test_a_recurrent_network_of_any_length() -> None:
    w, u, h = weights()
    for length in SIZES:
        xs = floats(length, 3, seed=3)
        last, rows = network(w, u, h, xs)
        wanted, kept = h, []
        for x in xs:
            wanted, row = cell(np, w, u)(wanted, x)
            kept.append(row)
        close(last, wanted)
        close(rows, np.array(kept, np.float32))
    assert network.cache_info().compiles == 1


def test_loops_and_choices_are_explained() -> None:
    @dyn.jit
    def f(w: Array, xs: Array) -> Any:
        last, rows = lax.scan(cell(dnp, w, w), dnp.zeros_like(xs[0]), xs)
        return lax.cond(dnp.sum(rows) > 0, lambda: dnp.exp(last), lambda: last * 2), rows

    f(floats(4, 4), floats(5, 4))
    text = str(f.explain())
    assert "control scan [" in text
    assert "control if [" in text
    assert "nothing inside to save" in text
    assert "variant loop exponential: in a region" in text
    assert "exponential" in f.explain()._repr_html_()
    assert "exp(" in f.lower(floats(4, 4), floats(5, 4)).as_text("kernel")
    host = f.lower(floats(4, 4), floats(5, 4)).as_text("host")
    assert "variable 0 from arena 0" in host
    assert "xs_0 times; " in host


def test_a_scan_is_differentiable(jax: ModuleType) -> None:
    def theirs(w: Array, u: Array, h: Array, xs: Array) -> Array:
        last, rows = jax.lax.scan(cell(jax.numpy, w, u), h, xs)
        return (last * 2).sum() + rows.sum()

    def mine(w: Array, u: Array, h: Array, xs: Array) -> Array:
        last, rows = lax.scan(cell(dnp, w, u), h, xs)
        return dnp.sum(last * 2) + dnp.sum(rows)

    gradient = dyn.jit(dyn.grad(mine, argnums=(0, 1, 2, 3)))
    for length in SIZES:
        args = (*weights(), floats(length, 3, seed=3))
        for a, b in zip(gradient(*args), jax.jit(jax.grad(theirs, argnums=(0, 1, 2, 3)))(*args), strict=True):
            close(a, b, 1e-4)
    assert gradient.cache_info().compiles == 1
    args = (*weights(), floats(5, 3, seed=3))
    steps = tuple(floats(*np.shape(a), seed=9) for a in args)
    for a, b in zip(dyn.jvp(mine, args, steps), jax.jvp(theirs, args, steps), strict=True):
        close(a, b, 1e-4)
    twice = dyn.grad(lambda h: dnp.sum(dyn.grad(mine, 2)(args[0], args[1], h, args[3]) ** 2))
    close(
        twice(args[2]),
        jax.jit(jax.grad(lambda h: (jax.grad(theirs, 2)(args[0], args[1], h, args[3]) ** 2).sum()))(args[2]),
        1e-3,
    )


def test_trees_numbers_and_directions(jax: ModuleType) -> None:
    def step(carry: Any, x: Any) -> Any:
        total, count = carry["total"], carry["count"]
        return {"total": total * 0.5 + x["a"], "count": count + 1}, (total, x["b"] * 2)

    xs = {"a": floats(6, 2), "b": np.arange(6)}
    for reverse in (False, True):
        carry, (before, doubled) = lax.scan(step, {"total": floats(2, seed=1), "count": 0}, xs, reverse=reverse)
        theirs, (b, d) = jax.lax.scan(step, {"total": floats(2, seed=1), "count": 0}, xs, reverse=reverse)
        close(carry["total"], theirs["total"])
        assert carry["count"] == 6
        close(before, b)
        np.testing.assert_array_equal(doubled, d)
    total, none = lax.scan(lambda c, _: (c * 2, None), 1.0, None, length=5)
    assert (total, none) == (32, None)
    assert total.dtype == np.float32
    np.testing.assert_allclose(lax.map(lambda r: dnp.sum(r) * 2, floats(4, 3)), floats(4, 3).sum(1) * 2, rtol=1e-5)


def test_a_length_may_be_a_dimension() -> None:
    @dyn.jit
    def powers(x: Array) -> Array:
        return lax.scan(lambda c, _: (c * 2, c), dnp.float32(1), None, length=x.shape[0])[1]

    for size in SIZES[:4]:
        np.testing.assert_array_equal(powers(floats(size)), 2.0 ** np.arange(size))
    assert powers.cache_info().compiles == 1


def test_a_carry_keeps_its_shape_by_demand() -> None:
    """``h @ w`` has as many elements as ``w`` has columns: that it is as many as before is asked of each call."""
    grow = dyn.jit(lambda w, h: lax.scan(lambda h, _: (h @ w, None), h, None, length=3)[0])
    close(grow(floats(2, 2), floats(2, seed=1)), floats(2, seed=1) @ np.linalg.matrix_power(floats(2, 2), 3))
    with pytest.raises(
        ShapeError, match="the body of scan gives carry with the size 3 on axis 0, where what it started with has 2"
    ):
        grow(floats(2, 3), floats(2))


def test_loops_in_both_branches() -> None:
    """Each loop has a second slot to write the next rows to, which the other branch's may use too."""

    @dyn.jit
    def f(x: Array, flag: Array) -> Array:
        def loop(scale: float) -> Array:
            return lax.fori_loop(0, 3, lambda i, c: c[::-1] * scale, x)

        return lax.cond(flag, lambda: loop(0.5), lambda: loop(0.25) + loop(0.125))

    def wanted(x: Array, scale: float) -> Array:
        for _ in range(3):
            x = x[::-1] * np.float32(scale)
        return x

    for size in SIZES:
        x = floats(size)
        close(f(x, np.asarray(True)), wanted(x, 0.5))
        close(f(x, np.asarray(False)), wanted(x, 0.25) + wanted(x, 0.125))
    assert f.cache_info().compiles == 1


def test_rows_of_views() -> None:
    @dyn.jit
    def f(x: Array) -> Any:
        rows = dnp.transpose(x, (0, 2, 1)).reshape(-1, x.shape[1])
        return lax.scan(lambda c, r: (c * dnp.cos(r) + r, c), dnp.ones(x.shape[1], x.dtype), rows)

    for shape in ((2, 1, 3), (2, 4, 3), (0, 4, 3), (2, 0, 3)):
        x = floats(*shape)
        state, kept = np.ones(shape[1], np.float32), []
        for row in np.transpose(x, (0, 2, 1)).reshape(shape[0] * shape[2], shape[1]):
            kept.append(state)
            state = state * np.cos(row) + row
        last, rows = f(x)
        close(last, state)
        close(rows, np.array(kept, np.float32).reshape(rows.shape))
    assert f.cache_info().compiles == 1


# ---- while and for ---------------------------------------------------------------------------------------------------


def test_while_loops() -> None:
    @dyn.jit
    def collatz(n: Array) -> Array:
        def body(c: Any) -> Any:
            n, steps = c
            return dnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

        return lax.while_loop(lambda c: c[0] != 1, body, (n, 0))[1]

    def wanted(n: int) -> int:
        steps = 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    assert [int(collatz(np.int64(n))) for n in (1, 2, 7, 27)] == [wanted(n) for n in (1, 2, 7, 27)]
    each = dyn.jit(dyn.vmap(collatz))
    np.testing.assert_array_equal(each(np.array([1, 2, 7, 27])), [wanted(n) for n in (1, 2, 7, 27)])
    assert each(np.zeros(0, np.int64)).shape == (0,)
    assert each.cache_info().compiles == 1


def test_values_that_swap_and_stay() -> None:
    """Two values that change places, one that stays, one that is made of another: nothing is written too early."""

    @dyn.jit
    def fibonacci(a: Array, b: Array, c: Array, n: Array) -> Any:
        def body(s: Any) -> Any:
            a, b, c, k = s
            return b, a + b + c * 0, c, k - 1

        return lax.while_loop(lambda s: s[3] > 0, body, (a, b, c, n))

    one = np.ones(3, np.float32)
    a, b, c, k = fibonacci(one, one, one * 7, np.int32(10))
    assert (a.tolist(), b.tolist(), c.tolist(), int(k)) == ([89] * 3, [144] * 3, [7] * 3, 0)
    swapped = lax.fori_loop(0, 3, lambda i, s: (s[1], s[0]), (one, one * 2))
    assert [s.tolist() for s in swapped] == [[2] * 3, [1] * 3]


def test_for_loops(jax: ModuleType) -> None:
    def table(x: Array, n: Any) -> Array:
        return lax.fori_loop(0, n, lambda i, s: s + dnp.sin(x) * i, dnp.zeros_like(x))

    by_dim = dyn.jit(lambda x: table(x, x.shape[0]))
    by_value = dyn.jit(table)
    for size in SIZES:
        x = floats(size)
        wanted = np.sin(x) * np.sum(np.arange(size))
        close(by_dim(x), wanted, 1e-4)
        close(by_value(x, np.int32(size)), wanted, 1e-4)
    assert by_dim.cache_info().compiles == by_value.cache_info().compiles == 1
    close(dyn.grad(lambda x: dnp.sum(table(x, 4)))(floats(3)), np.cos(floats(3)) * 6, 1e-5)
    assert lax.fori_loop(5, 2, lambda i, s: s + 1, 0) == 0
    assert by_dim(floats(4)).dtype == np.float32


def test_an_update_in_a_loop_is_in_place() -> None:
    """A step that writes one row costs a row: the whole is carried in one memory."""

    @dyn.jit
    def rows(x: Array) -> Array:
        def body(i: Any, s: Array) -> Array:
            return dnp.where(dnp.arange(s.shape[0])[:, None] == i, x[i] * 2, s)

        return lax.fori_loop(0, x.shape[0], body, dnp.zeros_like(x))

    x = floats(5, 3)
    np.testing.assert_array_equal(rows(x), x * 2)


def test_loops_in_loops(jax: ModuleType) -> None:
    def table(np_: Any, lib: Any, x: Array) -> Array:
        def outer(total: Array, row: Array) -> Any:
            def inner(i: Any, s: Array) -> Array:
                return s * 0.5 + lib.cond(np_.sum(s) > 0, lambda: row, lambda: -row)

            made = lib.fori_loop(0, 3, inner, row)
            return total + made, np_.sum(made)

        return lib.scan(outer, np_.zeros_like(x[0]), x)[1]

    mine = dyn.jit(dyn.value_and_grad(lambda x: dnp.sum(table(dnp, lax, x) ** 2)))
    theirs = jax.value_and_grad(lambda x: (table(jax.numpy, jax.lax, x) ** 2).sum())
    for size in SIZES[1:4]:
        for a, b in zip(mine(floats(size, 3)), theirs(floats(size, 3)), strict=True):
            close(a, b, 1e-4)
    assert mine.cache_info().compiles == 1


def test_complex_numbers_and_halves_are_carried() -> None:
    z = (floats(3) + 1j * floats(3, seed=1)).astype(np.complex64)
    close(lax.fori_loop(0, 3, lambda i, c: c * c, z), z**8, 1e-4)
    half = dnp.asarray(floats(3)).astype(np.float16)
    assert lax.fori_loop(0, 3, lambda i, c: c * 0.5, half).dtype == np.float16


def test_many_threads_run_one_loop() -> None:
    w, u, h = weights()
    xs = floats(200, 3, seed=3)
    wanted = network(w, u, h, xs)

    def work(_: int) -> None:
        for _ in range(20):
            for result, expected in zip(network(w, u, h, xs), wanted, strict=True):
                np.testing.assert_array_equal(result, expected)

    in_threads(work, range(8))


# ---- choices ---------------------------------------------------------------------------------------------------------


def test_choices(jax: ModuleType) -> None:
    @dyn.jit
    def choose(p: Array, x: Array, y: Array) -> Any:
        return lax.cond(p, lambda x: {"a": x * 2, "b": 1.0}, lambda x: {"a": dnp.sin(y), "b": dnp.sum(x)}, x)

    for size in SIZES:
        x, y = floats(size), floats(size, seed=1)
        yes, no = choose(np.bool_(True), x, y), choose(np.bool_(False), x, y)
        close(yes["a"], x * 2)
        close(no["a"], np.sin(y))
        assert yes["b"] == 1
        close(no["b"], x.sum(), 1e-4)
    assert choose.cache_info().compiles == 1
    branches = [lambda x: x * 2, lambda x: x, dnp.exp]
    pick = dyn.jit(lambda i, x: lax.switch(i, branches, x))
    for index, wanted in ((-3, 0), (0, 0), (1, 1), (2, 2), (9, 2)):
        close(pick(np.int32(index), floats(3)), (floats(3) * 2, floats(3), np.exp(floats(3)))[wanted])
    many = dyn.vmap(lambda i, x: lax.switch(i, branches, x))
    close(many(np.array([0, 1, 2]), floats(3)), [floats(3)[0] * 2, floats(3)[1], np.exp(floats(3)[2])])
    slope = dyn.grad(lambda x, i: lax.switch(i, branches, x))
    close([slope(np.float32(0.5), np.int32(i)) for i in range(3)], [2, 1, np.exp(0.5)])


def test_one_branch_runs() -> None:
    """What is not chosen is not computed: its division would take the loop's time, its result be seen."""
    spin = dyn.jit(
        lambda p, x: lax.cond(p, lambda x: lax.while_loop(lambda c: c > -1, lambda c: c + 1, x), lambda x: x, x)
    )
    assert spin(np.bool_(False), np.float32(3)) == 3  # the other branch would never end


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value).splitlines()[0]


def test_what_is_refused() -> None:
    x = floats(3)
    assert refused(TraceError, lambda: lax.scan(lambda c, r: c, x, x)) == (
        "the body of scan returns a pair (carry, y), and it returned a Tracer."
    )
    assert refused(TraceError, lambda: lax.scan(lambda c, r: ((c, c), r), x, x)) == (
        "the body of scan carries (*, *) on, and started with *."
    )
    assert refused(TraceError, lambda: lax.scan(lambda c, r: (c > 0, r), x, x)).startswith("the body of scan gives i1[")
    assert refused(TraceError, lambda: lax.while_loop(lambda c: c, lambda c: c, x)).startswith(
        "the condition of while_loop gives f32["
    )
    assert refused(TraceError, lambda: lax.cond(True, lambda: x, lambda: (x, x))) == (
        "branch 0 of cond gives *, and branch 1 gives (*, *)."
    )
    assert refused(TraceError, lambda: lax.cond(x > 0, lambda: x, lambda: x)).startswith("cond chooses by i1[")
    assert refused(ArgumentError, lambda: lax.switch(0, [])) == "switch: there are no branches."
    assert refused(TraceError, lambda: lax.scan(lambda c, r: (c, r), x, None)) == "scan: there is nothing to go along."
    text = refused(
        UnsupportedOpError,
        lambda: dyn.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * 2, x))(np.float32(1)),
    )
    assert text.startswith("a while loop has no derivative backward")
    close(dyn.jvp(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * 2, x), (1.0,), (1.0,))[1], 16)


# ---- carries of other types, side by side ----------------------------------------------------------------------------


def whole(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        call()
    return "\n".join(line for line in str(error.value).splitlines() if not line.startswith("  at "))


def test_a_carry_of_another_dtype_is_shown_beside_what_it_was() -> None:
    step = lambda c, a: ({"h": c["h"] > 0, "n": c["n"]}, None)  # noqa: E731
    call = dyn.jit(lambda x: lax.scan(step, {"h": x, "n": np.int32(0)}, x), shapes="rows")
    assert whole(TraceError, lambda: call(floats(3))) == (
        "the body of scan gives i1[rows] for carry['h'], and what it started with is f32[rows].\n"
        "               what it started with   what it gives\n"
        "  carry['h']   f32[rows]              i1[rows]       <-- differs\n"
        "  carry['n']   i32[]                  i32[]\n"
        "  help: convert it with .astype, or start from another value."
    )


def test_a_carry_of_another_structure_is_shown_beside_what_it_was() -> None:
    body = lambda c: {"h": c["h"], "extra": (1.5, c["n"])}  # noqa: E731
    call = dyn.jit(lambda x: lax.while_loop(lambda c: c["n"] < 3, body, {"h": x, "n": np.int32(0)}), shapes="rows")
    assert whole(TraceError, lambda: call(floats(3))) == (
        "the body of while_loop gives {'extra': (*, *), 'h': *}, and started with {'h': *, 'n': *}.\n"
        "                         what it started with   what it gives\n"
        "  init_val['h']          f32[rows]              f32[rows]\n"
        "  init_val['n']          i32[]                  -              <-- differs\n"
        "  init_val['extra'][0]   -                      f64[]~         <-- differs\n"
        "  init_val['extra'][1]   -                      i32[]          <-- differs\n"
        "  help: return a tree of the same structure."
    )
    pair = dyn.jit(lambda x: lax.scan(lambda c, a: ((*c, "what"), None), (x, x), x), shapes="rows")
    assert whole(TraceError, lambda: pair(floats(3))) == (
        "the body of scan carries (*, *, *) on, and started with (*, *).\n"
        "             what it started with   what it gives\n"
        "  carry[0]   f32[rows]              f32[rows]\n"
        "  carry[1]   f32[rows]              f32[rows]\n"
        "  carry[2]   -                      str            <-- differs\n"
        "  help: return (carry, y) with a carry of the same structure."
    )


def test_of_many_leaves_those_that_differ_are_shown() -> None:
    step = lambda c, a: ([*c[:19], c[19] > 0], None)  # noqa: E731
    call = dyn.jit(lambda x: lax.scan(step, [x] * 20, x), shapes="rows")
    assert whole(TraceError, lambda: call(floats(3))) == (
        "the body of scan gives i1[rows] for carry[19], and what it started with is f32[rows].\n"
        "              what it started with   what it gives\n"
        "  carry[19]   f32[rows]              i1[rows]       <-- differs\n"
        "  and 19 leaves that agree\n"
        "  help: convert it with .astype, or start from another value."
    )


def test_branches_of_other_structures_are_shown_side_by_side() -> None:
    branches = [lambda v: (v, v), lambda v: [v, v > 0, 3]]
    call = dyn.jit(lambda x: lax.switch(1, branches, x), shapes="rows")
    assert whole(TraceError, lambda: call(floats(3))) == (
        "branch 0 of switch gives (*, *), and branch 1 gives [*, *, *].\n"
        "              branch 0    branch 1\n"
        "  result[0]   f32[rows]   f32[rows]\n"
        "  result[1]   f32[rows]   i1[rows]   <-- differs\n"
        "  result[2]   -           i64[]~     <-- differs\n"
        "  help: return trees of one structure from all branches."
    )
