"""Functions of one element: arithmetic, comparisons, logic, activations."""

from __future__ import annotations

from typing import Any

from torch._prims_common import elementwise_dtypes

import dyn.numpy as dnp
from dyn import nn
from dyn.interop.torch.aten.domains import require_divisor, require_power
from dyn.interop.torch.aten.tables import Promotion, cast, converts, named_order, operands_order, pointwise, takes_call
from dyn.interop.torch.tensors import known_dtype, numpy_dtype
from dyn.interop.torch.tracing import TorchTracing
from dyn.late_imports import import_whole
from dyn.trace.tracer import Tracer

#: What is asked of sizes here is asked by the operation that the user calls.
ASKS_FOR_OTHERS = True

_FLOAT, _BOOL = Promotion.INT_TO_FLOAT, Promotion.ALWAYS_BOOL


def _scaled(value: Any, alpha: Any) -> Any:
    return value if isinstance(alpha, int) and alpha == 1 else value * dnp.asarray(alpha, dtype=value.dtype)


@pointwise("add.Tensor", "add.Scalar", operands=2)
def add(a: Any, b: Any, alpha: Any = 1) -> Any:
    if a.element_type.name == "bool":
        return dnp.logical_or(a, b)
    return a + _scaled(b, alpha)


@pointwise("sub.Tensor", "sub.Scalar", operands=2)
def sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return a - _scaled(b, alpha)


@pointwise("rsub.Tensor", "rsub.Scalar", operands=2)
def rsub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return b - _scaled(a, alpha)


@pointwise("mul.Tensor", "mul.Scalar", operands=2)
def mul(a: Any, b: Any) -> Any:
    return dnp.logical_and(a, b) if a.element_type.name == "bool" else a * b


@pointwise("prims::fma", operands=3)
def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, which may be rounded twice: Inductor's, which Dynamo writes ``addcmul_`` and its kin with."""
    return a * b + c


@pointwise("div.Tensor", "div.Scalar", operands=2, promotion=_FLOAT)
def div(a: Any, b: Any) -> Any:
    return dnp.true_divide(a, b)


