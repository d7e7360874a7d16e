"""Forty small programs, each compiled once and held to the reference at several sizes: one for each way in which
kernels are made, and for what the host program does between them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from benchmarks.gpu_check.checks import Check, Options, compare
from dyn import dtypes, lax, nn


@dataclass(frozen=True)
class Program:
    """A function of arrays, ``float32 n m, int32 n``, and the sizes that it is called at, in the order of the dims.

    Integers are drawn below ``below``. Results may be ``tolerance`` times as far from the reference's as usual.
    """

    function: Callable[..., Any]
    arguments: str
    sizes: tuple[tuple[int, ...], ...]
    below: int = 7
    tolerance: float = 1.0


def drawn(program: Program, sizes: Mapping[str, int], seed: int) -> list[Any]:
    """Arguments of a program at some sizes."""
    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for words in program.arguments.split(", "):
        name, *dims = words.split()
        dtype, shape = dtypes.dtype(name), tuple([sizes.get(d) or int(d) if d.isdigit() else sizes[d] for d in dims])
        if name == "bool":
            arrays.append(rng.random(shape) < 0.5)
        elif dtype.is_integer:
            arrays.append(rng.integers(0, program.below, shape).astype(dtype.np))
        elif name.startswith("complex"):
            arrays.append((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype.np))
        else:
            arrays.append(rng.standard_normal(shape).astype(dtype.np))
    return arrays


def names_of_dims(program: Program) -> list[str]:
    """The dims of a program, in the order in which they first occur."""
    words = [d for argument in program.arguments.split(", ") for d in argument.split()[1:] if not d.isdigit()]
    return list(dict.fromkeys(words))


def hold(program: Program, options: Options) -> Mapping[str, object]:
    """Compile a program once, and compare it with the reference at all of its sizes."""
    function, dims = dyn.jit(program.function, device=options.device), names_of_dims(program)
    for number, sizes in enumerate(program.sizes):
        arguments = drawn(program, dict(zip(dims, sizes, strict=True)), number)
        found = function(*arguments)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = function.reference(*arguments)
        compare(found, wanted, dict(zip(dims, sizes, strict=True)), program.tolerance)
    compiles = function.cache_info().compiles
    if compiles != 1:
        raise AssertionError(f"{compiles} programs were compiled for {len(program.sizes)} shapes, and not one")
    return {"shapes": len(program.sizes)}


ROWS = ((3, 7), (0, 5), (1, 1), (2, 33), (5, 257), (2, 4099))
LINE = ((7,), (0,), (1,), (33,), (4099,))
SQUARES = ((5, 9, 7), (1, 1, 1), (33, 64, 40), (0, 3, 2), (70, 130, 65), (1, 300, 5), (2, 3000, 3))


def _newton(x: Any) -> Any:
    """Square roots by Newton's method, until they are good."""
    start = (dnp.ones_like(x), 0)
    return lax.while_loop(
        lambda s: (s[1] < 40) & (dnp.max(dnp.abs(s[0] * s[0] - x), initial=0) > 1e-3),
        lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1),
        start,
    )[0]


def _attention(q: Any, k: Any, v: Any) -> Any:
    return nn.softmax(q @ dnp.matrix_transpose(k) / 4, axis=-1) @ v


def _lost(x: Any, w: Any) -> Any:
    return dnp.sum(dnp.tanh(x @ w) ** 2)


