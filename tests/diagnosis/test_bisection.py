"""Bisection of planted bugs, one of each kind, and of programs that have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import pipeline
from dyn.backends.x86 import host_target
from dyn.diagnosis import bisection
from dyn.ir.core import Function
from dyn.ir.opdef import REGISTRY
from dyn.lower.host import HostProgram
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Apply, Expr, Kernel
from dyn.schedule.launch import Launch, Variant

Array = np.ndarray[Any, Any]
#: When the variant for few rows is chosen, by the bytes of the processor's vectors.
FEW_ROWS = {32: "x_0 <= 4", 64: "x_0 <= 8"}[host_target().vector_bytes]


def model(x: Any, w: Any) -> Any:
    hidden = dnp.tanh(x @ w)
    e = dnp.exp(hidden - dnp.max(hidden, axis=-1, keepdims=True))
    return (e / dnp.sum(e, axis=-1, keepdims=True)).sum(axis=0)


def arguments(rows: int = 33) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 20)).astype("f4"), rng.normal(size=(20, 40)).astype("f4")


def swapped(kernel: Kernel) -> Kernel:
    """A kernel that computes sines for hyperbolic tangents."""

    class Swap(Rewriter):
        def node(self, expr: Expr) -> Expr:
            made = super().node(expr)
            return replace(made, fn=Scalar.SIN) if isinstance(made, Apply) and made.fn is Scalar.TANH else made

    body = Swap(lambda dim: dim).block(kernel.body)
    return Kernel(kernel.name, kernel.buffers, kernel.dims, kernel.scratch, body, kernel.note, kernel.in_place)


def plant_in_variants(monkeypatch: pytest.MonkeyPatch, chosen: Callable[[Variant], bool]) -> None:
    lower = pipeline.lower_plan

    def planted(*args: Any) -> tuple[Launch, ...]:
        return tuple(
            replace(
                launch,
                variants=tuple([replace(v, kernel=swapped(v.kernel)) if chosen(v) else v for v in launch.variants]),
            )
            for launch in lower(*args)
        )

    monkeypatch.setattr(pipeline, "lower_plan", planted)


def test_nothing_differs() -> None:
    found = dyn.bisect(dyn.jit(model), arguments())
    assert found.culprit is None
    assert all(not one.problem for one in found.findings)
    assert str(found).splitlines()[0] == "bisection of model"
    assert str(found).splitlines()[-1] == "nothing differs from the reference"
    assert dyn.bisect(dyn.jit(model), arguments(0)).culprit is None
    assert dyn.bisect(dyn.jit(model), arguments(1)).culprit is None


def test_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_tanh(function: Function) -> Function:
        return function.with_ops(
            tuple([replace(op, opdef=REGISTRY["sine"]) if op.opdef.name == "tanh" else op for op in function.ops])
        )

    monkeypatch.setattr(bisection, "PIPELINE", (*pipeline.PIPELINE[:3], break_tanh, *pipeline.PIPELINE[3:]))
    found = dyn.bisect(dyn.jit(model), arguments())
    assert (found.culprit, found.name) == ("pass", "break_tanh")
    assert found.problem.startswith("wrong in 40 of the 40 elements, the first at [0]: ")


def test_a_pass_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: Function) -> Function:
        raise dyn.errors.IRError("the dims are gone")

    monkeypatch.setattr(bisection, "PIPELINE", (refuse,))
    found = dyn.bisect(dyn.jit(model), arguments())
    assert (found.culprit, found.name, found.problem) == ("pass", "refuse", "raises IRError: the dims are gone")


def test_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_variants(monkeypatch, lambda variant: True)
    found = dyn.bisect(dyn.jit(model), arguments())
    assert (found.culprit, found.name) == ("group", "0 (contract dot_general_tanh)")
    assert "hidden = dnp.tanh(x @ w)" in found.lines[0]


def test_a_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_variants(monkeypatch, lambda variant: variant.when() == FEW_ROWS)
    f = dyn.jit(model)
    assert dyn.bisect(f, arguments(33)).culprit is None  # it is not for these sizes
    found = dyn.bisect(f, arguments(3))
    assert found.culprit == "variant"
    assert found.name == f"dot_general_tanh: {FEW_ROWS} of group 0 (contract dot_general_tanh)"
    parts = [one.part for one in found.findings if not one.problem]
    assert "  variant dot_general_tanh: always" in parts


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    build = pipeline.build_host

    def planted(*args: Any) -> HostProgram:
        host = build(*args)
        slots = [place.number for place in host.places.values() if place.kind == "arena"]
        places = {
            value: replace(place, number=min(slots)) if place.kind == "arena" else place
            for value, place in host.places.items()
        }
        return replace(host, places=places)

    monkeypatch.setattr(pipeline, "build_host", planted)
    f = dyn.jit(lambda x: dnp.cumsum(dnp.cumsum(x, axis=0), axis=1) @ dnp.cumsum(x * 2, axis=1).T)
    found = dyn.bisect(f, (np.arange(12, dtype="f4").reshape(3, 4),))
    assert (found.culprit, found.name) == ("memory", "of arrays inside the program")
    assert found.problem.endswith("right where each array has its own")


def test_the_trace() -> None:
    f = dyn.jit(lambda x: x + 1)
    found = dyn.bisect(f, (np.zeros(3),), expected=np.full(3, 2.0))
    assert found.culprit == "trace"
    assert found.problem == "wrong in 3 of the 3 elements, the first at [0]: 1.0, and not 2.0"
    with pytest.raises(dyn.errors.ArgumentError, match="another tree"):
        dyn.bisect(f, (np.zeros(3),), expected=[1, 2])


def test_programs_of_each_kind() -> None:
    def loops(x: Any) -> Any:
        total = dyn.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i].sum(), dnp.zeros((), "f4"))
        kept = x[x[:, 0] > 0]
        return total, kept, dnp.sort(x, axis=1), dyn.lax.cond(total > 0, lambda: x * 2, lambda: x)

    for rows in (0, 1, 5):
        x = np.linspace(-1, 1, rows * 3, dtype="f4").reshape(rows, 3)
        assert dyn.bisect(dyn.jit(loops), (x,)).culprit is None
    weights = np.eye(3, dtype="f4")
    closure = dyn.jit(lambda tree, y: {"a": tree["a"] @ weights, "b": y})
    assert dyn.bisect(closure, ({"a": np.ones((2, 3), "f4")},), {"y": 2.5}).culprit is None


def test_arrays_without_elements_are_refused() -> None:
    with pytest.raises(dyn.errors.ArgumentError) as error:
        dyn.bisect(dyn.jit(lambda x: x), (dyn.ShapeDtypeStruct((3,), "float32"),))
    assert "was given a ShapeDtypeStruct, which has no elements." in str(error.value)
