"""Programs that serve calls whose branches went another way: one compile, and NumPy's results at every size."""

# ruff: noqa: RUF034 -- branches whose two ways are the same are what is tested

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError

SIZES = (5, 1, 0, 2, 7, 1, 3)


def numbers(*shape: int) -> Any:
    return np.arange(float(np.prod(shape)), dtype="f4").reshape(shape) + 1


def compiles_after(f: Any, expected: Callable[..., Any], shapes: Any = tuple((n,) for n in SIZES)) -> int:
    """How many programs are compiled for arrays of all shapes, each of which has the expected results."""
    for shape in shapes:
        np.testing.assert_array_equal(np.asarray(f(numbers(*shape))), expected(numbers(*shape)))
    return f.cache_info().compiles


# ---- one program serves ----------------------------------------------------------------------------------------------


def test_a_branch_whose_ways_are_equal() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 1 else x + 1

    assert compiles_after(f, lambda x: x + 1) == 1
    assert "an earlier program computes the same there, and its code runs" in str(f.explain())


def test_the_same_ops_in_another_order() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        if x.shape[0] > 1:
            a, b = dnp.floor(x), dnp.abs(x)
        else:
            b, a = dnp.abs(x), dnp.floor(x)
        return dnp.square(a) - b

    assert compiles_after(f, lambda x: np.square(np.floor(x)) - np.abs(x)) == 1


def test_a_program_for_one_size_alone_serves_no_other() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] != 1 else x * 2

    assert compiles_after(f, lambda x: x * 2, [(1,), (5,), (1,), (0,), (2,)]) == 2


def test_a_causal_mask_is_of_no_effect_on_one_word() -> None:
    @dyn.jit
    def attention(x: Any) -> Any:
        scores = dnp.matmul(x, x.T)
        if x.shape[0] > 1:
            place = dnp.arange(x.shape[0])
            scores = dnp.where(place[:, None] >= place[None, :], scores, -dnp.inf)
        return scores

    def expected(x: Any) -> Any:
        return np.where(np.tri(len(x), dtype=bool), x @ x.T, np.float32(-np.inf))

    assert compiles_after(attention, expected, [(n, 2) for n in SIZES]) == 1


def test_a_size_that_is_one_there_is_written_as_a_number() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        if x.shape[0] == 1:
            return dnp.broadcast_to(x, (1, x.shape[1])) + 1
        return x + 1

    assert compiles_after(f, lambda x: x + 1, [(3, 4), (1, 4), (0, 4), (1, 0), (2, 1)]) == 1


def test_captured_arrays_of_each_way() -> None:
    a, b = numbers(3), numbers(3) * 10

    @dyn.jit
    def f(x: Any) -> Any:
        return x[:, None] * a + b if x.shape[0] > 1 else x[:, None] * b + a

    def expected(x: Any) -> Any:
        return x[:, None] * a + b if len(x) > 1 else x[:, None] * b + a

    assert compiles_after(f, expected) == 1  # of one structure: the arrays change places
    b += 1
    assert compiles_after(f, expected) == 1


def test_results_in_another_tree() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return {"a": x + 1} if x.shape[0] > 1 else (x + 1,)

    assert list(f(numbers(3))) == ["a"]
    assert isinstance(f(numbers(1)), tuple)
    assert f.cache_info().compiles == 1


def test_three_questions_and_one_program() -> None:
    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        if x.shape[0] > 1 and y.shape[0] > 1:
            return dnp.outer(x, y)
        if x.shape[0] * y.shape[0] >= 2:
            return dnp.outer(x, y)
        return x[:, None] * y

    for n in (3, 1, 0, 2):
        for m in (4, 1, 0):
            np.testing.assert_array_equal(np.asarray(f(numbers(n), numbers(m))), np.outer(numbers(n), numbers(m)))
    assert f.cache_info().compiles == 1


def test_loops_and_sizes_of_data() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        places = dnp.nonzero(x > 2)[0]
        if x.shape[0] > 1:
            return lax.fori_loop(0, 3, lambda i, s: s + x[places] * i, x[places])
        return lax.fori_loop(0, 3, lambda i, s: s + x[places] * i, x[places])

    assert compiles_after(f, lambda x: 4 * x[x > 2]) == 1


def test_gradients_of_both_ways() -> None:
    @dyn.jit
    def loss(x: Any) -> Any:
        return dnp.sum(x * x) if x.shape[0] > 1 else dnp.sum(x * x)

    gradient = dyn.jit(dyn.grad(loss))
    assert compiles_after(gradient, lambda x: 2 * x) == 1


