"""The directive ``dyn-picture``: diagrams of the compiler, drawn by Graphviz from its own tables."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.ext.graphviz import graphviz
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
STYLE = """
  graph [rankdir=%s, bgcolor=transparent, nodesep=0.25, ranksep=0.35]
  node [shape=box, style="rounded,filled", fillcolor="#eef3fb", color="#5b7db1"]
  node [fontname="sans-serif", fontsize=11, margin="0.15,0.07"]
  edge [color="#5b7db1", fontname="sans-serif", fontsize=9, arrowsize=0.7]
"""


def _escaped(text: str) -> str:
    return text.replace('"', '\\"').replace("\n", "\\n")


def chain(steps: list[tuple[str, str]], direction: str = "TB") -> str:
    """A path of boxes, each with what the arrow after it carries."""
    lines = [f'  s{n} [label="{_escaped(name)}"]' for n, (name, _) in enumerate(steps)]
    lines += [f'  s{n} -> s{n + 1} [label=" {_escaped(gives)}"]' for n, (_, gives) in enumerate(steps[:-1])]
    return "digraph {" + STYLE % direction + "\n".join(lines) + "\n}"


def call() -> str:
    """From a call to its results."""
    return chain(
        [
            ("native entry\nwalks the tree, finds the program by types and guards", "pointers, sizes"),
            ("host program: checks facts", "sizes"),
            ("host program: arena, results, variants", "launches"),
            ("kernels, on as many threads as pay", "filled arrays"),
            ("results, of the arguments' library", ""),
        ]
    )


def compile() -> str:
    """From a Python function to machine code: the passes are those of the pipeline."""
    from dyn.pipeline import PIPELINE

    passes = "\n".join(step.__name__ for step in PIPELINE)
    return chain(
        [
            ("trace", "DHLO, facts, guards"),
            (passes, "DHLO"),
            ("stitch", "groups"),
            ("nests and schedules", "kernel IR, variants"),
            ("render: one emitter a family", "LLVM IR, CUDA, HIP"),
            ("compile, or find on disk", "objects"),
            ("load", ""),
        ]
    )


def rooms() -> str:
    """The rooms by their numbers, as the test of imports knows them; an arrow is an import that there is."""
    sys.path.insert(0, str(ROOT))
    from tests.meta.test_layers import PACKAGE, ROOMS, imports_of, room_of

    edges: set[tuple[str, str]] = set()
    folders = {name for name in ROOMS if (PACKAGE / name).is_dir()}
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if room_of(module) in folders:
            imported = imports_of(module, ast.parse(path.read_text()), frozenset())
            others = {room_of(i.module) for i in imported if i.module.partition(".")[0] == "dyn"}
            edges |= {(room_of(module), other) for other in others & folders - {room_of(module)}}
    ranks: dict[int, list[str]] = {}
    for name in sorted(folders):
        ranks.setdefault(ROOMS[name], []).append(name)
    lines = [f"  {{rank=same; {' '.join(names)}}}" for _, names in sorted(ranks.items(), reverse=True)]
    lines += [f"  {a} -> {b}" for a, b in sorted(_reduced(edges))]
    return "digraph {" + STYLE % "TB" + "\n".join(lines) + "\n}"


def _reduced(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that no longer way stands for."""

    def reaches(start: str, end: str, without: tuple[str, str]) -> bool:
        seen, left = {start}, [start]
        while left:
            at = left.pop()
            for a, b in edges:
                if a == at and (a, b) != without and b not in seen:
                    if b == end:
                        return True
                    seen.add(b)
                    left.append(b)
        return False

    return {edge for edge in edges if not reaches(*edge, edge)}


PICTURES: dict[str, Callable[[], str]] = {"call": call, "compile": compile, "rooms": rooms}


class Picture(SphinxDirective):
    """``{dyn-picture} name``: one of PICTURES."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        node = graphviz()
        node["code"] = PICTURES[name]()
        node["options"] = {}
        node["alt"] = PICTURES[name].__doc__
        figure = nodes.figure("", node, align="center")
        return [figure]


def setup(app: Any) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.graphviz")
    app.add_directive("dyn-picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
