"""The kernel IR: what one kernel computes, on ISPC's model.

::

    Kernel  = (buffers, dims, scratch, body)
    stmt    = Loop(role, var, extent, body, folds, carries, order) | Store(buffer, index, value)
            | Update(buffer, index, …) | TileContract(...)
    fold    = (refs, monoid, values)              # refs are monoid over the loop's iterations of values
    monoid  = (init, left, right, result)         # a state of several values, and how two are combined
    carry   = (ref, state, init, value)           # state is init, then the value of the iteration before
    expr    = Const | Index | Load | Apply | Ref  # a DAG; nodes are compared by identity
    role    = GRID | TEAM | LANE | SERIAL | UNROLL

Loop variables and the kernel's size parameters are :class:`dyn.shapes.Symbol`; every index is an ordinary symbolic
expression over them, counted in elements. A value that depends on the variable of an enclosing LANE loop is *varying*;
all others are *uniform*. What a role becomes is the business of a target family:

=========  =======================================  ================================================
role       x86                                      CUDA, HIP
=========  =======================================  ================================================
GRID       a range of one linear space, split       ``blockIdx.x`` over the same linear space
           among threads
TEAM       a loop                                   the teams of a block, strided: a team is some lanes
                                                    of one warp
LANE       SIMD vectors, with a masked tail         the threads of a block, or of a team, strided
SERIAL     a loop                                   a loop in each thread
UNROLL     a loop, before and after which squares   a loop in each thread, before and after which
           of elements are loaded and stored, and   neighbours are loaded and stored together
           transposed in registers
=========  =======================================  ================================================

What every kernel keeps to (``check`` says so):

* GRID loops are outermost and perfectly nested; their iterations are independent. LANE loops do not nest.
* TEAM loops stand outside of LANE loops and of one another, and fold and carry nothing. Their iterations are
  independent. LANE loops in them are shared by the ``width`` lanes of a team, a power of two, and stand in no loop
  that is longer in some teams than in others.
* UNROLL loops stand in LANE loops, have stores alone in them, and have no more iterations than some number says:
  their extent is one, or the least of one and something else. Their iterations are independent of one another, and
  may all read before any of them stores.
* A fold's ``values`` are evaluated in each iteration; after the loop its ``refs`` hold the combined state, uniform with
  respect to that loop. The order of combination depends on the extents and the target alone.
* A monoid's ``result`` is made of constants and functions of its two states alone. It is associative and commutative,
  and ``init`` changes nothing under it, but for what rounding does.
* Carries belong to SERIAL loops, whose iterations run in order: in each, every ``state`` is what ``value`` was in the
  iteration before, ``init`` in the first; after the loop ``ref`` is the last ``value``, or ``init`` where there was
  none. ``init`` is known before the loop and reads no scratch. All values are taken before any state changes. Narrow
  floats may be carried, for that is no computation.
* ``scratch`` buffers belong to one GRID iteration. What a LANE loop stores there, later loops of the same iteration
  may load at any index (a GPU puts a barrier between the two).
* A buffer is either only loaded or only stored; scratch may be both. Those of one launch do not overlap, but for what
  ``dyn.schedule.donate`` has looked into.
* An Update changes a global buffer where the same GRID iteration has stored before (or, in a kernel that is
  ``in_place``, what the buffer held before), and counts as a store: the buffer is not loaded. Iterations of a SERIAL
  loop update in their order, those of a LANE loop distinct places.
* Extents are not negative. Those of GRID loops depend on size parameters alone: together they are one linear space.
* Boolean elements take a byte in memory. Floats of less than 32 bits are loaded, stored and cast, never computed with.
* There are no complex numbers: a buffer of those is one of their parts, the real one of each element first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import IRError
from dyn.frozen import record
from dyn.ops.scalar import COMPARISONS, MONOIDS, Scalar
from dyn.schedule.order import Order
from dyn.shapes import Dim, Opaque, OpaqueKind, Symbol, free_symbols


class Role(Enum):
    """Order in which a loop's iterations may run: side by side in a grid, in teams or in lanes, a few together, or one
    after the other."""

    GRID = "grid"
    TEAM = "team"
    LANE = "lane"
    SERIAL = "serial"
    UNROLL = "unroll"


class Space(Enum):
    """Memory that a buffer is in."""

    GLOBAL = "global"
    #: On the chip: a cache-resident block on x86, shared memory on a GPU; private to a GRID iteration.
    SCRATCH = "scratch"


@record(eq=False)
class Buffer:
    """A linear run of elements. ``size`` counts elements and is needed for scratch only."""

    name: str
    dtype: DType
    space: Space = Space.GLOBAL
    size: Dim = 0


@record(eq=False)
class Const:
    """A literal. ``value`` is a Python bool, int or float (NaN and infinities included)."""

    dtype: DType
    value: bool | int | float


@record(eq=False)
class Index:
    """An index expression as a value of an integer dtype."""

    dtype: DType
    expr: Dim


@record(eq=False)
class Load:
    """``buffer[index]``, or ``other`` where ``mask`` is false (then nothing is read).

    ``bound`` names the symbols of ``index`` that stand for computed values, such as the row of a gather; each value
    has dtype int64.
    """

    buffer: Buffer
    index: Dim
    bound: tuple[tuple[Symbol, Expr], ...] = ()
    mask: Expr | None = None
    other: Expr | None = None

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@record(eq=False)
class Apply:
    """A scalar function of values. Arguments have one dtype but for SELECT's predicate and CAST."""

    fn: Scalar
    args: tuple[Expr, ...]
    dtype: DType