# ---- and where it may not --------------------------------------------------------------------------------------------


def test_other_values() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 1 else x + 2

    assert compiles_after(f, lambda x: x + 1 if len(x) > 1 else x + 2) == 2


def test_other_values_for_nothing_at_all() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return dnp.broadcast_to(x[:, None], (x.shape[0], x.shape[0])) if x.shape[0] > 1 else x[:, None]

    def expected(x: Any) -> Any:
        return np.broadcast_to(x[:, None], (len(x),) * 2) if len(x) > 1 else x[:, None]

    assert compiles_after(f, expected) == 2  # of no element: of shape (0, 0) and (0, 1)


def test_the_sum_of_one_and_the_sum_of_some() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return dnp.max(x) if x.shape[0] > 0 else dnp.sum(x)

    assert compiles_after(f, lambda x: np.max(x) if len(x) else np.sum(x)) == 2


def test_operands_that_are_broadcast_as_the_branch_says() -> None:
    """Where ``n`` is not 1, ``y`` has one element or ``n``; where it is, any number of elements."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        return x + y if x.shape[0] > 1 else x + y

    for n in (3, 1, 2):
        for m in (3, 1, 2, 0):
            try:
                expected = numbers(n) + numbers(m)
            except ValueError:
                with pytest.raises(ShapeError):
                    f(numbers(n), numbers(m))
            else:
                np.testing.assert_array_equal(np.asarray(f(numbers(n), numbers(m))), expected)


def test_what_one_way_demands_and_the_other_does_not() -> None:
    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        if x.shape[0] > 1:
            return dnp.reshape(y, (2, -1)).sum() + x
        return y.sum() + x

    for n, m in ((3, 4), (1, 4), (1, 3), (3, 6), (0, 1)):
        np.testing.assert_array_equal(np.asarray(f(numbers(n), numbers(m))), numbers(m).sum() + numbers(n))
    with pytest.raises(ShapeError):
        f(numbers(3), numbers(5))


def test_what_only_a_demand_says_of_a_branch_of_the_other_way() -> None:
    """The first program rests on ``n == 1``, which in the second follows from ``n - 1 >= 0``: that is to be checked."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        n = x.shape[0]
        _ = n >= 1 if y.shape[0] > 1 else n <= 1
        rest = dnp.zeros(n - 1)
        return rest + 1 if n == 1 else rest

    assert np.asarray(f(numbers(1), numbers(2))).shape == (0,)
    with pytest.raises(ShapeError, match="x_0 - 1 >= 0 is required, but x_0 - 1 is -1"):
        f(numbers(0), numbers(1))
    assert np.asarray(f(numbers(1), numbers(1))).shape == (0,)


