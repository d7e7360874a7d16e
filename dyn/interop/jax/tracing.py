"""JAX's trace of a function for symbolic sizes: again and again, until JAX knows of them what it has to know."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import DynError, NotYetError
from dyn.interop.jax.answers import Answers
from dyn.interop.jax.callbacks import Callbacks
from dyn.interop.jax.internals import Internals, required
from dyn.interop.jax.listening import ASK_FOR_LENGTHS, answered
from dyn.interop.jax.size_assumptions import FailedTrace, next_sizes
from dyn.interop.jax.sizes import TraceSizes
from dyn.interop.stablehlo.codecs.linalg import FFT
from dyn.interop.stablehlo.custom_calls import EXTERNAL, Imported
from dyn.late_imports import import_whole
from dyn.shapes import Dim
from dyn.trace import answered_names
from dyn.trace.identifiers import identifier

#: A program that needs more traces than this is for its sizes alone.
MOST_TRACES = 64
_CUSTOM_CALL = re.compile(r"@([\w.$-]+)\(")


@dataclass(frozen=True, slots=True)
class LeafType:
    """JAX's type of an array argument, but for its sizes."""

    dtype: Any
    weak: bool


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a program: its type, and what has to be done to its elements.

    ``impl`` is the generator of typed keys, whose words the elements are. A result of dtype float0 has no elements, and
    is made anew; ``shape`` is its shape then.
    """

    dtype: Any
    weak: bool
    impl: Any = None
    shape: tuple[Dim | None, ...] | None = None


@dataclass
class _Outputs:
    """Results and callbacks of the function, as a trace found them."""

    callbacks: Callbacks
    tree: Any = None
    results: list[Result] = field(default_factory=list[Result])


@dataclass(frozen=True)
class Exported:
    """A function that JAX traced: the module, which arguments it takes, and its results."""

    module: bytes
    kept: tuple[int, ...]
    tree: Any
    results: tuple[Result, ...]
    sizes: TraceSizes
    #: What the module calls by number (``dyn.interop.jax.callbacks``).
    callbacks: tuple[Imported, ...] = ()


#: What a trace comes to: the module and its outputs with the answers that it was given, or how it failed.
_Attempt = FailedTrace | tuple[tuple[Any, _Outputs], Answers]


def _signature_of(names: Sequence[str]) -> inspect.Signature:
    """The signature of a function of leaves: ``batch['x']`` is ``batch_x``."""
    called = [identifier(name, "arg") for name in names]
    if len(set(called)) < len(called):
        called = [f"arg_{number}" for number in range(len(called))]
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in called])


class JaxTracing:
    """The traces of a function for one call: ``function(leaves)`` gives its results as a tree.

    ``shapes`` are the leaves' shapes in the call, ``types`` the rest of their types. ``user_function`` is what the user
    wrote.
    """

    def __init__(
        self, parts: Internals, name: str, function: Callable[[Sequence[Any]], Any], types: Sequence[LeafType],
        shapes: Sequence[tuple[int, ...]], names: Sequence[str] = (), user_function: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.parts, self.name, self.function = parts, name, function
        self.user_function = user_function
        self.types, self.shapes = types, shapes
        self.names = names
        #: How often JAX has traced the function.
        self.count = 0
        self._custom_calls: list[str] = []
        self._static_works = False

    def run(self, sizes: TraceSizes) -> Exported:
        """The program for a call, for as many other calls as can be.

        Raises what the function raises for the very shapes of the call, and what JAX raises where it cannot export it.
        """
        made = self._attempt(sizes)
        while self.count < MOST_TRACES:
            if isinstance(made, FailedTrace):
                step = self._mended(made)
                if step is None:
                    break
                made = step
                continue
            exported, answers = made
            sizes = answers.spread
            for symbol, loc in answers.looked_up.items():
                sizes = sizes.static(symbol, loc, "")
            if sizes is answers.sizes:
                return self._finished(exported, answers.settled)
            made = self._attempt(sizes)
        failure = made if isinstance(made, FailedTrace) else None
        return self.static(sizes, failure)

    def static(self, sizes: TraceSizes, failure: FailedTrace | DynError | None) -> Exported:
        """The program for the sizes of the call alone. ``failure`` is why."""
        text = failure.text if isinstance(failure, FailedTrace) else "" if failure is None else failure.problem
        loc = failure.loc if failure is not None else None
        import_whole("dyn.source")
        from dyn.source import UNKNOWN

        made = self._attempt(sizes.all_static(UNKNOWN if loc is None else loc, text))
        if isinstance(made, FailedTrace):
            raise made.error
        return self._finished(made[0], made[1].sizes)

    def _mended(self, failure: FailedTrace) -> _Attempt | None:
        """The trace by the first remedy that leads further, ended or failed again; None where none does."""
        for remedy in next_sizes(failure):
            if (remedy.written, remedy.guards) == (failure.sizes.written, failure.sizes.guards):
                continue
            if self.count >= MOST_TRACES:
                return None
            made = self._attempt(remedy)
            if isinstance(made, FailedTrace) and not self._static_works:
                self._try_static(made)
            if not isinstance(made, FailedTrace) or failure.leads_on(made):
                return made
        return None

    def _try_static(self, failure: FailedTrace) -> None:
        """Raise what the function raises for numbers, as ``jax.jit`` would."""
        jax = self.parts.jax
        self.count += 1
        specs = [self._spec(number, shape) for number, shape in enumerate(self.shapes)]
        try:
            jax.eval_shape(self._closed(_Outputs(Callbacks(jax)), Answers(failure.sizes)), *specs)
        except Exception as error:
            error.__context__ = None if error.__context__ is failure.error else error.__context__
            raise
        self._static_works = True

    def _attempt(self, sizes: TraceSizes) -> _Attempt:
        modules = [required(module) for module in ASK_FOR_LENGTHS]
        return answered_names.answered(lambda: self._attempt_once(sizes), self.user_function, modules)

    def _attempt_once(self, sizes: TraceSizes) -> _Attempt:
        jax = self.parts.jax
        self.count += 1
        outputs = _Outputs(Callbacks(jax))
        answers = Answers(sizes)
        with answered(self.parts.dimension, answers), self.parts.whole_tracebacks():
            try:
                shapes = answers.shapes(jax)
                specs = [self._spec(n, shapes.get(n, shape)) for n, shape in enumerate(self.shapes)]
                names = [EXTERNAL, FFT, *self._custom_calls]
                checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]
                closed = jax.jit(self._closed(outputs, answers))
                options = {"platforms": ("cpu",), "disabled_checks": checks, **outputs.callbacks.options}
                exported = jax.export.export(closed, **options)(*specs)
            except DynError:
                raise
            except Exception as error:  # whatever it is: with the sizes at hand it may not come
                if self._allow_custom_calls(str(error)):
                    return self._attempt(sizes)
                answered_names.ask_of_types(error)
                wants_number = isinstance(error, jax.errors.JAXTypeError)
                needed = answers.computed_with if wants_number or answers.has_floats else answers.needed
                return FailedTrace(error, answers.sizes, tuple(answers.doubts), tuple(needed), wants_number)
        return (exported, outputs), answers

    def _allow_custom_calls(self, message: str) -> bool:
        """JAX exports calls whose meaning may change only when asked to by name. Ours does not outlive the process."""
        if "no compatibility guarantees" not in message:
            return False
        new = [name for name in dict.fromkeys(_CUSTOM_CALL.findall(message)) if name not in self._custom_calls]
        self._custom_calls += new
        return bool(new)

    def _spec(self, number: int, shape: Sequence[Any]) -> Any:
        type = self.types[number]
        return self.parts.jax.ShapeDtypeStruct(tuple(shape), type.dtype, weak_type=type.weak)

    def _closed(self, outputs: _Outputs, answers: Answers) -> Callable[..., Any]:
        """The function of its leaves, of which JAX exports nothing that StableHLO has no type for."""
        jax = self.parts.jax

        def closed(*leaves: Any) -> list[Any]:
            made, outputs.tree = jax.tree.flatten(self.function(leaves))
            arrays: list[Any] = []
            outputs.results = []
            for value in made:
                aval = jax.typeof(value)
                impl, shape = None, None
                if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
                    impl, value = jax.random.key_impl(value), jax.random.key_data(value)
                elif aval.dtype == jax.dtypes.float0:
                    shape = tuple(map(answers.dim, aval.shape))
                if shape is None:
                    arrays.append(value)
                outputs.results.append(Result(aval.dtype, aval.weak_type, impl, shape))
            return arrays

        closed.__name__ = closed.__qualname__ = self.name
        if self.user_function is not None:  # JAX's errors say where the function is, and what its arguments are called
            attributes = vars(closed)
            attributes["__wrapped__"] = self.user_function
            attributes["__signature__"] = _signature_of(self.names)
        return closed

    def _finished(self, made: tuple[Any, _Outputs], sizes: TraceSizes) -> Exported:
        exported, outputs = made
        known = {d.name for d in dtypes.ALL}
        for aval in exported.out_avals:
            if np.dtype(aval.dtype).name not in known:
                raise NotYetError(f"{self.name}(): results of dtype {aval.dtype} come later.")
        kept = tuple(exported.module_kept_var_idx)
        called = tuple(outputs.callbacks.kept)
        return Exported(exported.mlir_module_serialized, kept, outputs.tree, tuple(outputs.results), sizes, called)
