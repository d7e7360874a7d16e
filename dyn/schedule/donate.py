"""Donated arguments: which results may lie where an argument lay, and what is saved by that.

It is decided once for all shapes. A result takes the memory of a donated argument of the same dtype and, as the facts
prove, the same number of bytes, if nothing reads the argument once something writes the result; or if the launch that
does both first is *in place*:

* each element of the result is stored after the last read of the argument's element of that place, in one iteration,
  that of a contraction's epilogue too; or
* it is a scatter that copies the argument before it updates the copy, in the same launch or in a later one. It gets
  variants that leave the copy out, so that a step costs what it changes, and not what there is.

Whether the memory is free to be taken, each call says for itself: the host program is ready for both. A function
outside of the program may raise, and then donated memory is as it was: nothing is taken that is written before the last
call of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.core import Value
from dyn.schedule.cost import iteration_cost
from dyn.schedule.kernel import Buffer, Kernel, Load, Loop, Stmt, Store, TileContract, Update
from dyn.schedule.kernel_verifier import check
from dyn.schedule.kernel_walks import stmt_exprs, walk_exprs, walk_stmts
from dyn.schedule.launch import Body, Launch, Variant, aliases, walk_launches
from dyn.shapes import Dim, free_symbols, substitute
from dyn.stitch.groups import GroupKind, Plan


@record()
class Reuse:
    """The result number ``output`` may lie where the argument number ``input`` lies."""

    output: int
    input: int


@record(eq=False)
class Donations:
    """The launches, some with variants in place; who takes what; and the arguments that no result could ever take."""

    launches: tuple[Launch, ...]
    reuses: tuple[Reuse, ...]
    useless: tuple[int, ...]


def stored_results(plan: Plan) -> tuple[Value, ...]:
    """For each result of the function the value whose memory it is: itself, or what it is a view of."""
    found: list[Value] = []
    for result in plan.function.results:
        base = result
        while base not in plan.stored:
            base = plan.producers[base].operands[0]
        found.append(base)
    return tuple(found)


def donate(plan: Plan, launches: tuple[Launch, ...], donated: Sequence[int]) -> Donations:
    """Match results with donated arguments.

    First each takes what the launch that writes it is the last to read, such as the weights that a step updates; then
    what else there is. In both cases it is in their order, one of its own shape before others.
    """
    # A call may still fail once a size is measured, when an argument's memory must be as it was.
    if not donated or any(launch.measures is not None for launch in walk_launches(launches)):
        return Donations(launches, (), tuple(donated))
    matcher = _Matcher(plan, launches)
    params, results = plan.function.params, plan.function.results
    calls = [time for time, launch in enumerate(launches) if any(one.callee for one in walk_launches((launch,)))]

    def fits(output: int, number: int) -> bool:
        return matcher.fits(output, params[number]) and not (calls and matcher.written(output) <= calls[-1])

    alike: dict[tuple[DType, Dim], list[int]] = {}
    for number in donated:
        alike.setdefault((params[number].dtype, params[number].type.nbytes), []).append(number)
    free = dict.fromkeys(donated)
    taken: dict[int, int] = {}
    for own in (True, False):
        for output, result in enumerate(results):
            if output in taken:
                continue
            # A training step has hundreds of results and of arguments: most are told apart by their sizes.
            agreeing = [numbers for kind, numbers in alike.items() if matcher.agree(result, *kind)]
            as_large = [n for numbers in agreeing for n in numbers if n in free]
            if own:
                as_large = [n for n in as_large if matcher.last_read(params[n]) == matcher.written(output)]
            in_order = sorted(as_large, key=lambda number: params[number].shape != result.shape)
            chosen = next((number for number in in_order if fits(output, number)), None)
            if chosen is not None:
                del free[chosen]
                taken[output] = chosen
    reuses = [Reuse(output, taken[output]) for output in sorted(taken)]
    useless = [n for n in free if not any(fits(output, n) for output in range(len(results)))]
    return Donations(matcher.adapted(reuses), tuple(reuses), tuple(useless))


def update_in_place(
    plan: Plan, launches: tuple[Launch, ...], carried: Sequence[int]
) -> tuple[tuple[Launch, ...], frozenset[int]]:
    """The launches of a loop's step, and which of the ``carried`` values it may write the next one of over.

    Nobody else reads a carried value: where it can be taken, it is.
    """
    matcher = _Matcher(plan, launches)
    found = [Reuse(i, i) for i in carried if matcher.fits(i, plan.function.params[i])]
    changed: list[Launch] = []
    for launch in matcher.adapted(found):
        inside = tuple([replace(v, in_place=None) for v in launch.variants if v.in_place is not None])
        changed.append(replace(launch, variants=inside) if inside else launch)
    return tuple(changed), frozenset(reuse.output for reuse in found)


class _Lifetimes:
    """Lifetimes of values, in launches that follow one another.

    What a loop hands on unchanged is the memory that it was: to read the one is to read the other.
    """

    def __init__(self, launches: tuple[Launch, ...]) -> None:
        same = aliases(launches)
        #: The launches over values that are memory of their own.
        self.launches = tuple([_over(launch, same) for launch in launches]) if same else launches
        #: The first and the last launch that touches a value.
        self.first: dict[Value, int] = {}
        self.last: dict[Value, int] = {}
        for time, launch in enumerate(self.launches):
            for value in launch.buffers:
                self.first.setdefault(value, time)
                self.last[value] = time

    def fits(self, base: Value, param: Value) -> bool:
        """Whether a value may lie in a parameter's memory: of no elements, which no launch writes, it need not."""
        return base in self.first and all(self._fits(base, param, excluded) for excluded in self._alternatives(base))

    def _fits(self, base: Value, param: Value, excluded: frozenset[int]) -> bool:
        """Whether a value may lie in a parameter's memory where some launches don't run."""
        touched = [(t, launch) for t, launch in enumerate(self.launches) if t not in excluded] if excluded else []
        written, read = self.first[base], self.last.get(param, -1)
        if excluded:
            written = next(t for t, launch in touched if base in launch.buffers)
            read = max((t for t, launch in touched if param in launch.buffers), default=-1)
        return read < written or (read == written and _is_in_place(self.launches[read], base, param))

    def _alternatives(self, base: Value) -> list[frozenset[int]]:
        """For each way in which the group that writes a value may run: the launches of it that don't."""
        group = self.launches[self.first[base]].group
        own = [(t, launch) for t, launch in enumerate(self.launches) if launch.group is group]
        conditions = {condition for _, launch in own for condition in launch.unless}
        never = [frozenset(t for t, launch in own if launch.when is not None)]
        for condition in sorted(conditions, key=str):
            never.append(frozenset(t for t, la in own if condition in la.unless or la.when not in (None, condition)))
        return never if conditions else [frozenset()]


