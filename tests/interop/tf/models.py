"""Keras's applications with fewer features: the same graphs, layer by layer."""

from __future__ import annotations

import importlib
from typing import Any

from tests.interop.tf.comparing import tf

keras = tf.keras
#: ResNet50's stages: blocks and the stride of the first.
RESNET50 = ((3, 1), (4, 2), (6, 2), (3, 2))


def resnet50(features: int) -> Any:
    """ResNet50 whose first stage has so many features in place of 64."""
    resnet: Any = importlib.import_module("keras.src.applications.resnet")

    def stages(x: Any) -> Any:
        for number, (blocks, stride) in enumerate(RESNET50):
            name = f"conv{number + 2}"
            x = resnet.stack_residual_blocks_v1(x, features << number, blocks, stride1=stride, name=name)
        return x

    return resnet.ResNet(
        stages,
        False,
        True,
        include_top=False,
        weights=None,
        input_shape=(None, None, 3),
        pooling="avg",
        name="resnet50",
    )


def convnext_tiny(features: int) -> Any:
    """ConvNeXtTiny whose first stage has so many features in place of 96."""
    convnext: Any = importlib.import_module("keras.src.applications.convnext")

    return convnext.ConvNeXt(
        depths=[3, 3, 9, 3], projection_dims=[features << number for number in range(4)], drop_path_rate=0.0,
        default_size=64, include_top=False, weights=None, input_shape=(None, None, 3), pooling="avg",
    )  # fmt: skip
