"""Numbers that a program finds out while it runs, in Python's hands: ``tensor.item()`` and its kin.

What each call finds alike, as an item of ``torch.ones(1)``, is Python's number. Another integer is a size
(``torch.SymInt``), of any sign: the difference of two that are measured. A float is a scalar of the program. A truth
value may be demanded (``torch._check``), and not branched on.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.float_sizes import FloatNode, integer
from dyn.interop.torch.sizes import IntNode, ValueNode
from dyn.interop.torch.sym_nodes import Environment
from dyn.ir.core import Value
from dyn.ir.opdef import OpKind
from dyn.ops.elementwise import convert
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer


def number_of(env: Environment, value: Tracer) -> Any:
    """The one element of a value as PyTorch holds a number; Python's own number where each call has the same."""
    scalar = dnp.reshape(value, ())
    known = _known(env.trace, scalar._value)
    if known is not None:
        return known
    match scalar.dtype.kind:
        case "b":
            return torch.SymBool(cast(Any, ValueNode(env, scalar)))
        case "u" | "i":
            return torch.SymInt(cast(Any, IntNode(env, integer(env.trace, scalar, "an item of a tensor"))))
        case "c":
            raise NotYetError(
                "a complex number of a tensor in Python's hands.", loc=user_loc(), remedy="keep it in the tensor."
            )
        case _:
            return torch.SymFloat(cast(Any, FloatNode(env, scalar.astype("float64"))))


def _known(trace: Trace, value: Value) -> bool | int | float | None:
    """The number that each call finds in a value, through views and conversions that keep it; None where none is."""
    dtype, builder = value.dtype, trace.builder
    element = builder.uniform(value)
    while element is None:
        op = builder.producer(value)
        if op is None or len(op.operands) != 1 or (op.opdef.kind is not OpKind.VIEW and op.opdef is not convert):
            return None
        value = op.operands[0]
        element = builder.uniform(value)
    with np.errstate(all="ignore"):
        number = np.asarray(element).astype(dtype.np)
    is_kept = dtype.np.kind != "c" and bool(number == element)
    return number.item() if is_kept else None
