"""Jacobians by rows and by columns, and second derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.trace.context import Trace
from dyn.trace.gradients import GradOptions
from dyn.trace.jacobians import jacobian as jacobian_in
from dyn.transforms.transformed import Function, Transformed, gradient_options, named


def _jacobian(kind: str, fun: Function, options: GradOptions, *, forward: bool) -> Function:
    name = named(kind, fun)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made, aux = jacobian_in(trace, fun, args, kwargs, options, name, forward=forward)
        return (made, aux) if options.has_aux else made

    return Transformed(kind, fun, inside)


def jacfwd(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """Jacobian of a function, a column at a time: right for functions with more results than arguments.

    Args:
        fun: function of trees of arrays.
        argnums: position of the argument to differentiate by, or several.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.
        holomorphic: promise that a function of complex numbers is holomorphic.

    Returns:
        A function with the arguments of ``fun``, whose result is a tree like that of ``fun``, with trees like the
        argument (or tuples of them) for leaves, of arrays whose shapes are the result's followed by the argument's.

    Raises:
        ArgumentError: if ``fun`` is no function; when called, if an argument or the result has no derivative.

    Example:
        >>> dyn.jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    return _jacobian("jacfwd", fun, gradient_options(argnums, has_aux, holomorphic), forward=True)


def jacrev(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:  # fmt: skip
    """Jacobian of a function, a row at a time: right for functions with more arguments than results.

    Args:
        fun: function of trees of arrays.
        argnums: position of the argument to differentiate by, or several.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.
        holomorphic: promise that a function of complex numbers is holomorphic.
        allow_int: whether arguments may be integers and booleans, whose gradient is zeros of their dtype.

    Returns:
        A function with the arguments of ``fun``, with the results of :func:`jacfwd`.

    Raises:
        ArgumentError: if ``fun`` is no function; when called, if an argument or the result has no derivative.

    Example:
        >>> dyn.jacrev(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    return _jacobian("jacrev", fun, gradient_options(argnums, has_aux, holomorphic, allow_int), forward=False)


jacobian = jacrev


def hessian(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """Second derivatives of a function: ``jacfwd(jacrev(fun))``.

    Args:
        fun: function of trees of arrays.
        argnums: position of the argument to differentiate by, or several.
        has_aux: whether the function returns ``(result, aux)``, a tree that is not differentiated beside its result.
        holomorphic: promise that a function of complex numbers is holomorphic.

    Returns:
        A function with the arguments of ``fun``, whose result has the axes of the argument twice.

    Raises:
        ArgumentError: if ``fun`` is no function; when called, if an argument or the result has no derivative.

    Example:
        >>> dyn.hessian(lambda x: (x * x * x).sum())(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
