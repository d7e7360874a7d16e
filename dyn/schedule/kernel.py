"""The kernel IR: what one kernel computes, on ISPC's model.

::

    Kernel  = (buffers, dims, scratch, body)
    stmt    = Loop(role, var, extent, body, folds, carries, order, bound, start, count) | Store(buffer, index, value)
            | Update(buffer, index, …) | TileContract(…) | Let(var, value)
            | Pack(buffer, outer, inner, value, …) | Multiply(acc, rows, cols, red, lhs, rhs, unit, …)
            | Clear(acc) | Spill(buffer, acc, rows, …)
    interval = (var, start, extent)
    fold    = (refs, monoid, values, block)       # refs are monoid over the loop's iterations of values
    block   = (monoid, state, lifted)             # a quicker monoid for runs of a few, and what a run's state becomes
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

What every kernel keeps to (``dyn.schedule.kernel_verifier`` says so):

* GRID loops are outermost and perfectly nested; their iterations are independent. LANE loops do not nest.
* TEAM loops stand outside of LANE loops and of one another, and fold and carry nothing. Their iterations are
  independent. LANE loops in them are shared by the ``width`` lanes of a team, a power of two, and stand in no loop
  that is longer in some teams than in others.
* UNROLL loops stand in LANE loops, have stores and folds alone in them, and have no more iterations than some number
  says: their extent is one, or the least of one and something else. Their iterations are independent of one another,
  and may all read before any of them stores.
* A fold's ``values`` are evaluated in each iteration; after the loop its ``refs`` hold the combined state, uniform with
  respect to that loop. The order of combination depends on the extents and the target alone.
* A monoid's ``result`` is made of constants and functions of its two states alone. It is associative and commutative,
  and ``init`` changes nothing under it, but for what rounding does.
* Carries belong to SERIAL loops, whose iterations run in order: in each, every ``state`` is what ``value`` was in the
  iteration before, ``init`` in the first; after the loop ``ref`` is the last ``value``, or ``init`` where there was
  none. ``init`` is known before the loop and reads no scratch. All values are taken before any state changes. Narrow
  floats may be carried, for that is no computation.
* ``scratch`` buffers belong to one GRID iteration. What a LANE loop stores there, later loops of the same iteration
  may load at any index (a GPU puts a barrier between the two). Accumulators in REGISTERS are multiplied, cleared and
  spilled, and nothing else: a unit decides which thread has which.
* A pack that is ``staged`` is a statement of a SERIAL loop, in front of all that are not: it may be done some
  iterations ahead.
* Neighbouring stores evaluate what they share once in an iteration, where the first of them needs it: a load is not
  done again after a store. (Only what depends on scratch is evaluated again once that was stored to.)
* A buffer is either only loaded or only stored; scratch may be both. Those of one launch do not overlap, but for those
  that are named ``overlapping``, into which ``dyn.schedule.donate`` has looked.
* An Update changes a global buffer where the same GRID iteration has stored before (or, in a kernel that is
  ``in_place``, what the buffer held before), and counts as a store: the buffer is not loaded. Iterations of a SERIAL
  loop update in their order, those of a LANE loop distinct places.
* Extents are not negative. Those of GRID loops depend on size parameters alone: together they are one linear space.
  Those of SERIAL and LANE loops may mention values that are computed in front of the loop, and read no scratch: rows
  of different lengths, read from an array. An x86 target wants such a value to be uniform.
* Boolean elements take a byte in memory. Floats of less than 32 bits are loaded, stored and cast, never computed with.
* There are no complex numbers: a buffer of those is one of their parts, the real one of each element first.

A contraction has two forms. A schedule makes a TileContract, which says what is computed and by which tile; a family
makes loops of it (``dyn.schedule.x86.blocked``, ``dyn.schedule.gpu.blocked``), around the leaves that loops cannot
express well: Pack, which copies a block of an operand to scratch in another layout, and Multiply, which adds the
products of a tile to accumulators in scratch or in registers. What is asked of a kernel's results (which places are
stored once, what they cost) is asked of the first form.

This file is long, for it is the whole of the IR: what each node may hold stands beside all others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ops.scalar import Scalar
from dyn.schedule.order import Order
from dyn.schedule.units import Unit
from dyn.shapes import Dim, Opaque, OpaqueKind, Symbol


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
    #: The registers of a block's threads, private to a GRID iteration.
    REGISTERS = "registers"


@record(eq=False)
class Buffer:
    """A linear run of elements.

    ``size`` counts them in scratch, and in a result of which other launches write other parts; else it is 0.
    """

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
    bound: Bindings = ()
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
#: The symbols of an index or an extent that stand for computed values.
Bindings = tuple[tuple[Symbol, Expr], ...]


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
class Block:
    """A monoid that is quicker than a fold's own and rounds more, for runs of a few elements each.

    What a run comes to is ``state``; ``lifted`` is that as a state of the fold's monoid, an expression for each scalar
    of it, of constants and ``state``'s references.
    """

    monoid: Monoid
    state: tuple[Ref, ...]
    lifted: tuple[Expr, ...]


@record(eq=False)
class Fold:
    """A reduction carried by a loop: ``refs`` = ``monoid`` over the states ``values`` of all iterations.

    With a ``block`` the values are states of its monoid. A target folds runs of them with that, as long as the loop's
    order says, and these runs with ``monoid``; or it lifts each value.
    """

    refs: tuple[Ref, ...]
    monoid: Monoid
    values: tuple[Expr, ...]
    block: Block | None = None

    @property
    def scalar(self) -> Scalar | None:
        """The scalar function that elements are combined with, where that is one."""
        return (self.monoid if self.block is None else self.block.monoid).scalar

    @property
    def leaf(self) -> Fold:
        """The fold of a run of elements."""
        return self if self.block is None else Fold(self.block.state, self.block.monoid, self.values)


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
    loop combine in ``order``, or where it is None as the target likes; those of a SERIAL one in the order's steps, or
    one after the other. ``bound`` names the symbols of ``extent`` that stand for computed values, each an int64.
    LANE and SERIAL loops may begin at a ``start`` that is no computed value: ``range(start, start + extent)``. The
    innermost GRID loop may take some neighbouring iterations at once: ``count`` is then their number in its body, at
    least 1, and ``var`` the first of them. It computes the same however the loop's range is cut into such runs. One
    that stages packs may go by a ``step``: ``range(0, extent, step)``.
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
    bound: Bindings = ()
    start: Dim = 0
    count: Symbol | None = None
    step: int = 1


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
    bound: Bindings
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
    """The accumulators of a contraction that are added to at once: ``rows`` × ``columns`` elements, in registers where
    they are used for many steps, or else in the nearest memory.

    Operands that are ``staged`` are copied to memory on the chip, dense, before they are multiplied. The others are
    read where they lie, if the target can. On GPUs ``threads`` of a block have such a tile each. What multiplies and
    adds is the target's ``unit`` of this name, or the arithmetic of the accumulators. A tile that is ``in_order`` adds
    products one by one, however the operands lie. ``from_panels`` says that the right operand lies in memory as if it
    had been staged: an iteration has one panel, of the tile's columns, all of which may be read.
    """

    rows: int
    columns: int
    staged: tuple[Operand, ...] = (Operand.RHS,)
    threads: int = 1
    unit: str = ""
    in_order: bool = False
    from_panels: bool = False

    def __str__(self) -> str:
        size = f"{self.rows}x{self.columns}" + (f", {self.threads} threads" if self.threads > 1 else "")
        size += (f", {self.unit}" if self.unit else "") + (", in order" if self.in_order else "")
        size += ", from panels" if self.from_panels else ""
        return size + "".join(f", {operand.value} staged" for operand in self.staged)


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
    ``row`` and ``red``, ``rhs`` over ``red`` and ``col``, each of a dtype whose numbers ``acc``'s dtype holds, in which
    they are multiplied; a plain Load whose index is linear in them is read where it lies, anything else is computed
    while it is staged. In ``epilogue`` ``col`` varies like the
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

    def factors(self) -> tuple[Expr, Expr]:
        """The operands in the dtype that they are multiplied in."""
        return _converted(self.lhs, self.acc.dtype), _converted(self.rhs, self.acc.dtype)


def _converted(expr: Expr, dtype: DType) -> Expr:
    return expr if expr.dtype is dtype else Apply(Scalar.CAST, (expr,), dtype)


@record(eq=False)
class Let:
    """``var`` stands for an index expression in the statements that follow in its block."""

    var: Symbol
    value: Dim


@record(eq=False)
class Interval:
    """The values of a variable from ``start`` on, ``extent`` of them."""

    var: Symbol
    start: Dim
    extent: Dim


@record(eq=False)
class PackedWords:
    """Words of 32 bits that are made of neighbours along a contracted axis: elements of ``dtype``, the first one in the
    lowest bits.

    ``elements`` is an expression over ``red``, of which there are ``extent``; beyond them elements are 0. Where a word
    is meant, ``red`` counts words. With ``flipped`` the upper bit of each byte is another one.
    """

    elements: Expr
    red: Symbol
    extent: Dim
    dtype: DType
    flipped: bool = False

    @property
    def group(self) -> int:
        """The number of neighbours in a word."""
        return 32 // self.dtype.bits


@record()
class StagedSlices:
    """The places of a pack on its way through a GPU's shared memory.

    It has ``outer`` × ``inner`` elements, of which those beyond its intervals are 0. After each ``every`` rows of the
    outer interval ``pad`` places are left free. There are ``slots`` places for it, ``slot`` elements from one another,
    which iterations of its loop take in turn: it may be done ``slots - 1`` iterations ahead, and what reads the buffer
    in an iteration means that iteration's slot. What is ``copied`` the device moves by itself.
    """

    outer: int
    inner: int
    slots: int
    slot: int
    every: int = 1
    pad: int = 0
    copied: bool = False


@record(eq=False)
class Pack:
    """``buffer[place + (i - i.start)*stride + j - j.start] = value`` for all of ``outer`` (i) and ``inner`` (j).

    What belongs to the next few values of both may be written too, up to the next multiple of a vector's lanes: nobody
    looks at it, and the buffer has room. ``value`` may be written in ``digits``. Where it is one of ``words``, these
    say how it is read where it lies. ``width`` is the greatest extent of ``inner``, where that is known to be small.
    Where it is ``staged``, ``(i - i.start)//every*pad`` is added to each place.
    """

    buffer: Buffer
    place: Dim
    stride: int
    outer: Interval
    inner: Interval
    value: Expr
    width: int = 0
    digits: tuple[Digits, ...] = ()
    words: PackedWords | None = None
    staged: StagedSlices | None = None


@record(eq=False)
class PanelPlaces:
    """Places for a right operand in panels of ``width`` columns, ``panel_stride`` elements from one another, each dense
    with its columns contiguous."""

    buffer: Buffer
    place: Dim
    width: int
    panel_stride: int


@record(eq=False)
class ColumnSums:
    """Sums of a block of a right operand's columns, one after the other from ``place`` on, by which a unit's sums are
    too great: a multiplication writes them where it ``makes`` them, and reads them where others have."""

    buffer: Buffer
    place: Dim
    makes: bool


class Algorithm(Enum):
    """Algorithm by which a tile's products are added."""

    #: Accumulators in registers, the right operand in panels or where it lies.
    TILE = "tile"
    #: Rows of the right operand in long pieces, once; accumulators in the nearest cache.
    STREAM = "stream"
    #: Dot products by lanes along the contracted axis, which the right operand is contiguous along.
    DOTS = "dots"
    #: Squares of such a right operand, turned in registers.
    TURNED = "turned"
    #: The right operand is an expression, computed in registers.
    COMPUTED = "computed"
    #: Accumulators in the registers of a GPU's threads, both operands staged in shared memory.
    CORES = "cores"


