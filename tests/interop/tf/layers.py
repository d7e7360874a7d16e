"""Keras's own layer classes, each once, over inputs of open sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.interop.tf.comparing import tf

keras = tf.keras
layers: Any = keras.layers
Make = Callable[[Any], Any]

#: Inputs by kind: their shapes, None open, and their dtypes.
INPUTS: Mapping[str, tuple[tuple[int | None, ...], str]] = {
    "features": ((6,), "float32"),
    "sequence": ((None, 4), "float32"),
    "image": ((None, None, 3), "float32"),
    "volume": ((None, None, None, 2), "float32"),
    "film": ((None, 6, 6, 2), "float32"),
    "words": ((None,), "int32"),
    "line": ((None, 6, 2), "float32"),
    "film3d": ((None, 4, 4, 4, 1), "float32"),
    "wave": ((None, 1), "float32"),
    "sound": ((None,), "float32"),
}
#: Sizes of the open axes of calls, the batch first.
CALLS: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "features": ((2,), (1,), (5,)),
    "sequence": ((2, 6), (1, 4), (3, 9)),
    "image": ((2, 8, 9), (1, 9, 8), (3, 12, 10)),
    "volume": ((2, 5, 6, 4), (1, 4, 4, 5), (2, 6, 5, 5)),
    "film": ((2, 3), (1, 2), (1, 4)),
    "words": ((2, 5), (1, 1), (3, 8)),
    "line": ((2, 3), (1, 2), (1, 4)),
    "film3d": ((2, 2), (1, 1), (1, 3)),
    "sound": ((2, 40), (1, 32), (3, 57)),
    "wave": ((2, 40), (1, 32), (3, 57)),
}


def _two(kind: str, **options: Any) -> Make:
    """A layer of two inputs, of which the second is computed of the first."""
    return lambda x: getattr(layers, kind)(**options)([x, layers.Rescaling(0.5)(x)])


def _of(kind: str, *args: Any, **options: Any) -> Make:
    def made(x: Any) -> Any:
        return getattr(layers, kind)(*args, **options)(x)

    return made


def _around(kind: str, inner: Callable[[], Any]) -> Make:
    """A layer around another."""

    def made(x: Any) -> Any:
        return getattr(layers, kind)(inner())(x)

    return made


def _adapted(x: Any) -> Any:
    layer = layers.Normalization()
    layer.adapt(np.arange(12, dtype=np.float32).reshape(2, 6))
    return layer(x)


def _each(names: str, *args: Any, **options: Any) -> dict[str, Make]:
    return {name: _of(name, *args, **options) for name in names.split()}


#: The layers, by kind of input.
TABLE: Mapping[str, Mapping[str, Make]] = {
    "features": {
        **_each("Dense RepeatVector", 3), **_each("Activation", "swish"), "Reshape": _of("Reshape", (2, 3)),
        **_each("Flatten Identity BatchNormalization ELU LeakyReLU PReLU ReLU Softmax UnitNormalization"),
        **_each("LayerNormalization RMSNormalization ActivityRegularization"), **_each("GroupNormalization", 2),
        **_each("Dropout AlphaDropout GaussianDropout GaussianNoise", 0.3), "Rescaling": _of("Rescaling", 2.0, 1.0),
        **{name: _two(name) for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum")},
        "Multiply": _two("Multiply"), "Subtract": _two("Subtract"),
        "Dot": _two("Dot", axes=1), "Normalization": _adapted, "Lambda": _of("Lambda", lambda v: v * v),
        "SpectralNormalization": _around("SpectralNormalization", lambda: layers.Dense(3)),
        "Discretization": _of("Discretization", bin_boundaries=[-0.5, 0.0, 0.7]),
    },
    "sequence": {
        **_each("Conv1D Conv1DTranspose SeparableConv1D", 5, 3), "DepthwiseConv1D": _of("DepthwiseConv1D", 3),
        **_each("AveragePooling1D MaxPooling1D UpSampling1D", 2), **_each("Cropping1D ZeroPadding1D"),
        **_each("GlobalAveragePooling1D GlobalMaxPooling1D Masking"), "SpatialDropout1D": _of("SpatialDropout1D", 0.2),
        **_each("SimpleRNN LSTM GRU", 3), "Permute": _of("Permute", (2, 1)),
        "RNN": _around("RNN", lambda: layers.SimpleRNNCell(3)),
        "StackedRNNCells": _around(
            "RNN", lambda: layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2)])
        ),
        "Bidirectional": _around("Bidirectional", lambda: layers.GRU(3, return_sequences=True)),
        "EinsumDense": _of("EinsumDense", "abc,cd->abd", output_shape=(None, 5)),
        "Attention": _two("Attention"), "AdditiveAttention": _two("AdditiveAttention"),
        "MultiHeadAttention": lambda x: layers.MultiHeadAttention(2, 3)(x, x),
        "GroupQueryAttention": lambda x: layers.GroupQueryAttention(3, 4, 2)(x, x),
    },
    "image": {
        **_each("Conv2D Conv2DTranspose SeparableConv2D", 4, 3), "DepthwiseConv2D": _of("DepthwiseConv2D", 3),
        **_each("AveragePooling2D MaxPooling2D UpSampling2D", 2), **_each("Cropping2D ZeroPadding2D"),
        **_each("GlobalAveragePooling2D GlobalMaxPooling2D"), "SpatialDropout2D": _of("SpatialDropout2D", 0.2),
        "CenterCrop": _of("CenterCrop", 4, 4), "Resizing": _of("Resizing", 6, 5),
        **_each("RandomFlip Solarization RandomGrayscale RandomGaussianBlur RandomErasing RandomElasticTransform"),
        **_each("RandomShear RandomPerspective RandomColorJitter RandAugment AugMix AutoContrast MixUp CutMix"),
        **_each("RandomZoom RandomRotation RandomContrast RandomBrightness RandomColorDegeneration RandomHue", 0.2),
        **_each("RandomInvert RandomSaturation RandomSharpness", 0.2), **_each("RandomPosterization", 4),
        **_each("RandomTranslation", 0.1, 0.1),
    },
    "volume": {
        **_each("Conv3D Conv3DTranspose", 3, 2),
        **_each("AveragePooling3D MaxPooling3D UpSampling3D", 2), **_each("Cropping3D ZeroPadding3D"),
        **_each("GlobalAveragePooling3D GlobalMaxPooling3D"), "SpatialDropout3D": _of("SpatialDropout3D", 0.2),
    },
    "line": {"ConvLSTM1D": _of("ConvLSTM1D", 3, 2)},
    "film": {"ConvLSTM2D": _of("ConvLSTM2D", 3, 2)},
    "film3d": {"ConvLSTM3D": _of("ConvLSTM3D", 2, 2)},
    "words": {
        "Embedding": _of("Embedding", 50, 5), "ReversibleEmbedding": _of("ReversibleEmbedding", 50, 5),
        "CategoryEncoding": _of("CategoryEncoding", 50, output_mode="multi_hot"),
    },
    "wave": {"STFTSpectrogram": _of("STFTSpectrogram", frame_length=16, frame_step=8, fft_length=16)},
    "sound": _each("MelSpectrogram", fft_length=16, sequence_stride=8, num_mel_bins=4, sampling_rate=64),
}  # fmt: skip

#: Layers whose Python needs sizes: a program for each of them.
BY_SIZES: Mapping[str, Mapping[str, Make]] = {
    "sequence": {
        **_each("AdaptiveAveragePooling1D AdaptiveMaxPooling1D", 2),
        "TimeDistributed": _around("TimeDistributed", lambda: layers.Dense(3)),
    },
    "image": {**_each("AdaptiveAveragePooling2D AdaptiveMaxPooling2D", 2), "RandomCrop": _of("RandomCrop", 4, 4)},
    "volume": _each("AdaptiveAveragePooling3D AdaptiveMaxPooling3D", 2),
}


def _layer(kind: str, *args: Any, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(layers, kind)(*args, seed=1, **options)


#: Layers that change images in training, and do so for open sizes in Keras, too.
AUGMENTATIONS: Mapping[str, Callable[[], Any]] = {
    **{name: _layer(name) for name in ("RandomFlip", "RandomGrayscale", "RandomGaussianBlur", "MixUp")},
    **{
        f"Random{name}": _layer(f"Random{name}", 0.2)
        for name in ("Contrast", "Brightness", "ColorDegeneration", "Hue", "Invert", "Saturation", "Sharpness", "Zoom")
    },
    "RandomColorJitter": _layer(
        "RandomColorJitter", brightness_factor=0.2, contrast_factor=0.2, saturation_factor=(0.3, 0.7), hue_factor=0.2
    ),
    "RandomPosterization": _layer("RandomPosterization", 4), "RandomShear": _layer("RandomShear", 0.2, 0.2),
    "RandomTranslation": _layer("RandomTranslation", 0.1, 0.1),
    **{
        f"RandomRotation, {mode}": _layer("RandomRotation", 0.2, fill_mode=mode)
        for mode in ("constant", "reflect", "wrap", "nearest")
    },
    "RandomRotation": _layer("RandomRotation", 0.2, interpolation="nearest"),
}  # fmt: skip
#: Classes that are in no table, and why.
OTHERS: Mapping[str, str] = {
    **dict.fromkeys(["InputLayer", "InputSpec", "Layer", "Wrapper", "Pipeline"], "no computation of its own"),
    **dict.fromkeys(["GRUCell", "LSTMCell", "SimpleRNNCell"], "a part of a layer"),
    **dict.fromkeys(["FlaxLayer", "JaxLayer", "TorchModuleWrapper"], "another library's"),
    **dict.fromkeys(
        ["StringLookup", "TextVectorization", "Hashing", "HashedCrossing"], "strings, outside of the model"
    ),
    **dict.fromkeys(["IntegerLookup", "TFSMLayer"], "a lookup table or a SavedModel, which have tests of their own"),
    **dict.fromkeys(["Equalization", "ContrastLimitedAdaptiveHistogramEqualization"], "Keras refuses open sizes"),
    "MaxNumBoundingBoxes": "boxes, outside of the model",
}


def given(kind: str, sizes: tuple[int, ...]) -> Any:
    """An input of a kind, of these sizes."""
    shape, dtype = INPUTS[kind]
    open_sizes = iter(sizes)
    whole = tuple([next(open_sizes) if size is None else size for size in (None, *shape)])
    rng = np.random.default_rng(sum(whole))
    made = rng.integers(0, 50, whole) if dtype == "int32" else rng.normal(size=whole)
    return tf.constant(made.astype(dtype))


def model(kind: str, make: Mapping[str, Make]) -> Any:
    """A functional model whose outputs are those of each layer, by name."""
    shape, dtype = INPUTS[kind]
    x = keras.Input(shape, dtype=dtype)
    return keras.Model(x, {name: one(x) for name, one in make.items()})
