"""Programs that commute with permutations of axes: elementwise ones, in which all axes are treated alike.

If ``f(transpose(x, p), transpose(y, p)) == transpose(f(x, y), p)`` for every ``p``, arrays that lie in memory in
another order of axes than row by row need no copy: the compiled program runs over them as they lie, and its results lie
in that order, as those of NumPy's and PyTorch's own elementwise operations do. Each element is computed by the same
code, so it has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dyn.ir.core import Attr, Function, Op
from dyn.ir.elementwise import elementwise_rank
from dyn.ir.opdef import OpKind
from dyn.passes.inline_calls import inline_calls
from dyn.shapes import Dim, Relation, Symbol, SymExpr, as_dim, substitute
from dyn.stitch.access import axis_symbols, view_index


def symmetric_rank(function: Function) -> int:
    """The rank of the arrays whose axes may be permuted, all arguments' alike, with the results'; 0 where that is not
    proved. Arguments and results without axes may be there beside them.

    What is proved: each axis has dims of its own, and with those of axis 0 in the place of its own every shape, index
    and fact of another axis is that of axis 0. Facts count, as code may rest on them: declared sizes, guards, checks.
    """
    rank = elementwise_rank(function)
    if rank == 0:
        return 0
    captured = [p for p, info in zip(function.params, function.infos, strict=True) if info.hidden and p.type.rank]
    axes = None if captured else _Axes.of(function, rank)
    if axes is None or not axes.facts_agree(function):
        return 0
    return axes.rank if all(axes.is_alike(op) for op in inline_calls(function).ops) else 0


class _Axes:
    """The symbols of each axis, with what they are in axis 0."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.first: list[dict[Symbol, Dim]] = [{} for _ in range(rank)]

    @staticmethod
    def of(function: Function, rank: int) -> _Axes | None:
        """The axes of a function's arguments; None where they are not alike."""
        axes = _Axes(rank)
        shapes = [p.shape for p in function.params] + [i.dims for i in function.infos if i.dims is not None]
        for shape in [shape for shape in shapes if shape]:
            for axis, dim in enumerate(shape):
                symbol, first = _symbol(dim), _symbol(shape[0])
                if symbol is None or first is None:
                    continue
                if axes.first[axis].setdefault(symbol, as_dim(first)) != as_dim(first):
                    return None
        symbols = [symbol for own in axes.first for symbol in own]
        distinct = len(symbols) == len(set(symbols)) and all(len(own) == len(set(own.values())) for own in axes.first)
        return axes if distinct and all(axes.is_same(shape) for shape in shapes if shape) else None

    def is_same(self, dims: tuple[Dim, ...], own: Mapping[Symbol, Dim] | None = None) -> bool:
        """Whether a dim for each axis is the same for all; ``own`` are symbols that stand for themselves."""
        mapped: set[Dim] = set()
        for dim, first in zip(dims, self.first, strict=True):
            known = first if own is None else {**first, **own}
            if isinstance(dim, SymExpr) and not known.keys() >= set(dim.symbols):
                return False
            mapped.add(substitute(dim, known))
        return len(mapped) == 1

    def facts_agree(self, function: Function) -> bool:
        """Whether what is known of the dims of one axis is known of those of each, and nothing of several together."""
        known: list[set[object]] = [set() for _ in range(self.rank)]
        for relation in function.facts.relations:
            axis = self._axis(relation.symbols())
            if axis is None or relation.lhs_shape is not None or relation.rhs_shape is not None:
                return False
            known[axis].add(self._fact(relation, axis))
        for one in function.facts.declarations:
            limits = (one.min, one.max, one.multiple_of)
            axis = self._axis([one.symbol])
            if axis is not None:
                known[axis].add((substitute(as_dim(one.symbol), self.first[axis]), *limits))
            elif one.symbol in function.symbols():
                return False
        return all(facts == known[0] for facts in known)

    def _fact(self, relation: Relation, axis: int) -> object:
        return relation.kind, substitute(relation.lhs, self.first[axis]), substitute(relation.rhs, self.first[axis])

    def _axis(self, symbols: Iterable[Symbol]) -> int | None:
        """The axis of which all symbols are."""
        wanted = set(symbols)
        return next((axis for axis, own in enumerate(self.first) if wanted and wanted <= own.keys()), None)

    def is_alike(self, op: Op) -> bool:
        """Whether an op treats all axes alike."""
        values = (*op.operands, *op.results)
        if any(v.type.rank not in (0, self.rank) or (v.shape and not self.is_same(v.shape)) for v in values):
            return False
        if op.opdef.effects is not None and op.opdef.effects(op):
            return False
        match op.opdef.kind:
            case OpKind.POINTWISE | OpKind.GENERATE:
                made = op.opdef.kind is OpKind.GENERATE and any(v.shape for v in op.results)
                return not (made or op.regions or any(map(_has_dims, op.attrs.values())))
            case OpKind.VIEW:
                return self._is_alike_view(op)
            case _:
                return False

    def _is_alike_view(self, op: Op) -> bool:
        (operand, *_), (result,) = op.operands, op.results
        if not operand.shape or not result.shape:
            return not operand.shape
        symbols = axis_symbols(result.shape)
        index = view_index(op, tuple(map(as_dim, symbols)))
        own = symbols[0]
        renamed = [substitute(d, {symbols[axis]: as_dim(own)}) for axis, d in enumerate(index)]
        return self.is_same(tuple(renamed), {own: as_dim(own)})


def _symbol(dim: Dim) -> Symbol | None:
    return dim.is_symbol if isinstance(dim, SymExpr) else None


def _has_dims(attr: Attr) -> bool:
    return isinstance(attr, SymExpr) or (isinstance(attr, tuple) and any(map(_has_dims, attr)))
