"""Every op's samples as CUDA and HIP texts, over undecided shapes.

That the texts compile and compute is shown on programs (``test_gpu_programs``, ``test_gpu_from_compiler``).
"""

from __future__ import annotations

import pytest

from dyn.ir.opdef import REGISTRY, Sample
from dyn.lower.gpu.dialect import gpu_target
from tests.lower.gpu_programs import compile_function
from tests.ops.test_ops import function_of

NAMES = sorted(REGISTRY)
TARGETS = {"cuda": gpu_target("cuda", "sm_90a"), "rocm": gpu_target("rocm", "gfx90a")}
#: So many dtypes and ranks of an op are tried.
_MOST_FORMS = 3


def forms(name: str) -> list[Sample]:
    found: dict[object, Sample] = {}
    for sample in REGISTRY[name].samples():
        found.setdefault(tuple((a.dtype, a.ndim) for a in sample.operands), sample)
    return list(found.values())[:_MOST_FORMS]


@pytest.mark.parametrize("dialect", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_texts(name: str, dialect: str) -> None:
    for sample in forms(name):
        function, _ = function_of(REGISTRY[name], sample)
        assert all(t.text for t in compile_function(function, TARGETS[dialect], "sample").texts.values())
