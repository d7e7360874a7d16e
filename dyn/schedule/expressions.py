"""Building kernel expressions from ops' element rules, and rewriting the indices in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeGuard

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.ops.complex_parts import part_dtype
from dyn.ops.scalar import COMPARISONS, Scalar
from dyn.schedule.kernel import (
    Apply,
    Bindings,
    Buffer,
    Carry,
    Const,
    Digits,
    Expr,
    Fold,
    Index,
    Load,
    Loop,
    Ref,
    Stmt,
    Store,
    TileContract,
    Update,
)
from dyn.schedule.kernel_walks import children, expr_dims, stmt_body, stmt_exprs, walk_stmts
from dyn.shapes import Dim, Monomial, Opaque, OpaqueKind, Symbol, SymExpr, as_dim, dim_sum, free_symbols
from dyn.shapes import symbol as new_symbol
from dyn.shapes.expr import atom_dim, polynomial
from dyn.shapes.walk import map_atoms, rebuild


@record(eq=False)
class Pair:
    """A complex value: no kernel expression, but two. It is loaded, taken apart, put together and stored."""

    real: Expr
    imag: Expr
    dtype: DType


def literal(dtype: DType, value: bool | int | float) -> Const:
    """A number as a constant of a dtype."""
    if dtype.kind is Kind.COMPLEX:
        raise NotYetError(f"kernels do not compute with {dtype.name} yet.")
    return Const(dtype, float(value) if dtype.is_float else int(value) if dtype.is_integer else bool(value))


class ExprBuilder:
    """The :class:`~dyn.ir.opdef.ScalarBuilder` that makes kernel expressions.

    Narrow floats are computed with in float32 and rounded after each function, so that fusing changes no result.
    """

    def __init__(self) -> None:
        self.bound: dict[Symbol, Expr] = {}
        self._consts: dict[tuple[DType, str], Const] = {}
        #: Every node that was made, by its contents. Keeps them alive, so that an id in a key is never used again.
        self._nodes: dict[tuple[object, ...], Expr] = {}
        self._symbols: dict[int, Dim] = {}
        self._sums: dict[SymExpr, Expr] = {}

    def pair(self, real: Expr, imag: Expr, dtype: DType) -> Pair:
        return Pair(real, imag, dtype)

    def parts(self, value: Pair) -> tuple[Expr, Expr]:
        return value.real, value.imag

    def part(self, value: Pair, number: Dim) -> Expr:
        """A part by its number: loaded from its place where both lie in memory, side by side."""
        real, imag = value.real, value.imag
        if isinstance(real, Load) and isinstance(imag, Load):
            beside = real.buffer is imag.buffer and imag.index == real.index + 1
            if beside and real.mask is imag.mask and real.other is imag.other:
                return self.load(real.buffer, real.index + number, real.mask, real.other)
        which = [self.index(dtypes.int64, number), self.const(dtypes.int64, 0)]
        return self.apply(Scalar.SELECT, [self.apply(Scalar.EQ, which, dtypes.bool_), real, imag], real.dtype)

    def load_pair(self, buffer: Buffer, index: Dim, dtype: DType, mask: Expr | None) -> Pair:
        """A complex element of a buffer of parts; 0 where ``mask`` is false."""
        other = None if mask is None else self.const(part_dtype(dtype), 0)
        real, imag = (self.load(buffer, index * 2 + i, mask, other) for i in range(2))
        return Pair(real, imag, dtype)

    def const(self, dtype: DType, value: bool | int | float) -> Const:
        made = literal(dtype, value)
        return self._consts.setdefault((dtype, repr(made.value)), made)

    def index(self, dtype: DType, expr: Dim) -> Expr:
        if isinstance(expr, int):
            return self.const(dtype, expr)
        if not self.bound.keys().isdisjoint(expr.symbols):
            return self.cast(self._computed(expr), dtype)
        return self._node(("index", dtype, expr), lambda: Index(dtype, expr))

    def bind(self, value: Expr) -> Dim:
        if isinstance(value, Const):
            return int(value.value)
        if isinstance(value, Index):
            return value.expr
        dim = self._symbols.get(id(value))
        if dim is None:
            symbol = new_symbol("v", "a computed index")
            self.bound[symbol] = value
            dim = self._symbols[id(value)] = as_dim(symbol)
        return dim

    def bindings(self, dim: Dim) -> Bindings:
        """The symbols of an expression that stand for computed values, and these."""
        symbols = sorted(free_symbols(dim), key=lambda s: s.uid)
        return tuple((s, self.bound[s]) for s in symbols if s in self.bound)

    def load(self, buffer: Buffer, index: Dim, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        def make() -> Expr:
            return Load(buffer, index, self.bindings(index), mask, other)

        return self._node(("load", buffer, index, id(mask), id(other)), make)

    def update(
        self,
        buffer: Buffer,
        index: Dim,
        combine: Scalar | None,
        value: Expr,
        mask: Expr | None,
        state: Ref | None = None,
    ) -> Update:
        """An update at an index that may mention bound values."""
        return Update(buffer, index, self.bindings(index), combine, value, mask, state)

    def apply(self, fn: Scalar, args: Sequence[Expr], dtype: DType) -> Expr:
        if fn is Scalar.CAST:
            return self.cast(args[0], dtype)
        if fn in (Scalar.SELECT, Scalar.BITCAST) or not any(a.dtype.is_narrow for a in args):
            return self._apply(fn, tuple(args), dtype)
        wide = tuple(self.cast(a, dtypes.float32) for a in args)
        if fn in COMPARISONS or fn is Scalar.IS_FINITE:
            return self._apply(fn, wide, dtype)
        return self.cast(self._apply(fn, wide, dtypes.float32), dtype)

    def both(self, a: Expr, b: Expr) -> Expr:
        """The conjunction of two masks."""
        return a if a is b else self._apply(Scalar.AND, (a, b), dtypes.bool_)

    def cast(self, value: Expr, dtype: DType) -> Expr:
        if value.dtype is dtype:
            return value
        if isinstance(value, Const) and _same_number(value, dtype):
            return self.const(dtype, value.value)
        # A narrow float comes from anything and goes anywhere through float32, which holds it exactly; float64 is
        # rounded to it at once.
        narrow = value.dtype.is_narrow or (dtype.is_narrow and value.dtype is not dtypes.float64)
        if narrow and dtypes.float32 not in (value.dtype, dtype):
            return self.cast(self.cast(value, dtypes.float32), dtype)
        return self._apply(Scalar.CAST, (value,), dtype)

    def _apply(self, fn: Scalar, args: tuple[Expr, ...], dtype: DType) -> Expr:
        return self._node((fn, dtype, *[id(a) for a in args]), lambda: Apply(fn, args, dtype))

    def _node(self, key: tuple[object, ...], make: Callable[[], Expr]) -> Expr:
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = make()
        return found

    # Indices that are computed ------------------------------------------------------------------------------

    def _computed(self, dim: Dim) -> Expr:
        """An index that depends on computed values, such as the row of a gather, as arithmetic in int64.

        Shared parts are computed once, and before what they are part of.
        """
        if not self._is_computed(dim):
            return self.index(dtypes.int64, dim)
        stack = [dim]
        while stack:
            if stack[-1] in self._sums:
                stack.pop()
                continue
            functions = [a for mono, _ in stack[-1].terms for a, _ in mono.factors if isinstance(a, Opaque)]
            args = [arg for function in functions for arg in function.args]
            waiting = [arg for arg in args if self._is_computed(arg) and arg not in self._sums]
            if waiting:
                stack += waiting
                continue
            self._sums[stack[-1]] = self._sum(stack[-1])
            stack.pop()
        return self._sums[dim]

    def _is_computed(self, dim: Dim) -> TypeGuard[SymExpr]:
        return not isinstance(dim, int) and not self.bound.keys().isdisjoint(dim.symbols)

    def _sum(self, dim: SymExpr) -> Expr:
        atom = dim.is_atom
        if isinstance(atom, Symbol):
            return self.bound[atom]
        if atom is not None:
            return self._function(atom.kind, [self._computed(arg) for arg in atom.args])
        total: Expr | None = None
        fixed: list[Dim] = [dim.constant]
        for mono, coefficient in dim.terms:
            own: Dim = coefficient
            part: Expr | None = None
            for factor, power in mono.factors:
                for _ in range(power):
                    if self.bound.keys().isdisjoint(factor.symbols):
                        own = own * atom_dim(factor)
                    else:
                        part = self._join(Scalar.MUL, part, self._computed(atom_dim(factor)))
            if part is None:
                fixed.append(own)
            else:
                part = part if own == 1 else self._join(Scalar.MUL, part, self.index(dtypes.int64, own))
                total = self._join(Scalar.ADD, total, part)
        assert total is not None  # some term mentions a computed value
        plain = dim_sum(fixed)
        return total if plain == 0 else self._join(Scalar.ADD, total, self.index(dtypes.int64, plain))

    def _join(self, fn: Scalar, a: Expr | None, b: Expr) -> Expr:
        return b if a is None else self._apply(fn, (a, b), dtypes.int64)

    def _function(self, kind: OpaqueKind, args: list[Expr]) -> Expr:
        integer, boolean = dtypes.int64, dtypes.bool_
        if kind in (OpaqueKind.MIN, OpaqueKind.MAX):
            fn = Scalar.MIN if kind is OpaqueKind.MIN else Scalar.MAX
            return reduce(lambda a, b: self._apply(fn, (a, b), integer), args)
        if kind is OpaqueKind.BROADCAST:
            one = self.const(integer, 1)
            return reduce(lambda a, b: self._choose(self._apply(Scalar.EQ, (a, one), boolean), b, a), args)
        # Of elements division rounds towards 0, of indices down; and an index divided by 0 is divided by 1.
        a, b = args
        zero = self.const(integer, 0)
        if not isinstance(b, Const):
            b = self._choose(self._apply(Scalar.EQ, (b, zero), boolean), self.const(integer, 1), b)
        quotient, rest = self._apply(Scalar.DIV, (a, b), integer), self._apply(Scalar.REM, (a, b), integer)
        opposite = self._apply(Scalar.LT, (self._apply(Scalar.XOR, (rest, b), integer), zero), boolean)
        down = self.both(self._apply(Scalar.NE, (rest, zero), boolean), opposite)
        if kind is OpaqueKind.MOD:
            return self._choose(down, self._apply(Scalar.ADD, (rest, b), integer), rest)
        return self._choose(down, self._apply(Scalar.SUB, (quotient, self.const(integer, 1)), integer), quotient)

    def _choose(self, predicate: Expr, a: Expr, b: Expr) -> Expr:
        return self._apply(Scalar.SELECT, (predicate, a, b), a.dtype)


def _same_number(const: Const, dtype: DType) -> bool:
    """Whether a conversion of a literal needs no rounding, wrapping or saturation that a kernel would have to do."""
    value = const.value
    if dtype.is_float:
        return not isinstance(value, int) or abs(value) <= 2**8
    if dtype.kind is Kind.BOOL:
        return isinstance(value, bool)
    return isinstance(value, int) and np.iinfo(dtype.np).min <= value <= np.iinfo(dtype.np).max


def stmt_dims(body: tuple[Stmt, ...]) -> list[Dim]:
    """Every index expression of some statements, loop extents left out, in program order."""
    found: list[Dim] = []
    for stmt in walk_stmts(body):
        if isinstance(stmt, Store | Update):
            found.append(stmt.index)
        found.extend(expr_dims(stmt_exprs(stmt)))
    return found


class Rewriter:
    """Applies ``change`` to every index expression and extent, sharing what was shared."""

    def __init__(self, change: Callable[[Dim], Dim]) -> None:
        self._change = change
        self._changed: dict[Dim, Dim] = {}
        self.exprs: dict[int, Expr] = {}
        #: Keeps the keys of ``exprs`` alive, so that an id is never used again.
        self._sources: list[Expr] = []

    def change(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        found = self._changed.get(dim)
        if found is None:
            found = self._changed[dim] = self._change(dim)
        return found

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self.stmt(stmt) for stmt in body)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            return Store(stmt.buffer, self.change(stmt.index), self.expr(stmt.value))
        if isinstance(stmt, Update):
            bound = self.bound(stmt.bound)
            mask = None if stmt.mask is None else self.expr(stmt.mask)
            index, value = self.change(stmt.index), self.expr(stmt.value)
            return Update(stmt.buffer, index, bound, stmt.combine, value, mask, stmt.state)
        if isinstance(stmt, Loop):
            extent = self.change(stmt.extent)
            body = self.block(stmt_body(stmt))
            folds, carries = self.folds(stmt.folds), self.carries(stmt.carries)
            return Loop(
                stmt.role, stmt.var, extent, body, folds, carries, stmt.width, stmt.order, self.bound(stmt.bound),
                self.change(stmt.start), stmt.count, stmt.step,
            )  # fmt: skip
        assert isinstance(stmt, TileContract), "what a contraction becomes is not rewritten"
        rows, cols, red = self.change(stmt.row_extent), self.change(stmt.col_extent), self.change(stmt.red_extent)
        lhs, rhs = self.expr(stmt.lhs), self.expr(stmt.rhs)
        epilogue = self.block(stmt.epilogue)
        digits = tuple(
            Digits(self.change(d.value), tuple((s, self.change(extent)) for s, extent in d.parts)) for d in stmt.digits
        )
        return TileContract(
            stmt.row, stmt.col, stmt.red, rows, cols, red, lhs, rhs, stmt.acc, epilogue, stmt.tile, digits
        )

    def bound(self, bound: Bindings) -> Bindings:
        return tuple((symbol, self.expr(value)) for symbol, value in bound)

    def folds(self, folds: Sequence[Fold]) -> tuple[Fold, ...]:
        return tuple(Fold(f.refs, f.monoid, tuple(map(self.expr, f.values)), f.block) for f in folds)

    def carries(self, carries: Sequence[Carry]) -> tuple[Carry, ...]:
        return tuple(Carry(c.ref, c.state, self.expr(c.init), self.expr(c.value)) for c in carries)

    def expr(self, root: Expr) -> Expr:
        stack = [root]
        while stack:
            expr = stack[-1]
            waiting = [] if id(expr) in self.exprs else [c for c in children(expr) if id(c) not in self.exprs]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if id(expr) not in self.exprs:
                self._sources.append(expr)
                self.exprs[id(expr)] = self.node(expr)
        return self.exprs[id(root)]

    def node(self, expr: Expr) -> Expr:
        new = [self.exprs[id(c)] for c in children(expr)]
        same = all(a is b for a, b in zip(new, children(expr), strict=True))
        if isinstance(expr, Apply):
            return expr if same else Apply(expr.fn, tuple(new), expr.dtype)
        if isinstance(expr, Index):
            changed = self.change(expr.expr)
            if isinstance(changed, int):
                return Const(expr.dtype, changed)
            return expr if changed is expr.expr else Index(expr.dtype, changed)
        if isinstance(expr, Load):
            index = self.change(expr.index)
            if same and index is expr.index:
                return expr
            bound = tuple((s, self.exprs[id(v)]) for s, v in expr.bound)
            mask = None if expr.mask is None else self.exprs[id(expr.mask)]
            other = None if expr.other is None else self.exprs[id(expr.other)]
            return Load(expr.buffer, index, bound, mask, other)
        return expr


class Parameters:
    """Replaces what the host knows by kernel parameters: one for each distinct host expression.

    ``inner`` are the symbols that live in the kernel: loop variables and bound values. In each index the coefficients
    of these become parameters; integers stay, so that code can be specialised to them.
    """

    def __init__(self, inner: frozenset[Symbol]) -> None:
        self.inner = inner
        self.symbols: dict[SymExpr, Symbol] = {}
        self.rewritten: dict[Dim, Dim] = {}

    def parameter(self, host: Dim) -> Dim:
        if isinstance(host, int):
            return host
        symbol = self.symbols.get(host)
        if symbol is None:
            symbol = self.symbols[host] = new_symbol(f"d{len(self.symbols)}", str(host))
        return as_dim(symbol)

    def rewrite(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        stack = [dim]
        while stack:
            if stack[-1] in self.rewritten:
                stack.pop()
                continue
            # What functions are of comes first, so that no depth of them is a depth of calls.
            terms = stack[-1].terms if stack[-1].height else ()
            functions = [a for mono, _ in terms for a, _ in mono.factors if isinstance(a, Opaque)]
            mixed = [a for a in functions if not self.inner.isdisjoint(a.symbols)]
            args = [arg for function in mixed for arg in function.args]
            waiting = [arg for arg in args if isinstance(arg, SymExpr) and arg not in self.rewritten]
            if waiting:
                stack += waiting
                continue
            self.rewritten[stack[-1]] = self._rewrite(stack[-1])
            stack.pop()
        return self.rewritten[dim]

    def _rewrite(self, dim: SymExpr) -> Dim:
        if self.inner.isdisjoint(dim.symbols):
            return self.parameter(dim)
        host: dict[Monomial, int] = {}
        parts: dict[tuple[tuple[object, int], ...], tuple[Dim, Dim]] = {}
        for mono, coefficient in dim.terms:
            if not any(self._is_inner(atom) for atom, _ in mono.factors):
                host[mono] = coefficient
                continue
            factor: Dim = coefficient
            inner: Dim = 1
            key: list[tuple[object, int]] = []
            for atom, power in mono.factors:
                own = atom_dim(atom)
                mixed = self._is_inner(atom)
                for _ in range(power):
                    if mixed:
                        inner = inner * self._atom(own)
                    else:
                        factor = factor * own
                if mixed:
                    key.append((atom, power))
            old = parts.get(tuple(key))
            parts[tuple(key)] = (factor if old is None else old[0] + factor, inner)
        result = self.parameter(polynomial(host, dim.constant))
        for factor, inner in parts.values():
            result = result + self.parameter(factor) * inner
        return result

    def _is_inner(self, atom: Symbol | Opaque) -> bool:
        return atom in self.inner if isinstance(atom, Symbol) else not self.inner.isdisjoint(atom.symbols)

    def _atom(self, own: SymExpr) -> Dim:
        """A loop variable as it is; a function of loop variables with its own arguments rewritten."""

        def replace(atom: Symbol | Opaque) -> Dim | None:
            return rebuild(atom.kind, tuple(self.rewrite(a) for a in atom.args)) if isinstance(atom, Opaque) else None

        return map_atoms(own, replace)
