"""Address space is reserved before work that cannot say that it got none."""

from __future__ import annotations

import pytest

from dyn.runtime import address_space
from dyn.runtime.address_space import fits, reserve


def test_memory_that_there_is_not() -> None:
    with pytest.raises(MemoryError) as caught, reserve(1 << 60, "compile it"):
        pass
    assert str(caught.value) == f"no memory to compile it: it takes up to {1 << 40} MiB of address space"
    assert fits(1 << 20)


def test_what_is_promised_is_not_there_for_others() -> None:
    with reserve(1 << 20, "work"):
        assert address_space._promised == [1 << 20]
    assert address_space._promised == []


@pytest.mark.parametrize(
    "error",
    [OSError(12, "Cannot allocate memory"), ImportError("/a.so: failed to map segment from shared object")],
    ids=["errno", "loader"],
)
def test_the_loaders_words_for_no_memory(error: Exception) -> None:
    def load() -> None:
        try:
            raise error
        except Exception:
            raise OSError("could not find/load shared object file") from None

    with pytest.raises(MemoryError) as caught, reserve(1 << 20, "load it"):
        load()
    assert str(caught.value) == "no memory to load it"


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ImportError, match="no such module"), reserve(1 << 20, "load it"):
        raise ImportError("no such module")
