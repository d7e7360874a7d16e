"""Tile registers of x86 (AMX): permission to use them, and a test before anything does.

Linux gives a process the registers when it asks for them, once; threads and children by ``fork`` have them too. A
refusal (an old kernel, a sandbox, a thread with a small stack for signals) means that there are none. Then each
instruction that units are made of runs on a few tiles, and must have the bits of its definition. One that has not is
not used, and a warning says so: dyn's kernels were written without such a processor at hand.

The definitions are those of Intel's manual (Software Developer's Manual, volume 2). Of bytes: ``acc[m, n]`` takes the
products of all bytes of ``left[m, k]`` and ``right[k, n]``, wrapping. Of bfloat16 pairs (TDPBF16PS), for each row::

    pair[n] = (0, 0)
    for k: pair[n] = fma(left[m, k][0], right[k, n][0], pair[n][0]), fma(left[m, k][1], right[k, n][1], pair[n][1])
    acc[m, n] = acc[m, n] + (pair[n][0] + pair[n][1])

in float32, each rounded to the nearest, ties to even; subnormal numbers that go in or come out are 0; no exceptions.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dyn.errors import DynError
from dyn.frozen import record

Array = np.ndarray[Any, Any]

#: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), by its number on x86-64.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
#: The least normal float32, and what is rounded up to it.
_LEAST = 2.0**-126
_ROUNDED_UP = _LEAST * (1 - 2.0**-25)


@record()
class TileInstruction:
    """An instruction that adds products of two tiles: its name, LLVM's feature, and the dtypes of elements by NumPy's
    names; bfloat16 is its bits."""

    name: str
    feature: str
    left: str
    right: str
    acc: str

    @property
    def group(self) -> int:
        """Elements of a word."""
        return 4 // np.dtype(self.left).itemsize


INSTRUCTIONS = (
    TileInstruction("tdpbssd", "amx-int8", "i1", "i1", "i4"),
    TileInstruction("tdpbsud", "amx-int8", "i1", "u1", "i4"),
    TileInstruction("tdpbusd", "amx-int8", "u1", "i1", "i4"),
    TileInstruction("tdpbuud", "amx-int8", "u1", "u1", "i4"),
    TileInstruction("tdpbf16ps", "amx-bf16", "u2", "u2", "f4"),
)
#: Compiles a text with functions of these names: their addresses.
Compile = Callable[[str, tuple[str, ...]], Mapping[str, int]]


def usable_features(features: str, compile: Compile) -> str:
    """The features of this processor by LLVM's names, without those of tile registers that it may not use."""
    named = features.split(",")
    there = {one.feature for one in INSTRUCTIONS if f"+{one.feature}" in named}
    if not there:
        return features
    usable = there if _permitted() else set[str]()
    if usable:
        failed = [one for one in INSTRUCTIONS if one.feature in usable and not _is_right(one, compile)]
        usable = usable - {one.feature for one in failed}
        if failed:
            names = ", ".join([one.name for one in failed])
            warnings.warn(
                f"{names} of this processor did not compute what Intel defines, and is not used.\n"
                "  help: please report it with the processor's name.",
                RuntimeWarning,
                stacklevel=2,
            )
    return ",".join([f"-{name[1:]}" if name[1:] in there - usable else name for name in named])


def _is_right(one: TileInstruction, compile: Compile) -> bool:
    """Whether an instruction passes its test; one that cannot be compiled does not."""
    try:
        return passes(one, compile)
    except DynError:
        return False


