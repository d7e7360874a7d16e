"""Functions with derivatives of their own: ``dyn.custom_vjp`` and ``dyn.custom_jvp``.

Besides the function's, such a call has regions that are its rules. All of them take the same values last, which they
close over: by those there is no derivative. A function has a call only where it may be differentiated, so that what
never is costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import DynError, UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import gathered, pull_back, zeros
from dyn.ir.effects import without_effects
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region, copied, splice
from dyn.ir.opdef import REGISTRY, Inline, OpDef, OpKind, Sample
from dyn.ir.types import TensorType
from dyn.ops.call_rules import Maybe, batched_region, call_types, or_zeros, summed_region, through_batch
from dyn.shapes import Dim, Facts
from dyn.source import UNKNOWN

Array = np.ndarray[Any, Any]


def _computed(*arrays: Array, regions: tuple[RegionFunction, ...], **attrs: Any) -> tuple[Array, ...]:
    return regions[0](*arrays)


# --- cotangents of one's own --------------------------------------------------------------------------------------


def _closed_over(op: Op, value: Value) -> DynError:
    return UnsupportedOpError(
        f"{op.attrs['name']} closes over an array ({value.type}) that is differentiated by, and its own derivative is "
        "by its arguments alone.",
        loc=op.loc,
        remedy="pass the array as an argument, or use dyn.stop_gradient of it.",
    )  # fmt: skip


def vjp_prepare(op: Op) -> Op:
    """The forward rule in place of the function: after its results come the residuals."""
    _, forward, backward = op.regions
    count = len(op.results)
    residuals = tuple([Value(v.type, v.name) for v in forward.results[count:]])
    attrs = {**op.attrs, "outs": count}
    known = REGISTRY["custom_vjp_forward"]
    return Op(known, op.operands, attrs, (*op.results, *residuals), op.loc, (forward, backward))


def vjp_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """Cotangents by the forward rule, which runs now, beside the function: its effects are done."""
    ready = copied(vjp_prepare(op), {v: v for v in op.operands})
    ready = replace(ready, regions=(without_effects(ready.regions[0]), ready.regions[1]))
    b.append(ready)
    return forward_vjp(b, ready, (*cts, *(None,) * (len(ready.results) - len(cts))))


def forward_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """Cotangents by the backward rule, from the residuals and the cotangents of the function's own results."""
    outs, explicit = op.attrs["outs"], op.attrs["explicit"]
    own, residuals = op.results[:outs], op.results[outs:]
    given = [or_zeros(b, ct, v) for ct, v in zip(cts, own, strict=False)]
    made = splice(b, op.regions[1], [*residuals, *given, *op.operands[explicit:]])
    found: list[Any] = [None] * len(op.operands)
    for place, ct in zip(op.attrs["cotangents"], made, strict=True):
        found[place] = ct
    for place in range(explicit, len(op.operands)):
        found[place] = _closed_over(op, op.operands[place])
    return tuple(found)


def vjp_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    raise UnsupportedOpError(
        f"{op.attrs['name']} has a derivative of its own that goes backward (dyn.custom_vjp), and forward it has none.",
        loc=op.loc,
        remedy="use grad, vjp or jacrev, or give the function a dyn.custom_jvp, which serves both.",
    )


def vjp_batch(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """The function, its forward rule and its backward rule, each for many examples."""
    function, forward, backward = op.regions
    count, explicit = len(op.results), op.attrs["explicit"]
    many, _ = batched_region(b, function, flags, size, count)
    fwd, found = batched_region(b, forward, flags, size, count)
    wanted = [flags[place] for place in op.attrs["cotangents"]]
    into = (*found[count:], *(True,) * count, *flags[explicit:])
    bwd = summed_region(b, backward, into, wanted, size)
    return b.emit(op.opdef, operands, (many, fwd, bwd), **op.attrs)


# --- tangents of one's own ----------------------------------------------------------------------------------------


def _tangent_rule(b: Builder, op: Op, tangents: Sequence[Value], *, prepare: bool = False) -> list[Maybe]:
    """Tangents of the results by the user's rule, for tangents of the explicit operands."""
    explicit = op.attrs["explicit"]
    args = [*op.operands[:explicit], *tangents, *op.operands[explicit:]]
    made = iter(splice(b, op.regions[1], args, prepare=prepare)[len(op.results) :])
    return [next(made) if v.dtype.is_inexact else None for v in op.results]


def jvp_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    explicit = op.attrs["explicit"]
    for value, tangent in zip(op.operands[explicit:], tangents[explicit:], strict=True):
        if tangent is not None:
            raise _closed_over(op, value)
    given = [or_zeros(b, t, v) for t, v in zip(tangents[:explicit], op.operands, strict=False)]
    return tuple(_tangent_rule(b, op, given))


def jvp_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | DynError | None, ...]:
    """The transpose of the rule: a linear function's cotangents are the same at any tangents, so at zeros."""
    explicit = op.attrs["explicit"]
    given = [zeros(b, TensorType(v.dtype, v.shape)) for v in op.operands[:explicit]]
    start = len(b.ops)
    made = _tangent_rule(b, op, given, prepare=True)
    ops = tuple(b.ops[start:])
    known = [(v, ct) for v, ct in zip(made, cts, strict=True) if v is not None]
    found = pull_back(b, ops, gathered(b, [v for v, _ in known], [ct for _, ct in known]), given)
    return (*found, *(_closed_over(op, v) for v in op.operands[explicit:]))


