"""What a tensor of a TensorFlow graph is while the graph is read: data, or something that is known before it runs.

- data, constants and sizes, as in every front end (:mod:`dyn.interop.sizes.values`);
- :class:`Resource`: a variable, of which operations read and assign the value;
- :class:`Foreign`: what only TensorFlow's own operations take;
- :class:`Reductions`: the axes that a gradient is summed over, where a broadcast is undecided;
- :class:`EachAxis`: a one for each of these;
- :class:`~dyn.interop.tf.lists.TensorList`: a list of tensors;
- :class:`~dyn.interop.tf.optionals.Optional`: what one branch of a program gives to its derivative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.shapes import Dim
from dyn.source import user_loc

_DTYPES = {one.name: one for one in dtypes.ALL} | {"half": dtypes.float16}


def dyn_dtype(name: str) -> DType | None:
    """dyn's dtype by TensorFlow's name; None where it has none."""
    return _DTYPES.get(name)


def known_dtype(name: str) -> DType:
    """dyn's dtype by TensorFlow's name; UnsupportedOpError where it has none."""
    found = _DTYPES.get(name)
    if found is None:
        raise UnsupportedOpError(f"dyn has no arrays of {name}.", remedy="convert to another dtype.")
    return found


@dataclass(frozen=True, slots=True)
class Resource:
    """A variable, by what it is known by: variable ``number`` of the program, with the sizes that it has for good."""

    number: int
    shape: tuple[int | None, ...] = field(compare=False)


@dataclass(frozen=True, eq=False, slots=True)
class Foreign:
    """A tensor of TensorFlow's that dyn has no arrays for, a table among them: operations of it are TensorFlow's."""

    tensor: Any


@dataclass(frozen=True, eq=False, slots=True)
class Reductions:
    """The axes over which a gradient is summed for an operand of ``own`` shape that was broadcast with ``other``.

    They are counted from the axis ``first`` of the gradient on.
    """

    own: tuple[Dim, ...]
    other: tuple[Dim, ...]
    first: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class EachAxis:
    """A one, or True, for each of the axes of reductions. TensorFlow counts these from another one by it."""

    reductions: Reductions


@dataclass(frozen=True, eq=False, slots=True)
class ConstantChoice:
    """Tensor that is one constant under a condition on sizes, and else another."""

    condition: Any
    yes: np.ndarray[Any, Any]
    no: np.ndarray[Any, Any]


def check_is_array(tensor: Any) -> None:
    """Raise UnsupportedOpError for a tensor that is no array of numbers on the CPU."""
    if dyn_dtype(tensor.dtype.name) is None:
        raise UnsupportedOpError(
            f"a tensor of {tensor.dtype.name}, of which dyn has no arrays.",
            loc=user_loc(),
            remedy="convert it to a tensor of numbers before the call.",
        )
    if tensor.shape.rank is None:
        raise UnsupportedOpError("a tensor of an unknown rank.", loc=user_loc(), remedy="state it by tf.ensure_shape.")
    if "CPU" not in tensor.device and tensor.device:
        raise UnsupportedOpError(
            f"a tensor on {tensor.device}: this version computes on the CPU.",
            loc=user_loc(),
            remedy="compute it under tf.device('CPU').",
        )
