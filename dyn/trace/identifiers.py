"""Names of the user's as names of values in programs."""

from __future__ import annotations

import functools
import re


@functools.lru_cache(maxsize=4096)
def identifier(text: str, otherwise: str) -> str:
    """``text`` as a name in IR text."""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name.isidentifier() else f"{otherwise}_{name}".strip("_")
