"""``debug_nans`` and ``debug_infs``: the first NaN or infinity is an error that names the operation and the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import NotFiniteError

Array = Any


@pytest.fixture(autouse=True)
def checking() -> Iterator[None]:
    with dyn.config.override(debug_nans=True):
        yield


def text_of(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(NotFiniteError) as caught:
        call(*args)
    assert isinstance(caught.value, FloatingPointError)
    return str(caught.value)


def operation(call: Callable[..., Any], *args: Any) -> str:
    return text_of(call, *args).split(" ")[0]


def model(x: Array) -> Array:
    y = x - 1
    z = dnp.log(y)
    return dnp.sum(dnp.exp(z)) * 2


def test_the_whole_text() -> None:
    x = np.array([1.5, 0, 3], np.float32)
    lines = text_of(dyn.jit(model), x).splitlines()
    assert lines[0] == ("log made the first NaN: 1 of the 3 elements of its result, float32[3], the first at [1].")
    assert lines[1] == "  operand 0 is float32[3], from -1.0 to 2.0"
    assert lines[2].startswith("  at test_debug_nans.py:")
    assert lines[2].endswith("z = dnp.log(y)")
    assert lines[3] == "  help: look at what it is given, with dyn.debug.print in front of this line."


def test_only_the_first_counts() -> None:
    f = dyn.jit(model)
    np.testing.assert_allclose(f(np.full(3, 2, np.float32)), 6)
    assert np.isnan(f(np.full(3, np.nan, np.float32)))
    assert f(np.zeros(0, np.float32)) == 0
    with dyn.config.override(debug_nans=False):
        assert np.isnan(f(np.zeros(3, np.float32)))
    assert operation(f, np.zeros(3, np.float32)) == "log"
    assert f.cache_info().compiles == 2


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: (x - x) / (x - x), "divide"),
        (lambda x: dnp.matmul(x[None] * np.inf, x[:, None] * 0), "dot_general"),
        (lambda x: (x * 1e30 * 1e30) @ (x - x), "dot_general"),
        (lambda x: lax.scan(lambda c, row: (dnp.sqrt(c - row), None), np.float32(2), x)[0], "sqrt"),
        (lambda x: lax.while_loop(lambda c: c > -3, lambda c: c - 1 + 0 * dnp.log(c), x[0]), "multiply"),
        (lambda x: lax.cond(x[0] > 0, lambda x: dnp.log(-x), lambda x: x, x), "log"),
        (dyn.vmap(lambda x: dnp.arccosh(x - 5)), "acosh"),
        (dyn.grad(lambda x: dnp.sum(dnp.sqrt(x - x) * 0)), "divide"),
        (lambda x: dyn.pure_callback(lambda a: a * np.nan, dyn.ShapeDtypeStruct(x.shape, x.dtype), x), "custom_call"),
        (lambda x: dnp.log(dnp.asarray(-1.0)) + x, "log"),
        (lambda x: (x - x).astype("complex64") / (x - x), "divide"),
        (lambda x: dnp.mean(x[:0]), "divide"),
    ],
)
def test_where_it_is_made(call: Callable[[Array], Any], name: str) -> None:
    x = np.ones(3, np.float32)
    for _ in range(2):
        assert operation(dyn.jit(call), x) == name
    with dyn.config.override(debug_nans=False):
        dyn.jit(call)(x)


def test_what_does_not_run_and_what_nobody_reads() -> None:
    x = np.ones(3, np.float32)
    assert dyn.jit(lambda x: lax.cond(x[0] > 5, lambda: dnp.log(-x[0]), lambda: x[0]))(x) == 1
    assert dyn.jit(lambda x: (dnp.log(-x), x[0])[1])(x) == 1
    assert np.isnan(dyn.jit(lambda x: dnp.where(x > 2, x, np.nan))(x)).all()


def test_outside_of_jit_and_in_other_kinds_of_arrays() -> None:
    assert operation(dnp.sqrt, np.array([1, -1.0])) == "sqrt"
    assert operation(dnp.sqrt, dyn.asarray([-1.0], "bfloat16")) == "sqrt"
    assert np.sqrt(4.0) == dnp.sqrt(np.float64(4))


def test_nothing_is_written_and_effects_come_once() -> None:
    seen: list[float] = []

    def step(w: Array) -> Array:
        dyn.debug.callback(lambda a: seen.append(float(a)), w[0, 0])
        return dnp.log(w - 2)

    program = dyn.jit(step, donate_argnums=0)
    w = np.ones((50, 50), np.float32)
    assert operation(program, w) == "log"
    np.testing.assert_array_equal(w, np.ones((50, 50)))
    assert seen == [1]


def test_infinities() -> None:
    x = np.full(3, 1000, np.float32)
    with dyn.config.override(debug_nans=False, debug_infs=True):
        f = dyn.jit(lambda x: dnp.exp(x) + 1)
        assert text_of(f, x).splitlines()[0] == (
            "exponential made the first infinity: 3 of the 3 elements of its result, float32[3], the first at [0]."
        )
        assert np.isinf(f(np.full(3, np.inf, np.float32))).all()
        assert dyn.jit(dnp.max)(x) == 1000
        assert np.isnan(dyn.jit(lambda x: x / x)(np.zeros(1)))


def test_functions_of_jax() -> None:
    jax = pytest.importorskip("jax")
    from dyn.interop.jax import jit

    lines = text_of(jit(lambda x: jax.numpy.log(x) + 1), -jax.numpy.ones(2)).splitlines()
    assert lines[0].startswith("log made the first NaN: 2 of the 2 elements")
    assert "test_debug_nans.py" in lines[2]


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from dyn import config

    monkeypatch.setenv("DYN_DEBUG_NANS", "1")
    monkeypatch.setenv("DYN_DEBUG_INFS", "0")
    made = config._from_environment()
    assert (made.debug_nans, made.debug_infs) == (True, False)
