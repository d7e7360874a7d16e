"""The same encoder under ``tf.function(jit_compile=True)``: XLA compiles it for every shape."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from benchmarks.peers import tffunction_kerastext


class Peer(tffunction_kerastext.Peer):
    def compile(self, model: Any) -> Any:
        return tf.function(model, jit_compile=True)

    def versions(self) -> str:
        return f"tf.function(jit_compile=True) of TensorFlow {tf.__version__}"
