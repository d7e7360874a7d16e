"""``explain(sizes)``: figures equal to ``cost_analysis()``'s, times by the prices of fusion, and refusals in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError
from dyn.explain.figures import KernelFigures, ProgramFigures
from dyn.explain.words import amount, duration
from dyn.shapes import Dim
from dyn.specialize.shared_code import Codes
from dyn.stitch.cost import X86, Limit
from tests.explain.test_html import Checker


def called(function: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> Any:
    """A function that was compiled for arrays of some shapes."""
    f = dyn.jit(function, **options)
    f(*[np.ones(shape, "f4") for shape in shapes])
    return f


def figures(f: Any, **sizes: int) -> ProgramFigures:
    """The figures of a function's only program."""
    (report,) = f.explain(sizes).versions
    assert report.figures is not None
    assert len(report.figures.kernels) == len(report.groups) == len(report.launches)
    return report.figures


def lines(f: Any, **sizes: int) -> list[str]:
    """The lines of an explanation that have figures."""
    at = "at " + ", ".join([f"{name}={size}" for name, size in sizes.items()])
    return [line.strip() for line in str(f.explain(sizes)).splitlines() if f"{at}:" in line or f"about {at}" in line]


def layer_norm(x: Any, g: Any) -> Any:
    centered = x - dnp.mean(x, axis=-1, keepdims=True)
    return centered * lax.rsqrt(dnp.mean(centered * centered, axis=-1, keepdims=True) + 1e-5) * g


def mlp(x: Any, w: Any, v: Any) -> Any:
    return dyn.nn.softmax(dnp.maximum(x @ w, 0) @ v)


def halved(x: Any) -> Any:
    return lax.while_loop(lambda s: dnp.sum(s) > 1, lambda s: s * 0.5, x) + 1


def summed(xs: Any, c: Any) -> Any:
    return lax.scan(lambda c, x: (c + x * dnp.exp(c), c), c, xs)


