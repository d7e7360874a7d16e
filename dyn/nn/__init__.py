"""Functions that neural networks are made of, on arrays of undecided shapes. Names and arguments are JAX's."""

from __future__ import annotations

from dyn.nn._activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    relu,
    relu6,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    squareplus,
    swish,
    tanh,
)
from dyn.nn._attention import dot_product_attention
from dyn.nn._convolution import conv, conv_general_dilated, conv_transpose
from dyn.nn._layers import embedding, linear, one_hot
from dyn.nn._losses import softmax_cross_entropy_with_integer_labels
from dyn.nn._normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    logsumexp,
    rms_norm,
    softmax,
    standardize,
)
from dyn.nn._pooling import avg_pool, global_avg_pool, global_max_pool, max_pool, min_pool
from dyn.nn._positions import rotary_embedding

__all__ = [
    "avg_pool", "batch_norm", "celu", "conv", "conv_general_dilated", "conv_transpose", "dot_product_attention",
    "elu", "embedding", "gelu", "global_avg_pool", "global_max_pool", "glu", "group_norm", "hard_sigmoid",
    "hard_swish", "hard_tanh", "instance_norm", "layer_norm", "leaky_relu", "linear", "log_sigmoid", "log_softmax",
    "logsumexp", "max_pool", "min_pool", "one_hot", "relu", "relu6", "rms_norm", "rotary_embedding", "sigmoid",
    "silu", "soft_sign", "softmax", "softmax_cross_entropy_with_integer_labels", "softplus", "squareplus",
    "standardize", "swish", "tanh",
]  # fmt: skip
