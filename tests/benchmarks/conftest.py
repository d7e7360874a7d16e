"""Benchmarks that tests run in their own process leave it where they found it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def own_cpus() -> Iterator[None]:
    """Suites choose the CPUs that they run on: tests that follow have all of them again."""
    cpus = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cpus)
