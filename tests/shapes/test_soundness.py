"""No PROVED fact is false on a concrete assignment that the facts allow, and no REFUTED one true.

Judged twice: by brute force over small sizes, for everything the room has; and by Z3, which knows no bound on sizes,
for affine relations with division by numbers.
"""

from __future__ import annotations

from typing import Any

import z3
from hypothesis import given
from hypothesis import strategies as st

from dyn.errors import ShapeError
from dyn.shapes import (
    Answer,
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Relation,
    RelKind,
    Symbol,
    broadcast,
    dim_max,
    dim_min,
    evaluate,
    product,
)
from tests.shapes.worlds import REASON, SYMBOLS, Env, affine, allowed, cut, dims, envs, quick, relations, value

BOX = 6
KINDS = st.sampled_from(["plain", "declared", "declared more"])


def build(kind: str, demands: list[Relation]) -> tuple[Facts, list[Relation], bool]:
    """Facts from declarations and demands; the demands made; whether the last one was impossible."""
    facts = Facts.EMPTY
    if kind != "plain":
        facts = facts.declare(SYMBOLS[0], min=1, reason=REASON).declare(SYMBOLS[1], max=5, reason=REASON)
    if kind == "declared more":
        facts = facts.declare(SYMBOLS[2], min=2, multiple_of=2, reason=REASON)
    for i, demand in enumerate(demands):
        try:
            facts = facts.assume(demand)
        except ShapeError:
            return facts, demands[: i + 1], True
    return facts, demands, False


def judge(answer: Answer, holds: bool, about: object) -> None:
    assert not (answer.proved and not holds), f"{about} is PROVED and false"
    assert not (answer.refuted and holds), f"{about} is REFUTED and true"


def check_world(facts: Facts, demands: list[Relation], impossible: bool, x: Dim, y: Dim) -> None:
    worlds = [env for env in envs(3, BOX) if allowed(facts, env)]
    answers = {kind: facts.ask(Relation(kind, x, y, REASON)) for kind in RelKind}
    simple, (lo, hi), divisor = facts.simplify(x), facts.bounds(x), facts.multiple(x)
    joined = None
    if facts.broadcasts(x, y).proved:
        joined = facts.simplify(broadcast(x, y))
    for env in worlds:
        # what was assumed follows from what is recorded, unless it has no value
        for demand in demands[:-1] if impossible else demands:
            if value(demand.lhs, env) is not None and value(demand.rhs, env) is not None:
                assert demand.holds(env), (demand.describe(), env)
        if impossible:
            assert not demands[-1].holds(env), (demands[-1].describe(), env)
        vx, vy = value(x, env), value(y, env)
        if vx is None:
            continue
        assert value(simple, env) == vx, (x, simple, env)
        assert lo is None or vx >= lo, (x, lo, env)
        assert hi is None or vx <= hi, (x, hi, env)
        assert vx % divisor == 0, (x, divisor, env)
        if vy is None:
            continue
        for kind, answer in answers.items():
            judge(answer, Relation(kind, x, y, REASON).holds(env), (kind, x, y, env))
        if joined is not None:
            assert value(joined, env) == value(broadcast(x, y), env)


@given(KINDS, st.lists(relations(affine()), max_size=4), affine(), affine())
@quick
def test_affine_facts(kind: str, demands: list[Relation], x: Dim, y: Dim):
    check_world(*build(kind, demands), x, y)


@given(KINDS, st.lists(relations(cut()), max_size=3), cut(), cut())
@quick
def test_facts_of_cuts_and_joins(kind: str, demands: list[Relation], x: Dim, y: Dim):
    check_world(*build(kind, demands), x, y)


@given(KINDS, st.lists(relations(dims(leaves=4)), max_size=3), dims(leaves=4), dims(leaves=4))
@quick
def test_all_facts(kind: str, demands: list[Relation], x: Dim, y: Dim):
    check_world(*build(kind, demands), x, y)


SHAPES = st.lists(st.one_of(affine(), st.integers(0, 4)), max_size=3).map(tuple)


@given(KINDS, st.lists(st.tuples(SHAPES, SHAPES), max_size=2), SHAPES, SHAPES)
@quick
def test_element_counts(kind: str, pairs: list[tuple[tuple[Dim, ...], ...]], x: tuple[Dim, ...], y: tuple[Dim, ...]):
    demands = [Relation(RelKind.SAME_NUMEL, product(a), product(b), REASON, a, b) for a, b in pairs]
    facts, demands, impossible = build(kind, demands)
    check_world(facts, demands, impossible, product(x), product(y))
    answer = facts.same_numel(x, y)
    for env in envs(3, BOX):
        if allowed(facts, env):
            judge(answer, evaluate(product(x), env) == evaluate(product(y), env), (x, y, env))


