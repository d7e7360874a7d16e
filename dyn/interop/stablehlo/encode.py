"""Writer of DHLO as StableHLO's records.

Ops are written by a :class:`~dyn.interop.stablehlo.writer.Writer`, dims become tensors of arithmetic (``arithmetic``),
and what is known of them is asserted at the start (``assertions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.interop.stablehlo.arithmetic import axis_size
from dyn.interop.stablehlo.assertions import assert_facts, assert_least, assert_measured, assert_size
from dyn.interop.stablehlo.hlo import HloFunction, HloModule, HloRegion, HloType, HloValue
from dyn.interop.stablehlo.writer import Writer
from dyn.ir.core import Function, Value
from dyn.ir.data_dependent import bound_dim
from dyn.shapes import Symbol, SymExpr, free_symbols, linear_in

Array = np.ndarray[Any, Any]


def encode(function: Function, captured: Sequence[Array], *, for_xla: bool = False) -> HloModule:
    """The module whose ``main`` is the function; captured arrays become constants of it.

    ``for_xla``: XLA refines the module to the shapes of a call, which it cannot where composites have symbolic sizes;
    and where XLA computes something else than the specification says, the module is written so that XLA's results are
    the function's.

    Raises NotYetError, with its line, for an op without a codec.
    """
    functions: dict[str, HloFunction] = {}
    writer = Writer(function.facts, functions, for_xla=for_xla)
    taken = [(p, info) for p, info in zip(function.params, function.infos, strict=True) if not info.hidden]
    hidden = [p for p, info in zip(function.params, function.infos, strict=True) if info.hidden]
    params: list[HloValue] = []
    for param, _ in taken:
        made = HloValue(HloType.of(param.type))
        writer.bind(param, made)
        params.append(made)
    _bind_symbols(writer, [p for p, _ in taken])
    assert_facts(writer, function.facts)
    for param, array in zip(hidden, captured, strict=True):
        writer.bind(param, writer.constant(array))
    measured: set[Symbol] = set()
    for op in function.ops:
        writer.write(op)
        symbol = bound_dim(op)
        if symbol is not None:
            measured.add(symbol)
            assert_measured(writer, function.facts, symbol, measured)
    body = HloRegion(tuple(params), tuple(writer.made), tuple([writer.value(v) for v in function.results]))
    names = [info.name for _, info in taken]
    results = function.result_names or tuple(f"result{i}" for i in range(len(function.results)))
    main = HloFunction(
        "main",
        body,
        _named_dims(function, [p for p, _ in taken]),
        tuple({"jax.result_info": name} for name in results),
        param_names=tuple(names),
    )
    # With it JAX refines the program to the shapes of a call.
    attrs = {"jax.uses_shape_polymorphism": True} if function.symbols() else {}
    return HloModule(function.name, {"main": main, **functions}, attrs)


#: The attribute of a parameter that names its dims: ``"b s _"``.
DIMS = "dyn.dims"


def _named_dims(function: Function, params: Sequence[Value]) -> tuple[dict[str, Any], ...]:
    """The names of symbols that are axes, for the reader of the module."""
    names = [s.name for s in function.symbols()]
    texts: list[str] = []
    for param in params:
        symbols = [d.is_symbol if isinstance(d, SymExpr) else None for d in param.shape]
        plain = [s is not None and s.name.isidentifier() and names.count(s.name) == 1 for s in symbols]
        texts.append(" ".join([s.name if s is not None and p else "_" for s, p in zip(symbols, plain, strict=True)]))
    return tuple([{DIMS: text} if text.strip("_ ") else {} for text in texts])


def _bind_symbols(writer: Writer, params: Sequence[Value]) -> None:
    """Bind each symbol to a size: an axis that it is, or that is a number of times it and more."""
    pending: list[tuple[Value, int, SymExpr]] = []
    bound: set[Symbol] = set()
    for param in params:
        for axis, dim in enumerate(param.shape):
            if not isinstance(dim, SymExpr):
                continue
            symbol = dim.is_symbol
            if symbol is None:
                pending.append((param, axis, dim))
            elif symbol not in bound:
                bound.add(symbol)
                writer.sizes.bind_symbol(symbol, axis_size(writer, writer.value(param), axis))
            else:
                assert_size(writer, param, axis, dim)
    progress = True
    while pending and progress:
        progress = False
        for param, axis, dim in tuple(pending):
            unknown = [s for s in free_symbols(dim) if s not in bound]
            linear = linear_in(dim, unknown[0]) if len(unknown) == 1 else None
            if linear is not None:
                factor, rest = linear
                whole = axis_size(writer, writer.value(param), axis)
                assert_least(writer, param, axis, whole, rest)
                size = writer.op("stablehlo.subtract", whole, writer.dim(rest))
                writer.sizes.bind_symbol(unknown[0], writer.op("stablehlo.divide", size, writer.dim(factor)))
                bound.add(unknown[0])
                progress = True
            if linear is not None or not unknown:
                pending.remove((param, axis, dim))
                assert_size(writer, param, axis, dim)
