"""Scans with associative functions, and running sums: against JAX, at every size with one program, transformed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, DynError, ShapeError, TraceError, UnsupportedOpError

Array = Any
SIZES = (0, 1, 2, 7, 64)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def close(mine: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)


def linear(a: Any, b: Any) -> Any:
    """Recurrences ``h = d * h + x``, one after the other."""
    return {"d": a["d"] * b["d"], "x": a["x"] * b["d"] + b["x"]}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_tree_at_every_size(jax: ModuleType, axis: int, reverse: bool) -> None:
    mine = dyn.jit(lambda t: lax.associative_scan(linear, t, reverse=reverse, axis=axis))
    for size in SIZES:
        shape = [3, 3]
        shape[axis] = size
        t = {"d": floats(*shape), "x": floats(*shape, seed=1)}
        wanted = jax.jit(lambda t: jax.lax.associative_scan(linear, t, reverse=reverse, axis=axis % 2))(t)
        found = mine(t)
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert found[name].shape == wanted[name].shape
            close(found[name], wanted[name], 1e-4)
    assert mine.cache_info().compiles == 1


def test_products_of_matrices(jax: ModuleType) -> None:
    """A function that doesn't commute, of slices with more axes."""
    mine = dyn.jit(lambda m: lax.associative_scan(dnp.matmul, m))
    for size in SIZES[1:]:
        m = floats(size, 3, 3) * 0.5
        close(mine(m), jax.jit(lambda m: jax.lax.associative_scan(jax.numpy.matmul, m))(m), 1e-4)
    assert mine(floats(0, 3, 3)).shape == (0, 3, 3)
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(jax: ModuleType, reverse: bool) -> None:
    def theirs(t: Any) -> Any:
        made = jax.lax.associative_scan(linear, t, reverse=reverse)
        return (made["x"] ** 2).sum() + made["d"].sum()

    def ours(t: Any) -> Any:
        made = lax.associative_scan(linear, t, reverse=reverse)
        return dnp.sum(made["x"] ** 2) + dnp.sum(made["d"])

    gradient = dyn.jit(dyn.grad(ours))
    for size in (0, 1, 2, 7):
        t = {"d": floats(size, 2) * 0.5, "x": floats(size, 2, seed=1)}
        found = gradient(t)
        for name, wanted in jax.jit(jax.grad(theirs))(t).items():
            close(found[name], wanted, 1e-4)
    assert gradient.cache_info().compiles == 1
    t = {"d": floats(5, 2) * 0.5, "x": floats(5, 2, seed=1)}
    for a, b in zip(dyn.jvp(ours, (t,), (t,)), jax.jvp(theirs, (t,), (t,)), strict=True):
        close(a, b, 1e-4)


def test_many_examples(jax: ModuleType) -> None:
    mine = dyn.jit(dyn.vmap(lambda t: lax.associative_scan(linear, t)))
    theirs = jax.vmap(lambda t: jax.lax.associative_scan(linear, t))
    for batch, size in ((1, 4), (3, 7), (2, 1)):
        t = {"d": floats(batch, size), "x": floats(batch, size, seed=1)}
        for name, wanted in theirs(t).items():
            close(mine(t)[name], wanted, 1e-4)
    assert mine.cache_info().compiles == 1


