"""Replay of a call: its program op by op at these sizes, up to the first NaN, infinity, or wrong result."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, Literal, get_args

import numpy as np

from dyn.diagnosis.cases import Case, Traceable, case_of
from dyn.diagnosis.differences import Difference, first_difference
from dyn.diagnosis.rounding import rounding_of_op
from dyn.diagnosis.stepping import OwnKernels, Steps, has_kernel
from dyn.errors import InvalidValueError
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.passes.nan_checks import first_not_finite, typed, value_range
from dyn.source import Loc
from dyn.trace.pytree import unflatten

Array = np.ndarray[Any, Any]
#: What ends a replay.
Cause = Literal["nan", "infinity", "difference"]
#: Sizes that a replay's text has.
_MOST_SIZES = 12
_KINDS: Mapping[str, str] = {"nan": "NaN", "infinity": "infinity"}


@record(eq=False)
class Stop:
    """The op at which a replay has stopped.

    Attributes:
        cause: ``"nan"``, ``"infinity"`` or ``"difference"``.
        op: name of the operation.
        loc: the user's line, and the part of a model that ran it.
        operands: the arrays that it was given.
        results: the arrays that it made.
        text: what was found, in words.
        step: how many operations had run.
    """

    cause: Cause
    op: str
    loc: Loc
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    text: str
    step: int

    def __str__(self) -> str:
        lines = [f"step {self.step}, {self.op}: {self.text}", f"  at {self.loc.describe()}"]
        lines += [f"  operand {n} is {typed(x)}{_range(x)}" for n, x in enumerate(self.operands)]
        return "\n".join(lines)


class _ProgramDebugger(pdb.Pdb):
    """A debugger that steps through a program's code alone; breakpoints elsewhere work."""

    def __init__(self, file: str) -> None:
        super().__init__(nosigint=True)
        self._file = file

    def stop_here(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename == self._file and super().stop_here(frame)


class _Stopped(Exception):
    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        super().__init__(str(stop))


class Replay:
    """A call of a compiled function, repeated op by op with dyn's own kernels, each checked against NumPy's.

    Attributes:
        steps: how many operations ran, those of loops each time.
        stop: the :class:`~dyn.diagnosis.replay.Stop`, or None where all went well.
        result: what the function returns, with NumPy's arrays; None where it stopped. Of PyTorch's and TensorFlow's
            functions a sequence of what the program gives: what they return, and what they write.
        is_left: True where the debugger was told to quit.
        code: the program as Python code, a line an operation, as the debugger shows it.
    """

    def __init__(
        self,
        case: Case,
        stop_at: Sequence[Cause] = ("nan", "infinity", "difference"),
        tolerance: float | None = None,
        debugger: bool | pdb.Pdb = False,
    ) -> None:
        self._case, self._tolerance = case, tolerance
        self._stop_at: tuple[Cause, ...] = tuple(stop_at)
        for cause in self._stop_at:
            if cause not in get_args(Cause):
                raise InvalidValueError(
                    f"replay: stop_at has {cause!r}.", remedy=f"it is some of {', '.join(map(repr, get_args(Cause)))}."
                )
        self.steps = 0
        self.stop: Stop | None = None
        self.result: Any = None
        self.is_left = False
        self._run = Steps(case, OwnKernels(), keeps_values=debugger is not False)
        self._debugger = _ProgramDebugger(self._run.file) if debugger is True else debugger or None
        try:
            results = self._run.run(self._watch, None if self._debugger is None else self._debugger.runcall)
        except _Stopped as stopped:
            self.stop = stopped.stop
        else:
            # A debugger's "quit" ends the call without results.
            self.is_left = results is None
            self.result = None if results is None else unflatten(case.out_tree, list(results))

    @property
    def code(self) -> str:
        """The program as Python code."""
        return self._run.text

    def again(
        self, *, stop_at: Sequence[Cause] | None = None, tolerance: float | None = None,
        debugger: bool | pdb.Pdb = False,
    ) -> Replay:  # fmt: skip
        """Repeat the same call in another way.

        Args:
            stop_at: some of ``"nan"``, ``"infinity"`` and ``"difference"``; None: as before. With ``()`` it does not
                stop.
            tolerance: largest difference from the reference that is none, relative to the largest element of a result;
                None: what rounding explains for the dtype.
            debugger: step through the program with pdb: it begins before the first operation, and stops again where
                something is found. Each operation is a line, and its result a variable. Or a debugger of one's own.

        Returns:
            Another :class:`~dyn.diagnosis.replay.Replay`.
        """
        return Replay(self._case, self._stop_at if stop_at is None else stop_at, tolerance, debugger)

    def _watch(self, op: Op, operands: Sequence[Array], outer: Mapping[Value, Array], results: Sequence[Array]) -> None:
        self.steps += 1
        found = self._found(op, operands, outer, results)
        if found is None:
            return
        cause, text = found
        stop = Stop(cause, op.opdef.name, op.loc, tuple(operands), tuple(results), text, self.steps)
        if self._debugger is not None:
            self._debugger.message(str(stop))
            self._debugger.set_next(self._frame())
            self._stop_at = tuple([one for one in self._stop_at if one != cause])  # it is known now
            self.stop = self.stop or stop
            return
        raise _Stopped(stop)

    def _frame(self) -> FrameType:
        """The innermost frame of the program's code."""
        frame = sys._getframe()
        while frame.f_code.co_filename != self._run.file:
            assert frame.f_back is not None, "the program's code is running"
            frame = frame.f_back
        return frame

    def _found(
        self, op: Op, operands: Sequence[Array], outer: Mapping[Value, Array], results: Sequence[Array]
    ) -> tuple[Cause, str] | None:
        if not has_kernel(op):
            return None
        kinds = [_KINDS[cause] for cause in self._stop_at if cause in _KINDS]
        inexact = [[x for x in arrays if _is_inexact(x)] for arrays in (results, (*operands, *outer.values()))]
        not_finite = first_not_finite(inexact[0], inexact[1], kinds) if kinds else None
        if "difference" in self._stop_at:
            with np.errstate(all="ignore"):
                unlike = self._difference(op, operands, outer, results)
            if unlike is not None:
                return "difference", f"differs from the reference in {unlike}"
        if not_finite is not None:
            return ("nan" if "NaN" in not_finite else "infinity"), f"made {not_finite}"
        return None

    def _difference(
        self, op: Op, operands: Sequence[Array], outer: Mapping[Value, Array], results: Sequence[Array]
    ) -> Difference | None:
        """The difference of an op's results from its reference's."""
        wanted = self._run.reference(op, operands, outer)
        unlike = first_difference(results, wanted, self._tolerance)
        if unlike is None:
            return None
        determined = op.opdef.determined

        def known(given: Sequence[Array], found: Sequence[Array]) -> Sequence[Array]:
            return found if determined is None else determined(given, found)

        # Where terms cancel, or a matrix nearly has no inverse, rounding alone is larger than the result's digits.
        rounding = None
        if self._tolerance is None:
            rounding = rounding_of_op(op, operands, lambda given: known(given, self._run.reference(op, given, outer)))
        if rounding is None and determined is None:
            return unlike
        made, others = known(operands, results), known(operands, wanted)
        still = first_difference(made, others, self._tolerance, rounding or ())
        return still if determined is None or still is None else unlike

    def __repr__(self) -> str:
        name = self._case.function.name
        said = [f"{symbol.name} = {size}" for symbol, size in self._case.env.items()]
        more = [f"{len(said) - _MOST_SIZES} more sizes"] if len(said) > _MOST_SIZES else []
        sizes = ", ".join([*said[:_MOST_SIZES], *more])
        heading = f"replay of {name} at {sizes}" if sizes else f"replay of {name}"
        if self.stop is None:
            end = "left in the debugger" if self.is_left else "nothing found"
            return f"{heading}: {self.steps} operations, {end}"
        return f"{heading}: stopped\n{self.stop}\n  step through it with .again(debugger=True)"


def replay(function: Traceable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Replay:
    """The replay of a call."""
    return Replay(case_of(function, args, kwargs))


def _is_inexact(x: Array) -> bool:
    return np.asarray(x).dtype.kind in "fcV" and x.size > 0


def _range(x: Array) -> str:
    return "" if x.dtype.kind == "b" else value_range(x)
