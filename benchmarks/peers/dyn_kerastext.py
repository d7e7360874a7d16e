"""The same encoder, compiled by ``dyn.interop.tf.jit``."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import tensorflow as tf

from benchmarks.peers import tffunction_kerastext
from dyn.interop import tf as dyn_tf
from dyn.requirements import DISTRIBUTION


class Peer(tffunction_kerastext.Peer):
    def compile(self, model: Any) -> Any:
        return dyn_tf.jit(model, strict=True)

    def compiles(self) -> int:
        return self.run.cache_info().compiles

    def versions(self) -> str:
        return f"dyn {importlib.metadata.version(DISTRIBUTION)} on TensorFlow {tf.__version__}"
