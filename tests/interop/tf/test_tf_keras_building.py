"""Models that nobody has built yet: built by the first batch as Keras builds them, then traced for every size."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from dyn.interop import keras as dyn_keras
from tests.interop.tf import applications
from tests.interop.tf.comparing import alike, tf

keras, layers = tf.keras, tf.keras.layers
_rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return _rng.normal(size=shape).astype("f4")


class Biased(layers.Layer):
    """A layer whose ``build`` makes a bias before it needs a size."""

    def build(self, shape: Any) -> None:
        self.bias = self.add_weight(shape=(4,), name="bias")
        self.kernel = self.add_weight(shape=(shape[-1], 4), name="kernel")

    def call(self, x: Any) -> Any:
        return x @ self.kernel + self.bias


class Subclassed(keras.Model):
    """A model of layers that are built where it calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = Biased(), layers.BatchNormalization()
        self.tower = keras.Sequential([layers.Dense(5, activation="gelu"), keras.Sequential([layers.Dense(3)])])
        self.drop, self.last = layers.Dropout(0.0), layers.Dense(1)

    def call(self, x: Any, training: bool = False) -> Any:
        x = self.norm(self.first(x), training=training)
        return self.last(self.drop(self.tower(x), training=training))


def flat() -> Any:
    return keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])


def nested() -> Any:
    inner = keras.Sequential([layers.Dense(6), layers.BatchNormalization(), layers.ReLU()])
    return keras.Sequential([inner, keras.Sequential([keras.Sequential([layers.Dense(3)]), layers.Dense(1)])])


def normalized() -> Any:
    first = layers.Normalization()
    first.adapt(np.arange(12, dtype="f4").reshape(4, 3))
    return keras.Sequential([first, layers.Dense(4), layers.PReLU(), layers.Dense(1)])


def regularized() -> Any:
    dense = layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l2")
    return keras.Sequential([dense, layers.ActivityRegularization(0.1), layers.Dense(1)])


FEATURES: dict[str, Callable[[], Any]] = {
    "flat": flat, "nested": nested, "subclassed": Subclassed, "normalized": normalized, "regularized": regularized,
    "inside": lambda: keras.Sequential([Subclassed(), layers.Dense(2), layers.Dense(1)]),
}  # fmt: skip


def pictures() -> Any:
    return keras.Sequential([
        layers.Rescaling(1 / 255), layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
        layers.Dropout(0.0), layers.Dense(3),
    ])  # fmt: skip


def text() -> Any:
    return keras.Sequential([layers.Embedding(20, 6), layers.Bidirectional(layers.LSTM(4)), layers.Dense(3)])


