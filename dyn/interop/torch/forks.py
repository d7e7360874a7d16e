"""Branches of the user's Python on what only the running program knows: ``if x[mask].numel() == 0: return …``.

Python takes one way while it is traced. So the function is run once more for each way, from its beginning, in a branch
of the program: up to the question both ways compute the same, and after it what each answer leads to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

import dyn.numpy as dnp
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.frontend.retrace import Retrace
from dyn.frozen import record
from dyn.interop.sizes import conditions
from dyn.interop.torch.higher_order import cond
from dyn.interop.torch.regions import here
from dyn.interop.torch.return_plans import Either
from dyn.interop.torch.scopes import RegionScope, RunAgain
from dyn.interop.torch.sizes import BoolNode, asking_frame
from dyn.interop.torch.tensors import is_traced, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import Loc, is_user_frame, user_loc
from dyn.trace.branch_sizes import Unequal

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True

#: A function has so many ways at most.
_MOST_WAYS = 16


class _Asked(BaseException):
    """Ends a run of the function at a question. No code of the user's is to catch it."""

    def __init__(self, node: BoolNode, loc: Loc) -> None:
        super().__init__()
        self.node, self.loc, self.region = node, loc, here()


class Forks:
    """The questions of a function that is traced, and the ways that it goes."""

    def __init__(self, *, are_followed: bool) -> None:
        #: Whether both ways are followed. Before the first question, nobody knows that there will be one.
        self.are_followed = are_followed
        self._answers: tuple[bool, ...] = ()
        self._count = 0
        #: The answers that lead to each question: there is one way more than there are questions.
        self._forks: set[tuple[bool, ...]] = set()
        #: The keys of random numbers that there were when the function was begun.
        self._drawn: dict[Any, int] = {}

    def answer(self, node: BoolNode) -> bool | None:
        """The answer to a question; None where it is not asked by code of the user's.

        Raises Retrace where no ways are followed yet, and ends the run where the answer is another fork.
        """
        frame = asking_frame()
        if frame is None or not is_user_frame(frame.f_code.co_filename):
            return None
        if not self.are_followed:
            raise Retrace(lambda attempt: attempt.follow_forks())
        if self._count == len(self._answers):
            raise _Asked(node, user_loc())
        answer = self._answers[self._count]
        self._count += 1
        conditions.require(node.value if answer else conditions.negated(node.value), node.trace)
        return answer

    def run(self, tracing: TorchTracing, function: Callable[[], Any], is_unchanged: Callable[[], bool]) -> Any:
        """The function's result, of all of its ways. ``is_unchanged`` says whether it has changed anything but tensors.

        Raises NotYetError for ways that are no branches of one program.
        """
        return self._way(tracing, function, is_unchanged, ())

    def _way(
        self, tracing: TorchTracing, function: Callable[[], Any], is_unchanged: Callable[[], bool],
        answers: tuple[bool, ...],
    ) -> Any:  # fmt: skip
        drawn, pieces, pulls = tracing.keys.position, len(tracing.pieces), tracing.pulls_from
        scope = _PrefixScope()
        self._answers, self._count = answers, 0
        if answers:
            tracing.keys.go_to(self._drawn)
        else:
            self._drawn = drawn
        tracing.scopes.append(scope)
        try:
            returned = function()
        except _Asked as asked:
            scope.restore()
            node, loc, region = asked.node, asked.loc, asked.region
        except (NotYetError, UnsupportedOpError):
            raise
        except Exception as error:
            if not answers:
                raise
            raise _refusal(f"is answered, one way raises {type(error).__name__}", user_loc()) from error
        else:
            if answers and (not is_unchanged() or tracing.pulls_from != pulls):
                raise _refusal("has been answered, something but tensors is changed", user_loc())
            return returned
        finally:
            tracing.scopes.remove(scope)
        if region is not here():
            raise _refusal("is asked, a branch or a loop of torch.cond's kin goes on", loc)
        if not is_unchanged() or tracing.pulls_from != pulls:
            raise _refusal("is asked, something but tensors has been changed", loc)
        if len(tracing.pieces) > pieces:
            raise _refusal("is asked, eager PyTorch has run an operation", loc)
        self._forks.add(answers)
        if len(self._forks) >= _MOST_WAYS:
            raise NotYetError(
                f"more than {_MOST_WAYS} ways by questions of values that are known when the program runs.",
                loc=loc,
                remedy="use torch.cond and torch._higher_order_ops.while_loop, or compute with torch.where.",
            )
        fork = _Fork(loc, lambda answer: self._way(tracing, function, is_unchanged, (*answers, answer)))
        ways = [functools.partial(fork.exported, tracing, answer) for answer in (True, False)]
        made = cond(tracing, torch.SymBool(cast(Any, node)), ways[0], ways[1], (), Unequal.MEASURED)
        truth = tracing.maker.fresh(dnp.asarray(node.scalar()), torch.bool, tracing.device)
        return fork.joined(made, truth)


class _PrefixScope(RegionScope):
    """All that is written up to a question."""

    def note_write(self, storage: Any) -> None:
        self.written.setdefault(storage, (storage.value, storage.version))


@record(eq=False)
class _Outside:
    """A leaf of what a way returns that is there before: an argument, a tensor that is closed over, or no tensor."""

    leaf: Any

    @property
    def parts(self) -> list[Any]:
        return []

    tensors = parts

    def of(self, parts: Iterator[Any]) -> Any:
        """The leaf with other parts, which it has none of."""
        return self.leaf


