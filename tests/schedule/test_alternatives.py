"""Alternatives: programs with undecided broadcasts, which are cut otherwise where sizes agree.

Which plan runs cannot be seen in a result, and no call waits for one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.api import Jitted
from dyn.backends.deferred import DeferredState, finish
from dyn.schedule import alternatives
from dyn.schedule.launch import Launch, walk_launches
from dyn.specialize.shared_code import CODES
from dyn.stitch.assumed_plans import Assumed, assumed_plans

Array = np.ndarray[Any, Any]
Shapes = Sequence[tuple[int, ...]]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Nothing is found that other tests have compiled."""
    CODES.clear()
    yield
    assert finish()


def _array(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def _arrays(shapes: Shapes) -> list[Array]:
    return [_array(shape, seed) for seed, shape in enumerate(shapes)]


def swiglu(a: Any, b: Any) -> Any:
    return a / (1 + dnp.exp(-a)) * b


def activated(x: Any, b: Any, r: Any) -> Any:
    return dnp.tanh(x + b) * x + r


def normed(x: Any, b: Any, r: Any, g: Any) -> Any:
    y = x + b + r
    d = y - dnp.mean(y, axis=-1, keepdims=True)
    return d / dnp.sqrt(dnp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * g


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 0.1 * m / (dnp.sqrt(v) + 1e-8), m, v


def _both(a: Any, b: Any, c: Any) -> Any:
    """A value that is a result and is read, and one between that nobody else reads."""
    e = dnp.exp(a)
    return e * 2, dnp.exp(e + b) + c


#: Programs, the ranks of their arguments, and the most launches of an alternative.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "swiglu": (swiglu, (2, 2), 1),
    "activated": (activated, (2, 2, 2), 1),
    "adam": (adam, (1, 1, 1, 1), 1),
    "both": (_both, (1, 1, 1), 1),
    "normed": (normed, (2, 1, 2, 1), 6),
}


def _choices(f: Jitted) -> list[Launch]:
    return [x for v in f.programs for x in walk_launches(v.optimized.launches) if x.is_choice]


def _ran(f: Callable[[], Any]) -> list[str]:
    with dyn.profile() as profile:
        f()
    return [launch.kernel.variant for launch in profile.events().launches]


def _bits(result: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in (result if isinstance(result, tuple) else (result,))]


def _sizes(rank: int, name: str) -> list[tuple[int, ...]]:
    if name == "normed":
        return [(40,), (1,)] if rank == 1 else [(5, 40), (1, 40), (5, 1), (0, 40), (5, 0)]
    return [(33,), (1,), (0,)] if rank == 1 else [(5, 33), (1, 33), (5, 1), (1, 1), (0, 33)]


def _cases(name: str) -> list[Shapes]:
    """All that broadcasts of the shapes of a program."""
    _, ranks, _ = PROGRAMS[name]
    found: list[Shapes] = []
    for shapes in itertools.product(*[_sizes(rank, name) for rank in ranks]):
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            continue
        found.append(shapes)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("first", [0, 1])
def test_results_have_the_bits_of_the_general_plan(name: str, first: int) -> None:
    program, _, most = PROGRAMS[name]
    cases = _cases(name)
    begin = cases[0] if first == 0 else [(*shape[:-1], 1) if n == 1 else shape for n, shape in enumerate(cases[0])]
    with config.override(variants="none"):
        general = dyn.jit(program)
        general(*_arrays(begin))
        expected = {tuple(shapes): _bits(general(*_arrays(shapes))) for shapes in cases}
    CODES.clear()
    with config.override(variants="all"):
        quick = dyn.jit(program)
        quick(*_arrays(begin))
        assert {tuple(shapes): _bits(quick(*_arrays(shapes))) for shapes in cases} == expected
    choices = _choices(quick)
    assert choices
    for choice in choices:
        assert len(choice.bodies) <= 3
        assert all(len(body.launches) <= most for body in choice.bodies[:-1])
    assert quick.cache_info().compiles == 1


def test_one_kernel_runs_where_sizes_agree() -> None:
    with config.override(variants="background"):
        f = dyn.jit(swiglu)
        a, b, row = _arrays([(5, 33), (5, 33), (1, 33)])
        assert len(_ran(lambda: f(a, b))) == 1, "the first call's plan is compiled with it"
        assert len(_ran(lambda: f(a, row))) == 2


def test_the_first_calls_ones_have_a_plan() -> None:
    with config.override(variants="background"):
        f = dyn.jit(activated)
        x, row, r, full = _arrays([(5, 33), (1, 33), (5, 33), (5, 33)])
        assert len(_ran(lambda: f(x, row, r))) == 1
        assert [len(choice.bodies) for choice in _choices(f)] == [3]
        before = _ran(lambda: f(x, full, r))
        assert len(before) == 2, "no call waits"
        assert finish()
        assert len(_ran(lambda: f(x, full, r))) == 1


def test_a_plan_is_made_in_the_background_and_counted() -> None:
    with config.override(variants="background"):
        f = dyn.jit(swiglu)
        a, b, row = _arrays([(5, 33), (5, 33), (1, 33)])
        f(a, row)
        text = str(f.explain())
        assert "otherwise" in text
        assert "not compiled yet" in text
        made = dyn.cache_info().variants
        first = f(a, b)
        assert finish()
        assert dyn.cache_info().variants > made
        assert _bits(f(a, b)) == _bits(first)
        assert f.cache_info().compiles == 1


def test_prepare_makes_the_plan() -> None:
    with config.override(variants="background"):
        f = dyn.jit(swiglu)
        a, b, row = _arrays([(5, 33), (5, 33), (1, 33)])
        f(a, row)
        f.prepare([(dyn.ShapeDtypeStruct((7, 9), "float32"), dyn.ShapeDtypeStruct((7, 9), "float32"))])
        assert len(_ran(lambda: f(a, b))) == 1


def test_equal_programs_share_code_whatever_their_first_calls_were() -> None:
    with config.override(variants="background"):
        f, g = dyn.jit(activated), dyn.jit(activated)
        x, row, r = _arrays([(5, 33), (1, 33), (5, 33)])
        f(x, row, r)
        g(x, r, r)
        assert dyn.cache_info().programs == 1
        assert finish()
        assert len(_ran(lambda: g(x, r, r))) == 1
        assert len(_ran(lambda: g(x, row, r))) == 1
        assert "otherwise" in str(g.explain())


def test_where_everything_is_decided_there_is_one_plan() -> None:
    f = dyn.jit(activated, shapes="n m, n m, n m")
    f(*_arrays([(5, 33)] * 3))
    assert _choices(f) == []
    text = f.trace(*_arrays([(5, 33)] * 3)).lower().as_text("host")
    assert "choose" not in text


def _gradients(x: Any, g: Any, b: Any, c: Any) -> Any:
    """Those of a norm: sums of rows, and of columns, and of axes by which a size that is not known was stretched."""

    def loss(x: Any, g: Any, b: Any) -> Any:
        d = x - dnp.mean(x, axis=-1, keepdims=True)
        return dnp.sum((d / dnp.sqrt(dnp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * g + b) * c)

    return dyn.grad(loss, argnums=(0, 1, 2))(x, g, b)


def _distances(x: Any, y: Any, w: Any) -> Any:
    """A sum over pairs of a function of a sum of few: without the array of all pairs."""
    d = x[:, None, :] - y[None, :, :]
    return dnp.sum(w * dnp.exp(-dnp.sum(d * d, axis=-1)), axis=1)


#: Programs whose folds are others where sizes agree, shapes that do, others of few and many, and some that do not.
_FOLDING: list[tuple[Callable[..., Any], list[list[tuple[int, ...]]]]] = [
    (
        lambda x, y: dnp.sum(dnp.exp(x) * 2 + y),
        [[(5, 33), (5, 33)], [(1, 1), (1, 1)], [(5, 33), (1, 33)], [(0, 2)] * 2],
    ),
    (_gradients, [[(5, 33), (33,), (33,), (5, 33)], [(5, 1), (33,), (33,), (5, 33)], [(0, 3), (3,), (3,), (0, 3)]]),
    (_distances, [[(5, 3), (7, 3), (7,)], [(5, 40), (7, 40), (7,)], [(5, 3), (7, 1), (1,)], [(2, 0), (7, 0), (7,)]]),
]


@pytest.mark.parametrize("number", range(len(_FOLDING)))
def test_a_plan_that_folds_otherwise_runs_whenever_sizes_agree(number: int) -> None:
    """Its kernels are compiled with the program: results follow from sizes, whatever was called before."""
    function, shapes = _FOLDING[number]
    results: list[list[list[Array]]] = []
    for order in (shapes, shapes[::-1]):
        f = dyn.jit(function)
        made = [[np.asarray(v) for v in _leaves(f(*_arrays(some)))] for some in order]
        results.append(made if order is shapes else made[::-1])
        assert _choices(f)
        for choice in _choices(f):
            assert not choice.bodies[0].deferred
            always = [launch for launch in choice.bodies[0].launches if launch.when is None]
            assert not any(launch.variants[-1].deferred for launch in always)
        CODES.clear()
    for some, mine, theirs in zip(shapes, *results, strict=True):
        declared = dyn.jit(function, shapes=", ".join(" ".join(map(str, shape)) for shape in some))
        wanted = [np.asarray(v) for v in _leaves(declared(*_arrays(some)))]
        for a, b, c in zip(mine, theirs, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=2e-5, atol=2e-5)


def _leaves(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def test_memory_that_the_general_plan_takes_is_taken() -> None:
    f = dyn.jit(_both, donate_argnums=0)
    for shapes in ([(33,), (33,), (33,)], [(33,), (1,), (33,)], [(1,), (33,), (33,)], [(33,), (1,), (1,)]):
        a, b, c = _arrays(shapes)
        e = np.exp(a)
        expected = e * 2, np.exp(e + b) + c
        for got, wanted in zip(f(a.copy(), b, c), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_steps_of_loops_have_them() -> None:
    def looped(x: Any, b: Any) -> Any:
        return dyn.lax.fori_loop(0, 3, lambda i, c: dnp.sum(dnp.exp(c) / (1 + dnp.exp(-c)) * b) * 1e-3 + c, x)

    with config.override(variants="none"):
        general = dyn.jit(looped)
        cases = [[(5, 7), (5, 7)], [(5, 7), (1, 7)], [(5, 7), (5, 1)], [(0, 7), (1, 7)]]
        expected = [_bits(general(*_arrays(shapes))) for shapes in cases]
    CODES.clear()
    f = dyn.jit(looped)
    assert [_bits(f(*_arrays(shapes))) for shapes in cases] == expected


def test_huge_sizes_of_nothing_are_no_failure() -> None:
    f = dyn.jit(swiglu)
    for shapes in ([(2**60, 0), (1, 1)], [(2**60, 0), (2**60, 0)], [(2**60, 0), (1, 0)]):
        a, b = (np.empty(shape, "f4") for shape in shapes)
        assert f(a, b).shape == np.broadcast_shapes(*shapes)


def test_a_failed_kernel_leaves_the_general_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    with config.override(variants="background"):
        f = dyn.jit(swiglu)
        a, b, row = _arrays([(5, 33), (5, 33), (1, 33)])
        f(a, row)
        (version,) = f.programs

        def refused(*_: Any) -> Any:
            raise MemoryError

        monkeypatch.setattr("dyn.specialize.program.addresses_of", refused)
        first = f(a, b)
        assert finish()
        assert DeferredState.FAILED in version.program.deferred_states().values()
        assert _bits(f(a, b)) == _bits(first)


def test_nothing_is_assumed_of_sizes_that_are_found_out_in_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not there yet when a plan is chosen: the gradient of what is stretched to as many elements."""
    plans = list[Assumed]()

    def spied(*args: Any) -> list[Assumed]:
        plans.extend(found := assumed_plans(*args))
        return found

    monkeypatch.setattr(alternatives, "assumed_plans", spied)

    def program(x: Any, b: Any, a: Any, c: Any) -> Any:
        rows = dnp.astype(dnp.flatnonzero(x), "float32")
        return dyn.grad(lambda b: dnp.sum(dnp.tanh(rows * b)))(b) * a + c

    b, a = np.ones(1, "f4"), np.ones(3, "f4")
    x = np.array([0, 1, 0, 1, 1], "i4")
    np.testing.assert_allclose(dyn.jit(program)(x, b, a, a), program(x, b, a, a), rtol=1e-6)
    symbols = {symbol for one in plans for relation in one.relations for symbol in relation.symbols()}
    assert symbols
    assert not any(symbol.data_dependent for symbol in symbols)