def _permitted() -> bool:
    """Ask Linux for tile registers."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc.syscall(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST), ctypes.c_long(_TILE_DATA)) == 0


# ---- the test --------------------------------------------------------------------------------------------------------

#: (rows, columns, words along the contracted axis) of the tiles.
_SHAPES = ((16, 16, 16), (5, 16, 3), (1, 7, 1))


def passes(one: TileInstruction, compile: Compile) -> bool:
    """Whether an instruction computes what it is defined to, to the bit."""
    symbol = f"dyn_amx_{one.name}"
    address = compile(instruction_text(one, symbol), (symbol,))[symbol]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)
    for rows, columns, words in _SHAPES:
        acc, left, right = _sample(one, rows, columns, words)
        config = np.zeros(64, np.uint8)
        config[0] = 1
        config[16:22:2] = columns * 4, words * 4, columns * 4
        config[48:51] = rows, rows, words
        tiles = [np.zeros((16, 64), np.uint8) for _ in range(3)]
        for tile, value in zip(tiles, (acc, left, right), strict=True):
            raw = np.ascontiguousarray(value).view(np.uint8).reshape(len(value), -1)
            tile[: raw.shape[0], : raw.shape[1]] = raw
        function(config.ctypes.data, *[tile.ctypes.data for tile in tiles])
        expected = np.ascontiguousarray(products(one, acc, left, right))
        if not np.array_equal(tiles[0][:rows, : columns * 4], expected.view(np.uint8).reshape(rows, -1)):
            return False
    return True


def _sample(one: TileInstruction, rows: int, columns: int, words: int) -> list[Array]:
    """An accumulator, and words of both operands: the limits of integers; floats of many sizes, and subnormal ones."""
    shapes = ((rows, columns), (rows, words, one.group), (words, columns, one.group))
    draws = random.Random(0)  # that of NumPy is another 10 ms of imports

    def drawn(shape: tuple[int, ...], draw: Callable[[], float], dtype: Any) -> Array:
        return np.array([draw() for _ in range(math.prod(shape))], dtype).reshape(shape)

    if one.acc == "f4":
        acc, left, right = [
            drawn(shape, lambda: draws.gauss() * 2.0 ** draws.randrange(-12, 12), "f4") for shape in shapes
        ]
        left[..., 0, 0] = 2.0**-130
        bits = [(value.view("u4") >> 16).astype("u2") for value in (left, right)]
        return [acc, *bits]
    limits = [np.iinfo(dtype) for dtype in (one.acc, one.left, one.right)]
    return [
        drawn(shape, partial(draws.choice, (limit.min, limit.max, 1, 0, 77)), limit.dtype)
        for limit, shape in zip(limits, shapes, strict=True)
    ]


def instruction_text(one: TileInstruction, symbol: str) -> str:
    """A function that loads three tiles of rows of 64 bytes, after their configuration, and stores the first one."""
    loads = [f"  call void @llvm.x86.tileloadd64(i8 {n}, ptr %{name}, i64 64)" for n, name in enumerate("abc")]
    return "\n".join([
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
        f"declare void @llvm.x86.{one.name}(i8, i8, i8)",
        "declare void @llvm.x86.tilerelease()",
        f"define void @{symbol}(ptr %config, ptr %a, ptr %b, ptr %c) nounwind {{",
        "  call void @llvm.x86.ldtilecfg(ptr %config)",
        *loads,
        f"  call void @llvm.x86.{one.name}(i8 0, i8 1, i8 2)",
        "  call void @llvm.x86.tilestored64(i8 0, ptr %a, i64 64)",
        "  call void @llvm.x86.tilerelease()",
        "  ret void",
        "}",
        "",
    ])  # fmt: skip


# ---- the definitions -------------------------------------------------------------------------------------------------


def products(one: TileInstruction, acc: Array, left: Array, right: Array) -> Array:
    """``acc[m, n]`` and the products of ``left[m, k, g]`` and ``right[k, n, g]``, as the instruction adds them.

    Args:
        one: the instruction.
        acc: int32 or float32.
        left, right: elements of its dtypes; bfloat16 as bits of 16.

    Returns:
        The new accumulators, of the same dtype.
    """
    if one.acc == "i4":
        wide = acc.astype(np.int64) + np.einsum("mkg,kng->mn", left.astype(np.int64), right.astype(np.int64))
        return wide.astype(np.uint32, casting="unsafe").view(np.int32)
    a, b = [_flushed((bits.astype(np.uint32) << 16).view(np.float32)) for bits in (left, right)]
    pairs = np.zeros((*acc.shape, one.group), np.float32)
    for k in range(a.shape[1]):
        pairs = _add(a[:, k, None].astype(np.float64) * b[None, k].astype(np.float64), pairs)
    return _add(_flushed(acc), _add(pairs[..., 0], pairs[..., 1]))


def _flushed(value: Array) -> Array:
    """Float32 with zeros for subnormal numbers, of their sign."""
    return np.where(np.abs(value) < _LEAST, np.copysign(np.float32(0), value), value)


def _add(a: Array, b: Array) -> Array:
    """The sum of numbers of at most 24 bits, rounded to float32, and 0 where it is less than normal numbers are.

    Float64 has twice as many bits and two: what is rounded to it first is rounded as once (Figueroa, 1995).
    """
    with np.errstate(all="ignore"):
        total = np.asarray(a, np.float64) + np.asarray(b, np.float64)
        rounded = total.astype(np.float32)
        return np.where(np.abs(total) < _ROUNDED_UP, np.copysign(np.float32(0), rounded), rounded)
