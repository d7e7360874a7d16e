"""Activations, element by element. Shapes and float dtypes stay; integers become the default float dtype."""

from __future__ import annotations

import math

import dyn.numpy as dnp
from dyn.nn._precision import rounded, wide
from dyn.numpy._operands import emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._slopes import with_slopes
from dyn.numpy._trig import tanh
from dyn.numpy._unary import filled, flag
from dyn.trace.tracer import Tracer

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "relu",
    "relu6", "sigmoid", "silu", "soft_sign", "softplus", "squareplus", "swish", "tanh",
]  # fmt: skip


def _float(what: str, x: ArrayLike) -> Array:
    """``x`` in a float dtype."""
    return promote(what, x, choose=to_float)[0]


@public
def relu(x: ArrayLike, /) -> Array:
    """``max(x, 0)``, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``; of booleans int64.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> nn.relu(np.array([-1.0, 2.0]))
        array([0., 2.])
    """
    (value,) = promote("relu", x)
    return with_slopes(_relu, _is_positive, value) if value.element_type.is_float else dnp.maximum(value, 0)


def _relu(x: Tracer) -> Tracer:
    return emit("maximum", x, filled(x, 0))


def _is_positive(x: Tracer) -> tuple[Tracer]:
    """The slope 1 above 0, else 0, at 0 too (https://arxiv.org/abs/2106.12915)."""
    return (flag("GT", x, 0),)


