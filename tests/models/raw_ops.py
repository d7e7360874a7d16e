"""What the text of a random program may call beside dyn's public functions: ops by name, and a few functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.lax._folds import scalar_body
from dyn.numpy._operands import emit_all
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.trace.lift import lift
from dyn.trace.pytree import flatten
from dyn.trace.tracer import Tracer

Function = Callable[..., Any]


def op(name: str, *operands: Tracer, **attrs: Any) -> Any:
    """An op that no public function comes down to alone: its result, or the tuple of them."""
    made = emit_all(name, *operands, **attrs)
    return made[0] if len(made) == 1 else made


def mapped(function: Function, x: Tracer) -> Tracer:
    """StableHLO's map: ``function`` of scalars, for each element."""
    trace, (_, tree) = x._trace, flatten(x)
    body = scalar_body(trace, "map", lambda a, _: function(a), tree, [x.element_type])
    value = x._value
    # Two scalars are what bodies of folds take: the second one is the first again, and left alone.
    made = trace.emit_all("map", value, value, regions=(body.region,))
    return Tracer(trace, made[0])


def greatest_of(x: Tracer, groups: int = 3) -> tuple[Tracer, Tracer]:
    """StableHLO's scatter into several arrays: for each of some groups the greatest element, and where it was."""
    trace, flat = x._trace, dnp.ravel(x)
    where = dnp.arange(flat.shape[0])
    arrays: list[Any] = [dnp.zeros(groups, x.dtype), dnp.full(groups, -1, where.dtype)]
    _, tree = flatten((flat, where))

    def body(held: Any, new: Any) -> Any:
        wins = (held[1] < 0) | (new[0] > held[0])
        return dnp.where(wins, new[0], held[0]), dnp.where(wins, new[1], held[1])

    region = scalar_body(trace, "variadic_scatter", body, tree, [x.element_type, where.element_type]).region
    attrs = scatter_attrs(
        "body", update_window_dims=(), scatter_dims_to_operand_dims=(0,), index_vector_dim=1, inserted_window_dims=(0,)
    )
    operands = [lift(trace, a) for a in (*arrays, where % (groups + 1), flat, where)]
    best, at = trace.emit_all("variadic_scatter", *operands, regions=(region,), **attrs)
    return Tracer(trace, best), Tracer(trace, at)


def with_vjp(function: Function) -> Function:
    """The function, with its own derivative backward given as a rule."""
    made = dyn.custom_vjp(function)
    made.defvjp(lambda a: (function(a), a), lambda a, ct: dyn.vjp(function, a)[1](ct))
    return made


def with_jvp(function: Function) -> Function:
    """The function, with its own derivative forward given as a rule."""
    made = dyn.custom_jvp(function)
    made.defjvp(lambda primals, tangents: dyn.jvp(function, primals, tangents))
    return made


def matrix(x: Tracer, most: int = 5) -> Tracer:
    """A square matrix of at most ``most`` rows, with as many different eigenvalues, that depends on an array."""
    kind = x.element_type
    wide = x if kind.is_inexact and kind.bits >= 32 else dnp.astype(x, "float32")
    rows: Any = dnp.sin(dnp.ravel(wide)[:most])
    size = rows.shape[0]
    return dnp.outer(rows, dnp.cos(rows)) + dnp.diag(dnp.arange(size).astype(rows.dtype) * 1.5 + 2)


def positive(x: Tracer) -> Tracer:
    """A symmetric (Hermitian) matrix whose eigenvalues are at least 1."""
    square = matrix(x)
    return dnp.matmul(square, dnp.conj(square).mT) + dnp.eye(square.shape[0], dtype=square.dtype)


def _halved(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(a / 2).astype(a.dtype)


dyn.lax.register_custom_call("tests.halved", _halved)


def halved(x: Tracer) -> Any:
    """A call of somebody's own library, with a derivative of its own."""

    def call(a: Any) -> Any:
        return dyn.lax.custom_call("tests.halved", dyn.ShapeDtypeStruct(a.shape, a.dtype), a)

    if not x.element_type.is_inexact:
        return call(x)
    made = dyn.custom_jvp(call)
    made.defjvp(lambda primals, tangents: (call(*primals), tangents[0] / 2))
    return made(x)


NAMES = {
    "op": op, "mapped": mapped, "with_vjp": with_vjp, "with_jvp": with_jvp, "matrix": matrix, "positive": positive,
    "greatest_of": greatest_of, "halved": halved, "dtypes": dtypes,
}  # fmt: skip
