"""Programs of dyn for JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import NotYetError
from dyn.interop.jax.internals import import_jax
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.dump import Stage, module_of, traced_of
from dyn.ir.core import Function
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Opaque, OpaqueKind, SymExpr, format_dim


def exported(stage: Stage) -> Any:
    """A program of dyn as a ``jax.export.Exported``: ``exported(f.trace(x)).call(x)`` runs it in JAX.

    Its arguments and results are flat: the arrays of the program in order. It can be called at every shape that JAX
    takes for its symbolic sizes (none of them is 0 there), under ``jax.jit`` too, and serialised; it has no gradient.

    Raises what :func:`~dyn.interop.stablehlo.dump` does, and NotYetError for a result with a size that JAX cannot
    express (one of two that broadcast).
    """
    jax = import_jax()
    traced = traced_of(stage)
    function = traced.function
    params = [p.type for p, i in zip(function.params, function.infos, strict=True) if not i.hidden]
    results = [v.type for v in function.results]
    avals = _Avals(jax, function)
    ins, outs = avals.of(params), avals.of(results)
    count, made = len(ins), len(outs)
    version = jax.export.maximum_supported_calling_convention_version
    module = mlir.write(module_of(stage, refined=True))
    return jax.export.Exported(
        fun_name=function.name,
        in_tree=jax.tree.structure((tuple(range(count)), {})),
        in_avals=tuple(ins),
        out_tree=jax.tree.structure(tuple(range(made)) if made != 1 else 0),
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
        calling_convention_version=version,
        module_kept_var_idx=tuple(range(count)),
        uses_global_constants=bool(function.symbols()),
        _get_vjp=None,
    )


class _Avals:
    """Types as JAX's, their sizes in one scope."""

    def __init__(self, jax: Any, function: Function) -> None:
        self.jax = jax
        self.scope = jax.export.SymbolicScope()
        self.names = {s: f"{s.name}_{n}" if s.name == "_" else s.name for n, s in enumerate(function.symbols())}
        if len(set(self.names.values())) != len(self.names):
            self.names = {s: f"d{n}" for n, s in enumerate(function.symbols())}

    def of(self, types: Sequence[TensorType]) -> list[Any]:
        made: list[Any] = []
        for type in types:
            text = ", ".join([self.text(d) for d in type.shape])
            shape = self.jax.export.symbolic_shape(f"({text},)" if text else "()", scope=self.scope)
            made.append(self.jax.core.ShapedArray(shape, type.dtype.np))
        return made

    def text(self, dim: Dim) -> str:
        if isinstance(dim, SymExpr) and any(
            isinstance(a, Opaque) and a.kind is OpaqueKind.BROADCAST for a in dim.atoms
        ):
            raise NotYetError(
                f"JAX has no size {format_dim(dim)}.", remedy="declare with shapes= which sizes are equal."
            )
        return format_dim(dim, self.names)