def test_a_branch_of_one_way_that_the_other_demands() -> None:
    """The first program rests on ``n == m``, which the other way's code checks: so does the guard of its calls."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        if x.shape[0] > 1:
            return x * y if x.shape[0] == y.shape[0] else x.sum() * y
        return x * y.reshape(x.shape)

    def expected(x: Any, y: Any) -> Any:
        return x * y if len(x) <= 1 or len(x) == len(y) else x.sum() * y

    for n, m in ((3, 3), (1, 1), (0, 0), (2, 2), (1, 1)):
        np.testing.assert_array_equal(np.asarray(f(numbers(n), numbers(m))), expected(numbers(n), numbers(m)))
    assert f.cache_info().compiles == 1
    for _ in range(2):
        for n, m in ((1, 2), (0, 1), (1, 0)):
            with pytest.raises(ShapeError, match=r"\(y_0,\) is reshaped to \(x_0,\)"):
                f(numbers(n), numbers(m))
        for n, m in ((1, 1), (3, 3), (3, 1), (2, 0), (0, 0)):
            np.testing.assert_array_equal(np.asarray(f(numbers(n), numbers(m))), expected(numbers(n), numbers(m)))


def test_a_division_by_what_one_way_says_is_not_0() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return x[: 12 // x.shape[0]] if x.shape[0] > 0 else x

    assert compiles_after(f, lambda x: x[: 12 // len(x)] if len(x) else x) == 2


def test_sizes_that_the_branch_has_simplified() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        n = x.shape[0]
        return dnp.concatenate([x, dnp.zeros(min(n, 2))]) if n >= 2 else dnp.concatenate([x, dnp.zeros(min(n, 2))])

    assert compiles_after(f, lambda x: np.concatenate([x, np.zeros(min(len(x), 2), "f4")])) <= 2


def test_many_versions() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        for k in range(6):
            if x.shape[0] == k:
                return x + k
        return x

    assert compiles_after(f, lambda x: x + len(x) if len(x) < 6 else x, [(n,) for n in (*range(9), *range(9))]) == 7


def test_functions_outside_that_each_way_calls() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        like = dyn.ShapeDtypeStruct(x.shape, "float32")
        many = x.shape[0] > 1
        return dyn.pure_callback((lambda a: a + 1) if many else (lambda a: a * 10), like, x)

    assert compiles_after(f, lambda x: x + 1 if len(x) > 1 else x * 10) == 2


def test_what_each_way_prints(capsys: pytest.CaptureFixture[str]) -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        dyn.debug.print("many: {}" if x.shape[0] > 1 else "few: {}", dnp.sum(x))
        return x

    for n in (3, 1, 0, 2):
        f(numbers(n))
    assert capsys.readouterr().out.split("\n") == ["many: 6.0", "few: 1.0", "few: 0.0", "many: 3.0", ""]


def test_donated_memory() -> None:
    @dyn.jit(donate_argnums=0)
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 1 else x + 1

    for n in SIZES:
        np.testing.assert_array_equal(np.asarray(f(numbers(n))), numbers(n) + 1)
    assert f.cache_info().compiles == 1


# ---- at random -------------------------------------------------------------------------------------------------------


def causal(x: Any) -> Any:
    row, column = dnp.arange(x.shape[0])[:, None], dnp.arange(x.shape[1])[None, :]
    return dnp.where(row >= column, x, -1.0)


#: Ways to compute something of a matrix: some are equal always, some where a size is 0 or 1, some never.
WAYS: dict[str, Callable[[Any], Any]] = {
    "plus one": lambda x: x + 1,
    "one plus": lambda x: 1 + x,
    "causal": causal,
    "reversed": lambda x: x[::-1],
    "as it is": lambda x: x,
    "summed over": lambda x: x + dnp.sum(x, axis=0),
    "twice": lambda x: x + x,
    "all but the first row": lambda x: x[1:],
    "transposed twice": lambda x: x.T.reshape(x.shape[1], x.shape[0]).T,
    "flattened": lambda x: x.reshape(-1, 1).reshape(x.shape),
    "joined": lambda x: dnp.concatenate([x, x[:1]]),
    "rolled": lambda x: dnp.roll(x, x.shape[0], axis=0),
    "cumulated": lambda x: dnp.cumsum(x, axis=0),
    "the first row": lambda x: dnp.broadcast_to(x[:1], x.shape),
    "by its rows": lambda x: x * x.shape[0],
    "by its columns": lambda x: x * x.shape[1],
}
QUESTIONS: dict[str, Callable[[Any, Any], bool]] = {
    "n > 1": lambda n, m: n > 1,
    "m != 1": lambda n, m: m != 1,
    "n*m >= 2": lambda n, m: n * m >= 2,
    "n == 0": lambda n, m: n == 0,
    "n >= m": lambda n, m: n >= m,
    "m < 2": lambda n, m: m < 2,
    "n == 1": lambda n, m: n == 1,
}


@pytest.mark.parametrize("seed", range(12))
def test_random_branches(seed: int) -> None:
    """Each call gives what the program of this call alone gives on the NumPy oracle."""
    draw = random.Random(seed)
    steps = [(draw.choice([*QUESTIONS]), draw.choice([*WAYS]), draw.choice([*WAYS])) for _ in range(2)]

    def f(x: Any) -> Any:
        for question, yes, no in steps:
            x = WAYS[yes if QUESTIONS[question](*x.shape) else no](x)
        return x

    compiled = dyn.jit(f)
    shapes = list(itertools.product((3, 1, 0, 2), repeat=2))
    draw.shuffle(shapes)
    for shape in shapes:
        x = numbers(*shape)
        outcomes: list[Any] = []
        for run in (dyn.jit(f).reference, compiled):
            try:
                outcomes.append(np.asarray(run(x)))
            except ShapeError as error:
                outcomes.append(type(error))
        if isinstance(outcomes[0], type) or isinstance(outcomes[1], type):
            assert outcomes[0] is outcomes[1], (steps, shape)
        else:
            np.testing.assert_array_equal(outcomes[1], outcomes[0], err_msg=f"{steps} at {shape}")
