"""Functions outside of programs (https://openxla.org/stablehlo/spec#custom_call): callbacks into Python, native code,
and functions that are registered by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Attr, Op, Value
from dyn.ir.external import External, ExternalResult, NativeFunction
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.call_rules import one_by_one
from dyn.ops.counts import unknown_count
from dyn.shapes import Dim, RelKind
from dyn.source import user_loc

Array = np.ndarray[Any, Any]
#: ``implementation(*arrays, **attributes)``: an array, or a tuple of them where there are several results.
Implementation = Callable[..., Any]

#: What users registered, by name.
_TARGETS: dict[str, Implementation] = {}
#: dyn's own functions, by names that begin with one of ``_RESERVED``: what they compute depends on nobody.
_OWN: dict[str, Implementation] = {}
_RESERVED = ("dyn.", "lapack.")


def register(name: str, implementation: Implementation) -> None:
    """Have custom calls of ``name`` computed by a function of NumPy arrays. The last one that is registered counts.

    Raises ArgumentError for a name that is dyn's own: programs that were written by others rely on those.
    """
    if name.startswith(_RESERVED):
        raise ArgumentError(
            f"custom calls whose names begin with 'dyn.' or 'lapack.', as {name!r} does, are dyn's own.",
            loc=user_loc(),
            remedy="register the function for another name.",
        )
    _TARGETS[name] = implementation


def define(name: str, implementation: Implementation) -> None:
    """Have custom calls of a name of dyn's own computed by a function of NumPy arrays."""
    assert name.startswith(_RESERVED), name
    _OWN[name] = implementation


def registered() -> tuple[str, ...]:
    """The names that users registered."""
    return tuple(sorted(_TARGETS))


def is_registered(name: str) -> bool:
    """Tell whether a name is known: a user's, or dyn's own."""
    return name in _TARGETS or name in _OWN


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    target = attrs["target"]
    if isinstance(target, str):
        if not is_registered(target):
            given = ", ".join(str(t) for t in operands)
            known = f"registered are {', '.join(registered())}" if _TARGETS else "none is registered"
            raise ctx.unsupported(
                f"nothing is registered for {target!r}, which is called with ({given}); {known}.",
                f"register a function of NumPy arrays for it: dyn.lax.register_custom_call({target!r}, function).",
            )
        if not attrs["dtypes"]:
            raise ctx.fail(f"{target!r} is called for no results")
    for number, shape in enumerate(attrs["shapes"]):
        for axis, dim in enumerate(shape):
            ctx.require(RelKind.GE, dim, 0, f"result {number} of {_name(target)} has a size on axis {axis}")
    return tuple([TensorType(d, s) for d, s in zip(attrs["dtypes"], attrs["shapes"], strict=True)])


def _name(target: External | str) -> str:
    return repr(target) if isinstance(target, str) else target.name


def run_registered(
    target: str, attributes: Sequence[tuple[str, Any]], arrays: Sequence[Array], expected: Sequence[ExternalResult]
) -> tuple[Array, ...]:
    """Call what is registered for a name, with arrays that it must not keep; gives results as they are declared."""
    implementation = _OWN.get(target, _TARGETS.get(target))
    if implementation is None:
        raise UnsupportedOpError(f"custom_call: {target!r} is not registered any more.", remedy="register it again.")
    found = implementation(*map(_read_only, arrays), **dict(attributes))
    made = found if isinstance(found, tuple | list) else (found,)
    if len(made) != len(expected):
        raise ArgumentError(f"custom_call: {target!r} gave {len(made)} results, and {len(expected)} were declared.")
    results = tuple(np.asarray(x) for x in made)
    for number, (x, wanted) in enumerate(zip(results, expected, strict=True)):
        if x.dtype != wanted.dtype.np:
            raise ArgumentError(
                f"custom_call: result {number} of {target!r} is {x.dtype}, and {wanted.dtype.name} was declared.",
                remedy="convert it in the function that was registered.",
            )
        if x.shape != wanted.shape:
            raise ShapeError(
                f"custom_call: result {number} of {target!r} is {x.shape}, and {wanted.shape} was declared."
            )
    return results


