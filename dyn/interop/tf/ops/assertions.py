"""Converters of assertions: facts where sizes are asserted, checks of the program where data is."""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import DomainError, ShapeError
from dyn.interop.sizes import conditions
from dyn.interop.sizes.values import SizeTensor, data
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.faults import DataFault
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.data_dependent import dim_from_value

ASKS_FOR_OTHERS = True


def claim(call: Any, condition: Any, texts: Any) -> None:
    """Demand a truth value: known, of sizes, or computed."""
    message = message_of(texts) or f"the assertion {call.node.name}"
    if isinstance(condition, SizeTensor):
        condition = condition.elements.item()
        known = conditions.known(condition, call.trace)
        if known is None:
            condition.require(call.trace)
        condition = np.array(True if known is None else known)
    if isinstance(condition, np.ndarray):
        if not condition.all():
            raise ShapeError(f"an assertion of TensorFlow's graph does not hold: {message}", loc=user_loc())
        return
    count = data(call.trace, condition).astype("int64")._value
    holds = dim_from_value(call.trace, count, "holds", f"whether this holds: {message}")
    call.trace.demand(RelKind.EQ, holds, 1, f"TensorFlow's graph asserts it: {message}")


def refuse(call: Any, found: Any, text: str, remedy: str, error: type[ShapeError | DomainError] = DomainError) -> None:
    """Have a call raise an error where a truth value of the program is true."""
    call.evaluation.state.note_fault(DataFault(text, error, user_loc(), remedy), found)


def message_of(texts: Any) -> str:
    """The texts among what an assertion shows."""
    found = [
        text for one in texts if isinstance(one, np.ndarray) and one.dtype.kind in "SUO" for text in one.reshape(-1)
    ]
    return " ".join([text.decode() if isinstance(text, bytes) else str(text) for text in found])


@takes_call("CheckNumerics", attrs=["message"])
def check_numerics(call: Any) -> Any:
    message = np.array(f"{call.attr('message')}: a tensor has NaN or Inf.")
    claim(call, dnp.all(dnp.isfinite(call.value(0))), [message])
    return call.inputs[0]


@takes_call("Assert")
def assert_(call: Any) -> Any:
    claim(call, call.inputs[0], call.inputs[1:])
    return ()
