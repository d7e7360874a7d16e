"""Texts of kernels are rendered once in a process, whichever program asks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends import families
from dyn.lower.x86 import emit


def _softmax(x: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True)


def _names(text: str) -> set[str]:
    return set(re.findall(r"k_[0-9a-f]{20}", text))


def _texts(function: Callable[..., Any], *arrays: np.ndarray) -> str:
    return dyn.jit(function).trace(*arrays).lower().compile().as_text("llvm")


def test_another_program_with_the_same_kernels_renders_none(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((3, 5), np.float32)
    first = _texts(_softmax, x)
    rendered: list[str] = []
    render = emit.emit_kernel
    monkeypatch.setattr(
        families, "_x86_emitter",
        lambda: (lambda kernel, target: rendered.append(kernel.name) or render(kernel, target), emit.scratch_bytes),
    )  # fmt: skip

    def other(a: Any, b: Any) -> Any:  # with arguments in another order, and a dim that the first has not
        return b[:0], _softmax(a)

    second = _texts(other, x, np.ones(7, np.float32))
    shared = _names(first) & _names(second)
    assert shared
    assert shared.isdisjoint(rendered)


def test_the_scratch_of_a_shared_kernel_is_over_the_dims_of_each_program() -> None:
    """Rows of two programs that are one kernel, whose scratch is as long as a row is in each."""
    wide, narrow = np.random.default_rng(0).random((2, 4001), np.float32), np.ones((5, 3, 2), np.float32)

    def one(x: Any) -> Any:
        return _softmax(x)

    def two(y: Any, x: Any) -> Any:
        return _softmax(x), y + 1

    expected = np.exp(wide - wide.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(dyn.jit(one)(wide), expected, rtol=1e-5)
    found, more = dyn.jit(two)(narrow, wide)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(more, 2.0)
