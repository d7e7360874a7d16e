"""Functions of the array API standard against ``array_api_strict``: results, shapes and dtypes, called its way."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Array = Any
#: ``f(xp, x, y, i)``: x and y of shape (n, 3), i integers of shape (n,), not negative.
Case = Callable[[Any, Array, Array, Array], Any]

CASES: dict[str, Case] = {
    "all": lambda xp, x, y, i: [xp.all(x > 0), xp.all(x > 0, axis=0, keepdims=True), xp.all(i, axis=-1)],
    "any": lambda xp, x, y, i: [xp.any(x > 0), xp.any(x > 0, axis=(0, 1)), xp.any(i, axis=-1, keepdims=True)],
    "arange": lambda xp, x, y, i: [xp.arange(x.shape[0]), xp.arange(1, x.shape[0] + 3, 2), xp.arange(5, -1, -2),
                                   xp.arange(0.0, 1.0, 0.25), xp.arange(3, dtype=xp.float32)],
    "argsort": lambda xp, x, y, i: [xp.argsort(i), xp.argsort(x, axis=0, descending=False)],
    "asarray": lambda xp, x, y, i: [xp.asarray([[1, 2], [3, 4]]), xp.asarray(2.5), xp.asarray(True), xp.asarray(x)],
    "astype": lambda xp, x, y, i: [xp.astype(x, xp.float32), xp.astype(i, xp.float64), xp.astype(x > 0, xp.int8),
                                   xp.astype(i, xp.bool), xp.astype(x, xp.complex64)],
    "bits": lambda xp, x, y, i: [i & 3, 3 | i, i ^ i, ~i, i << 2, i >> 1, xp.bitwise_and(i, 5), xp.bitwise_invert(i)],
    "broadcast": lambda xp, x, y, i: [*xp.broadcast_arrays(x, y[:, :1]), xp.broadcast_to(x[:, None, :1],
                                      (x.shape[0], 2, 3))],
    "clip": lambda xp, x, y, i: [xp.clip(x, -1.0, 1.0), xp.clip(x, min=0.0), xp.clip(x, None, y), xp.clip(i, 1, 2)],
    "compare": lambda xp, x, y, i: [x < y, x <= y, x > y, x >= y, x == y, x != y, i == 1, i > 1],
    "complex": lambda xp, x, y, i: [xp.real(x + 1j * y), xp.imag(x + 1j * y), xp.conj(x + 1j * y), xp.abs(x + 1j * y),
                                    xp.sign(x + 1j * y), xp.isfinite(x + 1j * y), xp.square(x + 1j * y)],
    "concat": lambda xp, x, y, i: [xp.concat([x, y]), xp.concat([x, y, x], axis=1), xp.concat((x, y), axis=None),
                                   xp.concat([xp.astype(x, xp.float32), y])],
    "count_nonzero": lambda xp, x, y, i: [xp.count_nonzero(i), xp.count_nonzero(x > 0, axis=1, keepdims=True)],
    "cumulative": lambda xp, x, y, i: [xp.cumulative_sum(i), xp.cumulative_sum(x, axis=1, include_initial=True),
                                       xp.cumulative_prod(x, axis=0), xp.cumulative_prod(i, include_initial=True),
                                       xp.cumulative_sum(i, dtype=xp.float32)],
    "diff": lambda xp, x, y, i: [xp.diff(x), xp.diff(x, axis=1, n=2), xp.diff(x, axis=0, prepend=y, append=x)],
    "expand_dims": lambda xp, x, y, i: [xp.expand_dims(x, axis=0), xp.expand_dims(x, axis=-1),
                                        xp.expand_dims(i, axis=1)],
    "eye": lambda xp, x, y, i: [xp.eye(x.shape[0]), xp.eye(3, 4, k=1), xp.eye(2, dtype=xp.int32), xp.eye(2, 5, k=-1)],
    "flip": lambda xp, x, y, i: [xp.flip(x), xp.flip(x, axis=0), xp.flip(x, axis=(-1,)), xp.flip(i)],
    "full": lambda xp, x, y, i: [xp.full(2, 3), xp.full((x.shape[0], 2), 1.5), xp.full((), True), xp.full(2, 1j),
                                 xp.full_like(x, 7), xp.full_like(i, 2, dtype=xp.float32)],
    "floor_divide": lambda xp, x, y, i: [i // 2, (i - 3) // 2, xp.floor_divide(x, y), x // 0.5],
    "linspace": lambda xp, x, y, i: [xp.linspace(0.0, 1.0, 5), xp.linspace(1.0, 3.0, x.shape[0], endpoint=False),
                                     xp.linspace(2, 4, 1), xp.linspace(0.0, 2.0, 3, dtype=xp.float32)],
    "logic": lambda xp, x, y, i: [xp.logical_and(x > 0, y > 0), xp.logical_or(x > 0, y > 0), xp.logical_not(x > 0),
                                  xp.logical_xor(x > 0, y > 0)],
    "matmul": lambda xp, x, y, i: [x @ y.mT, xp.matmul(x.mT, y), x[:, :1] @ y[:, :1].mT, xp.matmul(x.T, y)],
    "mean": lambda xp, x, y, i: [xp.mean(x, axis=1), xp.mean(x, axis=1, keepdims=True), xp.var(x, axis=1),
                                 xp.std(x, axis=-1, correction=1), xp.var(x, axis=1, correction=0.5, keepdims=True)],
    "meshgrid": lambda xp, x, y, i: [*xp.meshgrid(i, i[::-1]), *xp.meshgrid(i, i, indexing="ij")],
    "modulo": lambda xp, x, y, i: [i % 3, (i - 5) % 3, xp.remainder(x, y), -x % 2.0],
    "moveaxis": lambda xp, x, y, i: [xp.moveaxis(x, 0, 1), xp.moveaxis(x[None, ...], (0, 1), (-1, 0)),
                                     xp.permute_dims(x[:, None, :], (2, 0, 1)), xp.matrix_transpose(x)],
    "ones": lambda xp, x, y, i: [xp.zeros(3), xp.ones((x.shape[0],)), xp.zeros_like(x), xp.ones_like(i),
                                 xp.zeros((2, 0), dtype=xp.int8), xp.ones_like(x, dtype=xp.bool)],
    "powers": lambda xp, x, y, i: [i**2, xp.pow(xp.abs(x), y), 2.0**x, xp.square(i), xp.sqrt(xp.abs(x)),
                                   xp.hypot(x, y), xp.reciprocal(x)],
    "prod": lambda xp, x, y, i: [xp.prod(x), xp.prod(i), xp.prod(x, axis=(0, 1), keepdims=True),
                                 xp.sum(i, dtype=xp.int8),
                                 xp.sum(x, axis=())],
    "repeat": lambda xp, x, y, i: [xp.repeat(x, 2), xp.repeat(x, 3, axis=1), xp.repeat(i, 0)],
    "reshape": lambda xp, x, y, i: [xp.reshape(x, (-1,)), xp.reshape(x, (3, x.shape[0])),
                                    xp.reshape(x, (-1, 3), copy=True)],
    "roll": lambda xp, x, y, i: [xp.roll(x, 1), xp.roll(x, -2, axis=1), xp.roll(x, (1, 2), axis=(0, 1)), xp.roll(i, 5)],
    "rounding": lambda xp, x, y, i: [xp.round(x), xp.floor(x), xp.ceil(x), xp.trunc(x), xp.sign(x), xp.floor(i),
                                     xp.round(i)],
    "sort": lambda xp, x, y, i: [xp.sort(x), xp.sort(x, axis=0, descending=True), xp.sort(i, stable=False)],
    "signs": lambda xp, x, y, i: [xp.signbit(x), xp.copysign(x, y), abs(x), -x, +x, abs(i), xp.nextafter(x, y)],
    "squeeze": lambda xp, x, y, i: [xp.squeeze(x[None, ...], axis=0), xp.squeeze(x[:, None, :, None], axis=(1, 3))],
    "stack": lambda xp, x, y, i: [xp.stack([x, y]), xp.stack([x, y], axis=-1), x,
                                  xp.stack([xp.astype(x, xp.float32), y], axis=1)],
    "take": lambda xp, x, y, i: [xp.take(x, xp.asarray([2, 0]), axis=1), xp.take(i, xp.zeros((0,), dtype=xp.int64)),
                                 xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1)],
    "tensordot": lambda xp, x, y, i: [xp.tensordot(x, y, axes=((0,), (0,))), xp.tensordot(x, y, axes=0),
                                      xp.tensordot(x, y.mT, axes=1), xp.vecdot(x, y), xp.vecdot(x.T, y.T, axis=-1)],
    "tile": lambda xp, x, y, i: [xp.tile(x, (2, 1)), xp.tile(i, (2,)), xp.tile(x, (2, 1, 2))],
    "triangles": lambda xp, x, y, i: [xp.tril(x), xp.triu(x, k=1), xp.tril(x, k=-1)],
    "where": lambda xp, x, y, i: [xp.where(x > 0, x, y), xp.where(i > 1, i, 0), xp.maximum(x, y), xp.minimum(i, 2)],
    "operators": lambda xp, x, y, i: [f(x, y) for f in (operator.add, operator.sub, operator.mul, operator.truediv)]
    + [2 + x, 2 - x, 2 * x, 2 / x, 7 // i[i.shape[0]:], xp.add(x, 1), xp.multiply(2.0, y), xp.subtract(1, i)],
    "indexing": lambda xp, x, y, i: [x[..., 0], x[:, ::-1], x[:, None, 2], x[::2, :1], i[::-1], i[:]],
}  # fmt: skip
#: What needs a row, or three.
ROWS: dict[str, Case] = {
    "max": lambda xp, x, y, i: [xp.max(x), xp.min(x, axis=0), xp.max(i, axis=-1, keepdims=True), xp.min(i)],
    "arg": lambda xp, x, y, i: [xp.argmax(x), xp.argmin(x, axis=0), xp.argmax(x, axis=1, keepdims=True), xp.argmin(i)],
    "of_rows": lambda xp, x, y, i: [xp.mean(x), xp.std(x), xp.take(x, i % x.shape[0], axis=0), x[0, ...], i[-1]],
}


@pytest.fixture(scope="module")
def strict() -> Iterator[ModuleType]:
    module = pytest.importorskip("array_api_strict")
    module.set_array_api_strict_flags(api_version="2024.12")
    yield module
    module.reset_array_api_strict_flags()


def same(mine: Any, theirs: Any) -> None:
    assert len(mine) == len(theirs)
    for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        own, wanted = np.asarray(a), np.asarray(b)
        assert (own.dtype, own.shape) == (wanted.dtype, wanted.shape), place
        np.testing.assert_allclose(own, wanted, rtol=2e-6 if "32" in own.dtype.name else 1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [*CASES, *ROWS])
def test_compiled(name: str, strict: ModuleType) -> None:
    case = (CASES | ROWS)[name]
    with dyn.config.override(default_float="float64"), np.errstate(all="ignore"):
        ours = dyn.jit(lambda x, y, i: case(dnp, x, y, i))
        for n in (0, 1, 2, 7) if name in CASES else (1, 2, 7):
            rng = np.random.default_rng(n)
            args = rng.normal(0, 2, (n, 3)), rng.normal(0, 2, (n, 3)), rng.integers(0, 5, n)
            same(ours(*args), case(strict, *[strict.asarray(a) for a in args]))
        assert ours.cache_info().compiles == 1


@pytest.mark.parametrize("name", [*CASES, *ROWS])
def test_outside_of_a_trace(name: str, strict: ModuleType) -> None:
    case = (CASES | ROWS)[name]
    rng = np.random.default_rng(0)
    args = rng.normal(0, 2, (3, 3)), rng.normal(0, 2, (3, 3)), rng.integers(0, 5, 3)
    with dyn.config.override(default_float="float64"), np.errstate(all="ignore"):
        found = case(dnp, *[dnp.asarray(a) for a in args])
        assert {type(a) for a in found} == {dyn.Array}
        same(found, case(strict, *[strict.asarray(a) for a in args]))


def test_unstack(strict: ModuleType) -> None:
    x = np.arange(6.0).reshape(3, 2)
    for axis in (0, 1, -1):
        wanted = strict.unstack(strict.asarray(x), axis=axis)
        for found in (dnp.unstack(dnp.asarray(x), axis=axis), dnp.unstack(x, axis=axis),
                      dyn.jit(lambda x, axis=axis: dnp.unstack(x, axis=axis), shapes="3 2")(x)):  # fmt: skip
            assert type(found) is tuple
            same(found, wanted)
    assert dnp.unstack(dnp.zeros((0, 2))) == ()
    assert [type(part) for part in dnp.unstack(dnp.asarray([1.0, 2.0]))] == [dyn.Array] * 2
