"""dyn's own functions outside of jit: one program for all sizes and numbers that are no literals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import eager, lax, random
from dyn.specialize.shared_code import CODES

SIZES = (0, 1, 2, 7, 64, 1000)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_PROGRAMS", eager._EagerPrograms())


def compiled(run: Callable[[], Any]) -> int:
    before = CODES.info().programs
    run()
    return CODES.info().programs - before


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("zeros", lambda n, np: np.zeros(n)),
        ("ones of several", lambda n, np: np.ones((n, 3))),
        ("full", lambda n, np: np.full((2, n), 1.5)),
        ("arange", lambda n, np: np.arange(n)),
        ("arange between", lambda n, np: np.arange(n, n + 5)),
        ("eye", lambda n, np: np.eye(n)),
        ("linspace", lambda n, np: np.linspace(0.0, 1.0, n)),
        ("tri", lambda n, np: np.tri(n, n + 1)),
        ("identity", lambda n, np: np.identity(n)),
        ("broadcast_to", lambda n, np: np.broadcast_to(X, (n, 3))),
        ("tile", lambda n, np: np.tile(X, n)),
    ],
)
def test_sizes_are_no_programs(name: str, call: Callable[[int, Any], Any]) -> None:
    def run() -> None:
        for n in SIZES:
            np.testing.assert_allclose(call(n, dnp), call(n, np), rtol=1e-6, err_msg=f"{name} {n}")

    run()
    assert len(eager._PROGRAMS) <= 1


X = np.ones(3, np.float32)


def test_numbers_are_no_programs() -> None:
    x = np.arange(5, dtype=np.float32)

    def run() -> None:
        for k in range(20):
            value = (k + 1) * 0.37 + 0.011
            np.testing.assert_allclose(dnp.add(x, value), x + np.float32(value), rtol=1e-6)
            np.testing.assert_allclose(dnp.multiply(value, x), x * np.float32(value), rtol=1e-6)
            assert dnp.maximum(x, value).dtype == np.float32

    assert compiled(run) <= 3


def test_numbers_keep_their_weak_types_and_their_errors() -> None:
    for value in (300, 301):
        with pytest.raises(dyn.errors.UnsupportedOpError, match="does not fit in uint8"):
            dnp.add(np.zeros(3, np.uint8), value)
    for value in (199, 200):
        assert dnp.add(np.zeros(3, np.uint8), value).dtype == np.uint8
    for value in (0.3, 0.7):
        assert dnp.add(np.zeros(3, np.float16), value).dtype == np.float16
    for value in (-1, -2):
        with pytest.raises(dyn.errors.DynError):
            dnp.zeros(value)


def test_draws_of_every_size_share_a_program() -> None:
    key = random.key(0)

    def run() -> None:
        for n in SIZES:
            assert random.normal(key, (n, 2)).shape == (n, 2)
            assert random.permutation(key, n).shape == (n,)

    run()
    assert len(eager._PROGRAMS) <= 2


def test_a_function_among_the_arguments_is_run_each_time() -> None:
    factor = [1.0]
    for value in (1.0, 2.0):
        factor[0] = value
        result = dnp.piecewise(np.ones(3, "f4"), [np.ones(3, bool)], [lambda x: x * factor[0]])
        np.testing.assert_array_equal(result, np.full(3, value))
    assert not any(callable(part) for key in eager._PROGRAMS._known for part in key[1:])


def test_errors_of_known_programs_name_the_line_of_this_call() -> None:
    good = np.ones((2, 3), "f4")
    dnp.matmul(good, good.T)
    with pytest.raises(dyn.errors.ShapeError, match=r"dnp\.matmul\(good, good\)  # here"):
        dnp.matmul(good, good)  # here


def test_bounds_of_loops_and_lengths_of_scans() -> None:
    def run() -> None:
        for n in (3, 4, 5, 64):
            assert lax.fori_loop(0, n, lambda i, c: c + 1, 0) == n
            assert lax.scan(lambda c, x: (c + 1, c), 0, None, length=n)[1].shape == (n,)

    assert compiled(run) <= 2
