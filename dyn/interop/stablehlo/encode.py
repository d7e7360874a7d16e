"""From DHLO to StableHLO's records.

Dims become tensors of arithmetic on ``get_dimension_size``, made where they are first needed; what is known of them is
asserted at the start, by the custom calls ``shape_assertion`` that JAX's own exports have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import NotYetError
from dyn.ir.core import Function, Op, Region, Value
from dyn.ir.hlo import (
    Codec,
    HloEnum,
    HloFunction,
    HloInt,
    HloModule,
    HloOp,
    HloRegion,
    HloSymbol,
    HloType,
    HloValue,
    is_static,
)
from dyn.ir.opdef import OpKind
from dyn.shapes import (
    Atom,
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    format_dim,
    free_symbols,
    linear_in,
)
from dyn.source import UNKNOWN, Loc

Array = np.ndarray[Any, Any]
_SIZE = HloType(dtypes.int64, ())
_TRUTH = HloType(dtypes.bool_, ())


class _UnknownSizeError(NotYetError):
    """A symbol that no axis is."""


class Writer:
    """A block of a StableHLO program, in the making: the :class:`~dyn.ir.hlo.Encoder` of the ops in it."""

    truth = _TRUTH

    def __init__(
        self, facts: Facts, functions: dict[str, HloFunction], outer: Writer | None = None, *, refined: bool = False
    ) -> None:
        self.facts = facts
        self.refined = refined
        self.loc: Loc = UNKNOWN if outer is None else outer.loc
        self.made: list[HloOp] = []
        self._functions = functions
        self._outer = outer
        self._values: dict[Value, HloValue] = {}
        self._dims: dict[Any, HloValue] = {}

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
        return self.op("stablehlo.constant", type=type, value=np.array(found, order="C"))

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

    @staticmethod
    def direction(direction: str, sort: str) -> dict[str, Any]:
        """The attributes of a comparison."""
        return {
            "comparison_direction": HloEnum("comparison_direction", direction),
            "compare_type": HloEnum("comparison_type", sort),
        }

    # Regions ----------------------------------------------------------------------------------------------------

    def inner(self) -> Writer:
        """A block inside of this one, which may use what is here."""
        return Writer(self.facts, self._functions, self, refined=self.refined)

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

        And where a program is refined: that is for calls alone, whose functions are those of their shapes.
        """
        params = tuple([HloValue(HloType.of(p.type)) for p in region.params])
        if tuple(region.reads()) or (self.refined and not all(p.type.static for p in params)):
            return None
        inner, functions = Writer(self.facts, dict(self._functions), refined=self.refined), self._functions
        inner.loc = self.loc
        for param, made in zip(region.params, params, strict=True):
            inner.bind(param, made)
            inner.bind_axes(param)
        try:
            for op in region.ops:
                inner.write(op)
        except _UnknownSizeError:
            return None
        functions.update(inner._functions)
        results = tuple([inner.value(v) for v in region.results])
        return self.function(name, HloRegion(params, tuple(inner.made), results))

    # Values of the program --------------------------------------------------------------------------------------

    def bind(self, value: Value, made: HloValue) -> None:
        self._values[value] = made

    def value(self, value: Value) -> HloValue:
        writer: Writer | None = self
        while writer is not None:
            found = writer._values.get(value)
            if found is not None:
                return found
            writer = writer._outer
        raise AssertionError(f"{value!r} was not written")

    def write(self, op: Op) -> None:
        """An op, by its codec."""
        codec: Codec = op.opdef.rule("stablehlo", op.loc)
        before, self.loc = self.loc, op.loc
        results = codec.encode(self, op, tuple([self.value(v) for v in op.operands]))
        for own, made in zip(op.results, results, strict=True):
            self._values[own] = made
        self.loc = before

    # Dims -------------------------------------------------------------------------------------------------------

    def bind_axes(self, param: Value) -> None:
        """Symbols that are axes of a parameter are its sizes, where they have no place yet."""
        for axis, dim in enumerate(param.shape):
            symbol = dim.is_symbol if isinstance(dim, SymExpr) else None
            if symbol is not None and symbol not in self._dims:
                self.bind_symbol(symbol, _axis_size(self, param, axis))

    def bind_symbol(self, symbol: Symbol, size: HloValue) -> None:
        self._dims[symbol] = size

    def _found(self, key: Any) -> HloValue | None:
        writer: Writer | None = self
        while writer is not None:
            found = writer._dims.get(key)
            if found is not None:
                return found
            writer = writer._outer
        return None

    def dim(self, dim: Dim) -> HloValue:
        found = self._found(dim)
        if found is None:
            found = self._dims[dim] = self._sum(dim) if isinstance(dim, SymExpr) else self.constant(dim, dtypes.int64)
        return found

    def _sum(self, dim: SymExpr) -> HloValue:
        total: HloValue | None = None
        for mono, coefficient in dim.terms:
            factors = [self._atom(atom) for atom, power in mono.factors for _ in range(power)]
            term = factors[0]
            for factor in factors[1:]:
                term = self.op("stablehlo.multiply", term, factor)
            if coefficient != 1:
                term = self.op("stablehlo.multiply", term, self.dim(coefficient))
            total = term if total is None else self.op("stablehlo.add", total, term)
        assert total is not None
        return self.op("stablehlo.add", total, self.dim(dim.constant)) if dim.constant else total

    def _atom(self, atom: Atom) -> HloValue:
        found = self._found(atom)
        if found is not None:
            return found
        if isinstance(atom, Symbol):
            raise _UnknownSizeError(
                f"{atom.name} ({atom.origin}) is no size of a parameter, and has no StableHLO form yet."
            )
        made = self._dims[atom] = self._opaque(atom)
        return made

    def _opaque(self, atom: Opaque) -> HloValue:
        first, *rest = [self.dim(arg) for arg in atom.args]
        match atom.kind:
            case OpaqueKind.MIN | OpaqueKind.MAX:
                name = "stablehlo.minimum" if atom.kind is OpaqueKind.MIN else "stablehlo.maximum"
                for other in rest:
                    first = self.op(name, first, other)
                return first
            case OpaqueKind.BROADCAST:
                one = self.dim(1)
                for other in rest:
                    is_one = self._compare(first, other if other is one else one, "EQ")
                    first = self.op("stablehlo.select", is_one, other, first, type=_SIZE)
                return first
            case OpaqueKind.FLOORDIV | OpaqueKind.MOD:
                return self._division(atom, first, rest[0])

    def _division(self, atom: Opaque, a: HloValue, b: HloValue) -> HloValue:
        """Rounded down. StableHLO's rounds to 0, which is the same of what is not negative."""
        quotient, rest = atom.kind is OpaqueKind.FLOORDIV, self.op("stablehlo.remainder", a, b)
        plain = self.op("stablehlo.divide", a, b) if quotient else rest
        if all(self.facts.ge(arg, 0).proved for arg in atom.args):
            return plain
        zero, one = self.dim(0), self.dim(1)
        crossed = self._compare(self.op("stablehlo.sign", rest), self.op("stablehlo.sign", b), "NE")
        off = self.op("stablehlo.and", crossed, self._compare(rest, zero, "NE"))
        other = self.op("stablehlo.subtract", plain, one) if quotient else self.op("stablehlo.add", rest, b)
        return self.op("stablehlo.select", off, other, plain, type=_SIZE)

    def _compare(self, a: HloValue, b: HloValue, direction: str) -> HloValue:
        return self.op("stablehlo.compare", a, b, type=_TRUTH, **self.direction(direction, "SIGNED"))

    def dims(self, dims: Sequence[Any]) -> HloValue:
        if not dims or isinstance(dims[0], tuple):
            shape = (len(dims), len(dims[0])) if dims else (0,)
            flat: list[Dim] = [d for row in dims for d in row]
        else:
            shape, flat = (len(dims),), list(dims)
        key = ("dims", shape, tuple(flat))
        found = self._found(key)
        if found is None:
            found = self._dims[key] = self._vector(flat, shape)
        return found

    def _vector(self, flat: list[Dim], shape: tuple[int, ...]) -> HloValue:
        if is_static(flat):
            return self.constant(np.array(flat, np.int64).reshape(shape))
        parts = [self.reshaped(self.dim(d), (1,)) for d in flat]
        vector = HloType(dtypes.int64, (len(flat),))
        made = parts[0] if len(parts) == 1 else self.op("stablehlo.concatenate", *parts, type=vector, dimension=0)
        return self.reshaped(made, shape)

    # Facts ------------------------------------------------------------------------------------------------------

    def assert_relation(self, relation: Relation) -> None:
        """A custom call that fails where the relation does not hold."""
        before, self.loc = self.loc, relation.reason.loc or UNKNOWN
        sides = [s for s in (relation.lhs, relation.rhs) if isinstance(s, SymExpr)]
        named = ", ".join(f"{format_dim(s)} is {{{i}}}" for i, s in enumerate(sides))
        # Braces in the text of a reason would be taken for places of values.
        why = relation.reason.text.replace("{", "(").replace("}", ")")
        message = f"{relation.describe()} is required, but {named}: {why}."
        self.ops(
            "stablehlo.custom_call", [self._truth_of(relation), *(self.dim(s) for s in sides)], [],
            call_target_name="shape_assertion", api_version=HloInt(2), error_message=message, has_side_effect=True,
        )  # fmt: skip
        self.loc = before

    def _truth_of(self, relation: Relation) -> HloValue:
        lhs, rhs = self.dim(relation.lhs), self.dim(relation.rhs)
        match relation.kind:
            case RelKind.EQ | RelKind.SAME_NUMEL:
                return self._compare(lhs, rhs, "EQ")
            case RelKind.GE:
                return self._compare(lhs, rhs, "GE")
            case RelKind.NONZERO:
                return self._compare(lhs, self.dim(0), "NE")
            case RelKind.DIVIDES:
                return self._compare(self.op("stablehlo.remainder", rhs, lhs), self.dim(0), "EQ")
            case RelKind.BROADCASTS:
                one = self.dim(1)
                truths = [self._compare(*pair, "EQ") for pair in ((lhs, rhs), (lhs, one), (rhs, one))]
                return self.op("stablehlo.or", self.op("stablehlo.or", truths[0], truths[1]), truths[2])


