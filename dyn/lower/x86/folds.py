"""Accumulators of folds: what a loop carries from iteration to iteration, and what becomes of it.

An :class:`Accumulator` holds states of a fold side by side: of each scalar of a state ``count`` parts, vectors or
scalars, that are combined independently. ``narrow`` joins the parts in a fixed tree, and ``horizontal`` joins the lanes
of what is left in another. So the order of a reduction depends on the extent, the vector width and the unrolling alone.

The maximum and minimum of floats, where they are all there is to a state, carry more than the extremum. The machine's
instruction forgets NaNs and takes either zero for the other, and mending both in each step would cost six instructions
and a long chain; so the loop also carries "no NaN so far" and the AND (OR) of the sign bits, and the end mends once:
the maximum is a zero only if nothing positive was seen, and then it is -0 only if every sign bit was set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.lower.x86.llvm_text import Chunk, FunctionText, VType, constant, vtype
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Apply, Const, Expr, Fold, Ref
from dyn.schedule.kernel_walks import walk_exprs

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I1 = vtype("i1")
_REDUCE = {
    Scalar.ADD: "add", Scalar.MUL: "mul", Scalar.AND: "and", Scalar.OR: "or",
    Scalar.XOR: "xor",
}  # fmt: skip
#: A state, or several side by side: of each scalar its parts.
State = list[list[str]]


class Accumulator:
    """The carried values of one fold: ``count`` parts of ``width`` lanes of each scalar of its state.

    ``types`` and ``initial`` are for the loop.
    """

    def __init__(self, em: KernelEmitter, fold: Fold, width: int, count: int, *, joined: bool) -> None:
        self.em, self.fn, self.fold, self.width, self.count = em, em.fn, fold, width, count
        self.tys = [em.register(ref.dtype, width) for ref in fold.refs]
        self.literals = [em.literal(init) for init in fold.monoid.init]
        self.inits = [self.fn.splat(ty, init) for ty, init in zip(self.tys, self.literals, strict=True)]
        scalar = fold.monoid.scalar
        self.extremum = scalar if scalar in (Scalar.MAX, Scalar.MIN) and fold.refs[0].dtype.is_float else None
        #: Where the parts will be joined, NaNs and signs are tracked for two at a time: one comparison and one ternary
        #: AND do for both.
        self.group = 2 if joined else 1
        self.groups = -(-count // self.group)
        self.ty = self.tys[0]
        self.bits = self.ty.of(f"i{self.ty.bits}")
        self.types = [ty for ty in self.tys for _ in range(count)]
        self.initial = [init for init in self.inits for _ in range(count)]
        if self.extremum is not None:
            sign, truth = -1 if self.extremum is Scalar.MAX else 0, self.ty.of("i1")
            self.types += [self.bits] * self.groups + [truth] * self.groups
            self.initial += [constant(sign, self.bits)] * self.groups + [constant(True, truth)] * self.groups

    def _resized(self, width: int) -> Accumulator:
        return Accumulator(self.em, self.fold, width, 1, joined=True)

    def _state(self, carried: Sequence[str]) -> State:
        """The carried values, those of each scalar of the state together."""
        n = self.count
        return [list(carried[n * k : n * (k + 1)]) for k in range(len(self.tys))]

    # --- one step ----------------------------------------------------------------------------------------------

    def step(
        self,
        carried: Sequence[str],
        values: Sequence[Sequence[str]],
        masks: Sequence[str] | None = None,
        first: int = 0,
    ) -> list[str]:
        """Combine parts, from ``first`` on, with states of one iteration; where ``masks`` is false nothing changes."""
        fn, n, groups = self.fn, self.count, self.groups
        last = first + len(values[0])
        if self.extremum is None:
            whole = self._state(carried)
            old = [parts[first:last] for parts in whole]
            combined = self._combine(old, [list(value) for value in values])
            if masks is not None:
                combined = [
                    [fn.select(m, ty, c, a) for m, c, a in zip(masks, new, before, strict=True)]
                    for ty, new, before in zip(self.tys, combined, old, strict=True)
                ]
            whole = [[*parts[:first], *new, *parts[last:]] for parts, new in zip(whole, combined, strict=True)]
            return [part for parts in whole for part in parts]
        (own,), (init,) = values, self.inits
        if masks is not None:
            own = [fn.select(m, self.ty, v, init) for m, v in zip(masks, own, strict=True)]
        best = [self._pick(a, b) for a, b in zip(carried[first:last], own, strict=True)]
        signs, orders = list(carried[n : n + groups]), list(carried[n + groups :])
        for p in range(first // self.group, -(-last // self.group)):
            group = own[max(self.group * p - first, 0) : self.group * (p + 1) - first]
            for value in group:
                signs[p] = self._join_signs(signs[p], fn.cast("bitcast", self.ty, value, self.bits))
            orders[p] = fn.op("and", self.ty.of("i1"), orders[p], fn.op("fcmp ord", self.ty, group[0], group[-1]))
        return [*carried[:first], *best, *carried[last:n], *signs, *orders]

    def _combine(self, left: State, right: State) -> State:
        """The monoid of states, part by part. Parts take turns, as in the emitter's expressions."""
        monoid = self.fold.monoid
        given = dict(zip((*monoid.left, *monoid.right), (*left, *right), strict=True))
        return _evaluated(self.em, self.width, monoid.result, given)

    def lifted(self, state: State) -> State:
        """States of the fold that states of runs become."""
        block = self.fold.block
        if block is None:
            return state
        return _evaluated(self.em, self.width, block.lifted, dict(zip(block.state, state, strict=True)))

    def _pick(self, a: str, b: str) -> str:
        """maxps and minps: ``b`` when unordered or equal."""
        sign = "ogt" if self.extremum is Scalar.MAX else "olt"
        return self.fn.select(self.fn.op(f"fcmp {sign}", self.ty, a, b), self.ty, a, b)

    def _join_signs(self, a: str, b: str) -> str:
        return self.fn.op("and" if self.extremum is Scalar.MAX else "or", self.bits, a, b)

    # --- the end -----------------------------------------------------------------------------------------------

    def _join(self, left: State, right: State) -> State:
        """Two states, or the extrema alone of two."""
        if self.extremum is None:
            return self._combine(left, right)
        return [[self._pick(a, b) for a, b in zip(left[0], right[0], strict=True)]]

    def pairwise(self, states: Sequence[State]) -> State:
        """One state, or several side by side, of several: joined two by two, until one is left."""
        states = list(states)
        while len(states) > 1:
            odd = states[-1:] if len(states) % 2 else []
            states = [self._combine(a, b) for a, b in zip(states[0::2], states[1::2], strict=False)] + odd
        return states[0]

    def narrow(self, carried: Sequence[str]) -> tuple[Accumulator, list[str]]:
        """Join the parts into one: part 0 with 1, 2 with 3, …, then the results likewise."""
        n, groups = self.count, self.groups
        states = [[[parts[p]] for parts in self._state(carried)] for p in range(n)]
        while len(states) > 1:
            odd = states[-1:] if len(states) % 2 else []
            states = [self._join(a, b) for a, b in zip(states[0::2], states[1::2], strict=False)] + odd
        single, joined = self._resized(self.width), [part for (part,) in states[0]]
        if self.extremum is None:
            return single, joined
        signs, orders = list(carried[n : n + groups]), list(carried[n + groups :])
        while len(signs) > 1:
            signs.append(self._join_signs(signs.pop(0), signs.pop(0)))
            orders.append(self.fn.op("and", self.ty.of("i1"), orders.pop(0), orders.pop(0)))
        return single, [*joined, *signs, *orders]

    def horizontal(self, carried: Sequence[str]) -> list[str]:
        """Join the lanes of a single part: the upper half with the lower, until one is left."""
        fn, ty = self.fn, self.ty
        if self.width == 1:
            return [part for (part,) in self.results(carried)]
        scalar = self.fold.monoid.scalar
        if scalar is not None and not ty.is_float:
            return [self._reduce_integers(scalar, carried[0])]
        half, state = self, self._state(carried)
        while half.width > 1:
            middle, lanes = half.width // 2, half.width
            low, high = (
                [[fn.shuffle(t, part, "poison", picks)] for t, (part,) in zip(half.tys, state, strict=True)]
                for picks in (range(middle), range(middle, lanes))
            )
            half = half._resized(middle)
            state = half._join(low, high)
        if self.extremum is not None:
            operation = "and" if self.extremum is Scalar.MAX else "or"
            sign = _reduce(fn, operation, self.bits, carried[1])
            order = _reduce(fn, "and", ty.of("i1"), carried[2])
            ((best,),) = state
            state = half.results([best, sign, order])
        return [part for (part,) in state]

    def _reduce_integers(self, combine: Scalar, vector: str) -> str:
        dtype = self.fold.refs[0].dtype
        if dtype is dtypes.bool_:
            joins = (Scalar.ADD, Scalar.OR, Scalar.MAX)
            operation = "xor" if combine is Scalar.XOR else "or" if combine in joins else "and"
        elif combine in (Scalar.MAX, Scalar.MIN):
            signed = "s" if dtype.kind is dtypes.Kind.INT else "u"
            operation = signed + ("max" if combine is Scalar.MAX else "min")
        else:
            operation = _REDUCE[combine]
        return _reduce(self.fn, operation, self.ty, vector)

    def results(self, carried: Sequence[str]) -> State:
        """The folded states, part by part: the NaNs and zeros of extrema are put right here."""
        n, groups = self.count, self.groups
        if self.extremum is None:
            return self._state(carried)
        fn, ty = self.fn, self.ty
        mended: list[str] = []
        for u in range(n):
            sign, order = carried[n + u // self.group], carried[n + groups + u // self.group]
            zero = fn.op("and", self.bits, sign, constant(1 << (ty.bits - 1), self.bits))
            is_zero = fn.op("fcmp oeq", ty, carried[u], constant(0.0, ty))
            value = fn.select(is_zero, ty, fn.cast("bitcast", self.bits, zero, ty), carried[u])
            mended.append(fn.select(order, ty, value, constant(float("nan"), ty)))
        return [mended]


def _evaluated(em: KernelEmitter, width: int, exprs: tuple[Expr, ...], given: Mapping[Ref, Sequence[str]]) -> State:
    """Expressions of given values, for each part of these."""
    fn = em.fn
    here, lines = fn.here, list[Chunk]()
    made: State = [[] for _ in exprs]
    for p in range(min(map(len, given.values()))):
        fn.here = []
        names = {id(ref): parts[p] for ref, parts in given.items()}
        for expr in walk_exprs(exprs):
            if isinstance(expr, Const):
                names[id(expr)] = fn.splat(em.register(expr.dtype, width), em.literal(expr))
            elif isinstance(expr, Apply):
                names[id(expr)] = em.function(expr, width, [names[id(arg)] for arg in expr.args])
        for parts, expr in zip(made, exprs, strict=True):
            parts.append(names[id(expr)])
        lines.append(fn.here)
    fn.here = here
    for turn in zip(*lines, strict=True):
        here.extend(turn)
    return made


def _reduce(fn: FunctionText, operation: str, ty: VType, vector: str) -> str:
    if ty.lanes == 1:
        return vector
    scalar = vtype(ty.elem)
    return fn.call(f"llvm.vector.reduce.{operation}.{ty.mangled}", scalar, [(ty, vector)])
