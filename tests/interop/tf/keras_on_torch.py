"""``python -m tests.interop.tf.keras_on_torch``: Keras's models on its PyTorch backend, by dyn and without it.

A process of its own: Keras has one backend, which it chooses when it is imported.
"""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ["OMP_NUM_THREADS"] = "1"  # PyTorch's threads wait by turning around

import functools
import importlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dyn.errors import ArgumentError
from dyn.interop import keras as dyn_keras

keras: Any = importlib.import_module("keras")
torch: Any = importlib.import_module("torch")
layers: Any = keras.layers
rng = np.random.default_rng(0)


def images(rows: int, size: int) -> tuple[Any, Any]:
    return rng.normal(size=(rows, 12 + 2 * size, 10 + size, 3)).astype("f4"), rng.integers(0, 3, (rows,))


def sequences(rows: int, size: int) -> tuple[Any, Any]:
    return rng.normal(size=(rows, size + 1, 3)).astype("f4"), rng.normal(size=(rows, 1)).astype("f4")


def texts(rows: int, size: int) -> tuple[Any, Any]:
    return rng.integers(1, 20, (rows, size + 2)).astype("i4"), rng.integers(0, 3, (rows,))


def pairs(rows: int, size: int) -> tuple[Any, Any]:
    ids = rng.integers(0, 20, (rows, size + 2)).astype("i4")
    return ids, ids


def points(rows: int, size: int) -> tuple[Any, Any]:
    return rng.normal(size=(rows, 6)).astype("f4"), rng.normal(size=(rows, 1)).astype("f4")


def convolutional() -> Any:
    given = keras.Input((None, None, 3))
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same", strides=2)(given)))
    x = layers.GlobalAveragePooling2D()(layers.MaxPooling2D()(layers.DepthwiseConv2D(3)(x)))
    return keras.Model(given, layers.Dense(3, activation="softmax")(x))


def recurrent() -> Any:
    given = keras.Input((None,), dtype="int32")
    x = layers.Bidirectional(layers.LSTM(5))(layers.Embedding(20, 8)(given))
    return keras.Model(given, layers.Dense(3, activation="softmax")(x))


def masked() -> Any:
    """Recurrent layers that leave out what is 0, of which one adds a loss and one has a cell without a fused form."""
    given = keras.Input((None,), dtype="int32")
    x = layers.Embedding(20, 8, mask_zero=True)(given)
    x = layers.LSTM(5, return_sequences=True, activity_regularizer="l2")(x)
    x = layers.SimpleRNN(4, return_sequences=True, go_backwards=True)(x)
    return keras.Model(given, layers.Dense(3, activation="softmax")(layers.GRU(3)(x)))


def stacked() -> Any:
    given = keras.Input((None, 3))
    x, _, _ = layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)], return_sequences=True, return_state=True)(given)
    return keras.Model(given, layers.Dense(1)(layers.GRU(3, reset_after=False)(x)))


def transformer() -> Any:
    given = keras.Input((None,), dtype="int32")
    x = layers.Embedding(20, 8)(given)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(given, layers.Dense(20, activation="softmax")(x))


def perceptron(policy: str = "float32", **regularized: Any) -> Any:
    given = keras.Input((6,))
    x = layers.Dense(8, activation="gelu", dtype=policy, **regularized)(given)
    return keras.Model(given, layers.Dense(1, dtype="float32")(x))


def classifier() -> Any:
    return keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="softmax")])


def classes(rows: int, size: int) -> tuple[Any, Any]:
    return points(rows, size)[0], np.eye(5, dtype="f4")[rng.integers(0, 5, (rows,))]


