"""Derivatives of Python functions inside a trace: ``vjp`` and ``jvp``, and what is made of them.

A function is traced once, apart from the program around it, and written into it; its derivatives are ops like any
others, so that transformations nest, and one program serves every shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.dtypes import Kind
from dyn.errors import ArgumentError, ShapeError
from dyn.frozen import record
from dyn.ir.core import Op, Region, Value
from dyn.ir.differentiate import gathered, leading_to, pull_back, push_forward, zeros
from dyn.ir.inline_regions import splice
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.lift import is_liftable, lift, lift_leaves
from dyn.trace.pytree import Names, TreeSpec, flatten, leaf_names, tree_text, unflatten
from dyn.trace.region import trace_region
from dyn.trace.tracer import Tracer, renewed


@record(eq=False)
class Leaves:
    """A tree of arrays in a trace, as values. ``roots`` is what the user calls it, or what its parts are called."""

    values: tuple[Value, ...]
    tree: TreeSpec
    roots: str | tuple[str, ...]

    @staticmethod
    def of(trace: Trace, args: tuple[Any, ...], roots: tuple[str, ...], function: str) -> Leaves:
        """Arguments: trees of arrays and numbers. ArgumentError for anything else."""
        leaves, spec = flatten(args)
        names = Leaves((), spec, roots).names()
        return Leaves(tuple(lift_leaves(trace, leaves, names, function)), spec, roots)

    def names(self) -> Names:
        """Names of the leaves, as the user would write them."""
        tree, roots = self.tree, self.roots
        if isinstance(roots, str):
            return leaf_names(tree, roots)
        parts = zip(roots, tree.children(), strict=True)
        return Names(tree.num_leaves, lambda: [name for root, part in parts for name in leaf_names(part, root)])

    def filled(self, trace: Trace, values: Sequence[Value | None]) -> Any:
        """A tree like this one: zeros where there is no value, and weak where this one is."""
        made: list[Tracer] = []
        for own, value in zip(self.values, values, strict=True):
            value = zeros(trace.builder, own.type) if value is None else value
            if own.type.weak and not value.type.weak:
                value = trace.builder.op("convert", value, dtype=own.dtype, weak=True)
            made.append(Tracer(trace, value))
        return unflatten(self.tree, list(made))


@record(eq=False)
class Linearized:
    """A function that was written into the program, at ``primals``: its results, and how it got to them."""

    trace: Trace
    function: str
    primals: Leaves
    results: Leaves
    #: What else it returned.
    aux: Any
    ops: tuple[Op, ...]
    #: What the derivatives are by: ``primals``, or copies of those that the function reads from outside too.
    inputs: tuple[Value, ...]

    def pull(self, cotangents: Any) -> Any:
        """The cotangents of the primals, from those of the results; trees like theirs."""
        return self.pulled(self.matched(cotangents, self.results, "cotangent"))

    def here(self) -> Trace:
        """The trace that derivatives are written into: the one it was made in, or that of a region there."""
        here = self.trace.here
        here.read_from(self.trace)
        return here

    def pulled(self, cotangents: Sequence[Value | None]) -> Any:
        """The cotangents of the primals, from those of the results that are not zero."""
        here = self.here()
        b = here.builder
        known = gathered(b, self.results.values, cotangents)
        return self.primals.filled(here, pull_back(b, self.ops, known, self.inputs))

    def push(self, tangents: Any) -> Any:
        """The tangents of the results, from those of the primals; trees like theirs."""
        return self.pushed(self.matched(tangents, self.primals, "tangent"))

    def pushed(self, tangents: Sequence[Value | None]) -> Any:
        """The tangents of the results, from those of the primals that are not zero."""
        here = self.here()
        known = {v: t for v, t in zip(self.inputs, tangents, strict=True) if t is not None and v.dtype.is_inexact}
        push_forward(here.builder, leading_to(self.ops, self.results.values), known)
        return self.results.filled(here, [known.get(v) for v in self.results.values])

    def result(self) -> Any:
        """Result of the function, in the trace that differentiates it."""
        here = self.here()
        return unflatten(self.results.tree, [Tracer(here, v) for v in self.results.values])

    def matched(self, tree: Any, like: Leaves, what: str) -> list[Value]:
        """The leaves of a tree of cotangents or tangents, of the types of what they belong to."""
        leaves, spec = flatten(tree)
        require_tree(spec, like.tree, what, self.function)
        made: list[Value] = []
        here = self.here()
        names = like.names()
        for number, (leaf, value) in enumerate(zip(leaves, like.values, strict=True)):
            given = lift(here, leaf)
            if given.type.weak and given.dtype is not value.dtype:
                given = here.emit("convert", given, dtype=value.dtype)
            if given.type != value.type:
                self._require_fit(given, value, f"the {what} of {names[number]}")
            made.append(given)
        return made

    def _require_fit(self, given: Value, value: Value, what: str) -> None:
        if given.dtype is not value.dtype and value.dtype.is_inexact:
            raise ArgumentError(
                f"{self.function}: {what} is {given.dtype.name}, and must be {value.dtype.name}.",
                loc=user_loc(),
                remedy="convert it with .astype.",
            )
        if given.type.rank != value.type.rank:
            raise ShapeError(
                f"{self.function}: {what} has {given.type.rank} axes, and must have {value.type.rank}: {value.type}.",
                loc=user_loc(),
                remedy="pass an array of the same shape.",
            )
        for axis, (a, b) in enumerate(zip(given.shape, value.shape, strict=True)):
            self.trace.demand(RelKind.EQ, a, b, f"{what} has its size on axis {axis}")


def require_tree(given: TreeSpec, like: TreeSpec, what: str, function: str) -> None:
    """Refuse cotangents or tangents, which ``what`` is one of, that are no tree like what they belong to."""
    if given != like:
        raise ArgumentError(
            f"{function}: the {what}s are {tree_text(given)}, and what they belong to is {tree_text(like)}.",
            loc=user_loc(),
            remedy=f"pass a tree of {what}s of that structure.",
        )


def linearize(
    trace: Trace, function: Callable[..., Any], args: tuple[Any, ...], roots: tuple[str, ...], name: str,
    *, has_aux: bool = False,
) -> Linearized:  # fmt: skip
    """Write ``function(*args)`` into the program. ``name`` is what errors call it, ``roots`` what they call ``args``.

    With ``has_aux`` the function returns a pair, of which the second is only handed on.
    """
    primals = Leaves.of(trace, args, roots, name)
    #: The leaves of what is handed on, and their tree.
    aside: tuple[list[Any], TreeSpec] = flatten(None)

    def call(*tracers: Tracer) -> Any:
        nonlocal aside
        made = function(*unflatten(primals.tree, list(tracers)))
        if has_aux:
            made, aux = _pair(made, name)
            aside = flatten(aux)
        return made, [leaf for leaf in aside[0] if is_liftable(leaf)]

    traced = trace_region(trace, call, [v.type for v in primals.values], name=name, differentiates=True)
    inputs = _distinct(trace, traced.region, primals.values)
    start = len(trace.builder.ops)
    values = splice(trace.builder, traced.region, inputs, prepare=True)
    made, arrays = unflatten(traced.out_tree, [Tracer(trace, v) for v in values])
    leaves, tree = flatten(made)
    arrays = iter(arrays)
    aux = unflatten(aside[1], [next(arrays) if is_liftable(leaf) else leaf for leaf in aside[0]])
    results = Leaves(values[: len(leaves)], tree, "the result")
    return Linearized(trace, name, primals, results, aux, tuple(trace.builder.ops[start:]), inputs)


def _pair(made: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(made, tuple) or len(made) != 2:
        raise ArgumentError(
            f"{name}: with has_aux=True the function returns a pair, and it returned a {type(made).__name__}.",
            loc=user_loc(),
            remedy="return (result, aux).",
        )
    return made


def _distinct(trace: Trace, region: Region, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values, and copies of those that stand there twice, or that the region reads from outside as well."""
    seen = set(region.reads())
    made: list[Value] = []
    for value in values:
        own = trace.builder.op("copy", value) if value in seen else value
        seen.add(value)
        made.append(own)
    return tuple(made)


