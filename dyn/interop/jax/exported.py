"""Programs of dyn for JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dyn import dtypes
from dyn.errors import NotYetError
from dyn.interop.jax.internals import import_jax
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.dump import Stage, module_of, traced_of
from dyn.ir.core import Function, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Opaque, OpaqueKind, Symbol, SymExpr, format_dim
from dyn.stages import Compiled, Lowered, Traced
from dyn.trace.context import current_trace
from dyn.trace.function import Declarations, LeafSpec, TracedFunction, trace_function
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp

#: A function of flat tracers, in a trace: what is differentiated.
Again = Callable[[list[Tracer]], Sequence[Any]]


def exported(stage: Stage) -> Any:
    """Program of dyn as a ``jax.export.Exported``: ``exported(f.trace(x)).call(x)`` runs it in JAX.

    It can be called at every shape that JAX takes for its symbolic sizes (none of them is 0 there), under ``jax.jit``
    too, and serialised. ``jax.grad`` and its kin take dyn's vjp of the function, which is traced when it is first asked
    for (and by ``serialize(vjp_order=1)``), and has a vjp in its turn.

    Args:
        stage: what ``f.trace(…)``, ``f.lower(…)`` or ``.compile()`` gives.

    Returns:
        The ``Exported``. Its arguments and results are flat: the arrays of the program in order.

    Raises:
        NotYetError: for a result with a size that JAX cannot express (one of two that broadcast), and for an op that
            has no StableHLO form yet.
        UnsupportedOpError: when a derivative is asked for that dyn has not.
    """
    if isinstance(stage, Lowered | Compiled):
        stage = stage.stage
    if not isinstance(stage, Traced):
        return exported_program(traced_of(stage), None, ExportedSignature())
    sizes = tuple([None if leaf.array is None else leaf.array.shape for leaf in stage.leaves])
    return exported_program(stage.traced, stage.again, ExportedSignature(sizes, stage.declarations))


@dataclass(frozen=True, slots=True)
class ExportedSignature:
    """Arguments and results of a program as JAX sees them.

    ``sizes`` are those of the arguments that it was traced for, where there are some; ``declarations`` is what was said
    of its dims. The arguments ``void`` and the results ``void_results``, by number, are what JAX calls float0, and
    writes as booleans: tangents of integers. With ``one`` a single result is an array, and no tuple of one.
    """

    sizes: tuple[tuple[int, ...] | None, ...] | None = None
    declarations: Declarations = field(default_factory=Declarations)
    void: frozenset[int] = frozenset()
    void_results: frozenset[int] = frozenset()
    one: bool = True


def exported_program(traced: TracedFunction, again: Again | None, form: ExportedSignature) -> Any:
    """A traced program as a ``jax.export.Exported``, with a vjp where ``again`` is the function once more."""
    jax = import_jax()
    function = traced.function
    params = [p.type for p, i in zip(function.params, function.infos, strict=True) if not i.hidden]
    results = [v.type for v in function.results]
    avals = _Avals(jax, function)
    ins, outs = avals.of(params, form.void), avals.of(results, form.void_results)
    count, made = len(ins), len(outs)

    @functools.lru_cache(maxsize=1)
    def vjp_program() -> Any:
        assert again is not None
        return _vjp(function, again, avals.names, form)

    module = mlir.write(module_of(traced, for_xla=True))
    return jax.export.Exported(
        fun_name=function.name,
        in_tree=jax.tree.structure((tuple(range(count)), {})),
        in_avals=tuple(ins),
        out_tree=jax.tree.structure(0 if form.one and made == 1 else tuple(range(made))),
        out_avals=tuple(outs),
        _has_named_shardings=True,
        _in_named_shardings=(None,) * count,
        _out_named_shardings=(None,) * made,
        in_shardings_hlo=(None,) * count,
        out_shardings_hlo=(None,) * made,
        nr_devices=1,
        platforms=("cpu",),
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=(),
        mlir_module_serialized=mlir.portable_artifact(module, mlir.version_of_weeks(0)),
        calling_convention_version=jax.export.maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(range(count)),
        uses_global_constants=bool(function.symbols()),
        _get_vjp=None if again is None else lambda _: vjp_program(),
    )


def _vjp(function: Function, again: Again, names: Mapping[Symbol, str], form: ExportedSignature) -> Any:
    """The program of JAX's vjp of an Exported: of its arguments and cotangents of all results, flat."""
    params = [p for p, i in zip(function.params, function.infos, strict=True) if not i.hidden]
    infos = [i.name for i in function.infos if not i.hidden]
    by = [i for i, p in enumerate(params) if p.dtype.is_inexact]
    of = [i for i, r in enumerate(function.results) if r.dtype.is_inexact]

    def axes(value: Value) -> tuple[int | str, ...]:
        return tuple([d if isinstance(d, int) else format_dim(d, names) for d in value.shape])

    def pulled(tracers: list[Tracer]) -> list[Any]:
        primals, cts = tracers[: len(params)], tracers[len(params) :]

        def of_chosen(*chosen: Any) -> list[Any]:
            given = dict(enumerate(primals)) | dict(zip(by, chosen, strict=True))
            made = again([given[i] for i in range(len(params))])
            return [made[i] for i in of]

        _, pull = vjp(of_chosen, *[primals[i] for i in by])
        found = dict(zip(by, pull([cts[i] for i in of]), strict=True))
        return [found[i] if i in found else _nothing(primal) for i, primal in enumerate(primals)]

    sizes = form.sizes or (None,) * len(params)
    specs = [
        LeafSpec(name, value.dtype, axes(value), value.type.weak, known)
        for name, value, known in zip(infos, params, sizes, strict=True)
    ]
    for name, value in zip(function.result_names, function.results, strict=True):
        dtype = value.dtype if value.dtype.is_inexact else dtypes.bool_
        specs.append(LeafSpec(f"the cotangent of {name}", dtype, axes(value)))
    traced = trace_function(pulled, f"vjp_of_{function.name}", specs, form.declarations)
    count = len(params)
    own = ExportedSignature(
        (*sizes, *[None] * len(function.results)),
        form.declarations,
        form.void | {count + i for i in range(len(function.results)) if i not in of},
        frozenset(range(count)) - frozenset(by),
        one=False,
    )
    return exported_program(traced, pulled, own)


