"""Regions of a program that PyTorch code writes: which tensors from outside it reads and writes.

A branch or the body of a loop is a function of PyTorch that is run in a region (:mod:`dyn.trace.region`), whose values
end with it. What the code writes to memory from outside is put back when the region ends, and has to leave it as a
result: where one was not foreseen, :class:`RunAgain` ends the region, and it is traced once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dyn.interop.torch.tensors import Storage, is_traced, record_of
from dyn.trace.context import Trace, current_trace
from dyn.trace.tracer import Tracer


class RunAgain(BaseException):
    """Ends a region that is traced once more, with what it has to have. Nobody but whoever traces it is to see it, and
    so it is no ``Exception``."""


class RegionScope:
    """A region's uses of the outside: tensors with gradients that it reads, and memory that it writes."""

    def __init__(self) -> None:
        trace = current_trace()
        assert trace is not None, "regions are traced"
        self.trace: Trace = trace
        self.read: dict[int, Any] = {}
        #: The memory with its elements outside, and the number of that state.
        self.written: dict[Storage, tuple[Tracer, int]] = {}

    def note_read(self, tree: Any) -> None:
        """Note tensors that an operation is given."""
        for leaf in tree_leaves(tree):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                home = record_of(leaf).home if is_traced(leaf) else None
                if home is None or not self.trace.encloses(home):
                    self.read[id(leaf)] = leaf

    def note_write(self, storage: Storage) -> None:
        """Note memory that is about to be written."""
        if storage.home is None or not self.trace.encloses(storage.home):
            self.written.setdefault(storage, (storage.value, storage.version))

    def restore(self) -> None:
        """Have what was written be again what it is outside."""
        for storage, (value, version) in self.written.items():
            storage.value, storage.version = value, version
