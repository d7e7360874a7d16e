"""Derivatives of functions, backward and forward; and ``stop_gradient``, through which none comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import ArgumentError
from dyn.trace.context import Trace
from dyn.trace.gradients import linearize as linearize_in
from dyn.trace.gradients import value_and_grad as value_and_grad_in
from dyn.trace.lift import lift
from dyn.trace.pytree import flatten, unflatten
from dyn.trace.tracer import Tracer, active_trace, renewed
from dyn.tracebacks import without_own_frames
from dyn.transforms.second_halves import first_half
from dyn.transforms.transformed import Function, Transformed, gradient_options, named, positions


def grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:  # fmt: skip
    """Gradient of a function that returns a scalar.

    Args:
        fun: function of trees of arrays.
        argnums: position of the argument to differentiate by, or several.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.
        holomorphic: promise that a function of complex numbers is holomorphic.
        allow_int: whether arguments may be integers and booleans, whose gradient is zeros of their dtype.

    Returns:
        A function with the arguments of ``fun``, whose result is a tree like the argument, of arrays of the same shapes
        and dtypes, symbolic and empty ones too; a tuple of them for several ``argnums``; with ``has_aux`` a pair with
        ``aux``.

    Raises:
        ArgumentError: if ``fun`` is no function; when called, if an argument or the result has no derivative, or the
            result is no scalar.

    Example:
        >>> dyn.grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
        array([2., 4.])
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _, aux, gradient = value_and_grad_in(trace, fun, args, kwargs, options, name)
        return (gradient, aux) if has_aux else gradient

    options, name = gradient_options(argnums, has_aux, holomorphic, allow_int), named("grad", fun)
    return Transformed("grad", fun, inside)


def value_and_grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:  # fmt: skip
    """Function and its gradient together.

    Args:
        fun: function of trees of arrays.
        argnums: position of the argument to differentiate by, or several.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.
        holomorphic: promise that a function of complex numbers is holomorphic.
        allow_int: whether arguments may be integers and booleans, whose gradient is zeros of their dtype.

    Returns:
        A function with the arguments of ``fun``, whose result is ``(value, gradient)``; with ``has_aux``
        ``((value, aux), gradient)``.

    Raises:
        ArgumentError: if ``fun`` is no function; when called, if an argument or the result has no derivative, or the
            result is no scalar.

    Example:
        >>> dyn.value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
        (array(5.), array([2., 4.]))
    """

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value, aux, gradient = value_and_grad_in(trace, fun, args, kwargs, options, name)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    options, name = gradient_options(argnums, has_aux, holomorphic, allow_int), named("value_and_grad", fun)
    return Transformed("value_and_grad", fun, inside)


@without_own_frames
def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Result of a function, and the function that pulls its cotangents back.

    What the derivative keeps of the first computation is remembered in between.

    Args:
        fun: function of trees of arrays.
        *primals: its arguments: trees of arrays.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.

    Returns:
        ``(result, pull)``, with ``has_aux`` ``(result, pull, aux)``. ``pull`` takes a tree of arrays like the result,
        and gives a tuple of trees like the primals: the transposed Jacobian times the cotangent.

    Raises:
        ArgumentError: if ``fun`` is no function.

    Example:
        >>> y, pull = dyn.vjp(lambda x: x * x, np.array([1.0, 2.0]))
        >>> pull(np.array([1.0, 10.0]))
        (array([ 2., 40.]),)
    """
    name = named("vjp", fun)
    trace = active_trace(*flatten(primals)[0])
    if trace is not None:
        found = linearize_in(trace, fun, primals, positions(len(primals)), name, has_aux=has_aux)
        return (found.result(), found.pull, found.aux) if has_aux else (found.result(), found.pull)

    made, kept, aux = first_half("vjp", fun, name, has_aux, forward=False)(*primals)

    def pulled(ct: Any) -> Any:
        return kept(ct)

    return (made, pulled, aux) if has_aux else (made, pulled)


@without_own_frames
def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Result of a function, and its derivative in a direction.

    Args:
        fun: function of trees of arrays.
        primals: tuple of its arguments: trees of arrays.
        tangents: tuple of directions: trees like the primals, of their dtypes.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.

    Returns:
        ``(result, tangent)``, with ``has_aux`` ``(result, tangent, aux)``.

    Raises:
        ArgumentError: if ``fun`` is no function, or one of the two no tuple.

    Example:
        >>> dyn.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
        (array([1., 4.]), array([ 2., 40.]))
    """
    name = named("jvp", fun)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, steps = args
        found = linearize_in(trace, fun, given, positions(len(given)), name, has_aux=has_aux)
        made = (found.result(), found.push(steps))
        return (*made, found.aux) if has_aux else made

    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise ArgumentError(
                f"{name}: {what} is a {type(given).__name__}, not a tuple of arguments.",
                remedy=f"pass ({what[:-1]},).",
            )
    return Transformed("jvp", fun, inside)(tuple(primals), tuple(tangents))


@without_own_frames
def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Result of a function, and its derivative there as a linear function of tangents.

    Args:
        fun: function of trees of arrays.
        *primals: its arguments: trees of arrays.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.

    Returns:
        ``(result, push)``, with ``has_aux`` ``(result, push, aux)``. ``push`` takes a tangent for each primal.

    Raises:
        ArgumentError: if ``fun`` is no function.

    Example:
        >>> y, push = dyn.linearize(lambda x: x * x, np.array([1.0, 2.0]))
        >>> push(np.array([1.0, 10.0]))
        array([ 2., 40.])
    """
    name = named("linearize", fun)
    trace = active_trace(*flatten(primals)[0])
    if trace is not None:
        found = linearize_in(trace, fun, primals, positions(len(primals)), name, has_aux=has_aux)
        push: Function = lambda *tangents: found.push(tangents)  # noqa: E731
        return (found.result(), push, found.aux) if has_aux else (found.result(), push)
    made, kept, aux = first_half("linearize", fun, name, has_aux, forward=True)(*primals)

    def pushed(*tangents: Any) -> Any:
        return kept(tangents)

    return (made, pushed, aux) if has_aux else (made, pushed)


def stop_gradient(x: Any) -> Any:
    """Arrays as constants of what is differentiated.

    Args:
        x: tree of arrays.

    Returns:
        The tree, through which no derivative comes.

    Example:
        >>> dyn.grad(lambda x: x * dyn.stop_gradient(x))(3.0)
        array(3., dtype=float32)
    """
    leaves, tree = flatten(x)
    trace = active_trace(*leaves)
    if trace is None:
        return x
    made: list[Any] = []
    for leaf in leaves:
        value = lift(trace, leaf)
        made.append(Tracer(trace, trace.emit("stop_gradient", value)) if value.dtype.is_inexact else renewed(leaf))
    return unflatten(tree, made)
