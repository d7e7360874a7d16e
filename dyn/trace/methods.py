"""Methods of arrays that are functions of the NumPy namespace, with the array in front: ``x.sum(axis=0)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dyn.trace.context import installed_namespace

K = TypeVar("K", bound=type)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(installed_namespace(), name)(self, *args, **kwargs)

    more = {
        "*args": f"further arguments of ``dyn.numpy.{name}``, by position.",
        "**kwargs": "further arguments of it, by name.",
    }
    return _named(method, name, more)


def _reshape(self: Any, /, *shape: Any, order: str = "C") -> Any:
    return installed_namespace().reshape(self, shape[0] if len(shape) == 1 else shape, order)


def _transpose(self: Any, /, *axes: Any) -> Any:
    given = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)) else axes
    return installed_namespace().transpose(self, given if given else None)


def _named(method: Callable[..., Any], name: str, arguments: dict[str, str]) -> Callable[..., Any]:
    """A method under its name, with a docstring made of what it takes beside the array."""
    method.__name__ = method.__qualname__ = name
    takes = "\n".join(f"        {argument}: {text}" for argument, text in arguments.items())
    method.__doc__ = f"""Method for ``dyn.numpy.{name}``, of this array.

    Args:
{takes}

    Returns:
        What that function gives.
    """
    return method


#: The methods by their names.
METHODS: dict[str, Callable[..., Any]] = {
    name: _method(name)
    for name in (
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "clip", "conj", "conjugate", "copy",
        "cumprod", "cumsum", "diagonal", "nonzero", "partition", "searchsorted", "sort",
        "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "round", "squeeze", "std",
        "sum", "swapaxes", "take", "trace", "var",
    )
} | {
    "reshape": _named(_reshape, "reshape", {
        "*shape": "sizes of the result, one by one or in a tuple; one may be -1.",
        "order": "``\"C\"``, the only one.",
    }),
    "transpose": _named(_transpose, "transpose", {
        "*axes": "for each axis of the result that of this array, one by one or in a tuple; none: the reverse order.",
    }),
}  # fmt: skip


def has_methods(kind: K) -> K:
    """A class decorator: its objects are arrays, and have the methods."""
    for name, method in METHODS.items():
        setattr(kind, name, method)
    return kind
