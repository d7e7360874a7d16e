"""Arrays that callers donate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 17 - 5).astype(dtype)


def _read_only(n: int) -> Array:
    x = numbers(n)
    x.flags.writeable = False
    return x


def _misaligned(n: int) -> Array:
    x = np.zeros(4 * n + 1, np.uint8)[1:].view(np.float32)
    x[...] = numbers(n)
    return x


#: Arrays of n numbers whose memory no call takes, by what they are.
REFUSED: dict[str, Callable[[int], Array]] = {
    "read-only": _read_only,
    "strided": lambda n: numbers(2 * n)[::2],
    "reversed": lambda n: numbers(n)[::-1],
    "misaligned": _misaligned,
    "of another byte order": lambda n: numbers(n).astype(">f4"),
    "memory of bytes": lambda n: np.frombuffer(bytearray(numbers(n).tobytes()), np.float32),
    "a view of bytes": lambda n: np.frombuffer(bytearray(numbers(2 * n).tobytes()), np.float32)[:n],
}