class Subclassed(keras.Model):
    """A model with a training step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layers.Dense(4, activation="tanh"), layers.Dense(1)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.second(self.first(x))

    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        self.zero_grad()
        loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        loss.backward()
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)
        return {"loss": loss}


def decaying() -> Any:
    rate = keras.optimizers.schedules.ExponentialDecay(1e-2, 2, 0.5)
    return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True, global_clipnorm=1.0, use_ema=True)


def warming() -> Any:
    rate = keras.optimizers.schedules.CosineDecay(1e-3, 5, warmup_target=1e-2, warmup_steps=2)
    return keras.optimizers.Adam(rate, gradient_accumulation_steps=3, amsgrad=True, clipvalue=0.5)


def stepping_down() -> Any:
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([2, 4], [1e-2, 1e-3, 1e-4])
    return keras.optimizers.SGD(rate, clipnorm=1.0, use_ema=True, ema_overwrite_frequency=2)


def scaled() -> Any:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=2.0**20, dynamic_growth_steps=2)


def scores() -> list[Any]:
    named = keras.metrics
    return [named.TopKCategoricalAccuracy(2), named.F1Score(), named.OneHotIoU(5, [0, 1])]


CLASSES = "sparse_categorical_crossentropy"
Case = tuple[Callable[[], Any], Callable[[int, int], Any], Callable[[], Any], str]
CASES: dict[str, Case] = {
    "convolutional": (convolutional, images, keras.optimizers.SGD, CLASSES),
    "recurrent": (recurrent, texts, keras.optimizers.Adam, CLASSES),
    "masked": (masked, texts, keras.optimizers.SGD, CLASSES),
    "stacked": (stacked, sequences, keras.optimizers.SGD, "mse"),
    "transformer": (transformer, pairs, keras.optimizers.AdamW, CLASSES),
    "subclassed": (Subclassed, points, keras.optimizers.Adam, "mse"),
    "metrics": (classifier, classes, keras.optimizers.SGD, "categorical_crossentropy"),
    "regularized": (
        lambda: perceptron(kernel_regularizer="l2", activity_regularizer="l1", kernel_constraint="unit_norm"),
        points, keras.optimizers.SGD, "huber",
    ),
    "bfloat16": (lambda: perceptron("mixed_bfloat16"), points, keras.optimizers.RMSprop, "mse"),
    "float16": (lambda: perceptron("mixed_float16"), points, scaled, "mse"),
    **{make.__name__: (perceptron, points, make, "mse") for make in (decaying, warming, stepping_down)},
    **{
        name: (perceptron, points, getattr(keras.optimizers, name), "mse")
        for name in ("Adagrad", "Adadelta", "Adamax", "Nadam", "Lion", "Ftrl", "Adafactor")
    },
}  # fmt: skip


def compiled(make: Callable[[], Any], optimizer: Callable[[], Any], loss: str) -> Any:
    keras.utils.set_random_seed(1)
    model = make()
    metrics = scores() if loss.startswith("categorical") else ["accuracy"] if loss == CLASSES else []
    model.compile(optimizer=optimizer(), loss=loss, metrics=metrics)
    return model


def same(a: Any, b: Any) -> None:
    own, theirs = [np.hstack(one if isinstance(one, list) else [one]) for one in (a, b)]
    np.testing.assert_allclose(own, theirs, rtol=1e-4, atol=1e-5)


def is_one_program(step: Any, calls: int) -> None:
    """All calls but the first one have found a program: none was traced again."""
    info = step.compiled.cache_info()
    assert (info.compiles, info.hits) == (1, calls - 1), info


def compare(make: Callable[[], Any], draw: Callable[[int, int], Any], optimizer: Callable[[], Any], loss: str) -> None:
    own, theirs = dyn_keras.compile(compiled(make, optimizer, loss)), compiled(make, optimizer, loss)
    batches = [draw(*sizes) for sizes in ((4, 3), (4, 7), (2, 5), (1, 1), (3, 2))]
    for x, y in batches:
        same(own.train_on_batch(x, y), theirs.train_on_batch(x, y))
    if make is not Subclassed:  # whose steps leave gradients, of which the first one found none: another program
        is_one_program(own.train_function, 5)
    if make is not perceptron:
        for x, y in batches[2:4]:
            same(own.test_on_batch(x, y), theirs.test_on_batch(x, y))
            np.testing.assert_allclose(own.predict_on_batch(x), theirs.predict_on_batch(x), rtol=1e-4, atol=1e-5)
        is_one_program(own.test_function, 2)
        is_one_program(own.predict_function, 2)
    variables = [[*model.variables, *model.optimizer.variables] for model in (own, theirs)]
    for one, other in zip(*variables, strict=True):
        np.testing.assert_allclose(torched(one), torched(other), rtol=1e-3, atol=1e-5, err_msg=one.path)


def torched(variable: Any) -> Any:
    return variable.value.detach().float().numpy()


def rates_are_read_at_each_step() -> None:
    models = [compiled(perceptron, keras.optimizers.SGD, "mse") for _ in range(2)]
    dyn_keras.compile(models[0])
    for rate in (1e-2, 0.0, 1e-3):
        batch = points(4, 1)
        for model in models:
            model.optimizer.learning_rate = rate
        same(*[model.train_on_batch(*batch) for model in models])
    is_one_program(models[0].train_function, 3)


def random_layers_draw_anew() -> None:
    x = rng.normal(size=(4, 64)).astype("f4")
    for make in (lambda: layers.Dropout(0.5), lambda: layers.GaussianNoise(1.0)):
        losses: list[list[float]] = []
        for seed in (7, 7):
            keras.utils.set_random_seed(seed)
            given = keras.Input((64,))
            model = keras.Model(given, make()(given))
            model.compile(optimizer="sgd", loss="mse")
            dyn_keras.compile(model)
            losses.append([model.train_on_batch(x, 3 * x) for _ in range(3)])
            np.testing.assert_array_equal(model.predict_on_batch(x), x)
            is_one_program(model.train_function, 3)
        assert losses[0] == losses[1], losses  # a seed repeats itself
        assert len({*losses[0]}) == 3, losses  # and each step is another one


def fitting() -> None:
    """``fit`` and ``evaluate`` with callbacks, twice, and with the weights saved and loaded in between."""
    x, y = points(11, 1)
    weights = np.linspace(0.5, 1.5, 11).astype("f4")
    models = [compiled(perceptron, keras.optimizers.Adam, "mse") for _ in range(2)]
    dyn_keras.compile(models[0])
    found: list[Any] = []
    for model in models:
        fit = functools.partial(model.fit, x, y, batch_size=4, shuffle=False, verbose=0, validation_data=(x, y))
        schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 1e-2 / (1 + epoch))
        stopping = keras.callbacks.EarlyStopping(patience=0, restore_best_weights=True, min_delta=1e3)
        histories = [fit(epochs=3, callbacks=[schedule, stopping]).history]
        with tempfile.TemporaryDirectory() as folder:
            model.save_weights(f"{folder}/kept.weights.h5")
            histories.append(fit(epochs=1, sample_weight=weights).history)
            model.load_weights(f"{folder}/kept.weights.h5")
            model.save(f"{folder}/whole.keras")
            loaded = keras.models.load_model(f"{folder}/whole.keras")
            np.testing.assert_array_equal(loaded.predict_on_batch(x), loaded.predict_on_batch(x))
        losses = model.evaluate(x, y, batch_size=4, verbose=0)
        same(loaded.evaluate(x, y, verbose=0), losses)
        found.append(([value for one in histories for values in one.values() for value in values], losses))
    same(found[0][0], found[1][0])
    same(found[0][1], found[1][1])
    info = models[0].train_function.compiled.cache_info()
    assert info.compiles == 2, info  # with weights of samples and without


def models_that_are_not_built() -> None:
    x = points(3, 1)[0]
    model = Subclassed()
    model.compile(optimizer="sgd", loss="mse")
    dyn_keras.compile(model)
    first = model.predict_on_batch(x)  # makes the weights
    np.testing.assert_allclose(model.predict_on_batch(x), first, rtol=1e-5)
    assert model.predict_function.compiled.cache_info().compiles == 1


def several_steps_are_refused() -> None:
    model = perceptron()
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=2)
    with pytest.raises(ArgumentError, match="steps_per_execution is 2, and Keras has one on the PyTorch backend"):
        dyn_keras.compile(model)


def main() -> None:
    warnings.simplefilter("error", UserWarning)  # nothing is left to eager PyTorch
    for name, case in CASES.items():
        compare(*case)
        print("the same:", name)
    rates_are_read_at_each_step()
    fitting()
    models_that_are_not_built()
    several_steps_are_refused()
    warnings.filterwarnings("ignore", "The model does not have any trainable weights")
    random_layers_draw_anew()
    print("all is the same on torch")


if __name__ == "__main__":
    main()
