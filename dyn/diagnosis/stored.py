"""Programs as text, which run without the Python that they were traced from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dyn import config, dtypes
from dyn.backends.families import family_of, host_target
from dyn.backends.reference import run_reference
from dyn.compilation_record import CompilationRecord
from dyn.errors import ArgumentError
from dyn.frozen import record
from dyn.ir.core import Dense, Function, buffers
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.pipeline import Optimized, Stitched, compile_program, optimize
from dyn.schedule.launch import Launch
from dyn.shapes import keeping_recent
from dyn.trace.function import TracedFunction
from dyn.trace.pytree import list_tree

Array = np.ndarray[Any, Any]
#: Arrays of so many elements are written out in a script; larger ones go into a file.
MOST_WRITTEN = 32


@record(eq=False)
class StoredProgram:
    """A program, called with an array for each of its parameters, of any sizes that it takes.

    Attributes:
        text: its DHLO.
        constants: its large constants, by the names that the text has for them.
    """

    text: str
    constants: Mapping[str, Array]
    function: Function

    @staticmethod
    def of(function: Function) -> StoredProgram:
        """The stored form of a program."""
        constants = {name: dense.array for name, dense in buffers(function.ops).items()}
        return StoredProgram(print_function(function), constants, function)

    @staticmethod
    def read(text: str, constants: Mapping[str, Array] | None = None) -> StoredProgram:
        """The program that a text describes.

        Raises:
            IRError: if it is malformed.
        """
        found = {name: Dense(array) for name, array in (constants or {}).items()}
        function = parse_function(text, found)
        verify(function)
        return StoredProgram(text, dict(constants or {}), function)

    def __call__(self, *arrays: Any) -> list[Array]:
        """The results by dyn's code."""
        given = self.arrays(arrays)
        return compiled(self.function)(given)

    def reference(self, *arrays: Any) -> list[Array]:
        """The results by NumPy, op by op."""
        return run_reference(self.function, self.arrays(arrays))

    def arrays(self, arrays: Sequence[Any]) -> list[Array]:
        """Arguments as arrays of the dtypes of its parameters."""
        params = self.function.params
        if len(arrays) != len(params):
            raise ArgumentError(f"{self.function.name} takes {len(params)} arrays, not {len(arrays)}.")
        return [np.ascontiguousarray(x, v.dtype.np).reshape(np.shape(x)) for x, v in zip(arrays, params, strict=True)]

    def __repr__(self) -> str:
        return self.text


#: What is left of a program's launches.
Choose: TypeAlias = Callable[[tuple[Launch, ...]], tuple[Launch, ...]]


def lowered(function: Function, stitched: Stitched | None = None, choose: Choose | None = None) -> Optimized:
    """A program with its kernels for this machine's processor (:func:`dyn.pipeline.optimize`)."""
    traced = TracedFunction(function, (), (), list_tree(len(function.results)))
    with keeping_recent():
        return optimize(traced, host_target(), CompilationRecord(), stitched, choose)


def compiled(
    function: Function, stitched: Stitched | None = None, choose: Choose | None = None
) -> Callable[[Sequence[Array]], list[Array]]:
    """A program in memory with all variants of its kernels, made now: none is looked for that was made before."""
    target = host_target()
    with config.override(variants="all"):
        backend = family_of(target).backend(target, 0)
        loaded = compile_program(lowered(function, stitched, choose), (), backend, CompilationRecord())
    return lambda arrays: [np.asarray(one) for one in loaded(list(arrays), ())]


def script_of(program: StoredProgram, arrays: Sequence[Array], failure: str, path: str) -> None:
    """Write a script that bisects a program for some arrays, and a file of the larger ones beside it."""
    large: dict[str, Array] = {f"constant_{name}": array for name, array in program.constants.items()}
    lines: list[str] = []
    for number, array in enumerate(arrays):
        name = dtypes.dtype(array.dtype).name
        if array.size <= MOST_WRITTEN and array.dtype.kind != "c":
            lines.append(f"    np.array({array.tolist()}).astype(dyn.dtype({name!r}).np).reshape({array.shape}),")
        else:
            # NumPy's files know no narrow floats: the bytes are kept.
            large[f"array_{number}"] = np.frombuffer(array.tobytes(), np.uint8)
            lines.append(f'    data["array_{number}"].view(dyn.dtype({name!r}).np).reshape({array.shape}),')
    opened = ""
    if large:
        stem = os.path.splitext(path)[0]
        np.savez(f"{stem}.npz", **large)  # type: ignore[arg-type]
        file = os.path.basename(f"{stem}.npz")
        opened = f'data = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "{file}"))\n'
    constants = "".join([f'"{name}": data["constant_{name}"], ' for name in program.constants])
    text = (
        f'"""A program of dyn that {_quoted(failure)}."""\n\n'
        + ("import os\n\n" if large else "")
        + "import numpy as np\nfrom numpy import inf, nan\n\nimport dyn\n\n"
        + opened
        + f'program = dyn.debug.program(\n    """\n{_quoted(program.text)}""",\n    {{{constants}}},\n)\n'
        + "arrays = [\n"
        + "\n".join(lines)
        + "\n]\nprint(dyn.bisect(program, arrays))\n"
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _quoted(text: str) -> str:
    """A text as it stands between triple quotes."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