def _nothing(like: Tracer) -> Tracer:
    trace = current_trace()
    assert trace is not None, "a vjp is traced"
    return Tracer(trace, zeros(trace.builder, TensorType(dtypes.bool_, like.dims)))


class _Avals:
    """Types as JAX's, their sizes in one scope."""

    def __init__(self, jax: Any, function: Function) -> None:
        self.jax = jax
        self.scope = jax.export.SymbolicScope()
        self.names = {s: f"{s.name}_{n}" if s.name == "_" else s.name for n, s in enumerate(function.symbols())}
        if len(set(self.names.values())) != len(self.names):
            self.names = {s: f"d{n}" for n, s in enumerate(function.symbols())}

    def of(self, types: Sequence[TensorType], void: Collection[int]) -> list[Any]:
        made: list[Any] = []
        for number, type in enumerate(types):
            text = ", ".join([self.text(d) for d in type.shape])
            shape = self.jax.export.symbolic_shape(f"({text},)" if text else "()", scope=self.scope)
            dtype = self.jax.dtypes.float0 if number in void else type.dtype.np
            made.append(self.jax.core.ShapedArray(shape, dtype))
        return made

    def text(self, dim: Dim) -> str:
        if isinstance(dim, SymExpr) and any(
            isinstance(a, Opaque) and a.kind is OpaqueKind.BROADCAST for a in dim.atoms
        ):
            raise NotYetError(
                f"JAX has no size {format_dim(dim)}.", remedy="declare with shapes= which sizes are equal."
            )
        return format_dim(dim, self.names)
