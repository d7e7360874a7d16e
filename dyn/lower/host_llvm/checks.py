"""Sizes that a host program reads off its arguments, and its checks of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from dyn.ir.binding import AxisCheck
from dyn.lower.host import Fault, HostProgram, InRegion
from dyn.lower.host_llvm.sizes import SizeEmitter
from dyn.lower.host_llvm.text import TENSOR, HostText
from dyn.schedule.launch import Body, Condition
from dyn.shapes import Declaration, Relation, RelKind, Symbol, free_symbols
from dyn.shapes.expr import atom_dim


class Checks:
    """Binds symbols to sizes, and computes i1s that are true where something is not as it has to be."""

    def __init__(self, program: HostProgram, text: HostText, sizes: SizeEmitter) -> None:
        self.program, self.text, self.sizes = program, text, sizes

    def bind(self, *, keep: bool) -> None:
        """Compute every symbol that follows from the arguments, and ``keep`` all values for a report."""
        for bind in self.program.binds:
            size = self._size(bind.input, bind.axis)
            if bind.offset != 0:
                size = self.sizes.checked("ssub", size, self.sizes.compute(bind.offset))
            if bind.factor != 1:  # where it does not divide, the axis is found to have another size
                size = self.sizes.floor_quotient(size, self.sizes.compute(bind.factor))
            self.sizes.know(bind.symbol, size)
            if keep:
                self.keep(bind.symbol, size)
        if keep:
            for symbol in self.program.symbols[len(self.program.binds) :]:
                self.keep(symbol, "0")

    def keep(self, symbol: Symbol, value: str) -> None:
        """Store a symbol's value for the report of a failure."""
        slot = self.text.value(f"getelementptr i64, ptr %values, i64 {self.program.symbols.index(symbol)}")
        self.text.emit(f"store i64 {value}, ptr {slot}, align 8")

    def due(self, measured: Symbol | None) -> list[tuple[int, str]]:
        """The checks that can be made now, and could not before ``measured`` was known: sites and i1s."""
        return [
            (number, self.check(site))
            for number, site in enumerate(self.program.sites)
            if not isinstance(site, Fault | InRegion) and self.sizes.scope.is_due(_symbols(site), measured)
        ]

    def demands(self, bodies: Sequence[Body], due: Callable[[Collection[Symbol]], bool]) -> list[tuple[int, str]]:
        """The checks of what regions demand, where it is about dims for which ``due`` holds."""
        return [
            (self.program.sites.index(InRegion(relation)), self.check(relation))
            for body in bodies
            for relation in body.demands
            if due(relation.symbols())
        ]

    def check(self, site: AxisCheck | Relation | Declaration) -> str:
        """An i1 that is true when a check fails."""
        value = self.text.value
        if isinstance(site, AxisCheck):
            return value(f"icmp ne i64 {self._size(site.input, site.axis)}, {self.sizes.compute(site.dim)}")
        if isinstance(site, Declaration):
            size = self.sizes.compute(atom_dim(site.symbol))
            bad = value(f"icmp slt i64 {size}, {site.min}")
            if site.max is not None:
                bad = value(f"or i1 {bad}, {value(f'icmp sgt i64 {size}, {min(site.max, 2**63 - 1)}')}")
            rest = value(f"srem i64 {size}, {site.multiple_of}")
            return value(f"or i1 {bad}, {value(f'icmp ne i64 {rest}, 0')}")
        return self._relation(site.kind, self.sizes.compute(site.lhs), self.sizes.compute(site.rhs))

    def _relation(self, kind: RelKind, lhs: str, rhs: str) -> str:
        value = self.text.value
        if kind in (RelKind.EQ, RelKind.SAME_NUMEL):
            return value(f"icmp ne i64 {lhs}, {rhs}")
        if kind is RelKind.GE:
            return value(f"icmp slt i64 {lhs}, {rhs}")
        if kind is RelKind.NONZERO:
            return value(f"icmp eq i64 {lhs}, 0")
        if kind is RelKind.DIVIDES:
            # Of 0 only 0 is a multiple.
            none = value(f"icmp eq i64 {lhs}, 0")
            rest = value(f"select i1 {none}, i64 {rhs}, i64 {self.sizes.floor_rest(rhs, lhs)}")
            return value(f"icmp ne i64 {rest}, 0")
        return self.sizes.differ(lhs, rhs)

    def holds(self, condition: Condition) -> str:
        """An i1: whether a dim is within its bounds."""
        dim = self.sizes.dim(condition.dim)
        holds = self.text.value(f"icmp sge i64 {dim}, {condition.low}")
        if condition.high is not None:
            holds = self.text.value(f"and i1 {holds}, {self.text.value(f'icmp sle i64 {dim}, {condition.high}')}")
        return holds

    def _size(self, input: int, axis: int) -> str:
        field = self.text.value(f"getelementptr {TENSOR}, ptr %in, i64 {input}, i32 3")
        dims = self.text.value(f"load ptr, ptr {field}, align 8")
        at = self.text.value(f"getelementptr i64, ptr {dims}, i64 {axis}")
        return self.text.value(f"load i64, ptr {at}, align 8")


def _symbols(site: AxisCheck | Relation | Declaration) -> frozenset[Symbol]:
    """Symbols that a check mentions."""
    if isinstance(site, AxisCheck):
        return free_symbols(site.dim)
    return frozenset({site.symbol}) if isinstance(site, Declaration) else site.symbols()
