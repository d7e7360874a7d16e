"""Reports on what ``torch.compile(backend="dyn")`` has compiled: the graphs of this process, or of one function."""

from __future__ import annotations

import inspect
import re
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch._guards import CompileContext

from dyn.errors import ArgumentError
from dyn.explain.explanation import Explanation
from dyn.explain.words import pluralized
from dyn.interop.torch.jit import TorchJitted
from dyn.source import Loc, user_loc

_LINE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def lines_of(stack_trace: str) -> list[Loc]:
    """The user's lines in the text that a node of a graph keeps of its stack, the outermost first."""
    return [Loc(file, int(line), function) for file, line, function in _LINE.findall(stack_trace)]


@dataclass(frozen=True)
class Label:
    """Origin of a graph: Dynamo's number for it, which part it is, and the first of its lines.

    ``owner`` is the ``torch.compile`` that it was compiled for; None where that is gone, or somebody else asked.
    """

    name: str
    loc: Loc | None
    owner: weakref.ref[Any] | None = field(compare=False)

    @staticmethod
    def of(graph: torch.fx.GraphModule, part: str = "") -> Label:
        """The label of a graph that Dynamo, further out, is compiling."""
        number = CompileContext.current_compile_id()
        traces = [node.stack_trace for node in graph.graph.nodes if node.stack_trace]
        lines = lines_of(traces[0]) if traces else []
        name = " ".join([word for word in ("graph", "" if number is None else str(number), part) if word])
        owner = _asking()
        return Label(name, lines[0] if lines else None, None if owner is None else weakref.ref(owner))

    def __str__(self) -> str:
        return self.name if self.loc is None else f"{self.name}, of {self.loc.function} at {self.loc.describe()}"


def _asking() -> Any:
    """The ``torch.compile``, as Dynamo calls it, whose graph is being compiled: Dynamo does not say which."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not torch._TorchCompileWrapper.__call__.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]


class GraphReport(Protocol):
    """A compiled graph, as it is reported on; ``number`` counts those of the process."""

    number: int
    label: Label

    @property
    def jitted(self) -> Sequence[TorchJitted]:
        """The compiled functions that make its calls."""
        ...


#: The graphs that Dynamo, or anybody, still has.
GRAPHS: weakref.WeakSet[GraphReport] = weakref.WeakSet()


def explain(compiled: Any = None, sizes: Mapping[str, int] | None = None) -> Explanation:
    """Report on what dyn compiled for ``torch.compile(backend="dyn")``.

    Each program comes with the graphs that run it, its kernels, the seconds that it took, and what eager PyTorch runs.

    Args:
        compiled: what ``torch.compile`` returned, a module that was compiled in place (``module.compile()``), or what
            ``dyn.interop.torch.jit`` returned. None: all graphs of the process that Dynamo still has.
        sizes: the size of each dim by name, for figures of the programs that hold for these, as of ``explain(sizes)``
            of a compiled function.

    Returns:
        A report: text when printed, HTML in Jupyter, and JSON by ``to_json()``.

    Raises:
        ArgumentError: for a function or module that was not compiled with this backend; for sizes that are none of any
            program, or that no program holds for.
    """
    if isinstance(compiled, TorchJitted):
        return compiled.explain(sizes)
    owner = None if compiled is None else _owner_of(compiled)
    graphs = [one for one in GRAPHS if owner is None or (one.label.owner is not None and one.label.owner() is owner)]
    graphs.sort(key=lambda one: one.number)
    by_program: dict[int, tuple[TorchJitted, list[str]]] = {}
    for graph in graphs:
        for jitted in graph.jitted:
            by_program.setdefault(id(jitted), (jitted, []))[1].append(str(graph.label))
    parts: list[Explanation] = []
    for jitted, labels in by_program.values():
        info = jitted.cache_info()
        times = pluralized(info.compiles, "time")
        text = f"  compiled {times} in {info.compile_seconds:.2f} s, then called {info.hits} times"
        parts.append(replace(jitted.explain(), notes=(*labels, text)))
    counts = {"graph": len(graphs), "program": len(by_program)}
    whole = Explanation("torch.compile", (), counts, parts=tuple(parts))
    return whole if sizes is None else whole.at(sizes)


def _owner_of(compiled: Any) -> Any:
    """The backend, as Dynamo calls it, of what ``torch.compile`` returned."""
    whole = getattr(compiled, "_compiled_call_impl", None) or compiled
    asked = getattr(whole, "get_compiler_config", None)
    context = None if asked is None else inspect.getclosurevars(asked).nonlocals.get("self")
    owner: Any = None if context is None else context.callback
    while hasattr(owner, "_torchdynamo_orig_backend"):
        owner = owner._torchdynamo_orig_backend
    if getattr(owner, "compiler_name", None) not in ("dyn", "backend"):
        raise ArgumentError(
            f"explain takes what torch.compile(backend='dyn') returned, not a {type(compiled).__name__}.",
            loc=user_loc(),
            remedy="pass it, or nothing for all graphs of the process.",
        )
    return owner
