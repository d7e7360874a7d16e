"""A Keras model over a stream of shapes, by dyn and by tf.function with and without XLA: run by ``make tensorflow``."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf: Any = importlib.import_module("tensorflow")
keras: Any = importlib.import_module("keras")
dtf: Any = importlib.import_module("dyn.interop.tf")

STREAM = [(2, 17), (1, 30), (4, 9), (3, 64), (1, 1), (8, 12), (5, 41), (2, 100), (6, 23), (1, 77)]


def encoder(layers: int = 2, hidden: int = 64, words: int = 1000) -> Any:
    """A small encoder of text, for any batch and length."""
    keras.utils.set_random_seed(0)
    kinds = keras.layers
    given = keras.Input((None,), dtype="int32")
    x = kinds.Embedding(words, hidden)(given)
    for _ in range(layers):
        x = kinds.LayerNormalization()(x + kinds.MultiHeadAttention(4, hidden // 4)(x, x))
        x = kinds.LayerNormalization()(x + kinds.Dense(hidden)(kinds.Dense(4 * hidden, activation="gelu")(x)))
    return keras.Model(given, kinds.Dense(10)(kinds.GlobalAveragePooling1D()(x)))


def timed(run: Callable[[Any], Any], batches: list[Any]) -> tuple[float, float, list[Any]]:
    """Seconds of the first pass over a stream, of the second one, and its results."""
    seconds: list[float] = []
    made: list[Any] = []
    for _ in range(2):
        start = time.perf_counter()
        made = [run(batch) for batch in batches]
        seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1], made


def main() -> None:
    network = encoder()
    rng = np.random.default_rng(0)
    batches = [tf.constant(rng.integers(0, 1000, shape).astype(np.int32)) for shape in STREAM]
    compiled = dtf.jit(network)
    runs: dict[str, Callable[[Any], Any]] = {
        "dyn": compiled,
        "tf.function": tf.function(network, reduce_retracing=True),
        "tf.function, jit_compile=True": tf.function(network, jit_compile=True),
    }
    print(f"{len(STREAM)} shapes                      first pass   second pass")
    results: list[list[Any]] = []
    for name, run in runs.items():
        first, second, made = timed(run, batches)
        results.append(made)
        print(f"{name:32} {first:8.2f} s {second * 1e3:10.1f} ms")
    for own, other in zip(results[0], results[1], strict=True):
        np.testing.assert_allclose(own, other, atol=1e-4)
    print(f"dyn compiled {compiled.cache_info().compiles} program; the results agree.")


if __name__ == "__main__":
    main()
