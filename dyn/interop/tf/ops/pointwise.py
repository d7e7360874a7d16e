"""Operations of one element of each operand, broadcast together as NumPy does."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import Data
from dyn.interop.sizes.values import SizeTensor, data, elements_of, is_known
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.lists import NestedList, TensorList
from dyn.interop.tf.ops.assertions import refuse
from dyn.interop.tf.optionals import Optional
from dyn.interop.tf.values import ConstantChoice, EachAxis, Reductions, known_dtype
from dyn.shapes import Dim, Reason, Relation, RelKind, SymExpr
from dyn.source import user_loc

ASKS_FOR_OTHERS = True

_PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": dnp.abs, "ComplexAbs": dnp.abs, "Neg": dnp.negative, "Sign": dnp.sign, "Exp": dnp.exp, "Expm1": dnp.expm1,
    "Log": dnp.log, "Log1p": dnp.log1p, "Sqrt": dnp.sqrt, "Rsqrt": lax.rsqrt, "Square": dnp.square,
    "Reciprocal": dnp.reciprocal, "Inv": dnp.reciprocal, "Sin": dnp.sin, "Cos": dnp.cos, "Tan": dnp.tan,
    "Asin": dnp.arcsin, "Acos": dnp.arccos, "Atan": dnp.arctan, "Sinh": dnp.sinh, "Cosh": dnp.cosh, "Tanh": dnp.tanh,
    "Asinh": dnp.arcsinh, "Acosh": dnp.arccosh, "Atanh": dnp.arctanh, "Erf": lax.erf, "Erfc": lax.erfc,
    "Erfinv": lax.erf_inv, "Lgamma": lax.lgamma, "Digamma": lax.digamma, "Floor": dnp.floor, "Ceil": dnp.ceil,
    "Rint": dnp.rint, "Round": dnp.rint, "IsNan": dnp.isnan, "IsInf": dnp.isinf, "IsFinite": dnp.isfinite,
    "Conj": dnp.conj, "Invert": dnp.bitwise_invert, "LogicalNot": dnp.logical_not, "Relu": nn.relu, "Relu6": nn.relu6,
    "Sigmoid": nn.sigmoid, "Softplus": nn.softplus, "Softsign": nn.soft_sign, "Sub": dnp.subtract,
    "Mul": dnp.multiply, "RealDiv": dnp.true_divide,
    "Maximum": dnp.maximum, "Minimum": dnp.minimum, "Atan2": dnp.arctan2,
    "LogicalAnd": dnp.logical_and, "LogicalOr": dnp.logical_or, "Less": dnp.less, "LessEqual": dnp.less_equal,
    "Greater": dnp.greater,
    "BitwiseAnd": dnp.bitwise_and, "BitwiseOr": dnp.bitwise_or, "BitwiseXor": dnp.bitwise_xor,
    "LeftShift": dnp.left_shift, "RightShift": dnp.right_shift, "NextAfter": dnp.nextafter,
    "Real": dnp.real,
    "Imag": dnp.imag, "Complex": lax.complex, "Angle": dnp.angle,
}  # fmt: skip

for _name, _function in _PLAIN.items():
    converts(_name)(_function)


@takes_call("Add", "AddV2")
def add(call: Any) -> Any:
    axes = next((n for n in range(2) if isinstance(call.inputs[n], Reductions)), None)
    if axes is None:
        return dnp.add(*[data(call.trace, call.evaluation.counted(value)) for value in call.inputs])
    own, other = call.inputs[axes], call.inputs[1 - axes]
    # The axes that a gradient is summed over, counted from another one.
    if isinstance(other, EachAxis) and other.reductions is own:
        return replace(own, first=own.first + 1)
    moved = call.numbers(1 - axes)
    if moved.ndim:  # a number for each of the axes, which it takes to know them
        return call.evaluation.counted(own) + moved
    return replace(own, first=own.first + int(moved))


@takes_call("GreaterEqual")
def greater_equal(call: Any) -> Any:
    own, least = call.inputs
    is_least = isinstance(least, np.ndarray) and least.ndim == 0
    if isinstance(own, Reductions) and is_least and own.first >= int(least):  # as parallel_for asks of its axes
        return EachAxis(own)
    return dnp.greater_equal(*[data(call.trace, call.evaluation.counted(value)) for value in call.inputs])


def _compares(name: str, function: Callable[..., Any], otherwise: bool) -> None:
    @converts(name)
    def compare(a: Data, b: Data, *, incompatible_shape_error: bool = True) -> Any:
        """Of shapes that do not broadcast, one answer: also where that depends on sizes, which are then guarded."""
        if incompatible_shape_error or _broadcasts(a, b):
            return function(a, b)
        return dnp.asarray(otherwise)


def _broadcasts(a: Data, b: Data) -> bool:
    """Whether shapes broadcast; of sizes that the program finds out it is demanded later."""
    trace, where = a._trace.here, user_loc()
    pairs = zip(reversed(a.dims), reversed(b.dims), strict=False)
    yes = [Relation(RelKind.BROADCASTS, x, y, Reason("arrays are compared", where)) for x, y in pairs]
    return all(
        trace.decide(one, Relation(RelKind.NONZERO, _misfit(one.lhs, one.rhs), 0, one.reason))
        for one in yes
        if one.symbols() <= trace.sizes.keys()
    )


def _misfit(a: Dim, b: Dim) -> Dim:
    """A number that is 0 where two sizes broadcast, and nowhere else."""
    return (a - b) * (a - 1) * (b - 1)


_compares("Equal", dnp.equal, False)
_compares("NotEqual", dnp.not_equal, True)


def divide(a: Data, b: Data) -> Any:
    """A quotient, that of integers without its fraction."""
    if not a.element_type.is_integer:
        return dnp.true_divide(a, b)
    return dnp.floor_divide(a - dnp.fmod(a, b), b)


def _divides(name: str, function: Callable[..., Any]) -> None:
    @takes_call(name)
    def run(call: Any) -> Any:
        """A quotient or a rest, of integers by none that are 0."""
        a, b = call.values()
        made = function(a, b)
        if b.element_type.is_integer and not _is_never_zero(call, call.inputs[1]):
            is_some = dnp.asarray(math.prod(made.shape)) > 0
            refuse(call, dnp.any(b == 0) & is_some, "integer division by zero", "divide by what is not 0.")
        return made


def _is_never_zero(call: Any, value: Any) -> bool:
    """Return True if a tensor is known, with no element that is 0 in any call."""
    facts = call.trace.facts
    return is_known(value) and all(
        facts.ge(one, 1).proved if isinstance(one, SymExpr) else bool(one) for one in elements_of(value).flat
    )


#: Functions of integers that are errors for a divisor of 0.
_DIVISIONS: dict[str, Callable[..., Any]] = {
    "Div": divide, "TruncateDiv": divide, "FloorDiv": dnp.floor_divide, "FloorMod": dnp.remainder,
    "TruncateMod": dnp.fmod,
}  # fmt: skip
for _name, _function in _DIVISIONS.items():
    _divides(_name, _function)


@converts("DivNoNan")
def div_no_nan(a: Data, b: Data) -> Any:
    is_zero = dnp.equal(b, 0)
    return dnp.where(is_zero, dnp.zeros_like(b), dnp.true_divide(a, dnp.where(is_zero, dnp.ones_like(b), b)))


@converts("MulNoNan")
def mul_no_nan(a: Data, b: Data) -> Any:
    return dnp.where(dnp.equal(b, 0), dnp.zeros_like(b), dnp.multiply(a, b))


@converts("Xlogy")
def xlogy(a: Data, b: Data) -> Any:
    is_zero = dnp.equal(a, 0)
    return dnp.where(is_zero, dnp.zeros_like(a), a * dnp.log(dnp.where(is_zero, dnp.ones_like(b), b)))


@converts("Xlog1py")
def xlog1py(a: Data, b: Data) -> Any:
    is_zero = dnp.equal(a, 0)
    return dnp.where(is_zero, dnp.zeros_like(a), a * dnp.log1p(dnp.where(is_zero, dnp.zeros_like(b), b)))


@converts("Xdivy")
def xdivy(a: Data, b: Data) -> Any:
    is_zero = dnp.equal(a, 0)
    return dnp.where(is_zero, dnp.zeros_like(a), dnp.true_divide(a, dnp.where(is_zero, dnp.ones_like(b), b)))


@converts("Polygamma", numbers=(0,))
def polygamma(order: Any, x: Data) -> Any:
    orders = {float(one) for one in order.flat}
    if len(orders) != 1 or order.ndim:
        raise UnsupportedOpError("tf.math.polygamma of several orders.")
    return lax.polygamma(int(orders.pop()), x)


@converts("SquaredDifference")
def squared_difference(a: Data, b: Data) -> Any:
    return dnp.square(dnp.subtract(a, b))


@converts("Pow")
def power(a: Data, b: Data) -> Any:
    return dnp.power(a, b)


@takes_call("AddN")
def add_n(call: Any) -> Any:
    if isinstance(call.inputs[0], TensorList):
        return functools.reduce(TensorList.plus, call.inputs)
    if isinstance(call.inputs[0], NestedList):
        return functools.reduce(NestedList.plus, call.inputs)
    optionals = [value for value in call.inputs if isinstance(value, Optional)]
    if optionals:
        columns = zip(*[value.leaves() for value in optionals if value.ways], strict=True)
        sums = [functools.reduce(dnp.add, column) for column in columns]
        return next((value.with_leaves(sums) for value in optionals if value.ways), optionals[0])
    return functools.reduce(dnp.add, call.values())


@takes_call("Cast", attrs=["DstT", "Truncate"])
def cast_(call: Any) -> Any:
    if isinstance(call.inputs[0], EachAxis):
        return call.inputs[0]
    return cast(data(call.trace, call.evaluation.counted(call.inputs[0])), **call.attributes(["DstT", "Truncate"]))


def cast(a: Data, *, DstT: str, Truncate: bool = False) -> Any:  # TensorFlow's names
    wanted = known_dtype(DstT)
    if Truncate and not a.element_type.is_integer:
        raise UnsupportedOpError("a conversion of floats that cuts bits off.")
    is_real = a.dtype.kind == "c" and np.dtype(wanted.np).kind != "c"
    return (dnp.real(a) if is_real else a).astype(wanted.np)


@converts("Bitcast")
def bitcast(a: Data, *, type: str) -> Any:
    return lax.bitcast_convert_type(a, known_dtype(type).np)


@takes_call("SelectV2", "Select")
def select(call: Any) -> Any:
    """A choice by elements. Of the old one, a vector of conditions is one for each row."""
    condition, a, b = call.values()
    if call.op == "Select" and len(condition.dims) == 1 and len(a.dims) > 1:
        condition = dnp.reshape(condition, (-1, *[1] * (len(a.dims) - 1)))
    made = dnp.where(condition, a, b)
    asked, *constants = call.inputs
    if (
        isinstance(asked, SizeTensor)
        and not asked.elements.ndim
        and all(isinstance(one, np.ndarray) for one in constants)
    ):
        call.evaluation.choices[made._value] = ConstantChoice(asked.elements.item(), *constants)
    return made


@converts("ClipByValue")
def clip(a: Data, low: Data, high: Data) -> Any:
    return dnp.minimum(dnp.maximum(a, low), high)


@converts("LeakyRelu")
def leaky_relu(a: Data, *, alpha: float = 0.2) -> Any:
    return dnp.where(a > 0, a, a * alpha)


@converts("Elu")
def elu(a: Data) -> Any:
    return dnp.where(a > 0, a, dnp.expm1(dnp.minimum(a, 0)))


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@converts("Selu")
def selu(a: Data) -> Any:
    return dnp.where(a > 0, a * _SELU_SCALE, dnp.expm1(dnp.minimum(a, 0)) * (_SELU_SCALE * _SELU_ALPHA))


@takes_call("ZerosLike")
def zeros_like(call: Any) -> Any:
    value = call.inputs[0]
    if isinstance(value, Optional):
        return value.mapped(dnp.zeros_like)
    return value.zeros() if isinstance(value, TensorList | NestedList) else dnp.zeros_like(call.value(0))


@converts("OnesLike")
def ones_like(a: Data) -> Any:
    return dnp.ones_like(a)


@takes_call("IdentityN")
def identity_n(call: Any) -> Any:
    return list(call.inputs)


@takes_call("Identity", "StopGradient", "PreventGradient", "Snapshot")  # gradients are TensorFlow's own graphs
def identity(call: Any) -> Any:
    return call.inputs[0]


# ---- derivatives that TensorFlow has operations for ------------------------------------------------------------------


@converts("ReluGrad")
def relu_grad(cotangent: Data, a: Data) -> Any:
    return cotangent * (a > 0)  # NaN of an infinity at a unit that is off, by which Keras knows a step that overflows


@converts("Relu6Grad")
def relu6_grad(cotangent: Data, a: Data) -> Any:
    return cotangent * ((a > 0) & (a < 6))


@converts("LeakyReluGrad")
def leaky_relu_grad(cotangent: Data, a: Data, *, alpha: float = 0.2) -> Any:
    return dnp.where(a > 0, cotangent, cotangent * alpha)


@converts("EluGrad")
def elu_grad(cotangent: Data, result: Data) -> Any:
    return dnp.where(result < 0, cotangent * (result + 1), cotangent)


@converts("SeluGrad")
def selu_grad(cotangent: Data, result: Data) -> Any:
    slope = result + _SELU_SCALE * _SELU_ALPHA
    return dnp.where(result < 0, cotangent * slope, cotangent * _SELU_SCALE)


@converts("SigmoidGrad")
def sigmoid_grad(result: Data, cotangent: Data) -> Any:
    result = dnp.conj(result)
    return cotangent * result * (1 - result)


@converts("TanhGrad")
def tanh_grad(result: Data, cotangent: Data) -> Any:
    return cotangent * (1 - dnp.square(dnp.conj(result)))


@converts("RsqrtGrad")
def rsqrt_grad(result: Data, cotangent: Data) -> Any:
    result = dnp.conj(result)
    return cotangent * -0.5 * (result * result * result)


@converts("SqrtGrad")
def sqrt_grad(result: Data, cotangent: Data) -> Any:
    return cotangent * 0.5 / dnp.conj(result)


@converts("ReciprocalGrad", "InvGrad")
def reciprocal_grad(result: Data, cotangent: Data) -> Any:
    result = dnp.conj(result)
    return -cotangent * result * result


@converts("SoftplusGrad")
def softplus_grad(cotangent: Data, a: Data) -> Any:
    return cotangent * nn.sigmoid(a)


@converts("SoftsignGrad")
def softsign_grad(cotangent: Data, a: Data) -> Any:
    return cotangent / dnp.square(1 + dnp.abs(a))
