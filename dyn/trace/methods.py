"""Methods of arrays that are functions of the NumPy namespace, with the array in front: ``x.sum(axis=0)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dyn.trace.context import Namespace, installed_namespace

K = TypeVar("K", bound=type)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(installed_namespace(), name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def reshape(self: Any, /, *shape: Any, order: str = "C") -> Any:
    """Elements in their order, in another shape, as by ``dyn.numpy.reshape``.

    Args:
        *shape: sizes of the result, one by one or in a tuple; one may be -1.
        order: ``"C"``, the only one.

    Returns:
        An array of the same dtype.

    Raises:
        ShapeError: if another number of elements has that shape.

    Example:
        >>> dnp.arange(6).reshape(2, -1).shape
        (2, 3)
    """
    return installed_namespace().reshape(self, shape[0] if len(shape) == 1 else shape, order)


def transpose(self: Any, /, *axes: Any) -> Any:
    """Array with its axes in another order, as by ``dyn.numpy.transpose``.

    Args:
        *axes: for each axis of the result that of this array, one by one or in a tuple; none: the reverse order.

    Returns:
        An array of the same dtype.

    Raises:
        ShapeError: if these are not the axes of the array, each once.

    Example:
        >>> dnp.ones((2, 3, 4)).transpose(1, 0, 2).shape
        (3, 2, 4)
    """
    given = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)) else axes
    return installed_namespace().transpose(self, given if given else None)


#: The methods that are functions with the array in front, by their names.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _method(name)
    for name in (
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "clip", "conj", "conjugate", "copy",
        "cumprod", "cumsum", "diagonal", "nonzero", "partition", "searchsorted", "sort",
        "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "round", "squeeze", "std",
        "sum", "swapaxes", "take", "trace", "var",
    )
}  # fmt: skip
METHODS = _FUNCTIONS | {"reshape": reshape, "transpose": transpose}


def document_methods(namespace: Namespace) -> None:
    """Give methods the signatures and docstrings of the namespace's functions, without their first parameter."""
    for name, method in _FUNCTIONS.items():
        function = getattr(namespace, name)
        vars(method)["__wrapped__"] = function  # where ``inspect.signature`` looks
        method.__doc__ = _without_first_argument(name, function.__doc__ or "")


def _without_first_argument(name: str, doc: str) -> str:
    """The docstring of a function as one of its method: the first entry of ``Args:`` is the array itself."""
    before, _, after = doc.partition("    Args:\n")
    entries, _, after = after.partition("\n\n")
    first, *others = entries.split("\n")
    array = first.strip().partition(":")[0]
    while others and others[0].startswith(" " * 12):  # the rest of the first entry
        del others[0]
    arguments = "".join(f"{line}\n" for line in ("    Args:", *others, "")) if others else ""
    return f"{before}    ``{array}`` is the array itself: this is ``dyn.numpy.{name}``.\n\n{arguments}{after}"


def has_methods(kind: K) -> K:
    """A class decorator: its objects are arrays, and have the methods."""
    for name, method in METHODS.items():
        setattr(kind, name, method)
    return kind
