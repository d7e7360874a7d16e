"""The oracle: ops one by one with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dyn.backends.reference import bind_symbols, run_reference
from dyn.errors import ShapeError
from tests.stitch.models import Model


def test_softmax() -> None:
    m = Model("f")
    function = m.function(m.softmax(m.param("x", "n", "m")))
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("f4")
    (y,) = run_reference(function, [x])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_results_are_fresh_and_contiguous() -> None:
    m = Model("f")
    x = m.param("x", "n", "m")
    function = m.function(x, m.transpose(x, 1, 0), x)
    a = np.arange(6, dtype="f4").reshape(2, 3)
    results = run_reference(function, [a])
    assert all(r.flags.c_contiguous and r.flags.owndata and not np.shares_memory(r, a) for r in results)
    assert not np.shares_memory(results[0], results[2])


def test_sizes_that_disagree() -> None:
    m = Model("f")
    function = m.function(m.op("add", m.param("x", "n"), m.param("y", "n")))
    with pytest.raises(ShapeError) as caught:
        run_reference(function, [np.zeros(3, "f4"), np.zeros(4, "f4")])
    assert str(caught.value) == (
        "y.shape[0] is 4, and it must be n = 3.\n"
        "  n is the size n = 3\n"
        "  help: pass arrays that agree, or give the two axes different names in shapes=."
    )


def test_a_relation_that_does_not_hold() -> None:
    m = Model("f")
    function = m.function(m.op("add", m.param("x", "n"), m.param("y", "k")))
    with pytest.raises(ShapeError) as caught:
        run_reference(function, [np.zeros(3, "f4"), np.zeros(4, "f4")])
    assert str(caught.value).splitlines()[0] == (
        "n == k is required, but n is 3 and k is 4: operands of an elementwise op agree on axis 0."
    )


def test_a_size_inside_an_expression() -> None:
    m = Model("f")
    n = m.dim("n")
    x = m.param("x", 2 * n + 1)
    assert list(bind_symbols(m.function(m.op("negate", x)), [np.zeros(7, "f4")]).values()) == [3]
    with pytest.raises(ShapeError):
        bind_symbols(m.function(m.op("negate", x)), [np.zeros(6, "f4")])
