"""Layers of Keras that compute something else of open sizes: in traces for dyn they ask for sizes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def ask_for_sizes(is_tracing: Callable[[], bool]) -> None:
    """Have ``TimeDistributed`` raise in traces for dyn that leave the number of time steps open.

    Keras 3.15 counts images of the batch there in place of time steps. With a size, which the next attempt gives it, it
    counts these. Does nothing while Keras is not imported, and the second time.
    """
    module = sys.modules.get("keras.src.layers.rnn.time_distributed")
    layer: Any = getattr(module, "TimeDistributed", None)
    if layer is None or hasattr(layer.call, "asks_for_sizes"):
        return
    own = layer.call

    def call(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if is_tracing() and inputs.shape[1] is None:
            raise ValueError("TimeDistributed needs the number of time steps.")
        return own(self, inputs, *args, **kwargs)

    made: Any = functools.wraps(own)(call)
    made.asks_for_sizes = True  # how the second time is told
    layer.call = made
