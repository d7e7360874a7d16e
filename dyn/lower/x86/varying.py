"""Values that differ between the lanes, known before any of them is emitted: a fold needs its type first."""

from __future__ import annotations

from dyn.schedule.kernel import Expr, Index, Kernel, Load, Loop, Ref, Role, Stmt, Update
from dyn.schedule.kernel_walks import children, walk_stmts
from dyn.shapes import Symbol, SymExpr


class Varying:
    """Answers for one kernel whether an expression is varying inside its LANE loop."""

    def __init__(self, kernel: Kernel) -> None:
        self.symbols: set[Symbol] = set()
        self._known: dict[int, bool] = {}
        for stmt in walk_stmts(kernel.body):
            if isinstance(stmt, Loop) and stmt.role is Role.LANE:
                self.symbols.add(stmt.var)
        self._block(kernel.body)

    def _block(self, body: tuple[Stmt, ...]) -> None:
        """Decide references, inner ones first. What a LANE loop folds is uniform after it."""
        for stmt in body:
            if isinstance(stmt, Loop):
                if stmt.carries:
                    self._carried(stmt)
                self._block(stmt.body)
                for fold in stmt.folds:
                    varies = stmt.role is not Role.LANE and any(self(value) for value in fold.values)
                    self._known.update((id(ref), varies) for ref in fold.refs)
            elif isinstance(stmt, Update) and stmt.state is not None:
                moves = isinstance(stmt.index, SymExpr) and not self.symbols.isdisjoint(stmt.index.symbols)
                self._known[id(stmt.state)] = moves or any(self(value) for _, value in stmt.bound)

    def _carried(self, loop: Loop) -> None:
        """Decide what a loop carries: a state is varying where its first value or a later one is.

        A value may depend on every state, so more are found varying until none is: what follows from states that were
        thought uniform is forgotten in between.
        """
        varying = [self(carry.init) for carry in loop.carries]
        while True:
            before = self._known
            self._known = dict(before)
            for carry, varies in zip(loop.carries, varying, strict=True):
                self._known[id(carry.state)] = self._known[id(carry.ref)] = varies
            self._block(loop.body)
            found = [v or self(carry.value) for v, carry in zip(varying, loop.carries, strict=True)]
            if found == varying:
                return
            varying, self._known = found, before

    def __call__(self, root: Expr) -> bool:
        known = self._known
        stack = [root]
        while stack:  # what is known already is not walked again
            expr = stack[-1]
            missing = [] if id(expr) in known else [c for c in children(expr) if id(c) not in known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if id(expr) not in known:
                known[id(expr)] = any(known[id(child)] for child in children(expr)) or self._itself(expr)
        return known[id(root)]

    def _itself(self, expr: Expr) -> bool:
        if isinstance(expr, Ref):
            raise AssertionError(f"{expr.name} is used before it is computed")
        index = expr.index if isinstance(expr, Load) else expr.expr if isinstance(expr, Index) else 0
        return isinstance(index, SymExpr) and not self.symbols.isdisjoint(index.symbols)
