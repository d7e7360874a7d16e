"""Results that rounding decides: sums that cancel, matrices that nearly have no inverse; and bugs among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.diagnosis.cases import case_of
from dyn.diagnosis.differences import tolerance_of
from dyn.diagnosis.rounding import rounding_of_results
from dyn.errors import InvalidValueError
from tests.diagnosis.test_bisection import plant_in_variants
from tests.diagnosis.test_replay import other_reference

Array = np.ndarray[Any, Any]


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dyn.dtype(dtype).np)


#: Programs whose results are rounding alone, or hang on it.
CANCELLING: dict[str, Callable[[Any], Any]] = {
    "a centred sum": lambda x: (x - x.mean()).sum(),
    "centred rows": lambda x: (x - x.mean(axis=1, keepdims=True)).sum(axis=1),
    "two orders": lambda x: x.sum(axis=0) - x[::-1].sum(axis=0),
    "a difference of squares": lambda x: (x * x).sum() - (x @ x.T).trace(),
    "a loop": lambda x: dyn.lax.scan(lambda c, row: (c + row - row.mean(), c.sum() - row.sum()), x[0], x)[0].sum(),
    "a gradient": lambda x: dyn.grad(lambda y: ((y - y.mean(axis=0)) ** 2).sum())(x).sum(axis=0),
    "a decision": lambda x: (x - x.mean(axis=0)).sum(axis=0) > 0,
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", CANCELLING)
def test_honest_rounding_is_no_fault(name: str, dtype: str) -> None:
    f = dyn.jit(CANCELLING[name])
    for shape in ((64, 200), (3, 1), (1, 5)):
        x = normal(*shape, dtype=dtype)
        found = dyn.bisect(f, [x])
        assert found.culprit is None, found
        with pytest.raises(InvalidValueError, match="does not fail for these arguments"):
            dyn.minify(f, [x], seconds=5)


@pytest.mark.parametrize("name", ["a bug before", "a bug behind", "a bug beside"])
def test_a_bug_in_a_sum_that_cancels_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    programs: dict[str, Callable[[Any], Any]] = {
        "a bug before": lambda x: (dnp.tanh(x) - dnp.tanh(x).mean(axis=0)) @ dnp.ones((x.shape[1],), "f4"),
        "a bug behind": lambda x: dnp.tanh((x - x.mean(axis=1, keepdims=True)).sum(axis=1) + x[:, 0]),
        "a bug beside": lambda x: ((x - x.mean()).sum(), dnp.tanh(x)),
    }
    plant_in_variants(monkeypatch, lambda variant: True)  # sines for hyperbolic tangents
    f, x = dyn.jit(programs[name]), normal(40, 30)
    found = dyn.bisect(f, [x])
    assert found.culprit == "group", found
    assert "dnp.tanh" in "".join(found.lines)
    small = dyn.minify(f, [x], seconds=20)
    assert small.failure == "differs from the reference"
    assert "tanh" in small.program.text
    assert small.after <= 2


def test_a_tolerance_of_ones_own_is_kept() -> None:
    f, x = dyn.jit(CANCELLING["two orders"]), normal(64, 200)
    assert dyn.bisect(f, [x], tolerance=0.0).culprit == "group"
    assert dyn.minify(f, [x], tolerance=0.0, seconds=5).failure == "differs from the reference"


def test_the_movement_of_results() -> None:
    """A part of what was added; none where nothing rounds; no bound where a decision may go another way."""
    x = normal(64, 200)

    def several(x: Any) -> Any:
        total = (x - x.mean()).sum()
        return total, x.max(axis=0), dnp.round(x).sum(), x[:, ::-1] * 2, total > 0, dnp.sort(x, axis=1)

    moved = rounding_of_results(case_of(dyn.jit(several), [x], {}))
    explained = tolerance_of(dyn.float32)
    assert 0.01 * explained < moved[0] / np.abs(x).sum() < 10 * explained
    assert not moved[1].any()
    assert moved[2] == 0
    assert np.all(moved[3] <= 1.01 * explained * np.abs(x[:, ::-1] * 2))
    assert moved[4] == np.inf
    assert not moved[5].any()


def hilbert(n: int, dtype: str) -> Array:
    return (1 / (np.arange(n)[:, None] + np.arange(n) + 1)).astype(dtype)


def graded(n: int, dtype: str) -> Array:
    """A matrix of singular values from 1 to about nothing."""
    rng = np.random.default_rng(n)
    (u, _), (v, _) = (np.linalg.qr(rng.standard_normal((n, n))) for _ in range(2))
    return (u * np.logspace(0, -12, n) @ v).astype(dtype)


LINALG: dict[str, Callable[[Any], Any]] = {
    "inverse": dnp.linalg.inv,
    "pinv": dnp.linalg.pinv,
    "qr": dnp.linalg.qr,
    "slogdet": dnp.linalg.slogdet,
    "det": dnp.linalg.det,
    "solve": lambda a: dnp.linalg.solve(a, a[:, :2] + 1),
    "lu": lambda a: dyn.lax.linalg.lu(a)[0],
    "cholesky": lambda a: dnp.linalg.cholesky(a @ a.T + dnp.eye(a.shape[0], dtype=a.dtype) * 1e-3),
    "svd": lambda a: dnp.linalg.svd(a)[1],
}


@pytest.mark.parametrize("name", LINALG)
def test_nearly_singular_matrices_stop_no_replay(name: str) -> None:
    for dtype in ("float32", "float64"):
        for n in (3, 6, 10, 14):
            for a in (hilbert(n, dtype), graded(n, dtype), np.vander(np.linspace(0, 1, n)).astype(dtype)):
                replay = dyn.jit(LINALG[name]).replay(a).again(stop_at=("difference",))
                assert replay.stop is None, (dtype, n, replay)


@pytest.mark.parametrize("name", ["inverse", "qr", "slogdet", "pinv", "solve"])
def test_wrong_factors_of_a_matrix_with_an_inverse_stop_it(name: str) -> None:
    a = normal(6, 6) + 3 * np.eye(6, dtype="f4")
    right: dict[str, Callable[..., Any]] = {
        "inverse": lambda a: np.linalg.inv(a).T,
        "qr": lambda a, **attrs: tuple(np.linalg.qr(a[:, ::-1])),
        "slogdet": lambda a: tuple(np.asarray(one, "f4") for one in np.linalg.slogdet(2 * a)),
        "pinv": lambda a, *limit: np.linalg.pinv(a + 0.01),
        "solve": lambda a, b, **attrs: np.linalg.solve(a.T, b),
    }
    with other_reference(name, right[name]):
        replay = dyn.jit(LINALG[name]).replay(a)
    assert replay.stop is not None
    assert (replay.stop.cause, replay.stop.op) == ("difference", name)


def test_digits_that_an_ill_conditioned_matrix_leaves_are_compared() -> None:
    """Of a condition of about 500 in float32 an inverse has four digits: a difference in the second is one."""
    a = hilbert(3, "float32")
    with other_reference("inverse", lambda a: np.linalg.inv(a) * np.float32(1.05)):
        replay = dyn.jit(dnp.linalg.inv).replay(a)
    assert replay.stop is not None
