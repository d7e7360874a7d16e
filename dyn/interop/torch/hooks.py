"""Hooks of tensors, and functions of autograd's, that call the user's Python code as cotangents are pulled."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dyn.interop.torch.tensors import is_traced


def is_users(node: Any) -> bool:
    """Return True if a node of autograd's graph is of a ``torch.autograd.Function`` of the user's."""
    kind = getattr(node, "_forward_cls", None)
    return kind is not None and not kind.__module__.startswith(("dyn.", "torch."))


def reached_from(node: Any) -> set[Any]:
    """A node of autograd's graph, and those that cotangents come to from there."""
    found: set[Any] = set()
    left = [node]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.add(node)
            left += [one for one, _ in node.next_functions]
    return found


def call_users(tensors: Any, captured: Iterable[torch.Tensor]) -> bool:
    """Return True if pulling cotangents through ``tensors`` may call the user's code, by hooks of captured ones too."""
    with torch._C.DisableTorchFunction():
        outputs = [one.grad_fn for one in tree_leaves(tensors) if isinstance(one, torch.Tensor)]
        return any(map(_tables, captured)) or any(is_users(node) for one in outputs for node in reached_from(one))


def _tables(leaf: Any) -> list[dict[Any, Any]]:
    """The hooks of a tensor."""
    return [table for table in (leaf._backward_hooks, getattr(leaf, "_post_accumulate_grad_hooks", None)) if table]


@contextmanager
def left_out(leaves: Sequence[Any]) -> Iterator[None]:
    """Pull cotangents of ``leaves`` without their own hooks, which PyTorch calls with what a backward pass gives them.

    Hooks of traced leaves are called: the function has registered them. Other threads have all hooks called.
    """
    thread = threading.get_ident()

    def elsewhere(hook: Any) -> Any:
        return lambda given: None if threading.get_ident() == thread else hook(given)

    kept: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    for leaf in leaves:
        if not is_traced(leaf):
            with torch._C.DisableTorchFunction():
                kept += [(table, dict(table)) for table in _tables(leaf)]
    for table, hooks in kept:
        table.update({name: elsewhere(hook) for name, hook in hooks.items()})
    try:
        yield
    finally:
        for table, hooks in kept:
            table.update({name: hook for name, hook in hooks.items() if name in table})
