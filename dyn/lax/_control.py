"""Loops and choices, with JAX's names and argument orders.

In a jitted function they become loops and choices of the compiled program: no Python runs in them. Called with arrays
outside of one they are compiled and run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.specialize.carried import carried
from dyn.trace import control
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.pytree import flatten
from dyn.transforms import Transformed

Function = Callable[..., Any]


def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """``true_fun(*operands)`` where the scalar ``pred`` is true, else ``false_fun(*operands)``: only one of them runs.

    Both return trees of one structure, of arrays of the same shapes and dtypes; TraceError where they do not. Numbers
    other than 0 are true.
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flag, *given = args
        return control.switch(trace, flag, (true_fun, false_fun), tuple(given), "cond")

    return Transformed("cond", true_fun, inside)(pred, *operands)


def switch(index: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """``branches[index](*operands)``; the first or the last of them where the scalar ``index`` lies outside."""
    chosen = tuple(branches)
    if not chosen:
        raise ArgumentError("switch: there are no branches.", loc=user_loc(), remedy="give at least one function.")

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number, *given = args
        if len(chosen) == 1:
            return chosen[0](*given)
        return control.switch(trace, number, chosen, tuple(given), "switch")

    return Transformed("switch", chosen[0], inside)(index, *operands)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """``init_val``, changed by ``body_fun`` as long as ``cond_fun`` of it is true.

    It is a tree of arrays whose structure, shapes and dtypes stay what they are; Python numbers in it take the dtype
    that a step makes of them. It has a derivative forward, and none backward.
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return control.while_loop(trace, cond_fun, body_fun, args[0])

    return Transformed("while_loop", body_fun, inside)(init_val)


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *, unroll: int | bool | None = None) -> Any:
    """``init_val``, changed by ``body_fun(i, value)`` for each ``i`` from ``lower`` to ``upper - 1``.

    The bounds are integers or dimensions, and then it has derivatives both ways; or integer scalars, and then it is a
    :func:`while_loop`. ``unroll`` is a hint that is not needed here.
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        (first, last), start = args
        if fixed:
            first, last = (own if given is None else given for own, given in zip(bounds, args[0], strict=True))
        return control.fori_loop(trace, first, last, body_fun, start)

    bounds = (lower, upper)
    fixed = all(isinstance(bound, int | SymbolicDim) for bound in bounds)
    given = tuple([carried(bound) for bound in bounds]) if fixed else bounds
    return Transformed("fori_loop", body_fun, inside)(given, init_val)


def scan(
    f: Function, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: int | bool = 1
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` for each ``x`` along the first axis of ``xs``, from ``init`` on.

    Gives the last carry, and the ``y`` of all steps along a new first axis; with ``reverse`` it goes from the last
    ``x`` to the first, and each ``y`` stands where its ``x`` stands. ``xs`` is a tree of arrays of one length, or None
    with ``length`` steps; either may be a dimension. The carry is a tree of arrays whose structure, shapes and dtypes
    stay what they are. ``unroll`` is a hint that is not needed here.
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        start, arrays, given = args
        return control.scan(trace, f, start, arrays, length if given is None else given, reverse)

    return Transformed("scan", f, inside)(init, xs, carried(length))


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """``f`` of each slice along the first axis of ``xs``, one after the other, along a new first axis."""
    leaves, _ = flatten(xs)
    if not leaves:
        raise ArgumentError("map: there are no arrays to go along.", loc=user_loc(), remedy="pass a tree of arrays.")

    def step(carry: Any, x: Any) -> Any:
        return carry, f(x)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return control.scan(trace, step, (), args[0], None, False, "map")[1]

    return Transformed("map", f, inside)(xs)
