"""Control flow inside a trace: loops and choices as ops with regions, of the user's functions.

A region reads nothing from outside: what a function closes over is passed to it (``dyn.trace.closures``), by loops as
values that stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import TraceError, UnsupportedOpError
from dyn.ir.core import Region, Value
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Relation, RelKind, dim_max
from dyn.source import user_loc
from dyn.trace.branch_sizes import Choose, Unequal, common_shapes
from dyn.trace.changing_sizes import MOST_STEPS, ONE_SIZE, sizes_change
from dyn.trace.closures import closure_converted, fitted, with_carried_values, with_outside_parameters
from dyn.trace.comparison import described, side_by_side
from dyn.trace.context import Trace
from dyn.trace.data_dependent import refuse_escape
from dyn.trace.dims import unwrap_dim, wrap_dim
from dyn.trace.lift import lift, lift_leaves, settled_dtype
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text, unflatten
from dyn.trace.region import TracedRegion, trace_region
from dyn.trace.tracer import Tracer

Function = Callable[..., Any]


# --- values and types -------------------------------------------------------------------------------------------------


def _lifted(trace: Trace, tree: Any, what: str, function: str) -> tuple[list[Value], TreeSpec]:
    """A tree of arrays and numbers as values."""
    leaves, spec = flatten(tree)
    return lift_leaves(trace, leaves, leaf_names(spec, what), function), spec


def _strong(trace: Trace, value: Value, dtype: DType | None = None) -> Value:
    wanted = dtype
    if wanted is None:
        wanted = settled_dtype(value.dtype) if value.type.weak else value.dtype
    return trace.emit("convert", value, dtype=wanted) if value.type.weak or value.dtype is not wanted else value


def _start_values(
    trace: Trace, starts: list[Value], probe: Callable[[list[TensorType]], Sequence[Value]]
) -> list[Value]:
    """Initial values of a loop. Python numbers take the dtype that a step would make of them.

    ``probe`` traces a step for carried values of some types, and gives what they become.
    """
    if not any(v.type.weak for v in starts):
        return starts
    made = probe([v.type for v in starts])
    return [
        _strong(trace, v, None if new.type.weak else new.dtype) if v.type.weak else v
        for v, new in zip(starts, made, strict=False)
    ]


def _plain_types(values: Sequence[Value]) -> list[TensorType]:
    return [TensorType(v.dtype, v.shape) for v in values]


# --- loops ------------------------------------------------------------------------------------------------------------


def while_loop(trace: Trace, cond_fun: Function, body_fun: Function, init: Any) -> Any:
    """``jax.lax.while_loop`` in a trace."""
    starts, tree = _lifted(trace, init, "init_val", "while_loop")

    def step(types: Sequence[TensorType]) -> TracedRegion:
        def call(*leaves: Tracer) -> Any:
            return body_fun(unflatten(tree, list(leaves)))

        return trace_region(trace, call, types, name="the body of while_loop")

    starts = _start_values(trace, starts, lambda types: step(types).region.results)
    types = _plain_types(starts)
    traced = step(types)
    if traced.out_tree != tree:
        raise TraceError(
            f"the body of while_loop gives {tree_text(traced.out_tree)}, and started with {tree_text(tree)}.",
            loc=user_loc(),
            notes=side_by_side(
                described(tree, "init_val", starts),
                described(traced.out_tree, "init_val", traced.region.results),
                ("what it started with", "what it gives"),
            ),
            remedy="return a tree of the same structure.",
        )
    names = leaf_names(tree, "init_val")
    body = fitted(trace, traced.region, types, names, "the body of while_loop", "what it started with", ONE_SIZE)
    condition = trace_region(
        trace, lambda *leaves: cond_fun(unflatten(tree, list(leaves))), types, name="the condition of while_loop"
    )
    _check_condition(condition)
    (condition_region, body), free = closure_converted(trace, (condition.region, body))
    count = len(starts)
    regions = (with_outside_parameters(condition_region, free, count), with_carried_values(body, free, count))
    made = trace.emit_all("while", *starts, *free, regions=regions)
    return unflatten(tree, [Tracer(trace, v) for v in made[:count]])


def _check_condition(condition: TracedRegion) -> None:
    results = condition.region.results
    if len(results) != 1 or results[0].type.rank or results[0].dtype is not dtypes.bool_:
        shown = str(results[0].type) if len(results) == 1 else tree_text(condition.out_tree)
        raise TraceError(
            f"the condition of while_loop gives {shown}, and not a boolean scalar.",
            loc=user_loc(),
            remedy="compare, and reduce with .any() or .all().",
        )


def scan(
    trace: Trace, f: Function, init: Any, xs: Any, length: Any, reverse: bool, what: str = "scan",
    written_out: Callable[[], Any] | None = None,
) -> Any:  # fmt: skip
    """``jax.lax.scan`` in a trace; the length may be a dim.

    Where sizes of what is carried change, and the length is known, it is ``written_out()``: step by step.
    """
    starts, tree = _lifted(trace, init, "init", what)
    arrays, x_tree = _lifted(trace, xs, "xs", what)
    steps = _length(trace, arrays, leaf_names(x_tree, "xs"), length, what)
    slices = [TensorType(x.dtype, x.shape[1:]) for x in arrays]

    def step(types: Sequence[TensorType]) -> tuple[Region, TreeSpec]:
        rows: list[TreeSpec] = []

        def call(*leaves: Tracer) -> Any:
            made = f(unflatten(tree, list(leaves[: len(starts)])), unflatten(x_tree, list(leaves[len(starts) :])))
            carried, row = _pair(made, what)
            carried_leaves, carried_tree = flatten(carried)
            row_leaves, row_tree = flatten(row)
            rows.append(row_tree)
            if carried_tree != tree:
                raise TraceError(
                    f"the body of {what} carries {tree_text(carried_tree)} on, and started with {tree_text(tree)}.",
                    loc=user_loc(),
                    notes=side_by_side(
                        described(tree, "carry", starts),
                        described(carried_tree, "carry", carried_leaves),
                        ("what it started with", "what it gives"),
                    ),
                    remedy="return (carry, y) with a carry of the same structure.",
                )
            return [*carried_leaves, *row_leaves]

        return trace_region(trace, call, [*types, *slices], name=f"the body of {what}", finds_sizes=True).region, rows[
            0
        ]

    starts = _start_values(trace, starts, lambda types: step(types)[0].results)
    types = _plain_types(starts)
    body, row_tree = step(types)
    if isinstance(steps, int) and 0 < steps <= MOST_STEPS and sizes_change(trace.facts, body, types):
        if written_out is not None:
            return written_out()
        return _step_by_step(
            trace, f, unflatten(tree, [Tracer(trace, v) for v in starts]), (arrays, x_tree), steps, reverse
        )
    refuse_escape(body, f"the body of {what}")
    names = leaf_names(tree, "carry")
    body = fitted(trace, body, types, names, f"the body of {what}", "what it started with", ONE_SIZE)
    (body,), free = closure_converted(trace, (body,))
    count = len(starts)
    region = with_carried_values(body, free, count)
    attrs = {"carries": count + len(free), "length": steps, "reverse": reverse}
    made = trace.emit_all("scan", *starts, *free, *arrays, regions=(region,), **attrs)
    carried = unflatten(tree, [Tracer(trace, v) for v in made[:count]])
    return carried, unflatten(row_tree, [Tracer(trace, v) for v in made[count + len(free) :]])


def _step_by_step(
    trace: Trace, f: Function, carry: Any, xs: tuple[Sequence[Value], TreeSpec], steps: int, reverse: bool
) -> tuple[Any, Any]:
    """A scan as calls of its function one after the other. Rows that have other sizes than the first are errors."""
    arrays, x_tree = xs
    rows: list[Any] = []
    for i in reversed(range(steps)) if reverse else range(steps):
        carry, row = f(carry, unflatten(x_tree, [trace.namespace.getitem(Tracer(trace, x), i) for x in arrays]))
        rows.insert(0 if reverse else len(rows), row)
    row_tree = flatten(rows[0])[1]
    columns = zip(*[flatten(row)[0] for row in rows], strict=True)
    return carry, unflatten(row_tree, [trace.namespace.stack(list(column)) for column in columns])


def _pair(made: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(made, tuple) or len(made) != 2:
        raise TraceError(
            f"the body of {what} returns a pair (carry, y), and it returned a {type(made).__name__}.",
            loc=user_loc(),
            remedy="return (carry, None) where nothing is kept.",
        )
    return made


def _length(trace: Trace, arrays: Sequence[Value], names: Sequence[str], length: Any, what: str) -> Dim:
    found = None if length is None else unwrap_dim(length)
    origin = "length"
    if length is not None and found is None:
        raise UnsupportedOpError(
            f"{what}: length is a {type(length).__name__}, not a size.",
            loc=user_loc(),
            remedy="pass an int or a dimension; with a computed number of steps, use while_loop.",
        )
    for x, name in zip(arrays, names, strict=True):
        if not x.shape:
            raise TraceError(
                f"{what}: {name} is a scalar, which has no axis to go along.", loc=user_loc(),
                remedy="close over it instead.",
            )  # fmt: skip
        if found is None:
            found, origin = x.shape[0], f"{name}.shape[0]"
        else:
            trace.demand(RelKind.EQ, found, x.shape[0], f"{what} goes along {name}.shape[0] together with {origin}")
    if found is None:
        raise TraceError(f"{what}: there is nothing to go along.", loc=user_loc(), remedy="pass xs, or length=.")
    return found


def fori_loop(trace: Trace, lower: Any, upper: Any, body_fun: Function, init: Any) -> Any:
    """``jax.lax.fori_loop`` in a trace: a scan where the bounds are sizes, else a while loop."""
    start, stop = unwrap_dim(lower), unwrap_dim(upper)
    if start is not None and stop is not None:
        first = Tracer(trace, trace.emit("dim_size", size=start, dtype=dtypes.int64))

        def step(carry: Any, _: Any) -> Any:
            i, state = carry
            return (i + 1, body_fun(_counter(i), state)), None

        def written_out() -> Any:
            state = init
            for i in range(int(start), int(stop)):
                state = body_fun(i, state)
            return (stop, state), None

        length = dim_max(stop - start, 0)
        made, _ = scan(trace, step, (first, init), None, wrap_dim(trace, length), False, "fori_loop", written_out)
        return made[1]

    def going(carry: Any) -> Any:
        return carry[0] < carry[1]

    def body(carry: Any) -> Any:
        i, end, state = carry
        return i + 1, end, body_fun(_counter(i), state)

    bounds = [_strong(trace, lift(trace, bound)) for bound in (lower, upper)]
    for bound in bounds:
        if bound.type.rank or not bound.dtype.is_integer:
            raise TraceError(
                f"fori_loop: a bound is {bound.type}, not an integer.", loc=user_loc(), remedy="convert it."
            )
    wide = dtypes.promote(bounds[0].dtype, bounds[1].dtype)
    first, last = (Tracer(trace, _strong(trace, bound, wide)) for bound in bounds)
    return while_loop(trace, going, body, (first, last, init))[2]


def _counter(i: Any) -> Any:
    """A loop's number, weak: it takes the dtype of what it meets, as a dim does."""
    trace = i._trace
    return Tracer(trace, trace.emit("convert", i.value_in(trace), dtype=dtypes.int64, weak=True))


