"""Keras's models, for every size of batch, length and image, by one program each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from tests.interop.tf import applications
from tests.interop.tf.comparing import check, tf

keras = tf.keras
layers = keras.layers
_rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return tf.constant(_rng.normal(size=shape).astype(np.float32))


def words(*shape: int) -> Any:
    return tf.constant(_rng.integers(0, 50, shape).astype(np.int32))


@pytest.mark.parametrize("name", applications.NAMES)
def test_applications(name: str) -> None:
    error, compiles = applications.inference(applications.made(name, narrow=True))
    assert compiles == 1
    assert error < applications.TOLERANCE


@pytest.mark.slow
def test_fit_of_an_application() -> None:
    with applications.floats("float64"):
        own, theirs, compiles = applications.training("MobileNetV2", narrow=True)
    np.testing.assert_allclose(own, theirs, rtol=applications.LOSS_TOLERANCE)
    assert compiles == 1


def test_text() -> None:
    given = keras.Input((None,), dtype="int32")
    x = layers.Embedding(50, 16)(given)
    x = layers.Bidirectional(layers.LSTM(8, return_sequences=True))(x)
    model = keras.Model(given, layers.Dense(3)(layers.GRU(8)(x)))
    check(model, [(words(n, m),) for n, m in ((2, 5), (1, 1), (3, 7), (8, 2))], tolerance=1e-4)


def test_masks_and_a_recommender() -> None:
    ids, amount = keras.Input((None,), dtype="int32"), keras.Input((2,))
    x = layers.LSTM(6)(layers.Embedding(50, 8, mask_zero=True)(ids))
    x = layers.Dense(4, activation="relu")(layers.Concatenate()([x, amount]))
    model = keras.Model([ids, amount], layers.Dot(1)([x, layers.Dense(4)(amount)]))
    check(
        lambda a, b: model([a, b]), [(words(n, m), normal(n, 2)) for n, m in ((2, 5), (1, 1), (3, 7))], tolerance=1e-4
    )


class Decoder(keras.layers.Layer):
    """A block of a decoder, subclassed."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.cross = layers.MultiHeadAttention(2, 8), layers.MultiHeadAttention(2, 8)
        self.norms = [layers.LayerNormalization() for _ in range(3)]
        self.dense = keras.Sequential([layers.Dense(32, activation="gelu"), layers.Dense(16)])

    def call(self, x: Any, memory: Any) -> Any:
        x = self.norms[0](x + self.own(x, x, use_causal_mask=True))
        x = self.norms[1](x + self.cross(x, memory))
        return self.norms[2](x + self.dense(x))


def test_a_subclassed_decoder() -> None:
    block = Decoder()
    block(normal(1, 2, 16), normal(1, 3, 16))
    sizes = ((2, 5, 3), (1, 1, 1), (3, 7, 2))
    check(block, [(normal(b, n, 16), normal(b, m, 16)) for b, n, m in sizes], tolerance=1e-4)


def test_layers_of_keras() -> None:
    """Each layer once, of images or of sequences of open sizes."""
    of_images = [
        layers.Conv2DTranspose(3, 3, strides=2, padding="same"),
        layers.ZeroPadding2D((1, 2)),
        layers.UpSampling2D(2),
        layers.Cropping2D(1),
        layers.GlobalMaxPooling2D(),
        layers.AveragePooling2D(3, 1, "same"),
        layers.LayerNormalization(),
        layers.GroupNormalization(1),
        layers.UnitNormalization(),
        layers.PReLU(shared_axes=[1, 2]),
        layers.LeakyReLU(),
        layers.ELU(),
        layers.Softmax(),
        layers.Rescaling(2.0, 1.0),
        layers.SpatialDropout2D(0.2),
        layers.GaussianNoise(0.1),
        layers.SeparableConv2D(4, 3),
        layers.Conv2D(4, 3, dilation_rate=2, padding="same"),
        layers.CenterCrop(4, 4),
        layers.Resizing(6, 5),
    ]
    of_sequences = [
        layers.Conv1D(4, 3, padding="causal"),
        layers.MaxPooling1D(2, padding="same"),
        layers.GlobalMaxPooling1D(),
        layers.SimpleRNN(3),
        layers.LSTM(3, go_backwards=True),
        layers.GRU(3, reset_after=False),
        layers.Bidirectional(layers.GRU(3, return_sequences=True)),
        layers.Permute((2, 1)),
        layers.EinsumDense("abc,cd->abd", output_shape=(None, 5)),
        layers.Masking(),
        layers.Activation("swish"),
        layers.ReLU(6.0),
        layers.UpSampling1D(2),
        layers.ZeroPadding1D(1),
        layers.Cropping1D(1),
        layers.DepthwiseConv1D(3),
    ]
    for used, calls in (
        (of_images, [(normal(b, h, w, 3),) for b, h, w in ((2, 8, 9), (1, 7, 6), (3, 9, 8))]),
        (of_sequences, [(normal(b, n, 4),) for b, n in ((2, 5), (1, 3), (3, 9))]),
    ):
        for layer in used:
            layer(calls[0][0])
        check(lambda x, used=used: [layer(x) for layer in used], calls, tolerance=1e-4)


def test_saved_models(tmp_path: Any) -> None:
    given = keras.Input((None, 4))
    model = keras.Model(given, layers.Dense(2)(layers.LSTM(3)(given)))
    model.export(str(tmp_path / "model"), verbose=False)
    loaded = dtf.load(str(tmp_path / "model"))
    for b, n in ((2, 5), (1, 1), (3, 7)):
        x = normal(b, n, 4)
        np.testing.assert_allclose(loaded(x), model(x), atol=1e-5)
    assert applications.programs(loaded) == 1
    module = tf.Module()
    module.v = tf.Variable([1.0, 2.0])
    module.f = tf.function(lambda x: {"y": x * module.v}, input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "module"), signatures={"serving_default": module.f})
    assert dtf.load(str(tmp_path / "module"))(x=tf.ones((3, 2)))["y"].shape == (3, 2)
