"""Arrays from the command line: files of NumPy's, and arrays that are made as they are described."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn import dtypes
from dyn.errors import ArgumentError, UnsupportedOpError

if TYPE_CHECKING:
    from dyn.commands.models import Model
    from dyn.dtypes import DType

Array = np.ndarray[Any, Any]

#: Texts are quoted to so many characters; a size of more digits is none.
_LONGEST, _MOST_DIGITS = 80, 30
FORMS = "a.npy, a.npz, a.npz:name, or an array to make: f32[4,128], f32[4,128]=0, i32[]=7, bf16[8]=iota"

_SPEC = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<sizes>[\d,\s]*)\](?:=(?P<value>\S+))?")
#: As IREE's tools write it: ``4x128xf32=0``.
_IREE = re.compile(r"(?P<sizes>(?:\d+x)*)(?P<dtype>[a-z]\w*)(?:=(?P<value>\S+))?")


@dataclass(frozen=True, eq=False, slots=True)
class Input:
    """An array, and what it is called on the command line."""

    text: str
    array: Array


def read_inputs(texts: Sequence[str], seed: int) -> list[Input]:
    """The arrays of all ``--input`` options, in order. ArgumentError for what is no file and no description."""
    found: list[Input] = []
    for text in texts:
        found += _read(text, np.random.default_rng([seed, len(found)]))
    return found


def _read(text: str, rng: np.random.Generator) -> list[Input]:
    path, _, member = text.partition(".npz:")
    if member:
        arrays = _load(f"{path}.npz", text)
        if member not in arrays:
            raise ArgumentError(
                f"--input {text}: {path}.npz has no array {member!r}; it has {', '.join(arrays) or 'none'}."
            )
        return [Input(text, arrays[member])]
    if text.endswith(".npz"):
        return [Input(f"{text}:{name}", array) for name, array in _load(text, text).items()]
    if text.endswith(".npy") or _exists(text):
        return [Input(text, _load(text, text)[""])]
    return [Input(text, _described(text, rng))]


def _exists(path: str) -> bool:
    """Whether there is such a file; a text that is too long for a name is none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _load(path: str, text: str) -> dict[str, Array]:
    """The arrays of a file by name; the array of an ``.npy`` file by none."""
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "it is a directory"
    except (OSError, ValueError, EOFError, KeyError) as error:
        problem = f"it is no file of NumPy's: {str(error).split('. ')[0].rstrip('.') or type(error).__name__}"
    except Exception as error:  # a damaged archive raises what zipfile and zlib have for it
        problem = f"it cannot be read: {type(error).__name__}: {error}"
    raise ArgumentError(f"--input {text}: {problem}.", remedy=f"pass {FORMS}.")


def _described(text: str, rng: np.random.Generator) -> Array:
    found = _SPEC.fullmatch(text) or _IREE.fullmatch(text)
    if found is None:
        told = f"--input {_short(text)}: this is no file, and describes no array."
        raise ArgumentError(told, remedy=f"pass {FORMS}.")
    dtype = _dtype(text, found["dtype"])
    shape = tuple([int(n[:_MOST_DIGITS]) for n in re.findall(r"\d+", found["sizes"])])
    if math.prod(shape) * dtype.itemsize >= 1 << 63:
        raise ArgumentError(f"--input {_short(text)}: there is no memory for an array of so many elements.")
    value = found["value"] or "random"
    if value == "iota":
        return np.arange(int(np.prod(shape, dtype=np.int64))).astype(dtype.np).reshape(shape)
    if value == "random":
        if dtype.is_inexact:
            parts = [rng.standard_normal(shape) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1] if "complex" in dtype.name else parts[0]).astype(dtype.np)
        return rng.integers(0, 2 if dtype is dtypes.bool_ else 10, shape).astype(dtype.np)
    words = {"true": 1, "false": 0, "zeros": 0, "ones": 1}
    try:
        number: Any = words[value] if value in words else complex(value) if "complex" in dtype.name else _number(value)
        return np.full(shape, number, dtype.np)
    except (ValueError, OverflowError):
        raise ArgumentError(
            f"--input {_short(text)}: {_short(value)} is no {dtype.name}.",
            remedy="pass a number, random, iota, zeros or ones.",
        ) from None


def _short(text: str) -> str:
    """A text as errors quote it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def _dtype(text: str, name: str) -> DType:
    try:
        return dtypes.from_short(name)
    except (UnsupportedOpError, ArgumentError, TypeError):
        names = ", ".join(d.short for d in dtypes.ALL)
        raise ArgumentError(
            f"--input {_short(text)}: there is no dtype {_short(name)}.", remedy=f"use one of {names}."
        ) from None


def fitted(model: Model, inputs: Sequence[Input]) -> list[Array]:
    """The arrays as arguments of a model; ArgumentError where one does not fit, with the input, the axis and values."""
    if len(inputs) != len(model.names):
        raise ArgumentError(
            f"{model.signature()} takes {len(model.names)} arrays, and {len(inputs)} were given"
            f"{': ' + ', '.join(i.text for i in inputs) if inputs else ''}.",
            remedy="pass --input once for each argument, in order.",
        )
    return [_fitted(model, number, one) for number, one in enumerate(inputs)]


def _fitted(model: Model, number: int, one: Input) -> Array:
    wanted, array = model.dtypes[number], one.array
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        array = array.view(wanted.np)  # NumPy's files do not know of bfloat16
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # a file may have another machine's
    place = f"argument {number}, {model.names[number]}: {model.type_text(number)}"
    given = f"{one.text} is {array.dtype.name}[{', '.join(map(str, array.shape))}]"
    if array.dtype != wanted.np:
        raise ArgumentError(
            f"{given}, and it is for {place}: it has to be {wanted.name}.",
            remedy=f"save it as {wanted.name}, with .astype({wanted.name!r}).",
        )
    axes = model.axes[number]
    if array.ndim != len(axes):
        raise ArgumentError(f"{given}, and it is for {place}: it has to have {len(axes)} axes, not {array.ndim}.")
    for axis, (size, said) in enumerate(zip(array.shape, axes, strict=True)):
        if isinstance(said, int) and size != said:
            raise ArgumentError(
                f"{given}, and it is for {place}: axis {axis} has {size} elements, and must have {said}."
            )
    return array
