"""Transformations of loops and choices: their regions are transformed, and run by an op of the same sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.data_dependent import own_mentions
from dyn.ir.differentiate import gathered, leading_to, pull_back, push_forward, zeros
from dyn.ir.effects import has_effect, has_own_effect, without_effects
from dyn.ir.inline_regions import build_region, copied, splice
from dyn.ir.opdef import OpKind
from dyn.ir.region_passes import carries, unchanged
from dyn.ir.types import TensorType
from dyn.ir.vectorize import batched, differing, spread
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.call_rules import one_by_one
from dyn.shapes import Dim

Maybe = Value | None


def _smooth(values: Sequence[Value]) -> list[int]:
    """The places of what can have a derivative."""
    return [i for i, v in enumerate(values) if v.dtype.is_inexact]


def _types(values: Sequence[Value]) -> list[TensorType]:
    return [TensorType(v.dtype, v.shape) for v in values]


def _or_zeros(b: Builder, value: Maybe, like: Value) -> Value:
    return zeros(b, TensorType(like.dtype, like.shape)) if value is None else value


def _pulled(b: Builder, region: Region, args: Sequence[Value], cts: Sequence[Maybe]) -> list[Maybe]:
    """The cotangents of a region's arguments, where the region is computed again."""
    own = [b.op("copy", v) for v in args]  # one value may be given twice
    start = len(b.ops)
    results = splice(b, without_effects(region), own, prepare=True)
    ops = tuple(b.ops[start:])
    return pull_back(b, ops, gathered(b, results, cts), own)


def _pushed(
    b: Builder, region: Region, args: Sequence[Value], tangents: Sequence[Maybe]
) -> tuple[tuple[Value, ...], list[Maybe]]:
    """A region's results, where it is computed again, and their tangents."""
    start = len(b.ops)
    results = splice(b, without_effects(region), args)
    known = {v: t for v, t in zip(args, tangents, strict=True) if t is not None}
    push_forward(b, leading_to(b.ops[start:], results), known)
    return results, [known.get(v) for v in results]


# --- scan ---------------------------------------------------------------------------------------------------------


