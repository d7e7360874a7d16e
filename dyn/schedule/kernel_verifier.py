"""Kernel verifier: scopes, roles, dtypes and buffers of one kernel, by the rules of ``dyn.schedule.kernel``."""

from __future__ import annotations

from dyn import dtypes
from dyn.errors import IRError
from dyn.ops.scalar import COMPARISONS, MONOIDS, Scalar
from dyn.schedule.kernel import (
    MOST_UNROLLED,
    Algorithm,
    Apply,
    Buffer,
    Clear,
    Const,
    Digits,
    Expr,
    Fold,
    Index,
    Interval,
    Kernel,
    Let,
    Load,
    Loop,
    Multiply,
    Pack,
    Ref,
    Role,
    Space,
    Spill,
    Stmt,
    Store,
    TileContract,
    Update,
    most_iterations,
)
from dyn.schedule.kernel_walks import staged_packs, stmt_exprs, symbols_of_extent, walk_exprs, walk_stmts
from dyn.shapes import Dim, Symbol, free_symbols


def check(kernel: Kernel) -> None:
    """Raise IRError where a kernel breaks a rule of ``dyn.schedule.kernel``."""
    _Checker(kernel).run()


class _Checker:
    """Scopes, roles, dtypes and buffer use of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loaded: set[int] = set()
        self.stored: set[int] = set()
        #: The staged packs that head a SERIAL loop.
        self.may_be_staged: set[int] = set()
        for stmt in walk_stmts(kernel.body):
            if isinstance(stmt, Loop) and stmt.role is Role.SERIAL:
                heads = zip(stmt.body, staged_packs(stmt), strict=False)
                self.may_be_staged.update([id(pack) for own, pack in heads if own is pack])

    def fail(self, what: str) -> IRError:
        return IRError(f"kernel {self.kernel.name}: {what}")

    def run(self) -> None:
        known = {id(b) for b in (*self.kernel.buffers, *self.kernel.scratch)}
        for buffer in self.kernel.scratch:
            self.scope(buffer.size, frozenset(self.kernel.dims), f"the size of scratch {buffer.name}")
        for buffer in self.kernel.buffers:
            self.scope(buffer.size, frozenset(self.kernel.dims), f"the size of {buffer.name}")
        self.block(self.kernel.body, frozenset(self.kernel.dims), frozenset(), in_lane=False, grid=True)
        count, own = self.kernel.copies, self.kernel.own_buffers
        if [b.dtype for b in self.kernel.buffers] != [b.dtype for b in own] * count:
            raise self.fail(f"its buffers are not {count} sets of the same dtypes")
        if not (self.loaded | self.stored) <= known:
            raise self.fail("a buffer that is used is not declared")
        for buffer in self.kernel.buffers:
            if id(buffer) in self.loaded and id(buffer) in self.stored:
                raise self.fail(f"global buffer {buffer.name} is both loaded and stored")

    def scope(self, dim: Dim, symbols: frozenset[Symbol], what: str) -> None:
        for free in free_symbols(dim) - symbols:
            raise self.fail(f"{what} mentions {free.name}, which is not in scope")

    def block(
        self, body: tuple[Stmt, ...], symbols: frozenset[Symbol], refs: frozenset[int], *, in_lane: bool, grid: bool,
        in_tile: bool = False,
    ) -> frozenset[int]:  # fmt: skip
        for stmt in body:
            if isinstance(stmt, Loop):
                self.extent(stmt, symbols, refs)
                is_grid = stmt.role is Role.GRID
                if is_grid and (not grid or len(body) != 1 or stmt.folds or stmt.carries):
                    raise self.fail(f"grid loop {stmt.var.name} is not part of a perfect outermost nest without folds")
                if is_grid:
                    self.scope(stmt.extent, frozenset(self.kernel.dims), f"the extent of grid loop {stmt.var.name}")
                if stmt.role is Role.LANE and in_lane:
                    raise self.fail(f"lane loop {stmt.var.name} stands inside a lane loop")
                folds = stmt.role in (Role.LANE, Role.SERIAL) and bool(stmt.folds) and not stmt.carries
                if stmt.order is not None and not folds:
                    raise self.fail(f"loop {stmt.var.name} has an order, and folds nothing in lanes or chains")
                if stmt.role is Role.UNROLL:
                    self.unroll(stmt, in_lane=in_lane and not in_tile)
                if stmt.role is Role.TEAM:
                    self.team(stmt, in_lane=in_lane)
                inner = symbols | {stmt.var}
                if stmt.count is not None:
                    inner |= {stmt.count}
                    innermost = is_grid and not any(isinstance(s, Loop) and s.role is Role.GRID for s in stmt.body)
                    if not innermost:
                        raise self.fail(
                            f"loop {stmt.var.name} takes iterations together, and is no innermost grid loop"
                        )
                lane = in_lane or stmt.role is Role.LANE
                inside = refs | self.carried(stmt, symbols, refs)
                inner_refs = self.block(stmt.body, inner, inside, in_lane=lane, grid=is_grid, in_tile=in_tile)
                for fold in stmt.folds:
                    self.fold(fold)
                    self.exprs(fold.values, inner, inner_refs)
                self.exprs(tuple(carry.value for carry in stmt.carries), inner, inner_refs)
                refs |= {id(ref) for fold in stmt.folds for ref in fold.refs} | {id(c.ref) for c in stmt.carries}
            elif isinstance(stmt, Store):
                self.scope(stmt.index, symbols, f"a store to {stmt.buffer.name}")
                if stmt.value.dtype is not stmt.buffer.dtype:
                    raise self.fail(f"a {stmt.value.dtype} is stored to {stmt.buffer.name}, a {stmt.buffer.dtype}")
                self.stored.add(id(stmt.buffer))
                self.exprs((stmt.value,), symbols, refs)
            elif isinstance(stmt, Update):
                self.update(stmt, symbols, refs)
            elif isinstance(stmt, TileContract):
                self.tile(stmt, symbols, refs, in_lane=in_lane)
            elif isinstance(stmt, Let):
                self.scope(stmt.value, symbols, f"the value of {stmt.var.name}")
                symbols |= {stmt.var}
            elif isinstance(stmt, Pack):
                self.pack(stmt, symbols, refs, in_lane=in_lane)
            elif isinstance(stmt, Clear | Spill):
                self.accumulators(stmt, symbols, in_lane=in_lane)
            else:
                self.multiply(stmt, symbols, refs, in_lane=in_lane)
        return refs

    def extent(self, loop: Loop, symbols: frozenset[Symbol], refs: frozenset[int]) -> None:
        """Raise IRError where an extent mentions what is not known in front of the loop."""
        name = f"the extent of {loop.var.name}"
        self.scope(loop.start, symbols, f"the start of {loop.var.name}")
        if loop.start != 0 and loop.role not in (Role.SERIAL, Role.LANE):
            raise self.fail(f"{loop.var.name}, a {loop.role.value} loop, begins at {loop.start}")
        self.scope(loop.extent, symbols | {symbol for symbol, _ in loop.bound}, name)
        if loop.step != 1 and (loop.role is not Role.SERIAL or loop.start != 0 or not staged_packs(loop)):
            raise self.fail(f"loop {loop.var.name} goes by {loop.step}, and stages nothing")
        if loop.bound and loop.role not in (Role.SERIAL, Role.LANE):
            raise self.fail(f"{name}, a {loop.role.value} loop, mentions computed values")
        values = tuple(value for _, value in loop.bound)
        if any(value.dtype is not dtypes.int64 for value in values):
            raise self.fail(f"{name} is not computed in i64")
        scratch = {id(buffer) for buffer in self.kernel.scratch}
        if any(isinstance(e, Load) and id(e.buffer) in scratch for e in walk_exprs(values)):
            raise self.fail(f"{name} is read from scratch")
        self.exprs(values, symbols, refs)

    def fold(self, fold: Fold) -> None:
        """Raise IRError where a fold's state has several types, or its monoid more in it than two states."""
        name, monoid = ", ".join(ref.name for ref in fold.refs), fold.monoid
        lifted = fold.values if fold.block is None else fold.block.lifted
        parts = (fold.refs, monoid.init, monoid.left, monoid.right, monoid.result, lifted)
        types = [tuple([part.dtype for part in state]) for state in parts]
        if not fold.refs or any(own != types[0] for own in types):
            raise self.fail(f"fold {name} is ill-typed")
        if monoid.scalar is not None and monoid.scalar not in MONOIDS:
            raise self.fail(f"fold {name} has {monoid.scalar.text}, which is no monoid")
        if any(dtype.is_narrow for dtype in types[0]):
            raise self.fail(f"fold {name} computes in {', '.join(map(str, types[0]))}")
        for expr in walk_exprs(monoid.result):
            if not isinstance(expr, Const | Apply | Ref):
                raise self.fail(f"fold {name} combines with more than two states")
        self.exprs(monoid.result, frozenset(), frozenset(map(id, (*monoid.left, *monoid.right))))
        if fold.block is not None:
            self.fold(fold.leaf)
            if not all(isinstance(expr, Const | Apply | Ref) for expr in walk_exprs(fold.block.lifted)):
                raise self.fail(f"fold {name} lifts more than a state")
            self.exprs(fold.block.lifted, frozenset(), frozenset(map(id, fold.block.state)))

    def carried(self, loop: Loop, symbols: frozenset[Symbol], refs: frozenset[int]) -> frozenset[int]:
        """The states of a loop, which are known in its body."""
        scratch = {id(buffer) for buffer in self.kernel.scratch}
        for carry in loop.carries:
            name = carry.ref.name
            if loop.role is not Role.SERIAL:
                raise self.fail(f"{loop.role.value} loop {loop.var.name} carries {name}, and has no order")
            if not (carry.ref.dtype is carry.state.dtype is carry.init.dtype is carry.value.dtype):
                raise self.fail(f"what loop {loop.var.name} carries as {name} has several dtypes")
            self.exprs((carry.init,), symbols, refs)
            if any(isinstance(e, Load) and id(e.buffer) in scratch for e in walk_exprs((carry.init,))):
                raise self.fail(f"{name} is carried from what scratch holds before the loop")
        return frozenset(id(carry.state) for carry in loop.carries)

    def unroll(self, loop: Loop, *, in_lane: bool) -> None:
        """Raise IRError where an UNROLL loop breaks its rules. ``in_lane`` says whether it stands in a LANE loop."""
        name, most = loop.var.name, most_iterations(loop.extent)
        if not in_lane:
            raise self.fail(f"unroll loop {name} stands outside of a lane loop")
        if most is None or most > MOST_UNROLLED:
            raise self.fail(f"unroll loop {name} has {loop.extent} iterations, not {MOST_UNROLLED} at most by its form")
        if loop.carries or not all(isinstance(stmt, Store) for stmt in loop.body):
            raise self.fail(f"unroll loop {name} has more in it than stores and folds")

    def team(self, loop: Loop, *, in_lane: bool) -> None:
        """Raise IRError where a TEAM loop breaks its rules. ``in_lane`` says whether it stands in a LANE loop."""
        name, width = loop.var.name, loop.width
        if in_lane or any(isinstance(s, Loop) and s.role is Role.TEAM for s in walk_stmts(loop.body)):
            raise self.fail(f"team loop {name} stands inside a lane loop, or around another team loop")
        if loop.folds or loop.carries:
            raise self.fail(f"team loop {name} folds or carries something")
        if width < 1 or width & (width - 1):
            raise self.fail(f"team loop {name} has teams of {width} lanes, which is no power of two")
        for stmt in walk_stmts(loop.body):
            if (
                not isinstance(stmt, Loop)
                or stmt.role is Role.LANE
                or loop.var not in symbols_of_extent(stmt.extent, stmt.bound)
            ):
                continue
            if any(isinstance(s, Loop) and s.role is Role.LANE for s in walk_stmts(stmt.body)):
                which = f"loop {stmt.var.name}, which is longer in some teams than in others"
                raise self.fail(f"lanes of team loop {name} stand in {which}")

    def update(self, stmt: Update, symbols: frozenset[Symbol], refs: frozenset[int]) -> None:
        name, dtype = stmt.buffer.name, stmt.buffer.dtype
        self.scope(stmt.index, symbols | {s for s, _ in stmt.bound}, f"an update of {name}")
        filled = self.kernel.in_place or id(stmt.buffer) in self.stored
        if stmt.buffer.space is not Space.GLOBAL or not filled:
            raise self.fail(f"{name} is updated, and is no global buffer that was stored before")
        self.stored.add(id(stmt.buffer))
        if stmt.value.dtype is not dtype:
            raise self.fail(f"a {stmt.value.dtype} updates {name}, a {dtype}")
        if stmt.state is not None and (stmt.combine is not None or stmt.state.dtype is not dtype):
            raise self.fail(f"{name} is updated with {stmt.state.name}, which is no element of it, or with more")
        if stmt.combine is not None and stmt.combine not in MONOIDS:
            raise self.fail(f"{name} is updated with {stmt.combine.text}, which is no monoid")
        if any(value.dtype is not dtypes.int64 for _, value in stmt.bound):
            raise self.fail(f"an update of {name} has an index that is not computed in i64")
        if stmt.mask is not None and stmt.mask.dtype is not dtypes.bool_:
            raise self.fail(f"an update of {name} has a mask of {stmt.mask.dtype}")
        own = refs if stmt.state is None else refs | {id(stmt.state)}
        self.exprs((stmt.value,), symbols, own)
        self.exprs(stmt_exprs(stmt)[1:], symbols, refs)

    def tile(self, tile: TileContract, symbols: frozenset[Symbol], refs: frozenset[int], *, in_lane: bool) -> None:
        if in_lane:
            raise self.fail("a contraction stands inside a lane loop")
        for extent in (tile.row_extent, tile.col_extent, tile.red_extent):
            self.scope(extent, symbols, "an extent of a contraction")
        for operand in (tile.lhs, tile.rhs):
            if not tile.acc.dtype.holds(operand.dtype):
                raise self.fail(f"a contraction multiplies {operand.dtype} in {tile.acc.dtype}, which rounds it")
        parts = self.digits(tile.digits, (tile.row, tile.red, tile.col), symbols)
        rows, columns, reds = (parts[s] for s in (tile.row, tile.col, tile.red))
        self.exprs((tile.lhs,), symbols | rows | reds, refs)
        self.exprs((tile.rhs,), symbols | reds | columns, refs)
        inside = refs | {id(tile.acc)}
        self.block(tile.epilogue, symbols | {tile.row, tile.col}, inside, in_lane=True, grid=False, in_tile=True)

    def digits(
        self, several: tuple[Digits, ...], variables: tuple[Symbol, ...], symbols: frozenset[Symbol]
    ) -> dict[Symbol, frozenset[Symbol]]:
        """The variables of a contraction, each with the parts that it has as digits."""
        parts = {variable: {variable} for variable in variables}
        for digits in several:
            own = free_symbols(digits.value) & parts.keys()
            if len(own) != 1:
                raise self.fail(f"the digits of {digits.value} are not those of one variable of a contraction")
            self.scope(digits.value, symbols | own, "the value of digits")
            for symbol, extent in digits.parts:
                self.scope(extent, symbols, f"the extent of {symbol.name}")
                parts[next(iter(own))].add(symbol)
        return {variable: frozenset(own) for variable, own in parts.items()}

    def leaf(self, what: str, intervals: tuple[Interval, ...], symbols: frozenset[Symbol], *, in_lane: bool) -> None:
        """Raise IRError where a leaf of a contraction stands in lanes, or goes over what is not known."""
        if in_lane:
            raise self.fail(f"{what} stands inside a lane loop")
        for interval in intervals:
            self.scope(interval.start, symbols, f"the start of {interval.var.name}")
            self.scope(interval.extent, symbols, f"the extent of {interval.var.name}")

    def accumulators(self, stmt: Clear | Spill, symbols: frozenset[Symbol], *, in_lane: bool) -> None:
        self.leaf(f"what is done with {stmt.acc.name}", (), symbols, in_lane=in_lane)
        if stmt.acc.space is not Space.REGISTERS:
            raise self.fail(f"{stmt.acc.name} is cleared or spilled, and lies in no registers")
        self.stored.add(id(stmt.acc))
        if isinstance(stmt, Clear):
            return
        self.scratch(stmt.buffer, stmt.place, symbols)
        self.scope(stmt.start, symbols, "the first row of a spill")
        if stmt.buffer.dtype is not stmt.acc.dtype:
            raise self.fail(f"{stmt.acc.name}, of {stmt.acc.dtype}, is spilled to {stmt.buffer.dtype}")

    def scratch(self, buffer: Buffer, place: Dim, symbols: frozenset[Symbol]) -> None:
        """Raise IRError where a leaf of a contraction stores to something else than scratch."""
        if buffer.space is not Space.SCRATCH:
            raise self.fail(f"{buffer.name}, which a contraction stores to, is no scratch")
        self.scope(place, symbols, f"a place in {buffer.name}")
        self.stored.add(id(buffer))

    def pack(self, stmt: Pack, symbols: frozenset[Symbol], refs: frozenset[int], *, in_lane: bool) -> None:
        self.leaf("a pack", (stmt.outer, stmt.inner), symbols, in_lane=in_lane)
        self.scratch(stmt.buffer, stmt.place, symbols)
        if stmt.staged is not None and id(stmt) not in self.may_be_staged:
            raise self.fail(f"a pack to {stmt.buffer.name} is staged, and heads no serial loop")
        if stmt.value.dtype is not stmt.buffer.dtype:
            raise self.fail(f"a {stmt.value.dtype} is packed to {stmt.buffer.name}, a {stmt.buffer.dtype}")
        variables = (stmt.outer.var, stmt.inner.var)
        inside = symbols.union(*self.digits(stmt.digits, variables, symbols | set(variables)).values())
        self.exprs((stmt.value,), inside, refs)
        if stmt.words is not None:
            if stmt.buffer.dtype.bits != 32 or stmt.words.red not in variables:
                raise self.fail(f"{stmt.buffer.name} does not hold words along {stmt.words.red.name}")
            self.scope(stmt.words.extent, symbols, "the number of elements in words")
            self.exprs((stmt.words.elements,), inside, refs)

    def multiply(self, stmt: Multiply, symbols: frozenset[Symbol], refs: frozenset[int], *, in_lane: bool) -> None:
        self.leaf("a multiplication", stmt.intervals, symbols, in_lane=in_lane)
        if (stmt.acc.space is Space.REGISTERS) is not (stmt.algorithm is Algorithm.CORES):
            raise self.fail(f"{stmt.acc.name} lies in {stmt.acc.space.value}, where {stmt.algorithm.value} has no sums")
        if stmt.algorithm is Algorithm.CORES:
            self.stored.add(id(stmt.acc))
        else:
            self.scratch(stmt.acc, stmt.place, symbols)
        self.scope(stmt.first, symbols, "whether sums begin")
        self.scope(stmt.stride, symbols, "the stride of sums")
        if stmt.algorithm is Algorithm.DOTS and stmt.first != 1:
            raise self.fail(f"{stmt.acc.name} are dot products, which are not added to others")
        row, col, red = [interval.var for interval in stmt.intervals]
        self.exprs((stmt.lhs,), symbols | {row, red}, refs)
        self.exprs((stmt.rhs,), symbols | {red, col}, refs)
        if not isinstance(stmt.lhs, Load) or not (isinstance(stmt.rhs, Load) or stmt.algorithm is Algorithm.COMPUTED):
            raise self.fail(f"{stmt.acc.name} are sums of products of what does not lie in memory")
        words = stmt.unit is not None
        for operand in (stmt.lhs, stmt.rhs):
            if not words and not stmt.acc.dtype.holds(operand.dtype):
                raise self.fail(f"a contraction multiplies {operand.dtype} in {stmt.acc.dtype}, which rounds it")
        if stmt.packed is not None:
            self.scratch(stmt.packed.buffer, stmt.packed.place, symbols)
        if stmt.column_sums is not None:
            self.scratch(stmt.column_sums.buffer, stmt.column_sums.place, symbols)
            if stmt.unit is None or not stmt.unit.signs_left:
                raise self.fail(f"{stmt.acc.name} have column sums, and no unit that needs them")

    def exprs(self, roots: tuple[Expr, ...], symbols: frozenset[Symbol], refs: frozenset[int]) -> None:
        for expr in walk_exprs(roots):
            if isinstance(expr, Ref) and id(expr) not in refs:
                raise self.fail(f"{expr.name} is used before it is computed")
            if isinstance(expr, Index):
                self.scope(expr.expr, symbols, "an index value")
            if isinstance(expr, Load):
                self.scope(expr.index, symbols | {s for s, _ in expr.bound}, f"a load of {expr.buffer.name}")
                self.loaded.add(id(expr.buffer))
                if expr.buffer.space is Space.REGISTERS:
                    raise self.fail(f"{expr.buffer.name} is read, and lies in registers")
            if isinstance(expr, Apply):
                self.apply(expr)

    def apply(self, expr: Apply) -> None:
        args = expr.args
        if len(args) != expr.fn.arity:
            raise self.fail(f"{expr.fn.text} takes {expr.fn.arity} arguments, not {len(args)}")
        if expr.fn is Scalar.CAST:
            return
        if expr.fn is Scalar.BITCAST:
            if args[0].dtype.bits != expr.dtype.bits or dtypes.bool_ in (args[0].dtype, expr.dtype):
                raise self.fail(f"{args[0].dtype} and {expr.dtype} are not numbers of one width")
            return
        values = args[1:] if expr.fn is Scalar.SELECT else args
        if any(v.dtype is not values[0].dtype for v in values):
            raise self.fail(f"{expr.fn.text} has arguments of several dtypes")
        is_bool = expr.fn in COMPARISONS or expr.fn is Scalar.IS_FINITE
        if expr.dtype is not (dtypes.bool_ if is_bool else values[0].dtype):
            raise self.fail(f"{expr.fn.text} of {values[0].dtype} is not {expr.dtype}")
        if values[0].dtype.is_narrow and expr.fn is not Scalar.SELECT:
            raise self.fail(f"{expr.fn.text} computes in {values[0].dtype}")
