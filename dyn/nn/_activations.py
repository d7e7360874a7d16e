"""Activations, element by element. Shapes and float dtypes stay; integers become the default float dtype."""

from __future__ import annotations

import math

import dyn.numpy as dnp
from dyn.numpy._operands import emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._trig import tanh
from dyn.numpy._unary import filled

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "relu",
    "relu6", "sigmoid", "silu", "soft_sign", "softplus", "squareplus", "swish", "tanh",
]  # fmt: skip


def _float(what: str, x: ArrayLike) -> Array:
    """``x`` in a float dtype."""
    return promote(what, x, choose=to_float)[0]


@public
def relu(x: ArrayLike, /) -> Array:
    """``max(x, 0)``, in the dtype of ``x``."""
    return dnp.maximum(x, 0)


@public
def relu6(x: ArrayLike, /) -> Array:
    """``min(max(x, 0), 6)``."""
    return dnp.minimum(dnp.maximum(x, 0), 6)


@public
def leaky_relu(x: ArrayLike, /, negative_slope: ArrayLike = 0.01) -> Array:
    """``x`` where it is at least 0, else ``negative_slope * x``."""
    value = _float("leaky_relu", x)
    return dnp.where(value >= 0, value, value * negative_slope)


@public
def elu(x: ArrayLike, /, alpha: ArrayLike = 1.0) -> Array:
    """``x`` above 0, else ``alpha * (exp(x) - 1)``."""
    value = _float("elu", x)
    return dnp.where(value > 0, value, alpha * dnp.expm1(dnp.minimum(value, 0)))


@public
def celu(x: ArrayLike, /, alpha: ArrayLike = 1.0) -> Array:
    """``x`` above 0, else ``alpha * (exp(x / alpha) - 1)``."""
    value = _float("celu", x)
    return dnp.maximum(value, 0) + alpha * dnp.expm1(dnp.minimum(value, 0) / alpha)


@public
def sigmoid(x: ArrayLike, /) -> Array:
    """``1 / (1 + exp(-x))``."""
    value = _float("sigmoid", x)
    return emit("logistic", value)


@public
def log_sigmoid(x: ArrayLike, /) -> Array:
    """``log(sigmoid(x))`` without overflow."""
    return -softplus(-_float("log_sigmoid", x))


@public
def silu(x: ArrayLike, /) -> Array:
    """``x * sigmoid(x)``."""
    value = _float("silu", x)
    return emit("multiply", value, emit("logistic", value))


swish = silu


@public
def softplus(x: ArrayLike, /) -> Array:
    """``log(1 + exp(x))`` without overflow."""
    value = _float("softplus", x)
    tail = emit("log_plus_one", emit("exponential", emit("negate", emit("abs", value))))
    return emit("add", emit("maximum", value, filled(value, 0)), tail)


@public
def squareplus(x: ArrayLike, /, b: ArrayLike = 4) -> Array:
    """``(x + sqrt(x * x + b)) / 2`` (https://arxiv.org/abs/2112.11687)."""
    value = _float("squareplus", x)
    return (value + dnp.sqrt(value * value + b)) * 0.5


@public
def soft_sign(x: ArrayLike, /) -> Array:
    """``x / (|x| + 1)``."""
    value = _float("soft_sign", x)
    return value / (dnp.abs(value) + 1)


@public
def hard_tanh(x: ArrayLike, /) -> Array:
    """``x`` held between -1 and 1."""
    return dnp.clip(x, -1, 1)


@public
def hard_sigmoid(x: ArrayLike, /) -> Array:
    """``relu6(x + 3) / 6``."""
    return relu6(_float("hard_sigmoid", x) + 3.0) / 6.0


@public
def hard_swish(x: ArrayLike, /) -> Array:
    """``x * hard_sigmoid(x)``."""
    value = _float("hard_swish", x)
    return value * hard_sigmoid(value)


@public
def gelu(x: ArrayLike, /, approximate: bool = True) -> Array:
    """``x`` times the normal distribution's probability of less (https://arxiv.org/abs/1606.08415).

    By default the approximation with tanh, as in JAX; with ``approximate=False`` the exact form with erf.
    """
    value = _float("gelu", x)
    if approximate:
        inner = math.sqrt(2 / math.pi) * (value + 0.044715 * (value * value * value))
        return value * (0.5 * (1.0 + dnp.tanh(inner)))
    scaled: Array = value * math.sqrt(0.5)
    probability: Array = emit("erf", scaled)
    return value * (0.5 * (1.0 + probability))


@public
def glu(x: ArrayLike, /, axis: int = -1) -> Array:
    """The first half of ``x`` along an axis times the sigmoid of the second (https://arxiv.org/abs/1612.08083).

    Raises ShapeError where the axis is not even.
    """
    left, right = dnp.split(_float("glu", x), 2, axis)
    return left * sigmoid(right)
