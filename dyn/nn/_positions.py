"""Positional encodings: a token's place as part of its features."""

from __future__ import annotations

import math

import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import ShapeError
from dyn.numpy._axes import text_of
from dyn.numpy._creation import indices
from dyn.numpy._operands import cast, operand, promote, shape_of, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, floordiv
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["rotary_embedding"]


@public
def rotary_embedding(
    x: ArrayLike, /, positions: ArrayLike | None = None, *, base: float = 10_000.0, interleaved: bool = False
) -> Array:
    """Rotate pairs of features by an angle that grows with the position (https://arxiv.org/abs/2104.09864).

    Pair i turns by ``base ** (-2 i / width)`` a position. Angles are computed in float32 at least.

    Args:
        x: array ``[..., length, heads, width]`` of any real dtype; sizes may be symbolic.
        positions: array ``[length]`` or ``[..., length]``; None: from 0 on. With a cache of earlier keys pass
            ``past + dnp.arange(length)``.
        base: wavelengths' base, a Python number.
        interleaved: False: a pair is features i and i + width / 2, as in GPT-NeoX and Llama; True: 2 i and 2 i + 1, as
            in GPT-J.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers in the default float dtype.

    Raises:
        ShapeError: if ``x`` has fewer than three axes, or an odd width, at the call at the latest.

    Example:
        >>> nn.rotary_embedding(np.ones((2, 1, 4), np.float32)).shape
        (2, 1, 4)
    """
    (value,) = promote("rotary_embedding", x, choose=to_float)
    if value.ndim < 3:
        raise ShapeError(
            f"rotary_embedding: the array is {text_of(value)}, and needs 3 axes at least.",
            loc=user_loc(),
            remedy="give it as [..., length, heads, width].",
        )
    width = shape_of(value)[-1]
    even = Reason(f"rotary_embedding turns pairs of the features of {text_of(value)}", user_loc())
    value._trace.require(Relation(RelKind.DIVIDES, 2, width, even))
    half = floordiv(width, 2)
    pairs_of = wrap_dim(value._trace, half)
    wide = value.element_type.wide
    angles = _angles(value, positions, half, wide, base)
    cosines, sines = dnp.cos(angles), dnp.sin(angles)
    pairs = dnp.reshape(cast(value, wide), (*value.shape[:-1], *((pairs_of, 2) if interleaved else (2, pairs_of))))
    axis = -1 if interleaved else -2
    first, second = (dnp.take(pairs, i, axis) for i in (0, 1))
    turned = [first * cosines - second * sines, second * cosines + first * sines]
    return cast(dnp.reshape(dnp.stack(turned, axis), value.shape), value.element_type)


def _angles(x: Tracer, positions: ArrayLike | None, half: Dim, wide: dtypes.DType, base: float) -> Array:
    """The angle of each pair at each position: ``[..., length, 1, width / 2]``."""
    trace, length = x._trace, shape_of(x)[-3]
    if positions is None:
        place: Array = indices(trace, (length,), 0, wide)
    else:
        place = cast(operand("rotary_embedding", positions, x), wide)
    pair: Array = indices(trace, (half,), 0, wide)
    step = dnp.exp(pair * -math.log(base) / wrap_dim(trace, dim_max(half, 1)))
    return dnp.expand_dims(dnp.expand_dims(place, -1) * step, -2)
