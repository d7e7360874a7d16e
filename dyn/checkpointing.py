"""``checkpoint``, as in JAX: memory for work, where a function is differentiated."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dyn.checkpoint_policies import Policy, nothing_saveable
from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace.checkpointing import checkpoint as checkpoint_in
from dyn.trace.context import Trace
from dyn.trace.lift import lift
from dyn.trace.pytree import flatten, unflatten
from dyn.trace.tracer import Tracer, active_trace
from dyn.tracebacks import without_own_frames
from dyn.transforms import Transformed

__all__ = ["checkpoint", "checkpoint_name", "remat"]

Function = Callable[..., Any]


def checkpoint(
    fun: Function | None = None, *, prevent_cse: bool = True, policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:  # fmt: skip
    """Function that is computed again where its derivative is, instead of being remembered; also a decorator.

    What is computed is the same, and so are the derivatives.

    Args:
        fun: function of trees of arrays; None: a decorator is made.
        prevent_cse: whether a barrier keeps the second computation from being merged with the first. It may be left out
            in the body of a loop, which has the two in different loops.
        policy: what is kept all the same (``dyn.checkpoint_policies``); None: nothing but the arguments.
        static_argnums: positions of arguments that are no arrays.

    Returns:
        The function.

    Raises:
        ArgumentError: if ``fun`` is no function, or ``policy`` none; when called, if a static argument is not there.

    Example:
        >>> dyn.grad(dyn.checkpoint(lambda x: dnp.sin(dnp.sin(x))))(0.0)
        array(1., dtype=float32)
    """
    if policy is not None and not isinstance(policy, Policy):
        raise ArgumentError(
            f"dyn.checkpoint: policy is a {type(policy).__name__}, and has to be one of dyn.checkpoint_policies.",
            loc=user_loc(),
            remedy="use dyn.checkpoint_policies.dots_saveable or another one, or name values with "
            "dyn.checkpoint_name and use save_only_these_names.",
        )
    if fun is None:
        return functools.partial(checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums)
    if not callable(fun):
        raise ArgumentError(
            f"dyn.checkpoint takes a function, not a {type(fun).__name__}.", loc=user_loc(),
            remedy="pass the function itself.",
        )  # fmt: skip
    function, name = fun, getattr(fun, "__name__", "checkpoint")
    kept = nothing_saveable if policy is None else policy
    rule = (kept.rule, *kept.names)
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @without_own_frames
    @functools.wraps(function)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        places = _static_places(static, len(args), name)
        fixed = tuple((i, args[i]) for i in places)

        def inside(trace: Trace, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            def whole(some: tuple[Any, ...], named: dict[str, Any]) -> Any:
                full = list(some)
                for place, value in fixed:
                    full.insert(place, value)
                return function(*full, **named)

            return checkpoint_in(trace, whole, (given, named), rule, prevent_cse, name)

        call = Transformed("checkpoint", function, inside)
        return call(*(value for i, value in enumerate(args) if i not in places), **kwargs)

    return remembered


remat = checkpoint


def _static_places(static: tuple[int, ...], count: int, name: str) -> tuple[int, ...]:
    for number in static:
        if not -count <= number < count:
            raise ArgumentError(
                f"dyn.checkpoint({name}): static_argnums={static}, and the function was called with {count} positional "
                "arguments.",
                loc=user_loc(),
                remedy="pass that argument by position.",
            )
    return tuple(sorted(number % count for number in static))


def checkpoint_name(x: Any, name: str) -> Any:
    """Arrays under a name that the policies of :func:`checkpoint` know.

    Args:
        x: tree of arrays.
        name: the name.

    Returns:
        The tree, as it is.
    """
    leaves, tree = flatten(x)
    trace = active_trace(*leaves)
    if trace is None:
        return x
    return unflatten(tree, [Tracer(trace, trace.emit("checkpoint_name", lift(trace, v), name=name)) for v in leaves])
