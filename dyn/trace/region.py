"""Python functions as regions of an op: the body of a loop, a branch, what a reduction combines with.

A region has a trace of its own inside of the trace around it. Its values end with it; dims, guards and captured arrays
are those of the whole function. What its ops demand of the dims is the region's own (``Region.demands``): it is checked
where the region runs, and where it does not nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.errors import TraceError
from dyn.frozen import record
from dyn.ir.core import Region, Value
from dyn.ir.types import TensorType, same_type
from dyn.source import user_loc
from dyn.trace.context import Trace, tracing
from dyn.trace.data_dependent import refuse_escape
from dyn.trace.lift import converted, is_liftable, lift, yields_to
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text
from dyn.trace.tracer import Tracer


@record(eq=False)
class TracedRegion:
    """A region with the tree of its results; their types are those of ``region.results``."""

    region: Region
    out_tree: TreeSpec


@record(eq=False)
class Expected:
    """Results that a region has to give: a tree of values of these types. ``why`` names their source in errors."""

    tree: TreeSpec
    types: tuple[TensorType, ...]
    why: str


def trace_region(
    trace: Trace,
    call: Callable[..., Any],
    params: Sequence[TensorType],
    *,
    name: str,
    expected: Expected | None = None,
    closes: bool = True,
    differentiates: bool = False,
    rule_of: object = None,
    finds_sizes: bool = False,
) -> TracedRegion:
    """Run ``call`` on a tracer for each of ``params``, inside of ``trace``, and record what it computes.

    ``call`` takes the tracers one by one and returns a tree of arrays. With ``closes`` it may use values of the traces
    around it, which the region then reads (``Region.reads``), and arrays from outside, which become hidden parameters
    of the function; without, both are an UnsupportedOpError. Dims may be used in either case.

    With ``expected`` the results have its tree and types: weak ones (from Python numbers alone) are converted where
    they are what a Python number beside such an array would be, and anything else is a TraceError that shows both.
    Without, they stay as they are, weak ones too. ``name`` is what errors call the region: ``the body of reduce``.
    ``differentiates`` and ``rule_of`` are those of :class:`~dyn.trace.context.Trace`. The results may have sizes that
    the region finds out itself only where the caller ``finds_sizes`` of them.
    """
    inner = Trace(
        name, trace.builder.inner(), trace.sizes, trace.guards, outer=trace, closes=closes,
        differentiates=differentiates, rule_of=rule_of,
    )  # fmt: skip
    values = tuple([Value(t) for t in params])
    loc = user_loc()
    with tracing(inner):
        leaves, tree = flatten(call(*[Tracer(inner, value, loc) for value in values]))
        wanted = None if expected is None else expected.types
        if expected is not None and tree != expected.tree:
            raise TraceError(
                f"{name} gives {tree_text(tree)}, and {expected.why} are {tree_text(expected.tree)}.",
                loc=user_loc(),
                remedy="return a tree of that structure.",
            )
        results: list[Value] = []
        names = leaf_names(tree, "result")
        for number, leaf in enumerate(leaves):
            if not is_liftable(leaf):
                raise TraceError(
                    f"{name} gives a {type(leaf).__name__} ({names[number]}), which is not an array.",
                    loc=user_loc(),
                    remedy="return arrays, numbers, or trees (tuples, lists, dicts) of them.",
                )
            value = lift(inner, leaf)
            if expected is not None and wanted is not None:
                value = _as_expected(inner, value, wanted[number], lambda: names[number], expected.why)  # noqa: B023
            results.append(value)
    region = Region(values, tuple(inner.builder.ops), tuple(results), inner.builder.finished())
    if not finds_sizes:
        refuse_escape(region, name)
    return TracedRegion(region, tree)


def _as_expected(trace: Trace, value: Value, wanted: TensorType, path: Callable[[], str], why: str) -> Value:
    if not wanted.weak and yields_to(value, wanted.dtype):
        value = converted(trace, value, wanted.dtype)
    if not same_type(value.type, wanted, trace.facts):
        raise TraceError(
            f"{trace.name} gives {value.type} ({path()}), where {why} are {wanted}.",
            loc=user_loc(),
            remedy="convert it with .astype, or start from other values.",
        )
    return value
