"""Regions in which PyTorch's code is run: what goes into one, what it gives and writes, and what it needs for that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import dyn.numpy as dnp
from dyn.errors import TraceError
from dyn.frozen import record
from dyn.interop.torch.data_dependent_numbers import number_of
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.scopes import RegionScope, RunAgain
from dyn.interop.torch.sizes import as_dyn
from dyn.interop.torch.tensors import Storage, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace.context import Trace, current_trace
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def here() -> Trace:
    trace = current_trace()
    assert trace is not None, "operations are written in a trace"
    return trace


@record()
class RegionLeaf:
    """A leaf of what a region gives: a tensor, whose axes lie in memory in ``order``, an integer, or nothing."""

    kind: type
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    order: Order | None = None
    #: The integer, where it is known.
    number: int | None = None

    @staticmethod
    def of(tracing: TorchTracing, leaf: Any, what: str) -> RegionLeaf:
        """The leaf of a tensor, an integer or None; TraceError for anything else."""
        if isinstance(leaf, torch.Tensor):
            record = record_of(tracing.taken(leaf))
            return RegionLeaf(torch.Tensor, leaf.dtype, leaf.device, record.order)
        if isinstance(leaf, torch.SymInt) or (isinstance(leaf, int) and not isinstance(leaf, bool)):
            return RegionLeaf(int, number=leaf if isinstance(leaf, int) else None)
        if leaf is not None:
            raise TraceError(
                f"{what} gives a {type(leaf).__name__}.", loc=user_loc(), remedy="return tensors and integers."
            )
        return RegionLeaf(type(None))

    def varying(self) -> RegionLeaf:
        """The leaf as it is at any step: an integer of which no value is known."""
        return replace(self, number=None)

    def in_rows(self) -> RegionLeaf:
        """The leaf of what is stacked of it."""
        return replace(self, order=None)

    def beside(self, other: RegionLeaf, what: str) -> RegionLeaf:
        """The leaf that may be either."""
        if self.kind is not other.kind:
            raise TraceError(
                f"{what} gives {self.kind.__name__} one way and {other.kind.__name__} another.", loc=user_loc()
            )
        order = self.order if self.order == other.order else None
        return RegionLeaf(
            self.kind, self.dtype, self.device, order, self.number if self.number == other.number else None
        )

    def made(self, tracing: TorchTracing, value: Any) -> Any:
        """The PyTorch side of a value."""
        if self.kind is int:
            return number_of(tracing.env, value) if self.number is None else self.number
        if value is None:
            return None
        assert self.dtype is not None, "tensors have dtypes"
        assert self.device is not None, "and devices"
        return tracing.maker.fresh(value, self.dtype, self.device, self.order)


def value_of(tracing: TorchTracing, leaf: Any) -> Any:
    """The value of a tensor or an integer."""
    if isinstance(leaf, torch.Tensor):
        tracing.note_read(leaf)
        return record_of(tracing.taken(leaf)).value
    return dnp.asarray(as_dyn(tracing.trace, leaf), dtype="int64")


@dataclass(slots=True)
class Needs:
    """Needs of an operation's regions, found by tracing them: memory that they write, a number for each step, the
    states that the derivative of a loop starts its steps from."""

    written: tuple[Storage, ...] = ()
    steps: bool = False
    states: bool = False

    def again(self, *, written: Sequence[Storage] = (), steps: bool = False, states: bool = False) -> None:
        """Have the regions traced once more, with what they need."""
        self.written = (*self.written, *written)
        self.steps, self.states = self.steps or steps, self.states or states
        raise RunAgain


def written_out(tracing: TorchTracing, write: Callable[[Needs], Any]) -> Any:
    """An operation as ``write`` writes it, with all that its regions need."""
    needs = Needs()
    pieces, count = len(tracing.pieces), tracing.keys.position
    while True:
        try:
            return write(needs)
        except RunAgain:
            del tracing.pieces[pieces:]
            tracing.keys.go_to(count)


@contextlib.contextmanager
def in_region(
    tracing: TorchTracing, needs: Needs, memory: Sequence[Tracer], step: Any = None, *, is_loop: bool = False
) -> Iterator[RegionScope]:
    """Run PyTorch's code in the region that is being traced, in which the memory that it writes has these elements."""
    with tracing.scope() as scope, tracing.keys.drawing_in(here(), step), torch.no_grad():
        for storage, value in zip(needs.written, memory, strict=True):
            scope.note_write(storage)
            storage.put(value)
        drawn = tracing.keys.position
        yield scope
        written = [storage for storage in scope.written if storage not in needs.written]
        steps = is_loop and tracing.keys.position != drawn and not needs.steps
        if written or steps:
            needs.again(written=written, steps=steps)


def left_by(needs: Needs) -> list[Tracer]:
    """The elements of the memory that a region writes, as it leaves them."""
    return [storage.value for storage in needs.written]


def write_back(tracing: TorchTracing, needs: Needs, values: Sequence[Tracer]) -> None:
    """Have the memory that regions write be as they left it."""
    for storage, value in zip(needs.written, values, strict=True):
        for scope in tracing.scopes:
            scope.note_write(storage)
        storage.put(value)