def check_inputs(found: Linearized, *, holomorphic: bool, allow_int: bool) -> None:
    """Refuse to differentiate by what has no derivative."""
    names = found.primals.names()
    for number, value in enumerate(found.primals.values):
        if holomorphic and value.dtype.kind is not Kind.COMPLEX:
            _refuse(
                found,
                f"holomorphic=True takes complex arguments, and {names[number]} is {value.dtype.name}",
                "leave it out.",
            )
        if value.dtype.kind is Kind.COMPLEX and not holomorphic:
            _refuse(
                found,
                f"{names[number]} is {value.dtype.name}, and a derivative by complex numbers is defined for "
                "holomorphic functions",
                "pass holomorphic=True where the function is, or use vjp.",
            )
        if not value.dtype.is_inexact and not allow_int:
            _refuse(
                found,
                f"{names[number]} is {value.dtype.name}, and a derivative by integers or booleans is not defined",
                "convert it to a float, leave it out of argnums, or pass allow_int=True for zeros.",
            )


def seed(found: Linearized, *, holomorphic: bool) -> Value:
    """The cotangent 1 of a scalar result."""
    if len(found.results.values) != 1 or found.results.values[0].shape:
        shown = tree_text(found.results.tree)
        if len(found.results.values) == 1:
            shown = str(found.results.values[0].type)
        _refuse(
            found, f"the function returns {shown}, and not a scalar", "reduce it, with .sum() or .mean(), or use vjp."
        )
    (value,) = found.results.values
    if not value.dtype.is_inexact or (value.dtype.kind is Kind.COMPLEX) is not holomorphic:
        wanted = "a complex number" if holomorphic else "a float"
        _refuse(found, f"the function returns {value.dtype.name}, and not {wanted}", "convert it, or use vjp.")
    return found.trace.constant(value.dtype.np.type(1).reshape(()))


