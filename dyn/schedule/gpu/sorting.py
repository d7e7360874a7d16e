"""Sorts on GPUs, as launches: a block sorts what fits into its shared memory, and further launches merge what blocks
have sorted, until there is one run.

Rows of at most a block's elements take one launch, with a team of lanes a row where they are short. In longer rows the
width of the runs doubles from launch to launch: each begins with a bisection in global memory for what a tile of the
merged run is made of, reads this in order into shared memory, and merges it there. The launches for widths that a row
does not have are left out by the host program; they share one kernel. Two of them always go together, so that sorted
runs come to lie where they lay before: where the first one has made one run, the other one copies it.

Keys are moved with each merge, and places beside them where there is more to sort than keys; what is carried is read by
its place at the end. Of the greatest elements of a row no run needs more than are wanted.

A group that sorts on its way to something else (the destinations of a scatter) has its sorted keys and their places
left in memory. Its launches run all on one condition, for an alternative stands in for them (``Launch.unless``): those
of widths that a row does not have are left out by grids of no blocks.

This is kernel IR written by hand: the places that merges read and the scratch that they go through are computed from
elements, which no step of a schedule does (decision 58).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.frozen import record
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ops.complex_parts import part_dtype
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import axis
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.kernel import Buffer, Carry, Expr, Loop, Ref, Role, Space, Stmt, Store
from dyn.schedule.launch import Condition, Launch, Variant, bind_kernel
from dyn.schedule.library import memory_of
from dyn.schedule.merging import Elements, Integers, Merge
from dyn.schedule.orderings import Ordering
from dyn.schedule.target import Target
from dyn.shapes import (
    Dim,
    Reason,
    Relation,
    RelKind,
    Symbol,
    as_dim,
    dim_max,
    dim_min,
    dim_sum,
    floordiv,
    mod,
    product,
    substitute,
)
from dyn.shapes import symbol as new_symbol
from dyn.stitch.groups import Group, Plan

#: Bytes of shared memory that a block sorts in, and the most elements that it does; those of a tile of a merge.
_ROOM, _BLOCK, _TILE = 32 << 10, 2048, 1024
#: Threads of a block; lanes of the least team, and the most elements that it sorts, and that a warp does.
_THREADS, _TEAM, _SHORT, _OF_WARP = 256, 8, 32, 256
#: The most elements of a row: places have 32 bits.
MOST = (1 << 32) - 1


def lower_sort(plan: Plan, group: Group, target: Target, ordering: Ordering) -> tuple[Launch, ...]:
    """The launches of a group that sorts."""
    (op,) = group.ops
    shape = op.operands[0].shape
    stored = dict(zip((*op.operands, *op.results), memory_of(plan, group), strict=True))
    reason = Reason(f"{op.opdef.name} counts the elements of a row in 32 bits on a GPU", op.loc)
    demands = (Relation(RelKind.GE, MOST, shape[ordering.axis], reason),)
    sort = _Sort(plan, group, ordering, target.warp, shape, stored=stored, results=op.results, demands=demands)
    return sort.launches()


def sort_into(
    plan: Plan,
    group: Group,
    target: Target,
    ordering: Ordering,
    shape: tuple[Dim, ...],
    runs: tuple[Value, ...],
    when: Condition | None,
) -> tuple[Launch, ...]:
    """The launches of a group that leave its sorted keys, arrays of a ``shape``, and the places where they were, in
    ``runs``, memory that the group's launches hand on. No row has more than :data:`MOST` elements where ``when``
    holds."""
    stored = {key: key for key in ordering.keys}
    return _Sort(plan, group, ordering, target.warp, shape, stored=stored, runs=runs, when=when).launches()


@record(eq=False)
class _Rows:
    """A row of the operands: the place of its first element, and the distance between neighbours."""

    first: Dim
    step: Dim


class _Sort:
    """A sort of arrays of a ``shape``: ``stored`` says in which memory operands and ``results`` lie. Or else keys and
    places are left in ``runs``, by launches that run all ``when`` a condition holds."""

    def __init__(
        self,
        plan: Plan,
        group: Group,
        ordering: Ordering,
        warp: int,
        shape: tuple[Dim, ...],
        *,
        stored: Mapping[Value, Value],
        results: Sequence[Value] = (),
        demands: tuple[Relation, ...] = (),
        runs: tuple[Value, ...] | None = None,
        when: Condition | None = None,
    ) -> None:
        self.plan, self.group, self.ordering, self.warp = plan, group, ordering, warp
        self.stored, self.results, self.demands, self.when = stored, results, demands, when
        self.length, self.limit = shape[ordering.axis], ordering.limit
        self.outer, self.inner = product(shape[: ordering.axis]), product(shape[ordering.axis + 1 :])
        self.dtypes = tuple([key.dtype for key in ordering.keys])
        if ordering.needs_places:
            self.dtypes = (*self.dtypes, dtypes.uint32)
        self.bytes = sum(dtype.itemsize for dtype in self.dtypes)
        self.block = min(_BLOCK, _power(_ROOM // (2 * self.bytes)))
        self.tile = min(_TILE, self.block)
        self.rows = self.outer * self.inner
        # Of rows that a block sorts no memory is taken.
        room = self.rows, self.length, Condition(self.length, self.block + 1, None).indicator()
        made = [tuple([Value(TensorType(dtype, room)) for dtype in self.dtypes]) for _ in range(2)]
        self.into_runs = runs is not None
        self.runs, self.merged = made[0] if runs is None else runs, made[1]

    def launches(self) -> tuple[Launch, ...]:
        """The launch for rows that a block sorts, and those for longer ones, if there may be any."""
        facts = self.plan.function.facts
        short, long = Condition(self.length, 0, self.block), Condition(self.length, self.block + 1, None)
        found: list[Launch] = []
        if short.decided(facts) is not False:
            found.append(self._at_once(None if short.decided(facts) else short))
        if short.decided(facts) is True:
            return tuple(found)
        found.append(self._blocks(long))
        width = self.block
        merge = self._merge(self.runs, self.merged)
        back = self._merge(self.merged, self.runs)
        while width <= MOST:
            when = Condition(self.length, width + 1, None)
            if when.decided(facts) is False:
                break
            found += [merge(width, when), back(2 * width, when)]
            width *= 4
        return tuple(found) if self.into_runs else (*found, self._finish(long))

    # What kernels read and write --------------------------------------------------------------------------------

    def row(self, number: Dim, length: Dim) -> _Rows:
        """The elements of a row of an array that has so many along the axis."""
        if self.inner == 1:
            return _Rows(number * length, 1)
        if self.outer == 1:
            return _Rows(number, self.inner)
        return _Rows(floordiv(number, self.inner) * length * self.inner + mod(number, self.inner), self.inner)

    def launch(
        self, kernel: _Kernel, variants: Sequence[Variant], when: Condition | None, written: Sequence[Value] = ()
    ) -> Launch:
        when = when if self.when is None else self.when
        return Launch(self.group, tuple(kernel.buffers), tuple(variants), tuple(written), when, demands=self.demands)

    def rows_where(self, own: Condition) -> Dim:
        """The number of rows, of a launch with a condition of its ``own``: 0 where that does not hold, unless it is
        what the launch runs on."""
        return self.rows if self.when is None else self.rows * own.indicator()

    def merge(
        self, i: Integers, elements: Elements, left: Expr, right: Expr, left_length: Expr, right_length: Expr
    ) -> Merge:
        keys = len(self.ordering.keys)
        return Merge(i, self.ordering.before, keys, elements, left, right, left_length, right_length)

    # Launches ---------------------------------------------------------------------------------------------------

    def _at_once(self, when: Condition | None) -> Launch:
        """Rows that a block sorts: read, sorted and stored, by teams of lanes where they are short.

        What is sorted on its way to something else has no kernels for short rows: they would take longer to compile
        than they save.
        """
        forms = [(0, self.block)]
        teams = () if self.into_runs else ((self.warp, _OF_WARP), (min(_TEAM, self.warp), _SHORT))
        for width, most in teams:
            fitting = _power(_ROOM // (2 * self.bytes * (_THREADS // width)))
            if min(most, fitting) < forms[0][1]:
                forms.insert(0, (width, min(most, fitting)))
        variants: list[Variant] = []
        kernel = _Kernel(self)
        for width, most in forms:
            condition = Condition(self.length, 0, most) if width else None
            decided = None if condition is None else condition.decided(self.plan.function.facts)
            if decided is False:
                continue
            kernel = _Kernel(self, kernel.buffers)
            body = self._sorted_rows(kernel, width, most)
            note = f"{self.group.name}, {f'rows of up to {most} by {width} lanes' if width else 'a block a row'}"
            made = kernel.variant(body, note, None if decided else condition)
            if decided:
                variants.append(made)
                break
            variants.append(replace(made, deferred=width > 0))
        return self.launch(kernel, variants, when, self.runs if self.into_runs else ())

    def _sorted_rows(self, kernel: _Kernel, width: int, most: int) -> tuple[Stmt, ...]:
        rows = self.rows_where(Condition(self.length, 0, self.block))
        store = self._store_runs if self.into_runs else self._store_results
        if not width:
            row = axis("r", rows)
            inside = self._sorted(kernel, as_dim(row.var), 0, self.length, most, 0, store)
            return (Loop(Role.GRID, row.var, rows, inside),)
        teams = _THREADS // width
        chunk, team = axis("c", floordiv(rows + teams - 1, teams)), new_symbol("t", "a loop variable")
        number = as_dim(chunk.var) * teams + as_dim(team)
        offset = as_dim(team) * (2 * most)
        inside = self._sorted(kernel, number, 0, self.length, most, offset, store, teams)
        loop = Loop(Role.TEAM, team, dim_min(teams, rows - as_dim(chunk.var) * teams), inside, width=width)
        return (Loop(Role.GRID, chunk.var, chunk.extent, (loop,)),)

    def _blocks(self, when: Condition) -> Launch:
        """Runs of a block's elements, sorted into memory."""
        kernel, rows = _Kernel(self), self.rows_where(when)
        row, block = axis("r", rows), axis("c", floordiv(self.length + self.block - 1, self.block))
        first = as_dim(block.var) * self.block

        def store(kernel: _Kernel, values: list[Expr], row: Dim, place: Dim) -> list[Stmt]:
            return self._store_runs(kernel, values, row, first + place)

        count = dim_min(self.block, self.length - first)
        inside = self._sorted(kernel, as_dim(row.var), first, count, self.block, 0, store)
        body = (Loop(Role.GRID, row.var, rows, (Loop(Role.GRID, block.var, block.extent, inside),)),)
        variant = kernel.variant(body, f"{self.group.name}, runs of {self.block}")
        return self.launch(kernel, [variant], when, self.runs)

    def _sorted(
        self,
        kernel: _Kernel,
        row: Dim,
        first: Dim,
        count: Dim,
        most: int,
        offset: Dim,
        store: Callable[[_Kernel, list[Expr], Dim, Dim], list[Stmt]],
        teams: int = 1,
    ) -> tuple[Stmt, ...]:
        """``count`` elements of a row from ``first`` on, at most ``most``, sorted in scratch from ``offset`` on by
        merges of neighbouring runs of 1, 2, 4, … elements, and what ``store`` makes of those that are wanted."""
        k, i = kernel.k, Integers(kernel.k, dtypes.int32)
        scratch = kernel.scratch_for(2 * most * teams)
        source = self.row(row, self.length)
        lane, level, other, last = (new_symbol(name, "a loop variable") for name in "tslu")
        here = first + as_dim(lane)
        read = [k.load(kernel.load(key), source.first + here * source.step) for key in self.ordering.keys]
        if self.ordering.needs_places:
            read.append(k.index(dtypes.uint32, here))
        filling = [Store(b, offset + as_dim(lane), value) for b, value in zip(scratch, read, strict=True)]
        fill = Loop(Role.LANE, lane, count, tuple(filling))
        # As many levels as the row needs, for all blocks of a row.
        levels = dim_sum([dim_max(0, dim_min(1, self.length - (1 << n))) for n in range(most.bit_length() - 1)])
        width = Ref("width", dtypes.int32)
        double = i(Scalar.ADD, width, width)
        at, length = i.of(as_dim(other)), i.of(count)
        within = i(Scalar.AND, at, i(Scalar.SUB, double, 1))
        left = i(Scalar.SUB, at, within)
        left_length = i(Scalar.MIN, width, i(Scalar.SUB, length, left))
        right_length = i(Scalar.MAX, i(Scalar.MIN, width, i(Scalar.SUB, i(Scalar.SUB, length, left), width)), 0)
        elements = Elements(scratch, offset + mod(as_dim(level), 2) * most)
        merge = self.merge(i, elements, left, i(Scalar.ADD, left, width), left_length, right_length)
        search, (taken,) = merge.search([within], as_dim(level) + 1)
        choice, source_place = merge.source(within, taken)
        values = elements.at(k, source_place)
        to = offset + mod(as_dim(level) + 1, 2) * most + as_dim(other)
        moved = [Store(b, to, value) for b, value in zip(scratch, values, strict=True)]
        doubling = Carry(Ref("widest", dtypes.int32), width, k.const(dtypes.int32, 1), double)
        lanes = Loop(Role.LANE, other, count, (search, choice, *moved))
        merges = Loop(Role.SERIAL, level, levels, (lanes,), carries=(doubling,))
        final = [k.load(b, offset + mod(levels, 2) * most + as_dim(last)) for b in scratch]
        wanted = count if self.limit == self.length else dim_min(count, self.limit)
        stores = Loop(Role.LANE, last, wanted, tuple(store(kernel, final, row, as_dim(last))))
        return fill, merges, stores

    def _merge(self, source: tuple[Value, ...], target: tuple[Value, ...]) -> Callable[[int, Condition], Launch]:
        """The launch that merges runs of a width in one memory to those of twice the width in another one."""
        kernel = _Kernel(self)
        k = kernel.k
        wide, near = Integers(k, dtypes.int64), Integers(k, dtypes.int32)
        runs, merged = kernel.globals(source), kernel.globals(target)
        scratch = kernel.scratch_for(self.tile)
        width, steps, least = (new_symbol(name, "of a run") for name in ("width", "steps", "least"))
        w, n, limit = as_dim(width), self.length, self.limit
        pairs, tiles = floordiv(n + 2 * w - 1, 2 * w), floordiv(dim_min(2 * w, limit) + self.tile - 1, self.tile)
        rows = self.rows_where(Condition(n - as_dim(least), 0, None))
        row, pair, tile = axis("r", rows), axis("p", pairs), axis("c", tiles)
        first, start = as_dim(pair.var) * (2 * w), as_dim(tile.var) * self.tile
        left = dim_min(w, n - first, limit)
        right = dim_max(dim_min(w, n - first - w, limit), 0)
        count = dim_max(dim_min(self.tile, left + right - start, limit - start), 0)
        memory = Elements(runs, as_dim(row.var) * n + first)
        zero, second = wide.of(0), wide.of(w)
        merge = self.merge(wide, memory, zero, second, wide.of(left), wide.of(right))
        search, (before, after) = merge.search([wide.of(start), wide.of(start + count)], as_dim(steps))
        lane, other = (new_symbol(name, "a loop variable") for name in "tu")
        of_left = near(Scalar.SUB, near.of(after), near.of(before))
        # The tile's part of the left run, and behind it that of the right one.
        at = near.of(as_dim(lane))
        on_right = wide(Scalar.ADD, second, wide(Scalar.SUB, wide.of(start), before))
        begin = wide.select(near.less(at, of_left), before, wide(Scalar.SUB, on_right, wide.of(of_left)))
        values = memory.at(k, wide(Scalar.ADD, begin, wide.of(at)))
        filling = [Store(b, as_dim(lane), value) for b, value in zip(scratch, values, strict=True)]
        fill = Loop(Role.LANE, lane, count, tuple(filling))
        own = Elements(scratch, 0)
        of_right = near(Scalar.SUB, near.of(count), of_left)
        inside = self.merge(near, own, near.of(0), of_left, of_left, of_right)
        at = near.of(as_dim(other))
        search_own, (taken,) = inside.search([at], self.tile.bit_length() - 1)
        choice, place = inside.source(at, taken)
        values = own.at(k, place)
        to = as_dim(row.var) * n + first + start + as_dim(other)
        moved = [Store(b, to, value) for b, value in zip(merged, values, strict=True)]
        body: tuple[Stmt, ...] = (search, fill, Loop(Role.LANE, other, count, (search_own, choice, *moved)))
        for each in (tile, pair, row):
            body = (Loop(Role.GRID, each.var, each.extent, body),)
        made = kernel.variant(body, f"{self.group.name}, runs merged")

        def launch(of: int, when: Condition) -> Launch:
            known: dict[Symbol, Dim] = {width: of, steps: of.bit_length(), least: when.low}

            def dim(own: Dim) -> Dim:
                return substitute(own, known)

            variant = replace(made, dims=tuple(map(dim, made.dims)), grid=dim(made.grid), cost=dim(made.cost))
            return self.launch(kernel, [variant], when, target)

        return launch

    def _finish(self, when: Condition) -> Launch:
        """The results of rows that were merged."""
        kernel = _Kernel(self)
        k = kernel.k
        row = axis("r", self.rows)
        chunk, lane = axis("c", floordiv(self.limit + _TILE - 1, _TILE)), new_symbol("t", "a loop variable")
        place = as_dim(chunk.var) * _TILE + as_dim(lane)
        values = [k.load(b, as_dim(row.var) * self.length + place) for b in kernel.globals(self.runs)]
        stores = self._store_results(kernel, values, as_dim(row.var), place)
        lanes = Loop(Role.LANE, lane, dim_min(_TILE, self.limit - as_dim(chunk.var) * _TILE), tuple(stores))
        body: tuple[Stmt, ...] = (lanes,)
        for each in (chunk, row):
            body = (Loop(Role.GRID, each.var, each.extent, body),)
        return self.launch(kernel, [kernel.variant(body, f"{self.group.name}, results")], when)

    def _store_runs(self, kernel: _Kernel, values: list[Expr], row: Dim, place: Dim) -> list[Stmt]:
        """Stores of an element's sorted values into a run."""
        at = row * self.length + place
        return [Store(b, at, value) for b, value in zip(kernel.globals(self.runs), values, strict=True)]

    def _store_results(self, kernel: _Kernel, values: list[Expr], row: Dim, place: Dim) -> list[Stmt]:
        """The element of each result at a place of a row: a key, the place where it was, or what stands there."""
        k, stores = kernel.k, list[Stmt]()
        target, source = self.row(row, self.limit), self.row(row, self.length)
        to = target.first + place * target.step
        for result, what in zip(self.results, self.ordering.results, strict=True):
            out = kernel.store(result)
            if isinstance(what, int):
                stores.append(Store(out, to, values[what]))
            elif what is None:
                stores.append(Store(out, to, k.cast(values[-1], result.dtype)))
            else:
                origin = source.first + k.bind(k.cast(values[-1], dtypes.int64)) * source.step
                if what.dtype.kind is Kind.COMPLEX:
                    pair = k.load_pair(kernel.load(what), origin, what.dtype, None)
                    stores += [Store(out, to * 2 + part, e) for part, e in enumerate((pair.real, pair.imag))]
                else:
                    stores.append(Store(out, to, k.load(kernel.load(what), origin)))
        return stores


