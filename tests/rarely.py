"""Cases of a grid that ``make test`` leaves to ``make test-slow``, which runs those alone: they are marked ``slow``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rarely(*values: Any) -> Any:
    """The values of a case that is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def one_in(count: int, cases: Iterable[Any]) -> list[Any]:
    """Cases, values or tuples of them, of which the first of every ``count`` is no slow one."""
    own = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case) if number % count == 0 else rarely(*case) for number, case in enumerate(own)]
