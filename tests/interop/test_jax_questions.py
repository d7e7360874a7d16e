"""Questions about symbolic sizes that a line of the user's or of JAX's asks: proved, guarded, or refused."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402

SIZES = (5, 4, 8, 3, 9, 4, 1)
TABLE = {4: 2.0, 8: 3.0}


@dataclass(frozen=True)
class Shape:
    """A key that has a size in it."""

    size: Any


def matched(n: Any) -> float:
    match n:
        case 4:
            return 2.0
        case _:
            return 3.0


def looked_up(n: Any) -> float:
    try:
        return TABLE[n]
    except KeyError:
        return 1.0


def grouped(n: Any, m: Any) -> int:
    groups: dict[Any, list[int]] = {}
    for number, size in enumerate((n, m, 4)):
        groups.setdefault(size, []).append(number)
    return len(groups)


#: A number for a size, by one operator of Python's or one way in which code asks.
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "==": lambda n: 2.0 if n == 4 else 3.0,
    "!=": lambda n: 2.0 if n != 4 else 3.0,
    "== on the right": lambda n: 2.0 if 4 == n else 3.0,  # noqa: SIM300  # Python asks the size then, too
    "== of NumPy's": lambda n: 2.0 if n == np.int64(4) else 3.0,
    "== on the right of NumPy's": lambda n: 2.0 if np.int32(4) == n else 3.0,
    "== of an array of NumPy's": lambda n: 2.0 if n == np.array(4) else 3.0,
    "== any of an array of NumPy's": lambda n: 2.0 if (n == np.array([4, 8])).any() else 3.0,
    "< any of an array of NumPy's": lambda n: float((n < np.array([4, 8])).sum()),
    "!= any of an array of NumPy's": lambda n: float((np.array([4, 8]) != n).sum()),
    "== of a float": lambda n: 2.0 if n == 4.0 else 3.0,
    "== of no integer": lambda n: 2.0 if n == 4.5 else 3.0,
    "in floats": lambda n: 2.0 if n in (4.0, 8.5) else 3.0,
    "<": lambda n: 2.0 if n < 4 else 3.0,
    "<=": lambda n: 2.0 if n <= 4 else 3.0,
    ">": lambda n: 2.0 if n > 4 else 3.0,
    ">=": lambda n: 2.0 if n >= 4 else 3.0,
    "truth": lambda n: 2.0 if n - 4 else 3.0,
    "truth of a remainder": lambda n: 2.0 if n % 4 else 3.0,
    "truth of a quotient": lambda n: 2.0 if n // 4 else 3.0,
    "bool": lambda n: 2.0 if bool(n % 4) else 3.0,
    "not": lambda n: 2.0 if not n % 4 else 3.0,
    "and": lambda n: (n % 4) and 3.0,
    "or": lambda n: (n - 4) or 3.0,
    "remainder": lambda n: 2.0 if n % 4 == 0 else 3.0,
    "divmod": lambda n: 2.0 if divmod(n, 4)[1] == 0 else 3.0,
    "power": lambda n: 2.0 if n**2 == 16 else 3.0,
    "negative": lambda n: 2.0 if -n == -4 else 3.0,
    "in a list": lambda n: 2.0 if n in [4, 8] else 3.0,
    "in a set": lambda n: 2.0 if n in {4, 8} else 3.0,
    "in a dict": lambda n: 2.0 if n in TABLE else 3.0,
    "in a range": lambda n: 2.0 if n in range(4, 6) else 3.0,
    "dict[]": looked_up,
    "dict.get": lambda n: TABLE.get(n, 1.0),
    "a literal's get": lambda n: {4: 5.0}.get(n, 1.0),
    "set of sizes": lambda n: float(len({n, 4})),
    "set()": lambda n: float(len(set([n, 4]))),  # noqa: C405  # a call is what is tested
    "groups": lambda n: float(grouped(n, n)),
    "a key that has it": lambda n: 2.0 if Shape(n) in {Shape(4)} else 3.0,
    "keys that are compared": lambda n: 2.0 if Shape(n) == Shape(4) else 3.0,
    "list.count": lambda n: float([4, 8, 4].count(n)),
    "list.index": lambda n: float([4, n].index(n)),
    "tuple": lambda n: 2.0 if (n, 1) == (4, 1) else 3.0,
    "operator.eq": lambda n: 2.0 if operator.eq(n, 4) else 3.0,
    "map": lambda n: 2.0 if all(map(operator.eq, (n, 1), (4, 1))) else 3.0,
    "any": lambda n: 2.0 if any(n == k for k in (4, 8)) else 3.0,
    "match": matched,
    "int": lambda n: float(int(n)),
    "float": float,
    "range": lambda n: float(sum(range(n))),
    "index": lambda n: "abcdefghij"[n] == "e" and 2.0,
    "max": lambda n: 2.0 if max(n, 4) == 4 else 3.0,
    "min": lambda n: 2.0 if min(n, 4) == n else 3.0,
    "sorted": lambda n: 2.0 if sorted((n, 4))[0] == 4 else 3.0,
    "text": lambda n: float(len("x" * n)),
}


def check(function: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> Any:
    run, plain = djax.jit(function), jax.jit(function)
    for args in calls:
        wanted, actual = plain(*args), run(*args)
        for a, w in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
            assert (a.shape, a.dtype) == (w.shape, w.dtype), [np.shape(x) for x in args]
            np.testing.assert_allclose(a, w, 1e-4, 1e-5, err_msg=str([np.shape(x) for x in args]))
    return run


def lines(*sizes: int) -> list[tuple[Any]]:
    return [(np.linspace(-1.5, 2.5, n, dtype=np.float32),) for n in sizes]


@pytest.mark.parametrize("name", OPERATORS)
def test_each_way_to_ask(name: str) -> None:
    ask = OPERATORS[name]
    check(lambda x: x[:1] * ask(x.shape[0]), lines(*SIZES))


@pytest.mark.parametrize("name", ["list.count", "list.index", "operator.eq", "dict.get", "map"])
def test_questions_of_code_that_ran_often(name: str) -> None:
    """Python rewrites instructions that ran some times: calls of its own functions among them."""
    ask = OPERATORS[name]
    for n in range(4, 40):
        ask(4 if name == "list.index" else n)
    run = check(lambda x: x[:1] * ask(x.shape[0]), lines(*SIZES, *SIZES))
    again = check(lambda x: x[:1] + ask(x.shape[0]), lines(*SIZES))
    assert min(run.cache_info().compiles, again.cache_info().compiles) > 1


@pytest.mark.parametrize("by", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_sizes_and_arrays_of_jax_are_compared_by_elements(by: Callable[[Any, Any], Any]) -> None:
    run = check(lambda x: (by(x.shape[0], jnp.arange(6)), by(jnp.arange(6), x.shape[0])), lines(*SIZES))
    assert run.cache_info().compiles == 1
    run = check(lambda x: by(x.shape[0], (x * 4).astype("int32")), lines(*SIZES))
    assert run.cache_info().compiles == 1


def test_errors_of_jax_that_the_function_catches_are_for_their_sizes() -> None:
    def caught(x: Any) -> Any:
        try:
            return x + jnp.ones(4, x.dtype)
        except TypeError:
            return x * 5

    run = check(caught, lines(3, 4, 1, 5, 4, 1, 3))
    assert run.cache_info().compiles == 3  # those of 4 elements, of 1, and of others

    def between(x: Any, y: Any) -> Any:
        try:
            return lax.concatenate([x[None], y[None]], 0)
        except TypeError:
            return x * 5

    pairs = [(x, y) for (x,) in lines(3, 4, 1) for (y,) in lines(3, 4, 1)]
    assert check(between, pairs).cache_info().compiles == 2


def closed_over(ask: Callable[[Any], Any], x: Any) -> Any:
    n = x.shape[0]

    def inner() -> Any:
        return ask(n)

    return x[:1] * inner()


#: Where a question is asked.
PLACES: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "a closure": closed_over,
    "a scan": lambda ask, x: lax.scan(lambda c, v: (c + v * ask(x.shape[0]), None), 0.0, x)[0],
    "a loop": lambda ask, x: lax.fori_loop(0, 3, lambda i, c: c + ask(x.shape[0]), 0.0) + x[0],
    "a branch": lambda ask, x: lax.cond(x[0] < 9, lambda v: v[:1] * ask(v.shape[0]), lambda v: v[:1], x),
    "examples": lambda ask, x: jax.vmap(lambda v: v * ask(x.shape[0]))(x),
    "each example": lambda ask, x: jax.vmap(lambda v: v[:1] * ask(v.shape[0]))(jnp.stack([x, x])),
    "another jit": lambda ask, x: jax.jit(lambda v: v[:1] * ask(v.shape[0]))(x),
    "a derivative": lambda ask, x: jax.grad(lambda v: (v * ask(v.shape[0])).sum())(x),
    "a checkpoint": lambda ask, x: jax.grad(jax.checkpoint(lambda v: jnp.sin(v * ask(v.shape[0])).sum()))(x),
    "an argument of a jit": lambda ask, x: jax.jit(lambda v, n: v[:1] * ask(n), static_argnums=1)(x, x.shape[0]),
    "another name": lambda ask, x: (x + x[::-1])[:1] * ask((x.shape[0] + x.shape[0]) // 2),
}


@pytest.mark.parametrize("place", PLACES)
def test_each_place_to_ask(place: str) -> None:
    for name in ("truth of a remainder", "dict.get"):
        ask = OPERATORS[name]
        check(lambda x, ask=ask: PLACES[place](ask, x), lines(5, 4, 8, 3))


def test_two_sizes() -> None:
    def function(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return x[0] * (2.0 if n == m else 3.0) + (5.0 if len({n, m}) == 1 else 7.0) + (n - m or 1.0)

    sizes = [(3, 4), (4, 4), (5, 4), (7, 7), (4, 3), (1, 1)]
    check(function, [(np.ones(n, np.float32), np.ones(m, np.float32)) for n, m in sizes])


# --- functions of JAX's -----------------------------------------------------------------------------------------------

#: Functions of ``jax.numpy`` and its kin that branch on sizes, or look as if they did.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "packbits": lambda x: jnp.packbits(x > 0),
    "packbits, little": lambda x: jnp.packbits(jnp.stack([x > 0, x > 1]), axis=1, bitorder="little"),
    "unpackbits": lambda x: jnp.unpackbits(x.astype("uint8")),
    "roll": lambda x: jnp.roll(x, 2),
    "tile": lambda x: jnp.tile(x, 3),
    "unwrap": jnp.unwrap,
    "median": jnp.median,
    "percentile": lambda x: jnp.percentile(x, 30),
    "edges": lambda x: jnp.pad(x[1:], 2, mode="edge"),
    "cov": jnp.cov,
    "unique": lambda x: jnp.unique(x, size=4),
    "det": lambda x: jnp.linalg.det(jnp.outer(x, x) + jnp.eye(x.shape[0])),
    "piecewise": lambda x: jnp.piecewise(x, [x > 0], [1.0, lambda v: v * 2]),
    "gradient": jnp.gradient,
    "repeat": lambda x: jnp.repeat(x, 2, total_repeat_length=5),
    "resize": lambda x: jax.image.resize(x, (5,), "linear"),
    "one_hot": lambda x: jax.nn.one_hot(jnp.arange(x.shape[0]), 4),
    "cumsum": lambda x: jnp.cumsum(x[1:]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_jax_that_ask(name: str) -> None:
    function = FUNCTIONS[name]
    calls: list[tuple[Any]] = []
    for (x,) in lines(16, 8, 7, 3, 2, 1, 9, 0):
        try:
            jax.eval_shape(function, x)
        except Exception:  # what JAX refuses is no size of the function's
            continue
        calls.append((x,))
    assert len(calls) > 5
    check(function, calls)


def test_packbits_has_a_program_for_each_answer() -> None:
    run = djax.jit(jnp.packbits)
    for size in (16, 8, 15, 9, 24, 1, 7, 2):
        bits = np.ones(size, np.uint8)
        np.testing.assert_array_equal(run(bits), jnp.packbits(bits))
    notes = ["\n".join(way.notes).splitlines()[1:] for way in run.explain().ways]
    guards = [[line[2:].split(":")[0] for line in lines if line[2] != " "] for lines in notes]
    assert guards == [["a.shape[0] % 8 == 0"], ["a.shape[0] % 8 != 0"]]


def test_sizes_that_jax_alone_keeps_in_its_tables_stay_symbols() -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        made = jnp.linspace(0.0, 1.0, n) + jax.random.normal(jax.random.key(0), (n,)) + jnp.ones(n)
        return jax.jit(lambda v, size: v + jnp.zeros(size), static_argnames="size")(made, size=n) + x

    run = djax.jit(function)
    for (x,) in lines(5, 4, 8, 9):
        np.testing.assert_allclose(run(x), function(x), 1e-5, 1e-6)
    assert run.cache_info().compiles == 1


def test_a_number_that_is_computed_with_sizes_is_of_these_alone() -> None:
    """As flax multiplies shapes: ``np.prod(())`` is a float, and a float times a size is an array of the program."""

    def function(x: Any, y: Any) -> Any:
        rows, columns = jax.tree.map(int, (1.0 * x.shape[1], 1.0 * y.shape[1]))
        return x @ jnp.ones((rows, columns)) @ y.T / x.shape[0] / y.shape[0]

    shapes = [((3, 4), (2, 5)), ((6, 4), (7, 5)), ((1, 4), (3, 5))]
    run = check(function, [(np.ones(x, np.float32), np.ones(y, np.float32)) for x, y in shapes])
    assert run.cache_info().compiles == 1
    check(function, [(np.ones((3, 2), np.float32), np.ones((2, 5), np.float32))])
