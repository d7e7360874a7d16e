"""Reduction of a program that fails to the smallest one that still does, by delta debugging of its ops and sizes.

The algorithm is Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), of ops instead of
characters: what a part computes becomes an argument, with the elements that it had, and the rest is tried alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dyn.diagnosis.cases import Case, Traceable, case_of, part
from dyn.diagnosis.differences import first_difference
from dyn.diagnosis.rounding import rounding_of_results
from dyn.diagnosis.stored import StoredProgram, script_of
from dyn.errors import DynError, InvalidValueError
from dyn.frozen import record
from dyn.ir.binding import bind_function
from dyn.ir.core import Function, Op, ParamInfo, Value, with_operands
from dyn.ir.data_dependent import bound_dim
from dyn.ir.effects import has_effect
from dyn.ir.substitute_dims import Substitution
from dyn.shapes import Facts, Symbol, evaluate, free_symbols
from dyn.trace.pytree import list_tree
from dyn.trace.small_sizes import restated
from dyn.tracebacks import without_own_frames

Array = np.ndarray[Any, Any]
#: Tells how a program fails for some arrays, in a few words that stay the same while it is reduced; "" for not at all.
Fails = Callable[[StoredProgram, Sequence[Array]], str]


@record(eq=False)
class MinimalProgram:
    """The smallest program found that fails as another one does.

    Attributes:
        program: the program, to be called with ``arrays``, and bisected.
        arrays: its arguments.
        failure: how it fails, in words.
        before: the operations that the whole program has; ``after``: those that are left.
        path: the script that was written, if any.
    """

    program: StoredProgram
    arrays: tuple[Array, ...]
    failure: str
    before: int
    after: int
    path: str | None = None

    def __repr__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        operations = "operation" if self.after == 1 else "operations"
        return f"{self.after} {operations} of {self.before}{where}: {self.failure}\n{self.program.text}"


def differs_or_raises(program: StoredProgram, arrays: Sequence[Array], tolerance: float | None = None) -> str:
    """Failure of a program's compiled results: that they differ from NumPy's, or which error is raised."""
    try:
        wanted = program.reference(*arrays)
    except Exception:
        return ""  # no program for these arrays
    try:
        made = program(*arrays)
    except Exception as error:
        return f"raises {type(error).__name__}"
    found = first_difference(made, wanted, tolerance)
    if found is not None and tolerance is None:
        found = first_difference(made, wanted, rounding=rounding_of_results(case_of(program, arrays, {})))
    return "" if found is None else "differs from the reference"


@without_own_frames
def minify(
    function: Traceable | StoredProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    *,
    fails: Fails | None = None,
    path: str | os.PathLike[str] | None = None,
    tolerance: float | None = None,
    seconds: float = 120.0,
) -> MinimalProgram:
    """Find the smallest program that still fails as a call of a function does.

    Results that nobody needs go, then parts of the program, whose results become arguments; operations give way to
    their operands; sizes and elements get smaller. Functions outside of the program are called each time.

    Args:
        function: a compiled function of any front end.
        args: positional arguments of the call.
        kwargs: arguments by name.
        fails: tells how a program fails for some arrays, in a few words, or ``""``; a smaller program counts if the
            words are the same. None: that its results differ from NumPy's, or which error it raises.
        path: a script to write, which runs the program and bisects it; large arrays go into a ``.npz`` file beside it.
        tolerance: largest difference that is none, as :func:`dyn.bisect` has it.
        seconds: when to stop looking.

    Returns:
        A :class:`~dyn.diagnosis.minimal.MinimalProgram`.

    Raises:
        InvalidValueError: if the call does not fail.
        TraceError: if the function cannot be traced.
        ArgumentError: if arguments do not fit, or have no elements.
    """

    def default(program: StoredProgram, arrays: Sequence[Array]) -> str:
        return differs_or_raises(program, arrays, tolerance)

    case = case_of(function, args, kwargs)
    reducer = _Reducer(case, default if fails is None else fails, time.monotonic() + seconds)
    reducer.reduce()
    program = StoredProgram.of(reducer.case.function)
    found = MinimalProgram(
        program, reducer.case.arrays, reducer.failure, len(case.function.ops), len(reducer.case.function.ops)
    )
    if path is None:
        return found
    written = os.fspath(path)
    script_of(program, reducer.case.arrays, reducer.failure, written)
    return replace(found, path=written)


class _Reducer:
    """Tries smaller cases, and keeps those that fail alike."""

    def __init__(self, case: Case, fails: Fails, until: float) -> None:
        self._fails, self._until = fails, until
        self.case = case
        self.failure = self._failure(case)
        if not self.failure:
            raise InvalidValueError(
                f"minify: {case.function.name}() does not fail for these arguments.",
                remedy="say with fails= what is wrong with it.",
            )

    def _failure(self, case: Case) -> str:
        return self._fails(StoredProgram.of(case.function), case.arrays)

    def _try(self, case: Case | None) -> bool:
        """Keep a case if it fails alike."""
        if case is None or time.monotonic() > self._until:
            return False
        try:
            failure = self._failure(case)
        except Exception:
            return False
        if failure != self.failure:
            return False
        self.case = case
        return True

    def reduce(self) -> None:
        steps = (self._results, self._ends, self._parts, self._bypasses, self._sizes, self._elements)
        while time.monotonic() < self._until:
            before = self.case
            for step in steps:
                step()
            if self.case is before:
                break

    def _results(self) -> None:
        if len(self.case.function.results) > 1:
            for value in dict.fromkeys(self.case.function.results):
                if self._try(_with_results(self.case, (value,))):
                    return

    def _ends(self) -> None:
        """Give an earlier value as the result: where one is wrong, most of those that come of it are."""
        base = self.case
        first, last = 0, len(base.function.ops) - 1
        while first < last and time.monotonic() < self._until:
            middle = (first + last) // 2
            results = base.function.ops[middle].results[:1]
            if results and self._try(_with_results(base, results)):
                last = middle
            else:
                first = middle + 1

    def _parts(self) -> None:
        """Replace runs of ops by the values that they make: halves first, then smaller ones."""
        length = max(len(self.case.function.ops) // 2, 1)
        while length and time.monotonic() < self._until:
            start = 0
            while start < len(self.case.function.ops):
                if not self._try(_without_ops(self.case, start, start + length)):
                    start += length
            length //= 2

    def _bypasses(self) -> None:
        number = 0
        while number < len(self.case.function.ops):
            op = self.case.function.ops[number]
            if not any(self._try(_with_operand(self.case, op, value)) for value in _like_result(op)):
                number += 1

    def _sizes(self) -> None:
        for symbol in list(self.case.env):
            size = self.case.env.get(symbol, 0)
            smaller = sorted({n for n in (1, 2, 3, size // 2, size - 1) if 0 <= n < size})
            any(self._try(_at_size(self.case, symbol, n, last)) for n in smaller for last in (False, True))

    def _elements(self) -> None:
        for number, array in enumerate(self.case.arrays):
            for simple in _simpler(array):
                arrays = (*self.case.arrays[:number], simple, *self.case.arrays[number + 1 :])
                if self._try(replace(self.case, arrays=arrays)):
                    break


def _with_results(
    case: Case,
    results: tuple[Value, ...],
    extra: Mapping[Value, Array] = MappingProxyType({}),
    sizes: Mapping[Symbol, int] | None = None,
) -> Case:
    """A case that gives other results, with what they need alone; ``extra`` values become parameters.

    ``sizes`` are those of the call, where the case cannot tell them any more.
    """
    function = case.function
    ops = _needed([op for op in function.ops if not any(v in extra for v in op.results)], results, extra)
    needed = {value for op in ops for value in op.reads()} | set(results)
    given = {
        **{v: (info, array) for v, info, array in zip(function.params, function.infos, case.arrays, strict=True)},
        **{v: (ParamInfo(f"v{len(function.params) + n}"), extra[v]) for n, v in enumerate(extra)},
    }
    params = [value for value in given if value in needed]
    infos = tuple([replace(given[value][0], dims=None) for value in params])
    made = replace(
        function, params=tuple(params), infos=infos, ops=ops, results=results, result_names=(), facts=Facts.none()
    )
    arrays = tuple([given[value][1] for value in params])
    bound = {bind.symbol for bind in bind_function(made).binds}
    env = case.sizes if sizes is None else sizes
    loose = {s: env[s] for s in made.symbols() if s not in bound and not _is_measured(made, s) and s in env}
    made = Substitution(loose).function(made, _facts_of(function.facts, loose, bound))
    return Case(made, arrays, list_tree(len(results)))


def _needed(ops: Sequence[Op], results: Sequence[Value], extra: Iterable[Value]) -> tuple[Op, ...]:
    """The ops that results depend on, and those with effects. A size that an extra parameter has is not measured."""
    needed, given = set(results), {symbol for value in extra for dim in value.shape for symbol in free_symbols(dim)}
    used = {symbol for value in results for dim in value.shape for symbol in free_symbols(dim)} - given
    kept: list[Op] = []
    for op in reversed(ops):
        measured = bound_dim(op)
        if measured in used or has_effect(op) or any(v in needed for v in op.results):
            kept.append(op)
            needed.update(op.reads())
            used |= set(part(op.opdef.name, (op,), op.results, Facts.none()).symbols()) - given
    return tuple(reversed(kept))


def _is_measured(function: Function, symbol: Symbol) -> bool:
    return any(bound_dim(op) is symbol for op in function.ops)


def _facts_of(facts: Facts, fixed: Mapping[Symbol, int], bound: set[Symbol]) -> Facts:
    """Those of the facts that are about sizes which are still there."""
    about = [relation.substituted(fixed) for relation in facts.relations]
    return restated(facts, [one for one in about if one.symbols() and one.symbols() <= bound], bound)


def _without_ops(case: Case, start: int, stop: int) -> Case | None:
    """A case in which what some ops make are arguments; None where there are none, or nothing would be left."""
    function = case.function
    gone = function.ops[start:stop]
    own = {value for op in gone for value in op.results}
    outside = [op for op in function.ops if op not in gone]
    used = {value for op in outside for value in op.reads()} | set(function.results)
    if not gone or not outside or all(value in own for value in function.results):
        return None
    try:
        return _with_results(case, function.results, {v: case.values[v] for v in own if v in used})
    except (DynError, KeyError):
        return None


def _like_result(op: Op) -> Iterator[Value]:
    if len(op.results) == 1:
        yield from (v for v in dict.fromkeys(op.operands) if (v.dtype, v.shape) == (op.result.dtype, op.result.shape))


def _with_operand(case: Case, op: Op, value: Value) -> Case | None:
    """A case in which an operand takes the place of an op's result."""
    function = case.function
    change = {op.result: value}
    ops = tuple([with_operands(one, change) for one in function.ops if one is not op])
    results = tuple([change.get(v, v) for v in function.results])
    if not any(v in results for one in ops for v in one.results):
        return None  # it would compute nothing
    return _with_results(replace(case, function=function.with_ops(ops, results)), results, sizes=case.sizes)


def _at_size(case: Case, symbol: Symbol, size: int, last: bool) -> Case | None:
    """A case at another size: of its arrays the first, or the ``last``, elements along an axis are left."""
    env = {**case.env, symbol: size}
    arrays: list[Array] = []
    for param, array in zip(case.function.params, case.arrays, strict=True):
        shape = [evaluate(dim, env) for dim in param.shape]
        if any(n < 0 or n > old for n, old in zip(shape, array.shape, strict=True)):
            return None
        kept = [slice(old - n, old) if last else slice(0, n) for n, old in zip(shape, array.shape, strict=True)]
        arrays.append(np.ascontiguousarray(array[tuple(kept)]).reshape(shape))
    return replace(case, arrays=tuple(arrays))


def _simpler(array: Array) -> Iterator[Array]:
    """Arrays that are easier to read, simplest first; none of them is the array itself."""
    if array.dtype.kind not in "fiuV" or array.size == 0:
        return
    candidates = [np.zeros_like(array), np.ones_like(array)]
    if array.dtype.kind == "f" and np.isfinite(array).all():
        candidates += [array.round(digits) for digits in (0, 1, 2)]
    for candidate in candidates:
        if (candidate != array).any():
            yield candidate
        else:
            return  # it is as simple as that
