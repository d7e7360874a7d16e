"""Checkpointing in a trace: functions that derivatives compute again, and functions with names of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dyn.trace.context import Trace
from dyn.trace.custom import call, lifted_arguments, may_be_differentiated
from dyn.trace.pytree import unflatten
from dyn.trace.region import trace_region
from dyn.trace.tracer import Tracer

Function = Callable[..., Any]


def checkpoint(
    trace: Trace, fun: Function, args: tuple[Any, ...], policy: tuple[str, ...], prevent_cse: bool, name: str
) -> Any:
    """``fun(*args)``, computed again by its derivatives. ``policy`` is the op's attribute."""
    values, tree = lifted_arguments(trace, args, name)
    if not may_be_differentiated(trace):
        return fun(*unflatten(tree, [Tracer(trace, v) for v in values]))
    called = call(trace, fun, values, tree, name)
    return called.emit("checkpoint", (called.traced.region,), policy=policy, prevent_cse=prevent_cse)


def composite(
    trace: Trace, fun: Function, args: tuple[Any, ...], name: str, version: int, attributes: tuple[Any, ...]
) -> Any:
    """``fun(*args)`` as an op of its own, which passes and transformations see through."""
    values, tree = lifted_arguments(trace, args, name)
    traced = trace_region(
        trace, lambda *leaves: fun(*unflatten(tree, list(leaves))), [v.type for v in values], name=name, closes=False
    )
    attrs = {"name": name, "version": version, "attributes": attributes}
    made = trace.emit_all("composite", *values, regions=(traced.region,), **attrs)
    return unflatten(traced.out_tree, [Tracer(trace, v) for v in made])
