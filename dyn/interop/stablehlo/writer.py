"""Blocks of a StableHLO program that grow: the :class:`~dyn.interop.stablehlo.hlo.Encoder` that codecs write with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.interop.stablehlo.arithmetic import TRUTH, SizeArithmetic, UnknownSizeError, comparison
from dyn.interop.stablehlo.codecs import codec_of
from dyn.interop.stablehlo.hlo import HloFunction, HloOp, HloRegion, HloSymbol, HloType, HloValue, is_static
from dyn.interop.stablehlo.scopes import ValueScope
from dyn.ir.core import Op, Region, Value
from dyn.shapes import Dim, Facts
from dyn.source import UNKNOWN, Loc


class Writer:
    """The encoder of a block of a StableHLO program: what is written is appended to the block."""

    truth = TRUTH
    direction = staticmethod(comparison)

    def __init__(
        self, facts: Facts, functions: dict[str, HloFunction], outer: Writer | None = None, *, for_xla: bool = False
    ) -> None:
        self.facts = facts
        self.for_xla = for_xla
        self.loc: Loc = UNKNOWN if outer is None else outer.loc
        self.made: list[HloOp] = []
        self.sizes = SizeArithmetic(self, None if outer is None else outer.sizes)
        self._functions = functions
        self._values: ValueScope[Value, HloValue] = ValueScope(None if outer is None else outer._values)

    # Operations -------------------------------------------------------------------------------------------------

    def ops(
        self, name: str, /, operands: Sequence[HloValue], types: Sequence[HloType], regions: Sequence[HloRegion] = (),
        **attrs: Any,
    ) -> tuple[HloValue, ...]:  # fmt: skip
        results = tuple([HloValue(t) for t in types])
        given = {key: value for key, value in attrs.items() if value is not None}
        self.made.append(HloOp(name, tuple(operands), given, results, tuple(regions), self.loc))
        return results

    def op(
        self, name: str, *operands: HloValue, type: HloType | None = None, regions: Sequence[HloRegion] = (),
        **attrs: Any,
    ) -> HloValue:  # fmt: skip
        (result,) = self.ops(name, operands, [operands[0].type if type is None else type], regions, **attrs)
        return result

    def constant(self, array: Any, dtype: DType | None = None) -> HloValue:
        found = np.asarray(array)
        found = found if dtype is None else found.astype(dtype.np)
        type = HloType(dtypes.dtype(found.dtype), found.shape)
        return self.op("stablehlo.constant", type=type, value=np.array(found, type.dtype.np, order="C"))

    def full(self, value: Any, type: HloType) -> HloValue:
        return self.spread(self.constant(value, type.dtype), type, ())

    def number(self, dim: Dim, type: HloType) -> HloValue:
        """A dim everywhere in a shape."""
        size = self.dim(dim)
        if type.dtype is not dtypes.int64:
            size = self.op("stablehlo.convert", size, type=HloType(type.dtype, ()))
        return self.spread(size, type, ())

    def spread(self, value: HloValue, type: HloType, dims: Sequence[int]) -> HloValue:
        if value.type == type and list(dims) == list(range(len(type.shape))):
            return value
        axes = tuple(dims)
        if is_static(type.shape) and is_static(value.shape):
            return self.op("stablehlo.broadcast_in_dim", value, type=type, broadcast_dimensions=axes)
        return self.op(
            "stablehlo.dynamic_broadcast_in_dim", value, self.dims(_known(type)), type=type, broadcast_dimensions=axes
        )

    def reshaped(self, value: HloValue, shape: Sequence[Dim]) -> HloValue:
        type = HloType(value.dtype, tuple(shape))
        if value.type == type:
            return value
        if is_static(shape) and is_static(value.shape):
            return self.op("stablehlo.reshape", value, type=type)
        return self.op("stablehlo.dynamic_reshape", value, self.dims(shape), type=type)

    def cast(self, value: HloValue, type: HloType) -> HloValue:
        """A value as one of another type that is known to be the same: sizes may be written differently."""
        if _written(value.type) == _written(type):
            return value
        return self.op("stablehlo.dynamic_reshape", value, self.dims(_known(type)), type=type)

    def iota(self, type: HloType, dimension: int) -> HloValue:
        if is_static(type.shape):
            return self.op("stablehlo.iota", type=type, iota_dimension=dimension)
        return self.op("stablehlo.dynamic_iota", self.dims(_known(type)), type=type, iota_dimension=dimension)

    def row(self, value: HloValue, number: int) -> HloValue:
        """``value[..., number]``"""
        kept = _known(value.type)[:-1]
        rank, type = len(kept), HloType(value.dtype, (*kept, 1))
        part = self.sliced(value, (*(0,) * rank, number), (*kept, number + 1), (1,) * (rank + 1), type)
        return self.reshaped(part, kept)

    def sliced(
        self, value: HloValue, start: Sequence[Dim], limit: Sequence[Dim], strides: Sequence[Dim], type: HloType
    ) -> HloValue:
        """``slice``, static or dynamic."""
        if is_static((*start, *limit, *strides)):
            return self.op(
                "stablehlo.slice", value, type=type, start_indices=tuple(start), limit_indices=tuple(limit),
                strides=tuple(strides),
            )  # fmt: skip
        return self.op(
            "stablehlo.real_dynamic_slice", value, *[self.dims(n) for n in (start, limit, strides)], type=type
        )

    def padded(self, value: HloValue, hole: HloValue, paddings: Sequence[Sequence[Dim]], type: HloType) -> HloValue:
        """``pad``, static or dynamic: before, after and between the elements."""
        if all(is_static(p) for p in paddings):
            names = ("edge_padding_low", "edge_padding_high", "interior_padding")
            return self.op(
                "stablehlo.pad", value, hole, type=type, **dict(zip(names, map(tuple, paddings), strict=True))
            )
        return self.op("stablehlo.dynamic_pad", value, hole, *[self.dims(p) for p in paddings], type=type)

    # Regions ----------------------------------------------------------------------------------------------------

    def inner(self) -> Writer:
        """A block inside of this one, which may use what is here."""
        return Writer(self.facts, self._functions, self, for_xla=self.for_xla)

    def block(
        self, types: Sequence[HloType], build: Callable[[Any, tuple[HloValue, ...]], Sequence[HloValue]]
    ) -> HloRegion:
        inner = self.inner()
        params = tuple([HloValue(t) for t in types])
        results = tuple(build(inner, params))
        return HloRegion(params, tuple(inner.made), results)

    def region(self, region: Region) -> HloRegion:
        return self.block(
            [HloType.of(p.type) for p in region.params], lambda inner, params: inner.inlined(region, params)
        )

    def inlined(self, region: Region, args: Sequence[HloValue]) -> tuple[HloValue, ...]:
        for param, arg in zip(region.params, args, strict=True):
            self._values[param] = self.cast(arg, HloType.of(param.type))
        for op in region.ops:
            self.write(op)
        return tuple([self.value(v) for v in region.results])

    def function(self, name: str, region: HloRegion) -> HloSymbol:
        number = 0
        while (full := f"{name}_{number}") in self._functions:
            number += 1
        self._functions[full] = HloFunction(full, region, public=False)
        return HloSymbol(full)

    def outlined(self, name: str, region: Region) -> HloSymbol | None:
        """None where the region reads what is around it, or has sizes that no axis of its parameters is.

        And for XLA, where there are symbolic sizes: XLA refines a function to the shapes of its calls alone.
        """
        params = tuple([HloValue(HloType.of(p.type)) for p in region.params])
        if tuple(region.reads()) or (self.for_xla and not all(p.type.static for p in params)):
            return None
        inner, functions = Writer(self.facts, dict(self._functions), for_xla=self.for_xla), self._functions
        inner.loc = self.loc
        for param, made in zip(region.params, params, strict=True):
            inner.bind(param, made)
            inner.sizes.bind_axes(made)
        try:
            for op in region.ops:
                inner.write(op)
        except UnknownSizeError:
            return None
        functions.update(inner._functions)
        results = tuple([inner.value(v) for v in region.results])
        return self.function(name, HloRegion(params, tuple(inner.made), results))

    # Values of the program --------------------------------------------------------------------------------------

    def bind(self, value: Value, made: HloValue) -> None:
        self._values[value] = made

    def value(self, value: Value) -> HloValue:
        found = self._values.find(value)
        assert found is not None, f"{value!r} was not written"
        return found

    def write(self, op: Op) -> None:
        """An op, by its codec."""
        codec = codec_of(op.opdef, op.loc)
        before, self.loc = self.loc, op.loc
        results = codec.encode(self, op, tuple([self.value(v) for v in op.operands]))
        for own, made in zip(op.results, results, strict=True):
            self._values[own] = made
        self.loc = before

    # Dims -------------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> HloValue:
        return self.sizes.dim(dim)

    def dims(self, dims: Sequence[Any]) -> HloValue:
        return self.sizes.dims(dims)


def _written(type: HloType) -> tuple[Any, ...]:
    """A type as MLIR writes it: all symbolic sizes are ``?``."""
    return type.dtype, tuple([d if isinstance(d, int) else None for d in type.shape])


def _known(type: HloType) -> tuple[Dim, ...]:
    dims = tuple([d for d in type.shape if d is not None])
    assert len(dims) == len(type.shape), f"{type} has sizes that are not known"
    return dims
