"""Host programs as data: binding sizes, checks, arena layout, and the text of errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given

from dyn.errors import NotYetError
from dyn.ir.binding import AxisCheck, Bind
from dyn.ir.core import Function, Value
from dyn.lower.host import Fault, HostProgram, build_host
from dyn.lower.host_errors import render_failure
from dyn.lower.host_llvm.emit import emit_host
from dyn.lower.layout import aligned
from dyn.schedule.plan import lower_plan
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, Symbol, SymExpr, as_dim, evaluate, floordiv
from dyn.shapes import symbol as new_symbol
from dyn.stitch.plan import stitch
from tests.stitch.models import LOC, TARGET, Model, optimized, transformer
from tests.stitch.programs import Program, programs
from tests.stitch.test_plans import PROGRAMS


@pytest.mark.parametrize("name", ["softmax", "attention", "residual", "undecided", "views", "scalars"])
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"host_{name}.txt", optimized(PROGRAMS[name]()).host.text())


def test_text_of_a_transformer(golden: Callable[[str, str], None]) -> None:
    golden("host_transformer.txt", optimized(transformer(2)).host.text())


# --- binding ----------------------------------------------------------------------------------------------------------


def _host(*shapes: tuple[Dim, ...], facts: Facts = Facts.EMPTY, hidden: bool = False) -> HostProgram:
    """The host program of the identity of parameters with these shapes."""
    m = Model("f")
    m.b.facts = facts
    params = [m.param(f"p{i}", *shape, hidden=hidden) for i, shape in enumerate(shapes)]
    function = m.function(m.op("negate", params[0]))
    plan = stitch(function)
    return build_host(plan, lower_plan(plan, TARGET), ())


n_symbol, m_symbol = new_symbol("n", "p0.shape[0]"), new_symbol("m", "p1.shape[0]")
n, m = as_dim(n_symbol), as_dim(m_symbol)


def test_a_symbol_is_bound_where_it_stands_alone_and_checked_elsewhere() -> None:
    host = _host((n, 4), (n, m))
    assert host.binds == (Bind(n_symbol, 0, 0), Bind(m_symbol, 1, 1))
    assert host.sites[:2] == (AxisCheck(0, 1, 4), AxisCheck(1, 0, n))


def test_an_expression_of_one_unknown_is_solved_and_checked() -> None:
    host = _host((2 * n + 1,), (n, n * m))
    assert host.binds == (Bind(n_symbol, 1, 0), Bind(m_symbol, 1, 1, n, 0))
    assert AxisCheck(0, 0, 2 * n + 1) in host.sites
    assert AxisCheck(1, 1, n * m) in host.sites


def test_captured_arrays_of_known_shape_are_not_checked_at_each_call() -> None:
    assert not [s for s in _host((4, 5), (6,), hidden=True).sites if isinstance(s, AxisCheck)]


def test_a_symbol_that_no_argument_gives() -> None:
    with pytest.raises(NotYetError) as caught:
        _host((floordiv(n, 2),))
    assert str(caught.value) == (
        "the dimension n (p0.shape[0]) follows from no argument's shape.\n"
        "  help: let an axis of some argument be that dimension alone."
    )


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "wanted"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_aligned(size: int, wanted: int) -> None:
    assert aligned(size) == wanted
    assert evaluate(aligned(n), {n_symbol: size}) == wanted


def _check_layout(function: Function, host: HostProgram, envs: list[dict[Symbol, int]]) -> None:
    """Every slot holds what lies in it, and no two values that are alive at once share one."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for _, run in itertools.groupby(host.launches, key=lambda launch: launch.group):
        launches = list(run)
        assert {v for la in launches for v in la.buffers} >= set(launches[0].group.outputs)
    for time, launch in enumerate(host.launches):
        written = {*launch.group.outputs, *launch.temporaries}
        assert {v for v in launch.buffers if v in launch.temporaries} == set(launch.temporaries)
        for value in launch.buffers:
            if value in written:
                first.setdefault(value, time)
            else:
                assert value in first or host.places[value].kind == "input"
            last[value] = time
    alive = [(v, host.places[v]) for v in first if host.places[v].kind == "arena"]
    for i, (a, place) in enumerate(alive):
        for b, other in alive[:i]:
            if place == other:
                assert last[a] < first[b] or last[b] < first[a], "two live values share a slot"
        for env in envs:
            assert evaluate(a.type.nbytes, env) <= evaluate(host.slots[place.number], env)
    for value in first:
        assert host.places[value].kind != "input"
    assert len({host.places[v] for v in host.places if host.places[v].kind == "output"}) == len(function.results)


def test_layers_use_the_same_memory() -> None:
    two, ten = (optimized(transformer(layers)).host for layers in (2, 10))
    assert [str(s) for s in two.slots] == [str(s) for s in ten.slots]
    _check_layout(ten.function, ten, [dict.fromkeys(ten.symbols, size) for size in (0, 1, 7, 100)])


@given(programs())
def test_layout_of_random_programs(program: Program) -> None:
    try:
        done = optimized(program.function)
    except NotYetError:
        return
    envs = [dict.fromkeys(done.host.symbols, size) for size in (0, 1, 5)]
    relations = done.function.facts.relations  # what is checked before anything is laid out
    _check_layout(done.function, done.host, [env for env in envs if all(r.holds(env) for r in relations)])


