"""Methods of arrays that are functions of the NumPy namespace, with the array in front: ``x.sum(axis=0)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from dyn.errors import UnsupportedOpError
from dyn.source import user_loc
from dyn.trace.context import Namespace, installed_namespace
from dyn.tracebacks import hide_own_frames

K = TypeVar("K", bound=type)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        # NumPy's functions of arrays that are not its own call their methods: ``np.sum(x)`` is ``x.sum(…, out=None)``.
        out = kwargs.pop("out", None)
        for option, values in _WITHOUT_EFFECT.get(name, {}).items():
            if values is None or kwargs.get(option, _WITHOUT_EFFECT) in values:
                kwargs.pop(option, None)
        namespace = installed_namespace()
        try:
            result = getattr(namespace, name)(self, *args, **kwargs)
            return result if out is None else namespace.written(name, out, result)
        except Exception as error:
            hide_own_frames(error)
            raise

    method.__name__ = method.__qualname__ = name
    return method


#: Options of NumPy's methods that change nothing at these values, or at any (None): each sort is stable here, and what
#: is in an array is no error (``mode="raise"``).
_WITHOUT_EFFECT: dict[str, dict[str, tuple[Any, ...] | None]] = {
    "argsort": {"kind": None, "order": (None,), "stable": (None,)},
    "argpartition": {"kind": None, "order": (None,)},
    "take": {"mode": ("raise", None)},
    "copy": {"order": ("C", "K", "A")},
}


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
        "cumprod", "cumsum", "diagonal", "nonzero", "searchsorted",
        "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "round", "squeeze", "std",
        "sum", "swapaxes", "take", "trace", "var",
    )
}  # fmt: skip
METHODS = _FUNCTIONS | {"reshape": reshape, "transpose": transpose}
#: NumPy's methods that change their array and return None.
_CHANGES = ("sort", "partition", "fill", "put")
#: Those that change its shape, or what arrays of dyn have not; and what to write.
_REFUSED = {
    "resize": "write x = dyn.numpy.resize(x, shape), which repeats elements where NumPy's method fills with zeros",
    "itemset": "write x = x.at[index].set(value)",
    "byteswap": "leave it to a NumPy array: arrays of dyn have the machine's order of bytes",
    "setflags": "leave it out: an array of dyn has no flags to set",
}


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


def _in_place(name: str) -> Callable[..., None]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> None:
        self._change(name, args, kwargs)

    return method


def _refused(name: str, problem: str, remedy: str) -> Callable[..., NoReturn]:
    def method(self: Any, /, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedOpError(f"x.{name}(): {problem}.", loc=user_loc(), remedy=f"{remedy}.")

    return method


def _with_method(kind: type, name: str, method: Callable[..., Any], summary: str) -> None:
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""{summary}

    Args:
        *args: what NumPy's method takes.
        **kwargs: what it takes by name.

    Raises:
        UnsupportedOpError: where the array cannot change so.
    """
    setattr(kind, name, method)


def changes_in_place(kind: K) -> K:
    """A class decorator: NumPy's methods that change an array are there, by its ``_change``; others are refused."""
    for name in _CHANGES:
        _with_method(kind, name, _in_place(name), f"Change the array as NumPy's ``ndarray.{name}`` does.")
    problem = "an array of dyn does not change so"
    for name, remedy in _REFUSED.items():
        doc = f"Raise UnsupportedOpError: {problem}; {remedy}."
        _with_method(kind, name, _refused(name, problem, remedy), doc)
    return kind