@record(eq=False)
class Multiply:
    """``acc[place + (i - i.start)*stride + j - j.start] (+)= sum over k in red of lhs[i, k] * rhs[k, j]`` for all of
    ``rows`` (i) and ``cols`` (j): no more than ``tile`` has, but for the columns of what is no TILE.

    Sums begin at 0 where ``first`` is 1, and at what is there where it is 0; DOTS always begin. ``lhs`` and ``rhs`` are
    loads that are linear in both of their variables, or lie in panels; where they are COMPUTED ``rhs`` is any
    expression. A ``unit`` multiplies words: ``red`` counts these. What is read of ``rhs`` may be ``packed`` meanwhile.
    No more than ``narrow`` columns, where that is not 0, take a tile of so many. Where a unit takes signed elements for
    unsigned ones, the tiles of rows of one block of the right operand share its ``column_sums``. Of CORES the ``tile``
    is a thread's, and all of what is staged is multiplied, zeros included; threads that share the steps in ``parts``,
    equally many for each, have sums of their own: the accumulators are as many arrays, one after the other.
    """

    acc: Buffer
    place: Dim
    stride: Dim
    rows: Interval
    cols: Interval
    red: Interval
    lhs: Expr
    rhs: Expr
    tile: Tile
    algorithm: Algorithm = Algorithm.TILE
    unit: Unit | None = None
    first: Dim = 1
    packed: PanelPlaces | None = None
    narrow: int = 0
    column_sums: ColumnSums | None = None
    parts: int = 1

    @property
    def intervals(self) -> tuple[Interval, Interval, Interval]:
        return self.rows, self.cols, self.red


