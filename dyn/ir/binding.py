"""Binding: how the symbols of a function's parameter shapes follow from the sizes of its arguments.

This is decided once, here, for everyone who needs it: the trace that is started by a call, the test of guards, the
reference interpreter, and the host program that is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dyn.errors import ShapeError
from dyn.frozen import record
from dyn.ir.core import Function
from dyn.shapes import (
    Dim,
    Symbol,
    SymExpr,
    dim_max,
    evaluate,
    floordiv,
    format_dim,
    free_symbols,
    linear_in,
    substitute,
)


@record()
class Bind:
    """``symbol`` is ``(size - offset) / factor`` of an axis of an input."""

    symbol: Symbol
    input: int
    axis: int
    factor: Dim = 1
    offset: Dim = 0


@record()
class AxisCheck:
    """An axis of an input has the size ``dim``."""

    input: int
    axis: int
    dim: Dim


@record()
class Binding:
    """``binds`` give each symbol its value, in this order; ``checks`` are what the other axes must agree with.

    Shapes that pass all checks are those, and only those, that the symbolic shapes stand for.
    """

    binds: tuple[Bind, ...]
    checks: tuple[AxisCheck, ...]

    def sizes(self, shapes: Sequence[Sequence[int]]) -> dict[Symbol, int]:
        """The value of each symbol for arguments of these shapes. Nothing is checked.

        A division that leaves a rest is rounded down, as native code does it: the check of that axis fails.
        """
        env: dict[Symbol, int] = {}
        for bind in self.binds:
            size = shapes[bind.input][bind.axis]
            if bind.offset != 0 or bind.factor != 1:
                size, factor = size - evaluate(bind.offset, env), evaluate(bind.factor, env)
                size //= factor or 1
            env[bind.symbol] = size
        return env

    def dims(self, shapes: Sequence[Sequence[Dim]]) -> dict[Symbol, Dim]:
        """Dims of another program for the symbols, where the arguments' sizes are dims of it. Nothing is checked."""
        env: dict[Symbol, Dim] = {}
        for bind in self.binds:
            size = shapes[bind.input][bind.axis]
            if bind.offset != 0 or bind.factor != 1:
                factor = substitute(bind.factor, env)
                divisor = factor if isinstance(factor, int) else dim_max(factor, 1)
                size = floordiv(size - substitute(bind.offset, env), divisor)
            env[bind.symbol] = size
        return env

    def check(self, shapes: Sequence[Sequence[int]], names: Sequence[str]) -> dict[Symbol, int]:
        """The value of each symbol; ShapeError where an axis is not what it has to be.

        ``names`` are what errors call the arguments.
        """
        env = self.sizes(shapes)
        for check in self.checks:
            size = shapes[check.input][check.axis]
            if not free_symbols(check.dim) <= env.keys():
                continue
            if evaluate(check.dim, env) != size or any(env[s] < 0 for s in free_symbols(check.dim)):
                raise axis_error(names[check.input], check, size, env)
        return env


def axis_error(name: str, check: AxisCheck, size: int, env: dict[Symbol, int]) -> ShapeError:
    """The error for an argument whose axis has the wrong size."""
    place = f"{name}.shape[{check.axis}]"
    if isinstance(check.dim, int):
        return ShapeError(
            f"{place} is {size}, and it is declared to be {check.dim}.",
            remedy=f"pass an array whose axis {check.axis} has {check.dim} elements, or change shapes=.",
        )
    symbols = sorted(free_symbols(check.dim), key=lambda s: s.uid)
    notes = tuple(f"{s.name} is {s.origin} = {env[s]}" for s in symbols)
    wanted = evaluate(check.dim, env)
    negative = next((s for s in symbols if env[s] < 0), None)
    if wanted == size and negative is not None:
        return ShapeError(
            f"{place} is {size}, and it must be {format_dim(check.dim)}, where {negative.name} is a size.",
            notes=notes,
            remedy="pass a larger array, or change shapes=.",
        )
    return ShapeError(
        f"{place} is {size}, and it must be {format_dim(check.dim)} = {wanted}.",
        notes=notes,
        remedy="pass arrays that agree, or give the two axes different names in shapes=.",
    )


def bind_function(function: Function) -> Binding:
    """The binding of a function's parameters, hidden ones among them.

    It follows from the parameters' own dims, and so is the same before all passes and after them. The fixed sizes of
    captured arrays are not checked: those are looked at once, when the program is loaded with them.
    """
    axes: list[tuple[int, int, Dim]] = []
    for number, (shape, info) in enumerate(zip(function.checked_shapes(), function.infos, strict=True)):
        for axis, dim in enumerate(shape):
            if not (info.hidden and isinstance(dim, int)):
                axes.append((number, axis, dim))
    return bind_axes(axes)


def bind_axes(axes: Iterable[tuple[int, int, Dim]]) -> Binding:
    """The binding of ``(input, axis, dim)``.

    The first axis that is a symbol alone gives its value. A symbol that stands in no such axis is solved for, where a
    dim is linear in it and all else in that dim is known.
    """
    binds: list[Bind] = []
    checks: list[AxisCheck] = []
    known: set[Symbol] = set()
    pending: list[tuple[int, int, SymExpr]] = []
    for number, axis, dim in axes:
        symbol = dim.is_symbol if isinstance(dim, SymExpr) else None
        if symbol is not None and symbol not in known:
            known.add(symbol)
            binds.append(Bind(symbol, number, axis))
        elif isinstance(dim, int) or symbol is not None:
            checks.append(AxisCheck(number, axis, dim))
        else:
            pending.append((number, axis, dim))
    progress = True
    while progress:
        progress = False
        for number, axis, dim in pending:
            unknown = [s for s in free_symbols(dim) if s not in known]
            linear: Any = linear_in(dim, unknown[0]) if len(unknown) == 1 else None
            if linear is not None and unknown[0] not in free_symbols(linear[0]):
                known.add(unknown[0])
                binds.append(Bind(unknown[0], number, axis, *linear))
                progress = True
    checks += [AxisCheck(number, axis, dim) for number, axis, dim in pending]
    return Binding(tuple(binds), tuple(checks))