def _choices(launches: tuple[Launch, ...]) -> list[tuple[Launch, ...]]:
    """The launches that run one after the other, for each number of a body that alternatives may choose, the general
    plan's first.

    Which one is chosen elsewhere makes no difference: what alternatives make, each of them does.
    """
    most = max((len(launch.bodies) for launch in launches if launch.is_choice), default=1)
    return [tuple([inner for launch in launches for inner in _body(launch, -1 - n)]) for n in range(most)]


def _body(launch: Launch, number: int) -> list[Launch]:
    """A launch; of alternatives those of the body with a number from the last, over the values outside."""
    if not launch.is_choice:
        return [launch]
    body = launch.bodies[number if -number <= len(launch.bodies) else -1]
    outside = dict(zip((*body.params, *body.results), launch.buffers, strict=True))
    return [replace(x, buffers=tuple([outside.get(v, v) for v in x.buffers])) for x in body.launches]


def _without(launch: Launch, whole: Launch, number: int) -> Launch:
    """Alternatives without the body that has a number from the last in the ``whole`` of them; other launches as they
    are."""
    if not launch.is_choice or number >= len(whole.bodies):
        return launch
    gone = whole.bodies[-1 - number]
    return replace(launch, bodies=tuple([body for body in launch.bodies if body is not gone]))


