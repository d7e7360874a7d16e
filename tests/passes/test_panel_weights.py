"""Products whose right operand never changes read it from panels: which do, and what becomes of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.reference import run_reference
from dyn.ir.core import Dense, Function, Op
from dyn.ir.verifier import verify
from dyn.passes.panel_weights import PanelledFunction, Panels, panel_weights
from dyn.specialize.kept_panels import in_panels
from dyn.trace.function import TracedFunction
from dyn.trace.tracer import Tracer

Array = np.ndarray


def every_16(*operands: object) -> tuple[int, int] | None:
    """Panels of 16 columns of any matrix."""
    return 16, 1


def traced(function: object, *arguments: Array) -> TracedFunction:
    return dyn.jit(function).trace(*arguments).traced  # pyright: ignore[reportArgumentType]


def panelled(given: TracedFunction) -> PanelledFunction:
    found = panel_weights(given.function, range(len(given.captured)), every_16)
    verify(found.function)
    return found


def same_results(given: TracedFunction, found: PanelledFunction, arguments: Sequence[Array]) -> None:
    """Both functions compute the same of the same arrays."""
    own = [np.asarray(one) for one in given.captured]
    hidden: list[Array] = []
    for one in found.hidden:
        if isinstance(one, int):
            hidden.append(own[one])
        else:
            hidden.append(in_panels(one.source.array if isinstance(one.source, Dense) else own[one.source], one))
    want, got = run_reference(given.function, [*arguments, *own]), run_reference(found.function, [*arguments, *hidden])
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def named(function: Function, name: str) -> list[Op]:
    """The ops of a name, in regions too."""
    found, blocks = list[Op](), [function.ops]
    while blocks:
        for op in blocks.pop():
            found += [op] if op.opdef.name == name else []
            blocks += [region.ops for region in op.regions]
    return found


def test_a_right_operand_is_read_from_panels_and_the_matrix_is_gone() -> None:
    w, x = dyn.asarray(np.random.rand(5, 40).astype("f4")), np.random.rand(3, 5).astype("f4")
    given = traced(lambda x: x @ w, x)
    found = panelled(given)
    assert found.hidden == (Panels(0, (0, 1), 16),)
    assert found.function.params[1].shape == (3, 5, 16, 1)
    assert [info.name for info in found.function.infos] == ["x", "w"]
    same_results(given, found, [x])


def test_transposes_are_read_through_and_other_readers_keep_the_matrix() -> None:
    w, x = dyn.asarray(np.random.rand(40, 5).astype("f4")), np.random.rand(3, 5).astype("f4")
    given = traced(lambda x: (x @ w.T, dnp.sum(w, axis=0)), x)
    found = panelled(given)
    assert found.hidden == (0, Panels(0, (1, 0), 16))
    assert not named(found.function, "transpose")
    same_results(given, found, [x])


def test_reshapes_are_read_through() -> None:
    w, x = dyn.asarray(np.random.rand(4, 5, 40).astype("f4")), np.random.rand(3, 20).astype("f4")
    given = traced(
        lambda x: (x @ w.reshape(20, 40), x @ w.reshape(40, 20).T, x @ w.transpose(0, 2, 1).reshape(20, 40)), x
    )
    found = panelled(given)
    views = [one.views for one in found.hidden if isinstance(one, Panels)]
    assert views == [
        (("reshape", (20, 40)),), (("reshape", (40, 20)),), (("transpose", (0, 2, 1)), ("reshape", (20, 40)))
    ]  # fmt: skip
    same_results(given, found, [x])


def test_narrow_weights_that_are_computed_with_are_read_from_panels() -> None:
    q, x = dyn.asarray(np.arange(600).reshape(20, 30).astype("i1")), np.random.rand(3, 20).astype("f4")
    s = dyn.asarray(np.random.rand(30).astype("f4"))
    given = traced(lambda x: (x @ (q.astype("float32") * s), x @ dnp.tanh(s * q).astype("float32"), q + 1), x)
    found = panelled(given)
    assert sum(isinstance(one, Panels) for one in found.hidden) == 1
    assert len(named(found.function, "from_panels")) == 2
    same_results(given, found, [x])


def by_groups(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype("float32").reshape((5, 4, 30)) * s[:, None]).reshape((20, 30))


def by_groups_repeated(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype("float32") * dnp.repeat(s, 4, axis=0))


def by_groups_columns_first(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.reshape((30, 5, 4)).astype("float32") * s[:, :, None]).reshape((30, 20)).T


@pytest.mark.parametrize("function", [by_groups, by_groups_repeated, by_groups_columns_first])
def test_scales_of_groups_lie_in_panels_beside_the_weight(function: Callable[..., Any]) -> None:
    """As wide ones, whichever way both lie. Scales that a call gives, columns first, leave the weight as it lies."""
    first, x = function is by_groups_columns_first, np.random.rand(3, 20).astype("f4")
    matrix, scales = np.arange(600).reshape(20, 30).astype("i1"), np.random.rand(5, 30).astype("f4")
    q, s = [dyn.asarray(np.ascontiguousarray(one.T) if first else one) for one in (matrix, scales)]
    given = traced(lambda x: function(x, q, s), x)
    found = panelled(given)
    widths = [(one.width, one.group) for one in found.hidden if isinstance(one, Panels)]
    assert widths == [(16, 1)] * 2
    assert len(found.hidden) == 2
    same_results(given, found, [x])
    argument = np.asarray(s)
    given = traced(lambda x, s: function(x, q, s), x, argument)
    found = panelled(given)
    assert sum(isinstance(one, Panels) for one in found.hidden) == (not first)
    same_results(given, found, [x, argument])


def test_one_matrix_both_ways_is_kept_both_ways_and_twice_the_same_once() -> None:
    w, x = dyn.asarray(np.random.rand(20, 33).astype("f4")), np.random.rand(3, 20).astype("f4")
    given = traced(lambda x: (dnp.tanh(x @ w) @ w.T) @ w, x)
    found = panelled(given)
    assert found.hidden == (Panels(0, (0, 1), 16), Panels(0, (1, 0), 16))
    assert len(named(found.function, "from_panels")) == 3
    same_results(given, found, [x])


def test_batches_of_matrices_have_panels_each() -> None:
    w, x = dyn.asarray(np.random.rand(2, 6, 17).astype("f4")), np.random.rand(2, 3, 6).astype("f4")
    given = traced(lambda x: dnp.matmul(x, w), x)
    found = panelled(given)
    assert found.function.params[1].shape == (2, 2, 6, 16, 1)
    same_results(given, found, [x])


def test_a_product_in_a_loop_reads_panels_from_outside_of_it() -> None:
    w, x = dyn.asarray(np.random.rand(8, 8).astype("f4")), np.random.rand(3, 8).astype("f4")
    given = traced(lambda x: dyn.lax.fori_loop(0, 3, lambda i, c: dnp.tanh(c @ w), x), x)
    found = panelled(given)
    assert [isinstance(one, Panels) for one in found.hidden] == [True]
    assert named(found.function, "from_panels")
    same_results(given, found, [x])


def test_large_constants_are_kept_in_panels_too() -> None:
    w = np.random.rand(64, 80).astype("f4")

    def function(x: Tracer) -> Tracer:
        return dnp.matmul(x, Tracer(x._trace, x._trace.constant(w)))

    x = np.random.rand(3, 64).astype("f4")
    given = traced(function, x)
    assert not given.captured
    found = panelled(given)
    assert [isinstance(one, Panels) for one in found.hidden] == [True]
    same_results(given, found, [x])


@pytest.mark.parametrize("what", ["left", "both", "vector", "two contracted", "nothing reduced", "batches"])
def test_what_is_left_as_it_is(what: str) -> None:
    w = dyn.asarray(np.random.rand(*((0, 4) if what == "nothing reduced" else (4, 4))).astype("f4"))
    functions = {
        "left": lambda x: w @ x,
        "both": lambda x: x + w @ w,
        "vector": lambda x: x @ w[0],
        "two contracted": lambda x: dnp.tensordot(x, w, 2),
        "nothing reduced": lambda x: x[:, :0] @ w,
        "batches": lambda x: x[:, None] @ dnp.broadcast_to(w * 2, (x.shape[0], 4, 4)),
    }
    given = traced(functions[what], np.random.rand(4, 4).astype("f4"))
    found = panelled(given)
    if what == "both":  # the right one of the two, which is the left one too
        assert found.hidden == (0,)
    assert found.function is given.function
    assert found.hidden == tuple(range(len(given.captured)))


def test_arrays_that_may_change_are_left_as_they_are() -> None:
    w, x = np.random.rand(5, 40).astype("f4"), np.random.rand(3, 5).astype("f4")
    given = traced(lambda x: x @ w, x)
    assert panel_weights(given.function, (), every_16).function is given.function
