"""The stages of a jitted function: traced, lowered, compiled; as ``jax.stages``.

Everything behind tracing is imported by the functions that need it: a quarter of what ``import dyn`` would take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.errors import ArgumentError, BackendUnavailableError, NotYetError, ShapeError
from dyn.late_imports import import_whole
from dyn.shapes import format_dim
from dyn.specialize.arguments import ArgumentLeaf
from dyn.specialize.call_arguments import CallArguments, broken_guard_text
from dyn.specialize.placement import declared_placement
from dyn.specialize.version import Version, load, make_program, record_of
from dyn.trace.function import Declarations, TracedFunction
from dyn.trace.pytree import TreeSpec, flatten, tree_text, unflatten_sorted
from dyn.trace.signature import BoundArguments
from dyn.tracebacks import without_own_frames

if TYPE_CHECKING:
    from dyn.compilation_record import CompilationRecord
    from dyn.explain.cost_analysis import CostAnalysis
    from dyn.pipeline import Optimized
    from dyn.specialize.program import Program

Array = np.ndarray[Any, Any]


class _DialectHook:
    """The hook upward: what writes a program in the dialects of front ends, which ``dyn/__init__`` installs once."""

    dialects: Mapping[str, Callable[[Any], str]] = MappingProxyType({})


def install_dialects(dialects: Mapping[str, Callable[[Any], str]]) -> None:
    """Have ``Lowered.as_text(name)`` call ``dialects[name]`` with the stage."""
    _DialectHook.dialects = MappingProxyType(dict(dialects))


#: So many arguments and results are named in a line, with types of so many characters.
_MOST_NAMED, _LONGEST = 4, 60


def _heading(traced: TracedFunction) -> str:
    """A program's name, arguments and results, in one line."""
    function = traced.function
    given = len(function.params) - len(traced.captured)
    arguments = [
        f"{info.name}: {value.type}"
        for value, info in zip(function.params[:given], function.infos[:given], strict=True)
    ]
    return f"{function.name}({_named(arguments)}) -> {_named([str(value.type) for value in function.results])}"


def _named(parts: list[str]) -> str:
    more = len(parts) - _MOST_NAMED
    return ", ".join([*parts[:_MOST_NAMED], f"{more} more"] if more > 0 else parts)


class MemoryAnalysis(str):
    """Formula of the bytes of intermediate memory.

    Attributes:
        kept: bytes of matrices that never change, in the order in which products read them: once more beside the array,
            or, of a constant that came with a model, in its place. Programs that read the same matrices share them.
    """

    __slots__ = ("kept",)

    def __new__(cls, arena: str, kept: int) -> MemoryAnalysis:
        made = super().__new__(cls, arena)
        made.kept = kept
        return made

    def __reduce__(self) -> tuple[type[MemoryAnalysis], tuple[str, int]]:
        return MemoryAnalysis, (str(self), self.kept)


@dataclass(eq=False, repr=False)
class Traced:
    """Traced program, which ``lower()`` optimises.

    Attributes:
        function: the DHLO function.
        out_tree: structure of the results.
        seconds: seconds of tracing.
    """

    arguments: CallArguments
    bound: BoundArguments
    leaves: list[ArgumentLeaf]
    traced: TracedFunction
    seconds: float = 0.0

    @property
    def function(self) -> Any:
        """The DHLO function."""
        return self.traced.function

    def __repr__(self) -> str:
        return f"Traced({_heading(self.traced)})"

    @property
    def out_tree(self) -> TreeSpec:
        """Structure of the results."""
        return self.traced.out_tree

    def as_text(self) -> str:
        """DHLO of the program as it was traced.

        Returns:
            A string.
        """
        import_whole("dyn.ir.printer")
        from dyn.ir.printer import print_function

        return print_function(self.traced.function)

    @property
    def declarations(self) -> Declarations:
        """Declarations of the function's named dims, by ``dyn.Dim`` objects and ``constraints=``."""
        return self.arguments.options.declarations

    def again(self, leaves: Sequence[Any]) -> list[Any]:
        """Function of other array leaves, in a trace where their dims are declared.

        Args:
            leaves: arrays or tracers, as many as the program has.

        Returns:
            The leaves of its results.
        """
        return flatten(self.arguments.signature.call(self.bound, leaves, unflatten_sorted))[0]

    def lower(self) -> Lowered:
        """Optimise and stitch. Kernels are generated once they are compiled or looked at.

        Returns:
            A :class:`Lowered`.
        """
        options = self.arguments.options
        with options.compiling():
            program = make_program(self.traced, self.seconds, declared_placement(options.device))
        program.lower()
        return Lowered(self, program)


