"""Values that branches of a program give to the derivatives of these branches (``OptionalFromValue``).

TensorFlow gives what one branch computes and what another does by one output, as long as both are of its dtype
``variant``, whatever is in them. So an optional has a *way* for each branch whose values are not like another one's,
and the derivative of a branch takes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.interop.sizes.values import SizeTensor, is_same
from dyn.shapes import Dim, Reason, Relation, value_conditions
from dyn.source import UNKNOWN
from dyn.trace.context import Trace
from dyn.trace.data_dependent import is_bound
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

Parts = tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Optional:
    """The values that branches give, each with the numbers of its branches: data, lists, optionals, or what is known.

    There are none where no branch gives any. ``branches`` are empty of those that are made outside of branches.
    """

    ways: tuple[Parts, ...]
    branches: tuple[frozenset[int], ...] = ()

    def leaves(self) -> list[Tracer]:
        return [leaf for parts in self.ways for part in parts for leaf in _leaves(part)]

    def with_leaves(self, leaves: Sequence[Tracer]) -> Optional:
        left = list(leaves)
        return self.mapped(lambda leaf: left.pop(0))

    def mapped(self, function: Callable[[Tracer], Tracer]) -> Optional:
        """The optional with other data."""
        return Optional(
            tuple([tuple([_mapped(part, function) for part in parts]) for parts in self.ways]), self.branches
        )

    def zeros(self, trace: Trace) -> Optional:
        """Zeros in the place of data, in another branch: none along axes whose sizes are found out in this one, or may
        have a value in it alone."""

        def is_known(dim: Dim) -> bool:
            asked = [Relation(*condition, Reason("", UNKNOWN)) for condition in value_conditions(dim)]
            return is_bound(trace, dim) and all(trace.facts.ask(relation).proved for relation in asked)

        def zero(leaf: Tracer) -> Tracer:
            return dnp.zeros([wrap_dim(trace, dim) if is_known(dim) else 0 for dim in leaf.dims], dtype=leaf.dtype)

        return self.mapped(zero)

    def taken(self, branch: int | None, dtypes: Sequence[str], shapes: Sequence[Any]) -> Parts:
        """The values for the derivative of a branch, of these dtypes and shapes, with None for what is open."""
        if not self.ways:
            raise UnsupportedOpError("the value of an optional that has none.")
        fitting = [n for n, parts in enumerate(self.ways) if _fits(parts, dtypes, shapes)]
        own = [n for n in fitting if self.branches and branch in self.branches[n]]
        if len(own or fitting) != 1:
            raise UnsupportedOpError("the value of an optional that several branches give.")
        return self.ways[(own or fitting)[0]]


def joined(own: Optional, branch: int, templates: dict[int, Optional], trace: Trace) -> Optional:
    """An optional that every branch can return: a branch's ``own`` values, and zeros for those of the other branches.

    ``templates`` have an optional of each branch, this one's too.
    """
    groups: list[list[int]] = []
    for number in sorted(templates):
        group = next((one for one in groups if _alike(templates[one[0]], templates[number])), None)
        if group is None:
            groups.append([number])
        else:
            group.append(number)
    ways: list[Parts] = []
    branches: list[frozenset[int]] = []
    for group in groups:
        given = own if branch in group else templates[group[0]].zeros(trace)
        ways += given.ways
        branches += [frozenset(group)] * len(given.ways)
    return Optional(tuple(ways), tuple(branches))


def _leaves(part: Any) -> list[Tracer]:
    if isinstance(part, Tracer):
        return [part]
    return part.leaves() if hasattr(part, "with_leaves") else []


def _mapped(part: Any, function: Callable[[Tracer], Tracer]) -> Any:
    if isinstance(part, Tracer):
        return function(part)
    if isinstance(part, Optional):
        return part.mapped(function)
    return part.with_leaves([function(leaf) for leaf in part.leaves()]) if hasattr(part, "with_leaves") else part


def _alike(first: Optional, second: Optional) -> bool:
    """Whether values of one branch may stand for those of another."""
    if len(first.ways) != 1 or len(second.ways) != 1 or len(first.ways[0]) != len(second.ways[0]):
        return False
    return all(_is_like(a, b) for a, b in zip(first.ways[0], second.ways[0], strict=True))


def _is_like(a: Any, b: Any) -> bool:
    if isinstance(a, Tracer) and isinstance(b, Tracer):
        return a.dtype == b.dtype and a.dims == b.dims
    known = np.ndarray | SizeTensor
    return isinstance(a, known) and isinstance(b, known) and a.dtype == b.dtype and is_same(a, b)


def _fits(parts: Parts, dtypes: Sequence[str], shapes: Sequence[Any]) -> bool:
    if len(parts) != len(dtypes):
        return False
    for part, dtype, shape in zip(parts, dtypes, shapes, strict=True):
        if isinstance(part, Tracer):
            is_open = shape is None
            sizes = [] if is_open else zip(part.dims, shape, strict=False)
            is_other = any(isinstance(dim, int) and size is not None and dim != size for dim, size in sizes)
            if part.dtype.name != dtype or is_other or (not is_open and len(part.dims) != len(shape)):
                return False
        elif isinstance(part, np.ndarray | SizeTensor):
            if part.dtype.name != dtype:
                return False
        elif dtype != "variant":
            return False
    return True
