"""How often a compiled function was traced, and how often compiled."""

from __future__ import annotations

from typing import Any


def counts(function: Any) -> tuple[int, int]:
    """Traces and compiles of a function so far."""
    info = function.cache_info()
    return info.traces, info.compiles
