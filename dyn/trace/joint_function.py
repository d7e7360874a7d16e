"""Joint functions: a function and the second half of its derivative as one, before what the first half keeps is chosen.

What is kept depends on how sizes were written when the function was traced, and may differ where the joint functions
compute the same. So they are what is compared for two traces of one function: halves of one serve the other, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from dyn.ir.core import Function, Region
from dyn.trace.pytree import TreeSpec, flatten, unflatten
from dyn.trace.split_linearization import Half


class FirstHalf(ABC):
    """A node of a program's results that has the residuals of a derivative, and the second half that takes them."""

    __slots__ = ()

    @property
    @abstractmethod
    def half(self) -> Half | None:
        """The second half; None where there is nothing to compute."""

    @abstractmethod
    def without_residuals(self) -> Any:
        """The tree of what it holds beside residuals."""

    @abstractmethod
    def with_half_of(self, other: Any) -> FirstHalf | None:
        """A node like this with the residuals and the second half of a node of the same function; None where they do
        not fit, since arguments or results have other places there."""


def joint_of(function: Function, second: Region) -> Region:
    """The ops of a function and of a second half that reads from it, from cotangents or tangents to all results."""
    return Region(
        second.params, (*function.ops, *second.ops), (*function.results, *second.results), second.demands
    )  # fmt: skip


def joint_function(function: Function, joint: Region, results: list[int]) -> Function:
    """A joint function with these of the function's own results, under what is known of its sizes now."""
    own, infos = joint.results, tuple([replace(function.infos[0], name=f"given{n}") for n in range(len(joint.params))])
    kept = (*[own[number] for number in results], *own[len(function.results) :])
    facts = function.facts.within(joint.demands)
    params = (*function.params, *joint.params)
    return Function(function.name, params, joint.ops, kept, facts, (*function.infos, *infos))


def first_half(tree: TreeSpec) -> tuple[FirstHalf, list[int]] | None:
    """The node of a tree of results that has residuals, and the numbers of the results that are none.

    None where no node or more than one has residuals.
    """
    try:
        whole = unflatten(tree, list(range(tree.num_leaves)))
    except Exception:  # a user's class may take arrays alone
        return None
    nodes = [node for node in _outside(whole) if isinstance(node, FirstHalf)]
    if len(nodes) != 1:
        return None
    plain = [node.without_residuals() if isinstance(node, FirstHalf) else node for node in _outside(whole)]
    return nodes[0], flatten(plain)[0]


def with_half_of(tree: TreeSpec, other: TreeSpec) -> TreeSpec | None:
    """A tree of results with the residuals and the second half of another tree, and so for the results of that one.

    None where they do not fit.
    """
    mine, its = first_half(tree), first_half(other)
    if mine is None or its is None or len(mine[1]) != len(its[1]):
        return None
    numbers = [-1] * tree.num_leaves
    for own, number in zip(mine[1], its[1], strict=True):
        numbers[own] = number
    nodes, around = flatten(unflatten(tree, numbers), _is_first_half)
    made = [node.with_half_of(its[0]) if isinstance(node, FirstHalf) else node for node in nodes]
    if None in made:
        return None
    leaves, spec = flatten(unflatten(around, made))
    return spec if leaves == list(range(other.num_leaves)) else None


def _outside(tree: Any) -> list[Any]:
    return flatten(tree, _is_first_half)[0]


def _is_first_half(node: Any) -> bool:
    return isinstance(node, FirstHalf)
