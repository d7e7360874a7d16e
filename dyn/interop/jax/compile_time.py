"""Sizes under ``jax.ensure_compile_time_eval``, which computes at once what depends on no argument.

What depends on a symbolic size alone (``jnp.arange(n)``, the mask of ``jnp.tril``) has no arguments either, but no
value before a call: it stays an operation of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dyn.interop.jax.internals import required

#: Its functions are called in the places of JAX's, which they call: frames of theirs are as JAX's (dyn.tracebacks).
IN_PLACES_OF_JAX = True


def leave_in_program(
    own: Callable[..., Any], has_sizes: Callable[[Sequence[Any], Mapping[str, Any]], bool]
) -> Callable[..., Any]:
    """``DynamicJaxprTrace.process_primitive``, which evaluates no operation at once of whose arguments and parameters
    ``has_sizes`` is true."""
    folding: Any = required("jax._src.config", "eager_constant_folding")

    def process_primitive(self: Any, primitive: Any, tracers: Any, params: Any, /) -> Any:
        if not folding.value or not has_sizes(tracers, params):
            return own(self, primitive, tracers, params)
        with folding(False):
            return own(self, primitive, tracers, params)

    return process_primitive


def any_size(params: Mapping[str, Any], is_size: Callable[[Any], bool]) -> bool:
    """Return True if parameters of an operation, or the functions among them, have a size that ``is_size`` tells."""
    inner: Any = required("jax._src.core", "jaxprs_in_params")
    return any(is_size(one) for one in _parts(params.values())) or any(
        _has_size(jaxpr, is_size) for jaxpr in inner(params)
    )


def _has_size(jaxpr: Any, is_size: Callable[[Any], bool]) -> bool:
    results = [var for equation in jaxpr.eqns for var in equation.outvars]
    shapes = [getattr(var.aval, "shape", ()) for var in (*jaxpr.constvars, *jaxpr.invars, *results)]
    return any(is_size(size) for shape in shapes for size in shape) or any(
        any_size(equation.params, is_size) for equation in jaxpr.eqns
    )


def _parts(values: Iterable[Any]) -> Iterable[Any]:
    """The elements of values and of the tuples and lists among them."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from _parts(value)
        else:
            yield value
