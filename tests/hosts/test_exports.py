"""What other libraries are given of a ``dyn.Array``: memory that they cannot write to, or a copy."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.dtypes import bfloat16

Array = Any
START = np.arange(64.0, dtype=np.float32)


@pytest.fixture
def array() -> Array:
    return dnp.asarray(START)


def is_untouched(array: Array) -> bool:
    return bool((np.asarray(array) == START).all())


def test_numpy_keeps_to_the_mark(array: Array) -> None:
    for part in (array, array[1:], array.reshape(8, 8).T):
        view = np.from_dlpack(part)
        assert np.shares_memory(view, np.asarray(array)) or part.ndim == 2
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 9
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
    copy = np.from_dlpack(array, copy=True)
    copy[0] = 9
    assert is_untouched(array)


def test_numpy_views_are_read_only(array: Array) -> None:
    for view in (np.asarray(array), np.asarray(array[1:]), array.to_numpy(), np.array(array, copy=False)):
        assert not view.flags.writeable
    own = np.array(array)
    own[0] = 9
    assert is_untouched(array)
    assert not hasattr(array, "__array_interface__")
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(array)


def test_pytorch_gets_a_copy(array: Array, require_module: Callable[[str], ModuleType]) -> None:
    torch = require_module("torch")
    for part in (array, array[1:]):
        for tensor in (
            torch.from_dlpack(part),
            torch.utils.dlpack.from_dlpack(part),
            torch.from_dlpack(part, copy=True),
        ):
            np.testing.assert_array_equal(tensor.numpy(), part)
            tensor.zero_()
    torch.from_dlpack(array.__dlpack__()).zero_()
    assert is_untouched(array)
    with pytest.raises(BufferError) as caught:
        torch.from_dlpack(array, copy=False)
    assert str(caught.value) == (
        "nobody else writes to the memory of a dyn.Array, and who asks for it may. Leave out copy=False, which gives a "
        "copy, or use np.asarray(x), which is read-only."
    )
    narrow = dnp.ones(3, bfloat16)
    torch.from_dlpack(narrow).zero_()
    assert (np.asarray(narrow) == 1).all()


def test_jax_shares_and_does_not_change(array: Array, require_module: Callable[[str], ModuleType]) -> None:
    """By donation neither, which gives a function the memory of its argument."""
    jax = require_module("jax")
    made = dyn.jit(lambda x: x * 1)(array)  # at an address that JAX takes
    theirs = jax.dlpack.from_dlpack(made)
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    np.testing.assert_array_equal(step(theirs), START + 1)
    assert is_untouched(array)
    assert is_untouched(made)


class Consumer:
    """A library that asks for a version of DLPack."""

    def __init__(self, array: Array, **options: Any) -> None:
        self.array, self.options = array, options

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__(**self.options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    ("options", "is_shared"), [({}, False), ({"max_version": (0, 8)}, False), ({"max_version": (1, 0)}, True)]
)
def test_other_consumers(array: Array, options: dict[str, Any], is_shared: bool) -> None:
    view = np.from_dlpack(Consumer(array, **options))
    assert np.shares_memory(view, np.asarray(array)) is is_shared
    assert not view.flags.writeable  # NumPy takes a capsule without a mark to be read-only
