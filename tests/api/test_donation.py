"""Donated arguments: who takes whose memory, when nobody does, and that nothing else changes."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import ArgumentError, IRError, ShapeError
from dyn.numpy._indexing.getitem import scatter_update
from dyn.schedule.kernel import Buffer, Const, Kernel, Update
from dyn.schedule.kernel_verifier import check
from tests.donated import REFUSED, numbers

Array = np.ndarray[Any, Any]
SIZES = [0, 1, 2, 7, 64, 1000]


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- memory that is taken --------------------------------------------------------------------------------------------


def test_element_by_element_at_every_size() -> None:
    def step(w: Any, g: Any) -> Any:
        return w - 0.5 * g

    donating, plain = dyn.jit(step, donate_argnums=0, shapes="n, n"), dyn.jit(step, shapes="n, n")
    for n in SIZES:
        w, g = numbers(n), numbers(n)
        w[: n // 2] = np.nan if n != 7 else -0.0
        expected = plain(w, g)
        result = donating(w, g)
        assert result is w
        assert same(result, expected)
        assert same(g, numbers(n))
    assert donating.cache_info().compiles == 1


def test_a_last_use_long_before() -> None:
    def late(x: Any) -> Any:
        return dnp.cumsum(x[::-1] / (1.0 + dnp.max(abs(x), initial=0)))

    donating, plain = dyn.jit(late, donate_argnums=0), dyn.jit(late)
    for n in SIZES:
        x = numbers(n)
        expected = plain(x)
        result = donating(x)
        assert same(result, expected)
    assert donating.cache_info().compiles == 1


def test_another_shape_is_a_view() -> None:
    f = dyn.jit(lambda x: (x + 1).reshape(-1), donate_argnames="x")
    for n in SIZES:
        x = numbers(n, 3)
        expected = (x + 1).reshape(-1)
        result = f(x)
        assert same(result, expected)
        assert np.shares_memory(result, x) is (n > 0)


def test_a_contraction_that_updates_what_its_epilogue_reads() -> None:
    """Gradient and update of a matrix in one kernel, also where the sum is cut into blocks."""

    def step(w: Any, x: Any, g: Any) -> Any:
        return w - 0.5 * (x.T @ g)

    shapes = "i o, n i, n o"
    donating, plain = dyn.jit(step, donate_argnums=0, shapes=shapes), dyn.jit(step, shapes=shapes)
    random = np.random.default_rng(0)
    for n, i, o in ((0, 3, 5), (1, 1, 1), (7, 65, 97), (64, 0, 8), (1000, 130, 50), (5000, 70, 33)):
        w, x, g = (random.standard_normal(shape).astype(np.float32) for shape in ((i, o), (n, i), (n, o)))
        expected = plain(w, x, g)
        assert donating(w, x, g) is w
        assert same(w, expected)
    assert donating.cache_info().compiles == 1


def test_a_contraction_of_what_is_donated_leaves_it_alone_until_it_is_done() -> None:
    def square(w: Any) -> Any:
        return w @ w + w

    donating, plain = dyn.jit(square, donate_argnums=0, shapes="n n"), dyn.jit(square, shapes="n n")
    for n in SIZES[:-1]:
        w = np.random.default_rng(n).standard_normal((n, n)).astype(np.float32)
        expected = plain(w)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it is of no use
            assert same(donating(w), expected)


def test_a_tree_is_donated_whole_and_each_result_takes_its_own() -> None:
    def adam(state: dict[str, Any], g: Any) -> dict[str, Any]:
        m = 0.5 * state["m"] + 0.5 * g
        return {"p": state["p"] - m, "m": m}

    donating, plain = dyn.jit(adam, donate_argnums=0, shapes=[{"p": "n k", "m": "n k"}, "n k"]), dyn.jit(adam)
    for n in SIZES:
        state = {"p": numbers(n, 3), "m": numbers(n, 3) * 2}
        g = numbers(n, 3) + 1
        expected = plain(state, g)
        result = donating(state, g)
        assert same(result["p"], expected["p"])
        assert same(result["m"], expected["m"])
        # What the last result is stored into is read for no other; what the first is, may be.
        assert any(result["m"] is old for old in state.values()) or any(result["p"] is old for old in state.values())


@pytest.mark.parametrize("loop", ["fori_loop", "scan"])
def test_what_a_loop_hands_on_unchanged_is_the_argument(loop: str) -> None:
    """It is read through the loop's result: no result before takes its memory. (That it is handed on is found late.)"""

    def step(s: Any) -> Any:
        return s[0] * 2 + s[1], dnp.maximum(s[1], s[1])

    def f(x: Any, kept: Any) -> Any:
        if loop == "fori_loop":
            y, handed = dyn.lax.fori_loop(0, 3, lambda _, s: step(s), (x, kept))
        else:
            (y, handed), _ = dyn.lax.scan(lambda s, _: (step(s), None), (x, kept), None, length=3)
        y = dnp.cumsum(y)
        return y, handed[::-1] + y

    donating, plain = dyn.jit(f, donate_argnums=1, shapes="n, n"), dyn.jit(f, shapes="n, n")
    for n in SIZES:
        expected = plain(numbers(n), numbers(n) + 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it is of no use
            found = donating(numbers(n), numbers(n) + 3)
        for ours, theirs in zip(found, expected, strict=True):
            assert same(ours, theirs)


def test_an_argument_that_nothing_reads() -> None:
    f = dyn.jit(lambda x, room: x[::-1] * 2, donate_argnums=1, shapes="n, n")
    for n in SIZES:
        x, room = numbers(n), np.empty(n, np.float32)
        assert f(x, room) is room
        assert same(room, x[::-1] * np.float32(2))


def test_a_second_call_may_be_given_the_first_ones_result() -> None:
    f = dyn.jit(lambda x: x + 1, donate_argnums=0)
    x = first = np.zeros(1000, np.float32)
    for _ in range(50):
        x = f(x)
    assert x is first
    assert (x == 50).all()


def test_part_of_a_larger_array() -> None:
    whole = numbers(30)
    before = whole.copy()
    f = dyn.jit(lambda x: x * 2, donate_argnums=0)
    result = f(whole[10:20])
    assert np.shares_memory(result, whole)
    assert same(whole[10:20], before[10:20] * 2)
    assert same(whole[:10], before[:10])
    assert same(whole[20:], before[20:])


# ---- updates in place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", ["replace", "add", "maximum"])
def test_rows_updated_in_place(combine: str) -> None:
    def put(cache: Any, rows: Any, new: Any) -> Any:
        return scatter_update(cache, rows, new, combine)

    donating, plain = dyn.jit(put, donate_argnums=0, shapes="s d, k, k d"), dyn.jit(put, shapes="s d, k, k d")
    rng = np.random.default_rng(0)
    for s in SIZES:
        for d in (0, 1, 7, 64, 3000):
            cache, new = numbers(s, d), numbers(5, d) * 3
            rows = rng.integers(-s, s + 1, 5) if s else np.zeros(5, np.int64)
            rows[4] = rows[0]
            expected = plain(cache, rows, new)
            result = donating(cache, rows, new)
            assert result is cache
            assert same(result, expected)
            # And where it may not be taken, the same program copies first.
            held = numbers(s, d)
            held.flags.writeable = False
            fresh = donating(held, rows, new)
            assert fresh is not held
            assert same(fresh, expected)
            assert same(held, numbers(s, d))
    assert donating.cache_info().compiles == 1


def test_a_cache_of_keys() -> None:
    def put(cache: Any, new: Any) -> Any:
        return scatter_update(cache, (slice(None), slice(2, 3)), new)

    donating, plain = dyn.jit(put, donate_argnums=0), dyn.jit(put)
    for b in SIZES:
        cache, new = numbers(b, 9, 16), numbers(b, 1, 16) + 30
        expected = plain(cache, new)
        result = donating(cache, new)
        assert result is cache
        assert same(result, expected)


def test_what_the_update_reads_of_the_array_is_what_was_there() -> None:
    def shifted(x: Any, at: Any) -> Any:
        return scatter_update(x, at, x[at - 1] * 2)

    donating, plain = dyn.jit(shifted, donate_argnums=0), dyn.jit(shifted)
    x, at = numbers(64), np.arange(1, 64)
    expected = plain(x, at)
    assert same(donating(x, at), expected)


def test_explain_and_the_host_program_say_so() -> None:
    f = dyn.jit(scatter_update, donate_argnums=0, static_argnames="combine", shapes="s d, (), d")
    c, at, new = numbers(8, 4), np.array(3), numbers(4)
    host = f.lower(c, at, new).as_text("host")
    assert "  output 0: in the memory of x, if given\n" in host
    assert "    if result 0 has its argument's memory: scatter scatter, in place dims" in host
    f(c, at, new)
    assert "      variant scatter scatter, in place: when result 0 has its argument's memory\n" in str(f.explain())


def test_only_a_kernel_in_place_may_update_what_it_has_not_stored() -> None:
    out = Buffer("out", dtypes.int32)
    body = (Update(out, 0, (), None, Const(dtypes.int32, 1)),)
    check(Kernel("k", (out,), (), (), body, in_place=True))
    with pytest.raises(IRError, match="out is updated, and is no global buffer that was stored before"):
        check(Kernel("k", (out,), (), (), body))


# ---- memory that is not taken ----------------------------------------------------------------------------------------

add = dyn.jit(lambda x, y: x + y, donate_argnums=(0, 1), shapes="n, n")
LATER = np.array([1, 2, 3, 4], np.float32)
closed_over = dyn.jit(lambda x: x + LATER, donate_argnums=0, shapes="4")


class _Kind(np.ndarray[Any, Any]):
    pass


@pytest.mark.parametrize("make", [*REFUSED.values(), lambda n: numbers(n).view(_Kind)], ids=[*REFUSED, "a subclass"])
def test_refused(make: Callable[[int], Array]) -> None:
    f = dyn.jit(lambda x: x + 1, donate_argnums=0)
    for n in (2, 7, 64):
        x = make(n)
        before = np.array(x)
        result = f(x)
        assert not np.shares_memory(result, x)
        assert same(np.asarray(result), (before + 1).astype(np.float32))
        assert same(np.array(x), before)


def test_the_same_array_twice_and_arrays_that_overlap() -> None:
    x = numbers(64)
    for a, b in ((x, x), (x[:40], x[20:60]), (x[:10], x[9:19]), (x[10:20], x[:40:4])):
        b = b[: len(a)]
        before = x.copy()
        expected = a + b
        result = add(a, b)
        assert not np.shares_memory(result, x)
        assert same(result, expected)
        assert same(x, before)
    assert np.shares_memory(add(x[:32], x[32:]), x)  # neighbours are no overlap


def test_what_is_closed_over_stays_as_it_was() -> None:
    assert same(closed_over(LATER), LATER + LATER)
    assert same(LATER, np.array([1, 2, 3, 4], np.float32))
    x = LATER.copy()
    assert closed_over(x) is x


def test_a_failed_check_leaves_the_argument_alone() -> None:
    x = numbers(4)
    with pytest.raises(ShapeError):
        add(x, numbers(5))
    assert same(x, numbers(4))
    assert add(x, numbers(4)) is x


def test_broadcasts_and_transposes_do_not_take_what_is_still_read() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for body in (lambda x: x + x.T, lambda x: x[::-1] + x, lambda x: x - x[0], lambda x: x / x.sum()):
            x = numbers(8, 8)
            expected = dyn.jit(body)(x)
            assert same(dyn.jit(body, donate_argnums=0)(x), expected)
        both = dyn.jit(lambda x, y: (x + y, x - y, x * y), donate_argnums=(0, 1), shapes="n, n")
        x, y = numbers(64), numbers(64)[::-1].copy()
        expected = x + y, x - y, x * y
        assert all(same(a, b) for a, b in zip(both(x, y), expected, strict=True))


def test_other_libraries_arrays() -> None:
    torch = pytest.importorskip("torch")
    f = dyn.jit(lambda x: x + 1, donate_argnums=0)
    x = torch.zeros(8)
    assert (f(x) == 1).all()
    assert (x == 0).all()


def test_in_another_trace_it_has_no_effect() -> None:
    inner = dyn.jit(lambda x: x + 1, donate_argnums=0)
    outer = dyn.jit(lambda x: inner(x) * x)
    x = numbers(64)
    expected = (x + 1) * x
    assert same(outer(x), expected)
    assert same(x, numbers(64))


def test_threads() -> None:
    f = dyn.jit(lambda c, at, new: scatter_update(c + 1, at, new), donate_argnums=0, shapes="s d, (), d")
    plain = dyn.jit(lambda c, at, new: scatter_update(c + 1, at, new), shapes="s d, (), d")

    def work(number: int) -> bool:
        c, new = numbers(7 + number, 64), numbers(64)
        expected = c.copy()
        for at in range(7):
            expected = plain(expected, np.array(at), new)
            c = f(c, np.array(at), new)
        return same(c, expected)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(32)))
    assert f.cache_info().compiles == 1


