"""Leaf functions: complete functions beside a kernel, each named after the few numbers that it depends on.

Kernels of one translation unit share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.frozen import record
from dyn.lower.shared_functions import Routine
from dyn.lower.x86.llvm_text import FunctionText, render

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter


@record()
class LeafFunction:
    """A function without a result: its symbol without the ``@``, its parameters, its body, and what that calls."""

    name: str
    params: str
    body: str
    declarations: tuple[str, ...]


def finish_leaf(name: str, params: str, fn: FunctionText) -> LeafFunction:
    """The function that has been written."""
    return LeafFunction(name, params, render(fn.body), tuple(fn.declarations))


def define(em: KernelEmitter, leaf: LeafFunction) -> None:
    """Put a leaf function beside the kernel, once."""
    if leaf.name not in em.machine.helpers:
        for declaration in leaf.declarations:
            em.fn.declare(declaration)
        body = f"@{leaf.name}({leaf.params}) {em.machine.attributes()} {{\nentry:\n{leaf.body}\n}}"
        definition = em.machine.helpers[leaf.name] = f"define internal void {body}"
        text = "\n".join([*leaf.declarations, f"define void {body}", ""])
        types = ", ".join([parameter.rpartition(" ")[0] for parameter in leaf.params.split(", ")])
        em.machine.routines.append(Routine(leaf.name, text, definition, f"declare void @{leaf.name}({types})"))