# --- choices ----------------------------------------------------------------------------------------------------------


def switch(
    trace: Trace, index: Any, branches: Sequence[Function], operands: tuple[Any, ...], what: str,
    unequal: Unequal = Unequal.DEMANDED, known: Sequence[Sequence[Relation]] = (),
) -> Any:  # fmt: skip
    """One of some functions of the operands: by a boolean, for the first of two, or by a number.

    ``unequal`` says what sizes mean that the functions give and that are not proved to be equal. ``known`` has for
    each function what is known to hold where it is chosen.
    """
    given, tree = _lifted(trace, operands, "operands", what)
    chosen = lift(trace, index)
    if chosen.type.rank:
        raise TraceError(
            f"{what} chooses by {chosen.type}, which is no scalar.", loc=user_loc(),
            remedy="reduce it with .any() or .all(), or choose element by element with dyn.numpy.where.",
        )  # fmt: skip
    traced = [
        trace_region(
            trace, lambda *leaves, f=f: f(*unflatten(tree, list(leaves))), [v.type for v in given],
            name=f"branch {number} of {what}", finds_sizes=True,
        )
        for number, f in enumerate(branches)
    ]  # fmt: skip
    _check_alike(traced, what)
    if what == "cond":
        name, flag = "if", chosen if chosen.dtype is dtypes.bool_ else _nonzero(trace, chosen)
    else:
        name, flag = "case", _number(trace, chosen, len(branches))

    def choose(regions: Sequence[Region]) -> tuple[Value, ...]:
        regions, free = closure_converted(trace, regions)
        regions = [with_outside_parameters(region, free, len(given)) for region in regions]
        return trace.emit_all(name, flag, *given, *free, regions=tuple(regions))

    names = leaf_names(traced[0].out_tree, "the result")
    made = choice(trace, [one.region for one in traced], names, what, unequal, choose, known)
    return unflatten(traced[0].out_tree, [Tracer(trace, v) for v in made])