# ---- programs of many forms ------------------------------------------------------------------------------------------

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "a result and a view of it": lambda x, y: (x + 1, (x + 1).reshape(-1)),
    "one value twice": lambda x, y: [x + 1] * 2,
    "the arguments": lambda x, y: (y, x),
    "an argument beside its successor": lambda x, y: (x, x + 1, y - x),
    "reversed": lambda x, y: (x[::-1] + y, y[::-1]),
    "transposed": lambda x, y: (x.T + 1, y.T),
    "broadcast": lambda x, y: (x + y[:1], y + x[:1]),
    "a mean": lambda x, y: (x - dnp.mean(x), y - dnp.mean(y, -1, keepdims=True)),
    "a choice": lambda x, y: (dyn.lax.cond(dnp.sum(x) > 0, lambda: x + y, lambda: x), y),
    "a loop that swaps": lambda x, y: dyn.lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] + 1), (x, y)),
    "a loop of no steps": lambda x, y: dyn.lax.fori_loop(0, 0, lambda i, c: (c[1], c[0] + 1), (x, y)),
    "a scan": lambda x, y: dyn.lax.scan(lambda c, row: (c + row, c * row), y.sum(0), x),
    "sorted": lambda x, y: (dnp.sort(x, 0), x + y),
    "contracted": lambda x, y: x + (x @ y.T) @ y,
    "other bits": lambda x, y: (dyn.lax.bitcast_convert_type(x, "int32"), y + 1),
    "a callback": lambda x, y: (x + 1, dyn.pure_callback(np.negative, dyn.ShapeDtypeStruct(x.shape, x.dtype), x)),
}


