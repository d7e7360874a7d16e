"""Shapes that depend on values: against NumPy at every size, with one trace and one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError, UndecidedDimError, UnsupportedOpError
from dyn.ir.core import Function
from dyn.ir.data_dependent import data_dependent_dims
from tests.canary import watched
from tests.numpy.differential import compare, rendered, trace

Array = np.ndarray[Any, Any]

#: Programs of NumPy and of dyn, with the arrays that they take.
CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "nonzero": (lambda xp, x: xp.nonzero(x), ("float32 n",)),
    "nonzero_of_integers": (lambda xp, x: xp.nonzero(x % 3), ("int16 n",)),
    "nonzero_2d": (lambda xp, x: xp.nonzero(x > 0), ("float32 n m",)),
    "nonzero_static": (lambda xp, x: xp.nonzero(x > 0), ("float64 3 4",)),
    "where_of_one": (lambda xp, x: xp.where(x < 0), ("float32 n m",)),
    "argwhere": (lambda xp, x: xp.argwhere(x > 0), ("float32 n m 2",)),
    "argwhere_of_none": (lambda xp, x: xp.argwhere(x > 0), ("float32",)),
    "flatnonzero": (lambda xp, x: xp.flatnonzero(x > 0), ("float32 n m",)),
    "mask": (lambda xp, x: x[x > 0], ("float32 n m",)),
    "mask_of_rows": (lambda xp, x, m: x[m], ("float32 n m", "bool n")),
    "mask_of_columns": (lambda xp, x, m: x[:, m], ("float32 n m", "bool m")),
    "mask_of_two_axes": (lambda xp, x, m: x[m, 1:], ("float32 n m 3", "bool n m")),
    "mask_and_slice": (lambda xp, x, m: x[::-1, m, None], ("float32 n m", "bool m")),
    "mask_after_dots": (lambda xp, x, m: x[..., m], ("float32 2 n m", "bool m")),
    "one_mask_twice": (lambda xp, x, y: x[x > y] * 2 + x[x > y], ("float32 n", "float32 n")),
    "two_masks": (lambda xp, x: (x[x > 0], x[x < 0]), ("float32 n",)),
    "mask_of_a_mask": (lambda xp, x: x[x > -0.5][x[x > -0.5] < 0.5], ("float32 n",)),
    "computed_on": (lambda xp, x: xp.sum(xp.exp(x[x > 0])[:, None] * xp.ones(3), axis=0), ("float64 n",)),
    "a_size_in_a_size": (lambda xp, x: xp.concatenate([x, x[x > 0], x[x > 0]]), ("float32 n",)),
    "compress": (lambda xp, x, m: xp.compress(m, x, axis=1), ("float32 n m", "bool m")),
    "compress_flat": (lambda xp, x, m: xp.compress(m, x), ("float32 n 3", "bool n")),
    "extract": (lambda xp, x: xp.extract(x > 0, x), ("float32 n m",)),
    "unique": (lambda xp, x: xp.unique(x % 5), ("int32 n",)),
    "unique_of_everything": (
        lambda xp, x: xp.unique(xp.round(x), return_index=True, return_inverse=True, return_counts=True),
        ("float32 n m",),
    ),
    "unique_of_booleans": (lambda xp, x: xp.unique(x, return_counts=True), ("bool n",)),
    "unique_rows": (
        lambda xp, x: xp.unique(x % 2, return_index=True, return_inverse=True, return_counts=True, axis=0),
        ("int32 n m",),
    ),
    "unique_columns": (lambda xp, x: xp.unique(xp.round(x / 2), axis=-1, return_counts=True), ("float32 2 n",)),
    "unique_matrices": (lambda xp, x: xp.unique(x, axis=1, return_index=True), ("bool 2 n m",)),
    "unique_of_one_axis": (lambda xp, x: xp.unique(x, axis=0, return_inverse=True), ("int16 n",)),
    "unique_all": (lambda xp, x: tuple(xp.unique_all(x % 3)), ("int64 n",)),
    "unique_counts": (lambda xp, x: tuple(xp.unique_counts(x % 3)), ("uint8 n",)),
    "unique_inverse": (lambda xp, x: tuple(xp.unique_inverse(x % 3)), ("int8 n m",)),
    "unique_values": (lambda xp, x: xp.sort(xp.unique_values(x % 3)), ("int16 n m",)),
    "union1d": (lambda xp, x, y: xp.union1d(x % 9, y), ("int32 n", "float32 m 2")),
    "intersect1d": (lambda xp, x, y: xp.intersect1d(x, y % 4, return_indices=True), ("int32 n 2", "int8 m")),
    "intersect1d_of_floats": (lambda xp, x, y: xp.intersect1d(xp.round(x), y), ("float32 n", "int16 m")),
    "setdiff1d": (lambda xp, x, y: xp.setdiff1d(x % 9, y), ("int32 n", "float32 m")),
    "setdiff1d_in_its_order": (lambda xp, x, y: xp.setdiff1d(x, y % 5, assume_unique=True), ("int32 n", "int32 m")),
    "setxor1d": (lambda xp, x, y: xp.setxor1d(x % 7, y), ("int64 n", "int64 m 3")),
    "setxor1d_of_booleans": (lambda xp, x, y: xp.setxor1d(x, y), ("bool n", "bool m")),
    "trim_zeros": (lambda xp, x: xp.trim_zeros(x % 3 * (x > 0)), ("int32 n",)),
    "trim_zeros_at_the_front": (lambda xp, x: xp.trim_zeros(xp.trunc(x / 3), "F"), ("float32 n m",)),
    "trim_zeros_at_the_back": (lambda xp, x: xp.trim_zeros(xp.trunc(x / 3), "b", axis=1), ("float32 n m",)),
    "trim_zeros_all_around": (lambda xp, x: xp.trim_zeros(xp.trunc(x / 3)), ("float32 n m",)),
    "repeat": (lambda xp, x, r: xp.repeat(x, r % 4, axis=0), ("float32 n m", "int32 n")),
    "repeat_flat": (lambda xp, x, r: xp.repeat(x, r % 3), ("float32 n", "uint8 n")),
    "repeat_last": (lambda xp, x, r: xp.repeat(x, r % 3, axis=-1), ("float32 n m", "int64 m")),
    "repeat_all_alike": (lambda xp, x, r: xp.repeat(x, r[:1] % 3), ("float32 n", "int64 2")),
    "repeat_a_number_of_times": (lambda xp, x, r: xp.repeat(x, r % 4), ("float32 n", "int64")),
    "repeat_a_list": (lambda xp, x: xp.repeat(x, [2, 0, 1], axis=1), ("float32 n 3",)),
    "arange": (lambda xp, x: xp.arange(x % 7), ("int64",)),
    "arange_between": (lambda xp, x, y: xp.arange(x % 5, y % 9), ("int64", "int64")),
    "arange_down": (lambda xp, x, y: xp.arange(x % 9, y % 5, -2), ("int64", "int64")),
    "arange_of_a_dtype": (lambda xp, x: xp.arange(x % 7, dtype="float64"), ("int64",)),
    "arange_of_floats": (lambda xp, x: xp.arange(x, x + 3, 0.5), ("float64",)),
    "slice": (lambda xp, x, i: x[i % 5 :], ("float32 n m", "int64")),
    "slice_to": (lambda xp, x, i: x[:, : i % 5], ("float32 n m", "int32")),
    "slice_from_the_end": (lambda xp, x, i: x[-(i % 4) - 1 : i % 9 : 2], ("float32 n", "int64")),
    "zeros": (lambda xp, x, i: xp.zeros((i % 4, 2)) + x[:2], ("float64 n", "int64")),
    "reshape": (lambda xp, x: xp.reshape(xp.repeat(x, x.shape[0] % 1 + 2), (-1, 2)), ("float32 n",)),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("arange_of_floats", "zeros")])
def test_like_numpy(name: str) -> None:
    program, specs = CASES[name]
    compare(program, *specs)


def test_one_compile() -> None:
    f = dyn.jit(lambda x: (x[x > 0], dnp.unique(dnp.round(x)), dnp.arange(dnp.sum(x > 0))))
    for n in (0, 1, 2, 7, 64, 1000):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        taken, distinct, counted = f(x)
        np.testing.assert_array_equal(taken, x[x > 0])
        np.testing.assert_array_equal(distinct, np.unique(np.round(x)))
        np.testing.assert_array_equal(counted, np.arange(np.sum(x > 0)))
    assert f.cache_info().compiles == 1


def test_outside_of_a_trace() -> None:
    x = np.array([[0, 2], [3, 0]])
    for found, wanted in zip(dnp.nonzero(x), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(dnp.asarray(x)[dnp.asarray(x) > 1], [2, 3])


@pytest.mark.parametrize("equal_nan", [True, False])
def test_nans(equal_nan: bool) -> None:
    x = np.array([np.nan, 1, -0.0, np.nan, 0.0, 1], np.float32)
    f = dyn.jit(lambda x: dnp.unique(x, return_counts=True, equal_nan=equal_nan))
    for found, wanted in zip(f(x), np.unique(x, return_counts=True, equal_nan=equal_nan), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_size_of_ones_own() -> None:
    """Nothing is measured then, so that vmap goes through."""
    x = np.array([[1, 0, 2], [0, 0, 0], [3, 4, 5]], np.float32)
    (found,) = dyn.vmap(lambda row: dnp.nonzero(row, size=2, fill_value=-1))(x)
    np.testing.assert_array_equal(found, [[0, 2], [-1, -1], [0, 1]])
    np.testing.assert_array_equal(dnp.unique(x, size=8, fill_value=9), [0, 1, 2, 3, 4, 5, 9, 9])
    np.testing.assert_array_equal(dnp.unique(x, size=3), [0, 1, 2])
    repeated = dyn.jit(lambda x, r: dnp.repeat(x, r, total_repeat_length=4))
    np.testing.assert_array_equal(repeated(np.arange(3), np.array([1, 0, 2])), [0, 2, 2, 2])


def test_gradients() -> None:
    """The gradient of what a mask takes goes back to where it stood."""
    f = dyn.jit(dyn.grad(lambda x: dnp.sum(x[x > 0] ** 3)))
    for n in (0, 1, 7):
        x = np.random.default_rng(n).standard_normal(n)
        np.testing.assert_allclose(f(x), np.where(x > 0, 3 * x**2, 0))
    second = dyn.jit(dyn.hessian(lambda x: dnp.sum(dnp.repeat(x, np.array([2, 0, 1])) ** 3)))
    np.testing.assert_allclose(second(np.array([1.0, 2, 3])), np.diag([12.0, 0, 18]))


def scanned(x: Any) -> Any:
    def step(most: Any, row: Any) -> Any:
        taken = row[row > most]
        return most + dnp.sum(taken), taken.shape[0] + dnp.zeros(())

    return lax.scan(step, dnp.sum(x) * 0, x)


def test_in_a_loop() -> None:
    """Each step measures anew, and has memory of its own for it."""
    f = dyn.jit(scanned)
    for shape in ((0, 3), (3, 0), (1, 1), (5, 700)):
        x = np.random.default_rng(0).standard_normal(shape)
        most, counts = 0.0, []
        for row in x:
            counts.append((row > most).sum())
            most += row[row > most].sum()
        found, found_counts = f(x)
        np.testing.assert_allclose(found, most)
        np.testing.assert_array_equal(found_counts, counts)
    assert f.cache_info().compiles == 1


def test_the_gradient_of_a_loop_measures_again() -> None:
    x = np.random.default_rng(1).standard_normal((4, 6))
    gradient = dyn.jit(dyn.grad(lambda x: scanned(x)[0]))(x)
    step = 1e-6
    for at in ((0, 0), (1, 3), (3, 5)):
        moved = x.copy()
        moved[at] += step
        np.testing.assert_allclose(gradient[at], (scanned_value(moved) - scanned_value(x)) / step, atol=1e-4)


def scanned_value(x: Array) -> float:
    most = 0.0
    for row in x:
        most += row[row > most].sum()
    return most


def test_in_a_branch_and_in_a_while_loop() -> None:
    @dyn.jit
    def f(p: Any, x: Any) -> Any:
        def halved(y: Any) -> Any:
            return dnp.where(y > 1, y / 2 - dnp.max(y[y > 1]) / 8, y)

        chosen = lax.cond(p, lambda v: dnp.sum(dnp.unique(v)), lambda v: dnp.sum(v[v > 1]), x)
        return chosen, lax.while_loop(lambda y: dnp.sum(y[y > 1]) > 1, halved, x)

    x = np.array([1.0, 1, 2, 2, 9])
    after = x
    while after[after > 1].sum() > 1:
        after = np.where(after > 1, after / 2 - after[after > 1].max() / 8, after)
    for p, wanted in ((True, 12), (False, 13)):
        chosen, ended = f(p, x)
        assert float(chosen) == wanted
        np.testing.assert_allclose(ended, after)
    assert f.cache_info().compiles == 1


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_nothing_to_take_the_maximum_of() -> None:
    f = dyn.jit(lambda x: dnp.max(x[x > 0]))
    assert float(f(np.array([1.0, -2, 3]))) == 3
    with pytest.raises(ShapeError) as caught:
        f(np.array([-1.0, -2]))
    assert rendered(caught.value) == (
        "count >= 1 is required, but count is 0: the maximum of nothing has no value, and an axis that is reduced is "
        "empty.\n"
        "  count is the number of nonzero elements of (x_0,) = 0\n"
        "  at <the line>\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_a_number_that_is_no_size() -> None:
    f = dyn.jit(lambda n, x: x[: lax.as_dim(n, max=x.shape[0], name="k")])
    np.testing.assert_array_equal(f(np.int32(2), np.arange(3)), [0, 1])
    with pytest.raises(ShapeError) as caught:
        f(np.int32(4), np.arange(3))
    assert rendered(caught.value) == (
        "x_0 >= k is required, but x_0 is 3 and k is 4: as_dim(..., name='k') is at most x_0.\n"
        "  x_0 is x.shape[0] = 3\n"
        "  k is as_dim(..., name='k') = 4\n"
        "  at <the line>\n"
        "  help: pass arguments whose shapes satisfy it."
    )
    with pytest.raises(ShapeError, match="k >= 0 is required, but k is -1"):
        f(np.int32(-1), np.arange(3))


def test_a_size_that_does_not_fit_later_shapes() -> None:
    """The caller gets all or nothing: the check comes when the size is known."""
    f = dyn.jit(lambda x, y: (x * 2, x[x > 0] + y))
    np.testing.assert_array_equal(f(np.array([1.0, -1, 2]), np.ones(2))[1], [2, 3])
    with pytest.raises(ShapeError, match="count broadcasts with y_0 is required, but count is 2 and y_0 is 3"):
        f(np.array([1.0, -1, 2]), np.ones(3))


def test_branches_on_emptiness() -> None:
    """They are taken where the sizes of the call decide: n and some more are none only if n is 0."""

    def f(x: Any) -> Any:
        both = dnp.concatenate([x, x[x > 1]])
        return dnp.sum(both) if both.shape[0] == 0 else dnp.max(both)

    compiled = dyn.jit(f)
    for number, (size, wanted, programs) in enumerate([(3, 3, 1), (1, 1, 1), (0, 0, 2), (5, 5, 2), (0, 0, 2)]):
        assert compiled(np.arange(size) + 1.0) == wanted, number
        assert compiled.cache_info().compiles == programs, number


def test_branches_of_python() -> None:
    with pytest.raises(UndecidedDimError) as caught:
        dyn.jit(lambda x: x if x[x > 0].shape[0] > 3 else -x)(np.ones(3))
    assert rendered(caught.value) == (
        "whether count > 3 cannot be decided: count is the number of nonzero elements of (x_0,).\n"
        "  at <the line>\n"
        "  help: it is known when the program runs, and not while it is traced: use dyn.numpy.where, or dyn.lax.cond "
        "on a comparison of an array."
    )


def test_what_a_loop_measures_stays_inside() -> None:
    with pytest.raises(ShapeError) as caught:
        dyn.jit(lambda xs: lax.scan(lambda c, v: (c, v[v > 0]), 0.0, xs))(np.ones((2, 3), np.float32))
    assert rendered(caught.value) == (
        "the body of scan gives f32[count], and the size of axis 0 is found out inside of it.\n"
        "  count is the number of nonzero elements of (xs_1,)\n"
        "  at <the line>\n"
        "  help: compute what is of one size from it inside, as a sum, or give it a size of your own (size= of "
        "nonzero, unique and their kin)."
    )


def test_vmap() -> None:
    with pytest.raises(UnsupportedOpError, match="vmap: measure: a size that depends on values would be"):
        dyn.vmap(lambda x: dnp.sum(x[x > 0]))(np.ones((3, 4)))


# ---- how it is compiled ----------------------------------------------------------------------------------------------


def function_of(program: Callable[..., Any], *specs: str) -> Function:
    return trace(lambda xp, *arrays: program(*arrays), *specs).function


def test_one_mask_is_measured_once() -> None:
    function = function_of(lambda x, m: (x[m] + x[m], dnp.nonzero(m)), "float32 n", "bool n")
    assert len(list(data_dependent_dims(function.ops))) == 1


def test_what_is_written_out_twice_measures_twice() -> None:
    """A function whose gradient is taken twice has dims of its own each time."""
    f = dyn.jit(lambda x: dyn.grad(lambda y: dnp.sum(y[y > 0] ** 2))(x) + dyn.grad(lambda y: dnp.sum(y[y < 0] ** 2))(x))
    x = np.array([1.0, -2, 3])
    np.testing.assert_allclose(f(x), 2 * x)


def test_donated_memory_is_left_alone() -> None:
    """A check may fail after kernels have run: what was donated must be as it was then."""
    f = dyn.jit(lambda x: (x + 1, dnp.max(x[x > 0])), donate_argnums=0)
    x = np.array([-1.0, -2])
    with pytest.warns(UserWarning, match="donat"), pytest.raises(ShapeError):
        f(x)
    np.testing.assert_array_equal(x, [-1, -2])


def test_results_of_both_kinds_at_any_size() -> None:
    """Results whose shapes are known at once get their memory at once, and the GIL is kept until the last has it."""
    f = dyn.jit(lambda x: (x[x > 0], x * 2, dnp.sum(x), x[x < 0][:, None] * x[None, :], x + 1))
    for n in (0, 1, 7, 600):
        x = np.random.default_rng(n).standard_normal(n)
        wanted = (x[x > 0], x * 2, np.sum(x), x[x < 0][:, None] * x[None, :], x + 1)
        for found, value in zip(f(x), wanted, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-12)


# ---- what is known of sizes before one of them is measured -----------------------------------------------------------


def test_what_follows_of_a_measured_size_is_checked_before_it_is_used() -> None:
    """``n - k >= 500`` says that ``n >= 500``, which arrays of ``n - 500`` elements need before ``k`` is known."""

    def f(x: Any, k: Any) -> Any:
        n, first = x.shape[0], dnp.sort(dnp.sin(x))
        rest = dnp.zeros(n - lax.as_dim(k, name="k") - 500)
        more = dnp.sort(dnp.sin(dnp.arange(n - 500).astype(np.float32)))
        return dnp.sum(rest) + dnp.sum(more) * 0 + dnp.sum(dnp.sort(x * 2)) + first[0] * 0, dnp.zeros(n - 500)

    compiled = dyn.jit(f)
    total, zeros = compiled(np.ones(600, np.float32), np.int64(1))
    assert (total, zeros.shape) == (1200, (100,))
    for n in (3, 100, 400, 499):
        with pytest.raises(ShapeError) as caught:
            compiled(np.ones(n, np.float32), np.int64(0))
        assert str(caught.value).startswith(f"x_0 - 500 >= 0 is required, but x_0 - 500 is {n - 500} (x_0 is {n}): ")
    with pytest.raises(ShapeError, match=r"x_0 - k - 500 >= 0 is required"):
        compiled(np.ones(501, np.float32), np.int64(2))
    assert compiled.cache_info().compiles == 1


def test_an_index_that_a_measured_size_allows() -> None:
    def f(x: Any, k: Any) -> Any:
        rest = dnp.zeros(x.shape[0] - lax.as_dim(k) - 400_000_000)
        return x[400_000_000 - 1], dnp.sum(rest)

    with pytest.raises(ShapeError) as caught:
        dyn.jit(f)(np.ones(3, np.float32), np.int64(1))
    assert str(caught.value).startswith(
        "x_0 >= 400000000 is required, but x_0 is 3: the index 399999999 is inside of axis 0.\n"
    )


def test_sizes_that_are_equal_to_one_that_is_measured() -> None:
    """Both are as long as what the mask takes: so they are equal, which is checked before anything reads them."""

    def f(x: Any, y: Any, z: Any, m: Any) -> Any:
        both = dnp.sum(dnp.sort(x) * 2) + dnp.sum(dnp.sort(y))
        taken = z[m]
        return dnp.sum(taken.reshape(x.shape) + taken.reshape(y.shape) + x * y) + both

    compiled = dyn.jit(f)
    x, z = np.ones(3, np.float32), np.ones(7, np.float32)
    assert compiled(x, x, z, np.arange(7) < 3) == 18
    with pytest.raises(ShapeError, match="is required"):
        compiled(x, np.ones(100_000, np.float32), z, np.arange(7) < 3)
    with pytest.raises(ShapeError, match="is required"):
        compiled(x, x, z, np.arange(7) < 4)


def test_what_is_demanded_of_a_measured_size_is_not_relied_on_before() -> None:
    """``c[m - 1]`` and ``w[c - 1]`` imply that ``w`` has ``m`` elements: once they were checked, and no sooner."""

    @dyn.jit
    def f(x: Any, y: Any, w: Any) -> Any:
        first = dnp.sort(w[: y.shape[0]]) * 2
        places = dnp.nonzero(x)[0]
        return first, places[y.shape[0] - 1], w[places.shape[0] - 1]

    def call(*sizes: int) -> list[Array]:
        with watched() as guarded, dyn.config.override(fast_call=False):
            return [np.array(r) for r in f(*[guarded.copy(np.ones(size)) for size in sizes])]

    first, place, element = call(3, 2, 4)
    assert (first.tolist(), int(place), float(element)) == ([2.0, 2.0], 1, 1.0)
    with pytest.raises(ShapeError) as caught:
        call(3, 100_000, 4)
    assert str(caught.value).splitlines()[0] == (
        "count >= y_0 is required, but count is 3 and y_0 is 100000: the index y_0 - 1 is inside of axis 0."
    )


def _result_before_sizes(x: Any, rows: Any, columns: Any) -> Any:
    kept = x[x >= 0]
    return dnp.reshape(kept, (lax.as_dim(rows), lax.as_dim(columns)))


def _sizes_before_result(x: Any, rows: Any, columns: Any) -> Any:
    shape = lax.as_dim(rows), lax.as_dim(columns)
    return dnp.reshape(x[x >= 0], shape)


def _sizes_of_the_result_itself(x: Any, rows: Any, columns: Any) -> Any:
    doubled = x * 2 + rows * 0 + columns * 0
    return dnp.reshape(doubled, (lax.as_dim(dnp.sum(doubled >= 0)), 1))


@pytest.mark.parametrize("function", [_result_before_sizes, _sizes_before_result, _sizes_of_the_result_itself])
def test_a_result_whose_sizes_are_measured_after_it(function: Callable[..., Any]) -> None:
    """A result's memory is allocated with the result's own shape, that of the reshape."""
    compiled = dyn.jit(function)
    for rows, columns in ((2, 3), (0, 4), (1, 1), (7, 64)):
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        wanted = (x * 2).reshape(-1, 1) if function is _sizes_of_the_result_itself else x
        with watched() as guarded, dyn.config.override(fast_call=False):
            made = compiled(guarded.copy(x), np.int32(rows), np.int32(columns))
            np.testing.assert_array_equal(made, wanted)
        np.testing.assert_array_equal(compiled(x, np.int32(rows), np.int32(columns)), wanted)
    assert compiled.cache_info().compiles == 1


def test_bounds_of_slices_that_come_from_around_a_transformation() -> None:
    def pulled(x: Any, first: Any) -> Any:
        made, pull = dyn.vjp(lambda a: a[first:], x)
        return pull(made * 2)[0]

    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    kept = np.where(np.arange(7)[:, None] < 5, 0, x)
    five, two = np.int32(5), np.int32(2)
    np.testing.assert_array_equal(dyn.jit(pulled)(x, five), 2 * kept)
    gradient = dyn.jit(lambda x, i: dyn.grad(lambda a: dnp.sum(a[i:] ** 2))(x))
    np.testing.assert_array_equal(gradient(x, five), 2 * kept)
    np.testing.assert_array_equal(dyn.jit(lambda x, i: dyn.vmap(lambda a: a[i:])(x))(x, two), x[:, 2:])
    np.testing.assert_array_equal(dyn.jit(lambda x, i: dyn.jit(lambda a: a[i:])(x))(x, five), x[5:])
    masked = dyn.jit(lambda x, i: dyn.grad(lambda a: dnp.sum(a[a[:, 0] > 3][i:]))(x))
    np.testing.assert_array_equal(masked(x, two), np.broadcast_to(np.arange(7)[:, None] > 3, (7, 3)))
    added = dyn.jit(lambda x, i: lax.fori_loop(0, 2, lambda k, a: a + dnp.sum(x[k:i]), 0.0))
    assert float(added(x, five)) == x[:5].sum() + x[1:5].sum()
