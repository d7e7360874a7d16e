"""Arithmetic on values of a program that is being built, for rules that are formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Value


class Arithmetic:
    """Ops by short names. Operands have one shape and dtype; a Python number is put into the shape of the other."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def fill(self, x: Value, value: bool | int | float) -> Value:
        """``value`` in the shape and dtype of ``x``."""
        weak: dict[str, Any] = {"weak": True} if x.type.weak else {}
        made = self.b.op("constant", value=Dense(np.asarray(value).astype(x.dtype.np)), **weak)
        return self.b.op("broadcast_in_dim", made, shape=x.shape, dims=()) if x.shape else made

    def add(self, x: Value, y: Value | float) -> Value:
        return self._two("add", x, y)

    def sub(self, x: Value, y: Value | float) -> Value:
        return self._two("subtract", x, y)

    def mul(self, x: Value, y: Value | float) -> Value:
        return self._two("multiply", x, y)

    def div(self, x: Value, y: Value | float) -> Value:
        return self._two("divide", x, y)

    def neg(self, x: Value) -> Value:
        return self.b.op("negate", x)

    def _two(self, name: str, x: Value, y: Value | float) -> Value:
        return self.b.op(name, x, y if isinstance(y, Value) else self.fill(x, y))

    def f(self, name: str, *x: Value) -> Value:
        """The op of that name."""
        return self.b.op(name, *x)

    def cmp(self, x: Value, direction: str, y: Value | float) -> Value:
        return self.b.op("compare", x, y if isinstance(y, Value) else self.fill(x, y), direction=direction)

    def where(self, p: Value, x: Value | float, y: Value | float) -> Value:
        """``x`` where ``p``, else ``y``; one of the two is a value."""
        like = x if isinstance(x, Value) else y
        assert isinstance(like, Value)
        a, c = (v if isinstance(v, Value) else self.fill(like, v) for v in (x, y))
        return self.b.op("select", p, a, c)