@dataclass(eq=False, repr=False)
class Lowered:
    """Optimised program with its kernels, of which ``compile()`` makes machine code.

    Attributes:
        stage: the stage before.
        optimized: the program after all passes, with its kernels and its host program.
        record: record of this compilation so far, with passes, kernels and times.
    """

    stage: Traced
    program: Program

    def __repr__(self) -> str:
        return f"Lowered({_heading(self.stage.traced)})"

    @property
    def optimized(self) -> Optimized:
        """The program after all passes, with its kernels and its host program."""
        return self.program.optimized

    @property
    def record(self) -> CompilationRecord:
        """Record of this compilation so far, with passes, kernels and times."""
        return self.program.record

    def as_text(self, dialect: str = "dhlo") -> str:
        """Text of the program in one of its forms.

        Args:
            dialect: ``"dhlo"``: after all passes; ``"stitch"``: its groups; ``"kernel"``: its kernels; ``"host"``: its
                host program; ``"stablehlo"``: as it was traced (``dyn.interop.stablehlo.dump``).

        Returns:
            A string.

        Raises:
            ArgumentError: for another form.

        Example:
            >>> "stablehlo.add" in dyn.jit(lambda x: x + 1).lower(np.zeros(3)).as_text("stablehlo")
            True
        """
        import_whole("dyn.ir.printer", "dyn.schedule.kernel_text", "dyn.schedule.launch")
        from dyn.ir.printer import print_function
        from dyn.schedule.kernel_text import kernel_text
        from dyn.schedule.launch import walk_launches

        if dialect == "dhlo":
            return print_function(self.optimized.function)
        if dialect == "stitch":
            return self.optimized.plan.text()
        if dialect == "kernel":
            launches = walk_launches(self.optimized.launches)
            return "\n".join(kernel_text(v.kernel) for launch in launches for v in launch.variants)
        if dialect == "host":
            return self.optimized.host.text()
        if dialect in _DialectHook.dialects:
            return _DialectHook.dialects[dialect](self)
        names = ", ".join(["dhlo", "stitch", "kernel", "host", *_DialectHook.dialects])
        raise ArgumentError(f"there is no dialect {dialect!r}.", remedy=f"use one of {names}.")

    def compile(self, target: str | None = None) -> Compiled:
        """Machine code of the program, for this machine or for one that is not here.

        What is compiled for another machine can be looked at, and not called.

        Args:
            target: ``"cuda:sm_90a"``, ``"rocm:gfx90a"``, ``"x86:x86-64-v3"``, …; None: this machine.

        Returns:
            A :class:`Compiled`.

        Raises:
            ArgumentError: for a text that is no target.
            BackendUnavailableError: where the target's compiler is not installed.

        Example:
            >>> dyn.jit(lambda x: x + 1).lower(np.zeros(3)).compile()(np.array([1.0, 2.0]))
            array([2., 3.])
        """
        shapes = [leaf.array.shape for leaf in self.stage.leaves if leaf.array is not None]
        known = shapes if len(shapes) == len(self.stage.leaves) else None
        import_whole("dyn.progress")
        from dyn.progress import WATCH

        with WATCH.compiling(self.stage.traced.function.name):
            if target is None:
                return Compiled(self.stage, self.program, load(self.program, shapes=known))
            import_whole("dyn.backends.families")
            from dyn.backends.families import Placement, parse_target

            record = record_of(self.stage.traced, self.stage.seconds)
            program = self.program.on(Placement(parse_target(target)), record)
            program.build()
            return Compiled(self.stage, program, None)