PROGRAMS: dict[str, Program] = {
    "elementwise": Program(lambda x, y: dnp.tanh(x * 2 + y) * dnp.exp(-y), "float32 n m, float32 m", ROWS),
    "undecided broadcast": Program(
        lambda x, y: x + y, "float32 a b, float32 c b", ((3, 5, 3), (1, 5, 4), (4, 5, 1), (1, 1, 1), (0, 3, 1))
    ),
    "integers": Program(
        lambda x, y: (x // (y + 1) * 3 - (x % 5) ** 2) ^ (y << 2), "int32 n, int32 n", LINE, below=1000
    ),
    "64-bit integers": Program(lambda x: (x * 1_000_003) % 97 + (x >> 3), "int64 n", LINE, below=2**40),
    "float64": Program(lambda x: dnp.log1p(dnp.abs(dnp.sin(x))) / 3, "float64 n m", ROWS),
    "bfloat16": Program(lambda x, y: nn.gelu(x + y), "bfloat16 n m, bfloat16 m", ROWS),
    "float16": Program(lambda x: nn.silu(x) * 2, "float16 n m", ROWS),
    "complex": Program(lambda x: dnp.abs(x * dnp.conj(x) + 1j), "complex64 n m", ROWS),
    "choose": Program(lambda p, x: dnp.where(p, x, -x).astype("int32"), "bool n m, float32 n m", ROWS),
    "iota": Program(lambda x: x * dnp.arange(x.shape[1]) + x.shape[0], "float32 n m", ROWS),
    "sum of rows": Program(lambda x: dnp.sum(x, axis=1), "float32 n m", (*ROWS, (3, 70_000))),
    "sum of columns": Program(lambda x: dnp.sum(x, axis=0), "float32 n m", (*ROWS, (4099, 3), (70_000, 2))),
    "sum": Program(lambda x: (dnp.sum(x), dnp.max(x, initial=-9.0), dnp.mean(x * x)), "float32 n m",
                   ((3, 7), (1, 1), (2, 4099), (300, 301))),
    "any and argmax": Program(
        lambda x: (dnp.any(x > 2, axis=1), dnp.argmax(x, axis=1)), "float32 n m", ((3, 7), (1, 1), (2, 4099))
    ),
    "softmax": Program(lambda x: nn.softmax(x, axis=-1), "float32 n m", (*ROWS, (2, 20_000))),
    "softmax of columns": Program(lambda x: nn.softmax(x, axis=0), "float32 n m", (*ROWS, (4099, 3))),
    "layer norm": Program(
        lambda x, s, b: nn.layer_norm(x, weight=s, bias=b), "float32 n m, float32 m, float32 m", ROWS, tolerance=4
    ),
    "variance": Program(lambda x: dnp.var(x, axis=1), "float32 n m", ((3, 7), (1, 1), (2, 4099), (2, 70_000))),
    "running sum": Program(
        lambda x: (dnp.cumsum(x, axis=1), dnp.cumsum(x, axis=0)), "float32 n m", (*ROWS, (2, 40_000)), tolerance=4
    ),
    "transpose": Program(lambda x: x.T * 2, "float32 n m", (*ROWS, (300, 301))),
    "reshape and slices": Program(
        lambda x: (x.reshape(-1)[::2], x[:, 1:], x[::-1]), "float32 n m", ((3, 8), (2, 33), (4, 257))
    ),
    "concatenate and pad": Program(
        lambda x, y: dnp.pad(dnp.concatenate([x, y, x]), ((1, 2), (0, 3))), "float32 n m, float32 k m",
        ((3, 7, 2), (0, 5, 1), (1, 1, 0), (2, 257, 33)),
    ),
    "gather": Program(lambda x, i: x[i], "float32 7 m, int32 n", ((5, 3), (1, 1), (33, 100), (257, 0))),
    "scatter": Program(
        lambda x, i, u: x.at[i].add(u), "float32 7 m, int32 n, float32 n m", ((5, 3), (1, 1), (33, 300), (3, 0))
    ),
    "histogram": Program(lambda i: dnp.zeros(7, "int32").at[i].add(1), "int32 n", (*LINE, (100_000,))),
    "sort": Program(lambda x: (dnp.sort(x, axis=-1), dnp.argsort(x, axis=-1)), "float32 n m", (*ROWS, (1, 9000))),
    "matrix product": Program(lambda x, y: x @ y, "float32 m k, float32 k n", SQUARES),
    "matrix product, float64": Program(lambda x, y: x @ y, "float64 m k, float64 k n", SQUARES),
    "matrix product, bfloat16": Program(lambda x, y: x @ y, "bfloat16 m k, bfloat16 k n", SQUARES),
    "matrix product, int32": Program(lambda x, y: x @ y, "int32 m k, int32 k n", SQUARES),
    "batched products": Program(
        _attention, "float32 b n 16, float32 b m 16, float32 b m 8", ((2, 5, 7), (1, 1, 1), (3, 33, 40), (0, 2, 3))
    ),
    "dense layer": Program(
        lambda x, w, b: nn.relu(x @ w + b), "float32 n k, float32 k m, float32 m", ((5, 9, 7), (1, 64, 64), (0, 3, 2))
    ),
    "convolution": Program(
        lambda x, w: nn.conv(x, w, 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        "float32 b h w 3, float32 3 3 3 8", ((2, 9, 14), (1, 3, 40), (1, 1, 1), (0, 8, 8)),
    ),
    "pool": Program(
        lambda x: nn.max_pool(x, 3, 2, [(1, 1), (1, 1)], dimension_numbers="NHWC"), "float32 b h w 3",
        ((2, 9, 14), (1, 3, 40), (0, 8, 8)),
    ),
    "while": Program(_newton, "float32 n", LINE, tolerance=50),
    "scan": Program(lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c + r), x[0], x), "float32 n m",
                    ((3, 7), (1, 1), (9, 33))),
    "cond": Program(
        lambda x: lax.cond(dnp.sum(x) > 0, lambda x: x + 1, lambda x: x - 1, x), "float32 n m", ((3, 7), (1, 1), (0, 5))
    ),
    "sizes of data": Program(lambda n: (dnp.nonzero(n > 3)[0], n[n > 2] * 2), "int32 n", LINE),
    "gradient": Program(dyn.grad(_lost, argnums=(0, 1)), "float32 n k, float32 k m",
                        ((5, 9, 7), (1, 1, 1), (33, 40, 12)), tolerance=4),
    "random": Program(
        lambda x: dyn.random.normal(dyn.random.key(3), x.shape) + x, "float32 n m", ((3, 7), (1, 1), (5, 257))
    ),
}  # fmt: skip


def checks() -> tuple[Check, ...]:
    """A check for each program."""
    return tuple([Check(name, functools.partial(hold, program)) for name, program in PROGRAMS.items()])


def some(names: Sequence[str]) -> tuple[Check, ...]:
    """Those of some programs."""
    return tuple([check for check in checks() if check.name in names])
