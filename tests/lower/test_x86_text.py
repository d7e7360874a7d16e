"""What the text and the assembly look like."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from dyn.backends.base import Source
from dyn.backends.x86 import X86Backend, target_for
from dyn.lower.x86.emit import emit_kernel, link
from dyn.lower.x86.llvm_text import FunctionText, render
from dyn.schedule.target import Target
from tests.lower import test_x86_kernels as kernels

AVX512 = target_for("x86-64-v4")
AVX2 = target_for("x86-64-v3")


def test_golden_text(golden: Callable[[str, str], None]) -> None:
    golden("x86_bias_relu.ll", emit_kernel(kernels.bias_relu().kernel, AVX512).text)
    golden("x86_column_folds.ll", emit_kernel(kernels.column_folds(kernels.dtypes.int32).kernel, AVX2).text)


def test_scratch_is_rounded_to_cache_lines() -> None:
    text = emit_kernel(kernels.softmax(kernels.F32).kernel, AVX512)
    assert str(text.scratch_bytes) == "64*floordiv(n + 15, 16)"


def test_link_writes_what_is_shared_once() -> None:
    texts = [emit_kernel(kernels.bias_relu().kernel, AVX512) for _ in range(2)]
    module = link(texts)
    assert all(module.count(external) == 1 for external in texts[0].externals)
    assert module.count("declare") == sum(external.startswith("declare") for external in texts[0].externals)
    assert module.count("define void @bias_relu(") == 2


def test_emitting_needs_no_compiler() -> None:
    code = "import sys; import dyn.lower.x86.emit; assert not {'llvmlite', 'scipy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("target", "register"), [(AVX512, "zmm"), (AVX2, "ymm")], ids=str)
@pytest.mark.parametrize("name", ["softmax_f32", "layer_norm", "bias_relu", "extrema"])
def test_wide_registers_and_no_spilled_vectors(name: str, target: Target, register: str) -> None:
    kernel = next(case.kernel for case in kernels.CASES if case.kernel.name == name)
    text = emit_kernel(kernel, target)
    assembly = X86Backend(target).assembly(Source(text.text, (text.symbol,)))
    assert len(re.findall(rf"%{register}\d", assembly)) > 10
    spills = re.findall(r"(?:32|64)-byte Spill", assembly)
    assert len(spills) <= (0 if register == "zmm" else 4), assembly


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
def test_a_mask_comes_from_a_comparison_of_whole_registers(lanes: int) -> None:
    """LLVM 22 spills the mask of half a register as a whole one: stores then went past the end of an array."""
    fn = FunctionText()
    fn.first_lanes("%left", lanes)
    compared = re.findall(r"icmp ult <(\d+) x i(\d+)>", render(fn.body))
    assert [int(count) for count, _ in compared] == [lanes]
    assert all(int(count) * int(bits) >= 128 for count, bits in compared)
