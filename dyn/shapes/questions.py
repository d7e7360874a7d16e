"""Questions about dims by kind, each of which is whether a relation holds."""

from __future__ import annotations

from collections.abc import Iterable

from dyn.shapes.expr import Dim, product
from dyn.shapes.joins import broadcast
from dyn.shapes.relation import Answer, Reason, Relation, RelKind, Verdict

PROVED = Answer(Verdict.PROVED)
UNKNOWN = Answer(Verdict.UNKNOWN)
_ASKED = Reason("it was asked")


class DimQuestions:
    """Base of what proves relations and simplifies dims. It knows nothing itself."""

    __slots__ = ()

    def ask(self, relation: Relation) -> Answer:
        """Whether the relation holds."""
        raise NotImplementedError

    def simplify(self, dim: Dim) -> Dim:
        """The canonical representative of a dim."""
        raise NotImplementedError

    def eq(self, a: Dim, b: Dim) -> Answer:
        """Whether ``a == b``."""
        return PROVED if a is b else self.ask(Relation(RelKind.EQ, a, b, _ASKED))

    def same(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` is proved. What is not may be false or unknown."""
        return self.eq(a, b).proved

    def ge(self, a: Dim, b: Dim) -> Answer:
        """Whether ``a >= b``."""
        return PROVED if a is b else self.ask(Relation(RelKind.GE, a, b, _ASKED))

    def gt(self, a: Dim, b: Dim) -> Answer:
        """Whether ``a > b``."""
        return self.ask(Relation(RelKind.GE, a, b + 1, _ASKED))

    def divides(self, k: Dim, a: Dim) -> Answer:
        """Whether ``a`` is a multiple of ``k``; of 0 only 0 is."""
        return self.ask(Relation(RelKind.DIVIDES, k, a, _ASKED))

    def same_numel(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> Answer:
        """Whether two shapes have as many elements."""
        if a == b:
            return PROVED
        return self.ask(Relation(RelKind.SAME_NUMEL, product(a), product(b), _ASKED, a, b))

    def nonzero(self, a: Dim) -> Answer:
        """Whether ``a != 0``."""
        return self.ask(Relation(RelKind.NONZERO, a, 0, _ASKED))

    def broadcasts(self, a: Dim, b: Dim) -> Answer:
        """Whether sizes ``a`` and ``b`` broadcast together: equal, or one of them 1."""
        return PROVED if a is b else self.ask(Relation(RelKind.BROADCASTS, a, b, _ASKED))

    def broadcasts_to(self, size: Dim, wanted: Dim) -> Answer:
        """Whether an axis of one size broadcasts to another: ``size`` is 1 or ``wanted``.

        That is ``broadcast(size, wanted) == wanted``, or what may be proved where that is not: that they are equal.
        """
        answer = self.eq(broadcast(size, wanted), wanted)
        return answer if answer.proved else self.eq(size, wanted)

    def simplify_shape(self, shape: Iterable[Dim]) -> tuple[Dim, ...]:
        """:meth:`simplify` of each axis."""
        return tuple([self.simplify(dim) for dim in shape])