@record(eq=False)
class Ref:
    """A name for a fold's result, what a loop carries, or a contraction's accumulator."""

    name: str
    dtype: DType


Expr = Const | Index | Load | Apply | Ref


@record(eq=False)
class Monoid:
    """An associative and commutative function of two states, each a tuple of scalars.

    ``result`` is what ``left`` and ``right`` are combined into: an expression for each scalar, of constants and of both
    states' references. ``init`` is an identity of it, so a target may use it to fill idle lanes, any number of times.
    """

    init: tuple[Const, ...]
    left: tuple[Ref, ...]
    right: tuple[Ref, ...]
    result: tuple[Expr, ...]

    @property
    def scalar(self) -> Scalar | None:
        """The scalar function that it is, where a state is one scalar, and it is one."""
        (first, *others) = self.result
        if others or not isinstance(first, Apply) or first.args != (self.left[0], self.right[0]):
            return None
        return first.fn


def scalar_monoid(combine: Scalar, init: Const) -> Monoid:
    """A scalar function as a monoid."""
    left, right = Ref("left", init.dtype), Ref("right", init.dtype)
    return Monoid((init,), (left,), (right,), (Apply(combine, (left, right), init.dtype),))


@record(eq=False)
class Fold:
    """A reduction carried by a loop: ``refs`` = ``monoid`` over the states ``values`` of all iterations."""

    refs: tuple[Ref, ...]
    monoid: Monoid
    values: tuple[Expr, ...]


def scalar_fold(ref: Ref, combine: Scalar, init: Const, value: Expr) -> Fold:
    """A reduction of one value by a scalar function, of which ``init`` is an identity."""
    return Fold((ref,), scalar_monoid(combine, init), (value,))


@record(eq=False)
class Carry:
    """A value carried by a SERIAL loop from each iteration to the next: any function of what it was before.

    ``state`` is the value at the beginning of an iteration, known inside of the loop alone; ``ref`` is what is left
    after it.
    """

    ref: Ref
    state: Ref
    init: Expr
    value: Expr


@record(eq=False)
class Loop:
    """``for var in range(extent)``, in a role.

    Statements of ``body`` run before the folds' values are combined and the carries' values taken. The folds of a LANE
    loop combine in ``order``, or where it is None as the target likes; those of a SERIAL one in the order's chains, or
    one after the other.
    """

    role: Role
    var: Symbol
    extent: Dim
    body: tuple[Stmt, ...] = ()
    folds: tuple[Fold, ...] = ()
    carries: tuple[Carry, ...] = ()
    #: Of a TEAM loop, the lanes of a team.
    width: int = 0
    order: Order | None = None


@record(eq=False)
class Store:
    """``buffer[index] = value``. Distinct iterations of GRID and LANE loops store to distinct places."""

    buffer: Buffer
    index: Dim
    value: Expr


