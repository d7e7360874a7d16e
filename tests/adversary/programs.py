"""Programs whose Python depends on sizes, and their calls, as data that can be written down."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from dyn.numpy._indexing.getitem import scatter_update

Array = np.ndarray[Any, Any]
#: The shapes of a call, an argument after the other.
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Argument:
    """A parameter: its dtype, and for each axis the name whose size it has in an ordinary call, or a number."""

    name: str
    dtype: str
    axes: tuple[int | str, ...]

    @property
    def declared(self) -> str:
        return " ".join(map(str, self.axes)) or "()"

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(sizes[a] if isinstance(a, str) else a for a in self.axes)


@dataclass(frozen=True)
class Program:
    """The lines of a function's body, the last of which returns; its arguments, and whether their axes are declared."""

    arguments: tuple[Argument, ...]
    lines: tuple[str, ...]
    declared: bool = False

    @property
    def text(self) -> str:
        head = f"def program({', '.join(a.name for a in self.arguments)}):"
        return "\n".join([head, *(f"    {line}" for line in self.lines)]) + "\n"

    def __repr__(self) -> str:
        told = "; ".join(f"{a.name}: {a.dtype}[{a.declared}]" for a in self.arguments)
        return f"\n{self.text}# {told}{' declared' * self.declared}\n"

    def function(self) -> Callable[..., Any]:
        """The Python function, with lines that a report can show."""
        name = f"<adversary {abs(hash(self.text))}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(True), name)
        space = dict(NAMES)
        exec(compile(self.text, name, "exec"), space)
        return space["program"]

    def jitted(self) -> dyn.Jitted:
        """The function under ``dyn.jit``."""
        if not self.declared:
            return dyn.jit(self.function())
        return dyn.jit(self.function(), shapes=", ".join(a.declared for a in self.arguments))

    def as_data(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        arguments = [[a.name, a.dtype, list(a.axes)] for a in self.arguments]
        return {"arguments": arguments, "lines": list(self.lines), "declared": self.declared}


def program_of(data: Mapping[str, Any]) -> Program:
    """The program that ``as_data`` wrote down."""
    arguments = tuple(Argument(name, dtype, tuple(axes)) for name, dtype, axes in data["arguments"])
    return Program(arguments, tuple(data["lines"]), data["declared"])


def values(program: Program, shapes: Shapes) -> list[Array]:
    """The arrays of a call: small whole numbers of both signs, so that sums and products have one value."""
    made: list[Array] = []
    for number, (argument, shape) in enumerate(zip(program.arguments, shapes, strict=True)):
        rng = np.random.default_rng([number, len(shape), *(n % 1000 for n in shape)])
        drawn = np.empty(shape, argument.dtype) if 0 in shape else rng.integers(-4, 6, shape).astype(argument.dtype)
        made.append(drawn)
    return made


# ---- what the text of a program may name -----------------------------------------------------------------------------


def low(a: Any, b: Any) -> Any:
    """The lesser of two sizes; of symbolic ones without a question."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def most(a: Any, b: Any) -> Any:
    """The greater of two sizes; of symbolic ones without a question."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


#: Arrays that programs close over.
_CLOSED: dict[str, Array] = {
    "W": np.arange(12.0).reshape(3, 4) - 5, "U": np.arange(5, dtype="float32") - 2, "K": np.array([2, 0, 1, 1]),
}  # fmt: skip
NAMES: dict[str, Any] = {
    "dyn": dyn, "dnp": dnp, "np": np, "low": low, "most": most,
    "scatter_update": scatter_update, **_CLOSED,
}  # fmt: skip


def axes_of(arguments: Sequence[Argument]) -> list[str]:
    """The names of axes, in order."""
    return sorted({axis for a in arguments for axis in a.axes if isinstance(axis, str)})
