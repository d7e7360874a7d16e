"""Training of a model on two replicas of logical processors beside TensorFlow: ``python -m tests.interop.tf.replicas``.

A program of its own: the number of logical devices is fixed once TensorFlow has begun.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from dyn.interop import keras as dyn_keras
from tests.interop.tf.applications import programs
from tests.interop.tf.comparing import tf

keras = tf.keras


def trained(is_dyns: bool, is_built: bool) -> tuple[Any, Any]:
    """A model after ``fit``, ``evaluate``, ``predict`` and ``train_on_batch``, and what these have given."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    with strategy.scope():
        model = keras.Sequential([*([keras.Input((3,))] if is_built else []), *layers])
        model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    if is_dyns:
        dyn_keras.compile(model)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(22, 3)).astype("f4"), rng.normal(size=(22, 1)).astype("f4")
    given = [*model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history.values()]
    given += [model.evaluate(x, y, batch_size=8, verbose=0), model.predict(x, batch_size=8, verbose=0)]
    given += [model.train_on_batch(x[:5], y[:5])]
    return model, given


def main() -> None:
    first = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(first, [tf.config.LogicalDeviceConfiguration()] * 2)
    for is_built in (True, False):
        (own, made), (theirs, wanted) = trained(True, is_built), trained(False, is_built)
        for one, other in zip(made, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        for one, other in zip(own.variables, theirs.variables, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
        # train_on_batch gives a weight that is None beside x and y, and fit none: tf.function traces both, too.
        for name, count in (("train", 2), ("test", 1), ("predict", 1)):
            compiled = getattr(own, f"{name}_function").compiled
            assert programs(compiled) == count, name
    print("the same on two replicas")


if __name__ == "__main__":
    main()
