"""A program as Python code with a line for each op, so that a debugger can step through it.

The code is text like this, in which ``op.exponential(1, v0)`` computes op number 1::

    def softmax(op, x):
        v0 = op.reduce(0, x, …)  # f32[3]  model.py:5  e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        v1 = op.exponential(1, v0)  # …
        return (v1,)

Regions are functions inside it. A value is forgotten after its last use unless somebody wants to look at all of them.
"""

from __future__ import annotations

import itertools
import keyword
import linecache
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dyn.backends.reference import bind_symbols
from dyn.diagnosis.cases import Case, at_sizes, part
from dyn.diagnosis.stored import compiled
from dyn.ir.core import Function, Op, Region, Value
from dyn.ir.differentiate import leading_to
from dyn.ir.effects import has_effect
from dyn.ir.evaluate import RegionFunction, check_relations, region_function, run_op
from dyn.ir.identity import function_identity
from dyn.ir.opdef import ContractionLoops, Convolution, OpKind, ReductionLoops, RunningLoops, Scatter, WindowFold
from dyn.ops import OWN_OPS
from dyn.ops.scalar import Scalar
from dyn.shapes import Facts, Symbol
from dyn.trace.identifiers import identifier

Array = np.ndarray[Any, Any]
#: Computes an op: the op, its operands, sizes, and the values that its regions read from outside.
Compute = Callable[[Op, Sequence[Array], Mapping[Symbol, int], Mapping[Value, Array]], Sequence[Array]]


class Watcher(Protocol):
    """Is told of each op once it is computed."""

    def __call__(
        self, op: Op, operands: Sequence[Array], outer: Mapping[Value, Array], results: Sequence[Array]
    ) -> None:
        """Look at an op's operands, what its regions read from ``outer`` of them, and its results."""
        ...


#: Ops whose results no kernel of their own computes: constants and the like, measured dims, loops and choices.
_NO_KERNELS = (OpKind.GENERATE, OpKind.DATA_DEPENDENT_SIZE, OpKind.BARRIER, OpKind.CONTROL, OpKind.CALL)


def has_kernel(op: Op) -> bool:
    """Return True if dyn computes an op, alone, by a kernel or a library routine, and it has no effects."""
    return op.opdef.kind not in _NO_KERNELS and not has_effect(op)


def combine_of(op: Op) -> Scalar | None:
    """The function by which an op joins its operands' elements, or their products; None where it joins none."""
    loops = op.opdef.loops
    if isinstance(loops, ReductionLoops | RunningLoops | WindowFold | Scatter):
        return loops.combine(op.attrs)
    return Scalar.ADD if isinstance(loops, ContractionLoops | Convolution) else None


class OwnKernels:
    """Ops computed one by one by dyn's own code, at numbers for sizes. Equal ops are compiled once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Callable[[Sequence[Array]], list[Array]]] = {}
        self._equal: dict[str, Callable[[Sequence[Array]], list[Array]]] = {}

    def __call__(
        self, op: Op, operands: Sequence[Array], env: Mapping[Symbol, int], outer: Mapping[Value, Array]
    ) -> Sequence[Array]:
        """The results of an op that :func:`has_kernel`."""
        values = {**outer, **dict(zip(op.operands, operands, strict=True))}
        arrays = [values[value] for value in dict.fromkeys(op.reads())]
        key = op, tuple(env.items())
        if key not in self._known:
            alone = at_sizes(part(op.opdef.name, (op,), op.results, Facts.none()), env)
            structure = function_identity(alone, OWN_OPS).structure
            if structure not in self._equal:
                self._equal[structure] = compiled(alone)
            self._known[key] = self._equal[structure]
        return self._known[key](arrays)


class Steps:
    """A case as Python code, ready to run.

    Attributes:
        ops: the ops of the program, those of regions too, by the numbers that the code has for them.
        text: the code.
        file: the file that tracebacks say it is of.
    """

    def __init__(self, case: Case, compute: Compute, *, keeps_values: bool = False) -> None:
        self._compute = compute
        self._watch: Watcher = lambda op, operands, outer, results: None
        self._env: dict[Symbol, int] = dict(bind_symbols(case.function, case.arrays))
        self._relations = case.function.facts.relations
        self._case = case
        writer = _Writer(case.function, keeps_values)
        self.ops: Sequence[Op] = writer.ops
        self.text = "\n".join(writer.lines) + "\n"
        file = f"<replay of {case.function.name}>"
        linecache.cache[file] = len(self.text), None, self.text.splitlines(keepends=True), file
        namespace: dict[str, Any] = {}
        exec(compile(self.text, file, "exec"), namespace)
        self._function: Callable[..., tuple[Array, ...]] = namespace[writer.name]
        self.file = file

    def run(self, watch: Watcher, call: Callable[..., Any] | None = None) -> tuple[Array, ...] | None:
        """The results, in fresh arrays; ``call`` calls the code's function, and gives None if that is left."""
        self._watch = watch
        check_relations(self._relations, self._env)
        arguments = _Ops(self._step), *self._case.arrays
        made: tuple[Array, ...] | None = (
            self._function(*arguments) if call is None else call(self._function, *arguments)
        )
        return None if made is None else tuple([np.array(one) for one in made])

    def _step(self, number: int, *operands: Array, regions: Sequence[Callable[..., Any]] = (), **outer: Array) -> Any:
        op = self.ops[number]
        # Regions that are functions of the code see what they read themselves.
        reads = {} if regions else dict(zip(_read_by_regions(op), outer.values(), strict=True))
        if has_kernel(op):
            results = tuple(self._compute(op, operands, self._env, reads))
        else:
            bodies = self._regions(op, regions, reads)
            results, env = run_op(op, operands, self._env, bodies, relations=self._relations)
            self._env.update(env)
        self._watch(op, operands, reads, results)
        return results if len(op.results) != 1 else results[0]

    def _regions(
        self, op: Op, bodies: Sequence[Callable[..., Any]], reads: Mapping[Value, Array]
    ) -> list[RegionFunction]:
        if not bodies:
            return [region_function(region, reads, self._env, self._relations) for region in op.regions]
        return [
            RegionFunction(region, {}, self._env, self._relations, body=body)
            for region, body in zip(op.regions, bodies, strict=True)
        ]

    def reference(self, op: Op, operands: Sequence[Array], outer: Mapping[Value, Array]) -> Sequence[Array]:
        """The results of an op by its reference."""
        regions = [region_function(region, outer, self._env) for region in op.regions]
        return run_op(op, operands, self._env, regions)[0]


