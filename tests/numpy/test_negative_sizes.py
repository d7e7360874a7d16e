"""Sizes and counts that NumPy refuses: when a function is traced where they are numbers, else when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import InvalidValueError, ShapeError, UnsupportedOpError

Array = Any
X = np.arange(3, dtype=np.float32)
MINUS = np.int64(-1)


def text(call: Callable[..., Any], *args: Any, error: type[Exception] = ShapeError) -> str:
    with pytest.raises(error) as caught:
        call(*args)
    return str(caught.value)


def here(call: Callable[..., Any]) -> int:
    return call.__code__.co_firstlineno


# ---- how often -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_an_array_of_counts_with_a_negative_one(dtype: str) -> None:
    def repeat(x: Array, counts: Array) -> Array:
        return dnp.repeat(x, counts)

    f = dyn.jit(repeat)
    for counts in ([1, -1, 2], [2, -2, 2], [-1, -1, -1]):
        below = sum(count < 0 for count in counts)
        assert text(f, X, np.array(counts, dtype)) == (
            f"negative == 0 is required, but negative is {below}: repeat takes no negative numbers.\n"
            f"  negative is the number of negative numbers of repeat = {below}\n"
            f"  at test_negative_sizes.py:{here(repeat) + 1}  return dnp.repeat(x, counts)\n"
            "  help: pass arguments whose shapes satisfy it."
        )
        assert f"negative is {below}" in text(dnp.repeat, X, np.array(counts, dtype))
        for counted in (np.array([0, 1, 2], dtype), np.array([0, 0, 0], dtype)):
            np.testing.assert_array_equal(f(X, counted), np.repeat(X, counted))
    assert f.cache_info().compiles == 1


def test_counts_that_a_program_closes_over_are_looked_at_in_each_call() -> None:
    counts = np.array([1, 1, 2])
    f = dyn.jit(lambda x: dnp.repeat(x, counts, axis=0))
    np.testing.assert_array_equal(f(X), np.repeat(X, counts))
    counts[1] = -1
    assert "negative is 1: repeat takes no negative numbers." in text(f, X)
    counts[1] = 0
    np.testing.assert_array_equal(f(X), np.repeat(X, counts))


def test_counts_in_a_branch_are_looked_at_where_it_runs() -> None:
    f = dyn.jit(lambda x, counts, flag: lax.cond(flag, lambda: dnp.sum(dnp.repeat(x, counts)), lambda: np.float32(-1)))
    bad, good = np.array([1, -1, 2]), np.array([1, 0, 2])
    assert f(X, bad, np.asarray(False)) == -1
    assert f(X, good, np.asarray(True)) == 4
    assert "negative is 1" in text(f, X, bad, np.asarray(True))


def test_nothing_is_written_where_a_count_is_negative() -> None:
    f = dyn.jit(lambda x, counts: (x + 1, dnp.repeat(x, counts)), donate_argnums=0)
    x = X.copy()
    with pytest.warns(UserWarning, match="no result can take the memory of the donated x"):
        text(f, x, np.array([1, -1, 2]))
    np.testing.assert_array_equal(x, X)


def test_unsigned_and_boolean_counts_are_never_negative() -> None:
    for counts in (np.array([1, 0, 255], np.uint8), np.array([True, False, True]), np.array([3, 0, 1], np.uint32)):
        program = dyn.jit(dnp.repeat).trace(X, counts).lower().as_text("dhlo")
        assert program.count("= measure(") == 1
        np.testing.assert_array_equal(dyn.jit(dnp.repeat)(X, counts), np.repeat(X, counts))


def test_counts_that_are_no_integers() -> None:
    with pytest.raises(TypeError):
        np.repeat(X, np.ones(3))  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert text(dyn.jit(dnp.repeat), X, np.ones(3), error=UnsupportedOpError).startswith(
        "repeat takes integers, not float64.\n"
    )


def test_counts_of_64_bits_without_a_sign() -> None:
    """NumPy refuses them by their dtype, whatever they are."""
    np.testing.assert_array_equal(dyn.jit(dnp.repeat)(X, np.array([2, 0, 1], np.uint64)), np.repeat(X, [2, 0, 1]))


def test_one_count_for_all_elements_and_none() -> None:
    f = dyn.jit(dnp.repeat)
    for x in (X, X[:1], X[:0]):
        for counts in (np.array([2]), np.zeros(1, int), np.arange(len(x))):
            np.testing.assert_array_equal(f(x, counts), np.repeat(x, counts))
            np.testing.assert_array_equal(dnp.repeat(x, counts), np.repeat(x, counts))
            np.testing.assert_array_equal(dnp.repeat(x, counts.tolist()), np.repeat(x, counts))
    assert f.cache_info().compiles == 1
    assert text(f, X, np.array([1, 2])).startswith(
        "repeats_0 broadcasts with x_0 is required, but repeats_0 is 2 and x_0 is 3: repeat: "
        "there is a number for each "
        "element of axis 0, or one for all.\n"
    )
    assert "repeat: there is a number for each element of axis 0, or one for all." in text(f, X[:1], np.array([1, 2]))


def test_lists_of_counts() -> None:
    f = dyn.jit(lambda x: dnp.repeat(x, [1, -1, 2]))
    assert text(f, X).startswith("repeat: -1 is a negative number of repetitions.\n")
    g = dyn.jit(lambda x: dnp.repeat(x, [x.shape[0], 1, x.shape[0] - 2]))
    np.testing.assert_array_equal(g(X), np.repeat(X, [3, 1, 1]))


# ---- how many --------------------------------------------------------------------------------------------------------

#: Functions of a traced size, and what errors call it.
SIZED: dict[str, Callable[[Any], Any]] = {
    "zeros": dnp.zeros,
    "ones": lambda n: dnp.ones((n, 2)),
    "full": lambda n: dnp.full((2, n), 1.5),
    "eye": dnp.eye,
    "tri": dnp.tri,
    "linspace": lambda n: dnp.linspace(0, 1, n),
    "repeat": lambda n: dnp.repeat(X, n),
    "tile": lambda n: dnp.tile(X, (1, n)),
    "pad": lambda n: dnp.pad(X, (0, n)),
    "bincount": lambda n: dnp.bincount(np.arange(3), minlength=n),
    "nonzero": lambda n: dnp.nonzero(X, size=n),
    "broadcast_to": lambda n: dnp.broadcast_to(X, (n, 3)),
    "fftfreq": dnp.fft.fftfreq,
    "vander": lambda n: dnp.vander(X, n),
    "iota": lambda n: lax.iota(np.int32, n),
    "top_k": lambda n: lax.top_k(X, n),
}


@pytest.mark.parametrize("name", SIZED)
def test_a_size_that_is_computed_and_negative(name: str) -> None:
    sized = SIZED[name]
    lines = text(dyn.jit(sized), MINUS).splitlines()
    assert lines[0] == f"size >= 0 is required, but size is -1: a size that {name} is given is not negative."
    assert lines[1] == f"  size is a size that {name} is given = -1"
    assert lines[2].startswith("  at test_negative_sizes.py:")
    assert lines[3] == "  help: pass arguments whose shapes satisfy it."


#: Functions of a dim, and why it is not negative.
OF_A_DIM: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "repeat": (dnp.repeat, "repeat repeats nothing a negative number of times"),
    "tile": (dnp.tile, "tile repeats nothing a negative number of times"),
    "zeros": (lambda x, n: dnp.zeros(n), "zeros makes axis 0 with that many elements"),
    "iota": (lambda x, n: lax.iota(np.int32, n), "axis 0 of the shape (x_0 - 5,) has no negative size"),
    "full": (lambda x, n: lax.full((2, n), 1.0), "axis 1 of the shape (2, x_0 - 5) has no negative size"),
    "reshape": (lambda x, n: lax.reshape(x, (n, n)), "axis 0 of the shape (x_0 - 5, x_0 - 5) has no negative size"),
    "nonzero": (lambda x, n: dnp.nonzero(x, size=n), "there is no negative number of elements"),
    "one_hot": (lambda x, n: dyn.nn.one_hot(x.astype(int), n), "axis 0 of the shape (x_0 - 5,) has no negative size"),
    "fft": (dnp.fft.fft, "fft makes axis 0 with that many elements"),
}


@pytest.mark.parametrize("name", OF_A_DIM)
def test_a_dim_that_is_negative(name: str) -> None:
    function, why = OF_A_DIM[name]
    f = dyn.jit(lambda x: function(x, x.shape[0] - 5))
    x = np.arange(4, dtype=np.float32) if name == "reshape" else X
    assert text(f, x).startswith(
        f"x_0 - 5 >= 0 is required, but x_0 - 5 is {len(x) - 5} (x_0 is {len(x)}): {why}.\n"
        f"  x_0 is x.shape[0] = {len(x)}\n"
        "  at test_negative_sizes.py:"
    )


def test_memory_of_a_negative_size() -> None:
    f = dyn.jit(lambda x: dnp.sum(dnp.sort(dnp.repeat(dnp.sort(x), x.shape[0] - 500))) + dnp.sum(dnp.sort(x * 2)))
    for n in (3, 400, 499):
        assert f"x_0 - 500 is {n - 500}" in text(f, np.ones(n, np.float32))
    assert f(np.ones(501, np.float32)) == 3 * 501


#: Calls with numbers that NumPy refuses with a ValueError, and how what dyn says begins.
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "repeat": (lambda xp, x: xp.repeat(x, -1), "repeat: -1 is a negative number of repetitions."),
    "tile": (lambda xp, x: xp.tile(x, (2, -1)), "tile: -1 is a negative number of repetitions."),
    "zeros": (lambda xp, x: xp.zeros((2, -1)), "zeros: the shape (2, -1) has a negative size."),
    "linspace": (lambda xp, x: xp.linspace(0, 1, -1), "linspace: the shape (-1,) has a negative size."),
    "vander": (lambda xp, x: xp.vander(x, -1), "vander: the shape (-1,) has a negative size."),
    "fft": (lambda xp, x: xp.fft.fft(x, -3), "fft: the shape (-3,) has a negative size."),
    "irfft": (lambda xp, x: xp.fft.irfft(x, -1), "irfft: the shape (-1,) has a negative size."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_numpy_refuses(name: str) -> None:
    call, start = REFUSED[name]
    with pytest.raises(ValueError, match=r"negative|Invalid|must be non-negative"):
        call(np, X)
    assert text(lambda: call(dnp, X)).startswith(start)
    assert text(dyn.jit(lambda x: call(dnp, x)), X).startswith(start)


def test_other_numbers_that_are_refused_with_their_names() -> None:
    assert text(dnp.tril, np.float32(1)).startswith("tril: an array without axes is no matrix.\n")
    assert text(lambda: dnp.arange(0.0, 5.0, 0.0), error=InvalidValueError).startswith(
        "arange does not take 0.0 for a step.\n"
    )
    assert text(lambda: lax.as_dim(-2, name="k")).startswith("as_dim: k is -2.\n")
    assert text(lambda: lax.as_dim(np.int32(7), max=5)).startswith("as_dim: size is 7.\n")
    assert lax.as_dim(np.int32(5), max=5) == 5


def test_more_of_the_greatest_than_there_are() -> None:
    f = dyn.jit(lax.top_k)
    assert text(f, X, np.int64(5)).startswith(
        "operand_0 >= size is required, but operand_0 is 3 and size is 5: axis 0 has as many "
        "elements as are taken of it.\n"
    )
    assert "size is -1" in text(f, X, MINUS)
    assert text(dyn.jit(lambda x: lax.top_k(x, -1)), X).startswith("-1 >= 0 cannot hold.\n")