class _Matcher:
    """The results that may lie in parameters' memory."""

    def __init__(self, plan: Plan, launches: tuple[Launch, ...]) -> None:
        self.function, self.launches = plan.function, launches
        self.bases = stored_results(plan)
        self.whole = _Lifetimes(launches)
        self.choices = [_Lifetimes(some) for some in _choices(launches)]
        self.equal: dict[tuple[Dim, Dim], bool] = {}

    def fits(self, output: int, param: Value) -> bool:
        """Whether a result may lie in a parameter's memory."""
        result, base = self.function.results[output], self.bases[output]
        if base.dtype is not param.dtype or not self.agree(result, param.dtype, param.type.nbytes):
            return False
        return self.choices[0].fits(base, param)

    def written(self, output: int) -> int:
        """The launch that first writes a result."""
        return self.whole.first[self.bases[output]]

    def last_read(self, param: Value) -> int:
        """The last launch that reads a parameter; -1 where none does."""
        return self.whole.last.get(param, -1)

    def agree(self, result: Value, dtype: DType, nbytes: Dim) -> bool:
        """Whether a result is of a dtype, and as large as that."""
        return result.dtype is dtype and self._equal(result.type.nbytes, nbytes)

    def adapted(self, reuses: Sequence[Reuse]) -> tuple[Launch, ...]:
        """The launches, whose kernels say what of their buffers may overlap, and scatters that update a donated
        argument's memory with variants that copy nothing.

        Of alternatives those are left that may do so where the general plan does.
        """
        changed, whole = list(self.launches), self.whole.launches
        for number, choice in enumerate(self.choices[1:], 1):
            for reuse in reuses:
                base, param = self.bases[reuse.output], self.function.params[reuse.input]
                if not choice.fits(base, param):
                    touch = [n for n, one in enumerate(whole) if base in one.buffers or param in one.buffers]
                    for n in touch:
                        changed[n] = _without(changed[n], self.launches[n], number)
        for reuse in reuses:
            base, param = self.bases[reuse.output], self.function.params[reuse.input]
            writer = changed[self.whole.first[base]].group
            for time, launch in enumerate(changed):
                if launch.group is writer and _copies(whole[time], base, param) and self._is_last(param, time):
                    at = launch.buffers.index(base)
                    inside = tuple(_without_copy(variant, at, reuse.output) for variant in launch.variants)
                    changed[time] = replace(launch, variants=(*inside, *launch.variants))
        pairs = [(self.bases[reuse.output], self.function.params[reuse.input]) for reuse in reuses]
        return _overlapping(changed, pairs)

    def _is_last(self, param: Value, time: int) -> bool:
        """Whether a launch touches a parameter, and after it none but launches that run in its stead."""
        launch = self.whole.launches[time]
        after = [other for other in self.whole.launches[time + 1 :] if param in other.buffers]
        return param in launch.buffers and all(la.group is launch.group and la.when in launch.unless for la in after)

    def _equal(self, a: Dim, b: Dim) -> bool:
        found = self.equal.get((a, b))
        if found is None:
            found = self.equal[a, b] = a == b or self.function.facts.eq(a, b).proved
        return found


def _over(launch: Launch, same: Mapping[Value, Value]) -> Launch:
    """A launch over the values whose memory its buffers are."""
    return replace(launch, buffers=tuple([same.get(value, value) for value in launch.buffers]))


def _overlapping(launches: Sequence[Launch], pairs: Sequence[tuple[Value, Value]]) -> tuple[Launch, ...]:
    """Launches whose kernels say that a result and the argument whose memory it may take can be one."""
    if not pairs:
        return tuple(launches)
    same = aliases(launches)
    return tuple([_one_memory(launch, _over(launch, same).buffers, pairs) for launch in launches])


def _one_memory(launch: Launch, buffers: Sequence[Value], pairs: Sequence[tuple[Value, Value]]) -> Launch:
    """A launch whose kernels say which of its buffers, the memory of these values, can be one."""
    met = [pair for pair in pairs if pair[0] in buffers and pair[1] in buffers]
    if not met:
        return launch
    if launch.is_choice:
        bodies: list[Body] = []
        for body in launch.bodies:
            inside = list(zip(buffers, (*body.params, *body.results), strict=True))
            own = [(w, r) for pair in met for a, w in inside if a is pair[0] for b, r in inside if b is pair[1]]
            bodies.append(replace(body, launches=_overlapping(body.launches, own)))
        return replace(launch, bodies=tuple(bodies))
    values = {value for pair in met for value in pair}
    numbers = frozenset([number for number, value in enumerate(buffers) if value in values])
    variants = [replace(v, kernel=replace(v.kernel, overlapping=numbers)) for v in launch.variants]
    return replace(launch, variants=tuple(variants))


def _copies(launch: Launch, base: Value, param: Value) -> bool:
    """Whether a launch of a scatter copies an argument to its result, and reads nothing else of it."""
    if launch.group.kind is not GroupKind.SCATTER or not {base, param} <= {*launch.buffers}:
        return False
    out, source = launch.buffers.index(base), launch.buffers.index(param)
    return all(_only_copies(v.kernel, v.kernel.buffers[out], v.kernel.buffers[source]) for v in launch.variants)


