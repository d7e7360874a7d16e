"""Programs of dyn as StableHLO."""

from __future__ import annotations

from typing import Any, Literal

from dyn.errors import ArgumentError
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.encode import encode
from dyn.interop.stablehlo.hlo import HloModule
from dyn.stages import Compiled, Lowered, Traced
from dyn.trace.function import TracedFunction
from dyn.trace.lift import as_numpy

Stage = Traced | Lowered | Compiled | TracedFunction


def module_of(stage: Stage, *, for_xla: bool = False) -> HloModule:
    """The program of a stage as StableHLO's records; ``for_xla`` is :func:`~dyn.interop.stablehlo.encode.encode`'s."""
    traced = traced_of(stage)
    return encode(traced.function, [as_numpy(a) for a in traced.captured], for_xla=for_xla)


def traced_of(stage: Any) -> TracedFunction:
    if isinstance(stage, TracedFunction):
        return stage
    if isinstance(stage, Lowered | Compiled):
        stage = stage.stage
    if isinstance(stage, Traced):
        return stage.traced
    raise ArgumentError(
        f"dump() takes a traced, lowered or compiled program, not a {type(stage).__name__}.",
        remedy="write dump(f.trace(x)): a function has a program for each dtype and rank of its arguments.",
    )


def dump(
    stage: Stage, version: str | int | None = None, format: Literal["text", "bytecode"] | None = None
) -> str | bytes:
    """StableHLO module of a program of dyn, as it was traced.

    Its ``main`` takes the array arguments in order and gives the results in order. Sizes that are symbolic are ``?``,
    and what the program demands of them is asserted at its start (the custom call ``shape_assertion``, as in what
    ``jax.export`` writes); arrays that the function closes over are constants of it.

    Args:
        stage: what ``f.trace(…)``, ``f.lower(…)`` or ``.compile()`` gives.
        version: ``"1.0.0"``, or how many weeks old a consumer may be: a portable artifact, which any consumer of that
            version or a later one reads, in which CHLO is written out; None: none.
        format: ``"text"`` or ``"bytecode"``, of the StableHLO of this jaxlib; None: text, unless there is a version.

    Returns:
        A string, or bytes of bytecode and of an artifact.

    Raises:
        NotYetError: at the user's line, for an op that has no StableHLO form yet.
        ArtifactError: for a version that cannot be written.
        BackendUnavailableError: without jaxlib.

    Example:
        >>> "stablehlo.add" in dyn.interop.stablehlo.dump(dyn.jit(lambda x: x + 1).trace(np.zeros(3)))
        True
    """
    if format not in (None, "text", "bytecode"):
        raise ArgumentError(f"format={format!r} is neither 'text' nor 'bytecode'.")
    if version is not None and format == "text":
        raise ArgumentError("a version is a matter of bytecode.", remedy="leave format= out, or version=.")
    module = mlir.write(module_of(stage))
    if version is not None:
        return mlir.portable_artifact(module, mlir.version_of_weeks(version) if isinstance(version, int) else version)
    return mlir.bytecode_of(module) if format == "bytecode" else mlir.text_of(module, locations=True)
