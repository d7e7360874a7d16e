"""The command over torch-mlir's cases, on a checkout of three cases of our own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.interop.outcomes import append, read_records
from tests.interop.torch import mlir_cases, mlir_page
from tests.interop.torch.mlir_cases import FOLDER, PACKAGE, CaseOutcome

_REGISTRY = """
    import types
    GLOBAL_TEST_REGISTRY = []
    def register_test_case(module_factory):
        def register(f):
            case = types.SimpleNamespace(unique_name=f.__name__, program_factory=module_factory, program_invoker=f)
            GLOBAL_TEST_REGISTRY.append(case)
            return f
        return register
"""
_FRAMEWORK = """
    import torch
    class TestUtils:
        def __init__(self):
            torch.manual_seed(0)
        def rand(self, *sizes):
            return torch.rand(sizes)
"""
_CASES = """
    import torch
    from torch_mlir_e2e_test.registry import register_test_case

    def takes(*annotations):
        def annotate(f):
            f._torch_mlir_arg_annotations = [None, *annotations]
            return f
        return annotate

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.rand(4))
        @takes(([-1, 4], torch.float32, True))
        def forward(self, x):
            return torch.tanh(x * self.scale)

    @register_test_case(module_factory=lambda: Scaled())
    def Scaled_basic(module, tu):
        module.forward(tu.rand(3, 4))

    class Looped(torch.nn.Module):
        @takes(([-1], torch.float32, True))
        def forward(self, x):
            for _ in range(x.shape[0]):
                x = x + 1
            return x

    @register_test_case(module_factory=lambda: Looped())
    def Looped_basic(module, tu):
        module.forward(tu.rand(2))

    class Airy(torch.nn.Module):
        @takes(([-1], torch.float32, True))
        def forward(self, x):
            return torch.special.airy_ai(x)

    @register_test_case(module_factory=lambda: Airy())
    def Airy_basic(module, tu):
        module.forward(tu.rand(5))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[str]:
    package = tmp_path / FOLDER / PACKAGE
    (package / "test_suite").mkdir(parents=True)
    files = {"registry": _REGISTRY, "framework": _FRAMEWORK, "__init__": "", "test_suite/__init__": ""}
    for name, text in {**files, "test_suite/small": _CASES}.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text))
    before, path = dict(sys.modules), list(sys.path)
    mlir_cases.cases.cache_clear()
    yield str(tmp_path)
    mlir_cases.cases.cache_clear()
    sys.path[:] = path
    for name in [name for name in sys.modules if name.partition(".")[0] in (PACKAGE, "torch_mlir", "multiprocess")]:
        if name not in before:
            del sys.modules[name]


def test_cases_run_at_three_sizes(checkout: str, tmp_path: Path) -> None:
    outcomes = [mlir_cases.outcome(case) for case in mlir_cases.cases(checkout).values()]
    found = {one.name: (one.kind, one.sizes, one.programs) for one in outcomes}
    assert found == {
        "Scaled_basic": ("passed", 3, 1), "Looped_basic": ("programs", 3, 3), "Airy_basic": ("fallback", 3, 1),
    }  # fmt: skip
    (airy,) = [one for one in outcomes if one.name == "Airy_basic"]
    assert airy.fallbacks == [("aten.special_airy_ai.default", "aten.special_airy_ai.default has no converter.")]
    for one in outcomes:
        append(tmp_path / "results.jsonl", one)
    read = read_records(tmp_path / "results.jsonl", CaseOutcome)
    assert [one.name for one in read] == [one.name for one in outcomes]
    assert "2 of them (66.7%) are dyn's whole, with PyTorch's results, 1 by one program" in mlir_page.sentence(read)
    assert [names for _, names in mlir_page.reasons(read)] == [["Airy_basic"]]


def test_sorted_arguments_stay_sorted_at_other_sizes(checkout: str) -> None:
    import torch

    mlir_cases.cases(checkout)
    limits = torch.tensor([0.0, 1.0, 2.0])
    call = mlir_cases.Call(("forward",), (limits, 3), (frozenset({0}), frozenset()))
    made = list(mlir_cases.resized(call))
    assert [one.arguments[0].shape[0] for one in made] == [4, 6, 2, 10]
    assert all(bool((one.arguments[0].diff() >= 0).all()) and one.arguments[1] == 3 for one in made)
    assert not list(mlir_cases.resized(mlir_cases.Call(("forward",), (limits,), (frozenset(),))))
