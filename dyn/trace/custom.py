"""Functions with derivatives of their own, in a trace.

A call is an op only where derivatives may be taken of it: in a function that is being differentiated. There the rules
are traced beside the function, and become regions of the op, so that they may close over what the function may. A rule
that calls its own function is traced once for each order of derivative that is taken.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dyn.errors import TraceError
from dyn.frozen import record
from dyn.ir.core import Region, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.source import user_loc
from dyn.trace.closures import closure_converted, fitted, with_outside_parameters
from dyn.trace.context import Trace, current_trace
from dyn.trace.lift import lift_leaves
from dyn.trace.pytree import Names, TreeSpec, flatten, leaf_names, optional_leaves, tree_text, unflatten
from dyn.trace.region import TracedRegion, trace_region
from dyn.trace.tracer import Tracer

Function = Callable[..., Any]


@record(eq=False)
class Orders:
    """A question of a function that is called in a trace: whether derivatives are taken of an op in it.

    Inside of the function they are taken of ``more`` orders than the op is deep in rules of ``rule``.
    """

    rule: object
    more: int
    answer: bool

    def holds_in(self, trace: Trace | None) -> bool:
        """Whether the answer is the same for a call in another trace; for one from outside of all where it is None."""
        found = self.more > 0 if trace is None else may_be_differentiated(trace, self.rule, self.more)
        return found is self.answer


def may_be_differentiated(trace: Trace, rule: object = None, more: int = 0) -> bool:
    """Whether derivatives are taken of what ``trace`` computes: of more orders than it is deep in rules of ``rule``."""
    asking: list[tuple[Trace, int]] = []
    each: Trace | None = trace
    while each is not None:
        more += each.differentiates
        more -= rule is not None and each.rule_of is rule
        if each is each.program:
            asking.append((each, more))
        each = each.outer
    for program, inside in asking:
        program.derivatives.append(Orders(rule, inside, more > 0))
    return more > 0


@record(eq=False)
class Called:
    """A call in a trace: the arguments as values, and the function as a region of them."""

    trace: Trace
    name: str
    args: tuple[Value, ...]
    tree: TreeSpec
    traced: TracedRegion

    @property
    def results(self) -> tuple[Value, ...]:
        return self.traced.region.results

    def result_names(self) -> Names:
        """Names of the results in errors."""
        return leaf_names(self.traced.out_tree, "the result")

    def emit(self, opdef: str, regions: Sequence[Region], **attrs: Any) -> Any:
        """The op with these regions, and with what they close over for more operands; what the function returns."""
        own, free = closure_converted(self.trace, regions)
        own = [with_outside_parameters(region, free, len(region.params)) for region in own]
        made = self.trace.emit_all(opdef, *self.args, *free, regions=tuple(own), **attrs)
        return unflatten(self.traced.out_tree, [Tracer(self.trace, v) for v in made])


def lifted_arguments(trace: Trace, args: Any, name: str) -> tuple[tuple[Value, ...], TreeSpec]:
    """The leaves of arguments as values. ArgumentError for what is no array."""
    leaves, tree = flatten(args)
    return tuple(lift_leaves(trace, leaves, leaf_names(tree, "args"), name)), tree


def call(trace: Trace, fun: Function, values: tuple[Value, ...], tree: TreeSpec, name: str) -> Called:
    """The function traced for these arguments."""
    traced = trace_region(
        trace, lambda *leaves: fun(*unflatten(tree, list(leaves))), [v.type for v in values], name=name
    )
    return Called(trace, name, values, tree, traced)


# --- cotangents of one's own --------------------------------------------------------------------------------------


def custom_vjp(
    trace: Trace, rule: object, functions: tuple[Function, Function, Function], args: tuple[Any, ...], name: str
) -> Any:
    """``functions[0](*args)``, whose derivative is by the other two: the forward and the backward rule."""
    fun, fwd, bwd = functions
    values, tree = lifted_arguments(trace, args, name)
    if not may_be_differentiated(trace, rule):
        return fun(*unflatten(tree, [Tracer(trace, v) for v in values]))
    called = call(trace, fun, values, tree, name)
    forward, residuals, static = _forward(called, rule, fwd)
    backward, places = _backward(called, rule, bwd, residuals, static)
    regions = (called.traced.region, forward, backward)
    return called.emit("custom_vjp_call", regions, name=name, explicit=len(values), cotangents=places)


#: The leaves of a forward rule's residuals, and their tree: the tracers among them are values of the program, and what
#: else there is is handed on as it is.
_Residuals = tuple[list[Any], TreeSpec]


def _forward(called: Called, rule: object, fwd: Function) -> tuple[Region, list[TensorType], _Residuals]:
    """The forward rule: the results, and then the residuals that are arrays."""
    what, kept = f"the forward rule of {called.name}", list[_Residuals]()

    def run(*leaves: Tracer) -> Any:
        made = fwd(*unflatten(called.tree, list(leaves)))
        if not isinstance(made, tuple) or len(made) != 2:
            raise TraceError(
                f"{what} returns a pair (result, residuals), and it returned a {type(made).__name__}.",
                loc=user_loc(),
                remedy="return (result, None) where nothing is kept.",
            )
        result, residuals = made
        own, tree = flatten(result)
        if tree != called.traced.out_tree:
            _other_tree(f"{what} gives another result than the function.", "rule", tree, "function", called)
        kept.append(flatten(residuals))
        return [*own, *(leaf for leaf in kept[0][0] if isinstance(leaf, Tracer))]

    types = [v.type for v in called.args]
    traced = trace_region(called.trace, run, types, name=what, rule_of=rule)
    wanted = [v.type for v in called.results]
    region = fitted(called.trace, traced.region, wanted, called.result_names(), what, "what the function gives")
    return region, [v.type for v in region.results[len(wanted) :]], kept[0]


def _other_tree(problem: str, what: str, tree: TreeSpec, other: str, called: Called) -> NoReturn:
    width = max(len(what), len(other)) + 1
    raise TraceError(
        problem,
        loc=user_loc(),
        notes=(f"{what + ':':{width}} {tree_text(tree)}", f"{other + ':':{width}} {tree_text(called.traced.out_tree)}"),
        remedy="return a tree of the function's structure.",
    )


def _backward(
    called: Called, rule: object, bwd: Function, types: list[TensorType], kept: _Residuals
) -> tuple[Region, tuple[int, ...]]:
    """The backward rule, and the numbers of the arguments that it gives cotangents of."""
    what, places = f"the backward rule of {called.name}", list[int]()
    leaves, tree = kept

    def run(*given: Tracer) -> Any:
        arrays = iter(given)
        residuals = unflatten(tree, [next(arrays) if isinstance(leaf, Tracer) else leaf for leaf in leaves])
        made = bwd(residuals, unflatten(called.traced.out_tree, list(arrays)))
        found: list[Tracer] = []
        for place, ct in enumerate(_cotangents(called, made, what)):
            if ct is not None and called.args[place].dtype.is_inexact:
                places.append(place)
                found.append(ct)
        return found

    params = [*types, *(TensorType(v.dtype, v.shape) for v in called.results)]
    traced = trace_region(called.trace, run, params, name=what, rule_of=rule)
    names = leaf_names(called.tree, "args")
    wanted = [TensorType(called.args[i].dtype, called.args[i].shape) for i in places]
    named = [f"the cotangent of {names[i]}" for i in places]
    return fitted(called.trace, traced.region, wanted, named, what, "the argument"), tuple(places)


def _cotangents(called: Called, made: Any, what: str) -> list[Any]:
    """The leaves of what a backward rule returned, None for zeros."""
    given = tuple(made) if isinstance(made, list) else made
    found = optional_leaves(given, called.tree) if isinstance(given, tuple) else None
    if found is None:
        raise TraceError(
            f"{what} gives cotangents of another structure than the arguments.",
            loc=user_loc(),
            notes=(f"cotangents: {tree_text(flatten(made)[1])}", f"arguments:  {tree_text(called.tree)}"),
            remedy="return a tuple with a cotangent for each argument that is not in nondiff_argnums, or None where it "
            "is zero.",
        )
    return found


# --- tangents of one's own ----------------------------------------------------------------------------------------


def custom_jvp(trace: Trace, rule: object, fun: Function, jvp: Function, args: tuple[Any, ...], name: str) -> Any:
    """``fun(*args)``, whose derivative is by ``jvp(primals, tangents)``."""
    values, tree = lifted_arguments(trace, args, name)
    if not may_be_differentiated(trace, rule):
        return fun(*unflatten(tree, [Tracer(trace, v) for v in values]))
    called = call(trace, fun, values, tree, name)
    regions = (called.traced.region, _tangents(called, rule, jvp))
    return called.emit("custom_jvp_call", regions, name=name, explicit=len(values))


def _tangents(called: Called, rule: object, jvp: Function) -> Region:
    """The rule: the results, and then the tangents of the smooth ones."""
    what, count = f"the jvp rule of {called.name}", len(called.args)

    def run(*leaves: Tracer) -> Any:
        primals, tangents = (unflatten(called.tree, list(part)) for part in (leaves[:count], leaves[count:]))
        made = jvp(primals, tangents)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TraceError(
                f"{what} returns a pair (result, tangent), and it returned a {type(made).__name__}.",
                loc=user_loc(),
                remedy="return (result, tangent).",
            )
        result, tangent = made
        own, tree = flatten(result)
        if tree != called.traced.out_tree:
            _other_tree(f"{what} gives another result than the function.", "rule", tree, "function", called)
        found = optional_leaves(tangent, tree)
        if found is None:
            problem = f"{what} gives a tangent of another structure than the result."
            _other_tree(problem, "tangent", flatten(tangent)[1], "result", called)
        pairs = zip(found, called.results, strict=True)
        return [*own, *(_or_zeros(t, v) for t, v in pairs if v.dtype.is_inexact)]

    types = [*(v.type for v in called.args), *(TensorType(v.dtype, v.shape) for v in called.args)]
    traced = trace_region(called.trace, run, types, name=what, rule_of=rule)
    smooth = [(v, n) for v, n in zip(called.results, called.result_names(), strict=True) if v.dtype.is_inexact]
    wanted = [*(v.type for v in called.results), *(TensorType(v.dtype, v.shape) for v, _ in smooth)]
    names = [*called.result_names(), *(f"the tangent of {name}" for _, name in smooth)]
    return fitted(called.trace, traced.region, wanted, names, what, "what the function gives")


def _or_zeros(tangent: Any, like: Value) -> Any:
    if tangent is not None:
        return tangent
    inner = current_trace()
    assert inner is not None  # a rule runs in a trace of its own
    return Tracer(inner, zeros(inner.builder, TensorType(like.dtype, like.shape)))


def added(trees: Sequence[Any]) -> Any:
    """Trees of one structure, added up leaf by leaf; None for no trees."""
    if not trees:
        return None
    leaves, specs = zip(*(flatten(tree) for tree in trees), strict=True)
    return unflatten(specs[0], [functools.reduce(operator.add, column) for column in zip(*leaves, strict=True)])
