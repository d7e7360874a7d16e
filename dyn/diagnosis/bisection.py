"""Bisection of a wrong result: the pass, group of ops, or variant of a kernel that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from dyn.diagnosis.cases import Case, Traceable, case_of
from dyn.diagnosis.differences import Difference, first_difference
from dyn.diagnosis.rounding import rounding_of_results
from dyn.diagnosis.stored import Choose, StoredProgram, compiled, lowered
from dyn.errors import ArgumentError, DynError
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.lazy_property import lazy_property
from dyn.pipeline import PIPELINE, Stitched
from dyn.schedule.launch import Condition, Launch
from dyn.shapes import Symbol
from dyn.stitch.groups import Group
from dyn.stitch.plan import stitch
from dyn.trace.pytree import flatten, list_tree
from dyn.tracebacks import without_own_frames

Array = np.ndarray[Any, Any]
#: Parts of the compiler that results can differ by.
Culprit: TypeAlias = Literal["trace", "pass", "stitching", "group", "variant", "memory"]


@record()
class StageComparison:
    """A part of the compiler, and what came out behind it.

    Attributes:
        part: its name.
        problem: the difference from the reference, or the error, in words; empty where it is right.
    """

    part: str
    problem: str

    def __str__(self) -> str:
        return f"{self.part}: {self.problem or 'right'}"


@record()
class Bisection:
    """The part of the compiler by which a result differs from the reference.

    Attributes:
        culprit: its kind: ``"trace"`` (the program as it was traced), ``"pass"``, ``"stitching"``, ``"group"``,
            ``"variant"`` or ``"memory"`` (of arrays inside the program); None where nothing differs.
        name: its name.
        problem: the difference, or the error that it raised, in words.
        lines: the user's lines that it computes.
        findings: what was compared, in order.
    """

    function: str
    culprit: Culprit | None
    name: str
    problem: str
    lines: tuple[str, ...]
    findings: tuple[StageComparison, ...]

    def __repr__(self) -> str:
        lines = [f"bisection of {self.function}"]
        lines += [f"  {one}" for one in self.findings]
        if self.culprit is None:
            return "\n".join([*lines, "nothing differs from the reference"])
        lines.append(f"the {self.culprit} {self.name}: {self.problem}")
        return "\n".join([*lines, *[f"  from {line}" for line in self.lines]])


@without_own_frames
def bisect(
    function: Traceable | StoredProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    *,
    expected: Any = None,
    tolerance: float | None = None,
) -> Bisection:
    """Find the part of the compiler by which a call's result differs from NumPy's.

    The program is computed op by op with NumPy as it was traced, and again after each pass; then the code of each group
    of ops gives its results, in memory of their own, and the group whose results differ first is compiled with one
    variant of its kernels after the other. Functions outside of the program are called each time.

    Args:
        function: a compiled function of any front end.
        args: positional arguments of the call.
        kwargs: arguments by name.
        expected: the right result, as a tree of arrays like the function's, or as the list of all results of its
            program, which are more than PyTorch's and TensorFlow's functions return where these write to something;
            None: that of the program as it was traced.
        tolerance: largest difference that is none, relative to the largest element of a result; None: what rounding
            explains for the dtype, and where results hang on it for the program.

    Returns:
        A :class:`~dyn.diagnosis.bisection.Bisection`; printed, it says what was compared, and what was found.

    Raises:
        TraceError: if the function cannot be traced.
        ArgumentError: if arguments do not fit, or have no elements, or ``expected`` is another tree.
        NotYetError: for arrays on a GPU.

    Example:
        >>> dyn.bisect(dyn.jit(lambda x: x + 1), [np.zeros(3)]).culprit is None
        True
    """
    case = case_of(function, args, kwargs)
    return _Bisector(case, _expected(case, expected), tolerance).run()


def _expected(case: Case, expected: Any) -> list[Array] | None:
    if expected is None:
        return None
    leaves, tree = flatten(expected)
    count = len(case.function.results)
    if tree not in (case.out_tree, list_tree(count)):
        raise ArgumentError(
            "bisect: expected= is another tree than the function's result.",
            remedy=f"the program's results are a list of {count}, too: replay(...).result has them in this order.",
        )
    return [np.asarray(leaf, v.dtype.np) for leaf, v in zip(leaves, case.function.results, strict=True)]


class _CulpritFound(Exception):
    """The culprit."""

    def __init__(self, culprit: Culprit, name: str, problem: str, ops: Sequence[Op] = ()) -> None:
        self.culprit: Culprit = culprit
        self.name, self.problem = name, problem
        self.lines = tuple(dict.fromkeys(op.loc.describe() for op in ops if op.loc.line))
        super().__init__(name)


class _Reference:
    """The results of a program by NumPy, and how far rounding moves them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.values = dict(zip(case.function.results, case.reference(), strict=True))

    @lazy_property
    def rounding(self) -> Mapping[Value, Array]:
        """For each result what :func:`rounding_of_results` gives."""
        return dict(zip(self._case.function.results, rounding_of_results(self._case), strict=True))


