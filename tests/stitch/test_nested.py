"""Reductions of few elements within the loops of what reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Array = np.ndarray[Any, Any]


def squares(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return dnp.sum(d * d, axis=-1)


def kernel_rows(x: Any, y: Any) -> Any:
    return dnp.sum(dnp.exp(-squares(x, y)), axis=1)


def nearest(x: Any, y: Any) -> Any:
    return dnp.argmin(squares(x, y), axis=1)


def attention(x: Any, y: Any) -> Any:
    """Two passes over a row, and what comes of both."""
    e = squares(x, y)
    e = dnp.exp(dnp.min(e, axis=-1, keepdims=True) - e)
    return e / dnp.sum(e, axis=-1, keepdims=True), dnp.max(squares(x, y) * 2, axis=1)


def elementwise(x: Any, y: Any) -> Any:
    """What reads the sums reduces nothing; they are a result, too."""
    s = squares(x, y)
    return s, dnp.sqrt(s + 1) * dnp.arange(s.shape[1])


def largest_difference(x: Any, y: Any) -> Any:
    """Another monoid, and a sum of sums of sums."""
    d = dnp.max(dnp.abs(x[:, None, :] - y[None, :, :]), axis=-1)
    return dnp.sum(d * d, axis=1)


PROGRAMS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (kernel_rows, nearest, attention, elementwise, largest_difference)
}


def _points(n: int, k: int, dtype: str, seed: int) -> Any:
    return dnp.astype(np.random.default_rng(seed).standard_normal((n, k)), dtype)


def _leaves(made: Any) -> list[Array]:
    return [np.asarray(v) for v in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_op_by_op(name: str, dtype: str) -> None:
    """Nothing declared, the few declared alone, and all of it: few, many, none."""
    program = PROGRAMS[name]
    shapes = [(5, 7, 3), (1, 1, 1), (40, 33, 2), (3, 70, 16), (3, 2, 17)]
    shapes += [] if name == "largest_difference" else [(2, 3, 0)]
    shapes += [] if name in ("nearest", "attention") else [(0, 3, 3), (3, 0, 3)]
    undeclared = dyn.jit(program)
    for n, m, k in shapes:
        x, y = _points(n, k, dtype, 0), _points(m, k, dtype, 1)
        wanted = _leaves(program(x, y))
        declared = dyn.jit(program, shapes=f"n {k}, m {k}")
        for run in (undeclared, declared):
            for a, b in zip(_leaves(run(x, y)), wanted, strict=True):
                assert a.dtype == b.dtype
                near = {"float16": 4e-2, "bfloat16": 3e-1, "float64": 1e-12}.get(dtype, 3e-5)
                np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=near, atol=near)
    assert undeclared.cache_info().compiles == 1


def test_one_kernel_and_no_array_of_pairs() -> None:
    """Declared, or found out by the call; with many terms there is one."""
    for shapes in (None, "n 3, m 3"):
        f = dyn.jit(kernel_rows, shapes=shapes)
        few = _launches(f, 3)
        assert len(few) == 1
        # The points, and the results.
        assert few[0].nbytes == 4 * (300 * 3 + 200 * 3 + 300)
    assert len(_launches(dyn.jit(kernel_rows), 40)) == 2


def _launches(f: Any, k: int) -> list[Any]:
    x, y = _points(300, k, "float32", 0), _points(200, k, "float32", 1)
    f(x, y)
    with dyn.profile() as profile:
        f(x, y)
    return list(profile.events().launches)


def test_explained() -> None:
    f = dyn.jit(kernel_rows, shapes="n 3, m 3")
    f(*(np.ones((n, 3), "f4") for n in (4, 5)))
    assert "for each element" in f.trace(*(np.ones((n, 3), "f4") for n in (4, 5))).lower().as_text("stitch")


def test_gradients_and_maps() -> None:
    x, y = _points(6, 3, "float64", 0), _points(9, 3, "float64", 1)
    loss = lambda x, y: dnp.sum(kernel_rows(x, y) ** 2)  # noqa: E731
    for a, b in zip(dyn.jit(dyn.grad(loss, argnums=(0, 1)))(x, y), dyn.grad(loss, argnums=(0, 1))(x, y), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)
    xs = dnp.stack([x, x + 1])
    batched = dyn.jit(dyn.vmap(kernel_rows, in_axes=(0, None)))(xs, y)
    np.testing.assert_allclose(np.asarray(batched)[1], np.asarray(kernel_rows(x + 1, y)), rtol=1e-12)


def _joined(x: Any, y: Any, t: Any) -> Any:
    """Differences that others read too: as pieces of a concatenation."""
    d = x[:, None, :] - y[None, :, :]
    return dnp.sum(dnp.exp(-dnp.sum(d * d, axis=-1)), axis=1), dnp.concatenate([d * 2, t], axis=0)


def _epilogue(x: Any, y: Any, u: Any, w: Any) -> Any:
    """Beside a product over the same space."""
    return u @ w + dnp.exp(-squares(x, y))


def _stretched(x: Any, y: Any, b: Any) -> Any:
    """In front of a broadcast that is undecided."""
    return dnp.sqrt(squares(x, y) + 1) * 2 + b


def _rows(x: Any, z: Any) -> Any:
    """A number of each row, folded once for it."""
    length = dnp.sqrt(dnp.sum((x - 1) ** 2, axis=-1) + 1)
    return dnp.sum(z / length[:, None], axis=1), z * length[:, None]


def test_several_sweeps_over_what_is_folded_within_loops() -> None:
    """The gradient of a cross-entropy with labels that are closed over: nobody knows whether they are as many as rows,
    and the sum over what they may stretch is folded for each element."""
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((4, 9)).astype("f4"), rng.integers(0, 9, 4)

    def loss(x: Any) -> Any:
        return -dnp.mean(dnp.take_along_axis(dyn.nn.log_softmax(x), labels[:, None], axis=-1))

    f = dyn.jit(dyn.grad(loss))
    np.testing.assert_allclose(np.asarray(f(x)), np.asarray(dyn.grad(loss)(x)), rtol=1e-5, atol=1e-6)
    assert "for each element" in f.lower(x).as_text("stitch")


def _scanned(x: Any, y: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        d = row[None, :] - y
        return total + dnp.sum(dnp.exp(-dnp.sum(d * d, axis=-1))), dnp.sum(d * d, axis=-1)

    return dyn.lax.scan(step, dnp.zeros((), "float32"), x)


@pytest.mark.parametrize(
    ("program", "shapes", "declared"),
    [
        (_joined, [(5, 3), (7, 3), (2, 7, 3)], "n 3, m 3, t m 3"),
        (_epilogue, [(5, 3), (7, 3), (5, 6), (6, 7)], "n 3, m 3, n k, k m"),
        (_stretched, [(5, 3), (7, 3), (1, 7)], "n 3, m 3, a c"),
        (_stretched, [(5, 3), (7, 3), (5, 7)], "n 3, m 3, a c"),
        (_rows, [(5, 3), (5, 9)], "n 3, n m"),
        (_scanned, [(5, 3), (7, 3)], "n 3, m 3"),
    ],
)
def test_among_others(program: Callable[..., Any], shapes: list[tuple[int, ...]], declared: str) -> None:
    arrays = [np.random.default_rng(n).standard_normal(shape).astype("f4") for n, shape in enumerate(shapes)]
    wanted = _leaves(program(*arrays))
    for known in (None, declared):
        for a, b in zip(_leaves(dyn.jit(program, shapes=known)(*arrays)), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-5)


def test_bits_are_the_same_for_threads_strides_and_closures() -> None:
    x, y = np.asarray(_points(700, 3, "float32", 0)), np.asarray(_points(900, 3, "float32", 1))
    f = dyn.jit(kernel_rows)
    with dyn.config.override(num_threads=1):
        alone = np.asarray(f(x, y))
    with dyn.config.override(num_threads=3):
        np.testing.assert_array_equal(np.asarray(f(x, y)), alone)
    np.testing.assert_array_equal(np.asarray(f(np.asfortranarray(x), y[::-1][::-1])), alone)
    closed = dnp.asarray(y)
    np.testing.assert_allclose(np.asarray(dyn.jit(lambda x: kernel_rows(x, closed))(x)), alone, rtol=1e-6)
