"""Declaration of elementwise ops: one scalar function, one NumPy reference, samples of every dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.opdef import FROM_VJP, JvpRule, NoGrad, OpDef, OpKind, Reference, Sample, TypeRule
from dyn.ops.complex_parts import PartsRule
from dyn.ops.rules import ELEMENT_SHAPES, pointwise, samples
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import Formula, elementwise_vjp, pointwise_batch

Array = np.ndarray[Any, Any]

#: Two floats of 8 bits for the samples of some ops: one with infinities, one with its NaN in the place of -0.
FLOATS8 = (dtypes.float8_e5m2, dtypes.float8_e4m3fnuz)
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
COMPLEXES = (dtypes.complex64, dtypes.complex128)
SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
INTS = (*SIGNED, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
REALS = (*FLOATS, *INTS)
NUMBERS = (*REALS, *COMPLEXES)
BITS = (dtypes.bool_, *INTS)


def draw(
    arity: int, types: tuple[DType, ...] = FLOATS, low: float = -3.0, high: float = 3.0, **attrs: Any
) -> Callable[[], list[Sample]]:
    """Calls of an elementwise op at sizes 0, 1, 2, 7, 64 in each of some dtypes."""
    return samples(arity, types, low, high, ELEMENT_SHAPES, **attrs)


def quiet(fn: Callable[..., Any]) -> Reference:
    """NumPy's function without its warnings, in at least float32, rounded back to the operands' dtype."""

    def reference(*arrays: Array, **attrs: Any) -> Array:
        half = dtypes.dtype(arrays[0].dtype).is_narrow
        wide = [a.astype(np.float32) for a in arrays] if half else arrays
        with np.errstate(all="ignore"):
            result = np.asarray(fn(*wide, **attrs))
        return result.astype(arrays[0].dtype) if half and result.dtype.kind != "b" else result

    return reference


def pointwise_op(
    name: str,
    fn: Scalar,
    reference: Callable[..., Any],
    made: Callable[[], list[Sample]],
    types: TypeRule,
    *,
    grad: Formula | NoGrad,
    jvp: JvpRule | None = None,
    simplify: Callable[[Any, Any], tuple[Any, ...] | None] | None = None,
    parts: PartsRule | None = None,
) -> OpDef:
    """The op that applies ``fn`` to its operands' elements; ``parts`` says how it acts on complex numbers.

    ``grad`` is the formula of its cotangents, or why there is none; ``jvp`` that of its tangent where it is another.
    """
    smooth = not isinstance(grad, NoGrad)
    return OpDef(
        name, OpKind.POINTWISE, types=types, loops=pointwise(fn), reference=quiet(reference), samples=made,
        vjp=elementwise_vjp(grad) if smooth else grad, jvp=grad if not smooth else FROM_VJP if jvp is None else jvp,
        batch=pointwise_batch, simplify=simplify, parts=parts,
    )  # fmt: skip
