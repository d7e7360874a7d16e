"""A sample of PyTorch's samples of its operators; all of them are ``python -m tests.interop.torch.opinfo``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tests.interop.torch.opinfo_samples import (  # noqa: E402
    PASSED,
    REFUSED_BY_PYTORCH,
    compared,
    compiled,
    operators,
    outcome,
    samples,
)

#: The operators that are taken, one of so many, and the tests that they are spread over.
_STRIDE, _PARTS = 5, 12


#: What is never known: another result than PyTorch's.
_WRONG = ("values", "dtype", "shape", "tree")


def known() -> set[str]:
    """The operators of which a sample has not passed in the last run of all."""
    found = json.loads((Path(__file__).parent / "opinfo.json").read_text(encoding="utf-8"))
    return {name for one in found["others"] for name in one["operators"]}


def chosen(part: int) -> Iterator[str]:
    """One operator of so many; ``op_db`` is read when tests run, since that takes seconds."""
    yield from list(operators())[::_STRIDE][part::_PARTS]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("part", range(_PARTS))
def test_samples(part: int) -> None:
    wrong: dict[str, tuple[str, str]] = {}
    for name in chosen(part):
        count = len(samples(name, "float32"))
        if count:
            kind, reason = outcome(name, "float32", count // 2, compiled(name, "forward"))
            if kind not in (PASSED, REFUSED_BY_PYTORCH) and (kind in _WRONG or name not in known()):
                wrong[name] = kind, reason
    assert wrong == {}


def test_what_differs_is_named() -> None:
    a = torch.ones(2, 3)
    close = (1e-6, 1e-6)
    assert compared([a], [a.clone()], close) is None
    assert compared([a], (a,), close) is not None
    for kind, other in {
        "values": a + 1, "dtype": a.double(), "shape": a[0], "strides": torch.ones(3, 2).t(), "tree": a.numpy(),
    }.items():  # fmt: skip
        difference = compared([a], [other], close)
        assert difference is not None
        assert difference[0] == kind
    assert compared([a], [a + 1], None) is None
    # Of several results the gravest difference is named.
    difference = compared([a, a], [torch.ones(3, 2).t(), a + 1], close)
    assert difference is not None
    assert difference[0] == "values"
