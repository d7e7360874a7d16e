"""The results of a front end's programs: how they become what a function of a library's returns, and its derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from dyn.frozen import record
from dyn.trace.pytree import register_node

#: Where a value of a call is: an argument, an array that the program captures or a result, by number; or the constant.
Source = tuple[Literal["argument", "captured", "result", "constant"], Any]


def picked(sources: Sequence[Source], tables: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The values of a call, of which ``tables`` has those of each kind; a constant is itself."""
    return [what if kind == "constant" else tables[kind][what] for kind, what in sources]


@record(eq=False)
class SplitProgram:
    """The second half of a program: the cotangents of ``inputs`` from those of ``results`` and the residuals.

    ``half`` is a :class:`dyn.transforms.SecondHalf`; None where the library gives no input a cotangent, though results
    depend on them. ``results`` are the numbers of those that have cotangents.
    """

    half: Any
    residuals: tuple[Source, ...]
    results: tuple[int, ...]
    inputs: tuple[Source, ...]


@record(eq=False)
class OutputPlan:
    """The way from a program's results to what a function returns: a source for each output, and the objects of the
    library's that are written, by number, each with its result. ``split`` is the second half, where it has one."""

    outputs: tuple[Source, ...]
    writes: tuple[tuple[int, int], ...]
    split: SplitProgram | None = None


P = TypeVar("P")


class Outputs(Generic[P]):
    """The results of a program with the plan for them: a tree of dyn's, whose structure the plan is part of.

    It is read as a list of the results.
    """

    __slots__ = ("plan", "results")

    def __init__(self, plan: P, results: Sequence[Any]) -> None:
        self.plan, self.results = plan, results

    def __init_subclass__(cls) -> None:
        _register(cls)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, number: int) -> Any:
        return self.results[number]

    def __repr__(self) -> str:
        return f"results of a program: {list(self.results)!r}"


def _register(kind: type[Outputs[Any]]) -> None:
    register_node(kind, lambda node: (node.results, node.plan), lambda plan, results: kind(plan, list(results)))


_register(Outputs)