def test_integers_and_what_is_closed_over() -> None:
    modulus = np.int64(7)
    x = np.arange(1, 9)
    found = lax.associative_scan(lambda a, b: (a * b) % modulus, x)
    wanted = [1, 2, 6, 24 % 7, 120 % 7, 720 % 7, 0, 0]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(lax.associative_scan(dnp.maximum, x[::-1]), np.full(8, 8))


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: lax.associative_scan(dnp.add, []),
            ArgumentError,
            "associative_scan: there are no arrays to go along.",
        ),
        (lambda: lax.associative_scan(3, np.ones(2)), ArgumentError, "associative_scan takes a function, not a int."),  # type: ignore[arg-type]
        (
            lambda: lax.associative_scan(dnp.add, np.ones(2, np.float32), axis=1),
            ShapeError,
            "associative_scan: elems, an array with 1 axes, has no axis 1.",
        ),
        (
            lambda: lax.associative_scan(lambda a, b: (a, b), np.ones(2, np.float32)),
            TraceError,
            "the function of associative_scan gives (*, *), and takes *.",
        ),
        (
            lambda: lax.associative_scan(lambda a, b: dnp.astype(a, "int32"), np.ones(2, np.float32)),
            TraceError,
            "the body of associative_scan gives i32[] for carry[0], and what it started with is f32[].",
        ),
        (
            lambda: lax.cumsum(np.ones(2, np.float32), 1),
            ShapeError,
            "cumsum: the operand, an array with 1 axes, has no axis 1.",
        ),
        (lambda: lax.cumlogsumexp(np.arange(3)), UnsupportedOpError, "cumlogsumexp takes floats, not int64."),
        (
            lambda: dyn.jit(lambda x: lax.cummax([x]))(np.ones(2)),
            UnsupportedOpError,
            "cummax does not take a list for an array.",
        ),
    ],
)
def test_refusals(call: Callable[[], Any], kind: type[DynError], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.problem == text
    assert caught.value.remedy
    assert caught.value.loc is not None


def test_lengths_that_differ() -> None:
    f = dyn.jit(lambda a, b: lax.associative_scan(lambda x, y: (x[0] + y[0], x[1] + y[1]), (a, b)))
    with pytest.raises(ShapeError) as caught:
        f(floats(3), floats(4))
    assert "associative_scan goes along elems[1].shape[0] together with elems[0].shape[0]" in str(caught.value)


# ---- running sums ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("reverse", [False, True])
def test_running(jax: ModuleType, name: str, reverse: bool) -> None:
    mine = dyn.jit(lambda x: getattr(lax, name)(x, 1, reverse))
    gradient = dyn.jit(dyn.grad(lambda x: dnp.sum(getattr(lax, name)(x, axis=1, reverse=reverse) ** 2)))
    theirs = getattr(jax.lax, name)
    for size in SIZES:
        x = floats(3, size)
        close(mine(x), theirs(x, 1, reverse))
        # JAX's own derivatives of the extremes are those of its associative scan; there are no ties here.
        wanted = jax.jit(jax.grad(lambda x: (theirs(x, axis=1, reverse=reverse) ** 2).sum()))(x)
        close(gradient(x), wanted, 2e-3)
    assert mine.cache_info().compiles == gradient.cache_info().compiles == 1
    close(getattr(lax, name)(floats(4)), theirs(floats(4)))
    if name != "cumlogsumexp":
        whole = np.array([3, 1, 2], np.int32)
        found = getattr(lax, name)(whole)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, theirs(whole))


def test_logarithms_of_sums_of_what_is_infinite() -> None:
    x = np.array([-np.inf, -np.inf, 1.0, 1000.0, -np.inf, np.inf], np.float32)
    np.testing.assert_allclose(lax.cumlogsumexp(x), [-np.inf, -np.inf, 1, 1000, 1000, np.inf])


def test_equal_operands_share_the_derivative_of_logaddexp() -> None:
    """Half each, as those of maximum: to give all to the first is right for their sum alone."""
    x = np.array([1.0, 2.0], np.float32)
    for name in ("logaddexp", "logaddexp2"):
        gradient = dyn.grad(lambda a, b, name=name: dnp.sum(getattr(dnp, name)(a, b)), argnums=(0, 1))
        for found in gradient(x, x):
            np.testing.assert_allclose(found, [0.5, 0.5])


#: What complex numbers are ordered by, and where an order fails.
PARTS = (0.0, -0.0, 1.0, -1.0, 2.0, np.nan, np.inf, -np.inf)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_running_extremes_of_complex_numbers_are_numpys(dtype: str) -> None:
    """By real parts, then by imaginary ones; the first of equal ones stays, and so does the first NaN. To the bit."""
    rng = np.random.default_rng(0)
    pairs = [
        (lambda x, axis, back: lax.cummax(x, axis, reverse=back), np.maximum.accumulate),
        (lambda x, axis, back: lax.cummin(x, axis, reverse=back), np.minimum.accumulate),
    ]
    for ours, numpys in pairs:
        runs = {
            (axis, back): dyn.jit(lambda x, a=axis, b=back, f=ours: f(x, a, b)) for axis in (0, 1) for back in (0, 1)
        }
        for rows, columns in ((0, 3), (1, 1), (40, 7), (6, 130)):
            x = np.empty((rows, columns), dtype)
            x.real, x.imag = rng.choice(PARTS, x.shape), rng.choice(PARTS, x.shape)
            x[:, ::2] = np.nan_to_num(x[:, ::2], posinf=5, neginf=-5)
            for (axis, back), run in runs.items():
                wanted = np.flip(numpys(np.flip(x, axis), axis), axis) if back else numpys(x, axis)
                for made in (run(x), ours(x, axis, bool(back))):
                    assert made.tobytes() == wanted.tobytes(), (rows, columns, axis, back)
        assert [run.cache_info().compiles for run in runs.values()] == [1] * 4
    assert dyn.jit(np.maximum.accumulate)(np.array([1j, 2, 1])).tolist() == [1j, 2, 2]


def test_derivatives_of_running_extremes_of_complex_numbers() -> None:
    z = np.array([1 + 2j, 1 + 1j, 3 - 1j, 3 + 1j, 2j])
    moved = dyn.jvp(lax.cummax, (z,), (np.arange(5) + 0j,))[1]
    assert moved.tolist() == [0, 0, 2, 3, 3]
