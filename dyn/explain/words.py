"""Words that every account of a compilation uses."""

from __future__ import annotations


def pluralized(count: int, what: str) -> str:
    """``1 compile``, ``2 compiles``"""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
