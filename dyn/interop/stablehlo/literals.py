"""MLIR's text of arrays: ``dense<[1.0, 0x7FC0]> : tensor<2xbf16>``, for element types that the bindings cannot read."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.errors import ArtifactError

Array = np.ndarray[Any, Any]
_BODY = re.compile(r"dense<(.*)>\s*:\s*tensor<", re.DOTALL)
_NUMBER = re.compile(r"[^\s,\[\]()]+")


def parse_elements(text: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array that ``dense<…>`` in a text is: all elements, one for all of them, or their bytes in hexadecimal."""
    found = _BODY.search(text)
    if found is None:
        raise ArtifactError(f"no array of {dtype.name}: {text[:80]}")
    body, count = found[1].strip(), math.prod(shape)
    if body.startswith('"0x'):
        values = np.frombuffer(bytes.fromhex(body.strip('"')[2:]), dtype.np)
    else:
        values = _numbers(_NUMBER.findall(body), dtype)
    if values.size == 1 and count != 1:
        return np.broadcast_to(values[0], shape)
    if values.size != count:
        raise ArtifactError(f"an array of shape {shape} has {values.size} elements")
    return np.array(values.reshape(shape))


def _part(dtype: DType) -> np.dtype[Any]:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind is Kind.COMPLEX else dtype.np


def _numbers(tokens: list[str], dtype: DType) -> Array:
    """Floats that are no numbers are written as their bits, which a conversion would not keep."""
    if not dtype.is_inexact:
        return np.array([t == "true" if t in ("true", "false") else int(t, 0) for t in tokens], dtype.np)
    coded = [place for place, token in enumerate(tokens) if token.startswith("0x")]
    parts = np.array([0.0 if token.startswith("0x") else float(token) for token in tokens]).astype(_part(dtype))
    bits = parts.view(f"u{parts.itemsize}")
    bits[coded] = [int(tokens[place], 16) for place in coded]
    return parts.view(dtype.np)
