"""Arrays that functions close over outside of jit: their sizes are dims, which may be proved equal to arguments'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import IRError, ShapeError
from dyn.ir.core import Value
from dyn.ir.parser import parse_function
from dyn.passes.refine_shapes import refine_shapes
from dyn.shapes import Dim
from dyn.specialize.program import _require_same_interface
from dyn.specialize.shared_code import CODES

Array = Any
#: A function of n numbers, given a matrix of n rows, a square one and n numbers that it closes over.
Closing = Callable[[Array, Array, Array], Callable[[Array], Array]]

FUNCTIONS: dict[str, Closing] = {
    "matmul": lambda w, s, b: lambda x: x @ w,
    "matmul of several": lambda w, s, b: lambda x: (x @ s @ s + b) @ w + b @ w,
    "matmul with what is computed": lambda w, s, b: lambda x: x @ (w.astype("int8").astype("float32") * 0.5),
    "add": lambda w, s, b: lambda x: x + b,
    "broadcast": lambda w, s, b: lambda x: x[:, None] * w,
    "concatenate": lambda w, s, b: lambda x: dnp.concatenate([x, b, w[:, 0]]),
    "concatenate rows": lambda w, s, b: lambda x: dnp.concatenate([x[None], s]) @ w,
    "index": lambda w, s, b: lambda x: (x[dnp.asarray([0, -1, 1])] * b[0]) @ s[:3, :3],
    "gather": lambda w, s, b: lambda x: dnp.take(w, (x > 0).astype("int32"), axis=0) * x[:, None],
    "cond": lambda w, s, b: lambda x: lax.cond(x[0] > 0, lambda y: y @ w, lambda y: (y + b) @ w, x),
    "scan": lambda w, s, b: lambda x: lax.scan(lambda c, row: (c @ s + row, c @ w), x, s)[1],
    "fori_loop": lambda w, s, b: lambda x: lax.fori_loop(0, 3, lambda i, c: dnp.tanh(c @ s + b), x) @ w,
    "vmap": lambda w, s, b: lambda x: dyn.vmap(lambda column: x @ column, in_axes=1)(w),
}

TRANSFORMS: dict[str, Callable[[Callable[[Array], Array]], Callable[[Array], Any]]] = {
    "vmap": dyn.vmap,
    "vmap of vmap": lambda f: lambda x: dyn.vmap(dyn.vmap(f))(x[None]),
    "map": lambda f: lambda x: lax.map(f, x),
    "grad": lambda f: dyn.grad(lambda x: dnp.sum(dyn.vmap(f)(x) ** 2)),
    "vmap of grad": lambda f: dyn.vmap(dyn.grad(lambda x: dnp.sum(f(x) ** 2))),
    "jvp": lambda f: lambda x: dyn.jvp(dyn.vmap(f), (x,), (x,)),
    "linearize": lambda f: lambda x: dyn.linearize(dyn.vmap(f), x)[1](x),
    "vjp": lambda f: lambda x: dyn.vjp(f, x[0])[1](f(x[0])),
    "jacobian": lambda f: lambda x: dyn.jacrev(f)(x[0]),
    "hessian": lambda f: lambda x: dyn.hessian(lambda y: dnp.sum(f(y) ** 2))(x[0]),
}


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_outside_of_jit_as_inside(name: str, transform: str) -> None:
    for n, m in ((4, 3), (5, 5)):
        f = FUNCTIONS[name](*[dnp.asarray(floats(*shape)) for shape in ((n, m), (n, n), (n,))])
        run = TRANSFORMS[transform](f)
        for count in (n, 1):
            x = floats(count, n)
            found, wanted = dyn.tree.leaves(run(x)), dyn.tree.leaves(dyn.jit(run)(x))
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_one_program_for_all_sizes() -> None:
    def product(w: Array, x: Array) -> Array:
        return dyn.vmap(lambda row: dnp.tanh(row @ w) - 0.375)(x)

    def run() -> None:
        for rows, n, m in ((5, 4, 3), (2, 4, 3), (4, 4, 4), (3, 7, 2)):
            w, x = floats(n, m), floats(rows, n)
            np.testing.assert_allclose(product(dnp.asarray(w), x), np.tanh(x @ w) - 0.375, rtol=1e-5, atol=1e-5)

    CODES.clear()
    run()
    assert CODES.info().programs == 1
    CODES.clear()  # it is found on disk
    run()
    assert CODES.info().programs == 1


def test_sizes_that_do_not_fit() -> None:
    w = dnp.asarray(floats(4, 3))
    product = dyn.vmap(lambda row: row @ w)
    product(floats(5, 4))
    with pytest.raises(ShapeError, match=r"args_0_1 is 6 and captured0_0 is 4"):
        product(floats(5, 6))
    chosen = dyn.grad(lambda x: x[x > 0] @ w[:, 0])
    np.testing.assert_array_equal(chosen(np.array([1, -1, 2, 3, 4], "f4")), np.insert(np.asarray(w[:, 0]), 1, 0))
    with pytest.raises(ShapeError, match=r"count is 5 and captured\d_0 is 4"):
        chosen(np.array([1, 1, 2, 3, 4], "f4"))


# ---- what passes keep ------------------------------------------------------------------------------------------------

PRODUCT = """
func @product(%x: f32[m, k] "x", %w: f32[j, 3] "w" hidden) -> (f32[m, 3]) {
  dim m: "x.shape[0]"
  dim k: "x.shape[1]"
  dim j: "w.shape[0]"
  fact k == j "axis 1 of the left operand is multiplied and summed with axis 0 of the right one" @ model.py:3
  %0 = dot_general(%x, %w) {lhs_batch = [], lhs_contracting = [1], rhs_batch = [], rhs_contracting = [0]} : f32[m, 3]  @ model.py:3
  return %0
}
"""  # noqa: E501  # IR is one line an op


def test_dims_that_are_proved_equal_are_the_same_to_a_caller() -> None:
    traced = parse_function(PRODUCT)
    refined = refine_shapes(traced)
    (m, k), (j, three) = traced.checked_shapes()
    assert refined.params[1].shape == (k, 3)
    assert refined.checked_shapes() == refine_shapes(refined).checked_shapes() == ((m, k), (j, three))
    _require_same_interface(traced, refined)


def test_other_sizes_are_others_to_a_caller() -> None:
    traced = parse_function(PRODUCT)
    (m, k), (j, three) = traced.checked_shapes()

    def text(x: str, w: str) -> str:
        return f"('product', [(dyn.float32, {x}), (dyn.float32, {w})], [(dyn.float32, 2)], [False, True])"

    changes: list[tuple[int, tuple[Dim, ...], str]] = [
        (0, (m, j), text("(m, j)", "(j, 3)")),
        (1, (k, three), text("(m, k)", "(k, 3)")),
        (1, (j, 4), text("(m, k)", "(j, 4)")),
    ]
    for number, shape, kept in changes:
        params = list(traced.params)
        params[number] = Value(params[number].type.with_shape(shape), params[number].name)
        with pytest.raises(IRError) as caught:
            _require_same_interface(traced, replace(traced, params=tuple(params)))
        seen = text("(m, k)", "(j, 3)")
        assert str(caught.value) == f"product: passes have changed what a caller sees, {seen}, to {kept}."
