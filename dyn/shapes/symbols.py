"""Symbols, and the functions that polynomials cannot express, with the bounds that their definitions give."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dyn.shapes import interval as iv
from dyn.shapes.interval import Interval

_uids = itertools.count()


def no_dim() -> None:
    """The weak reference of an atom to its expression, before there is one."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Symbol:
    """An unknown size. It is itself and nothing else: two symbols of one name are two unknowns.

    ``origin`` says where it came from (``"x.shape[0]"``); ``uid`` counts up, and gives the canonical order. What is
    ``data_dependent`` no argument's shape says: the program finds it out while it runs, from values.
    """

    name: str
    origin: str
    uid: int
    data_dependent: bool = False
    #: The position among atoms: symbols by age, then opaque terms by structure.
    key: tuple[Any, ...] = field(init=False, repr=False)
    #: A weak reference to the expression that it is.
    dim: Any = field(init=False, repr=False, default=no_dim)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (0, self.uid))

    @property
    def symbols(self) -> frozenset[Symbol]:
        """Itself, as those of an expression."""
        return frozenset((self,))

    def __str__(self) -> str:
        return self.name

    def __copy__(self) -> Symbol:
        return self

    def __deepcopy__(self, memo: object) -> Symbol:
        return self


def symbol(name: str, origin: str = "", *, data_dependent: bool = False) -> Symbol:
    """A fresh symbol."""
    return Symbol(name, origin, next(_uids), data_dependent)


class SymbolSequence:
    """The symbols of a program, in the order in which it asks for them.

    A program that is traced again is given the same ones, as long as it asks for the same ones in the same order; from
    where it does not they are fresh. So their order by age is always that in which the program asked. One program uses
    it at a time.
    """

    def __init__(self) -> None:
        self._made: list[Symbol] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._made)

    def restart(self) -> None:
        """Give them from the first one on again."""
        self._next = 0

    def symbol(self, name: str, origin: str = "", *, data_dependent: bool = False) -> Symbol:
        """The next symbol. Sizes that the program finds out are called by one name: those of several origins are told
        apart by a number, and that of one origin, in a derivative say, is not."""
        at = self._next
        if data_dependent:
            taken = {made.name for made in self._made[:at] if made.origin != origin}
            name = next(own for n in itertools.count(1) if (own := name if n == 1 else f"{name}_{n}") not in taken)
        self._next = at + 1
        if at < len(self._made):
            known = self._made[at]
            if (known.name, known.origin, known.data_dependent) == (name, origin, data_dependent):
                return known
            del self._made[at:]
        made = symbol(name, origin, data_dependent=data_dependent)
        self._made.append(made)
        return made


class OpaqueKind(StrEnum):
    """The functions that polynomials cannot express."""

    __hash__ = str.__hash__  # that of Enum is written in Python

    FLOORDIV = "floordiv"
    MOD = "mod"
    MIN = "min"
    MAX = "max"
    BROADCAST = "broadcast"


KIND_ORDER = {kind: i for i, kind in enumerate(OpaqueKind)}


def bounds_by_definition(kind: OpaqueKind, args: list[Interval]) -> Interval:
    """Bounds of ``kind(*args)``, from those of its arguments."""
    los, his = [lo for lo, _ in args], [hi for _, hi in args]
    match kind:
        case OpaqueKind.FLOORDIV:
            return iv.quotient(args[0], args[1])
        case OpaqueKind.MOD:
            return iv.remainder(args[0], args[1])
        case OpaqueKind.MIN:
            return None if None in los else iv.lowest(*los), iv.lowest(*his)
        case OpaqueKind.MAX:
            return iv.highest(*los), None if None in his else iv.highest(*his)
        case OpaqueKind.BROADCAST:  # one of the arguments; the largest where none can be 0
            result = args[0]
            for arg in args[1:]:
                result = iv.hull(result, arg)
            positive = all(lo is not None and lo >= 1 for lo in los)
            return (iv.highest(*los), result[1]) if positive else result
