"""``model.fit``, ``evaluate`` and ``predict`` by dyn, on Keras's backends."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from dyn.backends.families import host_target
from dyn.errors import ArgumentError, NotYetError
from dyn.interop import keras as dyn_keras
from tests.interop.tf.applications import programs
from tests.interop.tf.comparing import tf

keras = tf.keras
PROGRAM = """
import warnings
import numpy as np
import keras
from dyn.interop import keras as dyn_keras

warnings.simplefilter("error", UserWarning)
rng = np.random.default_rng(0)


def made():
    keras.utils.set_random_seed(1)
    given = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 8)(given)
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Dense(8, activation="relu")(x))
    model = keras.Model(given, keras.layers.Dense(1)(x))
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model


def batches():
    rng = np.random.default_rng(0)
    for n, length in ((4, 3), (4, 7), (2, 5), (4, 2)):
        yield rng.integers(0, 20, (n, length)).astype("int32"), rng.normal(size=(n, 1)).astype("float32")


own, theirs = dyn_keras.compile(made()), made()
losses = [[model.train_on_batch(x, y)[0] for x, y in batches()] for model in (own, theirs)]
np.testing.assert_allclose(*losses, rtol=1e-4)
x, y = rng.integers(0, 20, (10, 6)).astype("int32"), rng.normal(size=(10, 1)).astype("float32")
histories = [model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history for model in (own, theirs)]
for name in histories[0]:
    np.testing.assert_allclose(histories[0][name], histories[1][name], rtol=1e-4)
np.testing.assert_allclose(own.evaluate(x, y, verbose=0), theirs.evaluate(x, y, verbose=0), rtol=1e-4)
np.testing.assert_allclose(own.predict(x, batch_size=4, verbose=0), theirs.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
if keras.backend.backend() == "tensorflow":  # on JAX's a fallback is an error
    # train_on_batch gives a weight that is None beside x and y, and fit none: tf.function traces both, too.
    for step, programs in ((own.train_function, 2), (own.test_function, 1), (own.predict_function, 1)):
        assert step.compiled.cache_info().compiles == programs, step.compiled.explain()
        assert not step.compiled.fallbacks.said, step.compiled.fallbacks.said
print("the same on", keras.backend.backend())
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_training_by_keras(backend: str) -> None:
    environment: dict[str, Any] = {"KERAS_BACKEND": backend}
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert f"the same on {backend}" in made.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is missing")
def test_training_by_keras_on_torch() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.interop.tf.keras_on_torch"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert "all is the same on torch" in made.stdout


@pytest.mark.skipif(host_target().vector_bytes < 32, reason="this processor reads matrices as they lie")
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_frozen_steps_see_what_is_assigned(backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is missing")
    made = subprocess.run(
        [sys.executable, "-m", "tests.interop.tf.keras_freeze"], env=os.environ | {"KERAS_BACKEND": backend},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-3000:]
    assert f"all is seen on {backend}" in made.stdout


def test_one_program_for_all_batches() -> None:
    given = keras.Input((None, 3))
    model = keras.Model(given, keras.layers.Dense(1)(keras.layers.GlobalMaxPooling1D()(given)))
    model.compile(optimizer="sgd", loss="mse")
    dyn_keras.compile(model)
    for n, length in ((4, 3), (1, 7), (5, 1)):
        model.train_on_batch(np.ones((n, length, 3), np.float32), np.zeros((n, 1), np.float32))
    assert programs(model.train_function.compiled) == 1
    with pytest.raises(ArgumentError, match="takes a Keras model"):
        dyn_keras.compile(len)


def test_on_other_backends_it_is_an_error_that_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("keras").backend, "backend", lambda: "openvino")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    with pytest.raises(NotYetError) as caught:
        dyn_keras.compile(model)
    text = str(caught.value)
    assert "Keras on the openvino backend" in text
    assert 'set KERAS_BACKEND to "tensorflow", "jax" or "torch"' in text


def test_training_on_two_replicas() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.interop.tf.replicas"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert "the same on two replicas" in made.stdout


def test_a_strategy_of_several_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    extended = tf.distribute.get_strategy().extended
    monkeypatch.setattr(type(extended), "_in_multi_worker_mode", lambda self: True)
    with pytest.raises(NotYetError) as caught:
        dyn_keras.compile(model)
    assert "a _DefaultDistributionStrategy of several workers." in str(caught.value)
    assert "help: train each worker's model by tf.distribute.MirroredStrategy, or without dyn." in str(caught.value)
