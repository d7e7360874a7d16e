"""Forms for several sizes that the first call has stretched, as those of a rotary embedding's angles.

They are variants: which of them runs cannot be seen in a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.backends.deferred import finish
from dyn.specialize.shared_code import CODES

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

HEADS: tuple[Shape, ...] = ((3, 5, 8), (3, 1, 4), (3, 1, 4))


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Nothing is found that other tests have compiled."""
    CODES.clear()
    yield
    assert finish()


def rotary(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., :4], x[..., 4:]
    return dnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def _arrays(*shapes: Shape) -> list[Array]:
    return [np.random.default_rng(n).standard_normal(shape).astype("f4") for n, shape in enumerate(shapes)]


def _cases() -> list[tuple[Shape, ...]]:
    """Shapes of all combinations of sizes that broadcast."""
    angles = list(itertools.product((1, 3), (1, 5), (1, 4)))
    heads = list(itertools.product((0, 1, 3), (1, 5), (8,)))
    cases = itertools.product(heads, angles, angles)
    return [case for case in cases if 0 not in case[0] or all(angle[0] == 1 for angle in case[1:])]


def _variants(call: Any) -> set[str]:
    with dyn.profile() as profile:
        call()
    return {launch.kernel.variant for launch in profile.events().launches}


def test_results_have_the_bits_of_the_general_kernel() -> None:
    cases = _cases()
    with config.override(variants="none"):
        general = dyn.jit(rotary)
        expected = [general(*_arrays(*case)).tobytes() for case in cases]
    CODES.clear()
    with config.override(variants="all"):
        quick = dyn.jit(rotary)
        quick(*_arrays(*HEADS))
        assert [quick(*_arrays(*case)).tobytes() for case in cases] == expected
    x, cos, sin = _arrays(*HEADS)
    first, second = x[..., :4], x[..., 4:]
    wanted = np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    assert np.allclose(quick(x, cos, sin), wanted)
    assert quick.cache_info().compiles == 1


def test_sizes_of_the_first_call_have_a_kernel() -> None:
    with config.override(variants="all"):
        f = dyn.jit(rotary)
        x, cos, sin = _arrays(*HEADS)
        f(x, cos, sin)
        assert all(variant.endswith("cos_1, sin_1 are 1") for variant in _variants(lambda: f(x, cos, sin)))
        assert all(
            "are 1" not in variant for variant in _variants(lambda: f(*_arrays((3, 5, 8), (3, 5, 4), (3, 1, 4))))
        )


def test_another_first_call_has_its_own_forms() -> None:
    """Groups that compute the same share no forms where other sizes were 1."""
    with config.override(variants="all"):
        f, g = dyn.jit(rotary), dyn.jit(rotary)
        one = _arrays((1, 5, 8), (3, 5, 4), (3, 5, 4))
        f(*_arrays(*HEADS))
        CODES.clear()
        g(*one)
        assert all("cos_1, sin_1 are 1" not in variant for variant in _variants(lambda: g(*_arrays(*HEADS))))
        assert all(variant.endswith("x_0 is 1") for variant in _variants(lambda: g(*one)))


def test_what_a_constant_is_added_to_is_stretched_alone() -> None:
    """Where the index of a stretched axis has a constant that is stretched with it, sizes that agree do not tell."""

    def program(x: Any, y: Any) -> Any:
        return (x + y)[:, 2:]

    cases = list(itertools.product([(3, 9), (1, 9), (3, 1), (1, 1)], repeat=2))
    cases = [case for case in cases if np.broadcast_shapes(*case)[1] == 9]
    with config.override(variants="all"):
        f = dyn.jit(program)
        for case in cases:
            x, y = _arrays(*case)
            assert np.array_equal(f(x, y), (x + y)[:, 2:])
