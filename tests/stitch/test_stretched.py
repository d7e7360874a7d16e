"""Groups over arrays that an undecided broadcast may stretch: joined where that is cheap, right where it stretches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 17)


def layer_norm(xp: Any, x: Any, scale: Any, shift: Any) -> Any:
    centered = x - xp.mean(x, axis=-1, keepdims=True)
    return centered / xp.sqrt(xp.mean(centered * centered, axis=-1, keepdims=True) + 1) * scale + shift


def gated(xp: Any, x: Any, y: Any, z: Any) -> Any:
    return (x + y) * z + y


def kept(xp: Any, x: Any, y: Any) -> Any:
    """The sum of both is read elsewhere too, and so is what was reduced."""
    total = x + y
    scaled = total - xp.max(total, axis=-1, keepdims=True, initial=0)
    return scaled * x, total, xp.sum(scaled, axis=-1)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "layer norm": (layer_norm, ("n m", "k", "l")),
    "layer norm, by rows": (layer_norm, ("2 m", "2 k", "2 l")),
    "layer norm of batches": (layer_norm, ("2 n m", "k", "1 1 l")),
    "gated": (gated, ("n m", "n k", "m")),
    "kept": (kept, ("n m", "n k")),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_size_or_one(name: str) -> None:
    program, specs = PROGRAMS[name]
    compare(program, *[f"float32 {spec}" for spec in specs], sizes=SIZES, rtol=1e-4)


def _plan(program: Callable[..., Any], *shapes: tuple[int, ...]) -> str:
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    return dyn.jit(lambda *xs: program(dnp, *xs)).trace(*arrays).lower().as_text("stitch")


def _groups(text: str) -> list[str]:
    return [line.split(" [")[0] for line in text.splitlines() if not line.startswith((" ", "}"))]


def test_a_layer_norm_is_one_kernel_with_nothing_declared() -> None:
    assert _groups(_plan(layer_norm, (3, 4), (4,), (4,))) == ["stitch reduce_multiply_add"]


def test_a_gate_is_one_kernel() -> None:
    assert len(_groups(_plan(gated, (3, 4), (3, 4), (4,)))) == 1


def test_what_is_dear_is_computed_once() -> None:
    """A row's exponentials are not computed again for each of the rows that read them."""
    text = _plan(lambda xp, x, y: xp.exp(x) * y, (1, 4), (3, 4))
    assert _groups(text) == ["loop exponential", "loop multiply"]


def test_what_others_read_is_stored() -> None:
    text = _plan(lambda xp, x, y, z: ((x + y) * z, x + y), (3, 4), (3, 4), (3, 4))
    assert _groups(text) == ["loop add", "loop multiply"]


def test_a_row_that_is_known_to_be_stretched_is_computed_once() -> None:
    """Its space has fewer axes: each element would be computed for every row."""
    text = _plan(lambda xp, x, y: (x + x * x) * y, (4,), (3, 4))
    assert _groups(text) == ["loop multiply_add", "loop multiply"]
