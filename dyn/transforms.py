"""``grad``, ``vmap`` and their kin, as in JAX: functions of functions.

Inside a trace (in a jitted function, or in one another) they write ops into the program at hand. Called with arrays
they run the function to trace it, as JAX does outside of ``jit``, and its program is compiled once for every shape and
for every value that it closes over.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

from dyn.api import Jitted, jit
from dyn.eager import call_leaves
from dyn.errors import ArgumentError
from dyn.fork_safety import lock
from dyn.ir.core import Region, region_key
from dyn.ir.external import callees
from dyn.specialize.runtime_arguments import CarriedSize
from dyn.trace.context import Trace, current_trace
from dyn.trace.gradients import GradOptions, Leaves, require_tree
from dyn.trace.gradients import linearize as linearize_in
from dyn.trace.gradients import value_and_grad as value_and_grad_in
from dyn.trace.jacobians import jacobian as jacobian_in
from dyn.trace.lift import lift
from dyn.trace.pytree import flatten, register_node, unflatten
from dyn.trace.split_linearization import Half, declared_axes, split_derivative, write_second_half
from dyn.trace.tracer import Tracer, active_trace, renewed
from dyn.trace.vectorizing import vectorize

__all__ = [
    "grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "stop_gradient", "value_and_grad", "vjp",
    "vmap",
]  # fmt: skip

Function = Callable[..., Any]
#: ``inside(trace, args, kwargs)``: what a transformed function does in a trace.
Inside = Callable[[Trace, tuple[Any, ...], dict[str, Any]], Any]


class Transformed:
    """A function made of another one."""

    __name__: str

    def __init__(self, kind: str, function: Function, inside: Inside) -> None:
        if not callable(function):
            raise ArgumentError(
                f"dyn.{kind} takes a function, not a {type(function).__name__}.", remedy="pass the function itself."
            )
        functools.update_wrapper(self, function)
        self.__name__ = getattr(function, "__name__", kind)
        self._kind, self._function, self._inside = kind, function, inside

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        trace = active_trace(*leaves)
        if trace is None:
            return call_leaves(self._in_trace, self.__name__, leaves, tree)
        # Of arrays of its own: that a function changes its arguments (x += 1) is not for its caller to see.
        own = [leaf.value if type(leaf) is CarriedSize else renewed(leaf) for leaf in leaves]
        given, named = unflatten(tree, own)
        return self._inside(trace, given, named)

    def _in_trace(self, /, *args: Any, **kwargs: Any) -> Any:
        """The call in a trace of its own, whose arrays are nobody else's."""
        trace = current_trace()
        assert trace is not None, "it is traced"
        return self._inside(trace, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"dyn.{self._kind}({self._function!r})"


def _named(kind: str, function: Function) -> str:
    """Name of a transformed function in errors."""
    return f"dyn.{kind}({getattr(function, '__name__', repr(function))})"


def _options(argnums: int | Sequence[int], has_aux: bool, holomorphic: bool, allow_int: bool = False) -> GradOptions:
    numbers = argnums if isinstance(argnums, int) else tuple(argnums)
    return GradOptions(numbers, has_aux, holomorphic, allow_int)


# --- gradients --------------------------------------------------------------------------------------------------------


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

    options, name = _options(argnums, has_aux, holomorphic, allow_int), _named("grad", fun)
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

    options, name = _options(argnums, has_aux, holomorphic, allow_int), _named("value_and_grad", fun)
    return Transformed("value_and_grad", fun, inside)


def _positions(count: int) -> tuple[str, ...]:
    return tuple(f"args[{number}]" for number in range(count))


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
    name = _named("vjp", fun)
    trace = active_trace(*flatten(primals)[0])
    if trace is not None:
        found = linearize_in(trace, fun, primals, _positions(len(primals)), name, has_aux=has_aux)
        return (found.result(), found.pull, found.aux) if has_aux else (found.result(), found.pull)

    made, kept, aux = _first_half("vjp", fun, name, has_aux, forward=False)(*primals)

    def pulled(ct: Any) -> Any:
        return kept(ct)

    return (made, pulled, aux) if has_aux else (made, pulled)


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
    name = _named("jvp", fun)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, steps = args
        found = linearize_in(trace, fun, given, _positions(len(given)), name, has_aux=has_aux)
        made = (found.result(), found.push(steps))
        return (*made, found.aux) if has_aux else made

    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise ArgumentError(
                f"{name}: {what} is a {type(given).__name__}, not a tuple of arguments.",
                remedy=f"pass ({what[:-1]},).",
            )
    return Transformed("jvp", fun, inside)(tuple(primals), tuple(tangents))


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
    name = _named("linearize", fun)
    trace = active_trace(*flatten(primals)[0])
    if trace is not None:
        found = linearize_in(trace, fun, primals, _positions(len(primals)), name, has_aux=has_aux)
        push: Function = lambda *tangents: found.push(tangents)  # noqa: E731
        return (found.result(), push, found.aux) if has_aux else (found.result(), push)
    made, kept, aux = _first_half("linearize", fun, name, has_aux, forward=True)(*primals)

    def pushed(*tangents: Any) -> Any:
        return kept(tangents)

    return (made, pushed, aux) if has_aux else (made, pushed)


class SecondHalf:
    """The second half of a derivative, and its program, which is found by what the half computes."""

    def __init__(self, half: Half) -> None:
        self.half = half
        self._programs: dict[frozenset[int], Jitted] = {}

    @property
    def program(self) -> Jitted:
        """Program of the second half: of residuals and the leaves of a tree, it gives the leaves of another tree."""
        return self.program_without(frozenset())

    def program_without(self, zero: frozenset[int]) -> Jitted:
        """The program for a tree of which leaves with these numbers are zeros, which are not passed."""
        found = self._programs.get(zero)
        if found is None:
            found = self._programs[zero] = _HALVES.program(self.half, zero)
        return found


#: So many programs of second halves are remembered, the latest used.
MOST_HALVES = 256


class _Halves:
    """Programs of second halves, by what these compute and at which lines: a function that is differentiated again
    has equal ones. They know the leaves of trees alone, as nodes may hold anything."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[Hashable, Jitted] = OrderedDict()

    def program(self, half: Half, zero: frozenset[int]) -> Jitted:
        """The program of a half, of which some leaves are zeros."""
        region = half.region
        if callees(region.ops):  # whose functions may hold anything, too
            return _program_of(half, zero)
        types = half.residuals, tuple([v.type for v in half.given.values])
        key = half.name, half.what, zero, types, tuple(half.given.names()), region_key(region, {}), _locs(region)
        with self._lock:
            found = self._known.pop(key, None)
            if found is None:
                found = _program_of(half, zero)
            self._known[key] = found
            if len(self._known) > MOST_HALVES:
                self._known.popitem(last=False)
        return found


_HALVES = _Halves()


def _locs(region: Region) -> tuple[Any, ...]:
    return tuple([(op.loc, *[_locs(inner) for inner in op.regions]) for op in region.ops])


def _program_of(half: Half, zero: frozenset[int]) -> Jitted:
    values = half.given.values
    given = Leaves(values, flatten((0,) * len(values))[1], tuple(half.given.names()))
    flat = replace(half, given=given, out_tree=flatten([0] * half.out_tree.num_leaves)[1])

    def program(residuals: Sequence[Any], tree: tuple[Any, ...]) -> Any:
        trace = current_trace()
        assert trace is not None, "programs are traced"
        return write_second_half(trace, flat, residuals, tree, zero)

    program.__name__ = "pull" if half.what == "cotangent" else "push"
    return jit(program, shapes=(declared_axes(half.residuals), None))


class _BoundSecondHalf:
    """Second half of a linearized call, with the residuals: arrays that its first program kept for it."""

    def __init__(self, second: SecondHalf, residuals: Sequence[Any]) -> None:
        self.second, self.residuals = second, tuple(residuals)

    def __call__(self, tree: Any) -> Any:
        """The second half, of a tree of cotangents or tangents."""
        leaves, spec = flatten(tree)
        half = self.second.half
        trace = active_trace(*self.residuals, *leaves)
        if trace is not None:
            return write_second_half(trace, half, self.residuals, tree)
        require_tree(spec, half.given.tree, half.what, half.name)
        return unflatten(half.out_tree, self.second.program(self.residuals, tuple(leaves)))


register_node(_BoundSecondHalf, lambda kept: (kept.residuals, kept.second), _BoundSecondHalf)


def _first_half(kind: str, fun: Function, name: str, has_aux: bool, *, forward: bool) -> Transformed:
    """The function as a program of its own, which gives its result, what it kept, and what else it returned."""

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = linearize_in(trace, fun, args, _positions(len(args)), name, has_aux=has_aux)
        residuals, half = split_derivative(trace, found, forward=forward)
        return found.result(), _BoundSecondHalf(SecondHalf(half), residuals), found.aux

    return Transformed(kind, fun, inside)


def _jacobian(kind: str, fun: Function, options: GradOptions, *, forward: bool) -> Function:
    name = _named(kind, fun)

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
    return _jacobian("jacfwd", fun, _options(argnums, has_aux, holomorphic), forward=True)


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
    return _jacobian("jacrev", fun, _options(argnums, has_aux, holomorphic, allow_int), forward=False)


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


# --- many examples ----------------------------------------------------------------------------------------------------


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

    name = _named("vmap", fun)
    return Transformed("vmap", fun, inside)