class _Bisector:
    def __init__(self, case: Case, expected: list[Array] | None, tolerance: float | None) -> None:
        self.case, self.tolerance = case, tolerance
        self.expected = expected
        self.findings: list[StageComparison] = []

    def run(self) -> Bisection:
        name = self.case.function.name
        try:
            self._search()
        except _CulpritFound as found:
            return Bisection(name, found.culprit, found.name, found.problem, found.lines, tuple(self.findings))
        return Bisection(name, None, "", "", (), tuple(self.findings))

    def _search(self) -> None:
        traced = self.case.reference()
        if self.expected is not None:
            problem = self._problem(lambda: traced, self.expected)
            if self._note("the program as traced", problem):
                raise _CulpritFound("trace", "of the function", problem)
        wanted = traced
        function = self.case.function
        for step in PIPELINE:
            before = function
            problem = ""
            try:
                function = step(before)
            except DynError as error:
                problem = _raised(error)
            if function is before and not problem:
                continue
            problem = problem or self._problem(replace(self.case, function=function).reference, wanted)
            if self._note(f"pass {step.__name__}", problem):
                raise _CulpritFound("pass", step.__name__, problem)
        try:
            stitched = Stitched(function, stitch(function))
        except DynError as error:
            raise _CulpritFound("stitching", "of the program", _raised(error)) from None
        self._whole(stitched, wanted)

    def _whole(self, stitched: Stitched, wanted: Sequence[Array]) -> None:
        """The compiled program, and if it is wrong its groups."""
        problem = self._problem(lambda: self._compiled(stitched).values(), wanted)
        if not self._note("compiled code", problem):
            return
        shown = _showing_all(stitched)
        after = replace(self.case, function=shown.function)
        right = _Reference(after)
        made = self._results(lambda: self._compiled(shown))
        for number, group in enumerate(shown.plan.groups):
            own = [value for value in group.outputs if value in right.values]
            of_group = made if isinstance(made, str) else self._compare(own, made, right)
            if isinstance(made, str):  # the whole of it raises: which group does?
                of_group = self._problem_alone(stitched, group)
            name = f"{number} ({group.kind.value} {group.name})"
            if self._note(f"group {name}", of_group):
                self._variants(shown, group, own, right, of_group, name)
                raise _CulpritFound("group", name, of_group, group.ops)
        raise _CulpritFound("memory", "of arrays inside the program", f"{problem}; right where each array has its own")

    def _problem_alone(self, stitched: Stitched, group: Group) -> str:
        """Error of compiling and running the program up to a group, in words; empty for none."""
        values = tuple([value for value in group.outputs if value in stitched.plan.producers])
        function = stitched.function.with_ops(stitched.function.ops, values)
        function = replace(function, result_names=())
        made = self._results(lambda: self._compiled(Stitched(function, stitch(function))))
        return made if isinstance(made, str) else ""

    def _variants(
        self, shown: Stitched, group: Group, own: Sequence[Value], right: _Reference, problem: str, name: str
    ) -> None:
        """Raise _CulpritFound for a variant of a group that is wrong where another one is right."""
        sizes = replace(self.case, function=shown.function).sizes
        wrong: list[str] = []
        is_right = False
        for variant, choose in _choices(lowered(shown.function, shown).launches, group, sizes):
            made = self._results(lambda choose=choose: self._compiled(shown, choose))
            found = made if isinstance(made, str) else self._compare(own, made, right)
            self._note(f"  variant {variant}", found)
            is_right = is_right or not found
            if found:
                wrong.append(variant)
        if is_right and wrong:
            raise _CulpritFound("variant", f"{wrong[0]} of group {name}", problem, group.ops)

    def _compare(self, own: Sequence[Value], made: Mapping[Value, Array], right: _Reference) -> str:
        arrays = [made[v] for v in own], [right.values[v] for v in own]
        found = first_difference(*arrays, self.tolerance)
        if found is not None and self.tolerance is None:
            found = first_difference(*arrays, rounding=[right.rounding[v] for v in own])
        return _text(found)

    def _compiled(self, stitched: Stitched, choose: Choose | None = None) -> dict[Value, Array]:
        """The results of a program by dyn's code."""
        run = compiled(stitched.function, stitched, choose)
        return dict(zip(stitched.function.results, run(self.case.arrays), strict=True))

    def _results(self, compute: Callable[[], Mapping[Value, Array]]) -> Mapping[Value, Array] | str:
        """Results of ``compute``, or the error that it raises, in words."""
        try:
            return compute()
        except Exception as error:
            return _raised(error)

    def _problem(self, compute: Callable[[], Iterable[Array]], wanted: Sequence[Array]) -> str:
        """Difference of results from those that are wanted, in words; empty for none."""
        try:
            made = list(compute())
        except Exception as error:
            return _raised(error)
        found = first_difference(made, wanted, self.tolerance)
        if found is not None and self.tolerance is None:
            found = first_difference(made, wanted, rounding=self._rounding)
        return _text(found)

    @lazy_property
    def _rounding(self) -> list[Array]:
        """The effect of rounding on the results of the call."""
        return rounding_of_results(self.case)

    def _note(self, part: str, problem: str) -> bool:
        self.findings.append(StageComparison(part, problem))
        return bool(problem)


