"""Calls outside of a trace: the function is compiled for its arrays and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.api import jit
from dyn.trace.pytree import flatten, unflatten


def call_eagerly(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``fn(*args, **kwargs)``, compiled: arrays become arguments, everything else is part of the program."""
    leaves, tree = flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if is_array(leaf)]

    def program(*arrays: Any) -> Any:
        filled = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        inner_args, inner_kwargs = unflatten(tree, filled)
        return fn(*inner_args, **inner_kwargs)

    program.__name__ = fn.__name__
    return jit(program)(*[leaves[place] for place in places])


def is_array(value: object) -> bool:
    """Whether a leaf is an array, rather than a number, a dtype or another part of the call."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    return not isinstance(value, type) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
