"""Numbers that a program finds out while it runs, in Python's hands: ``tensor.item()`` and its kin.

An integer is a size (``torch.SymInt``), of any sign: the difference of two that are measured. A float is a scalar of
the program. A truth value may be demanded (``torch._check``), and not branched on.
"""

from __future__ import annotations

from typing import Any, cast

import torch

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.float_sizes import FloatNode, integer
from dyn.interop.torch.sizes import IntNode, ValueNode, size_from_value
from dyn.interop.torch.sym_nodes import Environment
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer


def number_of(env: Environment, value: Tracer) -> Any:
    """The one element of a value as PyTorch holds a number."""
    scalar = dnp.reshape(value, ())
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


def demand(trace: Trace, condition: Any, text: str) -> None:
    """Demand that a truth value of the program is true, which is checked at each call: ``text`` says what it is."""
    trace.demand(RelKind.EQ, size_from_value(trace, condition, f"whether {text}"), 1, text)
