"""Programs that commute with permutations of axes: which are known to be so, and which are not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.stitch.axis_symmetry import symmetric_rank

F2, F3 = np.ones((3, 4), "f4"), np.ones((2, 3, 4), "f4")


def _rank(function: Callable[..., Any], *arrays: Any, **options: Any) -> int:
    return symmetric_rank(dyn.jit(function, **options).trace(*arrays).function)


def _branch(x: Any) -> Any:
    return x + 1 if x.shape[0] > 2 else x * 2


def _symmetric_branch(x: Any) -> Any:
    return x + 1 if x.shape[0] > 2 and x.shape[1] > 2 else x * 2


@dyn.jit
def _nested(x: Any) -> Any:
    return dnp.exp(x)


_COLUMN = np.ones((3, 1), "f4")

SYMMETRIC = {
    "a scale": (2, lambda x: x * 2 + 1, (F2,)),
    "three axes": (3, dnp.tanh, (F3,)),
    "several results, one of them a number": (2, lambda x: (x, x > 0, 3.0), (F2,)),
    "a broadcast that is not decided": (2, lambda x, y: dnp.where(x > y, x, y * 2), (F2, F2)),
    "a number beside it": (2, lambda x, a: x * a, (F2, np.float32(2))),
    "both axes reversed": (2, lambda x: x[::-1, ::-1], (F2,)),
    "both axes sliced": (2, lambda x: x[1:, 1:] * 2, (F2,)),
    "a jitted function within": (2, lambda x: _nested(x) + 1, (F2,)),
    "complex numbers": (2, lambda x: dnp.conj(x) * x, (np.ones((3, 4), "c8"),)),
    "branches on both axes alike": (2, _symmetric_branch, (F2,)),
}
NOT_SYMMETRIC = {
    "one axis": (lambda x: x + 1, (np.ones(3, "f4"),)),
    "a transpose": (lambda x: x.T, (F2,)),
    "a reduction": (lambda x: x - dnp.sum(x, axis=0, keepdims=True), (F2,)),
    "a sum of all": (dnp.sum, (F2,)),
    "a row of fewer axes": (lambda x, b: x + b, (F2, np.ones(4, "f4"))),
    "one axis reversed": (lambda x: x[::-1], (F2,)),
    "one axis sliced": (lambda x: x[1:] * 2, (F2,)),
    "a reshape": (lambda x: x.reshape(x.shape[1], x.shape[0]), (F2,)),
    "positions": (lambda x: x + dnp.arange(x.shape[1], dtype="float32"), (F2,)),
    "a size": (lambda x: x / x.shape[0], (F2,)),
    "a branch on one axis": (_branch, (F2,)),
    "a captured array": (lambda x: x + _COLUMN, (F2,)),
    "two branches": (lambda x: _branch(x) + _branch(x.T).T, (F2,)),
    "a column": (lambda x: x + dnp.ones((x.shape[0], 1), "float32") * dnp.sum(x), (F2,)),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_programs_that_treat_axes_alike(name: str) -> None:
    rank, function, arrays = SYMMETRIC[name]
    assert _rank(function, *arrays) == rank


@pytest.mark.parametrize("name", NOT_SYMMETRIC)
def test_programs_that_tell_axes_apart(name: str) -> None:
    function, arrays = NOT_SYMMETRIC[name]
    assert _rank(function, *arrays) == 0


def test_declared_sizes_count() -> None:
    assert _rank(lambda x: x + 1, F2, shapes="a b") == 2
    assert _rank(lambda x: x + 1, F2, shapes="3 b") == 0
    assert _rank(lambda x: x + 1, F2, shapes="3 4") == 0
    assert _rank(lambda x: x + 1, np.ones((3, 3), "f4"), shapes="3 3") == 2
    assert _rank(lambda x: x + 1, np.ones((3, 3), "f4"), shapes="a a") == 0
    assert _rank(lambda x, y: x + y, F2, F2, shapes="a b, a b") == 2
    assert _rank(lambda x, y: x + y, F2, F2, shapes="a b, a _") == 0
    assert _rank(lambda x: x + 1, F2, shapes="a b", constraints=("a >= 2",)) == 0
    assert _rank(lambda x: x + 1, F2, shapes="a b", constraints=("a >= 2", "b >= 2")) == 2
    assert _rank(lambda x: x + 1, F2, shapes="a b", constraints=("a <= b",)) == 0
