"""Random bits from a state (https://openxla.org/stablehlo/spec#rng_bit_generator), as XLA makes them.

The state is a key and a counter. Each block of bits is a counter enciphered under the key, by Threefry-2x32 (64 bits,
``threefry``) or by Philox-4x32 with 10 rounds (128 bits; J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011), and the counter goes on by the number of blocks. The specification leaves
``DEFAULT`` to who implements it: it is Philox here, as it is in XLA on CPUs.

Threefry gives words of 32 bits in pairs, which lie side by side along one axis: the first that has an even size, else
the first that is the longest. Which one that is may depend on sizes that a call has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Value
from dyn.ir.opdef import NOT_CONTINUOUS, Attrs, Composite, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.expansion import expanded, expanded_batch
from dyn.ops.threefry import blocks
from dyn.shapes import Dim, RelKind, floordiv, mod, product

Array = np.ndarray[Any, Any]
ALGORITHMS = ("DEFAULT", "THREE_FRY", "PHILOX")
#: Philox's multipliers and what its key grows by from round to round, a word each.
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_GROWTH = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (state,), dtype = operands, attrs["dtype"]
    if attrs["algorithm"] not in ALGORITHMS:
        raise ctx.unsupported(f"{attrs['algorithm']!r} is no algorithm", f"use one of {', '.join(ALGORITHMS)}")
    if state.dtype is not dtypes.uint64 or state.rank != 1:
        raise ctx.fail(f"a state is two or three uint64, not {state}")
    words = (2,) if attrs["algorithm"] == "THREE_FRY" else (2, 3)
    if not isinstance(state.shape[0], int) or state.shape[0] not in words:
        ctx.require(RelKind.EQ, state.shape[0], 2, "a state is a key and a counter")
    if dtype.kind not in (Kind.INT, Kind.UINT, Kind.FLOAT):
        raise ctx.unsupported(f"random bits are not {dtype.name}", "compare random integers with a bound")
    for size in attrs["shape"]:
        ctx.require(RelKind.GE, size, 0, "there is no negative number of random bits")
    return TensorType(dtypes.uint64, state.shape), TensorType(dtype, attrs["shape"])


# --- the program --------------------------------------------------------------------------------------------------


def _expand(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    (state,), shape, dtype = operands, op.attrs["shape"], op.attrs["dtype"]
    parts = [_element(b, state, i) for i in range(state.shape[0] if isinstance(state.shape[0], int) else 2)]
    make = _threefry if op.attrs["algorithm"] == "THREE_FRY" else _philox
    counters, bits = make(b, parts, shape, dtype.bits == 64)
    rows = [b.op("reshape", part, shape=(1,)) for part in (parts[0], *counters)]
    new = b.op("concatenate", *rows, dimension=0)
    if new.shape != state.shape:
        new = b.op("reshape", new, shape=state.shape)
    return new, _as(b, bits, dtype)


def _element(b: Builder, x: Value, i: int) -> Value:
    part = b.op("slice", x, start=(i,), limit=(i + 1,), strides=(1,))
    return b.op("reshape", part, shape=())


def _as(b: Builder, bits: Value, dtype: DType) -> Value:
    """Words as numbers of a dtype: their lowest bits."""
    unsigned = dtypes.UNSIGNED[dtype.bits]
    if bits.dtype is not unsigned:
        bits = b.op("convert", bits, dtype=unsigned)
    return bits if dtype is unsigned else b.op("bitcast_convert", bits, dtype=dtype)


def _number(b: Builder, dim: Dim, shape: tuple[Dim, ...] = (), dtype: DType = dtypes.uint64) -> Value:
    """A dim, or a number, in a shape."""
    if isinstance(dim, int):
        made = b.op("constant", value=Dense(np.array(dim, dtype.np)))
    else:
        made = b.op("convert", b.op("dim_size", size=dim, dtype=dtypes.int64), dtype=dtype)
    return _spread(b, made, shape)


def _spread(b: Builder, x: Value, shape: tuple[Dim, ...]) -> Value:
    return b.op("broadcast_in_dim", x, shape=shape, dims=()) if shape else x


def _swapped(b: Builder, x: Value) -> Value:
    """64 bits, their halves exchanged."""
    turn = _number(b, 32, x.shape)
    return b.op("or", b.op("shift_left", x, turn), b.op("shift_right_logical", x, turn))


# --- Threefry -----------------------------------------------------------------------------------------------------


def _threefry(b: Builder, state: Sequence[Value], shape: tuple[Dim, ...], wide: bool) -> tuple[list[Value], Value]:
    key, counter = state
    number, second, count = _halves(b, shape) if not wide else _whole(b, shape)
    low_first = b.op("concatenate", *(b.op("reshape", w, shape=(1,)) for w in _words(b, key)), dimension=0)
    keys = b.op("broadcast_in_dim", low_first, shape=(*shape, 2), dims=(len(shape),))
    block = _swapped(b, b.op("add", number, _spread(b, counter, shape)))
    made = b.op("threefry2x32", keys, block, shape=())
    if second is None:
        bits = _swapped(b, made)
    else:
        first = b.op("shift_right_logical", made, _number(b, 32, shape))
        bits = b.op("convert", b.op("select", second, made, first), dtype=dtypes.uint32)
    return [b.op("add", counter, count)], bits


def _words(b: Builder, x: Value) -> tuple[Value, Value]:
    """The low and the high half of 64 bits."""
    high = b.op("shift_right_logical", x, _number(b, 32, x.shape))
    return b.op("convert", x, dtype=dtypes.uint32), b.op("convert", high, dtype=dtypes.uint32)


def _whole(b: Builder, shape: tuple[Dim, ...]) -> tuple[Value, None, Value]:
    """Numbers of the elements' blocks, in the order of the elements; and the number of blocks."""
    size = product(shape)
    flat = b.op("iota", shape=(size,), dimension=0, dtype=dtypes.uint64)
    return b.op("reshape", flat, shape=shape), None, _number(b, size)