@pointwise("div.Tensor_mode", "div.Scalar_mode", operands=2)
def div_mode(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return dnp.true_divide(a, b)
    if rounding_mode == "floor":
        return require_divisor(dnp.floor_divide(a, b), b, "div")
    if a.dtype.kind in "iu":
        quotient = require_divisor(dnp.floor_divide(a, b), b, "div")
        return quotient + ((dnp.remainder(a, b) != 0) & ((a < 0) != (b < 0)))
    return dnp.trunc(dnp.true_divide(a, b))


@pointwise("floor_divide.default", "floor_divide.Scalar", operands=2)
def floor_divide(a: Any, b: Any) -> Any:
    return require_divisor(dnp.floor_divide(a, b), b, "floor_divide")


@pointwise("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", operands=2)
def remainder(a: Any, b: Any) -> Any:
    return require_divisor(dnp.remainder(a, b), b, "remainder")


@pointwise("fmod.Tensor", "fmod.Scalar", operands=2)
def fmod(a: Any, b: Any) -> Any:
    return require_divisor(dnp.fmod(a, b), b, "fmod")


@pointwise("pow.Tensor_Tensor", "pow.Scalar", operands=2, promotion=Promotion.BOOL_TO_LONG)
def pow(a: Any, b: Any) -> Any:
    return dnp.power(a, b)


@pointwise("pow.Tensor_Scalar", operands=2, promotion=Promotion.BOOL_TO_LONG)
def pow_scalar(a: Any, b: Any) -> Any:
    require_power(b, a)
    return dnp.power(a, b)


@pointwise("maximum.default", "clamp_min.default", "clamp_min.Tensor", operands=2)
def maximum(a: Any, b: Any) -> Any:
    return dnp.maximum(a, b)


@pointwise("minimum.default", "clamp_max.default", "clamp_max.Tensor", operands=2)
def minimum(a: Any, b: Any) -> Any:
    return dnp.minimum(a, b)


@pointwise("atan2.default", operands=2, promotion=_FLOAT)
def atan2(a: Any, b: Any) -> Any:
    return dnp.arctan2(a, b)


@pointwise("hypot.default", operands=2)
def hypot(a: Any, b: Any) -> Any:
    return dnp.hypot(a, b)


@pointwise("copysign.Tensor", "copysign.Scalar", operands=2, promotion=_FLOAT)
def copysign(a: Any, b: Any) -> Any:
    return dnp.copysign(a, b)


@takes_call("clamp.default", "clamp.Tensor", order=operands_order)
def clamp(tracing: TorchTracing, value: Any, min: Any = None, max: Any = None) -> Any:
    tracing.decide_broadcast([value, min, max])
    bounds = [bound for bound in (min, max) if bound is not None]
    dtype = known_dtype(elementwise_dtypes(value, *bounds, type_promotion_kind=Promotion.DEFAULT)[1])
    result = cast(tracing.value(value), dtype)
    if min is not None:
        result = dnp.maximum(result, cast(tracing.value(min), dtype))
    return result if max is None else dnp.minimum(result, cast(tracing.value(max), dtype))


@takes_call("hardtanh.default", order=operands_order)
def hardtanh(tracing: TorchTracing, value: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    dtype = known_dtype(value.dtype)
    low, high = (cast(tracing.value(bound), dtype) for bound in (min_val, max_val))
    return dnp.minimum(dnp.maximum(tracing.value(value), low), high)


_TWO = {
    "eq": dnp.equal, "ne": dnp.not_equal, "lt": dnp.less, "le": dnp.less_equal, "gt": dnp.greater,
    "ge": dnp.greater_equal,
}  # fmt: skip
for _name, _function in _TWO.items():
    pointwise(f"{_name}.Tensor", f"{_name}.Scalar", operands=2, promotion=_BOOL)(_function)
for _name, _function in {
    "logical_and": dnp.logical_and, "logical_or": dnp.logical_or, "logical_xor": dnp.logical_xor,
}.items():  # fmt: skip
    pointwise(f"{_name}.default", operands=2, promotion=_BOOL)(_function)
for _name, _function in {
    "bitwise_and": dnp.bitwise_and, "bitwise_or": dnp.bitwise_or, "bitwise_xor": dnp.bitwise_xor,
}.items():  # fmt: skip
    pointwise(f"{_name}.Tensor", f"{_name}.Scalar", operands=2)(_function)
for _name, _function in {"__lshift__": dnp.left_shift, "__rshift__": dnp.right_shift}.items():
    pointwise(f"{_name}.Tensor", f"{_name}.Scalar", operands=2)(_function)
for _name, _function in {
    "acos": dnp.arccos, "acosh": dnp.arccosh, "asin": dnp.arcsin, "asinh": dnp.arcsinh, "atan": dnp.arctan,
    "atanh": dnp.arctanh, "cos": dnp.cos, "cosh": dnp.cosh, "sin": dnp.sin, "sinh": dnp.sinh, "tan": dnp.tan,
    "tanh": dnp.tanh, "exp": dnp.exp, "exp2": dnp.exp2, "expm1": dnp.expm1, "log": dnp.log, "log2": dnp.log2,
    "log10": dnp.log10, "log1p": dnp.log1p, "sqrt": dnp.sqrt,
}.items():  # fmt: skip
    pointwise(f"{_name}.default", operands=1, promotion=_FLOAT)(_function)


def sign(a: Any) -> Any:
    """-1, 0 or 1; of truth values these themselves."""
    return a if a.dtype.kind == "b" else dnp.sign(a)


for _name, _function in {
    "neg": dnp.negative, "sign": sign, "floor": dnp.floor, "ceil": dnp.ceil, "trunc": dnp.trunc,
    "bitwise_not": dnp.bitwise_not, "round": dnp.round, "positive": dnp.positive,
}.items():  # fmt: skip
    pointwise(f"{_name}.default", operands=1)(_function)
for _name, _function in {
    "isinf": dnp.isinf,
    "isnan": dnp.isnan,
    "logical_not": dnp.logical_not,
    "signbit": dnp.signbit,
}.items():
    pointwise(f"{_name}.default", operands=1, promotion=_BOOL)(_function)
pointwise("abs.default", operands=1, promotion=Promotion.COMPLEX_TO_FLOAT)(dnp.abs)


@pointwise("rsqrt.default", operands=1, promotion=_FLOAT)
def rsqrt(a: Any) -> Any:
    return 1 / dnp.sqrt(a)


@pointwise("reciprocal.default", operands=1, promotion=_FLOAT)
def reciprocal(a: Any) -> Any:
    return 1 / a


@pointwise("sigmoid.default", operands=1, promotion=_FLOAT)
def sigmoid(a: Any) -> Any:
    return nn.sigmoid(a)


@pointwise("relu.default", operands=1)
def relu(a: Any) -> Any:
    return dnp.maximum(a, dnp.asarray(0, dtype=a.dtype))


@pointwise("silu.default", operands=1)
def silu(a: Any) -> Any:
    return a * nn.sigmoid(a)


@pointwise("gelu.default", operands=1)
def gelu(a: Any, approximate: str = "none") -> Any:
    return nn.gelu(a, approximate=approximate == "tanh")


@pointwise("leaky_relu.default", operands=1)
def leaky_relu(a: Any, negative_slope: float = 0.01) -> Any:
    return dnp.where(a > 0, a, a * negative_slope)


@pointwise("elu.default", operands=1)
def elu(a: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return dnp.where(a > 0, a * scale, dnp.expm1(a * input_scale) * (alpha * scale))


@pointwise("softplus.default", operands=1)
def softplus(a: Any, beta: float = 1, threshold: float = 20) -> Any:
    return dnp.where(a * beta > threshold, a, dnp.log1p(dnp.exp(a * beta)) / beta)


@pointwise("erf.default", operands=1, promotion=_FLOAT)
def erf(a: Any) -> Any:
    import_whole("dyn.lax")
    from dyn import lax

    return lax.erf(a)


@pointwise("threshold_backward.default", operands=2)
def threshold_backward(cotangent: Any, a: Any, threshold: Any) -> Any:
    return dnp.where(a <= dnp.asarray(threshold, dtype=a.dtype), dnp.zeros_like(cotangent), cotangent)


def _wide(a: Any) -> Any:
    return a.astype("float32") if a.element_type.bits < 32 else a


@converts("mish_backward.default", order=operands_order)
def mish_backward(cotangent: Any, a: Any) -> Any:
    """In the dtype of the number, not of the cotangent."""
    x, one = _wide(a), dnp.asarray(1, dtype=_wide(a).dtype)
    squashed = dnp.tanh(dnp.logaddexp(x, dnp.zeros_like(x)))
    slope = squashed + x * (one / (one + dnp.exp(-x))) * (one - squashed * squashed)
    return (_wide(cotangent) * slope).astype(a.dtype)


@converts("huber_loss.default", order=lambda args, kwargs: operands_order(args[:2], {}))
def huber_loss(a: Any, target: Any, reduction: int = 1, delta: Any = 1.0) -> Any:
    """In the dtype of the input, not of the target. ``reduction`` is PyTorch's number: none, mean or sum."""
    off = dnp.abs(_wide(a) - _wide(target))
    loss = dnp.where(off <= delta, 0.5 * off * off, delta * (off - 0.5 * delta)).astype(a.dtype)
    if not reduction:
        return loss
    return (dnp.mean if reduction == 1 else dnp.sum)(_wide(loss)).astype(a.dtype)


@takes_call("where.self", "prims::where.default", order=operands_order)
def where(tracing: TorchTracing, condition: Any, a: Any, b: Any) -> Any:
    tracing.decide_broadcast([condition, a, b])
    dtype = known_dtype(elementwise_dtypes(a, b, type_promotion_kind=Promotion.NO_OPMATH)[1])
    return dnp.where(tracing.value(condition), cast(tracing.value(a), dtype), cast(tracing.value(b), dtype))


@converts("masked_fill.Scalar", "masked_fill.Tensor")  # which PyTorch writes into a contiguous copy
def masked_fill(a: Any, mask: Any, value: Any) -> Any:
    return dnp.where(mask, dnp.asarray(value).astype(a.dtype), a)


@converts("_to_copy.default", order=named_order)
def to_copy(a: Tracer, dtype: Any = None, **options: Any) -> Any:
    if not isinstance(a, Tracer):  # PyTorch hands a number on as it is, where it batches operations
        a = dnp.asarray(a)
    return a if dtype is None else a.astype(numpy_dtype(dtype))


@converts("prims::convert_element_type.default", order=operands_order)
def convert(a: Tracer, dtype: Any) -> Any:
    return a.astype(numpy_dtype(dtype))


@converts("clone.default", "lift_fresh_copy.default", order=named_order)
def clone(a: Any, memory_format: Any = None) -> Any:
    return a


# ---- what PyTorch's own decompositions come down to ------------------------------------------------------------------

for _name, _function in {
    "add": dnp.add, "sub": dnp.subtract, "mul": dnp.multiply, "div": dnp.true_divide, "maximum": dnp.maximum,
    "minimum": dnp.minimum, "pow": dnp.power, "remainder": dnp.remainder, "fmod": dnp.fmod, "atan2": dnp.arctan2,
}.items():  # fmt: skip
    pointwise(f"prims::{_name}.default", operands=2)(_function)
for _name, _function in _TWO.items():
    pointwise(f"prims::{_name}.default", operands=2, promotion=_BOOL)(_function)
for _name, _function in {
    "sqrt": dnp.sqrt, "exp": dnp.exp, "log": dnp.log, "tanh": dnp.tanh, "sin": dnp.sin, "cos": dnp.cos,
    "neg": dnp.negative, "abs": dnp.abs, "floor": dnp.floor, "ceil": dnp.ceil, "sign": dnp.sign, "round": dnp.round,
    "rsqrt": rsqrt, "reciprocal": reciprocal, "expm1": dnp.expm1, "log1p": dnp.log1p,
}.items():  # fmt: skip
    pointwise(f"prims::{_name}.default", operands=1)(_function)
