"""Random programs of loops, choices, folds, derivatives and ``vmap``, in one another: compiled, against the reference.

And their derivatives, in float64: forward against differences, backward against forward, and many examples against one
at a time. ``make random`` looks longer.
"""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dyn
import dyn.numpy as dnp
from dyn.errors import NotYetError, ShapeError
from tests.models import random_programs
from tests.models.checked import Discard, check_program
from tests.models.random_programs import NAMES, REFUSALS, Chooser, make_program
from tests.models.random_regions import control, smooth, transformed

Array = Any
_THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"
_FAMILIES = (*((control,), (transformed,)) * 3, *random_programs.FAMILIES[:3])
_CHECKS = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much]


@hypothesis.settings(max_examples=2000 if _THOROUGH else 25, suppress_health_check=_CHECKS)
@given(st.randoms(use_true_random=False))
def test_compiled_agrees_with_the_reference(random: Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_programs, "FAMILIES", _FAMILIES)
        program = make_program(random, most=2)
    hypothesis.note(repr(program))
    try:
        check_program(program)
    except Discard:
        hypothesis.reject()


class _Ranks(Chooser):
    """A chooser for an expression of ``a`` alone."""


def _function(random: Random, rank: int) -> tuple[str, Any]:
    text = f"lambda a: {smooth(_Ranks(random, {}, []), rank)}"
    return text, eval(text, dict(NAMES))


@hypothesis.settings(max_examples=1000 if _THOROUGH else 12, suppress_health_check=_CHECKS)
@given(st.randoms(use_true_random=False))
def test_derivatives_agree_with_differences_and_with_one_another(random: Random) -> None:
    rank = random.randint(0, 2)
    text, f = _function(random, rank)
    hypothesis.note(text)

    def both(x: Array, t: Array, w: Array) -> Any:
        y, moved = dyn.jvp(f, (x,), (t,))
        ct = dnp.cos(y * 3 + w)
        return y, moved, ct, dyn.vjp(f, x)[1](ct)[0]

    compiled, plain = dyn.jit(both), dyn.jit(f)
    each, one = dyn.jit(dyn.vmap(f)), plain
    seen = 0
    for size in (0, 1, 2, 7):
        rng = np.random.default_rng(random.randint(0, 1000))
        shape = (size, random.choice((size, 3)))[:rank]
        x, t = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                _, moved, ct, pulled = map(np.asarray, compiled(x, t, np.float64(0.3)))
                h = 1e-6
                slope = (np.asarray(plain(x + h * t)) - np.asarray(plain(x - h * t))) / (2 * h)
                stretch = (np.asarray(plain(x + 2 * h * t)) - np.asarray(plain(x - 2 * h * t))) / (4 * h)
                many = rng.uniform(-1, 1, (3, *shape))
                rows = np.asarray(each(many))
                wanted = [np.asarray(one(row)) for row in many]
            except (NotYetError, *REFUSALS) as error:
                if not isinstance(error, ShapeError):
                    hypothesis.reject()
                continue
        seen += 1
        if np.isfinite(moved).all() and np.isfinite(pulled).all():
            np.testing.assert_allclose(np.sum(ct * moved), np.sum(pulled * t), rtol=1e-8, atol=1e-8, err_msg=text)
        # Where differences depend on their steps there is a kink, or a jump.
        calm = np.isfinite(slope) & np.isfinite(moved) & (np.abs(slope - stretch) <= 1e-6 * (1 + np.abs(slope)))
        assert (np.abs(slope - moved)[calm] <= 1e-4 * (1 + np.abs(slope))[calm]).all(), (text, size, slope, moved)
        for row, expected in zip(rows, wanted, strict=True):
            np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-9, err_msg=f"{text} at {size}")
    hypothesis.assume(seen)
    assert compiled.cache_info().compiles == 1