@dataclass(eq=False, repr=False)
class Compiled:
    """Compiled program, called with arguments like those it was traced for, of any sizes.

    Attributes:
        stage: the traced program.
        version: the program in memory.
    """

    stage: Traced
    program: Program
    _version: Version | None

    def __repr__(self) -> str:
        return f"Compiled({_heading(self.stage.traced)})"

    @property
    def version(self) -> Version:
        """The program in memory; BackendUnavailableError where it was compiled for another machine."""
        if self._version is None:
            raise BackendUnavailableError(
                f"{self.stage.arguments.title} was compiled for {self.program.placement.target}, to be looked at.",
                remedy="compile it without target=, and call that.",
            )
        return self._version

    @without_own_frames
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        arguments = self.stage.arguments
        version = self.version
        bound = arguments.bind(args, kwargs)
        viewed, host = arguments.viewed(bound)
        self._check(viewed, arguments.leaves(viewed))
        call = arguments.read(bound, viewed, host, arguments.placement(viewed))
        if not version.traced.matches(call.arrays):
            broken = broken_guard_text(version, call.arrays)
            raise ShapeError(
                f"{arguments.title} was compiled for other shapes: it is for {broken}.",
                remedy="call the jitted function.",
            )
        result = arguments.run(version, call)
        arguments.use_up(bound, version)
        return result

    def _check(self, bound: BoundArguments, leaves: Sequence[ArgumentLeaf]) -> None:
        """Raise the error of a call with arguments of other kinds than the program's."""
        arguments = self.stage.arguments
        expected = [(leaf.dtype, leaf.rank, leaf.weak) for leaf in self.stage.leaves]
        if bound.tree != self.stage.bound.tree:
            own, given = tree_text(self.stage.bound.tree), tree_text(bound.tree)
            raise ArgumentError(
                f"{arguments.title} was compiled for arguments {own}, not {given}.",
                remedy="compile for the other tree as well, or call the jitted function.",
            )
        if [(leaf.dtype, leaf.rank, leaf.weak) for leaf in leaves] != expected:
            names = arguments.signature.leaf_names(bound)
            for name, leaf, (dtype, rank, _) in zip(names, leaves, expected, strict=True):
                if (leaf.dtype, leaf.rank) != (dtype, rank):
                    raise ArgumentError(
                        f"{arguments.title} was compiled for {name} of dtype {dtype.name} and {rank} axes, "
                        f"not {leaf.dtype.name} and {leaf.rank}.",
                        remedy=f"convert {name}, or call the jitted function, which compiles for both.",
                    )

    def as_text(self, dialect: str = "dhlo") -> str:
        """Text of the program, or of its code.

        Args:
            dialect: what :meth:`Lowered.as_text` has; ``"llvm"`` and ``"asm"``, of a program for a GPU those of the
                code around its kernels; and of its kernels ``"cuda"`` and ``"ptx"``, or ``"hip"``.

        Returns:
            A string.

        Raises:
            ArgumentError: for another form.
        """
        if dialect in ("llvm", "asm", "cuda", "ptx", "hip"):
            return self.program.as_text(dialect)
        return Lowered(self.stage, self.program).as_text(dialect)

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes of intermediate memory as a formula over the dims, and those of what is kept beside calls.

        Returns:
            A :class:`MemoryAnalysis`: a string.

        Example:
            >>> dyn.jit(lambda x: x + 1).lower(np.zeros(3)).compile().memory_analysis()
            '0'
        """
        program = self.program
        return MemoryAnalysis(format_dim(program.optimized.host.arena), sum(program.bytes_in_panels))

    def cost_analysis(self, sizes: Mapping[str, int] | None = None) -> CostAnalysis:
        """Operations of the program and bytes that it reads and writes, as formulas of its sizes or as numbers.

        Operations are those of the optimised program, in arithmetic of any dtype: an elementwise function, a comparison
        and an element of a reduction are one each, a multiply-add two; transcendental functions are counted apart, as
        in XLA. Choices, conversions and arithmetic on places count for nothing. Bytes are what each kernel touches of
        its arrays, once. A loop whose number of iterations no size says has a name for it; of a choice the branch
        counts that takes most.

        Args:
            sizes: sizes by name, as in ``{"b": 8, "s": 128}``; None for formulas of all of them.

        Returns:
            A :class:`~dyn.explain.cost_analysis.CostAnalysis`: a dict by JAX's names, ``"flops"``,
            ``"transcendentals"`` and ``"bytes accessed"``, with the costs of each kernel.

        Raises:
            ArgumentError: for a name that the program has no size of, or what is no size.

        Example:
            >>> spec = dyn.ShapeDtypeStruct(("m", "k"), "float32"), dyn.ShapeDtypeStruct(("k", "n"), "float32")
            >>> cost = dyn.jit(lambda x, y: x @ y).lower(*spec).compile().cost_analysis()
            >>> str(cost["flops"])
            '2*m*k*n'
            >>> cost.at({"m": 2, "k": 3, "n": 4})["flops"]
            48
        """
        import_whole("dyn.explain.cost_analysis")
        from dyn.explain.cost_analysis import analyze

        optimized = self.program.optimized
        found = analyze(optimized.function, optimized.launches, self.stage.traced.function.symbols())
        return found if sizes is None else found.at(sizes)

    def save(self, path: str) -> None:
        """Not there yet.

        Args:
            path: file to write.

        Raises:
            NotYetError: always.
        """
        raise NotYetError("saved programs come later.")
