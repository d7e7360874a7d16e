"""One program of a JAX function: traced by JAX, compiled by dyn, for the calls that its guards let through."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn.frontend.library import LibraryProgram
from dyn.interop.jax.calls import JaxCall
from dyn.interop.jax.devices import memory
from dyn.interop.jax.frozen import FrozenArguments
from dyn.interop.jax.internals import Internals
from dyn.interop.jax.results import finish, wrapper
from dyn.interop.jax.sizes import TraceSizes
from dyn.interop.jax.tracing import Exported
from dyn.interop.jax.xla import XLA
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.decode import is_known
from dyn.interop.stablehlo.hlo import HloModule
from dyn.interop.stablehlo.load import function_of
from dyn.shapes import Dim, Relation, Symbol, first_broken
from dyn.source import UNKNOWN, Loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.stages import Traced

Array = np.ndarray[Any, Any]


class JaxProgram(LibraryProgram[JaxCall]):
    """A module of JAX's as a function of dyn's for a device, and how a call's leaves go in and come out."""

    def __init__(
        self, parts: Internals, name: str, call: JaxCall, exported: Exported, *, batch_invariant: bool = False
    ) -> None:
        super().__init__()
        plan, device = call.plan, call.kind.device
        self._parts, self.plan, self.device = parts, plan, device
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

        def made(closed_over: Mapping[int, Any]) -> Any:
            function = function_of(
                self._module, rules=XLA, device=device, donate_argnums=donated, imported=self.imported,
                demands=self._demands, batch_invariant=batch_invariant, closed_over=closed_over,
            )  # fmt: skip
            function.reason = self.because
            return function

        self.run = made({})
        frozen = [at for at, leaf in enumerate(self.kept) if device is None and leaf in plan.frozen]
        #: The programs that close over arguments, if any do.
        self.closures = FrozenArguments(parts, frozen, made) if frozen else None

    @property
    def functions(self) -> Sequence[Any]:
        closure = None if self.closures is None else self.closures.function
        return (self.run,) if closure is None else (closure, self.run)

    def _demands(self, shapes: Sequence[Sequence[Dim]]) -> list[Relation]:
        """The guards, of the dims that the arguments have in the program."""
        return self.sizes.demands(dict(zip(self.kept, shapes, strict=True)))

    def fits(self, call: JaxCall) -> bool:
        return not self.guards or first_broken(self.guards, self.binding.sizes(call.shapes)) is None

    def __call__(self, call: JaxCall) -> Any:
        arrays = [call.arrays[n] for n in self.kept]
        closure = None if self.closures is None else self.closures.get(arrays)
        if closure is None:
            made = self.run(*map(memory, arrays))
        else:
            made = closure.function(*[memory(arrays[at]) for at in closure.passed])
        outputs = (made,) if self._single else made
        if self.is_plain:
            results = [wrap(array) for wrap, array in zip(self.wrappers, outputs, strict=True)]
        else:
            results = finish(self._parts, self._results, self.wrappers, outputs, lambda: self._env(call.shapes))
        return self.tree.unflatten(results)

    def trace(self, call: JaxCall) -> Traced:
        arrays = [call.arrays[n] for n in self.kept]
        there = all(array is not None for array in arrays)
        return self.run.trace(*([memory(array) for array in arrays] if there else self._structs()))

    def prepare(self, call: JaxCall) -> None:
        structs = [ShapeDtypeStruct(tuple(call.avals[n].shape), call.avals[n].dtype) for n in self.kept]
        closure = None if self.closures is None else self.closures.get([call.arrays[n] for n in self.kept])
        if closure is None:
            self.run.prepare([tuple(structs)])
        else:
            closure.function.prepare([tuple([structs[at] for at in closure.passed])])

    def _env(self, shapes: Sequence[tuple[int, ...]]) -> Mapping[Symbol, int]:
        return self.binding.sizes(shapes)

    def _structs(self) -> list[ShapeDtypeStruct]:
        """The arrays that dyn's function takes, without their elements."""
        types = self._module.functions["main"].body.params
        return [ShapeDtypeStruct(tuple([n if isinstance(n, int) else None for n in v.shape]), v.dtype) for v in types]

    def places(self) -> dict[Symbol, str]:
        """The symbols of sizes, each as a user would write it: ``x.shape[0]``."""
        names = self.plan.names
        return {one: p.text(f"{names[p.leaf]}.shape[{p.axis}]") for one, p in self.sizes.places.items()}

    def made_by(self) -> tuple[str, Loc]:
        if not self.sizes.guards:
            return "", UNKNOWN
        guard = self.sizes.guards[-1]
        return f"{guard.place(self.places())}: {guard.why or guard.kind.value}", guard.loc

    def conditions(self) -> str:
        places = self.places()
        return "; ".join([f"{one.text(places)}: {one.kind.value}" for one in self.sizes.guards]) or "other sizes"

    def notes(self) -> Sequence[str]:
        places, lines = self.places(), list[str]()
        for guard in self.sizes.guards:
            lines.append(f"{guard.text(places)}: {guard.kind.value}")
            if guard.loc.line:
                lines.append(f"  at {guard.loc.describe()}")
            if guard.why:
                lines.append(f"  JAX: {guard.why}")
        head = "sizes that JAX traced it for, which choose the program"
        frozen = () if self.closures is None else self.closures.notes()
        return [*frozen, *(["\n".join([head, *[f"  {line}" for line in lines]])] if lines else [])]


def _module(exported: Exported, name: str, names: Sequence[str]) -> HloModule:
    module = mlir.parse(exported.module, is_known, trusted=True)
    plain = tuple([re.sub(r"\W+", "_", one).strip("_") for one in names])
    main = replace(module.functions["main"], param_names=plain)
    return replace(module, name=name, functions={**module.functions, "main": main})
