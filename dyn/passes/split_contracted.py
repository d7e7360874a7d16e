"""Contractions over groups of an axis: ``Function -> Function``.

A quantised weight has a scale, and perhaps a zero point, for each group of neighbours along the axis that it is
contracted over. It is computed over two axes, of groups and of places in a group, which a reshape merges for the
product; or its scales are, each repeated as often as a group is long. A reshape needs in memory what it merges: the
weight would be written there at each call, or as many scales as it has elements.

The sum over both axes is the same sum, in the same order. Over them every operand is reached without a division: the
weight is a prologue like any other, and a scale is the same for a run of steps.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence

from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ir.opdef import OpKind
from dyn.ops.contract import dot_general
from dyn.ops.elementwise import convert
from dyn.ops.panels import from_panels
from dyn.ops.shape import broadcast_in_dim, reshape, reshape_groups, transpose
from dyn.shapes import Dim, Facts, product
from dyn.source import UNKNOWN, Loc

#: So many ops at most compute an operand that is looked at.
_MOST_OPS = 32
#: The bytes of an element of an operand that is computed where it is read.
_LEAST_BYTES = 4
#: For each axis of a value the sizes of the axes that it is split into, slowest first.
Splits = tuple[tuple[Dim, ...], ...]


def split_contracted_axes(function: Function) -> Function:
    """Contractions of an operand that is computed over parts of its contracted axes, of elements that are narrower than
    its own, go over these parts.

    Needs reshapes of reshapes, and transposes of transposes, to be one. Leaves what no contraction reads any more as
    dead code.
    """
    if not {dot_general, reshape} <= {op.opdef for op in function.ops}:
        return function
    splitting = _Splitting(function)
    values, builder = splitting.values, splitting.builder
    for op in function.ops:
        made = splitting.contraction(op) if op.opdef is dot_general else None
        if made is None:
            builder.append(with_operands(op, values))
        else:
            values[op.result] = made
    if not values or builder.facts is not function.facts:  # it would be checked what was not before
        return function
    return function.with_ops(tuple(builder.ops), tuple([values.get(v, v) for v in function.results]))


class _Splitting:
    """The ops of a function, with contractions over more axes."""

    def __init__(self, function: Function) -> None:
        self.facts: Facts = function.facts
        self.builder = Builder(function.facts, UNKNOWN)
        self._producers, self._users = function.producers(), function.users()
        self._results = frozenset(function.results)
        #: The contractions over parts of axes, by the results that they stand for.
        self.values: dict[Value, Value] = {}
        #: The ops that compute an operand from what lies in memory, and nothing else, by their results.
        self._own: dict[Value, Op] = {}
        #: The line of the contraction at hand.
        self._loc: Loc = UNKNOWN
        #: What is known of values of the operand at hand.
        self._found: dict[Value, Splits | None] = {}
        self._made: dict[tuple[Value, Splits], Value | None] = {}

    def contraction(self, op: Op) -> Value | None:
        """The result of a contraction over parts of its axes; None where no operand is computed over such."""
        at = op.attrs
        self._loc = op.loc
        axes = [(at[f"{side}_batch"], at[f"{side}_contracting"]) for side in ("lhs", "rhs")]
        for number, (operand, (_, contracted)) in enumerate(zip(op.operands, axes, strict=True)):
            self._start(self._computing(op, operand, _is_computed))
            splits = self._splits_of(operand) if self._is_narrow(operand) and self._is_reshaped() else None
            if splits is None:
                continue
            wanted = [splits[axis] for axis in contracted]
            parts = [self._with(value, own[1], wanted) for value, own in zip(op.operands, axes, strict=True)]
            made = self._parted(operand, parts[number])
            # The other one is read where it lies, or where it lies in fewer bytes.
            self._start(self._computing(op, op.operands[1 - number], _is_widening))
            other = self._parted(op.operands[1 - number], parts[1 - number])
            if made is not None and other is not None and made is not operand:
                return self._product(op, (made, other) if number == 0 else (other, made), parts)
        return None

    def _start(self, own: dict[Value, Op]) -> None:
        """Begin with an operand, which some ops compute."""
        self._own, self._found, self._made = own, {}, {}

    def _product(self, op: Op, operands: tuple[Value, Value], parts: Sequence[Splits]) -> Value:
        """The contraction of operands whose axes are split."""
        attrs: dict[str, tuple[int, ...]] = {}
        for side, splits in zip(("lhs", "rhs"), parts, strict=True):
            starts = [0]
            for sizes in splits:
                starts.append(starts[-1] + len(sizes))
            for kind in ("batch", "contracting"):
                axes = op.attrs[f"{side}_{kind}"]
                attrs[f"{side}_{kind}"] = tuple([n for axis in axes for n in range(starts[axis], starts[axis + 1])])
        self.builder.loc = op.loc
        return self.builder.op("dot_general", *operands, **attrs)

    def _with(self, value: Value, axes: Sequence[int], sizes: Sequence[tuple[Dim, ...]]) -> Splits:
        """The splits of a value of which some axes are split, and the others stay."""
        own = dict(zip(axes, sizes, strict=True))
        return tuple([own.get(axis, (size,)) for axis, size in enumerate(value.shape)])

    # What computes an operand ------------------------------------------------------------------------------------

    def _computing(self, op: Op, operand: Value, is_computed: Callable[[Op], bool]) -> dict[Value, Op]:
        """The ops that compute an operand and nothing else, of which ``is_computed`` is true, by their results; and
        views, though others read them too."""
        found, waiting = dict[Value, Op](), {operand}
        while len(found) <= _MOST_OPS:
            ready = [value for value in waiting if self._is_for(value, found, op, is_computed)]
            if not ready:
                return found
            for value in ready:
                found[value] = self._producers[value]
                waiting |= {*found[value].operands}
            waiting -= found.keys()
        return {}

    def _is_for(self, value: Value, found: dict[Value, Op], op: Op, is_computed: Callable[[Op], bool]) -> bool:
        producer = self._producers.get(value)
        if producer is None or value in self._results or len(producer.results) != 1 or producer.regions:
            return False
        if producer.opdef in (reshape, transpose, broadcast_in_dim):
            return True
        users = self._users[value]
        return is_computed(producer) and all(u is op or (len(u.results) == 1 and u.result in found) for u in users)

    def _is_narrow(self, operand: Value) -> bool:
        """Whether an operand is computed of fewer bytes than it has; what is spread over a larger array counts for
        nothing. Operands of 16 bits are better written: units multiply words of them, which lie in memory."""
        if operand.dtype.itemsize < _LEAST_BYTES or not any(
            op.opdef.kind is OpKind.POINTWISE for op in self._own.values()
        ):
            return False
        whole, stack = set[Value](), [operand]
        while stack:
            value = stack.pop()
            op = self._own.get(value)
            if op is None:
                whole.add(value)
            elif op.opdef is not broadcast_in_dim or op.operands[0].type.size == value.type.size:
                stack += op.operands
        return sum(value.dtype.itemsize for value in whole if value.type.rank) < operand.dtype.itemsize

    def _is_reshaped(self) -> bool:
        """Whether a reshape shows what is computed for the operand."""
        return any(op.opdef is reshape and op.operands[0] in self._own for op in self._own.values())

    # Parts of axes -----------------------------------------------------------------------------------------------

    def _splits_of(self, value: Value) -> Splits | None:
        """The parts of a value's axes that something which computes it goes over; None where they do not fit."""
        if value not in self._found:
            self._found[value] = self._splits(value)
        return self._found[value]

    def _splits(self, value: Value) -> Splits | None:
        whole: Splits = tuple([(size,) for size in value.shape])
        op = self._own.get(value)
        if op is None:
            return whole
        inner = [self._splits_of(operand) for operand in op.operands]
        if any(splits is None for splits in inner):
            return None
        found = [splits for splits in inner if splits is not None]
        if op.opdef is transpose:
            return tuple([found[0][axis] for axis in op.attrs["permutation"]])
        if op.opdef is broadcast_in_dim:
            own: list[tuple[Dim, ...]] = list(whole)
            for sizes, axis in zip(found[0], op.attrs["dims"], strict=True):
                if self._is_equal(product(sizes), value.shape[axis]):
                    own[axis] = sizes
            return tuple(own)
        if op.opdef is reshape:
            own: list[tuple[Dim, ...]] = list(whole)
            for olds, news in self._groups(op):
                sizes = tuple([size for axis in olds for size in found[0][axis] if size != 1])
                sizes = self._refined(sizes, tuple([value.shape[axis] for axis in news if value.shape[axis] != 1]))
                runs = None if sizes is None else self._runs(sizes, [value.shape[axis] for axis in news])
                if runs is None:
                    return None
                for axis, run in zip(news, runs, strict=True):
                    own[axis] = run
            return tuple(own)
        for splits in found:
            joined = [self._refined(a, b) for a, b in zip(whole, splits, strict=True)]
            if any(sizes is None for sizes in joined):
                return None
            whole = tuple([sizes for sizes in joined if sizes is not None])
        return whole

    def _groups(self, op: Op) -> list[tuple[range, range]]:
        """Runs of axes of a reshape with equal products, in front of it and behind it.

        Between axes of equal sizes there are as many elements on both sides, or none at all.
        """
        old, new = op.operands[0].shape, op.result.shape
        shorter, first, last = min(len(old), len(new)), 0, 0
        while first < shorter and old[first] == new[first]:
            first += 1
        while last < shorter - first and old[-1 - last] == new[-1 - last]:
            last += 1
        ends = len(old) - last, len(new) - last
        inner = reshape_groups(old[first : ends[0]], new[first : ends[1]])
        return [
            *[(range(n, n + 1), range(n, n + 1)) for n in range(first)],
            *[(_later(olds, first), _later(news, first)) for olds, news in inner],
            *[(range(ends[0] + n, ends[0] + n + 1), range(ends[1] + n, ends[1] + n + 1)) for n in range(last)],
        ]

    def _is_equal(self, a: Dim, b: Dim) -> bool:
        return a is b or a == b or self.facts.eq(a, b).proved

    def _refined(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
        """The parts of an axis that two ways to split it have in common; None where there are none."""
        if len(a) <= 1 or len(b) <= 1:
            return b if len(a) <= 1 else a
        if len(a) == len(b) and all(map(self._is_equal, a, b)):
            return a
        steps: dict[int, None] = {}
        for sizes in (a, b):
            step = 1
            for size in reversed(sizes[1:]):
                if not isinstance(size, int) or size == 0:
                    return None
                step *= size
                steps[step] = None
        inner = sorted(steps)
        if any(large % small for small, large in itertools.pairwise(inner)):
            return None
        slowest = next(sizes[0] for sizes in (a, b) if product(sizes[1:]) == inner[-1])
        return (slowest, *[large // small for small, large in reversed(list(itertools.pairwise([1, *inner])))])

    # Values over parts of their axes -----------------------------------------------------------------------------

    def _parted(self, value: Value, splits: Splits) -> Value | None:
        """A value with its axes split; None where it would have to be written to memory."""
        if (value, splits) not in self._made:
            self._made[value, splits] = self._split(value, splits)
        return self._made[value, splits]

    def _split(self, value: Value, splits: Splits) -> Value | None:
        shape = tuple([size for sizes in splits for size in sizes])
        op = self._own.get(value)
        if shape == value.shape and op is None:
            return self.values.get(value, value)
        self.builder.loc = self._loc if op is None else op.loc
        if op is None:
            return self._reshaped(value, splits, shape)
        if op.opdef is transpose:
            return self._transposed(op, splits)
        if op.opdef is broadcast_in_dim:
            return self._broadcast(op, splits, shape)
        if op.opdef is reshape:
            return self._of_reshape(op, splits, shape)
        operands = [self._parted(operand, splits) for operand in op.operands]
        found = [operand for operand in operands if operand is not None]
        if len(found) < len(operands):
            return None
        if all(map(operator.is_, found, op.operands)):
            return value
        self.builder.loc = op.loc
        (made,) = self.builder.emit(op.opdef, found, **op.attrs)
        return made

    def _reshaped(self, value: Value, splits: Splits, shape: tuple[Dim, ...]) -> Value | None:
        """An array that lies in memory, over parts of its axes."""
        if not all(self._is_equal(product(sizes), size) for sizes, size in zip(splits, value.shape, strict=True)):
            return None
        op = self._producers.get(value)
        if op is not None and op.opdef is from_panels:
            return self._panels(op, splits)
        return self.builder.op("reshape", self.values.get(value, value), shape=shape)

    def _panels(self, op: Op, splits: Splits) -> Value:
        """A matrix that lies in panels, over parts of its axes: its rows and columns may be several."""
        rows, columns = op.attrs["rows"], op.attrs["columns"]
        batch = len(splits) - len(rows) - len(columns)
        own, others = splits[batch : batch + len(rows)], splits[batch + len(rows) :]
        (panels,) = op.operands
        (made,) = self.builder.emit(
            from_panels, (panels,), rows=tuple([size for sizes in own for size in sizes]),
            columns=tuple([size for sizes in others for size in sizes]),
        )  # fmt: skip
        return made

    def _transposed(self, op: Op, splits: Splits) -> Value | None:
        permutation, inner = op.attrs["permutation"], list(splits)
        for axis, place in enumerate(permutation):
            inner[place] = splits[axis]
        made = self._parted(op.operands[0], tuple(inner))
        if made is None or made is op.operands[0]:
            return made if made is None else op.result
        starts = [0]
        for sizes in inner:
            starts.append(starts[-1] + len(sizes))
        order = tuple([n for place in permutation for n in range(starts[place], starts[place + 1])])
        return self.builder.op("transpose", made, permutation=order)

    def _broadcast(self, op: Op, splits: Splits, shape: tuple[Dim, ...]) -> Value | None:
        (source,), starts = op.operands, [0]
        for sizes in splits:
            starts.append(starts[-1] + len(sizes))
        inner, dims = list[tuple[Dim, ...]](), list[int]()
        for size, axis in zip(source.shape, op.attrs["dims"], strict=True):
            if size == 1:
                inner.append((1,))
                dims.append(starts[axis])
            elif len(splits[axis]) == 1 or self._is_equal(size, op.result.shape[axis]):
                inner.append(splits[axis] if len(splits[axis]) > 1 else (size,))
                dims += range(starts[axis], starts[axis + 1])
            else:  # it may be stretched, or not
                return None
        made = self._parted(source, tuple(inner))
        if made is None or (made is source and shape == op.result.shape):
            return made if made is None else op.result
        return self.builder.op("broadcast_in_dim", made, shape=shape, dims=tuple(dims))

    def _of_reshape(self, op: Op, splits: Splits, shape: tuple[Dim, ...]) -> Value | None:
        """A reshape over parts: of its operand over the same parts. Axes of size 1 are parts of what is computed, and
        are left out of anything else."""
        (source,) = op.operands
        computed = source in self._own and self._own[source].opdef.kind is OpKind.POINTWISE
        inner: list[tuple[Dim, ...]] = [(size,) for size in source.shape]
        alone: list[Dim] = []
        for olds, news in self._groups(op):
            sizes = [size for axis in news for size in splits[axis] if computed or size != 1]
            if len(olds) == 0 and all(size == 1 for size in sizes):
                alone += sizes
                continue
            runs = self._runs([*alone, *sizes], [source.shape[axis] for axis in olds])
            if runs is None:
                return None
            alone = []
            for axis, run in zip(olds, runs, strict=True):
                inner[axis] = run
        if inner:
            inner[-1] = (*inner[-1], *alone)
        made = self._parted(source, tuple(inner))
        if made is None or made.shape == shape:
            return made
        if made is source and shape == op.result.shape:
            return op.result
        return self.builder.op("reshape", made, shape=shape)

    def _runs(self, sizes: Sequence[Dim], axes: Sequence[Dim]) -> list[tuple[Dim, ...]] | None:
        """Sizes as one run for each of some axes; None where these are not products of such runs."""
        found: list[tuple[Dim, ...]] = []
        rest = list(sizes)
        for size in reversed(axes):
            count = next((n for n in range(1, len(rest) + 1) if self._is_run(rest, n, size)), None)
            if count is None and size != 1:
                return None
            found.append(tuple(rest[len(rest) - count :]) if count else (1,))
            del rest[len(rest) - (count or 0) :]
        if any(size != 1 for size in rest) or (rest and not found):
            return None
        if rest:
            found[-1] = (*rest, *found[-1])
        return found[::-1]

    def _is_run(self, sizes: Sequence[Dim], count: int, size: Dim) -> bool:
        """Whether the last ``count`` sizes make up one."""
        return self._is_equal(product(sizes[len(sizes) - count :]), size)


def _is_computed(op: Op) -> bool:
    return op.opdef.kind is OpKind.POINTWISE


def _is_widening(op: Op) -> bool:
    return op.opdef is convert and op.result.dtype.itemsize > op.operands[0].dtype.itemsize


def _later(axes: range, by: int) -> range:
    return range(axes.start + by, axes.stop + by)
