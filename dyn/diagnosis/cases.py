"""Cases: a program with the arrays of one call of it, run whole by dyn's code and by the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dyn.array import captured_on, is_own
from dyn.backends.reference import bind_symbols, run_reference
from dyn.diagnosis.stored import StoredProgram
from dyn.errors import ArgumentError, NotYetError
from dyn.ir.core import Function, Op, ParamInfo, Value
from dyn.ir.evaluate import run_ops
from dyn.ir.substitute_dims import Substitution
from dyn.lazy_property import lazy_property
from dyn.passes.inline_calls import inline_calls
from dyn.runtime.device_memory import DeviceArray
from dyn.shapes import Facts, Symbol
from dyn.stages import Traced
from dyn.trace.held import HeldBuffer
from dyn.trace.pytree import TreeSpec, list_tree

Array = np.ndarray[Any, Any]


class Traceable(Protocol):
    """A compiled function of any front end."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Its program for some arguments."""
        ...


@dataclass(frozen=True, eq=False)
class Case:
    """A program without calls of other programs, and the arrays of a call, those that it captures among them."""

    function: Function
    arrays: tuple[Array, ...]
    out_tree: TreeSpec

    @property
    def env(self) -> Mapping[Symbol, int]:
        """The sizes of the call; ShapeError where the arrays are not for the program."""
        return bind_symbols(self.function, self.arrays)

    def reference(self) -> list[Array]:
        """The results by NumPy, op by op."""
        return run_reference(self.function, self.arrays)

    @lazy_property
    def _computed(self) -> tuple[Mapping[Value, Array], Mapping[Symbol, int]]:
        function = self.function
        values = dict(zip(function.params, self.arrays, strict=True))
        kept = [*function.params, *[value for op in function.ops for value in op.results]]
        sizes = run_ops(function.ops, values, self.env, kept)
        return values, sizes

    @property
    def values(self) -> Mapping[Value, Array]:
        """All values outside of regions, by NumPy."""
        return self._computed[0]

    @property
    def sizes(self) -> Mapping[Symbol, int]:
        """All sizes, those too that the program finds out."""
        return self._computed[1]


def case_of(function: Traceable | StoredProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Case:
    """The case of a call.

    Raises:
        ArgumentError: for a :class:`dyn.ShapeDtypeStruct`, which has no elements.
        NotYetError: for arrays on a GPU.
        DynError: what tracing raises.
    """
    if isinstance(function, StoredProgram):
        own = inline_calls(function.function)
        return Case(own, tuple(function.arrays(args)), list_tree(len(own.results)))
    stage = function.trace(*args, **kwargs)
    traced, name = stage.traced, stage.traced.function.name
    captured = [captured_on(None, HeldBuffer(one) if is_own(one) else one, name) for one in traced.captured]
    arrays: list[Array] = []
    for array in (*[leaf.array for leaf in stage.leaves], *captured):
        if array is None:
            raise ArgumentError(f"{name}() was given a ShapeDtypeStruct, which has no elements.", remedy="pass arrays.")
        if isinstance(array, DeviceArray):
            raise NotYetError(
                f"{name}() runs on a GPU: programs are looked into on the processor.",
                remedy="call it with arrays of the processor.",
            )
        # A copy: what the call is about stays as it is, whatever the program writes to.
        arrays.append(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    own = inline_calls(traced.function)
    # What it captures is an argument like others here.
    own = replace(own, infos=tuple([replace(info, hidden=False) for info in own.infos]))
    return Case(own, tuple(arrays), traced.out_tree)


def at_sizes(function: Function, env: Mapping[Symbol, int]) -> Function:
    """The program with numbers for its sizes. What it demands of them is known to hold."""
    fixed = Substitution(env).function(function, Facts.none())
    return replace(fixed, infos=tuple([replace(info, dims=None) for info in fixed.infos]))


def part(name: str, ops: Sequence[Op], results: Sequence[Value], facts: Facts) -> Function:
    """Some ops of a program as a program of their own, whose parameters are the values that they read."""
    made = {value for op in ops for value in op.results}
    params = tuple(dict.fromkeys(value for op in ops for value in op.reads() if value not in made))
    infos = tuple([ParamInfo(value.name or f"x{number}") for number, value in enumerate(params)])
    return Function(name, params, tuple(ops), tuple(results), facts, infos)
