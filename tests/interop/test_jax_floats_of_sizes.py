"""Square roots and logarithms of sizes of JAX's: numbers of the program, unless Python needs them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402

SIZES = (5, 1, 8, 3, 9)

#: What one program does for all sizes, of an array and its size.
IN_PROGRAM: dict[str, Callable[[Any, Any], Any]] = {
    "math.sqrt": lambda x, n: x / math.sqrt(n),
    "math.log": lambda x, n: x * math.log(n),
    "math.log2": lambda x, n: x + math.log2(n),
    "math.log10": lambda x, n: x - math.log10(n),
    "a base": lambda x, n: (math.log(n + 1, 3), x * math.log(3, n + 1), math.log(n, n + 1)),
    "np.sqrt": lambda x, n: x / np.sqrt(n),
    "np.log": lambda x, n: x * np.log(n),
    "of an expression": lambda x, n: x * math.sqrt(2 * n + 1),
    "of a length": lambda x, n: x / math.sqrt(len(x)),
    "by itself": lambda x, n: (math.sqrt(n), np.sqrt(n)),
    "narrow floats": lambda x, n: (x.astype("float16") * math.sqrt(n), x.astype("float16") * np.sqrt(n)),
    "integers": lambda x, n: (x.astype(int) * math.sqrt(n), jnp.arange(3) // math.sqrt(n)),
    "a power": lambda x, n: x * n**-0.5,
    "a power of NumPy's": lambda x, n: x.astype("float16") * n ** np.float64(0.5),
    "a power of integers": lambda x, n: (x * n**2, n**-1, n**2.0),
    "digits": lambda x, n: round(math.sqrt(n), 1) * x,
    "a derivative": lambda x, n: jax.grad(lambda v: (v * v / math.sqrt(v.shape[0])).sum())(x),
    "a scan": lambda x, n: jax.lax.scan(lambda c, v: (c + v / math.sqrt(n), c), 0.0, x),
    "examples": lambda x, n: jax.vmap(lambda v: v / math.sqrt(n))(x),
    "a checkpoint": lambda x, n: jax.grad(jax.checkpoint(lambda v: jnp.sin(v / math.sqrt(n)).sum()))(x),
    "another jit": lambda x, n: jax.jit(lambda v: v / math.sqrt(v.shape[0]))(x),
}
#: What is of Python's numbers, with a program for each size.
OF_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "int": lambda x, n: x * int(math.sqrt(n)),
    "int of NumPy's": lambda x, n: jnp.zeros(int(np.sqrt(n))),
    "float": lambda x, n: x * float(math.sqrt(n)),
    "floor": lambda x, n: x * math.floor(math.log2(n)),
    "a branch": lambda x, n: x * 2 if math.sqrt(n) > 2 else x,
    "round": lambda x, n: (round(math.sqrt(n)), x.astype("int8") * round(math.sqrt(n) / 2)),
    "a table": lambda x, n: x * {2.0: 5.0}.get(math.sqrt(n), 3.0),
    "a great power": lambda x, n: x * (n**9.5 / n**8.5),
    "a number of NumPy's": lambda x, n: x * np.float32(math.sqrt(n)),
    "a static argument": lambda x, n: jax.jit(lambda v, scale: v * scale, static_argnums=1)(x, math.sqrt(n)),
    "math.exp": lambda x, n: x * math.exp(n),
    "a name of the module's own": lambda x, n: x * sqrt(n),
    "np.exp": lambda x, n: x * np.exp(n),
}


def programs(name: str, function: Callable[[Any, Any], Any]) -> int:
    def of_array(x: Any) -> Any:
        return function(x, x.shape[0])

    run, plain = djax.jit(of_array), jax.jit(of_array)
    for n in SIZES:
        x = np.linspace(1.0, 4.0, n, dtype=np.float32)
        for mine, own in zip(jax.tree.leaves(run(x)), jax.tree.leaves(plain(x)), strict=True):
            assert (mine.shape, mine.dtype, mine.weak_type) == (own.shape, own.dtype, own.weak_type), (name, n)
            np.testing.assert_allclose(mine, own, 1e-3 if own.dtype == np.float16 else 1e-5)
    return run.cache_info().compiles


@pytest.mark.parametrize("name", IN_PROGRAM)
def test_one_program_computes_them(name: str, quick_xla: None) -> None:
    assert programs(name, IN_PROGRAM[name]) == 1


@pytest.mark.parametrize("name", OF_PYTHON)
def test_numbers_of_python_have_a_program_each(name: str, quick_xla: None) -> None:
    assert programs(name, OF_PYTHON[name]) == len(SIZES)


def test_sizes_whose_number_is_needed_are_numbers_alone() -> None:
    def function(x: Any, y: Any) -> Any:
        return x / math.sqrt(x.shape[0]) * int(math.sqrt(y.shape[0]))

    run = djax.jit(function)
    for n, m in ((3, 4), (5, 4), (1, 4), (8, 9), (3, 9)):
        x, y = np.ones(n, np.float32), np.ones(m, np.float32)
        np.testing.assert_allclose(run(x, y), function(x, y), 1e-6)
    assert run.cache_info().compiles == 2


def test_with_64_bits() -> None:
    with jax.enable_x64(True):
        run = djax.jit(lambda x: (x / math.sqrt(x.shape[0]), np.log(x.shape[0]), math.log(x.shape[0])))
        for n in SIZES:
            mean, own, weak = run(np.ones(n))
            np.testing.assert_allclose(mean, 1 / np.sqrt(np.full(n, n)), 1e-15)
            assert (own.dtype, own.weak_type, weak.dtype, weak.weak_type) == (np.float64, False, np.float64, True)
            np.testing.assert_allclose([own, weak], math.log(n), 1e-15)
        assert run.cache_info().compiles == 1


def test_functions_of_math_are_pythons_elsewhere() -> None:
    own, inside, seen, found = math.sqrt, threading.Event(), threading.Event(), []

    def traced(x: Any) -> Any:
        inside.set()
        assert seen.wait(20)
        return x * math.sqrt(4) * math.sqrt(len(x))

    def other() -> None:
        assert inside.wait(20)
        with pytest.raises(ValueError, match=r"math domain|nonnegative"):
            math.sqrt(-1)
        with pytest.raises(TypeError):
            math.sqrt("4")  # pyright: ignore[reportArgumentType]  # that is the error
        found.append((math.sqrt(9), math.sqrt.__name__))
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    np.testing.assert_array_equal(djax.jit(traced)(np.ones(4, np.float32)), np.full(4, 4, np.float32))
    thread.join()
    assert found == [(3.0, "sqrt")]
    assert math.sqrt is own
