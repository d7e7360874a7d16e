"""``python -m tests.interop.tf.keras_freeze``: frozen steps of a Keras model, on the backend at hand.

A process of its own: Keras has one backend, which it chooses when it is imported.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.interop import keras as dyn_keras

keras: Any = importlib.import_module("keras")
BACKEND = os.environ["KERAS_BACKEND"]
FRONT: Any = importlib.import_module(f"dyn.interop.{'tf' if BACKEND == 'tensorflow' else BACKEND}")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 20)).astype("f4"), RNG.standard_normal((12, 33)).astype("f4")

#: Every function that a front end has compiled.
COMPILED: list[Any] = []
_jit = FRONT.jit


def _noted(*args: Any, **kwargs: Any) -> Any:
    made = _jit(*args, **kwargs)
    COMPILED.append((getattr(args[0], "__name__", "step"), made))
    return made


FRONT.jit = _noted


def model() -> Any:
    keras.utils.set_random_seed(0)
    own = [
        keras.layers.Dense(48, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5),
        keras.layers.Dense(33),
    ]  # fmt: skip
    made = keras.Sequential([keras.Input((20,)), *own])
    made.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    return made


def pair(**options: Any) -> tuple[Any, Any]:
    """A model that dyn compiles, and the same one without."""
    COMPILED.clear()
    return dyn_keras.compile(model(), **options), model()


def products(kind: str) -> tuple[int, int]:
    """How many products the programs of a step, the latest that was compiled, read from panels, and how many not."""
    found = [one for name, one in COMPILED if kind in name]
    lines = [line for line in str(found[-1].explain()).splitlines() if line.strip().startswith("variant")]
    return sum("from panels" in one for one in lines), sum("packed" in one or "streamed" in one for one in lines)


def check_frozen(*kinds: str) -> None:
    for kind in kinds:
        panels, others = products(kind)
        assert panels >= 2, kind
        assert not others, kind


def compare(own: Any, theirs: Any) -> np.ndarray[Any, Any]:
    """Predictions and losses of both."""
    for rows in (12, 1, 5):
        made, wanted = own.predict_on_batch(X[:rows]), theirs.predict_on_batch(X[:rows])
        np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=1e-4)
    losses = [np.hstack(one.evaluate(X, Y, batch_size=5, verbose=0)) for one in (own, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-3, atol=1e-4)
    return np.asarray(own.predict(X, batch_size=5, verbose=0))


def saved(one: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = model()
        other.set_weights([weight * 0.5 + 1 for weight in model().get_weights()])
        other.save_weights(f"{folder}/kept.weights.h5")
        one.load_weights(f"{folder}/kept.weights.h5")


WRITES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda one: one.layers[0].kernel.assign(one.layers[0].kernel * 2),
    "assign_add": lambda one: one.layers[0].kernel.assign_add(keras.ops.ones((20, 48))),
    "set_weights": lambda one: one.set_weights([weight + 1 for weight in one.get_weights()]),
    "load_weights": saved,
}


def panels_are_read_in_steps_of_no_gradients() -> None:
    own, theirs = pair(freeze=True)
    compare(own, theirs)
    check_frozen("predict", "test")
    own.train_on_batch(X, Y)
    assert products("train")[0] == 0
    own, theirs = pair()
    compare(own, theirs)
    assert products("predict")[0] == products("test")[0] == 0


def writes_are_seen() -> None:
    for name, write in WRITES.items():
        own, theirs = pair(freeze=True)
        before = compare(own, theirs)
        for one in (own, theirs):
            write(one)
        assert not np.allclose(compare(own, theirs), before), name
        check_frozen("predict", "test")


def training_with_validation_is_that_of_keras() -> None:
    """Without dropout, so that both are the same."""
    keras.utils.set_random_seed(0)
    histories: list[Any] = []
    for options in ({"freeze": True}, None):
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(48, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(33)]
        one = keras.Sequential([keras.Input((20,)), *layers])
        one.compile(optimizer=keras.optimizers.Adam(1e-2), loss="mse", metrics=["mae"])
        if options is not None:
            dyn_keras.compile(one, **options)
        fit = one.fit(X, Y, validation_data=(X, Y), batch_size=4, epochs=6, shuffle=False, verbose=0)
        histories.append(fit.history)
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=2e-3, atol=1e-4, err_msg=name)


def weights_that_change_at_each_step_are_passed() -> None:
    own, theirs = pair(freeze=True)
    for number in range(6):
        for one in (own, theirs):
            one.layers[0].kernel.assign(one.layers[0].kernel + number)
        made, wanted = own.predict_on_batch(X[:3]), theirs.predict_on_batch(X[:3])
        np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=1e-3)
    assert products("predict")[1]


def main() -> None:
    panels_are_read_in_steps_of_no_gradients()
    writes_are_seen()
    training_with_validation_is_that_of_keras()
    weights_that_change_at_each_step_are_passed()
    print("all is seen on", keras.backend.backend())


if __name__ == "__main__":
    main()
