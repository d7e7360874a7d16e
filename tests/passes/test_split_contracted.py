"""Contractions over groups of an axis: golden text, where nothing is to be done, and what is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.reference import run_reference
from dyn.ir.core import Function, Value
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.passes.normal_form import NORMAL_FORM
from dyn.passes.redundancy import eliminate_dead_code
from dyn.passes.split_contracted import split_contracted_axes
from dyn.shapes import evaluate, free_symbols

G = 32


def traced(f: Callable[..., Any], arguments: str) -> Function:
    """The function over arguments that are dtypes with dims, in the form that the pass needs."""
    structs = [dyn.ShapeDtypeStruct(tuple(dims), dtype) for dtype, *dims in map(str.split, arguments.split(", "))]
    function = dyn.jit(f).trace(*structs).traced.function
    for step in NORMAL_FORM:
        function = verify(step(function))
    return function


def split(function: Function) -> Function:
    return verify(eliminate_dead_code(verify(split_contracted_axes(function))))


def reshaped(x: Any, q: Any, s: Any, z: Any) -> Any:
    k, n = q.shape
    return x @ ((q.astype("float32").reshape(k // G, G, n) - z[:, None]) * s[:, None]).reshape(k, n)


def repeated(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype("float32") * dnp.repeat(s, G, axis=0))


def columns_first(x: Any, q: Any, s: Any) -> Any:
    n, k = q.shape
    return x @ (q.astype("float32").reshape(n, k // G, G) * s[:, :, None]).reshape(n, k).T


def nibbles(x: Any, q: Any, s: Any) -> Any:
    """Eight numbers of four bits in a word, groups of 32 of them."""
    k, n = q.shape[0] * 8, q.shape[1]
    bits = (q[:, None, :] >> (dnp.arange(8, dtype="int32") * 4)[None, :, None]) & 15
    return x @ ((bits.reshape(k // G, G, n).astype("float32") - 8) * s[:, None]).reshape(k, n)


def left_transposed(x: Any, q: Any, s: Any) -> Any:
    return x.astype("float32").T @ (q.astype("float32") * dnp.repeat(s, G, axis=0))


GROUPS = "float32 j n"
CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "reshaped": (reshaped, f"float32 m 32*j, int8 32*j n, {GROUPS}, {GROUPS}"),
    "repeated": (repeated, f"float32 m 32*j, int8 32*j n, {GROUPS}"),
    "columns_first": (columns_first, "float32 m 32*j, int8 n 32*j, float32 n j"),
    "nibbles": (nibbles, f"float32 m 32*j, int32 4*j n, {GROUPS}"),
    "left_transposed": (left_transposed, f"float16 32*j m, int8 32*j n, {GROUPS}"),
}


def test_texts(golden: Callable[[str, str], None]) -> None:
    texts: list[str] = []
    for name, case in CASES.items():
        before = traced(*case)
        after = print_function(split(before))
        assert print_function(parse_function(after)) == after
        texts += [f"# {name}, before", print_function(before), f"# {name}, after", after]
    golden("split_contracted.txt", "\n".join(texts))


@pytest.mark.parametrize("name", CASES)
def test_the_same_is_computed_without_a_reshape_of_what_is_computed(name: str) -> None:
    before = traced(*CASES[name])
    after = split(before)
    (product,) = [op for op in after.ops if op.opdef.name == "dot_general"]
    assert len(product.attrs["rhs_contracting"]) >= 2
    assert not [op for op in after.ops if op.opdef.name == "reshape" and not shows_memory(after, op.operands[0])]
    rng = np.random.default_rng(0)
    for m, n, j in [(0, 2, 1), (1, 1, 1), (2, 0, 2), (2, 3, 0), (3, 5, 2)]:
        arrays = [filled(rng, param, {"m": m, "n": n, "j": j}) for param in before.params]
        for want, got in zip(run_reference(before, arrays), run_reference(after, arrays), strict=True):
            assert want.shape == got.shape
            np.testing.assert_allclose(want, got, rtol=1e-4, atol=1e-2)


def shows_memory(function: Function, value: Value) -> bool:
    """Whether a value is a parameter, or a reshape of one, or the few numbers by which words are shifted."""
    op = function.producers().get(value)
    return op is None or value.shape == (8,) or (op.opdef.name == "reshape" and shows_memory(function, op.operands[0]))


def filled(rng: np.random.Generator, param: Value, sizes: dict[str, int]) -> np.ndarray:
    """An array of a parameter's type: integers of all bits, or floats."""
    shape = tuple([evaluate(dim, {s: sizes[s.name] for s in free_symbols(dim)}) for dim in param.shape])
    if param.dtype.is_float:
        return rng.standard_normal(shape).astype(param.dtype.np)
    limits = np.iinfo(param.dtype.np)
    return rng.integers(limits.min, limits.max, shape, param.dtype.np, endpoint=True)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        # No groups; as many bytes as the operand has; 16 bits, of which units take words; read by two; a result;
        # groups of columns; a size that may be stretched; sizes that are not known to be equal.
        (lambda x, q, s: x @ (q.astype("float32") * s), "float32 m k, int8 k n, float32 n"),
        (lambda x, w, s: x @ (w * dnp.repeat(s, G, axis=0)), f"float32 m 32*j, float32 32*j n, {GROUPS}"),
        (
            lambda x, q, s: x @ (q.astype("bfloat16") * dnp.repeat(s, G, axis=0)),
            "bfloat16 m 32*j, int8 32*j n, bfloat16 j n",
        ),
        (
            lambda x, y, q, s: (repeated(x, q, s), repeated(y, q, s)),
            f"float32 m 32*j, float32 l 32*j, int8 32*j n, {GROUPS}",
        ),
        (lambda x, q: (x @ (w := q.astype("float32").reshape(q.shape[0] * G, -1)), w), "float32 m 32*j, int8 j 32*n"),
        (
            lambda x, q, s: x @ (q.astype("float32") * dnp.repeat(s, G, axis=1)),
            "float32 m k, int8 k 32*j, float32 k j",
        ),
        (reshaped, "float32 m k, int8 k n, float32 a b, float32 c d"),
        (repeated, "float32 m k, int8 l n, float32 a b"),
    ],
    ids=["none", "wide", "bfloat16", "twice", "result", "columns", "stretched", "unknown"],
)
def test_what_stays(f: Callable[..., Any], arguments: str) -> None:
    function = traced(f, arguments)
    assert split_contracted_axes(function) is function


def test_operands_that_ops_of_several_results_read_too() -> None:
    def program(a: Any, b: Any) -> Any:
        doubled = a * 2.0
        return dnp.linalg.svd(doubled, compute_uv=False), doubled @ b.reshape(6, 2)

    a, b = np.eye(4, 6, dtype=np.float32), np.arange(12, dtype=np.float32)
    singular, product = dyn.jit(program)(a, b)
    np.testing.assert_allclose(singular, np.full(4, 2.0), rtol=1e-6)
    np.testing.assert_array_equal(product, (a * 2) @ b.reshape(6, 2))
