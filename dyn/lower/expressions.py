"""Building kernel expressions from ops' element rules, and rewriting the indices in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import NotYetError
from dyn.lower.kernel import (
    Apply,
    Buffer,
    Const,
    Expr,
    Fold,
    Index,
    Load,
    Loop,
    Stmt,
    Store,
    TileContract,
    children,
    stmt_body,
    stmt_exprs,
    walk_exprs,
    walk_stmts,
)
from dyn.ops.scalar import COMPARISONS, Scalar
from dyn.shapes import Dim, Opaque, Symbol, SymExpr, as_dim, free_symbols
from dyn.shapes import symbol as new_symbol
from dyn.shapes.expr import atom_dim
from dyn.shapes.walk import map_atoms, rebuild

_HALVES = (dtypes.float16, dtypes.bfloat16)


class ExprBuilder:
    """The :class:`~dyn.ir.opdef.ScalarBuilder` that makes kernel expressions.

    16-bit floats are computed with in float32 and rounded after each function, so that fusing changes no result.
    """

    def __init__(self) -> None:
        self.bound: dict[Symbol, Expr] = {}
        self._consts: dict[tuple[DType, str], Const] = {}

    def const(self, dtype: DType, value: bool | int | float) -> Const:
        if isinstance(value, complex) or dtype.kind is Kind.COMPLEX:
            raise NotYetError(f"kernels do not compute with {dtype.name} yet.")
        key = (dtype, repr(value))
        found = self._consts.get(key)
        if found is None:
            if dtype.is_float:
                value = float(value)
            elif dtype.is_integer:
                value = int(value)
            else:
                value = bool(value)
            found = self._consts[key] = Const(dtype, value)
        return found

    def index(self, dtype: DType, expr: Dim) -> Expr:
        return self.const(dtype, expr) if isinstance(expr, int) else Index(dtype, expr)

    def bind(self, value: Expr) -> Dim:
        if isinstance(value, Const):
            return int(value.value)
        if isinstance(value, Index):
            return value.expr
        symbol = new_symbol("v", "a computed index")
        self.bound[symbol] = value
        return as_dim(symbol)

    def load(self, buffer: Buffer, index: Dim, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        symbols = sorted(free_symbols(index), key=lambda s: s.uid)
        bound = tuple((s, self.bound[s]) for s in symbols if s in self.bound)
        return Load(buffer, index, bound, mask, other)

    def apply(self, fn: Scalar, args: Sequence[Expr], dtype: DType) -> Expr:
        if fn is Scalar.CAST:
            return self.cast(args[0], dtype)
        if fn is Scalar.SELECT or not any(a.dtype in _HALVES for a in args):
            return Apply(fn, tuple(args), dtype)
        wide = tuple(self.cast(a, dtypes.float32) for a in args)
        if fn in COMPARISONS or fn is Scalar.IS_FINITE:
            return Apply(fn, wide, dtype)
        return self.cast(Apply(fn, wide, dtypes.float32), dtype)

    def both(self, a: Expr, b: Expr) -> Expr:
        """The conjunction of two masks."""
        return Apply(Scalar.AND, (a, b), dtypes.bool_)

    def cast(self, value: Expr, dtype: DType) -> Expr:
        if value.dtype is dtype:
            return value
        if isinstance(value, Const):
            return self.const(dtype, value.value)
        # A 16-bit float goes anywhere else through float32, which holds it exactly.
        if value.dtype in _HALVES and dtype is not dtypes.float32:
            return self.cast(self.cast(value, dtypes.float32), dtype)
        if dtype in _HALVES and value.dtype is not dtypes.float32:
            return self.cast(self.cast(value, dtypes.float32), dtype)
        return Apply(Scalar.CAST, (value,), dtype)


def stmt_dims(body: tuple[Stmt, ...]) -> list[Dim]:
    """Every index expression of some statements, loop extents left out, in program order."""
    found: list[Dim] = []
    for stmt in walk_stmts(body):
        if isinstance(stmt, Store):
            found.append(stmt.index)
        found.extend(expr_dims(stmt_exprs(stmt)))
    return found


def expr_dims(roots: tuple[Expr, ...]) -> list[Dim]:
    """The index expressions in some values."""
    return [
        expr.index if isinstance(expr, Load) else expr.expr
        for expr in walk_exprs(roots)
        if isinstance(expr, Load | Index)
    ]


class Rewriter:
    """Applies ``change`` to every index expression and extent, sharing what was shared."""

    def __init__(self, change: Callable[[Dim], Dim]) -> None:
        self.change = change
        self.exprs: dict[int, Expr] = {}
        #: Keeps the keys of ``exprs`` alive, so that an id is never used again.
        self._sources: list[Expr] = []

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self.stmt(stmt) for stmt in body)

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            return Store(stmt.buffer, self.change(stmt.index), self.expr(stmt.value))
        if isinstance(stmt, Loop):
            extent = self.change(stmt.extent)
            body = self.block(stmt_body(stmt))
            folds = tuple(Fold(f.ref, f.combine, f.init, self.expr(f.value)) for f in stmt.folds)
            return Loop(stmt.role, stmt.var, extent, body, folds)
        extents = [self.change(e) for e in (stmt.row_extent, stmt.col_extent, stmt.red_extent)]
        lhs, rhs = self.expr(stmt.lhs), self.expr(stmt.rhs)
        epilogue = self.block(stmt.epilogue)
        return TileContract(stmt.row, stmt.col, stmt.red, *extents, lhs, rhs, stmt.acc, epilogue, stmt.schedule)

    def expr(self, root: Expr) -> Expr:
        for expr in walk_exprs((root,)):
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
        found = self.rewritten.get(dim)
        if found is None:
            found = self.rewritten[dim] = self._rewrite(dim)
        return found

    def _rewrite(self, dim: SymExpr) -> Dim:
        if not free_symbols(dim) & self.inner:
            return self.parameter(dim)
        host: Dim = dim.constant
        parts: dict[tuple[tuple[object, int], ...], tuple[Dim, Dim]] = {}
        for mono, coefficient in dim.terms:
            factor: Dim = coefficient
            inner: Dim = 1
            key: list[tuple[object, int]] = []
            for atom, power in mono.factors:
                own = atom_dim(atom)
                mixed = bool(free_symbols(own) & self.inner)
                for _ in range(power):
                    if mixed:
                        inner = inner * self._atom(own)
                    else:
                        factor = factor * own
                if mixed:
                    key.append((atom, power))
            if key:
                old = parts.get(tuple(key))
                parts[tuple(key)] = (factor if old is None else old[0] + factor, inner)
            else:
                host = host + factor
        result = self.parameter(host)
        for factor, inner in parts.values():
            result = result + self.parameter(factor) * inner
        return result

    def _atom(self, own: SymExpr) -> Dim:
        """A loop variable as it is; a function of loop variables with its own arguments rewritten."""

        def replace(atom: Symbol | Opaque) -> Dim | None:
            return rebuild(atom.kind, tuple(self.rewrite(a) for a in atom.args)) if isinstance(atom, Opaque) else None

        return map_atoms(own, replace)