def unchanged_outside(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """Replace results of a loop that it hands on from step to step by what they were before it."""
    same = unchanged(op)
    pairs = zip(same, op.operands, op.results, strict=False)
    found = [v if keep and v.type == result.type else result for keep, v, result in pairs]
    if not any(same):
        return None
    b.append(op)
    return (*found, *op.results[len(same) :])


def scan_prune(op: Op, live: set[Value]) -> Op:
    """Drop rows that nobody reads, and carried values and arrays that nothing that is read comes of."""
    count, (body,) = op.attrs["carries"], op.regions
    rows = [i for i, v in enumerate(op.results) if i >= count and v in live]
    carried, used = _carried_for(op, body, live, rows)
    arrays = [i for i in range(count, len(op.operands)) if body.params[i] in used]
    kept, taken = [*carried, *rows], [*carried, *arrays]
    attrs = {name: value for name, value in op.attrs.items() if name != "saved"} | {"carries": len(carried)}
    region = replace(
        body, params=tuple([body.params[i] for i in taken]), ops=leading_to(body.ops, [body.results[i] for i in kept]),
        results=tuple([body.results[i] for i in kept]),
    )  # fmt: skip
    return replace(
        op, operands=tuple([op.operands[i] for i in taken]), attrs=attrs,
        results=tuple([op.results[i] for i in kept]), regions=(region,),
    )  # fmt: skip


def _carried_for(
    op: Op, body: Region, live: set[Value], others: Sequence[int], asked: Sequence[Value] = ()
) -> tuple[list[int], set[Value]]:
    """The carried values that steps need for what is read; and all that the body reads for it.

    ``others`` are the results of the body that are wanted beside carried ones, ``asked`` what else reads parameters.
    """
    wanted = {i for i in range(carries(op)) if op.results[i] in live or body.params[i] in asked}
    while True:
        results = [body.results[i] for i in (*sorted(wanted), *others)]
        used = {*results, *(v for inner in leading_to(body.ops, results) for v in inner.reads())}
        more = {i for i in range(carries(op)) if body.params[i] in used} - wanted
        if not more:
            return sorted(wanted), used
        wanted |= more


def while_prune(op: Op, live: set[Value]) -> Op:
    """Drop carried values that neither the condition nor anything that is read comes of."""
    condition, body = op.regions
    reads = {*condition.results, *(v for inner in condition.ops for v in inner.reads())}
    asked = [mine for mine, its in zip(body.params, condition.params, strict=True) if its in reads]
    kept, _ = _carried_for(op, body, live, (), asked)
    results = tuple([body.results[i] for i in kept])
    step = replace(
        body, params=tuple([body.params[i] for i in kept]), ops=leading_to(body.ops, results), results=results
    )
    ask = replace(condition, params=tuple([condition.params[i] for i in kept]))
    return replace(
        op, operands=tuple([op.operands[i] for i in kept]), results=tuple([op.results[i] for i in kept]),
        regions=(ask, step),
    )  # fmt: skip


def choice_prune(op: Op, live: set[Value]) -> Op:
    """Drop results that nobody reads."""
    kept = [i for i, v in enumerate(op.results) if v in live]
    regions = tuple([replace(r, results=tuple([r.results[i] for i in kept])) for r in op.regions])
    return replace(op, results=tuple([op.results[i] for i in kept]), regions=regions)


def scan_prepare(op: Op) -> Op:
    """Keeps what each step was given of the values that change, and what callbacks with effects gave: one more row a
    step each."""
    if op.attrs.get("saved", 0):
        return op
    length, (body,) = op.attrs["length"], op.regions
    kept = [p for p, same in zip(body.params, unchanged(op), strict=False) if not same]
    kept += _given_once(body)
    region = replace(body, results=(*body.results, *kept))
    stacks = tuple(Value(TensorType(p.dtype, (length, *p.shape))) for p in kept)
    attrs = {**op.attrs, "saved": len(kept)}
    return Op(op.opdef, op.operands, attrs, (*op.results, *stacks), op.loc, (region,))


def _given_once(body: Region) -> list[Value]:
    """Results of a body's ops with effects, which are not run again where it is computed a second time."""
    return [v for inner in body.ops if has_own_effect(inner) and not own_mentions(inner) for v in inner.results]


def scan_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The steps backward: each is computed again from what it was given, and its cotangents are pulled through it."""
    if not op.attrs.get("saved", 0):
        ready = copied(scan_prepare(op), {v: v for v in op.operands})
        b.append(ready)
        op, cts = ready, (*cts, *(None,) * (len(ready.results) - len(cts)))
    count, saved, (body,) = op.attrs["carries"], op.attrs.get("saved", 0), op.regions
    same = unchanged(op)
    rows = len(body.results) - count
    xs = op.operands[count:]
    stacks = op.results[len(op.results) - saved :] if saved else ()
    smooth, smooth_xs = _smooth(op.operands[:count]), _smooth(xs)
    shared = [i for i in range(count) if same[i]]
    of_rows = [j for j in range(rows) if cts[count + j] is not None]
    carries = [_or_zeros(b, cts[i], op.operands[i]) for i in smooth] + [op.operands[i] for i in shared]
    arrays = [*xs, *stacks, *(cts[count + j] for j in of_rows)]

    def backward(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        left = iter(params)
        ct_of = {i: next(left) for i in smooth}
        given = {i: next(left) for i in shared}
        constant = [given[i] for i in shared]
        x = [next(left) for _ in xs]
        given |= {i: next(left) for i in range(count) if not same[i]}
        once = {v: next(left) for v in _given_once(body)}
        ct_rows = {j: next(left) for j in of_rows}
        args = [*(given[i] for i in range(count)), *x]
        known = [*(ct_of.get(i) for i in range(count)), *(ct_rows.get(j) for j in range(rows))]
        found = _pulled(inner, without_effects(body, once), args, known)
        own = [_or_zeros(inner, found[i], args[i]) for i in smooth]
        return [*own, *constant, *(_or_zeros(inner, found[count + i], x[i]) for i in smooth_xs)]

    slices = [TensorType(a.dtype, a.shape[1:]) for a in arrays]
    region = build_region(b, [*_types(carries), *slices], backward)
    attrs = {"carries": len(carries), "length": op.attrs["length"], "reverse": not op.attrs["reverse"]}
    made = b.emit(op.opdef, (*carries, *arrays), (region,), **attrs)
    result: list[Maybe] = [None] * len(op.operands)
    for place, i in enumerate(smooth):
        result[i] = made[place]
    for place, i in enumerate(smooth_xs):
        result[count + i] = made[len(carries) + place]
    return tuple(result)


def scan_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    count, (body,) = op.attrs["carries"], op.regions
    xs = op.operands[count:]
    smooth = _smooth(op.operands[:count])
    moving = [i for i in range(len(xs)) if tangents[count + i] is not None]
    carries = [*op.operands[:count], *(_or_zeros(b, tangents[i], op.operands[i]) for i in smooth)]
    arrays = [*xs, *(tangents[count + i] for i in moving)]
    smooth_rows = [j for j, v in enumerate(body.results[count:]) if v.dtype.is_inexact]

    def forward(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        state, x = params[:count], params[len(carries) : len(carries) + len(xs)]
        given: list[Maybe] = [None] * (count + len(xs))
        for place, i in enumerate(smooth):
            given[i] = params[count + place]
        for place, i in enumerate(moving):
            given[count + i] = params[len(carries) + len(xs) + place]
        results, found = _pushed(inner, body, (*state, *x), given)
        # What a step hands on as it is, its tangent is handed on as it is too.
        moved = [_or_zeros(inner, found[i], results[i]) for i in smooth]
        rows = [_or_zeros(inner, found[count + j], results[count + j]) for j in smooth_rows]
        return [*results[:count], *moved, *results[count:], *rows]

    slices = [TensorType(a.dtype, a.shape[1:]) for a in arrays]
    region = build_region(b, [*_types(carries), *slices], forward)
    attrs = {"carries": len(carries), "length": op.attrs["length"], "reverse": op.attrs["reverse"]}
    made = b.emit(op.opdef, (*carries, *arrays), (region,), **attrs)
    result: list[Maybe] = [None] * len(op.results)
    for place, i in enumerate(smooth):
        result[i] = made[count + place]
    rows = len(carries) + len(body.results) - count
    for place, j in enumerate(smooth_rows):
        result[count + j] = made[rows + place]
    return tuple(result)


def _turned(b: Builder, value: Value) -> Value:
    """The first two axes of a value, the other way round."""
    return b.op("transpose", value, permutation=(1, 0, *range(2, len(value.shape))))


def _with_axis(values: Sequence[Value], flags: Sequence[bool], size: Dim) -> list[TensorType]:
    return [TensorType(v.dtype, (size, *v.shape) if flag else v.shape) for v, flag in zip(values, flags, strict=True)]


def _settled(region: Region, flags: Sequence[bool], count: int) -> list[bool]:
    """Flags of carried values: whether they differ from example to example after any number of steps."""
    carried = list(flags[:count])
    while True:
        found = differing(region, (*carried, *flags[count:]))
        grown = [a or c for a, c in zip(carried, found, strict=False)]
        if grown == carried:
            return carried
        carried = grown


def scan_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    count, (body,) = op.attrs["carries"], op.regions
    carried = _settled(body, flags, count)
    own = (*carried, *flags[count:])
    state = [_spread_where(b, operands[i], carried[i] and not flags[i], size) for i in range(count)]
    arrays = [_turned(b, x) if flag else x for x, flag in zip(operands[count:], flags[count:], strict=True)]
    rows: list[bool] = []

    def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        results, found = batched(inner, body, params, own, size)
        rows.extend(found[count:])
        return [_spread_where(inner, v, i < count and carried[i] and not found[i], size) for i, v in enumerate(results)]

    region = build_region(b, _with_axis(body.params, own, size), build)
    made = b.emit(op.opdef, (*state, *arrays), (region,), **op.attrs)
    final = [_spread_where(b, v, not carried[i], size) for i, v in enumerate(made[:count])]
    return (
        *final,
        *(_turned(b, v) if flag else spread(b, v, size) for v, flag in zip(made[count:], rows, strict=True)),
    )


def _spread_where(b: Builder, value: Value, wanted: bool, size: Dim) -> Value:
    return spread(b, value, size) if wanted else value


# --- while --------------------------------------------------------------------------------------------------------


def while_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    raise UnsupportedOpError(
        "a while loop has no derivative backward: how many steps it will take is not known before it runs.",
        loc=op.loc,
        remedy="use dyn.lax.scan, or dyn.lax.fori_loop with bounds that are numbers or dimensions; forward, with jvp "
        "or jacfwd, it has one.",
    )


def while_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    condition, body = op.regions
    count, smooth = len(op.operands), _smooth(op.operands)
    state = [*op.operands, *(_or_zeros(b, tangents[i], op.operands[i]) for i in smooth)]

    def ask(inner: Builder, params: tuple[Value, ...]) -> tuple[Value, ...]:
        return splice(inner, without_effects(condition), params[:count])

    def step(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        given: list[Maybe] = [None] * count
        for place, i in enumerate(smooth):
            given[i] = params[count + place]
        results, found = _pushed(inner, body, params[:count], given)
        return [*results, *(_or_zeros(inner, found[i], results[i]) for i in smooth)]

    regions = (build_region(b, _types(state), ask), build_region(b, _types(state), step))
    made = b.emit(op.opdef, tuple(state), regions)
    result: list[Maybe] = [None] * count
    for place, i in enumerate(smooth):
        result[i] = made[count + place]
    return tuple(result)


def while_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    """Batch a loop. Where the condition differs from example to example, it goes on for as long as one example does; a
    loop that has effects runs for one example after the other."""
    condition, body = op.regions
    count = len(operands)
    carried = _settled(body, flags, count)
    each = differing(condition, carried)[0]
    if each and has_effect(op):
        return one_by_one(b, op, operands, flags, size)
    if each:
        carried = [True] * count
    state = [_spread_where(b, operands[i], carried[i] and not flags[i], size) for i in range(count)]
    types = _with_axis(body.params, carried, size)

    def asked(inner: Builder, params: tuple[Value, ...]) -> Value:
        return batched(inner, condition, params, carried, size)[0][0]

    def ask(inner: Builder, params: tuple[Value, ...]) -> tuple[Value, ...]:
        going = asked(inner, params)
        return (inner.op("reduce", going, axes=(0,), combine="or", nonempty=False) if each else going,)

    def step(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        results, found = batched(inner, body, params, carried, size)
        full = [_spread_where(inner, v, carried[i] and not found[i], size) for i, v in enumerate(results)]
        if not each:
            return full
        going = asked(inner, params)
        return [_chosen(inner, going, new, old) for new, old in zip(full, params, strict=True)]

    made = b.emit(op.opdef, tuple(state), (build_region(b, types, ask), build_region(b, types, step)))
    return tuple(_spread_where(b, v, not carried[i], size) for i, v in enumerate(made))


def _chosen(b: Builder, going: Value, new: Value, old: Value) -> Value:
    """The new value for the examples that go on, the old one for the others."""
    if new is old:
        return old
    wide = b.op("broadcast_in_dim", going, shape=new.shape, dims=(0,)) if len(new.shape) > 1 else going
    return b.op("select", wide, new, old)


# --- choices ------------------------------------------------------------------------------------------------------


def choice_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    index, *given = op.operands
    known = {j: ct for j, ct in enumerate(cts) if ct is not None}
    smooth = _smooth(given)
    operands = [*given, *known.values()]

    def backward(branch: Region) -> Region:
        def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
            own: list[Maybe] = [None] * len(cts)
            for place, j in enumerate(known):
                own[j] = params[len(given) + place]
            found = _pulled(inner, branch, params[: len(given)], own)
            return [_or_zeros(inner, found[i], given[i]) for i in smooth]

        return build_region(b, _types(operands), build)

    made = b.emit(op.opdef, (index, *operands), tuple(backward(branch) for branch in op.regions))
    result: list[Maybe] = [None] * len(op.operands)
    for place, i in enumerate(smooth):
        result[1 + i] = made[place]
    return tuple(result)


def choice_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    index, *given = op.operands
    moving = {i: tangent for i, tangent in enumerate(tangents[1:]) if tangent is not None}
    smooth = _smooth(op.results)
    if not moving:
        return (None,) * len(op.results)
    operands = [*given, *moving.values()]

    def forward(branch: Region) -> Region:
        def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
            own: list[Maybe] = [None] * len(given)
            for place, i in enumerate(moving):
                own[i] = params[len(given) + place]
            results, found = _pushed(inner, branch, params[: len(given)], own)
            return [_or_zeros(inner, found[j], results[j]) for j in smooth]

        return build_region(b, _types(operands), build)

    made = b.emit(op.opdef, (index, *operands), tuple(forward(branch) for branch in op.regions))
    result: list[Maybe] = [None] * len(op.results)
    for place, j in enumerate(smooth):
        result[j] = made[place]
    return tuple(result)


def choice_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    """Batch a choice. Where it differs from example to example, all branches run, and each example takes from its own;
    where branches have effects, the choice is made for one example after the other."""
    index, *given = operands
    own = flags[1:]
    if not flags[0]:

        def many(branch: Region) -> Region:
            def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
                results, found = batched(inner, branch, params, own, size)
                return [_spread_where(inner, v, not flag, size) for v, flag in zip(results, found, strict=True)]

            return build_region(b, _with_axis(branch.params, own, size), build)

        return b.emit(op.opdef, operands, tuple(many(branch) for branch in op.regions), **op.attrs)
    if has_effect(op):
        return one_by_one(b, op, operands, flags, size)
    takers = _takers(b, index, len(op.regions))
    made = [_taken(b, branch, mine, given, own, size) for branch, mine in zip(op.regions, takers, strict=True)]
    chosen = made[-1]
    for mine, results in reversed([*zip(takers, made, strict=True)][:-1]):
        chosen = [_chosen(b, mine, new, old) for new, old in zip(results, chosen, strict=True)]
    return tuple(chosen)


def _takers(b: Builder, index: Value, count: int) -> list[Value]:
    """Masks of the examples that take each of ``count`` branches."""
    if index.dtype is dtypes.bool_:
        return [index, b.op("not", index)]
    a = Arithmetic(b)
    takers = [a.cmp(index, "EQ", number) for number in range(count - 1)]
    others = a.cmp(index, "EQ", index)
    for mine in takers:
        others = b.op("and", others, b.op("not", mine))
    return [*takers, others]


def _of_takers(b: Builder, mine: Value, value: Value) -> Value:
    """A value through which no derivative comes but of the examples that take a branch: the branch may have none of the
    others, as a root of a negative number has none, and 0 times NaN is NaN. Nothing is left of it in a program that is
    not differentiated. (As JAX does.)

    ``mine`` is a mask of the examples, or whether there are any.
    """
    old = b.op("stop_gradient", value)
    if mine.shape:
        return _chosen(b, mine, value, old)
    return b.op("select", b.op("broadcast_in_dim", mine, shape=value.shape, dims=()), value, old)


def _taken(
    b: Builder, branch: Region, mine: Value, given: Sequence[Value], flags: Sequence[bool], size: Dim
) -> list[Value]:
    """The results of a branch for all examples; of one that is dear, or has demands, if any of them takes it."""
    anyone = b.op("reduce", mine, axes=(0,), combine="or", nonempty=False)
    given = [
        _of_takers(b, mine if flag else anyone, value) if value.dtype.is_inexact else value
        for value, flag in zip(given, flags, strict=True)
    ]

    def run(inner: Builder, params: Sequence[Value]) -> list[Value]:
        *own, takers = params

        def spreads(value: Value) -> Value:
            return _of_takers(inner, takers, spread(inner, value, size))

        results, found = batched(inner, branch, own, flags, size, spreads)
        return [_spread_where(inner, v, not flag, size) for v, flag in zip(results, found, strict=True)]

    given = [*given, mine]
    dear = (OpKind.CONTROL, OpKind.OPAQUE)
    if not branch.demands and not any(op.opdef.kind in dear for op in branch.ops):
        return run(b, given)
    region = build_region(b, _types(given), run)
    nothing = build_region(b, _types(given), lambda inner, _: [zeros(inner, v.type) for v in region.results])
    return list(b.op_all("if", anyone, *given, regions=(region, nothing)))