def jvp_batch(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """The function and its rule, each for many examples."""
    function, rule = op.regions
    explicit = op.attrs["explicit"]
    many, _ = batched_region(b, function, flags, size, len(op.results))
    into = (*flags[:explicit], *flags[:explicit], *flags[explicit:])
    own, _ = batched_region(b, rule, into, size, len(rule.results))
    return b.emit(op.opdef, operands, (many, own), **op.attrs)


# --- the ops ------------------------------------------------------------------------------------------------------


def _shapes() -> list[tuple[int, ...]]:
    return [(0,), (1,), (7,), (2, 3)]


def _sample_args(shape: tuple[int, ...]) -> tuple[tuple[Array, ...], list[TensorType]]:
    """A smooth array, an integer one, and one that is closed over."""
    x = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    numbers = np.arange(x.size).reshape(shape)
    arrays = (x, numbers.astype(np.int32), numbers)
    return arrays, [TensorType(dtypes.dtype(a.dtype), a.shape) for a in arrays]


def _value(b: Builder, x: Value, k: Value, c: Value) -> tuple[Value, Value]:
    made = b.op("multiply", b.op("sine", x), b.op("convert", k, dtype=x.dtype))
    return b.op("add", made, b.op("convert", c, dtype=x.dtype)), k


def _slope(b: Builder, x: Value, k: Value) -> Value:
    return b.op("multiply", b.op("cosine", x), b.op("convert", k, dtype=x.dtype))


def _region(types: Sequence[TensorType], build: Any) -> Any:
    return build_region(Builder(Facts.EMPTY, UNKNOWN), types, build)


def _vjp_samples() -> list[Sample]:
    calls: list[Sample] = []
    for shape in _shapes():
        arrays, (x, k, c) = _sample_args(shape)
        function = _region((x, k, c), lambda b, p: _value(b, *p))
        forward = _region((x, k, c), lambda b, p: (*_value(b, *p), _slope(b, p[0], p[1])))
        backward = _region((x, x, k, c), lambda b, p: (b.op("multiply", p[0], p[1]),))
        attrs = {"name": "f", "explicit": 2, "cotangents": (0,)}
        calls.append(Sample(arrays, attrs, (function, forward, backward)))
    return calls


def _forward_samples() -> list[Sample]:
    calls: list[Sample] = []
    for sample in _vjp_samples():
        _, forward, backward = sample.regions
        calls.append(Sample(sample.operands, {**sample.attrs, "outs": 2}, (forward, backward)))
    return calls


def _jvp_samples() -> list[Sample]:
    calls: list[Sample] = []
    for shape in _shapes():
        arrays, (x, k, c) = _sample_args(shape)
        function = _region((x, k, c), lambda b, p: _value(b, *p))

        def rule(b: Builder, p: tuple[Value, ...]) -> tuple[Value, ...]:
            x, k, dx, _, c = p
            return (*_value(b, x, k, c), b.op("multiply", _slope(b, x, k), dx))

        attrs = {"name": "f", "explicit": 2}
        calls.append(Sample(arrays, attrs, (function, _region((x, k, x, k, c), rule))))
    return calls


#: The first region of the operands, of which ``explicit`` may be differentiated by. The second region gives its results
#: and then residuals; of these, the cotangents of the results, and what is closed over, the third one gives the
#: cotangents of the operands numbered ``cotangents``.
custom_vjp_call = OpDef(
    "custom_vjp_call",
    OpKind.CALL,
    types=call_types,
    loops=Inline.AFTER_TRACE,
    reference=_computed,
    samples=_vjp_samples,
    vjp=vjp_vjp, jvp=vjp_jvp, batch=vjp_batch,
    prepare=vjp_prepare,
    has_backward=True,
)  # fmt: skip

#: A ``custom_vjp_call`` that is being differentiated: the function's results, ``outs`` of them, and the residuals. What
#: is differentiated once more is the rules.
custom_vjp_forward = OpDef(
    "custom_vjp_forward",
    OpKind.CALL,
    types=call_types,
    loops=Inline.AFTER_TRACE,
    reference=_computed,
    samples=_forward_samples,
    vjp=forward_vjp, jvp=vjp_jvp, batch=through_batch,
    transparent=True,
    has_backward=True,
)  # fmt: skip

#: The first region of the operands, of which ``explicit`` may be differentiated by. The second region, of those, their
#: tangents, and what is closed over, gives the results and the tangents of the smooth ones among them.
custom_jvp_call = OpDef(
    "custom_jvp_call",
    OpKind.CALL,
    types=call_types,
    loops=Inline.AFTER_TRACE,
    reference=_computed,
    samples=_jvp_samples,
    vjp=jvp_vjp, jvp=jvp_jvp, batch=jvp_batch,
)  # fmt: skip
