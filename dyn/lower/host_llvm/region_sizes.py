"""Sizes in branches and loop bodies: computed before anything runs, and a failure where the region is about to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dyn.frozen import record
from dyn.lower.host import Fault, HostProgram
from dyn.lower.host_llvm.checks import Checks
from dyn.lower.host_llvm.scope import Values
from dyn.lower.host_llvm.sizes import SizeEmitter
from dyn.lower.host_llvm.text import HostText
from dyn.schedule.launch import Body, Launch
from dyn.shapes import Dim, free_symbols

#: For each variant of a launch its kernel's number in ``ctx``, and its scratch bytes.
Kernels = Sequence[tuple[int, Dim]]


@record()
class Failing:
    """Flags of a conditional region's failures: for each of its demands the site and an i1, and i1s of sizes without a
    value, of those that pass 64 bits, and of any of all these, here and in the regions around.

    ``sizes`` are the values of which these flags tell: nobody else may use them.
    """

    demands: list[tuple[int, str]]
    no_value: str | None
    overflow: str | None
    any: str
    sizes: Values


class Regions:
    """Computes the sizes of regions; ``failing`` are the conditional ones."""

    def __init__(self, program: HostProgram, text: HostText, checks: Checks, kernels: Mapping[Launch, Kernels]) -> None:
        self.program, self.text, self.checks, self.kernels = program, text, checks, kernels
        self.sizes: SizeEmitter = checks.sizes
        self.failing: dict[Body, Failing] = {}
        #: Of these regions those that are being written, from the outside in.
        self.inside: list[Body] = []

    def compute(self, launches: Sequence[Launch], around: str | None = None) -> None:
        """Compute the sizes of conditional regions; ``around`` is the i1 of what fails in the one around them."""
        for launch in launches:
            for body in launch.bodies:
                if body.conditional:
                    self._compute_one(body, around)
                else:
                    self.compute(body.launches, around)

    def _compute_one(self, body: Body, around: str | None) -> None:
        """The sizes of one region, where nothing that goes wrong is a failure yet.

        What is known by then outside of it is: there it was looked at. What is computed here is known here alone.
        """
        with self.sizes.within(self.sizes.scope.inner()) as scope:
            failures = self.checks.demands([body], lambda symbols: scope.is_due(symbols, None))
            for dim in self.dims(body):
                if scope.is_due(free_symbols(dim), None):
                    self.sizes.compute(dim)
            no_value, overflow = self.text.any([*scope.zeros, *scope.conflicts]), self.text.any(scope.overflow)
            flags = [flag for _, flag in failures] + [f for f in (no_value, overflow, around) if f is not None]
            any_of_these = self.text.any(flags) or "false"
            self.failing[body] = Failing(failures, no_value, overflow, any_of_these, scope.pending)
            self.compute(body.launches, any_of_these)

    def dims(self, body: Body) -> Iterator[Dim]:
        """Dims that are computed where a conditional region runs."""
        scope = self.program.scopes[body]
        yield from (*scope.sizes, *(self.program.slots[slot] for slot in scope.slots))
        yield from self.own_dims(body.launches)

    def own_dims(self, launches: Sequence[Launch]) -> Iterator[Dim]:
        """Dims by which launches are chosen and sized, those in regions that are not conditional too."""
        for launch in launches:
            loop = self.program.loops.get(launch)
            if loop is not None:
                yield from (loop.length, *(row.step for row in loop.rows))
            yield from _dims_of(launch, self.kernels[launch])
            for body in launch.bodies:
                if body.when is not None:
                    yield body.when.dim
                if not body.conditional:
                    yield from self.own_dims(body.launches)

    def risky(self) -> str | None:
        """An i1: whether some region would fail if it ran."""
        return self.text.any([failing.any for failing in self.failing.values()])

    def slot_bytes(self, body: Body, size: Dim) -> str:
        """The bytes of a slot of a conditional region: 0 where it may not run."""
        with self.sizes.within(self.sizes.scope.inner()) as scope:
            scope.known.add(self.failing[body].sizes)  # what they are is looked at by ``any``
            value = self.sizes.compute(size)
            bad = self.text.any([self.failing[body].any, *scope.nonsense()])
        value = self.text.value(f"select i1 {bad}, i64 0, i64 {value}")
        # What is demanded of dims that are measured is not looked at yet.
        return self.text.value(f"call i64 @llvm.smax.i64(i64 {value}, i64 0)")

    def fail(self, body: Body) -> None:
        """Fail where the sizes are not what a conditional region needs.

        Those that are about what has been measured around it are computed now.
        """
        failing, scope = self.failing[body], self.sizes.scope
        self.text.branch_on(failing.demands)
        for fault, flag in ((Fault.NO_VALUE, failing.no_value), (Fault.TOO_LARGE, failing.overflow)):
            if flag is not None:
                self.text.fault(fault, flag)
        scope.known.add(failing.sizes)
        self.text.branch_on(self.checks.demands([body], scope.is_late))
        for dim in self.dims(body):
            if scope.is_late(free_symbols(dim)):
                self.sizes.compute(dim)
        self.sizes.refuse_nonsense()


def _dims_of(launch: Launch, kernels: Kernels) -> Iterator[Dim]:
    """Dims by which a launch is chosen and sized."""
    if launch.call is not None:
        for value in (*launch.call.operands, *launch.call.results):
            yield from value.shape
        return
    yield from (condition.dim for condition in (launch.when, *launch.unless) if condition is not None)
    for variant, (_, scratch) in zip(launch.variants, kernels, strict=True):
        if variant.condition is not None:
            yield variant.condition.dim
        yield from (*variant.exact_dims(), variant.grid, scratch)
