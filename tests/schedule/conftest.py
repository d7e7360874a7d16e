"""Tests of schedules replace these, and the numbers that they go by: what other tests have lowered is not theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dyn.schedule import plan
from dyn.schedule.launch_cache import KnownGroups


@pytest.fixture(autouse=True)
def no_known_groups() -> Iterator[None]:
    """A test begins, and those of other folders go on, with groups that were lowered by dyn's own schedules."""
    before, plan.KNOWN = plan.KNOWN, KnownGroups()
    yield
    plan.KNOWN = before
