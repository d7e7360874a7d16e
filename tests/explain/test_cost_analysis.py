"""``Compiled.cost_analysis()``: formulas equal to counts by hand, at several sizes, and XLA's where it counts alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError
from dyn.explain.cost_analysis import CostAnalysis
from dyn.shapes import format_dim

pytestmark = pytest.mark.usefixtures("quick_xla")

#: Sizes of every dim: 0, 1, and others; each dim has the size in its place.
SIZES = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 3, 4, 5), (2, 3, 5, 7), (37, 64, 129, 300)]
F32 = 4


def analysis(function: Any, *shapes: tuple[Any, ...], dtype: str = "float32", **options: Any) -> CostAnalysis:
    specs = [dyn.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return dyn.jit(function, **options).lower(*specs).compile().cost_analysis()


def at_each(
    cost: CostAnalysis, names: str, by_hand: Callable[..., tuple[int, int, int | None]], least: int = 0
) -> None:
    """Compare with flops, transcendental functions and bytes by hand; bytes where no size is 0."""
    for sizes in SIZES:
        if min(sizes) < least:
            continue
        given = dict(zip(names.split(), sizes, strict=False))
        flops, transcendentals, nbytes = by_hand(*given.values())
        numbers = cost.at(given)
        assert (numbers["flops"], numbers["transcendentals"]) == (flops, transcendentals), given
        if nbytes is not None and min(sizes):
            assert numbers["bytes accessed"] == nbytes, given
        assert all(type(number) is int for number in numbers.values())


def test_matmul() -> None:
    cost = analysis(lambda x, y: x @ y, ("m", "k"), ("k", "n"))
    assert {name: format_dim(count) for name, count in cost.items()} == {
        "flops": "2*m*k*n",
        "transcendentals": "0",
        "bytes accessed": "4*m*k + 4*m*n + 4*k*n",
    }
    at_each(cost, "m k n", lambda m, k, n: (2 * m * k * n, 0, F32 * (m * k + k * n + m * n)))


def test_formulas_have_the_numbers_of_fixed_sizes() -> None:
    cost = analysis(lambda x, w: x @ w, ("b", "s", 768), (768, 3072))
    assert format_dim(cost["flops"]) == f"{2 * 768 * 3072}*b*s"
    assert cost.at({"b": 8, "s": 128})["flops"] == 2 * 8 * 128 * 768 * 3072


def test_batched_matmul() -> None:
    cost = analysis(lambda x, y: x @ y, ("b", "m", "k"), ("b", "k", "n"))
    at_each(cost, "b m k n", lambda b, m, k, n: (2 * b * m * k * n, 0, F32 * b * (m * k + k * n + m * n)))


def test_convolution() -> None:
    cost = analysis(dyn.nn.conv, ("b", 7, "h", "w"), (5, 7, 3, 2))

    def by_hand(b: int, h: int, w: int) -> tuple[int, int, int]:
        places = b * 5 * max(h - 2, 0) * max(w - 1, 0)
        moved = F32 * (5 * 7 * 6 + b * 7 * h * w + places)
        return 2 * places * 7 * 6, 0, moved if places else 0

    at_each(cost, "b h w", by_hand)


def test_softmax() -> None:
    cost = analysis(dyn.nn.softmax, ("b", "n"))
    # The greatest, its difference, the sum and the quotient; the exponential.
    at_each(cost, "b n", lambda b, n: (4 * b * n, b * n, 2 * F32 * b * n))


def test_layer_norm() -> None:
    def layer_norm(x: Any, g: Any) -> Any:
        centered = x - dnp.mean(x, axis=-1, keepdims=True)
        variance = dnp.mean(centered * centered, axis=-1, keepdims=True)
        return centered * lax.rsqrt(variance + 1e-5) * g

    cost = analysis(layer_norm, ("b", "n"), ("n",))
    # Two sums, a difference, a square, two products an element; for each row two quotients and an addition.
    at_each(cost, "b n", lambda b, n: (6 * b * n + 3 * b, b, F32 * (2 * b * n + n)), least=1)


def test_mlp() -> None:
    def mlp(x: Any, w: Any, v: Any) -> Any:
        return dnp.maximum(x @ w, 0) @ v

    cost = analysis(mlp, ("b", "n"), ("n", "h"), ("h", "n"))
    at_each(
        cost, "b n h",
        lambda b, n, h: (4 * b * n * h + b * h, 0, F32 * (2 * b * n + 2 * n * h + 2 * b * h)),
    )  # fmt: skip
    assert [kernel.group for kernel in cost.kernels] == ["contract", "contract"]
    assert sum(kernel.flops for kernel in cost.kernels) == cost["flops"]


def lstm(w: Any, u: Any, xs: Any, h: Any, c: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = dnp.split(x @ w + h @ u, 4, axis=-1)
        c = lax.logistic(f) * c + lax.logistic(i) * dnp.tanh(g)
        h = lax.logistic(o) * dnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), xs)


def test_lstm() -> None:
    n = 8
    cost = analysis(lstm, ("i", 4 * n), (n, 4 * n), ("t", "b", "i"), ("b", n), ("b", n))

    def by_hand(i: int, t: int, b: int) -> tuple[int, int, None]:
        gates = 2 * b * i * 4 * n + 2 * b * n * 4 * n + b * 4 * n
        # Three products and a sum, and five transcendental functions.
        return t * (gates + 4 * b * n), t * 5 * b * n, None

    at_each(cost, "i t b", by_hand)
    assert {format_dim(kernel.times) for kernel in cost.kernels} >= {"t"}
    assert not cost.unknown


def test_a_loop_whose_iterations_nobody_knows_has_a_name_for_them() -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(lambda s: dnp.sum(s) > 1, lambda s: s * 0.5, x)

    cost = analysis(halved, ("n",))
    assert format_dim(cost["flops"]) == "2*n*trips0 + n + trips0 + 1"
    (name,) = cost.unknown
    assert name == "trips0"
    assert cost.unknown[name].startswith("iterations of while at test_cost_analysis.py:")
    # The condition is looked at once more than the loop goes round.
    known = cost.at({"n": 10, "trips0": 3})
    assert known["flops"] == 4 * 11 + 3 * 10
    assert not known.unknown
    some = cost.at({"n": 10})
    assert format_dim(some["flops"]) == "21*trips0 + 11"
    assert str(cost).splitlines()[-1] == f"trips0: {cost.unknown[name]}"


def test_the_branch_counts_that_takes_most() -> None:
    def chosen(x: Any) -> Any:
        return lax.cond(dnp.sum(x) > 0, lambda s: dnp.exp(s) + 1, lambda s: s * s * s - s, x)

    cost = analysis(chosen, ("n",))
    at_each(cost, "n", lambda n: (n + 1 + 3 * n, n, F32 * n + 1 + 2 * F32 * n))
    branches = [kernel.branch.partition(" at ")[0] for kernel in cost.kernels]
    assert branches == ["", "branch 0 of if", "branch 1 of if"]


def test_branches_of_which_sizes_say_the_greater() -> None:
    def chosen(p: Any, x: Any, y: Any) -> Any:
        return lax.cond(p[0] > 0, lambda: dnp.sum(dnp.sin(x)), lambda: dnp.sum(dnp.sin(y)))

    cost = analysis(chosen, (1,), ("m",), ("n",))
    assert format_dim(cost["transcendentals"]) == "max(m, n)"
    assert cost.at({"m": 3, "n": 9})["transcendentals"] == 9


def test_data_dependent_sizes_are_named() -> None:
    cost = analysis(lambda x: x[x > 0] * 2, ("n",))
    assert format_dim(cost["flops"]) == "2*n + count"
    assert cost.unknown == {"count": "data-dependent size the number of nonzero elements of (n,)"}
    assert cost.at({"n": 10, "count": 4})["flops"] == 24


def test_complex_numbers_count_as_real_operations() -> None:
    cost = analysis(lambda x, y: x @ y, ("m", "k"), ("k", "n"), dtype="complex64")
    # Four products, a difference and a sum.
    at_each(cost, "m k n", lambda m, k, n: (8 * m * k * n + 2 * m * n, 0, None))
    assert analysis(lambda x, y: x * y, (5,), (5,), dtype="complex64")["flops"] == 6 * 5


def test_a_function_outside_is_said_to_be_unknown() -> None:
    def outside(x: Any) -> Any:
        return dyn.pure_callback(np.sort, dyn.ShapeDtypeStruct(x.shape, x.dtype), x * 2)

    cost = analysis(outside, ("n",))
    ((name, text),) = cost.unknown.items()
    assert name.startswith("flops(")
    assert "operations of a call of" in text
    assert cost.at({"n": 5, name: 100})["flops"] == 105


def test_fixed_sizes_give_numbers_that_are_exact() -> None:
    big = 1 << 22
    cost = analysis(lambda x, y: x @ y, (big, big), (big, big + 1))
    assert cost["flops"] == 2 * big * big * (big + 1)  # more than float64 has digits for
    assert type(cost["flops"]) is int
    assert analysis(dnp.sort, (4, 9))["flops"] == 36 * 4


def test_a_gather_reads_no_more_than_it_takes() -> None:
    cost = analysis(lambda x: x[dnp.array([1, 2])], ("n", "k"))
    assert cost.at({"n": 1000, "k": 5})["bytes accessed"] <= 2 * (2 * 5 * F32) + 2 * 2 * 8
    assert cost["flops"] == 0


def test_sizes_that_are_found_equal_have_both_names() -> None:
    cost = analysis(lambda x, y: x + y + 0 * y, ("n",), ("m",), constraints="n == m")
    assert cost.at({"n": 6}) == cost.at({"m": 6})
    assert type(cost.at({"m": 6})["flops"]) is int


def test_sizes_at_once() -> None:
    compiled = dyn.jit(lambda x: x + 1).lower(dyn.ShapeDtypeStruct(("n",), "float32")).compile()
    assert compiled.cost_analysis({"n": 7}) == {"flops": 7, "transcendentals": 0, "bytes accessed": 56}
    assert repr(compiled.cost_analysis({"n": 7})) == "CostAnalysis(flops=7, transcendentals=0, bytes accessed=56)"
    with pytest.raises(ArgumentError) as error:
        compiled.cost_analysis({"k": 7})
    assert str(error.value) == "the program has no size 'k'.\n  help: its sizes are n."
    for size in (-1, 2.0, True):
        with pytest.raises(ArgumentError) as error:
            compiled.cost_analysis({"n": size})  # pyright: ignore[reportArgumentType]
        assert str(error.value) == f"{size!r} is no size of 'n'.\n  help: give a number that is not negative."


def test_layers_are_told_once() -> None:
    def layers(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = x @ w
        return x

    cost = analysis(layers, ("b", 8), (8, 8))
    assert len(cost.kernels) == 3
    assert str(cost) == (
        "flops: 384*b\ntranscendentals: 0\nbytes accessed: 192*b + 768\n"
        "contract dot_general [b, 8], 3 alike\n  flops: 128*b\n  transcendentals: 0\n  bytes accessed: 64*b + 256"
    )


def test_a_program_for_another_machine() -> None:
    spec = dyn.ShapeDtypeStruct(("n", 8), "float32")
    stage = dyn.jit(dyn.nn.softmax).lower(spec)
    other = stage.compile("x86:x86-64-v3").cost_analysis()
    assert other == stage.compile().cost_analysis()


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: dnp.tanh(x @ y), (("m", "k"), ("k", "n"))),
        (dyn.nn.softmax, (("m", "k"),)),
        (lambda x: dnp.cumsum(x, axis=-1), (("m", "k"),)),
        (lambda x, i: x[i.astype("int32")], (("m", "k"), ("i",))),
    ],
)
def test_a_program_for_a_gpu_has_the_same_cost(
    function: Any, shapes: tuple[tuple[str, ...], ...], require_module: Callable[[str], Any]
) -> None:
    require_module("cuda.bindings.nvrtc")
    stage = dyn.jit(function).lower(*[dyn.ShapeDtypeStruct(shape, "float32") for shape in shapes])
    assert stage.compile("cuda:sm_90a").cost_analysis() == stage.compile().cost_analysis()


def test_a_sort_on_a_gpu_moves_its_rows_as_often_as_it_merges(require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    spec = dyn.ShapeDtypeStruct(("m", "k"), "float32")
    cost = dyn.jit(dnp.sort).lower(spec).compile("cuda:sm_90a").cost_analysis()
    numbers = [cost.at({"m": 10, "k": size}) for size in (100, 3000, 7000, 20_000)]
    assert numbers[0]["bytes accessed"] == 2 * F32 * 10 * 100
    # Each pass over longer rows reads and writes them whole.
    passes = [
        one["bytes accessed"] // (2 * F32 * 10 * size)
        for one, size in zip(numbers[1:], (3000, 7000, 20_000), strict=True)
    ]
    assert passes == sorted(passes)
    assert passes[0] >= 2
    assert [one["flops"] for one in numbers] == [10 * 100 * 7, 10 * 3000 * 12, 10 * 7000 * 13, 10 * 20_000 * 15]


def test_parts_count_as_the_whole() -> None:
    # Sizes for which launches in parts are certain, and sizes that leave it open.
    fixed, symbolic = analysis(dnp.sum, (3, 100_000)), analysis(dnp.sum, ("m", "k"))
    assert fixed["flops"] == symbolic.at({"m": 3, "k": 100_000})["flops"] == 300_000


PROGRAMS: Mapping[str, tuple[Callable[[Any], Callable[..., Any]], tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda np: lambda x, y: x @ y, ((37, 64), (64, 48))),
    "batched": (lambda np: lambda x, y: np.einsum("bij,bjk->bik", x, y), ((5, 7, 6), (5, 6, 8))),
    "arithmetic": (lambda np: lambda x, y: x * y + x, ((100,), (100,))),
    "transcendental": (lambda np: lambda x: np.exp(x) - np.log(x) / x, ((100,),)),
    "tanh": (lambda np: lambda x: np.tanh(x) * 2, ((100,),)),
    "relu": (lambda np: lambda x: np.maximum(x, 0), ((100,),)),
    "one": (lambda np: lambda x: -x, ((1,),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_xla_counts_the_same(name: str) -> None:
    jax = pytest.importorskip("jax")
    make, shapes = PROGRAMS[name]
    specs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    theirs = jax.jit(make(jax.numpy)).lower(*specs).compile().cost_analysis()
    ours = analysis(make(dnp), *shapes)
    assert ours == {
        "flops": theirs["flops"],
        "transcendentals": theirs.get("transcendentals", 0),
        "bytes accessed": theirs["bytes accessed"],
    }