def pair(make: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """Two models of the same weights, that of dyn's first."""
    made: list[Any] = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        model = make()
        if options:
            model.compile(**{name: one() if isinstance(one, FunctionType) else one for name, one in options.items()})
        made.append(model)
    return dyn_keras.compile(made[0]) if options else made[0], made[1]


def check_same_state(own: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    """Assert that two models have the same variables of every kind, by number, shape and value."""
    for kind in ("weights", "trainable_weights", "non_trainable_weights", "variables", "metrics_variables"):
        pairs = list(zip(getattr(own, kind), getattr(theirs, kind), strict=True))
        for one, other in pairs:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance, err_msg=kind)
    assert len(own.optimizer.variables) == len(theirs.optimizer.variables)
    assert len(own.metrics) == len(theirs.metrics)
    for one, other in zip(own.optimizer.variables, theirs.optimizer.variables, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance)


def programs(*functions: Any) -> int:
    """How many programs functions of steps have, of which none has a piece of TensorFlow's."""
    return sum(applications.programs(function.compiled) for function in functions)


@pytest.mark.parametrize("name", FEATURES)
def test_calls(name: str) -> None:
    own, theirs = pair(FEATURES[name])
    compiled = dtf.jit(own, strict=True)
    for n in (2, 1, 5, 0):
        x = tf.constant(normal(n, 3))
        keras.utils.set_random_seed(2)
        made = compiled(x)
        keras.utils.set_random_seed(2)
        alike(made, theirs(x), 1e-4, f"{n} rows")
        assert len(own.weights) == len(theirs.weights)
        alike(own(x), theirs(x))  # and Keras's own calls are what they were
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("name", ["flat", "nested", "subclassed", "regularized"])
def test_fit_evaluate_and_predict(name: str) -> None:
    own, theirs = pair(
        FEATURES[name], optimizer=lambda: keras.optimizers.SGD(0.02, momentum=0.9), loss="mse", metrics=lambda: ["mae"]
    )
    x, y = normal(10, 3), normal(10, 1)
    for model in (own, theirs):
        keras.utils.set_random_seed(3)
        model.history_made = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
    for key, values in theirs.history_made.items():
        np.testing.assert_allclose(own.history_made[key], values, rtol=1e-3)
    check_same_state(own, theirs, 1e-3)
    assert programs(own.train_function) == 1
    np.testing.assert_allclose(own.evaluate(x, y, verbose=0), theirs.evaluate(x, y, verbose=0), rtol=1e-3)
    np.testing.assert_allclose(own.predict(x, verbose=0), theirs.predict(x, verbose=0), rtol=1e-3, atol=1e-4)
    assert programs(own.test_function, own.predict_function) == 2
    if name == "flat":
        assert own.input_shape == theirs.input_shape == (None, 3)


@pytest.mark.parametrize("name", ["flat", "subclassed"])
def test_each_step_may_be_the_first(name: str) -> None:
    x, y = normal(4, 3), normal(4, 1)
    for first in ("predict", "evaluate", "train_on_batch"):
        own, theirs = pair(FEATURES[name], optimizer="sgd", loss="mse")
        given = (x,) if first.startswith("predict") else (x, y)
        options = {} if first.endswith("batch") else {"verbose": 0}
        made: list[Any] = []
        for model in (own, theirs):
            keras.utils.set_random_seed(3)  # which weights begin with that are made now
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                made.append(getattr(model, first)(*given, **options))
        np.testing.assert_allclose(*made, rtol=1e-3, atol=1e-4)
        for n in (3, 4):
            losses = [model.train_on_batch(x[:n], y[:n]) for model in (own, theirs)]
            np.testing.assert_allclose(*losses, rtol=1e-3)
        check_same_state(own, theirs, 1e-3)
        assert programs(own.train_function) == 1


@pytest.mark.parametrize(("make", "given"), [
    (pictures, lambda n: (normal(n, 8, 9, 1) * 255, _rng.integers(0, 3, n))),
    (pictures, lambda n: (normal(n, 8, 9, 1) * 255, _rng.integers(0, 3, (n, 1)))),
    (text, lambda n: (_rng.integers(0, 20, (n, 5)), _rng.integers(0, 3, n))),
])  # fmt: skip
def test_classes(make: Any, given: Any) -> None:
    """Labels with an axis of one, too, which losses and metrics look at."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    own, theirs = pair(make, optimizer="sgd", loss=loss, metrics=lambda: ["accuracy"])
    x, y = given(10)
    found = [model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history for model in (own, theirs)]
    assert {*found[0]} == {*found[1]}
    for key, values in found[1].items():
        np.testing.assert_allclose(found[0][key], values, rtol=1e-3, err_msg=key)
    assert programs(own.train_function) == 1
    check_same_state(own, theirs, 1e-3)
    np.testing.assert_allclose(own.evaluate(x, y, verbose=0), theirs.evaluate(x, y, verbose=0), rtol=1e-3)


def test_sequences_of_other_lengths_than_the_first() -> None:
    own, theirs = pair(text)
    compiled = dtf.jit(own, strict=True)
    for n, length in ((2, 5), (1, 1), (3, 8)):
        words = tf.constant(_rng.integers(0, 20, (n, length)))
        alike(compiled(words), theirs(words), 1e-4)
    assert compiled.cache_info().compiles == 1


def test_a_layer_in_a_function() -> None:
    dense = layers.Dense(4)
    compiled = dtf.jit(lambda x: tf.nn.relu(dense(x)) * layers.Rescaling(2.0)(x)[:, :1], strict=True)
    for n in (3, 1):
        x = tf.constant(normal(n, 3))
        alike(compiled(x), tf.nn.relu(dense(x)) * 2 * x[:, :1])
    assert len(dense.weights) == 2
    assert compiled.cache_info().compiles == 1


def test_training_under_a_tape() -> None:
    model, twin = pair(flat)
    compiled = dtf.jit(model, strict=True)
    for n in (4, 2):
        x = tf.constant(normal(n, 3))
        with tf.GradientTape(persistent=True) as tape:
            made, wanted = tf.reduce_sum(compiled(x) ** 2), tf.reduce_sum(twin(x) ** 2)
        for one, other in zip(
            tape.gradient(made, model.trainable_weights), tape.gradient(wanted, twin.trainable_weights), strict=True
        ):
            alike(one, other, 1e-4)


def test_a_train_step_of_ones_own() -> None:
    """A GAN: two unbuilt models and two optimizers."""

    class Gan(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.maker = keras.Sequential([layers.Dense(4), layers.Dense(3)])
            self.judge = keras.Sequential([layers.Dense(4), layers.Dense(1)])
            self.both = [keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.01, momentum=0.9)]

        def train_step(self, data: Any) -> Any:
            noise = data[:, ::-1] * 0.5
            with tf.GradientTape(persistent=True) as tape:
                made = self.maker(noise)
                real, fake = self.judge(data), self.judge(made)
                lost = tf.reduce_mean(tf.nn.softplus(fake)) + tf.reduce_mean(tf.nn.softplus(-real))
                other = tf.reduce_mean(tf.nn.softplus(-fake))
            for loss, part, optimizer in ((lost, self.judge, self.both[0]), (other, self.maker, self.both[1])):
                weights = part.trainable_weights
                optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"judge": lost, "maker": other}

    own, theirs = pair(Gan, optimizer=lambda: None)
    x = normal(10, 3)
    found = [model.fit(x, batch_size=4, epochs=2, shuffle=False, verbose=0).history for model in (own, theirs)]
    for key, values in found[1].items():
        np.testing.assert_allclose(found[0][key], values, rtol=1e-3)
    assert len(own.weights) == len(theirs.weights) == 8
    assert [len(one.variables) for one in own.both] == [len(one.variables) for one in theirs.both]
    assert programs(own.train_function) == 1


# ---- traces that fail ------------------------------------------------------------------------------------------------


def test_a_trace_that_fails_builds_nothing() -> None:
    """Its second attempt found a layer with one bias, and made another."""

    class Sized(Subclassed):
        def call(self, x: Any, training: bool = False) -> Any:
            return super().call(x, training) * sum(range(x.shape[-1]))

    own, theirs = pair(Sized)
    compiled = dtf.jit(own, strict=True)
    for n in (2, 3):
        x = tf.constant(normal(n, 3))
        made: list[Any] = []
        for call in (compiled, theirs):
            keras.utils.set_random_seed(3)
            made.append(call(x))
        alike(made[0], made[1], 1e-4)
    assert len(own.weights) == len(theirs.weights) == 12
    assert [(one.name, one.shape) for one in own.weights] == [(one.name, one.shape) for one in theirs.weights]
    assert own.losses == []
    assert compiled.cache_info().compiles == 1


def test_a_call_that_raises_leaves_a_model_as_it_was() -> None:
    """Weights, slots, losses, metrics, and Keras's global state: names of what is made later are the same."""
    globals_: Any = importlib.import_module("keras.src.backend.common.global_state").GLOBAL_STATE_TRACKER

    class Failing(keras.Model):
        fails = True

        def __init__(self) -> None:
            super().__init__()
            self.tower, self.drop = flat(), layers.Dropout(0.5, seed=3)
            self.first = Biased()

        def call(self, x: Any) -> Any:
            made = self.drop(self.tower(self.first(x)), training=True)
            self.add_loss(tf.reduce_sum(made))
            if self.fails:
                raise KeyError("the user's own")
            return made

    own, theirs = pair(Failing, optimizer="adam", loss="mse", metrics=lambda: ["mae"])
    theirs.fails = False
    seed = own.drop.seed_generator.state.numpy()
    before = {name: repr(value) for name, value in vars(globals_).items()}
    x, y = normal(4, 3), normal(4, 1)
    for call in (lambda: own.train_on_batch(x, y), lambda: own.predict(x, verbose=0), lambda: dtf.jit(own)(x)):
        with pytest.raises(KeyError, match="the user's own"):
            call()
        assert own.weights == []
        assert own.losses == []
        assert len(own.optimizer.variables) == 2  # its rate, and the count of its steps
        assert [metric.name for metric in own.metrics] == ["loss", "compile_metrics"]
        assert own._compile_metrics.variables == []
        assert not own.built
        np.testing.assert_array_equal(own.drop.seed_generator.state.numpy(), seed)
    assert {name: repr(value) for name, value in vars(globals_).items()} == before
    own.fails = False
    losses: list[Any] = []
    for model in (own, theirs):
        keras.utils.set_random_seed(3)
        losses.append([model.train_on_batch(x[:n], y[:n])[0] for n in (4, 2)])
    np.testing.assert_allclose(*losses, rtol=1e-4)
    check_same_state(own, theirs)
    assert programs(own.train_function) == 1


def test_input_of_another_size_than_the_first_is_an_error_of_kerass() -> None:
    own, theirs = pair(flat)
    compiled = dtf.jit(own)
    alike(compiled(tf.ones((2, 3))), theirs(tf.ones((2, 3))))
    with pytest.raises(Exception, match="3"):
        compiled(tf.ones((2, 4)))
    alike(compiled(tf.ones((5, 3))), theirs(tf.ones((5, 3))))


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop"])
def test_an_optimizer_is_saved_with_what_it_has(optimizer: str, tmp_path: Any) -> None:
    """A trace for open sizes that fails on a metric leaves no slots behind."""

    def trained(compile: Callable[[Any], Any]) -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
        model.compile(optimizer, "mse", metrics=["mae"])
        compile(model)
        model.fit(x, y, verbose=0, shuffle=False)
        return model

    x, y = np.ones((21, 5), "f4"), np.zeros((21, 2), "f4")
    own, plain = trained(dyn_keras.compile), trained(lambda model: model)
    assert len(own.optimizer.variables) == len(plain.optimizer.variables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Keras's, of NumPy's protocol
        own.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
    for one, other in zip(again.optimizer.variables, plain.optimizer.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
