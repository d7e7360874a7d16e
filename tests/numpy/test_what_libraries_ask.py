"""What libraries that are written for NumPy and the array API ask of arrays that are being traced."""

from __future__ import annotations

import math
import re
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError, UndecidedDimError, UnsupportedOpError

Array = Any
SIZES = (1, 2, 3, 4, 7, 8, 16, 33, 64, 100)


def one_program(function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]]) -> None:
    """Compare a function with NumPy's results at ten sizes, by one program."""
    ours = dyn.jit(function)
    for n in SIZES:
        args = make(n)
        wanted, found = function(*[np.array(arg) for arg in args]), ours(*args)
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
    assert ours.cache_info().compiles == 1


def rows(n: int) -> tuple[Any, ...]:
    return (np.random.default_rng(n).normal(size=(n, 3)),)


# ---- ufuncs' methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "np.add.reduce(x)", "np.add.reduce(x, axis=None)", "np.multiply.reduce(x, 1, keepdims=True)",
        "np.maximum.reduce(x, axis=(0, 1))", "np.minimum.reduce(x, -1)", "np.logical_and.reduce(x > 0)",
        "np.logical_or.reduce(x > 1, axis=1)", "np.add.reduce(x, dtype='f8', initial=2.0)", "np.add.reduce(x > 0)",
        "np.maximum.reduce(x, 0, initial=0.5, where=x > 0)", "np.add.accumulate(x)", "np.multiply.accumulate(x, 1)",
        "np.maximum.accumulate(x, axis=-1)", "np.minimum.accumulate(x)", "np.subtract.outer(x, x[0])",
        "np.multiply.outer(x, [1.0, 2.0])", "np.less.outer(x[:, 0], x[:, 1])", "np.add.outer(2.0, x)",
    ],
)  # fmt: skip
def test_methods_of_ufuncs(call: str) -> None:
    one_program(eval(f"lambda x: {call}", {"np": np}), rows)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_or", "logical_and"])
@pytest.mark.parametrize("axis", [0, -1])
def test_reduceat_of_any_parts(name: str, axis: int) -> None:
    """Parts that grow, shrink, are one element, and lie over each other."""
    ufunc = getattr(np, name)
    one_program(
        lambda x, at: ufunc.reduceat(x, at, axis=axis),
        lambda n: (np.random.default_rng(n).normal(size=(n, n)), np.random.default_rng(n).integers(0, n, 6)),
    )
    one_program(lambda x: np.add.reduceat(x, [0]), lambda n: (np.arange(n) % 2 == 0,))


def test_methods_that_are_not_there() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        dyn.jit(np.subtract.reduce)(np.ones(3))
    assert str(caught.value).splitlines()[0] == ("np.subtract.reduce is not there for arrays that are being traced.")


def test_results_are_written_into_out() -> None:
    def function(x: Array) -> Any:
        out = dnp.zeros(3, "float64")
        assert np.add.reduce(x, 0, None, out) is out
        return out

    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(dyn.jit(function)(x), x.sum(0))


# ---- booleans that are indices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        "b",
        "b, 1:",
        "1, b",
        "..., b",
        "b, c",
        ":, b",
        "True",
        "False",
        "None, True",
        "np.True_, 0",
        "..., b, 1",
        "True, True",
        "True, False",
        "None, True, [0]",
        "b, True, c",
        "True, [0, 1]",
        "b, None, 1",
        "0, b, [1]",
    ],
)
def test_single_booleans_are_indices(index: str) -> None:
    function = eval(f"lambda x, b, c: x[{index}]", {"np": np})
    ours = dyn.jit(function)
    for n in (2, 3, 9):
        for b in (True, False):
            args = np.arange(3.0 * n).reshape(n, 3), np.asarray(b), np.asarray(True)
            found, wanted = ours(*args), function(*args)
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found, wanted)
    assert ours.cache_info().compiles == 1


