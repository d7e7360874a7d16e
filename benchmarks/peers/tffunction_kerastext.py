"""A Transformer encoder of Keras's under ``tf.function``: one graph for every shape, run op by op."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read when TensorFlow is imported

import tensorflow as tf

from examples.tensorflow_stream import encoder


class Peer:
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.model = encoder(**config)
        self.run: Any = self.compile(self.model)
        self.seconds = 0.0
        #: Calls that compiled: their arguments and seconds.
        self.fresh: list[tuple[Any, float]] = []
        self.known = 0

    def compile(self, model: Any) -> Any:
        return tf.function(model, reduce_retracing=True)

    def compiles(self) -> int:
        return self.run.experimental_get_tracing_count()

    def __call__(self, *arrays: np.ndarray) -> Any:
        start = time.perf_counter()
        made = self.run(tf.constant(arrays[0]))
        seconds = time.perf_counter() - start
        if self.compiles() > self.known:
            self.known = self.compiles()
            self.fresh.append((arrays, seconds))
        return made

    def compiled(self) -> tuple[int, float]:
        # A compile takes what the call took longer than the same call takes now: tracing is in it.
        for arrays, seconds in self.fresh:
            start = time.perf_counter()
            self.run(tf.constant(arrays[0]))
            self.seconds += seconds - (time.perf_counter() - start)
        self.fresh.clear()
        return self.compiles(), self.seconds

    def versions(self) -> str:
        return f"tf.function of TensorFlow {tf.__version__}"
