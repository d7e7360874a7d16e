"""NumPy's functions that change their first argument."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from dyn.array import Array as OwnArray
from dyn.array import become, is_own
from dyn.errors import UnsupportedOpError
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

F = TypeVar("F", bound=Callable[..., Any])


def changing(fn: F) -> F:
    """NumPy's way of a public function: unless ``inplace`` is False, its result becomes its first argument's elements.

    It returns None then. Arrays of other libraries, whose memory is not dyn's to write to, are an UnsupportedOpError.
    """
    name = fn.__name__
    first = next(iter(inspect.signature(fn).parameters))

    @functools.wraps(fn)
    def call(*args: Any, inplace: bool = True, **kwargs: Any) -> Any:
        array = args[0] if args else kwargs.get(first)
        if inplace and not isinstance(array, OwnArray):
            raise UnsupportedOpError(
                f"{name} cannot change a {type(array).__name__}, which is not dyn's.",
                loc=user_loc(),
                remedy=f"write y = dyn.numpy.{name}(…, inplace=False), which gives a new array, or use np.{name}.",
            )
        result = fn(*args, **kwargs)
        if not inplace:
            return result
        if isinstance(array, Tracer):
            array._become(result)
        elif is_own(array):
            become(array, result, sys._getframe(1))
        return None

    return call  # pyright: ignore[reportReturnType]  # wraps() keeps the signature, its type does not
