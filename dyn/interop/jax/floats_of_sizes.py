"""Roots, powers and logarithms of sizes, which are numbers of the program: ``x / math.sqrt(n)`` is one for all sizes.

They are arrays without axes, of the dtype and weak type that Python's or NumPy's float would have had. Where Python
needs the float itself (``int(math.sqrt(n))``), JAX says so, and the size is a number in the next trace.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from dyn.interop.jax.internals import required
from dyn.trace.patched_names import Replacement

#: The functions of ``math`` and of NumPy. Others (``exp``) overflow in 32 bits where 64 would do.
FUNCTIONS = ("sqrt", "log", "log2", "log10")


#: The greatest exponent of a size, for the same reason.
_GREATEST_POWER = 2


def is_exponent(power: Any) -> bool:
    """Return True if a size to this power is a float, and one of the program's."""
    is_float = isinstance(power, float) or (isinstance(power, int) and power < 0)
    return is_float and abs(power) <= _GREATEST_POWER


def of_size(function: Callable[[Any], Any], size: Any, *, weak: bool) -> Any:
    """A function of a symbolic size, as an array: weakly typed as Python's floats, or as NumPy's."""
    dtype: Any = required("jax._src.dtypes", "default_float_dtype")()
    convert: Any = required("jax._src.lax.lax", "_convert_element_type")
    return convert(function(convert(size, dtype)), dtype, weak_type=weak)


def array_function(name: str) -> Callable[[Any], Any]:
    """The function of arrays of that name."""
    return getattr(required("jax.numpy"), name)


def of_math(answer: Callable[[str, Any, FrameType], Any]) -> list[Replacement[bool]]:
    """The functions of ``math`` in traces. ``answer`` has a result for sizes, and None for everything else."""

    def answered(name: str) -> Replacement[bool]:
        own: Callable[..., float] = getattr(math, name)

        @functools.wraps(own)
        def function(*args: Any) -> Any:
            found = [answer(name, one, sys._getframe(1)) for one in args]
            if all(one is None for one in found) or len(args) > 1 + (name == "log"):
                return own(*args)
            values = [own(given) if one is None else one for given, one in zip(args, found, strict=True)]
            return values[0] / values[1] if len(values) == 2 else values[0]  # as Python computes ``log(x, base)``

        return Replacement(math, name, function)

    return [answered(name) for name in FUNCTIONS]
