"""The block cipher that random bits come from.

Threefry-2x32 with 20 rounds (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011) turns a counter of 64 bits into 64 bits that look random, under a key of 64 bits. Each block is computed by
itself, from nothing but its place: there is no state that goes from one to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import (
    NOT_CONTINUOUS,
    Attrs,
    ElementLoops,
    Get,
    OpDef,
    OpKind,
    Sample,
    ScalarBuilder,
    TypeContext,
)
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import again
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]

#: By how much the second word is turned to the left, round by round: the first four, the next four, and so on.
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
#: What makes the third word of the key schedule differ from 0 where the other two are equal.
_PARITY = 0x1BD11BDA
_GROUPS = 5


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    keys, first = operands
    if keys.dtype is not dtypes.uint32 or first.dtype is not dtypes.uint64:
        raise ctx.unsupported(
            f"keys are uint32 and counters uint64, not {keys.dtype.name} and {first.dtype.name}",
            "convert them with .astype first",
        )
    if keys.rank != first.rank + 1:
        raise ctx.fail(f"{keys} is not two words for each of {first}", "give keys of shape (..., 2)")
    for axis, (own, other) in enumerate(zip(keys.shape, first.shape, strict=False)):
        ctx.require(RelKind.EQ, own, other, f"keys and counters agree on axis {axis}")
    ctx.require(RelKind.EQ, keys.shape[-1], 2, "a key is two words")
    for size in attrs["shape"]:
        ctx.require(RelKind.GE, size, 0, "there is no negative number of blocks")
    return (TensorType(dtypes.uint64, (*first.shape, *attrs["shape"])),)


def _at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    leading = index[: len(op.operands[1].shape)]
    place: Dim = 0
    for i, size in zip(index[len(leading) :], op.attrs["shape"], strict=True):
        place = place * size + i
    count = k.apply(Scalar.ADD, [get(1, leading), k.index(dtypes.uint64, place)], dtypes.uint64)
    return _joined(k, *_enciphered(k, (get(0, (*leading, 0)), get(0, (*leading, 1))), _words(k, count)))


def _words(k: ScalarBuilder, block: Any) -> tuple[Any, Any]:
    """The upper and the lower half of 64 bits."""
    high = k.apply(Scalar.SHRL, [block, k.const(dtypes.uint64, 32)], dtypes.uint64)
    return k.apply(Scalar.CAST, [high], dtypes.uint32), k.apply(Scalar.CAST, [block], dtypes.uint32)


def _joined(k: ScalarBuilder, high: Any, low: Any) -> Any:
    """64 bits of two halves."""
    wide_high, wide_low = (k.apply(Scalar.CAST, [word], dtypes.uint64) for word in (high, low))
    shifted = k.apply(Scalar.SHL, [wide_high, k.const(dtypes.uint64, 32)], dtypes.uint64)
    return k.apply(Scalar.OR, [shifted, wide_low], dtypes.uint64)


def _enciphered(k: ScalarBuilder, key: tuple[Any, Any], words: tuple[Any, Any]) -> tuple[Any, Any]:
    return cipher(
        lambda fn, a, b: k.apply(fn, [a, b], dtypes.uint32), lambda value: k.const(dtypes.uint32, value), key, words
    )


def cipher(
    word: Callable[[Scalar, Any, Any], Any], number: Callable[[int], Any], key: tuple[Any, Any], words: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Five times four rounds, and after each four a part of the key schedule: ``word(fn, a, b)`` computes on words."""
    schedule = (*key, word(Scalar.XOR, word(Scalar.XOR, *key), number(_PARITY)))
    x, y = (word(Scalar.ADD, a, b) for a, b in zip(words, key, strict=True))
    for group in range(_GROUPS):
        for turn in _TURNS[group % 2]:
            x = word(Scalar.ADD, x, y)
            turned = word(Scalar.OR, word(Scalar.SHL, y, number(turn)), word(Scalar.SHRL, y, number(32 - turn)))
            y = word(Scalar.XOR, x, turned)
        x = word(Scalar.ADD, x, schedule[(group + 1) % 3])
        y = word(Scalar.ADD, word(Scalar.ADD, y, schedule[(group + 2) % 3]), number(group + 1))
    return x, y


def blocks(keys: Array, first: Array, shape: tuple[int, ...]) -> Array:
    """Blocks of random bits with NumPy, for the reference and for samplers that a library computes."""
    counts = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64).reshape(shape)
    counts = np.asarray(first)[(..., *(None,) * len(shape))] + counts
    a, b = (keys[..., i].reshape(first.shape + (1,) * len(shape)) for i in (0, 1))
    schedule = (a, b, a ^ b ^ np.uint32(_PARITY))
    with np.errstate(over="ignore"):
        x = (counts >> np.uint64(32)).astype(np.uint32) + a
        y = counts.astype(np.uint32) + b
        for group in range(_GROUPS):
            for turn in _TURNS[group % 2]:
                x = x + y
                y = x ^ ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn)))
            x = x + schedule[(group + 1) % 3]
            y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return np.asarray((x.astype(np.uint64) << np.uint64(32)) | y)


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    return again(b, op, [v if own else spread(b, v, size) for v, own in zip(operands, batched, strict=True)])


def _samples() -> list[Sample]:
    rng = np.random.default_rng(7)

    def call(leading: tuple[int, ...], shape: tuple[int, ...], first: int = 0) -> Sample:
        keys = rng.integers(0, 2**32, (*leading, 2), np.uint32)
        return Sample((keys, np.full(leading, first, np.uint64)), {"shape": shape})

    return [
        *(call((), shape) for shape in ((), (0,), (1,), (2,), (7,), (64,), (3, 5), (2, 0, 4))),
        *(call(leading, (3,)) for leading in ((0,), (1,), (2, 3))),
        *(call((2,), (), first) for first in (1, 2**32 - 1, 2**32, 2**64 - 1)),
        call((1,), (5,), 2**64 - 2),  # counters wrap
    ]


#: What StableHLO calls the scalar functions of a cipher.
NAMES = {
    Scalar.ADD: "add", Scalar.XOR: "xor", Scalar.OR: "or", Scalar.SHL: "shift_left",
    Scalar.SHRL: "shift_right_logical",
}  # fmt: skip


#: For each key of ``keys`` (…, 2), uint32, the blocks at the counters ``first``, ``first + 1``, … in the order of
#: ``shape``'s elements, uint64. ``first`` has the shape (…) and uint64, and counters wrap.
threefry2x32 = OpDef(
    "threefry2x32",
    OpKind.INDEXED,
    types=_types,
    loops=ElementLoops(_at),
    reference=blocks,
    samples=_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=_batch,
)  # fmt: skip
