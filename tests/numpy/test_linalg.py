"""Products of matrices: NumPy's results at every size, from one trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError
from tests.numpy.differential import compare, trace


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("n k", "k m"), ("n", "n"), ("n k", "k"), ("k", "k n"), ("b n k", "k m"), ("n k", "b k m"), ("b n 3", "b 3 m"),
        ("b n 3", "c 3 m"), ("b n 3", "1 3 m"), ("1 n 3", "b 3 m"), ("b n 3", "3"), ("3", "b 3 n"),
        ("2 1 n 3", "b 3 2"), ("n k", "j m"),
    ],
)  # fmt: skip
def test_matmul(x: str, y: str) -> None:
    sizes = (0, 1, 3) if len(set(f"{x}{y}") & set("bcjkmn")) > 2 else (0, 1, 2, 7)
    compare(lambda xp, a, b: a @ b, f"float64 {x}", f"float64 {y}", sizes=sizes)


def test_one_right_matrix_needs_no_batch() -> None:
    traced = trace(lambda xp, x, w: x @ w, "float32 b s 768", "float32 768 64")
    assert [op.opdef.name for op in traced.function.ops] == ["dot_general"]
    assert traced.function.ops[0].attrs["lhs_batch"] == ()


@pytest.mark.parametrize("dtype", ["int32", "float16", "bool", "float32"])
def test_matmul_dtypes(dtype: str) -> None:
    compare(lambda xp, x, y: x @ y, f"{dtype} n k", f"{dtype} k 3", rtol=2e-2 if dtype == "float16" else 1e-5)


def test_products() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.dot(x, y), x.dot(y), xp.dot(2.0, x), xp.outer(x, y), xp.inner(x, x), xp.vecdot(x, x), xp.vecdot(x, y.T),
            xp.tensordot(x, y, 1), xp.tensordot(x, y, 0), xp.tensordot(x, y, ((1,), (0,))), xp.tensordot(x, x, 2),
            xp.tensordot(x, y.T, [[0, 1], [0, 1]]), xp.vdot(x, x), xp.trace(x),
        )  # fmt: skip

    compare(program, "float64 n k", "float64 k n", sizes=(0, 1, 3))


def test_dot_of_more_axes() -> None:
    compare(lambda xp, x, y: xp.dot(x, y), "float64 2 n 3", "float64 4 3 m")
    compare(lambda xp, x, y: xp.dot(x, y), "float64 2 n 3", "float64 3")
    compare(lambda xp, x, y: xp.vecdot(x, y, axis=0), "float64 n 3", "float64 n 1")


@pytest.mark.parametrize(
    ("subscripts", "axes"),
    [
        ("ij,jk->ik", ("n k", "k m")), ("ij,jk", ("n k", "k m")), ("ij,jk->ki", ("n k", "k m")), ("ij->ji", ("n m",)),
        ("ij->", ("n m",)), ("ij->j", ("n m",)), ("ji", ("n m",)), ("i,i->", ("n", "n")), ("i,i->i", ("n", "n")),
        ("i,j->ij", ("n", "m")), ("i,j->ji", ("n", "m")), ("bij,bjk->bik", ("b n 3", "b 3 m")),
        ("bqhd,bkhd->bhqk", ("b n 2 3", "b m 2 3")), ("bhqk,bkhd->bqhd", ("b 2 n m", "b m 2 3")),
        ("ijk,jk->i", ("n 3 m", "3 m")), ("ij,kj->", ("n k", "m k")), ("ij,k->ij", ("n k", "m")),
        ("...ij,jk->...ik", ("b n 3", "3 m")), ("...i,...i->...", ("b n 3", "n 3")),
        ("...ij,...jk", ("b n 3", "1 3 m")),
        ("ij,jk,kl->il", ("n 2", "2 k", "k m")), ("ij,ij->ij", ("n 3", "1 3")), ("ij,j->ij", ("n 3", "1")),
    ],
)  # fmt: skip
def test_einsum(subscripts: str, axes: tuple[str, ...]) -> None:
    compare(lambda xp, *arrays: xp.einsum(subscripts, *arrays), *(f"float64 {a}" for a in axes), sizes=(0, 1, 3))


def test_einsum_becomes_one_contraction() -> None:
    traced = trace(lambda xp, x, y: xp.einsum("bqhd,bkhd->bhqk", x, y), "float32 b q 8 64", "float32 b k 8 64")
    assert [op.opdef.name for op in traced.function.ops] == ["dot_general"]


@pytest.mark.parametrize(
    ("subscripts", "x", "y"),
    [
        ("...ij,...jk->...ik", "b n 3", "c 3 m"), ("...ij,jk...->...ik", "b c n 3", "3 m d"),
        ("...i,...i", "b n", "c n"),
    ],
)  # fmt: skip
def test_einsum_broadcasts_what_an_ellipsis_stands_for(subscripts: str, x: str, y: str) -> None:
    compare(lambda xp, a, b: xp.einsum(subscripts, a, b), f"float64 {x}", f"float64 {y}", sizes=(0, 1, 3))


def test_einsum_of_an_ellipsis_that_does_not_broadcast() -> None:
    compiled = dyn.jit(lambda x, y: dnp.einsum("...ij,...jk->...ik", x, y))
    for left, right in ((3, 1), (1, 3), (0, 1), (1, 0), (1, 1), (4, 4)):
        x, y = np.ones((left, 2, 3)), np.ones((right, 3, 2))
        np.testing.assert_array_equal(compiled(x, y), x @ y)
    with pytest.raises(ShapeError) as caught:
        compiled(np.ones((3, 2, 3)), np.ones((2, 3, 2)))
    assert str(caught.value).startswith(
        "x_0 broadcasts with y_0 is required, but x_0 is 3 and y_0 is 2: einsum('...ij,...jk->...ik') broadcasts axis "
        "0.\n  x_0 is x.shape[0] = 3\n  y_0 is y.shape[0] = 2\n  at test_linalg.py:"
    )
    assert compiled.cache_info().compiles == 1