def _halves(b: Builder, shape: tuple[Dim, ...]) -> tuple[Value, Value, Value]:
    """Numbers of the elements' blocks, masks of the blocks' second words, and the number of blocks.

    The blocks are numbered in the order of the elements of an array that is half as long along the axis of pairs.
    """
    a = Arithmetic(b)
    number, count = _number(b, 0, shape), _number(b, 1)
    second = a.cmp(number, "NE", number)
    for axis, split in enumerate(_split_axis(b, shape)):
        place = b.op("iota", shape=shape, dimension=axis, dtype=dtypes.uint64)
        here = _spread(b, split, shape)
        odd = a.f("and", here, a.cmp(a.f("and", place, a.fill(place, 1)), "NE", 0))
        second = a.f("or", second, odd)
        length = a.where(split, _number(b, floordiv(shape[axis] + 1, 2)), _number(b, shape[axis]))
        place = a.where(here, a.f("shift_right_logical", place, a.fill(place, 1)), place)
        number = a.add(a.mul(number, _spread(b, length, shape)), place)
        count = a.mul(count, length)
    return number, second, count


def _split_axis(b: Builder, shape: tuple[Dim, ...]) -> list[Value]:
    """Flags of the axes, scalars: that of the axis along which pairs lie is true. There may be none."""
    a = Arithmetic(b)
    sizes = [_number(b, d) for d in shape]
    even = [a.cmp(_number(b, mod(d, 2)), "EQ", 0) for d in shape]
    none = b.op("constant", value=Dense(np.array(True)))
    for flag in even:
        none = a.f("and", none, a.f("not", flag))
    found: list[Value] = []
    for axis in range(len(shape)):
        first = even[axis]
        for flag in even[:axis]:
            first = a.f("and", first, a.f("not", flag))
        longest = none
        for other, size in enumerate(sizes):
            if other != axis:
                longest = a.f("and", longest, a.cmp(sizes[axis], "GT" if other < axis else "GE", size))
        found.append(a.f("or", first, longest))
    return found


# --- Philox -------------------------------------------------------------------------------------------------------


def _philox(b: Builder, state: Sequence[Value], shape: tuple[Dim, ...], wide: bool) -> tuple[list[Value], Value]:
    key, low, high = state if len(state) == 3 else (*state, state[0])
    words = 2 * product(shape) if wide else product(shape)
    count = floordiv(words + 3, 4)
    place = b.op("iota", shape=(count,), dimension=0, dtype=dtypes.uint64)
    lows, highs = _carried(b, _spread(b, low, (count,)), _spread(b, high, (count,)), place)
    made = _enciphered(b, [*_words(b, lows), *_words(b, highs)], [_spread(b, w, (count,)) for w in _words(b, key)])
    columns = [b.op("reshape", word, shape=(count, 1)) for word in made]
    flat = b.op("reshape", b.op("concatenate", *columns, dimension=1), shape=(4 * count,))
    flat = b.op("slice", flat, start=(0,), limit=(words,), strides=(1,))
    new = _carried(b, low, high, _number(b, count))
    if not wide:
        return [*new][: len(state) - 1], b.op("reshape", flat, shape=shape)
    pairs = b.op("reshape", flat, shape=(product(shape), 2))
    sides = [b.op("slice", pairs, start=(0, i), limit=(product(shape), i + 1), strides=(1, 1)) for i in range(2)]
    first, second = (b.op("convert", side, dtype=dtypes.uint64) for side in sides)
    joined = b.op("or", first, b.op("shift_left", second, _number(b, 32, second.shape)))
    return [*new][: len(state) - 1], b.op("reshape", joined, shape=shape)


def _carried(b: Builder, low: Value, high: Value, count: Value) -> tuple[Value, Value]:
    """128 bits, and a number more."""
    a = Arithmetic(b)
    total = a.add(low, count)
    carry = b.op("convert", a.cmp(total, "LT", low), dtype=dtypes.uint64)
    return total, a.add(high, carry)