def test_single_booleans_are_places_to_write_to() -> None:
    def function(x: Array, b: Array) -> Any:
        x[b] = 7.0
        x[True, 0] = 3.0
        x[False] = 9.0
        x[..., b, 1] = 4.0
        return x

    ours = dyn.jit(function)
    for n in (2, 5):
        for b in (True, False):
            x = np.zeros((n, 3))
            np.testing.assert_array_equal(ours(x, np.asarray(b)), function(x.copy(), np.asarray(b)))
    assert ours.cache_info().compiles == 1
    assert dnp.ones(3).at[True].set(2).tolist() == [2, 2, 2]


# ---- lists, iteration, classes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "np.dot(x, [1.0, 2.0, 3.0])", "np.convolve(x[:, 0], [1.0, 2.0])", "np.concatenate([x, [[1.0, 2.0, 3.0]]])",
        "np.add(x, [1.0, 2.0, 3.0])", "np.where(x > 0, x, [1.0, 2.0, 3.0])", "np.maximum([0.0], x)",
        "np.stack([x[0], [1.0, 2.0, 3.0]])", "np.searchsorted([0.0, 0.5], x[:, 0])", "np.transpose(x, [1, 0])",
    ],
)  # fmt: skip
def test_numpys_functions_take_lists(call: str) -> None:
    one_program(eval(f"lambda x: {call}", {"np": np}), rows)


def test_dyns_functions_do_not() -> None:
    with pytest.raises(UnsupportedOpError, match="dot does not take a list for an array"):
        dyn.jit(lambda x: dnp.dot(x, [1.0, 2.0]))(np.ones((3, 2)))


def test_whether_it_can_be_iterated() -> None:
    """The number of rows is asked when the first is."""
    one_program(lambda x: x * np.iterable(x), rows)
    one_program(lambda x: x * (iter(x) is not None), rows)
    with pytest.raises(UndecidedDimError, match="a Python loop over the rows"):
        dyn.jit(lambda x: next(iter(x)))(np.ones((3, 2)))
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        dyn.jit(lambda x: iter(x.sum()))(np.ones(3))


def test_arrays_are_instances_of_the_class() -> None:
    one_program(lambda x: x * (not isinstance(x, np.ndarray) or isinstance(x, dyn.Array | np.ndarray)), rows)
    assert dyn.jit(lambda x: x * isinstance(x, dyn.Array))(np.ones(2)).tolist() == [1, 1]
    assert dyn.vmap(lambda x: x * isinstance(x, dyn.Array))(np.ones(2)).tolist() == [1, 1]
    assert isinstance(dnp.ones(2), dyn.Array)
    assert not isinstance(np.ones(2), dyn.Array)
    assert dyn.jit(lambda x: (x, dnp.ones(2)))(np.ones(2))[1].sum() == 2


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_sizes_are_finite() -> None:
    one_program(lambda x: x * (math.isfinite(x.shape[0]) and not math.isnan(x.shape[0] + 1)), rows)
    isinf = math.isinf
    one_program(lambda x: x * (not isinf(x.shape[0])), rows)
    with pytest.raises(UndecidedDimError, match=re.escape("float()")):
        dyn.jit(lambda x: x * math.isnan(float(x.shape[0])))(np.ones(3))


def test_sets_of_shapes() -> None:
    """A set asks for the value: a guard, and one warning for each program."""

    @dyn.jit
    def alike(*xs: Array) -> Any:
        return xs[0] * len({x.shape for x in xs})

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n, m in ((3, 3), (4, 4), (3, 3), (3, 4), (4, 4)):
            found = alike(np.ones((n, 2)), np.ones((m, 2)))
            np.testing.assert_array_equal(found, np.ones((n, 2)) * (1 if n == m else 2))
    assert alike.cache_info().compiles == 3
    assert [str(one.message) for one in caught] == [
        f"alike: a set or a dict takes the value of the dimension xs_0_0, so that this program is for {n} alone.\n"
        "  help: compare shapes with ==, or use a key that is no dimension."
        for n in (3, 4, 3)
    ]
    assert all(one.filename == __file__ for one in caught)


