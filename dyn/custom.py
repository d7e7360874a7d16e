"""``custom_vjp`` and ``custom_jvp``, as in JAX: functions that say themselves what their derivatives are."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from dyn.errors import ArgumentError
from dyn.source import user_loc
from dyn.trace import custom as in_trace
from dyn.trace.context import Trace
from dyn.transforms import Transformed

__all__ = ["custom_jvp", "custom_vjp"]

Function = Callable[..., Any]


class _Custom(ABC):
    """Base of ``custom_jvp`` and ``custom_vjp``: arguments that are not differentiated by, and calls inside traces."""

    #: What the user calls it.
    kind = ""
    __name__: str

    def __init__(
        self, fun: Function, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        if not callable(fun):
            raise ArgumentError(
                f"dyn.{self.kind} takes a function, not a {type(fun).__name__}.",
                loc=user_loc(),
                remedy="pass the function itself.",
            )
        functools.update_wrapper(self, fun, updated=())
        self.__name__ = getattr(fun, "__name__", self.kind)
        self.fun = fun
        self._signature = inspect.signature(fun)
        names = list(self._signature.parameters)
        for name in nondiff_argnames:
            if name not in names:
                raise ArgumentError(
                    f"dyn.{self.kind}({self.__name__}): nondiff_argnames names {name!r}, which is no argument.",
                    loc=user_loc(),
                    remedy=f"the arguments are {', '.join(names)}.",
                )
        self._nondiff = tuple(nondiff_argnums) + tuple(names.index(name) for name in nondiff_argnames)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"dyn.{self.kind}({self.fun!r})"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        self._check_rules()
        full = self._positional(args, kwargs)
        places = self._places(len(full))
        fixed = tuple((i, full[i]) for i in places)
        given = tuple(value for i, value in enumerate(full) if i not in places)

        def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return self._traced(trace, fixed, args)

        return Transformed(self.kind, self, inside)(*given)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments of a call, all by position; those that are left out as their defaults."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.__name__}(): {error}.", loc=user_loc()) from None
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(
                f"dyn.{self.kind}({self.__name__}): {', '.join(bound.kwargs)} cannot be passed by position.",
                loc=user_loc(),
                remedy="let the function take its arguments by position: the rules are given them so.",
            )
        return bound.args

    def _places(self, count: int) -> tuple[int, ...]:
        for number in self._nondiff:
            if not -count <= number < count:
                raise ArgumentError(
                    f"dyn.{self.kind}({self.__name__}): nondiff_argnums={self._nondiff}, and the function was called "
                    f"with {count} arguments.",
                    loc=user_loc(),
                    remedy="name arguments that are there.",
                )
        return tuple(sorted(number % count for number in self._nondiff))

    def _of_all(self, fixed: tuple[tuple[int, Any], ...], function: Function) -> Function:
        """A function of all arguments, as one of those that are differentiated by."""

        def of_some(*args: Any) -> Any:
            full = list(args)
            for place, value in fixed:
                full.insert(place, value)
            return function(*full)

        return of_some

    @abstractmethod
    def _check_rules(self) -> None:
        """Raise where there are none yet."""

    @abstractmethod
    def _traced(self, trace: Trace, fixed: tuple[tuple[int, Any], ...], args: tuple[Any, ...]) -> Any:
        """The call in a trace; ``fixed`` are the positions and values of what is not differentiated by."""

    def _no_rule(self, how: str) -> ArgumentError:
        return ArgumentError(
            f"dyn.{self.kind}({self.__name__}) was called, and has no derivative yet.", loc=user_loc(), remedy=how
        )


class custom_vjp(_Custom):
    """Function whose derivative backward is given by two rules: see ``defvjp``.

    Cotangents of integer results are zeros of their dtype. What was differentiated and is differentiated again is the
    rules.

    Args:
        fun: function of trees of arrays, which closes over none that it is to be differentiated by.
        nondiff_argnums: positions of arguments that it is not differentiated by, which may be anything.
        nondiff_argnames: the same by names.

    Raises:
        ArgumentError: if ``fun`` is no function, or a name is no argument of it.
        UnsupportedOpError: when differentiated, forward, or by arrays that the function closes over.
        TraceError: when differentiated, if a rule returns a tree or an array of another type.

    Example:
        >>> square = dyn.custom_vjp(lambda x: x * x)
        >>> square.defvjp(lambda x: (x * x, x), lambda x, ct: (100 * x * ct,))
        >>> dyn.grad(square)(3.0)
        array(300., dtype=float32)
    """

    kind = "custom_vjp"
    fwd: Function | None = None
    bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the two rules.

        Args:
            fwd: function of the arguments that returns ``(result, residuals)``, where residuals are any tree. Arguments
                that are not differentiated by stand where ``fun`` has them.
            bwd: function ``bwd(residuals, cotangents)`` that returns a tuple with a cotangent for each argument, a tree
                like it or None for zeros; those of integer arguments are not looked at. Arguments that are not
                differentiated by come before the residuals.
            symbolic_zeros: False.
            optimize_remat: JAX's hint, which changes nothing here.

        Raises:
            ArgumentError: if ``symbolic_zeros`` is true.
        """
        _refuse_symbolic_zeros(self, symbolic_zeros)
        self.fwd, self.bwd = fwd, bwd

    def _check_rules(self) -> None:
        if self.fwd is None or self.bwd is None:
            raise self._no_rule(f"call {self.__name__}.defvjp(fwd, bwd) first.")

    def _traced(self, trace: Trace, fixed: tuple[tuple[int, Any], ...], args: tuple[Any, ...]) -> Any:
        fwd, bwd = self.fwd, self.bwd
        assert fwd is not None
        assert bwd is not None
        backward = functools.partial(bwd, *(value for _, value in fixed))
        functions = (self._of_all(fixed, self.fun), self._of_all(fixed, fwd), backward)
        return in_trace.custom_vjp(trace, self, functions, args, self.__name__)


