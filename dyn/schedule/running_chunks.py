"""Running reductions with lanes: chunk by chunk, each by a scan of scans; or in parts, whose totals lanes fold.

A chunk is read in its order into scratch. There each lane combines a few elements that follow one another, and leaves
what they come to; a few lanes do the same with these totals, and each of them once more with theirs. An element is then
what came before the chunk, before the group of lanes, before the lane, and before it in the lane, combined in this
order (Blelloch, "Prefix sums and their applications", 1990, with two levels of lanes). What a chunk comes to is carried
to the next one.

Lanes read elements that lie an odd number of places apart, in different banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn.schedule.axes import Axis
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Apply, Buffer, Carry, Expr, Load, Loop, Ref, Role, Space, Stmt, Store, scalar_fold
from dyn.schedule.nest import Scan
from dyn.schedule.order import Order
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, floordiv, mod, substitute
from dyn.shapes import symbol as new_symbol

#: Lanes whose totals one lane scans.
_GROUP = 16


def scan_in_chunks(
    step: Axis, body: Sequence[Stmt], carry: Carry, scan: Scan, lanes: int, each: int
) -> tuple[tuple[Stmt, ...], list[Buffer]]:
    """The code of a running reduction over an axis, for ``lanes`` lanes, and the scratch that it needs.

    ``body`` stores what ``carry.value`` gives, which combines its state and an element.
    """
    return _Chunks(step, carry, scan, lanes, each).code(body)


def scan_in_parts(step: Axis, body: Sequence[Stmt], carry: Carry, scan: Scan, part: int, order: Order | None) -> Loop:
    """The code of a running reduction over an axis, in parts: lanes fold each part in ``order``, and its elements start
    from what the parts before it come to. Launches in parts do the same, each with a step of this (``running.py``).
    """
    which, lane, each = _variable("q"), _variable("t"), _variable("j")
    size = dim_min(part, step.extent - as_dim(which) * part)
    dtype = carry.ref.dtype

    def at(place: Symbol) -> Rewriter:
        where = as_dim(which) * part + as_dim(place)
        return Rewriter(lambda dim: substitute(dim, {step.var: where}))

    assert isinstance(carry.value, Apply)
    total, before, state = Ref("total", dtype), Ref("before", dtype), Ref("state", dtype)
    fold = scalar_fold(total, scan.combine, scan.start, at(lane).expr(carry.value.args[1]))
    rewriter = at(each)
    value = Apply(scan.combine, (state, rewriter.expr(carry.value.args[1])), dtype)
    rewriter.exprs[id(carry.value)] = value
    run = Loop(
        Role.SERIAL, each, size, rewriter.block(tuple(body)), carries=(Carry(Ref("last", dtype), state, before, value),)
    )
    follows = Carry(carry.ref, before, carry.init, Apply(scan.combine, (before, total), dtype))
    parts = floordiv(step.extent + (part - 1), part)
    lanes = Loop(Role.LANE, lane, size, folds=(fold,), order=order)
    return Loop(Role.SERIAL, which, parts, (lanes, run), carries=(follows,))


class _Chunks:
    def __init__(self, step: Axis, carry: Carry, scan: Scan, lanes: int, each: int) -> None:
        self.step, self.carry, self.scan, self.lanes, self.each = step, carry, scan, lanes, each
        self.dtype = carry.ref.dtype
        groups = lanes // _GROUP

        def scratch(name: str, size: int) -> Buffer:
            return Buffer(name, self.dtype, Space.SCRATCH, size)

        self.elements = scratch("chunk", lanes * (each + 1))
        self.totals, self.before = scratch("totals", lanes + groups), scratch("before", lanes + groups)
        self.groups, self.ahead = scratch("groups", groups), scratch("ahead", groups)
        self.chunk = new_symbol("q", "a loop variable")
        self.left = step.extent - as_dim(self.chunk) * (lanes * each)

    def code(self, body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], list[Buffer]]:
        size, groups = self.lanes * self.each, self.lanes // _GROUP
        last = self.combined(Load(self.ahead, groups - 1), Load(self.groups, groups - 1))
        follows = Carry(self.carry.ref, self.carry.state, self.carry.init, self.combined(self.carry.state, last))
        parts = [self.read(), self.scan_lanes(), self.scan_groups(), self.scan_totals()]
        if body:
            parts.append(self.written(body))
        chunks = floordiv(self.step.extent + (size - 1), size)
        loop = Loop(Role.SERIAL, self.chunk, chunks, tuple(parts), carries=(follows,))
        return (loop,), [self.elements, self.totals, self.before, self.groups, self.ahead]

    def combined(self, *values: Expr) -> Expr:
        """Values that follow one another, as one."""
        first, *others = values
        for other in others:
            first = Apply(self.scan.combine, (first, other), self.dtype)
        return first

    def at_step(self, place: Dim) -> Rewriter:
        """Rewrites the code of a step for an element of the chunk."""
        where = as_dim(self.chunk) * (self.lanes * self.each) + place
        return Rewriter(lambda dim: substitute(dim, {self.step.var: where}))

    def place(self, element: Dim) -> Dim:
        """The place in scratch of an element of the chunk."""
        return floordiv(element, self.each) * (self.each + 1) + mod(element, self.each)

    def read(self) -> Loop:
        """Every element into scratch, in order."""
        var = _variable("t")
        assert isinstance(self.carry.value, Apply)
        element = self.at_step(as_dim(var)).expr(self.carry.value.args[1])
        return self.along(var, Store(self.elements, self.place(as_dim(var)), element))

    def along(self, var: Symbol, *body: Stmt) -> Loop:
        return Loop(Role.LANE, var, dim_min(self.lanes * self.each, self.left), body)

    def scan_lanes(self) -> Loop:
        """The elements of each lane, and what they come to."""
        lane, j = _variable("l"), _variable("j")
        place = as_dim(lane) * (self.each + 1) + as_dim(j)
        some = dim_min(self.each, dim_max(self.left - as_dim(lane) * self.each, 0))
        state, total = Ref("state", self.dtype), Ref("total", self.dtype)
        value = self.combined(state, Load(self.elements, place))
        carry = Carry(total, state, self.scan.start, Load(self.elements, place))  # once it has been stored
        run = Loop(Role.SERIAL, j, some, (Store(self.elements, place, value),), carries=(carry,))
        return Loop(Role.LANE, lane, self.lanes, (run, Store(self.totals, self.padded(as_dim(lane)), total)))

    def padded(self, lane: Dim) -> Dim:
        return lane + floordiv(lane, _GROUP)

    def scan_groups(self) -> Loop:
        """The loop that combines the lanes before each in its group, and each group as a whole."""
        return self.exclusive(self.lanes // _GROUP, _GROUP, self.totals, self.before, self.groups)

    def scan_totals(self) -> Loop:
        """The loop that combines the groups before each: every one goes through those before it."""
        group, other = _variable("g"), _variable("h")
        state, result = Ref("state", self.dtype), Ref("ahead", self.dtype)
        value = self.combined(state, Load(self.groups, as_dim(other)))
        run = Loop(Role.SERIAL, other, as_dim(group), carries=(Carry(result, state, self.scan.start, value),))
        return Loop(Role.LANE, group, self.lanes // _GROUP, (run, Store(self.ahead, as_dim(group), result)))

    def exclusive(self, count: int, length: int, source: Buffer, target: Buffer, totals: Buffer) -> Loop:
        lane, j = _variable("g"), _variable("j")
        place = as_dim(lane) * (length + 1) + as_dim(j)
        state, total = Ref("state", self.dtype), Ref("total", self.dtype)
        carry = Carry(total, state, self.scan.start, self.combined(state, Load(source, place)))
        run = Loop(Role.SERIAL, j, length, (Store(target, place, state),), carries=(carry,))
        return Loop(Role.LANE, lane, count, (run, Store(totals, as_dim(lane), total)))

    def written(self, body: Sequence[Stmt]) -> Loop:
        """Every element's result."""
        var = _variable("t")
        lane = floordiv(as_dim(var), self.each)
        parts = Load(self.ahead, floordiv(lane, _GROUP)), Load(self.before, self.padded(lane))
        result = self.combined(self.carry.state, *parts, Load(self.elements, self.place(as_dim(var))))
        rewriter = self.at_step(as_dim(var))
        rewriter.exprs[id(self.carry.value)] = result
        return self.along(var, *rewriter.block(tuple(body)))


def _variable(name: str) -> Symbol:
    return new_symbol(name, "a loop variable")
