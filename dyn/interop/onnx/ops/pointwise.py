"""Functions of each element, and of the elements of several tensors that are broadcast together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import Data
from dyn.interop.onnx.evaluation import converts, takes_call
from dyn.interop.onnx.graphs import dtype_of

_PLAIN: Mapping[str, Callable[..., Any]] = {
    "Abs": dnp.abs, "Neg": dnp.negative, "Sign": dnp.sign, "Exp": dnp.exp, "Log": dnp.log, "Sqrt": dnp.sqrt,
    "Reciprocal": dnp.reciprocal, "Sin": dnp.sin, "Cos": dnp.cos, "Tan": dnp.tan, "Asin": dnp.arcsin,
    "Acos": dnp.arccos, "Atan": dnp.arctan, "Sinh": dnp.sinh, "Cosh": dnp.cosh, "Tanh": dnp.tanh,
    "Asinh": dnp.arcsinh, "Acosh": dnp.arccosh, "Atanh": dnp.arctanh, "Erf": lax.erf, "Floor": dnp.floor,
    "Ceil": dnp.ceil, "Round": dnp.rint, "IsNaN": dnp.isnan, "Not": dnp.logical_not, "BitwiseNot": dnp.bitwise_invert,
    "Relu": nn.relu, "Sigmoid": nn.sigmoid, "Softplus": nn.softplus, "Softsign": nn.soft_sign,
    "Add": dnp.add, "Sub": dnp.subtract, "Mul": dnp.multiply, "And": dnp.logical_and, "Or": dnp.logical_or,
    "Xor": dnp.logical_xor, "Equal": dnp.equal, "Less": dnp.less, "LessOrEqual": dnp.less_equal,
    "Greater": dnp.greater, "GreaterOrEqual": dnp.greater_equal, "BitwiseAnd": dnp.bitwise_and,
    "BitwiseOr": dnp.bitwise_or, "BitwiseXor": dnp.bitwise_xor, "Where": dnp.where, "Identity": lambda a: a,
}  # fmt: skip


def _register(name: str, function: Callable[..., Any]) -> None:
    @converts(name)
    def plain(*values: Data) -> Any:
        return function(*values)


for _name, _function in _PLAIN.items():
    _register(_name, _function)


def _folded(name: str, function: Callable[..., Any]) -> None:
    @converts(name)
    def many(*values: Data) -> Any:
        return functools.reduce(function, values)


for _name, _function in {"Max": dnp.maximum, "Min": dnp.minimum, "Sum": dnp.add}.items():
    _folded(_name, _function)


@converts("Mean")
def mean(*values: Data) -> Any:
    return functools.reduce(dnp.add, values) / len(values)


@converts("Div")
def divide(a: Data, b: Data) -> Any:
    """Integers are rounded to 0."""
    if not a.element_type.is_integer:
        return dnp.true_divide(a, b)
    return dnp.floor_divide(a - dnp.fmod(a, b), b)


@converts("Mod")
def modulo(a: Data, b: Data, *, fmod: int = 0) -> Any:
    return dnp.fmod(a, b) if fmod else dnp.remainder(a, b)


@converts("Pow")
def power(a: Data, b: Data) -> Any:
    if a.element_type.is_integer and not b.element_type.is_integer:
        return dnp.power(a.astype(b.dtype), b).astype(a.dtype)
    return dnp.power(a, b.astype(a.dtype) if a.element_type.is_inexact else b).astype(a.dtype)


@converts("BitShift")
def shift(a: Data, b: Data, *, direction: str) -> Any:
    return dnp.left_shift(a, b) if direction == "LEFT" else dnp.right_shift(a, b)


@converts("Clip")
def clip(a: Data, low: Data = None, high: Data = None, *, min: float | None = None, max: float | None = None) -> Any:
    low, high = min if low is None else low, max if high is None else high
    a = a if low is None else dnp.maximum(a, low)
    return a if high is None else dnp.minimum(a, high)


@converts("IsInf")
def is_inf(a: Data, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    found = dnp.isinf(a)
    if not detect_negative:
        found = found & (a > 0)
    return found if detect_positive else found & (a < 0)


# ---- activations -----------------------------------------------------------------------------------------------------


@converts("Gelu")
def gelu(a: Data, *, approximate: str = "none") -> Any:
    return nn.gelu(a, approximate=approximate == "tanh")


@converts("Elu")
def elu(a: Data, *, alpha: float = 1.0) -> Any:
    return nn.elu(a, alpha)


@converts("Celu")
def celu(a: Data, *, alpha: float = 1.0) -> Any:
    return nn.celu(a, alpha)


@converts("Selu")
def selu(a: Data, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    return gamma * nn.elu(a, alpha)


@converts("LeakyRelu")
def leaky_relu(a: Data, *, alpha: float = 0.01) -> Any:
    return nn.leaky_relu(a, alpha)


@converts("ThresholdedRelu")
def thresholded_relu(a: Data, *, alpha: float = 1.0) -> Any:
    return dnp.where(a > alpha, a, dnp.zeros_like(a))


@converts("HardSigmoid")
def hard_sigmoid(a: Data, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return dnp.clip(alpha * a + beta, 0, 1)


@converts("HardSwish")
def hard_swish(a: Data) -> Any:
    return a * dnp.clip(a * (1 / 6) + 0.5, 0, 1)


@converts("Swish")
def swish(a: Data, *, alpha: float = 1.0) -> Any:
    return a * nn.sigmoid(a if alpha == 1 else alpha * a)


@converts("Mish")
def mish(a: Data) -> Any:
    return a * dnp.tanh(nn.softplus(a))


@converts("PRelu")
def prelu(a: Data, slope: Data) -> Any:
    return dnp.where(a < 0, slope * a, a)


@converts("Shrink")
def shrink(a: Data, *, lambd: float = 0.5, bias: float = 0.0) -> Any:
    return dnp.where(a < -lambd, a + bias, dnp.where(a > lambd, a - bias, dnp.zeros_like(a))).astype(a.dtype)


# ---- dtypes ----------------------------------------------------------------------------------------------------------


@converts("Cast")
def cast(a: Data, *, to: int, saturate: int = 1) -> Any:
    return converted(a, dtype_of(to), bool(saturate))


@converts("CastLike")
def cast_like(a: Data, other: Data, *, saturate: int = 1) -> Any:
    return converted(a, other.element_type, bool(saturate))


def converted(a: Data, dtype: DType, saturates: bool) -> Any:
    """Elements in another dtype. What is beyond floats of 8 bits is the greatest of them where it ``saturates``."""
    if not (saturates and dtype.is_inexact and dtype.bits == 8 and a.element_type.is_inexact):
        return a.astype(dtype.np)
    most = float(dnp.finfo(dtype.np).max)
    return dnp.where(dnp.isnan(a), a, dnp.clip(a, -most, most)).astype(dtype.np)


@takes_call("Dropout", attrs=["seed"])
def dropout(call: Any) -> Any:
    """The identity, as in inference, and a mask that keeps everything."""
    if call.has(2) and not (isinstance(call.inputs[2], np.ndarray) and not call.inputs[2].any()):
        raise UnsupportedOpError("Dropout that trains, or is told so.", remedy="export the model for inference.")
    return [call.value(0), dnp.ones_like(call.value(0), dtype=bool)]
