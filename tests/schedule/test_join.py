"""Concatenations of many arrays: a loop for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Array = np.ndarray[Any, Any]
COUNT = 20
SHAPES = ", ".join(["_ k"] * COUNT)


def joined(xp: Any, xs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays that lie in memory, and views that are computed while they are copied."""
    return (
        xp.concatenate(xs),
        xp.concatenate([x.T for x in xs], axis=1),
        xp.concatenate([xp.broadcast_to(x[:1], (3, *x.shape[1:])) for x in xs]),
        xp.concatenate([x[None, :1, :, None] for x in xs] * 2, axis=1),
        xp.concatenate([x + x for x in xs]) + xs[0][0],
    )


@pytest.mark.parametrize("dtype", ["f4", "c8", "?", "i1", "f2"])
def test_pieces_of_any_size(dtype: str) -> None:
    rng = np.random.default_rng(0)
    function = dyn.jit(lambda *xs: joined(dnp, xs), shapes=SHAPES)
    for width in (0, 1, 3, 70):
        for most in (1, 2, 500):
            rows = [most, *rng.integers(1, most + 1, COUNT - 1)]
            xs = tuple((rng.random((n, width)) * 5).astype(dtype) for n in rows)
            for got, wanted in zip(function(*xs), joined(np, xs), strict=True):
                assert got.dtype == wanted.dtype
                np.testing.assert_array_equal(got, wanted)
    assert function.cache_info().compiles == 1


def test_pieces_without_elements() -> None:
    function = dyn.jit(lambda *xs: dnp.concatenate(xs))
    for lengths in (range(COUNT), [0] * COUNT, [0] * (COUNT - 1) + [5]):
        xs = [np.full(n, i) for i, n in enumerate(lengths)]
        np.testing.assert_array_equal(function(*xs), np.concatenate(xs))


@pytest.mark.parametrize("pieces", [2, 65])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_result_without_elements_that_another_kernel_reads(pieces: int, axis: int) -> None:
    """One of n rows without columns, of which nothing is copied."""

    @dyn.jit(shapes={"x": ("n", 0)})
    def rows(x: Any, at: Any) -> Any:
        return dnp.concatenate([x] * pieces, axis)[at]

    assert rows(np.ones((2, 0), np.float32), np.array([1, 0, 1])).shape == (3, 0)


def test_arrays_in_memory_have_one_kernel() -> None:
    """However many they are, and whatever is known of their sizes; the host program has a launch for each."""
    texts: list[int] = []
    for count in (100, 200):
        xs = [np.ones((2, i % 3), np.float32) for i in range(count)]
        function = dyn.jit(lambda *xs: dnp.concatenate(xs, axis=1))
        compiled = function.trace(*xs).lower().compile()
        np.testing.assert_array_equal(compiled(*xs), np.concatenate(xs, axis=1))
        assert compiled.version.record.kernels_compiled == 1
        texts.append(len(compiled.as_text("llvm")))
    assert texts[1] < 2.5 * texts[0]


def _host_lines(name: str, count: int) -> int:
    """Lines of the host program of so many pieces, whose sizes are symbols of their own."""
    arguments = [dyn.ShapeDtypeStruct((name.format(i=i),), "float32") for i in range(count)]
    compiled = dyn.jit(lambda *xs: dnp.concatenate(xs)).trace(*arguments).lower().compile()
    return len(compiled.as_text("llvm").splitlines())


@pytest.mark.parametrize("size", ["n{i}", "n{i}+1", "2*n{i}+3"])
def test_each_place_is_computed_from_the_one_before(size: str) -> None:
    """Whatever a piece's size is made of: its place has a term for each piece before it, and as many numbers to add."""
    fewer, some, more = (_host_lines(size, count) for count in (20, 40, 80))
    assert more - some < 2.1 * (some - fewer)


