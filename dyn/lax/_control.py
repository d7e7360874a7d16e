"""Loops and choices, with JAX's names and argument orders.

In a jitted function they become loops and choices of the compiled program: no Python runs in them. Called with arrays
outside of one they are compiled and run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.specialize.runtime_arguments import as_runtime_argument
from dyn.trace import control
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.pytree import flatten
from dyn.tracebacks import without_own_frames
from dyn.transforms import Transformed

Function = Callable[..., Any]


@without_own_frames
def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """Choice between two functions by a scalar: only one of them runs.

    Sizes may differ: the result has the size of the function that runs. A size that a function finds out inside (of
    ``x[x > 0]``, ``nonzero``, ``unique``) is computed twice there. Sizes of two dims (``n`` and ``m``) have
    to be equal, as in JAX, where all sizes have.

    Args:
        pred: scalar; numbers other than 0 are true.
        true_fun: function of the operands, for true.
        false_fun: function of the operands, for false: both give trees of one structure, of arrays of the same dtypes
            and numbers of axes.
        *operands: arguments of the functions: trees of arrays.

    Returns:
        The tree that the function gives.

    Raises:
        TraceError: if the two give trees, numbers of axes or dtypes that differ, or ``pred`` is no scalar.
        ShapeError: when called, if they give sizes of two dims, and these differ.

    Example:
        >>> lax.cond(np.int64(3) > 2, lambda x: x * 2, lambda x: x - 1, np.array([1, 2]))
        array([2, 4])
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flag, *given = args
        return control.switch(trace, flag, (true_fun, false_fun), tuple(given), "cond")

    return Transformed("cond", true_fun, inside)(pred, *operands)


@without_own_frames
def switch(index: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """Choice between several functions by an integer: only one of them runs.

    Sizes may differ, as those of :func:`cond`.

    Args:
        index: integer scalar; the first or the last function runs where it lies outside.
        branches: functions of the operands, which all give trees of one structure, of arrays of the same dtypes and
            numbers of axes.
        *operands: arguments of the functions: trees of arrays.

    Returns:
        The tree that the function gives.

    Raises:
        ArgumentError: if there are no functions.
        TraceError: if they give trees, numbers of axes or dtypes that differ.
        ShapeError: when called, if they give sizes of two dims, and these differ.

    Example:
        >>> lax.switch(np.int32(1), [lambda x: x, lambda x: -x], np.array([1, 2]))
        array([-1, -2])
    """
    chosen = tuple(branches)
    if not chosen:
        raise ArgumentError("switch: there are no branches.", loc=user_loc(), remedy="give at least one function.")

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number, *given = args
        if len(chosen) == 1:
            return chosen[0](*given)
        return control.switch(trace, number, chosen, tuple(given), "switch")

    return Transformed("switch", chosen[0], inside)(index, *operands)


@without_own_frames
def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Loop for as long as a condition holds.

    It has a derivative forward, and none backward, as the number of steps is not known.

    Args:
        cond_fun: function of the state that gives a scalar: whether another step is made.
        body_fun: function of the state that gives the next one.
        init_val: first state: a tree of arrays whose structure, shapes and dtypes stay what they are; Python numbers
            take the dtype that a step makes of them.

    Returns:
        The last state.

    Raises:
        TraceError: if a step gives another structure, number of axes or dtype, or the condition is no boolean scalar.
        ShapeError: if a step gives other sizes: at once where that is proved, otherwise when called.

    Example:
        >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, np.int64(3))
        array(192)
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return control.while_loop(trace, cond_fun, body_fun, args[0])

    return Transformed("while_loop", body_fun, inside)(init_val)


@without_own_frames
def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *, unroll: int | bool | None = None) -> Any:
    """Loop over integers.

    Args:
        lower: first integer: an int, a dimension or an integer scalar.
        upper: integer behind the last. Where both are ints or dimensions the loop has derivatives both ways; else it is
            a :func:`while_loop`.
        body_fun: function of the integer and the state that gives the next state.
        init_val: first state: a tree of arrays whose structure, shapes and dtypes stay what they are.
        unroll: JAX's hint, which changes nothing here.

    Returns:
        The last state; ``init_val`` where ``upper`` is no more than ``lower``.

    Raises:
        TraceError: if a step gives another structure, number of axes or dtype.
        ShapeError: if a step gives other sizes: at once where that is proved, otherwise when called.

    Example:
        >>> lax.fori_loop(0, 3, lambda i, x: x + i, np.int64(10))
        array(13)
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        (first, last), start = args
        if fixed:
            first, last = (own if given is None else given for own, given in zip(bounds, args[0], strict=True))
        return control.fori_loop(trace, first, last, body_fun, start)

    bounds = (lower, upper)
    fixed = all(isinstance(bound, int | SymbolicDim) for bound in bounds)
    given = tuple([as_runtime_argument(bound) for bound in bounds]) if fixed else bounds
    return Transformed("fori_loop", body_fun, inside)(given, init_val)


@without_own_frames
def scan(
    f: Function, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: int | bool = 1
) -> tuple[Any, Any]:
    """Loop over slices of arrays, with a state that is carried along and results that are collected.

    Args:
        f: function of the carry and a slice that gives the next carry and a result.
        init: first carry: a tree of arrays whose structure, shapes and dtypes stay what they are.
        xs: tree of arrays that are gone through along their first axes, of one size, which may be symbolic or 0; None:
            ``length`` counts.
        length: number of steps, an int or a dimension, needed where there are no arrays.
        reverse: whether it goes from the last slice to the first; each result stands where its slice stands.
        unroll: JAX's hint, which changes nothing here.

    Returns:
        The last carry, and the results of all steps along a new first axis.

    Raises:
        TraceError: if a step gives a carry of another structure, number of axes or dtype.
        ShapeError: if lengths differ, or a step gives a carry of other sizes, at the call at the latest.

    Example:
        >>> lax.scan(lambda total, x: (total + x, total * x), np.int64(0), np.array([1, 2, 3]))
        (array(6), array([0, 2, 9]))
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        start, arrays, given = args
        return control.scan(trace, f, start, arrays, length if given is None else given, reverse)

    return Transformed("scan", f, inside)(init, xs, as_runtime_argument(length))


@without_own_frames
def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """Function of each slice along the first axis, one after the other.

    Args:
        f: function of a tree of slices.
        xs: tree of arrays of one length, which may be symbolic or 0.
        batch_size: JAX's hint, which changes nothing here.

    Returns:
        A tree of the results along a new first axis.

    Raises:
        ArgumentError: if there are no arrays.
        ShapeError: if lengths differ, at the call at the latest.

    Example:
        >>> lax.map(lambda row: row.sum(), np.array([[1, 2], [3, 4]]))
        array([3, 7])
    """
    leaves, _ = flatten(xs)
    if not leaves:
        raise ArgumentError("map: there are no arrays to go along.", loc=user_loc(), remedy="pass a tree of arrays.")

    def step(carry: Any, x: Any) -> Any:
        return carry, f(x)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return control.scan(trace, step, (), args[0], None, False, "map")[1]

    return Transformed("map", f, inside)(xs)
