"""Tests of calls do not depend on what their process has called before."""

from __future__ import annotations

import numpy as np
import pytest

import dyn


@pytest.fixture(scope="session", autouse=True)
def copies_of_strided_arrays() -> None:
    """Python makes a process's first call with a strided array, in which the code that copies those is compiled: the
    tests count what the native entry does behind it."""
    function = dyn.jit(lambda x: x)
    for _ in range(2):
        function(np.ones(4)[::2])