class _Ops:
    """``op.exponential(1, x)`` in the code: a step, whatever it is called."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self._step = step

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._step


class _Writer:
    """Writes the code of a program."""

    def __init__(self, function: Function, keeps_values: bool) -> None:
        self.ops: list[Op] = []
        self.lines: list[str] = []
        self._keeps_values = keeps_values
        self._names: dict[Value, str] = {}
        self._taken: set[str] = {"op"}
        self._numbers = itertools.count()
        self.name = self._free(_name(function.name))
        for param, info in zip(function.params, function.infos, strict=True):
            self._names[param] = self._free(_name(info.name))
        params = ", ".join(["op", *[self._names[param] for param in function.params]])
        self.lines.append(f"def {self.name}({params}):")
        self._block(function.ops, function.results, "    ")

    def _free(self, name: str) -> str:
        found = name
        while found in self._taken:
            found = f"{name}_{next(self._numbers)}"
        self._taken.add(found)
        return found

    def _block(self, ops: Sequence[Op], results: Sequence[Value], indent: str) -> None:
        needed = set(results)
        ops = leading_to(ops, needed)
        own = {value for op in ops for value in op.results}
        last = {value: op for op in ops for value in op.reads()}
        for op in ops:
            number = len(self.ops)
            self.ops.append(op)
            bodies = self._regions(op, number, indent) if op.opdef.kind is OpKind.CONTROL else []
            for value in op.results:
                self._names[value] = self._free(f"v{len(self._names)}")
            arguments = [str(number), *[self._names[v] for v in op.operands]]
            outer = [] if bodies else _read_by_regions(op)
            arguments += [f"outer_{n}={self._names[v]}" for n, v in enumerate(outer)]
            if bodies:
                arguments.append(f"regions=({', '.join(bodies)},)")
            made = ", ".join(self._names[v] for v in op.results)
            line = f"{made} = " if made else ""
            line += f"op.{_name(op.opdef.name)}({', '.join(arguments)})"
            gone = [v for v in dict.fromkeys(op.reads()) if last[v] is op and v in own and v not in needed]
            gone += [v for v in op.results if v not in last and v not in needed]
            if gone and not self._keeps_values:
                line += f"; del {', '.join(self._names[v] for v in gone)}"
            types = ", ".join(str(v.type) for v in op.results)
            place = op.loc.describe().replace("\n", " ")
            self.lines.append(f"{indent}{line}  # {types}  {place}")
        made = "".join(f"{self._names[v]}, " for v in results)
        self.lines.append(f"{indent}return ({made})")

    def _regions(self, op: Op, number: int, indent: str) -> list[str]:
        return [self._region(region, f"region_{number}_{n}", indent) for n, region in enumerate(op.regions)]

    def _region(self, region: Region, name: str, indent: str) -> str:
        name = self._free(name)
        for param in region.params:
            self._names[param] = self._free(f"v{len(self._names)}")
        self.lines.append(f"{indent}def {name}({', '.join(self._names[param] for param in region.params)}):")
        self._block(region.ops, region.results, f"{indent}    ")
        return name


def _read_by_regions(op: Op) -> list[Value]:
    return list(dict.fromkeys(value for region in op.regions for value in region.reads()))


def _name(text: str) -> str:
    """A name of Python's for something that may be called otherwise."""
    name = identifier(text, "value")
    return f"{name}_" if keyword.iskeyword(name) else name
