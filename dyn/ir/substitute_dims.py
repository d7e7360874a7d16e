"""Programs rewritten over other dims: each dim in types and attributes replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dyn.ir.core import Attr, Function, Op, Region, Value, map_attr_dims
from dyn.shapes import Dim, Facts, Relation, Symbol, SymExpr, substitute


class Redimension:
    """Values, ops and regions over other dims. Values whose types do not change stay the same."""

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self._dims: dict[SymExpr, Dim] = {}

    def replacement(self, dim: SymExpr) -> Dim:
        """The dim that takes another's place; asked for once."""
        raise NotImplementedError

    def dim(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        found = self._dims.get(dim)
        if found is None:
            found = self._dims[dim] = self.replacement(dim)
        return found

    def attrs(self, op: Op) -> Mapping[str, Attr]:
        return map_attr_dims(op.attrs, self.dim)

    def value(self, value: Value) -> Value:
        found = self.values.get(value)
        if found is None:
            shape = tuple([self.dim(d) for d in value.shape])
            same = all(a is b for a, b in zip(shape, value.shape, strict=True))
            found = self.values[value] = value if same else Value(value.type.with_shape(shape), value.name)
        return found

    def op(self, op: Op) -> Op:
        return replace(
            op,
            operands=tuple([self.value(v) for v in op.operands]),
            attrs=self.attrs(op),
            results=tuple([self.value(v) for v in op.results]),
            regions=tuple([self.region(region) for region in op.regions]),
        )

    def region(self, region: Region) -> Region:
        return Region(
            tuple([self.value(v) for v in region.params]),
            tuple([self.op(op) for op in region.ops]),
            tuple([self.value(v) for v in region.results]),
            self.demands(region.demands),
        )

    def function(self, function: Function, facts: Facts) -> Function:
        """The function under facts about the dims that it has then."""
        return replace(
            function,
            params=tuple([self.value(v) for v in function.params]),
            infos=tuple(
                [
                    info if info.dims is None else replace(info, dims=tuple([self.dim(d) for d in info.dims]))
                    for info in function.infos
                ]
            ),
            ops=tuple([self.op(op) for op in function.ops]),
            results=tuple([self.value(v) for v in function.results]),
            facts=facts,
        )

    def demands(self, demands: tuple[Relation, ...]) -> tuple[Relation, ...]:
        """The demands of a region. They stay as they are: that is what is checked."""
        return demands


class Substitution(Redimension):
    """The program with symbols replaced, in what regions demand too. Needs nothing of the facts: what they said of the
    symbols has to hold of what takes their places."""

    def __init__(self, dims: Mapping[Symbol, Dim]) -> None:
        super().__init__()
        self._env = dims

    def replacement(self, dim: SymExpr) -> Dim:
        return substitute(dim, self._env)

    def demands(self, demands: tuple[Relation, ...]) -> tuple[Relation, ...]:
        return tuple([relation.substituted(self._env) for relation in demands])
