"""One program of a JAX function: traced by JAX, compiled by dyn, for the calls that its guards let through."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn.errors import NotYetError, ShapeError, TraceError
from dyn.interop.jax.arguments import CallTree
from dyn.interop.jax.devices import memory
from dyn.interop.jax.internals import Internals
from dyn.interop.jax.results import finish, wrapper
from dyn.interop.jax.sizes import TraceSizes
from dyn.interop.jax.tracing import Exported, JaxTracing
from dyn.interop.jax.xla import XLA
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.decode import is_known
from dyn.interop.stablehlo.hlo import HloModule
from dyn.interop.stablehlo.load import function_of
from dyn.shapes import Dim, Relation, Symbol, first_broken
from dyn.specialize.arguments import ShapeDtypeStruct

Array = np.ndarray[Any, Any]


class JaxProgram:
    """A module of JAX's as a function of dyn's for a device, and how a call's leaves go in and come out."""

    def __init__(
        self, parts: Internals, name: str, plan: CallTree, exported: Exported, device: str | None = None,
        why: str = "",
    ) -> None:  # fmt: skip
        self._parts, self.plan, self.device = parts, plan, device
        #: What it was made for, but for sizes, in words.
        self.made_for: Any = None
        #: The Python functions that the module calls by number.
        self.imported = exported.callbacks
        self.sizes: TraceSizes = exported.sizes
        self.kept, self.tree, self._results = exported.kept, exported.tree, exported.results
        self.wrappers = [wrapper(parts, result, device) for result in exported.results]
        self.is_plain = all(result.impl is None and result.shape is None for result in exported.results)
        self._single = len([r for r in exported.results if r.shape is None]) == 1
        position = {leaf: number for number, leaf in enumerate(plan.symbolic)}
        self.binding, self.guards = self.sizes.conditions(position)
        self._module = _module(exported, name, [plan.names[n] for n in exported.kept])
        # JAX's arrays on the processor never change, and so are not written to.
        donated = [at for at, leaf in enumerate(self.kept) if device is not None and leaf in plan.donated]
        self.run = function_of(
            self._module, rules=XLA, device=device, donate_argnums=donated, imported=self.imported,
            demands=self._demands,
        )  # fmt: skip
        self.run.reason = why

    def _demands(self, shapes: Sequence[Sequence[Dim]]) -> list[Relation]:
        """The guards, of the dims that the arguments have in the program."""
        return self.sizes.demands(dict(zip(self.kept, shapes, strict=True)))

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Tell whether the program is for calls whose symbolic leaves have these shapes."""
        return not self.guards or first_broken(self.guards, self.binding.sizes(shapes)) is None

    def __call__(self, leaves: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Any:
        """The function's results for a call's leaves; ``shapes`` are those of the symbolic ones."""
        made = self.run(*[memory(leaves[n]) for n in self.kept])
        arrays = (made,) if self._single else made
        if self.is_plain:
            results = [wrap(array) for wrap, array in zip(self.wrappers, arrays, strict=True)]
        else:
            results = finish(self._parts, self._results, self.wrappers, arrays, lambda: self._env(shapes))
        return self.tree.unflatten(results)

    def _env(self, shapes: Sequence[tuple[int, ...]]) -> Mapping[Symbol, int]:
        return self.binding.sizes(shapes)

    def structs(self) -> list[ShapeDtypeStruct]:
        """The arrays that dyn's function takes, without their elements."""
        types = self._module.functions["main"].body.params
        return [ShapeDtypeStruct(tuple([n if isinstance(n, int) else None for n in v.shape]), v.dtype) for v in types]

    def places(self) -> dict[Symbol, str]:
        """The symbols of sizes, each as a user would write it: ``x.shape[0]``."""
        names = self.plan.names
        return {one: p.text(f"{names[p.leaf]}.shape[{p.axis}]") for one, p in self.sizes.places.items()}

    def guard_lines(self) -> list[str]:
        """The guards, each with why and where."""
        places, lines = self.places(), list[str]()
        for guard in self.sizes.guards:
            lines.append(f"{guard.text(places)}: {guard.kind.value}")
            if guard.loc.line:
                lines.append(f"  at {guard.loc.describe()}")
            if guard.why:
                lines.append(f"  JAX: {guard.why}")
        return lines


def _module(exported: Exported, name: str, names: Sequence[str]) -> HloModule:
    module = mlir.parse(exported.module, is_known, trusted=True)
    plain = tuple([re.sub(r"\W+", "_", one).strip("_") for one in names])
    main = replace(module.functions["main"], param_names=plain)
    return replace(module, name=name, functions={**module.functions, "main": main})


def build(
    parts: Internals, name: str, plan: CallTree, tracing: JaxTracing, sizes: TraceSizes, leaves: Sequence[Any] | None,
    shapes: Sequence[tuple[int, ...]], device: str | None = None, why: str = "",
) -> tuple[JaxProgram, Any]:  # fmt: skip
    """A program for a device, and what it gives for the leaves of the call that it is made for (None without leaves).

    ``why`` says why it is there beside others.
    What JAX can export and dyn cannot compile for symbolic sizes is compiled for these alone.
    """
    exported = tracing.run(sizes)
    try:
        return _tried(JaxProgram(parts, name, plan, exported, device, why), leaves, shapes)
    except (TraceError, ShapeError, NotYetError) as error:
        if not exported.sizes.free:
            raise
        last = error
    static = tracing.static(exported.sizes, last)
    return _tried(JaxProgram(parts, name, plan, static, device, why), leaves, shapes)


def _tried(
    program: JaxProgram, leaves: Sequence[Any] | None, shapes: Sequence[tuple[int, ...]]
) -> tuple[JaxProgram, Any]:
    if leaves is None:
        program.run.trace(*program.structs())
        return program, None
    return program, program(leaves, shapes)
