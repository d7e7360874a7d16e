"""Access paths from an index of one value to another: through views, to what is stored or computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from dyn.dtypes import DType
from dyn.errors import IRError
from dyn.ir.core import Op, Value
from dyn.ir.opdef import ElementLoops, OpKind
from dyn.shapes import Dim, Symbol, as_dim
from dyn.shapes import symbol as new_symbol

#: An index: one expression an axis.
Index = tuple[Dim, ...]


class _IndexOnly:
    """A ScalarBuilder for VIEW rules, which compute nothing."""

    def _refuse(self, *args: Any) -> Any:
        raise IRError("a view computed a scalar")

    apply = const = index = bind = pair = parts = _refuse

    def part(self, value: Any, number: Dim) -> Any:
        """A view of parts reads the whole number."""

    def __call__(self, fn: Any, args: Any, dtype: DType) -> Any:
        return self._refuse()


_NOTHING: Any = _IndexOnly()


def view_index(op: Op, index: Index) -> Index:
    """The index of a VIEW op's operand that an index of its result reads."""
    found: list[Index] = []

    def get(i: int, at: Index, *rest: Any) -> None:
        found.append(at)

    loops = op.opdef.loops
    assert isinstance(loops, ElementLoops)
    loops.at(_NOTHING, op, index, get)
    return found[0]


def axis_symbols(shape: tuple[Dim, ...]) -> tuple[Symbol, ...]:
    """A fresh index variable an axis."""
    return tuple(new_symbol(f"i{axis}", "an index") for axis in range(len(shape)))


@lru_cache(maxsize=64)
def own_index(rank: int) -> Index:
    """Index variables for so many axes, the same ones each time: for questions that compare them with one another."""
    return as_index(axis_symbols((0,) * rank))


def as_index(symbols: tuple[Symbol, ...]) -> Index:
    return tuple(as_dim(s) for s in symbols)


class Views:
    """Follows views of one function back to the values that they show.

    ``stops`` says which values are an end in themselves, though a view makes them.
    """

    def __init__(self, producers: Mapping[Value, Op], stops: Callable[[Value], bool]) -> None:
        self.producers = producers
        self.stops = stops

    def base(self, value: Value) -> Value:
        """The value that ``value`` is a view of; itself when it is none."""
        while not self.stops(value):
            op = self.producers.get(value)
            if op is None or op.opdef.kind is not OpKind.VIEW:
                return value
            value = op.operands[0]
        return value

    def chain(self, value: Value, index: Index) -> tuple[Value, Index]:
        """The base of ``value`` and the index of it that ``index`` reads."""
        while not self.stops(value):
            op = self.producers.get(value)
            if op is None or op.opdef.kind is not OpKind.VIEW:
                break
            index = view_index(op, index)
            value = op.operands[0]
        return value, index
