"""Runs hand-made kernels: many in one module, each called with NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from dyn import dtypes
from dyn.backends.base import Source
from dyn.backends.x86 import X86Backend, host_target, target_for
from dyn.dtypes import DType
from dyn.lower.x86.emit import X86KernelText, emit_kernel, link
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import (
    Apply,
    Buffer,
    Const,
    Expr,
    Fold,
    Index,
    Kernel,
    Load,
    Loop,
    Ref,
    Role,
    Space,
    Stmt,
    Store,
)
from dyn.schedule.kernel_verifier import check
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, as_dim, evaluate, symbol
from tests.lower.tile_machine import TileMachine, in_software

#: The sizes that kernels are tried at: nothing, one, around the vector widths, and many.
SIZES = (0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 1000)
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def runnable() -> list[Target]:
    """This machine as it is, and as older ones."""
    host = host_target()
    return [host] + [target_for(cpu) for cpu, width in (("x86-64-v3", 32), ("x86-64", 16)) if width < host.vector_bytes]


class Compiled:
    """A kernel that can be called."""

    def __init__(self, kernel: Kernel, text: X86KernelText, address: int) -> None:
        self.kernel, self.text = kernel, text
        self._function = _FUNCTION(address)

    def __call__(self, dims: Sequence[int], buffers: Sequence[np.ndarray], span: tuple[int, int] | None = None) -> None:
        """Run the whole grid, or a part of it. Scratch is filled with ones' bits, and checked not to be overrun."""
        env = dict(zip(self.kernel.dims, dims, strict=True))
        if span is None:
            total = 1
            for loop in self.kernel.grid()[0]:
                total *= evaluate(loop.extent, env)
            span = (0, total)
        size = evaluate(self.text.scratch_bytes, env)
        scratch = np.full(size + 128, 0xFF, np.uint8)
        start = -scratch.ctypes.data % 64
        numbers = np.array(dims, np.int64)
        pointers = np.array([b.ctypes.data for b in buffers], np.int64)
        for given, declared in zip(buffers, self.kernel.buffers, strict=True):
            assert given.dtype == declared.dtype.np, declared.name
            assert given.flags.c_contiguous
        self._function(numbers.ctypes.data, pointers.ctypes.data, scratch.ctypes.data + start, *span)
        assert (scratch[start + size :] == 0xFF).all(), "scratch was overrun"


def compile_kernels(
    kernels: Sequence[Kernel],
    target: Target | None = None,
    machine: Target | None = None,
    tiles: TileMachine | None = None,
) -> list[Compiled]:
    """Compile kernels in one module; their names are made unique.

    They are written for ``target``, and LLVM generates code for ``machine`` (the same, unless it is given). ``tiles``
    has the tile registers.
    """
    backend = X86Backend(target if machine is None else machine)
    target = backend.target if target is None else target
    texts: list[X86KernelText] = []
    for i, kernel in enumerate(kernels):
        check(kernel)
        named = Kernel(f"{kernel.name}.{i}", kernel.buffers, kernel.dims, kernel.scratch, kernel.body)
        texts.append(emit_kernel(named, target))
    text = link(texts) if tiles is None else in_software(link(texts))
    binary = backend.compile(Source(text, tuple([text.symbol for text in texts])))
    code = backend.load(binary, None if tiles is None else tiles.symbols)
    return [Compiled(k, text, code.address(text.symbol)) for k, text in zip(kernels, texts, strict=True)]


# --- short names for hand-made kernels ------------------------------------------------------------------------------

F32 = dtypes.float32


def const(value: float, dtype: DType = F32) -> Const:
    return Const(dtype, value)


def ap(fn: Scalar, *args: Expr, dtype: DType | None = None) -> Apply:
    return Apply(fn, args, args[-1].dtype if dtype is None else dtype)


def load(buffer: Buffer, index: Dim | Symbol) -> Load:
    return Load(buffer, as_dim(index))


def lane(var: Symbol, extent: Dim, *body: Stmt, folds: Sequence[Fold] = ()) -> Loop:
    return Loop(Role.LANE, var, extent, tuple(body), tuple(folds))


def serial(var: Symbol, extent: Dim, *body: Stmt, folds: Sequence[Fold] = ()) -> Loop:
    return Loop(Role.SERIAL, var, extent, tuple(body), tuple(folds))


def grid(var: Symbol, extent: Dim, *body: Stmt) -> Loop:
    return Loop(Role.GRID, var, extent, tuple(body))


def elementwise(
    name: str, make: Callable[..., Expr], inputs: Sequence[DType], output: DType, *, scalar: bool = False
) -> Kernel:
    """``out[i] = make(in0[i], in1[i], …)``, in vectors or, with ``scalar``, one at a time."""
    n, i = symbol("n"), symbol("i")
    buffers = [Buffer(f"x{k}", d) for k, d in enumerate(inputs)]
    out = Buffer("y", output)
    value = make(*[load(b, i) for b in buffers])
    loop = (grid if scalar else lane)(i, as_dim(n), Store(out, as_dim(i), value))
    return Kernel(name, (*buffers, out), (n,), (), (loop,))


__all__ = [
    "F32",
    "SIZES",
    "Compiled",
    "Fold",
    "Index",
    "Ref",
    "Space",
    "ap",
    "compile_kernels",
    "const",
    "elementwise",
    "grid",
    "lane",
    "load",
    "runnable",
    "serial",
]
