"""``vmap``: functions of one example as functions of many."""

from __future__ import annotations

from typing import Any

from dyn.errors import ArgumentError
from dyn.trace.context import Trace
from dyn.trace.vectorizing import vectorize
from dyn.transforms.transformed import Function, Transformed, named


def vmap(fun: Function, in_axes: Any = 0, out_axes: Any = 0, *, axis_size: Any = None) -> Function:
    """Function of one example as a function of many: no loop, but ops of one more axis.

    Args:
        fun: function of trees of arrays.
        in_axes: which axis of an argument numbers the examples: a number, None where all share the argument, or a tuple
            of these by position, in which a tree like the argument may stand for it. Arguments by name have it first.
        out_axes: where that axis is put in the results, likewise.
        axis_size: number of examples, where nothing is mapped.

    Returns:
        A function of arguments with that axis. Their sizes there are one, which may be symbolic, 0, and differ from
        call to call.

    Raises:
        ArgumentError: if ``fun`` is no function; when called, for axes that are not there.
        ShapeError: when called, if sizes differ.

    Example:
        >>> dyn.vmap(lambda x, y: x @ y, in_axes=(0, None))(np.array([[1, 2], [3, 4]]), np.array([1, 1]))
        array([3, 7])
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Keyword arguments are mapped along their first axis, as in JAX.
        count = len(args)
        axes = list(in_axes) if isinstance(in_axes, tuple | list) else [in_axes] * count
        if len(axes) != count:
            raise ArgumentError(
                f"{name}: in_axes has {len(axes)} entries, and the function was called with {count} arguments.",
                remedy="give an entry for each positional argument.",
            )

        def of_one(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            return fun(*given, **named)

        return vectorize(trace, of_one, (args, kwargs), (tuple(axes), 0), out_axes, axis_size, name)

    name = named("vmap", fun)
    return Transformed("vmap", fun, inside)