PROGRAMS: dict[str, tuple[Callable[..., Any], str, tuple[tuple[int, ...], ...]]] = {
    "layer norm": (layer_norm, "b n, n", ((2, 3), (3,))),
    "mlp": (mlp, "b n, n h, h n", ((2, 3), (3, 4), (4, 3))),
    "scan": (summed, "t n, n", ((3, 4), (4,))),
    "branches": (
        lambda x: lax.cond(dnp.sum(x) > 0, lambda s: dnp.exp(s) + 1, lambda s: s * s * s - s, x), "n", ((4,),),
    ),
    "sort": (lambda x: dnp.sort(x * 2, axis=-1) + 1, "b n", ((2, 3),)),
    "gather": (lambda x: x[dnp.array([1, 2])], "n k", ((5, 3),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [1, 3, 64, 1000])
def test_figures_are_those_of_the_cost_analysis(name: str, size: int) -> None:
    function, dims, shapes = PROGRAMS[name]
    f = called(function, *shapes, shapes=dims)
    sizes = {symbol: size + number for number, symbol in enumerate(sorted(set(dims.replace(",", "").split())))}
    specs = [dyn.ShapeDtypeStruct(tuple(axes.split()), "float32") for axes in dims.split(",")]
    cost = f.lower(*specs).compile().cost_analysis().at(sizes)
    found = figures(f, **sizes)
    assert {"flops": found.flops, "transcendentals": found.transcendentals, "bytes accessed": found.nbytes} == cost
    assert not found.unknown
    by_hand: dict[tuple[Dim, ...], Dim] = {}
    for kernel in cost.kernels:
        key = (kernel.flops, kernel.transcendentals, kernel.bytes_accessed)
        by_hand[key] = by_hand.get(key, 0) + kernel.times
    ours: dict[tuple[Dim, ...], Dim] = {}
    for kernel in _leaves(found):
        assert kernel.flops is not None
        assert kernel.transcendentals is not None
        assert kernel.nbytes is not None
        assert kernel.runs is not None
        key = (kernel.flops, kernel.transcendentals, kernel.nbytes)
        ours[key] = ours.get(key, 0) + kernel.runs
    assert ours == by_hand


def _leaves(program: ProgramFigures) -> list[KernelFigures]:
    """The kernels of a program, those of regions in the place of loops and choices."""
    pending, found = [one for one in program.kernels if one is not None], list[KernelFigures]()
    while pending:
        kernel = pending.pop()
        found += [] if kernel.regions else [kernel]
        pending += kernel.regions
    return found


# ---- times -----------------------------------------------------------------------------------------------------------


def test_a_time_is_that_of_the_limit_that_binds_and_of_a_launch() -> None:
    f = called(lambda x, y: x @ y, (2, 3), (3, 4), shapes="m k, k n")
    (kernel,) = figures(f, m=1000, k=1000, n=1000).kernels
    assert kernel is not None
    assert (kernel.limit, kernel.level, kernel.share) == (Limit.ARITHMETIC, 3, 1.0)
    assert kernel.seconds == pytest.approx(2e9 * X86.flop + X86.launch)
    (kernel,) = figures(f, m=1, k=8000, n=8000).kernels
    assert kernel is not None
    assert (kernel.limit, kernel.level) == (Limit.MEMORY, 0)
    assert kernel.seconds == pytest.approx(4 * (8000 * 8000 + 16000) * X86.levels[-1][1] + X86.launch)
    (kernel,) = figures(f, m=1, k=2, n=3).kernels
    assert kernel is not None
    assert kernel.limit is Limit.LAUNCH


def test_functions_of_elements_take_their_work() -> None:
    f = called(dnp.exp, (3,), shapes="n")
    (kernel,) = figures(f, n=100_000).kernels
    assert kernel is not None
    assert kernel.limit is Limit.ARITHMETIC
    assert kernel.seconds == pytest.approx(100_000 * 24 * X86.work + X86.launch)


def test_numbers_of_eight_bytes_take_twice_as_long() -> None:
    f = dyn.jit(lambda x, y: x @ y, shapes="m k, k n")
    f(np.ones((2, 3)), np.ones((3, 4)))
    (kernel,) = figures(f, m=1000, k=1000, n=1000).kernels
    assert kernel is not None
    assert kernel.seconds == pytest.approx(4e9 * X86.flop + X86.launch)


def test_shares_make_up_the_whole() -> None:
    found = figures(called(mlp, (2, 3), (3, 4), (4, 3), shapes="b n, n h, h n"), b=64, n=256, h=512)
    assert found.seconds is not None
    kernels = [kernel for kernel in found.kernels if kernel is not None]
    assert sum([kernel.share or 0 for kernel in kernels]) == pytest.approx(1)
    assert sum([kernel.seconds or 0 for kernel in kernels]) == pytest.approx(found.seconds)


# ---- boundaries ------------------------------------------------------------------------------------------------------


def test_a_boundary_has_the_cost_of_both_sides() -> None:
    f = called(mlp, (2, 3), (3, 4), (4, 3), shapes="b n, n h, h n")
    text = str(f.explain({"b": 64, "n": 256, "h": 512}))
    hidden = 2 * 4 * 64 * 512
    assert "joined it would save 262 kB, about 3.4 µs at b=64, n=256, h=512" in text
    first, second, third = figures(f, b=64, n=256, h=512).kernels
    assert first is not None
    assert second is not None
    assert third is not None
    (boundary,) = first.boundaries
    assert boundary is not None
    assert boundary.nbytes == hidden
    assert boundary.seconds == pytest.approx(2 * X86.transfer(hidden / 2) + X86.launch)
    assert len(second.boundaries) == 1
    assert third.boundaries == ()
    without = [line for line in text.splitlines() if "at b=64, n=256, h=512" not in line]
    assert without == str(f.explain()).splitlines()


# ---- what the figures say --------------------------------------------------------------------------------------------


def test_the_lines_of_a_layer_norm() -> None:
    f = called(layer_norm, (2, 768), (768,), shapes="b 768, 768")
    assert lines(f, b=1024) == [
        "at b=1024: 6.3 MB, 4.7 MFLOP, 1 k transcendental functions; about 161 µs, bound by memory (the third level), "
        "100 % of the program",
        "all of them at b=1024: 6.3 MB, 4.7 MFLOP, 1 k transcendental functions; about 161 µs on one core",
    ]


def test_layers_that_are_alike_are_counted_together() -> None:
    weights = [np.full((8, 8), number, "f4") for number in range(3)]

    def layers(x: Any) -> Any:
        for w in weights:
            x = x @ w
        return x

    f = called(layers, (2, 8), shapes="b 8")
    found = figures(f, b=100)
    assert [kernel.runs for kernel in _leaves(found)] in ([3], [2, 1], [1, 2], [1, 1, 1])
    assert sum([(kernel.share or 0) for kernel in _leaves(found)]) == pytest.approx(1)
    assert found.flops == 3 * 2 * 100 * 64


def test_where_a_size_is_zero_nothing_is_moved() -> None:
    f = called(mlp, (2, 3), (3, 4), (4, 3), shapes="b n, n h, h n")
    found = figures(f, b=0, n=256, h=512)
    assert (found.nbytes, found.flops) == (0, 0)
    assert found.seconds == pytest.approx(3 * X86.launch)
    assert all(kernel is not None and kernel.limit is Limit.LAUNCH for kernel in found.kernels)


def test_a_loop_is_all_of_its_runs() -> None:
    f = called(summed, (3, 4), (4,), shapes="t n, n")
    text = lines(f, t=7, n=10)
    assert "at t=7, n=10: 1.1 kB, 140 FLOP, 70 transcendental functions; about 543 ns, 79 % of the program" in text
    assert (
        "at t=7, n=10: 160 B, 20 FLOP, 10 transcendental functions; about 78 ns, bound by launch overhead, 7 times, "
        "79 % of the program"
    ) in text


def test_a_loop_that_nobody_knows_the_end_of_has_the_figures_of_a_run() -> None:
    f = called(halved, (3,), shapes="n")
    text = lines(f, n=10)
    assert "at n=10: how often its regions run is not known" in text
    assert "at n=10: 80 B, 10 FLOP; about 70 ns, bound by launch overhead, in each run" in text
    assert "without what depends on trips0 (iterations of while at test_figures.py:" in text[-1]
    text = lines(f, n=10, trips0=3)
    assert "at n=10, trips0=3: 404 B, 74 FLOP; about 492 ns, 78 % of the program" in text
    assert text[-1] == "all of them at n=10, trips0=3: 564 B, 84 FLOP; about 633 ns on one core"


def test_operations_of_a_function_outside_are_not_known() -> None:
    def outside(x: Any) -> Any:
        return dyn.pure_callback(np.sort, dyn.ShapeDtypeStruct(x.shape, x.dtype), x * 2)

    f = called(outside, (3,), shapes="n")
    text = lines(f, n=5)
    assert "at n=5: 40 B, operations not known" in text
    assert text[-1].startswith(
        "all of them at n=5: 80 B, 5 FLOP; about 70 ns on one core, without what depends on flops("
    )


def test_data_dependent_sizes_may_be_given() -> None:
    f = called(lambda x: x[x > 0] * 2, (3,), shapes="n")
    found = figures(f, n=10)
    assert list(found.unknown) == ["count"]
    assert any(kernel is None for kernel in found.kernels)
    found = figures(f, n=10, count=4)
    assert (found.flops, dict(found.unknown)) == (24, {})


def test_of_plans_that_sizes_choose_the_others_do_not_run() -> None:
    def normed(x: Any, b: Any, r: Any, g: Any) -> Any:
        y = x + b + r
        d = y - dnp.mean(y, axis=-1, keepdims=True)
        return d / dnp.sqrt(dnp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * g

    f = called(normed, (5, 40), (40,), (5, 40), (40,))
    (report,) = f.explain().versions
    same = {row.name: 40 if row.origin.endswith("[1]") or row.name in ("b_0", "g_0") else 5 for row in report.dims}
    agreeing, stretched = figures(f, **same), figures(f, **(same | {"r_1": 1}))
    ran = [[kernel.runs for kernel in one.kernels if kernel is not None] for one in (agreeing, stretched)]
    assert {0, 1} == set(ran[0]) == set(ran[1])
    assert [sum(runs) for runs in zip(*ran, strict=True)] == [1] * len(ran[0])
    assert "does not run" in str(f.explain(same))
    assert 0 < agreeing.nbytes < stretched.nbytes


# ---- programs and sizes ----------------------------------------------------------------------------------------------


def refusal(f: Any, sizes: Any) -> str:
    with pytest.raises(ArgumentError) as error:
        f.explain(sizes)
    return str(error.value)


def test_sizes_that_are_none() -> None:
    f = called(layer_norm, (2, 3), (3,), shapes="b n, n")
    assert refusal(f, {"b": 2, "n": 3, "k": 4}) == "the program has no size 'k'.\n  help: its sizes are b, n."
    assert refusal(f, {"b": 2}) == "the program's size 'n' is missing.\n  help: its sizes are b, n."
    assert refusal(f, {}) == "the program's size 'b' is missing.\n  help: its sizes are b, n."
    for size in (-1, 2.0, True):
        expected = f"{size!r} is no size of 'n'.\n  help: give a number that is not negative."
        assert refusal(f, {"b": 2, "n": size}) == expected


def test_sizes_that_a_program_does_not_hold_for() -> None:
    f = called(lambda x: dnp.max(x, axis=-1), (2, 3), shapes="b n")
    assert refusal(f, {"b": 2, "n": 0}) == (
        "the program does not hold for b=2, n=0: n >= 1 is required, but n is 0: the maximum of nothing has no value, "
        "and an axis that is reduced is empty.\n"
        "  help: give sizes that it holds for."
    )
    f = called(lambda x: x * 2, (8,), shapes="n", dims=[dyn.Dim("n", max=512, multiple_of=4)])
    assert refusal(f, {"n": 600}) == (
        "the program does not hold for n=600: 0 <= n <= 512, n % 4 == 0 is required: dyn.Dim('n') says so.\n"
        "  help: give sizes that it holds for."
    )
    f = called(lambda x, y: x + y, (3,), (3,), shapes="n, m")
    text = refusal(f, {"n": 3, "m": 5})
    assert text.startswith(
        "the program does not hold for n=3, m=5: n broadcasts with m is required, but n is 3 and m is 5: "
    )


def test_sizes_that_follow_from_others_need_not_be_given() -> None:
    f = called(lambda x, y: x + y, (3,), (3,), shapes="n, m", constraints="n == m")
    assert figures(f, n=6).nbytes == figures(f, m=6).nbytes == figures(f, n=6, m=6).nbytes == 72
    assert "n == m is required" in refusal(f, {"n": 3, "m": 4}).replace("m == n", "n == m")


def test_of_several_programs_those_have_figures_that_hold() -> None:
    f = dyn.jit(lambda x: x * 2 if x.shape[0] > 2 else x * 3 + 1, shapes="n")
    f(np.ones(8, "f4"))
    guarded = refusal(f, {"n": 1})
    assert guarded.startswith("the program does not hold for n=1: n >= 3 is required, but n is 1: the branch on n > 2.")
    f(np.ones(1, "f4"))
    for size, place in ((1, 1), (8, 0)):
        reports = f.explain({"n": size}).versions
        assert [report.figures is not None for report in reports] == [number == place for number in range(2)]
    f(np.ones(8))
    reports = f.explain({"n": 8}).versions
    assert [report.figures is not None for report in reports] == [True, False, True]
    assert refusal(f, {"k": 1}) == "no program has a size 'k'.\n  help: their sizes are n."
    assert refusal(f, {"n": -1}) == "-1 is no size of 'n'.\n  help: give a number that is not negative."
    text = refusal(f, {})
    assert text.startswith("none of the 3 programs holds for no sizes.")
    assert "program 2: the program's size 'n' is missing." in text


def test_names_of_one_program_are_no_sizes_of_another() -> None:
    f = dyn.jit(lambda x: x + 1)
    f(np.ones((2, 3), "f4"))
    f(np.ones(2, "f4"))
    reports = f.explain({"x_0": 8, "x_1": 4}).versions
    assert [dict(report.figures.sizes) for report in reports if report.figures] == [{"x_0": 8, "x_1": 4}, {"x_0": 8}]
    reports = f.explain({"x_0": 8}).versions
    assert [report.figures is not None for report in reports] == [False, True]


def test_before_the_first_call_there_is_nothing_to_price() -> None:
    assert "not called yet" in str(dyn.jit(lambda x: x).explain({"n": 3}))


def test_programs_of_fixed_sizes_have_figures() -> None:
    f = called(lambda x: x + 1, (3,), shapes="3")
    assert "all of them at all sizes: 24 B, 3 FLOP; about 70 ns on one core" in str(f.explain({}))


def test_a_program_that_was_found_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyn.specialize.program.CODES", Codes(most=0))
    with dyn.config.override(cache_dir=str(tmp_path), verify_ir=False):
        made, found = [called(mlp, (2, 3), (3, 4), (4, 3), shapes="b n, n h, h n") for _ in range(2)]
        assert list(found.programs[0].record.seconds) == ["trace", "find", "load"]
        assert lines(found, b=64, n=256, h=512) == lines(made, b=64, n=256, h=512)
        assert figures(found, b=64, n=256, h=512) == figures(made, b=64, n=256, h=512)


def test_a_program_for_a_gpu_has_no_times(require_module: Callable[[str], Any]) -> None:
    require_module("cuda.bindings.nvrtc")
    from dyn.explain.explanation import Explanation, WayToCall
    from dyn.explain.report import make_report

    stage = dyn.jit(dyn.nn.softmax).lower(dyn.ShapeDtypeStruct(("m", "k"), "float32"))
    compiled = stage.compile("cuda:sm_90a")
    program = compiled.program
    report = make_report(program.optimized, program.traced, program.record, "")
    (report,) = Explanation("f", (WayToCall((report,)),), {}).at({"m": 10, "k": 20}).versions
    assert report.figures is not None
    assert (report.figures.nbytes, report.figures.seconds) == (1600, None)
    (kernel,) = report.figures.kernels
    assert kernel is not None
    assert kernel.text("m=10, k=20") == "at m=10, k=20: 1.6 kB, 800 FLOP, 200 transcendental functions"


# ---- other forms -----------------------------------------------------------------------------------------------------


def test_json_has_the_records() -> None:
    f = called(summed, (3, 4), (4,), shapes="t n, n")
    explanation = f.explain({"t": 7, "n": 10})
    whole = json.loads(explanation.to_json())
    assert whole == explanation.as_dict()
    (program,) = whole["ways"][0]["programs"]
    found = figures(f, t=7, n=10)
    assert program["figures"]["sizes"] == {"t": 7, "n": 10}
    assert program["figures"]["nbytes"] == found.nbytes
    assert program["figures"]["seconds"] == found.seconds
    assert len(program["figures"]["kernels"]) == len(program["groups"])
    loop = next(kernel for kernel in program["figures"]["kernels"] if kernel["regions"])
    assert loop["regions"][0]["runs"] == 7
    assert loop["regions"][0]["limit"] == "launch"
    del program["figures"]
    assert whole == f.explain().as_dict()


def test_the_page_has_the_figures() -> None:
    f = called(mlp, (2, 3), (3, 4), (4, 3), shapes="b n, n h, h n")
    text = f.explain({"b": 64, "n": 256, "h": 512})._repr_html_()
    Checker(text)
    for part in (
        "<th>at b=64, n=256, h=512</th>", "721 kB, 17 MFLOP", "bound by arithmetic", "% of the program",
        "joined it would save 262 kB, about 3.4 µs", "all of them at b=64, n=256, h=512: 1.6 MB, 34 MFLOP",
    ):  # fmt: skip
        assert part in text, part
    assert "at b=64, n=256" not in f.explain()._repr_html_()
    loop = called(summed, (3, 4), (4,), shapes="t n, n").explain({"t": 7, "n": 10})._repr_html_()
    Checker(loop)
    assert "7 times" in loop


def test_front_ends_of_other_libraries(require_module: Callable[[str], Any]) -> None:
    jax = require_module("jax")
    f = dyn.interop.jax.jit(lambda x: jax.numpy.exp(x) + 1)
    f(jax.numpy.ones((2, 3)))
    (report,) = f.explain().versions
    (explained,) = f.explain({row.name: 100 for row in report.dims}).versions
    assert explained.figures is not None
    assert (explained.figures.flops, explained.figures.nbytes) == (10_000, 80_000)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1024, "1 kB"), (9960, "10 kB"), (3_141_592, "3.1 MB"),
     (41_000_000_000, "41 GB"), (5 * 10**15, "5000 TB")],
)  # fmt: skip
def test_amounts(number: int, text: str) -> None:
    assert amount(number, "B") == text
    assert amount(number) == text.removesuffix("B").rstrip()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(70e-9, "70 ns"), (1.24e-6, "1.2 µs"), (41e-6, "41 µs"), (0.00512, "5.1 ms"), (3.0, "3 s"), (120.0, "120 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
