"""``python -m benchmarks memory_bound`` and ``roofline``: programs that agree, arithmetic, small runs, bad options."""

from __future__ import annotations

import argparse
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
from benchmarks.memory import limits
from benchmarks.memory.measuring import DECLARED, Options, Row, run
from benchmarks.memory.program import SIZES, Program, same
from benchmarks.memory.programs import programs
from benchmarks.memory.tables import best_ratio, declared_ratio, geometric_mean
from benchmarks.suites import memory_bound, roofline
from dyn.profiling import limits as machine

torch: Any = pytest.importorskip("torch")
jax: Any = pytest.importorskip("jax")
PROGRAMS = programs()


def options(suite: ModuleType, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    suite.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.usefixtures("quick_xla")
@pytest.mark.parametrize("one", [one for one in PROGRAMS.values() if not one.own_numbers], ids=lambda one: one.name)
def test_a_program_is_the_same_in_every_library(one: Program) -> None:
    function = dyn.jit(one.dyn)
    for rows, columns in ((4, 96), (7, 64)):
        arrays = one.make(np.random.default_rng(0), rows, columns)
        expected = one.numpy(*arrays)
        assert same(function(*arrays), expected, one.tolerance)
        assert same(one.torch(*[torch.from_numpy(array) for array in arrays]), expected, one.tolerance)
    assert same(jax.jit(one.jax)(*arrays), expected, one.tolerance)


def test_what_is_the_same() -> None:
    x = np.array([1.0, -2.0])
    assert same(x + 1e-5, x, 1e-4)
    assert not same(x + 1e-3, x, 1e-4)
    assert not same(np.array([np.nan, -2.0]), x, 1e-4)
    assert not same(x[None], x, 1e-4)
    assert same((x, [x]), (x, [x]), 0.0)
    assert not same((x,), (x, x), 0.0)


def test_the_sizes_of_the_documentation() -> None:
    assert SIZES == {"L1": (4, 768), "L2": (64, 768), "L3": (512, 768), "beyond": (2048, 3072)}


def rows() -> list[Row]:
    def row(size: str, threads: int, dyn: float, declared: float, jax: float, numpy: float) -> Row:
        return Row("p", size, threads, {"dyn": dyn, DECLARED: declared, "jax": jax, "numpy": numpy}, 1000)

    return [
        row("L1", 2, 1e-6, 0.5e-6, 4e-6, 2e-6),
        row("L2", 2, 2e-6, 2e-6, 1e-6, 8e-6),
        row("L1", 1, 2e-6, 1e-6, 4e-6, 2e-6),
        Row("q", "L1", 2, {"dyn": 1e-6, DECLARED: 1e-6, "numpy": 8e-6}, 1000, {"jax": "the result is wrong"}),
    ]


def test_ratios() -> None:
    first, second, *_ = rows()
    assert best_ratio(first) == pytest.approx(2)
    assert best_ratio(second) == pytest.approx(0.5)
    assert declared_ratio(first) == pytest.approx(2)
    assert best_ratio(Row("p", "L1", 1, {"dyn": 1.0})) is None
    assert geometric_mean([2, 8]) == pytest.approx(4)


def test_the_report_of_memory_bound() -> None:
    report = memory_bound.report(rows()[:3], 0.0, times=True)
    best, declared, speedup, *times = report.tables
    assert best.header == ("", "L1, 2 t", "L1, 1 t", "L2, 2 t")
    assert best.rows == (
        ("p", "2.00", "1.00", "0.50"), ("geometric mean", "2.00", "1.00", "0.50"), ("least", "2.00", "1.00", "0.50"),
    )  # fmt: skip
    assert declared.rows[-1] == ("most", "2.00", "2.00", "1.00")
    assert speedup.rows[0] == ("p", "2.00", "–")
    assert [table.title for table in times] == ["Microseconds, 1 threads", "Microseconds, 2 threads"]
    assert times[1].rows[0] == ("p, L1", "1.0", "0.5", "4.0", "2.0", "1.0")
    assert len(json.loads(report.json())["rows"]) == 3


def test_what_failed_is_said() -> None:
    report = memory_bound.report(rows(), 0.0, times=False)
    assert report.notes[-1] == "Left out: q L1: jax: the result is wrong"


def test_a_small_run() -> None:
    words = ("--programs", "row_bias, dropout", "--sizes", "L1", "--threads", "1", "--peers", "numpy", "--rounds", "1")
    report = memory_bound.run(options(memory_bound, *words, "--burst-ms", "0.01"))
    best, _ = report.tables
    assert [row[0] for row in best.rows] == ["row_bias", "dropout", "geometric mean", "least"]
    for row in json.loads(report.json())["rows"]:
        assert set(row["seconds"]) == {"dyn", DECLARED, "numpy"}
        assert not row["failed"]


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    make = PROGRAMS["row_bias"].make
    wrong = Program("wrong", "", make, lambda x, b: x + b, lambda x, b: x - b, lambda x, b: x, lambda x, b: 1 / 0)
    monkeypatch.setattr("benchmarks.memory.programs.programs", lambda: {"wrong": wrong})
    (row,) = run(Options(["wrong"], ["L1"], 1, ["torch", "numpy"], 1, 0.01))
    assert row.failed == {
        "dyn": "the result is wrong",
        DECLARED: "the result is wrong",
        "torch": "ZeroDivisionError: division by zero",
    }
    assert set(row.seconds) == {"numpy"}


def test_the_report_of_roofline(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"L1": 8 << 10, "L2": 32 << 10, "L3": 128 << 10}
    for module in (limits, machine):
        monkeypatch.setattr(module, "cache_sizes", lambda: small)
    monkeypatch.setattr(machine, "_SECONDS", 1e-4)
    monkeypatch.setattr(roofline, "CONTRACTIONS", ((8, 8, 8),))
    words = ("--programs", "row_bias", "--sizes", "L1", "--threads", "1", "--calls", "2", "--rounds", "1")
    report = roofline.run(options(roofline, *words))
    measured, kernels, contractions = report.tables
    assert [row[0] for row in measured.rows] == [
        "copy, L1", "copy, L2", "copy, L3", "copy, beyond", "read, L1", "read, L2", "read, L3", "read, beyond",
        "multiply-adds, float32, GFLOP/s", "multiply-adds, float64, GFLOP/s",
    ]  # fmt: skip
    assert all(float(row[1]) > 0 for row in measured.rows)
    assert kernels.header == ("", "kernels", "limit", "GB/s, 1 thread", "GFLOP/s", "part")
    assert [row[:2] for row in kernels.rows] == [("row_bias, L1", "1")]
    assert [row[0] for row in contractions.rows] == ["8 × 8 × 8"]
    assert all(row[2] in ("L1", "L2", "multiply-adds") for row in (*kernels.rows, *contractions.rows))


def test_a_program_is_held_against_the_limit_that_takes_longer() -> None:
    known = limits.Limits({("L1", 1): 100.0}, {("L1", 1): 80.0}, {("float32", 1): 50.0, ("float64", 1): 25.0})
    moving = roofline._reached(roofline._Quickest(1e-6, 1, 1000, {"float32": 400, "int64": 10}), known, 1)
    assert (moving.gbps, moving.gflops, moving.part, moving.limit) == (1.0, 0.41, 0.01, "L1")
    computing = roofline._reached(roofline._Quickest(1e-6, 1, 1000, {"float32": 5000, "float64": 5000}), known, 1)
    assert (computing.part, computing.limit) == ((100 + 200) / 1000, "multiply-adds")


def test_caches_and_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(machine.cache_sizes()) >= {"L1", "L2", "L3"}
    monkeypatch.setattr(machine, "cache_sizes", lambda: {"L1": 10, "L2": 100, "L3": 1000})
    level = machine.level_of
    assert [level(n, 1) for n in (10, 11, 101, 1001)] == ["L1", "L2", "L3", "beyond"]
    assert [level(n, 2) for n in (20, 200, 1000)] == ["L1", "L2", "L3"]


@pytest.mark.parametrize(
    ("suite", "words", "text"),
    [
        (memory_bound, ("--programs", "soft"), f"there is no program 'soft'; there are {', '.join(PROGRAMS)}."),
        (memory_bound, ("--sizes", "L4"), "there is no size 'L4'; there are L1, L2, L3, beyond."),
        (memory_bound, ("--peers", "xla"), "there is no peer 'xla'; there are jax, torch, numpy, "
         "torchcompile, inductor."),
        (memory_bound, ("--threads", "0"), "--rounds must be at least 1, and so must each of --threads; --burst-ms "
         "must be more than 0."),
        (roofline, ("--programs", "soft"), f"there is no program 'soft'; there are {', '.join(PROGRAMS)}."),
        (roofline, ("--calls", "0"), "--calls and --rounds must be at least 1, and so must each of --threads."),
    ],
)  # fmt: skip
def test_bad_options(suite: ModuleType, words: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError) as wrong:
        suite.run(options(suite, *words))
    assert str(wrong.value) == text