def _written(type: HloType) -> tuple[Any, ...]:
    """A type as MLIR writes it: all symbolic sizes are ``?``."""
    return type.dtype, tuple([d if isinstance(d, int) else None for d in type.shape])


def _known(type: HloType) -> tuple[Dim, ...]:
    dims = tuple([d for d in type.shape if d is not None])
    assert len(dims) == len(type.shape), f"{type} has sizes that are not known"
    return dims


# --- functions --------------------------------------------------------------------------------------------------------


def encode(function: Function, captured: Sequence[Array], *, refined: bool = False) -> HloModule:
    """The module whose ``main`` is the function; captured arrays become constants of it.

    ``refined``: XLA refines the module to the shapes of a call, which it cannot where composites have symbolic sizes.

    Raises NotYetError, with its line, for an op without a codec.
    """
    functions: dict[str, HloFunction] = {}
    writer = Writer(function.facts, functions, refined=refined)
    for op in function.ops:  # facts of sizes that depend on values come first, and have no line
        if op.opdef.kind is OpKind.MEASURE:
            op.opdef.rule("stablehlo", op.loc).encode(writer, op, ())
    taken = [(p, info) for p, info in zip(function.params, function.infos, strict=True) if not info.hidden]
    hidden = [p for p, info in zip(function.params, function.infos, strict=True) if info.hidden]
    params: list[HloValue] = []
    for param, _ in taken:
        made = HloValue(HloType.of(param.type))
        writer.bind(param, made)
        params.append(made)
    _bind_symbols(writer, [p for p, _ in taken])
    for declared in function.facts.declarations:
        dim = as_dim(declared.symbol)
        if declared.min > 0:
            writer.assert_relation(Relation(RelKind.GE, dim, declared.min, declared.reason))
        if declared.max is not None:
            writer.assert_relation(Relation(RelKind.GE, declared.max, dim, declared.reason))
        if declared.multiple_of > 1:
            writer.assert_relation(Relation(RelKind.DIVIDES, declared.multiple_of, dim, declared.reason))
    for relation in function.facts.relations:
        writer.assert_relation(relation)
    for param, array in zip(hidden, captured, strict=True):
        writer.bind(param, writer.constant(array))
    for op in function.ops:
        writer.write(op)
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
    """Where the size of each symbol is found: an axis that it is, or that is a number of times it and more."""
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
                writer.bind_symbol(symbol, _axis_size(writer, param, axis))
            else:
                _assert_size(writer, param, axis, dim)
    progress = True
    while pending and progress:
        progress = False
        for param, axis, dim in tuple(pending):
            unknown = [s for s in free_symbols(dim) if s not in bound]
            linear = linear_in(dim, unknown[0]) if len(unknown) == 1 else None
            if linear is not None:
                factor, rest = linear
                whole = _axis_size(writer, param, axis)
                _assert_least(writer, param, axis, whole, rest)
                size = writer.op("stablehlo.subtract", whole, writer.dim(rest))
                writer.bind_symbol(unknown[0], writer.op("stablehlo.divide", size, writer.dim(factor)))
                bound.add(unknown[0])
                progress = True
            if linear is not None or not unknown:
                pending.remove((param, axis, dim))
                _assert_size(writer, param, axis, dim)


