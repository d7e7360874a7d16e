"""Contractions of many products into few results, in parts: the same numbers, whatever the cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given

import dyn
import dyn.numpy as dnp
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.x86 import tables
from tests.numpy.differential import compare
from tests.schedule.test_split import SMALL
from tests.stitch.models import Model, optimized
from tests.stitch.programs import Program, contractions
from tests.stitch.test_random_programs import CHECKS, run_drawn
from tests.threads import in_threads

Array = np.ndarray[Any, Any]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few products, so that small arrays have several."""
    monkeypatch.setattr(tables, "SIZES", SMALL)


@hypothesis.settings(max_examples=60, suppress_health_check=[*CHECKS, hypothesis.HealthCheck.function_scoped_fixture])
@given(contractions())
@pytest.mark.usefixtures("small_parts")
def test_random_contractions(program: Program) -> None:
    run_drawn(program)


SIZES = (0, 1, 2, 3, 4, 7)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint64"])
@pytest.mark.parametrize(
    ("program", "shapes"),
    [
        (lambda xp, x, y: x @ y, ("k", "k")),
        (lambda xp, x, y: xp.sum(x * y) + x @ y, ("k", "k")),
        (lambda xp, x, y: x.T @ y, ("k m", "k n")),
        (lambda xp, x, y: (x @ y.T) * 2 + x[:, :1], ("m k", "n k")),
        (lambda xp, x, y: x @ y, ("b m k", "b k n")),
        (lambda xp, x, y: x @ y, ("m k", "k")),
        (lambda xp, x, y: y @ x.T, ("m k", "k")),
        (lambda xp, x, y: xp.tensordot(x, y, axes=((0, 1), (0, 1))), ("k l m", "k l n")),
        (lambda xp, x, y: xp.tensordot(x, y, axes=((1, 0), (0, 1))), ("k l m", "l k n")),
        (lambda xp, x, y: xp.einsum("bk,bk->b", x, y), ("b k", "b k")),
    ],
    ids=["dot", "beside a sum", "gram", "epilogue", "batches", "matrix vector", "vector matrix", "two axes",
         "two axes crossed", "dots"],
)  # fmt: skip
def test_contractions_in_parts(program: Callable[..., Any], shapes: tuple[str, ...], dtype: str) -> None:
    compare(program, *[f"{dtype} {shape}" for shape in shapes], sizes=SIZES)


def _kernels(k: int | str, m: int | str = "m") -> list[str]:
    model = Model("f")
    x, y = model.param("x", k, m), model.param("y", k, 8)
    attrs: Any = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (0,), "rhs_contracting": (0,)}
    done = optimized(model.function(model.op("dot_general", x, y, **attrs)))
    return [kernel_text(v.kernel) for launch in done.launches for v in launch.variants]


def test_what_is_known_to_be_short_or_wide_is_not_cut_and_what_is_long_always() -> None:
    counts = [len(_kernels(k, 8)) for k in (8191, 8192, "n")]
    assert counts == [1, 2, 3]
    assert len(_kernels("n", 4096)) == 1
    # As many rows as products: never few results of many products.
    assert len(_kernels("n", "n")) == len(_kernels(64, "n"))


def test_kernels_of_parts(golden: Callable[[str, str], None]) -> None:
    golden("contract_parts.txt", "\n".join(_kernels("n", 8)))
    m = Model("f")
    x, y = m.param("x", "n"), m.param("y", "n")
    attrs: Any = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (0,), "rhs_contracting": (0,)}
    done = optimized(m.function(m.op("dot_general", x, y, **attrs)))
    golden("contract_dot.txt", "\n".join(kernel_text(v.kernel) for la in done.launches for v in la.variants))


def test_bits_do_not_depend_on_threads_or_alignment() -> None:
    gram, dot = dyn.jit(lambda x, y: x.T @ y), dyn.jit(lambda x, y: x @ y)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30_000, 5)).astype("f4"), rng.standard_normal((30_000, 7)).astype("f4")
    v = rng.standard_normal(100_001).astype("f4")
    wanted = gram(x, y).tobytes(), dot(v, v).tobytes()
    found = in_threads(lambda n: [(gram(x, y).tobytes(), dot(v, v).tobytes()) for _ in range(n)], [5] * 4)
    assert {bits for each in found for bits in each} == {wanted}
    moved = [np.concatenate([np.zeros(k, "f4"), v])[k:] for k in range(1, 4)]
    assert {dot(w, v).tobytes() for w in moved} == {wanted[1]}


def test_long_sums_of_products_are_precise() -> None:
    """Within 1e-6 of the sum of the absolute values: 245 parts of 4096 products each, and a million in 31."""
    gram, dot = dyn.jit(lambda x, y: x.T @ y), dyn.jit(dnp.dot)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, y = (rng.random((10**6, n), np.float32) - (0.5 if seed else 0) for n in (2, 3))
        wide, size = x.astype("f8").T @ y, abs(x).astype("f8").T @ abs(y)
        assert (abs(gram(x, y) - wide) <= 1e-6 * size).all()
        assert abs(dot(x[:, 0], y[:, 0]) - wide[0, 0]) <= 1e-6 * size[0, 0]
    assert gram.cache_info().compiles == dot.cache_info().compiles == 1


def test_an_update_of_a_donated_argument_in_parts() -> None:
    step = dyn.jit(lambda w, x, y: w - 0.5 * (x.T @ y), shapes="m n, k m, k n", donate_argnums=0)
    rng = np.random.default_rng(0)
    for count in (0, 1, 8191, 8192, 8193, 20_000):
        x, y = rng.integers(-2, 3, (count, 4)).astype("f4"), rng.integers(-2, 3, (count, 6)).astype("f4")
        w = rng.standard_normal((4, 6)).astype("f4")
        wanted = w - np.float32(0.5) * (x.T @ y)
        found = step(w, x, y)
        assert found is w
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert step.cache_info().compiles == 1