def test_two_arrays_have_one_kernel_too() -> None:
    """A loop for each, where nothing is computed of the whole: no element asks which piece it is of."""
    xs = [np.ones((3, n), np.float32) for n in (2, 5)]
    compiled = dyn.jit(lambda x, y: dnp.concatenate([x, y], axis=1)).trace(*xs).lower().compile()
    np.testing.assert_array_equal(compiled(*xs), np.concatenate(xs, axis=1))
    assert compiled.version.record.kernels_compiled == 1
    assert "select" not in compiled.as_text("kernel")


def test_a_few_are_one_loop_with_what_is_computed_of_them() -> None:
    plan = dyn.jit(lambda *xs: dnp.concatenate(xs) + 1).trace(*[np.ones(2)] * 16).lower().as_text("stitch")
    assert plan.startswith("loop concatenate_add")
    plan = dyn.jit(lambda *xs: dnp.concatenate(xs) + 1).trace(*[np.ones(2)] * 17).lower().as_text("stitch")
    assert "join concatenate" in plan
    assert "ends: add at test_join.py" in plan
    assert "stays outside: a join takes nothing else" in plan


def test_donated_pieces_and_loops() -> None:
    """A result takes no memory that pieces are still read from."""

    def shifted(x: Any) -> Any:
        return dnp.concatenate([x[-1:], *(x[i : i + 1] for i in range(COUNT - 1))])

    function = dyn.jit(shifted, shapes=str(COUNT), donate_argnums=0)
    x = np.arange(float(COUNT))
    with pytest.warns(UserWarning, match="no result can take the memory of the donated x"):
        np.testing.assert_array_equal(function(x.copy()), np.roll(x, 1))
    looped = dyn.jit(lambda x: dyn.lax.fori_loop(0, 7, lambda i, v: shifted(v), x), shapes=str(COUNT))
    np.testing.assert_array_equal(looped(x), np.roll(x, 7))


