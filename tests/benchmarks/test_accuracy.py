"""Errors of long sums, on a part of the table that ``python -m benchmarks accuracy`` makes."""

from __future__ import annotations

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from benchmarks.suites.accuracy import PROGRAMS, entries, run

#: The most epsilons that an error may have, of float32 and float64: about what rounding the result takes. 10**8 in
#: front of ones loses some of them.
BOUNDS = {
    "sum": (2.0, 4.0), "mean": (2.0, 4.0), "var": (3.0, 16.0), "cumsum": (0.5, 3000.0), "norm": (1.0, 1.0),
    "logsumexp": (1.0, 1.0), "softmax": (1.5, 1.5),
}  # fmt: skip


def test_errors_are_those_of_a_few_roundings() -> None:
    """Along rows and columns, of a length that is no run and of one that is several parts."""
    for entry in entries((1000, 40_001), ("float32", "float64"), tuple(BOUNDS), torch=False):
        assert entry.dyn <= BOUNDS[entry.program][entry.dtype == "float64"], entry


def test_equal_numbers_are_summed_up_to_the_nearest_float() -> None:
    """Runs of four of a number, and of four such sums, are exact, whatever the number; the rest is in float64."""
    total, mean = dyn.jit(lambda x: (dnp.sum(x, axis=1), dnp.sum(x, axis=0))), dyn.jit(lambda x: dnp.var(x, axis=1))
    for number in (0.1, 1.1, 1 / 3, 1000.1):
        for size in (4096, 32_768, 262_144):
            x = np.full((2, size), number, "f4")
            exact = np.float32(np.float64(x[0, 0]) * size)
            rows, _ = total(x)
            _, columns = total(np.ascontiguousarray(x.T))
            np.testing.assert_array_equal(rows, [exact, exact])
            np.testing.assert_array_equal(columns, [exact, exact])
            np.testing.assert_array_equal(mean(x), [0, 0])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_running_sums_are_rounded_once(dtype: str) -> None:
    """Each element is the nearest float to the sum of those before it, along both axes, from both sides."""
    x = (np.random.default_rng(0).standard_normal((3, 70_000)) + (1 if dtype == "float16" else 1000)).astype(dtype)
    x = x / 64 if dtype == "float16" else x
    along, across = (dyn.jit(lambda x, axis=axis: dnp.cumsum(x, axis=axis)) for axis in (1, 0))
    exact = np.cumsum(x.astype(np.float64), axis=1).astype(dtype)
    np.testing.assert_array_equal(along(x), exact)
    np.testing.assert_array_equal(across(np.ascontiguousarray(x.T)), exact.T)
    back = dyn.jit(lambda x: dyn.lax.cumsum(x, axis=1, reverse=True))
    turned = np.cumsum(x[:, ::-1].astype(np.float64), axis=1)[:, ::-1].astype(dtype)
    np.testing.assert_array_equal(back(x), turned)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_finite_stays_what_it_is(dtype: str) -> None:
    """A pair of a sum and its error has an error of NaN where the sum is infinite."""
    total = dyn.jit(lambda x: (dnp.sum(x, axis=1), dnp.sum(x, axis=0)))
    for size in (5, 5000, 70_000):
        for values, wanted in (
            ((np.inf,), np.inf),
            ((-np.inf,), -np.inf),
            ((np.inf, -np.inf), np.nan),
            ((np.nan,), np.nan),
        ):
            x = np.ones((2, size), dtype)
            x[:, : len(values)] = values
            rows, _ = total(x)
            _, columns = total(np.ascontiguousarray(x.T))
            np.testing.assert_array_equal(rows, np.full(2, wanted, dtype))
            np.testing.assert_array_equal(columns, np.full(2, wanted, dtype))


def test_a_sum_of_float64_keeps_what_it_rounds_away() -> None:
    """Of many, ones beside 10**17 would be lost one by one."""
    x = np.ones(200_000)
    x[0] = 1e17
    for shape in ((1, -1), (-1, 1)):
        assert dyn.jit(dnp.sum)(x.reshape(shape)) == pytest.approx(1e17 + 199_999, abs=128)


def test_the_benchmark_makes_tables() -> None:
    import argparse

    arguments = argparse.Namespace(sizes="100", dtypes="float32", programs="sum,softmax", all=True)
    report = run(arguments)
    # Whether a result is beyond the bound, which has a table of its own, is the processor's.
    assert [len(table.rows) for table in report.tables if not table.title.startswith("More than")] == [4, 16]
    assert report.notes[1].endswith("results are within twice the better one's error, or a unit")
    with pytest.raises(ValueError, match=r"^no programs are called total\.$"):
        run(argparse.Namespace(sizes="100", dtypes="float32", programs="total", all=False))
    assert set(BOUNDS) < set(PROGRAMS)
