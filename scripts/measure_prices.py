"""Measures the prices of stitching (``dyn.stitch.cost``) on this machine: ``python scripts/measure_prices.py``.

Each figure is the median of several runs of one thread: seconds for a byte that a loop reads and writes where its array
lies in each level of the memory, and for a launch; for the functions of an element (``Scalar.work``); and the
multiply-adds of a matrix product.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp

_RUNS = 25
#: Bytes of an array that lies in each level, beside the one that it is written to.
_LEVELS = {"first": 12 << 10, "second": 400 << 10, "third": 6 << 20, "memory": 192 << 20}
#: Rows, columns and products an element of a matrix product whose operands lie in the nearer caches.
_SQUARE = 384
#: Functions that give numbers of about the size of what they are given, so that chains of them stay in range.
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 0.01,
    "multiply": lambda x: x * 1.01,
    "divide": lambda x: 1.7 / x,
    "remainder": lambda x: dnp.fmod(x + 1.5, 1.75),
    "sqrt": dnp.sqrt,
    "rsqrt": dyn.lax.rsqrt,
    "cbrt": dnp.cbrt,
    "exp": lambda x: dnp.exp(-x),
    "expm1": lambda x: dnp.expm1(x * 0.5),
    "log": lambda x: dnp.log(x + 1.7),
    "log1p": lambda x: dnp.log1p(x + 0.7),
    "tanh": lambda x: dnp.tanh(x * 1.5),
    "logistic": dyn.lax.logistic,
    "erf": lambda x: dyn.lax.erf(x * 1.2),
    "sin": lambda x: dnp.sin(x + 0.2),
    "cos": dnp.cos,
    "tan": lambda x: dnp.tan(x * 0.7),
    "pow": lambda x: x**x,
    "atan2": lambda x: dnp.arctan2(x, 1 - x),
}


def _median(call: Callable[[], Any], calls: int) -> float:
    """Seconds of a call, in the median of some runs."""
    times: list[float] = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return sorted(times)[_RUNS // 2]


def _donating(array: np.ndarray[Any, Any]) -> float:
    """Seconds of a call that adds a number to each element of an array, in place."""
    add = dyn.jit(lambda x: x + 1.0, donate_argnums=0)
    state = [dnp.asarray(array)]

    def call() -> None:
        state[0] = add(state[0])

    call()
    return _median(call, max(3, int(2e7 / (array.nbytes + 20_000))))


def _work(function: Callable[[Any], Any]) -> float:
    """Units of 1/32 ns that a function takes for an element in the nearest cache, by chains of two lengths."""
    x = np.linspace(0.5, 1.0, 4096, dtype="f4")

    def seconds(length: int) -> float:
        def chain(x: Any) -> Any:
            for _ in range(length):
                x = function(x)
            return x

        jitted = dyn.jit(chain)
        jitted(x)
        return _median(lambda: jitted(x), 50)

    return (seconds(6) - seconds(2)) / 4 / x.size * 32e9


def _multiply_adds() -> float:
    """Operations a second of a matrix product of float32, a multiply-add two of them."""
    product = dyn.jit(lambda x, y: x @ y)
    x = np.full((_SQUARE, _SQUARE), 0.5, "f4")
    product(x, x)
    return 2 * _SQUARE**3 / _median(lambda: product(x, x), 20)


def main() -> None:
    with dyn.config.override(num_threads=1):
        empty = _donating(np.zeros(1, "f4"))
        print(f"a call: {1e6 * empty:.2f} µs")
        for name, nbytes in _LEVELS.items():
            seconds = _donating(np.zeros(nbytes // 4, "f4")) - empty
            print(f"{name}: {2 * nbytes / seconds / 1e9:.0f} GB/s, of an array of {nbytes >> 10} KiB")

        def launched(count: int) -> float:
            """A chain of reductions of what the one before computed: a launch each."""

            def f(x: Any) -> Any:
                for axis in range(count):
                    x = x * dnp.sum(x, axis=axis % 2, keepdims=True)
                return x

            jitted = dyn.jit(f)
            square = np.full((2, 2), 0.5, "f4")
            jitted(square)
            return _median(lambda: jitted(square), 500)

        print(f"a launch: {1e9 * (launched(9) - launched(1)) / 8:.0f} ns")
        print(f"multiply-adds: {_multiply_adds() / 1e9:.0f} GFLOP/s of float32")
        for name, function in _FUNCTIONS.items():
            print(f"{name}: {_work(function):.1f} units of 1/32 ns an element of float32")


if __name__ == "__main__":
    main()
