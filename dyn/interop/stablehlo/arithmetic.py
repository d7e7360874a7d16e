"""Dims as StableHLO computes them: arithmetic on ``get_dimension_size``, made where a size is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.interop.stablehlo.hlo import Encoder, HloEnum, HloType, HloValue, is_static
from dyn.interop.stablehlo.scopes import ValueScope
from dyn.shapes import Atom, Dim, Opaque, OpaqueKind, Symbol, SymExpr

SIZE = HloType(dtypes.int64, ())
TRUTH = HloType(dtypes.bool_, ())


def comparison(direction: str, sort: str) -> dict[str, Any]:
    """The attributes of ``compare``."""
    return {
        "comparison_direction": HloEnum("comparison_direction", direction),
        "compare_type": HloEnum("comparison_type", sort),
    }


def compared(e: Encoder, a: HloValue, b: HloValue, direction: str) -> HloValue:
    """Tell whether a size is equal to another (``EQ``), at least it (``GE``), and so on."""
    return e.op("stablehlo.compare", a, b, type=TRUTH, **comparison(direction, "SIGNED"))


def axis_size(e: Encoder, tensor: HloValue, axis: int) -> HloValue:
    """The size of an axis of a tensor."""
    size = e.op("stablehlo.get_dimension_size", tensor, type=HloType(dtypes.int32, ()), dimension=axis)
    return e.op("stablehlo.convert", size, type=SIZE)


class UnknownSizeError(NotYetError):
    """A symbol that no axis is."""


class SizeArithmetic:
    """The sizes that a block has computed, in 64 bits; those of the blocks around it are seen too."""

    def __init__(self, e: Encoder, outer: SizeArithmetic | None = None) -> None:
        self._e = e
        self._made: ValueScope[Any, HloValue] = ValueScope(None if outer is None else outer._made)

    def bind_axes(self, tensor: HloValue) -> None:
        """Symbols that are axes of a parameter are its sizes, where they have no place yet."""
        for axis, dim in enumerate(tensor.shape):
            symbol = dim.is_symbol if isinstance(dim, SymExpr) else None
            if symbol is not None and symbol not in self._made.own:
                self.bind_symbol(symbol, axis_size(self._e, tensor, axis))

    def bind_symbol(self, symbol: Symbol, size: HloValue) -> None:
        self._made[symbol] = size

    def dim(self, dim: Dim) -> HloValue:
        found = self._made.find(dim)
        if found is None:
            found = self._made[dim] = (
                self._sum(dim) if isinstance(dim, SymExpr) else self._e.constant(dim, dtypes.int64)
            )
        return found

    def _sum(self, dim: SymExpr) -> HloValue:
        total: HloValue | None = None
        for mono, coefficient in dim.terms:
            factors = [self._atom(atom) for atom, power in mono.factors for _ in range(power)]
            term = factors[0]
            for factor in factors[1:]:
                term = self._e.op("stablehlo.multiply", term, factor)
            if coefficient != 1:
                term = self._e.op("stablehlo.multiply", term, self.dim(coefficient))
            total = term if total is None else self._e.op("stablehlo.add", total, term)
        assert total is not None
        return self._e.op("stablehlo.add", total, self.dim(dim.constant)) if dim.constant else total

    def _atom(self, atom: Atom) -> HloValue:
        found = self._made.find(atom)
        if found is not None:
            return found
        if isinstance(atom, Symbol):
            raise UnknownSizeError(
                f"{atom.name} ({atom.origin}) is no size of a parameter, and has no StableHLO form yet."
            )
        made = self._made[atom] = self._opaque(atom)
        return made

    def _opaque(self, atom: Opaque) -> HloValue:
        first, *rest = [self.dim(arg) for arg in atom.args]
        match atom.kind:
            case OpaqueKind.MIN | OpaqueKind.MAX:
                name = "stablehlo.minimum" if atom.kind is OpaqueKind.MIN else "stablehlo.maximum"
                for other in rest:
                    first = self._e.op(name, first, other)
                return first
            case OpaqueKind.BROADCAST:
                one = self.dim(1)
                for other in rest:
                    is_one = compared(self._e, first, other if other is one else one, "EQ")
                    first = self._e.op("stablehlo.select", is_one, other, first, type=SIZE)
                return first
            case OpaqueKind.FLOORDIV | OpaqueKind.MOD:
                return self._division(atom, first, rest[0])

    def _division(self, atom: Opaque, a: HloValue, b: HloValue) -> HloValue:
        """Rounded down. StableHLO's rounds to 0, which is the same of what is not negative."""
        quotient, rest = atom.kind is OpaqueKind.FLOORDIV, self._e.op("stablehlo.remainder", a, b)
        plain = self._e.op("stablehlo.divide", a, b) if quotient else rest
        if all(self._e.facts.ge(arg, 0).proved for arg in atom.args):
            return plain
        zero, one = self.dim(0), self.dim(1)
        crossed = compared(self._e, self._e.op("stablehlo.sign", a), self._e.op("stablehlo.sign", b), "NE")
        off = self._e.op("stablehlo.and", crossed, compared(self._e, rest, zero, "NE"))
        other = self._e.op("stablehlo.subtract", plain, one) if quotient else self._e.op("stablehlo.add", rest, b)
        return self._e.op("stablehlo.select", off, other, plain, type=SIZE)

    def dims(self, dims: Sequence[Any]) -> HloValue:
        if not dims or isinstance(dims[0], tuple):
            shape = (len(dims), len(dims[0])) if dims else (0,)
            flat: list[Dim] = [d for row in dims for d in row]
        else:
            shape, flat = (len(dims),), list(dims)
        key = ("dims", shape, tuple(flat))
        found = self._made.find(key)
        if found is None:
            found = self._made[key] = self._vector(flat, shape)
        return found

    def _vector(self, flat: list[Dim], shape: tuple[int, ...]) -> HloValue:
        if is_static(flat):
            return self._e.constant(np.array(flat, np.int64).reshape(shape))
        parts = [self._e.reshaped(self.dim(d), (1,)) for d in flat]
        vector = HloType(dtypes.int64, (len(flat),))
        made = parts[0] if len(parts) == 1 else self._e.op("stablehlo.concatenate", *parts, type=vector, dimension=0)
        return self._e.reshaped(made, shape)
