"""Differences between arrays: what rounding explains, and what it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.diagnosis.differences import difference
from dyn.ir.opdef import REGISTRY
from tests.diagnosis.test_replay import other_reference

Array = np.ndarray[Any, Any]


def assert_nothing_found(function: Any, *args: Any) -> None:
    replay = dyn.jit(function).replay(*args)
    assert replay.stop is None, replay


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
def test_sums_whose_terms_cancel(dtype: str) -> None:
    """What is left of them is rounding alone, and the next order of adding leaves something else."""

    def sums(x: Any) -> Any:
        centred = x - x.mean(axis=0)
        product = centred.T @ dnp.ones((x.shape[0], 1), x.dtype)
        where = dnp.zeros(x.shape[0], "int32")
        return centred.sum(axis=0), product, dnp.cumsum(centred, axis=0)[-1:], x.at[where].add(-centred)

    for rows in (0, 1, 300):
        x = np.random.default_rng(0).standard_normal((rows, 3)).astype(dyn.dtype(dtype).np)
        replay = dyn.jit(sums).replay(x).again(stop_at=("difference",))
        assert replay.stop is None, replay


def test_a_sum_that_is_wrong_is_one_all_the_same() -> None:
    x = np.array([[1e4, 1.0, -1e4], [2.0, -2.0, 0.0]], "f4")
    total = dyn.jit(lambda x: x.sum(axis=1))
    with other_reference("reduce", lambda x: np.sum(x[:, 1:], axis=1)):
        replay = total.replay(x)
    assert replay.stop is not None
    assert replay.stop.text.startswith("differs from the reference in 2 of the 2 elements, the first at [0]: 1.0")


MATRICES: dict[str, Array] = {
    "one vector for all values": np.eye(5, dtype="f4"),
    "equal values": np.ones((4, 4), "f4"),
    "several matrices": np.random.default_rng(0).standard_normal((3, 20, 20)).astype("f4"),
    "complex": np.random.default_rng(1).standard_normal((2, 7, 7, 2)).view("c16")[..., 0],
    "of no elements": np.zeros((0, 0)),
    "of one": np.full((1, 1), -2.0),
    "too few vectors": np.array([[0, 1], [0, 0]], "f4"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_vectors_have_no_phase(name: str) -> None:
    """Nor an order, where LAPACK says none."""

    def vectors(a: Any) -> Any:
        full, reduced = dnp.linalg.svd(a), dnp.linalg.svd(a, full_matrices=False)
        return dnp.linalg.eigh(a @ a.conj().mT), dnp.linalg.eig(a), full, reduced

    assert_nothing_found(vectors, MATRICES[name])


@pytest.mark.parametrize("name", ["eigh", "eig", "svd"])
def test_vectors_that_are_wrong(name: str) -> None:
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    right = REGISTRY[name].reference

    def turned(a: Array, **attrs: Any) -> Any:
        parts = list(right(a, **{**({"lower": True} if name == "eigh" else {}), **attrs, "vectors": True}))
        parts[-1] = np.roll(parts[-1], 1, axis=-1)  # of the values of each other
        return tuple(parts)

    attrs = {"full_matrices": False} if name == "svd" else {}
    with other_reference(name, lambda a: turned(a, **attrs)):
        replay = dyn.jit(getattr(dnp.linalg, name)).replay(a)
    assert replay.stop is not None
    assert (replay.stop.cause, replay.stop.op) == ("difference", name)


def test_infinities_beside_the_greatest_number() -> None:
    most = np.finfo("f4").max
    assert difference(np.array([np.inf], "f4"), np.array([most])) is None
    assert difference(np.array([-most]), np.array([-np.inf], "f4")) is None
    assert difference(np.array([np.inf, 1], "f4"), np.array([np.inf, 1], "f4")) is None
    for made, wanted in ((np.inf, 1e38), (1e38, np.inf), (np.inf, -np.inf), (np.nan, np.inf), (np.inf, np.nan)):
        assert difference(np.array([made], "f4"), np.array([wanted], "f4")) is not None, (made, wanted)


def test_numbers_below_the_least_normal_one() -> None:
    tiny = np.finfo("f8").tiny
    assert difference(np.array([tiny / 8]), np.zeros(1)) is None
    assert difference(np.array([tiny * 8]), np.zeros(1)) is not None
    assert difference(np.array([tiny * 8]), np.array([tiny * 8 * (1 + 1e-15)])) is None
