"""ONNX's own samples of its operations: right, or refused in words; none is wrong."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")

from dyn.interop.onnx.evaluation import OPERATIONS
from tests.interop.onnx.nodes import DIFFERENT, outcome, samples

#: What is refused although there is a converter for the operation: a part of the text.
_REFUSED = (
    "dyn has no arrays of ONNX's", "dyn does not read", "antialias", "AveragePool with dilations",
    "Dropout that trains", "takes a sequence", "takes a optional", "unknown number of axes", "unknown sizes",
    "the places of its elements", "does not say how many sizes", "another kind than tensors", "dyn has no operation",
    "is no integer scalar", "of cond gives", "is not sound",
)  # fmt: skip


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_samples(sample: Any) -> None:
    found = outcome(sample)
    if sample.name in DIFFERENT:
        assert found.way == "failed"
        return
    assert found.way in ("right", "refused"), found.text
    known = all(node.op_type in OPERATIONS.converters and not node.domain for node in sample.model.graph.node)
    if known and found.way == "refused":
        assert any(part in found.text for part in _REFUSED), found.text
