"""Interpreter of kernel IR, for the loops that contractions become on any target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import (
    Algorithm,
    Apply,
    Clear,
    Const,
    Digits,
    Expr,
    Index,
    Interval,
    Kernel,
    Let,
    Load,
    Loop,
    Multiply,
    Pack,
    Space,
    Spill,
    Stmt,
    Store,
)
from dyn.schedule.kernel_verifier import check
from dyn.shapes import Symbol, evaluate


class Run:
    """A kernel's statements, executed one after the other: what was packed and multiplied is counted."""

    def __init__(self, kernel: Kernel, arrays: list[np.ndarray], sizes: dict[Symbol, int]) -> None:
        self.env = dict(sizes)
        self.memory = {id(b): a for b, a in zip(kernel.buffers, arrays, strict=True)}
        for buffer in kernel.scratch:
            assert isinstance(buffer.size, int)
            self.memory[id(buffer)] = np.full(buffer.size, 77, np.int64)  # what nobody has written is seen
        #: How often each element of a global buffer was packed, and how many products there were.
        self.packed: Counter[tuple[str, int]] = Counter()
        self.products = 0
        #: Blocks of the right operand whose columns' sums are there, by their place.
        self.sums: dict[int, list[int]] = {}
        #: Columns of multiplications.
        self.widths: set[int] = set()
        #: What is staged along each variable: the whole extent of it, with what is 0.
        self.staged: dict[Symbol, int] = {}
        self.block(kernel.body)

    def dim(self, dim: Any) -> int:
        return evaluate(dim, self.env)

    def values(self, interval: Interval) -> Iterator[int]:
        """The interval's values, each bound while it is there."""
        start, extent = self.dim(interval.start), self.dim(interval.extent)
        for value in range(start, start + extent):
            self.env[interval.var] = value
            yield value

    def block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            if isinstance(stmt, Let):
                self.env[stmt.var] = self.dim(stmt.value)
            elif isinstance(stmt, Loop) and stmt.count is not None:
                extent = self.dim(stmt.extent)
                for begin, end in [(0, extent // 3), (extent // 3, extent)]:  # as two threads may have them
                    self.env[stmt.var], self.env[stmt.count] = begin, end - begin
                    self.block(stmt.body if begin < end else ())
            elif isinstance(stmt, Loop):
                for value in self.values(Interval(stmt.var, stmt.start, stmt.extent)):
                    if (value - self.dim(stmt.start)) % stmt.step == 0:
                        self.block(stmt.body)
            elif isinstance(stmt, Store):
                self.memory[id(stmt.buffer)][self.dim(stmt.index)] = self.eval(stmt.value)
            elif isinstance(stmt, Pack):
                self.pack(stmt)
            elif isinstance(stmt, Clear):
                self.memory[id(stmt.acc)][:] = 0
            elif isinstance(stmt, Spill):
                self.spill(stmt)
            else:
                assert isinstance(stmt, Multiply)
                self.multiply(stmt)

    def eval(self, expr: Expr, count: bool = False) -> int:
        if isinstance(expr, Const):
            return int(expr.value)
        if isinstance(expr, Index):
            return self.dim(expr.expr)
        if isinstance(expr, Load):
            if expr.mask is not None and not self.eval(expr.mask):
                assert expr.other is not None
                return self.eval(expr.other)
            index = self.dim(expr.index)
            if count:
                self.packed[expr.buffer.name, index] += 1
            return int(self.memory[id(expr.buffer)][index])
        assert isinstance(expr, Apply)
        args = [self.eval(arg, count) for arg in expr.args]
        functions: dict[Scalar, Callable[..., int]] = {
            Scalar.CAST: lambda x: x, Scalar.NEG: lambda x: -x, Scalar.ADD: lambda x, y: x + y,
            Scalar.AND: lambda x, y: x & y, Scalar.OR: lambda x, y: x | y, Scalar.SHL: lambda x, y: x << y,
            Scalar.XOR: lambda x, y: x ^ y, Scalar.LT: lambda x, y: x < y, Scalar.SELECT: lambda p, x, y: x if p else y,
        }  # fmt: skip
        return functions[expr.fn](*args)

    def pack(self, stmt: Pack) -> None:
        to, place, own = self.memory[id(stmt.buffer)], self.dim(stmt.place), stmt.staged
        if own is not None:
            assert self.dim(stmt.outer.extent) <= own.outer
            assert self.dim(stmt.inner.extent) <= own.inner
            self.staged |= {stmt.outer.var: own.outer, stmt.inner.var: own.inner}
            places = [
                i * stmt.stride + i // own.every * own.pad + j for i in range(own.outer) for j in range(own.inner)
            ]
            assert len(set(places)) == len(places), "two elements have one place"
            assert max(places) < own.slot
            assert place + own.slots * own.slot <= len(to)
            to[[place + at for at in places]] = 0
        for i, _ in enumerate(self.values(stmt.outer)):
            for j, _ in enumerate(self.values(stmt.inner)):
                for digits in stmt.digits:
                    self.divide(digits)
                pad = 0 if own is None else i // own.every * own.pad
                to[place + i * stmt.stride + pad + j] = self.eval(stmt.value, count=True)

    def divide(self, digits: Digits) -> None:
        rest, ((first, _), *others) = self.dim(digits.value), digits.parts
        for part, extent in reversed(others):
            rest, self.env[part] = divmod(rest, self.dim(extent))
        self.env[first] = rest

    def spill(self, stmt: Spill) -> None:
        sums = self.memory[id(stmt.acc)].reshape(stmt.parts, -1, stmt.columns)
        start, place = self.dim(stmt.start), self.dim(stmt.place)
        assert start % stmt.rows == 0
        rows = sums[:, start : start + stmt.rows].ravel()
        self.memory[id(stmt.buffer)][place : place + rows.size] = rows

    def multiply(self, stmt: Multiply) -> None:
        if stmt.algorithm is Algorithm.CORES:
            self.multiply_staged(stmt)
            return
        acc, place, first = self.memory[id(stmt.acc)], self.dim(stmt.place), self.dim(stmt.first)
        stride = self.dim(stmt.stride)
        self.widths.add(self.dim(stmt.cols.extent))
        if stmt.column_sums is not None:
            own, block = stmt.column_sums, [self.dim(d) for i in (stmt.cols, stmt.red) for d in (i.start, i.extent)]
            key = self.dim(own.place)
            if own.makes:
                self.sums[key] = block
            assert self.sums[key] == block, "sums of another block"
        assert self.dim(stmt.rows.extent) <= stmt.tile.rows
        assert self.dim(stmt.cols.extent) <= (stmt.tile.columns if stmt.algorithm is Algorithm.TILE else stride)
        for i, _ in enumerate(self.values(stmt.rows)):
            for j, _ in enumerate(self.values(stmt.cols)):
                total = 0 if first else int(acc[place + i * stride + j])
                for k, _ in enumerate(self.values(stmt.red)):
                    right = self.eval(stmt.rhs, count=stmt.packed is not None and i == 0)
                    total += self.product(stmt, self.eval(stmt.lhs), right)
                    if stmt.packed is not None:
                        to = stmt.packed
                        panel, column = divmod(j, to.width)
                        at = self.dim(to.place) + panel * to.panel_stride + k * to.width + column
                        self.memory[id(to.buffer)][at] = right
                acc[place + i * stride + j] = total

    def multiply_staged(self, stmt: Multiply) -> None:
        """All steps of what is staged, in the parts that threads have."""
        assert stmt.acc.space is Space.REGISTERS
        sums, stride = self.memory[id(stmt.acc)].reshape(stmt.parts, -1), self.dim(stmt.stride)
        depth, start = self.staged[stmt.red.var], self.dim(stmt.red.start)
        for i, _ in enumerate(self.values(stmt.rows)):
            for j, _ in enumerate(self.values(stmt.cols)):
                for k in range(depth):
                    self.env[stmt.red.var] = start + k
                    product = self.product(stmt, self.eval(stmt.lhs), self.eval(stmt.rhs))
                    sums[k * stmt.parts // depth, i * stride + j] += product

    def product(self, stmt: Multiply, left: int, right: int) -> int:
        self.products += 1
        if stmt.unit is None:
            return left * right
        words = [
            np.array([word % 2**32], np.uint32).view(d.np).astype(int)
            for word, d in zip((left, right), stmt.unit.words, strict=True)
        ]
        offset = 128 if stmt.unit.signs_left else 0  # the left elements were made so much greater
        return int(((words[0] - offset) * words[1]).sum())


def run_product(form: Kernel, sizes: tuple[int, int, int], lhs: str = "mk", rhs: str = "kn") -> Run:
    """Run the blocked form of a product of small integers of ``sizes`` m, n and k, and check what it computes."""
    check(form)
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    c = np.full(m * n, 55)
    arrays = [(a if lhs == "mk" else a.T).ravel(), (b if rhs == "kn" else b.T).ravel(), c]
    run = Run(form, arrays, dict(zip(form.dims, sizes, strict=True)))
    np.testing.assert_array_equal(c.reshape(m, n), a @ b)
    return run