def choice(
    trace: Trace, regions: Sequence[Region], names: Sequence[str], what: str, unequal: Unequal, choose: Choose,
    known: Sequence[Sequence[Relation]] = (),
) -> Sequence[Value]:  # fmt: skip
    """The results of a choice between regions, which ``choose`` makes of regions whose results have the same types.

    ``names`` are those of the results; ``unequal`` and ``known`` are those of :func:`switch`.
    """
    regions, shapes = common_shapes(trace, regions, known, names, what, unequal, choose)
    columns = zip(*[region.results for region in regions], strict=True)
    types = [_common_type(column, shape) for column, shape in zip(columns, shapes, strict=True)]
    return choose(
        [
            fitted(trace, region, types, names, f"branch {number} of {what}", "that of another branch")
            for number, region in enumerate(regions)
        ]
    )


def _nonzero(trace: Trace, value: Value) -> Value:
    zero = trace.constant(value.dtype.np.type(0).reshape(()))
    return trace.emit("compare", value, zero, direction="NE")


def _number(trace: Trace, value: Value, count: int) -> Value:
    """The number of a branch, brought between the first and the last."""
    if not value.dtype.is_integer:
        raise TraceError(
            f"switch chooses by {value.type}, which is no integer.", loc=user_loc(), remedy="convert it with .astype."
        )
    bounds = [trace.constant(value.dtype.np.type(bound).reshape(())) for bound in (0, count - 1)]
    inside = trace.emit("clamp", bounds[0], _strong(trace, value), bounds[1])
    return trace.emit("convert", inside, dtype=dtypes.int32)


def _check_alike(traced: Sequence[TracedRegion], what: str) -> None:
    """Raise TraceError for branches that give trees of other structures."""
    first = traced[0]
    for number, other in enumerate(traced):
        if other.out_tree != first.out_tree:
            raise TraceError(
                f"branch 0 of {what} gives {tree_text(first.out_tree)}, and branch {number} gives "
                f"{tree_text(other.out_tree)}.",
                loc=user_loc(),
                notes=side_by_side(
                    described(first.out_tree, "result", first.region.results),
                    described(other.out_tree, "result", other.region.results),
                    ("branch 0", f"branch {number}"),
                ),
                remedy="return trees of one structure from all branches.",
            )


def _common_type(column: Sequence[Value], shape: tuple[Dim, ...]) -> TensorType:
    """The type of a result of branches; numbers take the dtype of what they stand beside."""
    strong = next((v for v in column if not v.type.weak), None)
    return TensorType(settled_dtype(column[0].dtype) if strong is None else strong.dtype, shape)