@record(eq=False)
class Update:
    """``buffer[index] = combine(buffer[index], value)`` where ``mask``; with no ``combine``, ``= value``.

    With a ``state`` and no ``combine`` the value may be any function of what was there: that is what ``state`` is.
    ``bound`` names the symbols of ``index`` that stand for computed values, as in a Load: where they lead outside of
    the buffer, ``mask`` is false, and nothing is read or written. Narrow floats are combined in float32 and
    rounded after each update.
    """

    buffer: Buffer
    index: Dim
    bound: tuple[tuple[Symbol, Expr], ...]
    combine: Scalar | None
    value: Expr
    mask: Expr | None = None
    state: Ref | None = None


class Operand(Enum):
    """An operand of a contraction."""

    LHS = "lhs"
    RHS = "rhs"


@record()
class Tile:
    """The accumulators of a contraction that are in registers at once: ``rows`` × ``columns`` elements.

    Operands that are ``staged`` are copied to memory on the chip, dense, before they are multiplied. The others are
    read where they lie, if the target can.
    """

    rows: int
    columns: int
    staged: tuple[Operand, ...] = (Operand.RHS,)

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}" + "".join(f", {operand.value} staged" for operand in self.staged)


@record(eq=False)
class Digits:
    """``value`` written as numbers of a mixed radix: ``parts`` are variables and how far each counts, slowest
    first.

    For an operand of a contraction that lies in several axes where the contraction has one: the rows of a convolution
    count through batch and places, its reduced dimension through taps and channels. ``value`` is one of the
    contraction's variables plus an offset.
    """

    value: Dim
    parts: tuple[tuple[Symbol, Dim], ...]


@record(eq=False)
class TileContract:
    """``acc[row, col] = sum over red of lhs[row, red] * rhs[red, col]``, and then ``epilogue`` for every (row, col).

    What loops cannot express well: a micro-kernel on x86, mma on GPUs. One GRID iteration has ``row_extent`` ×
    ``col_extent`` accumulators, ``tile`` of them in registers at a time; in which order it goes through them, and how
    many steps of the reduced dimension it stages together, is the target's business. ``lhs`` is an expression over
    ``row`` and ``red``, ``rhs`` over ``red`` and ``col``, both of ``acc``'s dtype; a plain Load whose index is linear
    in them is read where it lies, anything else is computed while it is staged. In ``epilogue`` ``col`` varies like the
    variable of a LANE loop and ``row`` like that of a SERIAL one. With ``red_extent`` 0 the accumulator is 0. ``lhs``
    and ``rhs`` may be written in the parts of ``digits`` instead, each over at most one of them a variable; what is
    read in runs along the last part is staged run by run.
    """

    row: Symbol
    col: Symbol
    red: Symbol
    row_extent: Dim
    col_extent: Dim
    red_extent: Dim
    lhs: Expr
    rhs: Expr
    acc: Ref
    epilogue: tuple[Stmt, ...]
    tile: Tile
    digits: tuple[Digits, ...] = ()


Stmt = Loop | Store | Update | TileContract


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Kernel:
    """One kernel. ``dims`` are size parameters (int64), ``buffers`` the global ones, in the order of the launch."""

    name: str
    buffers: tuple[Buffer, ...]
    dims: tuple[Symbol, ...]
    scratch: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    #: One line that says what it computes, for people: ``softmax.stitch``.
    note: str = field(default="", compare=False)
    #: Whether the buffers that it updates hold their elements already.
    in_place: bool = False
    #: Size parameters that are 0 or 1 wherever something is loaded at a place that they are a factor of: those of axes
    #: that an undecided broadcast may stretch.
    factors: frozenset[Symbol] = frozenset()

    def grid(self) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
        """The GRID loops, outermost first, and what they enclose."""
        loops: list[Loop] = []
        body = self.body
        while len(body) == 1 and isinstance(body[0], Loop) and body[0].role is Role.GRID:
            loops.append(body[0])
            body = body[0].body
        return tuple(loops), body


def children(expr: Expr) -> tuple[Expr, ...]:
    """The values an expression is computed from."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Load):
        extra = tuple(e for e in (expr.mask, expr.other) if e is not None)
        return tuple(value for _, value in expr.bound) + extra
    return ()


def walk_exprs(roots: tuple[Expr, ...]) -> Iterator[Expr]:
    """Every expression reachable from ``roots``, once, children first."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            yield expr
            continue
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        stack.append((expr, True))
        stack.extend((child, False) for child in reversed(children(expr)) if id(child) not in seen)


