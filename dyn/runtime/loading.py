"""Importing what compiling needs, when it is needed."""

from __future__ import annotations

from dyn.errors import is_short_of_memory
from dyn.late_imports import are_whole, import_whole, undisturbed
from dyn.runtime.address_space import reserve

#: Address space for the modules behind tracing, which take 10 MiB.
_COMPILER_BYTES = 32 << 20


def load_modules(*names: str) -> None:
    """Import modules of the compiler's whole, unless they are there; MemoryError where there is no room for them."""
    if are_whole(names):
        return
    try:
        undisturbed(lambda: _load(names))
    except (ImportError, OSError) as error:  # in the words of the dynamic loader
        if is_short_of_memory(error):
            raise MemoryError("no memory to load the compiler") from error
        raise


def _load(names: tuple[str, ...]) -> None:
    # Asked for beforehand: not all of Python's own modules bear to be imported without, and half of hashlib stays.
    with reserve(_COMPILER_BYTES, "load the compiler"):
        import_whole(*names)
