"""Random DHLO programs.

Inputs are small whole numbers, also in floats, so that a value is *exact* until a function rounds it; what jumps
(comparisons, floor, conversions to integers) is applied to exact values alone. Everything else has an error bound,
carried from op to op by ``tests.stitch.oracle``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import IRError, ShapeError
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Function, ParamInfo, Value
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.ops.indexing.gather import take_attrs
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.ops.regions import scalar_region
from dyn.shapes import (
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    broadcast,
    dim_min,
    evaluate,
    floordiv,
    product,
)
from dyn.shapes import symbol as new_symbol
from dyn.source import Loc

Array = np.ndarray[Any, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
LOC = Loc("program.py", 1, "a random program")
SIZES = (0, 1, 2, 7, 64)
#: No array of a run has more elements.
LIMIT = 1 << 19
_FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
_DTYPES = (*[dtypes.float32] * 6, dtypes.int32, dtypes.int32, dtypes.bool_, dtypes.float64, dtypes.bfloat16,
           dtypes.float16, dtypes.int64, dtypes.uint8)  # fmt: skip
_EXACT_UNARY = ("negate", "abs", "sign", "floor", "ceil", "round_nearest_even")
_ROUND_UNARY = ("tanh", "logistic", "erf", "sine", "cosine", "cbrt")
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
_JUMPS = frozenset({"compare", "sign", "floor", "ceil", "round_nearest_even", "is_finite"})


class Program:
    """A function and the sizes of its symbols that it is run with. No dataclass: hypothesis prints its fields."""

    def __init__(
        self, function: Function, envs: tuple[dict[Symbol, int], ...], seed: int, *, exact: bool = False
    ) -> None:
        self.function = function
        self.envs = envs
        self.seed = seed
        #: Whether all that it computes are integers that its dtypes hold: no order of sums is seen.
        self.exact = exact

    def __repr__(self) -> str:
        envs = "; ".join(", ".join(f"{s.name} = {size}" for s, size in env.items()) for env in self.envs)
        return f"\n{print_function(self.function)}seed {self.seed}, sizes {envs}\n"

    def arguments(self, env: dict[Symbol, int]) -> list[Array]:
        rng = np.random.default_rng(self.seed)
        return [_values(rng, p.dtype, tuple(evaluate(d, env) for d in p.shape)) for p in self.function.params]

    def fits(self, env: dict[Symbol, int]) -> bool:
        """Whether every array has a size that a test can pay for."""
        try:
            return all(0 <= evaluate(v.type.size, env) <= LIMIT for op in self.function.ops for v in op.results)
        except ShapeError:
            return True


def _values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype.kind is Kind.BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    low = 0 if dtype.kind is Kind.UINT else -3
    return np.asarray(rng.integers(low, 4, shape)).astype(dtype.np)


class Maker:
    """Draws ops onto a growing function."""

    def __init__(self, draw: Draw, symbols: Sequence[Symbol]) -> None:
        self.draw = draw
        self.symbols = symbols
        self.b = Builder(Facts.EMPTY, LOC)
        self.values: list[Value] = []
        self.exact: dict[Value, bool] = {}

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def flip(self, odds: int = 2) -> bool:
        return self.draw(st.integers(0, odds - 1)) == odds - 1

    def dim(self) -> Dim:
        options: list[Dim] = [*map(as_dim, self.symbols), *map(as_dim, self.symbols), 1, 4, 6]
        return self.pick(options)

    def shape(self, most: int = 3) -> tuple[Dim, ...]:
        return tuple(self.dim() for _ in range(self.draw(st.integers(0, most))))

    def param(self, shape: tuple[Dim, ...], dtype: DType, name: str) -> Value:
        value = Value(TensorType(dtype, shape), name)
        self.values.append(value)
        self.exact[value] = True
        return value

    def filled(self, like: Value, number: int) -> Value:
        """An array of one number, of another one's type."""
        one = self.emit("constant", value=Dense(np.array(number, like.dtype.np)))
        return self.emit("broadcast_in_dim", one, shape=like.shape, dims=())

    def value(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value that passes ``test``, recent ones first in what shrinking prefers."""
        found = [v for v in reversed(self.values) if test(v)]
        return self.pick(found) if found else None

    def emit(self, name: str, *operands: Value, **attrs: Any) -> Value:
        value = self.b.op(name, *operands, **attrs)
        exact = all(self.exact[v] for v in operands)
        if value.dtype.is_float:
            exact = exact and name not in _ROUND_UNARY and name not in ("exponential", "sqrt", "divide", "dot_general")
            exact = exact and not (name == "reduce" and attrs["combine"] in ("add", "multiply"))
            exact = exact and not (name == "scatter" and attrs["combine"] == "add" and value.dtype.bits == 16)
            exact = exact and not (name in ("add", "subtract", "multiply") and value.dtype.bits == 16)
            exact = exact and not (name in ("convert", "iota", "dim_size") and value.dtype.bits == 16)
        self.exact[value] = exact
        self.values.append(value)
        return value

    # Ops ----------------------------------------------------------------------------------------------------

    def op(self) -> None:
        self.pick(
            [self.unary, self.binary, self.binary, self.compare, self.select, self.convert, self.broadcast,
             self.reshape, self.transpose, self.slice, self.concatenate, self.take, self.iota, self.reduce,
             self.scatter, self.pad, self.window,
             self.reduce, self.dot, self.normalise, self.constant, self.size, self.choose, self.variance]
        )()  # fmt: skip

    def unary(self) -> None:
        x = self.value()
        assert x is not None
        if x.dtype.kind is Kind.BOOL:
            self.emit("not", x)
        elif not x.dtype.is_float:
            self.emit("not" if x.dtype.kind is Kind.UINT else self.pick(("negate", "abs", "sign", "not")), x)
        elif self.exact[x] and self.flip():
            self.emit(self.pick(_EXACT_UNARY), x)
        else:
            name = self.pick((*_ROUND_UNARY, "negate", "abs", "exponential", "sqrt"))
            # Kept where the function is tame, so that errors stay small.
            if name == "exponential":
                x = self.emit("tanh", x)
            elif name == "sqrt":
                x = self.emit("logistic", x)
            self.emit(name, x)

    def constant_like(self, x: Value, number: int) -> Value:
        value = self.emit("constant", value=Dense(np.array(number, x.dtype.np)))
        return self.emit("broadcast_in_dim", value, shape=x.shape, dims=()) if x.shape else value

    def pair(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both broadcast to one shape by NumPy's rule, undecided where their sizes are."""
        rank = max(len(x.shape), len(y.shape))
        left = (*[1] * (rank - len(x.shape)), *x.shape)
        right = (*[1] * (rank - len(y.shape)), *y.shape)
        shape: list[Dim] = []
        for a, b in zip(left, right, strict=True):
            self.b.facts = self.b.facts.assume(Relation(RelKind.BROADCASTS, a, b, Reason("operands broadcast", LOC)))
            shape.append(broadcast(a, b))
        return self.stretch(x, tuple(shape)), self.stretch(y, tuple(shape))

    def stretch(self, x: Value, shape: tuple[Dim, ...]) -> Value:
        if x.shape == shape:
            return x
        return self.emit("broadcast_in_dim", x, shape=shape, dims=tuple(range(len(shape) - len(x.shape), len(shape))))

    def partner(self, x: Value) -> Value:
        """Another value of x's dtype, most often of its shape, or a constant."""
        same = self.value(lambda v: v.dtype is x.dtype and v.shape == x.shape)
        if same is not None and not self.flip(3):
            return same
        other = self.value(lambda v: v.dtype is x.dtype)
        if other is not None and not self.flip(4) and self.compatible(x, other):
            return other
        return self.constant_like(x, 2)

    def compatible(self, x: Value, y: Value) -> bool:
        pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
        return all(
            a is b or a in (1, b) or b == 1 or not (isinstance(a, int) or isinstance(b, int)) or self.flip(8)
            for a, b in pairs
        ) and not any(isinstance(a, int) and isinstance(b, int) and a != b and 1 not in (a, b) for a, b in
                      zip(reversed(x.shape), reversed(y.shape), strict=False))  # fmt: skip

    def binary(self) -> None:
        x = self.value()
        assert x is not None
        y = self.partner(x)
        try:
            x, y = self.pair(x, y)
        except ShapeError:
            return
        self.emit(self.pick(("and", "or", "xor") if x.dtype.kind is Kind.BOOL else _BINARY), x, y)

    def compare(self) -> None:
        x = self.value(lambda v: self.exact[v])
        if x is not None:
            y = self.partner(x)
            y = y if self.exact[y] else self.constant_like(x, 1)
            try:
                x, y = self.pair(x, y)
            except ShapeError:
                return
            self.emit("compare", x, y, direction=self.pick(("LT", "GE", "EQ", "NE")))

    def select(self) -> None:
        p = self.value(lambda v: v.dtype.kind is Kind.BOOL)
        if p is None:
            return
        x = self.value(lambda v: v.shape == p.shape)
        assert x is not None
        self.emit("select", p, x, self.constant_like(x, 1) if self.flip() else x)

    def convert(self) -> None:
        x = self.value(lambda v: self.exact[v])
        if x is not None:
            self.emit("convert", x, dtype=self.pick(_DTYPES))

    def broadcast(self) -> None:
        x = self.value(lambda v: len(v.shape) <= 3)
        if x is None:
            return
        shape: list[Dim] = []
        dims: list[int] = []
        for d in x.shape:
            if self.flip(3) and len(shape) < 4:
                shape.append(self.dim())
            dims.append(len(shape))
            shape.append(self.dim() if d == 1 else d)
        if self.flip(3):
            shape.append(self.dim())
        self.emit("broadcast_in_dim", x, shape=tuple(shape), dims=tuple(dims))

    def reshape(self) -> None:
        x = self.value(lambda v: len(v.shape) > 0)
        if x is None:
            return
        shape = list(x.shape)
        at = self.draw(st.integers(0, len(shape) - 1))
        how = self.pick(("merge", "split", "unit", "flat", "swap", "spread"))
        if how == "merge" and len(shape) > 1:
            at = min(at, len(shape) - 2)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif how == "split":
            shape[at : at + 1] = self.factors(shape[at])
        elif how == "unit":
            shape = [d for d in shape if d != 1] if 1 in shape else [*shape[:at], 1, *shape[at:]]
        elif how == "flat":
            shape = [product(shape)]
        elif how == "swap":
            shape = shape[::-1]
        else:
            divided = [i for i, d in enumerate(shape) if isinstance(d, int) and d % 2 == 0 and d]
            if divided and len(shape) > 1:
                i = divided[0]
                j = (i + 1) % len(shape)
                shape[i], shape[j] = shape[i] // 2, shape[j] * 2
        if len(shape) <= 5:
            self.emit("reshape", x, shape=tuple(shape))

    def factors(self, dim: Dim) -> list[Dim]:
        if isinstance(dim, int):
            return [2, dim // 2] if dim and dim % 2 == 0 else [dim, 1]
        if len(dim.terms) == 1 and not dim.constant:
            mono, coefficient = dim.terms[0]
            atoms: list[Dim] = [as_dim(a) for a, p in mono.factors for _ in range(p) if isinstance(a, Symbol)]
            if len(atoms) == sum(p for _, p in mono.factors):
                return [*atoms, coefficient] if coefficient != 1 else atoms
        return [1, dim]

    def transpose(self) -> None:
        x = self.value(lambda v: len(v.shape) > 1)
        if x is not None:
            self.emit("transpose", x, permutation=tuple(self.draw(st.permutations(range(len(x.shape))))))

    def slice(self) -> None:
        x = self.value(lambda v: len(v.shape) > 0)
        if x is None:
            return
        start, limit, strides = [list[Dim](), list[Dim](), list[int]()]
        for d in x.shape:
            low, high = self.pick([(0, d), (0, d), (dim_min(1, d), d), (0, floordiv(d, 2)), (floordiv(d, 2), d)])
            start.append(low)
            limit.append(high)
            strides.append(self.pick((1, 1, 1, 2, 3)))
        try:
            self.emit("slice", x, start=tuple(start), limit=tuple(limit), strides=tuple(strides))
        except ShapeError:
            return

    def concatenate(self) -> None:
        x = self.value(lambda v: len(v.shape) > 0)
        if x is None:
            return
        axis = self.draw(st.integers(0, len(x.shape) - 1))

        def joins(v: Value) -> bool:
            if v.dtype is not x.dtype or len(v.shape) != len(x.shape):
                return False
            return all(a is b or a == b or i == axis for i, (a, b) in enumerate(zip(x.shape, v.shape, strict=True)))

        parts = [self.value(joins) for _ in range(self.draw(st.integers(1, 2)))]
        self.emit("concatenate", x, *[p for p in parts if p is not None], dimension=axis)

    def take(self) -> None:
        x = self.value(lambda v: len(v.shape) > 0)
        indices = self.value(lambda v: v.dtype.is_integer and len(v.shape) <= 2 and self.exact[v])
        if x is not None and indices is not None and len(x.shape) + len(indices.shape) <= 5:
            axis = self.draw(st.integers(0, len(x.shape) - 1))
            try:
                self.emit("gather", x, indices, **take_attrs(x.shape, axis, len(indices.shape)))
            except ShapeError:
                return

    def scatter(self) -> None:
        """Rows, or single elements, of one value put into another where a third says."""
        indices = self.value(lambda v: v.dtype.is_integer and len(v.shape) == 1 and self.exact[v])
        x = self.value(lambda v: 0 < len(v.shape) <= 2 and v.dtype.kind is not Kind.BOOL)
        if indices is None or x is None:
            return
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        windows = tuple(a for a in range(len(x.shape)) if a != axis)
        shape = tuple(indices.shape[0] if a == axis else d for a, d in enumerate(x.shape))
        found = self.value(lambda v: v.dtype is x.dtype and v.shape == shape)
        updates = self.stretch(self.emit("constant", value=Dense(np.array(2, x.dtype.np))), shape)
        attrs = scatter_attrs(
            self.pick(("add", "maximum", "replace")), update_window_dims=windows, scatter_dims_to_operand_dims=(axis,),
            index_vector_dim=1, inserted_window_dims=(axis,), wrap=self.flip(),
        )  # fmt: skip
        self.emit("scatter", x, indices, updates if found is None else found, **attrs)

    def pad(self) -> None:
        x = self.value(lambda v: len(v.shape) > 0)
        if x is None:
            return
        low, high, interior = (
            tuple(self.pick(options) for _ in x.shape) for options in ((0, 1, -1), (0, 2, *self.symbols), (0, 0, 1))
        )
        edges = [tuple(d if isinstance(d, int) else as_dim(d) for d in edge) for edge in (low, high)]
        fill = self.emit("constant", value=Dense(np.array(1, x.dtype.np)))
        with contextlib.suppress(ShapeError):
            self.emit("pad", x, fill, edge_padding_low=edges[0], edge_padding_high=edges[1], interior_padding=interior)

    def window(self) -> None:
        """A slice at a computed place, and often that slice, changed, in its place again."""
        x = self.value(lambda v: len(v.shape) > 0)
        start = self.value(lambda v: v.dtype.is_integer and not v.shape and self.exact[v])
        if x is None:
            return
        if start is None:
            start = self.emit("dim_size", size=self.dim(), dtype=dtypes.int32)
        starts = [start] * len(x.shape)
        sizes = tuple(self.pick((d, floordiv(d, 2), dim_min(d, 2))) for d in x.shape)
        part = self.emit("dynamic_slice", x, *starts, slice_sizes=sizes)
        if self.flip():
            part = part if x.dtype.kind is Kind.BOOL else self.emit("add", part, part)
            self.emit("dynamic_update_slice", x, part, *starts)

    def iota(self) -> None:
        shape = (*self.shape(2), self.dim())
        dimension = self.draw(st.integers(0, len(shape) - 1))
        self.emit("iota", shape=shape, dimension=dimension, dtype=self.pick((dtypes.int32, dtypes.float32)))

    def reduce(self) -> None:
        x = self.value(lambda v: len(v.shape) > 0)
        if x is None:
            return
        axes = tuple(a for a in range(len(x.shape)) if self.flip())
        axes = axes if axes else (self.draw(st.integers(0, len(x.shape) - 1)),)
        if x.dtype.kind is Kind.BOOL:
            combine = self.pick(("and", "or", "maximum", "minimum"))
        else:
            combine = self.pick(
                ("add", "add", "maximum", "minimum", *(("multiply", "or") if x.dtype.is_integer else ()))
            )
        y = self.emit(
            "reduce", x, axes=axes, combine=combine, nonempty=self.flip(4) and combine in ("maximum", "minimum")
        )
        if self.flip():
            kept = tuple(a for a in range(len(x.shape)) if a not in axes)
            self.emit("broadcast_in_dim", y, shape=x.shape, dims=kept)

    def choose(self) -> None:
        """The first of the least or greatest elements along an axis, and its place: in an order that counts, or not."""
        x = self.value(lambda v: len(v.shape) > 0 and v.dtype.kind is not Kind.BOOL and self.exact[v])
        if x is None:
            return
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        places = self.b.op("iota", shape=x.shape, dimension=axis, dtype=self.pick((dtypes.int32, dtypes.int64)))
        direction = self.pick(("GT", "GT", "LT", "GE"))

        def body(b: Builder, value: Value, place: Value, y: Value, i: Value) -> tuple[Value, Value]:
            wins = b.op("compare", y, value, direction=direction)
            return b.op("select", wins, y, value), b.op("select", wins, i, place)

        inits = [self.b.op("constant", value=Dense(np.array(n, d.np))) for n, d in ((1, x.dtype), (9, places.dtype))]
        region = scalar_region((x.dtype, places.dtype) * 2, body)
        for value in self.b.op_all("variadic_reduce", x, places, *inits, regions=(region,), axes=(axis,)):
            self.exact[value] = True
            self.values.append(value)

    def variance(self) -> None:
        """Squared distances from a mean, added up."""
        x = self.value(lambda v: len(v.shape) > 0 and v.dtype in (dtypes.float32, dtypes.float64))
        if x is None:
            return
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        kept = tuple(a for a in range(len(x.shape)) if a != axis)
        total = self.emit("reduce", x, axes=(axis,), combine="add", nonempty=False)
        count = self.emit("dim_size", size=x.shape[axis], dtype=x.dtype)
        count = self.emit("broadcast_in_dim", count, shape=total.shape, dims=()) if total.shape else count
        mean = self.emit("broadcast_in_dim", self.emit("divide", total, count), shape=x.shape, dims=kept)
        centred = self.emit("subtract", x, mean)
        self.emit("reduce", self.emit("multiply", centred, centred), axes=(axis,), combine="add", nonempty=False)

    def normalise(self) -> None:
        """A row operation as people write them: a reduction, joined again with what it reduces."""
        x = self.value(lambda v: len(v.shape) > 0 and v.dtype.is_float)
        if x is None:
            return
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        kept = tuple(a for a in range(len(x.shape)) if a != axis)
        for _ in range(self.draw(st.integers(1, 2))):
            y = self.emit("reduce", x, axes=(axis,), combine=self.pick(("maximum", "add")), nonempty=False)
            y = self.emit("tanh", y)
            wide = self.emit("broadcast_in_dim", y, shape=x.shape, dims=kept)
            x = self.emit(self.pick(("subtract", "multiply")), x, wide)
            if self.flip():
                x = self.emit("tanh", x)
                x = self.emit("exponential", x)

    def dot(self) -> None:
        x = self.value(lambda v: 0 < len(v.shape) <= 4 and v.dtype.kind is not Kind.BOOL and v.dtype.itemsize > 1)
        if x is None:
            return
        y = self.value(lambda v: 0 < len(v.shape) <= 4 and v.dtype is x.dtype)
        assert y is not None
        batch: list[tuple[int, int]] = []
        contracting: list[tuple[int, int]] = []
        free = list(range(len(y.shape)))
        for a in self.draw(st.permutations(range(len(x.shape)))):
            matches = [b for b in free if x.shape[a] is y.shape[b] or x.shape[a] == y.shape[b]]
            role = self.pick(("contract", "batch", "free"))
            if matches and role != "free":
                b = self.pick(matches)
                free.remove(b)
                (contracting if role == "contract" else batch).append((a, b))
        if len(x.shape) + len(y.shape) - len(batch) - 2 * len(contracting) > 4:
            return
        self.emit(
            "dot_general", x, y,
            lhs_batch=tuple(a for a, _ in batch), rhs_batch=tuple(b for _, b in batch),
            lhs_contracting=tuple(a for a, _ in contracting), rhs_contracting=tuple(b for _, b in contracting),
        )  # fmt: skip

    def constant(self) -> None:
        dtype = self.pick(_DTYPES)
        self.emit("constant", value=Dense(np.array(self.pick((0, 1, 2)), dtype.np)))

    def size(self) -> None:
        self.emit("dim_size", size=product(self.shape(2)), dtype=self.pick((dtypes.float32, dtypes.int32)))


@st.composite
def programs(draw: Draw, most_ops: int = 10) -> Program:
    """A program of 1 to 3 symbols, up to 3 parameters and a few results, and sizes to run it with."""
    symbols = [new_symbol(name, f"size {name}") for name in "nmk"[: draw(st.integers(1, 3))]]
    maker = Maker(draw, symbols)
    params = [maker.param(maker.shape(), maker.pick(_DTYPES), f"p{i}") for i in range(draw(st.integers(1, 3)))]
    seen = {s for p in params for d in p.shape if isinstance(d, SymExpr) for s in [d.is_symbol]}
    missing = tuple(as_dim(s) for s in symbols if s not in seen)
    if missing:
        params.append(maker.param(missing, dtypes.float32, "rest"))
    for _ in range(draw(st.integers(1, most_ops))):
        with contextlib.suppress(ShapeError):  # what cannot hold for any size is no program
            maker.op()
    return _finished(draw, maker, symbols, params)


@st.composite
def contractions(draw: Draw) -> Program:
    """A program of three symbols around a contraction of what may be computed, with something done with its result."""
    symbols = [new_symbol(name, f"size {name}") for name in "nmk"]
    maker = Maker(draw, symbols)
    dtype = maker.pick((*[dtypes.float32] * 3, dtypes.float64, dtypes.int32, dtypes.bfloat16))
    dims = [*map(as_dim, symbols), 1, 4]
    params = [maker.param(tuple(map(as_dim, symbols)), dtype, "p0")]
    params += [maker.param(tuple(maker.pick(dims) for _ in range(draw(st.integers(1, 3)))), dtype, "p1")]
    for number, most in ((0, 2), (1, 3)):
        for _ in range(draw(st.integers(0, most))):
            with contextlib.suppress(ShapeError):
                maker.pick([maker.unary, maker.binary, maker.transpose, maker.broadcast, maker.reshape, maker.slice])()
        if number == 0:
            maker.dot()
    return _finished(draw, maker, symbols, params)


#: Dtypes of both operands of a product, and that in which they are multiplied.
_PRODUCTS = (
    *[(lhs, rhs, dtypes.int32) for lhs in (dtypes.int8, dtypes.uint8) for rhs in (dtypes.int8, dtypes.uint8)],
    *[(dtypes.int16, dtypes.int8, dtypes.int32)] * 2, (dtypes.uint8, dtypes.int16, dtypes.int64),
    (dtypes.float32, dtypes.int8, dtypes.float32), (dtypes.float32, dtypes.uint8, dtypes.float32),
    *[(dtypes.bfloat16, dtypes.bfloat16, dtypes.float32)] * 4, (dtypes.float16, dtypes.float16, dtypes.float32),
    (dtypes.float32, dtypes.bfloat16, dtypes.float32), (dtypes.float16, dtypes.float32, dtypes.float64),
)  # fmt: skip
_PRODUCT_SIZES = (0, 1, 2, 3, 8, 9, 17, 33, 70)


@st.composite
def products(draw: Draw) -> Program:
    """A product of matrices of narrow dtypes, in any layout: each operand is converted, and perhaps computed (a scale
    and a zero point by columns or by rows, a rectifier), and something is done with the result."""
    m, n, k, b = [new_symbol(name, f"size {name}") for name in "mnkb"]
    maker = Maker(draw, (m, n, k, b))
    lhs, rhs, wide = maker.pick(_PRODUCTS)
    batch = (as_dim(b),) if maker.flip(4) else ()
    reduced = maker.pick((as_dim(k), as_dim(k), 64))
    operands: list[Value] = []
    for number, (own, dtype) in enumerate(((as_dim(m), lhs), (maker.pick((as_dim(n), 40)), rhs))):
        axes = (own, reduced) if number == 0 else (reduced, own)
        turned = maker.flip()
        value = maker.param((*batch, *(axes[::-1] if turned else axes)), dtype, f"p{number}")
        operands.append(_computed(maker, value, wide, len(batch), number))
        if turned:
            axes = (*range(len(batch)), len(batch) + 1, len(batch))
            operands[-1] = maker.emit("transpose", operands[-1], permutation=axes)
    own = tuple(range(len(batch)))
    found = maker.emit(
        "dot_general", *operands, lhs_batch=own, rhs_batch=own, lhs_contracting=(len(batch) + 1,),
        rhs_contracting=(len(batch),),
    )  # fmt: skip
    if maker.flip():
        bias = maker.param((found.shape[-1],), wide, "bias")
        found = maker.emit(
            "add", found, maker.emit("broadcast_in_dim", bias, shape=found.shape, dims=(len(found.shape) - 1,))
        )
    if maker.flip():
        found = maker.emit("maximum", found, maker.filled(found, 0))
    params = [value for value in maker.values if value.name.startswith(("p", "s", "bias"))]
    infos = tuple(ParamInfo(p.name) for p in params)
    function = Function("f", tuple(params), tuple(maker.b.ops), (found,), maker.b.facts, infos)
    verify(function)
    seen = {d.is_symbol for p in params for d in p.shape if isinstance(d, SymExpr)}
    used = [s for s in (m, n, k, b) if s in seen]
    envs = tuple([{s: maker.pick(_PRODUCT_SIZES[: 4 if s is b else None]) for s in used} for _ in range(5)])
    return Program(function, envs, draw(st.integers(0, 99)), exact=True)


def _computed(maker: Maker, value: Value, wide: DType, batch: int, number: int) -> Value:
    """An operand in the dtype that it is multiplied in, perhaps computed."""
    value = value if value.dtype is wide else maker.emit("convert", value, dtype=wide)
    if maker.flip(3):
        value = maker.emit("subtract", value, maker.filled(value, 2))
    if maker.flip(3):
        axis = batch + maker.pick((0, 1))
        scale = maker.param((value.shape[axis],), wide, f"s{number}")
        value = maker.emit("multiply", value, maker.emit("broadcast_in_dim", scale, shape=value.shape, dims=(axis,)))
    if maker.flip(4):
        value = maker.emit("maximum", value, maker.filled(value, 0))
    return value


def _finished(draw: Draw, maker: Maker, symbols: Sequence[Symbol], params: Sequence[Value]) -> Program:
    """A program of what has been drawn: a few results, and sizes to run it with."""
    computed = maker.values[::-1]
    results = [computed[0]] + [maker.pick(computed) for _ in range(draw(st.integers(0, 2)))]
    infos = tuple(ParamInfo(p.name) for p in params)
    function = Function("f", tuple(params), tuple(maker.b.ops), tuple(results), maker.b.facts, infos)
    try:
        verify(function)
    except IRError:
        # The solver may lose a proof when it learns more; tests/shapes is where that is looked for.
        hypothesis.reject()
    # Sizes that all differ, so that one cannot pass for another; then any.
    envs: list[dict[Symbol, int]] = [{s: (7, 5, 3)[i] for i, s in enumerate(symbols)}]
    envs += [{s: maker.pick(SIZES) for s in symbols} for _ in range(5)]
    if maker.flip(4):
        envs.append({s: 1000 if i == 0 else maker.pick(SIZES) for i, s in enumerate(symbols)})
    return Program(function, tuple(envs), draw(st.integers(0, 99)))
