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
from dyn import dtypes
from dyn.errors import NotYetError, ShapeError
from dyn.trace.function import LeafSpec, trace_function
from dyn.trace.tracer import Tracer
from tests.models import random_programs
from tests.models.checked import Discard, check_program
from tests.models.random_programs import NAMES, REFUSALS, Chooser, make_program
from tests.models.random_regions import control, smooth, transformed
from tests.models.random_transforms import body

Array = Any
_THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"
#: Casts round, so that differences say nothing of what they are in.
_ANY = [family for family in random_programs.FAMILIES if random_programs.cast not in family]
_FAMILIES = (*((control,), (transformed,)) * 3, *random_programs.FAMILIES[:3])
#: A lesser seed is no smaller program: what fails is made smaller by ``checked.small``.
_PHASES = (hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate)
_CHECKS = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much]


@hypothesis.settings(max_examples=2000 if _THOROUGH else 25, phases=_PHASES, suppress_health_check=_CHECKS)
@given(st.integers(0, 2**32))
def test_compiled_agrees_with_the_reference(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_programs, "FAMILIES", _FAMILIES)
        program = make_program(Random(seed), most=2)
    hypothesis.note(repr(program))
    try:
        check_program(program)
    except Discard:
        hypothesis.reject()


def _text(random: Random, rank: int) -> str:
    """A function of ``a`` that gives float64: of what is smooth for sure, or of anything."""
    if random.random() < 0.3:
        return f"lambda a: {smooth(Chooser(random, {}, []), rank)}"
    texts: list[str] = []

    def grow(tracers: list[Tracer]) -> Any:
        texts.append(body(Chooser(random, {}, []), tracers[0], _ANY, NAMES, REFUSALS))
        return tracers[0]

    trace_function(grow, "drawn", [LeafSpec("a", dtypes.float64, ("n", "m")[:rank])])
    return f"lambda a: dnp.real({texts[0]}).astype('float64')"


def _unsure(f: Any, x: Array, y: Array) -> Array:
    """How far each element of ``y = f(x)`` moves where ``x`` does by next to nothing; NaN where it becomes another."""
    return np.maximum(np.abs(np.asarray(f(x * (1 + 1e-13))) - y), np.abs(np.asarray(f(x * (1 - 1e-13))) - y))


@hypothesis.settings(max_examples=1000 if _THOROUGH else 16, phases=_PHASES, suppress_health_check=_CHECKS)
@given(st.integers(0, 2**32))
def test_derivatives_agree_with_differences_and_with_one_another(seed: int) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_derivatives(Random(seed))


def check_derivatives(random: Random) -> None:
    rank = random.randint(0, 2)
    text = _text(random, rank)
    hypothesis.note(text)
    f = eval(text, dict(NAMES))

    def both(x: Array, t: Array, w: Array) -> Any:
        y, moved = dyn.jvp(f, (x,), (t,))
        ct = dnp.cos(y * 3 + w)
        return y, moved, ct, dyn.vjp(f, x)[1](ct)[0]

    compiled, plain, each = dyn.jit(both), dyn.jit(f), dyn.jit(dyn.vmap(f))
    seen = 0
    for size in (0, 1, 2, 7):
        rng = np.random.default_rng(random.randint(0, 1000))
        shape = (size, random.choice((size, 3)))[:rank]
        x, t = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape)
        try:
            y, moved, ct, pulled = map(np.asarray, compiled(x, t, np.float64(0.3)))
        except (NotYetError, *REFUSALS) as error:
            if not isinstance(error, ShapeError):
                hypothesis.reject()
            continue
        seen += 1
        if np.isfinite(moved).all() and np.isfinite(pulled).all():
            scale = np.abs(ct * moved).sum() + np.abs(pulled * t).sum()
            np.testing.assert_allclose(
                np.sum(ct * moved), np.sum(pulled * t), rtol=1e-8, atol=1e-8 * (1 + scale), err_msg=f"{text} at {size}"
            )
        if "stop_gradient" not in text:
            _check_differences(plain, x, t, y, moved, f"{text} at {size}")
        many = rng.uniform(-1, 1, (3, *shape))
        try:
            rows = np.asarray(each(many))
        except (NotYetError, *REFUSALS):
            continue
        for row, found in zip(many, rows, strict=True):
            expected = np.asarray(plain(row))
            allowed = 1e-9 * (1 + np.abs(expected)) + 1e3 * _unsure(plain, row, expected)
            fine = (np.abs(found - expected) <= allowed) | (found == expected) | np.isnan(allowed)
            assert fine.all(), (f"{text} at {size}", row, found, expected)
    hypothesis.assume(seen)
    assert compiled.cache_info().compiles == 1


def _check_differences(f: Any, x: Array, t: Array, y: Array, moved: Array, text: str) -> None:
    h = 1e-6
    try:
        slope, *others = [
            (np.asarray(f(x + step * t)) - np.asarray(f(x - step * t))) / (2 * step) for step in (h, 2 * h, 1.618 * h)
        ]
    except ShapeError:
        return
    if any(one.shape != moved.shape for one in (slope, *others)):
        return  # a size that depends on values
    # Where differences depend on their steps there is a kink, or a jump; or all digits are lost. What is rounded to 32
    # bits has the same differences for steps of which one is twice the other: so there are three, with no such ratio.
    calm = np.isfinite(slope) & np.isfinite(moved)
    for one in others:
        calm &= np.abs(slope - one) <= 1e-6 * (1 + np.abs(slope))
    calm &= np.abs(y) < 1e6
    apart = np.abs(slope - moved) > 1e-4 * (1 + np.abs(slope))
    assert not (apart & calm).any(), (text, x, t, slope, moved)