# --- native code ------------------------------------------------------------------------------------------------------


def test_the_same_work_is_emitted_once() -> None:
    """A layer more is more launches, not more arithmetic."""
    texts: list[str] = []
    for layers in (2, 3, 4):
        host = optimized(transformer(layers)).host
        texts.append(emit_host(host, [[(0, 0) for _ in launch.variants] for launch in host.launches], "f"))
    products = [t.count("llvm.smul") for t in texts]
    assert products[0] == products[1] == products[2]
    lines = [len(t.splitlines()) for t in texts]
    assert lines[2] - lines[1] == lines[1] - lines[0]


# --- errors -----------------------------------------------------------------------------------------------------------


def _failure(host: HostProgram, site: object, sizes: dict[Symbol, int]) -> str:
    shapes = [[evaluate(d, sizes) if isinstance(d, SymExpr) else d for d in p.shape] for p in host.function.params]
    values = [sizes[s] for s in host.symbols]
    return str(render_failure(host, host.sites.index(site), values, shapes))  # pyright: ignore[reportArgumentType]


def test_a_declared_number() -> None:
    host = _host((n, 4))
    error = render_failure(host, 0, [3], [(3, 5)])
    assert str(error) == (
        "p0.shape[1] is 5, and it is declared to be 4.\n"
        "  help: pass an array whose axis 1 has 4 elements, or change shapes=."
    )


def test_two_axes_of_one_name() -> None:
    host = _host((n,), (n, m))
    error = render_failure(host, host.sites.index(AxisCheck(1, 0, n)), [3, 5], [(3,), (4, 5)])
    assert str(error) == (
        "p1.shape[0] is 4, and it must be n = 3.\n"
        "  n is p0.shape[0] = 3\n"
        "  help: pass arrays that agree, or give the two axes different names in shapes=."
    )


_ORIGINS = {"n": "p0.shape[0]", "m": "p1.shape[0]"}


@pytest.mark.parametrize(
    ("kind", "lhs", "rhs", "sizes", "names", "text"),
    [
        (RelKind.EQ, n, m, (3, 4), "nm", "n == m is required, but n is 3 and m is 4"),
        (RelKind.GE, n, m, (3, 4), "nm", "n >= m is required, but n is 3 and m is 4"),
        (RelKind.NONZERO, n, 0, (0, 4), "n", "n != 0 is required, but n is 0"),
        (RelKind.DIVIDES, 8, n, (3, 4), "n", "n % 8 == 0 is required, but n is 3"),
        (RelKind.DIVIDES, n, m, (3, 4), "nm", "m % n == 0 is required, but n is 3 and m is 4"),
        (RelKind.SAME_NUMEL, n * 2, m * n, (3, 4), "nm",
         "2*n == n*m is required, but 2*n is 6 and n*m is 12 (n is 3, m is 4)"),
        (RelKind.BROADCASTS, n, m, (3, 4), "nm", "n broadcasts with m is required, but n is 3 and m is 4"),
    ],
)  # fmt: skip
def test_relations(kind: RelKind, lhs: Dim, rhs: Dim, sizes: tuple[int, int], names: str, text: str) -> None:
    relation = Relation(kind, lhs, rhs, Reason("the rows are added", LOC))
    host = _host((n,), (m,), facts=Facts.EMPTY.assume(relation))
    shown = _failure(host, relation, {n_symbol: sizes[0], m_symbol: sizes[1]})
    origins = [
        f"  {name} is {origin} = {sizes['nm'.index(name)]}" for name, origin in _ORIGINS.items() if name in names
    ]
    whole = f"{text}: the rows are added."
    assert shown.splitlines() == [whole, *origins, "  at model.py:1", "  help: pass arguments whose shapes satisfy it."]


def test_a_declaration() -> None:
    facts = Facts.EMPTY.declare(n_symbol, min=8, max=64, multiple_of=8, reason=Reason("dyn.Dim('n') says so"))
    host = _host((n,), facts=facts)
    assert _failure(host, facts.declarations[0], {n_symbol: 7}) == (
        "p0.shape[0] is 7, and 8 <= n <= 64, n % 8 == 0 was declared.\n"
        "  help: pass an array of a size that was declared, or change the declaration of n."
    )


def test_faults() -> None:
    host = optimized(transformer(1)).host
    shapes = [(2, 3), (2, 3), *[(1,)] * (len(host.function.params) - 2)]
    sizes = [{"b": 2, "s": 3}[s.name] for s in host.symbols[:2]] + [2, 3][: len(host.symbols) - 2]
    large = render_failure(host, host.sites.index(Fault.TOO_LARGE), sizes, shapes)
    assert str(large) == (
        "an array of this call would have more than 2^63 bytes (arguments: ids (2, 3), mask (2, 3)).\n"
        "  help: pass smaller arguments."
    )
    none = render_failure(host, host.sites.index(Fault.NO_MEMORY), sizes, shapes)
    assert isinstance(none, MemoryError)
    assert str(none).startswith("transformer: no memory for ")
    assert str(none).endswith(" bytes of intermediate arrays (arguments: ids (2, 3), mask (2, 3))")