def halves(xp: Any, x: Any, c: Any, s: Any) -> Any:
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return xp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def computed(xp: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """Pieces that are computed, lie in memory, are read elsewhere too, or are views of what is computed."""
    z = x * 3
    return (
        xp.concatenate([x + 1, y * 2], axis=1),
        xp.concatenate([x, y - 1, -x], axis=1),
        xp.concatenate([z, z + 1], axis=1),
        z,
        xp.concatenate([(x + 2).T, (y * y)[:, :1].T]),
        xp.concatenate([xp.tanh(x), x * x + x], axis=1),
        xp.concatenate([xp.sum(x, axis=1, keepdims=True) * 2, y], axis=1),
        xp.concatenate([-x, -x, x > 0], axis=1),
    )


@pytest.mark.parametrize("dtype", ["f4", "c8", "i4"])
def test_pieces_are_computed_where_they_belong(dtype: str) -> None:
    if dtype == "c8":
        function = dyn.jit(lambda x, y: dnp.concatenate([x + 1j, y * 2 - x[:, :1]], axis=1), shapes="n a, n b")
        plain: Any = lambda x, y: (np.concatenate([x + 1j, y * 2 - x[:, :1]], axis=1),)  # noqa: E731
    else:
        function, plain = dyn.jit(lambda x, y: computed(dnp, x, y), shapes="n a, n b"), lambda x, y: computed(np, x, y)
    rng = np.random.default_rng(0)
    for rows, a, b in ((3, 4, 5), (1, 1, 1), (0, 3, 2), (5, 0, 2), (70, 33, 1), (2, 300, 17), (1, 20_000, 3)):
        x, y = ((rng.random((rows, n)) * 9).astype(dtype) for n in (a, b))
        if a == 0 and dtype == "c8":
            continue
        got = function(x, y)
        for one, wanted in zip(got if isinstance(got, tuple) else (got,), plain(x, y), strict=True):
            assert one.shape == wanted.shape
            np.testing.assert_allclose(one, wanted.astype(one.dtype), rtol=1e-5, atol=1e-5)
    assert function.cache_info().compiles == 1


TABLES = 26


def looked_up(xp: Any, dense: Any, tables: Any, places: Any) -> Any:
    """Rows of many tables behind each other, as recommenders have them."""
    return xp.concatenate([dense, *(table[places[:, n]] for n, table in enumerate(tables))], axis=1)


def test_rows_of_tables_are_pieces_whatever_their_number() -> None:
    """One group, and a launch for each table: no row is written twice."""
    rng = np.random.default_rng(0)
    function = dyn.jit(lambda *a: looked_up(dnp, *a))
    for rows, width in ((0, 4), (1, 1), (7, 0), (33, 16), (300, 5)):
        tables = [rng.random((9 + n, width), "f4") for n in range(TABLES)]
        dense, places = rng.random((rows, 13), "f4"), rng.integers(-9, 9, (rows, TABLES))
        np.testing.assert_array_equal(function(dense, tables, places), looked_up(np, dense, tables, places))
    assert function.cache_info().compiles == 1
    plan = function.trace(dense, tables, places).lower().as_text("stitch")
    assert plan.count("join gather_concatenate") == 1
    assert "loop gather" not in plan


def test_rows_that_others_read_too_are_copied() -> None:
    def read_twice(xp: Any, table: Any, places: Any, x: Any) -> Any:
        rows = table[places]
        return xp.concatenate([x, rows], axis=1), rows * 2

    rng = np.random.default_rng(0)
    arguments = rng.random((5, 3), "f4"), rng.integers(0, 5, 4), rng.random((4, 2), "f4")
    function = dyn.jit(lambda *a: read_twice(dnp, *a))
    for got, wanted in zip(function(*arguments), read_twice(np, *arguments), strict=True):
        np.testing.assert_array_equal(got, wanted)
    plan = function.trace(*arguments).lower().as_text("stitch")
    assert "gather_multiply" in plan
    assert "gather_concatenate" not in plan


def test_a_tree_of_concatenations_is_one() -> None:
    """What XLA's users write of more than 16 arrays."""

    def tree(xp: Any, xs: Any) -> Any:
        return xp.concatenate([xp.concatenate(xs[:16], axis=1), xp.concatenate(xs[16:], axis=1)], axis=1)

    xs = [np.full((3, n % 4), float(n)) for n in range(26)]
    function = dyn.jit(lambda xs: tree(dnp, xs))
    np.testing.assert_array_equal(function(xs), tree(np, xs))
    assert function.trace(xs).lower().as_text("stitch").count("concatenate [") == 1


def test_halves_of_rows_take_no_copies() -> None:
    """Rotary embedding: two launches, whatever broadcasts; the bits are those of the halves alone."""
    x, c, s = (np.random.default_rng(0).random(n, "f4") for n in ((7, 3, 64), (7, 1, 32), (7, 1, 32)))
    for shapes in (None, "s h d, s 1 d//2, s 1 d//2", "7 3 64, 7 1 32, 7 1 32"):
        function = dyn.jit(lambda *a: halves(dnp, *a), shapes=shapes)
        compiled = function.trace(x, c, s).lower().compile()
        assert compiled.as_text("kernel").count("// join") >= 2
        assert "// loop" not in compiled.as_text("kernel")
        alone = dyn.jit(lambda x, c, s: (x[..., :32] * c - x[..., 32:] * s, x[..., 32:] * c + x[..., :32] * s))
        np.testing.assert_array_equal(function(x, c, s), np.concatenate(alone(x, c, s), axis=-1))


def test_a_donated_argument_of_a_concatenation_is_read_until_its_end() -> None:
    function = dyn.jit(lambda x: dnp.concatenate([x[:, 5:] * 2, x[:, :5] + 1], axis=1), donate_argnums=0)
    x = np.arange(40.0).reshape(4, 10)
    wanted = np.concatenate([x[:, 5:] * 2, x[:, :5] + 1], axis=1)
    with pytest.warns(UserWarning, match="donated"):
        np.testing.assert_array_equal(function(x.copy()), wanted)
    np.testing.assert_array_equal(function(x.copy()), wanted)
