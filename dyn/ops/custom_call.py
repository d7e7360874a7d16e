"""Functions of other people, by name (https://openxla.org/stablehlo/spec#custom_call)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, Library, OpDef, OpKind, Sample, TypeContext
from dyn.ir.splice import build_region
from dyn.ir.types import TensorType
from dyn.ops.codecs import calls
from dyn.shapes import Dim

Array = np.ndarray[Any, Any]
#: ``implementation(*arrays, **attributes)``: an array, or a tuple of them where there are several results.
Implementation = Callable[..., Any]

#: What was registered, by name.
_TARGETS: dict[str, Implementation] = {}


def register(name: str, implementation: Implementation) -> None:
    """Have custom calls of ``name`` computed by a function of NumPy arrays. The last one that is registered counts."""
    _TARGETS[name] = implementation


def registered() -> tuple[str, ...]:
    """The names that are known."""
    return tuple(sorted(_TARGETS))


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    target = attrs["target"]
    if target not in _TARGETS:
        given = ", ".join(str(t) for t in operands)
        known = f"registered are {', '.join(registered())}" if _TARGETS else "none is registered"
        raise ctx.unsupported(
            f"nothing is registered for {target!r}, which is called with ({given}); {known}.",
            f"register a function of NumPy arrays for it: dyn.lax.register_custom_call({target!r}, function).",
        )
    if not attrs["dtypes"]:
        raise ctx.fail(f"{target!r} is called for no results")
    return tuple([TensorType(d, s) for d, s in zip(attrs["dtypes"], attrs["shapes"], strict=True)])


def _read_only(array: Array) -> Array:
    """The array, which is the caller's own: an implementation that wants to write has to copy it."""
    view = array.view()
    view.flags.writeable = False
    return view


def _run(
    *arrays: Array, target: str, dtypes: tuple[dtypes.DType, ...], shapes: tuple[tuple[int, ...], ...],
    attributes: tuple[tuple[str, Any], ...] = (),
) -> tuple[Array, ...]:  # fmt: skip
    implementation = _TARGETS.get(target)
    if implementation is None:
        raise UnsupportedOpError(f"custom_call: {target!r} is not registered any more.", remedy="register it again.")
    found = implementation(*map(_read_only, arrays), **dict(attributes))
    made = found if isinstance(found, tuple | list) else (found,)
    if len(made) != len(dtypes):
        raise ArgumentError(f"custom_call: {target!r} gave {len(made)} results, and {len(dtypes)} were declared.")
    results = tuple(np.asarray(x) for x in made)
    for number, (x, dtype, shape) in enumerate(zip(results, dtypes, shapes, strict=True)):
        if x.dtype != dtype.np:
            raise ArgumentError(
                f"custom_call: result {number} of {target!r} is {x.dtype}, and {dtype.name} was declared.",
                remedy="convert it in the function that was registered.",
            )
        if x.shape != shape:
            raise ShapeError(f"custom_call: result {number} of {target!r} is {x.shape}, and {shape} was declared.")
    return results


def _refuse(b: Any, op: Op, given: tuple[Any, ...]) -> tuple[Any, ...]:
    raise UnsupportedOpError(
        f"custom_call: {op.attrs['target']!r} has no derivative: what it computes is not known.",
        loc=op.loc,
        remedy="give the function around it a dyn.custom_vjp or a dyn.custom_jvp.",
    )


def _batch(b: Any, op: Op, operands: tuple[Any, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """One example after the other: it is made for one."""
    shared = [v for v, flag in zip(operands, flags, strict=True) if not flag]
    arrays = [v for v, flag in zip(operands, flags, strict=True) if flag]

    def step(inner: Any, params: tuple[Value, ...]) -> tuple[Value, ...]:
        same, rows = iter(params[: len(shared)]), iter(params[len(shared) :])
        given = [next(rows) if flag else next(same) for flag in flags]
        return (*params[: len(shared)], *inner.emit(op.opdef, given, **op.attrs))

    slices = [v.type.with_shape(v.shape[1:]) for v in arrays]
    region = build_region(b, [*(v.type for v in shared), *slices], step)
    attrs = {"carries": len(shared), "length": size, "reverse": False}
    made = b.op_all("scan", *shared, *arrays, regions=(region,), **attrs)
    return made[len(shared) :]


def _samples() -> list[Sample]:
    def scaled(x: Array, y: Array, factor: float) -> tuple[Array, Array]:
        return x * factor, np.asarray(y.sum(), np.int64)

    register("dyn.example", scaled)
    calls: list[Sample] = []
    for shape in ((0,), (1,), (7,), (2, 3)):
        x = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        attrs = {
            "target": "dyn.example", "dtypes": (dtypes.float64, dtypes.int64), "shapes": (shape, ()),
            "attributes": (("factor", 2.0),),
        }  # fmt: skip
        calls.append(Sample((x, np.arange(5)), attrs))
    return calls


#: What the function registered for ``target`` makes of the operands: results of ``dtypes`` and ``shapes``.
#: ``attributes`` are pairs of names and values, which it is given as keywords.
custom_call = OpDef(
    "custom_call",
    OpKind.OPAQUE,
    types=_types,
    loops=Library(),
    reference=_run,
    samples=_samples,
    vjp=_refuse, jvp=_refuse, batch=_batch, stablehlo=calls.custom_call,
)  # fmt: skip