def _showing_all(stitched: Stitched) -> Stitched:
    """The program with all arrays that groups write as results, cut into the same groups."""
    function, plan = stitched.function, stitched.plan
    values = dict.fromkeys(value for group in plan.groups for value in group.outputs if value in plan.producers)
    names = tuple([f"v{number}" for number in range(len(values))])
    shown = replace(function.with_ops(function.ops, tuple(values)), result_names=names)
    return Stitched(shown, replace(plan, function=shown))


def _raised(error: Exception) -> str:
    text = error.problem if isinstance(error, DynError) else str(error)
    return f"raises {type(error).__name__}: {text}"


def _text(found: Difference | None) -> str:
    return "" if found is None else f"wrong in {found}"


def _choices(launches: Sequence[Launch], group: Group, sizes: Mapping[Symbol, int]) -> Iterator[tuple[str, Choose]]:
    """The ways to compute a group at some sizes, by name: the program with one variant of one of its launches."""
    outputs = set(group.outputs)
    own = [launch for launch in launches if launch.group is group or outputs & set(launch.group.outputs)]
    for launch in own:
        for number, body in enumerate(launch.bodies if launch.is_choice else ()):
            if _holds(body.when, sizes):
                name = "for all sizes" if body.when is None else f"for {body.when.describe()}"
                # Each body after this one is right too, and the last one is always there.
                yield f"the plan {name}", _with(launch, bodies=launch.bodies[number:])
        parts = [condition for condition in launch.unless if _holds(condition, sizes)]
        if parts:
            yield f"several launches where {parts[0].describe()}", lambda every: every
            yield f"one launch of {launch.group.name}", _without_parts(launch)
        if parts or (launch.when is not None and not _holds(launch.when, sizes)):
            continue  # it does not run
        holding = [variant for variant in launch.variants if _holds(variant.condition, sizes)]
        for variant in holding if len(holding) > 1 else ():
            last = replace(launch.variants[-1], deferred=False)
            variants = (last,) if variant is launch.variants[-1] else (replace(variant, deferred=False), last)
            yield f"{variant.kernel.name}: {variant.when() or 'always'}", _with(launch, variants=variants)


def _is_same(one: Launch, other: Launch) -> bool:
    """Return True if launches of two lowerings of one plan are the same one."""
    keys = [(x.group.outputs, tuple([v for v in x.buffers if v in x.group.outputs]), x.when) for x in (one, other)]
    return keys[0] == keys[1] and len(one.temporaries) == len(other.temporaries)


def _with(launch: Launch, **changes: Any) -> Choose:
    """The launches with something else in one of them."""
    return lambda every: tuple([replace(one, **changes) if _is_same(one, launch) else one for one in every])


def _without_parts(launch: Launch) -> Choose:
    """The launches with one that runs for every size, and without those that it has as alternatives."""

    def choose(every: tuple[Launch, ...]) -> tuple[Launch, ...]:
        mine = [replace(one, unless=()) if _is_same(one, launch) else one for one in every]
        others = [one for one in mine if one.when in launch.unless and one.group.outputs == launch.group.outputs]
        return tuple([one for one in mine if one not in others])

    return choose


def _holds(condition: Condition | None, sizes: Mapping[Symbol, int]) -> bool:
    return condition is None or condition.holds(sizes)
