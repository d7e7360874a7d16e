"""``python -m benchmarks stitched``: programs that agree with NumPy, the report, small runs, bad options."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import dyn
from benchmarks.memory.measuring import Options, Row, run
from benchmarks.memory.program import SIZES, Program, TorchGradient, same
from benchmarks.memory.structure import Structure, structure
from benchmarks.stitched.programs import programs
from benchmarks.suites import stitched
from benchmarks.tree import map_leaves
from tests.benchmarks.test_memory import options

torch: Any = pytest.importorskip("torch")
jax: Any = pytest.importorskip("jax")
PROGRAMS = programs()
#: Adam of 200 tensors takes a quarter of a minute to compile.
SLOW = ("adam_clipped",)


@pytest.mark.usefixtures("quick_xla")
@pytest.mark.parametrize(
    "one", [pytest.param(p, id=n, marks=[pytest.mark.slow] * (n in SLOW)) for n, p in PROGRAMS.items()]
)
def test_a_program_is_the_same_in_every_library(one: Program) -> None:
    function = dyn.jit(one.dyn)
    for rows, columns in ((4, 768), (6, 768)):
        arrays = one.make(np.random.default_rng(0), rows, columns)
        expected = one.numpy(*arrays)
        assert same(function(*arrays), expected, one.tolerance)
        with torch.inference_mode(not isinstance(one.torch, TorchGradient)):
            tensors = map_leaves(lambda _, array: torch.from_numpy(array), list(arrays))
            assert same(one.torch(*tensors), expected, one.tolerance)
            if one.for_inductor is not None:
                assert same(one.for_inductor(*tensors), expected, one.tolerance)
    assert same(jax.jit(one.jax)(*arrays), expected, one.tolerance)


def test_gradients_of_numpy_are_those_of_differences() -> None:
    """The references themselves, in float64 and by their arguments of few numbers."""
    rng = np.random.default_rng(0)
    for name in ("layer_norm", "rms_norm", "group_norm", "batch_norm_nchw", "batch_norm_nhwc"):
        *inputs, cotangent = PROGRAMS[f"{name}_backward"].make(rng, 4, 768)
        gradients = PROGRAMS[f"{name}_backward"].numpy(*inputs, cotangent)
        function = PROGRAMS[name].numpy
        for at, gradient in enumerate(gradients):
            direction = rng.standard_normal(inputs[at].shape, "f4")
            ahead, behind = list(inputs), list(inputs)
            ahead[at], behind[at] = inputs[at] + 0.01 * direction, inputs[at] - 0.01 * direction
            change = np.sum(cotangent * (function(*ahead) - function(*behind)), dtype="f8") / 0.02
            assert change == pytest.approx(np.sum(gradient * direction, dtype="f8"), rel=2e-2, abs=2e-2)


def test_points_are_powers_of_two() -> None:
    make = PROGRAMS["nbody_forces"].make
    assert [len(make(np.random.default_rng(0), *size)[0]) for size in SIZES.values()] == [64, 256, 1024, 4096]


def test_the_structure_of_a_program() -> None:
    x = np.ones((64, 32), "f4")
    assert structure(dyn.jit(lambda x: x + 1), (x,)) == Structure(1, 1, 2 * x.nbytes, 0)


def rows() -> list[Row]:
    seen = {"groups": 2, "launches": 3, "moved": 4000, "unknown": 0}
    return [
        Row("p", "L1", 2, {"dyn": 2e-6, "jax": 1e-6, "torch": 4e-6}, 1000, {}, seen),
        Row("q", "L1", 2, {"dyn": 1e-6, "jax": 8e-6, "inductor": 2e-6}, 1000, {}, {**seen, "unknown": 1}),
        Row("p", "L1", 1, {"dyn": 1e-6, "jax": 2e-6}, 1000, {"torch": "the result is wrong"}),
        Row("r", "L1", 2, {"jax": 2e-6}, 1000, {"dyn": "CompileError: no"}),
    ]


def test_the_report() -> None:
    report = stitched.report(rows(), {"p": "one", "q": "one", "r": "other"}, 0.0, times=True)
    best, means, lost, structures, *times = report.tables
    assert best.rows[:3] == (("p", "0.50", "2.00"), ("q", "2.00", "–"), ("r", "–", "–"))
    assert means.header == ("", "L1, 2 t", "L1, 1 t", "all")
    assert means.rows == (("one", "1.00", "2.00", "1.26"), ("other", "–", "–", "–"))
    assert lost.title == "Rows below 0.97: 1 of 4"
    assert lost.rows == (("p, L1", "2", "0.50", "2.0", "1.0", "jax"),)
    assert structures.header == ("", "groups", "L1: launches", "kB", "over least")
    assert structures.rows == (("p", "2", "3", "4", "4.00"), ("q", "2", "3", "4+", "4.00"))
    assert len(times) == 2
    assert report.notes[-2:] == ("Left out: p L1: torch: the result is wrong", "Left out: r L1: dyn: CompileError: no")
    assert json.loads(report.json())["rows"][3]["family"] == "other"


def test_a_small_run() -> None:
    words = ("--programs", "losses", "--sizes", "L1", "--threads", "1", "--peers", "torch", "--rounds", "3")
    report = stitched.run(options(stitched, *words, "--burst-ms", "0.01"))
    assert [row[0] for row in report.tables[0].rows[:2]] == ["cross_entropy", "cross_entropy_backward"]
    for row in json.loads(report.json())["rows"]:
        assert set(row["seconds"]) == {"dyn", "torch"}
        assert not row["failed"]
        assert row["structure"]["launches"] > 0


def test_the_median_of_bursts_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = PROGRAMS["cross_entropy"]
    monkeypatch.setattr("benchmarks.stitched.programs.programs", lambda: {one.name: one})
    ticks = iter(x for call in range(100) for x in (10.0 * call, 10.0 * call + call % 5 + 1))
    monkeypatch.setattr("benchmarks.memory.measuring.time.perf_counter", lambda: next(ticks))
    monkeypatch.setattr("benchmarks.memory.measuring.wait_for_rest", lambda *_: None)
    monkeypatch.setattr("benchmarks.memory.measuring._warm_up", lambda _: None)
    table = "benchmarks.stitched.programs"
    (row,) = run(Options([one.name], ["L1"], 1, [], 5, 0.01, table=table, declared=False, median=True))
    assert row.seconds == {"dyn": 3.0}
    assert row.structure is None


@pytest.mark.bench
def test_both_directions_are_compiled_by_pytorch() -> None:
    words = ("--programs", "rms_norm_backward", "--sizes", "L1", "--threads", "1", "--peers", "inductor")
    report = stitched.run(options(stitched, *words, "--rounds", "3", "--burst-ms", "0.01"))
    (row,) = json.loads(report.json())["rows"]
    assert set(row["seconds"]) == {"dyn", "inductor"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--programs", "soft"), f"there is no program 'soft'; there are {', '.join(PROGRAMS)}, norms, "
         "gradients of norms, transformers, losses, Adam, embeddings, points."),
        (("--sizes", "L4"), "there is no size 'L4'; there are L1, L2, L3, beyond."),
        (("--rounds", "2"), "--rounds must be at least 3, and each of --threads at least 1; --burst-ms must be "
         "more than 0."),
    ],
)  # fmt: skip
def test_bad_options(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError) as wrong:
        stitched.run(options(stitched, *words))
    assert str(wrong.value) == text
