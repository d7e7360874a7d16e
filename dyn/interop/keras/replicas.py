"""Steps of a model on several replicas, ``tf.distribute``: all replicas' steps are one program.

TensorFlow traces a step for each replica into one graph, with what they exchange between them: sums of gradients, and
of metrics. On processors all replicas' variables lie in the same memory, so that dyn runs the graph as any other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dyn.errors import NotYetError
from dyn.source import user_loc

Step = Callable[[Any], Any]


def is_replicated(model: Any) -> bool:
    """Whether a model's steps run on several replicas. NotYetError where these are not all of this process."""
    strategy = model.distribute_strategy
    if strategy.extended._in_multi_worker_mode():
        raise NotYetError(
            f"a {type(strategy).__name__} of several workers.",
            loc=user_loc(),
            remedy="train each worker's model by tf.distribute.MirroredStrategy, or without dyn.",
        )
    return strategy.num_replicas_in_sync > 1


def replicated(model: Any, step: Step, reduction: str) -> Step:
    """A step of batches, one for each replica, whose results are put together by a ``reduction`` of Keras's."""
    strategy = model.distribute_strategy
    trainer: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    sums: Any = importlib.import_module("tensorflow").distribute.ReductionToOneDevice()

    def stepped(batches: tuple[Any, ...]) -> Any:
        batch = strategy.experimental_distribute_values_from_function(
            lambda context: batches[context.replica_id_in_sync_group]
        )
        with _exchanging(strategy.extended, sums):
            return trainer.reduce_per_replica(strategy.run(step, args=(batch,)), strategy, reduction)

    stepped.__name__ = getattr(step, "__name__", "step")
    return stepped


@contextmanager
def _exchanging(extended: Any, sums: Any) -> Iterator[None]:
    """Have replicas exchange what they do by ``sums``: nodes of one graph, where operations of a group would each wait
    for the others."""
    before = vars(extended).get("_get_cross_device_ops")
    extended._get_cross_device_ops = lambda value: sums
    try:
        yield
    finally:
        if before is None:
            del extended._get_cross_device_ops
        else:
            extended._get_cross_device_ops = before


def batches_of(model: Any, data: Any) -> tuple[Any, ...]:
    """The batch of each replica: its part of what a distributed data set gives, or, of other data, all of it."""
    strategy = model.distribute_strategy
    values: Any = importlib.import_module("tensorflow.python.distribute.values")
    tree: Any = importlib.import_module("keras").tree

    def of(replica: int) -> Any:
        def own(leaf: Any) -> Any:
            is_parted = isinstance(leaf, values.DistributedValues)
            return strategy.experimental_local_results(leaf)[replica] if is_parted else leaf

        return tree.map_structure(own, data)

    return tuple([of(replica) for replica in range(strategy.num_replicas_in_sync)])