def test_sets_of_what_is_known() -> None:
    """Declared sizes, and sizes that are equal by declaration, which keep their program."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function = dyn.jit(lambda x: x * len({x.shape[1], 2}), shapes={"x": ("n", 2)})
        assert function(np.ones((3, 2))).tolist() == [[1, 1]] * 3
    with pytest.raises(UndecidedDimError, match=re.escape("hash() needs one value of the dimension n")):
        dyn.jit(lambda x: x * len({x.shape[0]})).trace(dyn.ShapeDtypeStruct(("n",), "f4"))
    with pytest.raises(UndecidedDimError, match=re.escape("hash()")):
        dyn.jit(lambda x: x * len({x[x > 0].shape[0]}))(np.ones(3))


def _by_size(kind: type[Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        found = kind() if kind is not defaultdict else kind(list)
        found[x.shape[0]] = x + 1
        found[x.shape] = {x.shape[1]: x + 2}
        return [found, x.shape[0]]

    return function


@pytest.mark.parametrize("kind", [dict, OrderedDict, defaultdict])
def test_results_in_dicts_by_sizes(kind: type[Any]) -> None:
    """The keys are numbers outside, as those of the plain function are: the program is for these alone."""
    plain = _by_size(kind)
    function = dyn.jit(plain)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (3, 5, 3):
            x = np.ones((n, 2))
            (found, size), (wanted, _) = function(x), plain(x)
            assert size == n
            assert type(found) is kind
            assert list(found) == list(wanted)
            assert type(next(iter(found))) is int
            np.testing.assert_array_equal(found[n], x + 1)
            np.testing.assert_array_equal(found[n, 2][2], x + 2)
    assert [str(one.message).splitlines()[0] for one in caught] == [
        f"function: a set or a dict takes the value of the dimension x_0, so that this program is for {n} alone."
        for n in (3, 5)
    ]
    assert function.cache_info().compiles == 2


@pytest.mark.filterwarnings("ignore:.*a set or a dict takes the value:UserWarning")
def test_dicts_by_sizes_in_results_of_inner_functions() -> None:
    def by_size(x: Any) -> Any:
        return {x.shape[0]: x}

    x = np.ones((3, 2))
    inner, branch = dyn.jit(by_size), lambda y: {y.shape[0]: y + 1}
    calls: list[Callable[[Any], Any]] = [
        inner, lambda x: dyn.lax.cond(x[0, 0] > 0, by_size, branch, x), lambda x: dyn.tree.map(lambda y: y, inner(x)),
    ]  # fmt: skip
    for call in calls:
        for found in (call(x), dyn.jit(call)(x)):
            assert list(found) == [3]
            np.testing.assert_array_equal(found[3], x)
    rows = dyn.jit(lambda x: dyn.lax.scan(lambda c, row: (c, {row.shape[0]: row}), 0.0, x)[1])(x)
    assert list(rows) == [2]


def test_sets_in_functions_that_are_called() -> None:
    inner = dyn.jit(lambda x: x * len({x.shape[0], 3}))
    with pytest.warns(UserWarning, match="this program is for 3 alone"):
        assert dyn.jit(lambda x: inner(x[1:]))(np.ones(4)).tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="this program is for 4 alone"):
        assert dyn.jit(lambda x: inner(x[1:]))(np.ones(5)).tolist() == [2, 2, 2, 2]


def test_indices_out_of_range_are_errors_still() -> None:
    with pytest.raises(ShapeError):
        dyn.jit(lambda x: x[True, 5])(np.ones(3))


def test_lists_that_are_compared() -> None:
    """Python would compare identities, and have no array of truth values."""
    one_program(lambda x: (x[0] == [0.5, 1.0, x.shape[1]]) | (x[0] != (1.0, 2.0, 3.0)), rows)
    x = dnp.asarray([0.5, 1, 2])
    assert (x == [0.5, 1, 3]).tolist() == [True, True, False]
    assert (x != (0.5, 1, 3)).tolist() == [False, False, True]


def test_indices_of_reduceat_count_from_the_front() -> None:
    with pytest.raises(ShapeError, match=r"np\.add\.reduceat takes no index below 0, as -2 is"):
        dyn.jit(lambda x: np.add.reduceat(x, [0, -2]))(np.ones(4))
    with pytest.raises(UnsupportedOpError, match=r"np\.logical_or\.reduce does not take initial="):
        dyn.jit(lambda x: np.logical_or.reduce(x, initial=True))(np.ones(4))
