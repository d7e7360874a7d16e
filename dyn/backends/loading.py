"""Importing what compiling needs, when it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dyn.errors import is_short_of_memory
from dyn.fork_safety import importing
from dyn.runtime.address_space import reserve

#: Address space for the modules behind tracing, which take 10 MiB.
_COMPILER_BYTES = 32 << 20


@contextmanager
def loading() -> Iterator[None]:
    """The block imports modules, which no fork divides; MemoryError where there is no room for them."""
    try:
        # Asked for beforehand: not all of Python's own modules bear to be imported without, and half of hashlib stays.
        with importing, reserve(_COMPILER_BYTES, "load the compiler"):
            yield
    except (ImportError, OSError) as error:  # in the words of the dynamic loader
        if is_short_of_memory(error):
            raise MemoryError("no memory to load the compiler") from error
        raise