@record(eq=False)
class _Computed:
    """A tensor or an integer that a way computes."""

    leaf: Any

    @property
    def parts(self) -> list[Any]:
        return [self.leaf]

    @property
    def tensors(self) -> list[Any]:
        return [self.leaf] if isinstance(self.leaf, torch.Tensor) else []

    def of(self, parts: Iterator[Any]) -> Any:
        """The leaf as the program has it behind the branches."""
        return next(parts)


@record(eq=False)
class _Forked:
    """A leaf that is one or the other by a question that the way itself has asked."""

    leaf: Either

    @property
    def parts(self) -> list[Any]:
        return [self.leaf.truth, *_leaf(self.leaf.yes).parts, *_leaf(self.leaf.no).parts]

    @property
    def tensors(self) -> list[Any]:
        return [*_leaf(self.leaf.yes).tensors, *_leaf(self.leaf.no).tensors]

    def of(self, parts: Iterator[Any]) -> Any:
        """The leaf with what it is made of as the program has it behind the branches."""
        truth = next(parts)
        return Either(truth, _leaf(self.leaf.yes).of(parts), _leaf(self.leaf.no).of(parts))


def _leaf(leaf: Any) -> _Outside | _Computed | _Forked:
    if isinstance(leaf, Either):
        return _Forked(leaf)
    is_number = isinstance(leaf, torch.SymInt) or type(leaf) is int
    is_own = isinstance(leaf, FakeTensor) and is_traced(leaf) and record_of(leaf).storage.origin is None
    return _Computed(leaf) if is_number or is_own else _Outside(leaf)


class _Fork:
    """A question, and what both ways from there return.

    Where a leaf is not computed by both, such as an argument that is returned by one of them, what is computed of it is
    exported from its own way, and something empty in its place from the other.
    """

    def __init__(self, loc: Loc, way: Callable[[bool], Any]) -> None:
        self._loc, self._way = loc, way
        self._ends: dict[bool, tuple[TreeSpec, list[_Outside | _Computed | _Forked]]] = {}
        #: For each leaf whether it is one by both ways; None until both have been gone.
        self._alike: list[bool] | None = None

    def exported(self, tracing: TorchTracing, answer: bool) -> list[Any]:
        """Values that a way computes. Ends the branches where the other way has other leaves, which then are known."""
        here().builder.repeat()  # up to the question
        leaves, tree = tree_flatten(self._way(answer))
        own = [_leaf(leaf) for leaf in leaves]
        memories = [record_of(one).storage for leaf in own for one in leaf.tensors]
        if len(set(map(id, memories))) < len(memories):
            raise _refusal("is answered, two results share memory", self._loc)
        if self._alike is None:
            self._ends[answer] = tree, own
            if len(self._ends) == 1:
                return [part for leaf in own for part in leaf.parts]
            self._compare()
            if not all(self._alike or ()):
                raise RunAgain
        assert self._alike is not None, "both ways were gone"
        parts: list[Any] = []
        for leaf, other, is_alike in zip(own, self._ends[not answer][1], self._alike, strict=True):
            if is_alike:
                parts += leaf.parts
                continue
            nothing = [_nothing_like(tracing, one) for one in other.parts]
            parts += [*leaf.parts, *nothing] if answer else [*nothing, *leaf.parts]
        return parts

    def _compare(self) -> None:
        (tree, own), (other, its) = self._ends[True], self._ends[False]
        if tree != other:
            raise _refusal("is answered, one way returns another tree than the other", self._loc)
        self._alike = [
            (isinstance(a, _Computed) and isinstance(b, _Computed) and _is_alike(a.leaf, b.leaf))
            or (isinstance(a, _Outside) and isinstance(b, _Outside) and _is_same(a.leaf, b.leaf))
            for a, b in zip(own, its, strict=True)
        ]

    def joined(self, made: Sequence[Any], truth: Any) -> Any:
        """Result of the function, of what the branches export."""
        assert self._alike is not None, "both ways were gone"
        (tree, own), (_, its) = self._ends[True], self._ends[False]
        left = iter(made)
        leaves = [
            a.of(left) if is_alike else Either(truth, a.of(left), b.of(left))
            for a, b, is_alike in zip(own, its, self._alike, strict=True)
        ]
        return tree_unflatten(leaves, tree)


def _is_alike(a: Any, b: Any) -> bool:
    """Return True if tensors, or integers, are results of one kind."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor)
    return (a.dtype, a.ndim, a.device) == (b.dtype, b.ndim, b.device)


def _nothing_like(tracing: TorchTracing, part: Any) -> Any:
    """Empty stand-in for a part, of its kind."""
    if not isinstance(part, torch.Tensor):
        return 0
    return torch.zeros((0,) * part.ndim, dtype=part.dtype, device=part.device)


def _is_same(a: Any, b: Any) -> bool:
    if a is b or isinstance(a, torch.Tensor):
        return a is b
    return type(a) is type(b) and bool(a == b)


def _refusal(when: str, loc: Loc) -> NotYetError:
    return NotYetError(
        f"a branch by values that are known when the program runs: where it {when}.",
        loc=loc,
        remedy="compute with torch.where, use torch.cond, or decide outside of the function.",
    )
