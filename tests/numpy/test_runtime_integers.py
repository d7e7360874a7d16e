"""Integers that a program computes, as bounds, shifts, counts and sizes: of every sign and width, in one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError

Array = Any
X = np.arange(5.0)
SIGNED = [-(2**63), -(2**62), -9, -5, -2, -1, 0, 1, 3, 5, 9, 2**62, 2**63 - 1]
UNSIGNED = [0, 1, 4, 5, 9, 2**63 - 1, 2**63, 2**64 - 1]

#: Of dyn's namespace or NumPy's, the array, and a number.
FUNCTIONS: dict[str, Callable[[Any, Array, Any], Any]] = {
    "slice to": lambda xp, x, k: x[:k],
    "slice from": lambda xp, x, k: x[k:],
    "roll": lambda xp, x, k: xp.roll(x, k),
    "split": lambda xp, x, k: xp.split(x, [k]),
    "split twice": lambda xp, x, k: xp.split(x, [k, 3]),
    "array_split": lambda xp, x, k: xp.array_split(x, [2, k]),
    "tril": lambda xp, x, k: xp.tril(xp.ones((2, 3)), k),
}
#: As Python has them: NumPy's functions compute some of them with a wrap.
SHIFTED = {"roll"}


def wanted(name: str, k: int) -> Any:
    if name in SHIFTED:
        return np.roll(X, k % 5)
    if name == "tril":
        k = min(max(k, -9), 9)
    return FUNCTIONS[name](np, X, k)


def same(found: Any, right: Any) -> None:
    for a, b in zip(found, right, strict=True) if isinstance(right, list) else [(found, right)]:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "numbers"), [(np.int64, SIGNED), (np.uint64, UNSIGNED), (np.int8, [-128, -3, 127])])
def test_places(name: str, dtype: type[np.generic], numbers: Sequence[int]) -> None:
    step = dyn.jit(lambda x, k: FUNCTIONS[name](dnp, x, k))
    for k in numbers:
        same(step(X, dtype(k)), wanted(name, k))
    assert step.cache_info().compiles == 1


def test_offsets_of_diagonals() -> None:
    step = dyn.jit(lambda x, v, k: (dnp.diagonal(x, k), dnp.diag(v, k)))
    x = np.arange(12).reshape(3, 4)
    for k in (-2, 0, 1, -1, 3):
        same(step(x, X[:2], np.int64(k)), [np.diagonal(x, k), np.diag(X[:2], k)])
    assert step.cache_info().compiles == 1


def test_roll_of_nothing_and_by_a_vector() -> None:
    step = dyn.jit(dnp.roll)
    np.testing.assert_array_equal(step(X[:0], np.int64(-3)), X[:0])
    both = dyn.jit(lambda x, k: dnp.roll(x, k, (0, 1)), shapes="a b, 2")
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(both(x, np.array([-1, 6])), np.roll(x, (-1, 6), (0, 1)))


@pytest.mark.parametrize(
    ("low", "high", "step", "dtype"),
    [
        (-(2**63), 2**62, 2**62, np.int64), (2**63 - 1, -(2**63), -(2**62), np.int64), (0, 2**64 - 1, 2**63, np.uint64),
        (5, 3, 1, np.uint64), (3, 5, 0, np.int64), (-100, 120, 50, np.int8), (2**63 - 1, -(2**63), -(2**63), np.int64),
    ],
)  # fmt: skip
def test_arange(low: int, high: int, step: int, dtype: type[np.generic]) -> None:
    found = dyn.jit(dnp.arange)(dtype(low), dtype(high), dtype(step))
    exact = np.array(list(range(low, high, step)) if step else [], dtype)
    np.testing.assert_array_equal(found, exact)
    assert np.asarray(found).dtype == dtype


def refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    lines = [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]
    assert "\n".join(lines) == text


def test_counts_that_no_array_has() -> None:
    """No sum wraps to a small number, and no number of uint64 becomes a negative one."""
    most = np.uint64(2**64 - 1)
    for counts in (np.array([2**62] * 4), np.array([2**63 - 1, 1, 0, 0]), np.array([2**63, 0, 0, 0], np.uint64)):
        refused(
            lambda counts=counts: dyn.jit(dnp.repeat)(X[:4], counts),
            "an array of this call would have more than 2^63 bytes (arguments: x (4,), repeats (4,)).\n"
            "  help: pass smaller arguments.",
        )
    refused(
        lambda: dyn.jit(dnp.repeat)(X[:4], most),
        "x_0*size is 36893488147419103228 in this call, and sizes have 64 bits.\n"
        "  x_0 is x.shape[0] = 4\n  size is a size that repeat is given = 9223372036854775807\n"
        "  help: pass smaller arguments.",
    )
    refused(
        lambda: dyn.jit(lambda n: dnp.zeros(n))(most),  # noqa: PLW0108
        "an array of this call would have more than 2^63 bytes (arguments: n ()).\n  help: pass smaller arguments.",
    )
    refused(
        lambda: dyn.jit(lambda x: dnp.bincount(x))(np.array([most])),  # noqa: PLW0108
        "an array of this call would have more than 2^63 bytes (arguments: x (1,)).\n  help: pass smaller arguments.",
    )
    np.testing.assert_array_equal(dyn.jit(dnp.repeat)(X[:2], np.array([1, 2], np.uint64)), [0, 1, 1])


@pytest.mark.parametrize("step", [2**62, 2**63 - 3, 2**63 - 1, 2**64, 2**64 + 2, 10**30, -(2**63), -(2**64)])
def test_steps_longer_than_any_axis(step: int) -> None:
    for start in (None, 1, -2):
        np.testing.assert_array_equal(dyn.jit(lambda x, a=start: x[a::step])(X), X[start::step])
    np.testing.assert_array_equal(dyn.jit(lambda x: x[::step])(X[:0]), X[:0])


@pytest.mark.parametrize("k", [2**62, 2**63 - 1, -(2**62), -(2**63), 10**30])
def test_diagonals_far_outside(k: int) -> None:
    ones = np.ones((3, 3))
    for name in ("tril", "triu"):
        keeps = (k > 0) is (name == "tril")
        function = getattr(dnp, name)
        made = dyn.jit(lambda x, f=function: f(x, k))(ones)
        np.testing.assert_array_equal(made, ones * keeps)
        if abs(k) < 2**63:
            np.testing.assert_array_equal(function(ones, np.int64(k)), ones * keeps)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_divisors_of_the_least_integer(dtype: str) -> None:
    least = np.iinfo(dtype).min
    a, b = np.meshgrid(np.array([least, least + 1, -6, 0, 5], dtype), np.array([least, 6, 0, -4], dtype))
    np.testing.assert_array_equal(dnp.gcd(a, b), np.gcd(a, b))
    np.testing.assert_array_equal(dnp.lcm(a, b), np.lcm(a, b))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: dnp.zeros(2**63),
        lambda x: dnp.arange(1e300),
        lambda x: dnp.reshape(x, (2**63, 5)),
        lambda x: dnp.broadcast_to(x, (2**63, 5)),
        lambda x: dnp.tile(x, 2**63),
    ],
)
def test_sizes_that_64_bits_do_not_hold(make: Callable[[Any], Any]) -> None:
    for call in (dyn.jit(make), make):
        with pytest.raises(ShapeError, match=r"64 bits|more than 2\^63"):
            call(X)
