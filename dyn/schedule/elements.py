"""The elements of a group's values as kernel expressions.

``ElementReader.at(value, index)`` follows a value back through the group's own ops, through views, and through the
scalar ops that belong to no group, to loads of stored arrays. Nothing is computed twice for one index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from dyn.dtypes import Kind
from dyn.errors import IRError
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.opdef import ElementLoops, Get, OpKind
from dyn.ops.complex_parts import part_dtype
from dyn.ops.scalar import Scalar
from dyn.ops.shape import stretched_size
from dyn.schedule.axes import linearize
from dyn.schedule.expressions import ExprBuilder, Pair
from dyn.schedule.kernel import Buffer, Expr, Store
from dyn.shapes import Atom, Dim, Symbol, SymExpr
from dyn.shapes.walk import map_atoms
from dyn.stitch.access import view_index
from dyn.stitch.groups import Group, Plan

Index = tuple[Dim, ...]
#: How many ops are followed by recursion; beyond, what is still needed is computed first.
_DEEPEST = 40


@record(eq=False)
class _Request:
    """An element that is asked for."""

    value: Value
    index: Index
    mask: Expr | None
    other: Expr | None

    def key(self) -> tuple[object, ...]:
        return (self.value, self.index, id(self.mask), id(self.other))


class _TooDeepError(Exception):
    """Unwinds to the first request, which then has ``request`` computed first."""

    def __init__(self, request: _Request) -> None:
        self.request = request


class ElementReader:
    """Reads and computes elements for one kernel, and collects the buffers it reads.

    ``stretched`` are the axes of stored arrays that an undecided broadcast may stretch: the axis's size, and the loop
    variable that indexes it, None where that is no single one; with the number of axes that the array has. With
    ``aligned`` each is taken to be as long as its loop, but those of the sizes in ``ones``, which are going to be 1.
    """

    def __init__(self, plan: Plan, group: Group, *, aligned: bool = False, ones: Collection[Dim] = frozenset()) -> None:
        self.aligned, self.ones = aligned, ones
        self.stretched: dict[tuple[Dim, Symbol | None], int] = {}
        self.plan = plan
        self.group = group
        self.k = ExprBuilder()
        self.producers = plan.producers
        self.members = {result: op for op in group.ops for result in op.results}
        self.inputs: dict[Value, Buffer] = {}
        #: Memory that the group's launches hand on to one another.
        self.temporaries: dict[Value, Buffer] = {}
        #: Members that are known otherwise than by computing them: a fold's result, a row kept in scratch.
        self.known: dict[Value, Callable[[Index], Expr]] = {}
        #: Makes an element of a reduction that is folded where it is read.
        self.folded: Callable[[Op, Index], Expr] | None = None
        self._memo: dict[tuple[object, ...], Expr | Pair] = {}
        self._depth = 0

    def forget(self) -> None:
        """Forget the elements that were computed: those of loops that are left are not known any more."""
        self._memo.clear()

    def storage(self, value: Value) -> Value | None:
        """The stored value whose memory holds ``value``'s elements in ``value``'s order, if there is one."""
        while value not in self.plan.stored or value in self.members:
            op = self.producers.get(value)
            if value in self.members or op is None or not op.opdef.keeps_order:
                return None
            value = op.operands[0]
        return value

    def at(self, value: Value, index: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        """The element of ``value`` at ``index``; where ``mask`` is false, ``other``, and nothing is read."""
        found = self.element(value, index, mask, other)
        if isinstance(found, Pair):
            raise IRError(f"{value!r} is complex where group {self.group.name} computes with it")
        return found

    def element(self, value: Value, index: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr | Pair:
        """:meth:`at`, of complex values too, which are stored or taken apart."""
        request = _Request(value, index, mask, other)
        found = self._memo.get(request.key())
        if found is not None:
            return found
        if self._depth == 0:
            return self._unwind(request)
        if self._depth > _DEEPEST:
            raise _TooDeepError(request)
        return self._compute(request)

    def stores(self, buffer: Buffer, place: Dim, value: Value, index: Index) -> tuple[Store, ...]:
        """Store the element of ``value`` at ``index`` as element ``place`` of a buffer: a complex one by its parts."""
        return _stores(buffer, place, self.element(value, index))

    def copies(self, buffer: Buffer, place: Dim, value: Value, offset: Dim) -> tuple[Store, ...]:
        """Store what lies at an offset in the memory of ``value``, which has some, as element ``place`` of a buffer."""
        stored = self.storage(value)
        if stored is None:
            raise IRError(f"{value!r} does not lie in memory, and group {self.group.name} copies it")
        if value.dtype.kind is Kind.COMPLEX:
            return _stores(buffer, place, self.k.load_pair(self._buffer(stored), offset, value.dtype, None))
        return _stores(buffer, place, self.k.load(self._buffer(stored), offset, None, None))

    def _unwind(self, request: _Request) -> Expr | Pair:
        """Compute an element, however long the chain of ops behind it."""
        pending = [request]
        while True:
            try:
                found = self._compute(pending[-1])
            except _TooDeepError as deep:
                self._depth = 0
                pending.append(deep.request)
                continue
            pending.pop()
            if not pending:
                return found

    def _compute(self, request: _Request) -> Expr | Pair:
        self._depth += 1
        found = self._memo[request.key()] = self._element(request)
        self._depth -= 1
        return found

    def _element(self, request: _Request) -> Expr | Pair:
        value, index, mask, other = request.value, request.index, request.mask, request.other
        while True:
            known = self.known.get(value)
            if known is not None:
                return known(index)
            stored = self.storage(value)
            if stored is not None:
                rank = len(value.shape)
                place = tuple(self._unstretched(i, size, rank) for i, size in zip(index, value.shape, strict=True))
                linear = linearize(place, value.shape)
                if value.dtype.kind is Kind.COMPLEX:
                    return self.k.load_pair(self._buffer(stored), linear, value.dtype, mask)
                return self.k.load(self._buffer(stored), linear, mask, other)
            op = self.producers.get(value)
            if op is not None and op in self.group.inner and op.opdef.kind is OpKind.REDUCE and self.folded is not None:
                return self.folded(op, index)
            if op is None or not isinstance(op.opdef.loops, ElementLoops):
                raise IRError(f"{value!r} is not reachable from group {self.group.name}")
            if op.opdef.kind is not OpKind.VIEW or op.operands[0].dtype is not value.dtype:  # parts are no plain view
                computed = op.opdef.loops.at(self.k, op, index, self._getter(op, mask, other))
                if mask is None or other is None or computed is other or isinstance(computed, Pair):
                    return computed
                return self.k.apply(Scalar.SELECT, [mask, computed, other], value.dtype)
            index = view_index(op, index)
            value = op.operands[0]

    def _unstretched(self, index: Dim, size: Dim, rank: int) -> Dim:
        """An index without the factors that make it 0 where an axis has size 1, when they are not wanted.

        With as many elements as the loop has iterations a factor changes nothing: it is 1, or the index is 0 anyway.
        """
        if isinstance(size, int) or isinstance(index, int):
            return index
        factors = {a: stretched_size(a) for mono, _ in index.terms for a, _ in mono.factors}
        stretching = [atom for atom, found in factors.items() if found is not None]
        if not stretching:
            return index
        plain = map_atoms(index, lambda a: None if factors.get(a) is None else 1)
        for atom, found in factors.items():
            if found is not None:
                self.stretched[found, _variable(index, atom, stretching)] = rank
        if self.ones:
            wanted = {atom: size for atom, size in factors.items() if size is not None and size not in self.ones}
            plain = map_atoms(index, lambda atom: 1 if atom in wanted else None)
        return plain if self.aligned else index

    def temporary(self, value: Value) -> Buffer:
        """The buffer of a value that one launch of the group writes for another."""
        return self.temporaries.setdefault(value, Buffer("parts", value.dtype))

    def _buffer(self, stored: Value) -> Buffer:
        buffer = self.inputs.get(stored)
        if buffer is None:
            buffer = self.inputs[stored] = Buffer(stored.name if stored.name else "in", part_dtype(stored.dtype))
        return buffer

    def _getter(self, op: Op, mask: Expr | None, other: Expr | None) -> Get:
        """Reader of an op's operands for its rule; an outer mask also holds for what the rule reads."""

        def get(i: int, index: Index, inner: Expr | None = None, inner_other: Expr | None = None) -> Expr | Pair:
            value = op.operands[i]
            if mask is None:
                return self.element(value, index, inner, inner_other)
            if inner is None:
                fill = other if other is not None and other.dtype is value.dtype else None
                if fill is None and value.dtype.kind is not Kind.COMPLEX:
                    fill = self.k.const(value.dtype, 0)
                return self.element(value, index, mask, fill)
            return self.element(value, index, self.k.both(mask, inner), inner_other)

        return get


def _variable(index: SymExpr, factor: Atom, factors: Collection[Atom]) -> Symbol | None:
    """The symbol that a factor, one of several that are 0 or 1, multiplies in an index; None where it multiplies
    anything else.

    With 1 in the factor's place the index is the same wherever the symbol is 0.
    """
    terms = [mono.factors for mono, _ in index.terms if any(atom == factor for atom, _ in mono.factors)]
    rest = [(atom, power) for term in terms for atom, power in term if atom not in factors]
    (atom, power), *more = rest or [(factor, 1)]
    return atom if isinstance(atom, Symbol) and power == 1 and not more and len(terms) == 1 else None


def _stores(buffer: Buffer, place: Dim, found: Expr | Pair) -> tuple[Store, ...]:
    """Store an element as number ``place`` of a buffer: a complex one by its parts."""
    if not isinstance(found, Pair):
        return (Store(buffer, place, found),)
    return (Store(buffer, place * 2, found.real), Store(buffer, place * 2 + 1, found.imag))


def constantly(expr: Expr) -> Callable[[Index], Expr]:
    """A definition that gives the same for every index."""
    return lambda index: expr
