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
        numbers = [_number(token, dtype) for token in _NUMBER.findall(body)]
        if dtype.kind is Kind.COMPLEX:
            parts = np.array(numbers, _part(dtype))
            values = parts.view(dtype.np)
        else:
            values = np.array(numbers, dtype.np)
    if values.size == 1 and count != 1:
        return np.broadcast_to(values[0], shape)
    if values.size != count:
        raise ArtifactError(f"an array of shape {shape} has {values.size} elements")
    return np.array(values.reshape(shape))


def _part(dtype: DType) -> np.dtype[Any]:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind is Kind.COMPLEX else dtype.np


def _number(token: str, dtype: DType) -> Any:
    if token in ("true", "false"):
        return token == "true"
    if token.startswith("0x") and (dtype.is_float or dtype.kind is Kind.COMPLEX):
        part = _part(dtype)
        return np.array(int(token, 16), np.dtype(f"u{part.itemsize}")).view(part)[()]
    return int(token, 0) if dtype.is_integer else float(token)