@pytest.mark.parametrize("donated", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("form", PROGRAMS)
def test_donation_changes_nothing_else(form: str, donated: tuple[int, ...]) -> None:
    plain, donating = dyn.jit(PROGRAMS[form]), dyn.jit(PROGRAMS[form], donate_argnums=donated)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*donated")
        for shape in [(3, 3), (2, 5), (2, 5), (1, 1), (1, 4), (4, 1), (0, 3), (3, 0), (40, 50), (40, 50)]:
            given = [numbers(*shape), numbers(*shape) * 2]
            taken = [x.copy() for x in given]
            expected = dyn.tree.leaves(plain(*[x.copy() for x in given]))
            results = dyn.tree.leaves(donating(*taken))
            assert all(same(a, b) for a, b in zip(results, expected, strict=True))
            apart = [not np.shares_memory(a, b) for a, b in itertools.combinations(results, 2)]
            assert apart == [not np.shares_memory(a, b) for a, b in itertools.combinations(expected, 2)]
            for number, (x, before) in enumerate(zip(taken, given, strict=True)):
                if number not in donated:
                    assert same(x, before)
                    assert not any(np.shares_memory(x, a) for a in results)


# ---- words -----------------------------------------------------------------------------------------------------------


def test_a_donation_in_vain_is_warned_of_once() -> None:
    @dyn.jit(donate_argnums=(0, 1, 2))
    def total(x: Any, halves: Any, y: Any) -> Any:
        return y + x.sum() + halves.sum().astype("float32")

    args = numbers(7), numbers(64, dtype=np.float16), numbers(64)
    with pytest.warns(UserWarning, match="the donated x, halves") as caught:
        total(*args)
    assert [str(w.message) for w in caught] == [
        "total(): no result can take the memory of the donated x, halves: "
        "none is known to have the same dtype and size and to be written after the last use."
    ]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total(numbers(8), numbers(4, dtype=np.float16), numbers(5))


def test_a_number_donated_in_vain_is_not_worth_a_word() -> None:
    @dyn.jit(donate_argnums=0)
    def step(state: dict[str, Any]) -> Any:
        count = state["count"] + 1
        return {"count": count, "x": state["x"] / count.astype("float32"), "y": 1 / count}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = step({"count": np.zeros((), np.int32), "x": numbers(7)})
    assert (done["count"], done["y"]) == (1, 1)


def test_matching_hundreds_of_arrays_is_not_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    from dyn.schedule.donate import _Matcher

    asked = 0
    fits = _Matcher.fits

    def counting(self: _Matcher, output: int, param: Any) -> bool:
        nonlocal asked
        asked += 1
        return fits(self, output, param)

    monkeypatch.setattr(_Matcher, "fits", counting)
    tree = {f"w{i}": numbers(i % 5 + 1) for i in range(200)}
    step = dyn.jit(lambda w: {name: x * 2 for name, x in w.items()}, donate_argnums=0, shapes=[
        {name: str(x.size) for name, x in tree.items()}
    ])  # fmt: skip
    with dyn.config.override(cache_dir=""):
        done = step(dict(tree))
    assert all(done[name] is x for name, x in tree.items())
    assert asked == 200


def test_arrays_that_are_copied_for_the_call_are_not_written_to_either() -> None:
    x = numbers(40)
    before = x.copy()
    compiled = add.lower(x[10:20], x[:40:4]).compile()
    for call in (add, compiled):
        assert same(call(x[10:20], x[:40:4]), before[10:20] + before[:40:4])
        assert same(x, before)
    apart = numbers(20)[::2]
    y = x[10:20]
    assert call(y, apart) is y


def test_only_one_of_two_is_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, y = numbers(7), numbers(7)
        assert dyn.jit(lambda x, y: x * y, donate_argnums=(0, 1), shapes="n, n")(x, y) is x


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"donate_argnums": 2}, "donate_argnums: f has no argument 2.\n  help: it has 2 positional arguments: x, y."),
        ({"donate_argnums": -3}, "donate_argnums: f has no argument -3.\n  help: it has 2 positional arguments: x, y."),
        ({"donate_argnames": "z"}, "donate_argnames: f has no argument 'z'.\n  help: it has x, y, k."),
        (
            {"donate_argnums": -1, "static_argnames": "y"},
            "f(): the argument y is static, and it is donated.\n"
            "  help: leave it out of donate_argnums and donate_argnames: it is no array.",
        ),
        (
            {"donate_argnames": ["k"], "static_argnames": "k"},
            "f(): the argument k is static, and it is donated.\n"
            "  help: leave it out of donate_argnums and donate_argnames: it is no array.",
        ),
    ],
)
def test_declarations_that_are_wrong(options: Any, text: str) -> None:
    def f(x: Any, y: Any, *, k: Any = 1) -> Any:
        return x + y + k

    with pytest.raises(ArgumentError) as caught:
        dyn.jit(f, **options)
    problem = str(caught.value).splitlines()
    assert "\n".join(line for line in problem if not line.startswith("  at ")) == text


def test_by_number_by_name_and_among_more() -> None:
    f = dyn.jit(lambda *xs, **named: xs[1] + named["k"], donate_argnums=1)
    x = numbers(7)
    assert f(x.copy(), x, k=np.float32(1)) is x
    g = dyn.jit(lambda x, *, k: k * x, donate_argnames="k", shapes={"x": "n", "k": "n"})
    k = numbers(7)
    assert g(x, k=k) is k
