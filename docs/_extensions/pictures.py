"""The directive ``dyn-picture``: diagrams of the compiler, drawn by Graphviz from its own tables."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.ext.graphviz import graphviz
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
#: Sizes are in points: a page's letters have twelve, and those of code nine.
STYLE = """
  graph [rankdir=%s, bgcolor=transparent, nodesep=0.19, ranksep=0.26, fontsize=10]
  node [shape=box, style="rounded,filled", fillcolor="#eef3fb", color="#5b7db1", height=0.32, width=0.4]
  node [fontname="sans-serif", fontsize=8.5, margin="0.11,0.05"]
  edge [color="#5b7db1", fontname="sans-serif", fontsize=7.5, arrowsize=0.55]
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


def _calls(text: str) -> dict[str, list[str]]:
    """The functions of a module of LLVM IR in their order, and which of them each calls."""
    bodies = dict(re.findall(r"^define [^@]*@([\w.]+)\((.*?)^}", text, re.M | re.S))
    return {
        name: [n for n in dict.fromkeys(re.findall(r"@([\w.]+)", body)) if n in bodies and n != name]
        for name, body in bodies.items()
    }


def runtime() -> str:
    """The native runtime: the functions that its parts define, and whom they call."""
    from dyn.lower.native import Module
    from dyn.runtime import allocator, callbacks, deferred_kernels, launch, pool

    module, parts, seen = Module(), dict[str, list[str]](), set[str]()
    for part, add in (
        ("allocator", allocator.add_blocks), ("pool, placement", pool.add_pool), ("launches", launch.add_launch),
        ("arena", launch.add_arena), ("callbacks", callbacks.add_calls),
        ("deferred kernels", deferred_kernels.add_variants),
    ):  # fmt: skip
        add(module)
        parts[part] = [name for name in _calls(module.text()) if name not in seen]
        seen.update(parts[part])
    lines: list[str] = []
    for number, (part, names) in enumerate(parts.items()):
        boxes = " ".join(f'"{name}";' for name in names)
        lines.append(
            f'  subgraph cluster{number} {{ label="{part}"; fontname="sans-serif"; color="#c5d3ea"; {boxes} }}'
        )
    lines += [f'  "{name}" -> "{called}"' for name, all in _calls(module.text()).items() for called in all]
    return "digraph {" + STYLE % "LR" + "\n".join(lines) + "\n}"


#: How many calls below ``dyn_entry`` the picture of the entry shows.
_DEPTH = 4


def entry() -> str:
    """The native entry: whom ``dyn_entry`` calls, in the order in which they stand in the code."""
    from dyn.lower.abi import TABLE_WORDS
    from dyn.runtime.entry.entry_function import entry_text

    calls, lines = _calls(entry_text(TABLE_WORDS)), list[str]()
    level, seen = ["dyn_entry"], {"dyn_entry"}
    for _ in range(_DEPTH):
        lines += [f'  "{name}" -> "{called}"' for name in level for called in calls[name]]
        level = [called for called in dict.fromkeys(n for name in level for n in calls[name]) if called not in seen]
        seen.update(level)
    return "digraph {" + STYLE % "LR" + "\n".join(lines) + "\n}"


PICTURES: dict[str, Callable[[], str]] = {
    "call": call, "compile": compile, "rooms": rooms, "runtime": runtime, "entry": entry,
}  # fmt: skip


def runtime_table() -> str:
    """The words of the runtime table in Markdown: where each is, its signature, registers, and what it promises."""
    from dyn.lower.abi import RUNTIME_TABLE

    lines: list[str] = []
    for place, word in enumerate(RUNTIME_TABLE, 1):
        if word is None:
            lines += [
                f"`int64_t threads`, at byte {8 * place}",
                ": Most threads of a launch; 0: as many as there are.",
                "",
            ]
            continue
        registers = ", ".join(f"`{name}` {_REGISTERS[n]}" for n, (_, name) in enumerate(word.params))
        failure = {"": "", "%rt": "`rt` where it cannot."}.get(word.failure, f"{word.failure} where it cannot.")
        lines += [
            f"`{word.signature()}`, at byte {8 * place}",
            f": {word.does} Called by {word.caller}. {failure}",
            "",
            f"  {registers}",
            "",
        ]
    return "\n".join(lines)


#: Where the System V AMD64 convention has integers and pointers.
_REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9", "stack", "stack + 8")


class RuntimeTable(SphinxDirective):
    """``{dyn-runtime-table}``: the words of the runtime table."""

    def run(self) -> list[nodes.Node]:
        made = nodes.container()
        self.state.nested_parse(StringList(runtime_table().splitlines(), "runtime table"), 0, made)
        return made.children


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
    app.add_directive("dyn-runtime-table", RuntimeTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