def _assert_least(writer: Writer, param: Value, axis: int, size: HloValue, least: Dim) -> None:
    """That what is left of an axis for the dim that is solved for is not negative."""
    enough = writer.op("stablehlo.compare", size, writer.dim(least), type=_TRUTH, **writer.direction("GE", "SIGNED"))
    writer.ops(
        "stablehlo.custom_call", [enough, size, writer.dim(least)], [], call_target_name="shape_assertion",
        api_version=HloInt(2), error_message=f"{param.name}.shape[{axis}] is {{0}}, and it is {{1}} at least.",
        has_side_effect=True,
    )  # fmt: skip


def _axis_size(writer: Writer, param: Value, axis: int) -> HloValue:
    size = writer.op(
        "stablehlo.get_dimension_size", writer.value(param), type=HloType(dtypes.int32, ()), dimension=axis
    )
    return writer.op("stablehlo.convert", size, type=_SIZE)


def _assert_size(writer: Writer, param: Value, axis: int, dim: SymExpr) -> None:
    """That an axis is the expression of sizes that it was declared to be."""
    size = _axis_size(writer, param, axis)
    same = writer.op("stablehlo.compare", size, writer.dim(dim), type=_TRUTH, **writer.direction("EQ", "SIGNED"))
    message = f"{param.name}.shape[{axis}] is {{0}}, and it must be {format_dim(dim)} = {{1}}."
    writer.ops(
        "stablehlo.custom_call", [same, size, writer.dim(dim)], [], call_target_name="shape_assertion",
        api_version=HloInt(2), error_message=message, has_side_effect=True,
    )  # fmt: skip