def _read_only(array: Array) -> Array:
    """The array, which is the caller's own: an implementation that wants to write has to copy it."""
    view = array.view()
    view.flags.writeable = False
    return view


def _run(
    *arrays: Array, target: External | str, dtypes: tuple[dtypes.DType, ...], shapes: tuple[tuple[int, ...], ...],
    attributes: tuple[tuple[str, Any], ...] = (),
) -> tuple[Array, ...]:  # fmt: skip
    expected = [ExternalResult(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True)]
    if isinstance(target, str):
        return run_registered(target, attributes, arrays, expected)
    if isinstance(target.function, NativeFunction):
        return target.run_native(arrays, expected)
    return tuple(target.function([np.array(x) for x in arrays], expected))


# --- transformations ----------------------------------------------------------------------------------------------


def _refuse(b: Builder, op: Op, given: tuple[Value, ...]) -> tuple[Value | None, ...]:
    if not op.results:  # its tangents are none, too
        return ()
    raise UnsupportedOpError(
        f"custom_call: {_name(op.attrs['target'])} has no derivative: what it computes is not known.",
        loc=op.loc,
        remedy="give the function around it a dyn.custom_vjp or a dyn.custom_jvp.",
    )


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """One example after the other, or all of them at once, as the function wants it."""
    target = op.attrs["target"]
    if isinstance(target, str):
        return one_by_one(b, op, operands, flags, size)
    if target.ordered:
        raise UnsupportedOpError(
            f"vmap: {target.name} is ordered, and the examples of vmap have no order.",
            loc=op.loc,
            remedy="leave ordered=True out, or use dyn.lax.map, which takes one after the other.",
        )
    if target.vmap_method is None:
        raise UnsupportedOpError(
            f"vmap: {target.name} says nothing of how it is called for many examples.",
            loc=op.loc,
            remedy='pass vmap_method="sequential" to call it once for each; "expand_dims" or "broadcast_all" to call '
            "it once, with an axis of examples in front.",
        )
    if target.vmap_method.startswith("sequential"):
        return one_by_one(b, op, operands, flags, size)
    return _at_once(b, op, operands, flags, size)


def _at_once(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """One call, with an axis of examples in front: of those that have none it is 1 (``expand_dims``), repeated
    (``broadcast_all``), or not there (``legacy_vectorized``)."""
    method = op.attrs["target"].vmap_method
    given: list[Value] = []
    for value, flag in zip(operands, flags, strict=True):
        if not flag and method != "legacy_vectorized":
            value = spread(b, value, size if method == "broadcast_all" else 1)
        given.append(value)
    attrs: dict[str, Attr] = {**op.attrs, "shapes": tuple([(size, *shape) for shape in op.attrs["shapes"]])}
    return b.emit(op.opdef, given, **attrs)


def _samples() -> list[Sample]:
    def scaled(x: Array, y: Array, factor: float) -> tuple[Array, Array]:
        return x * factor, np.asarray(y.sum(), np.int64)

    define("dyn.example", scaled)
    calls: list[Sample] = []
    for shape in ((0,), (1,), (7,), (2, 3)):
        x = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        attrs = {
            "target": "dyn.example", "dtypes": (dtypes.float64, dtypes.int64), "shapes": (shape, ()),
            "attributes": (("factor", 2.0),),
        }  # fmt: skip
        calls.append(Sample((x, np.arange(5)), attrs))
    return calls


def _flops(op: Op) -> Dim:
    name = _name(op.attrs["target"])
    where = f" at {op.loc}" if op.loc.line else ""
    return unknown_count(f"flops({name})", f"operations of a call of {name}{where}")


#: What ``target`` makes of the operands: results of ``dtypes`` and ``shapes``. It is an external function, or the name
#: that one is registered for, which is given ``attributes``, pairs of names and values, as keywords.
custom_call = OpDef(
    "custom_call",
    OpKind.OPAQUE,
    types=_types,
    loops=LibraryRoutine(),
    flops=_flops,
    effects=lambda op: isinstance(op.attrs["target"], External) and op.attrs["target"].effects,
    reference=_run,
    samples=_samples,
    vjp=_refuse, jvp=_refuse, batch=_batch,
)  # fmt: skip