class _Kernel:
    """A kernel in the making: its buffers by the values that lie in them, and its scratch."""

    def __init__(self, sort: _Sort, buffers: dict[Value, Buffer] | None = None) -> None:
        self.sort, self.k = sort, ExprBuilder()
        self.buffers = {} if buffers is None else buffers
        self.scratch: tuple[Buffer, ...] = ()

    def _buffer(self, value: Value, name: str) -> Buffer:
        return self.buffers.setdefault(value, Buffer(name, part_dtype(value.dtype)))

    def load(self, operand: Value) -> Buffer:
        return self._buffer(self.sort.stored[operand], "in")

    def store(self, result: Value) -> Buffer:
        return self._buffer(self.sort.stored[result], "out")

    def globals(self, values: Sequence[Value]) -> tuple[Buffer, ...]:
        return tuple([self._buffer(value, "run") for value in values])

    def scratch_for(self, size: int) -> tuple[Buffer, ...]:
        """Scratch for so many elements."""
        self.scratch = tuple([Buffer("sorted", dtype, Space.SCRATCH, size) for dtype in self.sort.dtypes])
        return self.scratch

    def variant(self, body: tuple[Stmt, ...], note: str, condition: Condition | None = None) -> Variant:
        buffers = tuple(self.buffers.values())
        name = self.sort.group.name
        return bind_kernel(body, buffers, self.scratch, name=name, condition=condition, note=note)


def _power(number: int) -> int:
    """The greatest power of two that is no more than a number."""
    return 1 << (number.bit_length() - 1)
