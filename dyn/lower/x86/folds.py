"""Accumulators of folds: what a loop carries from iteration to iteration, and what becomes of it.

An :class:`Accumulator` has ``count`` parts, vectors or scalars, that are combined independently; ``narrow`` joins them
in a fixed tree, and ``horizontal`` joins the lanes of what is left in another. So the order of a reduction depends on
the extent, the vector width and the unrolling alone.

The maximum and minimum of floats carry more than the extremum. The machine's instruction forgets NaNs and takes
either zero for the other, and mending both in each step would cost six instructions and a long chain; so the loop
also carries "no NaN so far" and the AND (OR) of the sign bits, and the end mends once: the maximum is a zero only if
nothing positive was seen, and then it is -0 only if every sign bit was set.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn import dtypes
from dyn.lower.x86.llvm_text import FunctionText, VType, constant, vtype
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.scalars import apply
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Fold

I1 = vtype("i1")
_REDUCE = {
    Scalar.ADD: "add", Scalar.MUL: "mul", Scalar.AND: "and", Scalar.OR: "or",
    Scalar.XOR: "xor",
}  # fmt: skip


class Accumulator:
    """The carried values of one fold: ``count`` parts of type ``ty``; ``types`` and ``initial`` are for the loop."""

    def __init__(self, machine: Machine, fold: Fold, ty: VType, count: int, init: str, *, joined: bool) -> None:
        self.machine, self.fn, self.fold, self.ty, self.count = machine, machine.fn, fold, ty, count
        self.literal, self.init = init, self.fn.splat(ty, init)
        self.dtype = fold.ref.dtype
        self.extremum = fold.combine in (Scalar.MAX, Scalar.MIN) and self.dtype.is_float
        #: Where the parts will be joined, NaNs and signs are tracked for two at a time: one comparison and one ternary
        #: AND do for both.
        self.group = 2 if joined else 1
        self.groups = -(-count // self.group)
        self.bits = ty.of(f"i{ty.bits}")
        self.types, self.initial = [ty] * count, [self.init] * count
        if self.extremum:
            sign = -1 if fold.combine is Scalar.MAX else 0
            self.types += [self.bits] * self.groups + [ty.of("i1")] * self.groups
            self.initial += [constant(sign, self.bits)] * self.groups + [constant(True, ty.of("i1"))] * self.groups

    def _resized(self, ty: VType) -> Accumulator:
        return Accumulator(self.machine, self.fold, ty, 1, self.literal, joined=True)

    # --- one step ----------------------------------------------------------------------------------------------

    def step(self, carried: Sequence[str], values: Sequence[str], masks: Sequence[str] | None = None) -> list[str]:
        """Combine the values of one iteration; where ``masks`` is false nothing changes."""
        fn, n, groups = self.fn, self.count, self.groups
        if not self.extremum:
            combined = [self._combine(a, b) for a, b in zip(carried, values, strict=True)]
            if masks is not None:
                combined = [fn.select(m, self.ty, c, a) for m, c, a in zip(masks, combined, carried, strict=True)]
            return combined
        if masks is not None:
            values = [fn.select(m, self.ty, v, self.init) for m, v in zip(masks, values, strict=True)]
        best = [self._pick(a, b) for a, b in zip(carried[:n], values, strict=True)]
        signs, orders = list(carried[n : n + groups]), list(carried[n + groups :])
        for p in range(groups):
            group = values[self.group * p : self.group * (p + 1)]
            for value in group:
                signs[p] = self._join_signs(signs[p], fn.cast("bitcast", self.ty, value, self.bits))
            orders[p] = fn.op("and", self.ty.of("i1"), orders[p], fn.op("fcmp ord", self.ty, group[0], group[-1]))
        return [*best, *signs, *orders]

    def _combine(self, a: str, b: str) -> str:
        return apply(self.machine, self.fold.combine, self.dtype, self.ty, (a, b))

    def _pick(self, a: str, b: str) -> str:
        """maxps and minps: ``b`` when unordered or equal."""
        sign = "ogt" if self.fold.combine is Scalar.MAX else "olt"
        return self.fn.select(self.fn.op(f"fcmp {sign}", self.ty, a, b), self.ty, a, b)

    def _join_signs(self, a: str, b: str) -> str:
        return self.fn.op("and" if self.fold.combine is Scalar.MAX else "or", self.bits, a, b)

    # --- the end -----------------------------------------------------------------------------------------------

    def narrow(self, carried: Sequence[str]) -> tuple[Accumulator, list[str]]:
        """Join the parts into one: part 0 with 1, 2 with 3, …, then the results likewise."""
        n, groups = self.count, self.groups
        best = list(carried[:n])
        join = self._pick if self.extremum else self._combine
        while len(best) > 1:
            odd = best[-1:] if len(best) % 2 else []
            best = [join(a, b) for a, b in zip(best[0::2], best[1::2], strict=False)] + odd
        single = self._resized(self.ty)
        if not self.extremum:
            return single, best
        signs, orders = list(carried[n : n + groups]), list(carried[n + groups :])
        while len(signs) > 1:
            signs.append(self._join_signs(signs.pop(0), signs.pop(0)))
            orders.append(self.fn.op("and", self.ty.of("i1"), orders.pop(0), orders.pop(0)))
        return single, [*best, *signs, *orders]

    def horizontal(self, carried: Sequence[str]) -> str:
        """Join the lanes of a single part: the upper half with the lower, until one is left."""
        fn, ty = self.fn, self.ty
        if ty.lanes == 1:
            return self.results(carried)[0]
        if not self.extremum and not ty.is_float:
            return self._reduce_integers(carried[0])
        half, vector = self, carried[0]
        while half.ty.lanes > 1:
            lanes = half.ty.lanes
            low = fn.shuffle(half.ty, vector, "poison", range(lanes // 2))
            high = fn.shuffle(half.ty, vector, "poison", range(lanes // 2, lanes))
            half = half._resized(vtype(ty.elem, lanes // 2))
            vector = half._pick(low, high) if self.extremum else half._combine(low, high)
        if not self.extremum:
            return vector
        operation = "and" if self.fold.combine is Scalar.MAX else "or"
        sign = _reduce(fn, operation, self.bits, carried[1])
        order = _reduce(fn, "and", ty.of("i1"), carried[2])
        return half.results([vector, sign, order])[0]

    def _reduce_integers(self, vector: str) -> str:
        combine = self.fold.combine
        if self.dtype is dtypes.bool_:
            joins = (Scalar.ADD, Scalar.OR, Scalar.MAX)
            operation = "xor" if combine is Scalar.XOR else "or" if combine in joins else "and"
        elif combine in (Scalar.MAX, Scalar.MIN):
            signed = "s" if self.dtype.kind is dtypes.Kind.INT else "u"
            operation = signed + ("max" if combine is Scalar.MAX else "min")
        else:
            operation = _REDUCE[combine]
        return _reduce(self.fn, operation, self.ty, vector)

    def results(self, carried: Sequence[str]) -> list[str]:
        """The folded values, part by part: NaNs and zeros are put right here."""
        n, groups = self.count, self.groups
        if not self.extremum:
            return list(carried)
        fn, ty = self.fn, self.ty
        mended: list[str] = []
        for u in range(n):
            sign, order = carried[n + u // self.group], carried[n + groups + u // self.group]
            zero = fn.op("and", self.bits, sign, constant(1 << (ty.bits - 1), self.bits))
            is_zero = fn.op("fcmp oeq", ty, carried[u], constant(0.0, ty))
            value = fn.select(is_zero, ty, fn.cast("bitcast", self.bits, zero, ty), carried[u])
            mended.append(fn.select(order, ty, value, constant(float("nan"), ty)))
        return mended


def _reduce(fn: FunctionText, operation: str, ty: VType, vector: str) -> str:
    if ty.lanes == 1:
        return vector
    scalar = vtype(ty.elem)
    return fn.call(f"llvm.vector.reduce.{operation}.{ty.mangled}", scalar, [(ty, vector)])
