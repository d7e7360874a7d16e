"""Index expressions: symbolic dimensions as i64 values, vectors of them, and addresses.

A dimension is a sum of monomials. Each sum is split by the depth at which its terms are known, the outermost first, so
that ``row*n + j*m + i`` costs one addition in the innermost loop and the rest where ``row`` and ``j`` change.
"""

from __future__ import annotations

from collections.abc import Iterable

from dyn.lower.x86.llvm_text import FunctionText, iota, vtype
from dyn.lower.x86.scopes import Lanes, LaneValue, Scopes
from dyn.shapes import Atom, Dim, Monomial, Opaque, OpaqueKind, Symbol, SymExpr
from dyn.shapes.expr import atom_dim, polynomial
from dyn.shapes.walk import opaques_below

I64 = vtype("i64")
PTR = vtype("ptr")
Terms = tuple[tuple[Monomial, int], ...]


class Indices:
    """Emits index expressions into the scopes of one function."""

    def __init__(self, fn: FunctionText, scopes: Scopes) -> None:
        self.fn, self.scopes = fn, scopes
        #: Symbols that stand for computed vectors (the rows of a gather) while a load is emitted.
        self.vectors: dict[Symbol, LaneValue] = {}
        #: Symbols that are bound for one load, and what is remembered of values that mention them: until it is over.
        self._fleeting: set[Symbol] = set()
        self._passing: list[object] = []

    def bind(self, symbol: Symbol, value: LaneValue) -> None:
        """Let a symbol stand for a computed value while a load is emitted."""
        self._fleeting.add(symbol)
        if value.varying:
            self.vectors[symbol] = value
            self.scopes.symbols[symbol] = (value.depth, "poison")
        else:
            self.scopes.symbols[symbol] = (value.depth, value.parts[0])

    def unbind(self, symbols: Iterable[Symbol]) -> None:
        """Forget symbols, and what was computed with them."""
        for symbol in symbols:
            self._fleeting.discard(symbol)
            self.vectors.pop(symbol, None)
            self.scopes.symbols.pop(symbol, None)
        for key in self._passing:
            self.scopes.forget(key)
        self._passing.clear()

    # --- what an expression depends on -------------------------------------------------------------------------

    def varies(self, dim: Dim) -> bool:
        """Whether an expression differs between the lanes."""
        if isinstance(dim, int):
            return False
        lanes = self.scopes.top.lanes
        return (lanes is not None and lanes.symbol in dim.symbols) or not self.vectors.keys().isdisjoint(dim.symbols)

    def atom_depth(self, atom: Atom) -> int:
        if isinstance(atom, Symbol):
            return self.scopes.symbols[atom][0]
        found = self.scopes.find(atom)  # it is kept where it is known
        if found is not None:
            return found.depth
        return max([self.scopes.symbols[symbol][0] for symbol in atom.symbols], default=0)

    def by_depth(self, terms: Terms) -> list[tuple[int, Terms]]:
        """Terms grouped by the depth they are known at, outermost first."""
        groups: dict[int, list[tuple[Monomial, int]]] = {}
        for term in terms:
            depth = max([self.atom_depth(atom) for atom, _ in term[0].factors])
            groups.setdefault(depth, []).append(term)
        return [(depth, tuple(groups[depth])) for depth in sorted(groups)]

    def _keep(self, key: object, value: LaneValue, what: SymExpr | Opaque) -> LaneValue:
        """Remember the value of an expression, as long as it has one."""
        if not self._fleeting.isdisjoint(what.symbols):
            self._passing.append(key)
        return self.scopes.keep(key, value)

    # --- uniform values ----------------------------------------------------------------------------------------

    def uniform(self, dim: Dim) -> LaneValue:
        """The value as an i64. A lane symbol counts as its value in the first lane."""
        if isinstance(dim, int):
            return LaneValue(I64, (str(int(dim)),), 0)
        found = self.scopes.find(dim)
        if found is not None:
            return found
        # What functions are of comes first, so that no depth of them is a depth of calls.
        for atom in opaques_below(dim, lambda atom: self.scopes.find(atom) is not None):
            self.atom(atom)
        return self._uniform(dim)

    def _uniform(self, dim: SymExpr) -> LaneValue:
        symbol = dim.is_symbol
        if symbol is not None:
            depth, name = self.scopes.symbols[symbol]
            return LaneValue(I64, (name,), depth)
        total, depth, prefix = "", 0, ()
        for depth, terms in self.by_depth(dim.terms):
            prefix += terms
            key = ("sum", prefix, dim.constant)
            known = self.scopes.find(key)
            if known is not None:
                total = known.parts[0]
                continue
            part = self.sum(depth, terms, total if total else str(dim.constant))
            total = part
            self._keep(key, LaneValue(I64, (total,), depth), dim)
        return self._keep(dim, LaneValue(I64, (total,), depth), dim)

    def sum(self, depth: int, terms: Terms, start: str) -> str:
        """``start`` plus terms that are all known at ``depth``, written there. ``start`` may be ``"0"``."""
        parts = [self.term(depth, mono, coefficient) for mono, coefficient in terms]
        fn = self.fn
        saved, fn.here = fn.here, self.scopes.chunk(depth)
        total = start if start != "0" else ""
        for part in parts:
            total = fn.op("add nsw", I64, total, part) if total else part
        fn.here = saved
        return total

    def term(self, depth: int, mono: Monomial, coefficient: int) -> str:
        """``coefficient`` times the atoms of a monomial, the outermost first."""
        factors: list[tuple[int, str]] = []
        for atom, power in mono.factors:
            value = self.atom(atom)
            factors += [(value.depth, value.parts[0])] * power
        factors.sort(key=lambda factor: factor[0])
        fn = self.fn
        product, at = (str(coefficient), 0) if coefficient != 1 else ("", 0)
        for factor_depth, name in factors:
            at = max(at, factor_depth)
            if not product:
                product = name
                continue
            key = ("product", product, name)
            known = self.scopes.find(key)
            if known is not None:
                product = known.parts[0]
                continue
            saved, fn.here = fn.here, self.scopes.chunk(at)
            product = fn.op("mul nsw", I64, name, product)
            fn.here = saved
            self.scopes.keep(key, LaneValue(I64, (product,), at))
        return product

    def atom(self, atom: Atom) -> LaneValue:
        if isinstance(atom, Symbol):
            depth, name = self.scopes.symbols[atom]
            return LaneValue(I64, (name,), depth)
        found = self.scopes.find(atom)
        if found is not None:
            return found
        args = [self.uniform(arg) for arg in atom.args]
        depth = max([arg.depth for arg in args])
        fn = self.fn
        saved, fn.here = fn.here, self.scopes.chunk(depth)
        name = self.opaque(atom, [arg.parts[0] for arg in args])
        fn.here = saved
        return self._keep(atom, LaneValue(I64, (name,), depth), atom)

    def opaque(self, atom: Opaque, args: list[str]) -> str:
        fn = self.fn
        match atom.kind:
            case OpaqueKind.MIN | OpaqueKind.MAX:
                name = "smin" if atom.kind is OpaqueKind.MIN else "smax"
                result = args[0]
                for arg in args[1:]:
                    result = fn.intrinsic(name, I64, result, arg)
                return result
            case OpaqueKind.BROADCAST:
                result = args[0]
                for arg in args[1:]:
                    result = fn.select(fn.op("icmp eq", I64, result, "1"), I64, arg, result)
                return result
            case OpaqueKind.FLOORDIV | OpaqueKind.MOD:
                return self.divide(atom, args[0], args[1])

    def divide(self, atom: Opaque, a: str, b: str) -> str:
        """Floor division as ``dyn.integers.INDICES`` has it, without a trap.

        A divisor of 0 or -1 divides by 1 instead: of both the rest is 0, and of -1 the quotient is put right.
        """
        fn, given = self.fn, b
        known = isinstance(atom.args[1], int)
        if not known:
            b = fn.select(fn.op("icmp ult", I64, fn.op("add", I64, b, "1"), "2"), I64, "1", b)
        remainder = fn.op("srem", I64, a, b)
        wrong = fn.op("icmp slt", I64, fn.op("xor", I64, remainder, b), "0")
        wrong = fn.op("and", vtype("i1"), wrong, fn.op("icmp ne", I64, remainder, "0"))
        if atom.kind is OpaqueKind.MOD:
            return fn.op("add", I64, remainder, fn.select(wrong, I64, b, "0"))
        quotient = fn.op("sub", I64, fn.op("sdiv", I64, a, b), fn.cast("zext", vtype("i1"), wrong, I64))
        if known:
            return quotient
        return fn.select(fn.op("icmp eq", I64, given, "-1"), I64, fn.op("sub", I64, "0", a), quotient)

    # --- addresses ---------------------------------------------------------------------------------------------

    def address(self, pointer: str, elem: str, dim: Dim) -> LaneValue:
        """``pointer + dim`` elements of type ``elem``; a lane symbol counts as its value in the first lane."""
        if isinstance(dim, int):
            if dim == 0:
                return LaneValue(PTR, (pointer,), 0)
            terms, constant = (), dim
        else:
            terms, constant = dim.terms, dim.constant
        fn, scopes = self.fn, self.scopes
        groups = self.by_depth(terms) if terms else [(0, ())]
        current, prefix, depth, start = pointer, (), 0, str(constant)
        for depth, group in groups:
            prefix += group
            key = ("address", pointer, prefix, constant)
            known = scopes.find(key)
            if known is not None:
                current, start = known.parts[0], "0"
                continue
            offset = self.sum(depth, group, start) if group else start
            start = "0"
            saved, fn.here = fn.here, scopes.chunk(depth)
            current = fn.gep(elem, current, offset)
            fn.here = saved
            value = LaneValue(PTR, (current,), depth)
            scopes.keep(key, value) if isinstance(dim, int) else self._keep(key, value, dim)
        return LaneValue(PTR, (current,), depth)

    # --- vectors -----------------------------------------------------------------------------------------------

    def split(self, dim: Dim) -> tuple[Dim, Dim]:
        """``(uniform, varying)`` with ``dim == uniform + varying``, the first as large as possible."""
        if isinstance(dim, int):
            return dim, 0
        varying: Dim = 0
        for mono, coefficient in dim.terms:
            part = polynomial({mono: coefficient}, 0)
            if self.varies(part):
                varying = varying + part
        return dim - varying, varying

    def vector(self, dim: Dim) -> LaneValue:
        """The value in each lane, as ``unroll`` vectors of i64."""
        lanes = self.scopes.top.lanes
        assert lanes is not None
        if not self.varies(dim):
            return self.splat(self.uniform(dim), lanes)
        assert isinstance(dim, SymExpr)
        found = self.scopes.find(("vector", dim))
        if found is not None:
            return found
        for atom in opaques_below(dim, self._is_known):
            if self.varies(atom_dim(atom)):
                self.vector_atom(atom, lanes)
        uniform, varying = self.split(dim)
        assert isinstance(varying, SymExpr)
        total: LaneValue | None = self.splat(self.uniform(uniform), lanes) if uniform != 0 else None
        for mono, coefficient in varying.terms:
            product: LaneValue | None = None
            outside: Dim = coefficient
            for atom, power in mono.factors:
                for _ in range(power):
                    single = atom_dim(atom)
                    if self.varies(single):
                        value = self.vector_atom(atom, lanes)
                        product = value if product is None else self.combine("mul", product, value)
                    else:
                        outside = outside * single
            assert product is not None
            if outside != 1:
                product = self.combine("mul", product, self.splat(self.uniform(outside), lanes))
            total = product if total is None else self.combine("add", total, product)
        assert total is not None
        return self._keep(("vector", dim), total, dim)

    def _is_known(self, atom: Opaque) -> bool:
        """Whether there is a vector for a function, if it needs one."""
        return self.scopes.find(("vector", atom)) is not None or not self.varies(atom_dim(atom))

    def splat(self, value: LaneValue, lanes: Lanes) -> LaneValue:
        ty = vtype(value.ty.elem, lanes.width)
        name = value.parts[0]
        if not name.startswith("%"):
            return LaneValue(ty, (self.fn.splat(ty, name),) * lanes.unroll, 0, True)
        key = ("splat", name, lanes.width)
        found = self.scopes.find(key)
        if found is None:
            # Not further out than the loop over the lanes: a vector register is dearer than a scalar one.
            depth = max(value.depth, self.scopes.top.lanes_depth - 1)
            saved, self.fn.here = self.fn.here, self.scopes.chunk(depth)
            vector = self.fn.splat(ty, name)
            self.fn.here = saved
            found = self.scopes.keep(key, LaneValue(ty, (vector,), depth, True, value.volatile))
        return LaneValue(ty, found.parts[:1] * lanes.unroll, found.depth, True, value.volatile)

    def combine(self, opcode: str, a: LaneValue, b: LaneValue) -> LaneValue:
        depth = max(a.depth, b.depth)
        saved, self.fn.here = self.fn.here, self.scopes.chunk(depth)
        parts = tuple([self.fn.op(opcode, a.ty, x, y) for x, y in zip(a.parts, b.parts, strict=True)])
        self.fn.here = saved
        return LaneValue(a.ty, parts, depth, True, a.volatile or b.volatile)

    def vector_atom(self, atom: Atom, lanes: Lanes) -> LaneValue:
        if isinstance(atom, Symbol):
            bound = self.vectors.get(atom)
            return bound if bound is not None else self.lane_numbers(lanes)
        found = self.scopes.find(("vector", atom))
        if found is not None:
            return found
        args = [self.vector(arg) for arg in atom.args]
        depth = max([self.scopes.top.lanes_depth, *[arg.depth for arg in args]])
        saved, self.fn.here = self.fn.here, self.scopes.chunk(depth)
        ty = args[0].ty
        parts = [self.vector_opaque(atom, [arg.parts[u] for arg in args]) for u in range(lanes.unroll)]
        self.fn.here = saved
        value = LaneValue(ty, tuple(parts), depth, True, any(arg.volatile for arg in args))
        return self._keep(("vector", atom), value, atom)

    def lane_numbers(self, lanes: Lanes) -> LaneValue:
        """The lane symbol itself."""
        found = self.scopes.find(("lanes", lanes))
        if found is not None:
            return found
        depth = self.scopes.top.lanes_depth
        ty = vtype("i64", lanes.width)
        saved, self.fn.here = self.fn.here, self.scopes.chunk(depth)
        base = self.fn.splat(ty, lanes.base)
        parts = [self.fn.op("add", ty, base, iota("i64", lanes.width, u * lanes.width)) for u in range(lanes.unroll)]
        self.fn.here = saved
        return self.scopes.keep(("lanes", lanes), LaneValue(ty, tuple(parts), depth, True))

    def vector_opaque(self, atom: Opaque, args: list[str]) -> str:
        """MIN, MAX, BROADCAST as for scalars; division through float64, exact for indices, which are below 2**52."""
        fn = self.fn
        vty = vtype("i64", self._width())
        match atom.kind:
            case OpaqueKind.MIN | OpaqueKind.MAX:
                name = "smin" if atom.kind is OpaqueKind.MIN else "smax"
                result = args[0]
                for arg in args[1:]:
                    result = fn.intrinsic(name, vty, result, arg)
                return result
            case OpaqueKind.BROADCAST:
                result = args[0]
                for arg in args[1:]:
                    is_one = fn.op("icmp eq", vty, result, fn.splat(vty, "1"))
                    result = fn.select(is_one, vty, arg, result)
                return result
            case OpaqueKind.FLOORDIV | OpaqueKind.MOD:
                a, b = args
                if not isinstance(atom.args[1], int):
                    one = fn.splat(vty, "1")
                    b = fn.select(fn.op("icmp eq", vty, b, fn.splat(vty, "0")), vty, one, b)
                wide = vty.of("double")
                quotient = fn.op("fdiv", wide, fn.cast("sitofp", vty, a, wide), fn.cast("sitofp", vty, b, wide))
                floor = fn.cast("fptosi", wide, fn.intrinsic("floor", wide, quotient), vty)
                if atom.kind is OpaqueKind.FLOORDIV:
                    return floor
                return fn.op("sub", vty, a, fn.op("mul", vty, floor, b))

    def _width(self) -> int:
        lanes = self.scopes.top.lanes
        assert lanes is not None
        return lanes.width
