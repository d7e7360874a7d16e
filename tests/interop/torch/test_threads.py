"""``torch.set_num_threads``: how many threads calls through PyTorch use. Which threads there are, a process of its own
tells."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

_SCRIPT = """
import numpy as np, torch
import dyn, dyn.interop.torch as dyn_torch
from dyn.backends.runtime import native_runtime

torch.set_num_threads(1)
native_runtime().split_from(0, 0, 1)
module = torch.nn.Linear(96, 333)
f = dyn_torch.jit(lambda x: torch.nn.functional.gelu(module(x)).softmax(-1), strict=True)
torch.manual_seed(0)
x = torch.randn(700, 96)
found = {}

def called(threads):
    with torch.no_grad():
        results = [f(x) for _ in range(3)]
    module.zero_grad()
    results.append(f(x))
    results[-1].backward(results[0])
    results += [module.weight.grad, module.bias.grad]
    found[threads] = b"".join(one.detach().numpy().tobytes() for one in results)
    return native_runtime().workers()

workers = [called(1)]
for threads in (2, 1, 3, 1, 64):
    torch.set_num_threads(threads)
    workers.append(called(threads))
print(workers, len(set(found.values())), f.cache_info().compiles)
torch.set_num_threads(3)
with dyn.config.override(num_threads=2):
    called(2)
hits = f.cache_info().hits
with torch.no_grad():
    f(x)
print(native_runtime().workers(), f.cache_info().hits - hits)
"""


def test_calls_use_no_more_threads_than_pytorch_allows() -> None:
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_SCRIPT)], cwd=Path(__file__).parents[3], capture_output=True, text=True,
        timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin", "DYN_CACHE_DIR": os.environ.get("DYN_CACHE_DIR", "0"), "DYN_NUM_THREADS": "4"},
    )  # fmt: skip
    assert result.stdout == "[0, 1, 1, 2, 2, 3] 1 2\n3 1\n", result.stdout + result.stderr