def _is_in_place(launch: Launch, written: Value, read: Value) -> bool:
    """Whether every kernel of a launch may have one memory for what it reads and what it writes."""
    if launch.call is not None or launch.bodies or launch.buffers.count(read) != 1:
        return False
    out, source = launch.buffers.index(written), launch.buffers.index(read)
    updates = any(isinstance(stmt, Update) for v in launch.variants for stmt in walk_stmts(v.kernel.body))
    allowed = _only_copies if updates else _meets_itself
    return all(allowed(v.kernel, v.kernel.buffers[out], v.kernel.buffers[source]) for v in launch.variants)


def _meets_itself(kernel: Kernel, out: Buffer, source: Buffer) -> bool:
    """Whether each iteration reads of ``source`` just the element that it stores to ``out``, before it does so."""
    body, variables = kernel.body, set[object]()
    while len(body) == 1 and isinstance(body[0], Loop) and not (body[0].folds or body[0].carries):
        if _loads(body[0], source):  # for the number of its iterations
            return False
        variables.add(body[0].var)
        body = body[0].body
    if len(body) == 1 and isinstance(body[0], TileContract):
        # Its epilogue runs once for each row and column, when all of their products are summed up elsewhere.
        tile = body[0]
        if any(isinstance(e, Load) and e.buffer is source for e in walk_exprs((tile.lhs, tile.rhs))):
            return False
        variables |= {tile.row, tile.col}
        body = tile.epilogue
    # Beside stores there may be folds of other things.
    folds = [inner for stmt in body if not isinstance(stmt, Store) for inner in walk_stmts((stmt,))]
    if not all(isinstance(stmt, Loop) and not _loads(stmt, source) for stmt in folds):
        return False
    places = [number for number, stmt in enumerate(body) if isinstance(stmt, Store) and stmt.buffer is out]
    if len(places) != 1:
        return False
    first = place = places[0]
    while first and isinstance(body[first - 1], Store):
        first -= 1
    store, beside = body[place], tuple(itertools.takewhile(lambda stmt: isinstance(stmt, Store), body[place + 1 :]))
    # An index without one of the variables is one of many iterations: a later one would read what was stored.
    if not isinstance(store, Store) or not variables <= set(free_symbols(store.index)):
        return False
    # What neighbours share is evaluated for the first of them.
    evaluated = {id(load) for stmt in body[first : place + 1] for load in _loads(stmt, source)}
    if any(id(load) not in evaluated for stmt in beside for load in _loads(stmt, source)):
        return False
    if any(_loads(stmt, source) for stmt in body[place + 1 + len(beside) :]):
        return False
    loads = [load for stmt in body[: place + 1] for load in _loads(stmt, source)]
    return all(load.index == store.index and not load.bound for load in loads)


def _only_copies(kernel: Kernel, out: Buffer, source: Buffer) -> bool:
    """Whether a scatter reads ``source`` for nothing but to copy it to the same places of ``out``."""
    for stmt in walk_stmts(kernel.body):
        loads = _loads(stmt, source)
        if isinstance(stmt, Store) and stmt.buffer is out:
            value = stmt.value
            if not isinstance(value, Load) or value.buffer is not source:
                return False
            if value.index != stmt.index or value.bound or value.mask is not None:
                return False
        elif loads:
            return False
    return True


def _loads(stmt: Stmt, source: Buffer) -> list[Load]:
    return [e for e in walk_exprs(stmt_exprs(stmt)) if isinstance(e, Load) and e.buffer is source]


def _without_copy(variant: Variant, at: int, output: int) -> Variant:
    """A scatter's variant for a result that holds its operand's elements already; of no blocks where it only copies."""
    kernel = variant.kernel
    body = _updates(kernel.body, kernel.buffers[at])
    if not body:
        return replace(variant, grid=0, note=f"{variant.note}, in place", in_place=output)
    updating = replace(kernel, body=body, in_place=True, note=f"{kernel.note}, in place")
    check(updating)
    loops, block = updating.grid()
    cost = iteration_cost(block, loops)
    cost = cost if isinstance(cost, int) else substitute(cost, dict(zip(kernel.dims, variant.dims, strict=True)))
    return replace(variant, kernel=updating, cost=cost, note=f"{variant.note}, in place", in_place=output)


def _updates(body: tuple[Stmt, ...], out: Buffer) -> tuple[Stmt, ...]:
    """A body without its stores to ``out``, and without the loops that nothing is left in."""
    left: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop):
            inner = _updates(stmt.body, out)
            if inner or stmt.folds or stmt.carries:
                left.append(replace(stmt, body=inner))
        elif isinstance(stmt, Update) or not (isinstance(stmt, Store) and stmt.buffer is out):
            left.append(stmt)
    return tuple(left)
