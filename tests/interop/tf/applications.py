"""Four of Keras's applications: inference and ``fit`` on images whose sizes change, beside TensorFlow.

``make tensorflow-applications`` runs them whole; tests run them with fewer features. A network that nobody has trained
shrinks its images to 1e-10, which any tolerance accepts: :func:`calibrate` brings its numbers near one first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import dyn.interop.tf as dtf
from dyn.interop import keras as dyn_keras
from tests.interop.tf.comparing import tf
from tests.interop.tf.models import convnext_tiny, resnet50

keras = tf.keras
#: Ten batches of images: how many, height and width.
SHAPES = (
    (2, 64, 64), (1, 96, 64), (3, 65, 71), (4, 33, 47), (1, 40, 40),
    (5, 37, 64), (2, 80, 35), (3, 48, 96), (1, 71, 73), (6, 32, 32),
)  # fmt: skip
#: Batches that training is compared on.
BATCHES = ((4, 48, 40), (3, 64, 33), (5, 33, 56), (4, 40, 64))
#: Of results, in float32, relative to the largest; and of losses, in float64.
TOLERANCE, LOSS_TOLERANCE = 2e-4, 1e-6
NAMES = ("ResNet50", "MobileNetV2", "EfficientNetB0", "ConvNeXtTiny")


def made(name: str, *, narrow: bool = False) -> Any:
    """An application that gives features of images of any size, always with the same weights."""
    keras.utils.set_random_seed(0)
    if narrow and name in ("ResNet50", "ConvNeXtTiny"):
        return {"ResNet50": resnet50, "ConvNeXtTiny": convnext_tiny}[name](4)
    options = {"alpha": 0.35} if narrow and name == "MobileNetV2" else {}
    return getattr(keras.applications, name)(
        weights=None, input_shape=(None, None, 3), include_top=False, pooling="avg", **options
    )


def programs(compiled: Any) -> int:
    """How many programs a compiled function has; AssertionError where TensorFlow runs any of it."""
    assert not any(any(one.pieces) for version in compiled.programs for one in version.programs), compiled.explain()
    assert not compiled.fallbacks.said, compiled.fallbacks.said
    return compiled.cache_info().compiles


def calibrate(model: Any) -> None:
    """Have the statistics of batch norm be those of a batch, and the scales of ConvNeXt's branches one."""
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    for variable in model.trainable_variables:
        if variable.name == "gamma" and "layer_scale" in variable.path:
            variable.assign(tf.ones_like(variable))
    images = np.random.default_rng(1).normal(size=(4, 64, 64, 3))
    model(tf.constant(images, model.compute_dtype), training=True)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum


def inference(model: Any) -> tuple[float, int]:
    """The largest error over ten shapes relative to the largest result of each, and how many programs were compiled."""
    rng = np.random.default_rng(0)
    calibrate(model)
    compiled, errors = dtf.jit(model, strict=True), [0.0]
    for shape in SHAPES:
        images = tf.constant(rng.normal(size=(*shape, 3)), model.compute_dtype)
        own, theirs = compiled(images).numpy(), model(images).numpy()
        scale = float(np.abs(theirs).max())
        assert 1e-2 < scale < 1e3, scale
        errors.append(float(np.abs(own - theirs).max()) / scale)
    return max(errors), programs(compiled)


def training(name: str, *, narrow: bool = False) -> tuple[list[float], list[float], int]:
    """The losses of ``fit`` over batches, by dyn and by TensorFlow, and how many programs were compiled.

    For float64, see :func:`floats`: batch norm over the few places that small images leave amplifies float32's
    rounding to percents in three steps.
    """
    rng = np.random.default_rng(0)
    images = [rng.normal(size=(*shape, 3)) for shape in BATCHES]
    losses: list[list[float]] = []
    compiles = 0
    for by_dyn in (True, False):
        model = made(name, narrow=narrow)
        calibrate(model)
        model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), loss="mse")
        if by_dyn:
            dyn_keras.compile(model)
        keras.utils.set_random_seed(2)
        found = []
        for number, x in enumerate(images):
            y = np.random.default_rng(number).normal(size=(len(x), model.output_shape[-1]))
            found.append(model.fit(x, y, batch_size=len(x), shuffle=False, verbose=0).history["loss"][0])
        losses.append(found)
        if by_dyn:
            compiles = programs(model.train_function.compiled)
    return losses[0], losses[1], compiles


@contextmanager
def floats(dtype: str) -> Iterator[None]:
    """Have Keras make layers and batches of this dtype."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    failed = False
    for name in parser.parse_args().names or NAMES:
        start = time.perf_counter()
        error, compiles = inference(made(name))
        failed |= error > TOLERANCE or compiles != 1
        middle = time.perf_counter()
        print(f"{name}: inference: programs {compiles}, error {error:.1e}, {middle - start:.0f} s", flush=True)
        with floats("float64"):
            own, theirs, compiles = training(name)
        error = float(np.max(np.abs(np.divide(own, theirs) - 1)))
        failed |= error > LOSS_TOLERANCE or compiles != 1
        took = time.perf_counter() - middle
        print(f"{name}: fit: programs {compiles}, error of losses {error:.1e}, {took:.0f} s", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
