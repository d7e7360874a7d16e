"""Scripts that run in a process of their own, for tests of its end, its signals and its forks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_ROOT = Path(__file__).parents[2]

HEAD = """
import atexit, os, random, signal, sys, threading, time, weakref
import numpy as np
import dyn, dyn.numpy as dnp

x = np.arange(12, dtype="f4").reshape(3, 4)

def make(number):
    "A function that nothing has compiled yet, of several kernels, and what it is to return."
    f = dyn.jit(lambda x: (dnp.sum(dnp.tanh(x * number), axis=0) - dnp.max(x), dnp.exp(x).T @ x + number))
    return f, (np.tanh(x * number).sum(0) - x.max(), np.exp(x).T @ x + number)

def agrees(f, expected):
    return all(np.allclose(a, b, rtol=1e-5) for a, b in zip(f(x), expected, strict=True))
"""


def run(body: str, *, timeout: int = 300, **environment: str) -> subprocess.CompletedProcess[str]:
    """``HEAD`` and ``body`` in a process that keeps nothing on disk, unless ``environment`` says where."""
    return subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(body)], cwd=_ROOT, capture_output=True, text=True,
        timeout=timeout, check=False, env={**os.environ, "DYN_CACHE_DIR": "0", "PYTHONPATH": str(_ROOT), **environment},
    )  # fmt: skip


def finished(result: subprocess.CompletedProcess[str], output: str) -> None:
    """That a process ended well, having printed ``output`` and nothing on stderr."""
    assert (result.returncode, result.stdout, result.stderr) == (0, output, "")