def _enciphered(b: Builder, counter: Sequence[Value], key: Sequence[Value]) -> list[Value]:
    """Ten rounds; each exchanges halves of the products of two of the words."""
    a, (x, y, z, w), (k0, k1) = Arithmetic(b), counter, key
    for _ in range(_ROUNDS):
        (low0, high0), (low1, high1) = (_product(b, v, m) for v, m in zip((x, z), _FACTORS, strict=True))
        x, y, z, w = a.f("xor", a.f("xor", high1, y), k0), low1, a.f("xor", a.f("xor", high0, w), k1), low0
        k0, k1 = (a.add(k, _number(b, g, k.shape, dtypes.uint32)) for k, g in zip((k0, k1), _GROWTH, strict=True))
    return [x, y, z, w]


def _product(b: Builder, x: Value, factor: int) -> tuple[Value, Value]:
    wide = b.op("convert", x, dtype=dtypes.uint64)
    return _words(b, b.op("multiply", wide, _number(b, factor, x.shape)))


# --- NumPy --------------------------------------------------------------------------------------------------------


def _reference(state: Array, shape: tuple[int, ...], dtype: DType, algorithm: str) -> tuple[Array, Array]:
    wide = dtype.bits == 64
    words = np.uint64(_LOW)
    with np.errstate(over="ignore"):
        if algorithm == "THREE_FRY":
            count, bits = _threefry_array(state, shape, wide)
            new = np.array([state[0], state[1] + np.uint64(count)], np.uint64)
        else:
            size = (2 if wide else 1) * int(np.prod(shape, dtype=np.int64))
            count = -(-size // 4)
            start = int(state[1]) + (int(state[2] if len(state) == 3 else state[0]) << 64)
            flat = _philox_array(int(state[0]), start, count)[:size]
            bits = flat if not wide else flat[::2].astype(np.uint64) | flat[1::2].astype(np.uint64) << np.uint64(32)
            after = (start + count) % 2**128
            new = np.array([state[0], after & (2**64 - 1), after >> 64][: len(state)], np.uint64)
    unsigned = np.dtype(f"u{dtype.np.itemsize}")
    narrow = bits & words if not wide else bits
    return new, narrow.astype(unsigned).reshape(shape).view(dtype.np)


def _threefry_array(state: Array, shape: tuple[int, ...], wide: bool) -> tuple[int, Array]:
    keys = np.array([int(state[0]) & _LOW, int(state[0]) >> 32], np.uint32)
    half = list(shape)
    axis = None
    if not wide and shape:
        axis = next((i for i, n in enumerate(shape) if n % 2 == 0), shape.index(max(shape)))
        half[axis] = -(-shape[axis] // 2)
    count = int(np.prod(half, dtype=np.int64))
    counters = state[1] + np.arange(count, dtype=np.uint64)
    turn = np.uint64(32)
    made = blocks(np.broadcast_to(keys, (count, 2)), counters << turn | counters >> turn, ()).reshape(half)
    first, second = made >> turn, made & np.uint64(_LOW)
    if wide:
        return count, first | second << turn
    if axis is None:
        return count, first
    pairs = np.stack([first, second], axis + 1).reshape(*half[:axis], 2 * half[axis], *half[axis + 1 :])
    return count, np.take(pairs, np.arange(shape[axis]), axis)


def _philox_array(key: int, start: int, count: int) -> Array:
    counters = [(start + i) % 2**128 for i in range(count)]
    x, y, z, w = (np.array([c >> shift & _LOW for c in counters], np.uint64) for shift in (0, 32, 64, 96))
    low, turn = np.uint64(_LOW), np.uint64(32)
    k0, k1 = key & _LOW, key >> 32
    for _ in range(_ROUNDS):
        p, q = np.uint64(_FACTORS[0]) * x, np.uint64(_FACTORS[1]) * z
        x, y, z, w = (q >> turn) ^ y ^ np.uint64(k0), q & low, (p >> turn) ^ w ^ np.uint64(k1), p & low
        k0, k1 = (k0 + _GROWTH[0]) & _LOW, (k1 + _GROWTH[1]) & _LOW
    return np.stack([x, y, z, w], -1).reshape(-1)


def _samples() -> list[Sample]:
    state, last = np.array([2**33 + 1, 2**34 + 3], np.uint64), np.array([5, 2**64 - 2], np.uint64)
    return [
        *(
            Sample((state,), {"shape": shape, "dtype": dtypes.uint32, "algorithm": algorithm})
            for algorithm, shapes in (("THREE_FRY", ((), (0,), (7,), (3, 5))), ("PHILOX", ((1,), (3, 2))))
            for shape in shapes
        ),
        *(
            Sample((last,), {"shape": (5,), "dtype": dtype, "algorithm": algorithm})
            for algorithm, dtype in (("DEFAULT", dtypes.int16), ("THREE_FRY", dtypes.uint64), ("PHILOX", dtypes.int64))
        ),
    ]


#: A state, two or three uint64, to the state after it and random bits of ``shape`` as numbers of ``dtype``.
rng_bit_generator = OpDef(
    "rng_bit_generator",
    OpKind.OPAQUE,
    types=_types,
    loops=Composite(),
    reference=_reference,
    samples=_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=expanded_batch(_expand),
    simplify=expanded(_expand),
)  # fmt: skip
