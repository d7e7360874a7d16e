"""Branches: graphs of which one runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import lax
from dyn.interop.onnx.evaluation import takes_call
from dyn.interop.sizes import conditions
from dyn.interop.sizes.values import SizeTensor, data
from dyn.trace.context import current_trace

ASKS_FOR_OTHERS = True


@takes_call("If", attrs=["then_branch", "else_branch"])
def if_(call: Any) -> Any:
    """Of a condition on sizes one branch is read, as in Python; of one that is computed both are."""
    given = call.inputs[0]
    branches = call.attribute("then_branch"), call.attribute("else_branch")
    if isinstance(given, SizeTensor):
        condition = given.elements.item()
        if not condition.symbols() <= call.trace.sizes.keys() and conditions.known(condition, call.trace) is None:
            return list(lax.cond(condition.computed(call.trace), *[_region(call, branch) for branch in branches]))
        way = conditions.decide(condition, call.trace)
    elif isinstance(given, np.ndarray):
        way = bool(given.reshape(()))
    else:
        return list(lax.cond(call.value(0).reshape(()), *[_region(call, branch) for branch in branches]))
    return call.evaluation.run(branches[0 if way else 1], [], call.around)


def _region(call: Any, branch: Any) -> Any:
    def run() -> tuple[Any, ...]:
        trace = current_trace()
        assert trace is not None, "branches are traced"
        return tuple([data(trace, one) for one in call.evaluation.run(branch, [], call.around)])

    return run
