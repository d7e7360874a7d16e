"""Errors that a program finds in data, as TensorFlow's kernels do: of a branch or a loop, once that is over."""

from __future__ import annotations

from typing import Any

from dyn.errors import DomainError, ShapeError
from dyn.frozen import record
from dyn.shapes import Reason, Relation, RelKind, literal
from dyn.source import Loc
from dyn.trace.data_dependent import dim_from_value


@record()
class DataFault:
    """An error: its text, its class, the user's line, and what is to be done about it."""

    text: str
    error: type[ShapeError | DomainError]
    loc: Loc
    remedy: str

    def raise_where(self, found: Any) -> None:
        """Have the program raise it where a truth value of the program is true."""
        trace = found._trace.here
        count = dim_from_value(trace, found.astype("int64")._value, "fault", "1 where that is so")
        reason = Reason.about(literal(self.text), (), self.loc, self.error, self.remedy)
        trace.require(Relation(RelKind.EQ, count, 0, reason))
