"""The modules that are mutated: dyn's, one for each op; JAX's, with symbolic sizes too; and some by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dyn.errors import NotYetError
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.dump import module_of
from dyn.ir.opdef import REGISTRY, OpKind
from tests.interop.programs import NAMES, of_sample

Source = str | bytes
BY_HAND = Path(__file__).parent / "fuzz_corpus" / "seeds"


def seeds() -> dict[str, Source]:
    """Texts, in both forms; bytecode; portable artifacts."""
    found: dict[str, Source] = {path.stem: path.read_text() for path in sorted(BY_HAND.glob("*.mlir"))}
    found.update(_of_dyn())
    found.update(_of_jax())
    return found


def _forms(name: str, module: Any, number: int) -> dict[str, Source]:
    """The text of a module and, in turn, another form of it."""
    made: dict[str, Source] = {name: mlir.text_of(module)}
    match number % 4:
        case 0:
            made[f"{name}.generic"] = str(module.operation.get_asm(print_generic_op_form=True))
        case 1 | 2:
            made[f"{name}.bytecode"] = mlir.bytecode_of(module)
        case _:
            made[f"{name}.artifact"] = mlir.portable_artifact(module, mlir.version_of_weeks(12))
    return made


def _of_dyn() -> dict[str, Source]:
    found: dict[str, Source] = {}
    for number, name in enumerate(NAMES):
        opdef = REGISTRY[name]
        if not opdef.samples or opdef.kind is OpKind.DATA_DEPENDENT_SIZE:
            continue
        sample = next(iter(opdef.samples()))
        try:
            module = mlir.write(module_of(of_sample(opdef, sample, symbolic=number % 2 == 0)))
        except NotYetError:
            continue
        found.update(_forms(f"op.{name}", module, number))
    return found


def _of_jax() -> dict[str, Source]:
    import jax
    import jax.numpy as jnp
    from jax import export, lax

    def block(x: Any, w: Any) -> Any:
        q = jax.nn.softmax(x @ w @ jnp.swapaxes(x, -1, -2)) @ x
        return (q - q.mean(-1, keepdims=True)).reshape(-1, x.shape[-1])[::2], jnp.cumsum(jnp.sort(x, 1), 1)

    def loops(x: Any) -> Any:
        total, rows = lax.scan(lambda c, row: (c + row, c * row), x[0], x)
        return lax.while_loop(lambda c: c.sum() < 10, lambda c: c + 1, total), rows, lax.cond(
            x[0, 0] > 0, jnp.sin, jnp.cos, x
        )  # fmt: skip

    def places(x: Any, i: Any) -> Any:
        return (
            x.at[i].add(2.0),
            jnp.pad(x, ((1, 2), (0, 0))),
            jax.random.uniform(jax.random.key(0), x.shape),
            lax.top_k(x, 1),
        )

    found: dict[str, Source] = {}
    number = 0
    for fn, shapes in ((block, ("b, s, 4", "4, 4")), (loops, ("n, m",)), (places, ("n, m", "k"))):
        for symbolic in (True, False):
            scope = export.SymbolicScope()
            args: list[Any] = []
            for place, spec in enumerate(shapes):
                shape: Any = export.symbolic_shape(spec, scope=scope)
                if not symbolic:
                    shape = tuple([d if isinstance(d, int) else 3 for d in shape])
                args.append(jax.ShapeDtypeStruct(shape, np.int32 if fn is places and place else np.float32))
            made = export.export(jax.jit(fn))(*args)
            name = f"jax.{fn.__name__}.{'symbolic' if symbolic else 'static'}"
            found[name] = made.mlir_module()
            found[f"{name}.artifact"] = made.mlir_module_serialized
            number += 1
    return found