class custom_jvp(_Custom):
    """Function whose derivative is given by a rule for tangents; cotangents are had by its transpose.

    See ``defjvp``, and ``defjvps`` for a rule for each argument. Tangents of integer arguments are zeros of
    their dtype.

    Args:
        fun: function of trees of arrays, which closes over none that it is to be differentiated by.
        nondiff_argnums: positions of arguments that it is not differentiated by, which may be anything.
        nondiff_argnames: the same by names.

    Raises:
        ArgumentError: if ``fun`` is no function, or a name is no argument of it.
        UnsupportedOpError: when differentiated by arrays that the function closes over.
        TraceError: when differentiated, if a rule returns a tree or an array of another type.

    Example:
        >>> square = dyn.custom_jvp(lambda x: x * x)
        >>> _ = square.defjvp(lambda primals, tangents: (primals[0] ** 2, 100 * primals[0] * tangents[0]))
        >>> dyn.grad(square)(3.0)
        array(300., dtype=float32)
    """

    kind = "custom_jvp"
    jvp: Function | None = None

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Set the rule; also a decorator.

        Args:
            jvp: function ``jvp(primals, tangents)`` of two tuples that returns ``(result, tangent)``, of which the
                tangent is linear in the tangents, and a tree like the result or None for zeros. Arguments that are not
                differentiated by come before the two.
            symbolic_zeros: False.

        Returns:
            The rule.

        Raises:
            ArgumentError: if ``symbolic_zeros`` is true.
        """
        _refuse_symbolic_zeros(self, symbolic_zeros)
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Set the rule by what each argument adds to the tangent of the result.

        Args:
            *jvps: for each argument a function ``jvp(tangent, result, *primals)``, or None where its derivative is
                zero.
        """
        if self._nondiff:
            raise ArgumentError(
                f"dyn.custom_jvp({self.__name__}): defjvps takes no nondiff_argnums.", loc=user_loc(),
                remedy="use defjvp.",
            )  # fmt: skip

        def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
            if len(jvps) != len(primals):
                raise ArgumentError(
                    f"dyn.custom_jvp({self.__name__}): defjvps was given {len(jvps)} rules, and the function "
                    f"{len(primals)} arguments.",
                    loc=user_loc(),
                    remedy="give a rule, or None, for each argument.",
                )
            result = self(*primals)
            parts = [rule(t, result, *primals) for rule, t in zip(jvps, tangents, strict=True) if rule is not None]
            return result, in_trace.added(parts)

        self.jvp = jvp

    def _check_rules(self) -> None:
        if self.jvp is None:
            raise self._no_rule(f"call {self.__name__}.defjvp(jvp) first.")

    def _traced(self, trace: Trace, fixed: tuple[tuple[int, Any], ...], args: tuple[Any, ...]) -> Any:
        assert self.jvp is not None
        rule = functools.partial(self.jvp, *(value for _, value in fixed))
        return in_trace.custom_jvp(trace, self, self._of_all(fixed, self.fun), rule, args, self.__name__)


def _refuse_symbolic_zeros(custom: _Custom, wanted: bool) -> None:
    if wanted:
        raise ArgumentError(
            f"dyn.{custom.kind}({custom.__name__}): symbolic_zeros=True is not for dyn.",
            loc=user_loc(),
            remedy="leave it out: zeros are arrays to a rule, and cost nothing where it multiplies by them alone.",
        )
