"""Functions of other people, functions with names, and barriers, inside programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn import dtypes
from dyn.errors import ArgumentError
from dyn.ops import custom_call as _custom_call
from dyn.source import user_loc
from dyn.trace.checkpointing import composite as composite_in
from dyn.trace.context import Trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.lift import lift, lift_leaves
from dyn.trace.pytree import flatten, unflatten
from dyn.trace.tracer import Tracer, active_trace
from dyn.transforms import Transformed

Function = Callable[..., Any]


def optimization_barrier(operand: Any) -> Any:
    """Tree of arrays behind a barrier for the optimizer.

    What is computed from it is neither merged with what is computed from the arrays themselves, nor computed before all
    of them are there. It costs nothing when it runs.

    Args:
        operand: tree of arrays.

    Returns:
        The tree, as it is.
    """
    leaves, tree = flatten(operand)
    trace = active_trace(*leaves)
    if trace is None or not leaves:
        return operand
    made = trace.emit_all("optimization_barrier", *[lift(trace, leaf) for leaf in leaves])
    return unflatten(tree, [Tracer(trace, v) for v in made])


def composite(decomposition: Function, name: str, version: int = 0) -> Function:
    """Function that is known by a name: what a program is written out in may have a better way to do it.

    dyn itself computes, differentiates and batches what the function does.

    Args:
        decomposition: function of arrays, and of keywords that become its attributes: numbers, strings, booleans, and
            tuples of these. It takes what it reads as arguments.
        name: the name, such as ``"my.rms_norm"``.
        version: its version, an int.

    Returns:
        The function under that name.

    Raises:
        ArgumentError: if ``name`` is no string; when called, for what is no attribute.
        UnsupportedOpError: when called, if it closes over an array.

    Example:
        >>> lax.composite(lambda x: x * 2, "my.double")(np.array([1, 2]))
        array([2, 4])
    """
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"composite: {name!r} is no name.", loc=user_loc(), remedy="pass a string.")

    def named(*args: Any, **attributes: Any) -> Any:
        pairs = attribute_pairs("composite", name, attributes)

        def inside(trace: Trace, given: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return composite_in(trace, lambda *own: decomposition(*own, **attributes), given, name, version, pairs)

        return Transformed("composite", decomposition, inside)(*args)

    return named


def custom_call(target: str, result_shape_dtypes: Any, *operands: Any, **attributes: Any) -> Any:
    """Call of the function that is registered for a target: see :func:`register_custom_call`.

    It is called once, or once for each example under vmap, and not at all where nobody reads a result. It has no
    derivative.

    Args:
        target: name of the function.
        result_shape_dtypes: what comes back: something with ``shape``, whose sizes may be dimensions, and ``dtype``,
            such as a ``dyn.ShapeDtypeStruct``; or a tuple or a list of such.
        *operands: arrays.
        **attributes: keywords of the function: numbers, strings, booleans, and tuples of these.

    Returns:
        An array, or as many as are asked for.

    Raises:
        UnsupportedOpError: if nothing is registered for the target, or a derivative is asked for.
        ArgumentError: for what is no attribute, or no size.
        ExternalError: when called, if the function fails.

    Example:
        >>> _ = lax.register_custom_call("double", lambda x: 2 * x)
        >>> lax.custom_call("double", dyn.ShapeDtypeStruct((2,), "int64"), np.array([1, 2]))
        array([2, 4])
    """
    several = isinstance(result_shape_dtypes, tuple | list)
    wanted: Sequence[Any] = result_shape_dtypes if several else (result_shape_dtypes,)
    pairs = attribute_pairs("custom_call", target, attributes)

    def inside(trace: Trace, given: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = lift_leaves(trace, given, [f"operands[{i}]" for i in range(len(given))], f"custom_call {target!r}")
        made = trace.emit_all(
            "custom_call", *values, target=target, dtypes=tuple([dtypes.dtype(w.dtype) for w in wanted]),
            shapes=tuple([_shape(target, w.shape) for w in wanted]), attributes=pairs,
        )  # fmt: skip
        results = [Tracer(trace, v) for v in made]
        return type(result_shape_dtypes)(results) if several else results[0]

    return Transformed("custom_call", _custom_call.custom_call.reference, inside)(*operands)


def _shape(target: str, shape: Sequence[Any]) -> tuple[Any, ...]:
    found = tuple([unwrap_dim(size) for size in shape])
    for given, size in zip(shape, found, strict=True):
        if size is None:
            raise ArgumentError(
                f"custom_call {target!r}: {given!r}, in the shape of a result, is no size.",
                loc=user_loc(),
                remedy="use numbers and dimensions, such as x.shape[0].",
            )
    return found


def register_custom_call(target: str, function: Function) -> Function:
    """Registration of a function of NumPy arrays for custom calls of a target.

    The last one that is registered counts, for programs that are compiled already too.

    Args:
        target: name of the calls.
        function: function of read-only arrays, and of the call's attributes as keywords, that returns an array, or a
            tuple of as many as the call has results, of the shapes and dtypes that the call says.

    Returns:
        The function, so that it may be a decorator's.

    Raises:
        ArgumentError: if it is no function; for a name that begins with ``dyn.`` or ``lapack.``, which are dyn's own.
    """
    if not callable(function):
        raise ArgumentError(
            f"register_custom_call takes a function, not a {type(function).__name__}.", loc=user_loc(),
            remedy="pass the function itself.",
        )  # fmt: skip
    _custom_call.register(target, function)
    return function


def attribute_pairs(what: str, name: str, attributes: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes as an op has them, by name; ArgumentError for what is no attribute."""
    for key, value in attributes.items():
        if not _is_attribute(value):
            raise ArgumentError(
                f"{what} {name!r}: the attribute {key} is a {type(value).__name__}.",
                loc=user_loc(),
                remedy="attributes are numbers, strings, booleans, and tuples of these; arrays are operands.",
            )
    return tuple(sorted(attributes.items()))


def _is_attribute(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_attribute(item) for item in value)
    return isinstance(value, bool | int | float | str)