def _refuse(found: Linearized, problem: str, remedy: str) -> None:
    raise ArgumentError(f"{found.function}: {problem}.", loc=user_loc(), remedy=remedy)


def normal_argnums(argnums: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """Positions of arguments, counted from the front."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in numbers:
        if not -count <= number < count:
            raise ArgumentError(
                f"{what}: argnums={argnums}, and the function was called with {count} positional arguments.",
                loc=user_loc(),
                remedy="pass that argument by position.",
            )
    return tuple(number % count for number in numbers)


# --- what is made of them -------------------------------------------------------------------------------------------


@record()
class GradOptions:
    """The options of ``grad`` and its kin."""

    argnums: int | tuple[int, ...] = 0
    has_aux: bool = False
    holomorphic: bool = False
    allow_int: bool = False

    def one(self) -> bool:
        """Whether it is one argument, and not a tuple of some."""
        return isinstance(self.argnums, int)


def by_arguments(
    trace: Trace, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: GradOptions,
    name: str,
) -> Linearized:  # fmt: skip
    """The function of the arguments that ``options`` name, written into the program."""
    numbers = normal_argnums(options.argnums, len(args), name)

    def of_chosen(*chosen: Any) -> Any:
        others = [None if number in numbers else arg for number, arg in enumerate(args)]
        leaves, tree = flatten((others, kwargs))
        full, named = unflatten(tree, [renewed(leaf) for leaf in leaves])  # for the function to change
        for number, value in zip(numbers, chosen, strict=True):
            full[number] = value
        return function(*full, **named)

    chosen = tuple(args[number] for number in numbers)
    roots = tuple(f"args[{number}]" for number in numbers)
    found = linearize(trace, of_chosen, chosen, roots, name, has_aux=options.has_aux)
    check_inputs(found, holomorphic=options.holomorphic, allow_int=options.allow_int)
    return found


def value_and_grad(
    trace: Trace, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: GradOptions,
    name: str,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The result, what is handed on beside it, and the gradients: for each argument, or for the one."""
    found = by_arguments(trace, function, args, kwargs, options, name)
    one = seed(found, holomorphic=options.holomorphic)
    gradients = found.pulled([one])
    return found.result(), found.aux, gradients[0] if options.one() else gradients
