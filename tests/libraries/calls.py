"""Calls of other libraries' functions: their names, the arrays that they take, and how they are called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Maker = Callable[[np.random.Generator, int], np.ndarray]
#: Sizes of the first axis; a call adds to them what it needs.
SIZES = (3, 4, 5, 7, 9, 12, 16, 23, 31, 40)


@dataclass(frozen=True)
class Call:
    """One call of a library's function.

    ``makers`` give its arrays for a size. ``by`` is called with the function, the array namespace and the arrays;
    without it the function is called with the arrays and ``options``. ``more`` is added to each size.
    ``eager_only`` says why the call makes no sense in a traced function; ``wide_only`` that the function takes no
    float32.
    """

    name: str
    makers: tuple[Maker, ...]
    by: Callable[..., Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    more: int = 0
    eager_only: str = ""
    variant: str = ""
    wide_only: bool = False

    @property
    def key(self) -> str:
        """The name, with the variant where a function has several calls."""
        return f"{self.name}[{self.variant}]" if self.variant else self.name

    @property
    def library(self) -> str:
        """The library's package."""
        return self.name.partition(".")[0]

    @property
    def module(self) -> str:
        """The library's public module that has the function."""
        parts = self.name.split(".")[:-1]
        return ".".join([part for part in parts if not part[:1].isupper()])

    def arrays(self, size: int, dtype: str = "float64") -> list[np.ndarray]:
        """The NumPy arrays of a size; ``dtype`` is that of the real ones."""
        rng = np.random.default_rng([size, len(self.makers)])
        made = [maker(rng, size + self.more) for maker in self.makers]
        return [_narrowed(array) for array in made] if dtype == "float32" else made

    def run(self, xp: Any, arrays: Sequence[Any]) -> Any:
        """Call the function with arrays of the namespace ``xp``."""
        function = found(self.name)
        if self.by is not None:
            return self.by(function, xp, *arrays)
        return function(*arrays, **self.options)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """An array in float32 or complex64, if it is in float64 or complex128."""
    if array.dtype == np.float64:
        return array.astype(np.float32)
    return array.astype(np.complex64) if array.dtype == np.complex128 else array


def found(name: str) -> Any:
    """Look up an object by its dotted name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            made = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            made = getattr(made, part)
        return made
    raise LookupError(name)


class Table:
    """The calls of one module, in the order in which they are written."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.calls: list[Call] = []

    def add(
        self, names: str, *makers: Maker, by: Callable[..., Any] | None = None, more: int = 0, eager_only: str = "",
        variant: str = "", wide_only: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        """Add a call of each of the functions ``names``, which stand between spaces."""
        for name in names.split():
            full = f"{self.module}.{name}"
            self.calls.append(Call(full, makers, by, options, more, eager_only, variant, wide_only))


def shape_of(text: str, size: int) -> tuple[int, ...]:
    """The shape that a text means: ``"n 3"``, ``"n+1"``, ``"2n"``; ``""`` is a scalar."""
    return tuple([_dim(word, size) for word in text.split()])


def _dim(word: str, size: int) -> int:
    """The size that a word means."""
    if "n" not in word:
        return int(word)
    factor, _, offset = word.partition("n")
    return int(factor or 1) * size + int(offset or 0)


def normal(shape: str, scale: float = 1.0) -> Maker:
    """Normal numbers."""
    return lambda rng, n: np.asarray(scale * rng.standard_normal(shape_of(shape, n)))


def uniform(shape: str, low: float = 0.05, high: float = 0.95) -> Maker:
    """Numbers between two bounds, 0.05 and 0.95 unless told."""
    return lambda rng, n: np.asarray(rng.uniform(low, high, shape_of(shape, n)))


def positive(shape: str) -> Maker:
    """Numbers between 0.5 and 2."""
    return uniform(shape, 0.5, 2.0)


def integers(shape: str, low: int = 0, high: int = 5) -> Maker:
    """Integers from ``low`` to below ``high``."""
    return lambda rng, n: np.asarray(rng.integers(low, high, shape_of(shape, n)), dtype=np.int64)


def booleans(shape: str) -> Maker:
    """True and False, some of each."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        made = rng.random(shape_of(shape, n)) < 0.6
        made.flat[0], made.flat[-1] = True, False
        return made

    return make


def complexes(shape: str) -> Maker:
    """Complex normal numbers."""
    return lambda rng, n: np.asarray(
        rng.standard_normal(shape_of(shape, n)) + 1j * rng.standard_normal(shape_of(shape, n))
    )


def rising(shape: str) -> Maker:
    """Numbers that rise along the last axis, by 0.5 to 1 a step."""
    return lambda rng, n: np.cumsum(rng.uniform(0.5, 1.0, shape_of(shape, n)), axis=-1)


def classes(shape: str, count: int = 3) -> Maker:
    """Integers of which each below ``count`` occurs, where there are so many."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        dims = shape_of(shape, n)
        return rng.permutation(np.arange(int(np.prod(dims)), dtype=np.int64) % count).reshape(dims)

    return make


def grid(shape: str, low: float = 0.0, high: float = 1.0) -> Maker:
    """Numbers at equal distances."""
    return lambda rng, n: np.linspace(low, high, int(np.prod(shape_of(shape, n)))).reshape(shape_of(shape, n))


def constant(values: Any) -> Maker:
    """The same array for each size."""
    return lambda rng, n: np.array(values)


def unit_rows(shape: str) -> Maker:
    """Rows of length one."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        rows = rng.standard_normal(shape_of(shape, n))
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    return make
