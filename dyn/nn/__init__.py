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
from dyn.nn._layers import embedding, linear, one_hot
from dyn.nn._normalization import layer_norm, log_softmax, logsumexp, rms_norm, softmax, standardize
from dyn.nn._positions import rotary_embedding

__all__ = [
    "celu", "dot_product_attention", "elu", "embedding", "gelu", "glu", "hard_sigmoid", "hard_swish", "hard_tanh",
    "layer_norm", "leaky_relu", "linear", "log_sigmoid", "log_softmax", "logsumexp", "one_hot", "relu", "relu6",
    "rms_norm", "rotary_embedding", "sigmoid", "silu", "soft_sign", "softmax", "softplus", "squareplus",
    "standardize", "swish", "tanh",
]  # fmt: skip