# --- Z3 ----------------------------------------------------------------------------------------------------------

UNKNOWNS: dict[Symbol, Any] = {s: z3.Int(s.name) for s in SYMBOLS}


def to_z3(dim: Dim) -> Any:
    """The same integer for Z3; divisors are numbers."""
    if isinstance(dim, int):
        return z3.IntVal(dim)
    total: Any = z3.IntVal(dim.constant)
    for mono, coefficient in dim.terms:
        term: Any = z3.IntVal(coefficient)
        for atom, power in mono.factors:
            for _ in range(power):
                term = term * (UNKNOWNS[atom] if isinstance(atom, Symbol) else opaque_to_z3(atom))
        total = total + term
    return total


def opaque_to_z3(atom: Opaque) -> Any:
    a, b, *others = [to_z3(arg) for arg in atom.args]
    match atom.kind:
        case OpaqueKind.FLOORDIV:
            return a / b
        case OpaqueKind.MOD:
            return a % b
        case OpaqueKind.MIN | OpaqueKind.MAX:
            for other in [b, *others]:
                a = z3.If(a <= other if atom.kind is OpaqueKind.MIN else a >= other, a, other)
            return a
        case OpaqueKind.BROADCAST:
            raise AssertionError("not generated")


def relation_to_z3(relation: Relation) -> Any:
    a, b = to_z3(relation.lhs), to_z3(relation.rhs)
    match relation.kind:
        case RelKind.EQ | RelKind.SAME_NUMEL:
            return a == b
        case RelKind.GE:
            return a >= b
        case RelKind.NONZERO:
            return a != 0
        case RelKind.DIVIDES:
            return b % a == 0
        case RelKind.BROADCASTS:
            return z3.Or(a == b, a == 1, b == 1)


def divided() -> st.SearchStrategy[Dim]:
    """Affine expressions, and divisions and extrema of them."""
    number = st.integers(1, 6)
    return st.one_of(
        affine(),
        st.tuples(affine(), affine(), affine()).map(lambda t: dim_min(t[0], t[1]) + t[2]),
        st.tuples(affine(), affine(), affine()).map(lambda t: dim_max(t[0], dim_min(t[1], t[2]))),
        st.tuples(affine(), affine(), affine()).map(lambda t: t[0] - dim_max(t[0] + 1, t[1]) + dim_min(t[1], t[2])),
        st.tuples(affine(), number, affine(), number).map(lambda t: t[0] // t[1] + t[2] // t[3]),
        st.tuples(affine(), number, affine()).map(lambda t: dim_max(t[0] // t[1], t[2]) // t[1]),
        st.tuples(affine(), number, affine()).map(lambda t: t[0] // t[1] + t[2]),
        st.tuples(affine(), number, affine()).map(lambda t: t[0] % t[1] + t[2]),
    )


@given(KINDS, st.lists(relations(divided()), max_size=3), relations(divided()))
@quick
def test_z3_finds_no_counterexample(kind: str, demands: list[Relation], question: Relation):
    facts, demands, impossible = build(kind, demands)
    solver = z3.Solver()
    solver.set("timeout", 100)  # milliseconds; what Z3 does not decide in time is not judged
    for sym, unknown in UNKNOWNS.items():
        solver.add(unknown >= 0)
        for declared in [d for d in facts.declarations if d.symbol is sym]:
            solver.add(unknown >= declared.min, unknown % declared.multiple_of == 0)
            if declared.max is not None:
                solver.add(unknown <= declared.max)
    solver.add(*[relation_to_z3(relation) for relation in facts.relations])
    if impossible:
        solver.push()
        solver.add(relation_to_z3(demands[-1]))
        assert solver.check() != z3.sat, (demands[-1].describe(), solver.model())
        solver.pop()
    answer = facts.ask(question)
    if answer.unknown:
        return
    claim = relation_to_z3(question)
    solver.add(z3.Not(claim) if answer.proved else claim)
    assert solver.check() != z3.sat, (question.describe(), answer, facts, solver.model())


def test_the_judge_would_notice():
    """A false claim is caught: the tests above are not vacuous."""
    env: Env = dict.fromkeys(SYMBOLS, 3)
    wrong = Facts.EMPTY.eq(3, 3)
    try:
        judge(wrong, False, env)
    except AssertionError:
        return
    raise AssertionError("a false PROVED went unnoticed")