@record(eq=False)
class Clear:
    """All of ``acc``, accumulators in registers, are 0."""

    acc: Buffer


@record(eq=False)
class Spill:
    """``buffer[place + (p*rows + i)*columns + j] = acc[p, start + i, j]`` for ``rows`` rows of all columns, of each
    part p of the sums. ``start`` is a multiple of ``rows``."""

    buffer: Buffer
    place: Dim
    acc: Buffer
    start: Dim
    rows: int
    columns: int
    parts: int = 1


Stmt = Loop | Store | Update | TileContract | Let | Pack | Multiply | Clear | Spill


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
    #: Number of sets of buffers for each of which a launch computes the same: ``body`` is over the first set.
    copies: int = 1
    #: Numbers of buffers of a set of which two may be one memory: one is stored where the other one was loaded before.
    overlapping: frozenset[int] = frozenset()

    @property
    def own_buffers(self) -> tuple[Buffer, ...]:
        """The buffers of one set."""
        return self.buffers[: len(self.buffers) // self.copies]

    def grid(self) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
        """The GRID loops, outermost first, and what they enclose."""
        loops: list[Loop] = []
        body = self.body
        while len(body) == 1 and isinstance(body[0], Loop) and body[0].role is Role.GRID:
            loops.append(body[0])
            body = body[0].body
        return tuple(loops), body


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


def known_factor(dim: Dim) -> int:
    """A number that divides an extent whatever its value, by its form: 16 for ``min(48, 64 - 48*i)``."""
    if isinstance(dim, int):
        return abs(dim)
    result = abs(dim.constant)
    for monomial, coefficient in dim.terms:
        for atom, power in monomial.factors:
            if isinstance(atom, Opaque) and atom.kind in (OpaqueKind.MIN, OpaqueKind.MAX):
                coefficient *= math.gcd(*[known_factor(arg) for arg in atom.args]) ** power
        result = math.gcd(result, coefficient)
    return result