def stmt_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself, nested statements left out."""
    if isinstance(stmt, Store):
        return (stmt.value,)
    if isinstance(stmt, Loop):
        folded = [value for fold in stmt.folds for value in fold.values]
        return (*folded, *[c.init for c in stmt.carries], *[c.value for c in stmt.carries])
    if isinstance(stmt, Update):
        masks = () if stmt.mask is None else (stmt.mask,)
        return (stmt.value, *[value for _, value in stmt.bound], *masks)
    return (stmt.lhs, stmt.rhs)


def stmt_body(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements nested in a statement."""
    if isinstance(stmt, Loop):
        return stmt.body
    return stmt.epilogue if isinstance(stmt, TileContract) else ()


#: The most iterations of an UNROLL loop.
MOST_UNROLLED = 64


def most_iterations(extent: Dim) -> int | None:
    """A number that an extent never exceeds, by its form: it is one, or the least of one and something else."""
    if isinstance(extent, int):
        return extent
    atom = extent.is_atom
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MIN:
        return None
    return min((arg for arg in atom.args if isinstance(arg, int)), default=None)


def walk_stmts(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner, in program order."""
    for stmt in body:
        yield stmt
        yield from walk_stmts(stmt_body(stmt))


def check(kernel: Kernel) -> None:
    """Raise IRError where a kernel breaks a rule of this file."""
    _Checker(kernel).run()


class _Checker:
    """Scopes, roles, dtypes and buffer use of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loaded: set[int] = set()
        self.stored: set[int] = set()

    def fail(self, what: str) -> IRError:
        return IRError(f"kernel {self.kernel.name}: {what}")

    def run(self) -> None:
        known = {id(b) for b in (*self.kernel.buffers, *self.kernel.scratch)}
        for buffer in self.kernel.scratch:
            self.scope(buffer.size, frozenset(self.kernel.dims), f"the size of scratch {buffer.name}")
        self.block(self.kernel.body, frozenset(self.kernel.dims), frozenset(), in_lane=False, grid=True)
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
                self.scope(stmt.extent, symbols, f"the extent of {stmt.var.name}")
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
            else:
                self.tile(stmt, symbols, refs, in_lane=in_lane)
        return refs

    def fold(self, fold: Fold) -> None:
        """Raise IRError where a fold's state has several types, or its monoid more in it than two states."""
        name, monoid = ", ".join(ref.name for ref in fold.refs), fold.monoid
        parts = (fold.refs, monoid.init, monoid.left, monoid.right, monoid.result, fold.values)
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
        if loop.folds or loop.carries or not all(isinstance(stmt, Store) for stmt in loop.body):
            raise self.fail(f"unroll loop {name} has more in it than stores")

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
            if not isinstance(stmt, Loop) or stmt.role is Role.LANE or loop.var not in free_symbols(stmt.extent):
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
        if not (tile.lhs.dtype is tile.rhs.dtype is tile.acc.dtype):
            raise self.fail("a contraction's operands and accumulator differ in dtype")
        parts: dict[Symbol, set[Symbol]] = {tile.row: set(), tile.red: set(), tile.col: set()}
        for digits in tile.digits:
            own = free_symbols(digits.value) & parts.keys()
            if len(own) != 1:
                raise self.fail(f"the digits of {digits.value} are not those of one variable of a contraction")
            self.scope(digits.value, symbols | own, "the value of digits")
            for symbol, extent in digits.parts:
                self.scope(extent, symbols, f"the extent of {symbol.name}")
                parts[next(iter(own))].add(symbol)
        rows, columns, reds = ({s, *parts[s]} for s in (tile.row, tile.col, tile.red))
        self.exprs((tile.lhs,), symbols | rows | reds, refs)
        self.exprs((tile.rhs,), symbols | reds | columns, refs)
        inside = refs | {id(tile.acc)}
        self.block(tile.epilogue, symbols | {tile.row, tile.col}, inside, in_lane=True, grid=False, in_tile=True)

    def exprs(self, roots: tuple[Expr, ...], symbols: frozenset[Symbol], refs: frozenset[int]) -> None:
        for expr in walk_exprs(roots):
            if isinstance(expr, Ref) and id(expr) not in refs:
                raise self.fail(f"{expr.name} is used before it is computed")
            if isinstance(expr, Index):
                self.scope(expr.expr, symbols, "an index value")
            if isinstance(expr, Load):
                self.scope(expr.index, symbols | {s for s, _ in expr.bound}, f"a load of {expr.buffer.name}")
                self.loaded.add(id(expr.buffer))
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
