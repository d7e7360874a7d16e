"""JAX's callbacks in functions that dyn compiles: ``jax.debug``'s, ``pure_callback``, ``io_callback``.

JAX lowers each to a custom call ``dyn.external`` with a number, which dyn reads as a call of a Python function: the one
that JAX would have called, of JAX arrays on the CPU. That calls come in order is so in all of dyn's programs, and the
tokens by which JAX has it are left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dyn.errors import ExternalError
from dyn.interop.jax.internals import found, ir_type
from dyn.interop.stablehlo.custom_calls import EXTERNAL, Imported
from dyn.ir.external import ExternalResult
from dyn.source import Loc

#: The primitives, each with what it is called, and whether it has effects.
_PRIMITIVES = (
    ("jax._src.debugging", "debug_callback_p", "debug.callback", True),
    ("jax._src.debugging", "debug_print_p", "debug.print", True),
    ("jax._src.callback", "pure_callback_p", "pure_callback", False),
    ("jax._src.callback", "io_callback_p", "io_callback", True),
)


class Callbacks:
    """The callbacks of one trace by JAX: ``options`` are what ``jax.export.export`` has to be told; ``kept`` are those
    that it came by, which the module is read with."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.kept: list[Imported] = []
        self._mlir = found("jax._src.interpreters", "mlir")
        self.options: dict[str, Any] = {}
        if self._mlir is not None and "_override_lowering_rules" in inspect.signature(jax.export.export).parameters:
            rules = [(p, self._rule(p, name, effects)) for p, name, effects in _primitives()]
            self.options["_override_lowering_rules"] = tuple(rules)

    def _rule(self, primitive: Any, name: str, effects: bool) -> Callable[..., Any]:
        mlir = self._mlir

        def lowered(ctx: Any, *operands: Any, **params: Any) -> Any:
            function: Callable[..., Any] = params.get("callback", partial(primitive.impl, **params))
            called = getattr(function, "callback_func", function)
            label = name if name == "debug.print" else f"{name} of {getattr(called, '__name__', type(called).__name__)}"
            imported = Imported(label, partial(_FlatCallback, self.jax, label, function), effects)
            self.kept.append(imported)
            types = [ir_type(ctx, aval) for aval in ctx.avals_out]
            dynamic = any(not isinstance(size, int) for aval in ctx.avals_out for size in aval.shape)
            shapes = [mlir.eval_dynamic_shape_as_tensor(ctx, aval.shape) for aval in ctx.avals_out] if dynamic else None
            call = mlir.custom_call(
                EXTERNAL, result_types=types, operands=list(operands), has_side_effect=effects, api_version=4,
                backend_config={"number": mlir.i64_attr(imported.number)}, result_shapes=shapes,
            )  # fmt: skip
            ctx.set_tokens_out(ctx.tokens_in)
            return call.results

        return lowered


def _primitives() -> list[tuple[Any, str, bool]]:
    every = [(found(module, name), label, effects) for module, name, label, effects in _PRIMITIVES]
    return [(primitive, label, effects) for primitive, label, effects in every if primitive is not None]


@dataclass(frozen=True, eq=False)
class _FlatCallback:
    """A callback of JAX's, of flat arrays."""

    jax: Any
    name: str
    function: Callable[..., Any]
    loc: Loc

    def __call__(self, arrays: Sequence[Any], expected: Sequence[ExternalResult]) -> list[Any]:
        cpu = self.jax.devices("cpu")[0]
        made = self.function(*[self.jax.device_put(array, cpu) for array in arrays])
        results = [np.asarray(leaf) for leaf in self.jax.tree.leaves(made)]
        if len(results) != len(expected):
            raise ExternalError(
                f"{self.name} returned {len(results)} arrays, and {len(expected)} were declared.",
                loc=self.loc,
                remedy="return a tree of the structure of result_shape_dtypes.",
            )
        for number, (array, wanted) in enumerate(zip(results, expected, strict=True)):
            if (array.dtype, array.shape) != (wanted.dtype.np, wanted.shape):
                raise ExternalError(
                    f"{self.name}: result {number} is {array.dtype}{list(array.shape)}, and "
                    f"{wanted.dtype.name}{list(wanted.shape)} was declared.",
                    loc=self.loc,
                    remedy="return what result_shape_dtypes declares, or declare what it returns.",
                )
        return results
