"""Random programs of all public functions and dtypes: compiled once, called at many sizes, held to the reference."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn.backends.runtime import native_runtime
from dyn.runtime.launch import THRESHOLDS
from tests.models.checked import Discard, check_program
from tests.models.random_programs import make_program

#: The profile that looks longer says how many; the others are kept within what continuous integration has time for.
_THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"


@pytest.fixture(autouse=True, scope="module")
def every_launch_is_split() -> Iterator[None]:
    """Launches use as many threads as they may, however small they are."""
    native_runtime().split_from(awake=0, asleep=0, piece=1)
    yield
    native_runtime().split_from(*THRESHOLDS.values())


@hypothesis.settings(
    max_examples=6000 if _THOROUGH else 60,
    # A lesser seed is no smaller program: what fails is made smaller by ``checked.small``.
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate),
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
)
@given(st.integers(0, 2**32))
def test_compiled_agrees_with_the_reference(seed: int) -> None:
    program = make_program(Random(seed), most=6)
    hypothesis.note(repr(program))
    try:
        check_program(program)
    except Discard:
        hypothesis.reject()