@public
def relu6(x: ArrayLike, /) -> Array:
    """``min(max(x, 0), 6)``, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``; of booleans int64.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    (value,) = promote("relu6", x)
    if not value.element_type.is_float:
        return dnp.minimum(dnp.maximum(value, 0), 6)
    return with_slopes(_relu6, _is_inside, value)


def _relu6(x: Tracer) -> Tracer:
    return emit("minimum", emit("maximum", x, filled(x, 0)), filled(x, 6))


def _is_inside(x: Tracer) -> tuple[Tracer]:
    """The slope 1 between 0 and 6, else 0, at both too."""
    return (emit("and", flag("GT", x, 0), flag("LT", x, 6)),)


@public
def leaky_relu(x: ArrayLike, /, negative_slope: ArrayLike = 0.01) -> Array:
    """``x`` where it is at least 0, else ``negative_slope * x``, element by element.

    Args:
        x: array of any real dtype, of any shape.
        negative_slope: factor below 0, a number or an array that broadcasts with ``x``.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> nn.leaky_relu(np.array([-1.0, 2.0]))
        array([-0.01,  2.  ])
    """
    value = _float("leaky_relu", x)
    return dnp.where(value >= 0, value, value * negative_slope)


@public
def elu(x: ArrayLike, /, alpha: ArrayLike = 1.0) -> Array:
    """``x`` above 0, else ``alpha * (exp(x) - 1)``, element by element (https://arxiv.org/abs/1511.07289).

    Args:
        x: array of any real dtype, of any shape.
        alpha: factor below 0, a number or an array that broadcasts with ``x``.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value = _float("elu", x)
    above = value > 0
    # Of what is not chosen an argument of 0: a select, whose slope at 0 is that of the branch that is chosen.
    return dnp.where(above, value, alpha * dnp.expm1(dnp.where(above, 0, value)))


@public
def celu(x: ArrayLike, /, alpha: ArrayLike = 1.0) -> Array:
    """``x`` above 0, else ``alpha * (exp(x / alpha) - 1)``, element by element (https://arxiv.org/abs/1704.07483).

    Args:
        x: array of any real dtype, of any shape.
        alpha: a number other than 0, or an array that broadcasts with ``x``.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value = _float("celu", x)
    above = value > 0
    return dnp.where(above, value, alpha * dnp.expm1(dnp.where(above, 0, value) / alpha))


@public
def sigmoid(x: ArrayLike, /) -> Array:
    """``1 / (1 + exp(-x))``, element by element, without overflow.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> nn.sigmoid(np.array([0.0, 100.0]))
        array([0.5, 1. ])
    """
    value = _float("sigmoid", x)
    return emit("logistic", value)


@public
def log_sigmoid(x: ArrayLike, /) -> Array:
    """``log(sigmoid(x))``, element by element, without overflow.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value, dtype = wide("log_sigmoid", x)
    return rounded(-softplus(-value), dtype)


@public
def silu(x: ArrayLike, /) -> Array:
    """``x * sigmoid(x)``, element by element, also called swish (https://arxiv.org/abs/1606.08415).

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> nn.silu(np.array([-1.0, 1.0]))
        array([-0.26894142,  0.73105858])
    """
    value, dtype = wide("silu", x)
    return rounded(emit("multiply", value, emit("logistic", value)), dtype)


swish = silu


@public
def softplus(x: ArrayLike, /) -> Array:
    """``log(1 + exp(x))``, element by element, without overflow.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value, dtype = wide("softplus", x)
    return rounded(with_slopes(_softplus, _share, value), dtype)


def _softplus(x: Tracer) -> Tracer:
    tail = emit("log_plus_one", emit("exponential", emit("negate", emit("abs", x))))
    return emit("add", emit("maximum", x, filled(x, 0)), tail)


def _share(x: Tracer) -> tuple[Tracer]:
    """The share of ``exp(x)`` in ``1 + exp(x)``."""
    return (emit("logistic", x),)


@public
def squareplus(x: ArrayLike, /, b: ArrayLike = 4) -> Array:
    """``(x + sqrt(x * x + b)) / 2``, element by element (https://arxiv.org/abs/2112.11687).

    Args:
        x: array of any dtype, of any shape.
        b: smoothness, a number or an array that broadcasts with ``x``.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.
    """
    value = _float("squareplus", x)
    return (value + dnp.sqrt(value * value + b)) * 0.5


@public
def soft_sign(x: ArrayLike, /) -> Array:
    """``x / (|x| + 1)``, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.
    """
    value, dtype = wide("soft_sign", x)
    return rounded(value / (dnp.abs(value) + 1), dtype)


@public
def hard_tanh(x: ArrayLike, /) -> Array:
    """``x`` held between -1 and 1, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value: Array = promote("hard_tanh", x)[0]
    if not value.element_type.is_float:
        return dnp.clip(value, -1, 1)
    return dnp.where(value > 1, 1, dnp.where(value < -1, -1, value))


@public
def hard_sigmoid(x: ArrayLike, /) -> Array:
    """``relu6(x + 3) / 6``, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value, dtype = wide("hard_sigmoid", x)
    return rounded(relu6(value + 3.0) / 6.0, dtype)


@public
def hard_swish(x: ArrayLike, /) -> Array:
    """``x * hard_sigmoid(x)``, element by element (https://arxiv.org/abs/1905.02244).

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    value, dtype = wide("hard_swish", x)
    return rounded(value * hard_sigmoid(value), dtype)


@public
def gelu(x: ArrayLike, /, approximate: bool = True) -> Array:
    """``x`` times the normal distribution's probability of less, element by element (https://arxiv.org/abs/1606.08415).

    Args:
        x: array of any real dtype, of any shape.
        approximate: True, as in JAX: the formula with tanh; False: the exact one with erf, as PyTorch's default is.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> nn.gelu(np.array([-1.0, 1.0]))
        array([-0.15880801,  0.84119199])
    """
    value, dtype = wide("gelu", x)
    if approximate:
        inner = math.sqrt(2 / math.pi) * (value + 0.044715 * (value * value * value))
        return rounded(value * (0.5 * (1.0 + dnp.tanh(inner))), dtype)
    scaled: Array = value * math.sqrt(0.5)
    probability: Array = emit("erf", scaled)
    return rounded(value * (0.5 * (1.0 + probability)), dtype)


@public
def glu(x: ArrayLike, /, axis: int = -1) -> Array:
    """First half of an axis times the sigmoid of the second (https://arxiv.org/abs/1612.08083).

    Args:
        x: array of any dtype.
        axis: axis to halve; its size may be symbolic.

    Returns:
        An array in the dtype of ``x``, of integers in the default float dtype, whose axis has half the size.

    Raises:
        ShapeError: if the size is odd: at once where that is proved, otherwise when called.

    Example:
        >>> nn.glu(np.array([1.0, 2.0, 0.0, 0.0]))
        array([0.5, 1. ])
    """
    value, dtype = wide("glu", x)
    left, right = dnp.split(value, 2, axis)
    return rounded(left * sigmoid(right), dtype)
