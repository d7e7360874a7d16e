"""NumPy's methods and functions that change an array, in a trace; ``tests/api/test_changes.py`` has ``dyn.Array``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError, UnsupportedOpError

Array = Any


def after(change: Callable[[Array], None]) -> Callable[[Array], Array]:
    """A function that changes a copy of its argument, and gives it with what was made of it before."""

    def function(x: Array) -> Array:
        y = x + 0
        alias, part = y, y[:1]
        change(y)
        return alias, part, x

    return function


CHANGES: dict[str, Callable[[Array], Any]] = {
    "sort": lambda x: x.sort(),
    "sort axis": lambda x: x.sort(axis=0, kind="stable"),
    "partition": lambda x: x.partition(1, axis=0),
    "fill": lambda x: x.fill(7),
    "put": lambda x: x.put([0, -1], [8, 9]),
    "put wrap": lambda x: x.put([0, 100], [8, 9], mode="wrap"),
    "np.put": lambda x: np.put(x, [0, -1], [8, 9]),
    "np.copyto": lambda x: np.copyto(x, 3),
    "np.copyto where": lambda x: np.copyto(x, x[::-1], where=x > 1),
    "np.place": lambda x: np.place(x, x > 1, [5.0, 6.0]),
    "np.putmask": lambda x: np.putmask(x, x > 1, [5.0, 6.0, 7.0]),
    "np.fill_diagonal": lambda x: np.fill_diagonal(x, 4),
    "np.put_along_axis": lambda x: np.put_along_axis(x, x.argmax(1)[:, None], 0, 1),
    "np.add.at": lambda x: np.add.at(x, ([0, 0], [1, 1]), 2.0),
    "np.subtract.at": lambda x: np.subtract.at(x, ([0, 0], [1, 1]), 2.0),
    "np.maximum.at": lambda x: np.maximum.at(x, ([0, 0], [1, 1]), 9.0),
    "out of a ufunc": lambda x: np.multiply(x, 2, out=x),
    "out of a sum": lambda x: np.sum(x * 1, axis=0, out=x[0]) is None,
    "out of a function": lambda x: np.cumsum(x, axis=0, out=x),
    "out broadcasts": lambda x: np.add(x[0], x[0], out=x),
    "out of a method": lambda x: x.clip(0, 2, out=x),
}
MATRICES = [np.random.default_rng(n).permutation(n * n).reshape(n, n).astype("f4") for n in (2, 3, 5)]


@pytest.mark.parametrize("name", CHANGES)
def test_as_in_numpy(name: str) -> None:
    """The name, and who holds the object, see the change; what was made before and the argument do not."""
    step = dyn.jit(after(CHANGES[name]))
    for x in MATRICES:
        given = x.copy()
        alias, part, same = step(given)
        wanted = x.copy()
        if name == "out broadcasts":
            wanted[...] = x[0] + x[0]
        elif name != "out of a sum":  # there x[0] is an array of its own
            CHANGES[name](wanted)
        np.testing.assert_array_equal(alias, wanted)
        np.testing.assert_array_equal(part, x[:1])
        np.testing.assert_array_equal(same, x)
        np.testing.assert_array_equal(given, x)
    assert step.cache_info().compiles == 1


def test_sort_returns_nothing() -> None:
    @dyn.jit
    def f(x: Array) -> Array:
        assert x.sort() is None
        assert x.partition(1) is None
        return x

    np.testing.assert_array_equal(f(np.array([3, 1, 2])), [1, 2, 3])
    np.testing.assert_array_equal(dyn.grad(lambda x: dnp.sum(f(x) * dnp.arange(3)))(np.array([3.0, 1, 2])), [2, 0, 1])


def refused(call: Callable[[], Any], text: str, error: type[Exception] = UnsupportedOpError) -> None:
    with pytest.raises(error) as caught:
        call()
    lines = [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]
    assert "\n".join(lines) == text


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (
            "resize",
            "write x = dyn.numpy.resize(x, shape), which repeats elements where NumPy's method fills with zeros.",
        ),
        ("itemset", "write x = x.at[index].set(value)."),
        ("byteswap", "leave it to a NumPy array: arrays of dyn have the machine's order of bytes."),
        ("setflags", "leave it out: an array of dyn has no flags to set."),
    ],
)
def test_what_eager_arrays_have_not(name: str, remedy: str) -> None:
    x = dyn.asarray(np.array([3.0, 1.0]))
    refused(lambda: getattr(x, name)(1), f"x.{name}(): an array of dyn does not change so.\n  help: {remedy}")
    np.testing.assert_array_equal(x, [3, 1])


def test_numpys_functions_that_change_eager_arrays() -> None:
    """Those that call methods do; those that want NumPy's arrays alone are errors, and the array is as it was."""
    x: Any = dyn.asarray(np.array([[3.0, 1.0], [2.0, 0.0]]))
    np.put(x, [0], [9])
    assert x[0, 0].item() == 9
    np.put(x, [0], [3])
    total = dnp.zeros(2, "float64")
    assert np.sum(x, 0, out=total) is total
    assert total.tolist() == [5, 1]
    for call in (
        lambda: np.copyto(x, 1), lambda: np.place(x, [True], [1]),
        lambda: np.putmask(x, [True], [1]), lambda: np.fill_diagonal(x, 1), lambda: np.add.at(x, (0, 0), 1),
        lambda: np.add(x, x, out=x),
        lambda: np.sum(x, 0, out=dnp.zeros(2, "i4")),
    ):  # fmt: skip
        with pytest.raises((TypeError, AttributeError, UnsupportedOpError)):
            call()
    np.testing.assert_array_equal(x, [[3, 1], [2, 0]])
    np.testing.assert_array_equal(np.sort(x, axis=0), [[2, 0], [3, 1]])


def test_refused_in_a_trace() -> None:
    x = np.arange(4.0)

    def traced(change: Callable[[Array], Any]) -> Callable[[], Any]:
        return lambda: dyn.jit(lambda x: (change(x), x)[1])(x)

    refused(
        traced(lambda x: x.resize(2)),
        "x.resize(): an array of dyn does not change so.\n  help: write x = dyn.numpy.resize(x, shape), "
        "which repeats elements where NumPy's method fills with zeros.",
    )
    refused(
        traced(lambda x: np.add(x, 1, out=np.zeros(4))),
        "np.add cannot write into out=, a ndarray, while a function is being traced.\n  help: use the result, or make "
        "the array that it is written into in the function.",
    )
    refused(
        traced(lambda x: np.copyto(np.zeros(4), x)),
        "np.copyto cannot change a ndarray while a function is being traced.\n  help: make the array that it changes "
        "in the function, as by dyn.numpy.array(x).",
    )
    refused(
        traced(lambda x: np.add(x, 1, out=dnp.zeros(4, np.int32))),
        "np.add cannot write a result of float64 into out=, of int32.\n  help: make out= in the dtype of the "
        "result, or convert the result with .astype.",
    )
    refused(
        traced(lambda x: np.add(x, 1, out=x[0])),
        "np.add cannot write a result of shape (x_0,) into out=, of shape ().\n  help: make out= in the shape "
        "of the result.",
        ShapeError,
    )
    refused(
        traced(lambda x: np.arctan2.at(x, [0], 1)),
        "np.arctan2.at is not there for arrays that are being traced.\n  help: there are np.add.at, np.divide.at, "
        "np.maximum.at, np.minimum.at, np.multiply.at, np.power.at, np.subtract.at.",
    )
